"""Columns in model files: categories, dates, ordered categories and lists."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from .._base import _native
from .._base.types import AnyArray
from .._data.crosses import SIGNS, Cross
from .._data.dates import FORMS, PARTS
from .._data.derivation import NO_DERIVATION, TYPED, DateColumn, Derivation
from .._data.reader import TableReader
from .._data.text_columns import NUMBER
from . import values as stored_values
from .container import ModelFileError, Stored, shortened

LIST = "list"
"""The form of columns of lists."""


def category_arrays(section: str, categories: Mapping[int, list[Any]]) -> dict[str, AnyArray]:
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
    """Columns of dates, and of text that is numbers: column, form of the text, parts, and text that is missing.

    Of lists, their length is the only part.
    """
    columns = dict(derivation.dates) | {f: DateColumn(NUMBER, (), of) for f, of in derivation.numbers.items()}
    entries = [[f, of.form, list(of.parts), list(of.unread)] for f, of in columns.items()]
    return sorted([*entries, *([f, LIST, [length], []] for f, length in derivation.lists.items())])


def restored_derivation(n_columns: int, categories: Collection[int], stored: Stored) -> Derivation:
    """How dates, ordered categories and lists become numbers."""
    if "derivation" not in stored.description:
        return NO_DERIVATION
    columns: dict[int, DateColumn] = {}
    lists: dict[int, int] = {}
    for entry in stored.entry("derivation", list):
        match entry:
            case [int(f), str(form), list(parts), list(unread)] if 0 <= f < n_columns and _is_form(form, parts, unread):
                columns[f] = DateColumn(form, tuple(parts), tuple(unread))
            case [int(f), str(form), [int(length)], []] if form == LIST and 0 <= f < n_columns and length > 0:
                lists[f] = length
                columns[f] = DateColumn(LIST, ())
            case _:
                raise ModelFileError(f"derivation: {shortened(entry)} is not a column of dates, numbers or lists")
    if n_columns + sum(lists.values()) > _native.MAX_FEATURES:
        raise ModelFileError(f"derivation: lists have more than {_native.MAX_FEATURES} numbers")
    ordered = restored_categories("ordered", n_columns, stored)
    several = sorted((columns.keys() & ordered.keys()) | (set(categories) & (columns.keys() | ordered.keys())))
    if several or list(columns) != sorted(columns) or len(columns) != len(stored.entry("derivation", list)):
        raise ModelFileError("derivation: columns must increase, and be of one kind each")
    dates = {f: column for f, column in columns.items() if column.form not in (NUMBER, LIST)}
    numbers = {f: column.unread for f, column in columns.items() if column.form == NUMBER}
    return Derivation(dates, ordered, numbers, lists)


def restored_crosses(reader: TableReader, stored: Stored) -> list[Cross]:
    """The crosses of columns."""
    crosses, numeric = [], set(reader.numeric if "crosses" in stored.description else ())
    for entry in stored.entry("crosses", list) if "crosses" in stored.description else ():
        match entry:
            case [int(left), str(sign), int(right), float(a), float(b), bool(for_all)] if (
                {left, right} <= numeric and sign in SIGNS and all(0.0 < scale < np.inf for scale in (a, b))
            ):
                crosses.append(Cross(left, sign, right, a, b, for_all))
            case _:
                raise ModelFileError(f"crosses: {shortened(entry)} is not a cross of two columns of numbers")
    return crosses


def _is_form(form: str, parts: list[Any], unread: list[Any]) -> bool:
    known = all(isinstance(part, str) and part in PARTS for part in parts) and len(set(parts)) == len(parts)
    fits = form in FORMS or form == TYPED or (form == NUMBER and not parts)
    return fits and known and all(isinstance(text, str) for text in unread)
