"""Model files: converts a fitted model and the parameters of its estimator to JSON and arrays, and back.

This module knows estimators only by name: the caller of `load` passes the classes that a file may name.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple, cast

import numpy as np

from .._base import _native, threads
from .._base.identity import library_version
from .._base.sums import Array
from .._base.types import AnyArray
from .._core.ensemble import Ensemble
from .._core.learners import Model, WeightedSum
from .._core.methods import KINDS, Method
from .._core.training import Record
from .._data.digest import RowDigest, Shape
from .._data.reader import TableReader
from .._data.tables import Categories
from .._labels.base import Labels
from .._labels.lifetimes import Lifetimes
from .._losses import LOSSES, BuiltInLoss, Loss, is_built_in
from .._model.fitted import FittedModel, Origin
from .._model.settings import Settings
from .._tree import Forest
from .._tree.forest import Stack
from . import calibration as stored_calibration
from . import container as model_file
from . import labels as stored_labels
from . import profile as stored_profile
from . import values as stored_values
from .columns import (
    category_arrays,
    described_derivation,
    restored_categories,
    restored_crosses,
    restored_derivation,
)
from .container import ModelFileError, Stored
from .digests import chain, chain_section, fingerprint, restored_chain
from .ensemble import ensembles_of, model_updates_of, stack_of, to_arrays

KIND = "model"

_HISTORY: dict[str, Any] = dict.fromkeys(Record._fields, np.float64) | {
    "iteration": np.int64,
    "trees": np.int64,
    "restart": np.uint8,
}
del _HISTORY["scores"]  # saved by name, one section for all
MAX_SCORES = 1_000
ORIGIN = "origin"
"""What a model was trained with: the version of the library, and digests of rows."""
LARGEST_COUNT = 1 << 48
_METHODS: dict[str, type[Method]] = {kind.__name__: kind for kind in KINDS}


class Saved(NamedTuple):
    """The contents of a model file."""

    estimator: Any
    """The estimator with its parameters; its fitted state is `model`."""
    model: FittedModel
    notes: dict[str, str]
    chain: Sequence[str] = ()
    """The chain in the file that the model was loaded from, which may be that of another model; see digests.py."""


def save(saved: Saved, path: str | os.PathLike[str]) -> None:
    """Write a model to a file. Raises ValueError before anything is written if `load` would reject or change it."""
    _check_can_be_saved(saved)
    kind = type(saved.estimator)
    try:
        description, arrays = description_of(saved), arrays_of(saved.model)
        arrays |= chain_section(chain(description, arrays, saved.model.ensembles))
        _check_same(saved, restore(model_file.as_read(KIND, description, arrays), {kind.__name__: kind}))
    except RecursionError as error:
        raise ValueError("The model cannot be saved: one of its parameters is nested too deeply.") from error
    except ModelFileError as error:
        reason = str(error).rstrip(".")
        raise ValueError(f"The model cannot be saved, because the file could not be loaded: {reason}.") from error
    model_file.write(path, KIND, description, arrays)


def load(path: str | os.PathLike[str], estimators: Mapping[str, type]) -> Saved:
    """Load the model in a file; `estimators` are the classes that the file may name."""
    try:
        return restore(model_file.read(path), estimators)
    except RecursionError as error:
        raise ModelFileError(f"{os.fspath(path)!r} cannot be loaded: it is nested too deeply.") from error
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)!r} cannot be loaded: {error}.") from error


def fingerprint_of(saved: Saved) -> str:
    """The fingerprint of a model; raises ValueError for models that files do not support."""
    _check_can_be_saved(saved)
    return fingerprint(description_of(saved), arrays_of(saved.model))


def _check_can_be_saved(saved: Saved) -> None:
    estimator, model = saved.estimator, saved.model
    if not all(isinstance(learner, Forest) for learner in model.models):
        raise ValueError(f"learner={model.method.learner!r}: model files support only trees; pickle the model instead.")
    if not isinstance(model.start, np.ndarray):
        raise ValueError(
            f"init={estimator.init!r}: model files support only trees, not models to start from; pickle the model "
            "instead."
        )
    if not is_built_in(model.loss):
        raise ValueError(
            f"loss={estimator.loss!r} is not one of agbm.losses, and model files contain no code; pickle the model "
            "instead."
        )
    if model.n_features > _native.MAX_FEATURES:
        raise ValueError(f"The model has {model.n_features} features; model files support {_native.MAX_FEATURES}.")


def _check_same(saved: Saved, restored: Saved) -> None:
    found = _facts(restored)
    changed = [name for name, fact in _facts(saved).items() if fact != found[name]]
    if changed:
        raise ValueError(
            f"The model cannot be saved: {', '.join(changed)} would differ after loading. Were attributes of the model "
            "changed after fit? Fit it again, or pickle it."
        )


def _facts(saved: Saved) -> dict[str, Any]:
    """Everything in a model except the arrays of its trees and its history, which are saved unchanged."""
    model = saved.model
    facts = description_of(saved) | {
        "feature_names_in_": _names(model),
        "categories": model.categories,
        "n_iter_": model.n_iter,
        "best_iteration_": model.best_iteration,
        "n_trees_": model.n_trees,
    }
    return facts | stored_labels.facts(model.labels)


def _names(model: FittedModel) -> list[Any]:
    """The names of the features; empty if the table had none."""
    return [] if model.reader.names is None else list(model.reader.names)


def description_of(saved: Saved) -> dict[str, Any]:
    """The description of a model, as its file has it."""
    model = saved.model
    described = {
        "library": library_version(),
        "estimator": type(saved.estimator).__name__,
        "parameters": _encode_all(_parameters(saved.estimator)),
        "fitted_parameters": _encode_all(model.parameters),
        "resolved": _encode_all(_without_device(model.resolved)),
        "seed": model.seed,
        "n_members": len(model.ensembles),
        "held_out": model.held_out,
        "loss": _encode("loss", model.loss),
        "start": _encode("start", model.start),
        "n_features": model.n_columns,
    }
    if model.reader.derivation:
        described["derivation"] = described_derivation(model.reader.derivation)
    if model.reader.crosses:
        described["crosses"] = [list(cross) for cross in model.reader.crosses]
    if saved.notes:
        described["notes"] = _checked_notes(saved.notes)
    scores = _score_names(model)
    if scores:
        described["scores"] = scores
    if model.updates:
        described["updates"] = [list(update) for update in model.updates]
    if model.origin is not None:
        described[ORIGIN] = _described_origin(*model.origin)
    described |= stored_calibration.described(model.calibration)
    return described | stored_labels.described(model.labels)


def _checked_notes(notes: object) -> dict[str, str]:
    if not isinstance(notes, dict) or not all(isinstance(text, str) for pair in notes.items() for text in pair):
        raise TypeError(f"notes_={notes!r} must be a dict of str to str; convert other values to str.")
    return notes


def _parameters(estimator: Any) -> dict[str, Any]:
    """The current parameters, without callbacks, scorers, the state of a random number generator and the device."""
    parameters = _without_device(estimator.get_params(deep=False)) | {"callbacks": None}
    if not isinstance(parameters["scoring"], str):
        parameters["scoring"] = None
    if not isinstance(parameters["random_state"], (int, np.integer)):
        parameters["random_state"] = None
    return parameters


def _without_device(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of parameters without that of the device, since the file is the same for all devices."""
    return {name: value for name, value in values.items() if name != "device"}


