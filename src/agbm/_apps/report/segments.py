"""Segments of the rows: rules on the columns that tell rows with a high value from others, such as their loss.

A shallow tree finds the rules on one half of the rows, and everything that is said about a segment comes from the other
half, so that it does not flatter the rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._base.sums import Array
from ..._data.profile import MOST_CATEGORIES
from ..._estimators.regressor import AGBMRegressor
from ...export._view import Tree, view
from ..evaluation.metrics import mean_interval
from ..evaluation.tasks import Classification, Task
from .figures import figures
from .markup import Html, Section, element, joined, number, percent, table, with_range
from .wording import Wording, whole_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEWEST_ROWS = 200
"""Fewer rows have no segments."""
DEPTH = 3
SMALLEST_SHARE, SMALLEST = 0.03, 40
"""Of the rows that rules are made from, in each segment: a share, and a number."""
EXTREME = 0.99
"""Values beyond this quantile and its counterpart count as these when rules are made: outliers are not a segment."""


@dataclass(frozen=True)
class Condition:
    """The values of a column that a rule allows: numbers in an interval or codes, and perhaps missing values."""

    low: float = -np.inf
    high: float = np.inf
    codes: frozenset[int] | None = None
    """None for numbers."""
    missing: bool = True

    def holds(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """A mask of the values that are allowed."""
        if self.codes is None:
            inside = (values > self.low) & (values <= self.high)
        else:
            inside = np.isin(values, list(self.codes))
        return np.where(np.isnan(values), self.missing, inside)


Rule = Mapping[int, Condition]
"""A condition for each of some columns."""


class Found(NamedTuple):
    """A rule with the rows it holds for."""

    text: str
    rows: NDArray[np.intp]
    """Positions of the rows of the other half."""
    made_from: float
    """The mean of the values of the rows that the rule was made from."""


def find(numbers: NDArray[Any], values: Array, wording: Wording) -> tuple[list[Found], NDArray[np.intp]]:
    """Rules by which the values differ most, and all rows of the half that they were not made from.

    The values are one per row of numbers, a matrix with the columns of the model.
    """
    order = np.random.default_rng(0).permutation(len(values))
    first, other = np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])
    columns = [f for f in range(numbers.shape[1]) if not _has_many_categories(wording, f)]
    found = []
    clipped = np.clip(values[first], *np.quantile(values[first], [1.0 - EXTREME, EXTREME]))
    for rule in _rules(numbers[first], clipped, columns, wording):
        inside = [first[_holds(rule, numbers[first])], other[_holds(rule, numbers[other])]]
        if len(inside[1]):
            found.append(Found(_text(rule, numbers, wording), inside[1], float(values[inside[0]].mean())))
    return found, other


def _has_many_categories(wording: Wording, column: int) -> bool:
    return len(wording.reader.categories.of.get(column, ())) > MOST_CATEGORIES


def _holds(rule: Rule, numbers: NDArray[Any]) -> NDArray[np.bool_]:
    holds = np.ones(len(numbers), dtype=bool)
    for column, condition in rule.items():
        holds &= condition.holds(numbers[:, column])
    return holds


def _rules(
    numbers: NDArray[Any], values: Array, columns: Sequence[int], wording: Wording
) -> Iterator[dict[int, Condition]]:
    """The rules of the leaves of a tree that is fitted to the values."""
    categorical = [place for place, f in enumerate(columns) if wording.is_category(f)]
    tree_model = AGBMRegressor(
        method="gbm", max_iter=1, learning_rate=1.0, max_depth=DEPTH, l2_regularization=0.0, n_members=1, views=None,
        min_samples_leaf=max(SMALLEST, int(SMALLEST_SHARE * len(values))), early_stopping=False,
        categorical_features=categorical,
    )  # fmt: skip
    fitted = view(tree_model.fit(np.asarray(numbers[:, list(columns)], dtype=np.float64), values))
    tree = fitted.trees[0]
    open_nodes: list[tuple[int, dict[int, Condition]]] = [(0, {})]
    while open_nodes:
        node, rule = open_nodes.pop()
        if not tree.inner[node]:
            yield rule
            continue
        place = int(tree.feature[node])
        column, known = columns[place], fitted.categories.get(place)
        before = rule.get(column)
        if before is None:
            n_codes = len(wording.reader.categories.of.get(column, ())) + 1
            before = Condition(codes=None if known is None else frozenset(range(n_codes)))
        yes, no = _divided(before, tree, node, known)
        open_nodes += [(int(tree.no[node]), {**rule, column: no}), (int(tree.yes[node]), {**rule, column: yes})]


def _divided(before: Condition, tree: Tree, node: int, known: Sequence[Any] | None) -> tuple[Condition, Condition]:
    """What a condition becomes in both branches of a node; `known` are codes by their position in the tree's model."""
    missing_yes = bool(tree.missing_yes[node])
    missing = [before.missing and missing_yes, before.missing and not missing_yes]
    if known is None:
        threshold = float(tree.threshold[node])
        yes = replace(before, high=min(before.high, threshold), missing=missing[0])
        return yes, replace(before, low=max(before.low, threshold), missing=missing[1])
    assert before.codes is not None
    position = {int(code): place for place, code in enumerate(known)}
    members = set(tree.members[node].tolist())
    inside = {code for code in before.codes if position.get(code, len(known)) in members}
    yes = replace(before, codes=frozenset(inside), missing=missing[0])
    return yes, replace(before, codes=before.codes - inside, missing=missing[1])


