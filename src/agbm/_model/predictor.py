"""Fast predictions without most checks, for servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np

from .._base.sums import Array
from .._base.types import AnyArray
from .._core.learners import Model, Predict, on_threads
from .._data.crosses import with_crosses
from .._data.reader import TableReader
from .._data.rows import plain
from .._labels.base import Classes, Labels, Numbers, Result
from .._losses import Loss, prediction_of
from .._tree import Forest

FLOATS = np.dtype(np.float64), np.dtype(np.float32)
LINKS = "identity", "exp", "sigmoid", "sigmoid_of_double"
"""Inverse links of losses with one score that have kernels."""


class Finish(NamedTuple):
    """What a kernel does with the scores of rows."""

    link: str
    n_columns: int
    """Of the result; 0 for a vector."""
    only_scores: bool = False
    """Whether the result is scores, which the method of the labels still has to be applied to."""


def finish_of(labels: Labels, loss: Loss, kind: Result) -> Finish | None:
    """What a kernel does for a kind of results, with the same bits; None if there is no kernel."""
    link = prediction_of(loss)
    if type(labels) is Numbers:
        return Finish(link or "", 0) if kind is Result.PREDICTIONS and labels.single and link in LINKS else None
    if type(labels) is not Classes:
        return None
    several = labels.n_outputs if labels.n_outputs > 1 else 0
    if kind is not Result.PROBABILITIES:
        return Finish("identity", several, only_scores=kind is Result.PREDICTIONS)
    if several:
        return Finish(link, several) if link == "softmax" else None
    return Finish(link or "", 2) if link in LINKS else None


@dataclass(frozen=True, eq=False)
class Predictor:
    """A function with the results of one method of a fitted model; created by `predictor()` of an estimator.

    Its argument is a float32 or float64 array (row, column), or the numbers of a single row; or, if the columns have
    names, a list of rows that are mappings of these names to values, or a single such mapping. None and NaN are missing
    values. Results are equal to those of the method, bit for bit. Later fits of the estimator do not affect the
    predictor. It is thread-safe.
    """

    _reader: TableReader
    _model: Model
    _start: Array
    _finish: Callable[[Array], AnyArray]
    _kernel: Finish | None
    """What does the same as `_finish`, or its first part."""
    _n_threads: int
    _elsewhere: Callable[[AnyArray], Predict | None]
    """What predicts for several rows, such as a GPU; None for threads of this process."""

    def __call__(self, X: AnyArray | Mapping[Any, Any] | Sequence[Mapping[Any, Any]]) -> Any:
        """The results for the rows of X, or the result for one row."""
        if isinstance(X, np.ndarray):
            is_row, numbers = X.ndim == 1, self._checked(X)
        else:
            is_row = isinstance(X, Mapping)
            numbers = self._reader.of_records(cast(Any, [X] if is_row else X))
        rows = plain(with_crosses(numbers, self._reader.crosses))
        predict = self._elsewhere(rows) if len(rows) > 1 else None
        if predict is not None or self._fill is None:
            result = self._slow(rows, predict or on_threads)
        else:
            result = self._fast(rows, self._fill)
        return result[0] if is_row else result

    def _checked(self, X: AnyArray) -> AnyArray:
        """X with two dimensions, and codes for categories."""
        n, categories, names = self._reader.n_columns, self._reader.categories, self._reader.names
        others = sorted([*categories.of, *self._reader.derived])
        if others and names is not None:
            raise TypeError(
                f"X must be rows by name, such as {{{names[0]!r}: value, ...}}, since columns "
                f"{names[others].tolist()} are categories or dates; got an array."
            )
        if self._reader.derived:
            raise TypeError(
                f"X: columns {self._reader.derived} of the model are dates, ordered categories or lists, and no column "
                "has a name; use predict, or fit a table whose columns have names."
            )
        if X.dtype not in FLOATS:
            raise TypeError(f"X must be a NumPy array of type float32 or float64; got {X.dtype}.")
        if not 1 <= X.ndim <= 2 or X.shape[-1] != n:
            raise ValueError(f"X must have shape (rows, {n}) or ({n},); got {X.shape}.")
        X = X if X.ndim == 2 else X[np.newaxis]
        return categories.encode(X) if categories.of else X

    def _slow(self, rows: AnyArray, predict: Predict) -> AnyArray:
        return self._finish(self._start + predict(self._model, rows, self._n_threads)[0])

    def _fast(self, rows: AnyArray, fill: Callable[[AnyArray, Array], None]) -> AnyArray:
        _, n_columns, only_scores = cast(Finish, self._kernel)
        result = np.empty((len(rows), n_columns) if n_columns else len(rows))
        fill(rows, result)
        if not only_scores:
            return result
        return self._finish(result.T if n_columns else result[np.newaxis])

    @cached_property
    def _fill(self) -> Callable[[AnyArray, Array], None] | None:
        """Writes the results for rows in one call; None if there is no kernel."""
        if self._kernel is None or not isinstance(self._model, Forest):
            return None
        start = np.ascontiguousarray(self._start[:, 0])
        return self._model.predicting(start, self._kernel.link, self._n_threads).fill

    def __getstate__(self) -> dict[str, Any]:
        """The state without what follows from it."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
