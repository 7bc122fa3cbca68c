"""The passes over the features of blocks: a sample and the categories, sums per category, bins.

Results that are added up over blocks are sums of integers (see sums.py), so the model has the same bits for every
partition of the rows into blocks. Functions that passes call, their arguments and their results are small and can be
pickled, since blocks may be in other processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import _safe_indexing, check_array

from ..._base import _native
from ..._base.sums import Array
from ..._base.types import AnyArray
from ..._base.weights import Weights, joined
from ..._core.objective import start_residual
from ..._tree.bins import NO_CATEGORIES, Bins, GroupedCategories, means_of, residual_parts, sample_of
from .. import derivation as columns
from ..derivation import NO_DERIVATION, Derivation
from ..digest import RowDigest, taken, vectors_of
from ..profile import Counts
from ..rows import plain
from ..tables import Categories, as_table, by_weight, categorical_mask, category_sums, named_mask, needs_reading
from ..tables import missing_columns as missing_columns_of
from .block import Block, n_rows_of
from .labelled import Labelled, LocalLabelled, RowsHere
from .places import UNUSED
from .sources import WithValidation

NUMBERS = {"dtype": [np.float64, np.float32], "ensure_all_finite": False}


@dataclass(frozen=True, eq=False)
class Looked:
    """The result of the first pass over all blocks."""

    categories: Categories
    category_weight: dict[int, Array]
    """Weights of the categories in the training rows, by code."""
    sampled_categories: dict[int, Counts]
    """Rows of the sample by code; unknown categories, which an earlier fit does not have, follow the last one."""
    sample: AnyArray
    """Training rows that thresholds are computed from, in the order of the matrix."""
    sample_weights: Weights | None


@dataclass
class BlockTable:
    """Blocks whose rows are divided into training and validation rows."""

    labelled: Labelled
    n_train: list[int]
    """Number of training rows per process."""

    def look(
        self, categorical_features: object, step: float, known: Categories | None = None,
        derivation: Derivation = NO_DERIVATION,
    ) -> Looked:  # fmt: skip
        """Pass 1. `step` is that of the weights of the training rows; `known` comes from an earlier fit."""
        features = categorical_features if known is None else sorted(known.of)
        exactly = known is not None
        looks: list[Look] = self.labelled.over(look, look_at, features, exactly, derivation, each=self._sampled())
        given = looks[: self._n_given_blocks]  # validation rows do not define categories
        sums = merged([found.sums for found in given])
        if known is None:
            numbers = self._numbers_after_all(given)
            sums = {f: of_value for f, of_value in sums.items() if f not in numbers}
            known = Categories({f: by_weight({v: total for v, (total, *_) in sums[f].items()}) for f in sums})
        category_weight = {f: _by_number(known.of[f], sums.get(f, {})) * step for f in known.of}
        sampled = {f: _sampled_by_number(known.of[f], sums.get(f, {})) for f in known.of}
        weights = [found.weights for found in looks if found.weights is not None]
        sample = np.concatenate([found.sample for found in looks])
        return Looked(known, category_weight, sampled, sample, joined(weights) if weights else None)

    def _sampled(self) -> list[NDArray[np.intp] | None]:
        """For each process, the ranks of its training rows that thresholds are computed from; None for all."""
        chosen, ends = sample_of(sum(self.n_train)), np.cumsum(self.n_train)
        if chosen is None:
            return [None] * len(ends)
        parts = np.split(chosen, np.searchsorted(chosen, ends[:-1]))
        return [part - first for part, first in zip(parts, np.append(0, ends[:-1]), strict=True)]

    @property
    def _n_given_blocks(self) -> int:
        """Number of blocks that do not come from X_val."""
        blocks = self.labelled.blocks
        return blocks.n_training if isinstance(blocks, WithValidation) else len(self.labelled.n_rows)

    def _numbers_after_all(self, looks: Sequence[Look]) -> set[int]:
        """Numeric features that look categorical in blocks where all of their values are missing.

        A feature must be categorical in all blocks or in none, except for blocks where all of its values are missing.
        """
        masks = np.array([found.categorical for found in looks if found.n_rows > 0])
        mixed = np.flatnonzero(masks.any(axis=0) & ~masks.all(axis=0)).tolist()
        if not mixed:
            return set()
        blocks = self.labelled.blocks
        empty = blocks.map(missing_columns, [(mixed,) for _ in self.labelled.n_rows])
        full = [(i, found) for i, found in enumerate(looks) if found.n_rows > 0]
        after_all = {f for f in mixed if all(f in empty[i] for i, found in full if found.categorical[f])}
        for i, found in full:
            numbers = [f for f in mixed if f not in after_all and not found.categorical[f] and f not in empty[i]]
            if numbers:
                raise ValueError(
                    f"{blocks.noun} {i}: column {numbers[0]} of X has numbers, but other {blocks.noun}s have "
                    "text or categories; use one type for all, or name the column in categorical_features."
                )
        return after_all

    def own_categories(
        self, looked: Looked, crowded: Sequence[int], max_bins: int, min_rows: int
    ) -> dict[int, GroupedCategories]:
        """The bins of features with more categories than bins, from the training rows, whose objective is known."""
        if not crowded:
            return {}
        labelled, (steps, *_) = self.labelled.step(with_residuals)
        found = labelled.over(residual_sums, residuals_of, looked.categories, crowded)
        grouped = {}
        for f in crowded:
            n = len(looked.category_weight[f])
            total, *sums = (np.sum([of[f][k][:n] for of in found if of[f]], axis=0) for k in range(len(steps)))
            mean = means_of(sums, steps[1:], total * steps[0])
            grouped[f] = GroupedCategories.from_sums(total * steps[0], mean, max_bins, min_rows)
        return grouped

    def encode(
        self, reader: BlockReader, folder: str, digest: RowDigest | None, n_threads: int, without: Sequence[int]
    ) -> _native.BinnedMatrix:
        """Pass 2, with blocks and matrix on this machine; the matrix is in files if a folder is given.

        All rows are added to the digest, if there is one. Features of `without` get no codes.
        """
        rows = cast(LocalLabelled, self.labelled).here.rows
        matrix = reader.bins.matrix(rows.n, folder, without)
        vectors = [] if digest is None else vectors_of(rows, digest.shape)

        def fill(block: Block, places: NDArray[np.uint32], first: int) -> None:
            used = places[places != UNUSED]
            X = reader.numbers(block, places != UNUSED)
            if len(used) > 0:
                reader.bins.fill(matrix, X, used, n_threads, without)
            if digest is not None and len(used) > 0:
                digest.add(first, X, taken(vectors, used), n_threads)

        self.labelled.over(fill, numbered_places)
        return matrix

    def encode_categories(
        self, reader: BlockReader, matrix: _native.BinnedMatrix, features: Sequence[int], n_threads: int
    ) -> None:
        """A further pass that fills some categorical features of a matrix."""

        def fill(block: Block, places: NDArray[np.uint32]) -> None:
            used = places != UNUSED
            X = reader.numbers(block, used)
            for f in features if len(X) > 0 else ():
                reader.bins.fill_categories(matrix, f, X[:, f], places[used], n_threads)

        self.labelled.over(fill, places_of)


def bins_of_all(looked: Looked, max_bins: int, n_threads: int) -> tuple[Bins, list[int]]:
    """Thresholds and bins of categories from all rows, and the features with more categories than bins.

    The latter have no bins yet.
    """
    weight = looked.category_weight
    crowded = [f for f, total in weight.items() if np.count_nonzero(total) > max_bins]
    grouped = {
        f: NO_CATEGORIES if f in crowded else GroupedCategories.from_sums(total, None, max_bins, 1)
        for f, total in weight.items()
    }
    return Bins.from_sample(looked.sample, None, max_bins, looked.sample_weights, grouped, n_threads), crowded


def places_of(here: RowsHere) -> list[tuple[NDArray[np.uint32]]]:
    """For each block, the places of its rows in the matrix."""
    return [(places,) for places in here.places.of_blocks()]


def numbered_places(here: RowsHere) -> list[tuple[NDArray[np.uint32], int]]:
    """For each block, the places of its rows in the matrix, and the number of used rows in the blocks before it."""
    places = here.places.of_blocks()
    n_used = [np.count_nonzero(of_block != UNUSED) for of_block in places]
    return list(zip(places, (np.cumsum(n_used) - n_used).tolist(), strict=True))


def look_at(here: RowsHere, ranks: NDArray[np.intp] | None) -> list[tuple[Any, ...]]:
    """The arguments of `look` for each block: its rows in the sample and their weights, and weights of all its rows.

    The last of these weights are 1 in the sample and 0 elsewhere.
    """
    places, weights = here.places, here.train_weights
    some = places.of_training_rows(np.arange(here.n_train) if ranks is None else ranks)
    of_some = weights if weights is None or ranks is None else weights[ranks]
    ends = np.cumsum([len(rows) for rows in some])
    of_block = [
        None if of_some is None else of_some[end - len(rows) : end] for rows, end in zip(some, ends, strict=True)
    ]
    whole = places.training_rows(None if weights is None else weights.in_steps)
    in_sample = [_mask(rows, n) for rows, n in zip(some, here.n_rows, strict=True)]
    return list(zip(some, of_block, zip(here.whole_weights(), whole, in_sample, strict=True), strict=True))


def _mask(rows: NDArray[np.intp], n_rows: int) -> NDArray[np.bool_]:
    mask = np.zeros(n_rows, dtype=bool)
    mask[rows] = True
    return mask


def with_residuals(here: RowsHere) -> tuple[RowsHere, list[float]]:
    """A step: what rows contribute to the weights and to the residual sums of categories, and the units of both."""
    assert here.objective is not None
    weights = here.objective.train_weights
    parts, steps = residual_parts(start_residual(here.objective), weights)
    whole, step = (np.ones(here.n_train), 1.0) if weights is None else (weights.in_steps, weights.step)
    return replace(here, residuals=[whole, *parts]), [step, *steps]


def residuals_of(here: RowsHere) -> list[tuple[list[Array]]]:
    """The arguments of `residual_sums` for each block: what its rows contribute."""
    by_block = [here.places.training_rows(part) for part in here.residuals]
    return [([part[i] for part in by_block],) for i in range(len(here.n_rows))]


class Look(NamedTuple):
    """The result of the first pass over a block."""

    n_rows: int
    categorical: NDArray[np.bool_]
    sums: dict[int, dict[Any, list[float]]]
    """Per categorical feature and category: the weights of all rows and of the training rows, in steps, and the number
    of rows in the sample."""
    sample: AnyArray
    weights: Weights | None
    """The weights of the sample."""


def look(
    block: Block,
    sample: NDArray[np.intp],
    of_sample: Weights | None,
    weights: tuple[AnyArray, AnyArray, AnyArray],
    categorical_features: object,
    exactly: bool,
    derivation: Derivation,
) -> Look:
    """Pass 1: a sample of a block for thresholds, and the weights of its categories in all and in training rows.

    With `exactly`, no other features are categorical than those named.
    """
    table = as_table(block.X)
    n_rows = n_rows_of(table)
    taken = np.empty((0, table.shape[1] + len(derivation.parts)), dtype=np.float32)
    if n_rows == 0:
        return Look(0, np.zeros(0, dtype=bool), {}, taken, of_sample)
    categorical = derivation.others((named_mask if exactly else categorical_mask)(table, categorical_features))
    sums = category_sums(table, categorical, weights) if categorical.any() else {}
    if len(sample) > 0:
        taken = _numbers(_safe_indexing(table, sample), derivation, Categories({f: [] for f in sums}))
    return Look(n_rows, categorical, sums, taken, of_sample)


def _numbers(table: Any, derivation: Derivation, categories: Categories) -> AnyArray:
    if issparse(table):
        return np.asarray(table.toarray())
    if not categories.of and not derivation and not needs_reading(table):
        return np.asarray(check_array(table, **NUMBERS))
    return np.asarray(categories.encode(table, derivation.apply(table)))


def look_at_columns(block: Block, weights: AnyArray | None) -> columns.Look:
    """The columns of a block that are not numeric; rows of weight zero do not count."""
    return columns.look(as_table(block.X), weights)


def missing_columns(block: Block, features: Sequence[int]) -> list[int]:
    """Which of the given features have only missing values in a block."""
    return missing_columns_of(as_table(block.X), features)


def residual_sums(
    block: Block, parts: Sequence[Array], categories: Categories, features: Sequence[int]
) -> dict[int, list[Array]]:
    """For features with more categories than bins: sums over the training rows of a block, per category."""
    sums = {}
    for f in features:
        n = len(categories.of[f])
        sums[f] = [np.zeros(n) for _ in parts]
        if n_rows_of(block.X) > 0:
            codes = categories.codes(as_table(block.X), f)
            present = codes < n  # false for missing values and unknown categories
            numbers = codes[present].astype(np.intp)
            sums[f] = [np.asarray(np.bincount(numbers, part[present], n), dtype=np.float64) for part in parts]
    return sums


def merged(parts: Sequence[dict[int, dict[Any, list[float]]]]) -> dict[int, dict[Any, list[float]]]:
    """Sums per category over all blocks. Integers become floats if some blocks have them as floats."""
    total: dict[int, dict[Any, list[float]]] = {}
    for f in sorted({f for part in parts for f in part}):
        kinds = [{type(value) for value in part[f]} for part in parts if part.get(f)]
        mixed = {int} in kinds and {float} in kinds
        of_value = total.setdefault(f, {})
        for part in parts:
            for value, sums in part.get(f, {}).items():
                known = of_value.setdefault(float(value) if mixed else value, [0.0] * len(sums))
                of_value[value] = [a + b for a, b in zip(known, sums, strict=True)]
    return total


def _by_number(categories: Sequence[Any], sums: dict[Any, list[float]]) -> Array:
    """Weights of categories in the training rows, by code; at least one, since that of unknown ones follows."""
    return np.array([sums.get(category, (0.0, 0.0))[1] for category in categories] or [0.0])


def _sampled_by_number(categories: Sequence[Any], sums: dict[Any, list[float]]) -> Counts:
    """Rows of categories in the sample, by code, and of all others."""
    found = np.array([sums.get(category, (0.0,))[-1] for category in categories], dtype=np.int64)
    total = sum(of_category[-1] for of_category in sums.values())
    return np.append(found, int(total) - found.sum())


@dataclass(frozen=True, eq=False)
class BlockReader:
    """Pass 2: from blocks to codes of bins. It can be pickled."""

    check: Callable[[Any], Any]
    """The estimator's check of tables, which returns a matrix of numbers."""
    bins: Bins

    def numbers(self, block: Block, used: NDArray[np.bool_]) -> AnyArray:
        """The used rows of a block as numbers."""
        if n_rows_of(block.X) == 0:
            return np.empty((0, self.bins.n_features))
        checked = self.check(block.X)
        rows = checked if used.all() else checked[used]
        return np.asarray(plain(rows.toarray() if issparse(rows) else rows))