def _text(rule: Rule, numbers: NDArray[Any], wording: Wording) -> str:
    """A rule in words; columns in the order in which the tree asks for them."""
    texts = [_condition(f, condition, numbers[:, f], wording) for f, condition in rule.items()]
    return " and ".join(filter(None, texts)) or "all rows"


def _condition(column: int, condition: Condition, values: NDArray[Any], wording: Wording) -> str:
    """A condition in words; empty if it holds for all rows."""
    name, present = wording.names[column], values[~np.isnan(values)]
    inside = condition.holds(present)
    if not inside.any():
        return f"{name} is missing"
    has_missing = len(present) < len(values)
    if inside.all():
        return f"{name} is not missing" if has_missing and not condition.missing else ""
    if condition.codes is None:
        low, high = whole_below(values, np.array([condition.low, condition.high])).tolist()
        text = wording.numbers(column, low, high)
    else:
        codes = np.unique(present).astype(int)
        inside_codes = [code for code in codes.tolist() if code in condition.codes]
        text = wording.codes(column, inside_codes, codes.tolist())
    return f"({text} or missing)" if has_missing and condition.missing else text


@dataclass(frozen=True)
class Segment:
    """Rows with a high loss. Its numbers are those of rows that its rule was not made from."""

    rule: str
    rows: int
    share: float
    """Of the rows that are not those that rules were made from."""
    loss: float
    low: float
    high: float
    """The mean loss and its 95 % interval."""
    actual: float
    predicted: float
    """The mean label and the mean prediction; NaN if these are not numbers or shares of one class."""


@dataclass(frozen=True)
class Segments:
    """The segments with the highest losses, and the losses by column."""

    n_sampled: int
    """Rows of which one half made the rules."""
    n_rows: int
    """Rows of the other half, on which the segments were measured."""
    loss: tuple[float, float, float]
    """The mean loss of all these rows, and its interval."""
    found: Sequence[Segment]
    """Those whose interval is above the mean of all rows; the first one had the highest loss when rules were made."""
    groups: Mapping[str, Sequence[Segment]] = field(default_factory=dict)
    """By column, the losses of the rows by its value."""


MOST_SEGMENTS = 5


