"""Saving a run between iterations, and going on from what was saved.

A checkpoint holds the trees so far and the coefficients of the steps: the rest follows (see resume.py). The file is one
as model_file.py writes them: data only, and whole at every moment.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any, cast

import numpy as np

from .._core.ensemble import Ensemble
from .._core.training import Record
from .._tree import Forest
from . import container as model_file
from .container import ModelFileError
from .ensemble import ensemble_of, stack_of, to_arrays
from .whole_file import check_can_replace

KIND = "checkpoint"


class Checkpoint:
    """A callback that saves the run to a file, from which a later fit with the same data and parameters goes on.

    Give it to `callbacks`. If the file is there when fit begins, training goes on behind the iterations in it, and the
    model is, bit for bit, that of a run that was never interrupted. A file of another run (other data, other
    parameters) is an error and is left alone. The file stays when training is over.

    Parameters
    ----------
    path : str or path
        The file; its folder must be there. One file is for one run: a cross-validation or a search has many.
    every : int, default=10
        Iterations between two savings.

    Examples
    --------
    >>> from agbm import AGBMRegressor, Checkpoint
    >>> model = AGBMRegressor(max_iter=1000, callbacks=[Checkpoint("run.checkpoint", every=50)])
    """

    def __init__(self, path: str | os.PathLike[str], every: int = 10) -> None:
        if isinstance(every, bool) or not isinstance(every, (int, np.integer)) or every < 1:
            raise ValueError(f"every={every!r} must be a whole number of iterations, at least 1.")
        self.path = Path(path)
        self.every = int(every)
        self._identity = ""
        self._run: tuple[Ensemble, int] | None = None

    def __repr__(self) -> str:
        return f"Checkpoint({str(self.path)!r}, every={self.every})"

    def check_path(self) -> None:
        """Raise an OSError if the file could not be written, before any time is spent on training."""
        try:
            check_can_replace(self.path)
        except OSError as error:
            how = f"there can be no file in {self.path.parent} ({error.strerror}); use another path."
            raise type(error)(f"{self!r}: {error if error.strerror is None else how}") from error

    def load(self, identity: str, n_features: int, n_outputs: int) -> tuple[Ensemble, int] | None:
        """The saved run and its seed; None where there is no file yet."""
        self._identity = identity
        if not self.path.exists():
            return None
        try:
            stored = model_file.parse(np.fromfile(self.path, np.uint8))  # not mapped: it will be replaced
            if stored.kind != KIND:
                raise ModelFileError(f"kind: the file holds a {stored.kind}")
            saved = stored.entry("identity", str)
            seed = model_file.whole(stored.description, "seed", 0, np.iinfo(np.int32).max)
        except (ModelFileError, OSError) as error:
            raise self._unreadable(error) from error
        if saved != identity:
            raise ValueError(
                f"{self.path} is the checkpoint of a run with other data or other parameters. Remove it to start anew, "
                "or use another path."
            )
        try:
            ensemble = ensemble_of(stored, stack_of(stored, n_outputs), n_features, n_outputs)
            for forest in ensemble.models:
                cast(Forest, forest).check()
            return ensemble, seed
        except ValueError as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> ModelFileError:
        return ModelFileError(
            f"{self.path} is not a checkpoint that can be read: {error}. Remove it, or use another path."
        )

    def begin(self, ensemble: Ensemble, seed: int) -> None:
        """Say which run to save."""
        self._run = ensemble, seed

    def __call__(self, record: Record) -> None:
        """Save after every so many iterations. A full disk does not end the training."""
        if record.iteration == 0 or record.iteration % self.every or self._run is None:
            return
        try:
            self._save(*self._run)
        except OSError as error:
            warnings.warn(
                f"{self!r} could not save iteration {record.iteration}: {error}", RuntimeWarning, stacklevel=2
            )

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the run that is being saved."""
        return {**self.__dict__, "_run": None}

    def _save(self, ensemble: Ensemble, seed: int) -> None:
        model_file.write(self.path, KIND, {"identity": self._identity, "seed": seed}, to_arrays(ensemble))
