"""Shared parts of the exports to programming languages: the trees as arrays that a loop traverses, and safe text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._base.sums import Array
from ._view import Tree, View

# Bits of Program.what, below the number of the feature.
INNER, OTHER_SIDE, BY_SET, FEATURE_SHIFT = 1, 2, 4, 3
# Categories of a feature that a comment lists.
_SHOWN = 12
# The largest number of nodes: their indices have 32 bits.
MOST_NODES = 2**31


@dataclass(frozen=True, eq=False)
class Program:
    """The nodes of all trees, one tree after the other.

    The next node is `next`, or the one after it if a row goes right: if the number is above `number` (missing values:
    unless OTHER_SIDE is set), or if a category is not in the set (if it is, where OTHER_SIDE is set). A leaf has no
    bits in `what` and is its own next node, so that paths of different lengths can take the same number of steps.
    """

    number: Array
    """The threshold of an inner node or the start of its set; the value of a leaf or the start of its values."""
    what: NDArray[np.uint32]
    """The feature, and the bits INNER, OTHER_SIDE and BY_SET."""
    next: NDArray[np.uint32]
    count: Array
    """Training rows per node."""
    sets: NDArray[np.uint32]
    """Sets of categories: the number of words of 32 bits, then these, with one bit per category."""
    values: Array
    """(leaf, value), if leaves have several values; otherwise empty."""
    roots: NDArray[np.uint32]
    outputs: NDArray[np.uint32]
    """The first output that each tree adds to."""
    depths: NDArray[np.int64]

    @property
    def n_values(self) -> int:
        """Values per leaf."""
        return self.values.shape[1] if self.values.size else 1

    def digest(self) -> str:
        """A checksum of all trees."""
        whole = sha256()
        for array in (self.number, self.what, self.next, self.sets, self.values, self.outputs):
            whole.update(np.ascontiguousarray(array).tobytes())
        return whole.hexdigest()[:16]


def program(fitted: View) -> Program:
    """The trees of a model as arrays."""
    sizes = np.array([len(tree.feature) for tree in fitted.trees])
    if sizes.sum() >= MOST_NODES:
        raise ValueError(
            f"The model has {sizes.sum():,} nodes; exports to C and JavaScript support {MOST_NODES - 1:,}."
        )
    roots, sets, values = np.cumsum(sizes) - sizes, [], []
    parts: list[tuple[NDArray[Any], ...]] = []
    n_words = n_leaves = 0
    for tree, root in zip(fitted.trees, roots.tolist(), strict=True):
        number = np.where(tree.inner, tree.threshold, tree.value[:, 0])
        for node in sorted(tree.members):
            words = _words(tree.members[node])
            number[node] = n_words
            sets.append(words)
            n_words += len(words)
        if tree.value.shape[1] > 1:
            of_leaves = tree.value[~tree.inner]
            number[~tree.inner] = np.arange(n_leaves, n_leaves + len(of_leaves)) * tree.value.shape[1]
            values.append(of_leaves)
            n_leaves += len(of_leaves)
        left = np.where(tree.inner, np.minimum(tree.yes, tree.no), np.arange(len(tree.feature)))
        parts.append((number, _what(tree), left + root, tree.count))
    number, what, after, count = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return Program(
        number=number,
        what=what,
        next=after.astype(np.uint32),
        count=count.astype(np.float64),
        sets=np.concatenate(sets) if sets else np.zeros(0, dtype=np.uint32),
        values=np.concatenate(values) if values else np.zeros((0, 1)),
        roots=roots.astype(np.uint32),
        outputs=np.array([tree.first_output for tree in fitted.trees], dtype=np.uint32),
        depths=np.array([tree.depths().max() for tree in fitted.trees]),
    )


def _what(tree: Tree) -> NDArray[np.uint32]:
    by_set = np.zeros(len(tree.feature), dtype=bool)
    by_set[list(tree.members)] = True
    other_side = np.where(by_set, tree.yes > tree.no, tree.missing_yes)
    what = (tree.feature.astype(np.int64) << FEATURE_SHIFT) + INNER + OTHER_SIDE * other_side + BY_SET * by_set
    return np.where(tree.inner, what, 0).astype(np.uint32)


def _words(members: NDArray[np.intp]) -> NDArray[np.uint32]:
    """The number of words of a set, and its words."""
    n_words = int(members.max(initial=-1)) // 32 + 1
    bits = np.zeros(32 * n_words, dtype=np.uint8)
    bits[members] = 1
    return np.append(np.uint32(n_words), np.packbits(bits, bitorder="little").view("<u4")).astype(np.uint32)


def listed_values(fitted: View) -> dict[int, tuple[list[Any], float]]:
    """For features with a list of values, the values by code, and the code of all others: NaN if they are missing."""
    known = {f: (values, float(max(1, len(values)))) for f, values in fitted.categories.items()}
    return known | {f: (values, float("nan")) for f, values in fitted.ordered.items()}


def as_number(value: Any) -> float | None:
    """A category as a number; None if it is not one, or not exactly."""
    if isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)) and float(value) == value:
        return float(value)
    return None


def quoted(text: str) -> str:
    """Text as a string literal of JavaScript, which is also safe in comments of C and in a script of a page.

    Only ASCII characters are left, and none that could end a string, a comment or a script, or begin a trigraph.
    """
    plain = json.dumps(text)
    for character in "*?<>&$":
        plain = plain.replace(character, f"\\u{ord(character):04x}")
    return plain


def about(fitted: View, trees: Program) -> list[str]:
    """Lines that describe the model, for a comment."""
    lines = [
        f"agbm {version('agbm')}, {len(trees.roots):,} trees with {len(trees.number):,} nodes, checksum "
        f"{trees.digest()}, loss {quoted(repr(fitted.loss))[1:-1]}.",
        "Features, in the order of a row; NaN is a missing value:",
    ]
    lists = listed_values(fitted)
    for feature, name in enumerate(fitted.feature_names):
        codes = ""
        if feature in lists:
            values = lists[feature][0]
            shown = ", ".join(f"{quoted(str(value))} = {code}" for code, value in enumerate(values[:_SHOWN]))
            codes = f": {shown}{', ...' if len(values) > _SHOWN else ''}"
            codes += "; others are missing" if feature in fitted.ordered else f"; others = {max(1, len(values))}"
        lines.append(f"  {feature}  {quoted(name)}{codes}")
    if fitted.classes is not None:
        names = ", ".join(f"{quoted(str(label))} = {code}" for code, label in enumerate(fitted.classes.tolist()))
        lines.append(f"Classes: {names}")
    return lines
