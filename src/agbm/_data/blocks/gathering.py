"""The labels, weights and offsets of all blocks as vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._base.types import AnyArray, Table, Values
from ..tables import column_names
from .block import Labels, n_rows_of
from .places import UNUSED
from .sources import LocalBlocks, OneTable, naming


@dataclass(frozen=True, eq=False)
class Gathered:
    """The labels, weights and offsets of all rows."""

    n_rows: list[int]
    """Number of rows per block."""
    y: Any
    weight: Any
    head: Any
    """X of a block without its rows."""
    more_than_numbers: bool
    """Whether X has columns of other types than numbers."""
    offset: Any = None

    @property
    def total(self) -> int:
        """Number of rows of all blocks."""
        return sum(self.n_rows)


def gather(
    blocks: LocalBlocks | OneTable,
    y: Values | None,
    weight: Values | None,
    offset: Values | None = None,
    name_of_y: str = "y",
) -> Gathered:
    """Gather everything but the features. y, weight and offset are for all rows, or None if the blocks have them."""
    parts = blocks.labels()
    found = joined(blocks.noun, parts, name_of_y, (y, weight, offset))
    if found.total >= UNUSED:
        raise ValueError(f"X has {found.total} rows; at most {UNUSED - 1} are supported on one machine.")
    for name, given in ((name_of_y, found.y), ("sample_weight", found.weight), ("offset", found.offset)):
        if given is not None and n_rows_of(given) != found.total:
            raise ValueError(
                f"{name} has {n_rows_of(given)} rows, the {blocks.noun}s of X have {found.total}; they must be the "
                "same number."
            )
    return found


def joined(noun: str, parts: Sequence[Labels], name_of_y: str, given: tuple[Any, Any, Any] = (None,) * 3) -> Gathered:
    """The vectors of all blocks; `given` are y, weights and offsets of all rows, or None if the blocks have them."""
    full = [(i, part) for i, part in enumerate(parts) if part.n_rows > 0 or part.head.shape[1] > 0]
    if not any(part.n_rows for part in parts):
        raise ValueError(f"X has no rows in its {len(parts)} {noun}s; at least one row is needed.")
    first, known = full[0]
    for i, part in full[1:]:
        with naming(noun, i):
            check_columns(part.head, known.head, f"{noun} {first}")
    n_rows = [part.n_rows for part in parts]
    y, weight, offset = given
    y = _joined(noun, name_of_y, [part.y for part in parts], n_rows) if y is None else y
    if weight is None and any(part.weight is not None for part in parts):
        weight = _joined(noun, "sample_weight", [part.weight for part in parts], n_rows)
    if offset is None and any(part.offset is not None for part in parts):
        offset = _joined(noun, "offset", [part.offset for part in parts], n_rows)
    return Gathered(n_rows, y, weight, known.head, any(part.more_than_numbers for part in parts), offset)


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
