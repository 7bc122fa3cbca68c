"""All trees as one data frame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._estimators.base import BaseAGBM
from .._model.fitted import FittedModel
from ._view import Tree, View, view


def trees_to_dataframe(model: BaseAGBM) -> Any:
    """The trees of a fitted model as a pandas data frame with one row per node, root first.

    - tree, member, iteration: members are counted from 0, and iterations from 1. output is the first output that the
      tree adds to.
    - node, depth, parent, left, right: nodes are counted from 0 in each tree; -1 if there is none.
    - feature, decision, threshold, categories: "<=" sends values at or below the threshold to the left, "in" the
      categories of a list. Dates are days since 1970-01-01, and ordered categories are their positions.
    - missing, unknown: "left" or "right", the child of missing values and of unknown categories.
    - gain, count: of the split, and the number of training rows.
    - value: what a leaf adds to the score; value_0, value_1, ... if the leaves of trees have several values.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("trees_to_dataframe() needs pandas: pip install pandas.") from error
    seen = view(model)
    origins = list(_origins(model.model_)) or [(0, 0)]  # without any, the view has one tree
    rows = [
        {"tree": number, "member": member, "iteration": iteration, **node}
        for number, ((member, iteration), tree) in enumerate(zip(origins, seen.trees, strict=True))
        for node in _nodes(seen, tree)
    ]
    return pd.DataFrame(rows)


def _origins(fitted: FittedModel) -> Iterator[tuple[int, int]]:
    """The member and the iteration of each tree."""
    for member, ensemble in enumerate(fitted.ensembles):
        first: dict[int, int] = {}
        for iteration, functions in enumerate(ensemble.pairs(), 1):
            for function in functions:
                if function is not None:
                    first.setdefault(ensemble.functions[function][0], iteration)
        for number, learner in enumerate(ensemble.models):
            yield from [(member, first[number])] * learner.n_learners


def _nodes(seen: View, tree: Tree) -> Iterator[dict[str, Any]]:
    depths = tree.depths()
    parents = np.full(len(depths), -1)
    for children in (tree.yes, tree.no):
        parents[children[tree.inner]] = np.flatnonzero(tree.inner)
    n_values = tree.value.shape[1]
    names = ["value"] if n_values == 1 else [f"value_{k}" for k in range(n_values)]
    for node, inner in enumerate(tree.inner.tolist()):
        feature, members = int(tree.feature[node]), tree.members.get(node)
        known = seen.categories[feature] if members is not None else []
        codes = [] if members is None else members.tolist()
        yield {
            "output": tree.first_output,
            "node": node,
            "depth": int(depths[node]),
            "parent": int(parents[node]),
            "left": int(tree.yes[node]),
            "right": int(tree.no[node]),
            "feature": seen.split_names[feature] if inner else None,
            "decision": None if not inner else "<=" if members is None else "in",
            "threshold": float(tree.threshold[node]) if inner and members is None else np.nan,
            "categories": None if members is None else [known[code] for code in codes if code < len(known)],
            "missing": None if not inner else "left" if tree.missing_yes[node] else "right",
            "unknown": None if members is None else "left" if len(known) in codes else "right",
            "gain": float(tree.gain[node]) if inner else np.nan,
            "count": int(tree.count[node]),
            **dict.fromkeys(names, np.nan),
            **({} if inner else dict(zip(names, tree.value[node].tolist(), strict=True))),
        }
