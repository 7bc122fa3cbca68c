"""Export to ONNX: a TreeEnsemble (ai.onnx.ml, version 5), and operators from its scores to predictions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .._base.sums import Array
from .._estimators.base import BaseAGBM
from ._view import Tree, View, library, view

# The versions that the operators need: TreeEnsemble exists since version 5 of ai.onnx.ml and this IR version.
_ML_OPSET, _OPSET, _IR_VERSION = 5, 18, 10

# Codes of the attributes of TreeEnsemble.
_AT_MOST, _MEMBER = 0, 6
_SUM = 1

# The name of the input for offsets.
_OFFSET = "offset"

# As in agbm.losses: exp() of a larger score overflows.
_LARGEST_EXPONENT = 700.0


def to_onnx(model: BaseAGBM, *, dtype: DTypeLike = np.float32, columns: bool = False, offset: bool = False) -> Any:
    """A fitted model as an onnx.ModelProto.

    dtype is the type of the input, the trees and the output: float32, or float64 for full precision. float32 inputs
    reach the same leaves with both types, because thresholds are rounded such that every float32 number stays on the
    same side.

    The input is a matrix "X" of shape (rows, features), as returned by `encode`; NaN is a missing value. With
    columns=True, every feature is a separate named input of shape (rows, 1), and the graph looks up categories: text
    columns are string inputs, in which "" is a missing value. Inputs of dates and ordered categories are the numbers
    that `encode` returns.

    With offset=True, the graph has the further input "offset" of shape (rows, scores per row), which is added to the
    raw scores, as the argument of that name in predict. A model of one score, such as log(rate), has one column.

    A regressor has the output "prediction", the result of predict; a classifier has the outputs "label" and
    "probabilities", of shape (rows, classes). For several labels per row, both have the shape (rows, labels).
    """
    graph, fitted = _Graph(dtype), view(model)
    X = _columns(graph, fitted, offset) if columns else graph.input("X", graph.dtype, len(fitted.feature_names))
    scores = graph.add("Add", _sums(graph, X, fitted), graph.constant(fitted.start.astype(graph.dtype)))
    if offset:
        scores = graph.add("Add", scores, graph.input(_OFFSET, graph.dtype, fitted.n_outputs))
    if fitted.several_labels:
        _labels_and_probabilities(graph, scores, fitted)
    elif fitted.classes is None:
        _prediction(graph, scores, fitted)
    else:
        _label_and_probabilities(graph, scores, fitted, fitted.classes)
    return graph.model()


class _Graph:
    """A graph under construction. Values are identified by name."""

    def __init__(self, dtype: DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.float32, np.float64):
            raise ValueError(f"dtype={dtype!r} must be float32 or float64.")
        onnx = library("onnx", "onnx")
        self._check = onnx.checker.check_model
        self._helper = onnx.helper
        self.tensor = onnx.numpy_helper.from_array
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def type_of(self, dtype: Any) -> int:
        return int(self._helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def input(self, name: str, dtype: Any, width: int) -> str:
        self._inputs.append(self._helper.make_tensor_value_info(name, self.type_of(dtype), ["rows", width]))
        return name

    def output(self, name: str, value: str, dtype: Any, *shape: int) -> None:
        self._nodes.append(self._helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._helper.make_tensor_value_info(name, self.type_of(dtype), ["rows", *shape]))

    def constant(self, array: NDArray[Any]) -> str:
        name = f"agbm/constant_{len(self._constants)}"  # no feature has such a name
        self._constants.append(self.tensor(array, name))
        return name

    def number(self, value: float) -> str:
        return self.constant(np.array(value, dtype=self.dtype))

    def add(self, operator: str, *values: str, domain: str = "", **attributes: Any) -> str:
        name = f"agbm/{operator}_{len(self._nodes)}"
        self._nodes.append(self._helper.make_node(operator, list(values), [name], domain=domain, **attributes))
        return name

    def model(self) -> Any:
        graph = self._helper.make_graph(self._nodes, "agbm", self._inputs, self._outputs, self._constants)
        versions = [self._helper.make_opsetid("", _OPSET), self._helper.make_opsetid("ai.onnx.ml", _ML_OPSET)]
        model = self._helper.make_model(graph, opset_imports=versions, ir_version=_IR_VERSION, producer_name="agbm")
        self._check(model, full_check=True)
        return model


def _columns(graph: _Graph, fitted: View, offset: bool) -> str:
    """A matrix of all features, each of which is a separate input; categories are looked up."""
    taken = {"prediction", "label", "probabilities", *([_OFFSET] if offset else [])}
    parts = []
    for feature, name in enumerate(fitted.feature_names):
        if name in taken:
            raise ValueError(
                f"columns=True: an output or another input is also named {name!r}; use columns=False, or rename the "
                "feature and fit again."
            )
        taken.add(name)
        if feature in fitted.categories:
            parts.append(_look_up(graph, name, fitted.categories[feature]))
        else:
            parts.append(graph.input(name, graph.dtype, 1))
    return graph.add("Concat", *parts, axis=1)


def _look_up(graph: _Graph, name: str, categories: list[Any]) -> str:
    """The category codes of a column; NaN for missing values, and the code after the last for unknown categories."""
    if all(isinstance(category, str) for category in categories):
        keys, missing = np.array(categories, dtype=object), np.array([""], dtype=object)
    else:
        keys, missing = _as_numbers(name, categories, graph.dtype), np.array([np.nan], dtype=graph.dtype)
    numbers = np.arange(len(keys) + 1, dtype=graph.dtype)
    numbers[-1] = np.nan
    if "" in categories:
        numbers = numbers[:-1]
    else:
        keys = np.append(keys, missing)
    return graph.add(
        "LabelEncoder",
        graph.input(name, keys.dtype, 1),
        domain="ai.onnx.ml",
        keys_tensor=graph.tensor(keys),
        values_tensor=graph.tensor(numbers),
        default_tensor=graph.tensor(np.array([max(1, len(categories))], dtype=graph.dtype)),
    )


def _as_numbers(name: str, categories: list[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    try:
        keys = np.array(categories).astype(dtype)
        exact = keys.tolist() == categories
    except (TypeError, ValueError):
        exact = False
    if not exact:
        raise ValueError(
            f"columns=True: the categories of feature {name!r} are neither text nor numbers of type {dtype}; use "
            "columns=False, with the matrix encode(model, X)."
        )
    return keys


def _counted_from_one(graph: _Graph, X: str, fitted: View) -> str:
    """X with all category codes increased by one.

    In tests for set membership, onnxruntime on aarch64 treats a missing category as 0.
    """
    if not fitted.categories:
        return X
    raised = np.isin(np.arange(len(fitted.feature_names)), list(fitted.categories))
    return graph.add("Add", X, graph.constant(raised.astype(graph.dtype)))


def _sums(graph: _Graph, X: str, fitted: View) -> str:
    """Sums of the values of the trees; with crosses, in double precision, since these are not exact in single."""
    X = _counted_from_one(graph, X, fitted)
    if not fitted.crosses:
        return _trees(graph, X, fitted, graph.dtype)
    wide = np.dtype(np.float64)
    X = graph.add("Cast", X, to=graph.type_of(wide))
    sums = _trees(graph, graph.add("Concat", X, *_crosses(graph, X, fitted), axis=1), fitted, wide)
    return graph.add("Cast", sums, to=graph.type_of(graph.dtype))


def _crosses(graph: _Graph, X: str, fitted: View) -> list[str]:
    """The crosses, each a column."""

    def scaled(column: int, scale: float) -> str:
        taken = graph.add("Gather", X, graph.constant(np.array([column], dtype=np.int64)), axis=1)
        return graph.add("Mul", taken, graph.constant(np.array(scale, dtype=np.float64)))

    operators = {"+": "Add", "-": "Sub", "*": "Mul"}
    return [
        graph.add(operators[cross.sign], scaled(cross.left, cross.left_scale), scaled(cross.right, cross.right_scale))
        for cross in fitted.crosses
    ]


def _trees(graph: _Graph, X: str, fitted: View, dtype: np.dtype[Any]) -> str:
    """Sums of the values of the trees, (row, output); category codes in X start at 1."""
    trees = [_depth_first(_with_a_question(tree)) for tree in fitted.single_output_trees()]
    n_inner = np.cumsum([0, *(tree.inner.sum() for tree in trees)])
    n_leaves = np.cumsum([0, *((~tree.inner).sum() for tree in trees)])
    # The index of each node among the inner nodes, or leaves, of all trees.
    places = list(map(_places, trees, n_inner[:-1], n_leaves[:-1]))
    weights = np.empty(n_leaves[-1])
    for tree, place in zip(trees, places, strict=True):
        weights[place[~tree.inner]] = tree.value[~tree.inner, 0]

    def of_inner(values: list[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([value[tree.inner] for tree, value in zip(trees, values, strict=True)])

    modes = [np.full(len(tree.feature), _AT_MOST, dtype=np.uint8) for tree in trees]
    members: list[Array] = []
    for tree, mode in zip(trees, modes, strict=True):
        mode[list(tree.members)] = _MEMBER
        for node in sorted(tree.members):
            members += [tree.members[node].astype(np.float64) + 1.0, np.array([np.nan])]  # NaN terminates a set
    sets = {"membership_values": graph.tensor(np.concatenate(members).astype(dtype))} if members else {}
    return graph.add(
        "TreeEnsemble",
        X,
        domain="ai.onnx.ml",
        n_targets=fitted.n_outputs,
        aggregate_function=_SUM,
        tree_roots=n_inner[:-1].tolist(),
        nodes_featureids=of_inner([tree.feature for tree in trees]).tolist(),
        nodes_modes=graph.tensor(of_inner(modes)),
        nodes_splits=graph.tensor(rounded_down(of_inner([tree.threshold for tree in trees]), dtype)),
        nodes_truenodeids=of_inner([place[tree.yes] for tree, place in zip(trees, places, strict=True)]).tolist(),
        nodes_trueleafs=of_inner([~tree.inner[tree.yes] for tree in trees]).astype(int).tolist(),
        nodes_falsenodeids=of_inner([place[tree.no] for tree, place in zip(trees, places, strict=True)]).tolist(),
        nodes_falseleafs=of_inner([~tree.inner[tree.no] for tree in trees]).astype(int).tolist(),
        nodes_missing_value_tracks_true=of_inner([tree.missing_yes for tree in trees]).astype(int).tolist(),
        leaf_targetids=np.repeat([tree.first_output for tree in trees], np.diff(n_leaves)).tolist(),
        leaf_weights=graph.tensor(weights.astype(dtype)),
        **sets,
    )


def _places(tree: Tree, inner_before: int, leaves_before: int) -> NDArray[np.int64]:
    """The indices of the nodes of a tree that is preceded by the given numbers of inner nodes and leaves.

    onnxruntime before 1.24 treats a root as a leaf if its children, one inner node and one leaf, have the same index.
    In this case, the indices of the leaves are rotated.
    """
    n_leaves = np.count_nonzero(~tree.inner)
    place = tree.places() + np.where(tree.inner, inner_before, leaves_before)
    if place[tree.yes[0]] == place[tree.no[0]]:
        place = np.where(tree.inner, place, leaves_before + (tree.places() + 1) % n_leaves)
    return place


def _depth_first(tree: Tree) -> Tree:
    """The tree with its nodes in the order of a walk that takes "yes" first.

    In the standard, sets of categories are in the order of the nodes. The reference implementation takes them in the
    order of this walk, so the two must be the same.
    """
    order, ahead = [], [0]
    while ahead:
        node = ahead.pop()
        order.append(node)
        if tree.inner[node]:
            ahead += [int(tree.no[node]), int(tree.yes[node])]
    place = np.empty(len(order) + 1, dtype=np.int32)
    place[order], place[-1] = np.arange(len(order)), -1  # leaves have no children: -1
    of_nodes = ("feature", "threshold", "missing_yes", "value", "count", "gain")
    return replace(
        tree, yes=place[tree.yes[order]], no=place[tree.no[order]],
        members={int(place[node]): codes for node, codes in tree.members.items()},
        **{name: getattr(tree, name)[order] for name in of_nodes},
    )  # fmt: skip


def _with_a_question(tree: Tree) -> Tree:
    """The tree; a single leaf becomes a split with two equal leaves, since trees in ONNX need at least one split."""
    if tree.inner.any():
        return tree
    zero = np.zeros(3)
    return Tree(
        feature=np.array([0, -1, -1], dtype=np.int32),
        threshold=zero,
        yes=np.array([1, -1, -1], dtype=np.int32),
        no=np.array([2, -1, -1], dtype=np.int32),
        missing_yes=zero.astype(bool),
        members={},
        value=np.repeat(tree.value, 3, axis=0),
        first_output=tree.first_output,
        count=np.repeat(tree.count, 3),
        gain=zero,
    )


def rounded_down(thresholds: Array, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The largest numbers of a type that are not above the thresholds, so that its numbers stay on the same side."""
    with np.errstate(over="ignore"):
        rounded = thresholds.astype(dtype)
        return np.where(rounded > thresholds, np.nextafter(rounded, -np.inf, dtype=dtype), rounded)


