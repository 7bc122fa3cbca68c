"""Preparation of training: turns tables, blocks of rows or partitions into an objective and a fitter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_y

from . import _native
from ._core.learners import Fitter, Learner
from ._core.losses import Array
from ._core.objective import LocalObjective, Objective, start_residual
from ._core.weights import Weights, check_sample_weight
from ._data.batches import blocks_of
from ._data.blocks import (
    BlockReader,
    Blocks,
    BlockTable,
    Gathered,
    LocalBlocks,
    Looked,
    OneTable,
    Places,
    WithValidation,
    check_columns,
    dense,
    gather,
    naming,
)
from ._data.derivation import Derivation, has_more_than_numbers, look
from ._data.offsets import added, check_both
from ._data.reader import TableReader
from ._data.rows import VALIDATION, Given, RemoteMatrix, Rows, RowSet, plain
from ._data.tables import Categories, as_table, categorical_mask, named_mask
from ._labels import Labels, StartScores
from ._model import FittedModel
from ._parameters import check_scores
from ._planning import Part, Planning
from ._run import Member, Plan, Run
from ._storage.identity import identity_of
from ._tree import TableFitter, TreeLearner


class RowSource(Protocol):
    """Where the rows are: on this machine, or on the machines of a cluster."""

    in_this_process: bool
    """Whether kernels run in this process, on its threads."""

    def blocks_of(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> tuple[Blocks, Any, Any, Any] | None:
        """The blocks of X, and y, weights and offsets of all rows unless the blocks contain them; None for a table."""

    def bind(self, rows: BlockRows, learner: TreeLearner, local: LocalObjective) -> tuple[Objective[Any], Fitter[Any]]:
        """The objective and the fitter for binned blocks; `local` is the objective without features."""


@dataclass(frozen=True, eq=False)
class BlockRows:
    """Blocks of rows, with the objects that read bin codes, labels and start scores from them."""

    table: BlockTable
    reader: BlockReader
    labels: Labels
    start_scores: StartScores
    constants: Array | None
    """The constants of the start function; None if it is an init model."""
    has_offsets: bool


class LocalRows:
    """Rows on this machine; see RowSource."""

    in_this_process = True

    def blocks_of(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> tuple[Blocks, Any, Any, Any] | None:
        """See RowSource."""
        return blocks_of(X, y, sample_weight, offset)

    def bind(
        self, rows: BlockRows, learner: TreeLearner, local: LocalObjective
    ) -> tuple[Objective[Array], Fitter[Array]]:
        """See RowSource."""
        matrix = self._encoded(rows, learner)
        return local, learner.bind_codes(rows.reader.bins, matrix, local.n_train, local.train_weights)

    def _encoded(self, rows: BlockRows, learner: TreeLearner) -> _native.BinnedMatrix:
        table, reader = rows.table, rows.reader
        blocks = table.blocks.training if isinstance(table.blocks, WithValidation) else table.blocks
        return table.encode(reader, cast(LocalBlocks, blocks).folder, learner.n_threads)

    def bind_table(
        self, X: Any, learner: Learner, local: LocalObjective, again: Callable[[], Any] | None
    ) -> tuple[Objective[Any], Fitter[Any]]:
        """The objective and the fitter for a table.

        `again` makes the table again when it is needed, so that it need not be kept; None to keep it.
        """
        fitter = learner.bind(X, local.n_train, local.train_weights, start_residual(local))
        if again is not None and isinstance(fitter, TableFitter):
            fitter.release(again)
        return local, fitter


class Preparation(Planning):
    """Prepares runs of an estimator; `settings` is the estimator with its parameters."""

    def __init__(
        self, settings: Any, kind: type[Labels], earlier: FittedModel | None, source: RowSource | None = None,
        updated: FittedModel | None = None,
    ) -> None:  # fmt: skip
        """See Planning."""
        self._source = LocalRows() if source is None else source
        super().__init__(settings, kind, earlier, self._source.in_this_process, updated)

    def run(self, given: Given, validation: Given | None, watched: Mapping[str, Given]) -> Run:
        """A run on X of any supported type."""
        blocks = self._source.blocks_of(*given)
        if blocks is None:
            return self._on_table(given, validation, watched)
        check_scores(self._settings.scoring, watched, self._source.in_this_process)
        return self._on_blocks(*blocks, None if validation is None else self._validation_blocks(validation))

    # Tables.

    def _on_table(self, given: Given, validation: Given | None, watched: Mapping[str, Given]) -> Run:
        X = given.X
        reader, checked, y, sample_weight = self._check_table(X, given.y, given.weight)
        kept, weights, labels, encoded = self._weigh(y, sample_weight)
        loss = self._loss(labels)
        start_scores = StartScores(self._settings.init, labels, loss)
        start = added(start_scores(X), labels.encode_offset(given.offset, len(y)))
        if encoded.shape[-1] < len(y):
            checked, start = checked[kept], None if start is None else start[:, kept]
        rows = Rows(plain(checked), encoded, weights, start)
        categorical = np.array(sorted(reader.categories.of), dtype=np.intp)  # their codes look like numbers

        def identity(parts: dict[str, str]) -> str:
            return identity_of(parts, [categorical, *rows.arrays()])

        plan = self._plan(reader, labels, loss, rows.y, validation is not None, identity)
        n_given = rows.n
        others = watched if validation is None else {VALIDATION: validation, **watched}
        for name, more in others.items():
            name_of_offset = "offset_val" if name == VALIDATION else f"offset of watch[{name!r}]"
            check_both(given.offset is not None, more.offset is not None, name_of_offset)
            rows = rows.followed_by(*_rows_of(name, more, reader, labels, start_scores))

        def member(number: int, order: NDArray[np.intp] | None, n_train: int) -> Member:
            ordered, seed = rows if order is None else rows.take(order), plan.seed_of(number)
            f0, objective = self._objective(plan, labels, ordered, n_train)
            learner = self._learner(plan, reader, labels, objective, seed)
            # Dropout needs the features in every iteration.
            again = None if order is None or self._settings.dropout > 0.0 else lambda: rows.take(order).X
            here = cast(LocalRows, self._source)  # the rows of others are in blocks
            bound, fitter = here.bind_table(ordered.X, learner, objective, again)
            return Member(f0, bound, learner, fitter, seed, plan.earlier_of(number))

        members = make_members(plan, member, self._parts(plan, labels, rows.y[..., :n_given]))
        return Run(plan, reader, labels, members, rows.watched)

    def _check_table(self, X: Any, y: Any, sample_weight: Any) -> tuple[TableReader, Any, NDArray[Any], Any]:
        """The reader of the table, and the checked X, y and weights."""
        y = dense(y)
        self._recognise(y)
        self._kind.check(y)
        numeric = self._kind.numeric
        if self._known is not None:
            reader = self._known.reader
            checked, y = reader.numbers_and_labels(X, y, numeric)
        else:
            table, wanted = as_table(X), self._settings.categorical_features
            if isinstance(table, RemoteMatrix) and named_mask(table, wanted).any():
                X = table = np.asarray(table)  # the list of categories is made in this process
            weight = None
            if sample_weight is not None and has_more_than_numbers(table):
                weight = check_sample_weight(sample_weight, table)
            derivation = Derivation.of([look(table, weight)], named_mask(table, wanted))
            mask = derivation.others(categorical_mask(table, wanted))
            reader = TableReader.of_columns(self._estimator, X).with_derivation(derivation)
            reader = reader.with_categories(Categories.learn(table, mask, weight))
            checked, y = reader.numbers_and_labels(X, y, numeric)
        return reader, checked, y, None if sample_weight is None else check_sample_weight(sample_weight, checked)

    # Blocks of rows.

    def _on_blocks(
        self, blocks: Blocks, y: Any, sample_weight: Any, offset: Any, validation: tuple[Blocks, Any, Any, Any] | None
    ) -> Run:
        """A run on blocks; y, weights and offsets are those of all rows, or None if the blocks contain them.

        In `rows`, X contains the indices of the rows instead of their features.
        """
        if self._settings.learner is not None:
            raise ValueError(
                f"learner={self._settings.learner!r} needs all rows at once; use learner=None, or pass X as a table."
            )
        given = gather(blocks, y, sample_weight, offset)
        reader, labels, rows, sample_weight = self._check_blocks(blocks, given)
        if not self._source.in_this_process:
            labels.check_partitions(rows.y, _block_of_rows(given, rows.X))
        start_scores = StartScores(self._settings.init, labels, self._loss(labels))
        table = BlockTable(blocks, Places(given.n_rows, rows.X, rows.n))

        def identity(parts: dict[str, str]) -> str:
            return identity_of(parts, [*rows.arrays()[1:], *self._digested(table, reader, start_scores)])

        plan = self._plan(reader, labels, start_scores.loss, rows.y, validation is not None, identity)
        n_rows, n_given = given.n_rows, rows.n
        if validation is not None:
            gathered, following = _validation_labels(labels, *validation, given)
            if not self._source.in_this_process:
                with naming("X_val"):
                    labels.check_partitions(following[2], _block_of_rows(gathered, np.arange(gathered.total)))
            rows = rows.followed_by(*following)
            n_rows = n_rows + gathered.n_rows
            blocks = WithValidation(blocks, validation[0], len(given.n_rows))

        known: TableReader | None = None

        def member(number: int, order: NDArray[np.intp] | None, n_train: int) -> Member:
            nonlocal known
            ordered, seed = rows if order is None else rows.take(order), plan.seed_of(number)
            table = BlockTable(blocks, Places(n_rows, ordered.X, n_train))
            weights = None if ordered.weights is None else ordered.weights[:n_train]
            looked = self._look(table, reader, start_scores, sample_weight, weights)
            if known is None:  # the categories are those of all rows, the same for every member
                known = reader.with_categories(looked.categories)
            ordered = replace(ordered, start=added(looked.start, ordered.start))
            f0, objective = self._objective(plan, labels, ordered, n_train)
            learner = cast(TreeLearner, self._learner(plan, known, labels, objective, seed))
            bins = table.bins(looked, learner, objective.train_weights, start_residual(objective))
            del looked  # frees the memory of the sample before the matrix is allocated
            constants = f0 if isinstance(f0, np.ndarray) else None
            has_offsets, codes = given.offset is not None, BlockReader(known.numbers, bins)
            block_rows = BlockRows(table, codes, labels, start_scores, constants, has_offsets)
            bound, fitter = self._source.bind(block_rows, learner, objective)
            return Member(f0, bound, learner, fitter, seed, plan.earlier_of(number))

        members = make_members(plan, member, self._parts(plan, labels, rows.y[..., :n_given]))
        return Run(plan, cast(TableReader, known), labels, members, rows.watched)

    def _check_blocks(self, blocks: Blocks, given: Gathered) -> tuple[TableReader, Labels, Rows, NDArray[Any] | None]:
        """The reader, the labels, the rows with positive weight, by index, and the sample weights of all rows."""
        if self._known is None:
            reader = TableReader.of_columns(self._estimator, given.head)
        else:
            reader = self._known.reader
            reader.check_columns(given.head)
        if given.y is None:
            raise ValueError("y=None: pass the labels of all rows, or batches (X, y).")
        y = dense(given.y)
        self._recognise(y)
        self._kind.check(y)
        numeric = self._kind.numeric
        y = _check_y(y, multi_output=numeric, y_numeric=numeric, estimator=self._estimator)
        sample_weight = None if given.weight is None else check_sample_weight(given.weight, y)
        kept, weights, labels, encoded = self._weigh(y, sample_weight)
        if given.more_than_numbers and self._known is None:
            named = named_mask(given.head, self._settings.categorical_features)
            every_row = BlockTable(blocks, Places(given.n_rows, np.arange(len(y)), len(y)))
            reader = reader.with_derivation(every_row.derivation(named, sample_weight))
        offset = labels.encode_offset(given.offset, len(y))
        rows = Rows(np.arange(len(y))[kept], encoded, weights, None if offset is None else offset[:, kept])
        return reader, labels, rows, sample_weight

    def _validation_blocks(self, validation: Given) -> tuple[Blocks, Any, Any, Any]:
        """Blocks of validation rows, and their labels, weights and offsets unless the blocks contain them."""
        with naming("X_val"):
            found = self._source.blocks_of(*validation)
        return (OneTable(as_table(validation.X), None), *validation[1:]) if found is None else found

    def _look(
        self,
        table: BlockTable,
        reader: TableReader,
        start_scores: StartScores,
        sample_weight: NDArray[Any] | None,
        train_weights: Weights | None,
    ) -> Looked:
        known = None if self._known is None else self._known.reader.categories
        wanted = self._settings.categorical_features
        return table.look(wanted, start_scores, sample_weight, train_weights, known, reader.derivation)

    def _digested(self, table: BlockTable, reader: TableReader, start_scores: StartScores) -> Iterator[NDArray[Any]]:
        """The arrays by which a checkpoint recognises the features of blocks: categories, a sample, scores of init.

        The sample does not contain categories. Instead, each row gets a random weight, and the sums of these weights
        per category show whether the same rows have the same categories.
        """
        n_rows = table.places.n_train
        largest = 2 ** (52 - n_rows.bit_length())  # such that sums are exact
        random = Weights(np.random.default_rng(0).integers(1, largest, n_rows), None)
        looked = self._look(table, reader, start_scores, None, random)
        yield np.array([repr(looked.categories.of)])
        yield from looked.category_weight.values()
        yield np.asarray(looked.sample, dtype=np.float64)
        yield from ([] if looked.start is None else [looked.start])


def make_members(plan: Plan, make: Callable[..., Member], parts: Sequence[Part]) -> list[Member]:
    """All members; those that have the rows of the first in the same order differ from it only in their seeds."""
    members: list[Member] = []
    for number, order, n_train in parts:
        first = members[0] if members and order is None else None
        with_learner = None if first is None else getattr(first.fitter, "with_learner", None)
        if first is None or with_learner is None:
            members.append(make(number, order, n_train))
            continue
        seed = plan.seed_of(number)
        learner = replace(cast(TreeLearner, first.learner), seed=seed)
        fitter = with_learner(learner)
        members.append(first._replace(learner=learner, fitter=fitter, seed=seed, earlier=plan.earlier_of(number)))
    return members


def _rows_of(
    name: str, given: Given, reader: TableReader, labels: Labels, start_scores: StartScores
) -> tuple[RowSet, Any, Array, Array | None]:
    """The features, encoded labels and init scores of validation rows, or of others that are watched."""
    watched = name != VALIDATION
    with naming(f"watch[{name!r}]" if watched else "X_val"):
        numbers = reader.numbers(given.X)
        weight = None if given.weight is None else check_sample_weight(given.weight, numbers).astype(np.float64)
    with naming(f"watch[{name!r}]") if watched else nullcontext():  # these errors name y_val and offset_val
        y = labels.encode_validation(given.y, numbers.shape[0])
        if weight is not None:
            labels.check_weights(y.T, weight, "sample_weight" if watched else "sample_weight_val")
        offset = labels.encode_offset(given.offset, numbers.shape[0], "offset" if watched else "offset_val")
    return RowSet(name, numbers.shape[0], weight), numbers, y, added(start_scores(given.X), offset)


def _block_of_rows(given: Gathered, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """The number of the block of each of some rows."""
    return np.searchsorted(np.cumsum(given.n_rows), rows, side="right")


def _validation_labels(
    labels: Labels, blocks: Blocks, y_val: Any, weight: Any, offset: Any, given: Gathered
) -> tuple[Gathered, tuple[RowSet, NDArray[np.intp], Array, Array | None]]:
    """The validation rows without their features; and with weights, by index, their encoded labels, and offsets."""
    with naming("X_val"):
        gathered = gather(blocks, y_val, weight, offset, "y_val")
        check_columns(gathered.head, given.head, "X")
        found = None if gathered.weight is None else check_sample_weight(gathered.weight, gathered.y).astype(float)
    check_both(given.offset is not None, gathered.offset is not None, "offset_val")
    n = gathered.total
    encoded, offsets = labels.encode_validation(gathered.y, n), labels.encode_offset(gathered.offset, n, "offset_val")
    if found is not None:
        labels.check_weights(encoded.T, found, "sample_weight_val")
    return gathered, (RowSet(VALIDATION, n, found), given.total + np.arange(n), encoded, offsets)
