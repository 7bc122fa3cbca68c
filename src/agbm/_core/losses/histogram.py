"""A distribution without a form of its own: the probabilities of bins of the label."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np

from ..sums import Array
from ..together import largest, smallest
from .best_constants import quantiles_of, weight_in_steps
from .classification import Multinomial
from .distributions import DistributionLoss
from .elementary import log
from .frozen import Binned

MOST_BINS = 1_000


class HistogramDistribution(DistributionLoss):
    """The label is in one of several bins, in each of which all values are equally probable.

    It can have any form, such as two peaks. The scores are the logarithms of the probabilities of the bins, up to a
    constant, as those of classes are. `bins` is a number of bins, which fit makes of the training labels, such that all
    have about as many; or a list of their edges in ascending order. Labels outside are counted in the outermost bins.
    """

    _kernel = "multinomial"
    min_leaf_hessian = Multinomial.min_leaf_hessian
    learns_from_labels = True

    def __init__(self, bins: int | Sequence[float] = 20) -> None:
        self.bins: Any = _checked(bins)

    @property
    def mean_signs(self) -> tuple[int, ...]:  # type: ignore[override]
        """The mean has no fixed direction in any score."""
        return (0,) * (self.bins if isinstance(self.bins, int) else len(self.bins) - 1)

    def learned_from(self, y: Array, weight: Array | None) -> Self:
        """The loss with the edges of bins of these labels."""
        if not isinstance(self.bins, int):
            return self
        y, steps = y.ravel(), weight_in_steps(weight)
        inner = quantiles_of(y, [k / self.bins for k in range(1, self.bins)], steps)
        edges = sorted({smallest(y), *inner, largest(y)})
        if len(edges) < 3:
            raise ValueError(f"y has too few values for bins: {edges}; use another loss, or pass edges as bins=[...].")
        return type(self)(edges).with_threads(self.n_threads)

    @property
    def row_kernel(self) -> None:
        """None, since labels are not codes of bins."""

    @cached_property
    def _edges(self) -> Array:
        return np.array(self.bins, dtype=np.float64)

    @property
    def _classes(self) -> Multinomial:
        return Multinomial(len(self.bins) - 1).with_threads(self.n_threads)

    def _codes(self, y: Array) -> Array:
        """The bin of each label."""
        return np.searchsorted(self._edges[1:-1], y, side="right").astype(np.float64)

    def __getstate__(self) -> dict[str, Any]:
        """The state without what follows from it."""
        return {name: value for name, value in vars(self).items() if name != "_edges"}

    def __repr__(self) -> str:
        return f"HistogramDistribution(bins={self.bins!r})"

    def check(self, y: Array) -> None:
        """All numbers are allowed."""

    def value(self, y: Array, f: Array) -> Array:
        """See BuiltInLoss."""
        codes = self._codes(y)
        return np.asarray(self._classes.value(codes, f) + log(np.diff(self._edges))[codes.astype(np.intp)])

    def negative_gradient(self, y: Array, f: Array) -> Array:
        """See BuiltInLoss."""
        return self._classes.negative_gradient(self._codes(y), f)

    def hessian(self, y: Array, f: Array, weight: Array | None = None) -> Array:
        """See BuiltInLoss."""
        return self._classes.hessian(self._codes(y), f)

    def best_constants(self, y: Array, weight: Array | None, offset: Array | None) -> Array:
        """See DistributionLoss. Without offsets, they have a closed form."""
        return self.moments(y, weight) if offset is None else super().best_constants(y, weight, offset)

    def moments(self, y: Array, weight: Array | None) -> Array:
        """The logarithms of the shares of the bins."""
        return self._classes.best_constant(self._codes(y), weight)

    def inverse_link(self, f: Array) -> Array:
        """The mean."""
        middle = 0.5 * (self._edges[:-1] + self._edges[1:])
        shares = self._classes.inverse_link(f)
        total = np.zeros(f.shape[1:])
        for share, at in zip(shares, middle.tolist(), strict=True):  # in this order, for the same bits
            total += share * at
        return total

    def frozen(self, f: Array) -> Binned:
        """See DistributionLoss."""
        return Binned(self._edges, np.ascontiguousarray(self._classes.inverse_link(f).T))


def _checked(bins: Any) -> int | tuple[float, ...]:
    if isinstance(bins, int | np.integer) and not isinstance(bins, bool):
        if 2 <= bins <= MOST_BINS:
            return int(bins)
    elif isinstance(bins, Sequence | np.ndarray) and not isinstance(bins, str):
        try:
            edges = tuple(float(edge) for edge in bins)
        except (TypeError, ValueError):
            edges = ()
        ascending = all(low < high for low, high in pairwise(edges))
        if 3 <= len(edges) <= MOST_BINS + 1 and ascending and np.isfinite(edges).all():
            return edges
    raise ValueError(
        f"bins={bins!r} must be a number of bins from 2 to {MOST_BINS}, or a list of at least three edges in ascending "
        "order."
    )
