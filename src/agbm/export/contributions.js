
/* Training rows per node. */
const count = numbersIn("$count");
/* A rule of Gauss and Legendre for integrals from 0 to 1, exact for paths with as many features as any in the trees. */
const POINTS = [$points];
const WEIGHTS = [$weights];

/* A path has, for each of its features, the share of training rows that take it and whether the row does. A leaf adds to
   the contribution of feature i: value * (taken_i - share_i) times the integral over t of the product over all other
   features j of share_j (1 - t) + taken_j t. */
function addLeaf(node, path, output, found) {
  const factors = path.map(() => 0.0);
  const before = path.map(() => 1.0);
  POINTS.forEach((t, q) => {
    let product = WEIGHTS[q];
    path.forEach(({ share, taken }, i) => {
      before[i] = product;
      product *= share * (1.0 - t) + taken * t;
    });
    product = 1.0;
    for (let i = path.length - 1; i >= 0; --i) {
      factors[i] += before[i] * product;
      product *= path[i].share * (1.0 - t) + path[i].taken * t;
    }
  });
  const reached = path.reduce((share, step) => share * step.share, 1.0);
  for (let k = 0; k < N_VALUES; ++k) {
    const value = values === null ? number[node] : values[number[node] + k];
    const sums = found[output + k];
    path.forEach(({ feature, share, taken }, i) => (sums[feature] += value * (taken - share) * factors[i]));
    sums[sums.length - 1] += value * reached;
  }
}

function addTree(node, path, row, output, found) {
  if (!(what[node] & 1)) {
    addLeaf(node, path, output, found);
    return;
  }
  const feature = what[node] >>> 3;
  const right = goesRight(node, row);
  const rows = count[next[node]] + count[next[node] + 1];
  const above = path.find((step) => step.feature === feature);
  const others = path.filter((step) => step !== above);
  for (let side = 0; side < 2; ++side) {
    const share = (above ? above.share : 1.0) * (rows > 0 ? count[next[node] + side] / rows : 0.5);
    const taken = (above ? above.taken : 1.0) * (side === right ? 1.0 : 0.0);
    addTree(next[node] + side, [...others, { feature, share, taken }], row, output, found);
  }
}

/**
 * The contributions of the features to the raw scores of a row (Shapley values), and the base value after them: one
 * array per score. They add up to the score.
 */
export function contributions(row) {
  const n = featureNames.length;
  const all = START.map(() => new Float64Array(n + crosses.length + 1));
  const given = withCrosses(row);
  roots.forEach((root, tree) => addTree(root, [], given, values === null ? outputs[tree] : 0, all));
  return all.map((of, output) => {
    const found = Float64Array.from([...of.slice(0, n), of[of.length - 1] + START[output]]);
    crosses.forEach(([left, , right], k) => {
      found[left] += of[n + k] / 2; // each of the two columns has half of a cross
      found[right] += of[n + k] / 2;
    });
    return found;
  });
}
