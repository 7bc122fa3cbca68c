"""Columns in model files: categories, dates and ordered categories."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._data.dates import FORMS, PARTS
from .._data.derivation import NO_DERIVATION, TYPED, DateColumn, Derivation
from . import values as stored_values
from .container import ModelFileError, Stored, shortened


def category_arrays(section: str, categories: Mapping[int, list[Any]]) -> dict[str, NDArray[Any]]:
    """Sections with the categories of each feature."""
    features = sorted(categories)
    values = [value for feature in features for value in categories[feature]]
    return {
        f"{section}.feature": np.array(features, dtype=np.int64),
        f"{section}.count": np.array([len(categories[feature]) for feature in features], dtype=np.int64),
        **stored_values.to_arrays(section, values, "X: the category"),
    }


def restored_categories(section: str, n_features: int, stored: Stored) -> dict[int, list[Any]]:
    """The categories of each feature in sections of a file."""
    features = stored.array(f"{section}.feature", np.int64)
    counts = stored.array(f"{section}.count", np.int64)
    values = stored_values.from_arrays(section, stored)
    if (features < 0).any() or (features >= n_features).any() or (np.diff(features) <= 0).any():
        raise ModelFileError(f"sizes: section '{section}.feature' must increase within 0 to {n_features - 1}")
    if len(counts) != len(features) or (counts < 0).any() or sum(counts.tolist()) != len(values):
        raise ModelFileError(f"sizes: section '{section}.count' does not add up to the number of categories")
    ends = np.cumsum(counts).tolist()
    begins = [0, *ends[:-1]]
    return {f: values[begin:end] for f, begin, end in zip(features.tolist(), begins, ends, strict=False)}


def described_derivation(derivation: Derivation) -> list[list[Any]]:
    """The columns of dates: column, form of the text and parts."""
    return [[f, column.form, list(column.parts)] for f, column in derivation.dates.items()]


def restored_derivation(n_columns: int, categories: Collection[int], stored: Stored) -> Derivation:
    """How dates and ordered categories become numbers."""
    if "derivation" not in stored.description:
        return NO_DERIVATION
    dates: dict[int, DateColumn] = {}
    for entry in stored.entry("derivation", list):
        match entry:
            case [int(f), str(form), list(parts)] if _is_date_column(f, form, parts, n_columns):
                dates[f] = DateColumn(form, tuple(parts))
            case _:
                raise ModelFileError(f"derivation: {shortened(entry)} is not a column of dates")
    ordered = restored_categories("ordered", n_columns, stored)
    several = sorted((dates.keys() & ordered.keys()) | (set(categories) & (dates.keys() | ordered.keys())))
    if several or list(dates) != sorted(dates) or len(dates) != len(stored.entry("derivation", list)):
        raise ModelFileError("derivation: columns must increase, and be of one kind each")
    return Derivation(dates, ordered)


def _is_date_column(f: int, form: str, parts: list[Any], n_columns: int) -> bool:
    known = all(isinstance(part, str) and part in PARTS for part in parts)
    return 0 <= f < n_columns and (form == TYPED or form in FORMS) and known and len(set(parts)) == len(parts)
