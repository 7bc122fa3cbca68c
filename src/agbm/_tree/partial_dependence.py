"""Partial dependence of a forest by one weighted walk down its trees, instead of a prediction per row and point."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .._base.sums import Array
from .forest import Forest

# How many numbers the widest level of the trees in a chunk may have, about.
CHUNK_NUMBERS = 4_000_000


def partial_dependence(forest: Forest, features: Sequence[int], grid: Array) -> Array:
    """The mean of the first function of a forest at points where only some features are known: (output, point).

    grid has the values (point, feature) of these features, with codes for categories and NaN for missing values. At a
    node that splits on another feature, both branches are taken, weighted by their shares of the training rows, as in
    Forest.contributions.
    """
    total = np.zeros((forest.n_outputs * forest.n_functions, len(grid)))
    widest = max(1, int(np.ceil(len(forest.nodes) / max(1, len(forest.roots)))))
    step = max(1, CHUNK_NUMBERS // (widest * max(1, len(grid))))
    for first in range(0, len(forest.roots), step):
        chunk = slice(first, first + step)
        _add_trees(total, forest, forest.roots[chunk], forest.first_column[chunk], features, grid)
    return total[:: forest.n_functions]


def _add_trees(
    total: Array, forest: Forest, node: NDArray[np.int32], column: NDArray[np.int32], features: Sequence[int],
    grid: Array,
) -> None:  # fmt: skip
    """Add the values of some trees, level by level; `weight` is the share of each node at each point."""
    weight = np.ones((len(node), len(grid)))
    while len(node):
        left = forest.nodes["left"][node]
        leaf = left < 0
        for first in np.unique(column[leaf]):
            here = leaf & (column == first)
            for k in range(forest.value.shape[1]):
                # Rows are added one after the other, which does not depend on threads as a matrix product would.
                total[first + k] += (forest.value[node[here], k][:, np.newaxis] * weight[here]).sum(axis=0)
        inner = ~leaf
        node, column, weight, left = node[inner], column[inner], weight[inner], left[inner]
        goes_left = _shares(forest, node, left, features, grid)
        node, column = np.concatenate([left, left + 1]), np.concatenate([column, column])
        weight = np.concatenate([weight * goes_left, weight * (1.0 - goes_left)])
        reached = weight.any(axis=1)
        node, column, weight = node[reached], column[reached], weight[reached]


def _shares(
    forest: Forest, node: NDArray[np.int32], left: NDArray[np.int32], features: Sequence[int], grid: Array
) -> Array:
    """The share of each inner node that goes left at each point: 0 or 1 if its feature is known."""
    count = forest.nodes["count"]
    both = count[left] + count[left + 1]
    share = np.where(both > 0, count[left] / np.maximum(both, 1), 0.5)
    shares = np.repeat(share[:, np.newaxis], len(grid), axis=1)
    for place, feature in enumerate(features):
        values = grid[:, place]
        of_feature = np.flatnonzero(forest.nodes["feature"][node] == feature)
        for i, record in zip(of_feature, forest.nodes[node[of_feature]], strict=True):
            shares[i] = _goes_left(forest, record, values)
    return shares


def _goes_left(forest: Forest, node: np.void, values: Array) -> NDArray[np.bool_]:
    """Whether each value of the feature of a node goes left."""
    missing, missing_left = np.isnan(values), bool(node["missing_left"])
    if node["categories"] < 0:
        return np.where(missing, missing_left, values <= node["threshold"])
    words = forest.category_words[slice(*forest.category_start[node["categories"] :][:2])]
    by_category = np.unpackbits(words.view(np.uint8), bitorder="little")
    known = ~missing & (values < len(by_category))
    found = np.full(len(values), missing_left)
    found[known] = by_category[values[known].astype(np.intp)]
    return found
