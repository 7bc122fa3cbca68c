"""The contents of the page: its top and its sections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ..evaluation.tasks import task_of
from .comparison_table import in_a_sentence, metrics
from .drift import drift
from .findings import Findings, parameters_of, whose
from .markup import Html, Make, Section, element, joined, pairs, percent, table
from .models import model_sections
from .predictions import baseline, prediction_sections
from .segments import segments
from .two_models import two_models
from .what_if import Panel

LONGEST_VALUE = 200  # characters of a parameter's value
MOST_COLUMNS_OPEN = 30  # columns of a table that is not collapsed


def makers(findings: Findings, what_if: Panel | None) -> list[Make]:
    """Functions that make the sections of the page, in their order."""
    parts: list[Make] = [partial(_metrics, findings), partial(_two, findings)]
    parts += [partial(_about, findings, make) for make in prediction_sections(findings)]
    parts += [partial(_about, findings, make) for make in _row_sections(findings)]
    parts += model_sections(findings, None if what_if is None else what_if.section)
    return [*parts, partial(_columns, findings), partial(_parameters, findings)]


def _row_sections(findings: Findings) -> list[Make]:
    found = list[Make]()
    if findings.model is None or findings.test is None:
        return found
    if findings.segments is not None:
        n_rows = len(findings.test.y)
        found.append(partial(segments, findings.segments, task_of(findings.model), findings.positive, n_rows))
    if findings.drift is not None:
        found.append(partial(drift, findings.drift))
    return found


def _two(findings: Findings) -> Section | None:
    return None if findings.two is None else two_models(findings.two)


def _about(findings: Findings, make: Make) -> Section | None:
    """A section that says which model it is about, if there are several."""
    section, about = make(), whose(findings)
    return replace(section, body=joined([element("p", about), section.body])) if section and about else section


def header(findings: Findings) -> Html:
    """Return the top of the page: title, main result, data and command."""
    return joined(
        [
            element("h1", findings.title),
            element("p", in_a_sentence(findings.tried, baseline(findings)), class_="lead"),
            pairs(findings.data.items(), "tiles"),
            element("div", element("code", findings.command, id="command", tabindex="0"), class_="command"),
            pairs(findings.facts.items(), "origin"),
        ]
    )


def navigation(sections: Sequence[Section]) -> Html:
    """Return the links to the sections, which stay visible."""
    links = [element("a", section.title, href=f"#{section.name}") for section in sections]
    return element("nav", *links, aria_label="Sections")


def _metrics(findings: Findings) -> Section | None:
    if not findings.tried:
        return None
    body = [metrics(findings.tried, baseline(findings))]
    if findings.test is None:
        text = "Baseline, charts of the predictions, contributions and partial dependence need test rows."
        body.append(element("p", text, " Give a file with such rows: ", element("code", "agbm report MODEL DATA"), "."))
    return Section("metrics", "Test metrics", joined(body))


def _columns(findings: Findings) -> Section | None:
    if not findings.columns:
        return None
    rows = [
        [
            column.name,
            column.kind,
            percent(column.missing),
            "–" if column.distinct is None else f"{column.distinct:,}",
        ]
        for column in findings.columns
    ]
    grid = table(f"{len(rows):,} columns", ["column", "kind", "missing", "distinct"], rows, "columns")
    if len(rows) > MOST_COLUMNS_OPEN:
        grid = element("details", element("summary", f"{len(rows):,} columns"), grid)
    return Section("columns", "Columns", grid)


def _parameters(findings: Findings) -> Section | None:
    body = []
    if findings.model is not None:
        found = parameters_of(findings.model)
        changed = [[p.name, _written(p.value), _written(p.default)] for p in found if p.changed]
        others = [[p.name, _written(p.value)] for p in found if not p.changed]
        if changed:
            body.append(
                table(
                    "Parameters that differ from the defaults", ["parameter", "value", "default"], changed, "code stack"
                )
            )
        summary = element("summary", f"{len(others)} parameters at their defaults")
        defaults = table("Defaults", ["parameter", "value"], others, "code wrap")
        body.append(element("details", summary, defaults))
        resolved = [[name, _written(value)] for name, value in findings.model.resolved_params_.items()]
        values = table("Resolved values", ["parameter", "value"], resolved, "code wrap")
        body.append(element("details", element("summary", "Values used for parameters that may be 'auto'"), values))
    rows = [
        [one.name, ", ".join(f"{name}={_written(value)}" for name, value in one.parameters.items())]
        for one in findings.tried
        if one.parameters
    ]
    if rows and len(findings.tried) > 1:
        body.append(table("Parameters set for each model", ["model", "parameters"], rows, "code wrap"))
    return Section("parameters", "Parameters", joined(body)) if body else None


def _written(value: object) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"
