
// The interactive figure of losses against the number of trees. Drawn without libraries.
const data = DATA;
const FIRST = { set: "a1a-3", step: 0.1, chosen: ["gbm", "vagbm", "agbm-0.1"] };
const MARGIN = { top: 10, right: 12, bottom: 38, left: 52 };
const PANELS = { train: "Training loss", test: "Test loss" };
// Ranges wider than this factor are drawn on a logarithmic scale, unless the reader chooses.
const WIDE = 20;
// Curves that fall below the start by more than this factor leave the panel.
const DEEPEST = 1e5;
const column = data.curves;

// Elements
function made(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function drawn(tag, attributes, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(element, attributes, children) {
  Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
  element.append(...children);
  return element;
}

// Numbers
const minus = (text) => text.replace(/-/g, "\u2212");
const plain = (x) => x === 0 || (Math.abs(x) >= 1e-3 && Math.abs(x) < 1e6);
const shown = (x) => minus(plain(x) ? x.toPrecision(6) : x.toExponential(5));
const SUPERSCRIPTS = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079";
const raised = (power) => String(power).replace(/./g, (c) => (c === "-" ? "\u207b" : SUPERSCRIPTS[c]));

/** A number at a tick: plain, or as 3\u00b710\u207b\u2075. */
function short(x) {
  if (x === 0 || Math.abs(x) >= 1e-3) return minus(String(Number(x.toPrecision(4))));
  const [factor, power] = x.toExponential(0).split("e");
  return (factor === "1" ? "" : minus(factor) + "\u00b7") + "10" + raised(Number(power));
}

// State
const state = { set: 0, step: 0.1, chosen: new Set(), scale: "auto", trees: Infinity };

/** The number of the curve of a choice in the chosen set with the chosen step; -1 if there is none. */
const curveOf = (choice) =>
  column.set.findIndex(
    (set, k) =>
      set === state.set && column.choice[k] === choice && (column.step[k] === null || column.step[k] === state.step),
  );
const ofSet = () => column.set.flatMap((set, k) => (set === state.set ? [k] : []));
const stepsOfSet = () =>
  [...new Set(ofSet().map((k) => column.step[k]))].filter((x) => x !== null).sort((a, b) => b - a);
const treesOf = (k) => data.trees[column.trees[k]];

function selected() {
  return data.choices.flatMap((choice, number) => {
    const k = curveOf(number);
    return state.chosen.has(choice.key) && k >= 0 ? [{ choice, k, trees: treesOf(k) }] : [];
  });
}

/** Take over what an address says; unknown parts keep what they are. */
function read(fragment) {
  if (!fragment.startsWith("#explorer&")) return false;
  const asked = new URLSearchParams(fragment.slice(1));
  const set = data.sets.findIndex(({ key }) => key === asked.get("set"));
  if (set >= 0) state.set = set;
  if (Number(asked.get("eta")) > 0) state.step = Number(asked.get("eta"));
  if (asked.has("lines")) {
    const keys = asked.get("lines").split(",");
    state.chosen = new Set(data.choices.map(({ key }) => key).filter((key) => keys.includes(key)));
  }
  if (["auto", "log", "linear"].includes(asked.get("scale"))) state.scale = asked.get("scale");
  if (Number(asked.get("trees")) > 0) state.trees = Number(asked.get("trees"));
  return true;
}

function remember() {
  const asked = { set: data.sets[state.set].key, eta: state.step, lines: [...state.chosen].join(",") };
  if (state.scale !== "auto") asked.scale = state.scale;
  if (state.trees !== Infinity) asked.trees = state.trees;
  const words = Object.entries(asked).map(([name, value]) => name + "=" + value);
  history.replaceState(null, "", "#explorer&" + words.join("&"));
}

// Controls: radio buttons and checkboxes that look like buttons
function button(type, name, value, label, change) {
  const input = made("input", { type, name: "explorer-" + name, value });
  input.addEventListener("change", () => {
    change(input);
    update();
    remember();
  });
  return { input, label: made("label", { class: "choice" }, input, label) };
}

function group(title, buttons) {
  const row = made("div", { class: "choice-row" }, ...buttons.map(({ label }) => label));
  return made("fieldset", {}, made("legend", {}, title), row);
}

/** A piece of the line, which is its entry in the legend. */
function sample(choice) {
  const line = drawn("line", { x1: 1, x2: 27, y1: 5, y2: 5, ...look(choice) });
  return drawn("svg", { class: "sample", width: 28, height: 10, "aria-hidden": "true" }, line);
}

const painted = (choice) => "var(--plot-" + choice.colour + ")";

function look(choice) {
  const dashes = choice.dashes.split(" ").map((x) => 1.6 * Number(x)).join(" ");
  const dashed = choice.dashes ? { "stroke-dasharray": dashes } : {};
  return { class: "curve", stroke: painted(choice), ...dashed };
}

const setButtons = data.sets.map(({ title }, k) => button("radio", "set", k, title, () => (state.set = k)));
const steps = [...new Set(column.step)].filter((x) => x !== null).sort((a, b) => b - a);
const stepButtons = steps.map((x) => button("radio", "step", x, String(x), () => (state.step = x)));
const scaleButtons = ["auto", "log", "linear"].map((x) => button("radio", "scale", x, x, () => (state.scale = x)));
const choiceButtons = data.choices.map((choice) => {
  const text = made("span", {}, choice.gamma === null ? choice.title : String(choice.gamma));
  const found = button("checkbox", "line", choice.key, text, ({ checked }) => {
    if (checked) state.chosen.add(choice.key);
    else state.chosen.delete(choice.key);
  });
  found.input.setAttribute("aria-label", choice.title);
  text.before(sample(choice));
  return found;
});

/** Choices without gamma share a row; the others have one for each method. */
function choiceRows() {
  const rows = new Map();
  data.choices.forEach((choice, k) => {
    const title = choice.gamma === null ? "Methods without \u03b3" : choice.group + ", \u03b3 =";
    rows.set(title, [...(rows.get(title) ?? []), choiceButtons[k]]);
  });
  return [...rows].map(([title, buttons]) => group(title, buttons));
}

const slider = made("input", { type: "range", id: "explorer-trees", min: 0, step: 1 });
const sliderText = made("output", { for: "explorer-trees" });
slider.addEventListener("input", () => point(Number(slider.value)));
slider.addEventListener("change", remember);

const panels = Object.entries(PANELS).map(([name, title]) => {
  const svg = drawn("svg", { role: "img" });
  const figure = made("figure", { class: "panel" }, made("figcaption", {}, title), svg);
  const panel = { name, title, svg, figure, cross: drawn("g", { class: "cross" }) };
  const follow = (event) => panel.scale && point(countAt(panel, event));
  svg.addEventListener("pointermove", follow);
  svg.addEventListener("pointerdown", follow);
  svg.addEventListener("pointerleave", remember);
  return panel;
});
const readout = made("tbody", {});
const heads = ["", "trees", "training loss", "test loss", "lowest test loss", "at trees"];
const table = made(
  "table",
  { class: "readout" },
  made("caption", {}, "Losses at the chosen number of trees"),
  made("thead", {}, made("tr", {}, ...heads.map((text) => made("th", { scope: "col" }, text)))),
  readout,
);
const note =
  "Means of " + data.splits + " splits. Circles mark the lowest test loss; a cross marks where the first split " +
  "diverges, and the curve ends there. The address of this page changes with the view, and can be shared.";

document.getElementById("explorer").append(
  made(
    "div",
    { class: "controls" },
    group("Data set", setButtons),
    group("Step size \u03b7", stepButtons),
    group("Scale of the losses", scaleButtons),
  ),
  made("div", { class: "controls" }, ...choiceRows()),
  made("div", { class: "panels-of-losses" }, ...panels.map(({ figure }) => figure)),
  made("div", { class: "position" }, made("label", { for: "explorer-trees" }, "Number of trees"), slider, sliderText),
  made("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Losses" }, table),
  made("p", { class: "note" }, note),
);

// Scales
let end = 1; // of the axis: the same for all lines of a set

/** Limits such that starts and lowest values are visible; curves that rise far above their start leave the panel. */
function limits(lines, name) {
  const values = lines.map(({ k }) => column[name][k]);
  const positive = values.flat().filter((y) => y > 0);
  const lowest = Math.min(...values.flat());
  const start = Math.max(...values.map((of) => of[0]));
  const highest = Math.max(...values.flat());
  const wide = positive.length > 0 && start > WIDE * lowest;
  const log = positive.length > 0 && (state.scale === "log" || (state.scale === "auto" && wide));
  if (log) {
    const low = Math.min(...positive);
    const high = Math.max(Math.min(highest, 10 * start), low);
    return { log, low: Math.max(low, start / DEEPEST) / 1.15, high: 1.15 * high };
  }
  const room = start - lowest || Math.abs(start) || 1;
  return { log, low: lowest - 0.06 * room, high: Math.min(highest, start + 0.6 * room) + 0.06 * room };
}

function linearTicks(low, high, most) {
  const power = 10 ** Math.floor(Math.log10((high - low) / most));
  const step = [1, 2, 5, 10].map((x) => x * power).find((x) => (high - low) / x <= most);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, k) => (first + k) * step);
}

