"""Preparation of training: turns tables, blocks of rows or partitions into an objective and a fitter."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from .._base.identity import identity_of
from .._base.sums import Array
from .._base.weights import Weights, check_sample_weight
from .._core.learners import Fitter, Learner
from .._core.objective import LocalObjective, Objective, start_residual
from .._core.ring import Ring, RingPart
from .._data.batches import blocks_of
from .._data.blocks import (
    BlockReader,
    Blocks,
    BlockTable,
    Gathered,
    Labelled,
    LocalBlocks,
    LocalLabelled,
    Looked,
    OneTable,
    WithValidation,
    bins_of_all,
    check_columns,
    dense,
    gather,
    look_at_columns,
    naming,
)
from .._data.derivation import Derivation, has_more_than_numbers, look
from .._data.digest import RowDigest, Shape, digest_of_table
from .._data.offsets import added, check_both
from .._data.reader import TableReader
from .._data.rows import VALIDATION, Given, RemoteMatrix, Rows, RowSet, plain
from .._data.tables import Categories, as_table, categorical_mask, column_names, named_mask
from .._labels.base import Labels, StartScores
from .._model.fitted import FittedModel
from .._tree import BinnedTable, CodedRows, TreeFitter, TreeLearner
from .checks import check_scores
from .label_steps import (
    Begun,
    LabelSteps,
    Weighed,
    before,
    check_groups,
    digest,
    encode_validation,
    in_shared_order,
    numbered,
    of_member,
    sample_weights_of,
    weigh_at_random,
)
from .planning import Planning, Units
from .run import Member, Plan, Run


class RowSource(Protocol):
    """Where the rows are: on this machine, or on the machines of a cluster."""

    in_this_process: bool
    """Whether kernels run in this process, on its threads."""
    gives_digests: bool
    """Whether models have a digest of the rows, from which single rows may be guessed."""

    def blocks_of(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> tuple[Blocks, Any, Any, Any] | None:
        """The blocks of X, and y, weights and offsets of all rows unless the blocks contain them; None for a table."""

    def labelled(
        self, blocks: Blocks, y: Any, sample_weight: Any, offset: Any, name_of_y: str = "y"
    ) -> tuple[Gathered, Labelled]:
        """The blocks with labels, weights and offsets; the first result may have none of their rows."""

    def bind(self, rows: BlockRows, learner: TreeLearner) -> tuple[Objective[Any], Fitter[Any]]:
        """The objective and the fitter for binned blocks; adds all rows to their digest, if they have one."""


@dataclass(frozen=True, eq=False)
class BlockRows:
    """Blocks of rows with their objective, with the object that reads bin codes from them."""

    table: BlockTable
    reader: BlockReader
    labels: Labels
    plan: Plan
    begun: Begun
    digest: RowDigest | None
    """Empty at first; None if another member has it, or nobody."""
    shared: SharedBlocks
    """What members on this machine share."""

    @property
    def shape(self) -> Shape | None:
        """The shape of the digest, if there is one."""
        return None if self.digest is None else self.digest.shape

    @property
    def objective(self) -> LocalObjective:
        """The objective of rows that are all in this process."""
        return cast(LocalObjective, cast(LocalLabelled, self.table.labelled).here.objective)

    @property
    def part(self) -> RingPart:
        """Which rows these are, if all are in this process."""
        return cast(LocalLabelled, self.table.labelled).here.part or RingPart(self.objective.n_train)


@dataclass(eq=False)
class SharedBlocks:
    """Blocks of rows on this machine, which are binned once for all members."""

    table: BlockTable
    """All rows, in the order that members share."""
    reader: BlockReader
    crowded: Sequence[int]
    """Features with more categories than bins, which every member bins itself."""
    digest: RowDigest | None
    """To which all rows are added when they are binned."""
    _coded: CodedRows | None = None

    def coded(self, own: BlockReader, n_threads: int) -> CodedRows:
        """The rows with the bins of a member."""
        labelled = cast(LocalLabelled, self.table.labelled)
        blocks = labelled.blocks.training if isinstance(labelled.blocks, WithValidation) else labelled.blocks
        folder = cast(LocalBlocks, blocks).folder
        if self._coded is None:
            matrix = self.table.encode(self.reader, folder, self.digest, n_threads, self.crowded)
            ring = labelled.here.ring
            self._coded = CodedRows(self.reader.bins, matrix, None if ring is None else ring.order)
        if not self.crowded:
            return self._coded
        grouped = {f: own.bins.grouped[f] for f in self.crowded}
        bins, matrix = self.reader.bins.with_own_categories(self._coded.matrix, grouped, folder)
        self.table.encode_categories(replace(self.reader, bins=bins), matrix, self.crowded, n_threads)
        return CodedRows(bins, matrix, self._coded.order)


class LocalTable:
    """A table on this machine, for all members of a model."""

    def __init__(self, X: Any, n_given: int, weights: Weights | None, ring: Ring | None) -> None:
        """X has n_given rows with these weights, and then others."""
        self._X = X
        self._n_given = n_given
        self._weights = weights
        self._order = None if ring is None else ring.order
        self._binned: BinnedTable | None = None

    def bind(self, learner: Learner, part: RingPart, local: LocalObjective) -> tuple[Objective[Any], Fitter[Any]]:
        """The objective and the fitter of a member."""
        residual = start_residual(local)
        if not isinstance(learner, TreeLearner):
            return local, learner.bind(self._in_order(part), part.n_train, local.train_weights, residual)
        if self._binned is None:
            self._binned = BinnedTable(learner, self._X, self._n_given, self._weights, self._order)
        return local, self._binned.bind(learner, part, local.train_weights, residual)

    def _in_order(self, part: RingPart) -> Any:
        """X in the order of a member."""
        if self._order is None:
            return self._X
        return self._X[part.turned(np.append(self._order, np.arange(self._n_given, self._X.shape[0])))]


class LocalRows:
    """Rows on this machine; see RowSource."""

    in_this_process = True
    gives_digests = True

    def blocks_of(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> tuple[Blocks, Any, Any, Any] | None:
        """See RowSource."""
        return blocks_of(X, y, sample_weight, offset)

    def labelled(
        self, blocks: Blocks, y: Any, sample_weight: Any, offset: Any, name_of_y: str = "y"
    ) -> tuple[Gathered, Labelled]:
        """See RowSource."""
        given = gather(cast(LocalBlocks, blocks), y, sample_weight, offset, name_of_y)
        return given, LocalLabelled(blocks, given, given.n_rows)

    def bind(self, rows: BlockRows, learner: TreeLearner) -> tuple[Objective[Array], Fitter[Array]]:
        """See RowSource."""
        local, coded = rows.objective, rows.shared.coded(rows.reader, learner.n_threads)
        return local, TreeFitter(learner, coded, rows.part, local.train_weights)

    def table(self, X: Any, n_given: int, weights: Weights | None, ring: Ring | None) -> LocalTable:
        """A table, of which n_given rows have these weights, and others follow."""
        return LocalTable(X, n_given, weights, ring)


class Preparation(Planning):
    """Prepares runs of an estimator; `settings` is the estimator with its parameters."""

    def __init__(
        self, settings: Any, kind: type[Labels], earlier: FittedModel | None, source: RowSource | None = None,
        updated: FittedModel | None = None, seed: int | None = None, alone: bool = True,
    ) -> None:  # fmt: skip
        """See Planning."""
        self._source = LocalRows() if source is None else source
        super().__init__(settings, kind, earlier, self._source.in_this_process, updated, seed, alone)

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

        plan = self._plan(reader, labels, loss, Units.of(labels, rows.y), validation is not None, identity)
        n_given = rows.n
        others = watched if validation is None else {VALIDATION: validation, **watched}
        for name, more in others.items():
            name_of_offset = "offset_val" if name == VALIDATION else f"offset of watch[{name!r}]"
            check_both(given.offset is not None, more.offset is not None, name_of_offset)
            rows = rows.followed_by(*_rows_of(name, more, reader, labels, start_scores))

        ring = self._ring(plan, labels, rows.y[..., :n_given])
        parts = [RingPart(n_given)] * plan.n_members if ring is None else ring.parts
        on_ring = None if ring is None else replace(rows, X=None).on_ring(ring)
        here = cast(LocalRows, self._source)  # the rows of others are in blocks
        table = here.table(rows.X, n_given, rows.weights, ring)

        def member(number: int) -> Member:
            part, seed = parts[number], plan.seed_of(number)
            of_member = rows if on_ring is None else on_ring.of(part)
            f0, objective = self._objective(plan, labels, of_member, part.n_train)
            learner = self._learner(plan, reader, labels, objective, seed)
            bound, fitter = table.bind(learner, part, objective)
            return Member(f0, bound, learner, fitter, seed, plan.earlier_of(number))

        members = make_members(plan, member, parts)
        n_watched = sum(of.n for of in rows.watched)
        data = digest_of_table(rows, n_given, rows.n - n_watched, labels.n_outputs, self._n_threads)
        return Run(plan, reader, labels, members, rows.watched, data)

    def _check_table(self, X: Any, y: Any, sample_weight: Any) -> tuple[TableReader, Any, NDArray[Any], Any]:
        """The reader of the table, and the checked X, y and weights."""
        y = dense(y)
        self._recognise(y)
        self._kind.check(y)
        y, numeric = self._kind.exact(y), self._kind.numeric
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
            looks = [look(table, weight)]
            derivation = Derivation.of(looks, named_mask(table, wanted))
            derivation.warn_of_unread(looks, column_names(table))
            mask = derivation.others(categorical_mask(table, wanted))
            reader = TableReader.of_columns(self._estimator, X).with_derivation(derivation)
            reader = reader.with_categories(Categories.learn(table, mask, weight))
            checked, y = reader.numbers_and_labels(X, y, numeric)
        return reader, checked, y, None if sample_weight is None else check_sample_weight(sample_weight, checked)

    # Blocks of rows.

    def _on_blocks(
        self, blocks: Blocks, y: Any, sample_weight: Any, offset: Any, validation: tuple[Blocks, Any, Any, Any] | None
    ) -> Run:
        """A run on blocks; y, weights and offsets are those of all rows, or None if the blocks contain them."""
        if self._settings.learner is not None:
            raise ValueError(
                f"learner={self._settings.learner!r} needs all rows at once; use learner=None, or pass X as a table."
            )
        given, labelled = self._source.labelled(blocks, y, sample_weight, offset)
        reader = self._reader_of(given)
        steps = self.without_callbacks(LabelSteps)
        labelled, weighed = labelled.step(steps.weigh)
        for planning in (self, steps):
            planning.adopt(weighed[0].kind, weighed[0].learned)
        labels, n_used = weighed[0].labels, [found.n_used for found in weighed]
        labelled, _ = labelled.step(numbered, each=before(n_used))
        if not self._source.in_this_process:
            labelled.step(check_groups, labels, each=labelled.numbers)
        if given.more_than_numbers and self._known is None:
            reader = self._deriving(reader, given, labelled)
        start_scores = StartScores(self._settings.init, labels, self._loss(labels))
        following, weighs_validation = None, False
        if validation is not None:
            following, weighs_validation = self._validation_of(validation, given, weighed)
        if not isinstance(start_scores.init, str):
            labelled = labelled.with_start(start_scores)
            following = None if following is None else following.with_start(start_scores)

        def identity(parts: dict[str, str]) -> str:
            return identity_of(parts, self._digested(labelled, n_used, reader))

        plan = self._plan(reader, labels, start_scores.loss, weighed[0].units, validation is not None, identity)
        if following is not None:
            labelled = labelled.followed_by(following)
            n_used += [0] * (len(labelled.numbers) - len(n_used))  # some processes have validation rows only
        step = 1.0 if weighed[0].no_weights is None else weighed[0].no_weights.step
        looked = self._look(BlockTable(labelled, n_used), reader, step)
        known = reader.with_categories(looked.categories)
        bins, crowded = bins_of_all(looked, self._settings.max_bins, plan.n_threads)
        looked = replace(looked, sample=looked.sample[:0])  # frees its memory before the matrix is allocated
        data = self._empty_digest(weighed, following, known)
        light = plan._replace(earlier=())  # it is sent to other processes
        labelled, n_train = labelled.step(steps.divide, light, labels)
        in_order, _ = labelled.step(in_shared_order)
        shared = SharedBlocks(BlockTable(in_order, n_used), BlockReader(known.numbers, bins), crowded, data)

        def member(number: int) -> Member:
            seed = plan.seed_of(number)
            rows, _ = labelled.step(of_member, number)
            rows, begun = rows.step(steps.begin, light, labels, weighs_validation)
            table = BlockTable(rows, [of_process[number] for of_process in n_train])
            learner = self._tree_learner(plan, known, labels, sum(table.n_train), begun[0].l2, seed)
            own = table.own_categories(looked, crowded, learner.max_bins, learner.min_category_rows)
            own_reader = BlockReader(known.numbers, bins.with_categories(own) if own else bins)
            digest = data if number == 0 else None
            block_rows = BlockRows(table, own_reader, labels, plan, begun[0], digest, shared)
            bound, fitter = self._source.bind(block_rows, learner)
            return Member(begun[0].start, bound, learner, fitter, seed, plan.earlier_of(number))

        members = make_members(plan, member, range(plan.n_members) if plan.held_out else [0] * plan.n_members)
        return Run(plan, known, labels, members, (), data)

    def _empty_digest(
        self, weighed: Sequence[Weighed], following: Labelled | None, reader: TableReader
    ) -> RowDigest | None:
        """A digest for all rows of blocks, to which none has been added; `following` are those of X_val."""
        if not self._source.gives_digests:
            return None
        n_given = sum(found.n_used for found in weighed)
        n_validation = 0 if following is None else sum(following.n_rows)
        first = weighed[0]
        return RowDigest.of(Shape(n_given, n_validation, first.n_labels, first.labels.n_outputs, reader.n_features))

    def _reader_of(self, given: Gathered) -> TableReader:
        """The reader of the columns of blocks."""
        if self._known is None:
            reader = TableReader.of_columns(self._estimator, given.head)
        else:
            reader = self._known.reader
            reader.check_columns(given.head)
        if given.y is None:
            raise ValueError("y=None: pass the labels of all rows, or batches (X, y).")
        return reader

    def _deriving(self, reader: TableReader, given: Gathered, labelled: Labelled) -> TableReader:
        """The reader, for columns that are no numbers as well."""
        named = named_mask(given.head, self._settings.categorical_features)
        looks = labelled.over(look_at_columns, sample_weights_of)
        derivation = Derivation.of(looks, named)
        derivation.warn_of_unread(looks, column_names(given.head))
        return reader.with_derivation(derivation)

    def _validation_of(
        self, validation: tuple[Blocks, Any, Any, Any], given: Gathered, weighed: Sequence[Weighed]
    ) -> tuple[Labelled, bool]:
        """The blocks of X_val with their labels, and whether they have weights."""
        with naming("X_val"):
            gathered, following = self._source.labelled(*validation, "y_val")
            check_columns(gathered.head, given.head, "X")
        check_both(given.offset is not None, gathered.offset is not None, "offset_val")
        labels, n_used = weighed[0].labels, sum(found.n_used for found in weighed)
        firsts = [n_used + sum(following.n_rows[:number]) for number in following.numbers]
        following, _ = following.step(encode_validation, labels, weighed[0].no_weights, each=firsts)
        if not self._source.in_this_process:
            with naming("X_val"):
                following.step(check_groups, labels, each=following.numbers)
        return following, gathered.weight is not None

    def _validation_blocks(self, validation: Given) -> tuple[Blocks, Any, Any, Any]:
        """Blocks of validation rows, and their labels, weights and offsets unless the blocks contain them."""
        with naming("X_val"):
            found = self._source.blocks_of(*validation)
        return (OneTable(as_table(validation.X), None), *validation[1:]) if found is None else found

    def _look(self, table: BlockTable, reader: TableReader, step: float) -> Looked:
        known = None if self._known is None else self._known.reader.categories
        return table.look(self._settings.categorical_features, step, known, reader.derivation)

    def _digested(self, labelled: Labelled, n_used: list[int], reader: TableReader) -> Iterator[NDArray[Any]]:
        """The arrays by which a checkpoint recognises rows: a digest of labels, categories, and a sample.

        The sample does not contain categories. Instead, each row gets a random weight, and the sums of these weights
        per category show whether the same rows have the same categories.
        """
        labelled, digests = labelled.step(digest)
        yield np.array([digests[0]], dtype=np.uint64)
        labelled, _ = labelled.step(weigh_at_random)
        looked = self._look(BlockTable(labelled, n_used), reader, 1.0)
        yield np.array([repr(looked.categories.of)])
        yield from looked.category_weight.values()
        yield np.asarray(looked.sample, dtype=np.float64)


def make_members(plan: Plan, make: Callable[[int], Member], parts: Sequence[Hashable]) -> list[Member]:
    """All members; those that have the same part of the rows differ only in their seeds."""
    members: list[Member] = []
    for number, part in enumerate(parts):
        first = members[parts.index(part)] if part in parts[:number] else None
        with_learner = None if first is None else getattr(first.fitter, "with_learner", None)
        if first is None or with_learner is None:
            members.append(make(number))
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
