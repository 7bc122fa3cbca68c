"""What a model was trained with, in model files: the version of the library, and digests of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._data.digest import RowDigest, Shape
from .container import ModelFileError, Stored, entry_of, whole

ENTRY = "origin"
LARGEST = 1 << 48


def described(version: str, data: RowDigest) -> dict[str, Any]:
    """The entry of the description of a model."""
    return {"version": version, **data.shape._asdict()}


def to_arrays(data: RowDigest) -> dict[str, NDArray[Any]]:
    """The sections with the sums of blocks and columns."""
    return {"origin.blocks": data.blocks, "origin.columns": data.columns}


def restored(stored: Stored) -> tuple[str, RowDigest] | None:
    """The version and the digest of rows in a file, whose sizes are checked; None in files without them."""
    if ENTRY not in stored.description:
        return None
    entry = stored.entry(ENTRY, dict)
    shape = Shape(*(whole(entry, name, int(name == "n_given"), LARGEST) for name in Shape._fields))
    digest = RowDigest(shape, stored.array("origin.blocks", np.uint64), stored.array("origin.columns", np.uint64))
    if len(digest.blocks) != shape.n_blocks or len(digest.columns) != shape.n_columns:
        raise ModelFileError("sizes: the sections 'origin.…' do not match the numbers of rows and columns")
    return entry_of(entry, "version", str), digest
