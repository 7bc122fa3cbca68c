"""Tree growth in slow but simple NumPy, as a reference for the native kernels.

It works on bin codes, reads every row of a node for every candidate split, and keeps no histograms.
"""

import math
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Rules:
    max_depth: int = 2**31 - 1
    max_leaf_nodes: int = 0
    min_samples_leaf: int = 1
    l1_regularization: float = 0.0
    l2_regularization: list[float] = field(default_factory=lambda: [0.0])
    min_split_gain: float = 0.0
    min_hessian_leaf: float = 0.0
    monotone: list = field(default_factory=list)
    interactions: list = field(default_factory=list)


@dataclass
class Sample:
    """The rows and features that a tree may use."""

    rows: np.ndarray | None = None
    features: np.ndarray | None = None
    node_share: float = 1.0
    seed: int = 0


@dataclass(eq=False)
class Split:
    gain: float
    feature: int
    left_codes: set  # may include the code of missing values
    missing_left: bool
    bin: int = 0


@dataclass(eq=False)
class Node:
    rows: np.ndarray
    depth: int
    number: int
    groups: list  # groups of features that may still interact; None if all may
    bounds: list  # (lower, upper) per residual
    seed: int  # of what is drawn for the node, from those of the nodes above it
    split: Split | None = None
    children: list = field(default_factory=list)


def bits_for(n):
    return int(n).bit_length()


def quantise(x, carries_count):
    """Integers round(x * 2^e) and 2^-e, with the exponent of the kernels: a sum over all rows fits an int64."""
    shared = 62 - 2 * bits_for(len(x))
    bits = min(50, shared) if carries_count and shared >= 22 else min(50, 62 - bits_for(len(x)))
    if carries_count and shared < 22:
        bits = min(bits, 29)  # sums of 2^16 rows, with their count, have 62 bits
    largest = np.abs(x).max(initial=0.0)
    exponent = 0 if largest == 0 else min(bits - math.frexp(largest)[1], 1000)
    return np.rint(np.ldexp(x, exponent)).astype(np.int64), 2.0**-exponent


def mixed(x):
    """The finaliser of splitmix64."""
    mask = 2**64 - 1
    x = (x + 0x9E3779B97F4A7C15) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return x ^ (x >> 31)


