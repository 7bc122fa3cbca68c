"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A name beside a file to write to. It takes the file's place when all went well, and is gone when it did not.

    A special file, such as a pipe or /dev/null, is written to as it is: another file in its place would be a loss.
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
    """Raise the OSError that `replacing` would raise, as far as it can be known before anything is written.

    The file beside the target is created and removed, since permissions alone do not tell: file systems may be
    read-only or virtual. A pipe is not opened, because closing it would end its reader.
    """
    given = Path(os.fsdecode(path))
    if is_special(given):
        if not os.access(given, os.W_OK):
            raise PermissionError("it is not writable")
        return
    _, fresh = _places(given)
    fresh.touch()
    fresh.unlink()


def is_special(path: Path) -> bool:
    """Whether a path exists and is neither a regular file nor a folder: a pipe, a terminal, /dev/null."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _places(given: Path) -> tuple[Path, Path]:
    """The file to replace, which is what a link points to, and a temporary one beside it."""
    if given.is_dir():
        raise IsADirectoryError(f"{str(given)!r} is a folder; name a file in it.")
    target = Path(os.path.realpath(given))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent}; make it, or use another path.")
    return target, target.parent / f".{os.getpid()}.{threading.get_ident()}.agbm-tmp"
