"""Histogram trees as a weak learner."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from .._base import _native
from .._base.sums import Array
from .._base.types import AnyArray, Matrix
from .._base.weights import Weights
from .._core.learners import DivergedError, Fit, Model, Newton, fit_of
from .._core.ring import RingPart
from .bins import NO_CATEGORIES, Bins, GroupedCategories, LeafRows, category_weight, sample_of
from .forest import NODE, Forest, fold, one_output_each
from .sampling import Sample, Shares

_LARGEST = int(np.iinfo(np.int32).max)  # the largest number that the kernels accept; no tree reaches it
FIRST = np.zeros(1, dtype=np.int32)  # root and column of a single tree

_Grower = TypeVar("_Grower", _native.Grower, _native.RemoteGrower, _native.DeviceGrower)
F = TypeVar("F", bound=Sized)
"""The values of a function, like V in learners.py; their length is the number of outputs."""


@dataclass(frozen=True, eq=False)
class TreeLearner:
    """Regression trees: how data is binned, what is sampled, and when splitting stops."""

    max_depth: int | None = 6
    max_leaf_nodes: int | None = None
    min_samples_leaf: int = 20
    min_hessian_leaf: float = 0.0
    """Smallest sum of hessians in a leaf, for Newton fits."""
    l1_regularization: float = 0.0
    l2_regularization: float | Sequence[float] = 0.0
    """One for each output, or one for all."""
    min_split_gain: float = 0.0
    max_bins: int = 255
    shared_structure: bool = False
    """Whether the two residuals of an accelerated iteration share one tree, with two values per leaf."""
    vector_leaves: bool = False
    """Whether all outputs share one tree, with one value per output in each leaf, instead of one tree per output."""
    sketched_outputs: int = 0
    """The number of outputs, drawn at random for each tree, that splits of trees with vector leaves are chosen by.

    0, and trees with monotonic constraints: all."""
    n_categories: NDArray[np.intp] | None = None
    """The number of categories of each feature, 0 for numeric features; None if all features are numeric."""
    monotone: Sequence[Sequence[int]] = ()
    """For each output, and for each feature 1 (increasing), -1 (decreasing) or 0; a single list is for all outputs.

    Empty if no feature is constrained."""
    interactions: Sequence[Sequence[int]] = ()
    """Groups of features that may appear together on a path; empty if there are no constraints."""
    subsample: float = 1.0
    colsample_bytree: float = 1.0
    colsample_bynode: float = 1.0
    n_seen: int | None = None
    """The number of features, from the first on, that trees may use; None for all."""
    seed: int = 0
    n_threads: int = 1

    @property
    def min_category_rows(self) -> int:
        """The number of rows that a category needs for a mean residual."""
        # The minimum of the kernels, but at least two: the residual of a single row would reveal its label.
        return max(2, min(10, self.min_samples_leaf))

    @property
    def shares(self) -> Shares:
        """What is drawn for every tree."""
        draws_in_trees = self.colsample_bynode < 1.0 or self.sketched_outputs > 0
        return Shares(self.subsample, self.colsample_bytree, draws_in_trees, self.seed)

    def bind(self, X: Matrix, n_train: int, weights: Weights | None, residual: Array) -> TreeFitter:
        return BinnedTable(self, X, n_train, weights).bind(self, RingPart(n_train), weights, residual)

    def leaf_rows(self, n_train: int, weights: Weights | None) -> LeafRows:
        """The rows by which features are left out that cannot split them."""
        return LeafRows(min(self.min_samples_leaf, _LARGEST), n_train, None if weights is None else weights.repeats)

    def growers(self, kind: type[_Grower], bins: Bins, matrix: _native.BinnedMatrix) -> Growers[_Grower]:
        """Native growers with these parameters."""
        return Growers([tuple(of_output) for of_output in self.monotone], lambda m: self._grower(kind, bins, matrix, m))

    def _grower(
        self, kind: type[_Grower], bins: Bins, matrix: _native.BinnedMatrix, monotone: Sequence[int]
    ) -> _Grower:
        return kind(
            matrix,
            bins.flat_thresholds,
            max_depth=_native.MAX_DEPTH if self.max_depth is None else min(self.max_depth, _native.MAX_DEPTH),
            max_leaf_nodes=min(self.max_leaf_nodes or 0, _LARGEST),
            min_samples_leaf=min(self.min_samples_leaf, _LARGEST),
            min_split_gain=self.min_split_gain,
            monotone=list(monotone),
            interactions=[list(group) for group in self.interactions],
            n_threads=self.n_threads,
        )

    def l2_of(self, outputs: range) -> list[float]:
        """The regularization of some outputs, a single number if it is the same for all."""
        given = self.l2_regularization
        return list(given[outputs.start : outputs.stop]) if isinstance(given, Sequence) else [given]

    def combine(self, models: Sequence[Model], weights: Sequence[Array]) -> Forest:
        return fold([as_forest(model) for model in models], weights)


class Growers(Generic[_Grower]):
    """Growers with the memory of growing trees, which members share that are not trained at the same time."""

    def __init__(self, monotone: Sequence[tuple[int, ...]], make: Callable[[tuple[int, ...]], _Grower]) -> None:
        """monotone: the constraints of each output, or those of all; none for no constraints."""
        self._monotone = monotone or [()]
        self._make: Callable[[tuple[int, ...]], _Grower] = make
        self._free: dict[tuple[int, ...], list[_Grower]] = {of_output: [] for of_output in self._monotone}

    @contextmanager
    def of(self, outputs: range) -> Iterator[_Grower]:
        """A grower of a tree for some outputs; if these are several, all have the same constraints."""
        monotone = self._monotone[outputs.start if len(self._monotone) > 1 else 0]
        free = self._free[monotone]
        try:
            grower = free.pop()
        except IndexError:
            grower = self._make(monotone)
        yield grower
        free.append(grower)  # not after an error, which may have left it in the middle of a tree


class CodedRows:
    """Rows as codes of bins, which members of a model share."""

    def __init__(self, bins: Bins, matrix: _native.BinnedMatrix, order: NDArray[np.intp] | None = None) -> None:
        """order: the numbers of the rows on the ring, see Ring; None if they are in the order of their numbers."""
        self.bins = bins
        self.matrix = matrix
        self.order = order
        self._growers: dict[Any, Growers[_native.Grower]] = {}

    def growers(self, learner: TreeLearner) -> Growers[_native.Grower]:
        """Growers with the parameters of a learner; the seed and the regularization are not among them."""
        rules = tuple(map(tuple, learner.monotone)), tuple(map(tuple, learner.interactions)), learner.n_threads
        limits = learner.max_depth, learner.max_leaf_nodes, learner.min_samples_leaf, learner.min_split_gain
        key = (*rules, *limits)
        if key not in self._growers:
            self._growers[key] = learner.growers(_native.Grower, self.bins, self.matrix)
        return self._growers[key]


class TableBins:
    """The bins of a table, which all members of a model share.

    Thresholds do not depend on labels, so they come from all rows, whoever holds them out. Of features with more
    categories than bins, categories share a bin because of their residuals: every member bins these features itself,
    from its own training rows, so that its validation loss does not depend on the labels of rows that it holds out.
    """

    def __init__(
        self, learner: TreeLearner, X: Matrix, n_given: int, weights: Weights | None,
        order: NDArray[np.intp] | None = None,
    ) -> None:  # fmt: skip
        """X has n_given rows that members train on or hold out, with these weights, and then others.

        order: that of the n_given rows on a ring, see Ring.
        """
        self._X = X
        self._order = order
        given = X if n_given == X.shape[0] else X[:n_given]
        totals = {f: category_weight(given[:, f], n, weights) for f, n in _category_counts(learner).items()}
        self.crowded = [f for f, total in totals.items() if np.count_nonzero(total) > learner.max_bins]
        """Features with more categories than bins; `shared` has no bins for them."""
        grouped = {
            f: NO_CATEGORIES if f in self.crowded else GroupedCategories.from_sums(total, None, learner.max_bins, 1)
            for f, total in totals.items()
        }
        sample = sample_of(n_given)
        self.shared = Bins.from_sample(given, sample, learner.max_bins, weights, grouped, learner.n_threads)

    def own_categories(
        self, learner: TreeLearner, part: RingPart, weights: Weights | None, residual: Array
    ) -> dict[int, GroupedCategories]:
        """The bins of the crowded features for a member, whose start function has this residual."""
        counts, order = _category_counts(learner), self._order
        train: Any = slice(part.n_train) if order is None else part.turned(order)[: part.n_train]
        rules = learner.max_bins, weights, residual, learner.min_category_rows
        return {f: GroupedCategories.from_data(self._X[train, f], counts[f], *rules) for f in self.crowded}


class BinnedTable:
    """A table that is binned once for all members of a model."""

    def __init__(
        self, learner: TreeLearner, X: Any, n_given: int, weights: Weights | None,
        order: NDArray[np.intp] | None = None,
    ) -> None:  # fmt: skip
        self._X = X
        self._bins = TableBins(learner, X, n_given, weights, order)
        leaf = learner.leaf_rows(n_given, weights if weights is None or order is None else weights[order])
        self._places: NDArray[np.uint32] | None = None
        if order is not None:
            rows = np.append(order, np.arange(n_given, X.shape[0]))
            if issparse(X):
                X = X.tocsr()[rows]
            else:
                self._places = np.empty(len(rows), dtype=np.uint32)
                self._places[rows] = np.arange(len(rows), dtype=np.uint32)
        bins, crowded = self._bins.shared, self._bins.crowded
        self._coded = CodedRows(bins, bins.encode(X, learner.n_threads, leaf, self._places, crowded), order)

    def bind(self, learner: TreeLearner, part: RingPart, weights: Weights | None, residual: Array) -> TableFitter:
        """A fitter for the rows of a member, whose start function has this residual; see Learner."""
        coded = self._coded
        if self._bins.crowded:
            grouped = self._bins.own_categories(learner, part, weights, residual)
            bins, matrix = coded.bins.with_own_categories(coded.matrix, grouped)
            for f in grouped:
                bins.fill_categories(matrix, f, self._X[:, f], self._places, learner.n_threads)
            coded = CodedRows(bins, matrix, coded.order)
        return TableFitter(learner, coded, part, weights, self._X)


def _category_counts(learner: TreeLearner) -> dict[int, int]:
    """The number of categories of each categorical feature."""
    counts = enumerate([] if learner.n_categories is None else learner.n_categories.tolist())
    return {f: n for f, n in counts if n > 0}


class TreesOfIterations(ABC, Generic[F]):
    """A Fitter of trees without the code for growing them, which depends on where the rows are."""

    def __init__(self, learner: TreeLearner, bins: Bins, part: RingPart, order: NDArray[np.intp] | None = None) -> None:
        """order: the numbers of the rows on the ring, see Ring; None if they are in the order of their numbers."""
        self._learner = learner
        self._bins = bins
        self._part = part
        self._order = order
        self._iteration = 0

    def skip(self) -> None:
        self._iteration += 1

    def fit(self, r: F, newton: Newton[F] | None) -> Fit[F]:
        return self._fit_all([r], newton, self._draw())[0]

    def fit_pair(self, r: F, c: F, newton: Newton[F] | None, *, second: bool) -> tuple[Fit[F], Fit[F] | None]:
        sample = self._draw()
        if self._learner.shared_structure:
            first, other = self._fit_all([r, c], newton, sample)
            return first, other
        first = self._fit_all([r], newton, sample)[0]
        return first, self._fit_all([c], newton, sample)[0] if second else None

    @abstractmethod
    def values(self, model: Model) -> Sequence[F]:
        """The values (output, row) of each function of a fitted model on the rows of the objective."""

    def _draw(self) -> Sample:
        """The sample for the trees of this iteration. It depends only on the seed and the iteration."""
        learner, n_features = self._learner, self._bins.n_features
        n_seen = n_features if learner.n_seen is None else learner.n_seen
        sample = Sample(learner.shares, self._part.n_train, n_features, n_seen, self._iteration)
        self._iteration += 1
        return sample

    def _sampled_rows(self, sample: Sample) -> NDArray[np.uint32] | None:
        """The rows of the matrix that are in a sample of the training rows; None for all."""
        if sample.rows is None:
            return None
        chosen = sample.rows.rows(0, self._part.n_train)  # by the order of their numbers
        if self._training_rows is None or self._order is None:
            return chosen
        among_all = np.zeros(len(self._order), dtype=bool)
        among_all[self._training_rows[chosen]] = True
        return np.flatnonzero(among_all).astype(np.uint32)

    @cached_property
    def _training_rows(self) -> NDArray[np.uint32] | None:
        """The rows of the matrix by the numbers of training rows; None if they are the same."""
        return None if self._order is None else self._part.training_rows(self._order)

    def _in_order(self, by_number: AnyArray) -> AnyArray:
        """Values (..., row) in the order of vectors, from those in the order of the table."""
        if self._order is None:
            return by_number
        everything = np.append(self._order, np.arange(len(self._order), by_number.shape[-1]))
        return by_number[..., self._part.turned(everything)]

    def _fit_all(self, residuals: Sequence[F], newton: Newton[F] | None, sample: Sample) -> list[Fit[F]]:
        """One function per residual, all with one structure: a tree with vector leaves, or one tree per output."""
        n_outputs = len(residuals[0])
        if self._learner.vector_leaves or n_outputs == 1:
            model, values = self._grow(residuals, newton, range(n_outputs), sample)
            return self._fits(model, [values], newton, len(residuals))
        grown = [self._grow(residuals, newton, range(k, k + 1), sample) for k in range(n_outputs)]
        trees, of_trees = [tree for tree, _ in grown], [values for _, values in grown]
        return self._fits(one_output_each(trees), of_trees, newton, len(residuals))

    @abstractmethod
    def _grow(
        self, residuals: Sequence[F], newton: Newton[F] | None, outputs: range, sample: Sample
    ) -> tuple[Forest, F]:
        """Grow a tree for some outputs of residuals (output, row).

        Returns the tree, with one function per residual, and its values (output and function, row) on all rows.
        """

    @abstractmethod
    def _fits(self, model: Forest, values: Sequence[F], newton: Newton[F] | None, n_functions: int) -> list[Fit[F]]:
        """The functions of a model, from the values of its trees as returned by _grow."""

    def _forest(
        self, records: NDArray[np.uint8], left_codes: NDArray[np.uint64], value: Array, n_outputs: int, n_functions: int
    ) -> Forest:
        """A tree from the arrays that a grower returns."""
        nodes = np.frombuffer(records, NODE)
        sets = self._bins.category_sets(nodes, left_codes)
        return Forest(self._bins.n_features, n_outputs, n_functions, FIRST, FIRST, nodes, *sets, value)

    def _growth(self, newton: Newton[F] | None, outputs: range, sample: Sample) -> dict[str, Any]:
        """The arguments of a grower for the next tree of some outputs, apart from residuals and hessians."""
        return {
            "features": sample.draw_features(),
            "node_share": self._learner.colsample_bynode,
            "n_outputs": self._learner.sketched_outputs,
            "seed": sample.draw_seed(),
            "min_hessian_leaf": 0.0 if newton is None else self._learner.min_hessian_leaf,
            "l1_regularization": self._learner.l1_regularization,
            "l2_regularization": self._learner.l2_of(outputs),
        }


class TreeFitter(TreesOfIterations[Array]):
    """Trees bound to binned rows in memory."""

    def __init__(self, learner: TreeLearner, coded: CodedRows, part: RingPart, weights: Weights | None) -> None:
        super().__init__(learner, coded.bins, part, coded.order)
        self._coded = coded
        self._weights = weights
        self._growers = coded.growers(learner)

    def with_learner(self, learner: TreeLearner) -> TreeFitter:
        """The same rows for another learner."""
        return TreeFitter(learner, self._coded, self._part, self._weights)

    def values(self, model: Model) -> Sequence[Array]:
        """The values of each function of trees that were grown with the same bins."""
        forest = as_forest(model)
        values = forest.values_on(self._coded.matrix, self._bins.left_codes(forest), self._learner.n_threads)
        return list(self._part.turned(values))

    def _grow(
        self, residuals: Sequence[Array], newton: Newton[Array] | None, outputs: range, sample: Sample
    ) -> tuple[Forest, Array]:
        try:
            with self._growers.of(outputs) as grower:
                records, left_codes, value, row_values = grower.grow(
                    **weighted(residuals, newton, outputs, self._weights),
                    rows=self._sampled_rows(sample),
                    ring=self._part.native,
                    **self._growth(newton, outputs, sample),
                )
        except OverflowError as error:
            raise DivergedError("a residual is not finite") from error
        return self._forest(records, left_codes, value, len(outputs), len(residuals)), row_values

    def _fits(
        self, model: Forest, values: Sequence[Array], newton: Newton[Array] | None, n_functions: int
    ) -> list[Fit[Array]]:
        n_train, n_threads = self._part.n_train, self._learner.n_threads
        if len(values) == n_functions == 1:  # the usual case; for small trees, the rest takes time
            return [fit_of(model, 0, values[0], n_train, newton, n_threads)]
        whole = by_function(values, n_functions)
        return [fit_of(model, j, whole[:, j], n_train, newton, n_threads) for j in range(n_functions)]


class TableFitter(TreeFitter):
    """Trees bound to the rows of a table."""

    def __init__(
        self, learner: TreeLearner, coded: CodedRows, part: RingPart, weights: Weights | None, X: Matrix
    ) -> None:
        """X has the rows in the order of their numbers."""
        super().__init__(learner, coded, part, weights)
        self._X = X

    def with_learner(self, learner: TreeLearner) -> TableFitter:
        return TableFitter(learner, self._coded, self._part, self._weights, self._X)

    def with_known_bins(self) -> TreeFitter:
        """A fitter whose known trees were grown with the same bins, so that it does not need the features."""
        return super().with_learner(self._learner)

    def leaves(self, forest: Forest) -> NDArray[np.int32]:
        """The index of the leaf of every row in each tree: (tree, row)."""
        found = forest.leaves(self._features(), self._learner.n_threads).T
        return np.ascontiguousarray(self._in_order(found))

    def values(self, model: Model) -> Sequence[Array]:
        """The values of each function; trees of an earlier run may have been grown with other bins."""
        return list(self._in_order(model.predict(self._features(), self._learner.n_threads)))

    def _features(self) -> Any:
        return self._X if issparse(self._X) else np.asarray(self._X)


def as_forest(model: Model) -> Forest:
    """A model of a TreeLearner, as a Forest."""
    assert isinstance(model, Forest)
    return model


def by_function(values: Sequence[Array], n_functions: int) -> Array:
    """Values (output, function, row) of some trees in order, each with one or more outputs of all functions."""
    parts = [v.reshape(len(v) // n_functions, n_functions, v.shape[-1]) for v in values]  # there may be no rows
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def weighted(
    residuals: Sequence[Array], newton: Newton[Array] | None, outputs: range, weights: Weights | None
) -> dict[str, Any]:
    """The arguments of a grower for some outputs: residuals and hessians times relative weights, and repetitions.

    A grower rounds the numbers of a row before it repeats them, so the tree is exactly the same as for repeated rows.
    """
    weighted_residuals = [r[k] for k in outputs for r in residuals]
    hessians = None if newton is None else newton.hessian
    if hessians is not None and len(outputs) < len(hessians):
        hessians = hessians[outputs.start : outputs.stop]
    distances = [] if newton is None or newton.distance is None else [newton.distance[k] for k in outputs]
    relative = None if weights is None else weights.relative
    if relative is not None:
        weighted_residuals = [r * relative for r in weighted_residuals]
        hessians = relative[np.newaxis] if hessians is None else hessians * relative
    return {
        "residuals": weighted_residuals,
        "hessians": hessians,
        "repeats": None if weights is None else weights.repeats,
        "distances": distances,
        "shares": [] if newton is None else [newton.shares[k] for k in outputs if newton.shares],
        "steps": None if relative is None or not distances else cast(Weights, weights).in_steps.astype(np.int64),
    }
