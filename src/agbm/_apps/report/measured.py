"""How well intervals, sets of classes and distributions agree with the labels of test rows, which are read in parts."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.utils import _safe_indexing

from ..._base.sums import Array
from ..._data.tables import as_table
from ..._estimators.base import BaseAGBM
from ..._estimators.regressor import AGBMRegressor
from ..._labels.base import Numbers
from ..._losses import Loss, traits_of

# Intervals are predicted for each of 19 coverages, which takes milliseconds per row for some distributions, and so only
# for a sample of the rows.
COVERAGE_ROWS = 500

GROUPED_COVERAGE = 0.9
GROUPED_ROWS = 20_000
"""Rows of which coverage is measured by group."""


class GroupCoverage(NamedTuple):
    """How many labels of each group are within the intervals of the coverage GROUPED_COVERAGE; most rows first."""

    names: NDArray[Any]
    rows: NDArray[np.int64]
    inside: NDArray[np.int64]

    @classmethod
    def of(cls, groups: NDArray[Any], inside: NDArray[np.bool_]) -> GroupCoverage:
        """That of rows with their groups."""
        names, place = np.unique(groups, return_inverse=True)
        rows, found = np.bincount(place), np.bincount(place, inside).astype(np.int64)
        order = np.argsort(-rows, kind="stable")
        return cls(names[order], rows[order], found[order])

    def overall(self) -> tuple[float, float, float]:
        """The share of all labels, and its 95 % interval for a sample of whole groups; NaN for a single group."""
        n, n_groups = int(self.rows.sum()), len(self.rows)
        share = float(self.inside.sum()) / n
        if n_groups < 2:
            return share, math.nan, math.nan
        sums = self.inside - share * self.rows
        half = float(student.ppf(0.975, n_groups - 1)) * math.sqrt(n_groups / (n_groups - 1) * float(sums @ sums)) / n
        return share, max(0.0, share - half), min(1.0, share + half)


@dataclass(frozen=True)
class Measured:
    """The agreement of a model with test rows; None for quantities that the model does not have."""

    coverages: Array | None = None
    """For each nominal coverage, the share of labels that the intervals or sets contain."""
    n_covered: int = 0
    """The number of rows of which these are shares."""
    log_scores: Array | None = None
    """The negative logarithm of the predicted probability, or density, of each label."""
    transformed: Array | None = None
    """The probability integral transform of each label."""
    by_group: GroupCoverage | None = None


@dataclass
class Measuring:
    """The parts that were measured so far."""

    model: BaseAGBM
    y: NDArray[Any]
    groups: NDArray[Any] | None = None
    """The group of each row, if coverage is measured by group."""
    _chosen: NDArray[np.bool_] = field(init=False)
    _grouped: NDArray[np.bool_] = field(init=False)
    _inside: list[NDArray[np.bool_]] = field(default_factory=list)
    _shares: list[Array] = field(default_factory=list)
    _n_rows: list[int] = field(default_factory=list)
    _log_scores: list[Array] = field(default_factory=list)
    _transformed: list[Array] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chosen, self._grouped = np.zeros((2, len(self.y)), dtype=bool)
        if self.model.model_.calibration is not None:
            self._chosen[sample_of(len(self.y))] = True
        if self.groups is not None:
            self._grouped[sample_of(len(self.y), GROUPED_ROWS)] = True

    def add(self, table: Any, begin: int, offset: Array | None) -> None:
        """Measure the rows of a table, which begin at a position of the labels."""
        from ...plot._uncertainty import covered, places_of, transformed  # needs matplotlib

        part = slice(begin, begin + table.shape[0])
        if has_distribution(self.model.model_.loss, self.y):
            distribution, y = self.model.predict_dist(table, offset), np.asarray(self.y[part], dtype=np.float64)
            self._log_scores.append(log_scores(distribution, y))
            self._transformed.append(transformed(distribution, y, places_of(len(self.y))[part]))
        rows = np.flatnonzero(self._chosen[part])
        if len(rows):
            with _without_intervals(self._chosen):
                of_rows = None if offset is None else offset[rows]
                self._shares.append(covered(self.model, some_rows(table, rows), self.y[part][rows], of_rows))
                self._n_rows.append(len(rows))
        rows = np.flatnonzero(self._grouped[part])
        if len(rows):
            with _without_intervals(self._grouped):
                self._inside.append(self._are_inside(some_rows(table, rows), self.y[part][rows], offset, rows))

    def _are_inside(
        self, some: Any, y: NDArray[Any], offset: Array | None, rows: NDArray[np.intp]
    ) -> NDArray[np.bool_]:
        """Whether labels are within their intervals."""
        assert isinstance(self.model, AGBMRegressor)
        low, high = self.model.predict_interval(some, GROUPED_COVERAGE, None if offset is None else offset[rows]).T
        return np.asarray((low <= y) & (y <= high))

    def done(self) -> Measured:
        """All parts together."""
        known = bool(self._chosen.any())
        return Measured(
            np.average(self._shares, axis=0, weights=self._n_rows) if known else None,
            sum(self._n_rows) if known else 0,
            np.concatenate(self._log_scores) if self._log_scores else None,
            np.concatenate(self._transformed) if self._transformed else None,
            self._by_group(),
        )

    def _by_group(self) -> GroupCoverage | None:
        if self.groups is None or not self._grouped.any():
            return None
        return GroupCoverage.of(self.groups[self._grouped], np.concatenate(self._inside))


@contextmanager
def _without_intervals(chosen: NDArray[np.bool_]) -> Iterator[None]:
    """Choose no rows any more if they have no intervals: those of groups that calibrate has not seen."""
    with warnings.catch_warnings():  # of few calibration rows: the chart shows what follows from it
        warnings.filterwarnings("ignore", "coverage=", UserWarning)
        try:
            yield
        except ValueError:
            chosen[:] = False


def has_intervals(model: BaseAGBM) -> bool:
    """Whether a model has one interval per row."""
    labels = model.model_.labels
    has_one = isinstance(model, AGBMRegressor) and isinstance(labels, Numbers) and not labels.shape
    return has_one and model.model_.calibration is not None


def some_rows(table: Any, rows: NDArray[np.intp]) -> Any:
    """Some rows of a table of any kind."""
    return table[rows] if hasattr(table, "dtype") else _safe_indexing(as_table(table), rows)


def sample_of(n_rows: int, most: int = COVERAGE_ROWS) -> NDArray[np.intp]:
    """The rows whose coverage is measured: the same in every report of as many rows."""
    return np.random.default_rng(1).choice(n_rows, min(n_rows, most), replace=False)


def has_distribution(loss: Loss, y: NDArray[Any]) -> bool:
    """Whether the predictions of a loss are distributions of the labels: the Poisson loss also fits amounts."""
    traits = traits_of(loss)
    return traits.is_distribution and (traits.several or bool((np.floor(y) == y).all()))


def log_scores(distribution: Any, y: Array) -> Array:
    """The negative logarithm of the probability, or density, of each label."""
    log_probability = distribution.logpmf if hasattr(distribution, "logpmf") else distribution.logpdf
    return -np.asarray(log_probability(y))
