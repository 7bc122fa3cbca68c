"""Predictions without the checks, for servers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._core.learners import Model
from ._core.losses import Array
from ._data.rows import plain


@dataclass(frozen=True, eq=False)
class Predictor:
    """What one method of a fitted model gives, for arrays of numbers alone; made by `predictor()` of an estimator.

    Call it with float32 or float64 numbers, (rows, features) or the features of one row; NaN is a missing value. The
    numbers are those of the method, to the last bit. Later fits of the estimator do not change it, and any number of
    threads may call it at once.
    """

    n_features: int
    _model: Model
    _start: Array
    _finish: Callable[[Array], NDArray[Any]]
    _n_threads: int

    def __call__(self, X: NDArray[Any]) -> Any:
        """Results for the rows of X, or of one row if X has one axis."""
        if not isinstance(X, np.ndarray) or X.dtype not in (np.float32, np.float64):
            kind = X.dtype if isinstance(X, np.ndarray) else type(X).__name__
            raise TypeError(f"X must be a NumPy array of float32 or float64, got {kind}.")
        if X.ndim not in (1, 2) or X.shape[-1] != self.n_features:
            raise ValueError(f"X must be (rows, {self.n_features}) or ({self.n_features},), got shape {X.shape}.")
        rows = plain(X if X.ndim == 2 else X[np.newaxis])
        result = self._finish(self._start + self._model.predict(rows, self._n_threads)[0])
        return result if X.ndim == 2 else result[0]
