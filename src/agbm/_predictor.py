"""Fast predictions without most checks, for servers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._core.learners import Model
from ._core.losses import Array
from ._data.rows import plain

FLOATS = np.dtype(np.float64), np.dtype(np.float32)


@dataclass(frozen=True, eq=False)
class Predictor:
    """A function with the results of one method of a fitted model; created by `predictor()` of an estimator.

    Its argument is a float32 or float64 array (row, feature), or the features of a single row; NaN is a missing value.
    Results are equal to those of the method, bit for bit. Later fits of the estimator do not affect the predictor. It
    is thread-safe.
    """

    n_features: int
    _model: Model
    _start: Array
    _finish: Callable[[Array], NDArray[Any]]
    _n_threads: int

    def __call__(self, X: NDArray[Any]) -> Any:
        """The results for the rows of X, or the result for one row if X is one-dimensional."""
        if not isinstance(X, np.ndarray) or X.dtype not in FLOATS:
            kind = X.dtype if isinstance(X, np.ndarray) else type(X).__name__
            raise TypeError(f"X must be a NumPy array of type float32 or float64; got {kind}.")
        if X.ndim not in (1, 2) or X.shape[-1] != self.n_features:
            raise ValueError(f"X must have shape (rows, {self.n_features}) or ({self.n_features},); got {X.shape}.")
        rows = plain(X if X.ndim == 2 else X[np.newaxis])
        result = self._finish(self._start + self._model.predict(rows, self._n_threads)[0])
        return result if X.ndim == 2 else result[0]
