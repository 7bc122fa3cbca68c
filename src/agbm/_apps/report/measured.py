"""How well intervals, sets of classes and distributions agree with the labels of test rows, which are read in parts."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._base.sums import Array
from ..._estimators.base import BaseAGBM
from ..._losses import Loss, traits_of

# Intervals are predicted for each of 19 coverages, which takes milliseconds per row for some distributions, and so only
# for a sample of the rows.
COVERAGE_ROWS = 500


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


@dataclass
class Measuring:
    """The parts that were measured so far."""

    model: BaseAGBM
    y: NDArray[Any]
    _chosen: NDArray[np.bool_] = field(init=False)
    _shares: list[Array] = field(default_factory=list)
    _n_rows: list[int] = field(default_factory=list)
    _log_scores: list[Array] = field(default_factory=list)
    _transformed: list[Array] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chosen = np.zeros(len(self.y), dtype=bool)
        if self.model.model_.calibration is not None:
            self._chosen[sample_of(len(self.y))] = True

    def add(self, table: Any, begin: int, offset: Array | None) -> None:
        """Measure the rows of a table, which begin at a position of the labels."""
        from ...plot._uncertainty import covered, places_of, transformed  # needs matplotlib

        part = slice(begin, begin + table.shape[0])
        if has_distribution(self.model.model_.loss, self.y):
            distribution, y = self.model.predict_dist(table, offset), np.asarray(self.y[part], dtype=np.float64)
            self._log_scores.append(log_scores(distribution, y))
            self._transformed.append(transformed(distribution, y, places_of(len(self.y))[part]))
        rows = np.flatnonzero(self._chosen[part])
        if not len(rows):
            return
        some = table[rows] if hasattr(table, "dtype") else table.take(rows)
        with warnings.catch_warnings():  # of few calibration rows: the chart shows what follows from it
            warnings.filterwarnings("ignore", "coverage=", UserWarning)
            try:
                shares = covered(self.model, some, self.y[part][rows], None if offset is None else offset[rows])
            except ValueError:  # rows of groups that calibrate has not seen have no intervals
                self._chosen[:] = False
                return
        self._shares.append(shares)
        self._n_rows.append(len(rows))

    def done(self) -> Measured:
        """All parts together."""
        known = bool(self._chosen.any())
        return Measured(
            np.average(self._shares, axis=0, weights=self._n_rows) if known else None,
            sum(self._n_rows) if known else 0,
            np.concatenate(self._log_scores) if self._log_scores else None,
            np.concatenate(self._transformed) if self._transformed else None,
        )


def sample_of(n_rows: int) -> NDArray[np.intp]:
    """The rows whose coverage is measured: the same in every report of as many rows."""
    return np.random.default_rng(1).choice(n_rows, min(n_rows, COVERAGE_ROWS), replace=False)


def has_distribution(loss: Loss, y: NDArray[Any]) -> bool:
    """Whether the predictions of a loss are distributions of the labels: the Poisson loss also fits amounts."""
    traits = traits_of(loss)
    return traits.is_distribution and (traits.several or bool((np.floor(y) == y).all()))


def log_scores(distribution: Any, y: Array) -> Array:
    """The negative logarithm of the probability, or density, of each label."""
    log_probability = distribution.logpmf if hasattr(distribution, "logpmf") else distribution.logpdf
    return -np.asarray(log_probability(y))
