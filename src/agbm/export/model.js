/*
$about
An ES module without dependencies. Results have the same bits as those of agbm.
*/

/** Names of the features, in the order of a row. */
export const featureNames = $feature_names;

/** For features with a list of values, [feature, values, code of all other values]; the code of a value is its place. */
export const categories = [
$categories
];

/** The classes of a classifier, in the order of their probabilities; otherwise null. */
export const classes = $classes;

const N_SCORES = $n_scores;
const N_PREDICTIONS = $n_predictions;
const START = [$start];

function decoded(text, size, read) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  const found = size === 8 ? new Float64Array(bytes.length / 8) : new Uint32Array(bytes.length / 4);
  for (let k = 0; k < found.length; ++k) found[k] = read(view, size * k);
  return found;
}
const numbersIn = (text) => decoded(text, 8, (view, at) => view.getFloat64(at, true));
const integersIn = (text) => decoded(text, 4, (view, at) => view.getUint32(at, true));

/* An inner node has a threshold, or the place of a set of categories; a leaf has its value, or the place of its values.
   what: the number of the feature and three bits (is an inner node; missing values go left, or members of the set go
   right; the set decides). next: the left child, which is followed by the right one. */
const number = numbersIn("$number");
const what = integersIn("$what");
const next = integersIn("$next");
const sets = integersIn("$sets");
const roots = integersIn("$roots");
const outputs = integersIn("$outputs");
const values = $values;
const N_VALUES = $n_values;

function goesRight(node, row) {
  const x = row[what[node] >>> 3];
  if (what[node] & 4) {
    const set = number[node];
    const member = x >= 0 && x < 32 * sets[set] ? (sets[set + 1 + Math.floor(x / 32)] >>> (x & 31)) & 1 : 0;
    return member ^ (what[node] & 2 ? 0 : 1);
  }
  return x <= number[node] || (x !== x && what[node] & 2) ? 0 : 1;
}

const codes = new Map(
  categories.map(([feature, known, other]) => [
    feature,
    { code: new Map(known.map((value, code) => [typeof value === "boolean" ? Number(value) : value, code])), other },
  ]),
);

/**
 * A row of numbers from the values of its features: an array, or an object with the names of the features. Categories
 * become codes; null, undefined and NaN are missing values.
 */
export function encode(given) {
  const inOrder = Array.isArray(given) || ArrayBuffer.isView(given);
  const unknown = inOrder ? [] : Object.keys(given).filter((name) => !featureNames.includes(name));
  if (unknown.length > 0) throw new RangeError("the model has no feature named " + unknown[0]);
  const found = inOrder ? given : featureNames.map((name) => (Object.hasOwn(given, name) ? given[name] : null));
  if (found.length !== featureNames.length) {
    throw new RangeError("a row must have " + featureNames.length + " values; got " + found.length);
  }
  return Float64Array.from(found, (value, feature) => {
    if (value === null || value === undefined || value !== value) return NaN;
    const list = codes.get(feature);
    const key = typeof value === "boolean" ? Number(value) : value;
    if (list !== undefined) return list.code.has(key) ? list.code.get(key) : list.other;
    if (typeof key === "number") return key;
    throw new TypeError("feature " + featureNames[feature] + " must be a number, null or undefined; got " + value);
  });
}

/* Features that follow those of a row: sums, differences or products of two of them, each multiplied by a scale. */
const crosses = $crosses;

function withCrosses(row) {
  if (crosses.length === 0) return row;
  const found = new Float64Array(featureNames.length + crosses.length);
  found.set(row);
  crosses.forEach(([left, sign, right, leftScale, rightScale], k) => {
    const a = row[left] * leftScale;
    const b = row[right] * rightScale;
    found[featureNames.length + k] = sign === "+" ? a + b : sign === "-" ? a - b : a * b;
  });
  return found;
}

/** The raw scores of a row, before offsets are added. */
export function scores(given) {
  const row = withCrosses(given);
  const found = new Float64Array(N_SCORES);
  for (let tree = 0; tree < roots.length; ++tree) {
    let node = roots[tree];
    while (what[node] & 1) node = next[node] + goesRight(node, row);
    if (values === null) {
      found[outputs[tree]] += number[node];
    } else {
      for (let k = 0; k < N_VALUES; ++k) found[k] += values[number[node] + k];
    }
  }
  for (let k = 0; k < N_SCORES; ++k) found[k] += START[k];
  return found;
}
$functions
/** $result, from raw scores: an array. */
export function finish(scores) {
  const out = new Float64Array(N_PREDICTIONS);
$finish  return out;
}

$predict
