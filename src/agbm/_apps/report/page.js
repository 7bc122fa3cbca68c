
// The page without its panel: tables that can be sorted, values under the pointer, and where the reader is.
const pageText = (x) => x.toLocaleString("en", { maximumSignificantDigits: 4 }).replace("-", "\u2212");

// Tables
function sortKey(cell) {
  const given = cell.querySelector("[data-sort]");
  if (given) return Number(given.dataset.sort);
  const text = cell.textContent.trim().replaceAll(",", "").replaceAll("\u2212", "-");
  if (text === "\u2013" || text === "") return NaN;
  const found = text.match(/^[-+]?\d*\.?\d+(e[-+]?\d+)?/);
  return found ? Number(found[0]) : text;
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const original = [...body.rows];
  const unknown = (key) => typeof key === "number" && Number.isNaN(key);
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      const keys = new Map(original.map((row) => [row, sortKey(row.cells[column])]));
      const numeric = [...keys.values()].some((key) => typeof key === "number" && !unknown(key));
      const order = numeric ? ["descending", "ascending"] : ["ascending", "descending"];
      const now = order[before === null ? 0 : order.indexOf(before) + 1];
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      const known = original.filter((row) => !unknown(keys.get(row)));
      if (now) {
        head.setAttribute("aria-sort", now);
        known.sort((a, b) => (now === "ascending" ? 1 : -1) * compare(keys.get(a), keys.get(b)));
        body.append(...known, ...original.filter((row) => unknown(keys.get(row))));
      } else {
        body.append(...original);
      }
    });
  });
}
document.querySelectorAll("main table:not(.matrix)").forEach((table) => {
  if (table.tBodies[0].rows.length > 2) sortable(table);
});

// Charts: the nearest point of their lines and bars, in thousandths of the width and the height of the drawing.
const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
const dot = document.createElement("div");
dot.className = "tip-dot";
dot.hidden = true;
document.body.append(tip, dot);

function hide() {
  tip.hidden = dot.hidden = true;
}

function nearest(series, x, y, box) {
  let best = null;
  series.forEach(([name, points], number) => {
    for (let i = 0; i < points.length; i += 4) {
      const dx = (points[i] / 1000) * box.width - x;
      const dy = (points[i + 1] / 1000) * box.height - y;
      const distance = dx * dx + 0.25 * dy * dy;
      if (best === null || distance < best.distance) best = { distance, name, points, i, number };
    }
  });
  return best;
}

const value = (x) => (typeof x === "number" ? pageText(x) : x);

function point(figure, chart, event) {
  const box = figure.querySelector("svg").getBoundingClientRect();
  const found = nearest(chart.series, event.clientX - box.left, event.clientY - box.top, box);
  if (found === null || found.distance > 2500) return hide();
  const [px, py, x, y] = found.points.slice(found.i, found.i + 4);
  const lines = [found.name, `${chart.x ? chart.x + ": " : ""}${value(x)}`, `${chart.y ? chart.y + ": " : ""}${value(y)}`];
  tip.replaceChildren(
    ...lines.filter(Boolean).map((text, k) => {
      const line = document.createElement(k === 0 && found.name ? "strong" : "div");
      line.textContent = text;
      return line;
    }),
  );
  tip.hidden = dot.hidden = false;
  const [left, top] = [box.left + (px / 1000) * box.width, box.top + (py / 1000) * box.height];
  dot.style.left = left + "px";
  dot.style.top = top + "px";
  const [width, height] = [tip.offsetWidth, tip.offsetHeight];
  tip.style.left = Math.max(4, Math.min(innerWidth - width - 4, left + 12)) + "px";
  tip.style.top = (top - height - 10 < 0 ? top + 14 : top - height - 10) + "px";
}

document.querySelectorAll("figure[data-points]").forEach((figure) => {
  const [x, y, ...series] = JSON.parse(figure.dataset.points);
  const drawing = figure.querySelector("svg");
  drawing.addEventListener("pointermove", (event) => point(figure, { x, y, series }, event));
  drawing.addEventListener("pointerdown", (event) => point(figure, { x, y, series }, event));
  drawing.addEventListener("pointerleave", hide);
});
addEventListener("scroll", hide, { passive: true });

// Navigation. In a frame without an address, links to a section would leave the page.
const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
links.forEach((link, name) =>
  link.addEventListener("click", (event) => {
    event.preventDefault();
    document.getElementById(name).scrollIntoView();
    if (location.protocol !== "about:") history.replaceState(null, "", "#" + name);
  }),
);
const visible = new Set();
function mark() {
  const now = [...links.keys()].find((name) => visible.has(name));
  links.forEach((link, name) => {
    if (name !== now) return link.removeAttribute("aria-current");
    if (link.getAttribute("aria-current") !== null) return;
    link.setAttribute("aria-current", "true");
    const bar = link.parentElement;
    if (bar.scrollWidth > bar.clientWidth) bar.scrollLeft = link.offsetLeft - bar.clientWidth / 2;
  });
}
const observer = new IntersectionObserver(
  (entries) => {
    entries.forEach((entry) => visible[entry.isIntersecting ? "add" : "delete"](entry.target.id));
    mark();
  },
  { rootMargin: "-15% 0px -60% 0px" },
);
document.querySelectorAll("main > section").forEach((section) => observer.observe(section));
