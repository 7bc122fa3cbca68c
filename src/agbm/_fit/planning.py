"""Planning: what follows from settings and labels, whether the rows are a table or blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import add
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from .._base import threads
from .._base.collectives import combined, count
from .._base.identity import fingerprints
from .._base.sums import Array
from .._base.types import AnyArray
from .._base.weights import Weights
from .._core.ensemble import Ensemble
from .._core.learners import Learner, RegressorLearner
from .._core.objective import LocalObjective, start_function
from .._core.ring import Ring, RingPart
from .._core.spread_level import spread_of
from .._data.blocks import naming
from .._data.hold_out import held_out_rows, seed_of, time_windows
from .._data.reader import TableReader
from .._data.rows import Rows, weighted_rows
from .._data.units import Keys, Unit, keys_of
from .._labels.base import Labels
from .._labels.matrices import kind_of
from .._losses import Loss, best_constant_with, is_built_in, is_function, traits_of, with_threads
from .._model.fitted import FittedModel
from .._model.settings import Settings
from .._storage.checkpoint import Checkpoint
from .._tree import TreeLearner
from . import auto
from .constraints import interaction_groups, monotone_outputs
from .run import Plan


@dataclass(frozen=True, eq=False)
class Request:
    """Everything that specifies a fit, besides rows."""

    settings: Settings
    kind: type[Labels]
    """The type of the labels."""
    earlier: FittedModel | None = None
    """The model to continue from, with warm_start."""
    updated: FittedModel | None = None
    """A model whose columns, categories and classes are kept, and nothing else."""
    seed: int | None = None
    """The seed of a run to repeat, instead of one from random_state."""
    alone: bool = True
    """Whether the rows of an update are not combined with those of the fit."""
    in_this_process: bool = True
    """Whether kernels run in this process, on its threads."""
    learned: Loss | None = None
    """The loss with what it has learned from the labels; None if it learns nothing."""
    unit: Unit = "rows"
    """By what rows are held out."""

    @property
    def known(self) -> FittedModel | None:
        """The model whose columns and categories the rows must have."""
        return self.earlier if self.updated is None else self.updated

    @cached_property
    def n_threads(self) -> int:
        """Number of threads."""
        return threads.resolve(self.settings.n_jobs)

    def for_labels(self, y: Any) -> Request:
        """The request for the kind of labels that y are, which must be that of a run that is continued."""
        kind = kind_of(self.kind, y, self.settings.loss)
        if self.earlier is not None and type(self.earlier.labels) is not kind:
            raise ValueError(
                "y: with warm_start=True labels must be of the same kind as in the previous fit: one class per row, "
                "several labels, or probabilities; use warm_start=False."
            )
        return replace(self, kind=kind)

    def for_other_processes(self) -> Request:
        """The request without callbacks and seed, which other processes do not need and cannot always unpickle."""
        return replace(self, settings=replace(self.settings, callbacks=None, scored=None), seed=None)


class Weighed(NamedTuple):
    """Rows with positive weight."""

    request: Request
    """The request, with what the loss has learned from the labels."""
    kept: Any
    """The positions of these rows among the given ones, or a slice."""
    weights: Weights | None
    """Sample weights times class weights."""
    labels: Labels
    encoded: Array


def weigh_rows(request: Request, y: AnyArray, sample_weight: AnyArray | None) -> Weighed:
    """The rows with positive weight, and their encoded labels.

    Rows of weight zero must not affect anything: neither bins nor classes nor a validation split.
    """
    kept: Any = slice(None)  # all rows, without copying
    if sample_weight is not None:
        request.kind.check_weights(y, sample_weight, "sample_weight")
        kept = weighted_rows(sample_weight, "sample_weight")
        sample_weight = sample_weight[kept]
    of_class = request.kind.weights(request.settings.class_weight, y[kept], sample_weight)
    if of_class is not None:
        rows = weighted_rows(of_class, "class_weight")
        kept, of_class = np.arange(len(y))[kept][rows], of_class[rows]
        sample_weight = None if sample_weight is None else sample_weight[rows]
    weights = Weights.of(sample_weight, of_class)
    if request.updated is not None:
        encoded = request.updated.labels.encode(y[kept])
        if request.alone:
            request.updated.labels.check_alone(encoded)
        labels = request.updated.labels.updated_with(encoded)
    else:
        labels, encoded = request.kind.learn(y[kept], None if request.earlier is None else request.earlier.labels)
        loss = loss_of(request, labels)
        if _learns(loss) and request.known is None and request.learned is None:
            learned = cast(Any, loss).learned_from(encoded, None if weights is None else weights.total)
            request = replace(request, learned=learned)
        labels, encoded = labels.scored_by(loss_of(request, labels), encoded)
    return Weighed(request, kept, weights, labels, encoded)


def loss_of(request: Request, labels: Labels) -> Loss:
    """The loss for these labels."""
    given = request.settings.loss
    loss: Any = labels.loss_of(given) if isinstance(given, str) or is_function(given) else given
    if _learns(loss):
        loss = request.known.loss if request.known is not None else request.learned or loss
    labels.check_loss(loss)
    return cast(Loss, with_threads(loss, request.n_threads))


def make_plan(
    request: Request, reader: TableReader, labels: Labels, loss: Loss, units: Units, has_validation: bool,
    identity: Callable[[dict[str, str]], str],
) -> Plan:  # fmt: skip
    """The plan for this number of rows; `identity` combines the fingerprints of parameters with those of rows."""
    settings, method = request.settings, request.settings.method
    n_members = auto.n_members(settings.n_members, method, units.n)
    asked = request.unit != "rows"
    stops_early = auto.early_stopping(settings.early_stopping, *units, has_validation, n_members, asked)
    held_out = stops_early and not has_validation and settings.validation_fraction is not None
    is_trial = held_out and _needs_no_held_out_rows(request, loss)
    is_trial = is_trial and auto.is_trial(settings.early_stopping, *units, n_members)
    is_trial = is_trial or (held_out and request.unit == "time")
    if is_trial and settings.warm_start:  # its next fit must have the same training rows
        stops_early = held_out = is_trial = False
    seed = seed_of(settings.random_state) if request.seed is None else request.seed
    earlier: Sequence[Ensemble] = ()
    if not is_trial:
        earlier, seed = _earlier_run(request, reader, labels, held_out, seed, identity)
    if earlier and len(earlier) != n_members:
        raise ValueError(f"The run to resume has {len(earlier)} members; n_members={settings.n_members!r} differs.")
    at_once, n_threads = divided_threads(request, loss, n_members)
    rate = auto.learning_rate(settings.learning_rate, method, n_members, loss)
    return Plan(
        method, loss, _max_iter(request, stops_early), rate, stops_early, held_out, is_trial, n_members, at_once,
        n_threads, earlier, seed, list(map(reader.n_seen_by, range(n_members))),
    )  # fmt: skip


def _needs_no_held_out_rows(request: Request, loss: Loss) -> bool:
    """Whether held-out rows only determine the number of iterations."""
    return (
        not request.settings.method.temperature_scaling and spread_of(loss) is None and not traits_of(loss).has_baseline
    )


def divided_threads(request: Request, loss: Loss, n_members: int) -> tuple[int, int]:
    """How many members are trained at the same time, and the number of threads of each."""
    if request.settings.method.learner is not None or not is_built_in(loss) or not request.in_this_process:
        return 1, request.n_threads
    if request.settings.device == "cpu":
        return threads.divide(request.n_threads, n_members)
    return n_members, max(1, request.n_threads // n_members)  # threads of members that wait for the GPU take no core


def _max_iter(request: Request, stops_early: bool) -> int:
    given, wanted = request.settings.max_iter, auto.max_iter(request.settings.max_iter, stops_early)
    if request.earlier is not None and wanted < request.earlier.best_iteration:
        here = f" (here {wanted})" if isinstance(given, str) else ""
        raise ValueError(
            f"With warm_start=True, max_iter={given!r}{here} must be at least "
            f"best_iteration_={request.earlier.best_iteration}, the iterations that the model already has; use a "
            "larger value, or warm_start=False."
        )
    return wanted


def _earlier_run(
    request: Request, reader: TableReader, labels: Labels, held_out: bool, seed: int,
    identity: Callable[[dict[str, str]], str],
) -> tuple[Sequence[Ensemble], int]:  # fmt: skip
    """The ensembles of the run to resume, from warm_start or a checkpoint, and its seed."""
    ensembles: Sequence[Ensemble] = ()
    if request.earlier is not None:
        if held_out != request.earlier.held_out:
            held, given = ("no rows", "not given") if held_out else ("some rows", "given")
            raise ValueError(
                f"warm_start=True needs the training rows of the previous fit, which held out {held} for early "
                f"stopping; with X_val {given}, the training rows differ. Pass X_val as before, or use "
                "warm_start=False."
            )
        ensembles, seed = request.earlier.ensembles, request.earlier.seed
    for checkpoint in checkpoints_of(request.settings):
        parts = _fingerprints(request, checkpoint, reader, seed, held_out)
        saved = checkpoint.load(identity(parts), reader.n_features, labels.n_outputs)
        if saved is not None and len(saved[0][0]) > (len(ensembles[0]) if ensembles else 0):
            ensembles, seed = saved
    return ensembles, seed


def _fingerprints(
    request: Request, checkpoint: Checkpoint, reader: TableReader, seed: int, held_out: bool
) -> dict[str, str]:
    """Fingerprints of everything except rows that the run of a checkpoint depends on."""
    settings, parameters = request.settings, request.settings.shaping()
    parameters["seed"] = seed if isinstance(settings.random_state, (int, np.integer)) else None
    parameters["held_out"] = held_out
    parameters["features"] = list(range(reader.n_features) if reader.names is None else reader.names)
    if not isinstance(settings.init, str):  # its scores are digested with the rows
        parameters["init"] = None
    with naming(repr(checkpoint)):
        return fingerprints(parameters)


def unit_of(request: Request, labels: Labels, values: Any, kept: Any, encoded: Array, n_rows: int) -> Keys | None:
    """The keys of the groups or times of rows, of which some are kept; None if each row is apart."""
    keys = keys_of(request.unit, values, n_rows)
    if keys is None:
        return None
    keys = cast(Keys, keys[kept])
    labels.check_unit(encoded, keys, request.unit)
    return keys


def ring_of(request: Request, plan: Plan, labels: Labels, rows: Rows, first: int = 0) -> Ring | None:
    """The rows that members hold out, None if they hold out none; `first` is the number of the first row."""
    if not plan.held_out:
        return None
    settings, n_given = request.settings, rows.n_given
    y, share = rows.y[..., :n_given], cast(float, settings.validation_fraction)
    try:
        if request.unit == "time" and rows.unit is not None:
            return Ring.of_time(rows.unit, time_windows(rows.unit, share, plan.n_members))
        strata, queries = labels.strata(y), labels.groups(y)
        groups = queries if rows.unit is None else rows.unit
        drawn = held_out_rows(n_given, share, plan.n_members, strata, plan.seed, groups, first, queries is not None)
        return Ring.of(*drawn)
    except ValueError as error:
        raise ValueError(
            f"early_stopping={settings.early_stopping!r} with validation_fraction={settings.validation_fraction}: "
            f"{error} Pass X_val and y_val, or use early_stopping=False."
        ) from error


def objective_of(
    request: Request, plan: Plan, labels: Labels, rows: Rows, part: RingPart, first: int = 0
) -> tuple[Any, LocalObjective]:
    """The start function, and the objective of a member that has this part of the rows, in its order.

    `first` is the number of the first row, where other processes have other rows.
    """
    n_train = part.n_train
    rows.y.setflags(write=False)  # a user-defined loss must not change it
    for of_output in [rows.y] if labels.one_for_all_outputs else rows.y:
        for checked in (of_output[..., : rows.n_given], of_output):  # without those of X_val, then all labels
            if checked.shape[-1] or is_built_in(plan.loss):  # a user-defined check may not support empty arrays
                plan.loss.check(checked)
    start: Any = deepcopy(request.settings.init)  # a copy: the user may change the model later
    scores = rows.start
    if isinstance(start, str):
        start = _start_constants(start, plan, labels, rows, n_train, first)
        scores = start_function(start, scores, rows.n)
    joint = labels.joint(with_threads(plan.loss, plan.n_threads))
    return start, LocalObjective(
        joint, rows.y, n_train, cast(Array, scores), None if rows.weights is None else rows.weights[:n_train],
        plan.method.second_order, plan.n_threads, rows.validation_weight(n_train, part.n_unseen),
        part.n_unseen + sum(row_set.n for row_set in rows.watched),
    )  # fmt: skip


def l2_of(request: Request, objective: LocalObjective) -> float | list[float]:
    """The parameter of trees, which may depend on the hessian of the start function."""
    return auto.l2_regularization(request.settings.l2_regularization, objective)


def learner_of(
    request: Request, plan: Plan, reader: TableReader, labels: Labels, objective: LocalObjective, member: int
) -> Learner:
    """The weak learner of a member."""
    given = plan.method.learner
    if given is None:
        return tree_learner_of(request, plan, reader, labels, objective.n_train, l2_of(request, objective), member)
    learner = RegressorLearner(given, plan.seed_of(member), labels.n_outputs)
    if reader.categories.of:
        raise ValueError(
            f"X has categorical features ({sorted(reader.categories.of)}), which work with trees only; got "
            f"learner={given!r}. Encode them, or use categorical_features=None."
        )
    if plan.method.second_order and not plan.loss.constant_hessian and not learner.takes_weights:
        raise ValueError(
            f"second_order=True needs a learner whose fit accepts sample_weight; got learner={given!r}. "
            "Use second_order=False."
        )
    return learner


def tree_learner_of(
    request: Request, plan: Plan, reader: TableReader, labels: Labels, n: int, l2: float | list[float], member: int
) -> TreeLearner:
    """The learner of a member for n training rows."""
    settings = request.settings
    n_categories = reader.categories.counts(reader.n_features)
    monotone = _monotone(request, reader, labels, n_categories > 0)
    is_shared = auto.vector_leaves(settings.multi_strategy, plan.method, plan.loss, len(monotone) > 1)
    return TreeLearner(
        max_depth=settings.max_depth,
        max_leaf_nodes=auto.max_leaf_nodes(settings.max_leaf_nodes, n, plan.loss, settings.max_depth),
        min_samples_leaf=auto.min_samples_leaf(settings.min_samples_leaf, n, plan.loss),
        min_hessian_leaf=traits_of(plan.loss).min_hessian_leaf,
        l1_regularization=settings.l1_regularization,
        l2_regularization=l2,
        min_split_gain=settings.min_split_gain,
        max_bins=settings.max_bins,
        shared_structure=plan.method.two_values_per_leaf,
        vector_leaves=is_shared,
        sketched_outputs=auto.sketched_outputs(plan.loss, is_shared),
        n_categories=n_categories,
        monotone=monotone,
        interactions=_interactions(request, reader),
        subsample=settings.subsample,
        colsample_bytree=settings.colsample_bytree,
        colsample_bynode=auto.colsample_bynode(settings.colsample_bynode, plan.method, plan.loss),
        n_seen=plan.n_seen[member],
        seed=plan.seed_of(member),
        n_threads=plan.n_threads,
    )


def _interactions(request: Request, reader: TableReader) -> list[list[int]]:
    """Groups of features that may interact."""
    return reader.with_parts(interaction_groups(request.settings.interaction_cst, reader.names, reader.n_columns))


def _monotone(
    request: Request, reader: TableReader, labels: Labels, categorical: NDArray[np.bool_]
) -> Sequence[Sequence[int]]:
    """The monotonic constraints of each output, a single list if they are the same; see TreeLearner."""
    given = request.settings.monotonic_cst
    monotone = monotone_outputs(given, reader.columns, labels)
    constrained: NDArray[np.bool_] = np.asarray(monotone.any(axis=0))
    both = np.flatnonzero(constrained & categorical[: reader.n_columns])
    if len(both):
        raise ValueError(
            f"monotonic_cst={given!r}: features {both.tolist()} are categorical and have no order; use 0 for them."
        )
    if not constrained.any():
        return ()
    several = [f for f in sorted(reader.derivation.several) if constrained[f]]
    if several:
        raise ValueError(
            f"monotonic_cst={given!r}: columns {several} are dates, of which parts repeat, or lists; use 0 for them, "
            "or convert them to numbers."
        )
    same = bool((monotone == monotone[0]).all())
    if not same and request.settings.multi_strategy == "multi_output_tree":
        raise ValueError(
            f"monotonic_cst={given!r} differs between outputs, which share each tree with "
            "multi_strategy='multi_output_tree'; use multi_strategy='one_output_per_tree'."
        )
    parts = [0] * (reader.n_features - reader.n_columns)
    return [[*of_output, *parts] for of_output in (monotone[:1] if same else monotone).tolist()]


def _learns(loss: object) -> bool:
    return traits_of(loss).learns_from_labels


def checkpoints_of(settings: Settings) -> list[Checkpoint]:
    """The checkpoints among the callbacks of an estimator."""
    return [callback for callback in settings.callbacks or () if isinstance(callback, Checkpoint)]


def _start_constants(init: str, plan: Plan, labels: Labels, rows: Rows, n_train: int, first: int) -> Array:
    """The constants of the start function, given the offsets of the training rows."""
    if init == "zero":
        return np.zeros(labels.n_outputs)
    training, given = _LabelsHere.of(rows, n_train, first), _LabelsHere.of(rows, rows.n_given, first)
    constants = partial(_best_constants, plan.loss, labels.one_for_all_outputs)
    if not is_built_in(plan.loss):  # it expects all rows
        return np.asarray(combined([training], add, constants))
    if plan.held_out:
        try:
            return constants([training])
        except ValueError:  # a member has held out all labels of a kind that the loss needs, such as positive ones
            pass
    return constants([given])


class _LabelsHere(NamedTuple):
    """The labels of the first rows of one process."""

    first: int
    """The number of the first row."""
    y: Array
    weight: Array | None
    offset: Array | None

    @classmethod
    def of(cls, rows: Rows, n: int, first: int) -> _LabelsHere:
        weight = None if rows.weights is None else rows.weights.total[:n]
        return cls(first, rows.y[..., :n], weight, None if rows.start is None else rows.start[:, :n])


def _best_constants(loss: Loss, one_for_all_outputs: bool, parts: Sequence[_LabelsHere]) -> Array:
    _, *vectors = zip(*sorted(parts, key=lambda part: part.first), strict=True)
    y, weight, offset = (None if part[0] is None else np.concatenate(part, axis=-1) for part in vectors)
    assert y is not None
    if one_for_all_outputs:
        return np.asarray(_best_constant(loss, y, weight, offset), dtype=np.float64)
    offsets = [None] * len(y) if offset is None else list(offset)
    return np.array([float(_best_constant(loss, *one)) for one in zip(y, [weight] * len(y), offsets, strict=True)])


def _best_constant(loss: Loss, y: Array, weight: Array | None, offset: Array | None) -> float | Array:
    loss.check(y)
    return best_constant_with(loss, y, weight, offset)


class Units(NamedTuple):
    """What is held out as a whole: rows, or groups of rows that affect the loss."""

    n: int
    are_groups: bool

    @classmethod
    def of(cls, labels: Labels, y: Array) -> Units:
        """The units of rows with labels y; where processes share the rows, each has whole groups."""
        groups = labels.groups(y)
        if groups is None:
            return cls(count(y.shape[-1]), False)
        return cls(count(len(np.unique(groups[cast(Any, labels.strata(y)) > 0]))), True)
