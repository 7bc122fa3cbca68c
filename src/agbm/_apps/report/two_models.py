"""The section about two of several models: the best one and the default."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..evaluation.metrics import paired_difference
from ..evaluation.tasks import Classification, Regression
from .calibration import calibration_charts, grouped
from .classes import event_of
from .figures import figures
from .findings import Two
from .markup import Html, Section, element, joined, number, percent, table, with_range

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SCATTER_ROWS = 1000


def two_models(two: Two) -> Section:
    """Return the section."""
    first, second = two.names
    difference = paired_difference("", two.losses[1], two.losses[0])
    lower = float(np.mean(two.losses[0] < two.losses[1]))
    rows = "rows" if len(two.losses[0]) == len(two.y) else "queries"
    text = (
        f"The mean {two.task.loss} of {first} is lower than that of {second} by {number(difference.value)} "
        f"(95 % interval {number(difference.low, 3)} to {number(difference.high, 3)}, paired over the test {rows}). It "
        f"is lower for {percent(lower)} of the {rows}."
    )
    if difference.low <= 0.0:
        text += " The difference may be due to chance."
    body = [element("p", text)]
    if isinstance(two.task, Classification):
        body += [element("p", _agreement(two, two.task)), *_probabilities(two, two.task)]
    elif isinstance(two.task, Regression) and two.task.levels is None:
        body += _values(two)
    return Section("two", f"{first} and {second}", joined([*body, *_segments(two)]))


def _agreement(two: Two, task: Classification) -> str:
    assigned = [task.classes[of.argmax(axis=1)] for of in two.predicted]
    differ = assigned[0] != assigned[1]
    right = [int((differ & (of == two.y)).sum()) for of in assigned]
    return (
        f"They assign {percent(float(1.0 - differ.mean()))} of the test rows to the same class. Of the other "
        f"{int(differ.sum()):,} rows, {two.names[0]} is right for {right[0]:,}, and {two.names[1]} for {right[1]:,}."
    )


def _probabilities(two: Two, task: Classification) -> list[Html]:
    if two.positive is not None:
        events = [event_of(two.y, of, task.classes, two.positive) for of in two.predicted]
        name = f"predicted probability of class {events[0].name}"
        pairs = [(event.probabilities, event.occurred) for event in events]
        labels = name, f"share of class {events[0].name}"
    else:
        name = "predicted probability of the predicted class"
        pairs = [(of.max(axis=1), task.classes[of.argmax(axis=1)] == two.y) for of in two.predicted]
        labels = name, "share of correct predictions"
    found = {
        model: grouped(predicted, occurred.astype(np.float64), shares=True)
        for model, (predicted, occurred) in zip(two.names, pairs, strict=True)
    }
    parts = [calibration_charts(found, np.concatenate([of for of, _ in pairs]), labels, shares=True)]

    def draw(*axes: Axes) -> None:
        from ...plot._style import GREY, add_legend, line_style

        if two.positive is not None and 0.0 < pairs[0][1].mean() < 1.0:
            from sklearn.metrics import roc_curve

            ax, handles = axes[0], []
            for k, (predicted, occurred) in enumerate(pairs):
                false, true, _ = roc_curve(occurred, predicted)
                handles += ax.plot(false, true, color=line_style(k)["color"])
            ax.plot([0.0, 1.0], [0.0, 1.0], color=GREY, linestyle=":")
            ax.set(xlabel="false positive rate", ylabel="true positive rate (recall)")
            add_legend(ax, handles, two.names)
        _scatter(axes[-1], two, pairs[0][0], pairs[1][0], name)

    titles = ["ROC curves", "Predictions of both"] if two.positive is not None else ["Predictions of both"]
    return [*parts, figures(draw, *titles)]


def _values(two: Two) -> list[Html]:
    y = np.asarray(two.y, dtype=np.float64)
    found = {name: grouped(of, y, shares=False) for name, of in zip(two.names, two.predicted, strict=True)}
    labels = "mean predicted value", "mean actual value"

    def draw(left: Axes, right: Axes) -> None:
        from ...plot._style import add_legend, line_style, plain_numbers

        handles = []
        for k, of in enumerate(two.predicted):
            errors = np.sort(np.abs(y - of))
            handles += left.plot(errors, np.arange(1, len(y) + 1) / len(y), color=line_style(k)["color"])
        left.set(xlabel="absolute error", ylabel="share of the rows with at most this error", ylim=(-0.02, 1.02))
        left.set_xlim(0.0, float(np.quantile(np.abs(y - two.predicted[0]), 0.99)) or None)
        add_legend(left, handles, two.names)
        plain_numbers(left.xaxis)
        left.locator_params(axis="x", nbins=5)
        _scatter(right, two, *two.predicted, "prediction")
        plain_numbers(right.xaxis, right.yaxis)

    charts = calibration_charts(found, np.concatenate(two.predicted), labels, shares=False)
    return [charts, figures(draw, "Absolute errors", "Predictions of both")]


def _scatter(ax: Axes, two: Two, first: np.ndarray, second: np.ndarray, what: str) -> None:
    from ...plot._style import BLUE, GREY, shortened

    rows = np.random.default_rng(0).permutation(len(first))[:SCATTER_ROWS]
    ax.plot(first[rows], second[rows], ".", color=BLUE, alpha=0.4, markersize=4, markeredgewidth=0, rasterized=True)
    ax.axline((float(first.mean()),) * 2, slope=1.0, linestyle=":", color=GREY)
    ax.set_xlabel(f"{what}\nby {shortened(two.names[0])}", parse_math=False)
    ax.set_ylabel(f"by {shortened(two.names[1])}", parse_math=False)
    ax.locator_params(nbins=5)


def _segments(two: Two) -> list[Html]:
    if not two.n_rows:
        return []
    first, second = two.names
    text = (
        f"Segments where the {two.task.loss} of the two differs most: a tree has found the rules on one half of the "
        f"rows, and the numbers come from the other half, {two.n_rows:,} rows. Where the difference is positive, "
        f"{first} is better; where it is negative, {second} is."
    )
    if not two.segments:
        return [element("p", text), element("p", "In no segment is the difference beyond chance.")]
    rows = [
        [
            one.rule, with_range(f"{one.rows:,}", percent(one.share)),
            with_range(number(one.loss), f"{number(one.low, 3)} to {number(one.high, 3)}"),
            first if one.loss > 0.0 else second,
        ]
        for one in two.segments
    ]  # fmt: skip
    header = ["segment", "rows", "difference", "better"]
    return [element("p", text), table("Where the two differ", header, rows, "stack rules")]
