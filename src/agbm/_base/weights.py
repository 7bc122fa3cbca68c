"""Sample weights: counts or relative weights of rows.

Integers are counts: a row of weight 3 stands for three equal rows, and a fit grows exactly the trees of the repeated
rows. Floats are relative: they are scaled to a mean of 1, so that their unit does not matter. The two are distinguished
by dtype, not by value: otherwise, a tiny change of one value could turn counts into relative weights and change the
scale of all weights.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight

from .collectives import count, has_all_rows, largest
from .sums import Array, ExactSum, exact_mean, exact_sum, weight_step, whole_weights
from .types import AnyArray, Table, Values

# Relative weights are rounded to this number of bits (as in float32), so that their products with counts are exact.
RELATIVE_BITS = 24
MOST_REPEATS = 2**26
MOST_REPEATS_IN_ALL = 2**38

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of rows, all positive."""

    repeats: Counts | None
    """How often each row is repeated; None if each occurs once."""
    relative: Array | None
    """Relative weight of each row, or of each repetition of it; None if all are equal."""
    step: float = 1.0
    """The step of `in_steps`. A subset of rows keeps the step of all rows."""

    @classmethod
    def of(cls, sample_weight: AnyArray | None, of_class: Array | None = None) -> Weights | None:
        """Combine sample weights (counts or floats) with the class weight of each row; None if neither is given."""
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
        """The weight of each row: the count times the relative weight. The product is exact."""
        if self.relative is None:
            return np.asarray(self.repeats, dtype=np.float64)
        return self.relative if self.repeats is None else self.relative * self.repeats

    def __len__(self) -> int:
        return len(self.total)

    def __getitem__(self, rows: Any) -> Weights:
        """The weights of a subset of the rows."""
        repeats, relative = (None if part is None else part[rows] for part in (self.repeats, self.relative))
        return Weights(repeats, relative, self.step)

    @cached_property
    def in_steps(self) -> Array:
        """The weights as integer numbers of steps, which float64 adds without rounding."""
        if self.relative is None:
            return self.total
        whole = whole_weights(self.relative, self.step)
        return whole if self.repeats is None else whole * self.repeats


def joined(parts: Sequence[Weights]) -> Weights:
    """Concatenate weights. Counts and relative weights are kept only if the first part has them."""

    def together(name: str) -> Any:
        found = [getattr(part, name) for part in parts]
        return None if found[0] is None else np.concatenate(found)

    return Weights(together("repeats"), together("relative"), parts[0].step)


def _scaled(weight: Array, repeats: Counts | None) -> Array:
    """Scale weights to a mean of 1 and round them, so that their products with counts are exact.

    The mean is rounded only once, so it does not depend on the order of the rows, nor on whether they are repeated.
    """
    counts = None if repeats is None else repeats.astype(np.float64)
    mantissa, exponent = np.frexp(weight / exact_mean(weight, counts))
    return np.asarray(np.ldexp(np.rint(np.ldexp(mantissa, RELATIVE_BITS)), exponent - RELATIVE_BITS))


def refuse_dates(given: object, name: str) -> None:
    """Raise ValueError for dates and times: as numbers, their unit is arbitrary, and missing ones are very large."""
    if getattr(getattr(given, "dtype", None), "kind", "O") in "biuf":  # also of arrays that are not in memory
        return
    array = np.asarray(given)
    dates = (date, timedelta, np.datetime64, np.timedelta64)
    if array.dtype.kind in "Mm" or (array.dtype.kind == "O" and any(isinstance(value, dates) for value in array.flat)):
        raise ValueError(f"{name} has dates or times ({array.dtype}); pass numbers, such as differences in seconds.")


def refuse_text(given: object, name: str, instead: str = "") -> None:
    """Raise ValueError for text, even if it shows numbers; `instead` is a sentence for the error."""
    if getattr(getattr(given, "dtype", None), "kind", "O") in "biuf":  # also of arrays that are not in memory
        return
    array = np.asarray(given)
    if array.dtype.kind not in "OSTU":
        return
    place = next((i for i, value in enumerate(array.flat) if isinstance(value, str | bytes)), None)
    if place is not None:
        row, text = place // math.prod(array.shape[1:]), str(array.flat[place])
        raise ValueError(
            f"{name} has text, such as {text!r} in row {row:,}; convert it to numbers, with astype(float) if it shows "
            f"numbers.{instead}"
        )


def check_sample_weight(sample_weight: Values | None, X: Table) -> AnyArray:
    """Validate sample weights as scikit-learn does. Integers become int64; others become float64, at most 1."""
    given = np.asarray(sample_weight)
    refuse_dates(given, "sample_weight")
    refuse_text(given, "sample_weight")
    try:
        weight: Array = np.zeros(len(given))
        if has_all_rows() or np.any(given):  # otherwise, the rows of other processes may have weights
            weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    except ValueError as error:
        if "sample_weight" in str(error):
            raise
        raise ValueError(f"sample_weight: {error}") from error
    return _checked_counts(weight) if _are_integers(given) else _at_most_one(weight)


def _at_most_one(weight: Array) -> Array:
    """Divide weights by a power of two, which keeps their ratios, so that sums and products cannot overflow."""
    return np.asarray(np.ldexp(weight, -np.frexp(largest(weight, 0.0))[1]))


def _are_integers(given: AnyArray) -> bool:
    if given.dtype.kind == "O":  # nullable integers of pandas, or Python integers
        return all(isinstance(value, numbers.Integral) for value in given.flat)
    return given.dtype.kind in "iub"


def _checked_counts(weight: Array) -> Counts:
    most, total = largest(weight, 0.0), float(exact_sum(weight))
    if most > MOST_REPEATS or total > MOST_REPEATS_IN_ALL:
        raise ValueError(
            f"sample_weight has integers up to {most:.0f}, with a sum of {total:.0f}. Integers are "
            f"numbers of repetitions: each may be at most {MOST_REPEATS} and their sum at most {MOST_REPEATS_IN_ALL}. "
            "If only the ratios matter, use floats: sample_weight.astype(float)."
        )
    return weight.astype(np.int64)


def class_factors(
    class_weight: Mapping[Any, float] | str, codes: NDArray[np.intp], labels: list[Any], weight: AnyArray | None
) -> Array:
    """The class weight of each row. "balanced" gives all classes the same total, including sample weights."""
    if not isinstance(class_weight, str):
        return _at_most_one(np.array([float(class_weight.get(label, 1.0)) for label in labels]))[codes]
    sizes = [_size(codes == k, weight) for k in range(len(labels))]
    total = ExactSum(sum(size.units for size in sizes))
    return _at_most_one(np.array([total / size for size in sizes]))[codes]


def _size(of_class: NDArray[np.bool_], weight: AnyArray | None) -> ExactSum:
    if weight is None:
        return ExactSum.of_count(count(int(np.count_nonzero(of_class))))
    return exact_sum(weight[of_class].astype(np.float64))
