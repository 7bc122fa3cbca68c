"""Updates: a fitted model is changed by other rows, in one of four ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from .._base import threads
from .._base.sums import Array
from .._core.dropout import Dropout
from .._core.ensemble import Ensemble, fold
from .._core.learners import Learner, Model
from .._core.objective import LocalObjective
from .._core.reweigh import groups_of, reweigh
from .._core.spread_level import SPREAD_LEVEL, with_level
from .._core.training import MemberRun, Record, mean_of
from .._data.offsets import RawScores
from .._data.rows import Given
from .._data.units import Unit
from .._fit import auto
from .._fit.baseline import baseline_of_fit
from .._fit.checks import check_combinations, stopping_settings
from .._fit.planning import Request, checkpoints_of
from .._fit.prepare import prepare
from .._fit.run import Run
from .._fit.sources import RowSource
from .._fit.train import Settled, Trained, follow, settled, train
from .._labels.base import Labels
from .._losses import traits_of
from .._model.fitted import FittedModel
from .._model.settings import Settings
from .._storage.checkpoint import Checkpoint
from .._tree import TreeLearner
from .._tree.learner import as_forest
from .._tree.refit import Leaves, RefittingFitter, values_of
from .known_trees import KnownTrees, leaves_of

MODES = ("trees", "leaves", "weights", "all")


class Wanted(NamedTuple):
    """How a model is to be updated."""

    mode: str
    max_iter: int | str | None = None
    """The number of further iterations; None: that of the estimator."""
    old_weight: float | None = None
    """How many new rows each row of the fit counts for; None: the default."""

    def check(self, model: FittedModel, unit: Unit, validation: Given, in_this_process: bool) -> None:
        """Raise ValueError for arguments that do not fit the mode, or for a model that it cannot update."""
        if self.mode not in MODES:
            raise ValueError(f"mode={self.mode!r} must be one of {list(MODES)}.")
        grows = self.grows
        held_out_by = None if unit == "rows" else unit
        given_names = {"max_iter": self.max_iter, "X_val": validation.X, "y_val": validation.y, unit: held_out_by}
        for name, given in given_names.items():
            if given is not None and not grows:
                raise ValueError(f"{name} has no effect with mode={self.mode!r}, which keeps the iterations; omit it.")
        if self.old_weight is not None and grows:
            raise ValueError(
                f"old_weight={self.old_weight!r} works with mode='leaves' and mode='weights'; got mode={self.mode!r}."
            )
        if not 0.0 <= self.weight_of_old < np.inf:
            raise ValueError(f"old_weight={self.old_weight!r} must be a finite number, at least 0.")
        if grows:
            return
        model.check_has_trees(f"update(mode={self.mode!r})")
        if not traits_of(model.loss).has_value:
            raise ValueError(
                f"mode={self.mode!r} needs the value of the loss, but the function of the model returns only "
                "derivatives; use mode='trees' or mode='all'."
            )
        if self.mode == "leaves" and model.method.temperature_scaling:
            raise ValueError(
                "mode='leaves' computes all leaves again from all rows, so that none are held out for "
                "temperature_scaling=True; use mode='trees', 'weights' or 'all'."
            )
        if not in_this_process:
            raise ValueError(
                f"mode={self.mode!r} does not work on a Dask cluster; use mode='trees' or mode='all', or update "
                "to_local() with a table or with agbm.Batches."
            )
        if model.best_iteration == 0:
            raise ValueError(f"The model has no trees, so mode={self.mode!r} has nothing to change; use mode='all'.")

    @property
    def grows(self) -> bool:
        """Whether trees are grown."""
        return self.mode in ("trees", "all")

    @property
    def uses_old_rows(self) -> bool:
        """Whether the rows of the fit count as well."""
        return not self.grows and self.weight_of_old > 0.0

    @property
    def weight_of_old(self) -> float:
        """The value of old_weight."""
        return OLD_WEIGHT if self.old_weight is None else float(self.old_weight)


OLD_WEIGHT = 0.3


def updated(
    estimator: Any, kind: type[Labels], given: Given, unit: Unit, validation: Given, wanted: Wanted,
    source: RowSource | None,
) -> FittedModel:  # fmt: skip
    """The model of a fitted estimator after an update with the given rows; `unit`: by what they are held out."""
    # The calibration is not that of the updated model, which may have been trained on its rows. The baseline is
    # estimated again from the rows of the update.
    model: FittedModel = replace(estimator.model_, calibration=None, baseline=None, origin=None)
    wanted.check(model, unit, validation, source is None or source.in_this_process)
    rows = NewRows(kind, given, unit, None if validation.X is None else validation, source, wanted.uses_old_rows)
    settings = replace(Settings.of(as_fitted(estimator, model, wanted.max_iter)), device="cpu")
    check_combinations(settings, validation, checkpoints_of(settings), unit)
    settings = stopping_settings(settings, stacklevel=5) if wanted.grows else settings
    if wanted.mode == "all":

        def prepared(settings: Settings, seed: int | None) -> Run:
            return rows.run(settings, model, seed=seed)

        return replace(train(prepared, settings), origin=None)  # its columns are those of other rows
    if wanted.mode == "trees":
        return _with_more_trees(model, settings, rows)
    known = _known(model, settings, rows)
    change = known.with_new_leaves if wanted.mode == "leaves" else known.with_new_weights
    return change(wanted.weight_of_old)


def as_fitted(estimator: Any, model: FittedModel, max_iter: int | str | None) -> Any:
    """A copy of the estimator with the parameters that the model was fitted with."""
    fitted = copy(estimator).set_params(**model.parameters, warm_start=False)
    fitted.callbacks = estimator.callbacks  # copies have none
    if max_iter is not None:
        fitted.max_iter = max_iter
        fitted._validate_params()
    return fitted


@dataclass(frozen=True, eq=False)
class NewRows:
    """The rows of an update."""

    kind: type[Labels]
    given: Given
    unit: Unit
    validation: Given | None
    source: RowSource | None
    with_old_rows: bool
    """Whether the rows of the fit count as well."""

    def run(
        self, settings: Settings, model: FittedModel, source: RowSource | None = None, seed: int | None = None
    ) -> Run:
        """A run on these rows, with the columns, categories and classes of the model; `seed`: see Request."""
        source = self.source if source is None else source
        alone = not self.with_old_rows
        request = Request(settings, self.kind, updated=model, seed=seed, alone=alone, unit=self.unit)
        return prepare(request, source, self.given, self.validation, {})


def _with_more_trees(model: FittedModel, settings: Settings, rows: NewRows) -> FittedModel:
    """The model followed by iterations that start from it."""
    settings = replace(
        settings, init=RawScores(model, threads.resolve(settings.n_jobs)), n_members=len(model.ensembles),
        random_state=_seed_after(model),
    )  # fmt: skip

    def prepared(settings: Settings, seed: int | None) -> Run:
        return rows.run(settings, model, seed=seed)

    found = settled(prepared, settings) if rows.unit == "time" else Settled(prepared(settings, None), settings)
    run, trained = found.run, found.trained()
    begins = ("trees", model.best_iteration)
    start = with_level(model.start, mean_of(trained.levels), model.loss) if trained.levels else model.start
    return replace(
        _followed_by(model, trained, run.members[0].learner), labels=run.labels, start=start,
        resolved=trained.resolved, seed=run.plan.seed, held_out=run.plan.held_out,
        updates=(*model.updates, begins), baseline=baseline_of_fit(run, trained.functions), profile=run.profile,
    )  # fmt: skip


def _seed_after(model: FittedModel) -> int:
    """A seed for further iterations, so that they do not repeat the random draws of the first ones."""
    return int(np.random.SeedSequence([model.seed, model.best_iteration]).generate_state(1)[0]) % (2**31 - 1)


def _followed_by(model: FittedModel, trained: Trained, learner: Learner) -> FittedModel:
    """The model followed by the iterations of a run that started from it."""
    ensembles = [old.followed_by(new) for old, new in zip(model.ensembles, trained.ensembles, strict=True)]
    return replace(
        model, ensembles=ensembles, folded=fold(ensembles, learner.combine, model.n_outputs),
        history=_joined(model.history, model.best_iteration, trained.history),
    )  # fmt: skip


def _joined(old: Mapping[str, NDArray[Any]], best: int, new: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The history of the iterations that were kept, followed by the later ones of a run that started from the last."""
    names = list(dict.fromkeys([*old, *new]))
    missing = {name: np.full(len((new if name in old else old)["iteration"]), np.nan) for name in names}
    if SPREAD_LEVEL in missing:
        missing[SPREAD_LEVEL][:] = 0.0
    joined = {
        name: np.concatenate([old.get(name, missing[name])[: best + 1], new.get(name, missing[name])[1:]])
        for name in names
    }
    for name in {"iteration", "trees", "seconds", SPREAD_LEVEL} & joined.keys():  # counted from the start
        joined[name][best + 1 :] += joined[name][best]
    joined["restart"][best + 1 : best + 2] = True
    return joined


