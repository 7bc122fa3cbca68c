"""The section about intervals, sets of classes, lists of quantiles and distributions, compared with test rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..._base.sums import Array
from ..._estimators.classifier import AGBMClassifier
from ..._losses import frozen_distribution
from ..evaluation.metrics import losses_of_quantiles
from ..evaluation.tasks import levels_of
from .figures import figures
from .findings import Estimator, Predictions
from .markup import Html, Section, element, joined, number, percent, table
from .measured import log_scores

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def uncertainty(model: Estimator, test: Predictions) -> Section | None:
    """Return the section; None if the model predicts only values or probabilities."""
    measured, levels = test.measured, levels_of(model)
    body: list[Html] = []
    if levels is not None:
        body += _quantiles(np.asarray(test.y, dtype=np.float64), test.predicted, levels)
    if measured.log_scores is not None:
        body.append(_log_score(model, np.asarray(test.y, dtype=np.float64), measured.log_scores))
    if measured.coverages is not None:
        body += _coverage(model, test, measured.coverages)
    if measured.transformed is not None:
        body += _transform(measured.transformed)
    return Section("uncertainty", "Uncertainty", joined(body)) if body else None


def _quantiles(y: Array, predicted: Array, levels: tuple[float, ...]) -> list[Html]:
    constants = np.broadcast_to(np.quantile(y, levels), predicted.shape)
    losses, others = (losses_of_quantiles(y, values, levels).mean(axis=0) for values in (predicted, constants))
    below = (y[:, np.newaxis] <= predicted).mean(axis=0)
    rows = [
        [f"{level:g}", *map(number, (loss, other)), percent(share)]
        for level, loss, other, share in zip(levels, losses.tolist(), others.tolist(), below.tolist(), strict=True)
    ]
    header = ["quantile", "pinball loss", "pinball loss of the baseline", "labels at or below"]
    found = [table("Quantiles on the test rows", header, rows, "stack")]
    if len(levels) > 1:
        inside = float(((predicted[:, 0] <= y) & (y <= predicted[:, -1])).mean())
        text = (
            f"{percent(inside)} of the labels are between the {levels[0]:g} quantile and the {levels[-1]:g} quantile; "
            f"{percent(levels[-1] - levels[0])} should be. The baseline has the same quantiles of the labels for all "
            "rows."
        )
        found.append(element("p", text))
    return found


def _log_score(model: Estimator, y: Array, scores: Array) -> Html:
    mean, constant = float(scores.mean()), _constant_log_score(model, y)
    text = (
        f"The mean log score of the predicted distributions is {number(mean)}: the negative logarithm of the "
        "probability, or density, of the label; lower is better."
    )
    if not math.isnan(constant):
        text += f" The best distribution that is the same for all test rows has {number(constant)}."
    return element("p", text)


def _constant_log_score(model: Estimator, y: Array) -> float:
    """The mean log score of the best constant distribution; NaN if there is none."""
    loss = model.model_.loss
    try:
        scores = np.atleast_1d(loss.best_constant(y, None))
    except ValueError:  # test rows may have labels that the loss cannot be fitted to
        return math.nan
    f = np.ascontiguousarray(np.broadcast_to(scores[:, np.newaxis], (len(scores), len(y))))
    return float(log_scores(frozen_distribution(loss, f), y).mean())


def _coverage(model: Estimator, test: Predictions, coverages: Array) -> list[Html]:
    n_rows = test.measured.n_covered

    def draw(ax: Axes) -> None:
        from ...plot._uncertainty import draw_coverage

        draw_coverage(ax, coverages, n_rows)

    what, which = "intervals", "labels"
    if isinstance(model, AGBMClassifier):
        what, which = "sets of classes", "classes"
    rows = f"a sample of {n_rows:,} test rows" if n_rows < len(test.y) else "all test rows"
    text = (
        f"The {what} of a calibrated model should contain the {which} of a given share of new rows, the nominal "
        f"coverage. The observed coverage is that of {rows}. If the nominal coverage holds, it is within the grey band "
        "in 95 % of the cases."
    )
    return [element("p", text), figures(draw, f"Coverage of the {what}", size=(4.4, 4.1))]


def _transform(values: Array) -> list[Html]:
    def draw(ax: Axes) -> None:
        from ...plot._uncertainty import draw_pit

        draw_pit(ax, values)

    text = (
        "The probability integral transform (PIT) of a label is the probability that its predicted distribution gives "
        "to smaller numbers. If the distributions are right, all bars are about as high as the dashed line, and 95 % "
        "of them end within the band. A U shape means distributions that are too narrow, a hill those that are too "
        "wide. Numbers with a probability of their own, such as counts, are spread at random."
    )
    return [element("p", text), figures(draw, "Probability integral transform")]