def _prediction(graph: _Graph, scores: str, fitted: View) -> None:
    result = scores
    if fitted.link.name == "exp":
        result = graph.add("Exp", graph.add("Min", scores, graph.number(_LARGEST_EXPONENT)))
    elif fitted.link.name == "sigmoid":
        result = _sigmoid(graph, scores, fitted)
    if fitted.one_column:
        graph.output("prediction", _first_column(graph, result), graph.dtype)
    else:
        graph.output("prediction", result, graph.dtype, fitted.n_outputs)


def _label_and_probabilities(graph: _Graph, scores: str, fitted: View, classes: NDArray[Any]) -> None:
    if len(classes) == 2:
        positive = graph.add("Greater", _first_column(graph, scores), graph.number(0.0))
        code = graph.add("Cast", positive, to=graph.type_of(np.int64))
        second = _sigmoid(graph, scores, fitted)
        probabilities = graph.add("Concat", graph.add("Sub", graph.number(1.0), second), second, axis=1)
    else:
        code = graph.add("ArgMax", scores, axis=1, keepdims=0)
        probabilities = graph.add("Softmax", scores, axis=1)
    labels = _label_tensor(classes)
    graph.output("label", graph.add("Gather", graph.constant(labels), code), labels.dtype)
    graph.output("probabilities", probabilities, graph.dtype, len(classes))


