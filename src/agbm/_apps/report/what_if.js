
// The panel. What precedes is the model: featureNames, scores, finish and contributions.
const data = DATA;
const panel = document.getElementById("what-if-panel");
const N_SHOWN = 12;
let original, row, before;

function made(tag, attributes, ...children) {
  const element = document.createElement(tag);
  Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
  element.append(...children);
  return element;
}

const shown = (x) => x.toLocaleString("en", { maximumSignificantDigits: 4 }).replace("-", "\u2212");
const signed = (x) => (x < 0 ? "" : "+") + shown(x);
const percent = (x) => (100 * x).toLocaleString("en", { maximumSignificantDigits: 3 }) + "\u00a0%";
const written = data.probabilities ? percent : shown;

/** The contributions of the columns to the score that is chosen; those of the parts of a date add up. */
function explained(values) {
  const found = contributions(values)[Number(scoreChoice.value)];
  const base = found[found.length - 1];
  const total = found.reduce((sum, x) => sum + x, 0);
  const nColumns = featureNames.length - data.parts.length;
  data.parts.forEach((column, k) => (found[column] += found[nColumns + k]));
  const features = data.features.map(({ feature }) => found[feature]);
  return { features, base, total, others: total - base - features.reduce((sum, x) => sum + x, 0) };
}

function rowOf(number) {
  const values = new Float64Array(featureNames.length);
  data.rows[number].forEach((x, k) => (values[data.used[k]] = x === null ? NaN : Number(x)));
  return values;
}

// Controls
function numberControl(feature, label) {
  const range = { min: feature.low, max: feature.high, step: feature.step };
  const slider = made("input", { type: "range", ...range, "aria-label": label });
  const box = made("input", { type: "number", step: "any", "aria-label": label + ", exact value" });
  const missing = made("input", { type: "checkbox" });
  slider.addEventListener("input", () => change(feature.feature, Number(slider.value)));
  box.addEventListener("input", () => change(feature.feature, box.value === "" ? NaN : Number(box.value), box));
  missing.addEventListener("change", () => {
    change(feature.feature, missing.checked ? NaN : Number(slider.value));
  });
  const show = (x, source) => {
    missing.checked = Number.isNaN(x);
    if (!Number.isNaN(x)) slider.value = x;
    if (source !== box) box.value = Number.isFinite(x) ? Number(x.toPrecision(6)) : "";
  };
  return [made("span", { class: "control" }, slider, box, made("label", {}, missing, " missing")), show];
}

function categoryControl(feature, label) {
  const options = [...feature.values, ["(missing)", "NaN"]];
  const select = made("select", { "aria-label": label });
  options.forEach(([name, code]) => select.append(made("option", { value: code }, name)));
  select.addEventListener("change", () => change(feature.feature, Number(select.value)));
  return [made("span", { class: "control" }, select), (x) => (select.value = String(x))];
}

function bar() {
  const [mark, filled] = [made("span", { class: "mark" }), made("span", { class: "filled" })];
  const number = made("span", { class: "number" });
  return { element: made("span", { class: "bar" }, mark, filled), mark, filled, number };
}

const rowChoice = made("select", { id: "what-if-row" });
data.rows.forEach((_, k) => {
  const name = data.outputs.length === 1 ? ": " + shown(finish(scores(rowOf(k)))[0]) : "";
  rowChoice.append(made("option", { value: k }, "row " + (k + 1) + name));
});
const scoreChoice = made("select", { id: "what-if-score" });
data.scores.forEach((name, k) => scoreChoice.append(made("option", { value: k }, name)));
const reset = made("button", { type: "button" }, "Reset");
const top = made("div", { class: "choices" }, made("label", { for: "what-if-row" }, "Test row "), rowChoice, reset);
if (data.scores.length > 1) top.append(made("label", { for: "what-if-score" }, "Contributions to "), scoreChoice);
const results = made("div", { class: "results", "aria-live": "polite" });
const lines = data.features.map((feature) => {
  const [control, show] =
    feature.kind === "number"
      ? numberControl(feature, feature.name)
      : feature.kind === "category"
        ? categoryControl(feature, feature.name)
        : [made("span", { class: "control note" }, "date"), () => {}];
  const drawn = bar();
  const line = made("div", { class: "line" }, made("span", { class: "name" }, feature.name), control);
  line.append(drawn.element, drawn.number);
  return { ...drawn, line, show, feature: feature.feature };
});
const sums = made("dl", { class: "sums" });
const heads = ["feature", "value", "contribution to the score"].map((text) => made("span", {}, text));
const table = made("div", { class: "lines" }, made("div", { class: "line heads" }, ...heads));
table.append(...lines.map(({ line }) => line));
panel.append(top, results, table, sums);

function change(feature, x, source) {
  row[feature] = x;
  draw(source);
}

/** Probabilities as bars; other predictions as numbers. Those of the row as it is are beside them. */
function drawResults() {
  const [now, was] = [finish(scores(row)), before.finished];
  const order = data.outputs.map((_, k) => k);
  if (order.length > N_SHOWN) order.sort((a, b) => was[b] - was[a]).splice(N_SHOWN);
  const entries = order.map((k) => {
    const value = made("span", { class: "value" }, written(now[k]));
    const old = made("span", { class: "old" }, now[k] === was[k] ? "" : "was " + written(was[k]));
    const name = made("span", { class: "name" }, data.outputs[k]);
    const entry = made("div", { class: "result" }, name, value, old);
    if (data.probabilities) {
      const { element, mark, filled } = bar();
      filled.style.width = 100 * now[k] + "%";
      mark.style.left = 100 * was[k] + "%";
      entry.insertBefore(element, value);
    }
    return entry;
  });
  results.className = data.probabilities ? "results shares" : "results";
  results.replaceChildren(...entries);
}

function drawContributions() {
  const [now, was] = [explained(row), before.explained];
  const largest = Math.max(...now.features.map(Math.abs), ...was.features.map(Math.abs), 1e-300);
  lines.forEach(({ mark, filled, number }, k) => {
    const width = (50 * Math.abs(now.features[k])) / largest;
    filled.className = now.features[k] < 0 ? "filled down" : "filled up";
    filled.style.left = (now.features[k] < 0 ? 50 - width : 50) + "%";
    filled.style.width = width + "%";
    mark.style.left = 50 + (50 * was.features[k]) / largest + "%";
    number.textContent = signed(now.features[k]);
  });
  const others = data.n_others > 0 ? { "all other features": signed(now.others) } : {};
  const facts = { "base value": shown(now.base), ...others, score: shown(now.total) };
  sums.replaceChildren(
    ...Object.entries(facts).map(([name, text]) => made("div", {}, made("dt", {}, name), made("dd", {}, text))),
  );
}

function draw(source) {
  lines.forEach(({ show, feature }) => show(row[feature], source));
  drawResults();
  drawContributions();
}

function choose() {
  original = rowOf(Number(rowChoice.value));
  row = Float64Array.from(original);
  before = { finished: finish(scores(original)), explained: explained(original) };
  draw();
}

rowChoice.addEventListener("change", choose);
reset.addEventListener("click", choose);
scoreChoice.addEventListener("change", () => {
  before.explained = explained(original);
  draw();
});
const first = finish(scores(rowOf(0)));
if (data.scores.length === first.length) scoreChoice.value = String(first.indexOf(Math.max(...first)));
panel.hidden = false;
choose();
