"""Tree growth in slow, obvious NumPy: the oracle of the native kernels.

Works on bin codes, looks at every row of a node for every candidate split, and keeps no histogram.
"""

import math
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Rules:
    max_depth: int = 2**31 - 1
    max_leaf_nodes: int = 0
    min_samples_leaf: int = 1
    l2_regularization: float = 0.0
    min_split_gain: float = 0.0
    min_hessian_leaf: float = 0.0


@dataclass(eq=False)
class Node:
    rows: np.ndarray
    depth: int
    number: int
    split: tuple | None = None  # (gain, feature, bin, missing_left)
    children: list = field(default_factory=list)


def bits_for(n):
    return int(n).bit_length()


def quantise(x, carries_count):
    """Integers round(x * 2^e) and 2^-e, with the kernels' exponent: a sum over all rows fits an int64."""
    shared = 62 - 2 * bits_for(len(x))
    bits = min(50, shared) if carries_count and shared >= 22 else min(50, 62 - bits_for(len(x)))
    largest = np.abs(x).max(initial=0.0)
    exponent = 0 if largest == 0 else min(bits - math.frexp(largest)[1], 1000)
    return np.rint(np.ldexp(x, exponent)).astype(np.int64), 2.0**-exponent


class Grower:
    def __init__(self, codes, n_bins, gradients, hessians, rules):
        self.codes, self.n_bins, self.rules = codes, n_bins, rules
        self.exact_gradients, self.exact_hessians = gradients, hessians
        self.targets = []
        for k, g in enumerate(gradients):
            self.targets.append(quantise(g, hessians is None and k == len(gradients) - 1))
        ones = np.ones(gradients.shape[1], dtype=np.int64)
        self.hessian = (ones, 1.0) if hessians is None else quantise(hessians, True)

    def sums(self, rows):
        g = [float(q[rows].sum()) * unit for q, unit in self.targets]
        h = float(self.hessian[0][rows].sum()) * self.hessian[1]
        return g, h, len(rows)

    def score(self, g, h):
        denominator = h + self.rules.l2_regularization
        total = 0.0
        for value in g:
            total += value * value
        return total / denominator if denominator > 0 else 0.0

    def gain(self, left, right, parent_score):
        """None where the split is not allowed."""
        g_left, h_left, n_left = self.sums(left)
        g_right, h_right, n_right = self.sums(right)
        if min(n_left, n_right) < self.rules.min_samples_leaf:
            return None
        if min(h_left, h_right) < self.rules.min_hessian_leaf:
            return None
        children = self.score(g_left, h_left) + self.score(g_right, h_right)
        gain = children - parent_score
        return gain if gain > self.rules.min_split_gain and gain > 1e-12 * children else None

    def goes_left(self, rows, feature, bin_, missing_left):
        codes = self.codes[rows, feature]
        return np.where(codes == self.n_bins[feature], missing_left, codes <= bin_)

    def best_split(self, node):
        rows = node.rows
        g, h, n = self.sums(rows)
        parent = self.score(g, h)
        best = None
        if node.depth >= self.rules.max_depth or n < 2 * self.rules.min_samples_leaf:
            return None
        for feature in range(self.codes.shape[1]):
            has_missing = bool((self.codes[rows, feature] == self.n_bins[feature]).any())
            for missing_left in (False, True) if has_missing else (False,):
                for bin_ in range(self.n_bins[feature]):
                    mask = self.goes_left(rows, feature, bin_, missing_left)
                    gain = self.gain(rows[mask], rows[~mask], parent)
                    if gain is not None and (best is None or gain > best[0]):
                        side = missing_left
                        if not has_missing:
                            side = 2 * mask.sum() >= n
                        best = (gain, feature, bin_, side)
        return best

    def grow(self):
        """Nodes in the order in which the kernels number them."""
        nodes = [Node(np.arange(self.exact_gradients.shape[1]), 0, 0)]
        nodes[0].split = self.best_split(nodes[0])
        pending = [nodes[0]] if nodes[0].split else []
        leaves = 1
        while pending:
            if self.rules.max_leaf_nodes:
                if leaves >= self.rules.max_leaf_nodes:
                    break
                best = max(pending, key=lambda node: (node.split[0], -node.number))
                batch = [best]
                pending.remove(best)
            else:
                batch, pending = pending, []
            born = []
            for node in batch:
                _, feature, bin_, missing_left = node.split
                mask = self.goes_left(node.rows, feature, bin_, missing_left)
                for side in (mask, ~mask):
                    child = Node(node.rows[side], node.depth + 1, len(nodes))
                    nodes.append(child)
                    node.children.append(child.number)
                    born.append(child)
                leaves += 1
            for child in born:
                child.split = self.best_split(child)
                if child.split:
                    pending.append(child)
        return nodes

    def leaf_value(self, rows):
        g = [math.fsum(target[rows]) for target in self.exact_gradients]
        h = len(rows) if self.exact_hessians is None else math.fsum(self.exact_hessians[rows])
        denominator = h + self.rules.l2_regularization
        return np.array([value / denominator if denominator > 0 else 0.0 for value in g])
