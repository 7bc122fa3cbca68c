"""Checks of parameters and arguments that cannot be combined."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from .._data.batches import Batches
from .._data.rows import Given
from .._data.units import Unit
from .._losses import is_function
from .._model.settings import Settings
from .._storage.checkpoint import Checkpoint


def check_combinations(
    settings: Settings, validation: Given, checkpoints: Sequence[Checkpoint], unit: Unit = "rows"
) -> None:
    """Raise an error if parameters of an estimator cannot be combined; `unit`: by what rows are held out."""
    settings.method.check(resumes=settings.warm_start or bool(checkpoints))
    if settings.method.learner is not None:
        _check_learner(settings, saves_checkpoints=bool(checkpoints))
    if is_function(settings.loss):
        _check_without_losses(settings)
    for callback in settings.callbacks or ():
        if not callable(callback):
            raise TypeError(f"callbacks must be callables that accept a record; got {callback!r}.")
    for checkpoint in checkpoints:
        checkpoint.check_path()
    X_val, y_val, weight, offset, _ = validation
    if (X_val is None) != (y_val is None) and not isinstance(X_val, Batches):  # batches may contain their labels
        missing, given = ("y_val", "X_val") if y_val is None else ("X_val", "y_val")
        raise ValueError(f"{missing}=None: X_val and y_val must be given together; got only {given}.")
    if X_val is None and weight is not None:
        raise ValueError("sample_weight_val has the weights of X_val, which is not given; pass X_val and y_val.")
    if X_val is None and offset is not None:
        raise ValueError("offset_val has the offsets of X_val, which is not given; pass X_val and y_val.")
    if X_val is not None and unit != "rows":
        raise ValueError(f"{unit} and X_val both say which rows validate; pass one of them.")
    if settings.warm_start and unit == "time":
        raise ValueError("warm_start=True does not work with time: the model is fitted again to all rows.")


def stopping_settings(settings: Settings, stacklevel: int) -> Settings:
    """The settings, in which early stopping is not "auto" if nothing is known that could stop a run."""
    if not is_function(settings.loss) or settings.scoring is not None or settings.early_stopping != "auto":
        return settings
    warnings.warn(
        f"loss={settings.loss!r} returns derivatives but no value of the loss, so training does not stop early, and "
        "history_ has no losses. Use scoring=... to stop by a metric; early_stopping=False silences this warning.",
        UserWarning,
        stacklevel=stacklevel,
    )
    return replace(settings, early_stopping=False)


def watched_rows(watch: Any) -> dict[str, Given]:
    """The rows of the argument `watch` of fit, by name."""
    rows: dict[str, Given] = {}
    for name, given in ({} if watch is None else dict(watch)).items():
        if not isinstance(name, str) or f"{name}_".startswith(("train_", "validation_")):
            raise ValueError(
                f"watch: the name {name!r} must be text other than 'train' and 'validation', and must not begin with "
                "'train_' or 'validation_', as other columns of history_ do."
            )
        if not isinstance(given, tuple) or len(given) not in (2, 3, 4):
            raise ValueError(
                f"watch[{name!r}] must be (X, y), (X, y, sample_weight) or (X, y, sample_weight, offset); got "
                f"{type(given).__name__}."
            )
        rows[name] = Given(*given)
    return rows


def check_scores(scoring: object, watched: Collection[str], in_this_process: bool) -> None:
    """Raise ValueError for scores that cannot be computed if X is not a table."""
    if watched:
        raise ValueError(f"watch={list(watched)} needs X as a table, not as batches or on a cluster; use X_val.")
    if scoring is not None and not in_this_process:
        raise ValueError(f"scoring={scoring!r} needs all validation rows in one process; on a cluster, use None.")


def _check_without_losses(settings: Settings) -> None:
    """Raise ValueError for settings that need the value of the loss, of which only a function of gradients is known."""
    needs: dict[str, Any] = {"temperature_scaling": (False, True), "restart": (None, "loss_rise", "validation_rise")}
    for name, (without, *refused) in needs.items():
        if getattr(settings.method, name, without) in refused:
            raise ValueError(
                f"{name}={getattr(settings.method, name)!r} needs the value of the loss, but the function "
                f"loss={settings.loss!r} returns only derivatives; use {name}={without!r}, or a loss object."
            )
    if settings.early_stopping is True and settings.scoring is None:
        raise ValueError(
            f"early_stopping=True needs a metric, since the function loss={settings.loss!r} returns only derivatives; "
            "pass scoring=..., or a loss object."
        )


def _check_learner(model: Settings, saves_checkpoints: bool) -> None:
    """Raise an error for settings of trees that a custom learner would silently ignore."""
    learner = model.method.learner
    tree_parameters: dict[str, Any] = {"monotonic_cst": None, "interaction_cst": None, "subsample": 1.0}
    for name, default in tree_parameters.items():
        if getattr(model, name) is not default and getattr(model, name) != default:
            raise ValueError(
                f"{name}={getattr(model, name)!r} works with trees only; got learner={learner!r}. "
                f"Use {name}={default!r}."
            )
    if model.views not in (None, "auto"):
        raise ValueError(f"views={model.views!r} works with trees only; got learner={learner!r}. Use views=None.")
    if saves_checkpoints:
        raise TypeError(f"Checkpoint saves trees only; got learner={learner!r}. Remove it from callbacks.")
