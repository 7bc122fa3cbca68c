"""Conversions of values: each function takes the other library's value and returns ours."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from .library import MAX_BINS


def positive_or_none(value: float | None) -> int | None:
    """Convert 0 and -1, which mean unlimited or unset, to None."""
    return None if value is None or value <= 0 else int(value)


def at_least_one(value: float | str) -> int:
    """Convert 0, which other libraries allow as the number of rows per leaf, to 1."""
    return max(1, int(value))


def bins(value: float | str) -> int:
    """Limit the number of bins to what agbm supports."""
    return min(int(value), MAX_BINS)


def monotonic_constraints(
    value: str | Mapping[Any, int] | Iterable[float] | None,
) -> list[int] | Mapping[Any, int] | None:
    """A list of -1, 0 and 1, from text such as "(1,0,-1)" or from a sequence; a dict by name is returned as it is."""
    if isinstance(value, str):
        return [int(part) for part in value.strip("()[] ").split(",")]
    return value if value is None or isinstance(value, Mapping) else [int(part) for part in value]


def interaction_groups(value: object) -> Any:
    """Lists of positions, also from text such as "[[0,1],[2]]" or "[0,1],[2]"."""
    if not isinstance(value, str) or value in ("pairwise", "no_interactions"):
        return value
    return json.loads(value if value.lstrip().startswith("[[") else f"[{value}]")


def categorical_features(value: str | Iterable[Any]) -> list[Any] | str | None:
    """Names or positions, also from text such as "0,1" or "name:district,street"; "auto" means by dtype."""
    if not isinstance(value, str):
        return list(value) or None
    if value in ("auto", ""):
        return "from_dtype"
    parts = value.removeprefix("name:").split(",")
    return parts if value.startswith("name:") else [int(part) for part in parts]


def init(from_average: object) -> str:
    """The initial prediction: the best constant, or zero."""
    return "prior" if from_average else "zero"


def weight_of_positive_class(value: float) -> dict[int, float] | None:
    """Class weights for the classes 0 and 1; None if both are 1."""
    return None if value == 1 else {0: 1.0, 1: float(value)}


def class_weights(value: str | Mapping[Any, float] | Iterable[float]) -> str | Mapping[Any, float]:
    """Class weights by class, also from a list in the order of the classes 0, 1, ..."""
    return value if isinstance(value, (Mapping, str)) else dict(enumerate(map(float, value)))


def balanced(value: object) -> str | None:
    """Balanced class weights, or none."""
    if value not in (False, True, "None", "Balanced"):
        raise ValueError("class weights must be balanced or given as numbers")
    return "balanced" if value in (True, "Balanced") else None
