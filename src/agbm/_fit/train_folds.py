"""Training of a cross-validation: the members of all folds advance together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from .._base.sums import Array
from .._core.boosting import Step
from .._core.learners import V
from .._core.objective import LocalObjective
from .._core.training import (
    EarlyStopping,
    History,
    MemberRun,
    Record,
    Watcher,
    by_loss,
    by_score,
    mean_of,
    no_scores,
    warn_diverged,
    watch,
)
from .._data.crosses import with_crosses
from .._model.fitted import FittedModel
from .._model.settings import Settings
from .prepare_folds import Folds
from .progress import progress
from .run import Run
from .scoring import Scorer, Scores, scorers_of
from .train import Trained, fitted_model, member_run

Columns = dict[str, NDArray[Any]]


class TrainedFolds(NamedTuple):
    """The result of the training of all folds."""

    best_iteration: int
    models: list[FittedModel]
    """The model of each fold at the best iteration."""
    histories: list[Columns]
    """The history of each fold; seconds are those of all folds together."""
    measured: list[str]
    """The losses and metrics in the histories."""


def train_folds(settings: Settings, given: Folds) -> TrainedFolds:
    """Train all folds together, up to the best iteration of their mean."""
    scorers = scorers_of(settings)
    folds = [_Fold(run, settings, scorers) for run in given.runs]
    history, best = _trained(settings, folds, scorers)
    seconds = history.columns()["seconds"]
    histories = [fold.history(seconds) for fold in folds]
    models = [fold.model(settings, best, of) for fold, of in zip(folds, histories, strict=True)]
    return TrainedFolds(best, models, histories, ["train_loss", "validation_loss", *folds[0].records[0].scores])


class _Fold:
    """The training of one fold: its members, and one record per iteration."""

    def __init__(self, run: Run, settings: Settings, scorers: Mapping[str, Scorer]) -> None:
        self.run = run
        self.records: list[Record] = []
        self._scores = Scores(settings, scorers, run) if scorers else no_scores
        members = [member_run(run.plan, member, settings) for member in run.members]
        self._steps: list[list[Record]] = [[_at_start(member)] for member in members]
        self.members = [
            member._replace(steps=_noted(member.steps, log))
            for member, log in zip(members, self._steps, strict=True)
        ]  # fmt: skip

    def note(self, functions: Sequence[Any]) -> Record:
        """Append the record of the next iteration; `functions` are those of the members."""
        iteration = len(self.records)
        records = [log[iteration] for log in self._steps]  # a member may be one step ahead
        means = {
            name: mean_of([getattr(record, name) for record in records])
            for name in ("train_loss", "cosine_residual", "cosine_corrected")
        }
        self.records.append(
            records[0]._replace(
                iteration=iteration,
                trees=sum(member.ensemble.n_learners for member in self.members),
                validation_loss=records[0].validation_loss if len(records) == 1 else self._validation_loss(functions),
                restart=any(record.restart for record in records),
                scores=self._scores(functions),
                **means,
            )
        )
        return self.records[-1]

    def _validation_loss(self, functions: Sequence[Array]) -> float:
        """The loss of the mean of the members, which is the model."""
        objective = cast(LocalObjective, self.members[0].objective)
        rows = objective.validation_rows
        f = np.mean([f[..., rows] for f in functions], axis=0)
        return objective.mean_loss(objective.y[..., rows], f, objective.validation_weight)

    def history(self, seconds: NDArray[Any]) -> Columns:
        """The history of the fold."""
        own = History()
        own.records = self.records
        return {**own.columns(), "seconds": seconds}

    def model(self, settings: Settings, best: int, history: Columns) -> FittedModel:
        """The fitted model of the best iteration."""
        ensembles = [member.ensemble for member in self.members]
        for ensemble in ensembles:
            ensemble.truncate(best)
        return fitted_model(self.run, settings, Trained(ensembles, history, self.run.resolved(settings)))


def _at_start(member: MemberRun) -> Record:
    objective = member.objective
    return Record(0, 0, objective.train_loss(objective.start), objective.validation_loss(objective.start))


def _noted(steps: Iterator[Step[V]], log: list[Record]) -> Iterator[Step[V]]:
    """The steps; their losses are appended to the log, without the vectors."""
    for step in steps:
        log.append(
            Record(
                0, 0, step.train_loss, step.validation_loss, step.theta, step.gamma, step.cosine_residual,
                step.cosine_corrected, step.restart,
            )
        )  # fmt: skip
        yield step


def _trained(settings: Settings, folds: Sequence[_Fold], scorers: Mapping[str, Scorer]) -> tuple[History, int]:
    """The history of the means over the folds, and the best iteration."""
    plan = folds[0].run.plan
    members = [member for fold in folds for member in fold.members]

    def scores(functions: Sequence[Any]) -> dict[str, float]:
        rest = iter(functions)
        records = [fold.note([next(rest) for _ in fold.members]) for fold in folds]
        return {name: sum(of.scores[name] for of in records) / len(records) for name in records[0].scores}

    def of_models(record: Record) -> Record:
        """The record with the validation loss of the models of the folds instead of that of their members."""
        losses = [fold.records[record.iteration].validation_loss for fold in folds]
        return record._replace(validation_loss=sum(losses) / len(losses))

    stopping = f"validation_{next(iter(scorers))}" if scorers else None
    criterion = by_loss(True) if stopping is None else by_score(stopping)
    watchers: list[Watcher] = list(settings.callbacks or ())
    with progress(settings.method_title, plan.max_iter, settings.verbose, loss=plan.loss, score=stopping) as bar:
        if bar is not None:
            watchers.append(bar)
        if plan.stops_early:
            watchers.append(EarlyStopping(settings.n_iter_no_change, criterion))
        told = [_told(watcher, of_models) for watcher in watchers]
        history, diverged = watch(members, told, plan.members_at_once, plan.method.dropout == 0.0, scores)
    history.records = [of_models(record) for record in history.records]
    best = history.best_iteration(criterion)
    if diverged:
        warn_diverged(history, best, stacklevel=6)
    return history, best


def _told(watcher: Watcher, change: Callable[[Record], Record]) -> Watcher:
    """A watcher that receives changed records."""
    return lambda record: watcher(change(record))


def out_of_fold(given: Folds, models: Sequence[FittedModel], probabilities: bool, n_threads: int) -> NDArray[Any]:
    """The mean prediction for each row, by the models of the folds that test it."""
    total: Any = None
    n_tests = np.zeros(given.X.shape[0])
    for (_, test), model in zip(given.splits, models, strict=True):
        start = model.start[:, np.newaxis] if given.start is None else given.start[:, test]
        raw = start + model.folded.predict(with_crosses(given.X[test], model.reader.crosses), n_threads)[0]
        labels: Any = model.labels
        finish = labels.probabilities if probabilities else labels.predictions
        predicted = finish(model.loss, raw)
        total = np.zeros((len(n_tests), *predicted.shape[1:])) if total is None else total
        np.add.at(total, test, predicted)
        np.add.at(n_tests, test, 1.0)
    with np.errstate(invalid="ignore"):  # rows without a test
        return np.asarray(total / n_tests.reshape(-1, *[1] * (total.ndim - 1)))
