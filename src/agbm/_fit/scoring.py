"""Scores during training: metrics of scikit-learn on the validation rows and on other given rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from difflib import get_close_matches
from inspect import Signature, signature
from numbers import Real
from typing import Any, NamedTuple, cast

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import UndefinedMetricWarning

from .._base.sums import Array
from .._base.types import AnyArray, Table, Values
from .._core.objective import LocalObjective
from .._core.training import mean_of
from .._labels.base import Labels, Result
from .._labels.relevances import ranks
from .._losses import WEIGHT_NAMES, Loss, called, is_function
from .._losses.metrics import RankingMetric
from .._model.settings import Settings
from .run import Run

Scorer = Callable[..., float]

_OTHER_NAMES = {"auc": "roc_auc", "aucpr": "average_precision"}
"""Names of metrics in other libraries."""
_ERRORS = {
    "rmse": "neg_root_mean_squared_error", "mse": "neg_mean_squared_error", "mae": "neg_mean_absolute_error",
    "mape": "neg_mean_absolute_percentage_error", "logloss": "neg_log_loss",
}  # fmt: skip
"""Metrics of which less is better, in other libraries. Scores have the opposite sign, so the names are only hints."""


def scorers_of(settings: Settings) -> dict[str, Scorer]:
    """The scorers of the parameter `scoring` of an estimator by name; early stopping uses the first."""
    given = settings.scoring
    if given is None:
        return {}
    several = given if isinstance(given, list | tuple) else [given]
    named = given if isinstance(given, dict) else {_name(one): one for one in several}
    if not named:
        raise ValueError(f"scoring={given!r} has no metrics; name at least one, or use None for the loss.")
    return {name: _scorer(name, one, ranks(settings.scored)) for name, one in named.items()}


def _name(scorer: object) -> str:
    return scorer if isinstance(scorer, str) else getattr(scorer, "__name__", "score")


def _scorer(name: str, given: Any, of_rankings: bool) -> Scorer:
    if name == "loss":
        raise ValueError("scoring: 'loss' is always recorded; to stop on it, use scoring=None.")
    if callable(given):
        return _checked_scorer(given)
    if of_rankings:
        return _ranking_scorer(str(given))
    from sklearn.metrics import get_scorer, get_scorer_names  # slow to import

    given = _OTHER_NAMES.get(given, given)
    if given not in get_scorer_names():
        known = _ERRORS.get(str(given))
        similar = [known] if known is not None else get_close_matches(str(given), get_scorer_names(), cutoff=0.5)
        hint = f"similar names: {', '.join(similar)}" if similar else "sklearn.metrics.get_scorer_names() lists all"
        raise ValueError(f"scoring={given!r} must be a callable or the name of a scorer of scikit-learn; {hint}.")
    return cast(Scorer, get_scorer(given))


def _checked_scorer(given: Any) -> Scorer:
    """A callable that can be called like a scorer, of a scorer or of a metric of another library."""
    try:
        arguments = signature(given)
    except ValueError:  # some callables have no signature
        return cast(Scorer, given)
    if _is_metric(arguments):
        return _of_metric(given)
    try:
        arguments.bind(None, None, None)
    except TypeError as error:
        raise TypeError(_not_a_scorer(given, f"its arguments are {arguments}")) from error
    return cast(Scorer, given)


def _is_metric(arguments: Signature) -> bool:
    """Whether a callable has two arguments, or weights as the third one; a scorer has (estimator, X, y).

    Metrics of scikit-learn have arguments after these, and return a number.
    """
    names = [name for name, one in arguments.parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
    like_metric = len(names) == 2 or (len(names) > 2 and names[2] in WEIGHT_NAMES)
    return like_metric and not any(one.kind is one.KEYWORD_ONLY for one in arguments.parameters.values())


def _of_metric(metric: Callable[..., Any]) -> Scorer:
    """The scorer of a metric as LightGBM and XGBoost call it, whose result says whether higher is better."""

    def score(estimator: Any, X: Any, y: AnyArray, sample_weight: Array | None = None) -> float:
        y_true, y_pred = _as_elsewhere(estimator, X, y)
        found = called(metric, y_true, y_pred, sample_weight, "scoring")
        if not isinstance(found, tuple | list) or len(found) != 3:
            raise TypeError(_not_a_scorer(metric, f"it returned {found!r}"))
        _, value, is_higher_better = found
        return float(value) if is_higher_better else -float(value)

    return score


def _as_elsewhere(estimator: Any, X: Any, y: AnyArray) -> tuple[AnyArray, Array]:
    """Labels and predictions as LightGBM and XGBoost pass them to metrics."""
    of_function = is_function(estimator.loss)
    if not is_classifier(estimator):
        return y[:, 0] if ranks(estimator) else y, estimator.predict(X)
    scores = estimator.decision_function(X) if of_function else estimator.predict_proba(X)
    if y.ndim > 1:
        return y, scores
    codes = np.searchsorted(estimator.classes_, y)
    return codes, scores[:, 1] if not of_function and scores.shape[1] == 2 else scores


def _not_a_scorer(given: object, why: str) -> str:
    return (
        f"scoring={given!r} must be a scorer(estimator, X, y) that returns a number, the larger the better, or a "
        f"metric(y_true, y_pred) that returns (name, value, is_higher_better); {why}. For a metric that returns a "
        "number, use sklearn.metrics.make_scorer(metric, greater_is_better=False), or True."
    )


def _ranking_scorer(name: str) -> Scorer:
    """The scorer of a metric of rankings; the columns of y are relevance and query."""
    metric = RankingMetric.named(name)
    if metric is None:
        raise ValueError(
            f"scoring={name!r} must be a callable, or a metric of rankings: 'ndcg', 'map' or 'mrr', of all positions "
            "or of the first ones as in 'ndcg@5'."
        )

    def score(estimator: Any, X: Any, y: AnyArray, sample_weight: Array | None = None) -> float:
        return metric.mean(y[:, 0], y[:, 1], estimator.predict(X), sample_weight)

    return score


class _KnownScores(NamedTuple):
    """The model of an estimator whose raw scores are known for some rows."""

    labels: Labels
    loss: Loss
    raw: Array

    def raw_predict(self, X: Table, n_threads: int, offset: Values | None = None, predict: object = None) -> Array:
        """The scores (output, row) of the rows, which include their offsets."""
        return self.raw

    def results(self, X: Table, n_threads: int, offset: Values | None, kind: Result) -> AnyArray:
        """The results of a kind for the rows."""
        return self.labels.results(kind, self.loss, self.raw)


class _Part(NamedTuple):
    """Some rows of a member."""

    name: str
    from_end: int
    """How many rows of the member are left at the first of them; the same for all members that share these rows."""
    encoded: Array
    y: AnyArray
    weight: Array | None

    def of(self, f: Array) -> Array:
        """The values of a function on these rows."""
        first = f.shape[-1] - self.from_end
        return f[..., first : first + len(self.y)]


def row_sets(history: Collection[str]) -> list[str]:
    """The sets of rows whose losses are columns of a history: "train", "validation", and names of `watch`.

    The name of a metric may end like that of a loss: "validation_neg_log_loss" is a score of the validation rows.
    """
    sets = ["train", "validation"]
    metrics = [column.removeprefix(f"{name}_") for name in sets for column in history if column.startswith(f"{name}_")]
    for column in history:  # the loss of a set comes before its scores
        if column.endswith("_loss") and column not in {f"{name}_{metric}" for name in sets for metric in metrics}:
            sets.append(column.removesuffix("_loss"))
    return sets


class Scores:
    """Computes the scores of an iteration, named after the rows and the metric: "validation_roc_auc".

    Rows that all members share are scored by the mean of the members, which is the model. Rows that each member has
    held out for itself are scored by that member, and the mean of these scores is taken, without those that are NaN.
    """

    def __init__(self, settings: Settings, scorers: Mapping[str, Scorer], run: Run) -> None:
        self._estimator = settings.scored
        self._scorers = scorers
        self._labels = run.labels
        self._loss = run.plan.loss
        self._held_out = run.plan.held_out
        objectives: list[LocalObjective] = [cast(Any, member.objective).local for member in run.members]
        self._to_host = [cast(Any, member.objective).to_host for member in run.members]
        self._objective = objectives[0]
        self._stopping = [self._stopping_rows(objective) for objective in objectives]
        left = self._objective.n_watched
        self._watched: list[_Part] = []
        for watched in run.watched:
            self._watched.append(self._part(watched.name, self._objective, left, watched.n, watched.weight))
            left -= watched.n
        _check_distinct([watched.name for watched in run.watched], scorers)

    def _stopping_rows(self, objective: LocalObjective) -> _Part:
        """The rows whose scores early stopping uses."""
        n_train, left = objective.n_train, objective.n_rows
        if not objective.has_validation:
            return self._part("train", objective, left, n_train, objective.train_weight)
        left, n = left - n_train, left - n_train - objective.n_watched
        return self._part("validation", objective, left, n, objective.validation_weight)

    def _part(self, name: str, objective: LocalObjective, from_end: int, n: int, weight: Array | None) -> _Part:
        first = objective.n_rows - from_end
        encoded = objective.y[..., first : first + n]
        return _Part(name, from_end, encoded, self._labels.decode(encoded), weight)

    def __call__(self, functions: Sequence[Array]) -> dict[str, float]:
        """The scores of the functions of all members."""
        functions = [to_host(f) for to_host, f in zip(self._to_host, functions, strict=True)]
        if self._held_out:
            of_members = [self._metrics(part, part.of(f)) for part, f in zip(self._stopping, functions, strict=True)]
            scores = {name: _mean_score([of[name] for of in of_members]) for name in of_members[0]}
        else:
            scores = self._metrics(self._stopping[0], _mean(self._stopping[0], functions))
        for part in self._watched:
            raw = _mean(part, functions)
            scores[f"{part.name}_loss"] = self._objective.mean_loss(part.encoded, raw, part.weight)
            scores |= self._metrics(part, raw)
        return scores

    def _metrics(self, part: _Part, raw: Array) -> dict[str, float]:
        if not self._scorers:
            return {}
        # A copy of the estimator that predicts from raw scores; features are not needed.
        model = copy(self._estimator)
        model.model_ = _KnownScores(self._labels, self._loss, np.ascontiguousarray(raw))
        X = np.arange(len(part.y))[:, np.newaxis]
        weights = {} if part.weight is None else {"sample_weight": part.weight}
        with warnings.catch_warnings():  # of iterations; if a metric is never defined, early stopping raises an error
            warnings.simplefilter("ignore", UndefinedMetricWarning)
            return {
                f"{part.name}_{name}": _number(scorer, scorer(model, X, part.y, **weights))
                for name, scorer in self._scorers.items()
            }


def _number(scorer: Scorer, score: object) -> float:
    if not isinstance(score, Real | np.ndarray):
        raise TypeError(_not_a_scorer(scorer, f"it returned {score!r}"))
    return float(score)


def _mean_score(of_members: Sequence[float]) -> float:
    defined = [score for score in of_members if not math.isnan(score)]
    return mean_of(defined) if defined else math.nan


def _check_distinct(watched: Sequence[str], metrics: Iterable[str]) -> None:
    """Raise ValueError if two columns of the history would have the same name."""
    owners: dict[str, str] = {}
    for name in watched:
        for column in (f"{name}_{metric}" for metric in ("loss", *metrics)):
            if column in owners:
                raise ValueError(
                    f"watch: {owners[column]!r} and {name!r} would both have the column {column!r} of history_; rename "
                    "one of them."
                )
            owners[column] = name


def _mean(part: _Part, functions: Sequence[Array]) -> Array:
    """The mean of the functions of all members on rows that they share."""
    return np.asarray(np.mean([part.of(f) for f in functions], axis=0))