def arrays_of(model: FittedModel) -> dict[str, AnyArray]:
    """The sections of a model, as its file has them."""
    folded = model.folded.value if isinstance(model.folded, Forest) else np.zeros(0)
    arrays = {**to_arrays(model.ensembles), "folded_value": np.asarray(folded, dtype=np.float64).ravel()}
    arrays |= stored_values.to_arrays("feature_names", _names(model), "X: the name")
    arrays |= category_arrays("categories", model.categories)
    if model.reader.derivation:
        arrays |= category_arrays("ordered", model.reader.derivation.ordered)
    arrays |= stored_labels.to_arrays(model.labels)
    arrays |= stored_calibration.to_arrays(model.calibration)
    if model.origin is not None:
        arrays |= _arrays_of_origin(model.origin.data)
    if model.profile is not None:
        arrays |= stored_profile.to_arrays(model.profile)
    if model.baseline is not None:
        arrays["baseline"] = model.baseline
    for name, dtype in _HISTORY.items():
        arrays[f"history.{name}"] = model.history[name].astype(dtype)
    # The same rows, parameters and seed give the same file, on every machine and device.
    arrays["history.seconds"] = np.full(len(model.history["seconds"]), np.nan)
    scores = _score_names(model)
    if scores:
        arrays["history.scores"] = np.concatenate([model.history[name] for name in scores]).astype(np.float64)
    return arrays


