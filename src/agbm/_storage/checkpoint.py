"""Checkpoints: a run is saved between iterations and can be resumed.

A checkpoint contains the trees so far and the coefficients of the updates; everything else follows from them (see
replay.py). The file format is that of container.py: data only, and a complete file at any time.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from .._base.atomic_file import check_can_replace
from .._core.ensemble import Ensemble
from .._core.training import Record
from .._tree import Forest
from . import container as model_file
from .container import ModelFileError
from .ensemble import ensembles_of, stack_of, to_arrays

KIND = "checkpoint"


class Checkpoint:
    """A callback that saves the run to a file, so that a later fit with the same data and parameters can resume it.

    Pass it in `callbacks`. If the file exists when fit starts, training resumes after the last saved iteration, and the
    model is the same, bit for bit, as that of an uninterrupted run. A file of a different run (other data or
    parameters) raises an error and is not overwritten. The file is kept when training ends.

    Parameters
    ----------
    path : str or path
        The file; its folder must exist. Each file is for a single run, so do not use a checkpoint in a
        cross-validation or a search.
    every : int, default=10
        The number of iterations between saves.

    Examples
    --------
    >>> from agbm import AGBMRegressor, Checkpoint
    >>> model = AGBMRegressor(max_iter=1000, callbacks=[Checkpoint("run.checkpoint", every=50)])
    """

    def __init__(self, path: str | os.PathLike[str], every: int = 10) -> None:
        if isinstance(every, bool) or not isinstance(every, (int, np.integer)) or every < 1:
            raise ValueError(f"every={every!r} must be a positive integer, a number of iterations.")
        self.path = Path(path)
        self.every = int(every)
        self._identity = ""
        self._run: tuple[Sequence[Ensemble], int] | None = None

    def __repr__(self) -> str:
        return f"Checkpoint({str(self.path)!r}, every={self.every})"

    def check_path(self) -> None:
        """Raise an OSError before training if the file cannot be written."""
        try:
            check_can_replace(self.path)
        except OSError as error:
            how = f"cannot write a file in {self.path.parent} ({error.strerror}); use another path."
            raise type(error)(f"{self!r}: {error if error.strerror is None else how}") from error

    def load(self, identity: str, n_features: int, n_outputs: int) -> tuple[Sequence[Ensemble], int] | None:
        """The ensembles of the saved run and its seed; None if the file does not exist yet."""
        self._identity = identity
        if not self.path.exists():
            return None
        try:
            stored = model_file.parse(np.fromfile(self.path, np.uint8))  # read, not mapped, since it will be replaced
            if stored.kind != KIND:
                raise ModelFileError(f"kind: the file contains a {stored.kind}")
            saved = stored.entry("identity", str)
            seed = model_file.whole(stored.description, "seed", 0, np.iinfo(np.int32).max)
        except (ModelFileError, OSError) as error:
            raise self._unreadable(error) from error
        if saved != identity:
            raise ValueError(
                f"{self.path} is the checkpoint of a run with other data or other parameters. Remove it to start from "
                "scratch, or use another path."
            )
        try:
            ensembles = ensembles_of(stored, stack_of(stored, n_outputs), n_features, n_outputs)
            for ensemble in ensembles:
                for forest in ensemble.models:
                    cast(Forest, forest).check()
            return ensembles, seed
        except ValueError as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> ModelFileError:
        return ModelFileError(f"The checkpoint {self.path} cannot be read: {error}. Remove it, or use another path.")

    def begin(self, ensembles: Sequence[Ensemble], seed: int) -> None:
        """Set the run to save."""
        self._run = ensembles, seed

    def __call__(self, record: Record) -> None:
        """Save the run every `every` iterations. If saving fails, warn and continue training."""
        if record.iteration == 0 or record.iteration % self.every or self._run is None:
            return
        try:
            self._save(*self._run)
        except OSError as error:
            warnings.warn(
                f"{self!r} could not save iteration {record.iteration}: {error}", RuntimeWarning, stacklevel=2
            )

    def __getstate__(self) -> dict[str, Any]:
        """The state without the run that is being saved."""
        return {**self.__dict__, "_run": None}

    def _save(self, ensembles: Sequence[Ensemble], seed: int) -> None:
        description = {"identity": self._identity, "seed": seed, "n_members": len(ensembles)}
        model_file.write(self.path, KIND, description, to_arrays(ensembles))