/** As many of 1, 2 and 5 times powers of ten as fit. */
function logTicks(low, high, most) {
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const powers = Array.from({ length: last - first + 1 }, (_, k) => first + k);
  const found = [[1, 2, 5], [1, 3], [1]].map((factors) =>
    powers.flatMap((p) => factors.map((x) => Number(x + "e" + p))).filter((x) => x >= low && x <= high),
  );
  const each = Math.ceil(found[2].length / most);
  return found.find((ticks) => ticks.length <= most) ?? found[2].filter((_, k) => k % each === 0);
}

function scaled(panel, lines) {
  const width = Math.max(panel.figure.clientWidth, 200);
  const height = Math.round(Math.min(Math.max(0.66 * width, 230), 340));
  const { log, low, high } = limits(lines, panel.name);
  const map = (y) => (log ? Math.log(Math.max(y, 1e-300)) : y);
  const [right, bottom] = [width - MARGIN.right, height - MARGIN.bottom];
  return {
    width, height, right, bottom, log, low, high,
    x: (n) => MARGIN.left + ((right - MARGIN.left) * n) / end,
    y: (v) => bottom - ((bottom - MARGIN.top) * (map(v) - map(low))) / (map(high) - map(low)),
  };
}

// Drawing
const text = (x, y, content, attributes) => drawn("text", { x, y, ...attributes }, content);
const rounded = (x) => Math.round(10 * x) / 10;

