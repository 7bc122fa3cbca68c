"""Weights of rows: how often a row is repeated, and how much it matters.

Integers are counts: a row of weight 3 is three equal rows, and a fit gives exactly the trees of the repeated rows.
Floats are relative: they are scaled to a mean of 1, so that their unit does not matter. The two have to be told apart
by their type: no rule that looks at the values could be continuous in them, and no scale of the weights could be both
independent of their unit and that of repeated rows.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight

from .sums import Array, ExactSum, exact_mean, exact_sum, weight_step, whole_weights

# Relative weights keep so many bits, those of float32: their products with counts are then exact.
RELATIVE_BITS = 24
MOST_REPEATS = 2**26
MOST_REPEATS_IN_ALL = 2**38

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of rows, all positive."""

    repeats: Counts | None
    """How often each row is repeated; None where each is there once."""
    relative: Array | None
    """How much each row, or each repetition of it, matters; None where all matter the same."""
    step: float = 1.0
    """Of `in_steps`; that of all rows, also where these are some of them."""

    @classmethod
    def of(cls, sample_weight: NDArray[Any] | None, of_class: Array | None = None) -> Weights | None:
        """From sample weights, counts or floats, and the weights of the rows' classes; None where there are neither."""
        if sample_weight is None and of_class is None:
            return None
        if sample_weight is None or sample_weight.dtype.kind == "f":
            product = [part for part in (sample_weight, of_class) if part is not None]
            weights = cls(None, _scaled(np.prod(product, axis=0), None))
        else:
            weights = cls(sample_weight, None if of_class is None else _scaled(of_class, sample_weight))
        return weights if weights.relative is None else replace(weights, step=weight_step(weights.total))

    @cached_property
    def total(self) -> Array:
        """What each row weighs: how often it is there, times how much it matters. The product is exact."""
        if self.relative is None:
            return np.asarray(self.repeats, dtype=np.float64)
        return self.relative if self.repeats is None else self.relative * self.repeats

    def __len__(self) -> int:
        return len(self.total)

    def __getitem__(self, rows: Any) -> Weights:
        """Those of some rows."""
        repeats, relative = (None if part is None else part[rows] for part in (self.repeats, self.relative))
        return Weights(repeats, relative, self.step)

    def followed_by_ones(self, n: int) -> Weights:
        """With n more rows of weight 1 at the end."""
        return joined([self, Weights(np.ones(n, np.int64), np.ones(n))])

    @cached_property
    def in_steps(self) -> Array:
        """The weights as whole numbers of steps, which float64 adds up without rounding."""
        if self.relative is None:
            return self.total
        whole = whole_weights(self.relative, self.step)
        return whole if self.repeats is None else whole * self.repeats


def joined(parts: Sequence[Weights]) -> Weights:
    """The weights of some rows, one part after the other; of the kinds that the first part has."""

    def together(name: str) -> Any:
        found = [getattr(part, name) for part in parts]
        return None if found[0] is None else np.concatenate(found)

    return Weights(together("repeats"), together("relative"), parts[0].step)


def _scaled(weight: Array, repeats: Counts | None) -> Array:
    """Weights with a mean of 1, rounded to few bits: what is then multiplied by counts is exact.

    The mean is exact before it is rounded, so that neither the order of the rows nor their repetition changes it.
    """
    counts = None if repeats is None else repeats.astype(np.float64)
    mantissa, exponent = np.frexp(weight / exact_mean(weight, counts))
    return np.asarray(np.ldexp(np.rint(np.ldexp(mantissa, RELATIVE_BITS)), exponent - RELATIVE_BITS))


def check_sample_weight(sample_weight: Any, X: Any) -> NDArray[Any]:
    """Sample weights as scikit-learn checks them; int64 where they are integers, and else float64, at most 1."""
    given = np.asarray(sample_weight)
    if given.dtype.kind in "Mm":
        raise ValueError(f"sample_weight has dates or times ({given.dtype}); give numbers.")
    try:
        weight: Array = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    except ValueError as error:
        if "sample_weight" in str(error):
            raise
        raise ValueError(f"sample_weight: {error}") from error
    return _checked_counts(weight) if _are_integers(given) else _at_most_one(weight)


def _at_most_one(weight: Array) -> Array:
    """Weights over a power of two, which changes none of their ratios: sums and products of these cannot overflow."""
    return np.asarray(np.ldexp(weight, -np.frexp(weight.max(initial=0.0))[1]))


def _are_integers(given: NDArray[Any]) -> bool:
    if given.dtype.kind == "O":  # nullable integers of pandas, lists of Python's
        return all(isinstance(value, numbers.Integral) for value in given.flat)
    return given.dtype.kind in "iub"


def _checked_counts(weight: Array) -> Counts:
    if weight.max(initial=0.0) > MOST_REPEATS or float(exact_sum(weight)) > MOST_REPEATS_IN_ALL:
        raise ValueError(
            f"sample_weight has integers up to {weight.max():.0f}, {weight.sum():.0f} in all. Integers say how often a "
            f"row is repeated: at most {MOST_REPEATS} times, {MOST_REPEATS_IN_ALL} in all. Where only their ratios "
            "matter, give floats: sample_weight.astype(float)."
        )
    return weight.astype(np.int64)


def class_factors(
    class_weight: dict[Any, float] | str, codes: NDArray[np.intp], labels: list[Any], weight: NDArray[Any] | None
) -> Array:
    """The weight of each row's class. "balanced": such that all classes weigh the same, sample weights included."""
    if not isinstance(class_weight, str):
        return _at_most_one(np.array([float(class_weight.get(label, 1.0)) for label in labels]))[codes]
    sizes = [_size(codes == k, weight) for k in range(len(labels))]
    total = ExactSum(sum(size.units for size in sizes))
    return _at_most_one(np.array([total / size for size in sizes]))[codes]


def _size(of_class: NDArray[np.bool_], weight: NDArray[Any] | None) -> ExactSum:
    if weight is None:
        return ExactSum.of_count(int(np.count_nonzero(of_class)))
    return exact_sum(weight[of_class].astype(np.float64))
