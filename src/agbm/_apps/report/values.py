"""Sections about predicted values and their errors, of one or several per row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..._base.sums import Array
from ..._losses import traits_of
from ..evaluation.metrics import Metric, average_precision, losses_of_shares, mean_metric, metrics_of_values
from ..evaluation.tasks import SeveralOutputs, Shares, Task, levels_of
from .calibration import calibration_charts, grouped
from .figures import figures
from .findings import Estimator, Predictions
from .markup import Html, Section, element, joined, number, percent, table, with_range

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SCATTER_ROWS = 1000
HISTOGRAM_BINS = 40
MOST_OPEN = 30  # outputs of a table that is not collapsed


def errors_of(model: Estimator, test: Predictions) -> Section:
    """The section."""
    y, predicted = np.asarray(test.y, dtype=np.float64), point_predictions(model, test.predicted)
    errors, constant = y - predicted, best_constant(model, y)
    sizes, others = np.abs(errors), np.abs(y - constant[0])
    rows = [
        [
            f"{share} % of the rows",
            number(float(np.quantile(sizes, share / 100))),
            number(float(np.quantile(others, share / 100))),
        ]
        for share in (50, 90, 99)
    ]
    grid = table(
        "Absolute errors: the given share of the rows has at most this error",
        ["", "model", f"baseline ({constant[1]})"],
        rows,
    )
    low, high = np.quantile(errors, [0.005, 0.995])

    def draw(left: Axes, right: Axes, last: Axes) -> None:
        from matplotlib.ticker import MaxNLocator
        from sklearn.metrics import PredictionErrorDisplay

        from ...plot._style import BLUE, GREY, plain_numbers

        shared: dict[str, Any] = {
            "subsample": min(SCATTER_ROWS, len(y)), "random_state": 0,
            "scatter_kwargs": {"color": BLUE, "alpha": 0.4, "s": 9, "linewidths": 0, "rasterized": True},
            "line_kwargs": {"color": GREY, "linestyle": ":"},
        }  # fmt: skip
        for ax, kind in ((left, "actual_vs_predicted"), (right, "residual_vs_predicted")):
            PredictionErrorDisplay.from_predictions(y, predicted, kind=kind, ax=ax, **shared)
            ax.set_aspect("auto", adjustable="box")
        left.set(xlabel="predicted value", ylabel="actual value")
        right.set(xlabel="predicted value", ylabel="residual (actual - predicted)")
        last.hist(errors, bins=HISTOGRAM_BINS, range=(low, high) if high > low else None, color=BLUE)
        last.axvline(0.0, color=GREY, linestyle=":")
        last.set(xlabel="residual (actual - predicted)", ylabel="test rows")
        for ax in (left, right, last):
            ax.xaxis.set_major_locator(MaxNLocator(4))  # the display would label the ends of the axis and odd places
            ax.yaxis.set_major_locator(MaxNLocator(6))
            plain_numbers(ax.xaxis, ax.yaxis)

    text = (
        f"Predictions are {number(abs(float(errors.mean())))} too {'low' if errors.mean() > 0 else 'high'} on average. "
        f"Scatter plots show at most {SCATTER_ROWS:,} rows, drawn at random."
    )
    if levels_of(model) is not None:
        text = f"Of the quantiles, the {constant[1]} is the prediction here. {text}"
    if high > low and ((errors < low) | (errors > high)).any():
        text += " The distribution omits the lowest and the highest 0.5 % of the residuals."
    charts = figures(draw, "Predicted and actual values", "Residuals", "Distribution of the residuals")
    parts = [grid, charts, element("p", text, class_="note")]
    if not traits_of(model.resolved_params_["loss"]).quantiles:  # whose predictions are not means
        parts += _calibration(y, predicted)
    return Section("errors", "Predictions and errors", joined(parts))


def _calibration(y: Array, predicted: Array) -> list[Html]:
    groups = grouped(predicted, y, shares=False)
    text = (
        f"Rows are divided into {len(groups.rows)} groups of about the same size by their prediction. The mean of the "
        "actual values of each group, with its 95 % interval, should be close to the dotted diagonal."
    )
    labels = "mean predicted value", "mean actual value"
    return [element("p", text), calibration_charts({"": groups}, predicted, labels, shares=False)]


def point_predictions(model: Estimator, predicted: Array) -> Array:
    """One value per row: of several quantiles, the middle one."""
    return predicted if levels_of(model) is None else predicted[:, traits_of(model.resolved_params_["loss"]).middle]


def best_constant(model: Estimator, y: Array) -> tuple[float, str]:
    """The best prediction that is the same for all rows, and its name."""
    loss = model.resolved_params_["loss"]
    traits = traits_of(loss)
    if not traits.quantiles:
        return float(np.mean(y)), "mean"
    level = traits.quantiles[traits.middle]
    return float(np.quantile(y, level)), "median" if level == 0.5 else f"{level:g} quantile"


# Several values per row
def outputs(test: Predictions, task: Task) -> Section:
    """The section about several numbers per row: outputs, labels, or probabilities of classes."""
    if isinstance(task, SeveralOutputs):
        rows = [_output(str(k), *both) for k, both in enumerate(zip(test.y.T, test.predicted.T, strict=True))]
        header, kind = ["output", "RMSE ↓", "RMSE of the baseline", "MAE ↓", "R² ↑"], "outputs"
        grid = table("Errors by output; the baseline is the mean", header, rows, "stack")
    elif isinstance(task, Shares):
        names = [str(k) for k in range(test.y.shape[1])]
        errors = np.abs(test.y - test.predicted)
        rows = [
            [name, percent(float(a)), percent(float(b)), number(float(c))]
            for name, a, b, c in zip(
                names, test.y.mean(axis=0), test.predicted.mean(axis=0), errors.mean(axis=0), strict=True
            )
        ]
        header, kind = ["class", "mean label", "mean prediction", "mean absolute error ↓"], "classes"
        grid = table("Predicted shares by class", header, rows, "stack")
    else:
        rows = [_label(str(k), *both) for k, both in enumerate(zip(test.y.T > 0, test.predicted.T, strict=True))]
        header = ["label", "share of the rows", "mean prediction", "log loss ↓", "average precision ↑"]
        kind = "labels"
        grid = table("Metrics by label; the share is the average precision of a random order", header, rows, "stack")
    if len(rows) > MOST_OPEN:
        grid = element("details", element("summary", f"{len(rows):,} {kind}"), grid)
    return Section("outputs", kind[0].upper() + kind[1:], joined([grid]))


def _output(name: str, y: Array, predicted: Array) -> list[str]:
    metrics = {metric.name: metric for metric in metrics_of_values(y, predicted)}
    cells = [_cell(metrics[name]) if name in metrics else "–" for name in ("RMSE", "MAE", "R²")]
    return [name, cells[0], number(float(y.std())), *cells[1:]]


def _label(name: str, found: NDArray[np.bool_], predicted: Array) -> list[str]:
    loss = mean_metric("", losses_of_shares(np.where(found, predicted, 1.0 - predicted)), lower_is_better=True)
    area = _cell(average_precision(found, predicted)) if 0 < found.sum() < len(found) else "–"
    return [name, percent(float(found.mean())), percent(float(predicted.mean())), _cell(loss), area]


def _cell(metric: Metric) -> Html:
    return with_range(number(metric.value), f"{number(metric.low, 3)} to {number(metric.high, 3)}")
