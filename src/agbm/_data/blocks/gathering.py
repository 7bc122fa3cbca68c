"""The labels, weights and other vectors of all blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._base.types import AnyArray, Table
from ..rows import Given
from ..tables import column_names
from .block import VECTORS, Labels, n_rows_of
from .places import UNUSED
from .sources import LocalBlocks, OneTable, naming

NOTHING = Given(None, None)


@dataclass(frozen=True, eq=False)
class Gathered:
    """The labels, weights and other vectors of all rows."""

    n_rows: list[int]
    """Number of rows per block."""
    y: Any
    weight: Any
    head: Any
    """X of a block without its rows."""
    more_than_numbers: bool
    """Whether X has columns of other types than numbers."""
    offset: Any = None
    unit: Any = None

    @property
    def total(self) -> int:
        """Number of rows of all blocks."""
        return sum(self.n_rows)


def gather(blocks: LocalBlocks | OneTable, given: Given, name_of_y: str = "y") -> Gathered:
    """Gather everything but the features. The vectors of `given` are for all rows, or None if the blocks have them."""
    found = joined(blocks.noun, blocks.labels(), name_of_y, given)
    if found.total >= UNUSED:
        raise ValueError(f"X has {found.total} rows; at most {UNUSED - 1} are supported on one machine.")
    names = zip((name_of_y, *VECTORS[1:]), (found.y, found.weight, found.offset, found.unit), strict=True)
    for name, vector in names:
        if vector is not None and n_rows_of(vector) != found.total:
            raise ValueError(
                f"{name} has {n_rows_of(vector)} rows, the {blocks.noun}s of X have {found.total}; they must be the "
                "same number."
            )
    return found


def joined(noun: str, parts: Sequence[Labels], name_of_y: str, given: Given = NOTHING) -> Gathered:
    """The vectors of all blocks; those of `given` are for all rows, or None if the blocks have them."""
    full = [(i, part) for i, part in enumerate(parts) if part.n_rows > 0 or part.head.shape[1] > 0]
    if not any(part.n_rows for part in parts):
        raise ValueError(f"X has no rows in its {len(parts)} {noun}s; at least one row is needed.")
    first, known = full[0]
    for i, part in full[1:]:
        with naming(noun, i):
            check_columns(part.head, known.head, f"{noun} {first}")
    n_rows = [part.n_rows for part in parts]
    names, of_parts = (name_of_y, *VECTORS[1:]), zip(*(part.vectors for part in parts), strict=True)
    y, weight, offset, unit = (
        _joined(noun, name, of_all, n_rows) if of_given is None else of_given
        for name, of_given, of_all in zip(names, given[1:], of_parts, strict=True)
    )
    return Gathered(n_rows, y, weight, known.head, any(part.more_than_numbers for part in parts), offset, unit)


def check_columns(head: Any, known: Any, where: str) -> None:
    """Raise ValueError unless X has the columns of another table."""
    if head.shape[1] != known.shape[1]:
        raise ValueError(f"X has {head.shape[1]} columns, {where} has {known.shape[1]}; they must be the same.")
    names, known_names = _names(head), _names(known)
    if (names is None) != (known_names is None):
        raise ValueError(f"X has {'no ' if names is None else ''}column names, {where} has "
                         f"{'none' if known_names is None else 'some'}; they must be the same.")  # fmt: skip
    differing = [(i, a, b) for i, (a, b) in enumerate(zip(names or (), known_names or (), strict=True)) if a != b]
    if differing:
        i, name, known_name = differing[0]
        raise ValueError(
            f"column {i} of X is {name!r}, in {where} it is {known_name!r} ({len(differing)} columns differ); pass the "
            "same columns in the same order."
        )


def _names(head: Table) -> list[Any] | None:
    return column_names(head) if hasattr(head, "columns") else None


def _joined(noun: str, name: str, parts: Sequence[AnyArray | None], n_rows: Sequence[int]) -> AnyArray | None:
    """The concatenated vectors of all blocks, or None if no block has one."""
    present = [part for part, n in zip(parts, n_rows, strict=True) if part is not None and n > 0]
    if not present:
        return None
    # Matrices of objects have numbers, too; see exact.
    text = [part is not None and part.dtype.kind in "OUS" and part.ndim == 1 for part in parts]
    for i, (part, n) in enumerate(zip(parts, n_rows, strict=True)):
        with naming(noun, i):
            if n > 0 and part is None:
                raise ValueError(f"{name} is missing, but other {noun}s have it.")
            if n > 0 and part is not None and part.shape[1:] != present[0].shape[1:]:
                raise ValueError(f"{name} has shape {part.shape}; other {noun}s have {present[0].shape[1:]} per row.")
            if n > 0 and part is not None and text[i] != (present[0].dtype.kind in "OUS" and part.ndim == 1):
                raise ValueError(f"{name} has type {part.dtype}, other {noun}s have {present[0].dtype}.")
    return np.concatenate(present)
