"""Test and validation rows, drawn by the same rule everywhere."""

from __future__ import annotations

import math
from functools import lru_cache
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from .._core.together import combined, count, distinct, largest, ranked

KEY_BITS = 48
"""Bits of a key that order the rows of a class; those above have the class."""
GOLDEN_RATIO = 0.6180339887498949
MOST_OF_SPARE = 0.5
"""The share of the rows that can be spared that may be held out, where most classes have few rows."""


def hold_out(
    n_rows: int, share: float, classes: NDArray[Any] | None, seed: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Hold out a share of the rows, rounded up; returns the sorted indices of the remaining and the held-out rows.

    If `classes` are given, the split is stratified, and the remaining rows contain every class.
    """
    if math.ceil(share * n_rows) == 0:
        return np.arange(n_rows), np.arange(0)
    return both_parts(held_out_rows(n_rows, share, 1, classes, seed)[0])


def held_out_rows(
    n_rows: int,
    share: float,
    n_parts: int,
    classes: NDArray[Any] | None,
    seed: int,
    groups: NDArray[Any] | None = None,
    first: int = 0,
) -> list[NDArray[np.bool_]]:
    """For each of several splits like that of `hold_out`, which rows are held out: other ones, as far as possible.

    Whether a row is held out follows from a scrambled form of its number, since other processes may have other rows;
    `first` is the number of the first row here. In the order of these forms, each part holds out the next rows of every
    class, and the first ones again after the last; one row of a class always remains. If there are `groups`, these are
    held out whole, and the same ones for any order of the rows; all rows of a group must be in one process.
    """
    if groups is not None:
        return _hold_out_groups(groups, share, n_parts, seed)
    numbers = np.arange(first, first + n_rows, dtype=np.uint64)
    return _held_out(numbers, share, n_parts, classes, seed)


def both_parts(held_out: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The indices of the remaining and of the held-out rows."""
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def _held_out(
    units: NDArray[np.uint64], share: float, n_parts: int, classes: NDArray[Any] | None, seed: int
) -> list[NDArray[np.bool_]]:
    """For each part, which units are held out; units are distinct numbers."""
    codes = np.zeros(len(units), dtype=np.uint64)
    if classes is not None:
        codes = np.searchsorted(distinct(np.unique(classes)), classes).astype(np.uint64)
    n_classes = 1 + int(largest(codes, 0))
    sizes = combined(np.bincount(codes.astype(np.intp), minlength=n_classes), add)
    n = int(sizes.sum())
    wanted = math.ceil(share * n)
    if wanted == 0:
        return [np.zeros(len(units), dtype=bool)] * n_parts
    if wanted >= n:
        raise ValueError(f"{n} rows are too few to hold out {share} of them.")
    n_spare = n - len(sizes)  # one row of each class remains
    if n_spare == 0:
        raise ValueError(f"{n} rows are too few to hold out {share} of them and to keep a row of every class.")
    bounds = _bounds(sizes, min(wanted, math.ceil(n_spare * max(share, MOST_OF_SPARE))), n_parts)
    keys = codes << np.uint64(KEY_BITS) | scrambled(units, seed) >> np.uint64(64 - KEY_BITS)
    ranks = np.unique(bounds[bounds < n])
    at = np.append(ranked(keys, ranks + 1.0), np.uint64(2**64 - 1))[np.searchsorted(ranks, bounds)]
    of_row = at[..., codes.astype(np.intp)]
    return [(low <= keys) & (keys < high) | (keys < again) for low, high, again in of_row]


def _bounds(sizes: NDArray[np.int64], wanted: int, n_parts: int) -> NDArray[np.int64]:
    """Ranks of keys (part, bound, class): each part holds out those from the first bound up to the second one.

    Those of the class before the third bound are held out again, after all others have been.
    """
    spare = np.append(0, np.cumsum(sizes - 1))
    shift = (np.arange(1, n_parts + 1) * GOLDEN_RATIO % 1.0)[:, np.newaxis]  # other roundings in every part
    numbers = np.diff(np.floor(spare * (wanted / spare[-1]) + shift).astype(np.int64), axis=1)
    start = np.mod(np.cumsum(numbers, axis=0) - numbers, sizes)
    end = start + numbers
    first = np.cumsum(sizes) - sizes
    return np.asarray(first + np.stack([start, np.minimum(end, sizes), np.maximum(end - sizes, 0)], axis=1))


def scrambled(numbers: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Other 64 bits for each number, which look random and are distinct: the finalizer of SplitMix64."""
    bits = numbers + np.random.SeedSequence(seed).generate_state(1, np.uint64)
    bits = (bits ^ bits >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ bits >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return bits ^ bits >> np.uint64(31)


def hold_out_groups(groups: NDArray[Any], share: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Hold out whole groups of rows, the same ones for any order of the rows; the result is as that of `hold_out`."""
    return both_parts(_hold_out_groups(groups, share, 1, seed)[0])


def _hold_out_groups(groups: NDArray[Any], share: float, n_parts: int, seed: int) -> list[NDArray[np.bool_]]:
    found, numbers = np.unique(groups, return_inverse=True)
    units = np.searchsorted(distinct(found), found).astype(np.uint64)  # their order matters, not their values
    try:
        parts = _held_out(units, share, n_parts, None, seed)
    except ValueError:
        raise ValueError(f"{count(len(found))} groups of rows are too few to hold out {share} of them.") from None
    return [held_out[numbers] for held_out in parts]


def seed_of(random_state: Any) -> int:
    """The seed of a fit, for the validation split and everything else that is random."""
    return _seed_of_integer(random_state) if type(random_state) is int else _first_draw(random_state)


def _first_draw(random_state: Any) -> int:
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


_seed_of_integer = lru_cache(64)(_first_draw)  # a new generator takes longer than a small tree
