"""Types of what users pass, before it is checked. One name for one thing: X, labels, values per row, arrays."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

from numpy.typing import ArrayLike, NDArray

AnyArray: TypeAlias = NDArray[Any]
"""An array whose kind of elements is not known, or does not matter."""


class SparseMatrix(Protocol):
    """A sparse matrix or array of SciPy."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def tocsr(self) -> Any:
        """The same matrix in compressed sparse row format."""


class ArrowTable(Protocol):
    """A table, dataset or column that hands over its memory in Arrow's format."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class DeviceArray(Protocol):
    """An array of another library, in the memory of a processor or of a GPU."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __dlpack__(self) -> object: ...


class Matrix(Protocol):
    """A checked matrix of numbers whose rows can be taken: an array, a sparse matrix, or one on a GPU."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, rows: Any, /) -> Any: ...


Table: TypeAlias = "ArrayLike | SparseMatrix | ArrowTable | DeviceArray"
"""X as users pass it: rows of numbers, a table of pandas, polars or Arrow, a sparse matrix, an array on a GPU."""

Values: TypeAlias = "ArrayLike | ArrowTable | DeviceArray"
"""One value per row, or one per row and output, as users pass them: y, sample_weight, offset, qid."""
