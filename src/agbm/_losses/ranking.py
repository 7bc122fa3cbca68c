"""Losses of rankings: the documents of a query are scored together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from .._base import _native
from .._base.collectives import anywhere, count
from .._base.sums import Array, ExactSum, exact_sum, rows_together, step_of_sums
from .base import JointLoss, Task, Traits

NO_CUT = 2**31
"""A cut after more positions than a query can have."""
BIAS_STEPS = 8
BIAS_RIDGE = 1.0
"""In queries: so many would have to show the opposite of a bias to undo it."""
MOST_LABELS = 3
"""How many arrays of labels a loss keeps prepared: for training rows, validation rows and those of `watch`."""


class _Derivatives(NamedTuple):
    """The derivatives at a function, which is kept so that its memory is not used for another one."""

    y: Array
    f: Array
    weight: Array | None
    residual: Array
    hessian: Array

    def are_of(self, y: Array, f: Array, weight: Array | None) -> bool:
        """Whether they are the derivatives of these rows: arrays of rows do not change while they exist."""
        known, asked = (self.y, self.f, self.weight), (y, f, weight)
        return all(_place(a) == _place(b) for a, b in zip(known, asked, strict=True))


def _place(array: Array | None) -> Any:
    if array is None:
        return None
    return array.__array_interface__["data"][0], array.shape, array.strides


class RankingLoss(JointLoss, family=True):
    """A loss of the documents of queries: labels are (relevance, number of the query), and maybe a position.

    The loss of a query is the term of its first row. The weights of the rows of a query are the same. With positions,
    clicks are explained by the score plus a bias per position, which is found again for each function.
    """

    tasks: ClassVar[tuple[Task, ...]] = ("ranking",)
    smoothness: float = np.inf
    _kernel: ClassVar[str]
    _of_pairs: ClassVar[bool] = False
    """Whether only queries with documents of different relevance count."""
    gain = "exponential"

    def __init__(self) -> None:
        self._last: _Derivatives | None = None
        self._labels: dict[Any, tuple[Array, _native.QueryLabels]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """The state without what is kept from call to call."""
        return {**vars(self), "_last": None, "_labels": {}}

    def __repr__(self) -> str:
        made_of = {name: value for name, value in vars(self).items() if name not in ("n_threads", "_last", "_labels")}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in made_of.items())})"

    @property
    def traits(self) -> Traits:
        """The documents of a query are scored together."""
        return Traits("relevances", rows="groups", intervals="none", lightgbm="lambdarank")

    @property
    def cut_of_metric(self) -> int:
        """The number of positions that the loss sees."""
        return NO_CUT

    @property
    def _truncation(self) -> int:
        """The better placed document of a pair must have one of so many positions."""
        return NO_CUT

    def check(self, y: Array) -> None:
        """There must be something to learn: documents of one query that differ in relevance."""
        if not anywhere(self._marks(y, pairs=True)):
            raise ValueError(
                f"y: no query has documents of different relevance (n_samples={count(y.shape[-1])}), so there is "
                "nothing to learn; qid or group must say which rows belong to the same query."
            )

    def value(self, y: Array, f: Array, weight: Array | None = None) -> Array:
        scores = rows_together(f.reshape(-1)) + self._biases(y, f, weight)
        out = _native.empty(scores.shape)
        with self._prepared(y) as labels:
            labels.value(scores, out, self.n_threads)
        return out

    def total_weight(self, y: Array, weight: Array | None) -> ExactSum:
        """The weight of the queries that count: those with relevant documents, or for pairs different ones."""
        total = exact_sum(self._marks(y, self._of_pairs), weight, self.n_threads)
        if not total.units and count(y.shape[-1]):
            what = "documents of different relevance" if self._of_pairs else "a relevant document"
            raise ValueError(
                f"y: no query has {what} among the rows that losses are computed for; with early stopping, pass "
                "other validation queries, or use a larger validation_fraction or early_stopping=False."
            )
        return total

    def negative_gradient(self, y: Array, f: Array, weight: Array | None = None) -> Array:
        return self._derivatives(y, f, weight).residual

    def hessian(self, y: Array, f: Array, weight: Array | None = None) -> Array:
        """The second derivatives: at least a sixth of the residual, which bounds Newton steps."""
        return self._derivatives(y, f, weight).hessian

    def best_constant(self, y: Array, weight: Array | None) -> Array:
        """Zero: a constant changes no ranking."""
        return np.zeros(1)

    def link(self, prediction: Array) -> Array:
        """Scores are predicted as they are."""
        return prediction

    def inverse_link(self, f: Array) -> Array:
        """Scores are predicted as they are."""
        return f

    def _derivatives(self, y: Array, f: Array, weight: Array | None) -> _Derivatives:
        """Residual and hessian, which one pass over the pairs gives; an iteration asks for one after the other."""
        if self._last is None or not self._last.are_of(y, f, weight):
            scores = rows_together(f.reshape(-1)) + self._biases(y, f, weight)
            residual, hessian = _native.empty(scores.shape), _native.empty(scores.shape)
            with self._prepared(y) as labels:
                labels.derivatives(scores, residual, hessian, self.n_threads)
            self._last = _Derivatives(y, f, weight, residual.reshape(f.shape), hessian.reshape(f.shape))
        return self._last

    @contextmanager
    def _prepared(self, y: Array) -> Iterator[_native.QueryLabels]:
        """The labels as kernels need them, kept for the next call; no two threads use them at the same time."""
        place = _place(y)
        known = self._labels.pop(place, None)
        labels = self._prepare(y) if known is None else known[1]
        yield labels
        if len(self._labels) >= MOST_LABELS:
            self._labels.clear()
        self._labels[place] = y, labels

    def _prepare(self, y: Array) -> _native.QueryLabels:
        return _native.QueryLabels(
            self._kernel, self.cut_of_metric, self._truncation, self.gain == "exponential", rows_together(y[0]),
            rows_together(y[1]),
        )  # fmt: skip

    def _biases(self, y: Array, f: Array, weight: Array | None) -> Array | float:
        return position_biases(y, f.reshape(-1), weight, self.n_threads) if len(y) > 2 else 0.0

    def _marks(self, y: Array, pairs: bool) -> Array:
        out = np.empty(y.shape[-1])
        _native.ranking_marks(pairs, rows_together(y[0]), rows_together(y[1]), out)
        return out


class _WithGain(RankingLoss, family=True):
    """A loss that depends on how much a relevant document gains."""

    def __init__(self, gain: str) -> None:
        super().__init__()
        if gain not in ("exponential", "linear"):
            raise ValueError(f"gain={gain!r} must be 'exponential' (2^relevance - 1) or 'linear' (the relevance).")
        self.gain = gain


class LambdaRank(_WithGain):
    """LambdaMART (Burges 2010): pairs of documents count by how much a metric changes if they are exchanged.

    `metric` is "ndcg", "map" or "mrr"; the last two see relevances as zero or positive. `cut` is the number of first
    positions that the metric sees; None: all. `gain` is that of NDCG: "exponential" (2^relevance - 1) or "linear". The
    loss is 1 - metric, the mean over queries with relevant documents, with ties averaged over their orders. Its
    gradient is that of the logistic losses of the pairs, whose better placed document is among the first positions; it
    is not the gradient of a fixed function.
    """

    names: ClassVar[tuple[str, ...]] = ("ndcg", "ndcg:10", "map", "mrr")
    least_truncation: ClassVar[int] = 30

    def __init__(self, metric: str = "ndcg", cut: int | None = None, gain: str = "exponential") -> None:
        super().__init__(gain)
        if metric not in ("ndcg", "map", "mrr"):
            raise ValueError(f"metric={metric!r} must be 'ndcg', 'map' or 'mrr'.")
        if cut is not None and (isinstance(cut, bool) or not isinstance(cut, int | np.integer) or not 0 < cut < NO_CUT):
            raise ValueError(f"cut={cut!r} must be a positive integer, or None for all positions.")
        self.metric = metric
        self.cut = None if cut is None else int(cut)

    @property
    def traits(self) -> Traits:
        """Those of all rankings."""
        return replace(
            super().traits, shown_as=f"1 - {self.metric.upper()}" + ("" if self.cut is None else f"@{self.cut}")
        )

    @classmethod
    def named(cls, name: str) -> Self:
        """The loss of a metric such as "map", with a number of positions after a colon."""
        metric, colon, cut = name.partition(":")
        if not colon:
            return cls(metric)
        if not cut.isascii() or not cut.isdigit() or int(cut) == 0:
            raise ValueError(f"loss={name!r} needs a number of positions after the colon, as in 'ndcg:10'.")
        return cls(metric, int(cut))

    @property
    def _kernel(self) -> str:  # type: ignore[override]
        return self.metric

    @property
    def cut_of_metric(self) -> int:
        return NO_CUT if self.cut is None else self.cut

    @property
    def _truncation(self) -> int:
        return NO_CUT if self.cut is None else max(self.cut, self.least_truncation)


class _Convex(RankingLoss, family=True):
    """A convex loss of one number per query."""

    smoothness = 0.5


class ListwiseCrossEntropy(_Convex, _WithGain):
    """The cross entropy of the softmax of the scores of a query, where a document has the share of its gain.

    It is convex, and its time and memory grow with the number of documents only. `gain` is "exponential"
    (2^relevance - 1) or "linear" (the relevance).
    """

    names: ClassVar[tuple[str, ...]] = ("listwise",)
    _kernel = "listwise"

    def __init__(self, gain: str = "exponential") -> None:
        super().__init__(gain)


class PairwiseLogistic(_Convex):
    """The mean logistic loss of all pairs of documents of a query with different relevance (RankNet).

    It is convex. Its time grows with the square of the number of documents of a query.
    """

    names: ClassVar[tuple[str, ...]] = ("pairwise",)
    _kernel = "pairwise"
    _of_pairs = True


def position_biases(y: Array, f: Array, weight: Array | None, n_threads: int) -> Array:
    """For each row, the bias of the position that its document had when clicks were collected.

    The biases minimise the pairwise logistic loss of f + bias, with a ridge penalty, by Newton steps from zero: what
    scores do not explain of the clicks, but positions do. They depend on the function alone, so that a run that is
    resumed needs no other state.
    """
    labels = _native.QueryLabels("pairwise", NO_CUT, NO_CUT, True, rows_together(y[0]), rows_together(y[1]))
    f = rows_together(f)
    positions, place = np.unique(y[2], return_inverse=True)
    bias = np.zeros(len(positions))
    pull, curvature = np.empty(f.shape), np.empty(f.shape)
    for _ in range(BIAS_STEPS):
        labels.derivatives(f + bias[place], pull, curvature, n_threads)
        slope = sums_of_groups(pull, weight, place, len(bias))
        steepness = sums_of_groups(curvature, weight, place, len(bias))
        bias += (slope - BIAS_RIDGE * bias) / (
            2.0 * steepness + BIAS_RIDGE
        )  # all biases move at once: twice the curvature
    return np.asarray(bias[place])


def sums_of_groups(x: Array, weight: Array | None, group: NDArray[np.intp], n_groups: int) -> Array:
    """Sums over groups of rows, with the same bits for any order of the rows."""
    terms = x if weight is None else x * weight
    step = step_of_sums(float(exact_sum(np.abs(terms))))
    return np.asarray(np.bincount(group, np.rint(terms / step), n_groups) * step)
