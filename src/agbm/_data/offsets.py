"""Raw scores that rows start from: offsets, as passed by the user, or those of a fitted model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from .._base.sums import Array
from .._base.types import AnyArray, Table, Values
from .._base.weights import refuse_dates, refuse_text


def check_offset(offset: Values | None, n_rows: int, n_outputs: int, for_each: bool, name: str = "offset") -> Array:
    """Offsets as scores (output, row). `for_each`: one offset per row is not enough for several outputs."""
    refuse_dates(offset, name)
    refuse_text(offset, name)
    given: AnyArray = np.asarray(offset)
    try:
        numbers = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must contain numbers, raw scores that are added to those of the model: {error}."
        ) from error
    shape = (n_rows, n_outputs)
    if numbers.shape not in ((n_rows, n_outputs), *([] if for_each and n_outputs > 1 else [(n_rows,), (n_rows, 1)])):
        one = "" if for_each and n_outputs > 1 else f"({n_rows},) or "
        raise ValueError(f"{name} has shape {numbers.shape}; it must have shape {one}{shape}: raw scores per row.")
    invalid = int(np.count_nonzero(~np.isfinite(numbers)))
    if invalid:
        raise ValueError(f"{name} has {invalid} values that are missing or infinite; use finite numbers, 0 for none.")
    columns = numbers if numbers.ndim == 2 else numbers[:, np.newaxis]
    return np.ascontiguousarray(np.broadcast_to(columns, shape).T)


def check_both(of_training: bool, given: bool, name: str) -> None:
    """Raise ValueError if only the training rows or only the rows to evaluate on have offsets; `name` is theirs."""
    if of_training and not given:
        raise ValueError(
            f"{name}=None, but the training rows have offsets; pass {name}, zeros if these rows have none."
        )
    if given and not of_training:
        raise ValueError(f"{name} is given, but the training rows have no offsets; pass offset, or omit {name}.")


def added(scores: Array | None, offset: Array | None) -> Array | None:
    """The sum of the scores of an init model and of offsets, if there are any."""
    return scores if offset is None else offset if scores is None else scores + offset


@dataclass(frozen=True, eq=False)
class RawScores:
    """A fitted model as the start function of its update."""

    model: Any
    """A FittedModel."""
    n_threads: int

    def __call__(self, X: Table) -> Array:
        """Scores (output, row)."""
        return np.ascontiguousarray(self.model.raw_predict(X, self.n_threads))

    def __deepcopy__(self, memo: object) -> Self:
        """Itself, since a fitted model does not change."""
        return self
