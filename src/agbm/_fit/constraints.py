"""Constraints of features as users write them, by names or positions of columns, as lists over all columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_monotonic_cst

from .._base.types import AnyArray
from .._data.tables import position_of
from .._labels.base import Labels


def monotone_outputs(given: object, columns: Any, labels: Labels) -> NDArray[np.int8]:
    """The monotonic constraints (output, column), from the parameter `monotonic_cst`.

    `columns` has n_features_in_ and, if the columns have names, feature_names_in_.
    """
    where = f"monotonic_cst={given!r}"
    of_classes: dict[int, Mapping[Any, Any]] = {}
    if isinstance(given, Mapping):
        names, n_features = getattr(columns, "feature_names_in_", None), columns.n_features_in_
        plain: list[Any] = [0] * n_features
        for column, constraint in given.items():
            position = position_of(column, names, n_features, where)
            if isinstance(constraint, Mapping):
                of_classes[position] = constraint
            else:
                plain[position] = constraint
    constraints = _check_monotonic_cst(columns, plain if isinstance(given, Mapping) else given)
    if constraints.any():
        labels.check_monotone(given)
    monotone = np.outer(labels.monotone_scores(), constraints).astype(np.int8)
    for position, signs in of_classes.items():
        wrong = [sign for sign in signs.values() if isinstance(sign, bool) or sign not in (-1, 0, 1)]
        if wrong:
            raise ValueError(f"{where}: constraints must be -1, 0 or 1; got {wrong}.")
        monotone[:, position] = labels.monotone_outputs(signs, where)
    return monotone


def interaction_groups(given: Any, names: AnyArray | None, n_features: int) -> list[list[int]]:
    """Groups of columns that may occur on the same path, from the parameter `interaction_cst`."""
    if given is None:
        return []
    if isinstance(given, str):
        size = 1 if given == "no_interactions" else min(2, n_features)
        return [list(group) for group in combinations(range(n_features), size)]
    if not all(isinstance(group, Iterable) and not isinstance(group, str) for group in given):
        raise ValueError(
            f"interaction_cst={given!r} must be 'no_interactions', 'pairwise', or a list of lists of names or "
            "positions of columns, such as [[0, 1], [1, 2]]."
        )
    where = f"interaction_cst={given!r}"
    groups = [sorted({position_of(column, names, n_features, where) for column in group}) for group in given]
    left_over = sorted(set(range(n_features)).difference(*groups))
    return [*groups, left_over] if left_over else groups
