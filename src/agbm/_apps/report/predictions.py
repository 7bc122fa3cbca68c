"""Sections about the predictions for test rows, and the baseline that they are compared with."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..evaluation.metrics import Metric, Tried, average_precision
from ..evaluation.survival_metrics import at, kaplan_meier
from ..evaluation.tasks import (
    Classification,
    Ranking,
    Regression,
    SeveralLabels,
    SeveralOutputs,
    Shares,
    Survival,
    Task,
    levels_of,
    task_of,
)
from .classes import Event, calibration, confusion, costs, curves, event_of, gain
from .findings import Estimator, Findings
from .markup import Make
from .ranking import ranking
from .survival import survival
from .uncertainty import uncertainty
from .values import best_constant, errors_of, outputs


def baseline(findings: Findings) -> Tried | None:
    """Return the metrics of the best constant prediction for the test rows; None if there are no rows."""
    if findings.model is None or findings.test is None:
        return None
    y = findings.test.y
    constant, name = _constant_prediction(findings.model, y)
    same = np.tile(constant, (len(y), *[1] * np.ndim(constant)))
    metrics = metrics_of(task_of(findings.model), y, same, findings.positive)
    return Tried(f"baseline ({name})", metrics=metrics)


def metrics_of(task: Task, y: NDArray[Any], predicted: NDArray[Any], positive: int | None) -> list[Metric]:
    """The metrics of predictions for test rows; those that depend on the positive one of two classes come last."""
    found = task.evaluate(y, predicted)[0]
    if positive is None or not isinstance(task, Classification):
        return found
    event = event_of(y, predicted, task.classes, positive)
    return found if event.is_certain else [*found, average_precision(event.occurred, event.probabilities)]


def prediction_sections(findings: Findings) -> list[Make]:
    """Functions that make the sections that need test rows; none if there are no rows."""
    model, test = findings.model, findings.test
    if model is None or test is None:
        return []
    task, found = task_of(model), list[Make]()
    event = _event(findings)
    if isinstance(task, Ranking):
        found.append(partial(ranking, test))
    elif isinstance(task, Survival):
        found.append(partial(survival, test, task.times))
    elif isinstance(task, (SeveralLabels, SeveralOutputs, Shares)):
        found.append(partial(outputs, test, task))
    elif isinstance(task, Regression):
        found.append(partial(errors_of, model, test))
    elif isinstance(task, Classification):
        if event is not None:
            found += [partial(curves, event), partial(gain, event)]
        found.append(partial(confusion, test, task.classes))
        if event is not None:
            found.append(partial(costs, event, findings.costs))
        found.append(partial(calibration, event, test, task.classes))
    return [*found, partial(uncertainty, model, test)]


def _event(findings: Findings) -> Event | None:
    if findings.positive is None or findings.model is None or findings.test is None:
        return None
    return event_of(findings.test.y, findings.test.predicted, findings.model.classes_, findings.positive)


def positive_class(task: Task, y: NDArray[Any], label: object = None) -> int | None:
    """The index of the positive one of two classes: the given one, or the one with fewer rows; None for other tasks.

    A label is a class or its text.
    """
    if not isinstance(task, Classification) or len(task.classes) != 2:
        if label is None:
            return None
        raise ValueError(f"positive={label!r}: the model must be a classifier with two classes; omit it.")
    classes = task.classes.tolist()
    if label is None:
        return int(2 * np.count_nonzero(y == task.classes[1]) <= len(y))
    for place, name in enumerate(classes):
        if label in (name, str(name)):
            return place
    raise ValueError(f"positive={label!r} must be one of the classes {classes}.")


def _constant_prediction(model: Estimator, y: NDArray[Any]) -> tuple[Any, str]:
    """Return the best prediction that is the same for all rows, and its name."""
    task, levels = task_of(model), levels_of(model)
    if isinstance(task, Ranking):
        return 0.0, "random order"
    if isinstance(task, Survival):
        steps = kaplan_meier(np.asarray(y[:, 0], dtype=np.float64), y[:, 1] > 0)
        return np.append(0.0, at(steps, np.array(task.times))), "Kaplan-Meier curve"
    if isinstance(task, Classification):
        return (y[:, np.newaxis] == task.classes).mean(axis=0), "class shares"
    if isinstance(task, SeveralOutputs):
        return np.mean(y, axis=0), "means"
    if isinstance(task, (SeveralLabels, Shares)):
        return np.mean(y, axis=0), "mean shares"
    if levels is not None:
        return np.quantile(np.asarray(y, dtype=np.float64), levels), "quantiles"
    return best_constant(model, y)
