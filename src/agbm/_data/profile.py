"""Profiles: how the values of the columns were distributed in the rows of a fit, so that other rows can be compared.

A profile counts rows of the sample that bins are made from, so it is the same on every engine. It has no values of
rows: each bin and each category that it counts has at least FEWEST_ROWS rows, and edges lie between values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from .._base.sums import Array
from .._base.types import AnyArray
from .._tree.bins import between, sample_of
from .tables import Categories

MOST_COLUMNS = 1_000
"""Further columns have no profile."""
MOST_CATEGORIES = 50
"""Categories that are counted, the first ones; all others are counted together."""
MOST_NUMBERS = 20_000
"""Values of the sample that the bins of a numeric column are made from."""
FEWEST_ROWS = 10
SHARES = (0.005, *(k / 10 for k in range(1, 10)), 0.995)
"""Shares of the values below the edges: deciles, and two tails."""
COLUMNS_AT_ONCE = 16
"""Columns of sparse matrices that are copied at a time."""

Counts = NDArray[np.int64]


class ColumnProfile(NamedTuple):
    """The distribution of a column."""

    edges: Array
    """Of bins of numbers: bin k has the values at or below edge k and above the one before it. Empty for categories."""
    counts: Counts
    """Rows per bin; for categories, rows by code, and of all other categories in the last place."""
    n_missing: int


Profile = Sequence[ColumnProfile]
"""Those of the first columns of a table."""


def profile_of_table(X: Any, n_columns: int, categories: Categories) -> Profile:
    """The profile of the first columns of a matrix of numbers."""
    chosen = sample_of(X.shape[0])
    rows = np.arange(X.shape[0]) if chosen is None else chosen
    counts = {f: counts_of_codes(X[rows, f], len(known)) for f, known in categories.of.items()}
    return profile_of_sample(X[rows[thinned(len(rows))]], len(rows), n_columns, counts)


def profile_of_sample(some: Any, n_rows: int, n_columns: int, categories: Mapping[int, Counts]) -> Profile:
    """The profile of a sample of n_rows rows, of which `some` are given.

    Of categorical columns, only the counts by code are used; the last of these is that of unknown categories.
    """
    shown = range(min(n_columns, MOST_COLUMNS))
    found = {f: _of_numbers(column) for f, column in _columns(some, [f for f in shown if f not in categories])}
    found |= {f: _of_categories(counts, n_rows) for f, counts in categories.items() if f in shown}
    return [found[f] for f in shown]


def profile_like(known: ColumnProfile, values: AnyArray, is_category: bool) -> ColumnProfile:
    """The profile of other values of a column with the bins or categories of a known one; NaN is a missing value."""
    present = values[~np.isnan(values)]
    n = len(known.counts)
    if is_category:
        counts = np.bincount(np.minimum(present, n - 1).astype(np.int64), minlength=n)
        counts = _rare_together(counts, known.counts[:-1] > 0)
    else:
        counts = np.bincount(np.searchsorted(known.edges, present), minlength=n)
    return ColumnProfile(known.edges, counts, len(values) - len(present))


def thinned(n_rows: int) -> slice:
    """The rows of a sample that bins of numbers are made from."""
    return slice(None, None, max(1, -(-n_rows // MOST_NUMBERS)))


def counts_of_codes(codes: AnyArray, n_categories: int) -> Counts:
    """The number of rows by code; unknown categories follow the last one."""
    return np.bincount(codes[~np.isnan(codes)].astype(np.int64), minlength=n_categories + 1)


def _columns(X: Any, features: list[int]) -> Iterator[tuple[int, AnyArray]]:
    """Some columns of a matrix of any kind."""
    if not issparse(X):
        dense = np.asarray(X)
        yield from ((f, dense[:, f]) for f in features)
        return
    by_column = X.tocsc()
    for first in range(0, len(features), COLUMNS_AT_ONCE):
        some = features[first : first + COLUMNS_AT_ONCE]
        yield from zip(some, by_column[:, some].toarray(order="F").T, strict=True)


def _of_numbers(column: AnyArray) -> ColumnProfile:
    values = np.sort(column.astype(np.float64))  # NaN last
    n = len(values) - int(np.isnan(values).sum())
    cuts = _cuts(values[:n])
    edges = between(values[cuts - 1], values[cuts])
    return ColumnProfile(edges, np.diff(cuts, prepend=0, append=n), len(values) - n)


def _cuts(values: Array) -> NDArray[np.int64]:
    """The places in ascending values at which bins begin, except for the first; a frequent value has its own bin."""
    n, cuts = len(values), [0]
    if n < 2 * FEWEST_ROWS:
        return np.zeros(0, dtype=np.int64)
    places = np.clip(np.rint(np.array(SHARES) * n).astype(np.int64), FEWEST_ROWS, n - FEWEST_ROWS)
    at = values[places]
    for place in np.union1d(np.searchsorted(values, at, "left"), np.searchsorted(values, at, "right")).tolist():
        if place - cuts[-1] >= FEWEST_ROWS and n - place >= FEWEST_ROWS:
            cuts.append(place)
    return np.array(cuts[1:], dtype=np.int64)


def _of_categories(counts: Counts, n_rows: int) -> ColumnProfile:
    """The profile of a column with these counts by code, that of unknown categories last."""
    listed = np.append(counts[:-1][:MOST_CATEGORIES], counts[:-1][MOST_CATEGORIES:].sum() + counts[-1])
    return ColumnProfile(np.zeros(0), _rare_together(listed, listed[:-1] >= FEWEST_ROWS), n_rows - int(counts.sum()))


def _rare_together(counts: Counts, kept: NDArray[np.bool_]) -> Counts:
    """Counts of which those that are not kept are added to the last one."""
    kept = np.append(kept, True)
    found = np.where(kept, counts, 0)
    found[-1] += counts[~kept].sum()
    return found
