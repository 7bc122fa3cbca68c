"""Where the bytes of a table come from: a file, the files of a folder, or standard input.

Arrow reads plain and most compressed files itself, in several passes. What it cannot read is first copied to a
temporary file: standard input, xz, and csv files that are not UTF-8.
"""

from __future__ import annotations

import codecs
import lzma
import os
import shutil
import sys
import tempfile
import warnings
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from ..shared_options import EXTENSIONS, Form

STANDARD_INPUT = "-"
_NO_FILE = Path()
"""The path of standard input."""
COMPRESSIONS = (".gz", ".bz2", ".zst", ".xz")
CHUNK = 1 << 20


class Bytes(Protocol):
    """A file that is open for reading."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes; none at the end of the file."""


@dataclass(frozen=True)
class Part:
    """One file of a table."""

    name: str
    """The name for messages."""
    path: Path
    """The file to read, which may be a copy."""


@dataclass(frozen=True)
class Source:
    """The files of a table."""

    name: str
    format: str
    parts: Sequence[Part]
    """In the order of their names."""
    folder: Path | None = None
    """The folder that contains all parts."""
    copies: object = None
    """Temporary files, which are deleted with it."""

    @contextmanager
    def named_in_errors(self) -> Iterator[None]:
        """Prefix error messages with the name of the source, and join their lines."""
        try:
            yield
        except _errors_of_content() as error:
            line = " ".join(str(error).split())
            for part in self.parts:
                if part.path is not _NO_FILE:
                    line = line.replace(str(part.path), part.name)
            raise ValueError(f"{self.name!r} cannot be read: {line}") from error


def _errors_of_content() -> tuple[type[Exception], ...]:
    pyarrow = sys.modules.get("pyarrow")
    return (ValueError,) if pyarrow is None else (ValueError, pyarrow.ArrowException)


def find_source(path: str | os.PathLike[str], form: Form) -> Source:
    """Find the files of a table, and copy those that cannot be read as they are."""
    if os.fspath(path) == STANDARD_INPUT:
        return _copied(Source("standard input", form.format or "csv", [Part("standard input", _NO_FILE)]), form)
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{str(path)!r}: no such file.")
    if path.is_dir():
        source = _of_folder(path, form.format)
    else:
        source = Source(str(path), form.format or _format_of_file(path), [Part(str(path), path)])
    recodes = source.format == "csv" and form.encoding != "utf-8"
    return _copied(source, form) if recodes or any(part.path.suffix == ".xz" for part in source.parts) else source


def _format_of_file(path: Path) -> str:
    format = _format_by_name(path)
    if format is None:
        raise ValueError(
            f"{str(path)!r} has none of the extensions {', '.join(EXTENSIONS)}; specify its format with --format "
            f"{'|'.join(dict.fromkeys(EXTENSIONS.values()))}."
        )
    return format


def _format_by_name(path: Path) -> str | None:
    return EXTENSIONS.get(_plain_name(path).suffix.lower())


def _plain_name(path: Path) -> Path:
    """Return the path without the extension of a compressed file."""
    return path.with_suffix("") if path.suffix in COMPRESSIONS else path


