"""Checked rows, before they become an objective."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import issparse, vstack
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets

from .._base.collectives import count, distinct
from .._base.sums import Array
from .._base.types import AnyArray, Matrix, Values
from .._base.weights import Weights, refuse_dates, refuse_text
from .._core.ring import Ring, RingPart
from .crosses import CrossedTable
from .units import Keys

# How many labels an error message shows: if numbers are passed by mistake, there may be one per row.
MOST_SHOWN = 10


def some_of(labels: list[Any]) -> str:
    """Labels for an error message: all, or the first ones and the number of others."""
    more = len(labels) - MOST_SHOWN
    return repr(labels) if more <= 0 else f"{labels[:MOST_SHOWN]} and {more:,} more"


# The name of the row set that early stopping uses.
VALIDATION = "validation"


class Given(NamedTuple):
    """Rows as passed by the user; on a cluster, its collections."""

    X: Any
    y: Any
    weight: Any = None
    offset: Any = None
    unit: Any = None
    """The group or the time of each row; see units.py."""


class RowSet(NamedTuple):
    """Rows that a model is evaluated on while it is trained: validation rows, or others that do not affect the fit."""

    name: str
    n: int
    weight: Array | None
    """The weight of each row; None if all are 1."""


class RemoteMatrix(ABC):
    """A checked matrix of numbers in memory that NumPy cannot read, such as that of a GPU.

    numpy.asarray copies it to the memory of this process.
    """

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def __getitem__(self, rows: slice | AnyArray) -> Self:
        """The rows of a slice, or those with the given indices, in their order."""

    @abstractmethod
    def followed_by(self, X: Any) -> Self:
        """These rows followed by those of another matrix, which may be a NumPy array."""

    @abstractmethod
    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> AnyArray:
        """A copy as a NumPy array."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Checked rows: features and encoded labels, and weights and start scores if there are any.

    Rows are on the first axis of X and on the last of everything else.
    """

    X: Any
    y: Array
    weights: Weights | None
    """The weights of the rows that are not in `followers`."""
    start: Array | None
    """Scores of an init model, offsets, or their sum."""
    followers: tuple[RowSet, ...] = ()
    """The last rows."""
    unit: Keys | None = None
    """The keys of the other rows by which they are held out together; None if each row is apart."""

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.y.shape[-1])

    @property
    def n_given(self) -> int:
        """Number of rows that are not in `followers`: training rows, and those that are held out of them."""
        return self.n - sum(rows.n for rows in self.followers)

    def arrays(self) -> list[AnyArray | None]:
        """All arrays of the rows, for digests."""
        parts = [self.X.data, self.X.indices, self.X.indptr] if issparse(self.X) else [np.asarray(self.X)]
        weights = (None, None) if self.weights is None else (self.weights.repeats, self.weights.relative)
        return [*parts, self.y, *weights, self.start, *([] if self.unit is None else [self.unit])]

    def validation_weight(self, n_train: int, n_unseen: int = 0) -> Array | None:
        """The weight of each validation row, which are followers or those of the other rows that are held out."""
        for rows in self.followers:
            if rows.name == VALIDATION:
                return rows.weight
        if self.weights is None or len(self.weights) == n_train:
            return None
        return self.weights.total[n_train : len(self.weights) - n_unseen]

    @property
    def watched(self) -> tuple[RowSet, ...]:
        """The followers that do not affect the fit."""
        return tuple(rows for rows in self.followers if rows.name != VALIDATION)

    def take(self, order: NDArray[np.intp]) -> Rows:
        """The rows with the given indices, in their order, and the followers."""
        everything = np.concatenate([order, np.arange(self.n_given, self.n)]) if self.followers else order
        return Rows(
            self.X[everything],
            self.y[..., everything],
            None if self.weights is None else self.weights[order],
            None if self.start is None else self.start[..., everything],
            self.followers,
            None if self.unit is None else self.unit[order],
        )

    def on_ring(self, ring: Ring) -> RowsOnRing:
        """The same for members that hold out different rows; X has the indices of rows, or is None."""
        begin, end, n_given = ring.parts[0].begin, ring.parts[0].end, len(ring.order)
        everything = np.append(ring.order, np.arange(n_given, self.n))
        twice = np.concatenate([everything[:end], everything[begin:]])
        X, y, start = (None if of is None else of[..., twice] for of in (self.X, self.y, self.start))
        weights = None if self.weights is None else self.weights[twice[: n_given + end - begin]]
        return RowsOnRing(Rows(X, cast(Array, y), weights, start, self.followers))

    def followed_by(self, rows: RowSet, X: Matrix, y: Array, start: Array | None) -> Rows:
        """These rows followed by others."""
        return Rows(
            _stacked(self.X, X),
            np.concatenate([self.y, y], axis=-1),
            self.weights,
            None if self.start is None or start is None else np.concatenate([self.start, start], axis=-1),
            (*self.followers, rows),
            self.unit,
        )


class RowsOnRing(NamedTuple):
    """All rows for members that share a ring but begin it at different rows."""

    twice: Rows
    """All rows in the shared order, with those on the ring twice, one after the other.

    If all rows are on the ring, the rows of a member are therefore a slice and take no memory.
    """

    def of(self, part: RingPart) -> Rows:
        """The rows of a member, in its order."""
        if part.begin == part.end:
            return self.twice  # the shared order
        n_ring = part.end - part.begin
        before, on_ring = slice(part.begin), slice(part.first, part.first + n_ring)

        def taken(of: Any, n_after: int) -> Any:
            after = slice(part.end + n_ring, part.end + n_ring + n_after)
            if part.begin == n_after == 0:
                return of[..., on_ring]
            return np.concatenate([of[..., rows] for rows in (before, on_ring, after)], axis=-1)

        rows, n_after = self.twice, sum(of.n for of in self.twice.followers)
        X, y, start = (None if of is None else taken(of, n_after) for of in (rows.X, rows.y, rows.start))
        weights = None
        if rows.weights is not None:
            counts = [None if of is None else taken(of, 0) for of in (rows.weights.repeats, rows.weights.relative)]
            weights = Weights(counts[0], counts[1], rows.weights.step)
        return Rows(X, cast(Array, y), weights, start, rows.followers)


def _stacked(X: Matrix, following: Matrix) -> Any:
    """The rows of a matrix, followed by those of another."""
    if issparse(X) or issparse(following):
        parts = [part if issparse(part) else np.asarray(part) for part in (X, following)]
        return vstack(parts, format="csr")
    if isinstance(X, (RemoteMatrix, CrossedTable)):
        return X.followed_by(following)
    return np.concatenate([X, np.asarray(following)])


def plain(X: Matrix) -> Any:
    """X, copied if the kernels do not support its layout: not aligned, or with strides of fractions of values."""
    if type(X) is not np.ndarray:
        return X if issparse(X) or isinstance(X, RemoteMatrix) else plain(np.asarray(X))
    flags = X.flags
    if flags.aligned and (flags.c_contiguous or all(stride % X.itemsize == 0 for stride in X.strides)):
        return X
    return np.ascontiguousarray(X)


def check_y_val(y_val: Values, n_rows: int, numeric: bool, shape: tuple[int, ...]) -> AnyArray:
    """Check the labels of validation rows; `shape` is the shape of the label of one row."""
    if numeric:
        refuse_dates(y_val, "y_val")
        refuse_text(y_val, "y_val")
    try:
        y = check_array(y_val, ensure_2d=False, dtype="numeric" if numeric else None, input_name="y_val")
    except ValueError as error:
        raise ValueError(f"y_val: {error}") from error
    if shape == () and y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.shape[1:] != shape:
        raise ValueError(f"y_val has shape {y.shape}; it must be a 1d array, or have as many columns as y.")
    if len(y) != n_rows:
        raise ValueError(f"y_val has {len(y)} rows, X_val has {n_rows}; they must be the same number.")
    return np.asarray(y)


def weighted_rows(weight: Array, name: str) -> NDArray[np.intp]:
    """The indices of the rows with positive weight."""
    kept = np.flatnonzero(weight)
    if count(len(kept)) == 0:
        raise ValueError(f"{name}: all weights are zero; at least one row needs a positive weight.")
    return kept


def classes_of(y: AnyArray) -> tuple[AnyArray, NDArray[np.intp]]:
    """The sorted classes of labels, and the position of each label among them."""
    numbers = y.ndim == 1 and y.dtype.kind in "iubf"
    try:
        if not numbers:
            _check_classes(y)
        found, codes = _distinct(y)
        if numbers and not _are_few_integers(found, len(y)):  # scikit-learn's check takes longer than this
            _check_classes(y)
        classes = distinct(found)
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in y})
        if len(kinds) == 1:
            raise
        raise TypeError(f"y has labels of types {kinds}, which cannot be sorted; use labels of one type.") from error
    return classes, codes if classes is found else np.searchsorted(classes, found)[codes]


def _distinct(y: AnyArray) -> tuple[AnyArray, NDArray[np.intp]]:
    """The sorted labels, each once, and the place of every label; integers of a small range need no sorting."""
    if y.ndim == 1 and y.dtype.kind in "iub" and len(y):
        low, high = int(y.min()), int(y.max())
        if low >= -(2**31) and high < 2**31 and high - low < len(y):
            offsets = y.astype(np.intp) - low
            there = np.bincount(offsets) > 0
            return (np.flatnonzero(there) + low).astype(y.dtype), (np.cumsum(there) - 1)[offsets]
    found, places = np.unique(y, return_inverse=True)
    return found, places


def _check_classes(y: AnyArray) -> None:
    if len(y):  # other processes may have all rows with a weight
        check_classification_targets(y)


def _are_few_integers(classes: AnyArray, n_rows: int) -> bool:
    """Whether scikit-learn's check would accept labels of these classes, without a warning."""
    few, numbers = len(classes) < max(3, n_rows / 2), classes.astype(np.float64)
    return few and bool(np.all((numbers == np.rint(numbers)) & (np.abs(numbers) < 2**53)))