def find_segments(
    numbers: NDArray[Any], losses: Array, means: tuple[Array, Array] | None, wording: Wording, columns: Sequence[int]
) -> Segments | None:
    """The segments with the highest losses; None if there are too few rows.

    `means` are the labels and predictions whose means are shown. `columns` are those to show the losses by.
    """
    if len(losses) < FEWEST_ROWS:
        return None
    rules, others = find(numbers, losses, wording)
    overall = mean_interval(losses[others])
    found = [
        segment(text, rows, len(others), losses, means)
        for text, rows, _ in sorted(rules, key=lambda rule: -rule.made_from)
    ]
    worse = [one for one in found if one.low > overall[0] and one.rows > 1]
    groups = {wording.names[f]: _groups(numbers[:, f], f, losses, means, wording) for f in columns}
    return Segments(len(losses), len(others), overall, worse[:MOST_SEGMENTS], groups)


def find_differences(numbers: NDArray[Any], differences: Array, wording: Wording) -> tuple[list[Segment], int]:
    """The segments where the mean of some differences is farthest from zero, and the number of rows they are of."""
    if len(differences) < FEWEST_ROWS:
        return [], 0
    rules, others = find(numbers, differences, wording)
    found = [
        segment(text, rows, len(others), differences, None)
        for text, rows, _ in sorted(rules, key=lambda rule: -abs(rule.made_from))
    ]
    return [one for one in found if one.rows > 1 and not one.low <= 0.0 <= one.high][:MOST_SEGMENTS], len(others)


def segment(rule: str, rows: NDArray[np.intp], n_all: int, losses: Array, means: tuple[Array, Array] | None) -> Segment:
    """The segment of some rows."""
    actual, predicted = (np.nan, np.nan) if means is None else (float(of[rows].mean()) for of in means)
    return Segment(rule, len(rows), len(rows) / n_all, *mean_interval(losses[rows]), actual, predicted)


N_GROUPS = 5
FEWEST_IN_GROUP = 20


def _groups(
    column: NDArray[Any], f: int, losses: Array, means: tuple[Array, Array] | None, wording: Wording
) -> list[Segment]:
    """The losses by the values of a column: categories, or groups of about the same number of rows."""
    absent = np.isnan(column)
    parts: list[tuple[str, NDArray[np.intp]]] = []
    if wording.is_category(f):
        codes, counts = np.unique(column[~absent], return_counts=True)
        kept = codes[np.argsort(-counts, kind="stable")][:N_GROUPS]
        parts += [(wording.category(f, int(code)), np.flatnonzero(column == code)) for code in kept]
        parts.append(("others", np.flatnonzero(~absent & ~np.isin(column, kept))))
    else:
        values = np.unique(column[~absent])
        if len(values) > N_GROUPS:
            cuts = np.quantile(column[~absent], np.arange(1, N_GROUPS) / N_GROUPS, method="lower")
            edges = np.unique(cuts[cuts < values[-1]])
        else:
            edges = values[:-1]
        bins = np.searchsorted(edges, column)
        names = (
            wording.bins(f, edges, column) if len(values) > N_GROUPS else [wording.value(f, value) for value in values]
        )
        parts += [(name, np.flatnonzero(~absent & (bins == k))) for k, name in enumerate(names)]
    parts.append(("missing", np.flatnonzero(absent)))
    return [segment(name, rows, len(column), losses, means) for name, rows in parts if len(rows) >= FEWEST_IN_GROUP]


# The section
class _Loss:
    """How a loss is shown: the squared error as its root, which has the unit of the labels."""

    def __init__(self, task: Task) -> None:
        self._roots = task.loss == "squared error"
        self.name = "RMSE" if self._roots else task.loss

    def shown(self, loss: float) -> float:
        """The number that is shown for a mean loss, or for an end of its interval."""
        return math.sqrt(max(0.0, loss)) if self._roots else max(0.0, loss)

    def cell(self, one: Segment) -> Html:
        """The mean loss of a segment with its interval."""
        ends = f"{number(self.shown(one.low), 3)} to {number(self.shown(one.high), 3)}"
        return with_range(number(self.shown(one.loss)), ends)


