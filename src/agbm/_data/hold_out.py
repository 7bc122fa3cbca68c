"""Test and validation rows, drawn by the same rule everywhere."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from functools import lru_cache, partial
from operator import add
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from .._base.collectives import combined, count, distinct, largest, ranked
from .._base.types import AnyArray
from .units import Keys

KEY_BITS = 48
"""Bits of a key that order the rows of a class; those above have the class."""
GOLDEN_RATIO = 0.6180339887498949
MOST_OF_SPARE = 0.5
"""The share of the rows that can be spared that may be held out, where most classes have few rows."""


def hold_out(
    n_rows: int, share: float, classes: AnyArray | None, seed: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Hold out a share of the rows, rounded up; returns the sorted indices of the remaining and the held-out rows.

    If `classes` are given, the split is stratified, and the remaining rows contain every class.
    """
    if math.ceil(share * n_rows) == 0:
        return np.arange(n_rows), np.arange(0)
    return both_parts(held_out_rows(n_rows, share, 1, classes, seed).rows(0))


def held_out_rows(
    n_rows: int,
    share: float,
    n_parts: int,
    classes: AnyArray | None,
    seed: int,
    groups: AnyArray | None = None,
    first: int = 0,
    some_without_effect: bool = False,
) -> HeldOut:
    """Several splits like that of `hold_out`, which hold out different rows, as far as possible.

    Whether a row is held out follows from a scrambled form of its number, since other processes may have other rows;
    `first` is the number of the first row here. The rows of every class, in the order of these forms, are evenly
    distributed over a line, of which each split gets the next piece, and the first ones again after the last. One row
    of a class always remains, and one is held out, unless there are many small classes. If there are `groups`, these
    are held out whole, and the same ones for any order of the rows; a group has the class of its rows that is rarest,
    or `some_without_effect`, those of class 0, have no effect on the loss.
    """
    if groups is not None:
        return _hold_out_groups(groups, share, n_parts, classes, seed, some_without_effect)
    numbers = np.arange(first, first + n_rows, dtype=np.uint64)
    return _held_out(numbers, share, n_parts, classes, seed)


class HeldOut(NamedTuple):
    """The rows that several parts hold out: for each part, those of neighbouring pieces; the first follows the last."""

    piece: NDArray[np.intp]
    """The piece of each row, from 1 on; 0 if no part holds it out."""
    arcs: Sequence[tuple[int, int]]
    """For each part, its first piece and the number of its pieces."""
    n_pieces: int

    def rows(self, part: int) -> NDArray[np.bool_]:
        """Which rows a part holds out."""
        first, n = self.arcs[part]
        return (self.piece > 0) & ((self.piece - first) % max(self.n_pieces, 1) < n)