def _score_names(model: FittedModel) -> list[str]:
    return [name for name in model.history if name not in _HISTORY]


def restore(stored: Stored, estimators: Mapping[str, type]) -> Saved:
    """The model in the contents of a file."""
    if stored.kind != KIND:
        raise ModelFileError(f"kind: the file contains a {stored.kind}, not a model")
    name = stored.entry("estimator", str)
    if name not in estimators:
        raise ModelFileError(f"estimator: unknown estimator {name!r}")
    estimator: Any = estimators[name]()
    estimator.set_params(**_checked_parameters(estimator, stored.entry("parameters", dict)))
    reader = _restored_reader(name, stored)
    loss = _restored_loss(stored)
    labels = stored_labels.restored(estimator, loss, stored)
    start = _restored_start(labels, stored)
    stored_labels.check_loss(labels, loss)
    ensembles, folded = _restored_trees(reader, labels, stored)
    origin = _restored_origin(stored)
    model = FittedModel(
        reader=reader,
        labels=labels,
        loss=cast(Loss, loss.with_threads(threads.resolve(estimator.n_jobs))),
        start=start,
        ensembles=ensembles,
        folded=folded,
        parameters=_fitted_parameters(estimator, stored.entry("fitted_parameters", dict)),
        fingerprints={},
        resolved=_decode_all(stored.entry("resolved", dict)),
        seed=model_file.whole(stored.description, "seed", 0, np.iinfo(np.int32).max),
        held_out=stored.entry("held_out", bool),
        history=_restored_history(len(ensembles[0]), stored),
        updates=model_updates_of(stored),
        calibration=stored_calibration.restored(
            stored, stored_labels.n_per_row(labels), labels.n_outputs, len(ensembles), reader.n_columns
        ),
        baseline=_restored_baseline(labels, stored),
        origin=None if origin is None else Origin(*origin),
        profile=stored_profile.restored(reader, stored),
    )
    return Saved(estimator, model, _restored_notes(stored), restored_chain(stored, len(ensembles[0])))


