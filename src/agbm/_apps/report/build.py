"""Builds findings: what the command and the function `agbm.report` have in common."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._base.sums import Array
from ..._core.methods import title_of
from ..evaluation.metrics import Metric, Tried
from ..evaluation.tasks import Classification, Ranking, Regression, Task, task_of
from .drift import Drift, find_drift
from .findings import (
    Column,
    Estimator,
    Findings,
    Predictions,
    Two,
    changed_parameters,
    loss_name,
    tried_from_model,
)
from .predictions import metrics_of, positive_class
from .segments import Segment, Segments, find_differences, find_segments
from .values import point_predictions
from .wording import Wording

GROUPED_COLUMNS = 3
"""The most important columns, by whose values losses are shown."""


def findings_about(
    model: Estimator,
    *,
    metrics: Sequence[Metric] = (),
    seconds: float | None = None,
    columns: Sequence[Column] = (),
    test: Predictions | None = None,
    evaluated_on: str = "",
    positive: object = None,
    costs: tuple[float, float] = (1.0, 1.0),
    training: NDArray[Any] | None = None,
    shows_rows: bool = True,
    title: str | None = None,
) -> Findings:
    """The findings about one model, with the notes on its training; `metrics` are those to show without test rows.

    `training` are training rows as numbers, which a classifier tells from the test rows.
    """
    notes, name = model.notes_, title_of(model.method)
    task = task_of(model)
    data = {"task": task.name} | {key: notes[key] for key in ("data", "target", "rows") if key in notes}
    if "rows" in data:
        data["rows"] = re.sub(r"\d+", lambda found: f"{int(found[0]):,}", data["rows"])
    if evaluated_on or test is not None:
        n_rows = "" if test is None else f"{len(test.y):,} rows"
        data["evaluated on"] = ": ".join(filter(None, [evaluated_on, n_rows]))
    if seconds is None:
        seconds = float(model.history_["seconds"][-1])
    if test is not None:
        metrics = task.evaluate(test.y, test.predicted)[0]
    tried = tried_from_model(name, model, metrics, seconds)
    findings = Findings(
        title=title or f"{notes.get('target', 'A model')}: {task.name} with {name}",
        command=notes.get("command", f"model.set_params(**{changed_parameters(model)!r}).fit(X, y)"),
        data=data,
        columns=columns,
        tried=[tried if test is None else replace(tried, predicted=test.predicted)],
        model=model,
        test=test,
        costs=costs,
        shows_rows=shows_rows,
    )
    seed = str(model.get_params()["random_state"])
    return with_origin(findings if test is None else with_test_rows(findings, test, positive, training), seed)


def with_test_rows(
    findings: Findings, test: Predictions, positive: object = None, training: NDArray[Any] | None = None
) -> Findings:
    """Findings about test rows of their model: metrics of the positive class for all models, segments and drift."""
    model = findings.model
    assert model is not None
    task = task_of(model)
    place = positive_class(task, test.y, positive)
    tried = [
        one
        if one.predicted is None or place is None
        else replace(one, metrics=metrics_of(task, test.y, one.predicted, place))
        for one in findings.tried
    ]
    data = dict(findings.data) | ({} if place is None else {"positive class": str(model.classes_[place])})
    return replace(
        findings, data=data, tried=tried, test=test, positive=place, segments=segments_of(model, test, task, place),
        drift=drift_of(model, test, training),
    )  # fmt: skip


def with_origin(findings: Findings, seed: str) -> Findings:
    """Findings with the version, date, seed and machine."""
    facts = {
        "agbm": version("agbm"),
        "report written": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": seed,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }
    first = next((metric.name for one in findings.tried for metric in one.metrics), "loss")  # libraries minimise it
    loss = first if findings.model is None else loss_name(findings.model)
    return replace(findings, facts=facts, loss=loss)


def segments_of(model: Estimator, test: Predictions, task: Task, positive: int | None) -> Segments | None:
    """The segments of the test rows; None if losses are not those of rows, or if there are too few."""
    if test.rows is None or isinstance(task, Ranking):
        return None
    losses = task.evaluate(test.y, test.predicted)[1]
    if len(losses) != len(test.y):
        return None
    places = test.rows.places
    means = _means(model, test, task, positive)
    of_rows = None if means is None else (means[0][places], means[1][places])
    importances = importances_of(model)
    order = np.argsort(-importances, kind="stable")[:GROUPED_COLUMNS]
    columns = [f for f in order.tolist() if importances[f] > 0.0]
    return find_segments(test.rows.numbers, losses[places], of_rows, Wording(model.model_.reader), columns)


def _means(model: Estimator, test: Predictions, task: Task, positive: int | None) -> tuple[Array, Array] | None:
    """What is compared in a segment: for classes, the share of the positive one or accuracy and confidence."""
    if isinstance(task, Classification):
        if positive is not None:
            return (test.y == task.classes[positive]).astype(np.float64), test.predicted[:, positive]
        right = task.classes[test.predicted.argmax(axis=1)] == test.y
        return right.astype(np.float64), test.predicted.max(axis=1)
    if isinstance(task, Regression):
        return np.asarray(test.y, dtype=np.float64), point_predictions(model, test.predicted)
    return None


def drift_of(model: Estimator, test: Predictions, training: NDArray[Any] | None = None) -> Drift | None:
    """The drift of the test rows; None if the model does not know its training rows."""
    profile = model.model_.profile
    if test.rows is None or profile is None:
        return None
    wording = Wording(model.model_.reader)
    return find_drift(test.rows.numbers, test.rows.new, profile, importances_of(model), wording, training)


def importances_of(model: Estimator) -> Array:
    """The importances of the columns; if the model has no trees, all are equal."""
    if hasattr(model, "feature_importances_") and model.split_counts_.any():
        return model.feature_importances_
    return np.full(model.n_features_in_, 1.0 / model.n_features_in_)


def two_of(tried: Sequence[Tried], default: str, task: Task, y: NDArray[Any], test: Predictions | None) -> Two | None:
    """The best of several models, which are ordered, and the default; if that is the best, the second best.

    None if there are no two. Segments are those of `test`, rows of a model of this library.
    """
    done = [(one, one.predicted, one.losses) for one in tried if one.predicted is not None and one.losses is not None]
    if len(done) < 2:
        return None
    other = next((one for one in done[1:] if one[0].name == default), done[1])
    (first, *of_first), (second, *of_second) = done[0], other
    segments: list[Segment] = []
    n_rows = 0
    model = next((one.model for one in tried if one.model is not None), None)
    if test is not None and test.rows is not None and model is not None and len(of_first[1]) == len(y):
        differences = (of_second[1] - of_first[1])[test.rows.places]
        segments, n_rows = find_differences(test.rows.numbers, differences, Wording(model.model_.reader))
    return Two(
        (first.name, second.name), task, y, (of_first[0], of_second[0]),
        (of_first[1], of_second[1]), positive_class(task, y), segments, n_rows,
    )  # fmt: skip
