"""Labels of survival analysis: times of events, and bounds of times that are censored."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import get_tags

from .._base.collectives import anywhere, distinct
from .._base.sums import Array
from .._base.types import AnyArray, Values
from .._base.weights import refuse_dates, refuse_text
from .._data.rows import check_y_val, some_of
from .._data.tables import column_names
from .._losses import Loss, LossFunction, has_event, named_loss, traits_of
from .base import Labels

SURVIVAL = "survival"
"""The type of the estimator in the tags of scikit-learn, which has no name for it."""
MOST_TIMES = 1_000
"""Times of events that a model keeps, for survival functions that are evaluated at them."""

_FORMS = (
    "a structured array with a field of booleans (whether there was an event) and one of times, as in scikit-survival; "
    "a table or an array with the columns (time, event); a tuple (time, event); or a structured array or data frame "
    "with 'lower' and 'upper' bounds of times"
)


@dataclass(frozen=True, eq=False)
class Lifetimes(Labels):
    """Times of events, known or censored. They are encoded as (2, row): lower and upper bounds.

    The bounds of an event are equal; a right-censored time has an infinite upper bound, a left-censored one the lower
    bound 0. Before, as scikit-learn's checks accept them, they are matrices of finite numbers: (time, event), or
    (lower, upper, whether there is an upper bound).
    """

    times: Array
    """Distinct times of training events, and of events in updates, in ascending order, at most MOST_TIMES of them."""
    signs: tuple[int, ...] = (1,)
    """For each score, whether the predicted risk increases (1) or decreases (-1) with it; 0 if neither."""
    numeric = True

    @property
    def n_outputs(self) -> int:
        return len(self.signs)

    @property
    def one_for_all_outputs(self) -> bool:
        return True

    @property
    def single(self) -> bool:
        """Whether a row has one score."""
        return self.n_outputs == 1

    def scored_by(self, loss: Loss, encoded: Array) -> tuple[Labels, Array]:
        traits = traits_of(loss)
        return replace(self, signs=traits.score_signs or (-1 if traits.prediction == "minus_first" else 1,)), encoded

    @staticmethod
    def check(y: Values) -> None:
        refuse_dates(y, "y")
        refuse_text(y, "y")

    @classmethod
    def learn(cls, y: AnyArray, known: Self | None) -> tuple[Self, Array]:
        encoded = _bounds(y, "y")
        if known is not None:
            return known, encoded
        return cls(_kept_times(encoded)), encoded

    def encode(self, y: AnyArray) -> Array:
        return _bounds(y, "y")

    def updated_with(self, encoded: Array) -> Lifetimes:
        """Add the times of further events, since later rows may have been observed for longer."""
        return replace(self, times=_thinned(np.append(self.times, encoded[0, has_event(encoded)])))

    def encode_validation(self, y: Any, n_rows: int) -> Array:
        n_columns = np.shape(y)[1] if np.ndim(y) == 2 else 2
        return _bounds(check_y_val(y, n_rows, numeric=True, shape=(n_columns,)), "y_val")

    def decode(self, encoded: Array) -> AnyArray:
        """Structured arrays: of scikit-survival if nothing is left- or interval-censored, otherwise of bounds."""
        events = has_event(encoded)
        if (events | np.isinf(encoded[1])).all():
            found = np.empty(len(events), dtype=[("event", np.bool_), ("time", np.float64)])
            found["event"], found["time"] = events, encoded[0]
        else:
            found = np.empty(len(events), dtype=[("lower", np.float64), ("upper", np.float64)])
            found["lower"], found["upper"] = encoded
        return found

    def strata(self, encoded: Array) -> NDArray[np.intp] | None:
        """Whether each row has an event."""
        return np.asarray(np.isfinite(encoded[1]), dtype=np.intp)

    def loss_of(self, name: str | LossFunction) -> Loss:
        return named_loss("survival", name)  # type: ignore[no-any-return]

    def check_loss(self, loss: Loss) -> None:
        if traits_of(loss).labels != "times":
            raise ValueError(
                f"loss={loss!r} is not a loss of survival analysis; use 'cox', 'aft:normal', 'piecewise_exponential' "
                "or another one of AGBMSurvival."
            )

    def predictions(self, loss: Loss, raw: Array) -> Array:
        """The risk of each row."""
        return np.ascontiguousarray(loss.inverse_link(raw))

    def monotone_scores(self) -> tuple[int, ...]:
        return self.signs

    def _raw_score_of(self, model: object, loss: Loss) -> Callable[[Any], Any]:
        if not hasattr(model, "predict"):
            raise TypeError(f"init={model!r} has no method predict; use 'prior', 'zero' or a fitted model of risks.")
        return lambda X: loss.link(np.asarray(model.predict(X), dtype=np.float64))


def _kept_times(encoded: Array) -> Array:
    """The times of events, or bounds if all times are censored."""
    events = has_event(encoded)
    return _thinned(encoded[0, events] if anywhere(events) else encoded[np.isfinite(encoded)])


def _thinned(times: Array) -> Array:
    """The distinct positive times in ascending order; every second, third ... one if there are many."""
    times = distinct(np.unique(times[times > 0.0]))
    if len(times) <= MOST_TIMES:
        return np.asarray(times)
    return np.asarray(times[np.linspace(0, len(times) - 1, MOST_TIMES).round().astype(np.intp)])


def _bounds(y: AnyArray, name: str) -> Array:
    """Lower and upper bounds (2, row) from a matrix (time, event) or (lower, upper, has upper bound)."""
    try:
        numbers = np.asarray(y, dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"{name} must contain numbers: {error}.") from error
    if numbers.ndim != 2 or numbers.shape[1] not in (2, 3):
        raise ValueError(f"{name} has shape {numbers.shape}; it must be {_FORMS}.")
    if numbers.shape[1] == 3:
        lower, upper = numbers[:, 0], np.where(numbers[:, 2] != 0.0, numbers[:, 1], math.inf)
        _check_bounds(lower, upper, name)
        return np.stack([lower, upper])
    time, event = numbers.T
    others = np.unique(event[(event != 0.0) & (event != 1.0)]).tolist()
    if others:
        raise ValueError(
            f"{name}: events must be 0 or 1 (censored or not), in the second column; got {some_of(others)}. The first "
            "column has the times."
        )
    _check_not_negative(time, name)
    return np.stack([time, np.where(event != 0.0, time, math.inf)])


def _check_not_negative(times: Array, name: str) -> None:
    negative = np.flatnonzero(times < 0.0)
    if len(negative):
        raise ValueError(f"{name} has negative times, such as {times[negative[0]]:g} in row {negative[0]}.")


def _check_bounds(lower: Array, upper: Array, name: str) -> None:
    _check_not_negative(lower, name)
    _check_not_negative(upper, name)
    wrong = np.flatnonzero(lower > upper)
    if len(wrong):
        row = wrong[0]
        raise ValueError(
            f"{name}: lower bounds must not exceed upper bounds; row {row} has {lower[row]:g} and {upper[row]:g}. An "
            "infinite or missing upper bound means that there is none."
        )


def as_matrix(y: Any, name: str = "y") -> Any:
    """Labels in any of the forms that users pass, as a matrix for scikit-learn's checks."""
    if y is None or isinstance(y, str):  # in batches, or names of columns
        return y
    if isinstance(y, tuple):
        if len(y) != 2:
            raise ValueError(f"{name} is a tuple of length {len(y)}; it must be {_FORMS}.")
        return _columns(y[0], y[1], name)
    fields = getattr(getattr(y, "dtype", None), "names", None)
    names = list(fields) if fields is not None else column_names(y) if hasattr(y, "columns") else None
    if names is not None and {"lower", "upper"} <= set(names):
        return _of_bounds(y["lower"], y["upper"], name)
    if fields is not None:
        return _of_fields(y, name)
    if names is not None:
        if len(names) != 2:
            raise ValueError(f"{name} has columns {some_of(names)}; it must be {_FORMS}.")
        kinds = [np.asarray(y[column]).dtype.kind for column in names]
        event_first = kinds[0] == "b" != kinds[1] or (names[0] == "event" and names[1] != "event")
        time, event = reversed(names) if event_first else names
        return _columns(y[time], y[event], name)
    matrix = np.asarray(y)
    if matrix.ndim != 2 or matrix.shape[1] != 2:
        raise ValueError(f"{name} has shape {matrix.shape}; it must be {_FORMS}.")
    return matrix


