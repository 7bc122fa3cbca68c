"""Where blocks of rows come from on one machine: functions that give batches, and datasets of pyarrow."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .blocks import Block, Labels, LocalBlocks

# Values of a dataset that are read at a time: whole rows, 64 MB or one row.
BLOCK_VALUES = 8_000_000


class Batches:
    """Rows that do not fit into memory, for the X of fit: batch after batch, read anew for every pass over them.

    A fit reads all batches two or three times and holds one of them at a time. What stays in memory is two bytes a
    value and some vectors; the model is that of a fit on all rows at once, bit for bit. See docs/larger-than-memory.md.

    Parameters
    ----------
    source : function or pyarrow.dataset.Dataset
        A function without arguments that gives a new iterator of batches whenever it is called, always with the same
        rows. A batch is a table X (pandas, polars, arrow, array, sparse), or a tuple (X, y) or (X, y, sample_weight);
        without y in the batches fit needs one for all rows. Of a dataset, y and sample_weight of fit may be the names
        of columns, and the features are all others.
    bins : {"memory", "mmap"}, default="memory"
        Where the two bytes a value are: in memory, or in files that are mapped into it, which the system may write to
        the disk and read again.
    folder : str or path, default=None
        Of these files; None for the system's folder for temporary files. They have no names, and are gone with the
        process.

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
                f"source={source!r} must be a function that gives a new iterator of batches whenever it is called, or "
                "a pyarrow.dataset.Dataset."
            )
        if bins not in ("memory", "mmap"):
            raise ValueError(f"bins={bins!r} must be 'memory' or 'mmap'.")
        if folder is not None and bins != "mmap":
            raise ValueError(f"folder={folder!r} is for bins='mmap', got bins={bins!r}; leave it out.")
        if folder is not None and not Path(folder).is_dir():
            raise FileNotFoundError(f"folder={str(folder)!r}: there is no such folder; make it, or use another one.")
        self.source = source
        self.bins = bins
        self.folder = folder

    def __repr__(self) -> str:
        return f"Batches({self.source!r}, bins={self.bins!r}, folder={self.folder!r})"

    @property
    def folder_of_bins(self) -> str:
        """Empty where bins are in memory."""
        return "" if self.bins == "memory" else str(self.folder or tempfile.gettempdir())


def blocks_of(X: Any, y: Any, sample_weight: Any) -> tuple[LocalBlocks, Any, Any] | None:
    """The blocks of X, with y and sample_weight of all rows where blocks do not have them; None for a table."""
    if hasattr(X, "__next__"):
        raise TypeError(
            f"X={X!r} can be read only once, and fit reads its rows several times; give agbm.Batches(make), where "
            "make() returns a new iterator whenever it is called."
        )
    batches = Batches(X) if _is_dataset(X) else X
    if not isinstance(batches, Batches):
        return None
    if _is_dataset(batches.source):
        return _of_dataset(batches, y, sample_weight)
    for name, given in (("y", y), ("sample_weight", sample_weight)):
        if isinstance(given, str):
            raise TypeError(
                f"{name}={given!r}: the name of a column is for datasets; give {name} for all rows, or None where the "
                "batches have it."
            )
    return LocalBlocks(lambda: _read_batches(batches.source), None, batches.folder_of_bins), y, sample_weight


def _is_dataset(X: Any) -> bool:
    """Without an import: who has a dataset has imported its module."""
    module = sys.modules.get("pyarrow.dataset")
    return module is not None and isinstance(X, module.Dataset)


def _read_batches(make: Callable[[], Iterable[Any]]) -> Iterator[Block]:
    for i, batch in enumerate(make()):
        if isinstance(batch, tuple) and not 1 <= len(batch) <= 3:
            raise ValueError(
                f"block {i}: a batch must be X, (X, y) or (X, y, sample_weight), got a tuple of {len(batch)}."
            )
        yield Block(*batch) if isinstance(batch, tuple) else Block(batch)


def _of_dataset(batches: Batches, y: Any, sample_weight: Any) -> tuple[LocalBlocks, Any, Any]:
    """Blocks of as many rows each. Labels and weights that are columns are read alone before all others."""
    dataset, all_names = batches.source, list(batches.source.schema.names)
    for name, given in (("y", y), ("sample_weight", sample_weight)):
        if isinstance(given, str) and given not in all_names:
            raise ValueError(f"{name}={given!r}: the dataset has no such column; its columns are {all_names}.")
    if y is None:
        raise ValueError(f"y=None: give the name of the column with the labels, of {all_names}, or labels of all rows.")
    named = {
        "y": y if isinstance(y, str) else None,
        "weight": sample_weight if isinstance(sample_weight, str) else None,
    }
    features = [name for name in all_names if name not in named.values()]
    if not features:
        raise ValueError(f"X: the dataset has no columns but {all_names}; it needs some for features.")
    rows_a_block = max(1, BLOCK_VALUES // len(all_names))

    def read() -> Iterator[Block]:
        for table in tables_of(dataset, features, rows_a_block):
            yield Block(table)

    def read_labels() -> Iterator[Labels]:
        head = dataset.schema.empty_table().select(features)
        columns = sorted({name for name in named.values() if name is not None})
        if not columns:  # a table without columns knows no number of rows
            n_rows = dataset.count_rows()
            yield from (Labels(min(rows_a_block, n_rows - i), None, None, head) for i in range(0, n_rows, rows_a_block))
            return
        for table in tables_of(dataset, columns, rows_a_block):
            vectors = [None if name is None else _vector(table[name]) for name in named.values()]
            yield Labels(table.num_rows, vectors[0], vectors[1], head)

    given = [None if isinstance(vector, str) else vector for vector in (y, sample_weight)]
    return LocalBlocks(read, read_labels, batches.folder_of_bins), *given


def tables_of(dataset: Any, columns: list[str], n_rows: int) -> Iterator[Any]:
    """The rows of a dataset in tables of so many rows, however its files are cut."""
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
    """The rows of a dataset in its own cuts, up to so many at a time.

    A dataset that is asked for all its batches reads far ahead, which takes memory. So one row group after the other is
    asked for, but where a filter hides rows of them.
    """
    try:
        fragments = list(dataset.get_fragments())
    except ValueError:  # it has a filter
        yield from dataset.to_batches(columns=columns, batch_size=n_rows)
        return
    for fragment in fragments:
        parts = fragment.split_by_row_group() if hasattr(fragment, "split_by_row_group") else [fragment]
        for part in parts:
            yield from part.to_batches(schema=dataset.schema, columns=columns, batch_size=n_rows)


def _vector(column: Any) -> NDArray[Any]:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return np.asarray(column.to_numpy())
