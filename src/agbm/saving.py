"""Fitted estimators in model files: what an estimator is, as JSON and arrays, and back."""

from __future__ import annotations

import inspect
import math
import os
import re
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.validation import check_is_fitted

from . import _native, _threads, losses, model_file
from .estimators import AGBMClassifier, AGBMRegressor
from .learners import Model, WeightedSum
from .losses import Array, BuiltInLoss, Multinomial, is_built_in
from .model_file import LARGEST_DESCRIPTION, ModelFileError, Stored
from .stored_ensemble import ensemble_of, stack_of, to_arrays
from .tables import Categories
from .tree import Forest
from .watch import Record

KIND = "model"
ESTIMATORS = {kind.__name__: kind for kind in (AGBMClassifier, AGBMRegressor)}

_HISTORY: dict[str, Any] = dict.fromkeys(Record._fields, np.float64) | {
    "iteration": np.int64,
    "trees": np.int64,
    "restart": np.uint8,
}
_LOSSES = {
    kind.__name__: kind
    for kind in (
        losses.HalfSquaredError, losses.AbsoluteError, losses.Quantile, losses.Huber, losses.Poisson, losses.Gamma,
        losses.Tweedie, losses.LogLoss, losses.Exponential, losses.Multinomial,
    )
}  # fmt: skip
_CLASS_TYPES = re.compile(r"bool|u?int(8|16|32|64)|float(32|64)|str|object")


