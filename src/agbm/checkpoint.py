"""Saving a run between iterations, and going on from what was saved.

A checkpoint holds the trees so far and the coefficients of the steps: the rest follows (see resume.py). The file is a
NumPy archive of plain arrays: nothing in it can run code. It is written beside the old one and then put in its place,
so that there is a whole checkpoint at every moment.
"""

from __future__ import annotations

import hashlib
import os
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from ._parameters import fingerprint
from .ensemble import Ensemble, Update
from .learners import Model
from .rows import Rows
from .tree import Forest
from .tree.forest import NODE
from .watch import Record

FORMAT = 2

# Arrays and their types: of the updates, and of the trees and nodes of the forests.
_UPDATES = {
    "theta": np.float64,
    "eta": np.float64,
    "primary": np.int64,
    "alpha": np.float64,
    "momentum": np.int64,
    "restart": np.bool_,
    "n_dropped": np.int64,
}
_PER_TREE: dict[str, Any] = {"roots": np.int32, "first_column": np.int32}
_PER_NODE: dict[str, Any] = {"nodes": NODE}
_PER_SET: dict[str, Any] = {"category_start": np.int64, "category_words": np.uint64}
_SIZES = ("n_features", "n_outputs", "n_functions")


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

    def load(self, identity: str, n_features: int, n_outputs: int) -> tuple[Ensemble, int] | None:
        """The saved run and its seed; None where there is no file yet."""
        self._identity = identity
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"{self!r}: there is no folder {self.path.parent}; make it, or use another path.")
        if not self.path.exists():
            return None
        try:
            with open(self.path, "rb") as file, np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            if int(arrays["format"]) != FORMAT:
                raise ValueError(f"its format is {int(arrays['format'])}, this version reads {FORMAT}")
            saved = str(arrays["identity"])
            content = _read(arrays)
            for model in content[0].models:
                if (cast(Forest, model).n_features, cast(Forest, model).n_outputs) != (n_features, n_outputs):
                    raise ValueError("its trees are for other features or outputs")
        except (ValueError, TypeError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(
                f"{self.path} is not a checkpoint that can be read: {error}. Remove it, or use another path."
            ) from error
        if saved != identity:
            raise ValueError(
                f"{self.path} is the checkpoint of a run with other data or other parameters. Remove it to start anew, "
                "or use another path."
            )
        return content

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
        arrays = _written(ensemble, seed)
        fresh = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
        try:
            with open(fresh, "wb") as file:
                np.savez(file, format=FORMAT, identity=self._identity, **arrays)
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, self.path)
        finally:
            fresh.unlink(missing_ok=True)


