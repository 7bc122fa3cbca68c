"""A distribution without a form of its own: the probabilities of bins of the label."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from .._base.collectives import distinct, largest, smallest
from .._base.sums import Array, ExactSum, sums_of_parts
from .base import Traits
from .classification import Multinomial
from .constants import quantiles_of, weight_in_steps
from .distributions import DistributionLoss
from .frozen import Binned, Bins, Piece

MOST_BINS = 1_000
MOST_PIECES = 4 * MOST_BINS
"""More than a histogram has: each of its bins may be next to two atoms, and two of them have tails."""
ROWS_PER_BIN = 50
"""The least mean number of labels per bin: there are fewer bins if there are fewer labels."""
TAIL_ROWS = 5
"""The least number of labels in a tail."""
LEAST_ROOM = 0.01
"""The least distance of the mean of an interval from its bounds, in widths: no density is zero."""


class HistogramDistribution(DistributionLoss):
    """The label is in one of several bins, with probabilities that differ between rows. It can have any form.

    The scores are the logarithms of the probabilities of the bins, up to a constant, as those of classes are. `bins` is
    a number of bins, which fit makes of the training labels, such that all have about as many; or a list of their edges
    in ascending order, of which the outermost ones bound the labels.

    Within a bin, the distribution is the same for all rows (see Piece). Its mean is that of the training labels in the
    bin, so that predictions are right on average for skewed labels, too. A value that would fill at least half of a bin
    is an atom: it has a bin of its own, and a probability instead of a density. If labels have no more values than
    there are bins, all of them are atoms. Beyond the smallest and the largest label there are exponential tails, unless
    these are atoms.

    The loss is the negative logarithm of the density, or of the probability of an atom. Labels that no bin contains
    count as the nearest ones that a bin contains. `pieces` is what fit has learned from the labels.
    """

    names: ClassVar[tuple[str, ...]] = ("distribution:histogram",)
    prediction = "mean_of_bins"
    _kernel = "multinomial"

    def __init__(self, bins: int | Sequence[float] = 20, pieces: Sequence[Sequence[float]] | None = None) -> None:
        self.bins: Any = _checked(bins)
        self.pieces = None if pieces is None else _checked_pieces(pieces)

    @property
    def traits(self) -> Traits:
        """Those of a distribution; the scores are learned like those of classes."""
        hessian = self._classes.traits.min_hessian_leaf
        return replace(super().traits, min_hessian_leaf=hessian, learns_from_labels=True)

    @property
    def signs(self) -> tuple[int, ...]:  # type: ignore[override]
        """The mean has no fixed direction in any score."""
        if self.pieces is not None:
            return (0,) * (self.pieces[-1].bin + 1)
        return (0,) * (self.bins if isinstance(self.bins, int) else len(self.bins) - 1)

    @property
    def is_learned(self) -> bool:  # type: ignore[override]
        """Whether the bins are known, from labels or from given edges."""
        return self.pieces is not None or not isinstance(self.bins, int)

    def learned_from(self, y: Array, weight: Array | None) -> Self:
        """The loss with bins of these labels, and with the distribution of labels within them."""
        if self.pieces is not None:
            return self
        rows = _Rows.of(y.ravel(), weight)
        pieces = _learned_bins(rows, self.bins) if isinstance(self.bins, int) else _given_bins(rows, self.bins)
        return type(self)(self.bins, pieces).with_threads(self.n_threads)

    @property
    def row_kernel(self) -> None:
        """None, since labels are not codes of bins."""

    @cached_property
    def _bins(self) -> Bins:
        if self.pieces is not None:
            return Bins(self.pieces)
        return Bins([Piece(k, low, high, 0.5 * (low + high), 1.0) for k, (low, high) in enumerate(pairwise(self.bins))])

    @property
    def _classes(self) -> Multinomial:
        return Multinomial(len(self.signs)).with_threads(self.n_threads)

    def _codes(self, y: Array) -> Array:
        """The bin of each label."""
        return self._bins.codes(y).astype(np.float64)

    def __getstate__(self) -> dict[str, Any]:
        """The state without what follows from it."""
        return {name: value for name, value in vars(self).items() if name != "_bins"}

    def __repr__(self) -> str:
        learned = "" if self.pieces is None else f", pieces={[tuple(piece) for piece in self.pieces]!r}"
        return f"HistogramDistribution(bins={self.bins!r}{learned})"

    def check(self, y: Array) -> None:
        """All numbers are allowed."""

    def value(self, y: Array, f: Array) -> Array:
        return np.asarray(self._classes.value(self._codes(y), f) - self._bins.log_density(y))

    def negative_gradient(self, y: Array, f: Array) -> Array:
        return self._classes.negative_gradient(self._codes(y), f)

    def hessian(self, y: Array, f: Array, weight: Array | None = None) -> Array:
        return self._classes.hessian(self._codes(y), f)

    def best_constants(self, y: Array, weight: Array | None, offset: Array | None) -> Array:
        """The constants with the largest likelihood; without offsets, they have a closed form."""
        return self.moments(y, weight) if offset is None else super().best_constants(y, weight, offset)

    def moments(self, y: Array, weight: Array | None) -> Array:
        """The logarithms of the shares of the bins."""
        return self._classes.best_constant(self._codes(y), weight)

    def bin_means(self) -> Array:
        """The mean of the labels in each bin."""
        return self._bins.means

    def inverse_link(self, f: Array) -> Array:
        """The mean."""
        shares = self._classes.inverse_link(f)
        total = np.zeros(f.shape[1:])
        for share, mean in zip(shares, self.bin_means().tolist(), strict=True):  # in this order, for the same bits
            total += share * mean
        return total

    def frozen(self, f: Array) -> Binned:
        return Binned(self._bins, np.ascontiguousarray(self._classes.inverse_link(f).T))


class _Rows(NamedTuple):
    """The labels in a range, of which this process may have only some, in ascending order; and their weights."""

    y: Array
    weight: Array | None
    low: float = -math.inf
    high: float = math.inf

    @property
    def is_tail(self) -> bool:
        """Whether the range has no bound on one side."""
        return math.isinf(self.low) or math.isinf(self.high)

    @classmethod
    def of(cls, y: Array, weight: Array | None) -> _Rows:
        """The labels in ascending order."""
        order = np.argsort(y)
        return cls(y[order], None if weight is None else weight[order])

    def _some(self, first: int, end: int, low: float, high: float) -> _Rows:
        return _Rows(self.y[first:end], None if self.weight is None else self.weight[first:end], low, high)

    def equal_to(self, value: float) -> _Rows:
        """The labels with this value."""
        first, end = np.searchsorted(self.y, value, side="left"), np.searchsorted(self.y, value, side="right")
        return self._some(int(first), int(end), value, value)

    def between(self, low: float, high: float) -> _Rows:
        """The labels between two numbers, without these."""
        first, end = np.searchsorted(self.y, low, side="right"), np.searchsorted(self.y, high, side="left")
        return self._some(int(first), int(end), low, high)

    def divided(self, edges: Sequence[float]) -> list[_Rows]:
        """The labels between edges in ascending order; a label that equals an edge belongs to the part above it."""
        places = pairwise([0, *np.searchsorted(self.y, edges, side="left").tolist(), len(self.y)])
        ranges = pairwise([self.low, *edges, self.high])
        return [self._some(*place, *ends) for place, ends in zip(places, ranges, strict=True)]

    def quantiles(self, levels: Sequence[float]) -> list[float]:
        """Quantiles of the labels."""
        return quantiles_of(self.y, levels, weight_in_steps(self.weight))


def _sums(parts: Sequence[_Rows]) -> list[tuple[ExactSum, ExactSum]]:
    """The weighted sum of the labels of each part, and the sum of their weights."""
    return sums_of_parts([(part.y, part.weight) for part in parts])


def _learned_bins(rows: _Rows, n: int) -> list[Piece]:
    """At most about n bins with about as many labels each; frequent values have their own, as atoms."""
    ((_, total),) = _sums([rows])
    atoms = _few_values(rows, n, float(total))
    if not atoms:
        n = max(2, min(n, int(float(total) / ROWS_PER_BIN)))
        atoms = _frequent_values(rows, n, total)
    ranges = [rows.between(low, high) for low, high in pairwise([-math.inf, *atoms, math.inf])]
    weights = [float(weight) for _, weight in _sums(ranges)]
    pieces: list[Piece] = []
    for others, weight in zip(ranges, weights, strict=True):
        if others.low > -math.inf:
            pieces.append(_atom(_next_bin(pieces), others.low, 1.0))
        if weight > 0.0:
            n_bins = min(round((n - len(atoms)) * weight / sum(weights)), int(weight / ROWS_PER_BIN))
            pieces += _divided(others, weight, max(n_bins, 1 if atoms else 2), _next_bin(pieces))
    return pieces


def _next_bin(pieces: Sequence[Piece]) -> int:
    return pieces[-1].bin + 1 if pieces else 0


def _atom(number: int, value: float, share: float) -> Piece:
    return Piece(number, value, value, value, share)


def _few_values(rows: _Rows, n: int, total: float) -> list[float]:
    """The different labels if there are at most n, each of them twice on average; otherwise none."""
    here = rows.y[np.diff(rows.y, prepend=-math.inf) > 0.0] + 0.0
    values = distinct(here if len(here) <= n else np.array([math.nan]))
    if len(values) == 1 and not np.isnan(values[0]):
        raise ValueError(f"y has only one value, {values[0]}; a histogram needs labels that vary.")
    few = len(values) <= min(n, total / 2.0) and not np.isnan(values).any()
    return values.tolist() if few else []


def _frequent_values(rows: _Rows, n: int, total: ExactSum) -> list[float]:
    """The values with at least half the weight of a bin. Each of them is among twice as many quantiles, or the last."""
    found = rows.quantiles([k / (2 * n) for k in range(1, 2 * n)])
    values = sorted({*found, largest(rows.y) + 0.0})
    weights = [weight for _, weight in _sums([rows.equal_to(value) for value in values])]
    return [value for value, weight in zip(values, weights, strict=True) if 2 * n * weight.units >= total.units]


def _divided(rows: _Rows, weight: float, n: int, first: int) -> list[Piece]:
    """Divide a range of labels into n bins, with the numbers from `first` on."""
    value = smallest(rows.y) + 0.0
    if value == largest(rows.y):
        return [_atom(first, value, 1.0)]
    bins = rows.divided(_edges(rows, [k / n for k in range(1, n)]))
    parts = [_halved(part, weight / n) if part.is_tail else [part] for part in bins]
    sums = iter(_sums([part for of_bin in parts for part in of_bin]))
    pieces: list[Piece] = []
    for number, of_bin in enumerate(parts):
        of_parts = [next(sums) for _ in of_bin]
        total = sum((of_part for _, of_part in of_parts), start=ExactSum())
        for part, (labels, of_part) in zip(of_bin, of_parts, strict=True):
            pieces.append(_piece(first + number, part, labels / of_part, of_part / total))
    if pieces[0].is_atom and pieces[1:] and not pieces[1].is_atom:  # no gap beside a tail that is an atom
        pieces[1] = pieces[1]._replace(low=pieces[0].high)
    return pieces


def _halved(rows: _Rows, weight: float) -> list[_Rows]:
    """Divide the labels of an outermost bin into halves, the outer one again, and so on, to have a short tail."""
    levels = [0.5**k for k in range(1, 60) if 0.5**k * weight >= TAIL_ROWS]
    if rows.high == math.inf:
        levels = [1.0 - level for level in levels]
    return rows.divided(_edges(rows, levels))


def _edges(rows: _Rows, levels: Sequence[float]) -> list[float]:
    """The quantiles of the labels; if the smallest label is one of them, the edge is right above it."""
    above = math.nextafter(smallest(rows.y), math.inf)
    edges = sorted({max(edge, above) for edge in rows.quantiles(levels)})
    below = _sums(rows.divided(edges)[:-1])
    return [edge for edge, (_, weight) in zip(edges, below, strict=True) if weight.units]  # there are labels between


def _piece(number: int, part: _Rows, mean: float, share: float) -> Piece:
    """The piece of a part of a bin; an atom if a tail has only one value, or an interval only one number."""
    if part.is_tail:
        is_atom = mean in (smallest(part.y), largest(part.y))
        return _atom(number, mean + 0.0, share) if is_atom else Piece(number, part.low, part.high, mean, share)
    room = LEAST_ROOM * (part.high - part.low)
    least = max(part.low + room, math.nextafter(part.low, math.inf))
    most = min(part.high - room, math.nextafter(part.high, -math.inf))
    if least > most:
        return _atom(number, part.low, share)
    return Piece(number, part.low, part.high, min(max(mean, least), most), share)


def _given_bins(rows: _Rows, edges: Sequence[float]) -> list[Piece]:
    """The bins between given edges; labels outside count as if they were at the outermost edges."""
    inside = rows._replace(y=np.clip(rows.y, edges[0], edges[-1]), low=edges[0], high=edges[-1])
    parts = inside.divided(edges[1:-1])
    middles = [0.5 * part.low + 0.5 * part.high for part in parts]
    return [
        _piece(number, part, labels / weight if weight.units else middle, 1.0)
        for number, (part, middle, (labels, weight)) in enumerate(zip(parts, middles, _sums(parts), strict=True))
    ]


def _checked(bins: object) -> int | tuple[float, ...]:
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


def _checked_pieces(given: Any) -> tuple[Piece, ...]:
    try:
        pieces = tuple(Piece(int(number), *map(float, rest)) for number, *rest in given)
        if _are_ascending(pieces) and _fill_bins(pieces):
            return pieces
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError("pieces must be those of a fitted loss: (bin, low, high, mean, share), in ascending order.")


def _are_ascending(pieces: Sequence[Piece]) -> bool:
    """Whether means are within bounds, and only the first and the last bound may be infinite."""
    ends = [bound for piece in pieces for bound in (piece.low, piece.high)]
    inside = all(p.low < p.mean < p.high or p.low == p.mean == p.high for p in pieces)
    ascending = all(low <= high for low, high in pairwise(ends))
    return inside and ascending and all(map(math.isfinite, [*ends[1:-1], *(piece.mean for piece in pieces)]))


def _fill_bins(pieces: Sequence[Piece]) -> bool:
    """Whether there are two bins or more, numbered in order, whose shares add up to 1."""
    numbers = [piece.bin for piece in pieces]
    in_order = sorted(set(numbers)) == list(range(len(set(numbers)))) and numbers == sorted(numbers)
    if not in_order or len(set(numbers)) < 2 or len(pieces) > MOST_PIECES:
        return False
    shares = np.bincount(numbers, [piece.share for piece in pieces])
    return all(piece.share > 0.0 for piece in pieces) and bool((np.abs(shares - 1.0) < 1e-9).all())