def _of_folder(folder: Path, format: str | None) -> Source:
    """Return the files of a folder and of its subfolders. Files whose names begin with . or _ are ignored."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not _is_hidden(path, folder)]
    formats = {path: _format_by_name(path) for path in files}
    found = sorted({known for known in formats.values() if known is not None})
    if format is None:
        if not found:
            raise ValueError(f"{str(folder)!r}: the folder has no files with the extensions {', '.join(EXTENSIONS)}.")
        if len(found) > 1:
            raise ValueError(
                f"{str(folder)!r}: the folder has {' and '.join(found)} files; choose one format with --format."
            )
        format = found[0]
        files = [path for path in files if formats[path] == format]
    else:
        files = [path for path in files if formats[path] in (format, None)]
        if not files:
            raise ValueError(f"{str(folder)!r}: the folder has no {format} files, as --format {format} requires.")
    if format == "svmlight":
        raise ValueError(f"{str(folder)!r}: a folder of svmlight files cannot be read; join them to one file.")
    return Source(str(folder), format, [Part(str(path.relative_to(folder)), path) for path in files], folder)


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(name.startswith((".", "_")) for name in path.relative_to(folder).parts)


class _TemporaryFolder:
    """A folder that is deleted with this object, or at the end of the process."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="agbm-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def _copied(source: Source, form: Form) -> Source:
    """Copy the files of a source: decompressed, and csv files as UTF-8."""
    copies = _TemporaryFolder()
    parts = []
    for i, part in enumerate(source.parts):
        target = copies.path / f"{i}-{_plain_name(part.path).name}"
        try:
            with source.named_in_errors(), _opened(part) as original, target.open("wb") as copy:
                _copy(original, copy, part.name, form.encoding if source.format == "csv" else None)
        except (lzma.LZMAError, EOFError) as error:
            raise ValueError(f"{str(part.path)!r} cannot be decompressed: {error}.") from error
        parts.append(Part(part.name, target))
    return Source(source.name, source.format, parts, None, copies)


@contextmanager
def _opened(part: Part) -> Iterator[Bytes]:
    """Open the decompressed bytes of a file, or of standard input."""
    if part.path is _NO_FILE:
        if sys.stdin is None:  # the caller has closed it
            raise ValueError("it is closed; pass a file, or redirect data to it.")
        yield sys.stdin.buffer
    elif part.path.suffix == ".xz":
        with lzma.open(part.path) as file:
            yield file
    elif part.path.suffix in COMPRESSIONS:
        import pyarrow

        with pyarrow.input_stream(str(part.path), compression="detect") as file:
            yield file
    else:
        with part.path.open("rb") as file:
            yield file


def _copy(original: Bytes, copy: BinaryIO, name: str, encoding: str | None) -> None:
    recode = None if encoding in (None, "utf-8") else _Recoder(name, encoding)
    while True:
        chunk = original.read(CHUNK)
        try:
            copy.write(chunk if recode is None else recode(chunk))
        except OSError as error:
            raise OSError(
                f"{name!r} cannot be copied to the folder for temporary files, {tempfile.gettempdir()}: "
                f"{error.strerror}. Set the environment variable TMPDIR to another folder."
            ) from error
        if not chunk:
            return


class _Recoder:
    """Converts a csv file to UTF-8, chunk by chunk; the last chunk is empty."""

    def __init__(self, name: str, encoding: str) -> None:
        self._name, self._encoding = name, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._line = 1
        self._utf8 = None if encoding == "utf-8-sig" else codecs.getincrementaldecoder("utf-8")()
        """None as soon as the file is not valid UTF-8."""
        self._is_ascii = True

    def __call__(self, chunk: bytes) -> bytes:
        self._compare_with_utf8(chunk)
        try:
            text = self._decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            line = self._line + error.object[: error.start].count(b"\n")
            raise ValueError(
                f"line {line} is not {self._encoding}: {error.reason}; use --encoding to specify another encoding."
            ) from error
        self._line += text.count("\n")
        return text.encode()

    def _compare_with_utf8(self, chunk: bytes) -> None:
        """Warn at the end if the file was UTF-8, since most other encodings accept that but give wrong letters."""
        self._is_ascii = self._is_ascii and chunk.isascii()
        try:
            if self._utf8 is not None:
                self._utf8.decode(chunk, final=not chunk)
        except UnicodeDecodeError:
            self._utf8 = None
        if not chunk and self._utf8 is not None and not self._is_ascii:
            warnings.warn(
                f"{self._name!r} is valid UTF-8, but is read as {self._encoding}, so letters may be wrong. Use "
                "--encoding utf-8 if it is UTF-8.",
                stacklevel=2,
            )
