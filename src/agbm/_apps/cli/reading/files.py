"""Reading and writing tables, whole or in batches: csv, parquet and arrow with pyarrow, svmlight with scikit-learn.

Columns are numbers, categories or dates. Booleans are read as 0 and 1. CSV files have no types, so
the whole file is scanned first: the type of a column must fit all of its values. Text columns can be read as numbers on
request; values that are not numbers then become missing.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...._base.atomic_file import is_special, replacing
from ...._base.weights import refuse_dates
from ...._data.batches import BLOCK_VALUES, tables_of
from ..shared_options import EXTENSIONS, USUAL, Form
from .csv import check_names, check_same_columns, open_csv
from .sources import Source, find_source
from .text_numbers import ArrowColumn, Details, Mixed, Tally, tally, to_numbers

if TYPE_CHECKING:
    from pyarrow import DataType
    from pyarrow import Table as ArrowTable
    from pyarrow.dataset import Dataset
    from scipy.sparse import csr_matrix

Piece: TypeAlias = "ArrowTable | csr_matrix"
"""Rows of a file."""

# Most columns repeat a value in their first rows; the others are read to their end to see whether all values differ.
FIRST_ROWS = 1_000

# Memory of a fit per value: the table, the selected rows, their numeric matrix, the part of it that is not held out for
# early stopping, and the bins. The measured peak of `agbm train` on 3 million rows and 40 columns was 37.
BYTES_OF_A_VALUE = 8 + 8 + 8 + 8 + 2


@dataclass(frozen=True)
class Column:
    """A column and how it is used."""

    name: str
    kind: str
    """One of "number", "truth", "time", "category", or "other" for types that cannot be used."""
    mixed: Mixed | None = None
    """Statistics of values that are not numbers, for text columns that are read as numbers or look numeric."""
    decimal_commas: bool = False
    """Whether the column is text that is read as numbers with decimal commas."""


class DataFile(ABC):
    """A table in a file or in a folder of files."""

    name: str
    format: str
    form: Form
    """How a csv file is stored; `USUAL` for other formats."""
    n_rows: int
    columns: Sequence[Column]
    first_index: int | None = None
    """Index of the first column of an svmlight file: 0 or 1."""

    @abstractmethod
    def vector(self, name: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return a column and a mask of its missing values."""

    @abstractmethod
    def table(self, names: Sequence[str]) -> Any:
        """Return the given columns in a form that `fit` accepts."""

    def pieces(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield the given columns in batches of rows."""
        return (piece for piece, _ in self.pieces_beside(names, ()))

    @abstractmethod
    def pieces_beside(self, names: Sequence[str], others: Sequence[str]) -> Iterator[tuple[Any, Mapping[str, Any]]]:
        """Yield the given columns in batches, each with the unconverted values of other columns for the same rows."""

    @abstractmethod
    def bytes_in_memory(self, n_columns: int) -> int:
        """Estimate the memory of a fit with the whole table in memory."""

    def distinct(self, names: Sequence[str]) -> list[str]:
        """Return those of the given columns that are text or integers, all present and all different."""
        return []


def open_table(
    path: str | os.PathLike[str],
    form: Form | None = None,
    *,
    text: Collection[str] = (),
    numeric: Collection[str] = (),
    decimal_commas: Collection[str] = (),
    n_features: int | None = None,
    first_index: int | None = None,
) -> DataFile:
    """Open a file, a folder of files, or standard input.

    Parameters
    ----------
    path : str or path-like
        The file or folder; "-" is standard input.
    form : Form, default=None
        How the table is stored.
    text : collection of str
        Columns of a CSV file that are text, whatever their values look like.
    numeric : collection of str
        Text columns that are read as numbers.
    decimal_commas : collection of str
        Columns of `numeric` whose commas are decimal commas, even if all of them could be thousands separators.
    n_features : int, default=None
        Number of features of a model. An svmlight file with fewer columns is padded with columns of zeros.
    first_index : int, default=None
        Index of the first column of an svmlight file, 0 or 1. By default it is 1 if the index 0 does not occur.
    """
    form = (form or USUAL).completed(USUAL)
    source = find_source(path, form)
    if source.format == "svmlight":
        return _SparseFile(source, n_features, first_index)
    return _ArrowFile(source, form, text, set(numeric), decimal_commas)


def pyarrow() -> Any:
    """Import and return pyarrow with the submodules used here."""
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.dataset
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(f"csv, parquet and arrow files need pyarrow ({error}): pip install 'agbm[cli]'") from error
    return pyarrow


class _ArrowFile(DataFile):
    """Csv, parquet or arrow files, read with pyarrow."""

    def __init__(
        self,
        source: Source,
        form: Form,
        text: Collection[str],
        numeric: Collection[str],
        decimal_commas: Collection[str],
    ) -> None:
        pyarrow()  # raises an error that says how to install it
        self.name, self.format, self._source = source.name, source.format, source
        self.form = form if source.format == "csv" else USUAL
        with source.named_in_errors():
            if source.format == "csv":
                self._dataset, (self.n_rows, tallies) = open_csv(source, form, text, partial(_scan_csv, text, numeric))
            else:
                self._dataset, self.n_rows, tallies = _open_typed(source, numeric)
            self._decimal_commas = {
                name: found.commas > 0 or name in decimal_commas or self.form.decimal == ","
                for name, found in tallies.items()
                if name in numeric
            }
            """Maps each text column that is read as numbers to whether it has decimal commas."""
            suspects = [name for name, found in tallies.items() if name not in numeric and found.looks_like_numbers]
            mixed = _details(self._dataset, self._decimal_commas, suspects, self.form.decimal or ".")
        self.columns = [
            Column(field.name, "number", mixed.get(field.name), self._decimal_commas[field.name])
            if field.name in self._decimal_commas
            else Column(field.name, _kind_of(field.type), mixed.get(field.name))
            for field in self._dataset.schema
        ]

    def vector(self, name: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        with self._source.named_in_errors():
            column = _plain(self._with_numbers(self._dataset.to_table(columns=[name])), {})[name].combine_chunks()
        absent = np.asarray(column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False))
        if pyarrow().types.is_dictionary(column.type):
            column = column.dictionary_decode()
        return np.asarray(column.to_numpy(zero_copy_only=False)), absent

    def table(self, names: Sequence[str]) -> Any:
        with self._source.named_in_errors():
            return _plain(self._with_numbers(self._dataset.to_table(columns=list(names))), self._kinds())

    def pieces_beside(self, names: Sequence[str], others: Sequence[str]) -> Iterator[tuple[Any, Mapping[str, Any]]]:
        wanted = list(dict.fromkeys([*names, *others]))
        rows = max(1, BLOCK_VALUES // max(1, len(wanted)))
        with self._source.named_in_errors():
            for table in tables_of(self._dataset, wanted, rows):
                features = self._with_numbers(table.select(list(names)))
                yield _plain(features, self._kinds()), {name: table[name] for name in others}

    def bytes_in_memory(self, n_columns: int) -> int:
        return self.n_rows * n_columns * BYTES_OF_A_VALUE

    def distinct(self, names: Sequence[str]) -> list[str]:
        names = _distinct(self._dataset.head(FIRST_ROWS, columns=list(names))) if names else []
        return _distinct(self._dataset.to_table(columns=names)) if names else []

    def _with_numbers(self, table: ArrowTable) -> Any:
        """Convert the text columns of a table that are to be read as numbers."""
        for i, name in enumerate(table.column_names):
            if name in self._decimal_commas:
                numbers = to_numbers(_as_text(table.column(i)), self._decimal_commas[name])
                table = table.set_column(i, name, numbers)
        return table

    def _kinds(self) -> dict[str, str]:
        return {column.name: column.kind for column in self.columns}


def _open_typed(source: Source, numeric: Collection[str]) -> tuple[Any, int, dict[str, Tally]]:
    """Open parquet or arrow files; return the dataset, the number of rows and tallies of text columns in `numeric`."""
    dataset = pyarrow().dataset.dataset(
        [str(part.path) for part in source.parts],
        format={"parquet": "parquet", "arrow": "ipc"}[source.format],
        partitioning=None if source.folder is None else "hive",
        partition_base_dir=None if source.folder is None else str(source.folder),
    )
    if not dataset.schema.names:
        raise ValueError(f"found no {source.format} file with columns.")
    n_rows = dataset.count_rows()
    check_names(dataset.schema.names)
    names = [fragment.physical_schema.names for fragment in dataset.get_fragments()]
    for part, others in zip(source.parts[1:], names[1:], strict=True):  # Arrow would ignore or fill columns silently
        check_same_columns(source.parts[0].name, names[0], part.name, others)
    texts = [field.name for field in dataset.schema if _is_text(field.type) and field.name in numeric]
    return dataset, n_rows, _scan(dataset.to_batches(columns=texts), texts, numeric)[1] if texts else {}


def _scan_csv(
    text: Collection[str], numeric: Collection[str], dataset: Dataset, batches: Iterable[Any]
) -> tuple[int, dict[str, Tally]]:
    """Scan the text columns of a csv file, except for those that are certain to be text."""
    texts = [field.name for field in dataset.schema if _is_text(field.type) and field.name not in text]
    return _scan(batches, texts, numeric)


def _scan(batches: Iterable[Any], texts: Sequence[str], numeric: Collection[str]) -> tuple[int, dict[str, Tally]]:
    """Return the number of rows, and tallies of text columns that are read as numbers or may be numeric."""
    n_rows, tallies = 0, dict.fromkeys(texts, Tally())
    for batch in batches:
        n_rows += batch.num_rows
        for name in list(tallies):
            tallies[name] += tally(_as_text(batch.column(name)))
            if tallies[name].is_surely_text and name not in numeric:
                del tallies[name]
    return n_rows, tallies


def _details(dataset: Dataset, numeric: Mapping[str, bool], suspects: Sequence[str], decimal: str) -> dict[str, Mixed]:
    """Return statistics of the values that are not numbers, for the given columns that have such values."""
    details = {name: Details("both" if commas else ".", True) for name, commas in numeric.items()}
    details |= {name: Details(decimal, False) for name in suspects}
    for batch in dataset.to_batches(columns=list(details)) if details else ():
        for name, found in details.items():
            found.add(_as_text(batch.column(name)))
    mixed = {name: found.result() for name, found in details.items()}
    for name in numeric:
        if mixed[name].not_numbers == mixed[name].values > 0:
            examples = ", ".join(map(repr, mixed[name].examples))
            raise ValueError(f"column {name!r} must be numeric, but contains no numbers; its values are {examples}.")
    return {name: found for name, found in mixed.items() if found.not_numbers}


def _distinct(table: ArrowTable) -> list[str]:
    import pyarrow.compute as pc

    def is_distinct(column: ArrowColumn) -> bool:
        values = _as_text(column) if _is_text(column.type) else column
        holds = _is_text(values.type) or pyarrow().types.is_integer(values.type)
        return bool(holds and not values.null_count and pc.count_distinct(values).as_py() == len(values))

    return [name for name in table.column_names if is_distinct(table[name])]


def _is_text(type: DataType) -> bool:
    types = pyarrow().types
    values = type.value_type if types.is_dictionary(type) else type
    return bool(types.is_string(values) or types.is_large_string(values) or types.is_string_view(values))


def _as_text(column: ArrowColumn) -> Any:
    """Convert a text column to a type that all Arrow functions support."""
    pa = pyarrow()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.large_string()) if pa.types.is_string_view(column.type) else column


def _kind_of(type: DataType) -> str:
    types = pyarrow().types
    if types.is_dictionary(type):  # a model file can only store categories of these types
        values = type.value_type
        holds = _is_text(values) or types.is_integer(values) or types.is_floating(values) or types.is_boolean(values)
        return "category" if holds else "other"
    if types.is_integer(type) or types.is_floating(type) or types.is_decimal(type) or types.is_null(type):
        return "number"
    if types.is_boolean(type):
        return "truth"
    if _is_text(type):
        return "category"
    if types.is_temporal(type):
        return "time"
    if types.is_list(type) or types.is_large_list(type) or types.is_fixed_size_list(type):
        return "list" if _kind_of(type.value_type) == "number" else "other"
    return "other"


def _plain(table: ArrowTable, kinds: dict[str, str]) -> Any:
    """Convert numeric columns and booleans to floats; other columns keep their values."""
    pa = pyarrow()
    for i, field in enumerate(table.schema):
        kind = kinds.get(field.name, "")
        column = table.column(i)
        if pa.types.is_string_view(field.type):  # `take` does not support string views
            column = column.cast(pa.large_string())
        if kind in ("number", "truth") and field.type != pa.float32():
            column = column.cast(pa.float64(), safe=False)
        table = table.set_column(i, field.name, column)
    return table


def as_numbers(values: NDArray[Any], option: str, name: str) -> NDArray[np.float64]:
    """Return a column as floats; raises ValueError if it is not numeric."""
    refuse_dates(values, f"{option} {name}: the column")
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{option} {name}: the column must be numeric: {error}.") from error


class _SparseFile(DataFile):
    """An svmlight file: labels and a sparse matrix. It is always read into memory as a whole."""

    def __init__(self, source: Source, n_features: int | None, first_index: int | None) -> None:
        from sklearn.datasets import load_svmlight_file

        self.name, self.format, self.form = source.name, "svmlight", USUAL
        try:
            X, self._y = load_svmlight_file(str(source.parts[0].path), zero_based=True)
            self.first_index = int(X.indices.min(initial=1) > 0) if first_index is None else first_index
            self._X = _with_columns(X[:, self.first_index :], n_features)
        except ValueError as error:
            raise ValueError(f"{self.name!r} cannot be read as svmlight: {error}") from error
        self.n_rows = self._X.shape[0]
        self.columns = [Column(f"x{i}", "number") for i in range(self._X.shape[1])]

    def vector(self, name: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        return self._y, np.isnan(self._y)

    def table(self, names: Sequence[str]) -> Any:
        return self._X

    def pieces_beside(self, names: Sequence[str], others: Sequence[str]) -> Iterator[tuple[Any, Mapping[str, Any]]]:
        yield self._X, {}

    def bytes_in_memory(self, n_columns: int) -> int:
        return 0


def _with_columns(X: Any, n_columns: int | None) -> Any:
    """Append columns of zeros to a sparse matrix up to the given number; svmlight files do not store them."""
    if n_columns is not None and X.shape[1] > n_columns:
        raise ValueError(f"the file has {X.shape[1]} columns, but the model has {n_columns} features")
    X.resize((X.shape[0], X.shape[1] if n_columns is None else n_columns))
    return X


def available_memory() -> int:
    """Return the bytes of memory that are still available, or a very large number if it is unknown."""
    limits = [2**62]
    for path, pattern, unit in (
        ("/proc/meminfo", r"MemAvailable:\s+(\d+) kB", 1024),
        ("/sys/fs/cgroup/memory.max", r"(\d+)", 1),  # the limit of a container
    ):
        try:
            limits += [unit * int(found) for found in re.findall(pattern, Path(path).read_text())]
        except OSError:
            continue
    return min(limits)


def write_pieces(pieces: Iterable[Mapping[str, Any]], out: Path | BinaryIO) -> int:
    """Write tables with the same columns to one file and return the total number of rows.

    The file appears only when it is complete.
    """
    pa = pyarrow()
    if not isinstance(out, Path):
        return _write(pieces, lambda schema: pa.csv.CSVWriter(out, schema))
    format = output_format(out)
    delimiter = "\t" if out.suffix.lower() == ".tsv" else ","
    writers = {
        "csv": partial(pa.csv.CSVWriter, write_options=pa.csv.WriteOptions(delimiter=delimiter)),
        "parquet": pa.parquet.ParquetWriter,
        "arrow": pa.ipc.new_file,
    }
    with replacing(out) as unfinished:
        return _write(pieces, lambda schema: writers[format](str(unfinished), schema))


def output_format(out: Path) -> str:
    """Return the output format by the file extension; csv for pipes and devices without one."""
    format = EXTENSIONS.get(out.suffix.lower(), "csv" if is_special(out) else "")
    if format not in ("csv", "parquet", "arrow"):
        raise ValueError(f"--out {out}: the extension must be .csv, .parquet or .arrow.")
    return format


def _write(pieces: Iterable[Mapping[str, Any]], open_writer: Callable[[Any], Any]) -> int:
    pa = pyarrow()
    n_rows = 0
    tables = (pa.table(dict(piece)) for piece in pieces)
    first = next(tables, None)
    if first is None:
        raise ValueError("no rows to write.")
    with open_writer(first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table.cast(first.schema))
            n_rows += table.num_rows
    return n_rows
