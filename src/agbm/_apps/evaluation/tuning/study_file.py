"""The file of a study: a journal of Optuna for one set of rows, parameters and seed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...._base.identity import fingerprints, identity_of
from ...._data.rows import Rows
from ..metrics import Split
from ..peers import matrices
from .space import Space

if TYPE_CHECKING:
    import optuna

STUDY = "agbm"
"""The name of the study in its file."""

LONGEST_LINE = 1 << 20
"""Maximum number of bytes of the first line of a study."""


@contextmanager
def open_study(path: Path, identity: dict[str, str]) -> Iterator[optuna.Study]:
    """The study of a file, created if necessary; Optuna logs only errors while it is open."""
    import optuna

    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"study_path={str(path)!r}: there is no folder {path.parent}; create it, or use another path."
        )
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        study = _load_or_create(path)
        _check_identity(study, identity, path)
        yield study
    finally:
        optuna.logging.set_verbosity(verbosity)


def _load_or_create(path: Path) -> optuna.Study:
    """Load the study of a file, or create it. Files of other programs are not changed."""
    import optuna

    storage = _storage(path)
    names = optuna.get_all_study_names(storage)
    if not set(names) <= {STUDY}:
        raise ValueError(f"study_path={str(path)!r} contains other Optuna studies; use another path.")
    if names:
        return optuna.load_study(storage=storage, study_name=STUDY)
    return optuna.create_study(
        storage=storage, study_name=STUDY, load_if_exists=True
    )  # another process may have created it


def _storage(path: Path) -> optuna.storages.JournalStorage:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock

    lock = JournalFileSymlinkLock(str(path))
    try:
        if path.exists():
            lock.acquire()
            try:
                _mend(path)
            finally:
                lock.release()
        return JournalStorage(JournalFileBackend(str(path), lock))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"study_path={str(path)!r} is not an Optuna study ({error}); use another path, or remove the file."
        ) from error


def _mend(path: Path) -> None:
    """Remove an incomplete last line, which a full disk may leave: a line appended to it could not be read."""
    with open(path, "rb") as file:
        first = file.readline(LONGEST_LINE)  # limited, since it may be any file
        if first and "op_code" not in json.loads(first):
            raise ValueError("its first line is not a journal entry")
        lines = first + file.read()
    whole = lines.rfind(b"\n") + 1
    if 0 < whole < len(lines):
        os.truncate(path, whole)


def identity_of_search(split: Split, fixed: Mapping[str, Any], seed: int, space: Space) -> dict[str, str]:
    """What all trials of a study must have in common; the test rows may differ."""
    (X, X_val), _ = matrices([split.X, split.X_val], fixed.get("categorical_features", "from_dtype"))
    parts = [(X, split.y), (X_val, split.y_val)]
    arrays = [array for X, y in parts for array in Rows(X, np.array(list(map(str, y))), None, None).arrays()]
    settings = {**fixed, "seed": seed, "space": {name: repr(space[name]) for name in space}}
    return {"rows": identity_of({}, arrays), "parameters": identity_of(fingerprints(settings), [])}


def _check_identity(study: optuna.Study, identity: dict[str, str], path: Path) -> None:
    known = study.user_attrs.get("identity")
    if known is None:
        if study.trials:
            raise ValueError(f"study_path={str(path)!r} contains trials of another program; use another path.")
        study.set_user_attr("identity", identity)
        return
    other = [name for name in identity if known[name] != identity[name]]
    if other:
        raise ValueError(
            f"study_path={str(path)!r} belongs to a search with other {' and '.join(other)}; use another path, or "
            "remove the file to start from scratch."
        )