def save(model: AGBMClassifier | AGBMRegressor, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file."""
    check_is_fitted(model)
    _check_can_be_saved(model)
    model_file.write(path, KIND, _description(model), _arrays(model))


def load(path: str | os.PathLike[str]) -> AGBMClassifier | AGBMRegressor:
    """The model in a file that `save` wrote; its predictions have the same bits as those of the model that was saved.

    A file from anywhere is safe to load: it holds data only, all of which is checked. One that breaks a rule of the
    format gives a `ModelFileError` that says which.

    Examples
    --------
    >>> import agbm
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> agbm.AGBMRegressor(max_iter=5).fit(X, y).save("diabetes.agbm")
    >>> agbm.load("diabetes.agbm").predict(X[:2]).shape
    (2,)
    """
    try:
        return restore(model_file.read(path))
    except RecursionError as error:
        raise ModelFileError(f"{os.fspath(path)!r} is no model that can be loaded: it is nested too deeply.") from error
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)!r} is no model that can be loaded: {error}.") from error


def _check_can_be_saved(model: Any) -> None:
    if not all(isinstance(learner, Forest) for learner in model._ensemble.models):
        raise ValueError(f"learner={model.learner!r}: a model file holds trees only; pickle the model instead.")
    if not isinstance(model._fitted_start, np.ndarray):
        raise ValueError(
            f"init={model.init!r}: a model file holds trees only, not the model that they start from; pickle the model "
            "instead."
        )
    if not is_built_in(model._fitted_loss):
        raise ValueError(
            f"loss={model.loss!r} is not one of agbm.losses, and a model file holds no code; pickle the model instead."
        )
    if model.n_features_in_ > _native.MAX_FEATURES:
        raise ValueError(f"X had {model.n_features_in_} features; a model file has place for {_native.MAX_FEATURES}.")


def _description(model: Any) -> dict[str, Any]:
    names = getattr(model, "feature_names_in_", None)
    described = {
        "library": version("agbm"),
        "estimator": type(model).__name__,
        "parameters": _encode_all(_parameters(model)),
        "fitted_parameters": _encode_all(model._fitted_parameters),
        "seed": model._seed,
        "held_out": model._held_out,
        "loss": _encode("loss", model._fitted_loss),
        "start": _encode("start", model._fitted_start),
        "n_features": model.n_features_in_,
        "feature_names": None if names is None else names.tolist(),
        "categories": [[f, _encode("X", values)] for f, values in model._categories.of.items()],
    }
    if model.notes_:
        described["notes"] = _checked_notes(model.notes_)
    if isinstance(model, AGBMClassifier):
        return described | {"classes": _encode_classes(model.classes_)}
    return described | {"label_shape": list(model._label_shape)}


def _checked_notes(notes: Any) -> dict[str, str]:
    if not isinstance(notes, dict) or not all(isinstance(text, str) for pair in notes.items() for text in pair):
        raise TypeError(f"notes_={notes!r} must be a dict of texts to texts; write other things as texts.")
    return notes


def _parameters(model: Any) -> dict[str, Any]:
    """As they are now. Callbacks are of the process; a state of random numbers has served its fit."""
    parameters = model.get_params(deep=False) | {"callbacks": None}
    if not isinstance(parameters["random_state"], (int, np.integer)):
        parameters["random_state"] = None
    return cast(dict[str, Any], parameters)


def _arrays(model: Any) -> dict[str, NDArray[Any]]:
    folded = model._folded.value if isinstance(model._folded, Forest) else np.zeros(0)
    arrays = {**to_arrays(model._ensemble), "folded_value": np.asarray(folded, dtype=np.float64).ravel()}
    for name, dtype in _HISTORY.items():
        arrays[f"history.{name}"] = model.history_[name].astype(dtype)
    return arrays


def restore(stored: Stored) -> AGBMClassifier | AGBMRegressor:
    """The estimator that a file describes."""
    if stored.kind != KIND:
        raise ModelFileError(f"kind: the file holds a {stored.kind}, not a model")
    name = stored.entry("estimator", str)
    if name not in ESTIMATORS:
        raise ModelFileError(f"estimator: there is no {name!r}")
    model: Any = ESTIMATORS[name]()
    model.set_params(**_checked_parameters(model, stored.entry("parameters", dict)))
    model._fitted_parameters = _with_defaults(
        type(model)()._parameters_with_effect(), stored.entry("fitted_parameters", dict)
    )
    model._seed = model_file.whole(stored.description, "seed", 0, np.iinfo(np.int32).max)
    model.n_features_in_ = model_file.whole(stored.description, "n_features", 1, _native.MAX_FEATURES)
    model._held_out = stored.entry("held_out", bool)
    _restore_columns(model, stored)
    _restore_labels(model, stored)
    _restore_loss(model, stored)
    _restore_trees(model, stored)
    _restore_history(model, stored)
    model.notes_ = _restored_notes(stored)
    return cast(AGBMClassifier | AGBMRegressor, model)


def _checked_parameters(model: Any, encoded: Mapping[str, Any]) -> dict[str, Any]:
    """All that the estimator has, with allowed values."""
    parameters = _with_defaults(model.get_params(deep=False), encoded)
    for name in ("learner", "callbacks"):
        if parameters.get(name) is not None:
            raise ModelFileError(f"parameters: {name} must be null")
    try:
        type(model)(**parameters)._validate_params()
    except InvalidParameterError as error:
        raise ModelFileError(f"parameters: {error}") from error
    return parameters


def _with_defaults(defaults: Mapping[str, Any], encoded: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of a file. Those that the version which wrote it had not yet have their defaults."""
    parameters = _decode_all(encoded)
    unknown = sorted(set(parameters) - set(defaults))
    if unknown:
        raise ModelFileError(f"parameters: there are none named {model_file.shortened(unknown)}")
    return {**defaults, **parameters}


def _restore_columns(model: Any, stored: Stored) -> None:
    names = stored.entry("feature_names", list, type(None))
    if names is not None:
        if len(names) != model.n_features_in_ or not all(isinstance(name, str) for name in names):
            raise ModelFileError(f"feature_names: must be {model.n_features_in_} texts")
        model.feature_names_in_ = np.array(names, dtype=object)
    categories: dict[int, list[Any]] = {}
    for pair in stored.entry("categories", list):
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], list)):
            raise ModelFileError("categories: must be pairs of a feature and its categories")
        feature = model_file.whole({"feature": pair[0]}, "feature", 0, model.n_features_in_ - 1)
        categories[feature] = _decode(pair[1])
        if not all(isinstance(value, (str, int, float)) for value in categories[feature]):
            raise ModelFileError(f"categories: those of feature {feature} must be texts or numbers")
    model._categories = Categories(categories)


