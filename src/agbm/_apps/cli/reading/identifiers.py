"""Columns that identify rows, such as customer_id: a model cannot learn from them, or learns the order of the rows."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .files import DataFile

# Tables with fewer rows may have a text column whose values are different by chance.
FEWEST_ROWS = 20

OF_TEXT = "distinct text; keep with --categorical"
OF_INTEGERS = "distinct integers, named like an identifier; keep with --numeric"

# Words in names of identifiers, and names of columns that other programs write to number the rows.
_WORDS = {"id", "ids", "uid", "uuid", "guid", "identifier", "rowid"}
_ROW_NUMBERS = {"", "index", "rownames", "unnamed: 0"}


def identifiers(file: DataFile, names: Sequence[str]) -> dict[str, str]:
    """Return the columns that are identifiers, each with the reason and the option that keeps it.

    A column is an identifier if all of its values are present and different, and if it is text, or an integer with a
    name such as id, customer_id or customerID. Text that looks numeric is not an identifier.
    """
    if file.n_rows < FEWEST_ROWS:
        return {}
    reasons = {
        column.name: OF_TEXT if column.kind == "category" else OF_INTEGERS
        for column in file.columns
        if column.name in names
        and column.mixed is None
        and (column.kind == "category" or (column.kind == "number" and is_name_of_identifier(column.name)))
    }
    return {name: reasons[name] for name in file.distinct(list(reasons))}


def is_name_of_identifier(name: str) -> bool:
    """Return whether the first or the last word of a name is a usual word for identifiers."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)
    return name.strip().lower() in _ROW_NUMBERS or any(word.lower() in _WORDS for word in words[:1] + words[-1:])
