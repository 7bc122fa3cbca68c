"""Matrices of numbers on a device, as fit and predict read them, in any memory order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..._data.rows import Given, RemoteMatrix
from ..._data.tables import is_on_gpu
from .device import Device, DeviceArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

BYTES_AT_ONCE = 2**26
"""Bytes of a matrix that are copied to the device, or on it, at a time."""

Matrix: TypeAlias = "NDArray[Any] | csr_matrix | DeviceMatrix"
"""A checked matrix of numbers."""


class DeviceMatrix(RemoteMatrix):
    """Rows of float32 or float64 tables on a device; see RemoteMatrix. Choosing rows copies no numbers."""

    def __init__(
        self, device: Device, tables: Sequence[DeviceArray], rows: NDArray[np.integer[Any]] | None = None
    ) -> None:
        """`rows` are indices of rows of the tables, one table after the other; None for all rows."""
        self._device, self._tables, self._rows = device, list(tables), rows

    @property
    def shape(self) -> tuple[int, int]:
        n_rows = self._n_in_tables if self._rows is None else len(self._rows)
        return n_rows, int(self._tables[0].shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type that has all numbers of the tables."""
        return np.result_type(*(table.dtype for table in self._tables))

    @property
    def _n_in_tables(self) -> int:
        return sum(int(table.shape[0]) for table in self._tables)

    def __getitem__(self, rows: slice | NDArray[np.integer[Any]]) -> DeviceMatrix:
        if self._rows is not None:
            return DeviceMatrix(self._device, self._tables, self._rows[rows])
        if not isinstance(rows, slice):
            return DeviceMatrix(self._device, self._tables, rows)
        begin, end, step = rows.indices(self._n_in_tables)
        assert step == 1
        first = np.cumsum([0, *(table.shape[0] for table in self._tables)]).tolist()
        pieces = zip(self._tables, first, strict=False)
        return DeviceMatrix(self._device, [of[max(begin - at, 0) : max(end - at, 0)] for of, at in pieces])

    def followed_by(self, X: Any) -> DeviceMatrix:
        following = X if isinstance(X, DeviceMatrix) else DeviceMatrix(self._device, [table_to_device(self._device, X)])
        tables = [*self._tables, *following._tables]
        if self._rows is None and following._rows is None:
            return DeviceMatrix(self._device, tables)
        every = [np.arange(part._n_in_tables) if part._rows is None else part._rows for part in (self, following)]
        return DeviceMatrix(self._device, tables, np.concatenate([every[0], self._n_in_tables + every[1]]))

    def blocks(self) -> Iterator[DeviceArray]:
        """The rows in order, as tables. Rows that were chosen are copied, some at a time."""
        if self._rows is None:
            yield from self._tables
            return
        first = np.cumsum([0, *(table.shape[0] for table in self._tables)])
        step = _rows_at_once(self)
        for at in range(0, len(self._rows), step):
            rows = self._rows[at : at + step]
            table_of_row = np.searchsorted(first, rows, side="right") - 1
            ends = np.flatnonzero(np.append(table_of_row[1:] != table_of_row[:-1], True)) + 1
            for start, end in zip([0, *ends[:-1]], ends, strict=True):
                number = table_of_row[start]
                yield self._tables[number][self._device.to_device(rows[start:end] - first[number])]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        parts = [self._device.to_host(block) for block in self.blocks()]
        return np.concatenate([np.zeros((0, self.shape[1]), self.dtype), *parts]).astype(dtype or self.dtype)


def blocks_on(
    device: Device, X: NDArray[Any] | DeviceMatrix, order: NDArray[np.intp] | None = None
) -> Iterator[DeviceArray]:
    """The rows of a matrix as tables on a device, as they are or in another order."""
    if isinstance(X, DeviceMatrix):
        yield from (X if order is None else X[order]).blocks()
        return
    step = _rows_at_once(X)
    for first in range(0, len(X), step):
        rows = slice(first, first + step)
        yield table_to_device(device, np.asarray(X[rows if order is None else order[rows]]))  # computes crosses


def _rows_at_once(X: NDArray[Any] | DeviceMatrix) -> int:
    return max(1, BYTES_AT_ONCE // max(1, int(X.shape[1]) * int(X.dtype.itemsize)))


def received(device: Device, given: Given) -> Given:
    """The given rows, with X as a matrix of the device if it is on a GPU, and everything else on the host."""
    X = matrix_of(device, given.X) if is_on_gpu(given.X) else given.X
    return Given(X, *(device.to_host(device.adopted(part)) if is_on_gpu(part) else part for part in given[1:]))


def matrix_of(device: Device, X: object) -> DeviceMatrix:
    """An array on a GPU as a matrix; raises the errors that scikit-learn's checks raise for NumPy arrays."""
    table = device.adopted(X)
    if table.ndim != 2:
        raise ValueError(f"X must have rows and columns; got an array of shape {tuple(table.shape)}.")
    n_rows, n_columns = table.shape
    if n_rows == 0 or n_columns == 0:
        raise ValueError(f"X has {n_rows} rows and {n_columns} columns; at least one of each is needed.")
    if table.dtype.kind not in "fiub":
        raise ValueError(f"X must contain real numbers; got {table.dtype}.")
    return DeviceMatrix(device, [table if table.dtype in (np.float32, np.float64) else table.astype(np.float64)])


def check_table(X: DeviceArray, n_columns: int) -> None:
    """Raise ValueError unless X is a float32 or float64 table with the given number of columns."""
    if X.ndim != 2 or X.shape[1] != n_columns or X.dtype not in (np.float32, np.float64):
        raise ValueError(
            f"X must have {n_columns} columns of float32 or float64 on the device; got {X.dtype} of shape {X.shape}."
        )


def table_arguments(X: DeviceArray) -> tuple[DeviceArray, int, int]:
    """A table as arguments of kernels: its numbers and its strides in numbers."""
    return X, int(X.strides[0]) // int(X.itemsize), int(X.strides[1]) // int(X.itemsize)


def table_to_device(device: Device, X: NDArray[Any]) -> DeviceArray:
    """A copy of a table on the device, in about the same memory order, since transposing takes longer than copying."""
    by_columns = abs(X.strides[0]) < abs(X.strides[1])
    return device.to_device(X.T).T if by_columns else device.to_device(X)


def rounded_down(thresholds: NDArray[np.float64], dtype: DTypeLike) -> NDArray[Any]:
    """The largest numbers of a type that are not above the thresholds: its numbers are above both or above neither."""
    with np.errstate(over="ignore", under="ignore"):
        nearest = thresholds.astype(dtype)
        below = np.nextafter(nearest, np.array(-np.inf, dtype=dtype))
    return np.where(nearest > thresholds, below, nearest)
