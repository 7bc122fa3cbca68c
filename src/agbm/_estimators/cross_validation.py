"""Cross-validation in one run: the folds share the bins of one table and are trained together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier

from .._base import threads
from .._base.types import Table, Values
from .._data.batches import blocks_of
from .._data.hold_out import stratified_folds, time_folds
from .._data.rows import Given
from .._data.tables import collected
from .._data.units import GivenUnit, keys_of
from .._fit.checks import check_combinations
from .._fit.planning import Request, checkpoints_of
from .._fit.prepare_folds import Folds, Split, prepared_folds
from .._fit.train_folds import Columns, out_of_fold, train_folds
from .._labels.base import Classes, Labels, Numbers
from .._labels.lifetimes import Lifetimes, as_matrix, is_survival
from .._labels.relevances import Relevances, ranks, whole_queries
from .._losses import is_function
from .._model.fitted import FittedModel
from .._model.settings import Scoring, Settings
from .base import BaseAGBM
from .parameters import Targets


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
    estimator: BaseAGBM, X: Table, y: Targets, *, cv: Folding = 5, groups: Values | str | None = None,
    time: Values | str | None = None, sample_weight: Values | None = None, scoring: Scoring = None,
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
    groups : array or name of a column, default=None
        The group of each row: folds by number consist of whole groups; splitters such as GroupKFold get them.
    time : array or name of a column, default=None
        The time of each row: each of `cv` folds tests a window of times, and trains on the rows before it.
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
    unit, X = GivenUnit.of(X, groups, time), collected(X)
    template = _template(estimator, scoring)
    settings = replace(Settings.of(template), device="cpu")
    _check_table(X, y, sample_weight)

    def split(labels: NDArray[Any], strata: NDArray[np.intp] | None) -> Iterable[tuple[Any, Any]]:
        from sklearn.model_selection import GroupKFold, check_cv  # slow to import

        if unit.kind == "time":
            return _windows(unit.values, len(labels), cv)
        if ranks(template):
            return whole_queries(labels, cast(Any, strata), cv, X, unit.values)
        if isinstance(cv, int) and strata is not None:
            return stratified_folds(strata, cv, groups=unit.values)
        splitter = check_cv(cv, labels, classifier=is_classifier(template))
        if isinstance(cv, int) and unit.kind == "groups":
            splitter = GroupKFold(cv)
        found: Iterable[tuple[Any, Any]] = splitter.split(X, labels, unit.values)
        return found

    kind: type[Labels] = Relevances if ranks(template) else Classes if is_classifier(template) else Numbers
    if is_survival(template):
        kind, y = Lifetimes, as_matrix(y)
    folds = prepared_folds(Request(settings, kind), Given(X, y, sample_weight), split)
    return _cross_validated(template, settings, folds)


def _windows(time: Any, n_rows: int, cv: Folding) -> Iterable[tuple[Any, Any]]:
    """The folds of windows of time, and the rows before each."""
    if not isinstance(cv, int):
        raise ValueError(f"time decides the folds, and so does cv={cv!r}; pass the number of folds as cv.")
    return time_folds(cast(Any, keys_of("time", time, n_rows)), 1.0 / (cv + 1), cv)


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
    if is_function(settings.loss) and settings.scoring is None:
        raise ValueError(
            f"scoring=None: agbm.cv needs a metric, since the function loss={settings.loss!r} returns only derivatives."
        )
    return template


def _check_table(X: Table, y: Targets, sample_weight: Values | None) -> None:
    if hasattr(X, "__dask_graph__") or blocks_of(Given(X, y, sample_weight)) is not None:
        raise TypeError(
            f"X must be a table in memory, such as an array or a data frame; got {type(X).__name__}. For data in "
            "batches or on a cluster, fit with X_val and y_val."
        )


def _cross_validated(template: BaseAGBM, settings: Settings, given: Folds) -> CrossValidation:
    trained = train_folds(settings, given)
    by_fold = {name: np.array([of[name] for of in trained.histories]) for name in trained.measured}
    history = trained.histories[0]
    return CrossValidation(
        history={
            "iteration": history["iteration"],
            "trees": np.mean([of["trees"] for of in trained.histories], axis=0),
            "seconds": history["seconds"],
            **{f"{name}_{of}": getattr(np, of)(values, axis=0) for name, values in by_fold.items() for of in _MOMENTS},
        },
        best_iteration=trained.best_iteration,
        scores={name: values[:, trained.best_iteration] for name, values in by_fold.items()},
        predictions=out_of_fold(given, trained.models, is_classifier(template), threads.resolve(template.n_jobs)),
        estimators=[_fitted(template, model) for model in trained.models],
        splits=given.splits,
    )


def _fitted(template: BaseAGBM, model: FittedModel) -> BaseAGBM:
    fitted = type(template)(**template.get_params(deep=False))
    fitted.model_, fitted.notes_ = model, {}
    return fitted


_MOMENTS = ("mean", "std")
