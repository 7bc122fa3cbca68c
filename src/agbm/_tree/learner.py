"""Histogram trees as a weak learner."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from .. import _native
from .._core.learners import DivergedError, Fit, Model, Newton, fit_of
from .._core.losses import Array
from .._core.weights import Weights
from .bins import Bins, LeafRows
from .forest import NODE, Forest, fold, one_output_each

_LARGEST = int(np.iinfo(np.int32).max)  # the largest number that the kernels accept; no tree reaches it
FIRST = np.zeros(1, dtype=np.int32)  # root and column of a single tree

# A sample with this expected number of rows is never empty in practice.
ROWS_WITHOUT_DOUBT = 64

_Grower = TypeVar("_Grower", _native.Grower, _native.RemoteGrower, _native.DeviceGrower)
F = TypeVar("F", bound=Sized)
"""The values of a function, like V in learners.py; their length is the number of outputs."""


@dataclass(frozen=True, eq=False)
class TreeLearner:
    """Regression trees: how data is binned, what is sampled, and when splitting stops."""

    max_depth: int | None = 6
    max_leaf_nodes: int | None = None
    min_samples_leaf: int = 20
    min_leaf_hessian: float = 0.0
    """Smallest sum of hessians in a leaf, for Newton fits."""
    l2_regularization: float | Sequence[float] = 0.0
    """One for each output, or one for all."""
    min_split_gain: float = 0.0
    max_bins: int = 255
    shared_structure: bool = False
    """Whether the two residuals of an accelerated iteration share one tree, with two values per leaf."""
    vector_leaves: bool = False
    """Whether all outputs share one tree, with one value per output in each leaf, instead of one tree per output."""
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
    seed: int = 0
    n_threads: int = 1

    @property
    def min_category_rows(self) -> int:
        """The number of rows that a category needs for a mean residual."""
        # The minimum of the kernels, but at least two: the residual of a single row would reveal its label.
        return max(2, min(10, self.min_samples_leaf))

    def bind(self, X: Any, n_train: int, weights: Weights | None, residual: Array) -> TreeFitter:
        """See Learner."""
        bins = self.bins_of(X[:n_train], weights, residual)
        leaf = self.leaf_rows(n_train, weights)
        return TableFitter(self, bins, bins.encode(X, self.n_threads, leaf), n_train, weights, X)

    def bins_of(self, X: Any, weights: Weights | None, residual: Array) -> Bins:
        """The bins of the training rows."""
        return Bins.from_data(
            X, self.max_bins, weights, self.n_categories, residual, self.min_category_rows, self.n_threads
        )

    def leaf_rows(self, n_train: int, weights: Weights | None) -> LeafRows:
        """The rows by which features are left out that cannot split them."""
        return LeafRows(min(self.min_samples_leaf, _LARGEST), n_train, None if weights is None else weights.repeats)

    def bind_codes(self, bins: Bins, matrix: _native.BinnedMatrix, n_train: int, weights: Weights | None) -> TreeFitter:
        """Like `bind`, for rows that are already binned."""
        return TreeFitter(self, bins, matrix, n_train, weights)

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
        """See Learner."""
        return fold([as_forest(model) for model in models], weights)


class Growers(Generic[_Grower]):
    """A grower for all outputs, or one for each distinct list of monotonic constraints."""

    def __init__(self, monotone: Sequence[tuple[int, ...]], make: Callable[[tuple[int, ...]], _Grower]) -> None:
        self._monotone = monotone or [()]
        self._made: dict[tuple[int, ...], _Grower] = {
            of_output: make(of_output) for of_output in dict.fromkeys(self._monotone)
        }

    def of(self, outputs: range) -> _Grower:
        """The grower of a tree for some outputs; if these are several, all have the same constraints."""
        return self._made[self._monotone[outputs.start if len(self._monotone) > 1 else 0]]


class TreesOfIterations(ABC, Generic[F]):
    """A Fitter of trees without the code for growing them, which depends on where the rows are."""

    def __init__(self, learner: TreeLearner, bins: Bins, n_train: int) -> None:
        self._learner = learner
        self._bins = bins
        self._n_train = n_train
        self._iteration = 0

    def skip(self) -> None:
        """See Fitter."""
        self._iteration += 1

    def fit(self, r: F, newton: Newton[F] | None) -> Fit[F]:
        """See Fitter."""
        return self._fit_all([r], newton, self._draw())[0]

    def fit_pair(self, r: F, c: F, newton: Newton[F] | None, *, second: bool) -> tuple[Fit[F], Fit[F] | None]:
        """See Fitter."""
        sample = self._draw()
        if self._learner.shared_structure:
            first, other = self._fit_all([r, c], newton, sample)
            return first, other
        first = self._fit_all([r], newton, sample)[0]
        return first, self._fit_all([c], newton, sample)[0] if second else None

    @abstractmethod
    def values(self, model: Model) -> Sequence[F]:
        """See Fitter."""

    def _draw(self) -> Sample:
        """The sample for the trees of this iteration. It depends only on the seed and the iteration."""
        sample = Sample(self._learner, self._n_train, self._bins.n_features, self._iteration)
        self._iteration += 1
        return sample

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
            "seed": sample.draw_seed(),
            "min_hessian_leaf": 0.0 if newton is None else self._learner.min_leaf_hessian,
            "l2_regularization": self._learner.l2_of(outputs),
        }


class TreeFitter(TreesOfIterations[Array]):
    """Trees bound to binned rows in memory."""

    def __init__(
        self, learner: TreeLearner, bins: Bins, matrix: _native.BinnedMatrix, n_train: int, weights: Weights | None
    ) -> None:
        super().__init__(learner, bins, n_train)
        self._matrix = matrix
        self._growers = learner.growers(_native.Grower, bins, matrix)
        self._weights = weights

    def with_learner(self, learner: TreeLearner) -> TreeFitter:
        """The same binned rows for another learner."""
        return TreeFitter(learner, self._bins, self._matrix, self._n_train, self._weights)

    def values(self, model: Model) -> Sequence[Array]:
        """See Fitter. The trees must have been grown with the same bins."""
        forest = as_forest(model)
        return list(forest.values_on(self._matrix, self._bins.left_codes(forest), self._learner.n_threads))

    def _grow(
        self, residuals: Sequence[Array], newton: Newton[Array] | None, outputs: range, sample: Sample
    ) -> tuple[Forest, Array]:
        try:
            records, left_codes, value, row_values = self._growers.of(outputs).grow(
                **weighted(residuals, newton, outputs, self._weights),
                rows=None if sample.rows is None else sample.rows.rows(0, self._n_train),
                **self._growth(newton, outputs, sample),
            )
        except OverflowError as error:
            raise DivergedError("a residual is not finite") from error
        return self._forest(records, left_codes, value, len(outputs), len(residuals)), row_values

    def _fits(
        self, model: Forest, values: Sequence[Array], newton: Newton[Array] | None, n_functions: int
    ) -> list[Fit[Array]]:
        n_train, n_threads = self._n_train, self._learner.n_threads
        if len(values) == n_functions == 1:  # the usual case; for small trees, the rest takes time
            return [fit_of(model, 0, values[0], n_train, newton, n_threads)]
        whole = by_function(values, n_functions)
        return [fit_of(model, j, whole[:, j], n_train, newton, n_threads) for j in range(n_functions)]


class TableFitter(TreeFitter):
    """Trees bound to the rows of a table."""

    def __init__(
        self, learner: TreeLearner, bins: Bins, matrix: _native.BinnedMatrix, n_train: int, weights: Weights | None,
        X: Any,
    ) -> None:  # fmt: skip
        super().__init__(learner, bins, matrix, n_train, weights)
        self._features: Callable[[], Any] = lambda: X

    def with_learner(self, learner: TreeLearner) -> TableFitter:
        """See TreeFitter."""
        return TableFitter(learner, self._bins, self._matrix, self._n_train, self._weights, self._features())

    def release(self, features: Callable[[], Any]) -> None:
        """Keep no reference to the features, which may be a copy; `features` makes them again when they are needed."""
        self._features = features

    def with_known_bins(self) -> TreeFitter:
        """A fitter whose known trees were grown with the same bins, so that it does not need the features."""
        return super().with_learner(self._learner)

    def leaves(self, forest: Forest) -> NDArray[np.int32]:
        """The index of the leaf of every row in each tree: (tree, row)."""
        return np.ascontiguousarray(forest.leaves(self._features(), self._learner.n_threads).T)

    def values(self, model: Model) -> Sequence[Array]:
        """See Fitter. Trees of an earlier run may have been grown with other bins."""
        return list(model.predict(self._features(), self._learner.n_threads))


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


class RowSample(NamedTuple):
    """A random sample of rows. Whether a row is in it depends only on the key and the number of the row."""

    key: int
    threshold: float

    def rows(self, first: int, n: int) -> NDArray[np.uint32]:
        """The sampled rows among n training rows; `first` is the number of the first of them among all."""
        return np.flatnonzero(self.draws(first, n) < self.threshold).astype(np.uint32)

    def draws(self, first: int, n: int) -> Array:
        """A random number between 0 and 1 for each of these rows."""
        numbers = np.arange(first, first + n, dtype=np.uint64) + np.uint64(self.key)
        return np.asarray((_mixed(numbers) >> np.uint64(11)) * 2.0**-53)


class Sample:
    """The row sample of one iteration, and the feature samples of its trees in their order."""

    def __init__(self, learner: TreeLearner, n_train: int, n_features: int, iteration: int) -> None:
        self._learner = learner
        self._n_features = n_features
        self._iteration = iteration
        self.rows: RowSample | None = None
        """None if all rows are used."""
        share = learner.subsample
        if share < 1.0:
            key = np.random.SeedSequence([learner.seed, iteration]).generate_state(1, np.uint64)
            self.rows = RowSample(int(key[0]), share)
            if share * n_train < ROWS_WITHOUT_DOUBT:  # make sure that there is at least one row
                smallest = float(self.rows.draws(0, n_train).min())
                self.rows = RowSample(self.rows.key, max(share, float(np.nextafter(smallest, 1.0))))

    @cached_property
    def _random(self) -> np.random.Generator:
        return np.random.default_rng([self._learner.seed, self._iteration])

    def draw_features(self) -> NDArray[np.uint8] | None:
        """Which features the next tree may use; None for all."""
        if self._learner.colsample_bytree >= 1.0:
            return None
        n = math.ceil(self._learner.colsample_bytree * self._n_features)  # rounded up: each of few features may matter
        chosen = np.zeros(self._n_features, dtype=np.uint8)
        chosen[self._random.choice(self._n_features, n, replace=False)] = 1
        return chosen

    def draw_seed(self) -> int:
        """The seed of the feature samples at the nodes of the next tree."""
        return int(self._random.integers(2**63)) if self._learner.colsample_bynode < 1.0 else 0


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A hash of each number: the finaliser of splitmix64, as in the kernels."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
