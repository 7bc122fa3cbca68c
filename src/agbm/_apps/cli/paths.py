"""Input and output paths of commands: checks before training, and saving without losing a trained model."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from ..._base.atomic_file import check_can_replace, is_special
from .output import size
from .reading.data import Model

Paths = Mapping[str, str | Path | None]
"""Maps names of options or arguments to paths; None if an option is not given."""


def check_files(*, reads: Paths, writes: Paths, resumes: Paths | None = None) -> None:
    """Raise an error for outputs that would overwrite an input or another output, or that cannot be written.

    Files in `resumes` are written by one run and read by the next.
    """
    files, resumed = _given(reads), _given(resumes or {})
    for option, path in resumed.items():
        if is_special(path):
            raise ValueError(
                f"{option} {path} is a pipe or a device, from which a run cannot resume; use a regular file."
            )
    for option, path in (_given(writes) | resumed).items():
        for other, file in files.items():
            if _overwrites(path, file):
                which = "part of the input" if file.is_dir() else "the same file as"
                raise ValueError(f"{option} {path} is {which} {other} {file}; use another path.")
        _check_can_write(option, path)
        files[option] = path


def _given(paths: Paths) -> dict[str, Path]:
    return {name: Path(path) for name, path in paths.items() if path is not None}


def _overwrites(out: Path, file: Path) -> bool:
    """Return whether writing to `out` would change `file`; devices such as /dev/null never conflict."""
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
    """Return the reason without the name of the temporary file."""
    return f"{error.strerror}." if error.strerror else str(error)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Add the file name to errors that occur while writing it."""
    try:
        yield
    except OSError as error:
        raise OSError(f"{str(path)!r} could not be written: {_reason(error)}") from error


def save(model: Model, path: Path) -> None:
    """Save a model. If --out cannot be written, save it elsewhere and raise an error that names this file."""
    try:
        model.save(path)
    except OSError as error:
        message = f"--out {path} could not be written: {_reason(error)}"
        for place in _other_places(path):
            try:
                model.save(place)
            except OSError:
                continue
            raise OSError(f"{message} The model was saved to {str(place)!r} instead.") from error
        raise OSError(f"{message} It could not be saved in any other folder either; the model is lost.") from error


@contextmanager
def saving(model: Model, path: Path) -> Iterator[None]:
    """Save a model after the block, even if the block raises an error.

    The model is also saved before the block, in case the process is killed, unless the output is a pipe or a device.
    """
    if not is_special(path):
        save(model, path)
    try:
        yield
    finally:
        save(model, path)


def _other_places(path: Path) -> Iterator[Path]:
    """Yield unused paths: next to the given path, in the current folder and in the folder for temporary files.

    The folder of a pipe or device, such as /dev, is skipped.
    """
    folders = [Path()] if is_special(path) else [path.parent, Path()]
    with suppress(OSError):  # there is no usable temporary folder
        folders.append(Path(tempfile.gettempdir()))
    for folder in folders:
        names = (f"{path.stem}.rescued{i or ''}{path.suffix or '.agbm'}" for i in count())
        yield next(place for name in names if not os.path.lexists(place := folder / name))


def written(path: Path) -> str:
    """Return the path of an output, with its size if it is a regular file."""
    return f"{path} ({size(path.stat().st_size)})" if path.is_file() else str(path)
