"""Fitted estimators in model files: what an estimator is, as JSON and arrays, and back."""

from __future__ import annotations

import inspect
import math
import os
import re
from collections.abc import Mapping, Sequence, Set
from importlib.metadata import version
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.validation import check_is_fitted

from .. import _native, _threads
from .._core import losses
from .._core.learners import Model, WeightedSum
from .._core.losses import Array, BuiltInLoss, Multinomial, is_built_in
from .._core.training import Record
from .._data.tables import Categories
from .._estimators import AGBMClassifier, AGBMRegressor
from .._tree import Forest
from . import container as model_file
from . import values as stored_values
from .container import ModelFileError, Stored
from .ensemble import ensemble_of, stack_of, to_arrays

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
LARGEST_CLASS_ARRAY = 1 << 24
"""Characters. An array of texts has room for the longest in each place: a small file could ask for a large one."""
_CLASS_TYPES = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)|str|object")


def save(model: AGBMClassifier | AGBMRegressor, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file. What `load` would refuse or change is refused before anything is written."""
    check_is_fitted(model)
    _check_can_be_saved(model)
    try:
        description, arrays = _description(model), _arrays(model)
        _check_same(model, restore(model_file.as_read(KIND, description, arrays)))
    except RecursionError as error:
        raise ValueError("the model cannot be saved: one of its parameters is nested too deeply.") from error
    except ModelFileError as error:
        reason = str(error).rstrip(".")
        raise ValueError(f"the model cannot be saved, since its file could not be loaded: {reason}.") from error
    model_file.write(path, KIND, description, arrays)


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
        raise ModelFileError(f"{os.fspath(path)!r} cannot be loaded: it is nested too deeply.") from error
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)!r} cannot be loaded: {error}.") from error


def _check_can_be_saved(model: Any) -> None:
    if type(model) not in ESTIMATORS.values():
        raise ValueError(
            f"{type(model).__name__} is a class of its own, and a model file holds no code; it can hold "
            f"{' and '.join(ESTIMATORS)} only. Pickle the model instead."
        )
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


def _check_same(model: Any, restored: Any) -> None:
    found = _facts(restored)
    changed = [name for name, fact in _facts(model).items() if fact != found[name]]
    if changed:
        raise ValueError(
            f"the model cannot be saved: {', '.join(changed)} would not be the same after loading. Were attributes of "
            "the model changed after fit? Fit it again, or pickle it."
        )


def _facts(model: Any) -> dict[str, Any]:
    """All that a model has besides numbers of its trees and its history, which are written as they are."""
    facts = _description(model) | {
        "feature_names_in_": _names(model),
        "categories": model._categories.of,
        "n_iter_": model.n_iter_,
        "best_iteration_": model.best_iteration_,
        "n_trees_": model.n_trees_,
    }
    if isinstance(model, AGBMClassifier):
        facts["classes_"] = model.classes_.tolist()
    return facts


def _names(model: Any) -> list[Any]:
    """Of the features; none where the table had none."""
    return list(getattr(model, "feature_names_in_", ()))


def _description(model: Any) -> dict[str, Any]:
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
    }
    if model.notes_:
        described["notes"] = _checked_notes(model.notes_)
    if isinstance(model, AGBMClassifier):
        return described | {"class_type": _class_type(model.classes_)}
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
    arrays |= stored_values.to_arrays("feature_names", _names(model), "X: the name")
    arrays |= _category_arrays(model._categories.of)
    if isinstance(model, AGBMClassifier):
        arrays |= stored_values.to_arrays("classes", model.classes_.tolist(), "y: the class")
    for name, dtype in _HISTORY.items():
        arrays[f"history.{name}"] = model.history_[name].astype(dtype)
    return arrays


def _category_arrays(categories: Mapping[int, list[Any]]) -> dict[str, NDArray[Any]]:
    features = sorted(categories)
    values = [value for feature in features for value in categories[feature]]
    return {
        "categories.feature": np.array(features, dtype=np.int64),
        "categories.count": np.array([len(categories[feature]) for feature in features], dtype=np.int64),
        **stored_values.to_arrays("categories", values, "X: the category"),
    }


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
    names = stored_values.from_arrays("feature_names", stored)
    if names:
        if len(names) != model.n_features_in_ or not all(isinstance(name, str) for name in names):
            raise ModelFileError(f"sizes: feature_names must be {model.n_features_in_} texts, or none")
        model.feature_names_in_ = np.array(names, dtype=object)
    model._categories = Categories(_restored_categories(model.n_features_in_, stored))


def _restored_categories(n_features: int, stored: Stored) -> dict[int, list[Any]]:
    features = stored.array("categories.feature", np.int64)
    counts = stored.array("categories.count", np.int64)
    values = stored_values.from_arrays("categories", stored)
    if (features < 0).any() or (features >= n_features).any() or (np.diff(features) <= 0).any():
        raise ModelFileError(f"sizes: section 'categories.feature' must rise within 0 to {n_features - 1}")
    if len(counts) != len(features) or (counts < 0).any() or sum(counts.tolist()) != len(values):
        raise ModelFileError("sizes: section 'categories.count' does not add up to the categories")
    ends = np.cumsum(counts).tolist()
    begins = [0, *ends[:-1]]
    return {f: values[begin:end] for f, begin, end in zip(features.tolist(), begins, ends, strict=False)}


def _restore_labels(model: Any, stored: Stored) -> None:
    if isinstance(model, AGBMClassifier):
        model.classes_ = _restored_classes(stored)
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
    if len(columns["iteration"]) <= len(model._ensemble):
        raise ModelFileError(f"sizes: the history ends before iteration {len(model._ensemble)}, the last of the model")
    model.history_ = columns | {"restart": columns["restart"].astype(bool)}
    model.n_iter_ = len(columns["iteration"]) - 1
    model.n_trees_ = model._ensemble.n_learners
    model.best_iteration_ = len(model._ensemble)


def _restored_notes(stored: Stored) -> dict[str, str]:
    notes = stored.entry("notes", dict) if "notes" in stored.description else {}
    if not all(isinstance(text, str) for text in notes.values()):
        raise ModelFileError("notes: must be texts")
    return cast(dict[str, str], notes)


# Values of parameters. JSON has no tuples, no infinity and no keys but texts.


def _encode_all(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _encode(name, value) for name, value in values.items()}


def _encode(name: str, value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 64:
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": str(float(value))}
    if isinstance(value, Set):
        return sorted((_encode(name, entry) for entry in value), key=repr)  # in an order that is always the same
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        return [_encode(name, entry) for entry in value]
    if isinstance(value, Mapping):
        return {"map": [[_encode(name, key), _encode(name, entry)] for key, entry in value.items()]}
    if is_built_in(value):
        made_of = inspect.signature(type(value)).parameters
        return {"loss": type(value).__name__, "made_of": {part: getattr(value, part) for part in made_of}}
    if hasattr(value, "__array__") and not isinstance(value, np.generic):  # pandas, polars, arrow; not long doubles
        return _encode(name, np.asarray(value).tolist())
    raise ValueError(
        f"{name}={model_file.shortened(value)}: a model file cannot hold this {type(value).__name__}; use texts, "
        "numbers of at most 64 bits and lists of these, or pickle the model."
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


def _class_type(classes: NDArray[Any]) -> str:
    kind = "str" if classes.dtype.kind == "U" else classes.dtype.name
    if not _CLASS_TYPES.fullmatch(kind):
        raise ValueError(
            f"y: a model file cannot hold classes of type {classes.dtype}; use texts or numbers, or pickle the model."
        )
    return kind


def _restored_classes(stored: Stored) -> NDArray[Any]:
    kind = stored.entry("class_type", str)
    values = stored_values.from_arrays("classes", stored)
    if not _CLASS_TYPES.fullmatch(kind):
        raise ModelFileError(f"classes: there are none of type {model_file.shortened(kind)}")
    longest = max((len(value) for value in values if isinstance(value, str)), default=0)
    if kind == "str" and len(values) * longest > LARGEST_CLASS_ARRAY:
        raise ModelFileError(f"classes: {len(values)} texts of up to {longest} characters are too many for an array")
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