def _known(model: FittedModel, settings: Settings, rows: NewRows) -> _KnownModel:
    """The model with rows that its trees have leaves for."""
    callbacks = [one for one in settings.callbacks or () if not isinstance(one, Checkpoint)]
    # All rows are used for training, and one objective serves all members.
    rate = auto.learning_rate(settings.learning_rate, settings.method, len(model.ensembles), model.loss)
    settings = replace(
        settings, early_stopping=False, n_members=1, learning_rate=rate, max_iter=model.best_iteration, scoring=None,
        callbacks=callbacks or None,
    )  # fmt: skip
    run = rows.run(settings, model, KnownTrees(model), model.seed)  # with the random samples of the fit
    objective = cast(LocalObjective, run.members[0].objective)
    return _KnownModel(model, settings, run, objective, leaves_of(run.members[0].fitter))


@dataclass(frozen=True, eq=False)
class _KnownModel:
    """A model and the rows of an update that keeps the structure of its trees."""

    model: FittedModel
    settings: Settings
    run: Run
    objective: LocalObjective
    leaves: Leaves

    def with_new_leaves(self, old_weight: float) -> FittedModel:
        """The algorithm, run again on the rows with the known structures."""
        model, firsts = self.model, [0, *(first for mode, first in self.model.updates if mode == "trees")]
        start, objective = self._new_start(old_weight)
        found = replace(
            model, start=self._with_spread_level(start, 1.0), ensembles=[Ensemble() for _ in model.ensembles],
            history=_no_iterations(model.history),
        )  # fmt: skip
        learner = cast(TreeLearner, self.run.members[0].learner)
        for iterations in pairwise(
            [*(first for first in firsts if first < model.best_iteration), model.best_iteration]
        ):
            fitters = [
                RefittingFitter(
                    ensemble, slice(*iterations), replace(learner, seed=self.run.plan.seed_of(number)), self.leaves,
                    objective.n_train, objective.train_weights, old_weight,
                )
                for number, ensemble in enumerate(model.ensembles)
            ]  # fmt: skip
            runs = [self._member_run(number, objective, fitter) for number, fitter in enumerate(fitters)]
            wanted = iterations[1] - iterations[0]
            trained = follow(self.run, self.settings, [one(wanted) for one in runs])
            found = _followed_by(found, trained, learner) if found.best_iteration else _begun(found, trained, learner)
            # The last run, or one that diverged or that a callback has ended.
            if iterations[1] == model.best_iteration or len(trained.ensembles[0]) < wanted:
                break
            objective = replace(objective, start=_end_of(objective, trained.ensembles, fitters))
        return replace(
            found, labels=self.run.labels, updates=(*model.updates, ("leaves", 0)), held_out=False,
            baseline=baseline_of_fit(self.run, trained.functions), profile=self.run.profile,
        )  # fmt: skip

    def _member_run(
        self, number: int, objective: LocalObjective, fitter: RefittingFitter
    ) -> Callable[[int], MemberRun]:
        """Makes the run of a member for a number of iterations."""

        def run(max_iter: int) -> MemberRun:
            ensemble, plan = Ensemble(), self.run.plan
            options: dict[str, Any] = {"learning_rate": plan.learning_rate, "max_iter": max_iter}
            if plan.method.dropout > 0.0:
                options["drop"] = Dropout(plan.method.dropout, plan.seed_of(number), objective, ensemble, fitter)
            return MemberRun(plan.method.steps(objective, fitter, **options), objective, ensemble)

        return run

    def _new_start(self, old_weight: float) -> tuple[Any, LocalObjective]:
        """The start function and the objective that starts from it: the rows of the fit count for the level, too."""
        if not self._has_level or old_weight == 0.0:
            return self.run.start, self.objective
        old = self._with_spread_level(self.model.start, -1.0)
        objective = self._starting_from(old)
        shift = reweigh(objective, [], True, self._old_per_new(old_weight)).shift
        return old + shift, replace(objective, start=objective.start + shift[:, np.newaxis])

    def _with_spread_level(self, start: Any, factor: float) -> Any:
        """A start function with the level of the spread added, which is excluded while trees are fitted."""
        level = self.model.spread_level
        return start if level is None else with_level(start, factor * level, self.model.loss)

    @property
    def _has_level(self) -> bool:
        """Whether the start function is a constant that the labels determine."""
        return isinstance(self.model.start, np.ndarray) and traits_of(self.model.loss).rows == "apart"

    def _starting_from(self, start: Any) -> LocalObjective:
        """The objective of the rows, with a start function of the model."""
        if not isinstance(start, np.ndarray):
            return self.objective
        offset = self.objective.start - self.run.start[:, np.newaxis]  # zero if there are none
        return replace(self.objective, start=start[:, np.newaxis] + offset)

    def _old_per_new(self, old_weight: float) -> float:
        """How many rows of the fit count for each new row, if each of them counts for `old_weight` new rows."""
        firsts = [as_forest(ensemble.models[0]) for ensemble in self.model.ensembles]
        n_old = np.mean([forest.nodes["count"][forest.roots[0]] for forest in firsts]) / self.settings.subsample
        weights = self.objective.train_weights
        repeats = None if weights is None else weights.repeats
        return float(old_weight * n_old / (self.objective.n_train if repeats is None else repeats.sum()))

    def with_new_weights(self, old_weight: float) -> FittedModel:
        """The same trees, with weights of iterations fitted to the rows."""
        model, n_iterations = self.model, self.model.best_iteration
        objective = self._starting_from(model.start)
        groups = groups_of(n_iterations)
        parts = self._parts(groups, objective)
        scales, shift = reweigh(objective, parts, self._has_level, self._old_per_new(old_weight))
        of_iterations = np.repeat(scales, [len(group) for group in groups])
        ensembles = [ensemble.scaled(of_iterations.tolist()) for ensemble in model.ensembles]
        start = model.start + shift if self._has_level else model.start
        objective = replace(objective, start=objective.start + shift[:, np.newaxis])
        f = objective.start
        for scale, part in zip(scales.tolist(), parts, strict=True):
            f = objective.mix(1.0, f, scale, part)
        learner = self.run.members[0].learner
        return replace(
            model, labels=self.run.labels, start=start, ensembles=ensembles,
            folded=fold(ensembles, learner.combine, model.n_outputs), history=self._history(ensembles, objective),
            updates=(*model.updates, ("weights", 0)), baseline=baseline_of_fit(self.run, [f]),
            profile=self.run.profile,
        )  # fmt: skip

    def _parts(self, groups: Sequence[range], objective: LocalObjective) -> list[Array]:
        """The parts of the model that groups of iterations add up to."""
        parts = []
        for group in groups:
            total = np.zeros((self.model.n_outputs, objective.n_rows))
            for ensemble in self.model.ensembles:
                weights, values = ensemble.coefficients()[0] / len(self.model.ensembles), self._values(ensemble)
                for function in ensemble.functions_of(group):
                    total = objective.mix(1.0, total, weights[function], values(function))
            parts.append(total)
        return parts

    def _values(self, ensemble: Ensemble) -> Callable[[int], Array]:
        """The values (output, row) of a function of an ensemble; those of the last model are kept."""
        last: list[tuple[Model, Array]] = []

        def values(function: int) -> Array:
            model, number = ensemble.function(function)
            if not last or last[0][0] is not model:
                forest: Any = model
                last[:] = [(model, values_of(forest, self.leaves(forest)))]
            return np.ascontiguousarray(last[0][1][number])

        return values

    def _history(self, ensembles: Sequence[Ensemble], objective: LocalObjective) -> dict[str, NDArray[Any]]:
        """The history with the training losses on these rows, and without quantities that are unknown for them."""
        old, n_records = self.model.history, self.model.best_iteration + 1
        losses = [
            [objective.train_loss(f) for f, _ in ensemble.replay(self._values(ensemble), objective.start)]
            for ensemble in ensembles
        ]
        kept = {name: old[name][:n_records] for name in Record._fields if name in old}
        unknown = ("validation_loss", "cosine_residual", "cosine_corrected")
        kept |= {name: np.full(n_records, np.nan) for name in unknown}
        kept["train_loss"] = np.append(objective.train_loss(objective.start), np.mean(losses, axis=0))
        return kept


def _no_iterations(history: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name: column[:1] for name, column in history.items() if name != SPREAD_LEVEL}


def _begun(model: FittedModel, trained: Trained, learner: Learner) -> FittedModel:
    """A model whose first iterations are those of a run."""
    folded = fold(trained.ensembles, learner.combine, model.n_outputs)
    return replace(model, ensembles=trained.ensembles, folded=folded, history=trained.history)


def _end_of(objective: LocalObjective, ensembles: Sequence[Ensemble], fitters: Sequence[RefittingFitter]) -> Array:
    """The function that the mean of the members has reached."""
    f = objective.start
    for ensemble, fitter in zip(ensembles, fitters, strict=True):
        for model, weights in zip(ensemble.models, ensemble.folded_weights(), strict=True):
            for values, weight in zip(fitter.values(model), weights.tolist(), strict=True):
                f = objective.mix(1.0, f, weight / len(ensembles), values)
    return f
