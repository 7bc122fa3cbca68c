"""Trees of a model as nested lists from top to bottom, whose branches can be collapsed."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from ...export._view import Tree, view
from ...export.text import Labels
from .findings import Estimator
from .markup import Html, element, joined
from .markup import number as plain_number

# Limits on what is drawn, to keep the page readable.
LARGEST_DEPTH = 8
MOST_NODES = 200
TREES_OF_THE_FIRST = 3
LEVELS_OPEN = 3

DIGITS = 4
CATEGORIES = 6


def example_trees(model: Estimator) -> Html:
    """Return a few trees, the first one expanded, or the reason why they cannot be drawn."""
    try:
        seen = view(model)
    except ValueError as error:
        return element("p", f"The trees cannot be drawn: {error}", class_="note")
    parts: list[Html] = []
    of_member = " of the first member" if len(model.model_.ensembles) > 1 else ""
    for number, iteration in _chosen(model, len(seen.trees)):
        labels = Labels(seen, number, DIGITS, CATEGORIES)
        title = f"{labels.title[0].upper()}{labels.title[1:]} (iteration {iteration:,}{of_member})"
        summary = element("summary", title)
        parts.append(element("details", summary, _list(labels), open=not parts))
    return joined(parts)


def _chosen(model: Estimator, n_trees: int) -> list[tuple[int, int]]:
    """Return indices of trees with their iterations: those of the first iteration, then one each from later ones.

    If there are several members, the trees of the first one come first.
    """
    ensemble = model.model_.ensembles[0]
    last, n_trees_per_model = len(ensemble), ensemble.models[0].n_learners
    first = [(number, 1) for number in range(min(n_trees_per_model, TREES_OF_THE_FIRST))]
    later = sorted({-(-last // 4), -(-last // 2), last} - {1})
    added = [ensemble.functions[update.primary][0] * n_trees_per_model for update in ensemble.updates]
    chosen = first + [(added[iteration - 1], iteration) for iteration in later]
    return [(number, iteration) for number, iteration in chosen if number < n_trees]


def _list(labels: Labels) -> Html:
    depth, below = labels.tree.depths(), _nodes_below(labels.tree)
    levels = np.cumsum(np.bincount(depth)) <= MOST_NODES
    deepest = min(LARGEST_DEPTH, int(levels.sum()) - 1)
    largest = float(np.abs(labels.tree.value[~labels.tree.inner]).max()) or 1.0

    def item(node: int, answer: str) -> Html:
        words = labels.node(node)
        leaf = not labels.tree.inner[node]
        box = element(
            "div" if leaf else "summary",
            *([element("span", answer, class_="answer")] if answer else []),
            element("span", _in_full(words.main), class_="main"),
            element("span", " · ".join(fact for fact in words.facts if not fact.startswith("gain ")), class_="facts"),
            class_=f"node {_side(labels.tree.value[node])}" if leaf else "node",
            style=f"--strength:{np.abs(labels.tree.value[node]).max() / largest:.2f}" if leaf else False,
        )
        if leaf:
            return element("li", box)
        if depth[node] >= deepest:
            children = [element("li", element("span", f"{below[node]:,} more nodes below", class_="note"))]
        else:
            children = [item(child, branch) for branch, child in labels.children(node)]
        return element("li", element("details", box, element("ul", *children), open=bool(depth[node] < LEVELS_OPEN)))

    return element("ul", item(0, ""), class_="tree")


def _in_full(text: str) -> str:
    """Write the large numbers of a threshold or of a leaf without exponents."""
    start, at_most, end = text.rpartition("<= ")
    return start + at_most + re.sub(r"\d(\.\d+)?e\+\d+", lambda found: plain_number(float(found[0])), end)


def _side(values: NDArray[np.float64]) -> str:
    """Return the CSS classes of a leaf, by the sign of its value."""
    if len(values) > 1:
        return "leaf"
    return "leaf up" if values[0] > 0 else "leaf down"


def _nodes_below(tree: Tree) -> NDArray[np.int64]:
    below = np.zeros(len(tree.feature), dtype=np.int64)
    for node in np.flatnonzero(tree.inner)[::-1]:  # children before their parents
        below[node] = 2 + below[tree.yes[node]] + below[tree.no[node]]
    return below