def _restore_labels(model: Any, stored: Stored) -> None:
    if isinstance(model, AGBMClassifier):
        model.classes_ = _decode_classes(stored.entry("classes", dict))
        return
    shape = stored.entry("label_shape", list)
    if len(shape) > 1 or not all(type(n) is int and n >= 1 for n in shape):
        raise ModelFileError(f"label_shape: {shape} must be [] or [n]")
    model._label_shape = tuple(shape)


def _restore_loss(model: Any, stored: Stored) -> None:
    start = _decode(stored.entry("start", list))
    if len(start) != model._n_outputs or not all(type(x) is float and math.isfinite(x) for x in start):
        raise ModelFileError(f"start: must be {model._n_outputs} finite numbers")
    model._fitted_start = np.array(start, dtype=np.float64)
    loss = _decode(stored.entry("loss", dict))
    if not isinstance(loss, BuiltInLoss):
        raise ModelFileError("loss: must be one of the library")
    classes = len(model.classes_) if isinstance(model, AGBMClassifier) else 0
    fits = isinstance(loss, (losses.LogLoss, losses.Exponential)) if classes == 2 else False
    if classes > 2:
        fits = isinstance(loss, Multinomial) and loss.n_classes == classes
    elif classes == 0:
        fits = not isinstance(loss, (losses.LogLoss, losses.Exponential, Multinomial))
    if not fits:
        raise ModelFileError(f"loss: {loss} is not for labels as they are here")
    model._fitted_loss = loss.with_threads(_threads.resolve(model.n_jobs))


