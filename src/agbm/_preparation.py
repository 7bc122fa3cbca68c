"""Preparation of training: turns tables, blocks of rows or partitions into an objective and a fitter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_y

from ._core.learners import Fitter
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
    gather,
    naming,
)
from ._data.reader import TableReader
from ._data.rows import VALIDATION, Given, Rows, RowSet, plain
from ._data.tables import Categories, as_table, categorical_mask
from ._labels import Labels, StartScores
from ._model import FittedModel
from ._parameters import check_scores
from ._planning import Part, Planning
from ._run import Member, Plan, Run
from ._storage.identity import identity_of
from ._tree import TableFitter, TreeFitter, TreeLearner


class RowSource(Protocol):
    """Where the rows are: on this machine, or on the machines of a cluster."""

    in_this_process: bool
    """Whether kernels run in this process, on its threads."""

    def blocks_of(self, X: Any, y: Any, sample_weight: Any) -> tuple[Blocks, Any, Any] | None:
        """The blocks of X, and y and sample_weight of all rows unless the blocks contain them; None for a table."""

    def bind(self, rows: BlockRows, learner: TreeLearner, local: LocalObjective) -> tuple[Objective[Any], Fitter[Any]]:
        """The objective and the fitter for binned blocks; `local` is the objective without features."""


@dataclass(frozen=True, eq=False)
class BlockRows:
    """Blocks of rows, with the objects that read bin codes, labels and start scores from them."""

    table: BlockTable
    reader: BlockReader
    labels: Labels
    start_scores: StartScores


class LocalRows:
    """Rows on this machine; see RowSource."""

    in_this_process = True

    def blocks_of(self, X: Any, y: Any, sample_weight: Any) -> tuple[Blocks, Any, Any] | None:
        """See RowSource."""
        return blocks_of(X, y, sample_weight)

    def bind(
        self, rows: BlockRows, learner: TreeLearner, local: LocalObjective
    ) -> tuple[Objective[Array], Fitter[Array]]:
        """See RowSource."""
        table, reader = rows.table, rows.reader
        blocks = table.blocks.training if isinstance(table.blocks, WithValidation) else table.blocks
        matrix = table.encode(reader, cast(LocalBlocks, blocks).folder, learner.n_threads)
        return local, learner.bind_codes(reader.bins, matrix, local.n_train, local.train_weights)


class Preparation(Planning):
    """Prepares runs of an estimator; `settings` is the estimator with its parameters."""

    def __init__(
        self, settings: Any, kind: type[Labels], earlier: FittedModel | None, source: RowSource | None = None
    ) -> None:
        """`kind` is the type of the labels; `earlier` is the model to continue from with warm_start."""
        self._source = LocalRows() if source is None else source
        super().__init__(settings, kind, earlier, self._source.in_this_process)

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
        reader, checked, y, sample_weight = self._check_table(*given)
        kept, weights, labels, encoded = self._weigh(y, sample_weight)
        loss = self._loss(labels)
        start_scores = StartScores(self._settings.init, labels, loss)
        start = start_scores(X)
        if encoded.shape[-1] < len(y):
            checked, start = checked[kept], None if start is None else start[:, kept]
        rows = Rows(plain(checked), encoded, weights, start)
        categorical = np.array(sorted(reader.categories.of), dtype=np.intp)  # their codes look like numbers

        def identity(parts: dict[str, str]) -> str:
            return identity_of(parts, [categorical, *rows.arrays()])

        plan = self._plan(reader, labels, loss, rows.n, validation is not None, identity)
        n_given = rows.n
        others = watched if validation is None else {VALIDATION: validation, **watched}
        for name, more in others.items():
            rows = rows.followed_by(*_rows_of(name, more, reader, labels, start_scores))

        def member(number: int, order: NDArray[np.intp] | None, n_train: int) -> Member:
            ordered, seed = rows if order is None else rows.take(order), plan.seed_of(number)
            f0, objective = self._objective(plan, labels, ordered, n_train)
            learner = self._learner(plan, reader, labels, objective, seed)
            fitter = learner.bind(ordered.X, n_train, objective.train_weights, start_residual(objective))
            if order is not None and isinstance(fitter, TableFitter) and self._settings.dropout == 0.0:
                fitter.release(lambda: rows.take(order).X)  # dropout needs them in every iteration
            return Member(f0, objective, learner, fitter, seed, plan.earlier_of(number))

        members = make_members(plan, member, self._parts(plan, labels, rows.y[..., :n_given]))
        return Run(plan, reader, labels, members, rows.watched)

    def _check_table(self, X: Any, y: Any, sample_weight: Any) -> tuple[TableReader, Any, NDArray[Any], Any]:
        """The reader of the table, and the checked X, y and weights."""
        self._kind.check(y)
        numeric = self._kind.numeric
        if self._earlier is not None:
            reader = self._earlier.reader
            checked, y = reader.numbers_and_labels(X, y, numeric)
        else:
            table = as_table(X)
            mask = categorical_mask(table, self._settings.categorical_features)
            weight = None if sample_weight is None or not mask.any() else check_sample_weight(sample_weight, table)
            categories = Categories.learn(table, mask, weight)
            reader, checked, y = TableReader.of_table(self._estimator, X, y, categories, numeric)
        return reader, checked, y, None if sample_weight is None else check_sample_weight(sample_weight, checked)

    # Blocks of rows.

    def _on_blocks(self, blocks: Blocks, y: Any, sample_weight: Any, validation: tuple[Blocks, Any, Any] | None) -> Run:
        """A run on blocks; y and sample_weight are those of all rows, or None if the blocks contain them.

        In `rows`, X contains the indices of the rows instead of their features.
        """
        if self._settings.learner is not None:
            raise ValueError(
                f"learner={self._settings.learner!r} needs all rows at once; use learner=None, or pass X as a table."
            )
        given = gather(blocks, y, sample_weight)
        reader, labels, rows, sample_weight = self._check_blocks(given)
        start_scores = StartScores(self._settings.init, labels, self._loss(labels))
        table = BlockTable(blocks, Places(given.n_rows, rows.X, rows.n))

        def identity(parts: dict[str, str]) -> str:
            return identity_of(parts, [*rows.arrays()[1:], *self._digested(table, start_scores)])

        plan = self._plan(reader, labels, start_scores.loss, rows.n, validation is not None, identity)
        n_rows, n_given = given.n_rows, rows.n
        if validation is not None:
            gathered, encoded, weight = _validation_labels(labels, *validation, given)
            indices = given.total + np.arange(gathered.total)
            rows = rows.followed_by(RowSet(VALIDATION, gathered.total, weight), indices, encoded, None)
            n_rows = n_rows + gathered.n_rows
            blocks = WithValidation(blocks, validation[0], len(given.n_rows))

        known: TableReader | None = None

        def member(number: int, order: NDArray[np.intp] | None, n_train: int) -> Member:
            nonlocal known
            ordered, seed = rows if order is None else rows.take(order), plan.seed_of(number)
            table = BlockTable(blocks, Places(n_rows, ordered.X, n_train))
            weights = None if ordered.weights is None else ordered.weights[:n_train]
            looked = self._look(table, start_scores, sample_weight, weights)
            if known is None:  # the categories are those of all rows, the same for every member
                known = reader.with_categories(looked.categories)
            f0, objective = self._objective(plan, labels, replace(ordered, start=looked.start), n_train)
            learner = cast(TreeLearner, self._learner(plan, known, labels, objective, seed))
            bins = table.bins(looked, learner, objective.train_weights, start_residual(objective))
            del looked  # frees the memory of the sample before the matrix is allocated
            block_rows = BlockRows(table, BlockReader(known.numbers, bins), labels, start_scores)
            bound, fitter = self._source.bind(block_rows, learner, objective)
            return Member(f0, bound, learner, fitter, seed, plan.earlier_of(number))

        members = make_members(plan, member, self._parts(plan, labels, rows.y[..., :n_given]))
        return Run(plan, cast(TableReader, known), labels, members, rows.watched)

    def _check_blocks(self, given: Gathered) -> tuple[TableReader, Labels, Rows, NDArray[Any] | None]:
        """The reader, the labels, the rows with positive weight, by index, and the sample weights of all rows."""
        if self._earlier is None:
            reader = TableReader.of_columns(self._estimator, given.head)
        else:
            reader = self._earlier.reader
            reader.check_columns(given.head)
        if given.y is None:
            raise ValueError("y=None: pass the labels of all rows, or batches (X, y).")
        self._kind.check(given.y)
        numeric = self._kind.numeric
        y = _check_y(given.y, multi_output=numeric, y_numeric=numeric, estimator=self._estimator)
        sample_weight = None if given.weight is None else check_sample_weight(given.weight, y)
        kept, weights, labels, encoded = self._weigh(y, sample_weight)
        return reader, labels, Rows(np.arange(len(y))[kept], encoded, weights, None), sample_weight

    def _validation_blocks(self, validation: Given) -> tuple[Blocks, Any, Any]:
        """Blocks of validation rows, and their labels and weights unless the blocks contain them."""
        with naming("X_val"):
            found = self._source.blocks_of(*validation)
        return (OneTable(as_table(validation.X), None), *validation[1:]) if found is None else found

    def _look(
        self,
        table: BlockTable,
        start_scores: StartScores,
        sample_weight: NDArray[Any] | None,
        train_weights: Weights | None,
    ) -> Looked:
        known = None if self._earlier is None else self._earlier.reader.categories
        return table.look(self._settings.categorical_features, start_scores, sample_weight, train_weights, known)

    def _digested(self, table: BlockTable, start_scores: StartScores) -> Iterator[NDArray[Any]]:
        """The arrays by which a checkpoint recognises the features of blocks: categories, a sample, scores of init.

        The sample does not contain categories. Instead, each row gets a random weight, and the sums of these weights
        per category show whether the same rows have the same categories.
        """
        n_rows = table.places.n_train
        largest = 2 ** (52 - n_rows.bit_length())  # such that sums are exact
        random = Weights(np.random.default_rng(0).integers(1, largest, n_rows), None)
        looked = self._look(table, start_scores, None, random)
        yield np.array([repr(looked.categories.of)])
        yield from looked.category_weight.values()
        yield np.asarray(looked.sample, dtype=np.float64)
        yield from ([] if looked.start is None else [looked.start])


def make_members(plan: Plan, make: Callable[..., Member], parts: Sequence[Part]) -> list[Member]:
    """All members; those that have the rows of the first in the same order differ from it only in their seeds."""
    members: list[Member] = []
    for number, order, n_train in parts:
        first = members[0] if members and order is None else None
        if first is None or not isinstance(first.fitter, TreeFitter):
            members.append(make(number, order, n_train))
            continue
        seed = plan.seed_of(number)
        learner = replace(cast(TreeLearner, first.learner), seed=seed)
        fitter = first.fitter.with_learner(learner)
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
    with naming(f"watch[{name!r}]") if watched else nullcontext():  # these errors name y_val
        y = labels.encode_validation(given.y, numbers.shape[0])
    return RowSet(name, numbers.shape[0], weight), numbers, y, start_scores(given.X)


def _validation_labels(
    labels: Labels, blocks: Blocks, y_val: Any, weight: Any, given: Gathered
) -> tuple[Gathered, Array, Array | None]:
    """The validation rows without their features, their encoded labels, and their weights."""
    with naming("X_val"):
        gathered = gather(blocks, y_val, weight, "y_val")
        check_columns(gathered.head, given.head, "X")
        found = None if gathered.weight is None else check_sample_weight(gathered.weight, gathered.y).astype(float)
    return gathered, labels.encode_validation(gathered.y, gathered.total), found