def _labels_and_probabilities(graph: _Graph, scores: str, fitted: View) -> None:
    found = graph.add("Cast", graph.add("Greater", scores, graph.number(0.0)), to=graph.type_of(np.int64))
    graph.output("label", found, np.int64, fitted.n_outputs)
    graph.output("probabilities", _sigmoid(graph, scores, fitted), graph.dtype, fitted.n_outputs)


def _sigmoid(graph: _Graph, scores: str, fitted: View) -> str:
    return graph.add("Sigmoid", graph.add("Mul", scores, graph.number(fitted.link.slope)))


def _first_column(graph: _Graph, value: str) -> str:
    return graph.add("Squeeze", value, graph.constant(np.array([1], dtype=np.int64)))


def _label_tensor(classes: NDArray[Any]) -> NDArray[Any]:
    """The classes in a type that ONNX supports."""
    if classes.dtype.kind == "U" or all(isinstance(label, str) for label in classes.tolist()):
        return classes.astype(object)
    if classes.dtype.kind in "iu":
        return classes.astype(np.int64)
    if classes.dtype.kind == "b" or classes.dtype in (np.float32, np.float64):
        return classes
    raise ValueError(
        f"The classes {classes.tolist()} are of type {classes.dtype}, which ONNX does not support; use text, integers, "
        "floats or booleans as labels."
    )
