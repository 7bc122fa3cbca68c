"""Texts and numbers as flat arrays, for the names, categories and classes in model files."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._base.types import AnyArray
from .container import ModelFileError, Stored, shortened


class Kind(IntEnum):
    """The kind of a value, which determines the meaning of its 64-bit word."""

    TEXT = 0
    """Where its UTF-8 bytes end."""
    INTEGER = 1
    FLOAT = 2
    """Its bits."""
    BOOLEAN = 3
    LARGE_INTEGER = 4
    """Where its bytes end: two's complement, little-endian."""


_KINDS = {str: Kind.TEXT, int: Kind.INTEGER, float: Kind.FLOAT, bool: Kind.BOOLEAN}
_WITH_BYTES = Kind.TEXT, Kind.LARGE_INTEGER
_SURROGATES = "surrogatepass"  # Python strings may contain half a pair, which strict UTF-8 forbids


def to_arrays(section: str, values: Iterable[Any], what: str) -> dict[str, AnyArray]:
    """The sections for some values; `what` names the values in errors.

    Subclasses of str and of numbers are rejected, since they may differ from the values that would be loaded.
    """
    plain = [value.item() if isinstance(value, np.generic) else value for value in values]
    kinds = np.frombuffer(bytes([_kind(value, what) for value in plain]), np.uint8)
    words = np.zeros(len(plain), dtype=np.int64)
    for kind, dtype in (Kind.INTEGER, np.int64), (Kind.BOOLEAN, np.int64), (Kind.FLOAT, np.float64):
        words[kinds == kind] = np.array([plain[i] for i in np.flatnonzero(kinds == kind)], dtype=dtype).view(np.int64)
    with_bytes = np.isin(kinds, _WITH_BYTES)
    contents = [_to_bytes(plain[i]) for i in np.flatnonzero(with_bytes).tolist()]
    words[with_bytes] = np.cumsum([len(content) for content in contents])
    text = np.frombuffer(b"".join(contents), np.uint8)
    return {f"{section}.kind": kinds, f"{section}.word": words, f"{section}.text": text}


def from_arrays(section: str, stored: Stored) -> list[Any]:
    """The values in some sections, all of them checked."""
    kinds = stored.array(f"{section}.kind", np.uint8)
    words = stored.array(f"{section}.word", np.int64)
    text = stored.array(f"{section}.text", np.uint8)
    if len(kinds) != len(words):
        raise ModelFileError(f"sizes: sections '{section}.kind' and '{section}.word' have different lengths")
    if (kinds > max(Kind)).any():
        raise ModelFileError(f"{section}: unknown kind {kinds.max()} of values")
    with_bytes = np.isin(kinds, _WITH_BYTES)
    edges = np.append(0, words[with_bytes])
    if (edges[1:] < edges[:-1]).any() or edges[-1] != len(text):
        raise ModelFileError(f"sizes: the ends of texts must increase up to the length of section '{section}.text'")
    values: list[Any] = words.tolist()
    _put(values, with_bytes, _pieces(section, text.tobytes(), edges.tolist(), kinds[with_bytes] == Kind.LARGE_INTEGER))
    booleans = words[kinds == Kind.BOOLEAN]
    if ((booleans != 0) & (booleans != 1)).any():
        raise ModelFileError(f"{section}: booleans must be 0 or 1")
    _put(values, kinds == Kind.BOOLEAN, booleans.astype(bool).tolist())
    floats = words[kinds == Kind.FLOAT].view(np.float64)
    if np.isnan(floats).any():
        raise ModelFileError(f"{section}: values must not be NaN")
    _put(values, kinds == Kind.FLOAT, floats.tolist())
    return values


def _put(values: list[Any], where: NDArray[np.bool_], given: list[Any]) -> None:
    for place, value in zip(np.flatnonzero(where).tolist(), given, strict=True):
        values[place] = value


def _pieces(section: str, content: bytes, edges: list[int], large: NDArray[np.bool_]) -> list[str | int]:
    """Texts, or large integers, between the edges."""
    try:
        return [
            int.from_bytes(content[begin:end], "little", signed=True)
            if is_large
            else content[begin:end].decode("utf-8", _SURROGATES)
            for begin, end, is_large in zip(edges[:-1], edges[1:], large.tolist(), strict=True)
        ]
    except UnicodeDecodeError as error:
        raise ModelFileError(f"{section}: a text is not valid UTF-8: {error}") from error


def _kind(value: object, what: str) -> Kind:
    kind = _KINDS.get(type(value))
    if kind is None:
        raise ValueError(
            f"{what} {shortened(value)} is of type {type(value).__name__}, which cannot be saved in a model file; use "
            "text or numbers, or pickle the model."
        )
    if type(value) is int and not -(1 << 63) <= value < 1 << 63:
        return Kind.LARGE_INTEGER
    return kind


def _to_bytes(value: str | int) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", _SURROGATES)
    return value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
