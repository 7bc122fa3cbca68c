"""Profiles in model files: the edges of the bins of all columns, one after the other, and the numbers of rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .._base.types import AnyArray
from .._data.profile import MOST_CATEGORIES, MOST_COLUMNS, ColumnProfile, Profile
from .._data.reader import TableReader
from .container import ModelFileError, Stored

MOST_EDGES = 64


def to_arrays(profile: Profile) -> dict[str, AnyArray]:
    """The sections of a profile."""
    sizes = [(len(column.edges), len(column.counts) + 1) for column in profile]
    counts = [np.append(column.counts, column.n_missing) for column in profile]
    return {
        "profile.size": np.array(sizes, dtype=np.int32).ravel(),
        "profile.edge": np.concatenate([column.edges for column in profile]),
        "profile.count": np.concatenate(counts).astype(np.int32),
    }


def restored(reader: TableReader, stored: Stored) -> Profile | None:
    """The profile in a file, checked; None in files without one."""
    if "profile.size" not in stored.names():
        return None
    most = min(reader.n_columns, MOST_COLUMNS)
    sizes = stored.array("profile.size", np.int32)
    edges, counts = stored.array("profile.edge", np.float64), stored.array("profile.count", np.int32)
    if len(sizes) % 2 or len(sizes) > 2 * most:
        raise ModelFileError(f"sizes: section 'profile.size' must have two numbers for each of at most {most} columns")
    n_edges, n_counts = sizes.reshape(-1, 2).T.astype(np.int64)
    if (n_edges < 0).any() or (n_edges > MOST_EDGES).any() or (n_counts != _counts_of(reader, n_edges)).any():
        raise ModelFileError("profile: section 'profile.size' must have the numbers of edges and counts of the columns")
    if n_edges.sum() != len(edges) or n_counts.sum() != len(counts):
        raise ModelFileError("sizes: section 'profile.size' does not add up to the numbers of edges and counts")
    if (counts < 0).any():
        raise ModelFileError("profile: counts must not be negative")
    parts = zip(_divided(edges, n_edges), _divided(counts.astype(np.int64), n_counts), strict=True)
    profile = [ColumnProfile(of_edges, of_counts[:-1], int(of_counts[-1])) for of_edges, of_counts in parts]
    if np.isnan(edges).any() or any((column.edges[1:] <= column.edges[:-1]).any() for column in profile):
        raise ModelFileError("profile: edges must be ascending numbers")
    return profile


def _counts_of(reader: TableReader, n_edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of counts of each column with these numbers of edges: one per bin, and that of missing values."""
    found = n_edges + 2
    for f, known in reader.categories.of.items():
        if f < len(found):
            found[f] = min(len(known), MOST_CATEGORIES) + 2 if n_edges[f] == 0 else -1
    return found


def _divided(values: AnyArray, sizes: NDArray[np.int64]) -> list[AnyArray]:
    ends = np.cumsum(sizes).tolist()
    return [values[begin:end] for begin, end in pairwise([0, *ends])]
