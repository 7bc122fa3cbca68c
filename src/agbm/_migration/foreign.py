"""Names of other libraries in our words, for errors."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches
from typing import Any

from .libraries import LIBRARIES
from .library import Library

# Arguments of fit in other libraries.
_OF_FIT = {
    **dict.fromkeys(
        ("eval_set", "eval_sets", "valid_sets"), "pass X_val and y_val, and other sets as watch={'name': (X, y)}"
    ),
    **dict.fromkeys(("eval_sample_weight", "sample_weight_eval_set"), "pass sample_weight_val"),
    **dict.fromkeys(("eval_names", "valid_names"), "the keys of watch are the names of sets"),
    **dict.fromkeys(("eval_metric", "feval"), "set scoring, a parameter of the estimator"),
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


def of_estimator(name: str, value: Any, known: list[str]) -> str | None:
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


def _counterpart(library: Library, name: str, value: Any) -> str | None:
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
