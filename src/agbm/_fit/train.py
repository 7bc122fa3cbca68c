"""Training: runs the algorithm with callbacks, early stopping and progress, and returns the fitted model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
from sklearn.base import clone

from .._base.identity import UnidentifiedError, fingerprint, fingerprints, library_version
from .._base.types import AnyArray
from .._core.dropout import Dropout
from .._core.ensemble import Ensemble, fold
from .._core.replay import ReplayingFitter
from .._core.spread_level import SPREAD_LEVEL, SpreadLevels, spread_of, with_level
from .._core.training import (
    EarlyStopping,
    KeptFunctions,
    MemberRun,
    Watcher,
    after,
    by_loss,
    by_score,
    mean_of,
    no_scores,
    warn_diverged,
    watch,
)
from .._data.blocks import naming
from .._losses import traits_of
from .._model.calibration import MOST_KEPT, as_integers, measure_of
from .._model.fitted import FittedModel, Origin
from .._model.settings import Settings
from .._uncertainty.conformal import Calibration, SortedScores
from .baseline import baseline_of_fit
from .planning import checkpoints_of
from .progress import progress
from .run import HELD_OUT_BY, Member, Plan, Run
from .scoring import Scores, scorers_of
from .temperature import best_factor, scaled


class Trained(NamedTuple):
    """The result of a run: one ensemble per member at the best iteration, and the history."""

    ensembles: list[Ensemble]
    history: dict[str, AnyArray]
    resolved: dict[str, Any]
    """Settings that the run has found; see FittedModel."""
    functions: Sequence[Any] = ()
    """For each member, its function at the best iteration, on the rows that it has held out; for Cox's loss, on all."""
    levels: Sequence[float] = ()
    """For each member, the level of its spread at the best iteration; see SpreadLevels."""


Prepare = Callable[[Settings, int | None], Run]
"""Makes a run of settings and a seed; None for the seed draws it as random_state says."""


class Trial(NamedTuple):
    """What a run with held-out rows has told about the model that is then fitted to all rows."""

    history: Mapping[str, AnyArray]
    """The columns about held-out rows."""
    resolved: Mapping[str, Any]
    levels: Sequence[float]
    calibration: Calibration | None

    @classmethod
    def of(cls, run: Run, trained: Trained) -> Trial:
        """From a run with held-out rows, and its result."""
        names = [name for name in trained.history if name.startswith("validation_") or name == SPREAD_LEVEL]
        resolved = {name: trained.resolved[name] for name in ("temperature", HELD_OUT_BY) if name in trained.resolved}
        calibration = calibration_of_fit(run, trained)
        pooled = None if calibration is None else calibration.pooled()
        return cls({name: trained.history[name] for name in names}, resolved, trained.levels, pooled)

    def told(self, trained: Trained) -> Trained:
        """The result of a run on all rows, with what the trial has told."""
        n = len(trained.history["iteration"])
        columns = {name: np.append(of, np.full(n, np.nan))[:n] for name, of in self.history.items()}
        ensembles = trained.ensembles
        if "temperature" in self.resolved:
            factor = 1.0 / self.resolved["temperature"]
            ensembles = [ensemble.scaled([factor] * len(ensemble)) for ensemble in ensembles]
        return trained._replace(
            ensembles=ensembles, history={**trained.history, **columns}, levels=self.levels,
            resolved={**trained.resolved, **self.resolved},
        )  # fmt: skip


class Settled(NamedTuple):
    """The run that makes a model, its settings, and the trial before it if there was one."""

    run: Run
    settings: Settings
    trial: Trial | None = None

    @property
    def resolved(self) -> dict[str, Any]:
        """The resolved parameters, as far as they are known before the run."""
        known = {} if self.trial is None else self.trial.resolved
        return {**self.run.resolved(self.settings), **{k: v for k, v in known.items() if k != "temperature"}}

    def model(self, trained: Trained) -> FittedModel:
        """The model, from the result of the run."""
        if self.trial is None:
            return finished(self.run, self.settings, trained)
        return replace(finished(self.run, self.settings, trained), calibration=self.trial.calibration)

    def trained(self, run: Run | None = None) -> Trained:
        """The result of the run, or of another one with its settings."""
        run = self.run if run is None else run
        trained = follow(run, self.settings, members_of(run, self.settings))
        return trained if self.trial is None else self.trial.told(trained)