def _restore_trees(model: Any, stored: Stored) -> None:
    n_features, n_outputs = model.n_features_in_, model._n_outputs
    stack = stack_of(stored, n_outputs)
    model._ensemble = ensemble_of(stored, stack, n_features, n_outputs)
    values: Array = stored.array("folded_value", np.float64)
    folded: Model = WeightedSum([], [], n_outputs)
    if stack is not None:
        widths = {n_values // n_functions for n_functions, _, _, n_values, *_ in stack.sizes.tolist()}
        if len(widths) != 1 or len(values) != len(stack.nodes) * min(widths):
            raise ModelFileError("sizes: section 'folded_value' has not one value for each output of every node")
        forest = stack.folded(n_features, n_outputs, values.reshape(len(stack.nodes), min(widths)))
        try:
            forest.check()
        except ValueError as error:
            raise ModelFileError(f"trees: {error}") from error
        with_sets = np.unique(forest.nodes["feature"][forest.nodes["categories"] >= 0])
        if not set(with_sets.tolist()) <= set(model._categories.of):
            raise ModelFileError(f"trees: features {with_sets.tolist()} are split by categories, which not all have")
        folded = forest
    model._folded = folded


def _restore_history(model: Any, stored: Stored) -> None:
    columns = {name: stored.array(f"history.{name}", dtype) for name, dtype in _HISTORY.items()}
    if len({len(column) for column in columns.values()}) != 1 or not len(columns["iteration"]):
        raise ModelFileError("sizes: the sections of the history have different lengths, or none")
    if (columns["iteration"] != np.arange(len(columns["iteration"]))).any():
        raise ModelFileError("history: its iterations must be 0, 1, 2, ...")
    model.history_ = columns | {"restart": columns["restart"].astype(bool)}
    model.n_iter_ = len(columns["iteration"]) - 1
    model.n_trees_ = model._ensemble.n_learners
    model.best_iteration_ = len(model._ensemble)


def _restored_notes(stored: Stored) -> dict[str, str]:
    notes = stored.entry("notes", dict) if "notes" in stored.description else {}
    if not all(isinstance(text, str) for text in notes.values()):
        raise ModelFileError("notes: must be texts")
    return cast(dict[str, str], notes)


# Values of parameters, categories and labels. JSON has no tuples, no infinity and no keys but texts.


def _encode_all(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _encode(name, value) for name, value in values.items()}


def _encode(name: str, value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, (list, tuple)):
        return [_encode(name, entry) for entry in value]
    if isinstance(value, (set, frozenset)):
        return [_encode(name, entry) for entry in sorted(value)]
    if isinstance(value, Mapping):
        return {"map": [[_encode(name, key), _encode(name, entry)] for key, entry in value.items()]}
    if is_built_in(value):
        made_of = inspect.signature(type(value)).parameters
        return {"loss": type(value).__name__, "made_of": {part: getattr(value, part) for part in made_of}}
    raise ValueError(
        f"{name}={value!r} is a {type(value).__name__}, which a model file has no place for; use numbers and texts, or "
        "pickle the model."
    )


def _decode_all(encoded: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _decode(value) for name, value in encoded.items()}


def _decode(encoded: Any) -> Any:
    if isinstance(encoded, list):
        return [_decode(entry) for entry in encoded]
    if isinstance(encoded, int) and not -(1 << 63) <= encoded < 1 << 64:
        raise ModelFileError("description: there is a whole number of more than 64 bits")
    if not isinstance(encoded, dict):
        return encoded
    match encoded:
        case {"float": "inf" | "-inf" | "nan" as text}:
            return float(text)
        case {"map": list(pairs)} if all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            try:
                return {_decode(key): _decode(value) for key, value in pairs}
            except TypeError as error:
                raise ModelFileError(f"description: {error}") from error
        case {"loss": str(name), "made_of": dict(made_of)}:
            return _loss(name, made_of)
    raise ModelFileError(f"description: {model_file.shortened(encoded)} has no meaning")


def _loss(name: str, made_of: Mapping[str, Any]) -> BuiltInLoss:
    if name not in _LOSSES or not all(type(value) in (int, float) for value in made_of.values()):
        raise ModelFileError(f"loss: there is no {model_file.shortened(name)} of {model_file.shortened(dict(made_of))}")
    try:
        return cast(BuiltInLoss, _LOSSES[name](**made_of))
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"loss: {error}") from error


def _encode_classes(classes: NDArray[Any]) -> dict[str, Any]:
    kind = "str" if classes.dtype.kind == "U" else classes.dtype.name
    if not _CLASS_TYPES.fullmatch(kind):
        raise ValueError(f"y: a model file has no place for classes of type {classes.dtype}; use numbers or texts.")
    return {"type": kind, "values": _encode("y", classes)}


def _decode_classes(encoded: Mapping[str, Any]) -> NDArray[Any]:
    kind = model_file.entry_of(encoded, "type", str)
    values = _decode(model_file.entry_of(encoded, "values", list))
    if not _CLASS_TYPES.fullmatch(kind) or not all(isinstance(value, (str, int, float)) for value in values):
        raise ModelFileError("classes: must be texts or numbers")
    longest = max((len(value) for value in values if isinstance(value, str)), default=0)
    if len(values) * longest > LARGEST_DESCRIPTION:  # an array has a place of the longest length for each
        raise ModelFileError(f"classes: {len(values)} texts of {longest} characters are too many")
    try:
        classes = np.array(values, dtype=kind)
        sorted_and_different = len(values) >= 2 and bool(np.all(classes[:-1] < classes[1:]))
        if classes.tolist() != values or [type(a) for a in classes.tolist()] != [type(b) for b in values]:
            raise ValueError(f"some are not of type {kind}")
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"classes: {error}") from error
    if not sorted_and_different:
        raise ModelFileError("classes: must be at least two, in ascending order")
    return classes
