
"use strict";
(() => {
  document.documentElement.classList.remove("no-script");
  const data = JSON.parse(document.getElementById("data").textContent);
  const COLOURS = 8;
  const DASHES = 5;
  const LOWEST_PART = 0.12; // the share of the range of the losses that "lowest part" shows

  const made = (space) => (tag, attributes = {}, ...children) => {
    const element = space ? document.createElementNS(space, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children); // strings become text nodes, so markup in them has no effect
    return element;
  };
  const html = made(null);
  const svg = made("http://www.w3.org/2000/svg");

  const words = (value) => {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-4 || size >= 1e9)) return Number(value.toPrecision(4)).toExponential().replace("e+", "e");
    return Number(value.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 10 });
  };
  const whole = (value) => value.toLocaleString("en");

  // Positions of axis labels: multiples of 1, 2 or 5 times a power of ten.
  function ticks(low, high, count) {
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.7);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(Number((k * step).toPrecision(12)));
    return found;
  }

  function logTicks(low, high, count) {
    const decades = Math.log10(high / low);
    if (decades < 1) return ticks(low, high, count);
    const factors = decades < 3 ? [1, 2, 5] : [1];
    const skip = Math.ceil(decades / 8);
    const found = [];
    for (let p = Math.floor(Math.log10(low)); p <= Math.log10(high); p++) {
      if (p % skip === 0) found.push(...factors.map((factor) => factor * 10 ** p).filter((v) => v >= low && v <= high));
    }
    return found;
  }

  // Index of the last of the ascending values that is at most `value`; -1 if there is none.
  function lastUpTo(values, value) {
    let low = 0;
    let high = values.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] <= value) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  // A line chart with a crosshair that is moved by mouse, touch or arrow keys.
  // A line is {x, y, style, kept: [x, y] or null}, with x ascending and no missing values.
  class Plot {
    static count = 0;

    constructor(height, label, moved) {
      this.number = Plot.count++;
      this.height = height;
      this.moved = moved;
      this.at = null;
      this.box = html("div", { class: "plot", tabindex: 0, role: "slider", "aria-label": `${label}: position of the crosshair` });
      this.box.addEventListener("pointermove", (event) => this.point(event));
      this.box.addEventListener("pointerdown", (event) => this.point(event));
      this.box.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && this.move(null));
      this.box.addEventListener("keydown", (event) => this.key(event));
      new ResizeObserver(() => this.box.clientWidth && this.box.clientWidth !== this.width && this.draw()).observe(this.box);
    }

    show(view) {
      this.view = view;
      this.stops = [...new Set(view.lines.flatMap((line) => line.x))].sort((a, b) => a - b);
      this.at = null;
      this.draw();
      this.moved(null);
    }

    draw() {
      const { lines, log, zero, lowest, uprights = [] } = this.view;
      const width = (this.width = this.box.clientWidth || 640);
      const height = width < 480 ? Math.min(this.height, 260) : this.height;
      const all = lines.flatMap((line) => line.y);
      const low = zero ? Math.min(0, least(all)) : least(all);
      const start = most(lines.map((line) => line.y[0]));
      const high = lowest && start > low ? low + LOWEST_PART * (start - low) : most(all);
      const pad = log ? 0 : (high - low || Math.abs(high) || 1) * 0.04;
      const [bottom, top] = log ? [low / 1.08, high * 1.08] : [zero && low === 0 ? 0 : low - pad, high + pad];
      const marks = all.length ? (log ? logTicks : ticks)(bottom, top, height < 240 ? 4 : 5) : [];
      const texts = marks.map(words);
      const left = 14 + 7 * Math.max(3, ...texts.map((text) => text.length));
      const area = { left, right: width - 10, top: 24, bottom: height - 40 };
      const [first, last] = this.stops.length ? [this.stops[0], this.stops[this.stops.length - 1]] : [0, 1];
      const onX = (value) => area.left + ((value - first) / (last - first || 1)) * (area.right - area.left);
      const share = log ? (value) => Math.log(value / bottom) / Math.log(top / bottom) : (value) => (value - bottom) / (top - bottom);
      const onY = (value) => area.bottom - share(value) * (area.bottom - area.top);
      const inside = (y) => y >= bottom && y <= top;
      Object.assign(this, { area, onX, onY, inside, first, last });

      const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
      marks.forEach((mark, k) => {
        const y = onY(mark).toFixed(1);
        chart.append(svg("path", { class: "grid", d: `M${area.left} ${y}H${area.right}` }));
        chart.append(svg("text", { x: area.left - 8, y: Number(y) + 4, "text-anchor": "end" }, texts[k]));
      });
      chart.append(svg("path", { class: "base", d: `M${area.left} ${area.bottom}H${area.right}` }));
      for (const mark of ticks(first, last === first ? first + 1 : last, width < 480 ? 4 : 8)) {
        const x = onX(mark);
        if (x <= area.right + 1) chart.append(svg("text", { x, y: area.bottom + 17, "text-anchor": "middle" }, words(mark)));
      }
      chart.append(
        svg("text", { class: "x-label", x: area.right, y: height - 4, "text-anchor": "end" }, this.view.xLabel),
        svg("text", { class: "y-label", x: 0, y: 12 }, this.view.yLabel),
      );
      for (const x of uprights) chart.append(svg("path", { class: "upright", d: `M${onX(x).toFixed(1)} ${area.top}V${area.bottom}` }));
      const clip = `clip-${this.number}`;
      const frame = { x: area.left, y: area.top - 2, width: area.right - area.left + 2, height: area.bottom - area.top + 3 };
      chart.append(svg("clipPath", { id: clip }, svg("rect", frame)));
      const drawn = svg("g", { "clip-path": `url(#${clip})` });
      chart.append(drawn);
      lines.forEach((line, k) => {
        const points = line.x.map((x, i) => `${onX(x).toFixed(1)} ${onY(line.y[i]).toFixed(1)}`);
        drawn.append(svg("path", { class: `line ${line.style}`, d: points.length ? `M${points.join("L")}` : "", "data-line": k }));
      });
      lines.forEach((line, k) => {
        if (line.kept && inside(line.kept[1])) chart.append(svg("circle", { class: `kept ${line.style}`, cx: onX(line.kept[0]), cy: onY(line.kept[1]), r: 4, "data-line": k }));
      });
      this.marker = svg("g");
      chart.append(this.marker);
      this.box.replaceChildren(chart);
      this.box.setAttribute("aria-valuemin", first);
      this.box.setAttribute("aria-valuemax", last);
      this.mark();
    }

    point(event) {
      const frame = this.box.getBoundingClientRect();
      const x = ((event.clientX - frame.left) / frame.width) * this.width;
      this.move(this.first + ((x - this.area.left) / (this.area.right - this.area.left)) * (this.last - this.first));
    }

    key(event) {
      const step = (this.last - this.first) / (event.shiftKey ? 20 : 400);
      const here = this.at === null ? this.first : this.at;
      const next = {
        ArrowRight: () => this.stops.find((stop) => stop > here && stop >= here + step) ?? this.last,
        ArrowLeft: () => this.stops.findLast((stop) => stop < here && stop <= here - step) ?? this.first,
        Home: () => this.first,
        End: () => this.last,
        Escape: () => null,
      }[event.key];
      if (!next) return;
      event.preventDefault();
      this.move(next());
    }

    // Move the crosshair to the nearest point of any line; null hides it.
    move(wanted) {
      let at = null;
      if (wanted !== null && this.stops.length) {
        const before = Math.max(0, lastUpTo(this.stops, wanted));
        const after = Math.min(before + 1, this.stops.length - 1);
        at = wanted - this.stops[before] <= this.stops[after] - wanted ? this.stops[before] : this.stops[after];
      }
      if (at === this.at) return;
      this.at = at;
      this.mark();
      this.moved(at);
    }

    mark() {
      this.marker.replaceChildren();
      this.box.setAttribute("aria-valuenow", this.at ?? this.first);
      if (this.at === null) return;
      const x = this.onX(this.at).toFixed(1);
      this.marker.append(svg("path", { class: "cross", d: `M${x} ${this.area.top}V${this.area.bottom}` }));
      for (const line of this.view.lines) {
        const k = lastUpTo(line.x, this.at);
        if (k >= 0 && this.inside(line.y[k])) this.marker.append(svg("circle", { class: `here ${line.style}`, cx: this.onX(line.x[k]), cy: this.onY(line.y[k]), r: 3.5 }));
      }
    }

    // Dim all lines but the chosen ones; null restores all.
    pointOut(chosen) {
      for (const part of this.box.querySelectorAll("[data-line]")) {
        part.classList.toggle("dim", chosen !== null && !chosen.includes(Number(part.dataset.line)));
      }
    }
  }

  const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
  const most = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);

  // A plot with a legend that shows the values at the crosshair and toggles lines.
  // rows: {name, style}; columns: names; view(shown) returns the lines to draw, each with {row, column} and as in Plot.
  function figure(box, { height, label, rows, columns, view, where, home }) {
    const shown = rows.map(() => true);
    const head = html("th", { scope: "col", class: "at" });
    const cells = rows.map(() => columns.map(() => html("td")));
    const heads = columns.map((column) => html("th", { scope: "col" }, column));
    const warning = html("p", { class: "warning", role: "status" });
    const plot = new Plot(height, label, (at) => {
      head.textContent = at === null ? home : where(at);
      cells.flat().forEach((cell) => (cell.textContent = "–"));
      const texts = [];
      for (const line of plot.view.lines) {
        const k = lastUpTo(line.x, at ?? Infinity);
        const value = at === null && line.kept ? line.kept[1] : line.y[k];
        const over = at !== null && k >= 0 && line.x[k] < at && k === line.x.length - 1;
        const text = over ? `${words(value)} (ended)` : words(value);
        cells[line.row][line.column].textContent = text;
        texts.push(`${rows[line.row].name} ${columns[line.column]} ${text}`);
      }
      plot.box.setAttribute("aria-valuetext", `${head.textContent}: ${texts.join(", ")}`);
    });
    const numbersOf = (row) => plot.view.lines.flatMap((line, k) => (line.row === row ? [k] : []));
    const update = () => {
      const next = view(shown);
      warning.textContent = next.warning ?? "";
      columns.forEach((_, column) => {
        const unused = !next.lines.some((line) => line.column === column);
        for (const cell of [heads[column], ...cells.map((row) => row[column])]) cell.hidden = unused;
      });
      plot.show(next);
    };
    const lines = rows.map((row, k) => {
      const swatch = svg("svg", { viewBox: "0 0 34 10", "aria-hidden": "true" }, svg("path", { class: row.style, d: "M0 5H34" }));
      const button = html("button", { type: "button", "aria-pressed": "true" }, swatch, html("span", { class: "name" }, row.name));
      button.addEventListener("click", () => {
        shown[k] = !shown[k];
        button.setAttribute("aria-pressed", shown[k]);
        update();
      });
      const line = html("tr", {}, html("th", { scope: "row" }, button), ...cells[k]);
      line.addEventListener("pointerenter", () => plot.pointOut(numbersOf(k)));
      line.addEventListener("pointerleave", () => plot.pointOut(null));
      return line;
    });
    const top = html("tr", {}, head, ...heads);
    const legend = html("table", { class: "legend" }, html("thead", {}, top), html("tbody", {}, ...lines));
    box.append(plot.box, warning, html("div", { class: "scroll" }, legend));
    update();
    return update;
  }

  const style = (k) => `c${k % COLOURS} d${k % DASHES}`;

  function convergence(curves) {
    const chosen = (name) => document.querySelector(`input[name=${name}]:checked`).value;
    const boxes = [document.getElementById("show-train"), document.getElementById("show-validation")];
    const losses = ["train_loss", "validation_loss"];
    const axes = {
      trees: ["trees", (at) => `At ${whole(at)} trees`],
      seconds: ["seconds", (at) => `After ${words(at)} s`],
      iterations: ["iteration", (at) => `At iteration ${whole(at)}`],
    };
    const view = (shown) => {
      const log = chosen("scale") === "log";
      const column = axes[chosen("axis")][0];
      const lines = [];
      let leftOut = 0;
      curves.forEach((curve, row) => {
        losses.forEach((loss, kind) => {
          if (!shown[row] || !boxes[kind].checked || !curve[loss] || !curve[column]) return;
          const line = { row, column: kind, x: [], y: [], kept: null, style: style(row) + (kind === 0 ? " thin" : "") };
          curve[loss].forEach((y, k) => {
            const x = curve[column][k];
            if (x === null || y === null) return;
            if (log && y <= 0) return leftOut++;
            line.x.push(x);
            line.y.push(y);
            if (k === curve.best) line.kept = [x, y];
          });
          lines.push(line);
        });
      });
      const both = boxes[0].checked && boxes[1].checked;
      const name = both || !(boxes[0].checked || boxes[1].checked) ? "loss" : boxes[0].checked ? "training loss" : "validation loss";
      const warning = leftOut ? `${whole(leftOut)} points at or below 0 are omitted, since the scale is logarithmic.` : "";
      return { lines, log, lowest: chosen("range") === "lowest part", warning, xLabel: chosen("axis"), yLabel: name };
    };
    const update = figure(document.getElementById("convergence-figure"), {
      height: 380,
      label: "Loss",
      rows: curves.map((curve, k) => ({ name: curve.name, style: style(k) })),
      columns: ["training (thin)", "validation"],
      home: "At the selected iteration",
      where: (at) => axes[chosen("axis")][1](at),
      view,
    });
    for (const input of document.querySelectorAll("#convergence input")) input.addEventListener("change", update);
  }

  function theory(tracks) {
    tracks.drawings.forEach((drawing, place) => {
      const known = Object.keys(drawing.columns).filter((name) => tracks.columns[name]);
      const view = (shown) => {
        const lines = known.flatMap((name, row) => {
          if (!shown[row]) return [];
          const places = tracks.columns[name].flatMap((y, k) => (y === null ? [] : [k]));
          return [{
            row,
            column: 0,
            x: places.map((k) => tracks.iteration[k]),
            y: places.map((k) => tracks.columns[name][k]),
            kept: null,
            style: style(row),
          }];
        });
        return { lines, log: false, zero: true, uprights: tracks.restarts, xLabel: "iterations", yLabel: "" };
      };
      figure(document.getElementById(`track-${place}`), {
        height: 220,
        label: drawing.title,
        rows: known.map((name, row) => ({ name: drawing.columns[name], style: style(row) })),
        columns: [""],
        home: "At the last iteration",
        where: (at) => `At iteration ${whole(at)}`,
        view,
      });
    });
  }

  function importances() {
    const update = () => {
      const measure = document.querySelector("input[name=importance]:checked").value;
      for (const bars of document.querySelectorAll(".bars")) bars.hidden = bars.dataset.measure !== measure;
    };
    for (const input of document.querySelectorAll("input[name=importance]")) input.addEventListener("change", update);
    update();
  }

  // Browsers may deny local files access to the clipboard; the command is then selected for copying by keyboard.
  async function copy() {
    const command = document.getElementById("command");
    const status = document.getElementById("copied");
    try {
      await navigator.clipboard.writeText(command.textContent);
      status.textContent = "Copied.";
    } catch {
      getSelection().selectAllChildren(command);
      status.textContent = "Selected: press Ctrl+C or ⌘C.";
    }
  }

  document.getElementById("copy").addEventListener("click", copy);
  if (data.convergence) convergence(data.convergence);
  if (data.theory) theory(data.theory);
  if (document.querySelector("input[name=importance]")) importances();
})();