def segments(found: Segments, task: Task, positive: int | None, n_rows: int) -> Section:
    """The section about segments of `n_rows` test rows; `positive` is the index of the positive one of two classes."""
    loss = _Loss(task)
    overall = found.loss[0]
    sample = f"a sample of {found.n_sampled:,} test rows" if found.n_sampled < n_rows else "the test rows"
    text = (
        f"Segments of the rows with the highest {loss.name}: a tree has found these rules on one half of "
        f"{sample}, and all numbers come from the other half, {found.n_rows:,} rows, whose {loss.name} is "
        f"{number(loss.shown(overall))}. Segments are shown if their 95 % interval is above it. "
    )
    header = ["segment", "rows", f"{loss.name} ↓", "times the mean"]
    has_means = bool(found.groups) and not math.isnan(next(iter(found.groups.values()))[0].actual)
    names = _names_of_means(task, positive)
    if has_means:
        header += [names[0], names[1]]
        text += (
            "A high loss may be noise that no model predicts; if the mean prediction differs from the mean label, the "
            "model can do better."
        )
    rows = [
        [one.rule, with_range(f"{one.rows:,}", percent(one.share)), *_cells(one, overall, loss, task, has_means)]
        for one in found.found
    ]
    body: list[Html] = [element("p", text)]
    if rows:
        body.append(table("Segments with the highest loss", header, rows, "stack rules"))
    else:
        body.append(element("p", "No segment has a loss that is clearly above the mean."))
    if found.groups:
        body += _charts(found, loss)
    return Section("segments", "Segments", joined(body))


def _names_of_means(task: Task, positive: int | None) -> tuple[str, str]:
    if isinstance(task, Classification) and positive is not None:
        return f"share of {task.classes[positive]}", "mean prediction"
    if isinstance(task, Classification):
        return "accuracy", "mean confidence"
    return "mean label", "mean prediction"


def _cells(one: Segment, overall: float, loss: _Loss, task: Task, has_means: bool) -> list[str]:
    ratio = loss.shown(one.loss) / loss.shown(overall) if overall > 0.0 else math.nan
    cells: list[str] = [loss.cell(one), number(ratio, 3)]
    written = percent if isinstance(task, Classification) else number
    return [*cells, *(written(value) for value in (one.actual, one.predicted))] if has_means else cells


def _charts(found: Segments, loss: _Loss) -> list[Html]:
    """Charts of the losses by the values of columns."""
    shown = {name: groups for name, groups in found.groups.items() if len(groups) > 1}
    if not shown:
        return []

    def draw(*axes: Axes) -> None:
        from ...plot._style import BLUE, GREY, plain_numbers, shortened

        for ax, groups in zip(axes, shown.values(), strict=True):
            places = np.arange(len(groups))
            low, middle, high = ([loss.shown(of) for of in ends] for ends in zip(*_ends(groups), strict=True))
            ax.hlines(places, low, high, color=BLUE, linewidth=1.5, alpha=0.6)
            ax.plot(middle, places, "o", color=BLUE, markersize=5, label=loss.name)
            ax.axvline(loss.shown(found.loss[0]), color=GREY, linestyle=":")
            ax.set_yticks(places, [shortened(group.rule, 24) for group in groups], parse_math=False)
            ax.set_ylim(len(groups) - 0.5, -0.5)
            ax.set_xlabel(loss.name, parse_math=False)
            ax.locator_params(axis="x", nbins=3)
            ax.tick_params(axis="x", labelsize=8.5)
            ax.grid(axis="y", visible=False)
            plain_numbers(ax.xaxis)

    text = (
        f"The {loss.name} by the values of the most important columns, in groups of about the same number of rows, "
        "with 95 % intervals; the dotted line is that of all rows."
    )
    return [element("p", text), figures(draw, *shown, size=(3.15, 2.5), kind="panels")]


def _ends(groups: Sequence[Segment]) -> list[tuple[float, float, float]]:
    return [(group.low, group.loss, group.high) for group in groups]