def settled(prepare: Prepare, settings: Settings, seed: int | None = None) -> Settled:
    """The run of an estimator, after a trial has found the number of iterations if there is one."""
    run = prepare(settings, seed)
    if not run.plan.is_trial:
        return Settled(run, settings)
    of_trial = replace(settings, callbacks=None)  # they are told of the model that is kept
    trained = follow(run, of_trial, members_of(run, of_trial))
    final = replace(
        settings, early_stopping=False, max_iter=max(len(trained.ensembles[0]), 1), views=run.reader.crosses
    )
    if settings.method.temperature_scaling:  # the trial has found the temperature
        final = replace(final, method=clone(settings.method).set_params(temperature_scaling=False))
    trial = Trial.of(run, trained)
    return Settled(prepare(final, run.plan.seed), final, trial)


def train(prepare: Prepare, settings: Settings) -> FittedModel:
    """Train a model with settings, of which `prepare` makes a run."""
    found = settled(prepare, settings)
    model = found.model(found.trained())
    parameters = settings.shaping()
    return replace(model, parameters=parameters, fingerprints=_known_fingerprints(parameters))


def members_of(run: Run, settings: Settings) -> list[MemberRun]:
    """The runs of all members."""
    return [member_run(run.plan, member, settings) for member in run.members]


def finished(run: Run, settings: Settings, trained: Trained) -> FittedModel:
    """The model of a run, with everything that follows from its rows after the last iteration."""
    model = fitted_model(run, settings, trained)
    if traits_of(run.plan.loss).has_baseline:
        pairs = zip(run.members, trained.functions, strict=True)
        functions = [cast(Any, member.objective).to_host(f) for member, f in pairs]  # they may be on a device
        return replace(model, baseline=baseline_of_fit(run, functions))
    return replace(model, calibration=calibration_of_fit(run, trained)) if run.plan.held_out else model


def fitted_model(run: Run, settings: Settings, trained: Trained) -> FittedModel:
    """The model of a run whose ensembles end at the best iteration."""
    plan, parameters, ensembles = run.plan, settings.shaping(), trained.ensembles
    start = run.start
    if trained.levels:
        start = with_level(start, mean_of(trained.levels), plan.loss)
    return FittedModel(
        reader=run.reader, labels=run.labels, loss=plan.loss, start=start, ensembles=ensembles,
        folded=fold(ensembles, run.members[0].learner.combine, run.labels.n_outputs), parameters=parameters,
        fingerprints=_known_fingerprints(parameters), resolved=trained.resolved, seed=plan.seed,
        held_out=plan.held_out, history=trained.history,
        origin=None if run.data is None else Origin(library_version(), run.data), profile=run.profile,
    )  # fmt: skip


def follow(run: Run, settings: Settings, members: Sequence[MemberRun]) -> Trained:
    """Run the members to their end, with callbacks, early stopping and progress."""
    plan = run.plan
    n_known = len(plan.earlier[0]) if plan.earlier else 0
    scorers = scorers_of(settings)
    scores = Scores(settings, scorers, run) if scorers or run.watched else no_scores
    has_validation = members[0].objective.has_validation
    stopping = f"{'validation' if has_validation else 'train'}_{next(iter(scorers))}" if scorers else None
    criterion = by_loss(has_validation) if stopping is None else by_score(stopping)
    ensembles = [member.ensemble for member in members]
    objectives = [member.objective for member in members]
    scales = _scales(plan, has_validation)
    has_baseline = traits_of(plan.loss).has_baseline
    keeps = plan.held_out or scales or has_baseline
    kept = KeptFunctions(objectives, criterion, whole=scales or has_baseline)
    spread = spread_of(plan.loss) if has_validation else None
    levels = None if spread is None else SpreadLevels(objectives, spread)
    for checkpoint in checkpoints_of(settings):
        checkpoint.begin(ensembles, plan.seed)
    watchers: list[Watcher] = [kept] if keeps else []
    seen = kept.seeing(scores) if keeps else scores
    watchers += [after(n_known, callback) for callback in settings.callbacks or ()]
    shown = progress(settings.method_title, plan.max_iter, settings.verbose, loss=plan.loss, score=stopping)
    with shown as bar:
        if bar is not None:
            watchers.append(bar)
        if plan.stops_early:
            watchers.append(EarlyStopping(settings.n_iter_no_change, criterion))
        # The learners that are left out of a step are drawn among those of all earlier steps.
        history, diverged = watch(members, watchers, plan.members_at_once, plan.method.dropout == 0.0, seen, levels)

    best = history.records[-1].iteration
    if plan.stops_early or diverged:
        best = history.best_iteration(criterion)
    if diverged:
        warn_diverged(history, best, stacklevel=7)
    for ensemble in ensembles:
        ensemble.truncate(best)
    resolved = run.resolved(settings)
    functions = kept.at(best) if keeps else ()
    if scales:
        factor = best_factor(objectives, functions) if best else 1.0
        ensembles = [ensemble.scaled([factor] * best) for ensemble in ensembles]
        resolved["temperature"] = 1.0 / factor
        functions = [of.to_keep(scaled(of, f, factor)) for of, f in zip(objectives, functions, strict=True)]
    return Trained(ensembles, history.columns(), resolved, functions, () if levels is None else levels.found[best])


