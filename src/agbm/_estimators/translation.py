"""From another library's settings to an estimator, with the help of the tables."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Protocol

from .._losses import is_function
from .._migration import LIBRARIES
from .._migration.library import CLASSIFICATION, MAX_BINS, REGRESSION, Library, Setting
from .classifier import AGBMClassifier
from .regressor import AGBMRegressor

# Defaults that all libraries share: plain boosting without early stopping.
_PLAIN = {"method": "gbm", "method__second_order": True, "max_iter": 100, "learning_rate": 0.1, "early_stopping": False}


class HasParameters(Protocol):
    """An estimator with the interface of scikit-learn."""

    def get_params(self) -> dict[str, Any]:
        """The parameters by name."""


def from_params(
    library: str, params: Mapping[str, Any] | HasParameters, *, task: str | None = None
) -> AGBMClassifier | AGBMRegressor:
    """Create an unfitted estimator with the settings of another library.

    The estimator does plain boosting (method="gbm"), in which the learning rate means the same as in the other
    libraries; with the default, method="fading", it means something else. Parameters that are not given have the other
    library's defaults. Parameters without a counterpart are listed in one warning, with what to use instead. A name
    that the library does not have raises ValueError.

    Parameters
    ----------
    library : {"lightgbm", "xgboost", "catboost", "hist_gradient_boosting", "sklearn"}
        The library that the parameters are for; the last two names mean the same.
    params : dict or estimator
        Parameters of the library's training function or of its estimators, by name or alias; or one of its
        scikit-learn estimators, such as LGBMClassifier(num_leaves=15), fitted or not.
    task : {"classification", "regression"}, default=None
        Which estimator to create. Needed only for a dict without an objective (or loss), such as `get_params()` of
        LGBMClassifier and CatBoostClassifier, which may belong to a classifier or to a regressor.

    Returns
    -------
    AGBMClassifier or AGBMRegressor

    Examples
    --------
    >>> import agbm
    >>> model = agbm.from_params("lightgbm", {"objective": "binary", "num_leaves": 63, "lambda_l2": 1.0})
    >>> model.max_leaf_nodes, model.l2_regularization, model.method
    (63, 1.0, GBM(line_search=False, second_order=True))
    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> agbm.from_params("sklearn", HistGradientBoostingRegressor(max_iter=50)).max_iter
    50
    """
    if isinstance(params, str) and not isinstance(library, str):
        raise TypeError(f"library and params are swapped; use from_params({params!r}, {library!r}).")
    if not isinstance(library, str) or library not in LIBRARIES:
        raise ValueError(f"library={library!r} must be one of {', '.join(map(repr, LIBRARIES))}.")
    if task not in (None, CLASSIFICATION, REGRESSION):
        raise ValueError(f"task={task!r} must be {CLASSIFICATION!r}, {REGRESSION!r} or None.")
    theirs = LIBRARIES[library]
    if not isinstance(params, Mapping):
        task = _task_of(theirs, params, task)
        params = params.get_params()
    _check_names(theirs, params)
    given = {name: value for name, value in params.items() if value is not None or theirs.none_is_a_value}
    given = _with_defaults_of_dart(theirs, given)
    kind, loss = _objective(theirs, given, task)
    ours = {**_PLAIN, **theirs.defaults, "loss": loss, **_converted(theirs, given)}
    if kind == REGRESSION and "class_weight" in ours:
        raise ValueError(
            "params: class weights are for classification, but the objective is for regression; remove them."
        )
    lost = _without_counterpart(theirs, given)
    if lost:
        listed = "\n".join(f"  {name}: {instead}" for name, instead in lost.items())
        warnings.warn(f"These parameters of {library} have no counterpart:\n{listed}", UserWarning, stacklevel=2)
    return (AGBMClassifier if kind == CLASSIFICATION else AGBMRegressor)().set_params(**ours)


def _task_of(theirs: Library, estimator: object, task: str | None) -> str | None:
    """The task of another library's estimator, from the names of its classes: the library is not imported."""
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        raise TypeError(f"params={estimator!r} must be a dict or an instance of an estimator of {theirs.name}.")
    name = type(estimator).__name__
    names = [kind.__name__ for kind in type(estimator).__mro__]
    if any(known.startswith("XGBRF") for known in names):
        raise ValueError(f"params: {name} is a random forest, which has no counterpart.")
    for library in LIBRARIES.values():
        if library is not theirs and not library.estimators.keys().isdisjoint(names):
            raise ValueError(f"params: {name} is an estimator of {library.name}, got library={theirs.name!r}.")
    found = next((theirs.estimators[known] for known in names if known in theirs.estimators), None)
    if None not in (found, task) and found != task:
        raise ValueError(f"params: {name} is for {found}, got task={task!r}; omit task.")
    return found or task


