"""What is held out together: the rows of a group, or those of a moment.

Each row has a key, 64 bits that say what it belongs to. Keys do not depend on other rows, so that all processes of a
cluster give a row the same one.
"""

from __future__ import annotations

import hashlib
import warnings
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._base import _native
from .._base.types import AnyArray
from .dates import DATES, ISO, from_objects, parse
from .tables import column_names, is_of, missing

Unit = Literal["rows", "groups", "time"]
"""By what rows are held out: at random, as whole groups, or the later ones."""

Keys = NDArray[np.uint64]

MOST_LOOKED_AT = 1_000_000
"""Copies are looked for among at most this many rows."""
FEWEST_COPIES = 0.02
"""The share of the rows that must be copies of others for a warning."""
ALL_DIFFERENT = 0.5
"""Two columns must have at least this many values per different row."""
SAME_LABELS = 0.99
"""The share of the repeated rows that must have the label of the first one of their kind."""


class GivenUnit(NamedTuple):
    """The argument `groups` or `time` of fit."""

    kind: Unit
    values: Any

    @classmethod
    def of(cls, X: Any, groups: Any, time: Any) -> GivenUnit:
        """The one that is given, of which X may have the column."""
        if groups is not None and time is not None:
            raise ValueError("groups and time are both given; pass the one by which rows are held out.")
        if time is not None:
            return cls("time", _values(X, time, "time"))
        return cls("rows", None) if groups is None else cls("groups", _values(X, groups, "groups"))


def _values(X: Any, given: Any, name: Unit) -> Any:
    """The values of groups or times; `given` may be the name of a column of X, if X is a data frame."""
    if isinstance(given, str) and is_of(X, "polars", "LazyFrame"):  # a second result may have another order of rows
        raise TypeError(f"{name}={given!r}: X is a LazyFrame; pass X.collect() to name one of its columns.")
    if not isinstance(given, str) or X is None or not (hasattr(X, "columns") or hasattr(X, "column_names")):
        return given  # datasets read their columns themselves
    names = list(X.columns) if hasattr(X, "iloc") or hasattr(X, "__dask_graph__") else column_names(X)
    if given not in names:
        raise ValueError(f"{name}={given!r}: X has no such column; its columns are {names}.")
    return X[given]


def keys_of(kind: Unit, values: Any, n_rows: int) -> Keys | None:
    """The keys of rows by their groups or times; those of times have the order of the times."""
    if values is None:
        return None
    if isinstance(values, str):
        raise TypeError(f"{kind}={values!r}: names of columns work with data frames and datasets; pass a vector.")
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or len(array) != n_rows:
        raise ValueError(f"{kind} has shape {array.shape}, X has {n_rows} rows; pass one value per row.")
    if missing(array).any():
        raise ValueError(f"{kind} has missing values; every row needs a {'time' if kind == 'time' else 'group'}.")
    return _ordered(_times(array)) if kind == "time" else _hashed(array)


def _times(values: AnyArray) -> AnyArray:
    """Times as numbers."""
    if values.dtype.kind in "iufb":
        return values
    if values.dtype.kind in "mM":
        return values.astype(f"{'timedelta64' if values.dtype.kind == 'm' else 'datetime64'}[us]").astype(np.int64)
    objects = values.tolist()
    if all(isinstance(value, DATES) for value in objects):
        return from_objects([_in_utc(value) for value in objects]).astype(np.int64)
    if all(isinstance(value, str) for value in objects):
        dates = parse(objects, ISO)
        unread = np.flatnonzero(np.isnat(dates))
        if len(unread) == 0:
            return dates.astype(np.int64)
        raise ValueError(
            f"time has text such as {objects[unread[0]]!r}, which is not a date like '2024-01-31' or "
            "'2024-01-31 13:45'; pass dates, or numbers."
        )
    kinds = sorted({type(value).__name__ for value in objects})
    raise TypeError(f"time must contain numbers, dates or ISO dates as text; got {', '.join(kinds)}.")


def _in_utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo is not None else value


def _ordered(numbers: AnyArray) -> Keys:
    """Keys with the order of numbers."""
    if numbers.dtype.kind == "f":
        bits = (numbers.astype(np.float64) + 0.0).view(np.uint64)  # -0 becomes 0
        top = np.uint64(1 << 63)
        return np.where(bits & top, ~bits, bits | top)
    if numbers.dtype.kind == "u":
        return numbers.astype(np.uint64)
    return numbers.astype(np.int64).view(np.uint64) ^ np.uint64(1 << 63)


def _hashed(groups: AnyArray) -> Keys:
    """Keys that are equal for equal groups."""
    if groups.dtype.kind in "iub":
        return groups.astype(np.int64 if groups.dtype.kind != "u" else np.uint64).view(np.uint64)
    if groups.dtype.kind == "f":
        return (groups.astype(np.float64) + 0.0).view(np.uint64)
    if groups.dtype.kind in "mM":
        return groups.astype(np.int64).view(np.uint64)
    texts = groups.astype(str) if groups.dtype.kind in "US" else np.array([str(group) for group in groups.tolist()])
    found, places = np.unique(texts, return_inverse=True)
    digests = b"".join(hashlib.blake2b(text.encode(), digest_size=8).digest() for text in found.tolist())
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)[places]


def warn_of_copies(X: Any, y: AnyArray, n_threads: int) -> None:
    """Warn if many rows are copies of others, label included, as oversampling makes them.

    X has numbers, and y is (row) or (number of a label, row). Rows of a few categories, or of rounded numbers, are
    equal by chance; copies of rows are equal even in columns with almost as many values as there are different rows.
    """
    if not isinstance(X, np.ndarray) or len(X) > MOST_LOOKED_AT:
        return
    keys, labels = _native.row_keys(X, n_threads), np.atleast_2d(y)
    ordered = np.sort(keys)  # a twentieth of the time of np.unique with its places
    n_copies = np.count_nonzero(ordered[1:] == ordered[:-1])
    if n_copies < FEWEST_COPIES * len(X):
        return
    _, first, numbers = np.unique(keys, return_index=True, return_inverse=True)
    repeated = np.bincount(numbers)[numbers] > 1
    same = (labels == labels[:, first[numbers]]).all(axis=0)
    continuous = [len(np.unique(column)) >= ALL_DIFFERENT * len(first) for column in X[first].T]
    if sum(continuous) < 2 or np.mean(same[repeated]) < SAME_LABELS:
        return
    warnings.warn(
        f"{n_copies:,} of {len(X):,} rows are copies of others, label included, so that rows that are held out are "
        "also training rows: training stops late, and intervals are too narrow. Drop the copies and pass their numbers "
        "as sample_weight, or class_weight instead of oversampling, or pass groups, the same for all copies of a row.",
        UserWarning,
        stacklevel=9,  # the line that called fit
    )
