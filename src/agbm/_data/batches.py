"""Sources of blocks of rows on one machine: functions that return batches, and pyarrow datasets."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .._base.types import AnyArray, Table
from .blocks import VECTORS, Block, Labels, LocalBlocks
from .derivation import has_more_than_numbers
from .rows import Given

# How many values of a dataset are read at a time: whole rows of about 64 MB in total, at least one row.
BLOCK_VALUES = 8_000_000


class Batches:
    """Rows that do not fit into memory, for the X of fit: batches that are read again in every pass.

    A fit makes two or three passes over the batches and keeps one batch in memory at a time, plus two bytes per value
    and some vectors. The model is the same, bit for bit, as that of a fit on all rows at once. See
    docs/guides/larger-data.md.

    Parameters
    ----------
    source : callable or pyarrow.dataset.Dataset
        A function without arguments that returns a new iterator of batches in every call, always with the same rows. A
        batch is a table X (pandas, polars, arrow, array, sparse), or a tuple (X, y), (X, y, sample_weight) or
        (X, y, sample_weight, offset), in which sample_weight may be None. If the batches do not contain y, pass the
        labels of all rows to fit. For a dataset, y, sample_weight and offset of fit may be names of columns; all other
        columns are features.
    bins : {"memory", "mmap"}, default="memory"
        Where the bins, two bytes per value, are stored: in memory, or in memory-mapped files that the operating system
        may write to disk and read again.
    folder : str or path, default=None
        The folder of these files; None: the system's folder for temporary files. The files have no names, and
        disappear with the process.

    Examples
    --------
    >>> import numpy as np
    >>> from agbm import AGBMRegressor, Batches
    >>> def read():
    ...     for seed in range(10):
    ...         X = np.random.default_rng(seed).random((100, 3))
    ...         yield X, X[:, 0] + X[:, 1]
    >>> model = AGBMRegressor(max_iter=10).fit(Batches(read))
    """

    def __init__(self, source: Any, *, bins: str = "memory", folder: Any = None) -> None:
        if not callable(source) and not _is_dataset(source):
            raise TypeError(
                f"source={source!r} must be a function that returns a new iterator of batches in every call, or a "
                "pyarrow.dataset.Dataset."
            )
        if bins not in ("memory", "mmap"):
            raise ValueError(f"bins={bins!r} must be 'memory' or 'mmap'.")
        if folder is not None and bins != "mmap":
            raise ValueError(f"folder={folder!r} needs bins='mmap'; got bins={bins!r}.")
        if folder is not None and not Path(folder).is_dir():
            raise FileNotFoundError(f"folder={str(folder)!r}: there is no such folder; create it, or use another one.")
        self.source = source
        self.bins = bins
        self.folder = folder

    def __repr__(self) -> str:
        return f"Batches({self.source!r}, bins={self.bins!r}, folder={self.folder!r})"

    @property
    def folder_of_bins(self) -> str:
        """The folder of the files of bins; empty if bins are in memory."""
        return "" if self.bins == "memory" else str(self.folder or tempfile.gettempdir())


def blocks_of(given: Given) -> tuple[LocalBlocks, Given] | None:
    """The blocks of X, and the vectors of all rows unless the blocks contain them; None for a table."""
    X = given.X
    if isinstance(X, Iterator):
        raise TypeError(
            f"X={X!r} can be read only once, but fit reads its rows several times; pass agbm.Batches(make), where "
            "make() returns a new iterator in every call."
        )
    batches = Batches(X) if _is_dataset(X) else X
    if not isinstance(batches, Batches):
        return None
    if _is_dataset(batches.source):
        return _of_dataset(batches, given)
    for name, vector in zip(VECTORS, given[1:], strict=True):
        if isinstance(vector, str):
            raise TypeError(
                f"{name}={vector!r}: names of columns work with datasets only; pass {name} of all rows, or None if the "
                "batches contain it."
            )
    return LocalBlocks(lambda: _read_batches(batches.source), None, batches.folder_of_bins), given._replace(X=None)


def _is_dataset(X: Table) -> bool:
    """Whether X is a pyarrow dataset. No import is needed: if there is a dataset, its module has been imported."""
    module = sys.modules.get("pyarrow.dataset")
    return module is not None and isinstance(X, module.Dataset)


def _read_batches(make: Callable[[], Iterable[Any]]) -> Iterator[Block]:
    for i, batch in enumerate(make()):
        if isinstance(batch, tuple) and not 1 <= len(batch) <= 4:
            raise ValueError(
                f"block {i}: a batch must be X, (X, y), (X, y, sample_weight) or (X, y, sample_weight, offset); got a "
                f"tuple of length {len(batch)}."
            )
        yield Block(*batch) if isinstance(batch, tuple) else Block(batch)


def _of_dataset(batches: Batches, given: Given) -> tuple[LocalBlocks, Given]:
    """Blocks with equal numbers of rows. Vectors that are columns are read first, without the features.

    The column of groups or times is a feature as well, as in data frames.
    """
    dataset, all_names = batches.source, list(batches.source.schema.names)
    for name, vector in zip(VECTORS, given[1:], strict=True):
        if isinstance(vector, str) and vector not in all_names:
            raise ValueError(f"{name}={vector!r}: the dataset has no such column; its columns are {all_names}.")
    if given.y is None:
        raise ValueError(f"y=None: pass the name of the column with the labels, of {all_names}, or labels of all rows.")
    named = [vector if isinstance(vector, str) else None for vector in given[1:]]
    features = [name for name in all_names if name not in named[:-1]]
    if not features:
        raise ValueError(f"X: the dataset has no columns besides {all_names}; at least one feature is needed.")
    block_rows = max(1, BLOCK_VALUES // len(all_names))

    def read() -> Iterator[Block]:
        for table in tables_of(dataset, features, block_rows):
            yield Block(table)

    def read_labels() -> Iterator[Labels]:
        head = dataset.schema.empty_table().select(features)
        more = has_more_than_numbers(head)
        columns = sorted({name for name in named if name is not None})
        if not columns:  # a table without columns has no rows
            n_rows = dataset.count_rows()
            yield from (
                Labels(min(block_rows, n_rows - i), None, None, head, more) for i in range(0, n_rows, block_rows)
            )
            return
        for table in tables_of(dataset, columns, block_rows):
            y, weight, offset, unit = (None if name is None else _vector(table[name]) for name in named)
            yield Labels(table.num_rows, y, weight, head, more, offset, unit)

    of_all = Given(None, *(None if isinstance(vector, str) else vector for vector in given[1:]))
    return LocalBlocks(read, read_labels, batches.folder_of_bins), of_all


def tables_of(dataset: object, columns: list[str], n_rows: int) -> Iterator[Any]:
    """The rows of a dataset as tables of n_rows rows each, however they are split into files."""
    import pyarrow as pa

    waiting: list[Any] = []
    n_waiting = 0
    for batch in _record_batches(dataset, columns, n_rows):
        waiting.append(batch)
        n_waiting += batch.num_rows
        while n_waiting >= n_rows:
            table = pa.Table.from_batches(waiting)
            yield table.slice(0, n_rows)
            waiting = table.slice(n_rows).to_batches()
            n_waiting -= n_rows
            del table
    if n_waiting > 0:
        yield pa.Table.from_batches(waiting)


def _record_batches(dataset: Any, columns: list[str], n_rows: int) -> Iterator[Any]:
    """The rows of a dataset as it is split into files and row groups, at most n_rows at a time.

    Row groups are read one by one, because Dataset.to_batches reads far ahead and takes a lot of memory. It is used
    only if the dataset has a filter.
    """
    try:
        fragments = list(dataset.get_fragments())
    except ValueError:  # the dataset has a filter
        yield from dataset.to_batches(columns=columns, batch_size=n_rows)
        return
    for fragment in fragments:
        parts = fragment.split_by_row_group() if hasattr(fragment, "split_by_row_group") else [fragment]
        for part in parts:
            yield from part.to_batches(schema=dataset.schema, columns=columns, batch_size=n_rows)


def _vector(column: Any) -> AnyArray:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return np.asarray(column.to_numpy())
