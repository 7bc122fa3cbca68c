"""From a prepared run to a fitted model: the algorithm, callbacks, early stopping, progress."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ._core.dropout import Dropout
from ._core.ensemble import Ensemble
from ._core.methods import name_of
from ._core.replay import ReplayingFitter
from ._core.training import EarlyStopping, Watcher, after, warn_diverged, watch
from ._data.blocks import naming
from ._model import FittedModel
from ._parameters import shaping_parameters
from ._preparation import Run, checkpoints_of
from ._progress import progress
from ._storage.identity import UnidentifiedError, fingerprints


def train(run: Run, settings: Any) -> FittedModel:
    """Run the algorithm, with the callbacks and the patience of an estimator's parameters."""
    plan, objective, fitter, ensemble = run.plan, run.objective, run.fitter, Ensemble()
    n_known = 0 if plan.earlier is None else len(plan.earlier)
    if plan.earlier is not None:
        fitter = ReplayingFitter(plan.earlier, fitter, objective)
    options: dict[str, Any] = {"learning_rate": settings.learning_rate, "max_iter": plan.max_iter}
    if settings.dropout > 0.0:
        options["drop"] = Dropout(settings.dropout, plan.seed, objective, ensemble, run.fitter)
    steps = plan.method.steps(objective, fitter, **options)
    for checkpoint in checkpoints_of(settings):
        checkpoint.begin(ensemble, plan.seed)
    watchers: list[Watcher] = [after(n_known, callback) for callback in settings.callbacks or ()]
    with progress(name_of(settings.method), plan.max_iter, settings.verbose) as bar:
        if bar is not None:
            watchers.append(bar)
        if plan.stops_early:
            watchers.append(EarlyStopping(settings.n_iter_no_change, settings.tol))
        history, diverged = watch(steps, objective, ensemble, watchers)

    best = history.records[-1].iteration
    if plan.stops_early or diverged:
        best = history.best_iteration(by_validation=objective.has_validation)
    ensemble.truncate(best)
    if diverged:
        warn_diverged(history, best)
    parameters = shaping_parameters(settings)
    return FittedModel(
        reader=run.reader, labels=run.labels, loss=plan.loss, start=run.start, ensemble=ensemble,
        folded=ensemble.fold(run.learner, run.labels.n_outputs), parameters=parameters,
        fingerprints=_known_fingerprints(parameters), resolved=run.resolved(settings), seed=plan.seed,
        held_out=plan.held_out, history=history.columns(),
    )  # fmt: skip


def check_continues(settings: Any, earlier: FittedModel) -> None:
    """Raise ValueError if parameters have changed that would have changed the earlier iterations of a run."""
    parameters = shaping_parameters(settings)
    with naming("warm_start=True"):
        now = fingerprints(parameters)
        # A model that was read from a file has none; its parameters are those of the file.
        then = earlier.fingerprints or fingerprints(earlier.parameters)
    changed = [_change(name, parameters, earlier.parameters) for name in parameters if now[name] != then.get(name)]
    if changed:
        raise ValueError(
            f"warm_start=True needs the parameters of the last fit, got {', '.join(changed)}; set them "
            "back, or use warm_start=False."
        )


def _change(name: str, parameters: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    """What has become of a parameter since the last fit."""
    now, then = repr(parameters[name]), repr(before[name])
    return f"{name}={now} (was {then})" if now != then else f"{name}={now} (has changed inside)"


def _known_fingerprints(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Of the parameters now: objects may change later. Runs with one that has none cannot be resumed."""
    known: dict[str, str] = {}
    for name, value in parameters.items():
        with suppress(UnidentifiedError):
            known |= fingerprints({name: value})
    return known
