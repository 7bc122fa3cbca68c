"""Sections about the predictions for test rows: classes, probabilities, decisions, values and their errors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..._base.sums import Array
from ..._estimators.classifier import AGBMClassifier
from ..._losses import traits_of
from ..evaluation.metrics import Tried
from ..evaluation.survival_metrics import at, kaplan_meier
from ..evaluation.tasks import Ranking, Survival, levels_of, task_of
from .figures import figures
from .findings import Estimator, Findings, Predictions, whose
from .markup import Html, Section, element, joined, number, percent, table
from .ranking import ranking
from .survival import survival
from .uncertainty import uncertainty

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LARGEST_MATRIX = 30  # classes
MOST_SHARES = 6  # classes of a confusion matrix that also shows percentages
MOST_CONFUSIONS = 20
MOST_CLASSES_OPEN = 12  # classes of a table that is not collapsed
COST_RATIOS = ((1.0, 1.0), (1.0, 5.0), (1.0, 10.0), (5.0, 1.0))
SCATTER_ROWS = 1000
HISTOGRAM_BINS = 40


def baseline(findings: Findings) -> Tried | None:
    """Return the metrics of the best constant prediction for the test rows; None if there are no rows."""
    if findings.model is None or findings.test is None:
        return None
    constant, name = _constant_prediction(findings.model, findings.test.y)
    same = np.tile(constant, (len(findings.test.y), *[1] * np.ndim(constant)))
    return Tried(f"baseline ({name})", metrics=task_of(findings.model).evaluate(findings.test.y, same)[0])


def prediction_sections(findings: Findings) -> list[Section]:
    """Return the sections that need test rows; none if there are no rows."""
    if findings.model is None or findings.test is None:
        return []
    classes, task = _classes(findings.model), task_of(findings.model)
    if isinstance(task, Ranking):
        found = [ranking(findings.test)]
    elif isinstance(task, Survival):
        of_survival = survival(findings.test, task.times)
        found = [] if of_survival is None else [of_survival]
    elif classes is None:
        found = [_errors(findings.model, findings.test)]
    elif len(classes) == 2:
        found = [_ranking(findings.test, classes), _confusion(findings.test, classes)]
        found += [_costs(findings.test, classes, findings.costs), _calibration(findings.test, classes)]
    else:
        found = [_confusion(findings.test, classes), _calibration(findings.test, classes)]
    known = uncertainty(findings.model, findings.test)
    found += [] if known is None else [known]
    about = whose(findings)
    start = [element("p", about)] if about else []
    return [replace(section, body=joined([*start, section.body])) for section in found]


def _classes(model: Estimator) -> NDArray[Any] | None:
    return model.classes_ if isinstance(model, AGBMClassifier) else None


def _constant_prediction(model: Estimator, y: NDArray[Any]) -> tuple[Any, str]:
    """Return the best prediction that is the same for all rows, and its name."""
    task = task_of(model)
    if isinstance(task, Ranking):
        return 0.0, "random order"
    if isinstance(task, Survival):
        steps = kaplan_meier(np.asarray(y[:, 0], dtype=np.float64), y[:, 1] > 0)
        return np.append(0.0, at(steps, np.array(task.times))), "Kaplan-Meier curve"
    classes, levels = _classes(model), levels_of(model)
    if classes is not None:
        return (y[:, np.newaxis] == classes).mean(axis=0), "class shares"
    if levels is not None:
        return np.quantile(np.asarray(y, dtype=np.float64), levels), "quantiles"
    return _best_constant(model, y)


def _best_constant(model: Estimator, y: Array) -> tuple[float, str]:
    loss = model.resolved_params_["loss"]
    traits = traits_of(loss)
    if not traits.quantiles:
        return float(np.mean(y)), "mean"
    level = traits.quantiles[traits.middle]
    return float(np.quantile(y, level)), "median" if level == 0.5 else f"{level:g} quantile"


# Classes
def _confusion(test: Predictions, classes: NDArray[Any]) -> Section:
    from sklearn.metrics import confusion_matrix

    codes = np.searchsorted(classes, test.y)
    counts = confusion_matrix(codes, test.predicted.argmax(axis=1), labels=range(len(classes)))
    names = [str(name) for name in classes.tolist()]
    most = int(counts.sum(axis=1).argmax())
    n_rows = counts.sum()
    text = (
        f"{percent(np.trace(counts) / n_rows)} of the {n_rows:,} test rows are assigned to their class. The baseline, "
        f"which always predicts {names[most]}, is right for {percent(counts[most].sum() / n_rows)}."
    )
    if len(classes) == 2:
        text += f" A row is assigned to {names[1]} if its predicted probability is above 0.5."
    grid = _matrix(counts, names) if len(classes) <= LARGEST_MATRIX else _confusions(counts, names)
    return Section("confusion", "Confusion matrix", joined([element("p", text), grid, _by_class(counts, names)]))


def _matrix(counts: NDArray[np.int64], names: list[str]) -> Html:
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    corner = element("th", "actual ↓ predicted →", scope="col", class_="corner")
    head = element("tr", corner, *(element("th", element("span", name), scope="col") for name in names))
    rows = []
    for name, row, row_shares in zip(names, counts.tolist(), shares.tolist(), strict=True):
        cells = [
            element("td", f"{count:,}", *_share_below(share, len(names)), style=f"--share:{share:.3f}")
            for count, share in zip(row, row_shares, strict=True)
        ]
        rows.append(element("tr", element("th", name, scope="row"), *cells))
    caption = (
        "Number of test rows by actual and predicted class; the stronger the colour, the larger the share of its row"
    )
    size = "many" if len(names) > MOST_SHARES else "few"
    whole = element(
        "table",
        element("caption", caption),
        element("thead", head),
        element("tbody", *rows),
        class_=f"matrix {size}",
    )
    return element("div", whole, class_="scroll", tabindex="0", role="region", aria_label="Confusion matrix")


def _share_below(share: float, n_classes: int) -> list[Html]:
    return [element("span", percent(share), class_="range")] if n_classes <= MOST_SHARES else []


def _confusions(counts: NDArray[np.int64], names: list[str]) -> Html:
    """Return the most frequent errors, if there are too many classes for a matrix."""
    wrong = counts - np.diag(np.diag(counts))
    order = np.argsort(-wrong, axis=None, kind="stable")[:MOST_CONFUSIONS]
    pairs = [divmod(int(place), len(names)) for place in order if wrong.flat[place] > 0]
    rows = [[names[actual], names[predicted], f"{wrong[actual, predicted]:,}"] for actual, predicted in pairs]
    return table("The most frequent errors", ["actual class", "predicted class", "test rows"], rows, "left")


def _by_class(counts: NDArray[np.int64], names: list[str]) -> Html:
    """Return precision and recall; 0 / 0 is unknown."""
    n_actual, n_predicted, right = counts.sum(axis=1), counts.sum(axis=0), np.diag(counts)
    with np.errstate(invalid="ignore"):
        precision, recall, share = right / n_predicted, right / n_actual, n_actual / counts.sum()
    rows = [
        [name, f"{n:,}", percent(s), percent(p), percent(r)]
        for name, n, s, p, r in zip(
            names, n_actual.tolist(), share.tolist(), precision.tolist(), recall.tolist(), strict=True
        )
    ]
    header = ["class", "test rows", "baseline", "precision", "recall"]
    grid = table("Precision and recall by class", header, rows, "stack")
    note = element(
        "p",
        "Precision is the share of the predictions of a class that are right, recall the share of the rows of a class "
        "that are found. The baseline for both is the share of the class in the test rows: the precision and recall of "
        "random predictions with these shares.",
        class_="note",
    )
    if len(names) <= MOST_CLASSES_OPEN:
        return joined([grid, note])
    summary = element("summary", f"Precision and recall of the {len(names):,} classes")
    return element("details", summary, grid, note)


def _ranking(test: Predictions, classes: NDArray[Any]) -> Section:
    positive = test.y == classes[1]
    title = "ROC and precision-recall"
    if positive.all() or not positive.any():
        return Section("ranking", title, element("p", f"All test rows have the class {test.y[0]}: no curves."))

    def draw(left: Axes, right: Axes) -> None:
        from sklearn.metrics import PrecisionRecallDisplay, RocCurveDisplay

        from ...plot._style import BLUE, GREY

        shared: dict[str, Any] = {
            "plot_chance_level": True,
            "chance_level_kw": {"color": GREY, "linestyle": ":", "label": "baseline"},
            "curve_kwargs": {"color": BLUE, "label": "model"},
        }
        RocCurveDisplay.from_predictions(positive, test.predicted[:, 1], ax=left, **shared)
        left.set(xlabel="false positive rate", ylabel="true positive rate (recall)")
        PrecisionRecallDisplay.from_predictions(positive, test.predicted[:, 1], ax=right, **shared)
        right.set(xlabel="recall", ylabel="precision", ylim=(-0.02, 1.02))
        for ax in (left, right):
            ax.legend(loc="lower right" if ax is left else "lower left")

    text = (
        f"Each point of a curve is a threshold: rows with at least this predicted probability are assigned to "
        f"{classes[1]}, which {percent(positive.mean())} of the test rows have."
    )
    return Section("ranking", title, joined([element("p", text), figures(draw, "ROC curve", "Precision-recall curve")]))


def _calibration(test: Predictions, classes: NDArray[Any]) -> Section:
    def draw(ax: Axes) -> None:
        from ...plot._calibration import draw_calibration, outcomes

        event = f"class {classes[1]}" if len(classes) == 2 else None
        draw_calibration(ax, {"": outcomes(test.y, test.predicted, classes)}, event)

    whose = f"of class {classes[1]}" if len(classes) == 2 else "of the predicted class"
    text = (
        f"Rows are grouped by the predicted probability {whose}. If probabilities are calibrated, the observed "
        "frequency in each group is close to the dotted diagonal. The lower chart shows the number of rows per group; "
        "groups with few rows are imprecise."
    )
    return Section(
        "calibration", "Calibration", joined([element("p", text), figures(draw, "Calibration", size=(4.8, 4.4))])
    )


def _costs(test: Predictions, classes: NDArray[Any], costs: tuple[float, float]) -> Section:
    from ...plot._calibration import outcomes

    found = outcomes(test.y, test.predicted, classes)

    def draw(ax: Axes) -> None:
        from ...plot._threshold import draw_costs

        draw_costs(ax, {"": found}, f"class {classes[1]}", *costs)

    text = (
        f"A false positive is a row of class {classes[0]} that is assigned to {classes[1]}, a false negative the "
        "opposite. Given the costs of the two, the best threshold for calibrated probabilities is "
        "false positive / (false positive + false negative). Costs are in the unit of the ratio, per 100 test rows. "
        f"The baseline assigns all rows to {classes[0]} or all to {classes[1]}, whichever costs less."
    )
    ratios = [costs, *(ratio for ratio in COST_RATIOS if ratio[0] * costs[1] != ratio[1] * costs[0])]
    rows = [_cost_row(*found, *ratio) for ratio in ratios]
    header = [
        "false positive : false negative", "threshold", "false positives", "false negatives", "cost",
        "cost at 0.5", "cost of the baseline",
    ]  # fmt: skip
    grid = table("Costs of wrong decisions by the ratio of their costs", header, rows, "stack")
    title = f"Cost by threshold, {_ratio(*costs)}"
    note = element(
        "p",
        "The star marks the lowest cost on these rows, the dotted line the threshold of the table. A threshold that is "
        "chosen on the test rows looks better than it is.",
        class_="note",
    )
    return Section("costs", "Threshold and costs", joined([element("p", text), grid, figures(draw, title), note]))


def _cost_row(
    probabilities: Array, occurred: NDArray[np.bool_], false_positive: float, false_negative: float
) -> list[str]:
    def errors(threshold: float) -> tuple[int, int, str]:
        positive = probabilities >= threshold
        alarms, missed = int((positive & ~occurred).sum()), int((occurred & ~positive).sum())
        cost = false_positive * alarms + false_negative * missed
        return alarms, missed, number(100.0 * cost / len(occurred), 3)

    threshold = false_positive / (false_positive + false_negative)
    alarms, missed, cost = errors(threshold)
    constant = min(false_positive * (~occurred).mean(), false_negative * occurred.mean())
    return [
        _ratio(false_positive, false_negative), number(threshold, 3), f"{alarms:,}", f"{missed:,}", cost,
        errors(0.5)[2], number(100.0 * float(constant), 3),
    ]  # fmt: skip


def _ratio(false_positive: float, false_negative: float) -> str:
    return f"{number(false_positive)} : {number(false_negative)}"


# Values
def _errors(model: Estimator, test: Predictions) -> Section:
    y, loss = np.asarray(test.y, dtype=np.float64), model.resolved_params_["loss"]
    predicted = test.predicted if levels_of(model) is None else test.predicted[:, traits_of(loss).middle]
    errors, constant = y - predicted, _best_constant(model, y)
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
    return Section("errors", "Predictions and errors", joined([grid, charts, element("p", text, class_="note")]))
