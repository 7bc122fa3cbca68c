"""Tables that are never whole: blocks of rows, read again for every pass over them.

What is one number a row (labels, weights, where the row is in the binned matrix) is gathered for all rows, so that
everything done with these is what a fit on one table does. Of the features a first pass takes a sample for the
thresholds and the weights of the categories, and a second one takes the bins. What passes add up is whole numbers (see
sums.py), so that a model has the same bits for every cut of the rows into blocks.

Functions that passes call, their arguments and their results can be pickled and are small: blocks may be elsewhere.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import _safe_indexing, check_array

from .. import _native
from .._core.losses import Array
from .._core.sums import weight_step, whole_weights
from .._core.weights import Weights
from .._storage.identity import content_of
from .._tree.bins import Bins, GroupedCategories, means_of, residual_parts, sample_of
from .._tree.learner import TreeLearner
from .rows import plain
from .tables import (
    Categories,
    as_table,
    by_weight,
    categorical_mask,
    category_sums,
    column_names,
    contents,
    needs_reading,
)
from .tables import missing_columns as missing_columns_of

# The place of a row that is not in the matrix.
UNUSED = np.uint32(2**32 - 1)

# Rows and values of X that a block is recognised by: as many as take little time compared with their bins.
RECOGNISED_ROWS = 100, 1_000
RECOGNISED_VALUES = 1_000_000

NUMBERS = {"dtype": [np.float64, np.float32], "ensure_all_finite": False}


class Block(NamedTuple):
    """A part of the rows as its source gives it; labels and weights where the source has them."""

    X: Any
    y: Any = None
    weight: Any = None


class Labels(NamedTuple):
    """What is known of a block without its features."""

    n_rows: int
    y: NDArray[Any] | None
    weight: NDArray[Any] | None
    head: Any
    """X without its rows: for the names of its columns."""


class Seen(NamedTuple):
    """What a block is recognised by when it is read again: checksums of all labels and weights, and of some rows."""

    n_rows: int
    y: int
    sample_weight: int
    X: int

    @classmethod
    def of(cls, block: Block) -> Seen:
        """Of a block that `labels_of` takes."""
        X = as_table(block.X)
        y, weight = (None if given is None else np.asarray(given) for given in (block.y, block.weight))
        return cls(n_rows_of(X), _checksum([y]), _checksum([weight]), _checksum(contents(_some_rows(X))))

    def check(self, block: Block) -> None:
        """Raise a ValueError if a block is another one."""
        if n_rows_of(block.X) != self.n_rows:
            raise _changed(f"X has {n_rows_of(block.X)} rows, {self.n_rows} in the pass before")
        now = Seen.of(block)
        changed = [name for name in self._fields if getattr(now, name) != getattr(self, name)]
        if changed:
            verb = "has" if len(changed) == 1 else "have"
            raise _changed(f"{' and '.join(changed)} {verb} other values than in the pass before")


def _changed(how: str) -> ValueError:
    return ValueError(
        f"{how}. Blocks are read in several passes, and every pass must give the same rows in the same order: return a "
        "new iterator at every call, and fix the seed of a source that shuffles (of Dask: persist the collection)."
    )


def _checksum(arrays: Iterable[NDArray[Any] | None]) -> int:
    """Of arrays; it takes a fraction of the time of a digest, and nobody tries to deceive it."""
    checksum = 0
    for array in arrays:
        checksum = zlib.crc32(b"None" if array is None else content_of(array), checksum)
    return checksum


def _some_rows(X: Any) -> Any:
    """One of a hundred rows of X, within bounds, at equal distances."""
    n_rows, n_columns = X.shape
    fewest, most = RECOGNISED_ROWS
    n_some = min(max(fewest, n_rows // 100), most, max(1, RECOGNISED_VALUES // max(1, n_columns)), n_rows)
    rows = np.linspace(0, n_rows - 1, n_some).astype(np.intp)
    return X.tocsr()[rows] if issparse(X) else _safe_indexing(X, rows)


class Blocks(Protocol):
    """Blocks in the order of their rows, the same ones whenever they are read."""

    @property
    def noun(self) -> str:
        """What errors call a block."""

    def labels(self) -> list[Labels]:
        """What `labels_of` gives for each block."""

    def map(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """The results of function(block, *arguments[i]) for all blocks. Errors name the block."""


@contextmanager
def naming(*where: str | int) -> Iterator[None]:
    """Errors of a user's data with where they are from in front."""
    try:
        yield
    except (ValueError, TypeError) as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"{' '.join(map(str, where))}: {error}") from error