function axes(of) {
  const ticks = (of.log ? logTicks : linearTicks)(of.low, of.high, of.height > 260 ? 7 : 5);
  const parts = ticks.flatMap((v) => [
    drawn("line", { class: "rule", x1: MARGIN.left, x2: of.right, y1: of.y(v), y2: of.y(v) }),
    text(MARGIN.left - 8, of.y(v), short(v), { class: "tick", "text-anchor": "end", dy: "0.32em" }),
  ]);
  linearTicks(0, end, of.width > 420 ? 8 : 5).forEach((n) => {
    parts.push(drawn("line", { class: "mark", x1: of.x(n), x2: of.x(n), y1: of.bottom, y2: of.bottom + 4 }));
    parts.push(text(of.x(n), of.bottom + 17, short(n), { class: "tick", "text-anchor": "middle" }));
  });
  parts.push(drawn("line", { class: "mark", x1: MARGIN.left, x2: of.right, y1: of.bottom, y2: of.bottom }));
  const middle = (MARGIN.left + of.right) / 2;
  parts.push(text(middle, of.height - 4, "number of trees", { class: "label", "text-anchor": "middle" }));
  return parts;
}

function cross(x, y, choice) {
  const d = `M${x - 4.5},${y - 4.5}l9,9m0,-9l-9,9`;
  return drawn("path", { class: "diverged", d, stroke: painted(choice) });
}

function curve(of, panel, { choice, k, trees }) {
  const losses = column[panel.name][k];
  const inside = (v) => Math.max(of.y(v), MARGIN.top);
  const d = trees.map((n, i) => (i ? "L" : "M") + rounded(of.x(n)) + "," + rounded(of.y(losses[i]))).join("");
  const inner = drawn("path", { d, ...look(choice), "clip-path": "url(#explorer-clip-" + panel.name + ")" });
  inner.dataset.line = choice.key;
  const last = trees.length - 1;
  const marks = column.diverged[k] ? [cross(of.x(trees[last]), inside(losses[last]), choice)] : [];
  const lowest = column.lowest[k];
  if (panel.name === "test" && lowest <= of.high) {
    const place = { cx: of.x(column.lowest_at[k]), cy: of.y(lowest), r: 4 };
    marks.push(drawn("circle", { class: "lowest", ...place, stroke: painted(choice) }));
  }
  return [inner, ...marks];
}

