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

    What is no file, such as a pipe or /dev/null, is written to as it is: another file in its place would be a loss.
    """
    given = Path(os.fsdecode(path))
    if given.is_dir():
        raise IsADirectoryError(f"{str(given)!r} is a folder; name a file in it.")
    if given.exists() and not given.is_file():
        yield given
        return
    target = Path(os.path.realpath(os.fsdecode(path)))  # what a link names is replaced, not the link
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent}; make it, or use another path.")
    fresh = target.parent / f".{os.getpid()}.{threading.get_ident()}.agbm-tmp"
    try:
        yield fresh
        with open(fresh, "rb") as file:
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, fresh)
        os.replace(fresh, target)
    finally:
        fresh.unlink(missing_ok=True)
