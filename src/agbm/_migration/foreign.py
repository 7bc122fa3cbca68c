"""Names of other libraries and their counterparts in agbm, for error messages."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches

from .._losses import is_loss_name
from . import LIBRARIES
from .library import CLASSIFICATION, Library

# Arguments of fit in other libraries.
_OF_FIT = {
    **dict.fromkeys(
        ("eval_set", "eval_sets", "valid_sets"), "pass X_val and y_val, and other sets as watch={'name': (X, y)}"
    ),
    **dict.fromkeys(("eval_sample_weight", "sample_weight_eval_set"), "pass sample_weight_val"),
    **dict.fromkeys(("eval_names", "valid_names"), "the keys of watch are the names of sets"),
    **dict.fromkeys(("eval_metric", "feval"), "set scoring, a parameter of the estimator"),
    **dict.fromkeys(("fobj", "obj"), "set loss, a parameter of the estimator"),
    "early_stopping_rounds": "set n_iter_no_change, a parameter of the estimator",
    **dict.fromkeys(("cat_features", "categorical_feature"), "set categorical_features, a parameter of the estimator"),
    **dict.fromkeys(("init_model", "xgb_model"), "set init to a fitted model, or warm_start=True to continue"),
    **dict.fromkeys(("verbose", "callbacks"), "it is a parameter of the estimator"),
    **dict.fromkeys(
        ("init_score", "base_margin", "baseline"), "pass offset, one raw score per row, and offset_val for X_val"
    ),
    **dict.fromkeys(("eval_init_score", "base_margin_eval_set"), "pass offset_val, one raw score per row of X_val"),
    "use_best_model": "the best iteration is always kept",
    "feature_name": "the names of columns are used",
    "weight": "pass sample_weight",
}

# Objectives that from_params does not translate: other estimators have these losses.
_LOSSES = {
    **dict.fromkeys(("lambdarank", "rank:ndcg"), ("AGBMRanker", "ndcg")),
    "rank:map": ("AGBMRanker", "map"),
    **dict.fromkeys(("rank:pairwise", "pairlogit"), ("AGBMRanker", "pairwise")),
    **dict.fromkeys(("rank_xendcg", "queryrmse", "querysoftmax"), ("AGBMRanker", "listwise")),
    "survival:cox": ("AGBMSurvival", "cox"),
    "survival:aft": ("AGBMSurvival", "aft:normal"),
}
_WITH_A_NUMBER = {"quantile": 0.9, "expectile": 0.8, "huber": 1.5, "tweedie": 1.5}
"""Losses that need a number, with an example."""

_BEST_SCORE = "history_['validation_loss'][best_iteration_]"
_STATE = "the fitted state is model_; agbm.export translates it, to_lightgbm for example"
# Attributes and methods of fitted models in other libraries.
_ATTRIBUTES = {
    **dict.fromkeys(("booster_", "get_booster", "estimators_"), _STATE),
    **dict.fromkeys(
        (
            "evals_result_",
            "evals_result",
            "evals_result_dict_",
            "get_evals_result",
            "train_score_",
            "validation_score_",
        ),
        "use history_, which has one entry per iteration, the initial function first",
    ),
    **dict.fromkeys(("best_score_", "best_score", "get_best_score"), f"use {_BEST_SCORE}"),
    **dict.fromkeys(("best_iteration", "best_ntree_limit", "get_best_iteration"), "use best_iteration_"),
    **dict.fromkeys(("n_estimators_", "tree_count_"), "use n_iter_ (iterations) or n_trees_"),
    **dict.fromkeys(("save_model", "save_raw"), "use save(path)"),
    "load_model": "use agbm.load(path), which returns the model",
    **dict.fromkeys(("dump_model", "get_dump"), "use agbm.export.export_text(model)"),
    **dict.fromkeys(
        ("feature_importance", "get_feature_importance", "get_score", "get_fscore"),
        "use feature_importances_ (gains) or split_counts_",
    ),
    **dict.fromkeys(("feature_name_", "feature_name", "feature_names_"), "use feature_names_in_"),
    "objective_": "use resolved_params_['loss']",
}


def of_attribute(name: str) -> str | None:
    """What to use instead of an attribute of another library's models; None if it has none with that name."""
    return _ATTRIBUTES.get(name)


def of_loss(name: str) -> tuple[str, str] | None:
    """The estimator and its loss for the name of an objective in another library; None for all other names."""
    lower = name.lower()
    if is_loss_name(name) or name in _WITH_A_NUMBER:  # without its number, which another error is about
        return None
    if lower in _LOSSES:
        return _LOSSES[lower]
    for library in LIBRARIES.values():
        for theirs, (task, loss) in library.objectives.items():
            if theirs.lower() == lower:
                estimator = "AGBMClassifier" if task == CLASSIFICATION else "AGBMRegressor"
                kinds = [f"{kind}:{number}" for kind, number in _WITH_A_NUMBER.items() if kind in lower]
                return estimator, kinds[0] if callable(loss) else loss
    return None


def of_estimator(name: str, value: object, known: list[str]) -> str | None:
    """What to use instead of an unknown parameter of an estimator; None if it resembles nothing."""
    for library in LIBRARIES.values():
        found = _counterpart(library, name, value)
        if found is not None:
            return f"{found}."
    return f"{_OF_FIT[name]}." if name in _OF_FIT else _similar(name, known)


def refuse_arguments(unknown: Iterable[str]) -> None:
    """Raise TypeError for unknown arguments of fit."""
    for name in unknown:
        known = ["sample_weight", "X_val", "y_val", "sample_weight_val", "offset", "offset_val", "watch"]
        hint = f"{_OF_FIT[name]}." if name in _OF_FIT else _similar(name, known)
        raise TypeError(f"fit has no argument {name!r}{'.' if hint is None else ': ' + hint}")


def _counterpart(library: Library, name: str, value: object) -> str | None:
    for setting in library.settings:
        if name in setting.theirs.split():
            ours = setting.ours
            with suppress(Exception):  # the value may be invalid for the other library as well
                ours = f"{setting.ours}={setting.convert(value)!r}"
            return f"{name} is {ours} here"
    if name in library.objective.split():
        return f"{name} is loss here"
    if name in library.instead:
        return library.instead[name]
    return "it is not needed here" if name in library.ignored.split() else None


def _similar(name: str, known: list[str]) -> str | None:
    similar = get_close_matches(name, known, n=1)
    return f"did you mean {similar[0]!r}?" if similar else None
