"""Atomic replacement of files: a file is either complete or does not exist."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path next to a file. On success, it replaces the file; on an error, it is removed.

    For a special file, such as a pipe or /dev/null, this is the path itself: it must not be replaced.
    """
    given = Path(os.fsdecode(path))
    if is_special(given):
        yield given
        return
    target, fresh = _places(given)
    try:
        yield fresh
        with open(fresh, "rb") as file:
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, fresh)
        os.replace(fresh, target)
    finally:
        fresh.unlink(missing_ok=True)


def check_can_replace(path: str | os.PathLike[str]) -> None:
    """Raise the OSError that `replacing` would raise, as far as this is known before anything is written.

    The temporary file is created and removed, since permissions are not sufficient: file systems may be read-only or
    virtual. A pipe is not opened, because closing it would end its reader.
    """
    given = Path(os.fsdecode(path))
    if is_special(given):
        if not os.access(given, os.W_OK):
            raise PermissionError("the file is not writable")
        return
    _, fresh = _places(given)
    fresh.touch()
    fresh.unlink()


def is_special(path: Path) -> bool:
    """Whether a path exists and is neither a regular file nor a folder: a pipe, a terminal, /dev/null."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _places(given: Path) -> tuple[Path, Path]:
    """The file to replace, with links resolved, and a temporary file next to it."""
    if given.is_dir():
        raise IsADirectoryError(f"{str(given)!r} is a folder; use the path of a file.")
    target = Path(os.path.realpath(given))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent}; create it, or use another path.")
    return target, target.parent / f".{os.getpid()}.{threading.get_ident()}.agbm-tmp"