def both_parts(held_out: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The indices of the remaining and of the held-out rows."""
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def _held_out(
    units: NDArray[np.uint64], share: float, n_parts: int, classes: AnyArray | None, seed: int, fewest: int = 1
) -> HeldOut:
    """The units that parts hold out; units are distinct numbers. Of a class, they hold out `fewest` or all but one."""
    codes = np.zeros(len(units), dtype=np.uint64)
    if classes is not None:
        codes = np.searchsorted(distinct(np.unique(classes)), classes).astype(np.uint64)
    n_classes = 1 + int(largest(codes, 0))
    sizes = combined(np.bincount(codes.astype(np.intp), minlength=n_classes), add)
    n = int(sizes.sum())
    wanted = math.ceil(share * n)
    if wanted == 0:
        return HeldOut(np.zeros(len(units), dtype=np.intp), [(1, 0)] * n_parts, 0)
    if wanted >= n:
        raise ValueError(f"{n} rows are too few to hold out {share} of them.")
    n_spare = n - len(sizes)  # one row of each class remains
    if n_spare == 0:
        raise ValueError(f"{n} rows are too few to hold out {share} of them and to keep a row of every class.")
    per_part = max(1.0, min(share * n, math.ceil(n_spare * max(share, MOST_OF_SPARE))))
    bounds, arcs = _pieces(sizes, per_part, n_parts, fewest)
    keys = codes << np.uint64(KEY_BITS) | scrambled(units, seed) >> np.uint64(64 - KEY_BITS)
    places = np.cumsum(sizes) - sizes + bounds
    ranks = np.unique(places[places < n])
    at = np.append(ranked(keys, ranks + 1.0), np.uint64(2**64 - 1))[np.searchsorted(ranks, places)]
    piece = np.zeros(len(units), dtype=np.intp)
    for start in at:
        piece += keys >= start[codes.astype(np.intp)]
    return HeldOut(piece % len(at), arcs, len(at) - 1)  # no part has those after the end of the line


def _pieces(
    sizes: NDArray[np.int64], per_part: float, n_parts: int, fewest: int
) -> tuple[NDArray[np.int64], list[tuple[int, int]]]:
    """The rows of each class before the start of every piece of the line, and before its end; and the arcs of HeldOut.

    No part has all rows of a class. If parts would have them because they are large and classes are small, one row of
    every class is not on the line.
    """
    ends = np.ceil(np.arange(n_parts + 1) * per_part - 1e-9).astype(np.int64)
    for used in (np.where(sizes > 1, sizes, 0), sizes - 1):
        length = int(used.sum())
        starts = np.unique(ends % length)
        covered = min(1.0, ends[-1] / length)
        bounds = np.array([_first_of_line(used, place, covered, fewest) for place in [*starts.tolist(), length]])
        n_pieces, of_piece = len(starts), np.diff(bounds, axis=0)
        firsts = np.searchsorted(starts, ends[:-1] % length)
        lasts = np.searchsorted(starts, (ends[1:] - 1) % length, side="right") - 1  # those of their last rows
        arcs = list(zip(firsts.tolist(), ((lasts - firsts) % n_pieces + 1).tolist(), strict=True))
        parts = [of_piece[(first + np.arange(n)) % n_pieces].sum(axis=0) for first, n in arcs]
        if all((of_part < sizes).all() for of_part in parts):
            break
    return bounds, [(first + 1, n) for first, n in arcs]


def _first_of_line(sizes: NDArray[np.int64], n: int, covered: float, fewest: int) -> NDArray[np.int64]:
    """How many rows of each class are among the first n of a line on which each class is evenly distributed.

    The rows of a class of size k are at (i + u) / k for i = 0, ..., k - 1. Every class has another u, so that small
    classes are not all at the same place. If the `covered` share of the line would have fewer than `fewest` rows of a
    class, it gets as many, or all but one.
    """
    shift = 0.25 + 0.5 * (np.arange(1, len(sizes) + 1) * GOLDEN_RATIO % 1.0)
    wanted = np.minimum(np.maximum(sizes - 1, 0), fewest)
    rare = sizes * covered < wanted

    def among(numbers: NDArray[np.int64], x: float) -> NDArray[np.int64]:
        return np.clip(np.ceil(x * numbers - shift), 0, numbers).astype(np.int64)

    def before(x: float) -> NDArray[np.int64]:
        if not rare.any():
            return among(sizes, x)
        apart = among(wanted, x / covered) + among(sizes - wanted, (x - covered) / (1 - covered))
        return np.where(rare, apart, among(sizes, x))

    low, high = 0.0, 1.0  # fewer than n rows are before the first, unless n is zero, and at least n before the second
    for _ in range(64):
        middle = (low + high) / 2
        low, high = (low, middle) if before(middle).sum() >= n else (middle, high)
    found = before(high) if n > 0 else np.zeros_like(sizes)
    # Rows of several classes may be at the same place; the surplus is that of the last ones.
    same = found - before(low)
    surplus = found.sum() - n
    later = np.cumsum(same[::-1])[::-1] - same
    return np.asarray(found - np.clip(surplus - later, 0, same))


def strata_of_numbers(y: NDArray[np.float64]) -> NDArray[np.intp] | None:
    """Classes for stratification: rows whose label is not that of the majority; None if there is no majority.

    A hold-out must neither contain all labels that differ, such as the few counts above zero, nor none of them. A row
    that differs in several outputs is in the class of the one in which the fewest rows do.
    """
    n_rows, differ = count(y.shape[-1]), []
    for of_output in y:
        medians = distinct(_median(of_output))  # of all processes; what most rows have is one of them
        counts = combined(np.array([np.count_nonzero(of_output == median) for median in medians]), add)
        differ += [of_output != median for median, n in zip(medians, counts, strict=True) if 2 * n > n_rows]
    if not differ:
        return None
    strata = np.zeros(y.shape[-1], dtype=np.intp)
    for output in np.argsort(-combined(np.count_nonzero(differ, axis=1), add), kind="stable"):
        strata[differ[output]] = output + 1
    return strata


def _median(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The median as an array; the larger one if there are two, empty if there are no numbers."""
    middle = len(x) // 2
    return np.partition(x, middle)[middle : middle + 1] if len(x) else x


def strata_of_queries(relevance: AnyArray, query: AnyArray) -> NDArray[np.intp]:
    """For each row, 1 if the documents of its query differ in relevance, and 0 if there is nothing to rank."""
    found, numbers = np.unique(query, return_inverse=True)
    lowest, highest = np.full(len(found), np.inf), np.full(len(found), -np.inf)
    np.minimum.at(lowest, numbers, relevance)
    np.maximum.at(highest, numbers, relevance)
    return (lowest < highest)[numbers].astype(np.intp)


def stratified_folds(
    strata: AnyArray, n_folds: int, seed: int | None = None, groups: Any = None
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """The training and test rows of each fold, with rows of all classes in proportion; in their order if seed is None.

    A class may have fewer rows than there are folds. If there are `groups`, folds consist of whole ones.
    """
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold  # slow to import

    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    folds = kind(n_folds, shuffle=seed is not None, random_state=seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        return list(folds.split(strata, strata, groups))


def scrambled(numbers: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Other 64 bits for each number, which look random and are distinct: the finalizer of SplitMix64."""
    bits = numbers + np.random.SeedSequence(seed).generate_state(1, np.uint64)
    bits = (bits ^ bits >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ bits >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return bits ^ bits >> np.uint64(31)


def hold_out_groups(
    groups: AnyArray, share: float, classes: AnyArray | None, seed: int, some_without_effect: bool = True
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Hold out whole groups of rows, the same ones for any order of the rows; the result is as that of `hold_out`."""
    return both_parts(_hold_out_groups(groups, share, 1, classes, seed, some_without_effect).rows(0))


def _hold_out_groups(
    groups: AnyArray, share: float, n_parts: int, classes: AnyArray | None, seed: int, some_without_effect: bool
) -> HeldOut:
    found, numbers = np.unique(groups, return_inverse=True)
    if classes is None:
        ranks, class_of_rank = np.zeros(len(found), dtype=np.intp), np.zeros(1, dtype=np.intp)
    else:
        known = distinct(np.unique(classes))
        codes = np.searchsorted(known, classes)
        sizes = combined(np.bincount(codes, minlength=len(known)), add)
        last = (known == 0) & some_without_effect
        class_of_rank = np.lexsort((sizes, last))  # the rarest class first
        ranks = np.full(len(found), len(sizes))
        np.minimum.at(ranks, numbers, np.argsort(class_of_rank)[codes])
    draw = partial(_drawn_groups, share, n_parts, seed, class_of_rank)
    everywhere, parts = combined((found, ranks), _merged_groups, draw)
    return cast(HeldOut, parts)._replace(piece=parts.piece[np.searchsorted(everywhere, groups)])


Groups = tuple[AnyArray, NDArray[np.intp]]
"""Groups in ascending order, and the rank of the rarest class of each."""


def _merged_groups(a: Groups, b: Groups) -> Groups:
    """The groups of two processes, which may both have rows of the same group."""
    found, numbers = np.unique(np.concatenate([a[0], b[0]]), return_inverse=True)
    ranks = np.full(len(found), np.iinfo(np.intp).max)
    np.minimum.at(ranks, numbers, np.concatenate([a[1], b[1]]))
    return found, ranks


def _drawn_groups(
    share: float, n_parts: int, seed: int, class_of_rank: NDArray[np.intp], groups: Groups
) -> tuple[AnyArray, HeldOut]:
    """All groups, and which of them each part holds out; their order matters, not their values."""
    found, ranks = groups
    try:
        # One for each part: its loss is not defined if none of its groups affects it.
        units = np.arange(len(found), dtype=np.uint64)
        return found, _held_out(units, share, n_parts, class_of_rank[ranks], seed, fewest=n_parts)
    except ValueError:
        raise ValueError(f"{len(found)} groups of rows are too few to hold out {share} of them.") from None


def time_windows(time: Keys, share: float, n_parts: int, least: float = 0.5) -> list[tuple[int, int]]:
    """For each part, the times (begin, end) of the rows that validate: a share of all, after those that train.

    The windows follow each other up to the last row, and overlap if the share `least` of the rows would not be before
    them. Rows of one time are in the same windows.
    """
    n_rows = count(len(time))
    n_held_out = min(max(1, math.ceil(share * n_rows)), n_rows - 1)
    last = n_rows - n_held_out
    first = max(last - (n_parts - 1) * n_held_out, min(int(least * n_rows), last)) if n_parts > 1 else last
    origins = np.linspace(first, last, n_parts).astype(np.intp)
    ends = np.minimum(origins + n_held_out, n_rows - 1)
    keys = ranked(time, np.concatenate([[1, n_rows], origins + 1, ends + 1])).tolist()
    (lowest, highest), begins, ends = keys[:2], keys[2 : 2 + n_parts], keys[2 + n_parts :]
    if lowest == highest:
        raise ValueError("time has one value only, so that no rows are later than others.")
    second = _next_time(time, lowest)
    windows = []
    for origin, begin, end in zip(origins.tolist(), begins, ends, strict=True):
        begin = max(begin, second)  # some rows train
        end = highest + 1 if origin + n_held_out >= n_rows else max(end, begin + 1)
        windows.append((begin, end))
    return windows


def time_folds(time: Keys, share: float, n_folds: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """For each fold, the rows before a window of time, and the rows of the window, which has this share of all."""
    windows = np.array(time_windows(time, share, n_folds, least=share), dtype=np.uint64)
    return [(np.flatnonzero(time < begin), np.flatnonzero((time >= begin) & (time < end))) for begin, end in windows]


def _next_time(time: Keys, after: int) -> int:
    """The first time after another one."""
    later = time[time > np.uint64(after)]
    return int(combined(int(later.min()) if len(later) else 2**64 - 1, min))


def seed_of(random_state: int | np.random.RandomState | None) -> int:
    """The seed of a fit, for the validation split and everything else that is random."""
    return _seed_of_integer(random_state) if type(random_state) is int else _first_draw(random_state)


def _first_draw(random_state: int | np.random.RandomState | None) -> int:
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


_seed_of_integer = lru_cache(64)(_first_draw)  # a new generator takes longer than a small tree
