"""An interactive figure: readers choose data set, step size and methods, and see losses against the number of trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from ...report.markup import Html, element, literal
from ..experiments.curves import LEVELS, TITLES, Curve, Line
from ..experiments.protocol import N_SPLITS
from .document import Widget, whole
from .themes import look

TITLE = "Losses against the number of trees"


def data(curves: Sequence[Curve]) -> dict[str, Any]:
    """The curves as columns with one entry per curve; sets, choices and tree counts are listed once."""
    sets = list(dict.fromkeys((curve.line.data, curve.line.levels) for curve in curves))
    choices = sorted({_choice_key(curve.line): curve.line for curve in curves}.items())
    places = {key: place for place, (key, _) in enumerate(choices)}
    trees = {counts: place for place, counts in enumerate(dict.fromkeys(tuple(curve.trees) for curve in curves))}
    columns: dict[str, list[Any]] = {
        "set": [sets.index((curve.line.data, curve.line.levels)) for curve in curves],
        "choice": [places[_choice_key(curve.line)] for curve in curves],
        "step": [curve.line.step for curve in curves],
        "trees": [trees[tuple(curve.trees)] for curve in curves],
        "train": [_short(curve.train) for curve in curves],
        "test": [_short(curve.test) for curve in curves],
        "diverged": [curve.diverged for curve in curves],
        "lowest": _short([curve.lowest_test for curve in curves]),
        "lowest_at": [curve.trees_at_lowest for curve in curves],
    }
    return {
        "splits": N_SPLITS,
        "sets": [_set(*key) for key in sets],
        "choices": [_choice(line) for _, line in choices],
        "trees": list(trees),
        "curves": columns,
    }


def _choice_key(line: Line) -> tuple[int, float]:
    """Methods in the order of their titles, each with decreasing gamma."""
    return list(TITLES).index(line.method), -(line.gamma or 0.0)


def _set(name: str, levels: int) -> dict[str, str]:
    """The key of a data set and depth in addresses, and its title."""
    depth = "" if levels == LEVELS else ", stumps" if levels == 1 else f", depth {levels}"
    return {"key": f"{name}-{levels}", "title": name + depth}


def _choice(line: Line) -> dict[str, Any]:
    """A method with its gamma, of which several can be chosen."""
    of_gamma = "" if line.gamma is None else f"-{line.gamma:g}"
    shown = look(line)
    return {
        "key": line.method + of_gamma, "title": line.title, "group": TITLES[line.method], "gamma": line.gamma,
        "colour": shown.colour, "dashes": " ".join(f"{length:g}" for length in shown.dashes),
    }  # fmt: skip


def _short(values: Sequence[float]) -> list[float | int]:
    """Numbers as JSON writes them with the fewest characters."""
    return [int(value) if value.is_integer() else value for value in map(float, values)]


def widget(curves: Sequence[Curve]) -> Widget:
    """The figure as a part of a page."""
    place = element("div", id="explorer", hidden="")
    text = "The interactive figure needs JavaScript. All values are in the files beside this page."
    without = element("noscript", element("p", text, class_="note"))
    return Widget(element("div", place, without, class_="explorer"), _script(data(curves)))


def page(curves: Sequence[Curve]) -> str:
    """A self-contained HTML document with nothing but the figure."""
    found = widget(curves)
    return whole(TITLE, Html(""), element("section", found.markup, aria_label=TITLE), [found.script])


def _script(found: Mapping[str, Any]) -> str:
    source = (files(__package__) / "explorer.js").read_text(encoding="utf-8")
    return source.replace("DATA", literal(found), 1)
