"""Opening csv files with Arrow: delimiter, names and types of the columns, which must fit all values of all files."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..shared_options import Form
from .sources import Part, Source

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

# Blank cells are missing values, in addition to those that Arrow recognises.
BLANKS = [blank * length for blank in " \t" for length in range(1, 65)]

# Types that Arrow may infer from the start of a column and that later become floats; all others become text.
_NARROW = "null", "int64"

_NOT_UTF8 = "not UTF-8; use --encoding to specify the encoding, such as --encoding latin-1."

Scan = Callable[[Any, Iterator[Any]], Any]


def open_csv(source: Source, form: Form, text: Collection[str], scan: Scan) -> tuple[Any, Any]:
    """Open csv files with types that fit all of their values.

    Return the dataset and what `scan(dataset, batches)` returns, which reads all batches. `text` names columns that
    are text, whatever their values look like.
    """
    import pyarrow as pa
    import pyarrow.dataset

    delimiter, names = _columns(source.parts, form)
    types = {name: pa.string() for name in text if name in names[0]}
    while True:
        format = _format(form, delimiter, names[0], types)
        dataset = pa.dataset.dataset([str(part.path) for part in source.parts], format=format)
        foreign = [field.name for field in dataset.schema if pa.types.is_binary(field.type)]
        if foreign:
            raise ValueError(f"columns {foreign} contain text that is {_NOT_UTF8}")
        fragments = _Fragments(dataset, names)
        try:
            return dataset, scan(dataset, iter(fragments))
        except pa.ArrowInvalid as error:
            if "invalid UTF8" in str(error):
                raise ValueError(f"a text is {_NOT_UTF8}") from error
            found = re.search(r"In CSV column #(\d+): .*conversion error to ([\w\[\]]+)", str(error))
            if found is None:
                raise
            name = fragments.current_names[int(found[1])]
            if types.get(name) == pa.string():
                raise
            types[name] = pa.float64() if found[2] in _NARROW else pa.string()


def _format(form: Form, delimiter: str, names: Sequence[str], types: dict[str, Any]) -> Any:
    import pyarrow.csv
    import pyarrow.dataset

    padded = [f"{left}{text}{right}" for text in form.missing for left in ("", " ") for right in ("", " ")]
    return pyarrow.dataset.CsvFileFormat(
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        read_options=pyarrow.csv.ReadOptions(column_names=None if form.header else names),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=types,
            strings_can_be_null=True,
            null_values=[*pyarrow.csv.ConvertOptions().null_values, *BLANKS, *padded],
            decimal_point=form.decimal,
        ),
    )


class _Fragments:
    """The batches of a dataset, file by file, so that the columns of the file with an error are known."""

    def __init__(self, dataset: Dataset, names: Sequence[Sequence[str]]) -> None:
        self._dataset, self._names = dataset, names
        self.current_names: Sequence[str] = []

    def __iter__(self) -> Iterator[Any]:
        first = self._dataset.schema.names
        for fragment, names in zip(self._dataset.get_fragments(), self._names, strict=True):
            # If a header spans several lines, its names are not known; then all files should have the same header.
            self.current_names = names if len(names) == len(first) else first
            yield from fragment.to_batches(schema=self._dataset.schema)


def _columns(parts: Sequence[Part], form: Form) -> tuple[str, list[list[str]]]:
    """Return the delimiter and the columns of each file, which must be the same but may have any order."""
    delimiter = _delimiter(_first_line(parts[0].path), form.decimal)
    names = [_names(_first_line(part.path), delimiter, form.header) for part in parts]
    for part, others in zip(parts, names, strict=True):
        check_same_columns(parts[0].name, names[0], part.name, others)
    return delimiter, names


def check_same_columns(first: str, names: Sequence[str], other: str, others: Sequence[str]) -> None:
    """Raise ValueError if two files of a folder have different columns."""
    more, fewer = sorted(set(others) - set(names)), sorted(set(names) - set(others))
    differences = [f"also has the columns {more[:10]}"] * bool(more) + [f"lacks the columns {fewer[:10]}"] * bool(fewer)
    if differences:
        raise ValueError(
            f"all files of a folder must have the same columns; compared with {first!r}, {other!r} "
            f"{' and '.join(differences)}."
        )


def _delimiter(first: str, decimal: str | None) -> str:
    """Return the delimiter that is most frequent in the first line, which may contain numbers."""
    candidates = ";\t|" if decimal == "," and any(c in first for c in ";\t|") else ",;\t|"
    return max(candidates, key=first.count)


def _names(first: str, delimiter: str, header: bool) -> list[str]:
    if not first.strip():
        raise ValueError("the first line is empty.")
    if "\ufffd" in first:
        raise ValueError(f"the first line is {_NOT_UTF8}")
    cells = next(csv.reader([first], delimiter=delimiter))
    names = cells if header else [f"c{i}" for i in range(len(cells))]
    check_names(names)
    return names


def check_names(names: Sequence[str]) -> None:
    """Raise ValueError if several columns have the same name."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"several columns are named {twice}; column names must be unique.")


def _first_line(path: Path) -> str:
    import pyarrow as pa

    with io.TextIOWrapper(pa.input_stream(path, compression="detect"), "utf-8-sig", "replace") as file:
        return file.readline().rstrip("\r\n")
