"""Calibration of fitted models, and the intervals and sets of classes that follow from it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import _check_y

from .._base.sums import Array
from .._base.types import AnyArray, Table, Values
from .._base.weights import check_sample_weight
from .._data.batches import blocks_of
from .._data.blocks import Block, dense, gather
from .._data.rows import Given, some_of, weighted_rows
from .._data.tables import position_of
from .._labels.base import Classes, Labels
from .._labels.lifetimes import Lifetimes
from .._labels.matrices import LabelSets, SoftClasses
from .._labels.relevances import Relevances
from .._losses import Loss, traits_of
from .._uncertainty.conformal import (
    WEIGHT_UNITS,
    Calibration,
    ClassShare,
    Integers,
    IntervalMeasure,
    Nonconformity,
    Residual,
    SetMeasure,
    SortedScores,
    class_sets,
    exact_coverage,
    intervals,
    rows_needed,
    scores_of_labels,
    wanted_weight,
    whole_weights,
)
from .._uncertainty.nested_intervals import NestedQuantiles, Standardised, TailProbability
from .fitted import FittedModel

MOST_KEPT = 50_000
"""Rows per member whose scores fit keeps: a random sample is as exchangeable, and model files stay small."""


def measure_of(labels: Labels, loss: Loss) -> Nonconformity:
    """The nonconformity of labels; raises ValueError if none is defined for them."""
    if isinstance(labels, Lifetimes):
        raise ValueError("Intervals of censored times are not supported; use predict_time with two quantiles.")
    if isinstance(labels, Relevances):
        raise ValueError("Intervals of a ranker are not supported: its scores only order documents.")
    if isinstance(labels, LabelSets):
        raise ValueError("predict_set needs one class per row; the model has several labels per row (multi-label).")
    if isinstance(labels, SoftClasses):
        raise ValueError("predict_set needs one class per row; the model was fitted to probabilities of classes.")
    if isinstance(labels, Classes):
        return ClassShare(loss, labels.n_outputs)
    traits = traits_of(loss)
    if traits.intervals == "tails":
        return TailProbability(loss)
    if traits.intervals in ("standardised", "standardised_logarithm"):
        return Standardised(traits.intervals == "standardised_logarithm")
    if traits.intervals == "none":
        raise ValueError(
            f"loss={loss!r}: intervals around a single quantile or expectile are not meaningful. Use another loss, "
            "such as 'squared_error' or 'absolute_error', or several quantiles: loss=Quantile([0.05, 0.5, 0.95])."
        )
    if traits.intervals == "quantiles":
        return NestedQuantiles(loss)
    return Residual(loss, traits.variance_power, *traits.label_range)


def as_integers(weights: Sequence[AnyArray | None], counts: bool) -> tuple[list[Integers | None], int]:
    """Weights of rows as integers, and that of a row to predict: one repetition, or the largest relative weight."""
    given = [of for of in weights if of is not None]
    if not given:
        return [None for _ in weights], 1
    if counts:
        whole = [np.asarray(of, dtype=np.int64) for of in given]
        only_ones = all((of == 1).all() for of in whole)
        return [None for _ in weights] if only_ones else list(whole), 1
    largest = max(float(of.max(initial=0.0)) for of in given)
    return [whole_weights(of, largest) for of in given], WEIGHT_UNITS


class _Rows(NamedTuple):
    """Calibration rows, with their labels encoded."""

    y: Array
    raw: Array
    weight: AnyArray | None
    group: Array | None
    """The number of each row in the column of groups."""


def calibrated(model: FittedModel, given: Given, group: Values | None, n_threads: int) -> Calibration:
    """The calibration of a model by rows that it was not trained on; `group` is the name or position of a column."""
    measure = measure_of(model.labels, model.loss)
    names, n_columns = model.reader.names, model.n_columns
    column = None if group is None else position_of(group, names, n_columns, f"group={group!r}")
    rows = _read(model, given, column, n_threads)
    scores = scores_of_labels(measure, rows.y, rows.raw)
    kept = slice(None) if rows.weight is None else weighted_rows(rows.weight, "sample_weight")
    counts = rows.weight is None or rows.weight.dtype.kind != "f"
    (weight,), test_weight = as_integers([None if rows.weight is None else rows.weight[kept]], counts)
    scores = scores[:, kept]
    if column is None or rows.group is None:
        return Calibration([[SortedScores.of(of_label, weight) for of_label in scores]], test_weight)
    numbers = rows.group[kept]
    _check_known(model, column, numbers)
    groups, codes = np.unique(numbers, return_inverse=True)
    parts = []
    for code in range(len(groups)):
        of_group = np.flatnonzero(codes == code)
        weights = None if weight is None else weight[of_group]
        parts.append([SortedScores.of(of_label[of_group], weights) for of_label in scores])
    return Calibration(parts, test_weight, group=column, groups=groups)


def _read(model: FittedModel, given: Given, column: int | None, n_threads: int) -> _Rows:
    """Labels, raw scores, weights and groups of rows in a table or in batches."""
    blocks = blocks_of(given)
    if blocks is None:
        raw = model.raw_predict(given.X, n_threads, given.offset)
        group = None if column is None else _numbers(model, given.X, column)
        return _Rows(_encoded(model, given.y, raw.shape[-1]), raw, _weights(given.weight, raw), group)
    source, of_all = blocks
    gathered = gather(source, of_all)
    ends = np.cumsum(gathered.n_rows)[:-1]
    offsets = [None] * len(gathered.n_rows) if gathered.offset is None else np.split(np.asarray(gathered.offset), ends)

    def read(block: Block, offset: Values | None) -> tuple[Array, Array | None]:
        found = model.raw_predict(block.X, n_threads, offset)
        return found, None if column is None else _numbers(model, block.X, column)

    used = [n > 0 for n in gathered.n_rows]
    nothing = np.empty((model.n_outputs, 0)), np.empty(0)
    pieces = source.map(
        lambda block, offset, some: read(block, offset) if some else nothing, list(zip(offsets, used, strict=True))
    )
    raw = np.concatenate([piece for piece, _ in pieces], axis=-1)
    group = None if column is None else np.concatenate([cast(Array, piece) for _, piece in pieces])
    return _Rows(_encoded(model, gathered.y, raw.shape[-1]), raw, _weights(gathered.weight, raw), group)


def _weights(given: Any, raw: Array) -> AnyArray | None:
    return None if given is None else check_sample_weight(given, raw.T)


def _encoded(model: FittedModel, y: Any, n_rows: int) -> Array:
    """The checked labels of calibration rows."""
    labels, numeric = model.labels, model.labels.numeric
    if y is None:
        raise ValueError("y=None: pass the labels of the calibration rows.")
    y = dense(y)
    labels.check(y)
    y = _check_y(y, multi_output=numeric, y_numeric=numeric, estimator=model.reader.estimator)
    if len(y) != n_rows:
        raise ValueError(f"y has {len(y)} rows, X has {n_rows}; they must be the same number.")
    if isinstance(labels, Classes):
        known = set(labels.classes.tolist())
        unknown = [label for label in dict.fromkeys(y.tolist()) if label not in known]
        if unknown:
            raise ValueError(
                f"y has classes {some_of(unknown)} that the model does not have; it has "
                f"{some_of(labels.classes.tolist())}. Remove these rows, or fit a new model."
            )
        return labels.encode(y)
    encoded = labels.encode(y)
    for of_label in np.atleast_2d(encoded):
        # Rows that calibrate may all have the label zero, which a loss with a log link could not be fitted to.
        traits = traits_of(model.loss)
        zeros = traits.prediction == "exp" or traits.is_distribution
        model.loss.check(np.append(of_label, 1.0) if zeros else of_label)
    return encoded


def _numbers(model: FittedModel, X: Table, column: int) -> Array:
    """The numbers of the rows in a column."""
    numbers = model.reader.numbers(X)[:, [column]]
    return np.asarray(numbers.toarray() if issparse(numbers) else numbers, dtype=np.float64).ravel()


def _check_known(model: FittedModel, column: int, numbers: Array) -> None:
    """Raise ValueError for groups that are categories that fit has not seen: all of them look alike."""
    known = model.categories.get(column)
    n = 0 if known is None else np.count_nonzero(numbers >= len(known))
    if n:
        raise ValueError(
            f"group={_column_name(model, column)!r}: {n} rows have categories that fit has not seen; remove these "
            "rows, or fit a new model."
        )


def _column_name(model: FittedModel, column: int) -> Any:
    return column if model.reader.names is None else str(model.reader.names[column])


def _value(model: FittedModel, column: int, number: float) -> Any:
    """A value of the column of groups as users know it."""
    if math.isnan(number):
        return "missing"
    known = model.listed_values.get(column)
    if known is not None:
        return known[int(number)] if number < len(known) else "unknown"
    return int(number) if number == int(number) else number


class _Question(NamedTuple):
    """What is asked of a calibrated model."""

    model: FittedModel
    calibration: Calibration
    measure: Nonconformity
    coverage: Fraction

    @classmethod
    def of(cls, model: FittedModel, coverage: float, method: str) -> _Question:
        exact = exact_coverage(coverage)
        measure = measure_of(model.labels, model.loss)
        if model.calibration is not None:
            return cls(model, model.calibration, measure, exact)
        if model.updates:
            why = f"update(mode={model.updates[-1][0]!r}) has changed the model"
        else:
            why = "fit keeps one only if it holds out rows for early stopping, without X_val"
        raise ValueError(
            f"{method} needs a calibration, which this model does not have: {why}. Please call calibrate with rows "
            "that neither fit nor update has seen."
        )

    def raws(self, X: Table, n_threads: int, offset: Values | None) -> list[Array]:
        """The raw scores of each member, or those of the whole model."""
        if self.calibration.of_members:
            return self.model.raw_predict_of_members(X, n_threads, self.calibration.starts, offset)
        return [self.model.raw_predict(X, n_threads, offset)]

    def parts(self, X: Table, n_rows: int) -> list[tuple[Sequence[Sequence[SortedScores]], Any, Any]]:
        """Scores of each member and label, the rows that they are for, and the group of these rows, as a text."""
        calibration = self.calibration
        if calibration.group is None or calibration.groups is None:
            return [(calibration.parts, slice(None), "")]
        column, groups = calibration.group, calibration.groups
        numbers = _numbers(self.model, X, column)
        codes = np.minimum(np.searchsorted(groups, numbers), len(groups) - 1)
        found = groups[codes]
        other = ~((found == numbers) | (np.isnan(found) & np.isnan(numbers)))
        if other.any():
            unknown = [_value(self.model, column, number) for number in np.unique(numbers[other]).tolist()]
            raise ValueError(
                f"X has groups in column {_column_name(self.model, column)!r} that calibrate has not seen: "
                f"{some_of(unknown)}. Calibrate with rows of these groups, or without group."
            )
        return [
            ([calibration.parts[code]], np.flatnonzero(codes == code), f"{_value(self.model, column, groups[code])!r}")
            for code in np.unique(codes).tolist()
        ]

    def warn(self, coverage: float, few: list[tuple[str, int]], what: str) -> None:
        """Warn of groups with too few rows."""
        if not few:
            return
        column = self.calibration.group
        where = "" if column is None else f"group {few[0][0]} of column {_column_name(self.model, column)!r} has "
        others = f" ({len(few)} groups have too few)" if len(few) > 1 else ""
        weighted = any(scores.weights is not None for part in self.calibration.parts for scores in part)
        rows = "calibration rows of the weight of a row to predict" if weighted else "calibration rows"
        have = f"{where}{few[0][1]}" if where else f"there are {few[0][1]}"
        warnings.warn(
            f"coverage={coverage!r} needs {rows_needed(self.coverage)} {rows}, {have}{others}; {what}.",
            UserWarning,
            stacklevel=4,
        )

    def too_few(self, lists: Sequence[SortedScores]) -> int | None:
        """The number of rows, in units of that to predict, if they are too few for a finite threshold."""
        weight = self.calibration.test_weight
        enough = wanted_weight(lists, weight, self.coverage) is not None
        return None if enough else sum(scores.total for scores in lists) // weight


def check_calibrated(model: FittedModel, coverage: float, what: str) -> None:
    """Raise ValueError if a model has no intervals or sets of this coverage; `what` needs them."""
    _Question.of(model, coverage, what)


def predicted_intervals(model: FittedModel, X: Table, coverage: float, n_threads: int, offset: Values | None) -> Array:
    """Lower and upper bounds, (row, 2), or (row, output, 2) for several labels per row."""
    question = _Question.of(model, coverage, "predict_interval")
    measure = cast(IntervalMeasure, question.measure)
    raws = question.raws(X, n_threads, offset)
    n_rows = raws[0].shape[-1]
    of_labels = [raw.reshape(-1, measure.n_scores, n_rows) for raw in raws]
    bounds = np.empty((n_rows, len(of_labels[0]), 2))
    few: list[tuple[str, int]] = []
    for members, rows, name in question.parts(X, n_rows):
        for label in range(bounds.shape[1]):
            lists = [of_member[label] for of_member in members]
            raw = [of_member[label][:, rows] for of_member in of_labels]
            weight = question.calibration.test_weight
            bounds[rows, label] = intervals(lists, weight, question.coverage, measure, raw)
        n = question.too_few([of_member[0] for of_member in members])
        few += [] if n is None else [(name, n)]
    question.warn(coverage, few, "their intervals contain all possible labels")
    several = getattr(model.labels, "shape", ())
    return bounds if several else bounds[:, 0]


def predicted_sets(
    model: FittedModel, X: Table, coverage: float, n_threads: int, offset: Values | None
) -> NDArray[np.bool_]:
    """The classes that belong to the set of each row, (row, class)."""
    question = _Question.of(model, coverage, "predict_set")
    measure = cast(SetMeasure, question.measure)
    raws = question.raws(X, n_threads, offset)
    n_rows = raws[0].shape[-1]
    found = np.empty((n_rows, cast(Classes, model.labels).n_classes), dtype=bool)
    few: list[tuple[str, int]] = []
    for members, rows, name in question.parts(X, n_rows):
        lists = [of_member[0] for of_member in members]
        raw = [of_member[:, rows] for of_member in raws]
        found[rows] = class_sets(lists, question.calibration.test_weight, question.coverage, measure, raw)
        n = question.too_few(lists)
        few += [] if n is None else [(name, n)]
    question.warn(coverage, few, "their sets contain all classes")
    return found
