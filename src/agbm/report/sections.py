"""The parts of a page. All that can be said in text and tables is there without JavaScript; lines are drawn with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..evaluation import Metric, Tried
from ..theory import admissible_momentum
from .curves import curve, has_curve, tracks
from .findings import Estimator, Findings, parameters_of
from .markup import Html, element, joined, number, pairs, seconds, table
from .trees import example_trees

FEATURES_SHOWN = 20
LONGEST_VALUE = 200  # letters of a parameter's value


@dataclass(frozen=True)
class Section:
    """A part with a title, to which the top of the page has a link."""

    name: str
    title: str
    body: Html
    data: Any = None
    """What its drawings need."""


def all_sections(findings: Findings) -> list[Section]:
    """Those that there is something to say in."""
    parts = (_convergence, _metrics, _importances, _trees, _theory, _columns, _parameters)
    return [section for part in parts if (section := part(findings)) is not None]


def header(findings: Findings, sections: Sequence[Section]) -> Html:
    """What was trained on what, how good it is, and how to have it again."""
    links = [element("a", section.title, href=f"#{section.name}") for section in sections]
    command = element(
        "div",
        element("code", findings.command, id="command", tabindex="0"),
        element("button", "Copy", id="copy", type="button", class_="needs-script"),
        element("span", id="copied", role="status"),
        class_="command",
    )
    return joined(
        [
            element("h1", findings.title),
            element("p", _in_a_sentence(findings.tried), class_="lead"),
            pairs(findings.data.items(), "tiles"),
            command,
            pairs(findings.facts.items(), "origin"),
            element("nav", *links, aria_label="Sections"),
        ]
    )


def _in_a_sentence(tried: Sequence[Tried]) -> str:
    names = _metric_names(tried)
    if not names:
        failed = [one for one in tried if one.failure]
        return f"No model was trained: {failed[0].failure}" if failed else "There are no test metrics."
    ranked = [one for one in _ranked(tried) if _metric(one, names[0]) is not None]
    best, metric = ranked[0], _metric(ranked[0], names[0])
    assert metric is not None
    interval = f"95 % interval {number(metric.low, 3)} to {number(metric.high, 3)}"
    trees = f"with {best.trees:,} trees, " if best.trees else ""
    figures = f"{number(metric.value)} ({interval}), {trees}trained in {seconds(best.seconds)}."
    if len(ranked) == 1:
        return f"{best.name} has a {metric.name} on test rows of {figures}"
    which = "lowest" if metric.lower_is_better else "highest"
    text = f"Of {len(ranked)} models, {best.name} has the {which} {metric.name} on test rows: {figures}"
    overlapping = sum(_overlap(metric, _metric(other, metric.name)) for other in ranked[1:])
    others = (
        "The interval of another overlaps" if overlapping == 1 else f"The intervals of {overlapping} others overlap"
    )
    return f"{text} {others} with it: the order may be chance." if overlapping else text


# Metrics
def _metrics(findings: Findings) -> Section | None:
    tried, names = findings.tried, _metric_names(findings.tried)
    if not tried:
        return None
    ranked = [one for one in _ranked(tried) if not one.failure]
    failed = [one for one in tried if one.failure]
    columns = {name: [_metric(one, name) for one in ranked] for name in names}
    best = {name: _best(column) for name, column in columns.items()}
    rows = []
    for place, one in enumerate(ranked):
        cells = [_metric_cell(column, place, place in best[name]) for name, column in columns.items()]
        rows.append([one.name, *cells, f"{one.trees:,}", seconds(one.seconds)])
    body = []
    if rows:
        arrows = [f"{name} {'↓' if _lower_is_better(columns[name]) else '↑'}" for name in names]
        body.append(table("Metrics on test rows, best first", ["model", *arrows, "trees", "fit"], rows, "metrics"))
    if names:
        note = (
            "Bars are intervals of 95 % for the sampling of the test rows; they say nothing of other splits or seeds. "
            "↓ lower is better, ↑ higher is better."
        )
        body.append(element("p", note, _overlap_note(columns, best), class_="note"))
    if failed:
        body.append(element("h3", "Not trained"))
        body.append(pairs([(one.name, one.failure) for one in failed], "failures"))
    return Section("metrics", "Test metrics", joined(body))


def _metric_cell(column: Sequence[Metric | None], place: int, is_best: bool) -> Html:
    metric = column[place]
    if metric is None:
        return Html("–")
    words = [element("span", number(metric.value), class_="value")]
    if is_best and len(column) > 1:
        words.append(element("span", "best", class_="badge"))
    words.append(element("span", f"{number(metric.low, 3)} to {number(metric.high, 3)}", class_="range"))
    ends = [end for one in column if one is not None for end in (one.low, one.high) if math.isfinite(end)]
    if not ends or not math.isfinite(metric.low + metric.high):
        return joined(words)
    low, width = min(ends), (max(ends) - min(ends)) or 1.0

    def place_of(value: float) -> float:
        return 3.0 + 94.0 * (value - low) / width

    start, end = place_of(metric.low), place_of(metric.high)
    drawing = element(
        "span",
        element("span", class_="line", style=f"left:{start:.2f}%;width:{end - start:.2f}%"),
        element("span", class_="dot", style=f"left:{place_of(metric.value):.2f}%"),
        class_="interval best" if is_best else "interval",
        aria_hidden="true",
    )
    return joined([*words, drawing])


def _overlap_note(columns: Mapping[str, Sequence[Metric | None]], best: Mapping[str, Sequence[int]]) -> str:
    """Which bests are not clear of all others."""
    unclear = [name for name, column in columns.items() if _overlaps_with_others(column, best[name])]
    if not unclear:
        return ""
    return f" The best interval overlaps with others in {', '.join(unclear)}: the order may be chance there."


def _overlaps_with_others(column: Sequence[Metric | None], best: Sequence[int]) -> bool:
    return any(_overlap(column[first], other) for first in best[:1] for k, other in enumerate(column) if k != first)


def _metric_names(tried: Sequence[Tried]) -> list[str]:
    return list(dict.fromkeys(metric.name for one in tried if not one.failure for metric in one.metrics))


def _metric(tried: Tried, name: str) -> Metric | None:
    return next((metric for metric in tried.metrics if metric.name == name), None)


def _ranked(tried: Sequence[Tried]) -> list[Tried]:
    """Those that have a model, by the first metric; those without the metric at the end."""
    names = _metric_names(tried)

    def key(one: Tried) -> float:
        metric = _metric(one, names[0]) if names else None
        return math.inf if metric is None or math.isnan(metric.value) else _badness(metric)

    return sorted((one for one in tried if not one.failure), key=key)


def _badness(metric: Metric) -> float:
    return metric.value if metric.lower_is_better else -metric.value


def _best(column: Sequence[Metric | None]) -> list[int]:
    """The places of the best value, which several may have."""
    known = {place: _badness(metric) for place, metric in enumerate(column) if metric and not math.isnan(metric.value)}
    return [place for place, badness in known.items() if badness == min(known.values())]


def _lower_is_better(column: Sequence[Metric | None]) -> bool:
    return next(metric.lower_is_better for metric in column if metric is not None)


def _overlap(first: Metric | None, second: Metric | None) -> bool:
    return first is not None and second is not None and first.low <= second.high and second.low <= first.high


# Convergence
def _convergence(findings: Findings) -> Section | None:
    drawn = [one for one in findings.tried if has_curve(one)]
    if not drawn:
        return None
    curves = [curve(one) for one in drawn]
    has = {
        name: any(name in columns for columns in curves)
        for name in ("train_loss", "validation_loss", "seconds", "trees")
    }
    both = len(drawn) == 1 or not has["validation_loss"]
    controls = element(
        "div",
        _choice("Against", "axis", [("trees", has["trees"]), ("seconds", has["seconds"]), ("iterations", True)]),
        element(
            "fieldset",
            element("legend", "Loss"),
            _box("training", "show-train", checked=both and has["train_loss"], disabled=not has["train_loss"]),
            _box("validation", "show-validation", checked=has["validation_loss"], disabled=not has["validation_loss"]),
        ),
        _choice("Scale", "scale", [("linear", True), ("log", True)]),
        _choice("Range", "range", [("all", True), ("lowest part", True)]),
        class_="controls",
    )
    thinned = [columns for columns in curves if columns["points"] > len(columns["iteration"])]
    note = "Circles are the iterations that are kept as models. "
    if thinned:
        note += "Of long runs the points shown are those where the loss is lowest and highest in each part."
    body = [
        element("div", controls, element("div", id="convergence-figure"), class_="needs-script"),
        element("p", note, class_="note needs-script"),
        element("noscript", _losses_at_best(drawn)),
    ]
    return Section("convergence", "Convergence", joined(body), curves)


def _losses_at_best(drawn: Sequence[Tried]) -> Html:
    rows = []
    for one in drawn:
        values = [_at(one.curve.get(name, ()), one.best) for name in ("train_loss", "validation_loss", "seconds")]
        rows.append([one.name, f"{one.trees:,}", *map(number, values[:2]), seconds(values[2])])
    header = ["model", "trees", "training loss", "validation loss", "reached after"]
    return table("Losses of the models that were kept (the curves need JavaScript)", header, rows)


def _at(values: Sequence[float], place: int) -> float:
    return float(values[place]) if 0 <= place < len(values) else math.nan


def _choice(title: str, name: str, options: Sequence[tuple[str, bool]]) -> Html:
    """A switch between a few; the first that can be chosen is."""
    first = next(option for option, possible in options if possible)
    buttons = [
        element(
            "label",
            element(
                "input",
                type="radio",
                name=name,
                value=option,
                autocomplete="off",
                checked=option == first,
                disabled=not possible,
            ),
            element("span", option),
        )
        for option, possible in options
    ]
    return element("fieldset", element("legend", title), element("span", *buttons, class_="switch"))


def _box(title: str, name: str, checked: bool, disabled: bool) -> Html:
    box = element("input", type="checkbox", id=name, autocomplete="off", checked=checked, disabled=disabled)
    return element("label", box, element("span", title))


# Importances
def _importances(findings: Findings) -> Section | None:
    model = findings.model
    if model is None or not hasattr(model, "feature_importances_") or not model.split_counts_.any():
        return None
    names, splits = _feature_names(model), model.split_counts_
    used = int((splits > 0).sum())
    text = (
        f"{used:,} of {len(names):,} features are split on. Gain is how much the splits on a feature lower the loss, "
        "each tree times its weight in the model, as a share of all; splits counts them."
    )
    lists = [
        _bars(names, model.feature_importances_, "gain", lambda value: f"{100 * value:.1f} %"),
        _bars(names, splits, "splits", lambda value: f"{int(value):,}"),
    ]
    switch = element(
        "div", _choice("By", "importance", [("gain", True), ("splits", True)]), class_="controls needs-script"
    )
    return Section("importances", "Importances", joined([element("p", text), switch, *lists]))


def _bars(names: Sequence[str], values: NDArray[Any], measure: str, words: Callable[[float], str]) -> Html:
    order = [f for f in np.argsort(-values, kind="stable")[:FEATURES_SHOWN].tolist() if values[f] > 0]
    items = []
    for f in order:
        bar = element("span", element("span", style=f"width:{100 * values[f] / values[order[0]]:.2f}%"), class_="bar")
        items.append(
            element(
                "li",
                element("span", names[f], class_="name", title=names[f]),
                bar,
                element("span", words(values[f]), class_="figure"),
            )
        )
    more = int((values > 0).sum()) - len(order)
    rest = [element("p", f"and {more:,} more", class_="note")] if more > 0 else []
    title = element("h3", f"by {measure}")
    return element("div", title, element("ol", *items), *rest, class_="bars", data_measure=measure)


def _feature_names(model: Estimator) -> list[str]:
    return [str(name) for name in getattr(model, "feature_names_in_", [f"x{f}" for f in range(model.n_features_in_)])]


# Trees
def _trees(findings: Findings) -> Section | None:
    if findings.model is None or findings.model.n_trees_ == 0 or findings.model.learner is not None:
        return None
    text = (
        "A row starts at the left and follows its answers; the leaf where it ends is what the tree adds to its score, "
        "with the tree's weight in the model."
    )
    return Section("trees", "Example trees", joined([element("p", text), example_trees(findings.model)]))


# Theory
def _theory(findings: Findings) -> Section | None:
    model = findings.model
    if model is None:
        return None
    found = tracks(model.history_)
    if not found["columns"]:
        return None
    drawings = [drawing for drawing in _drawings(model) if drawing.columns.keys() & found["columns"].keys()]
    parts = [
        element(
            "div",
            element("h3", drawing.title),
            element("p", drawing.text),
            element("div", id=f"track-{place}", class_="needs-script"),
            class_="track",
        )
        for place, drawing in enumerate(drawings)
    ]
    body = [element("div", *parts, class_="tracks")]
    n_restarts = len(found["restarts"])
    if n_restarts:
        body.append(element("p", f"{n_restarts} restart{'s' * (n_restarts > 1)}, marked by upright lines: {_RESTART}"))
    body.append(element("noscript", element("p", "The drawings need JavaScript.", class_="note")))
    drawn = [{"title": drawing.title, "columns": drawing.columns} for drawing in drawings]
    return Section("theory", "Theory", joined(body), {**found, "drawings": drawn})


_RESTART = "there the momentum function h was set back to the model."


@dataclass(frozen=True)
class _Drawing:
    """Columns of the history in one drawing, with the names that it has for them."""

    title: str
    columns: Mapping[str, str]
    text: str


def _drawings(model: Estimator) -> list[_Drawing]:
    cosine = _Drawing(
        "Cosine of each fit",
        {"cosine_residual": "residual r", "cosine_corrected": "corrected residual c"},
        "How well the learners of an iteration fit what they are fitted to: the cosine of the angle between a residual "
        f"and their values on the training rows; 1 is a perfect fit. {_smallest_cosine(model)}",
    )
    momentum = _Drawing(
        "Momentum γ",
        {"momentum": "γ"},
        "What enters the model f with weight η enters the momentum function h, too, with weight γη / θ.",
    )
    share = _Drawing(
        "Share of momentum θ",
        {"theta": "θ"},
        "In every iteration the model goes this share of the way to h before it gains a learner b: "
        "f ← (1\u00a0-\u00a0θ)\u00a0f\u00a0+\u00a0θ\u00a0h\u00a0+\u00a0η\u00a0b.",
    )
    return [cosine, momentum, share]


def _smallest_cosine(model: Estimator) -> str:
    cosines = np.append(model.history_["cosine_residual"], model.history_["cosine_corrected"])
    smallest = float(np.nanmin(cosines))
    admitted = number(admissible_momentum(smallest), 3) if smallest > 0.0 else "none at all"
    covered = model.method in ("agbm", "agbmr") and not model.second_order and model.correction == 1.0
    reservation = "" if covered else " It is about Algorithm 2 with gradient leaves, which this model was not made by."
    return (
        f"The smallest one, Θ, is what Theorem 4.1 of the paper measures weak learners by. Here it is "
        f"{number(smallest, 3)}; of momentum γ the theorem admits at most Θ⁴ / (4 + Θ²): {admitted}.{reservation}"
    )


# Data and parameters
def _columns(findings: Findings) -> Section | None:
    if not findings.columns:
        return None
    rows = [
        [
            column.name,
            column.kind,
            "–" if math.isnan(column.missing) else f"{100 * column.missing:.3g} %",
            "–" if column.distinct is None else f"{column.distinct:,}",
        ]
        for column in findings.columns
    ]
    grid = table(f"{len(rows):,} columns", ["column", "kind", "missing", "distinct"], rows, "columns")
    return Section("columns", "Columns", grid)


def _parameters(findings: Findings) -> Section | None:
    body = []
    if findings.model is not None:
        found = parameters_of(findings.model)
        changed = [[p.name, _written(p.value), _written(p.default)] for p in found if p.changed]
        others = [[p.name, _written(p.value)] for p in found if not p.changed]
        if changed:
            body.append(
                table("Parameters that are not the defaults", ["parameter", "value", "default"], changed, "code")
            )
        summary = element("summary", f"{len(others)} parameters as they are by default")
        defaults = table("Defaults", ["parameter", "value"], others, "code")
        body.append(element("details", summary, defaults))
    rows = [
        [one.name, ", ".join(f"{name}={_written(value)}" for name, value in one.parameters.items())]
        for one in findings.tried
        if one.parameters
    ]
    if rows and len(findings.tried) > 1:
        body.append(table("What was set for each model", ["model", "parameters"], rows, "code wrap"))
    return Section("parameters", "Parameters", joined(body)) if body else None


def _written(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"
