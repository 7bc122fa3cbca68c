"""Test and validation rows, drawn by the same rule everywhere."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state


def hold_out(
    n_rows: int, share: float, classes: NDArray[Any] | None, seed: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Hold out a share of the rows, rounded up; returns the sorted indices of the remaining and the held-out rows.

    If `classes` are given, the split is stratified, and the remaining rows contain every class.
    """
    from sklearn.model_selection import train_test_split  # slow to import

    rows = np.arange(n_rows)
    wanted = math.ceil(share * n_rows)
    if wanted == 0:
        return rows, rows[:0]
    if wanted >= n_rows:
        raise ValueError(f"{n_rows} rows are too few to hold out {share} of them.")
    strata = _strata(classes, wanted)
    remaining, held_out = train_test_split(rows, test_size=wanted, stratify=strata, random_state=seed)
    if classes is not None:  # a class without remaining rows cannot be learned
        unseen = ~np.isin(classes[held_out], classes[remaining])
        remaining, held_out = np.concatenate([remaining, held_out[unseen]]), held_out[~unseen]
    if not len(held_out):
        raise ValueError(f"{n_rows} rows are too few to hold out {share} of them and to keep a row of every class.")
    return np.sort(remaining), np.sort(held_out)


def hold_out_parts(
    n_rows: int,
    share: float,
    n_parts: int,
    classes: NDArray[Any] | None,
    seed: int,
    groups: NDArray[Any] | None = None,
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Several splits as of `hold_out`, whose held-out rows differ as far as the share allows.

    The rows are in one random order, in which every run of consecutive rows is stratified by class; each part holds out
    the next `share` of them, and the first ones again after the last. If there are `groups`, these are held out whole,
    and the same ones for any order of the rows.
    """
    if groups is not None:
        return _hold_out_groups(groups, share, n_parts, seed)
    if n_parts == 1:
        return [hold_out(n_rows, share, classes, seed)]
    if math.ceil(share * n_rows) >= n_rows:
        raise ValueError(f"{n_rows} rows are too few to hold out {share} of them.")
    width = max(share * n_rows, 1.0)
    order = _stratified_order(n_rows, classes, np.random.default_rng(seed))
    parts = []
    for part in range(n_parts):
        taken = np.arange(round(part * width), round((part + 1) * width))
        held_out = np.zeros(n_rows, dtype=bool)
        held_out[order[taken % n_rows]] = True
        if classes is not None:  # a class without remaining rows cannot be learned
            held_out &= np.isin(classes, classes[~held_out])
        if classes is not None and not held_out.any():  # most classes have a single row
            spare = _spare(order, classes)
            held_out[spare[part % max(len(spare), 1) :: n_parts][: math.ceil(width)]] = True
        if not held_out.any():
            raise ValueError(f"{n_rows} rows are too few to hold out {share} of them and to keep a row of every class.")
        parts.append((np.flatnonzero(~held_out), np.flatnonzero(held_out)))
    return parts


def hold_out_groups(groups: NDArray[Any], share: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Hold out whole groups of rows, the same ones for any order of the rows; the result is as that of `hold_out`."""
    return _hold_out_groups(groups, share, 1, seed)[0]


def _hold_out_groups(
    groups: NDArray[Any], share: float, n_parts: int, seed: int
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    found, numbers = np.unique(groups, return_inverse=True)
    try:
        parts = hold_out_parts(len(found), share, n_parts, None, seed)
    except ValueError:
        raise ValueError(f"{len(found)} groups of rows are too few to hold out {share} of them.") from None
    held_out = [np.isin(numbers, of_part) for _, of_part in parts]
    return [(np.flatnonzero(~rows), np.flatnonzero(rows)) for rows in held_out]


def _spare(order: NDArray[np.intp], classes: NDArray[Any]) -> NDArray[np.intp]:
    """The rows, in the given order, without the first one of each class."""
    return np.delete(order, np.unique(classes[order], return_index=True)[1])


def _stratified_order(n_rows: int, classes: NDArray[Any] | None, rng: np.random.Generator) -> NDArray[np.intp]:
    """A random order of rows in which every run of consecutive rows has about the same share of each class."""
    if classes is None:
        return rng.permutation(n_rows)
    place = np.empty(n_rows)
    for value in np.unique(classes):
        rows = np.flatnonzero(classes == value)
        place[rows] = (rng.permutation(len(rows)) + rng.random()) / len(rows)
    return np.argsort(place, kind="stable")


def seed_of(random_state: Any) -> int:
    """The seed of a fit, for the validation split and everything else that is random."""
    return _seed_of_integer(random_state) if type(random_state) is int else _first_draw(random_state)


def _first_draw(random_state: Any) -> int:
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


_seed_of_integer = lru_cache(64)(_first_draw)  # a new generator takes longer than a small tree


def _strata(classes: NDArray[Any] | None, wanted: int) -> NDArray[Any] | None:
    """Classes for a stratified split; classes with a single row are merged into the largest class.

    None if one of the two parts would have fewer rows than there are classes.
    """
    if classes is None:
        return None
    _, codes, counts = np.unique(classes, return_inverse=True, return_counts=True)
    strata = np.where(counts[codes] == 1, counts.argmax(), codes)
    return strata if len(np.unique(strata)) <= min(wanted, len(classes) - wanted) else None
