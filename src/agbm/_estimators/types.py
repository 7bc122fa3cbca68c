"""Types of what users pass to fit, beyond those of predict."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from .._base.types import SparseMatrix, Table, Values
from .._data.batches import Batches

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

FitTable: TypeAlias = "Table | Batches | Dataset"
"""X as users pass it to fit: a table, or rows that do not fit into memory."""

Targets: TypeAlias = "Values | SparseMatrix"
"""y as users pass it to a classifier: classes, or a matrix of labels, which may be sparse."""
