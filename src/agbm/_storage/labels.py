"""The labels of a fitted model in a model file: numbers, classes or sets of labels."""

from __future__ import annotations

import re
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from .._base.types import AnyArray
from .._labels.base import Classes, Labels, Numbers
from .._labels.lifetimes import MOST_TIMES, Lifetimes, is_survival
from .._labels.matrices import SHARES, LabelSets, SoftClasses
from .._labels.relevances import Relevances, ranks
from .._losses import BuiltInLoss
from . import container as model_file
from . import values as stored_values
from .container import ModelFileError, Stored

LARGEST_CLASS_ARRAY = 1 << 24
"""In characters. NumPy pads all texts to the length of the longest, so a small file could require a large array."""
MOST_LABELS = 1 << 24
_CLASS_TYPES = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)|str|object")


def described(labels: Labels) -> dict[str, Any]:
    """The entries of the description of a model about its labels."""
    if isinstance(labels, Lifetimes):
        return {"censored": True}
    if isinstance(labels, Relevances):
        return {"has_positions": labels.has_positions}
    if isinstance(labels, LabelSets):
        return {"n_labels": labels.n_labels}
    if isinstance(labels, Classes):
        return {"class_type": _class_type(labels.classes)}
    return {"label_shape": list(cast(Numbers, labels).shape)}


def to_arrays(labels: Labels) -> dict[str, AnyArray]:
    """The sections with the classes, or with the times of events; none for other labels."""
    if isinstance(labels, Lifetimes):
        return {"event_times": labels.times}
    if not isinstance(labels, Classes):
        return {}
    return stored_values.to_arrays("classes", labels.classes.tolist(), "y: the class")


def facts(labels: Labels) -> dict[str, Any]:
    """What must be the same after loading, apart from the description."""
    return {"classes_": labels.classes.tolist()} if isinstance(labels, Classes) else {}


def n_per_row(labels: Labels) -> int:
    """The number of labels of a row that have intervals or sets of their own."""
    return labels.shape[0] if isinstance(labels, Numbers) and labels.shape else 1


def restored(estimator: object, loss: BuiltInLoss, stored: Stored) -> Labels:
    """The labels in a file; the loss shows whether they are probabilities."""
    classifies = is_classifier(estimator)
    if ranks(estimator):
        return Relevances(stored.entry("has_positions", bool))
    if is_survival(estimator):
        if loss.traits.labels != "times":
            raise ModelFileError(f"loss: {loss} does not match the estimator")
        return Lifetimes(_restored_times(stored)).scored_by(cast(Any, loss), np.empty(0))[0]
    if classifies and "n_labels" in stored.description:
        return LabelSets(model_file.whole(stored.description, "n_labels", 2, MOST_LABELS))
    if classifies and loss.traits.labels in SHARES:
        return _soft(_restored_classes(stored))
    if classifies:
        return Classes(_restored_classes(stored))
    shape = stored.entry("label_shape", list)
    if len(shape) > 1 or not all(type(n) is int and n >= 1 for n in shape):
        raise ModelFileError(f"label_shape: must be [] or [n], got {shape}")
    return Numbers(tuple(shape)).scored_by(cast(Any, loss), np.empty(0))[0]


def _restored_times(stored: Stored) -> NDArray[np.float64]:
    if not stored.entry("censored", bool):
        raise ModelFileError("censored: must be true for a loss of survival analysis")
    times = stored.array("event_times", np.float64)
    ascending = bool((times[:-1] < times[1:]).all()) and np.isfinite(times).all()
    if not 0 <= len(times) <= MOST_TIMES or not ascending or (times <= 0.0).any():
        raise ModelFileError(f"event_times: must be at most {MOST_TIMES} positive numbers in ascending order")
    return times


def _soft(classes: AnyArray) -> SoftClasses:
    if classes.dtype != np.int64 or classes.tolist() != list(range(len(classes))):
        raise ModelFileError("classes: those of probabilities must be 0, 1, 2, ...")
    return SoftClasses(classes)


def check_loss(labels: Labels, loss: BuiltInLoss) -> None:
    """Raise ModelFileError if a loss is not one of these labels."""
    if not loss.is_learned:
        raise ModelFileError(f"loss: what {type(loss).__name__} learns from labels is missing")
    if isinstance(labels, Lifetimes):
        return
    kind, n_scores = loss.traits.labels, loss.traits.n_scores
    if isinstance(labels, Relevances):
        fits = kind == "relevances"
    elif isinstance(labels, LabelSets):
        fits = kind == "two_classes"
    elif isinstance(labels, Classes) and len(labels.classes) == 2:
        fits = kind in ("two_classes", "share")
    elif isinstance(labels, Classes):
        fits = kind in ("classes", "shares_of_classes") and n_scores == len(labels.classes)
    else:
        fits = kind in ("numbers", "share")
    if not fits:
        raise ModelFileError(f"loss: {loss} does not match the labels")


def _class_type(classes: AnyArray) -> str:
    kind = "str" if classes.dtype.kind == "U" else classes.dtype.name
    if not _CLASS_TYPES.fullmatch(kind):
        raise ValueError(
            f"y: classes of type {classes.dtype} cannot be saved in a model file; use text or numbers, or pickle the "
            "model."
        )
    return kind


def _restored_classes(stored: Stored) -> AnyArray:
    kind = stored.entry("class_type", str)
    values = stored_values.from_arrays("classes", stored)
    if not _CLASS_TYPES.fullmatch(kind):
        raise ModelFileError(f"classes: type {model_file.shortened(kind)} is not supported")
    longest = max((len(value) for value in values if isinstance(value, str)), default=0)
    if kind == "str" and len(values) * longest > LARGEST_CLASS_ARRAY:
        raise ModelFileError(f"classes: {len(values)} texts of up to {longest} characters are too large for an array")
    try:
        classes = np.array(values, dtype=kind)
        sorted_and_different = len(values) >= 2 and bool(np.all(classes[:-1] < classes[1:]))
        if classes.tolist() != values or [type(a) for a in classes.tolist()] != [type(b) for b in values]:
            raise ValueError(f"some are not of type {kind}")
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"classes: {error}") from error
    if not sorted_and_different:
        raise ModelFileError("classes: there must be at least two, in ascending order")
    return classes
