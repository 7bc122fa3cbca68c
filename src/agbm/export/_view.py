"""The parts of a fitted model that all export formats need: trees as arrays, initial scores, link, names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.utils.validation import check_is_fitted

from .._base.sums import Array
from .._base.types import Table
from .._data.crosses import Cross
from .._estimators.base import BaseAGBM
from .._labels.matrices import LabelSets
from .._losses import Loss, prediction_of
from .._tree import Forest


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree. The root is node 0; every inner node has a condition, with a child for "yes" and one for "no".

    A numeric condition holds for values at or below the threshold, and for missing values if missing_yes is set. A
    categorical condition holds for the codes in `members`, and not for missing values. The code of unknown categories
    follows the last code.
    """

    feature: NDArray[np.int32]
    """-1 for leaves."""
    threshold: Array
    yes: NDArray[np.int32]
    no: NDArray[np.int32]
    missing_yes: NDArray[np.bool_]
    members: dict[int, NDArray[np.intp]]
    """Category codes, for each node with a categorical condition."""
    value: Array
    """(node, output): the values of leaves, multiplied by the weight of the tree."""
    first_output: int
    """The output that the first value belongs to; further values belong to the outputs after it."""
    count: NDArray[np.int64]
    """Training rows per node."""
    gain: Array

    @property
    def inner(self) -> NDArray[np.bool_]:
        """A mask of the nodes that are not leaves."""
        return self.feature >= 0

    @property
    def outputs(self) -> range:
        """The outputs that the values belong to."""
        return range(self.first_output, self.first_output + self.value.shape[1])

    def places(self) -> NDArray[np.int64]:
        """The index of each inner node among the inner nodes, and of each leaf among the leaves."""
        return np.where(self.inner, np.cumsum(self.inner), np.cumsum(~self.inner)) - 1

    def depths(self) -> NDArray[np.int64]:
        """The depth of each node."""
        depth = np.zeros(len(self.feature), dtype=np.int64)
        for node in np.flatnonzero(self.inner):  # parents precede their children
            depth[[self.yes[node], self.no[node]]] = depth[node] + 1
        return depth


@dataclass(frozen=True)
class Link:
    """The function from scores to predictions: "identity", "exp", "sigmoid" or "softmax"."""

    name: str
    slope: float = 1.0
    """The factor of the score in the sigmoid."""


@dataclass(frozen=True, eq=False)
class View:
    """A fitted model: link(start + sum of trees)."""

    split_names: list[str]
    """The names of all features that trees split on."""
    crosses: Sequence[Cross]
    """The last features; the others are inputs."""
    categories: dict[int, list[Any]]
    """For each categorical feature, its categories; the code of a category is its position."""
    ordered: Mapping[int, list[Any]]
    """The ordered categories of features whose values are positions in such a list."""
    trees: list[Tree]
    start: Array
    """The initial score of each output."""
    loss: Loss
    link: Link
    classes: NDArray[Any] | None
    """None for a regressor, and for several labels per row."""
    one_column: bool
    """Whether predictions have shape (row) instead of (row, output)."""
    several_labels: bool
    """Whether outputs are the labels of a classifier with several labels per row."""

    @property
    def feature_names(self) -> list[str]:
        """The names of the inputs."""
        return self.split_names[: len(self.split_names) - len(self.crosses)]

    def check_has_no_crosses(self, what: str) -> None:
        """Raise ValueError if the model has crosses; `what` cannot compute them."""
        if self.crosses:
            names = ", ".join(self.split_names[len(self.feature_names) :])
            raise ValueError(
                f"{what} cannot compute the crosses of columns that the model uses ({names}); fit with views=None, or "
                "export to C, JavaScript or ONNX."
            )

    @property
    def n_outputs(self) -> int:
        """Number of scores per row."""
        return len(self.start)

    def single_output_trees(self) -> Iterator[Tree]:
        """The trees, each repeated for every value per leaf: most formats have only one value per leaf."""
        for tree in self.trees:
            for column, output in enumerate(tree.outputs):
                yield replace(tree, value=tree.value[:, column : column + 1], first_output=output)

    def tree(self, number: int) -> Tree:
        """One of the trees."""
        if not isinstance(number, (int, np.integer)) or not 0 <= number < len(self.trees):
            raise ValueError(
                f"tree={number!r} must be an integer from 0 to {len(self.trees) - 1}: the model has "
                f"{len(self.trees)} trees."
            )
        return self.trees[int(number)]


def feature_names(model: BaseAGBM, features: Iterable[int] | None = None) -> list[str]:
    """The names of the features of a model, all or some; x0, x1 and so on if it has none."""
    known = getattr(model, "feature_names_in_", None)
    chosen = range(model.n_features_in_) if features is None else features
    return [f"x{f}" if known is None else str(known[f]) for f in chosen]


def category_text(category: Any) -> str:
    """A category as text. In tables, integers become floats if the column has missing values; this is undone."""
    return str(int(category) if isinstance(category, float) and category.is_integer() else category)


