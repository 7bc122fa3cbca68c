"""The section about intervals, sets of classes, lists of quantiles and distributions, compared with test rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import binom

from ..._base.sums import Array
from ..._estimators.classifier import AGBMClassifier
from ..._losses import frozen_distribution
from ..evaluation.metrics import losses_of_quantiles, wilson
from ..evaluation.tasks import levels_of
from .figures import figures
from .findings import Estimator, Predictions
from .markup import Html, Section, element, joined, number, percent, table, with_range
from .measured import GROUPED_COVERAGE, GroupCoverage, log_scores

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_GROUPS = 12
FEWEST_IN_GROUP = 10
"""Smaller groups are not in the chart."""


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
    if measured.by_group is not None:
        body += _by_group(measured.by_group)
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


def _by_group(found: GroupCoverage) -> list[Html]:
    share, low, high = found.overall()
    n_groups, nominal = len(found.rows), percent(GROUPED_COVERAGE)
    text = f"{percent(share)} of the labels of {found.rows.sum():,} test rows are within their {nominal} intervals"
    if n_groups > 1:
        text += (
            f" (95 % interval {percent(low)} to {percent(high)}, for a sample of whole groups, whose rows may have "
            "similar errors)"
        )
    lows, highs = wilson(found.inside, found.rows)
    shown = zip(found.names.tolist(), found.rows, found.inside / found.rows, lows, highs, strict=True)
    rows = [
        [str(name), f"{n:,}", with_range(percent(of), f"{percent(a)} to {percent(b)}")]
        for name, n, of, a, b in list(shown)[:MOST_GROUPS]
    ]
    caption = f"Coverage of the {nominal} intervals by group"
    if n_groups > len(rows):
        caption += f", the {len(rows)} groups with most rows"
    grid = table(caption, ["group", "test rows", "observed coverage"], rows, "stack")
    frequent = found.rows >= FEWEST_IN_GROUP
    if n_groups <= MOST_GROUPS or frequent.sum() <= MOST_GROUPS:
        return [element("p", f"{text}."), grid]

    def draw(ax: Axes) -> None:
        from ...plot._style import BLACK, BLUE

        edges = np.linspace(0.0, 1.0, 21) + 1e-9  # a share at an edge is below it
        edges[0] = -1.0
        rows, shares = found.rows[frequent], (found.inside / found.rows)[frequent]
        below = binom.cdf(np.floor(edges[:, np.newaxis] * rows), rows, GROUPED_COVERAGE).sum(axis=1)
        places = np.arange(20) / 20
        ax.bar(places, np.histogram(shares, edges)[0], width=0.05, align="edge", color=BLUE, label="groups")
        ax.stairs(np.diff(below), np.append(places, 1.0), color=BLACK, linestyle="--", label="expected by chance")
        first = max(0.0, min(0.5, float(shares.min()) // 0.05 * 0.05))
        ax.set(xlim=(first, 1.0), xlabel="observed coverage of the group", ylabel="groups")
        ax.legend(loc="upper left")

    note = (
        f"The chart has the {frequent.sum():,} of {n_groups:,} groups with at least {FEWEST_IN_GROUP} test rows. The "
        f"dashed line is expected if the coverage is {nominal} in each group; a wider distribution means that it "
        "differs."
    )
    return [element("p", f"{text}. {note}"), figures(draw, f"Coverage of the {nominal} intervals by group"), grid]


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
