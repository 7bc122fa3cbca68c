"""Export to Treelite."""

from __future__ import annotations

from typing import Any

from .._estimators.base import BaseAGBM
from ._view import Tree, View, library, view


def to_treelite(model: BaseAGBM) -> Any:
    """A fitted model as a treelite.Model, with thresholds and values in float64.

    Its input is the result of `encode`. treelite.gtil.predict returns an array of shape (rows, outputs, classes):
    probabilities for a classifier, only of the second class if there are two; predictions for a regressor.
    """
    builder_of = library("treelite.model_builder", "treelite")
    fitted = view(model)
    fitted.check_has_no_crosses("Treelite")
    n_classes = fitted.n_outputs if fitted.link.name == "softmax" else 1
    n_targets = fitted.n_outputs // n_classes
    vectors = fitted.trees[0].value.shape[1] > 1  # then all trees have one value per output
    builder = builder_of.ModelBuilder(
        threshold_type="float64",
        leaf_output_type="float64",
        metadata=builder_of.Metadata(
            num_feature=len(fitted.feature_names),
            task_type=_task(fitted),
            average_tree_output=False,
            num_target=n_targets,
            num_class=[n_classes] * n_targets,
            leaf_vector_shape=(n_targets, n_classes) if vectors else (1, 1),
        ),
        tree_annotation=builder_of.TreeAnnotation(
            num_tree=len(fitted.trees),
            target_id=[_place(tree.first_output, n_targets, vectors) for tree in fitted.trees],
            class_id=[_place(tree.first_output, n_classes, vectors) for tree in fitted.trees],
        ),
        postprocessor=_postprocessor(fitted, builder_of.PostProcessorFunc),
        base_scores=fitted.start.tolist(),
    )
    for tree in fitted.trees:
        _add(builder, tree)
    return builder.commit()


def _place(output: int, n: int, vectors: bool) -> int:
    """The index of the target or class of a tree, out of n; -1 if its leaves have values for all of them."""
    if n == 1:
        return 0
    return -1 if vectors else output


def _task(fitted: View) -> str:
    if fitted.classes is None:
        return "kRegressor"
    return "kBinaryClf" if len(fitted.classes) == 2 else "kMultiClf"


def _postprocessor(fitted: View, make: Any) -> Any:
    name = "exponential" if fitted.link.name == "exp" else fitted.link.name
    return make(name=name, sigmoid_alpha=fitted.link.slope)


def _add(builder: Any, tree: Tree) -> None:
    builder.start_tree()
    for node in range(len(tree.feature)):
        builder.start_node(node)
        builder.data_count(int(tree.count[node]))
        if not tree.inner[node]:
            values = tree.value[node].tolist()
            builder.leaf(values if len(values) > 1 else values[0])
        else:
            _ask(builder, tree, node)
        builder.end_node()
    builder.end_tree()


def _ask(builder: Any, tree: Tree, node: int) -> None:
    question = {
        "feature_id": int(tree.feature[node]),
        "default_left": bool(tree.missing_yes[node]),
        "left_child_key": int(tree.yes[node]),
        "right_child_key": int(tree.no[node]),
    }
    builder.gain(float(tree.gain[node]))
    if node in tree.members:
        members = tree.members[node].tolist()
        builder.categorical_test(category_list=members, category_list_right_child=False, **question)
    else:
        builder.numerical_test(threshold=float(tree.threshold[node]), opname="<=", **question)