def view(model: BaseAGBM) -> View:
    """The view of a fitted model; raises ValueError if it cannot be exported."""
    check_fitted(model)
    fitted = model.model_
    forest, start, categories = fitted.folded, fitted.start, fitted.categories
    if not isinstance(forest, Forest) and fitted.models:
        raise ValueError(f"learner={fitted.method.learner!r}: only trees can be exported; use trees.")
    if not isinstance(start, np.ndarray):
        raise ValueError(
            f"init={start!r}: a model that starts from another model cannot be exported; use init='prior' or "
            "init='zero'."
        )
    labels: Any = fitted.labels
    several = isinstance(labels, LabelSets)
    classes = None if several else getattr(model, "classes_", None)
    trees = list(_trees(forest, categories)) if isinstance(forest, Forest) else _no_trees(len(start))
    return View(
        split_names=fitted.reader.feature_names,
        crosses=fitted.reader.crosses,
        categories=categories,
        ordered=fitted.reader.derivation.ordered,
        trees=trees,
        start=start,
        loss=fitted.loss,
        link=_link(fitted.loss, classes),
        classes=classes,
        one_column=classes is not None or (not several and labels.single),
        several_labels=several,
    )


def encode(model: BaseAGBM, X: Table, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """X as a matrix of the given type, in the form that exported models accept.

    Categories become their codes in the model; categories that were not seen in fit get the code after the last. Dates
    become days since 1970-01-01, followed after the last column by those of their parts that the model uses; ordered
    categories become their positions. Missing values become NaN. Exported models compute crosses of columns themselves.
    """
    check_fitted(model)
    table = model.model_.reader.numbers(X)
    inputs = table[:, : table.shape[1] - len(model.model_.reader.crosses)]
    return np.ascontiguousarray(inputs.toarray() if hasattr(inputs, "toarray") else inputs, dtype=dtype)


def check_fitted(model: object) -> None:
    """Raise an error unless the model is a fitted model of this library."""
    if not isinstance(model, BaseAGBM):
        raise TypeError(f"model={model!r} must be a fitted AGBMClassifier, AGBMRegressor, AGBMRanker or AGBMSurvival.")
    check_is_fitted(model)


def library(module: str, extra: str) -> Any:
    """Import a module of an optional dependency."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"{module} cannot be imported: pip install 'agbm[{extra}]'.") from error


def _link(loss: Loss, classes: NDArray[Any] | None) -> Link:
    prediction = prediction_of(loss)
    if prediction is None:
        raise ValueError(
            f"loss={loss!r} is not one of agbm.losses; its link function is unknown, so the model cannot be exported. "
            "Use a loss of agbm.losses."
        )
    if prediction == "sigmoid_of_double":
        link = Link("sigmoid", 2.0)
    else:
        link = Link(prediction if prediction in ("exp", "sigmoid", "softmax") else "identity")
    if classes is not None and link.name != ("sigmoid" if len(classes) == 2 else "softmax"):
        raise ValueError(
            f"loss={loss!r} does not give probabilities of {len(classes)} classes, so the classifier cannot be "
            "exported; use loss='log_loss'."
        )
    return link


def _trees(forest: Forest, categories: dict[int, list[Any]]) -> Iterator[Tree]:
    ends = np.append(forest.roots[1:], len(forest.nodes))  # the nodes of a tree are contiguous, root first
    for begin, end, first in zip(forest.roots.tolist(), ends.tolist(), forest.first_column.tolist(), strict=True):
        nodes = forest.nodes[begin:end]
        inner = nodes["feature"] >= 0
        yes = np.where(inner, nodes["left"] - begin, -1)
        no = np.where(inner, yes + 1, -1)
        missing_yes = inner & (nodes["missing_left"] != 0)
        members = {}
        for node in np.flatnonzero(inner & (nodes["categories"] >= 0)).tolist():
            n_categories = len(categories[int(nodes["feature"][node])])
            left = _categories_left(forest, int(nodes["categories"][node]), n_categories + 1, bool(missing_yes[node]))
            if missing_yes[node]:  # members are on the side without missing values
                yes[node], no[node], left = no[node], yes[node], ~left
            members[node] = np.flatnonzero(left)
        missing_yes[list(members)] = False
        yield Tree(
            feature=nodes["feature"],
            threshold=nodes["threshold"],
            yes=yes.astype(np.int32),
            no=no.astype(np.int32),
            missing_yes=missing_yes,
            members=members,
            value=forest.value[begin:end],
            first_output=first,
            count=nodes["count"],
            gain=nodes["gain"],
        )


def _categories_left(forest: Forest, number: int, n_categories: int, missing_left: bool) -> NDArray[np.bool_]:
    """A mask of the categories that go left according to a set; those after its end go where missing values go."""
    words = forest.category_words[forest.category_start[number] : forest.category_start[number + 1]]
    left = np.full(n_categories, missing_left)
    named = np.unpackbits(words.view(np.uint8), bitorder="little")[:n_categories]
    left[: len(named)] = named
    return left


def _no_trees(n_outputs: int) -> list[Tree]:
    """A tree with value zero, for models that consist only of their initial scores."""
    one, none = np.zeros(1), np.full(1, -1, dtype=np.int32)
    count = np.zeros(1, dtype=np.int64)
    value = np.zeros((1, n_outputs))
    return [Tree(none, one, none, none, one.astype(bool), {}, value, 0, count, one)]
