"""Preparation of training: turns tables, blocks of rows or partitions into an objective and a fitter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_monotonic_cst, _check_y

from . import _auto, _threads
from ._core.ensemble import Ensemble
from ._core.learners import Fitter, Learner, RegressorLearner
from ._core.losses import Array, BuiltInLoss, Loss
from ._core.methods import method_of
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
from ._data.hold_out import hold_out_parts, seed_of
from ._data.reader import TableReader
from ._data.rows import VALIDATION, Given, Rows, RowSet, plain, weighted_rows
from ._data.tables import Categories, as_table, categorical_mask
from ._labels import Classes, Labels, StartScores
from ._model import FittedModel
from ._parameters import check_scores, interaction_groups, shaping_parameters
from ._run import Member, Plan, Run
from ._storage.checkpoint import Checkpoint
from ._storage.identity import fingerprints, identity_of
from ._tree import TableFitter, TreeFitter, TreeLearner

Part = tuple[int, "NDArray[np.intp] | None", int]
"""The number of a member, the order of its rows with training rows first (None: as given), and their number."""


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


class Preparation:
    """Prepares runs of an estimator; `settings` is the estimator with its parameters."""

    def __init__(
        self, settings: Any, kind: type[Labels], earlier: FittedModel | None, source: RowSource | None = None
    ) -> None:
        """`kind` is the type of the labels; `earlier` is the model to continue from with warm_start."""
        self._settings = settings
        self._kind = kind
        self._earlier = earlier
        self._source = LocalRows() if source is None else source
        self._estimator = type(settings).__name__
        self._n_threads = _threads.resolve(settings.n_jobs)

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

        members = _members(plan, member, self._parts(plan, labels, rows.y[..., :n_given]))
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

        members = _members(plan, member, self._parts(plan, labels, rows.y[..., :n_given]))
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

    # Common to tables and blocks.

    def _weigh(self, y: NDArray[Any], sample_weight: NDArray[Any] | None) -> tuple[Any, Weights | None, Labels, Array]:
        """The rows with positive weight, their weights times those of their classes, their labels, and these encoded.

        Rows of weight zero must not affect anything: neither bins nor classes nor a validation split.
        """
        kept: Any = slice(None)  # all rows, without copying
        if sample_weight is not None:
            kept = weighted_rows(sample_weight, "sample_weight")
            sample_weight = sample_weight[kept]
        of_class = None
        if issubclass(self._kind, Classes):
            of_class = self._kind.weights(self._settings.class_weight, y[kept], sample_weight)
        if of_class is not None:
            rows = weighted_rows(of_class, "class_weight")
            kept, of_class = np.arange(len(y))[kept][rows], of_class[rows]
            sample_weight = None if sample_weight is None else sample_weight[rows]
        labels, encoded = self._kind.learn(y[kept], None if self._earlier is None else self._earlier.labels)
        return kept, Weights.of(sample_weight, of_class), labels, encoded

    def _loss(self, labels: Labels) -> Loss:
        given = self._settings.loss
        loss: Any = labels.loss_of(given) if isinstance(given, str) else given
        return _with_threads(loss, self._n_threads)

    def _plan(
        self, reader: TableReader, labels: Labels, loss: Loss, n_rows: int, has_validation: bool,
        identity: Callable[[dict[str, str]], str],
    ) -> Plan:  # fmt: skip
        """The plan; `identity` combines the fingerprints of parameters with those of the rows."""
        settings, method = self._settings, method_of(self._settings.method)
        n_members = _auto.n_members(settings.n_members, method, settings.learner is None)
        stops_early = _auto.early_stopping(settings.early_stopping, n_rows, has_validation, n_members)
        held_out = stops_early and not has_validation and settings.validation_fraction is not None
        earlier, seed = self._earlier_run(reader, labels, held_out, identity)
        if earlier and len(earlier) != n_members:
            raise ValueError(f"The run to resume has {len(earlier)} members; n_members={settings.n_members!r} differs.")
        at_once, n_threads = 1, self._n_threads
        if settings.learner is None and isinstance(loss, BuiltInLoss) and self._source.in_this_process:
            at_once, n_threads = _threads.divide(n_threads, n_members)
        return Plan(
            method, loss, _auto.second_order(settings.second_order, method), self._max_iter(stops_early), stops_early,
            held_out, n_members, at_once, n_threads, earlier, seed,
        )  # fmt: skip

    def _max_iter(self, stops_early: bool) -> int:
        given, wanted = self._settings.max_iter, _auto.max_iter(self._settings.max_iter, stops_early)
        if self._earlier is not None and wanted < self._earlier.best_iteration:
            here = f" (here {wanted})" if isinstance(given, str) else ""
            raise ValueError(
                f"With warm_start=True, max_iter={given!r}{here} must be at least "
                f"best_iteration_={self._earlier.best_iteration}, the iterations that the model already has; use a "
                "larger value, or warm_start=False."
            )
        return wanted

    def _earlier_run(
        self, reader: TableReader, labels: Labels, held_out: bool, identity: Callable[[dict[str, str]], str]
    ) -> tuple[Sequence[Ensemble], int]:
        """The ensembles of the run to resume, from warm_start or a checkpoint, and its seed."""
        ensembles: Sequence[Ensemble] = ()
        seed = seed_of(self._settings.random_state)
        if self._earlier is not None:
            if held_out != self._earlier.held_out:
                held, given = ("no rows", "not given") if held_out else ("some rows", "given")
                raise ValueError(
                    f"warm_start=True needs the training rows of the previous fit, which held out {held} for early "
                    f"stopping; with X_val {given}, the training rows differ. Pass X_val as before, or use "
                    "warm_start=False."
                )
            ensembles, seed = self._earlier.ensembles, self._earlier.seed
        for checkpoint in checkpoints_of(self._settings):
            parts = self._fingerprints(checkpoint, reader, seed, held_out)
            saved = checkpoint.load(identity(parts), reader.n_features, labels.n_outputs)
            if saved is not None and len(saved[0][0]) > (len(ensembles[0]) if ensembles else 0):
                ensembles, seed = saved
        return ensembles, seed

    def _fingerprints(self, checkpoint: Checkpoint, reader: TableReader, seed: int, held_out: bool) -> dict[str, str]:
        """Fingerprints of everything except rows that the run of a checkpoint depends on."""
        settings, parameters = self._settings, shaping_parameters(self._settings)
        parameters["seed"] = seed if isinstance(settings.random_state, (int, np.integer)) else None
        parameters["held_out"] = held_out
        parameters["features"] = list(range(reader.n_features) if reader.names is None else reader.names)
        if not isinstance(settings.init, str):  # its scores are digested with the rows
            parameters["init"] = None
        with naming(repr(checkpoint)):
            return fingerprints(parameters)

    def _parts(self, plan: Plan, labels: Labels, y: Array) -> list[Part]:
        """The part of each member of the given rows."""
        n_given = y.shape[-1]
        if not plan.held_out:
            return [(number, None, n_given) for number in range(plan.n_members)]
        settings = self._settings
        try:
            parts = hold_out_parts(n_given, settings.validation_fraction, plan.n_members, labels.strata(y), plan.seed)
        except ValueError as error:
            raise ValueError(
                f"early_stopping={settings.early_stopping!r} with validation_fraction={settings.validation_fraction}: "
                f"{error} Pass X_val and y_val, or use early_stopping=False."
            ) from error
        return [(number, np.concatenate(part), len(part[0])) for number, part in enumerate(parts)]

    def _objective(self, plan: Plan, labels: Labels, rows: Rows, n_train: int) -> tuple[Any, LocalObjective]:
        """The start function, and the objective; the first n_train rows are for training."""
        rows.y.setflags(write=False)  # a user-defined loss must not change it
        for of_output in rows.y if rows.y.ndim == 2 else [rows.y]:  # the training labels, then all labels
            plan.loss.check(of_output[:n_train])
            plan.loss.check(of_output)
        start: Any = deepcopy(self._settings.init)  # a copy: the user may change the model later
        if isinstance(start, str):
            start = _start_constants(start, plan.loss, labels.n_outputs, rows.y[..., :n_train], rows.weights)
        scores = rows.start
        if scores is None:
            scores = np.broadcast_to(start[:, np.newaxis], (len(start), rows.n))
        joint = labels.joint(_with_threads(plan.loss, plan.n_threads))
        return start, LocalObjective(
            joint, rows.y, n_train, scores, None if rows.weights is None else rows.weights[:n_train],
            plan.second_order, plan.n_threads, rows.validation_weight(n_train),
            sum(row_set.n for row_set in rows.watched),
        )  # fmt: skip

    def _learner(
        self, plan: Plan, reader: TableReader, labels: Labels, objective: LocalObjective, seed: int
    ) -> Learner:
        if self._settings.learner is None:
            return self._tree_learner(plan, reader, labels, objective, seed)
        given = self._settings.learner
        learner = RegressorLearner(given, seed, labels.n_outputs)
        if reader.categories.of:
            raise ValueError(
                f"X has categorical features ({sorted(reader.categories.of)}), which work with trees only; got "
                f"learner={given!r}. Encode them, or use categorical_features=None."
            )
        if plan.second_order and not plan.loss.constant_hessian and not learner.takes_weights:
            raise ValueError(
                f"second_order=True needs a learner whose fit accepts sample_weight; got learner={given!r}. "
                "Use second_order=False."
            )
        return learner

    def _tree_learner(
        self, plan: Plan, reader: TableReader, labels: Labels, objective: LocalObjective, seed: int
    ) -> TreeLearner:
        settings, n = self._settings, objective.n_train
        n_categories = reader.categories.counts(reader.n_features)
        return TreeLearner(
            max_depth=settings.max_depth,
            max_leaf_nodes=_auto.max_leaf_nodes(settings.max_leaf_nodes, n, plan.loss, settings.max_depth),
            min_samples_leaf=_auto.min_samples_leaf(settings.min_samples_leaf, n),
            min_leaf_hessian=getattr(plan.loss, "min_leaf_hessian", 0.0),
            l2_regularization=_auto.l2_regularization(settings.l2_regularization, objective),
            min_split_gain=settings.min_split_gain,
            max_bins=settings.max_bins,
            shared_structure=plan.method.two_values_per_leaf,
            vector_leaves=settings.multi_strategy == "multi_output_tree",
            n_categories=n_categories,
            monotone=self._monotone(reader, labels, n_categories > 0),
            interactions=interaction_groups(settings.interaction_cst, reader.n_features),
            subsample=settings.subsample,
            colsample_bytree=settings.colsample_bytree,
            colsample_bynode=_auto.colsample_bynode(settings.colsample_bynode, plan.method),
            seed=seed,
            n_threads=plan.n_threads,
        )

    def _monotone(self, reader: TableReader, labels: Labels, categorical: NDArray[np.bool_]) -> Sequence[int]:
        """The monotonic constraint of each feature; empty if no feature is constrained."""
        given = self._settings.monotonic_cst
        monotone: NDArray[np.int8] = _check_monotonic_cst(reader.columns, given)
        both = np.flatnonzero((monotone != 0) & categorical)
        if len(both):
            raise ValueError(
                f"monotonic_cst={given!r}: features {both.tolist()} are categorical and have no order; use 0 for them."
            )
        if not monotone.any():
            return ()
        labels.check_monotone(given)
        return cast(list[int], monotone.tolist())


def _with_threads(loss: Any, n_threads: int) -> Loss:
    return cast(Loss, loss.with_threads(n_threads) if isinstance(loss, BuiltInLoss) else loss)


def checkpoints_of(settings: Any) -> list[Checkpoint]:
    """The checkpoints among the callbacks of an estimator."""
    return [callback for callback in settings.callbacks or () if isinstance(callback, Checkpoint)]


def _start_constants(init: str, loss: Loss, n_outputs: int, y: Array, weights: Weights | None) -> Array:
    if init == "zero":
        return np.zeros(n_outputs)
    weight = None if weights is None else weights.total[: y.shape[-1]]
    if y.ndim == 1:
        return np.asarray(loss.best_constant(y, weight), dtype=np.float64)
    return np.array([float(loss.best_constant(labels, weight)) for labels in y])


def _members(plan: Plan, make: Callable[..., Member], parts: Sequence[Part]) -> list[Member]:
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
