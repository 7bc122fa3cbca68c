"""The file format of model files and checkpoints: named arrays, and a description in JSON.

docs/model-file.md describes the bytes. Files contain only data: nothing in them can run code, and every rule is checked
before a number is used. A file is replaced by writing a new one next to it and renaming that, so there is a complete
file at any time, and processes that have mapped the old file keep it.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Mapping
from typing import Any, BinaryIO, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .._base import _native
from .._base.atomic_file import replacing
from .._base.types import AnyArray
from .._tree.forest import NODE

MAGIC = b"AGBM\r\n\x1a\n"
VERSION = 1
LARGEST_DESCRIPTION = 1 << 24
"""In bytes. Once parsed, a description takes up to 50 times as much memory."""

_HEADER = struct.Struct("<8sIIQI36x")
_ENTRY = struct.Struct("<32sIIQQ8x")
_ALIGNMENT = 64
_DESCRIPTION = "description"

# Element types by their codes in files.
_TYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    2: np.dtype("<i4"),
    3: np.dtype("<i8"),
    4: np.dtype("<u8"),
    5: np.dtype("<f8"),
    6: NODE,
}


class ModelFileError(ValueError):
    """A file violates a rule of the format; the message names the rule."""


class Stored:
    """The contents of a file. Arrays are memory-mapped; their types are checked on access."""

    def __init__(self, kind: str, description: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> None:
        self.kind = kind
        self.description = description
        self._arrays = arrays

    def array(self, name: str, dtype: DTypeLike) -> AnyArray:
        """The array of a section; raises ModelFileError if it is missing or has another type."""
        found = self._arrays.get(name)
        if found is None:
            raise ModelFileError(f"sections: section {name!r} is missing")
        if found.dtype != np.dtype(dtype):
            raise ModelFileError(f"type: section {name!r} must have type {np.dtype(dtype)}, got {found.dtype}")
        return found

    def names(self) -> list[str]:
        """The names of the arrays."""
        return list(self._arrays)

    def entry(self, name: str, *kinds: type) -> Any:
        """An entry of the description; see entry_of."""
        return entry_of(self.description, name, *kinds)


def entry_of(description: Mapping[str, Any], name: str, *kinds: type) -> Any:
    """An entry of a description; raises ModelFileError if it is missing or has another type (bool is not int)."""
    if name not in description:
        raise ModelFileError(f"description: entry {name!r} is missing")
    value = description[name]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        wanted = " or ".join("null" if kind is type(None) else kind.__name__ for kind in kinds)
        raise ModelFileError(f"description: {name!r} must be {wanted}, got {shortened(value)}")
    return value


def whole(description: Mapping[str, Any], name: str, smallest: int, largest: int) -> int:
    """An entry of a description that must be an integer within bounds."""
    value = entry_of(description, name, int)
    if not smallest <= value <= largest:
        raise ModelFileError(f"{name}: must be from {smallest} to {largest}, got {shortened(value)}")
    return int(value)


def write(
    path: str | os.PathLike[str], kind: str, description: Mapping[str, Any], arrays: Mapping[str, AnyArray]
) -> None:
    """Write a file, or replace an existing one atomically."""
    sections = {_DESCRIPTION: _to_json(kind, description), **arrays}
    with replacing(path) as fresh, open(fresh, "wb") as file:
        _write_sections(file, sections)


def as_read(kind: str, description: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> Stored:
    """The result of `read` after `write`, without a file and without copying the arrays."""
    return Stored(kind, _parse_description(_to_json(kind, description)), arrays)


def _to_json(kind: str, description: Mapping[str, Any]) -> NDArray[np.uint8]:
    # Not escaped to ASCII: two escaped halves of a surrogate pair would be read as one character.
    text = json.dumps({"kind": kind, **description}, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    content = text.encode("utf-8", "surrogatepass")
    if len(content) > LARGEST_DESCRIPTION:
        largest = max(description, key=lambda name: len(json.dumps(description[name])))
        raise ValueError(
            f"the description of the model takes {len(content)} bytes, most of them for {largest!r}; at most "
            f"{LARGEST_DESCRIPTION} are allowed in a model file. Shorten {largest!r}, or pickle the model."
        )
    return np.frombuffer(content, np.uint8)


def _write_sections(file: BinaryIO, sections: Mapping[str, AnyArray]) -> None:
    numbers = {dtype: number for number, dtype in _TYPES.items()}
    end = _HEADER.size + len(sections) * _ENTRY.size
    entries, contents = [], []
    for name, array in sections.items():
        content = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        offset = -(-end // _ALIGNMENT) * _ALIGNMENT
        entries.append(_ENTRY.pack(name.encode(), numbers[array.dtype], zlib.crc32(content), offset, array.size))
        contents.append((offset, content))
        end = offset + len(content)
    table = b"".join(entries)
    file.write(_HEADER.pack(MAGIC, VERSION, len(entries), end, zlib.crc32(table)))
    file.write(table)
    position = _HEADER.size + len(table)  # pipes do not support file.tell()
    for offset, content in contents:
        file.write(bytes(offset - position))
        file.write(content)
        position = offset + len(content)


def read(path: str | os.PathLike[str]) -> Stored:
    """Map a file, and check its header, table, checksums and description."""
    if os.path.getsize(path) == 0:  # an empty file cannot be mapped
        return parse(np.zeros(0, np.uint8))
    return parse(np.memmap(path, np.uint8, mode="r").view(np.ndarray))


def parse(file: NDArray[np.uint8]) -> Stored:
    """Parse the bytes of a file."""
    try:
        checksum, sections = _native.model_file_table(file)
    except ValueError as error:
        raise ModelFileError(str(error)) from error
    _compare("of the table", checksum, file[_HEADER.size : _HEADER.size + len(sections) * _ENTRY.size])
    arrays: dict[str, AnyArray] = {}
    for name, number, checksum, offset, count in sections:
        dtype = _TYPES[number]
        content = file[offset : offset + count * dtype.itemsize]
        _compare(f"of section {name!r}", checksum, content)
        arrays[name] = content.view(dtype)
    description = _parse_description(arrays.pop(_DESCRIPTION, np.zeros(0, np.uint8)))
    return Stored(entry_of(description, "kind", str), description, arrays)


def _compare(what: str, checksum: int, content: NDArray[np.uint8]) -> None:
    found = zlib.crc32(content.data)
    if found != checksum:
        raise ModelFileError(f"checksum {what}: the file is damaged (stored {checksum:08x}, computed {found:08x})")


def _parse_description(content: AnyArray) -> dict[str, Any]:
    if content.dtype != np.uint8 or not 0 < content.size <= LARGEST_DESCRIPTION:
        raise ModelFileError(f"description: must have 1 to {LARGEST_DESCRIPTION} bytes of text")
    try:
        parsed = json.loads(content.tobytes(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"description: not valid JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise ModelFileError("description: must be a JSON object")
    return parsed


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def shortened(value: object) -> str:
    """A value as text for an error message, shortened if it is long."""
    if isinstance(value, int) and value.bit_length() > 200:  # Python refuses to print very large integers
        return "a very large number"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