def drawn_outputs(residuals, n_groups, n_drawn, seed):
    """The groups of residuals whose sums choose the splits, drawn with weights that grow with their squares."""
    size = len(residuals) // n_groups
    weight = [0.0] * n_groups
    for k, x in enumerate(residuals):
        bits = min(50, 62 - bits_for(len(x))) // 2
        largest = np.abs(x).max(initial=0.0)
        exponent = 0 if largest == 0 else min(bits - math.frexp(largest)[1], 1000)
        squares = sum(int(v) ** 2 for v in np.rint(np.ldexp(x, exponent)))
        weight[k // size] += math.ldexp(float(squares), -2 * exponent)
    total = sum(weight)
    weight = [(0.8 * w / total if total > 0.0 else 0.0) + 0.2 / n_groups for w in weight]
    left = list(range(n_groups))
    for draw in range(n_drawn):
        at = (mixed((seed + mixed(draw)) % 2**64) >> 11) * 2.0**-53 * sum(weight[g] for g in left)
        for chosen in left:
            at -= weight[chosen]
            if at < 0.0:
                break
        left.remove(chosen)
    return [g for g in range(n_groups) if g not in left]


class Grower:
    """Grows a tree. Residuals are (residual, row), hessians (group, row) or None."""

    def __init__(self, codes, n_bins, residuals, hessians, rules, n_categories=None, sample=None):
        self.codes, self.n_bins, self.rules = codes, n_bins, rules
        self.n_categories = [0] * len(n_bins) if n_categories is None else n_categories
        self.sample = Sample() if sample is None else sample
        self.exact_residuals, self.exact_hessians = residuals, hessians
        channels = [*residuals] if hessians is None else [*residuals, *hessians]
        quantised = [quantise(x, k == len(channels) - 1) for k, x in enumerate(channels)]
        self.residuals, self.hessians = quantised[: len(residuals)], quantised[len(residuals) :]
        self.group_size = len(residuals) // max(len(self.hessians), 1)
        self.noise = [self.noise_of(k) for k in range(len(residuals))]

    def noise_of(self, residual):
        """Mean square of the residuals divided by the mean hessian, from integers."""
        x = self.exact_residuals[residual]
        n = len(x)
        h = float(n)
        if self.exact_hessians is not None:
            q, unit = quantise(self.exact_hessians[residual // self.group_size], False)
            h = float(q.sum()) * unit
        bits = min(50, 62 - bits_for(n)) // 2
        largest = np.abs(x).max(initial=0.0)
        exponent = 0 if largest == 0 else min(bits - math.frexp(largest)[1], 1000)
        squares = sum(int(v) ** 2 for v in np.rint(np.ldexp(x, exponent)))
        return math.ldexp(float(squares), -2 * exponent) / h if h > 0 else 0.0

    def sums(self, rows):
        g = [float(q[rows].sum()) * unit for q, unit in self.residuals]
        h = [float(q[rows].sum()) * unit for q, unit in self.hessians] or [float(len(rows))]
        return g, h, len(rows)

    def denominators(self, h):
        l2 = np.broadcast_to(self.rules.l2_regularization, len(h))
        return [max(value, self.rules.min_hessian_leaf) + float(more) for value, more in zip(h, l2, strict=True)]

    def moved(self, g):
        """A sum of residuals, closer to zero by l1."""
        return math.copysign(max(abs(g) - self.rules.l1_regularization, 0.0), g)

    def value(self, sums, residual, bounds):
        g, h, _ = sums
        denominator = self.denominators(h)[residual // self.group_size]
        value = self.moved(g[residual]) / denominator if denominator > 0 else 0.0
        return min(max(value, bounds[residual][0]), bounds[residual][1])

    def score(self, sums, bounds):
        g, h, _ = sums
        total = 0.0
        if self.rules.monotone:  # values are bounded: 2 G v - (H + l2) v^2 - 2 l1 |v|
            for residual, sum_ in enumerate(g):
                v = self.value(sums, residual, bounds)
                denominator = self.denominators(h)[residual // self.group_size]
                total += (2.0 * sum_ - denominator * v) * v - 2.0 * self.rules.l1_regularization * abs(v)
            return total
        for group, denominator in enumerate(self.denominators(h)):
            squares = 0.0
            for sum_ in g[group * self.group_size : (group + 1) * self.group_size]:
                squares += self.moved(sum_) * self.moved(sum_)
            total += squares / denominator if denominator > 0 else 0.0
        return total

    def direction(self, feature, bin_):
        """The direction of a monotone feature; 0 for a split that separates missing values from all others."""
        return self.rules.monotone[feature] if self.rules.monotone and bin_ < self.n_bins[feature] - 1 else 0

    def by_chance(self, feature, n_ranked, residual):
        """The gain of equivalent categories by chance; 0 for ordered features."""
        if not self.n_categories[feature]:
            return 0.0
        per_bin = max(1.0, self.n_categories[feature] / self.n_bins[feature])
        return 0.6366197723675814 * max(0.0, n_ranked * per_bin - 1.0) * self.noise[residual]

    def gain(self, node, feature, mask, bin_, by_chance):
        """The gain of a split; None if it is not allowed."""
        left, right = self.sums(node.rows[mask]), self.sums(node.rows[~mask])
        if min(left[2], right[2]) < self.rules.min_samples_leaf:
            return None
        if self.exact_hessians is not None and min(sum(left[1]), sum(right[1])) < self.rules.min_hessian_leaf:
            return None
        direction = self.direction(feature, bin_)
        for residual in range(len(left[0])):
            rise = self.value(right, residual, node.bounds) - self.value(left, residual, node.bounds)
            if direction * rise < 0:
                return None
        children = self.score(left, node.bounds) + self.score(right, node.bounds)
        gain = children - self.score(self.sums(node.rows), node.bounds) - by_chance
        return gain if gain > self.rules.min_split_gain and gain > 1e-12 * abs(children) else None

    def features_of(self, node):
        features = range(self.codes.shape[1])
        if node.groups is not None:
            features = [f for f in features if any(f in group for group in node.groups)]
        if self.sample.features is not None:
            features = [f for f in features if self.sample.features[f]]
        if self.sample.node_share < 1.0 and len(features):
            shuffled = sorted(features, key=lambda f: mixed((node.seed + f) % 2**64))
            features = sorted(shuffled[: max(1, int(self.sample.node_share * len(features)))])
        return features

    def candidates(self, node, feature):
        """Yield (codes that go left, side of missing values, bin, gain by chance) of all splits, in the kernels' order.

        The side of missing values is None if the node has none; they then follow the larger child.
        """
        codes, n_bins = self.codes[node.rows, feature], self.n_bins[feature]
        if not self.n_categories[feature]:
            for missing_left in (False, True) if n_bins in codes else (None,):
                for bin_ in range(n_bins):
                    values_right = np.any((codes > bin_) & (codes < n_bins))
                    if values_right or missing_left:
                        yield set(range(bin_ + 1)), missing_left, bin_, 0.0
                    else:  # only missing values go right
                        yield set(range(n_bins)), missing_left, n_bins - 1, 0.0
            return
        _, h_node, n_node = self.sums(node.rows)
        ranked = [c for c in range(n_bins) if np.count_nonzero(codes == c) >= min(10, self.rules.min_samples_leaf)]
        smoothed, sums = {}, {}
        for code in ranked:
            sums[code], h, _ = self.sums(node.rows[codes == code])
            smoothed[code] = [value + 10.0 * whole / n_node for value, whole in zip(h, h_node, strict=True)]

        def mean(code, residual):
            h = smoothed[code][residual // self.group_size]
            return sums[code][residual] / h if h > 0 else 0.0

        def spread(residual):
            total = 0.0
            for code in ranked:
                h = smoothed[code][residual // self.group_size]
                total += sums[code][residual] * sums[code][residual] / h if h > 0 else 0.0
            return total

        residuals = range(len(self.residuals))
        if len(residuals) > 2:
            residuals = sorted(residuals, key=lambda t: (-spread(t), t))[:2]
        undecided = set(range(n_bins + 1)) - set(ranked)
        has_undecided = bool(np.isin(codes, list(undecided)).any())
        for residual in residuals:
            order = sorted(ranked, key=lambda code, t=residual: (mean(code, t), code))
            for missing_left in (False, True) if has_undecided else (None,):
                for place in range(len(order)):
                    yield set(order[: place + 1]), missing_left, 0, self.by_chance(feature, len(order), residual)

    def best_split(self, node):
        best = None
        if node.depth >= self.rules.max_depth or len(node.rows) < 2 * self.rules.min_samples_leaf:
            return None
        for feature in self.features_of(node):
            codes = self.codes[node.rows, feature]
            ranked = set(range(self.n_bins[feature]))
            if self.n_categories[feature]:
                enough = min(10, self.rules.min_samples_leaf)
                ranked = {c for c in ranked if np.count_nonzero(codes == c) >= enough}
            rest = set(range(256)) - ranked
            for left, missing_left, bin_, by_chance in self.candidates(node, feature):
                mask = np.isin(codes, list(left | rest if missing_left else left))
                if missing_left and not np.isin(codes, list(left)).any():
                    continue  # the same as missing values right and all others left
                gain = self.gain(node, feature, mask, bin_, by_chance)
                if gain is None or (best is not None and gain <= best.gain):
                    continue
                side = 2 * mask.sum() >= len(mask) if missing_left is None else missing_left
                best = Split(gain, feature, left | rest if side else left, bool(side), bin_)
        return best

    def grow(self):
        """Grow the tree; nodes are numbered in the same order as by the kernels."""
        rows = np.arange(self.exact_residuals.shape[1]) if self.sample.rows is None else self.sample.rows
        unbounded = [(-math.inf, math.inf)] * len(self.residuals)
        nodes = [Node(rows, 0, 0, self.rules.interactions or None, unbounded, mixed(self.sample.seed))]
        nodes[0].split = self.best_split(nodes[0])
        pending = [nodes[0]] if nodes[0].split else []
        leaves = 1
        while pending:
            if self.rules.max_leaf_nodes:
                if leaves >= self.rules.max_leaf_nodes:
                    break
                best = max(pending, key=lambda node: (node.split.gain, -node.number))
                batch = [best]
                pending.remove(best)
            else:
                batch, pending = pending, []
            born = []
            for node in batch:
                for child in self.children(node, len(nodes)):
                    nodes.append(child)
                    node.children.append(child.number)
                    born.append(child)
                leaves += 1
            for child in born:
                child.split = self.best_split(child)
                if child.split:
                    pending.append(child)
        return nodes

    def children(self, node, number):
        feature = node.split.feature
        mask = np.isin(self.codes[node.rows, feature], list(node.split.left_codes))
        groups = None if node.groups is None else [group for group in node.groups if feature in group]
        rows = node.rows[mask], node.rows[~mask]
        bounds = [list(node.bounds), list(node.bounds)]
        direction = self.direction(feature, node.split.bin)
        for residual in range(len(self.residuals) if direction else 0):
            left, right = (self.value(self.sums(side), residual, node.bounds) for side in rows)
            middle = 0.5 * left + 0.5 * right
            low, high = node.bounds[residual]
            below, above = (low, middle), (middle, high)
            bounds[0][residual], bounds[1][residual] = (below, above) if direction > 0 else (above, below)
        seeds = [mixed((2 * node.seed + i) % 2**64) for i in range(2)]
        return [Node(rows[i], node.depth + 1, number + i, groups, bounds[i], seeds[i]) for i in range(2)]

    def leaf_value(self, node):
        g = [math.fsum(residual[node.rows]) for residual in self.exact_residuals]
        h = [float(len(node.rows))]
        if self.exact_hessians is not None:
            h = [math.fsum(hessian[node.rows]) for hessian in self.exact_hessians]
        return np.array([self.value((g, h, len(node.rows)), k, node.bounds) for k in range(len(g))])
