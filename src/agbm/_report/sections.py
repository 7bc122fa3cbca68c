"""The sections of a report. Texts and tables work without JavaScript; charts need it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.methods import AGBM, name_of
from .._core.theory import admissible_momentum
from .._study.evaluation import Tried
from ..export._view import feature_names
from .curves import curve, has_curve, tracks
from .findings import Estimator, Findings, parameters_of
from .markup import Html, element, joined, number, pairs, seconds, table
from .metrics import in_a_sentence, metrics
from .trees import example_trees

FEATURES_SHOWN = 20
LONGEST_VALUE = 200  # characters of a parameter's value


@dataclass(frozen=True)
class Section:
    """A section with a title, linked from the top of the page."""

    name: str
    title: str
    body: Html
    data: Any = None
    """Data for its charts."""


def all_sections(findings: Findings) -> list[Section]:
    """Return the sections that have content."""
    parts = (_convergence, _metrics, _importances, _trees, _theory, _columns, _parameters)
    return [section for part in parts if (section := part(findings)) is not None]


def header(findings: Findings, sections: Sequence[Section]) -> Html:
    """Return the top of the page: title, main result, data, command and links."""
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
            element("p", in_a_sentence(findings.tried), class_="lead"),
            pairs(findings.data.items(), "tiles"),
            command,
            pairs(findings.facts.items(), "origin"),
            element("nav", *links, aria_label="Sections"),
        ]
    )


def _metrics(findings: Findings) -> Section | None:
    return Section("metrics", "Test metrics", metrics(findings.tried)) if findings.tried else None


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
    note = "Circles mark the selected iteration of each model, which it uses for predictions. "
    if thinned:
        note += "Long runs are thinned: of each part, the points with the lowest and the highest loss are shown."
    body = [
        element("div", controls, element("div", id="convergence-figure"), class_="needs-script"),
        element("p", note, class_="note needs-script"),
        element("noscript", _losses_at_best(drawn)),
    ]
    return Section("convergence", "Convergence", joined(body), curves)


def _whose(findings: Findings) -> str:
    """Say which model a section is about; empty if there is only one."""
    if findings.model is None or len(findings.tried) < 2:
        return ""
    return f"This section is about the model {name_of(findings.model.method)}. "


def _losses_at_best(drawn: Sequence[Tried]) -> Html:
    rows = []
    for one in drawn:
        values = [_at(one.curve.get(name, ()), one.best) for name in ("train_loss", "validation_loss", "seconds")]
        rows.append([one.name, f"{one.trees:,}", *map(number, values[:2]), seconds(values[2])])
    header = ["model", "trees", "training loss", "validation loss", "reached after"]
    return table("Losses at the selected iterations (the chart needs JavaScript)", header, rows)


def _at(values: Sequence[float], place: int) -> float:
    return float(values[place]) if 0 <= place < len(values) else math.nan


def _choice(title: str, name: str, options: Sequence[tuple[str, bool]]) -> Html:
    """Return a group of radio buttons; the first one that is enabled is selected."""
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
    names, splits = feature_names(model), model.split_counts_
    used = int((splits > 0).sum())
    text = (
        f"{_whose(findings)}{used:,} of {len(names):,} features are used in splits. Gain is a feature's share "
        "of the total loss reduction by splits, with trees weighted as in the model; splits is the number of splits."
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


# Trees
def _trees(findings: Findings) -> Section | None:
    if findings.model is None or findings.model.n_trees_ == 0 or findings.model.learner is not None:
        return None
    text = (
        f"{_whose(findings)}A row starts at the left and follows the answers to a leaf. The value of the leaf, which "
        "includes the tree's weight in the model, is added to the score of the row."
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
    whose = _whose(findings)
    body = [element("p", whose)] if whose else []
    body.append(element("div", *parts, class_="tracks"))
    n_restarts = len(found["restarts"])
    if n_restarts:
        text = f"{n_restarts} restart{'s' * (n_restarts > 1)}: at the vertical lines, h was reset to the model."
        body.append(element("p", text))
    body.append(element("noscript", element("p", "The charts need JavaScript.", class_="note")))
    drawn = [{"title": drawing.title, "columns": drawing.columns} for drawing in drawings]
    return Section("theory", "Theory", joined(body), {**found, "drawings": drawn})


@dataclass(frozen=True)
class _Drawing:
    """A chart of columns of the history, with the labels of its lines."""

    title: str
    columns: Mapping[str, str]
    text: str


def _drawings(model: Estimator) -> list[_Drawing]:
    cosine = _Drawing(
        "Cosine of each fit",
        {"cosine_residual": "residual r", "cosine_corrected": "corrected residual c"},
        "How well the learners of each iteration fit their target: the cosine of the angle between a residual and "
        f"their values on the training rows; 1 is a perfect fit. {_smallest_cosine(model)}",
    )
    momentum = _Drawing(
        "Momentum γ",
        {"momentum": "γ"},
        "A learner that enters the model f with weight η also enters the momentum function h, with weight γη / θ.",
    )
    share = _Drawing(
        "Share of momentum θ",
        {"theta": "θ"},
        "In each iteration the model moves this fraction of the way to h before a learner b is added: "
        "f ← (1\u00a0-\u00a0θ)\u00a0f\u00a0+\u00a0θ\u00a0h\u00a0+\u00a0η\u00a0b.",
    )
    return [cosine, momentum, share]


def _smallest_cosine(model: Estimator) -> str:
    cosines = np.append(model.history_["cosine_residual"], model.history_["cosine_corrected"])
    smallest = float(np.nanmin(cosines))
    requirement = "a positive Θ."
    if smallest > 0.0:
        bound = number(admissible_momentum(smallest), 3)
        requirement = f"a momentum γ of at most Θ⁴ / (4 + Θ²), which is {bound} here."
    method = model.resolved_params_["method"]
    covered = isinstance(method, AGBM) and method.correction == 1.0 and not model.resolved_params_["second_order"]
    reservation = "" if covered else " The theorem covers Algorithm 2 with gradient leaves only, not this model."
    return (
        f"Theorem 4.1 of the paper characterises weak learners by the smallest cosine, Θ. Here it is "
        f"{number(smallest, 3)}. The theorem requires {requirement}{reservation}"
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
                table("Parameters that differ from the defaults", ["parameter", "value", "default"], changed, "code")
            )
        summary = element("summary", f"{len(others)} parameters at their defaults")
        defaults = table("Defaults", ["parameter", "value"], others, "code")
        body.append(element("details", summary, defaults))
        resolved = [[name, _written(value)] for name, value in findings.model.resolved_params_.items()]
        body.append(table("Resolved values", ["parameter", "value"], resolved, "code"))
    rows = [
        [one.name, ", ".join(f"{name}={_written(value)}" for name, value in one.parameters.items())]
        for one in findings.tried
        if one.parameters
    ]
    if rows and len(findings.tried) > 1:
        body.append(table("Parameters set for each model", ["model", "parameters"], rows, "code wrap"))
    return Section("parameters", "Parameters", joined(body)) if body else None


def _written(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"