def identity_of(parameters: Mapping[str, Any], rows: Rows) -> str:
    """A digest of everything that the model depends on but the number of iterations."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(parameters):
        digest.update(f"{name}={fingerprint(parameters[name])};".encode())
    parts = [rows.X.data, rows.X.indices, rows.X.indptr] if issparse(rows.X) else [rows.X]
    for array in (*parts, rows.y, rows.weight, rows.start):
        if array is not None:
            digest.update(f"{array.shape}{array.dtype}".encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _written(ensemble: Ensemble, seed: int) -> dict[str, Any]:
    """The run as arrays: those of all forests behind each other, with the sizes of each."""
    forests = [cast(Forest, model) for model in ensemble.models]
    updates = ensemble.updates
    arrays: dict[str, Any] = {"seed": seed, "functions": np.array(ensemble.functions, dtype=np.int64).reshape(-1, 2)}
    rows = [
        (u.theta, u.eta, u.primary, u.alpha, -1 if u.momentum is None else u.momentum, u.restart, len(u.dropped))
        for u in updates
    ]
    for column, (name, dtype) in enumerate(_UPDATES.items()):
        arrays[name] = np.array([row[column] for row in rows], dtype=dtype)
    arrays["dropped"] = np.array([i for u in updates for i in u.dropped], dtype=np.int64)
    arrays["sizes"] = np.array(
        [
            [
                *(getattr(f, name) for name in _SIZES),
                len(f.roots),
                *f.value.shape,
                len(f.category_start),
                len(f.category_words),
            ]
            for f in forests
        ],
        dtype=np.int64,
    ).reshape(-1, len(_SIZES) + 5)
    for name, dtype in {**_PER_TREE, **_PER_NODE}.items():
        arrays[name] = np.concatenate([np.zeros(0, dtype), *(getattr(f, name) for f in forests)], dtype=dtype)
    arrays["value"] = np.concatenate([np.zeros(0), *(f.value.ravel() for f in forests)])
    for name, dtype in _PER_SET.items():
        arrays[name] = np.concatenate([np.zeros(0, dtype), *(getattr(f, name) for f in forests)])
    return arrays


def _read(arrays: dict[str, NDArray[Any]]) -> tuple[Ensemble, int]:
    """The reverse of `_written`; every number is checked before it is used."""
    take: dict[str, Callable[[int], NDArray[Any]]] = {
        name: _pieces(_checked(arrays[name], dtype), name)
        for name, dtype in {**_PER_TREE, **_PER_NODE, **_PER_SET, "value": np.float64}.items()
    }
    models: list[Model] = []
    for size in _checked(arrays["sizes"], np.int64).tolist():
        n_features, n_outputs, n_functions, n_trees, n_nodes, n_values, n_starts, n_words = size
        if min(size) < 0 or not n_trees or not n_functions or not n_outputs:
            raise ValueError(f"a forest has sizes {size}")
        forest = Forest(
            n_features=n_features,
            n_outputs=n_outputs,
            n_functions=n_functions,
            value=take["value"](n_nodes * n_values).reshape(n_nodes, n_values),
            category_start=take["category_start"](n_starts),
            category_words=take["category_words"](n_words),
            **{name: take[name](n_trees) for name in _PER_TREE},
            **{name: take[name](n_nodes) for name in _PER_NODE},
        )
        forest.check()
        models.append(forest)
    functions = [(model, number) for model, number in _checked(arrays["functions"], np.int64).tolist()]
    for model, number in functions:
        if not (0 <= model < len(models) and 0 <= number < models[model].n_functions):
            raise ValueError(f"there is no function {number} of model {model}")
    return Ensemble(models, functions, _updates(arrays, len(functions))), int(arrays["seed"])


def _updates(arrays: dict[str, NDArray[Any]], n_functions: int) -> list[Update]:
    dropped = _pieces(_checked(arrays["dropped"], np.int64), "dropped")
    columns = [_checked(arrays[name], dtype).tolist() for name, dtype in _UPDATES.items()]
    updates: list[Update] = []
    for theta, eta, primary, alpha, momentum, restart, n_dropped in zip(*columns, strict=True):
        earlier = tuple(dropped(n_dropped).tolist())
        if not (0 <= primary < n_functions and -1 <= momentum < n_functions):
            raise ValueError(f"iteration {len(updates)} uses functions that are not there")
        if any(not 0 <= i < len(updates) for i in earlier):
            raise ValueError(f"iteration {len(updates)} drops iterations that are not there")
        updates.append(Update(theta, eta, primary, alpha, None if momentum < 0 else momentum, restart, earlier))
    return updates


def _checked(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """The array, if it has that type and no NaN."""
    array = array.astype(dtype, casting="equiv")
    for column in [array] if array.dtype.names is None else [array[name] for name in array.dtype.names]:
        if column.dtype.kind == "f" and np.isnan(column).any():
            raise ValueError("some numbers are NaN")
    return array


def _pieces(array: NDArray[Any], name: str) -> Callable[[int], NDArray[Any]]:
    """A function that gives the next n entries."""
    done = 0

    def next_piece(n: int) -> NDArray[Any]:
        nonlocal done
        if n < 0 or done + n > len(array):
            raise ValueError(f"{name} is too short")
        done += n
        return array[done - n : done]

    return next_piece