function draw(panel, lines) {
  if (lines.length === 0) {
    panel.svg.replaceChildren();
    panel.scale = null;
    return;
  }
  const of = (panel.scale = scaled(panel, lines));
  const [left, above] = [MARGIN.left, MARGIN.top - 4];
  const size = { x: left, y: above, width: of.right - left + 2, height: of.bottom - above };
  const clip = drawn("clipPath", { id: "explorer-clip-" + panel.name }, drawn("rect", size));
  panel.svg.setAttribute("viewBox", `0 0 ${of.width} ${of.height}`);
  panel.svg.setAttribute("width", of.width);
  panel.svg.setAttribute("height", of.height);
  const titles = lines.map(({ choice }) => choice.title).join("; ");
  panel.svg.setAttribute("aria-label", panel.title + " against the number of trees: " + titles);
  panel.svg.replaceChildren(clip, ...axes(of), ...lines.flatMap((line) => curve(of, panel, line)), panel.cross);
}

// The number of trees whose losses are read out
function nearest(sorted, n) {
  return sorted.reduce((best, x) => (Math.abs(x - n) < Math.abs(best - n) ? x : best), sorted[0]);
}

function countAt(panel, event) {
  const { left, width } = panel.svg.getBoundingClientRect();
  const x = ((event.clientX - left) * panel.scale.width) / width;
  return Math.round(((x - MARGIN.left) / (panel.scale.right - MARGIN.left)) * end);
}

/** The stored number of trees next to the chosen one; null after the first split has diverged. */
function position({ k, trees }) {
  const n = Math.min(state.trees, end);
  return column.diverged[k] && n > trees[trees.length - 1] ? null : trees.indexOf(nearest(trees, n));
}

function point(n) {
  state.trees = n >= end ? Infinity : Math.max(n, 0);
  show(selected());
}

function show(lines) {
  const n = Math.min(state.trees, end);
  slider.value = n;
  slider.setAttribute("aria-valuetext", n + " trees");
  sliderText.value = n;
  const empty = made("tr", {}, made("th", { scope: "row" }, "No method is chosen."));
  readout.replaceChildren(...(lines.length ? lines.map(row) : [empty]));
  panels.forEach((panel) => {
    if (panel.scale === null) return;
    const { x, y, high, bottom } = panel.scale;
    const dots = lines.flatMap((line) => {
      const at = position(line);
      const loss = at === null ? Infinity : column[panel.name][line.k][at];
      if (loss > high) return [];
      return [drawn("circle", { cx: x(line.trees[at]), cy: y(loss), r: 3.2, fill: painted(line.choice) })];
    });
    panel.cross.replaceChildren(drawn("line", { x1: x(n), x2: x(n), y1: MARGIN.top - 4, y2: bottom }), ...dots);
  });
}

function row(line) {
  const { choice, k, trees } = line;
  const at = position(line);
  const last = trees[trees.length - 1];
  const name = made("th", { scope: "row" }, made("span", { class: "named" }, sample(choice), choice.title));
  if (column.diverged[k]) {
    const text = column.diverged[k] + " of " + data.splits + " splits diverge, the first at " + last + " trees";
    name.append(made("span", { class: "diverges" }, text));
  }
  const losses = at === null ? ["\u2013", "\u2013"] : [shown(column.train[k][at]), shown(column.test[k][at])];
  const stored = at === null ? "\u2013" : String(trees[at]);
  const cells = [stored, ...losses, shown(column.lowest[k]), String(column.lowest_at[k])];
  return made("tr", {}, name, ...cells.map((text, i) => made("td", { "data-label": heads[i + 1] }, text)));
}

function update() {
  const available = stepsOfSet();
  if (available.length && !available.includes(state.step)) state.step = nearest(available, state.step);
  setButtons.forEach(({ input }, k) => (input.checked = k === state.set));
  stepButtons.forEach(({ input }, k) => {
    input.checked = steps[k] === state.step;
    input.disabled = !available.includes(steps[k]);
  });
  scaleButtons.forEach(({ input }) => (input.checked = input.value === state.scale));
  choiceButtons.forEach(({ input }, k) => {
    input.checked = state.chosen.has(input.value);
    input.disabled = curveOf(k) < 0;
  });
  const lines = selected();
  end = Math.max(...ofSet().flatMap(treesOf));
  slider.max = end;
  panels.forEach((panel) => draw(panel, lines));
  show(lines);
}

const first = data.sets.findIndex(({ key }) => key === FIRST.set);
Object.assign(state, { set: Math.max(first, 0), step: FIRST.step, chosen: new Set(FIRST.chosen) });
const linked = read(location.hash);
const place = document.getElementById("explorer");
place.hidden = false;
update();
if (linked) place.scrollIntoView();
addEventListener("hashchange", () => read(location.hash) && update());
new ResizeObserver(update).observe(place);
