"""Cross-validation in one run: the folds share the bins of one table and are trained together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier

from .._base import threads
from .._base.sums import Array
from .._base.types import Table, Values
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
from .._data.batches import blocks_of
from .._data.hold_out import stratified_folds
from .._data.rows import Given
from .._fit.checks import check_combinations
from .._fit.planning import Request, checkpoints_of
from .._fit.progress import progress
from .._fit.run import Run
from .._fit.scoring import Scorer, Scores, scorers_of
from .._fit.train import Trained, fitted_model, member_run
from .._labels.base import Classes, Labels, Numbers
from .._labels.lifetimes import Lifetimes, as_matrix, is_survival
from .._labels.relevances import Relevances, ranks, whole_queries
from .._model.settings import Scoring, Settings
from .base import BaseAGBM
from .folds import Folds, Split, prepared_folds
from .parameters import Targets

Columns = dict[str, NDArray[Any]]


class Splitter(Protocol):
    """A splitter of scikit-learn, such as KFold."""

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterable[tuple[Any, Any]]:
        """Pairs of training and test rows."""


Folding: TypeAlias = "int | Splitter | Iterable[tuple[ArrayLike, ArrayLike]]"
"""The argument cv: a number of folds, a splitter, or pairs of training and test rows."""


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """The result of `agbm.cv`.

    Attributes
    ----------
    history : dict of arrays
        One entry per iteration, including the initial function as iteration 0: `iteration`, `trees` (per fold),
        `seconds`, and the mean and the standard deviation over the folds of each loss and metric, such as
        `validation_loss_mean` and `validation_loss_std`. Ready for pandas.DataFrame.
    best_iteration : int
        The first iteration with the lowest mean validation loss, or the highest mean of the first metric.
    scores : dict of arrays
        Losses and metrics of each fold at the best iteration.
    predictions : array
        Out-of-fold predictions at the best iteration: of `predict` for regressors, of `predict_proba` for classifiers.
        A row has the mean over the folds that test it, and NaN if no fold does.
    estimators : list
        The fitted estimator of each fold, at the best iteration; `history_` is that of its fold.
    splits : list of pairs of arrays
        The training and the test rows of each fold.
    """

    history: Columns
    best_iteration: int
    scores: Columns
    predictions: NDArray[Any]
    estimators: Sequence[Any]
    splits: Sequence[Split]

    @property
    def method(self) -> Any:
        """The method of the estimator."""
        return self.estimators[0].method

    @property
    def n_iter(self) -> int:
        """Number of iterations that were run."""
        return len(self.history["iteration"]) - 1

    @property
    def best_params(self) -> dict[str, Any]:
        """The parameters that fit a model of the best iteration to all rows; see agbm.cv."""
        return {"max_iter": max(self.best_iteration, 1), "early_stopping": False}

    def __repr__(self) -> str:
        """The number of folds, the best iteration, and each loss and metric there."""
        found = "".join(f", {name}={of.mean():.4g} (std {of.std():.2g})" for name, of in self.scores.items())
        return f"CrossValidation({len(self.splits)} folds, best_iteration={self.best_iteration}{found})"


def cv(
    estimator: BaseAGBM, X: Table, y: Targets, *, cv: Folding = 5, groups: Values | None = None,
    sample_weight: Values | None = None, scoring: Scoring = None,
) -> CrossValidation:  # fmt: skip
    """Cross-validate an estimator, with one number of iterations for all folds.

    All folds are trained together, iteration by iteration. Training stops when the mean validation loss of the folds no
    longer improves, as `early_stopping` and `n_iter_no_change` say; with early_stopping=False all iterations are
    run. The table is read and binned once. The model of a fold is that of ``estimator.fit(X[train], y[train],
    X_val=X[test], y_val=y[test])``, with all members, except that thresholds between bins come from all rows of X. Its
    validation loss is that of the model, the mean of its members, while history_ of fit has the mean of their losses.

    Parameters
    ----------
    estimator : AGBMClassifier, AGBMRegressor, AGBMRanker or AGBMSurvival
        The settings. The estimator itself is not fitted or changed.
    X, y, sample_weight
        A table of any kind that fit accepts, its labels, and the weights of the rows. For a ranker, y has the columns
        relevance and query, and folds consist of whole queries.
    cv : int, splitter or iterable, default=5
        As in scikit-learn: a number of folds, a splitter, or pairs of training and test rows. Folds by number are
        stratified as validation splits are: by classes, by events, by labels that differ from those of most rows.
    groups : array, default=None
        The group of each row, for splitters such as GroupKFold.
    scoring : str, callable, list or dict, default=None
        Metrics, as the parameter `scoring` of the estimators; None: that of the estimator. The first one decides.

    Returns
    -------
    CrossValidation
        With `history`, `best_iteration`, `scores`, `predictions` (out of fold), `estimators` and `best_params`.

    Examples
    --------
    >>> import agbm
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> result = agbm.cv(agbm.AGBMRegressor(max_iter=30), X, y, cv=3, scoring="r2")
    >>> result.scores["validation_r2"].shape, result.predictions.shape
    ((3,), (442,))
    >>> model = agbm.AGBMRegressor(**result.best_params).fit(X, y)
    """
    template = _template(estimator, scoring)
    settings = Settings.of(template)
    _check_table(X, y, sample_weight)

    def split(labels: NDArray[Any], strata: NDArray[np.intp] | None) -> Iterable[tuple[Any, Any]]:
        from sklearn.model_selection import check_cv  # slow to import

        if ranks(template):
            return whole_queries(labels, cast(Any, strata), cv, X, groups)
        if isinstance(cv, int) and strata is not None:
            return stratified_folds(strata, cv)
        found: Iterable[tuple[Any, Any]] = check_cv(cv, labels, classifier=is_classifier(template)).split(
            X, labels, groups
        )
        return found

    kind: type[Labels] = Relevances if ranks(template) else Classes if is_classifier(template) else Numbers
    if is_survival(template):
        kind, y = Lifetimes, as_matrix(y)
    folds = prepared_folds(Request(settings, kind), Given(X, y, sample_weight), split)
    return _cross_validated(settings, folds)


def _template(estimator: BaseAGBM, scoring: Scoring) -> BaseAGBM:
    """A copy of the estimator with its parameters, without copies of these: a clone of an init model is not fitted."""
    if not isinstance(estimator, BaseAGBM):
        raise TypeError(
            f"estimator={estimator!r} must be an estimator of agbm, such as AGBMClassifier(); for pipelines and other "
            "estimators, use cross_validate of scikit-learn."
        )
    if hasattr(estimator, "to_local"):
        raise TypeError(
            f"{type(estimator).__name__} is for Dask; agbm.cv works on one machine, with the estimators of agbm itself."
        )
    template = type(estimator)(**estimator.get_params(deep=False))
    template.warm_start = False
    template.scoring = template.scoring if scoring is None else scoring
    template._validate_params()
    settings = Settings.of(template)
    if checkpoints_of(settings):
        raise ValueError("callbacks: agbm.cv cannot save checkpoints; remove Checkpoint from callbacks.")
    if settings.method.temperature_scaling:
        raise ValueError(
            "temperature_scaling=True: the validation rows of agbm.cv are the test rows, which must not affect the "
            "models. Use temperature_scaling=False, or cross_validate of scikit-learn."
        )
    check_combinations(settings, Given(None, None), ())
    return template


def _check_table(X: Table, y: Targets, sample_weight: Values | None) -> None:
    if hasattr(X, "__dask_graph__") or blocks_of(X, y, sample_weight, None) is not None:
        raise TypeError(
            f"X must be a table in memory, such as an array or a data frame; got {type(X).__name__}. For data in "
            "batches or on a cluster, fit with X_val and y_val."
        )


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

    def estimator(self, settings: Settings, best: int, history: Columns) -> Any:
        """The fitted estimator of the best iteration."""
        fitted: Any = type(settings.scored)(**settings.scored.get_params(deep=False))
        ensembles = [member.ensemble for member in self.members]
        for ensemble in ensembles:
            ensemble.truncate(best)
        trained = Trained(ensembles, history, self.run.resolved(settings))
        fitted.model_, fitted.notes_ = fitted_model(self.run, settings, trained), {}
        return fitted


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


def _cross_validated(settings: Settings, given: Folds) -> CrossValidation:
    """Train all folds together."""
    scorers = scorers_of(settings)
    folds = [_Fold(run, settings, scorers) for run in given.runs]
    history, best = _trained(settings, folds, scorers)
    seconds = history.columns()["seconds"]
    histories = [fold.history(seconds) for fold in folds]
    names = ["train_loss", "validation_loss", *folds[0].records[0].scores]
    by_fold = {name: np.array([of[name] for of in histories]) for name in names}
    estimators = [fold.estimator(settings, best, of) for fold, of in zip(folds, histories, strict=True)]
    return CrossValidation(
        history={
            "iteration": histories[0]["iteration"],
            "trees": np.mean([of["trees"] for of in histories], axis=0),
            "seconds": seconds,
            **{f"{name}_{of}": getattr(np, of)(values, axis=0) for name, values in by_fold.items() for of in _MOMENTS},
        },
        best_iteration=best,
        scores={name: values[:, best] for name, values in by_fold.items()},
        predictions=_out_of_fold(given, estimators),
        estimators=estimators,
        splits=given.splits,
    )


_MOMENTS = ("mean", "std")


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
    with progress(settings.method_name, plan.max_iter, settings.verbose, loss=plan.loss, score=stopping) as bar:
        if bar is not None:
            watchers.append(bar)
        if plan.stops_early:
            watchers.append(EarlyStopping(settings.n_iter_no_change, criterion))
        told = [_told(watcher, of_models) for watcher in watchers]
        history, diverged = watch(members, told, plan.members_at_once, plan.method.dropout == 0.0, scores)
    history.records = [of_models(record) for record in history.records]
    best = history.best_iteration(criterion)
    if diverged:
        warn_diverged(history, best, stacklevel=5)
    return history, best


def _told(watcher: Watcher, change: Callable[[Record], Record]) -> Watcher:
    """A watcher that receives changed records."""
    return lambda record: watcher(change(record))


def _out_of_fold(given: Folds, estimators: Sequence[Any]) -> NDArray[Any]:
    """The mean prediction for each row, by the models of the folds that test it."""
    total: Any = None
    n_tests = np.zeros(given.X.shape[0])
    for (_, test), estimator in zip(given.splits, estimators, strict=True):
        model, n_threads = estimator.model_, threads.resolve(estimator.n_jobs)
        start = model.start[:, np.newaxis] if given.start is None else given.start[:, test]
        raw = start + model.folded.predict(given.X[test], n_threads)[0]
        finish = model.labels.probabilities if is_classifier(estimator) else model.labels.predictions
        predicted = finish(model.loss, raw)
        total = np.zeros((len(n_tests), *predicted.shape[1:])) if total is None else total
        np.add.at(total, test, predicted)
        np.add.at(n_tests, test, 1.0)
    with np.errstate(invalid="ignore"):  # rows without a test
        return np.asarray(total / n_tests.reshape(-1, *[1] * (total.ndim - 1)))
