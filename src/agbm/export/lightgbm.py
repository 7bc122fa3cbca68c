"""Export to the text format of LightGBM, which many other tools read as well."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import chain

import numpy as np

from .._estimators.base import BaseAGBM
from .._losses import traits_of
from ._view import Tree, View, view

# Bits of decision_type: categorical split; missing values go left; missing values are NaN.
_CATEGORICAL, _DEFAULT_LEFT, _NAN = 1, 2, 8


def to_lightgbm(model: BaseAGBM) -> str:
    """A fitted model in the text format of LightGBM: `lightgbm.Booster(model_str=to_lightgbm(model))`.

    Its input is the result of `encode`, or a pandas data frame in which exactly the categorical columns have the type
    category.

    A classifier predicts probabilities: of the second class for two classes, of shape (rows, classes) for more. A tree
    with several values per leaf becomes several trees. The first tree of each output is its initial score.
    """
    fitted = view(model)
    fitted.check_has_no_crosses("LightGBM")
    objective = _objective(fitted)
    trees = [_tree_text(number, tree) for number, tree in enumerate(_in_order(fitted))]
    header = [
        "tree", "version=v4", f"num_class={fitted.n_outputs}", f"num_tree_per_iteration={fitted.n_outputs}",
        "label_index=0", f"max_feature_idx={len(fitted.feature_names) - 1}", *objective,
        f"feature_names={' '.join(_feature_names(fitted))}", f"feature_infos={' '.join(_feature_infos(fitted))}",
        f"tree_sizes={' '.join(str(len(tree)) for tree in trees)}",
    ]  # fmt: skip
    return "\n".join([*header, "", "".join(trees) + "end of trees", "", f"pandas_categorical:{_pandas(fitted)}", ""])


def _objective(fitted: View) -> list[str]:
    """The line with the LightGBM objective for our link; none for several outputs, which LightGBM does not have."""
    name = traits_of(fitted.loss).lightgbm
    if fitted.n_outputs > 1 and fitted.link.name != "softmax":
        if fitted.link.name != "identity":
            raise ValueError(
                f"loss={fitted.loss!r} with {fitted.n_outputs} outputs: LightGBM does not apply a link to several "
                "outputs; use to_onnx or to_treelite, or fit one model per output."
            )
        return []
    return [f"objective={name}"]


def _in_order(fitted: View) -> Iterable[Tree]:
    """The initial scores and all trees; LightGBM assigns consecutive trees to outputs 0, 1, 2 and so on in turn."""
    of_output: list[list[Tree]] = [[] for _ in range(fitted.n_outputs)]
    for tree in fitted.single_output_trees():
        of_output[tree.first_output].append(tree)
    return chain(
        (_constant(of_output[output][0], value) for output, value in enumerate(fitted.start.tolist())),
        chain.from_iterable(zip(*of_output, strict=True)),
    )


def _constant(like: Tree, value: float) -> Tree:
    """A tree with a single leaf, and the row count of another tree."""
    none, zero = np.full(1, -1, dtype=np.int32), np.zeros(1)
    values = np.full((1, 1), value)
    return Tree(none, zero, none, none, zero.astype(bool), {}, values, like.first_output, like.count[:1], zero)


def _tree_text(number: int, tree: Tree) -> str:
    inner, places = tree.inner, tree.places()
    # LightGBM numbers inner nodes 0, 1, 2, ... and leaves -1, -2, ...
    signed = np.where(inner, places, ~places)
    decision = _NAN + np.where(tree.missing_yes, _DEFAULT_LEFT, 0)
    threshold = tree.threshold.copy()
    bounds, words = [0], []
    for n, node in enumerate(sorted(tree.members)):
        decision[node], threshold[node] = _NAN + _CATEGORICAL, n
        words += _bitset(tree.members[node].tolist())
        bounds.append(len(words))
    lines = {
        "num_leaves": [int((~inner).sum())],
        "num_cat": [len(tree.members)],
        "split_feature": tree.feature[inner].tolist(),
        "split_gain": tree.gain[inner].tolist(),
        "threshold": threshold[inner].tolist(),
        "decision_type": decision[inner].tolist(),
        "left_child": signed[tree.yes[inner]].tolist(),
        "right_child": signed[tree.no[inner]].tolist(),
        "leaf_value": tree.value[~inner, 0].tolist(),
        "leaf_count": tree.count[~inner].tolist(),
        "internal_count": tree.count[inner].tolist(),
    }
    if words:
        lines |= {"cat_boundaries": bounds, "cat_threshold": words}
    lines |= {"is_linear": [0], "shrinkage": [1]}
    text = [f"{name}={' '.join(map(repr, values))}" for name, values in lines.items()]
    return "\n".join([f"Tree={number}", *text, "", "", ""])


def _bitset(members: list[int]) -> list[int]:
    """A set as words of 32 bits, one bit per category."""
    words = [0] * (max(members, default=0) // 32 + 1)
    for member in members:
        words[member // 32] |= 1 << member % 32
    return words


def _feature_names(fitted: View) -> list[str]:
    """Names without characters that LightGBM does not allow; x0, x1 and so on if they are no longer unique."""
    names = [re.sub(r'[\s,:"\[\]{}]', "_", name) or "_" for name in fitted.feature_names]
    return names if len(set(names)) == len(names) else [f"x{f}" for f in range(len(names))]


def _feature_infos(fitted: View) -> list[str]:
    """The category codes of categorical features; the ranges of numeric features are not known."""
    numbers = {f: ":".join(map(str, range(len(known)))) for f, known in fitted.categories.items()}
    return [numbers.get(f) or "[-inf:inf]" for f in range(len(fitted.feature_names))]


def _pandas(fitted: View) -> str:
    """The categories of the categorical columns in JSON, which LightGBM uses to encode pandas data frames."""
    categories = [fitted.categories[f] for f in sorted(fitted.categories)]
    if not all(isinstance(category, (str, int, float)) for category in chain.from_iterable(categories)):
        return "null"  # JSON cannot express them; matrices of numbers remain as input
    return json.dumps(categories)