class LocalBlocks:
    """Blocks that this process reads, one at a time."""

    noun = "block"

    def __init__(
        self,
        read: Callable[[], Iterator[Block]],
        read_labels: Callable[[], Iterator[Labels]] | None = None,
        folder: str = "",
    ) -> None:
        """`read_labels` is there where labels can be read without all the rest; `folder` is for bins in files."""
        self._read = read
        self._read_labels = read_labels
        self._n_rows: list[int] | None = None
        self._seen: list[Seen] = []
        self.folder = folder

    def labels(self) -> list[Labels]:
        """See Blocks."""
        found = self.map(labels_of) if self._read_labels is None else list(self._read_labels())
        self._n_rows = [labels.n_rows for labels in found]
        return found

    def map(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """See Blocks."""
        results: list[Any] = []
        for i, block in enumerate(self._read()):
            with naming(self.noun, i):
                self._check_known(i, block)
                results.append(function(block, *(() if arguments is None else arguments[i])))
                if i == len(self._seen):
                    self._seen.append(Seen.of(block))
            del block
        if self._n_rows is not None and len(results) < len(self._n_rows):
            raise _changed(f"X has {len(results)} {self.noun}s, {len(self._n_rows)} in the pass before")
        return results

    def _check_known(self, i: int, block: Block) -> None:
        """Whether a block is the one of earlier passes, as far as these have seen it."""
        if self._n_rows is not None and i >= len(self._n_rows):
            raise _changed(f"X has more {self.noun}s than in the pass before ({len(self._n_rows)})")
        if i < len(self._seen):
            self._seen[i].check(block)
        elif self._n_rows is not None and n_rows_of(block.X) != self._n_rows[i]:
            raise _changed(f"X has {n_rows_of(block.X)} rows, {self._n_rows[i]} in the pass before")


class OneTable:
    """A table in memory as a single block, which no error has to name."""

    noun = "table"

    def __init__(self, X: Any, y: Any) -> None:
        self._block = Block(X, y)

    def labels(self) -> list[Labels]:
        """See Blocks."""
        return [labels_of(self._block)]

    def map(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """See Blocks."""
        return [function(self._block, *(() if arguments is None else arguments[0]))]


@dataclass
class WithValidation:
    """The blocks of the training rows and behind them those of the validation rows."""

    training: Blocks
    validation: Blocks
    n_training: int
    """Blocks."""

    @property
    def noun(self) -> str:
        """See Blocks."""
        return self.training.noun

    def labels(self) -> list[Labels]:
        """See Blocks."""
        return [*self.training.labels(), *self.validation.labels()]

    def map(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """See Blocks."""
        n = self.n_training
        results = self.training.map(function, None if arguments is None else arguments[:n])
        with naming("X_val"):
            return [*results, *self.validation.map(function, None if arguments is None else arguments[n:])]


def n_rows_of(X: Any) -> int:
    """Rows of a table of any kind."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def labels_of(block: Block) -> Labels:
    """Pass 0: everything but the features."""
    X = as_table(block.X)
    if len(getattr(X, "shape", ())) != 2:
        raise ValueError(f"X must be a table of rows and columns, got {type(X).__name__}.")
    n_rows = n_rows_of(X)
    vectors = []
    for name, given in (("y", block.y), ("sample_weight", block.weight)):
        vector = None if given is None else np.array(given)  # a copy: a view would keep the block
        if vector is not None and (vector.ndim == 0 or len(vector) != n_rows):
            raise ValueError(f"{name} has shape {vector.shape}, X has {n_rows} rows; give one entry for each row.")
        vectors.append(vector)
    return Labels(n_rows, vectors[0], vectors[1], _head(X))


def _head(X: Any) -> Any:
    """X without its rows and without their memory, which a slice would keep."""
    if hasattr(X, "iloc"):
        return type(X)(columns=X.columns)
    if hasattr(X, "schema"):
        return X.clear() if hasattr(X, "clear") else X.schema.empty_table()
    return X[:0].copy()


@dataclass(frozen=True, eq=False)
class Gathered:
    """The labels and weights of all rows."""

    n_rows: list[int]
    """Of each block."""
    y: Any
    weight: Any
    head: Any
    """Of a block."""

    @property
    def total(self) -> int:
        """Rows of all blocks."""
        return sum(self.n_rows)


def gather(blocks: Blocks, y: Any, weight: Any, name_of_y: str = "y") -> Gathered:
    """What is known without features; y and weight are of all rows, or None where the blocks have them."""
    parts = blocks.labels()
    full = [(i, part) for i, part in enumerate(parts) if part.n_rows > 0 or part.head.shape[1] > 0]
    if not any(part.n_rows for part in parts):
        raise ValueError(f"X has no rows in its {len(parts)} {blocks.noun}s; at least one row is needed.")
    first, known = full[0]
    for i, part in full[1:]:
        with naming(blocks.noun, i):
            check_columns(part.head, known.head, f"{blocks.noun} {first}")
    n_rows = [part.n_rows for part in parts]
    if sum(n_rows) >= UNUSED:
        raise ValueError(f"X has {sum(n_rows)} rows; there is place for {UNUSED - 1}: give fewer.")
    y = _joined(blocks.noun, name_of_y, [part.y for part in parts], n_rows) if y is None else y
    if weight is None and any(part.weight is not None for part in parts):
        weight = _joined(blocks.noun, "sample_weight", [part.weight for part in parts], n_rows)
    for name, given in ((name_of_y, y), ("sample_weight", weight)):
        if given is not None and n_rows_of(given) != sum(n_rows):
            raise ValueError(
                f"{name} has {n_rows_of(given)} rows, the {blocks.noun}s of X have {sum(n_rows)}; they must have as "
                "many."
            )
    return Gathered(n_rows, y, weight, known.head)


def check_columns(head: Any, known: Any, where: str) -> None:
    """Whether X has the columns of another table."""
    if head.shape[1] != known.shape[1]:
        raise ValueError(f"X has {head.shape[1]} columns, {where} has {known.shape[1]}; they must have the same.")
    names, known_names = _names(head), _names(known)
    if (names is None) != (known_names is None):
        raise ValueError(f"X has {'no ' if names is None else ''}column names, {where} has "
                         f"{'none' if known_names is None else 'some'}; they must have the same.")  # fmt: skip
    differing = [(i, a, b) for i, (a, b) in enumerate(zip(names or (), known_names or (), strict=True)) if a != b]
    if differing:
        i, name, known_name = differing[0]
        raise ValueError(
            f"column {i} of X is {name!r}, of {where} it is {known_name!r} ({len(differing)} columns differ); give the "
            "same columns in the same order."
        )


def _names(head: Any) -> list[Any] | None:
    return column_names(head) if hasattr(head, "columns") else None


def _joined(noun: str, name: str, parts: Sequence[NDArray[Any] | None], n_rows: Sequence[int]) -> NDArray[Any] | None:
    """The vectors of all blocks; None where none has one."""
    present = [part for part, n in zip(parts, n_rows, strict=True) if part is not None and n > 0]
    if not present:
        return None
    text = [part is not None and part.dtype.kind in "OUS" for part in parts]
    for i, (part, n) in enumerate(zip(parts, n_rows, strict=True)):
        with naming(noun, i):
            if n > 0 and part is None:
                raise ValueError(f"{name} is missing, other {noun}s have one.")
            if n > 0 and part is not None and part.shape[1:] != present[0].shape[1:]:
                raise ValueError(f"{name} has shape {part.shape}; other {noun}s have {present[0].shape[1:]} a row.")
            if n > 0 and part is not None and text[i] != (present[0].dtype.kind in "OUS"):
                raise ValueError(f"{name} has type {part.dtype}, other {noun}s have {present[0].dtype}.")
    return np.concatenate(present)


@dataclass(frozen=True, eq=False)
class Places:
    """Where the rows of the blocks are in the binned matrix: training rows first, watched rows behind."""

    n_rows: list[int]
    """Of each block."""
    order: NDArray[np.intp]
    """The rows of all blocks, counted through, in the order of the matrix; some may be left out.

    Training rows ascend, and so do watched rows.
    """
    n_train: int

    def of_blocks(self) -> list[NDArray[np.uint32]]:
        """For each block the places of its rows in the matrix; UNUSED for those that are left out."""
        place = np.full(sum(self.n_rows), UNUSED, dtype=np.uint32)
        place[self.order] = np.arange(len(self.order), dtype=np.uint32)
        return self.cut(place)

    def cut(self, rows: NDArray[Any]) -> list[NDArray[Any]]:
        """An array over all rows, cut into blocks."""
        return np.split(rows, np.cumsum(self.n_rows)[:-1])

    def sample(self) -> list[NDArray[np.intp]]:
        """For each block the training rows in it that thresholds come from; ascending, as in the matrix."""
        chosen = sample_of(self.n_train)
        rows = self.order[: self.n_train] if chosen is None else self.order[chosen]
        ends = np.cumsum(self.n_rows)
        parts = np.split(rows, np.searchsorted(rows, ends[:-1]))
        return [part - first for part, first in zip(parts, np.append(0, ends[:-1]), strict=True)]

    def training_rows(self, numbers: Array | None) -> list[NDArray[Any]]:
        """Numbers of training rows, in the order of the matrix, as those of the rows of each block; None is 1 for each.

        They are zero for the rows that are not for training.
        """
        rows = np.zeros(sum(self.n_rows), dtype=bool if numbers is None else np.float64)
        rows[self.order[: self.n_train]] = True if numbers is None else numbers
        return self.cut(rows)


class Look(NamedTuple):
    """What the first pass brings from a block."""

    n_rows: int
    categorical: NDArray[np.bool_]
    sums: dict[int, dict[Any, list[float]]]
    """For each categorical feature and category the weights of all rows and those of training rows, in steps."""
    sample: NDArray[Any]
    start: Array | None
    """Values of an init model on the rows."""


def look(
    block: Block,
    categorical_features: Any,
    start_values: Callable[[Any], Array | None],
    sample: NDArray[np.intp],
    weights: tuple[NDArray[Any], NDArray[Any]],
) -> Look:
    """Pass 1: some rows of a block for thresholds, and the weights of its categories: of all rows, of training rows."""
    table = as_table(block.X)
    n_rows = n_rows_of(table)
    if n_rows == 0:
        return Look(0, np.zeros(0, dtype=bool), {}, np.empty((0, table.shape[1]), dtype=np.float32), None)
    categorical = categorical_mask(table, categorical_features)
    sums = category_sums(table, categorical, weights) if categorical.any() else {}
    taken = np.empty((0, table.shape[1]), dtype=np.float32)
    if len(sample) > 0:
        taken = _numbers(_safe_indexing(table, sample), Categories({f: [] for f in sums}))
    return Look(n_rows, categorical, sums, taken, start_values(block.X))


def _numbers(table: Any, categories: Categories) -> NDArray[Any]:
    if issparse(table):
        return np.asarray(table.toarray())
    if not categories.of and not needs_reading(table):
        return np.asarray(check_array(table, **NUMBERS))
    return np.asarray(categories.encode(table))


def missing_columns(block: Block, features: Sequence[int]) -> list[int]:
    """Which of some features have no value in a block."""
    return missing_columns_of(as_table(block.X), features)


def residual_sums(
    block: Block, categories: Categories, features: Sequence[int], parts: Sequence[Array]
) -> dict[int, list[Array]]:
    """For features with more categories than bins: what the training rows of a block add to each of them."""
    sums = {}
    for f in features:
        n = len(categories.of[f])
        sums[f] = [np.zeros(n) for _ in parts]
        if n_rows_of(block.X) > 0:
            codes = categories.codes(as_table(block.X), f)
            present = codes < n  # not so for missing and unknown ones
            numbers = codes[present].astype(np.intp)
            sums[f] = [np.asarray(np.bincount(numbers, part[present], n), dtype=np.float64) for part in parts]
    return sums


@dataclass(frozen=True, eq=False)
class Looked:
    """What the first pass brings from all blocks."""

    categories: Categories
    category_weight: dict[int, Array]
    """Weights of the categories in the training rows, by their numbers."""
    sample: NDArray[Any]
    """Training rows that thresholds come from, in the order of the matrix."""
    start: Array | None
    """Values of an init model on all rows, in the order of the matrix."""


@dataclass
class BlockTable:
    """The rows of blocks, in the order of a binned matrix, without their features."""

    blocks: Blocks
    places: Places

    def look(
        self,
        categorical_features: Any,
        start_values: Callable[[Any], Array | None],
        sample_weight: NDArray[Any] | None,
        train_weights: Weights | None,
        known: Categories | None = None,
    ) -> Looked:
        """Pass 1. `sample_weight` is as it was given, without validation rows; `known` is of an earlier fit."""
        places = self.places
        whole, step = (None, 1.0) if train_weights is None else (train_weights.in_steps, train_weights.step)
        weights = zip(self._whole_weights(sample_weight), places.training_rows(whole), strict=True)
        features = categorical_features if known is None else sorted(known.of)
        arguments = [(features, start_values, *both) for both in zip(places.sample(), weights, strict=True)]
        looks: list[Look] = self.blocks.map(look, arguments)
        given = looks[: self._n_given_blocks]  # categories are not those of validation rows
        sums = merged([found.sums for found in given])
        if known is None:
            numbers = self._numbers_after_all(given)
            sums = {f: of_value for f, of_value in sums.items() if f not in numbers}
            known = Categories({f: by_weight({v: total for v, (total, _) in sums[f].items()}) for f in sums})
        starts = [found.start for found in looks if found.start is not None]
        start = np.concatenate(starts, axis=-1)[:, places.order] if starts else None
        category_weight = {f: _by_number(known.of[f], sums.get(f, {})) * step for f in known.of}
        return Looked(known, category_weight, np.concatenate([found.sample for found in looks]), start)

    def _whole_weights(self, sample_weight: NDArray[Any] | None) -> list[NDArray[Any]]:
        """Of each block; those of validation rows, behind the others, are zero."""
        whole = np.zeros(sum(self.places.n_rows), dtype=bool if sample_weight is None else np.float64)
        whole[: sum(self.places.n_rows[: self._n_given_blocks])] = (
            True if sample_weight is None else whole_weights(sample_weight, weight_step(sample_weight))
        )
        return self.places.cut(whole)

    @property
    def _n_given_blocks(self) -> int:
        """Blocks that are not for validation only."""
        return self.blocks.n_training if isinstance(self.blocks, WithValidation) else len(self.places.n_rows)

    def _numbers_after_all(self, looks: Sequence[Look]) -> set[int]:
        """Features with numbers that look like categories in blocks where all of them are missing.

        A feature has text or categories in all blocks, or in none; but for blocks where all of it is missing.
        """
        masks = np.array([found.categorical for found in looks if found.n_rows > 0])
        mixed = np.flatnonzero(masks.any(axis=0) & ~masks.all(axis=0)).tolist()
        if not mixed:
            return set()
        empty = self.blocks.map(missing_columns, [(mixed,) for _ in self.places.n_rows])
        full = [(i, found) for i, found in enumerate(looks) if found.n_rows > 0]
        after_all = {f for f in mixed if all(f in empty[i] for i, found in full if found.categorical[f])}
        for i, found in full:
            numbers = [f for f in mixed if f not in after_all and not found.categorical[f] and f not in empty[i]]
            if numbers:
                raise ValueError(
                    f"{self.blocks.noun} {i}: column {numbers[0]} of X has numbers, in other {self.blocks.noun}s it "
                    "has text or categories; give it one type, or name it in categorical_features."
                )
        return after_all

    def bins(self, looked: Looked, learner: TreeLearner, weights: Weights | None, residual: Array) -> Bins:
        """Those that a learner makes of the training rows with these weights and residuals (output, row)."""
        places, rows = self.places, sample_of(self.places.n_train)
        many = [f for f, total in looked.category_weight.items() if np.count_nonzero(total) > learner.max_bins]
        means: dict[int, Array] = {}
        if many:
            parts, steps = residual_parts(residual, weights)
            by_row = [places.training_rows(part) for part in parts]
            found = self.blocks.map(
                residual_sums,
                [(looked.categories, many, [part[i] for part in by_row]) for i in range(len(places.n_rows))],
            )
            for f in many:
                total = looked.category_weight[f]
                sums = [np.sum([sums[f][k][: len(total)] for sums in found], axis=0) for k in range(len(parts))]
                means[f] = means_of(sums, steps, total)
        grouped = {
            f: GroupedCategories.from_sums(total, means.get(f), learner.max_bins, learner.min_category_rows)
            for f, total in looked.category_weight.items()
        }
        of_sample = weights if rows is None or weights is None else weights[rows]
        return Bins.from_sample(looked.sample, None, learner.max_bins, of_sample, grouped, learner.n_threads)

    def encode(self, reader: BlockReader, folder: str, n_threads: int) -> _native.BinnedMatrix:
        """Pass 2, where blocks and matrix are on this machine; the matrix is in a folder's files if one is named."""
        matrix = reader.bins.matrix(len(self.places.order), folder)

        def fill(block: Block, places: NDArray[np.uint32]) -> None:
            reader.fill(matrix, block, places, n_threads)

        self.blocks.map(fill, [(places,) for places in self.places.of_blocks()])
        return matrix


def merged(parts: Sequence[dict[int, dict[Any, list[float]]]]) -> dict[int, dict[Any, list[float]]]:
    """Sums of categories of all blocks. Whole numbers that some blocks have as floats are floats."""
    total: dict[int, dict[Any, list[float]]] = {}
    for f in sorted({f for part in parts for f in part}):
        kinds = [{type(value) for value in part[f]} for part in parts if part.get(f)]
        mixed = {int} in kinds and {float} in kinds
        of_value = total.setdefault(f, {})
        for part in parts:
            for value, sums in part.get(f, {}).items():
                known = of_value.setdefault(float(value) if mixed else value, [0.0] * len(sums))
                of_value[value] = [a + b for a, b in zip(known, sums, strict=True)]
    return total


def _by_number(categories: Sequence[Any], sums: dict[Any, list[float]]) -> Array:
    """Weights of categories in training rows by number; one at least, as there is an unknown one after the last."""
    return np.array([sums.get(category, (0.0, 0.0))[1] for category in categories] or [0.0])


@dataclass(frozen=True, eq=False)
class BlockReader:
    """Pass 2: from blocks to codes. It can be pickled."""

    check: Callable[[Any], Any]
    """A table to a matrix of numbers, as the estimator checks and encodes tables."""
    bins: Bins

    def numbers(self, block: Block, used: NDArray[np.bool_]) -> NDArray[Any]:
        """The rows of a block that are used, as numbers."""
        if n_rows_of(block.X) == 0:
            return np.empty((0, self.bins.n_features))
        checked = self.check(block.X)
        rows = checked if used.all() else checked[used]
        return np.asarray(plain(rows.toarray() if issparse(rows) else rows))

    def fill(
        self,
        matrix: _native.BinnedMatrix,
        block: Block,
        places: NDArray[np.uint32],
        n_threads: int,
    ) -> None:
        """Put the codes of the rows of a block into places of a matrix, but for rows that are UNUSED."""
        used = places != UNUSED
        X = self.numbers(block, used)
        if len(X) > 0:
            self.bins.fill(matrix, X, places[used], n_threads)
