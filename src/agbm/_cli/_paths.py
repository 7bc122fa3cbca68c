"""Files that a command reads and writes: what can be known is checked before training, and no model is lost."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from .._storage.whole_file import check_can_replace, is_special
from ._data import Model
from ._output import size

Paths = Mapping[str, str | Path | None]
"""By the names of options or arguments; None where one is not given."""


def check_files(*, reads: Paths, writes: Paths, resumes: Paths | None = None) -> None:
    """Refuse outputs that would overwrite an input or another output, or that cannot be written at all.

    Files in `resumes` are written, and read by a later run.
    """
    files, resumed = _given(reads), _given(resumes or {})
    for option, path in resumed.items():
        if is_special(path):
            raise ValueError(f"{option} {path} is a pipe or a device, which cannot be read again; use a file.")
    for option, path in (_given(writes) | resumed).items():
        for other, file in files.items():
            if _overwrites(path, file):
                which = "in the folder that is read," if file.is_dir() else "the same file as"
                raise ValueError(f"{option} {path} is {which} {other} {file}; use another path.")
        _check_can_write(option, path)
        files[option] = path


def _given(paths: Paths) -> dict[str, Path]:
    return {name: Path(path) for name, path in paths.items() if path is not None}


def _overwrites(out: Path, file: Path) -> bool:
    """Whether writing to one path changes what the other has; devices such as /dev/null take everything."""
    if file.is_dir():
        inside = Path(os.path.realpath(out)).is_relative_to(os.path.realpath(file))
        return inside or (out.is_file() and any(_overwrites(out, part) for part in file.rglob("*") if part.is_file()))
    if out.exists() and file.exists():
        return os.path.samefile(out, file) and not stat.S_ISCHR(out.stat().st_mode)
    return os.path.realpath(out) == os.path.realpath(file)


def _check_can_write(option: str, path: Path) -> None:
    try:
        check_can_replace(path)
    except OSError as error:
        raise OSError(f"{option} {path} cannot be written: {_reason(error)}") from error


def _reason(error: OSError) -> str:
    """The reason alone, without the name of the temporary file."""
    return f"{error.strerror}." if error.strerror else str(error)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Errors of writing a file, with its name."""
    try:
        yield
    except OSError as error:
        raise OSError(f"{str(path)!r} could not be written: {_reason(error)}") from error


def save(model: Model, path: Path) -> None:
    """Save a model. If it cannot be written where --out says, it goes to a file that the error names."""
    try:
        model.save(path)
    except OSError as error:
        message = f"--out {path} could not be written: {_reason(error)}"
        for place in _other_places(path):
            try:
                model.save(place)
            except OSError:
                continue
            raise OSError(f"{message} The model is in {str(place)!r} instead.") from error
        raise OSError(f"{message} No other folder could be written to either; the model is lost.") from error


@contextmanager
def saving(model: Model, path: Path) -> Iterator[None]:
    """Save a model after what is done with it, whatever ends that.

    It is also saved before, in case the process is killed; a pipe can be written only once.
    """
    if not is_special(path):
        save(model, path)
    try:
        yield
    finally:
        save(model, path)


def _other_places(path: Path) -> Iterator[Path]:
    """Names that no file has: beside a path, in the current folder, in the folder for temporary files.

    Not beside a pipe or a device: their folders, such as /dev, are not for files.
    """
    folders = [Path()] if is_special(path) else [path.parent, Path()]
    with suppress(OSError):  # no such folder can be used
        folders.append(Path(tempfile.gettempdir()))
    for folder in folders:
        names = (f"{path.stem}.rescued{i or ''}{path.suffix or '.agbm'}" for i in count())
        yield next(place for name in names if not os.path.lexists(place := folder / name))


def written(path: Path) -> str:
    """A file that was written, with its size where it has one."""
    return f"{path} ({size(path.stat().st_size)})" if path.is_file() else str(path)
