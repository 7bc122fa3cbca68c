"""Sections about classes and their probabilities: curves, gain and lift, confusion matrix, costs, calibration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._base.sums import Array
from ..evaluation.metrics import average_precision, wilson
from .calibration import calibration_charts, grouped
from .figures import figures
from .findings import Predictions
from .markup import Html, Section, element, joined, number, percent, table, with_range

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LARGEST_MATRIX = 30  # classes
MOST_SHARES = 6  # classes of a confusion matrix that also shows percentages
MOST_CONFUSIONS = 20
MOST_CLASSES_OPEN = 12  # classes of a table that is not collapsed
COST_RATIOS = ((1.0, 1.0), (1.0, 5.0), (1.0, 10.0), (5.0, 1.0))
TENTHS = 10


class Event(NamedTuple):
    """The positive class of two."""

    name: str
    other: str
    probabilities: Array
    """The predicted probability of each row."""
    occurred: NDArray[np.bool_]

    @property
    def share(self) -> float:
        """The share of positive rows."""
        return float(self.occurred.mean())

    @property
    def is_certain(self) -> bool:
        """Whether all rows have the same class."""
        return self.share in (0.0, 1.0)


def event_of(y: NDArray[Any], predicted: Array, classes: NDArray[Any], positive: int) -> Event:
    """The event that rows have the positive class, by its index."""
    return Event(
        str(classes[positive]), str(classes[1 - positive]), predicted[:, positive], np.asarray(y == classes[positive])
    )


def same_class(event: Event, name: str, title: str) -> Section:
    """A section without charts."""
    only = event.name if event.share else event.other
    return Section(name, title, element("p", f"All test rows have the class {only}: no curves."))


# Curves
def curves(event: Event) -> Section:
    """The section with the ROC and the precision-recall curve."""
    title = "ROC and precision-recall"
    if event.is_certain:
        return same_class(event, "ranking", title)

    def draw(left: Axes, right: Axes) -> None:
        from sklearn.metrics import PrecisionRecallDisplay, RocCurveDisplay

        from ...plot._style import BLUE, GREY

        shared: dict[str, Any] = {
            "plot_chance_level": True,
            "chance_level_kw": {"color": GREY, "linestyle": ":", "label": "baseline"},
            "curve_kwargs": {"color": BLUE, "label": "model"},
        }
        RocCurveDisplay.from_predictions(event.occurred, event.probabilities, ax=left, **shared)
        left.set(xlabel="false positive rate", ylabel="true positive rate (recall)")
        PrecisionRecallDisplay.from_predictions(event.occurred, event.probabilities, ax=right, **shared)
        right.set(xlabel="recall", ylabel="precision", ylim=(-0.02, 1.02))
        for ax in (left, right):
            ax.legend(loc="lower right" if ax is left else "best")

    area = average_precision(event.occurred, event.probabilities)
    text = (
        f"Each point of a curve is a threshold: rows with at least this predicted probability are assigned to "
        f"{event.name}, which {percent(event.share)} of the test rows have. The area under the precision-recall curve "
        f"(average precision) is {number(area.value)}, with a 95 % interval from {number(area.low, 3)} to "
        f"{number(area.high, 3)}; that of the baseline is {number(event.share)}."
    )
    return Section("ranking", title, joined([element("p", text), figures(draw, "ROC curve", "Precision-recall curve")]))


# Gain and lift
class Gains(NamedTuple):
    """The share of the positive rows among those with the highest predictions."""

    rows: Array
    """Shares of all rows, from 0 to 1."""
    found: Array
    """The share of the positive rows that is found among them."""

    def at(self, rows: Any) -> Array:
        """The share that is found among any shares of the rows."""
        return np.asarray(np.interp(rows, self.rows, self.found))


def gains_of(event: Event) -> Gains:
    """The gain curve; the order of rows with equal predictions does not matter."""
    values, place = np.unique(-event.probabilities, return_inverse=True)
    rows, found = np.bincount(place), np.bincount(place, event.occurred)
    assert len(values) == len(rows)
    return Gains(*(np.append(0.0, np.cumsum(of) / of.sum()) for of in (rows, found)))


class Separation(NamedTuple):
    """The Kolmogorov-Smirnov statistic: the largest difference between the cumulative shares of the two classes."""

    value: float
    threshold: float
    positive: float
    negative: float
    """Shares of both classes with at least this probability."""


def separation_of(event: Event) -> Separation:
    """The threshold that separates the classes best."""
    from sklearn.metrics import roc_curve

    false, true, thresholds = roc_curve(event.occurred, event.probabilities)
    best = int((true - false).argmax())
    return Separation(
        float(true[best] - false[best]), min(1.0, float(thresholds[best])), float(true[best]), float(false[best])
    )


def gain(event: Event) -> Section:
    """The section with gain, lift and the separation of the classes."""
    title = "Gain and lift"
    if event.is_certain:
        return same_class(event, "gain", title)
    curve, best, tenths = gains_of(event), separation_of(event), tenths_of(event)

    def draw(left: Axes, right: Axes) -> None:
        from ...plot._style import BLUE, GREY, ORANGE, shortened

        names = [shortened(name) for name in (event.name, event.other)]
        others = (curve.rows - event.share * curve.found) / (1.0 - event.share)
        left.plot(curve.rows, curve.found, color=BLUE, label=f"class {names[0]}")
        left.plot(curve.rows, others, color=ORANGE, label=f"class {names[1]}")
        place = event.share * best.positive + (1.0 - event.share) * best.negative
        left.plot([place] * 2, [best.negative, best.positive], color=GREY, linewidth=2.0, label="KS")
        left.plot([0.0, 1.0], [0.0, 1.0], color=GREY, linestyle=":", label="random order")
        left.set(xlabel="share of the rows, highest predictions first", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        left.set_ylabel("share of the class found")
        for text in left.legend(loc="lower right").get_texts():
            text.set_parse_math(False)
        places = np.arange(1, len(tenths) + 1)
        lifts = np.array([[tenth.share, tenth.low, tenth.high] for tenth in tenths]).T / event.share
        right.bar(places, lifts[0], color=BLUE, alpha=0.75)
        right.vlines(places, lifts[1], lifts[2], color=BLUE, linewidth=1.5)
        right.axhline(1.0, color=GREY, linestyle=":")
        right.set(xlabel="tenth of the rows, highest predictions first", ylabel="lift", xticks=places)
        right.grid(axis="x", visible=False)

    first, second = (float(curve.at(share)) for share in (0.1, 0.2))
    texts = [
        f"Rows are ordered by the predicted probability of {event.name}. The first 10 % contain {percent(first)} of "
        f"the rows of this class, {number(first / 0.1, 3)} times as many as 10 % drawn at random (lift); the first "
        f"20 % contain {percent(second)}.",
        f"The classes are separated best at a probability of {number(best.threshold, 3)}: {percent(best.positive)} of "
        f"the rows of {event.name} have at least this probability, and {percent(best.negative)} of the others. The "
        f"difference, {number(best.value, 3)}, is the Kolmogorov-Smirnov statistic (KS).",
    ]
    charts = figures(draw, "Cumulative gain", "Lift by tenths of the rows")
    return Section("gain", title, joined([*(element("p", text) for text in texts), charts, _table(event, tenths)]))


class Tenth(NamedTuple):
    """A tenth of the rows, ordered by their predictions."""

    rows: int
    predicted: float
    share: float
    low: float
    high: float
    """The share of positive rows, and its interval."""
    found: float
    """The share of all positive rows that is found up to the end of this tenth."""
    lift: float
    """That of the rows up to the end of this tenth."""


def tenths_of(event: Event) -> list[Tenth]:
    """All tenths, highest predictions first."""
    order = np.argsort(-event.probabilities, kind="stable")
    parts = [part for part in np.array_split(order, TENTHS) if len(part)]
    ends = np.cumsum([0, *map(len, parts)]) / len(order)
    found = gains_of(event).at(ends)
    tenths = []
    for k, part in enumerate(parts):
        share = min(1.0, float(found[k + 1] - found[k]) * event.share / float(ends[k + 1] - ends[k]))
        low, high = wilson(share * len(part), len(part))
        mean, end = float(event.probabilities[part].mean()), float(found[k + 1])
        tenths.append(Tenth(len(part), mean, share, float(low), float(high), end, end / float(ends[k + 1])))
    return tenths


def _table(event: Event, tenths: Sequence[Tenth]) -> Html:
    rows = [
        [
            f"{k + 1}", f"{tenth.rows:,}", percent(tenth.predicted),
            with_range(percent(tenth.share), f"{percent(tenth.low)} to {percent(tenth.high)}"),
            number(tenth.share / event.share, 3), percent(tenth.found), number(tenth.lift, 3),
        ]
        for k, tenth in enumerate(tenths)
    ]  # fmt: skip
    header = ["tenth", "rows", "mean prediction", f"share of {event.name}", "lift", "found so far", "lift so far"]
    grid = table("Tenths of the rows, highest predictions first", header, rows, "stack")
    return element("details", element("summary", "Lift by tenths of the rows"), grid)


# Assigned classes
def confusion(test: Predictions, classes: NDArray[Any]) -> Section:
    """The section with the confusion matrix, precision and recall."""
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


# Calibration
def calibration(event: Event | None, test: Predictions, classes: NDArray[Any]) -> Section:
    """The section about two classes, or about the predicted class of several."""
    if event is not None:
        probabilities, occurred, of = event.probabilities, event.occurred, f"of class {event.name}"
        labels = f"predicted probability {of}", f"share {of}"
    else:
        probabilities, of = test.predicted.max(axis=1), "of the predicted class"
        occurred = classes[test.predicted.argmax(axis=1)] == test.y
        labels = f"predicted probability {of}", "share of correct predictions"
    groups = grouped(probabilities, occurred.astype(np.float64), shares=True)
    low, high = wilson(occurred.sum(), len(occurred))
    outside = int(((groups.predicted < groups.low) | (groups.predicted > groups.high)).sum())
    text = (
        f"Rows are divided into {len(groups.rows)} groups of about the same size by the predicted probability {of}. If "
        "probabilities are calibrated, the observed share of each group is close to the dotted diagonal: within its "
        f"95 % interval, the vertical line, for 19 of 20 groups. Here {outside} of {len(groups.rows)} groups are "
        f"outside. Over all rows, the mean prediction is {percent(float(probabilities.mean()))}, and the observed "
        f"share {percent(float(occurred.mean()))} ({percent(float(low))} to {percent(float(high))})."
    )
    charts = calibration_charts({"": groups}, probabilities, labels, shares=True)
    return Section("calibration", "Calibration", joined([element("p", text), charts]))


# Costs
def costs(event: Event, of_errors: tuple[float, float]) -> Section:
    """The section about the costs of decisions; those given are of a false positive and of a false negative."""

    def draw(ax: Axes) -> None:
        from ...plot._threshold import draw_costs

        draw_costs(ax, {"": (event.probabilities, event.occurred)}, f"class {event.name}", *of_errors)

    text = (
        f"A false positive is a row of class {event.other} that is assigned to {event.name}, a false negative the "
        "opposite. Given the costs of the two, the best threshold for calibrated probabilities is "
        "false positive / (false positive + false negative). Costs are in the unit of the ratio, per 100 test rows. "
        f"The baseline assigns all rows to {event.other} or all to {event.name}, whichever costs less."
    )
    ratios = [of_errors, *(ratio for ratio in COST_RATIOS if ratio[0] * of_errors[1] != ratio[1] * of_errors[0])]
    rows = [_cost_row(event, *ratio) for ratio in ratios]
    header = [
        "false positive : false negative", "threshold", "false positives", "false negatives", "cost",
        "cost at 0.5", "cost of the baseline",
    ]  # fmt: skip
    grid = table("Costs of wrong decisions by the ratio of their costs", header, rows, "stack")
    title = f"Cost by threshold, {_ratio(*of_errors)}"
    note = element(
        "p",
        "The star marks the lowest cost on these rows, the dotted line the threshold of the table. A threshold that is "
        "chosen on the test rows looks better than it is.",
        class_="note",
    )
    return Section("costs", "Threshold and costs", joined([element("p", text), grid, figures(draw, title), note]))


def _cost_row(event: Event, false_positive: float, false_negative: float) -> list[str]:
    occurred = event.occurred

    def errors(threshold: float) -> tuple[int, int, str]:
        positive = event.probabilities >= threshold
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