def _checked_parameters(estimator: Any, encoded: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters of the estimator; raises ModelFileError for values that are not allowed."""
    parameters = _with_defaults(estimator.get_params(deep=False), encoded)
    if parameters["callbacks"] is not None:
        raise ModelFileError("parameters: callbacks must be null")
    try:
        type(estimator)(**parameters)._validate_params()
    except ValueError as error:
        raise ModelFileError(f"parameters: {error}") from error
    return parameters


def _fitted_parameters(estimator: object, encoded: Mapping[str, Any]) -> dict[str, Any]:
    parameters = _with_defaults(Settings.of(type(estimator)()).shaping(), encoded)
    if not isinstance(parameters["method"], Method):
        raise ModelFileError("fitted_parameters: method must be a method")
    return parameters


def _with_defaults(defaults: Mapping[str, Any], encoded: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters in a file. Parameters that are newer than the file get their defaults."""
    parameters = _decode_all(encoded)
    unknown = sorted(set(parameters) - set(defaults))
    if unknown:
        raise ModelFileError(f"parameters: unknown parameters {model_file.shortened(unknown)}")
    return {**defaults, **parameters}


def _restored_reader(estimator: str, stored: Stored) -> TableReader:
    n_features = model_file.whole(stored.description, "n_features", 1, _native.MAX_FEATURES)
    names = stored_values.from_arrays("feature_names", stored)
    if names and (len(names) != n_features or not all(isinstance(name, str) for name in names)):
        raise ModelFileError(f"sizes: feature_names must be {n_features} texts, or empty")
    reader = TableReader(estimator, n_features, np.array(names, dtype=object) if names else None, Categories())
    reader = reader.with_categories(Categories(restored_categories("categories", n_features, stored)))
    reader = reader.with_derivation(restored_derivation(n_features, reader.categories.of, stored))
    return reader.with_crosses(restored_crosses(reader, stored))


def _restored_start(labels: Labels, stored: Stored) -> Array:
    start = _decode(stored.entry("start", list))
    if len(start) != labels.n_outputs or not all(type(x) is float and math.isfinite(x) for x in start):
        raise ModelFileError(f"start: must be {labels.n_outputs} finite numbers")
    return np.array(start, dtype=np.float64)


def _restored_baseline(labels: Labels, stored: Stored) -> Array | None:
    if "baseline" not in stored.names():
        return None
    baseline = stored.array("baseline", np.float64)
    if not isinstance(labels, Lifetimes) or len(baseline) != len(labels.times):
        raise ModelFileError("sizes: section 'baseline' must have one number per time of an event")
    if not np.isfinite(baseline).all() or (np.diff(baseline, prepend=0.0) < 0.0).any():
        raise ModelFileError("baseline: must be finite numbers that do not decrease, from 0 on")
    return baseline


def _restored_loss(stored: Stored) -> BuiltInLoss:
    loss = _decode(stored.entry("loss", dict))
    if not is_built_in(loss):
        raise ModelFileError("loss: must be a loss of this library")
    return loss


def _restored_trees(reader: TableReader, labels: Labels, stored: Stored) -> tuple[list[Ensemble], Model]:
    """The ensembles of the members, and the folded model for predictions."""
    n_features, n_outputs = reader.n_features, labels.n_outputs
    stack = stack_of(stored, n_outputs)
    ensembles = ensembles_of(stored, stack, n_features, n_outputs)
    if stack is None:
        return ensembles, WeightedSum([], [], n_outputs)
    return ensembles, _restored_forest(reader, stack, n_outputs, stored.array("folded_value", np.float64))


def _restored_forest(reader: TableReader, stack: Stack, n_outputs: int, values: Array) -> Forest:
    widths = {n_values // n_functions for n_functions, _, _, n_values, *_ in stack.sizes.tolist()}
    if len(widths) != 1 or len(values) != len(stack.nodes) * min(widths):
        raise ModelFileError("sizes: section 'folded_value' must have one value per node and output")
    forest = stack.folded(reader.n_features, n_outputs, values.reshape(len(stack.nodes), min(widths)))
    try:
        forest.check()
    except ValueError as error:
        raise ModelFileError(f"trees: {error}") from error
    with_sets = np.unique(forest.nodes["feature"][forest.nodes["categories"] >= 0])
    if not set(with_sets.tolist()) <= set(reader.categories.of):
        raise ModelFileError(f"trees: splits by categories on features {with_sets.tolist()}, not all categorical")
    return forest


def _restored_history(best_iteration: int, stored: Stored) -> dict[str, AnyArray]:
    columns = {name: stored.array(f"history.{name}", dtype) for name, dtype in _HISTORY.items()}
    if len({len(column) for column in columns.values()}) != 1 or not len(columns["iteration"]):
        raise ModelFileError("sizes: the sections of the history are empty or have different lengths")
    if (columns["iteration"] != np.arange(len(columns["iteration"]))).any():
        raise ModelFileError("history: iterations must be 0, 1, 2, ...")
    if len(columns["iteration"]) <= best_iteration:
        raise ModelFileError(f"sizes: the history ends before iteration {best_iteration}, the last of the model")
    return columns | {"restart": columns["restart"].astype(bool)} | _restored_scores(len(columns["iteration"]), stored)


def _restored_scores(n_records: int, stored: Stored) -> dict[str, AnyArray]:
    if "scores" not in stored.description:
        return {}
    names = stored.entry("scores", list)
    if len(names) > MAX_SCORES or not all(isinstance(name, str) and name not in _HISTORY for name in names):
        raise ModelFileError("scores: must be names of scores that are not in the history otherwise")
    values = stored.array("history.scores", np.float64)
    if len(set(names)) != len(names) or len(values) != len(names) * n_records:
        raise ModelFileError("sizes: the scores do not have one name, and one number per iteration, each")
    return dict(zip(names, values.reshape(len(names), n_records), strict=True))


def _restored_notes(stored: Stored) -> dict[str, str]:
    notes = stored.entry("notes", dict) if "notes" in stored.description else {}
    if not all(isinstance(text, str) for text in notes.values()):
        raise ModelFileError("notes: values must be texts")
    return cast(dict[str, str], notes)


# Values of parameters. JSON has no tuples, no infinity and no keys other than strings.


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
        return sorted((_encode(name, entry) for entry in value), key=repr)  # in a reproducible order
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        return [_encode(name, entry) for entry in value]
    if isinstance(value, Mapping):
        return {"map": [[_encode(name, key), _encode(name, entry)] for key, entry in value.items()]}
    if is_built_in(value):
        made_of = inspect.signature(type(value)).parameters
        return {"loss": type(value).__name__, "made_of": _encode_all({part: getattr(value, part) for part in made_of})}
    if type(value) in _METHODS.values():
        return {"method": type(value).__name__, "made_of": _encode_all(value.get_params(deep=False))}
    if hasattr(value, "__array__") and not isinstance(value, np.generic):  # pandas, polars, arrow; not long double
        return _encode(name, np.asarray(value).tolist())
    raise ValueError(
        f"{name}={model_file.shortened(value)}: this value of type {type(value).__name__} cannot be saved in a model "
        "file; use text, numbers of at most 64 bits and lists of these, or pickle the model."
    )


def _decode_all(encoded: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _decode(value) for name, value in encoded.items()}


def _decode(encoded: object) -> Any:
    if isinstance(encoded, list):
        return [_decode(entry) for entry in encoded]
    if isinstance(encoded, int) and not -(1 << 63) <= encoded < 1 << 64:
        raise ModelFileError("description: an integer has more than 64 bits")
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
        case {"method": str(name), "made_of": dict(made_of)}:
            return _method(name, made_of)
    raise ModelFileError(f"description: {model_file.shortened(encoded)} is not a valid value")


def _loss(name: str, made_of: Mapping[str, Any]) -> BuiltInLoss:
    # Names of metrics, gains and distributions, ways to treat ties, and None for values that are not set.
    named = "LambdaRank", "ListwiseCrossEntropy", "Cox", "AcceleratedFailureTime", "HistogramDistribution"
    texts = (str, type(None)) if name in named else ()
    decoded = _decode_all(made_of)
    if name not in LOSSES or not all(isinstance(value, texts) or _is_simple(value) for value in decoded.values()):
        parameters = model_file.shortened(dict(made_of))
        raise ModelFileError(f"loss: invalid loss {model_file.shortened(name)} with parameters {parameters}")
    try:
        return LOSSES[name](**decoded)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"loss: {error}") from error


def _is_simple(value: object) -> bool:
    """Whether a value is a number, or a list of numbers, or of such lists."""
    return all(map(_is_simple, value)) if isinstance(value, list) else type(value) in (int, float)


def _method(name: str, made_of: Mapping[str, Any]) -> Method:
    if name not in _METHODS:
        raise ModelFileError(f"method: unknown method {model_file.shortened(name)}")
    try:
        method = _METHODS[name](**_decode_all(made_of))
        method._validate_params()
        if method.learner is not None:
            raise ModelFileError("method: learner must be null")
        return method
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"method: {error}") from error


def _described_origin(version: str, data: RowDigest) -> dict[str, Any]:
    """The entry of the description of a model."""
    return {"version": version, **data.shape._asdict()}


def _arrays_of_origin(data: RowDigest) -> dict[str, AnyArray]:
    """The sections with the sums of blocks and columns."""
    return {"origin.blocks": data.blocks, "origin.columns": data.columns}


def _restored_origin(stored: Stored) -> tuple[str, RowDigest] | None:
    """The version and the digest of rows in a file, whose sizes are checked; None in files without them."""
    if ORIGIN not in stored.description:
        return None
    entry = stored.entry(ORIGIN, dict)
    shape = Shape(*(model_file.whole(entry, name, int(name == "n_given"), LARGEST_COUNT) for name in Shape._fields))
    digest = RowDigest(shape, stored.array("origin.blocks", np.uint64), stored.array("origin.columns", np.uint64))
    if len(digest.blocks) != shape.n_blocks or len(digest.columns) != shape.n_columns:
        raise ModelFileError("sizes: the sections 'origin.…' do not match the numbers of rows and columns")
    return model_file.entry_of(entry, "version", str), digest