def _scales(plan: Plan, has_validation: bool) -> bool:
    """Whether trees are scaled by a temperature; raises ValueError if there are no rows to find it with."""
    if not plan.method.temperature_scaling:
        return False
    if spread_of(plan.loss) is not None or traits_of(plan.loss).has_baseline:
        raise ValueError(
            f"temperature_scaling=True does not work with loss={plan.loss!r}, whose spread or baseline is already "
            "estimated from the validation rows; use temperature_scaling=False."
        )
    if not has_validation:
        raise ValueError(
            "temperature_scaling=True needs validation rows, but no rows are held out: pass X_val and y_val, or use "
            "early_stopping=True with a validation_fraction."
        )
    return True


def member_run(plan: Plan, member: Member, settings: Settings) -> MemberRun:
    """The run of a member; it first replays the earlier run, if there is one."""
    objective, ensemble = member.objective, Ensemble()
    fitter = member.fitter
    if member.earlier is not None:
        fitter = ReplayingFitter(member.earlier, fitter, objective)
    options: dict[str, Any] = {"learning_rate": plan.learning_rate, "max_iter": plan.max_iter}
    if plan.method.dropout > 0.0:
        options["drop"] = Dropout(plan.method.dropout, member.seed, objective, ensemble, member.fitter)
    return MemberRun(plan.method.steps(objective, fitter, **options), objective, ensemble)


def check_continues(settings: Settings, earlier: FittedModel) -> None:
    """Raise ValueError if parameters that affect the earlier iterations have changed since the previous fit."""
    if earlier.updates:
        mode, _ = earlier.updates[-1]
        raise ValueError(
            f"warm_start=True cannot resume this model: update(mode={mode!r}) has changed it with other rows, and a "
            "run is resumed on the rows of one fit. Use update(mode='trees') for more trees, or warm_start=False."
        )
    parameters = settings.shaping()
    with naming("warm_start=True"):
        now = fingerprints(parameters)
        # A model loaded from a file has no fingerprints; its parameters cannot have changed.
        then = earlier.fingerprints or fingerprints(earlier.parameters)
    changed = [_change(name, parameters, earlier.parameters) for name in parameters if now[name] != then.get(name)]
    if changed:
        raise ValueError(
            f"warm_start=True needs the parameters of the previous fit; got {', '.join(changed)}. Set them "
            "back, or use warm_start=False."
        )


def _change(name: str, parameters: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    """A description of how a parameter has changed since the previous fit."""
    now, then = repr(parameters[name]), repr(before[name])
    return f"{name}={now} (was {then})" if now != then else f"{name}={now} (modified since)"


def _known_fingerprints(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Fingerprints of the current parameters, since objects may change later; some objects have none.

    A run with such an object cannot be resumed.
    """
    known: dict[str, str] = {}
    for name, value in parameters.items():
        with suppress(UnidentifiedError):
            known[name] = fingerprint(value)
    return known


def calibration_of_fit(run: Run, trained: Trained) -> Calibration | None:
    """The calibration by the rows that each member has held out; None if none is defined for the labels."""
    try:
        measure = measure_of(run.labels, run.plan.loss)
    except ValueError:
        return None
    starts = [member.start for member in run.members]
    if trained.levels:
        starts = [with_level(*of, run.plan.loss) for of in zip(starts, trained.levels, strict=True)]
    functions = zip(run.members, trained.functions, strict=True)
    found = [member.objective.held_out_scores(of, measure) for member, of in functions]
    of_members, test_weight = as_integers(
        [weights for _, weights in found], counts=run.members[0].objective.counts_rows
    )
    parts = [
        [SortedScores.of(of_label, weights).sample(MOST_KEPT, run.plan.seed_of(k)) for of_label in scores]
        for k, ((scores, _), weights) in enumerate(zip(found, of_members, strict=True))
    ]
    constant = all(isinstance(start, np.ndarray) for start in starts)
    return Calibration(parts, test_weight, of_members=True, starts=np.stack(starts) if constant else None)