def _of_fields(y: AnyArray, name: str) -> Array:
    """A structured array of scikit-survival."""
    kinds = {field: y.dtype[field].kind for field in y.dtype.names or ()}
    events = [field for field, kind in kinds.items() if kind == "b"]
    times = [field for field, kind in kinds.items() if kind in "iufMmO"]
    if len(events) != 1 or len(times) != 1 or len(kinds) != 2:
        raise ValueError(f"{name} is a structured array with fields {list(kinds)}; it must be {_FORMS}.")
    return _columns(y[times[0]], y[events[0]], name)


def _columns(time: Values, event: Values, name: str) -> Array:
    time, event = np.asarray(time), np.asarray(event)
    if time.ndim != 1 or event.shape != time.shape:
        raise ValueError(
            f"{name}: times have shape {time.shape} and events {event.shape}; both must have one entry per row."
        )
    times = _numbers(time, name, "times must be numbers")
    events = _numbers(event, name, "events must be 0 or 1 (censored or not)")
    missing = np.flatnonzero(np.isnan(events))
    if len(missing):
        raise ValueError(f"{name}: events must be 0 or 1 (censored or not); that of row {missing[0]} is missing.")
    return np.column_stack([times, events])


def _numbers(column: object, name: str, rule: str) -> Array:
    """A column of labels as floats; `rule` says what they must be."""
    refuse_dates(column, name)
    array = np.asarray(column)
    if array.dtype.kind == "c":
        raise ValueError(f"{name}: {rule}; got {array.dtype}.")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {rule}: {error}.") from error


def _of_bounds(lower: Values, upper: Values, name: str) -> Array:
    low, high = (_numbers(bounds, name, "bounds of times must be numbers") for bounds in (lower, upper))
    low = np.where(np.isnan(low) | np.isneginf(low), 0.0, low)
    has_upper = ~(np.isnan(high) | np.isposinf(high))
    if np.isposinf(low).any():
        raise ValueError(f"{name}: lower bounds of times must be finite; row {np.flatnonzero(np.isposinf(low))[0]}.")
    return np.column_stack([low, np.where(has_upper, high, 0.0), has_upper])


def is_survival(estimator: object) -> bool:
    """Whether an estimator is one of survival analysis; like is_classifier of scikit-learn."""
    return bool(get_tags(estimator).estimator_type == SURVIVAL)