def _check_names(theirs: Library, params: Mapping[str, Any]) -> None:
    settings = [name for setting in theirs.settings for name in setting.theirs.split()]
    known = {*theirs.objective.split(), *settings, *theirs.ignored.split(), *theirs.instead}
    for name in params:
        if name not in known:
            close = get_close_matches(str(name), sorted(known), n=3)
            hint = f"did you mean {' or '.join(close)}?" if close else "remove it."
            raise ValueError(f"params: {theirs.name} has no known parameter {name!r}; {hint}")


def _name_used(names: str, params: Mapping[str, Any]) -> str | None:
    """The one of several aliases that is used, or None; two of them raise ValueError."""
    used = [name for name in names.split() if name in params]
    if len(used) > 1:
        raise ValueError(f"params: {' and '.join(used)} are names of the same parameter; give only one of them.")
    return used[0] if used else None


def _objective(theirs: Library, params: Mapping[str, Any], task: str | None) -> tuple[str, Any]:
    """The task and the loss."""
    name = _name_used(theirs.objective, params)
    objective, parameters = params.get(name or "", "auto"), ""
    if name is None or is_function(objective):
        if task is None:
            what = f"there is no {theirs.objective.split()[0]}" if name is None else f"{name} is a function"
            raise ValueError(
                f"params: the task is unknown, since {what}. Give task='classification' or task='regression', or "
                f"pass an estimator ({' or '.join(theirs.estimators)}) instead of a dict."
            )
        return task, objective
    if theirs.objective_has_parameters:
        objective, _, parameters = str(objective).partition(":")
    if not isinstance(objective, str) or objective not in theirs.objectives:
        raise ValueError(
            f"params: {name}={params[name]!r} has no counterpart; supported are {', '.join(theirs.objectives)}. For "
            "custom losses see agbm.losses.Loss; for rankings and survival analysis, use AGBMRanker and AGBMSurvival."
        )
    kind, loss = theirs.objectives[objective]
    if task not in (None, kind):
        raise ValueError(f"params: {name}={params[name]!r} is for {kind}, got task={task!r}; remove one of them.")
    if callable(loss):
        try:
            loss = loss({**params, **dict(part.split("=") for part in parameters.split(";") if part)})
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"params: {name}={params[name]!r} needs a parameter that is a single number: {error}."
            ) from error
    return kind, loss


def _converted(theirs: Library, params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of agbm, from those that have a counterpart."""
    found: dict[str, Any] = {}
    for setting in theirs.settings:
        name = _name_used(setting.theirs, params)
        if name is None or not _has_effect(theirs, setting, params):
            continue
        try:
            value = setting.convert(params[name])
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"params: {name}={params[name]!r} cannot be converted to {setting.ours}: {error}."
            ) from error
        if value is None and setting.ours in ("class_weight", "n_iter_no_change"):
            continue  # turned off
        if setting.ours in found:
            raise ValueError(f"params: {name}={params[name]!r} and another parameter both set {setting.ours}.")
        found[setting.ours] = value
    if "n_iter_no_change" in found and theirs.patience_turns_on_early_stopping:
        found["early_stopping"] = True
    return found


def _has_effect(theirs: Library, setting: Setting, params: Mapping[str, Any]) -> bool:
    """Whether a parameter has an effect in the other library: rows may need a frequency, and dropout needs DART."""
    if theirs.sampling_frequency and setting.ours == "subsample":
        return bool(next((params[name] for name in theirs.sampling_frequency.split() if name in params), 0))
    if setting.ours == "method__dropout":
        return _is_dart(params)
    return True


def _is_dart(params: Mapping[str, Any]) -> bool:
    return "dart" in (params.get(name) for name in ("boosting", "boosting_type", "boost", "booster"))


def _with_defaults_of_dart(theirs: Library, params: Mapping[str, Any]) -> dict[str, Any]:
    """Add the defaults of the parameters of DART that are not given under any of their names."""
    if not _is_dart(params):
        return dict(params)
    aliases = {name: setting.theirs.split() for setting in theirs.settings for name in setting.theirs.split()}
    absent = {name for name in theirs.dart_defaults if set(aliases.get(name, [name])).isdisjoint(params)}
    return {**{name: theirs.dart_defaults[name] for name in absent}, **params}


def _without_counterpart(theirs: Library, params: Mapping[str, Any]) -> dict[str, str]:
    """Parameters without a counterpart whose value would change the model, with what to use instead."""
    lost = {
        name: instead
        for name, instead in theirs.instead.items()
        if _would_matter(params.get(name), theirs.harmless.get(name, ()))
    }
    for name in ("max_bin", "max_bins", "border_count"):
        if params.get(name, 0) > MAX_BINS:
            lost[name] = f"a feature has at most {MAX_BINS} bins"
    return lost


def _would_matter(value: object, harmless: tuple[Any, ...]) -> bool:
    if isinstance(value, (str, bool, int, float)):
        return bool(value) and value not in harmless
    return value is not None
