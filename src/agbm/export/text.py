"""Single trees as text, as Graphviz graphs, and as figures."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._base.sums import Array
from .._estimators.base import BaseAGBM
from ._view import Tree, View, category_text, library, view


def export_text(model: BaseAGBM, tree: int = 0, *, precision: int = 6, max_categories: int = 10) -> str:
    """A tree of a fitted model as text, one line per node.

    Inner nodes show their condition, training rows and gain; leaves show their value, multiplied by the weight of the
    tree in the model, and their training rows. Branches for missing and unknown values are marked. precision is the
    number of significant digits; sets of categories are truncated after max_categories.
    """
    labels = Labels(view(model), tree, precision, max_categories)
    return "\n".join([labels.title, *_lines(labels)]) + "\n"


def to_graphviz(model: BaseAGBM, tree: int = 0, *, precision: int = 6, max_categories: int = 10) -> str:
    """A tree of a fitted model in DOT, the language of Graphviz; the parameters are those of export_text."""
    labels = Labels(view(model), tree, precision, max_categories)
    lines = [
        f"digraph tree_{tree} {{",
        f"  label={_quoted(labels.title)}; labelloc=t;",
        '  node [shape=box, style=rounded, fontname="sans-serif"]; edge [fontname="sans-serif"];',
    ]
    for node in range(len(labels.tree.feature)):
        shape = "" if labels.tree.inner[node] else ", style=filled, fillcolor=lightgrey"
        lines.append(f"  {node} [label={_quoted(labels.several_lines(node))}{shape}];")
        lines += [f"  {node} -> {child} [label={_quoted(answer)}];" for answer, child in labels.children(node)]
    return "\n".join([*lines, "}"]) + "\n"


def plot_tree(model: BaseAGBM, tree: int = 0, ax: Any = None, *, precision: int = 4, max_categories: int = 6) -> Any:
    """Plot a tree of a fitted model with matplotlib and return the axes; the parameters are those of export_text.

    By default, ax is a new figure that is large enough for the tree.
    """
    pyplot = library("matplotlib.pyplot", "plot")
    labels = Labels(view(model), tree, precision, max_categories)
    x, y = _places(labels.tree)
    if ax is None:
        n_lines = max(labels.several_lines(node).count("\n") + 1 for node in range(len(x)))
        size = max(5.0, 1.1 * (x.max() + 1.0)), 0.6 + (0.6 + 0.17 * n_lines) * (1.0 - y.min())  # inches
        _, ax = pyplot.subplots(figsize=size, layout="constrained")
        ax.figure.draw_without_rendering()  # sets the size of the axes
    points = ax.get_window_extent().width * 72.0 / ax.figure.dpi  # width of the axes
    letters = min(9.0, points / (x.max() + 1.0) / 7.5)  # room for about ten letters per leaf
    plain: dict[str, Any] = {"fontsize": letters, "va": "center", "parse_math": False}  # names may contain dollar signs
    for node in range(len(x)):
        box = {"boxstyle": "round", "edgecolor": "0.4", "facecolor": "white" if labels.tree.inner[node] else "0.92"}
        ax.text(x[node], y[node], labels.several_lines(node), ha="center", bbox=box, **plain)
        for answer, child in labels.children(node):
            ends, side = x[[node, child]], "right" if x[child] < x[node] else "left"
            ax.plot(ends, y[[node, child]], color="0.6", linewidth=1.0, zorder=0)
            # Beside its edge and on two lines, since neighbouring labels are close.
            words = f" {answer} ".replace(", ", " \n ")
            ax.text(ends.mean(), y[[node, child]].mean(), words, ha=side, color="0.3", **plain)
    ax.set_title(labels.title, parse_math=False)
    ax.set(xlim=(-0.6, x.max() + 0.6), ylim=(y.min() - 0.5, 0.5))
    ax.axis("off")
    return ax


@dataclass(frozen=True)
class Node:
    """The text of a node."""

    main: str
    """The condition, or the values of a leaf."""
    facts: list[str]


class Labels:
    """The texts for the nodes of one tree."""

    def __init__(self, fitted: View, tree: int, precision: int, max_categories: int) -> None:
        for name, number in (("precision", precision), ("max_categories", max_categories)):
            if not isinstance(number, (int, np.integer)) or number < 1:
                raise ValueError(f"{name}={number!r} must be a positive integer.")
        self._view = fitted
        self.tree = self._view.tree(tree)
        self._precision = precision
        self._max_categories = max_categories
        self.title = f"tree {tree} of {len(self._view.trees)}, adds to {_target(self._view, self.tree)}"

    def node(self, node: int) -> Node:
        """The text of a node."""
        rows = f"rows {self.tree.count[node]}"
        if not self.tree.inner[node]:
            values = ", ".join(self._number(value) for value in self.tree.value[node].tolist())
            return Node(values, [rows])
        return Node(self._question(node), [rows, f"gain {self._number(float(self.tree.gain[node]))}"])

    def several_lines(self, node: int) -> str:
        """The text of a node, wrapped for a box in a figure."""
        words = self.node(node)
        width = 24 if self.tree.inner[node] else 10  # leaves are close to each other: one value per line
        return "\n".join([*textwrap.wrap(words.main, width, break_long_words=False), *words.facts])

    def children(self, node: int) -> list[tuple[str, int]]:
        """The labels of the branches of a node, and the child of each."""
        if not self.tree.inner[node]:
            return []
        missing_yes = bool(self.tree.missing_yes[node])
        yes, no = ("yes, missing", "no") if missing_yes else ("yes", "no, missing")
        return [(yes, int(self.tree.yes[node])), (no, int(self.tree.no[node]))]

    def _question(self, node: int) -> str:
        feature = int(self.tree.feature[node])
        name = self._view.split_names[feature]
        if node not in self.tree.members:
            threshold = float(self.tree.threshold[node])
            return f"{name} <= {self._number(threshold)}" if threshold < np.inf else f"{name} is a number"
        categories, members = self._view.categories[feature], self.tree.members[node].tolist()
        more = len(members) - self._max_categories
        shown = [
            category_text(categories[code]) if code < len(categories) else "unknown"
            for code in members[: self._max_categories]
        ] + ([f"... {more} more"] if more > 0 else [])
        return f"{name} in {{{', '.join(shown)}}}"

    def _number(self, value: float) -> str:
        return f"{value:.{self._precision}g}"


def _target(fitted: View, tree: Tree) -> str:
    """What the values of the tree are added to, as text."""
    if fitted.classes is not None and len(fitted.classes) == 2:
        return f"the score of class {fitted.classes[1]}"
    if fitted.n_outputs == 1:
        return "the score"
    names = range(fitted.n_outputs) if fitted.classes is None else fitted.classes
    chosen = [str(names[output]) for output in tree.outputs]
    kind = "output" if fitted.classes is None else "class"
    if len(chosen) == 1:
        return f"the score of {kind} {chosen[0]}"
    return f"the scores of {kind}{'s' if fitted.classes is None else 'es'} {', '.join(chosen)}"


def _lines(labels: Labels) -> Iterator[str]:
    open_nodes = [(0, "", "")]  # node, label of its branch, and indentation of its children
    while open_nodes:
        node, answer, indent = open_nodes.pop()
        words, children = labels.node(node), labels.children(node)
        yield f"{answer}{words.main}  ({', '.join(words.facts)})"
        for place, (which, child) in reversed(list(enumerate(children))):
            branch, below = ("└─ ", "   ") if place == len(children) - 1 else ("├─ ", "│  ")
            open_nodes.append((child, f"{indent}{branch}{which}: ", indent + below))


def _quoted(text: str) -> str:
    """A string in DOT: a JSON string in which characters other than ASCII are not escaped."""
    return json.dumps(text, ensure_ascii=False)


def _places(tree: Tree) -> tuple[Array, Array]:
    """The positions of the nodes: leaves side by side, every other node above the middle of its children."""
    depth, x = tree.depths(), np.zeros(len(tree.feature))
    n_leaves, open_nodes = 0, [0]
    while open_nodes:
        node = open_nodes.pop()
        if tree.inner[node]:
            open_nodes += [int(tree.no[node]), int(tree.yes[node])]
        else:
            x[node], n_leaves = n_leaves, n_leaves + 1
    for node in np.flatnonzero(tree.inner)[::-1]:  # children before their parents
        x[node] = (x[tree.yes[node]] + x[tree.no[node]]) / 2.0
    return x, -depth.astype(np.float64)
