"""Labels of classifiers with several numbers per row: sets of labels, and probabilities of classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .._base.collectives import anywhere, largest, smallest
from .._base.sums import Array
from .._base.types import AnyArray, Values
from .._base.weights import refuse_dates, refuse_text
from .._data.blocks import dense
from .._data.rows import check_y_val, some_of
from .._losses import Loss, LossFunction, named_loss, traits_of
from .base import Classes, Labels, Result

# By how much the probabilities of a row may differ from a sum of 1, as they do if they have been rounded.
ROUNDING = 1e-3

SHARES = "share", "shares_of_classes"
"""Kinds of labels that are probabilities."""


def kind_of(kind: type[Labels], y: Values, loss: Any) -> type[Labels]:
    """The kind of the labels y of an estimator whose usual labels are `kind`; `loss` is its parameter.

    The loss decides between probabilities of classes and sets of labels, since a matrix of 0 and 1 may be both.
    """
    if not issubclass(kind, Classes):
        return kind
    if loss == "cross_entropy" or traits_of(loss).labels in SHARES:
        return SoftClasses
    try:
        matrix = np.asarray(y)
    except ValueError:  # lists of different lengths; scikit-learn's checks say so
        return kind
    if matrix.ndim != 2 or matrix.shape[1] < 2:
        return kind
    if not _is_indicator(matrix):
        raise ValueError(
            f"y has shape {matrix.shape}; a classifier needs a 1d array with one class per row, or for several labels "
            "per row (multi-label) a matrix of 0 and 1, with one column per label. For probabilities of classes, use "
            "loss='cross_entropy'."
        )
    return LabelSets


def _is_indicator(y: AnyArray) -> bool:
    return y.dtype.kind == "b" or (y.dtype.kind in "iuf" and not anywhere(~np.isin(y, (0, 1))))


@dataclass(frozen=True, eq=False)
class LabelSets(Labels):
    """Labels of a classifier with any number of labels per row, as a matrix (row, label) of 0 and 1.

    Every label has a score of its own, the log-odds that a row has it; the losses of the labels add up.
    """

    n_labels: int
    numeric = True

    @property
    def n_outputs(self) -> int:
        return self.n_labels

    @property
    def classes(self) -> NDArray[np.int64]:
        """The labels by the positions of their columns, as in scikit-learn's MLPClassifier."""
        return np.arange(self.n_labels)

    @property
    def n_classes(self) -> int:
        """Number of labels."""
        return self.n_labels

    @staticmethod
    def check(y: Values) -> None:
        """Accept all labels; `learn` checks them."""

    @classmethod
    def learn(cls, y: AnyArray, known: Self | None) -> tuple[Self, Array]:
        labels = cls(y.shape[1])
        if known is not None and known.n_labels != labels.n_labels:
            raise ValueError(
                f"y has {labels.n_labels} labels; with warm_start=True it must have those of the previous fit: "
                f"{known.n_labels}."
            )
        return labels, labels._labels_first(y, "y")

    @staticmethod
    def weights(
        class_weight: Mapping[Any, float] | str | None, y: AnyArray, sample_weight: AnyArray | None
    ) -> Array | None:
        _no_weights(class_weight, "several labels per row")
        return None

    def encode(self, y: AnyArray) -> Array:
        if y.shape[1:] != (self.n_labels,):
            raise ValueError(f"y has shape {y.shape}; the model has {self.n_labels} labels per row.")
        return self._labels_first(y, "y")

    def encode_validation(self, y: Values, n_rows: int) -> Array:
        return self._labels_first(check_y_val(dense(y), n_rows, numeric=True, shape=(self.n_labels,)), "y_val")

    def _labels_first(self, y: AnyArray, name: str) -> Array:
        if not _is_indicator(y):
            others = some_of([value for value in np.unique(y).tolist() if value not in (0, 1)])
            raise ValueError(f"{name} must contain only 0 and 1 for several labels per row; got {others}.")
        return np.ascontiguousarray(y.T, dtype=np.float64)

    def decode(self, encoded: Array) -> AnyArray:
        return np.ascontiguousarray(encoded.T).astype(np.int64)

    def loss_of(self, name: str | LossFunction) -> Loss:
        return named_loss("classification", name)  # type: ignore[no-any-return]

    def results(self, kind: Result, loss: Loss, raw: Array) -> AnyArray:
        if kind is Result.SCORES:
            return self.scores(loss, raw)
        return self.probabilities(loss, raw) if kind is Result.PROBABILITIES else self.predictions(loss, raw)

    def scores(self, loss: Loss, raw: Array) -> Array:
        """The decision function: log-odds (row, label)."""
        return np.ascontiguousarray(raw.T)

    def probabilities(self, loss: Loss, raw: Array) -> Array:
        """The probability of each label (row, label)."""
        return np.stack([loss.inverse_link(scores) for scores in raw], axis=-1)

    def predictions(self, loss: Loss, raw: Array) -> AnyArray:
        """A matrix (row, label) of 0 and 1: the labels that are more probable than not."""
        return np.ascontiguousarray((raw > 0.0).T).astype(np.int64)

    def _raw_score_of(self, model: object, loss: Loss) -> Callable[[Any], Any]:
        if not hasattr(model, "decision_function"):
            raise TypeError(
                f"init={model!r} has no decision_function; use 'prior', 'zero' or a fitted classifier that has one."
            )
        return model.decision_function  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class SoftClasses(Classes):
    """Probabilities of the classes 0, 1, ... of a classifier: (row, class), or of class 1 alone for two classes."""

    numeric = True

    @staticmethod
    def check(y: Values) -> None:
        refuse_dates(y, "y")
        refuse_text(y, "y", " With loss='cross_entropy', it has probabilities; for classes, use loss='log_loss'.")

    @classmethod
    def learn(cls, y: AnyArray, known: Any) -> tuple[Self, Array]:
        n_classes = y.shape[1] if y.ndim == 2 and y.shape[1] > 1 else 2
        if known is not None and known.n_classes != n_classes:
            raise ValueError(
                f"y has probabilities of {n_classes} classes; with warm_start=True it must have those of the previous "
                f"fit: {known.n_classes}."
            )
        labels = cls(np.arange(n_classes))
        return labels, labels._probabilities(y, "y")

    @staticmethod
    def weights(
        class_weight: Mapping[Any, float] | str | None, y: AnyArray, sample_weight: AnyArray | None
    ) -> Array | None:
        _no_weights(class_weight, "probabilities of classes")
        return None

    def encode(self, y: AnyArray) -> Array:
        return self.encode_validation(y, len(y))

    def check_alone(self, encoded: Array) -> None:
        """Accept all labels: as in a fit, all rows may have the same probabilities."""

    def encode_validation(self, y: Any, n_rows: int) -> Array:
        one_column = self.n_classes == 2 and np.ndim(y) == 1
        shape = () if one_column else (self.n_classes,)
        return self._probabilities(check_y_val(y, n_rows, numeric=True, shape=shape), "y_val")

    def _probabilities(self, y: AnyArray, name: str) -> Array:
        """Probabilities (class, row) that add up to 1, or (1, row) of the second one of two classes."""
        numbers = np.asarray(y, dtype=np.float64)
        least, most = smallest(numbers), largest(numbers)
        if least < 0.0 or most > 1.0:
            raise ValueError(
                f"{name} must contain probabilities between 0 and 1 with loss='cross_entropy'; got values from "
                f"{least} to {most}."
            )
        if numbers.ndim == 1 or numbers.shape[1] == 1:
            return np.ascontiguousarray(numbers.reshape(1, -1))
        total = numbers[:, 0].copy()
        for of_class in numbers.T[1:]:  # in this order: that of NumPy's sum depends on the layout
            total += of_class
        wrong = np.flatnonzero(np.abs(total - 1.0) > ROUNDING)
        if len(wrong):
            raise ValueError(
                f"{name}: the probabilities of a row must add up to 1 with loss='cross_entropy'; those of row "
                f"{wrong[0]} add up to {total[wrong[0]]}. Divide them by their sum; for labels that do not exclude "
                "each other, use AGBMRegressor(loss='cross_entropy')."
            )
        shares = numbers.T / total
        return np.ascontiguousarray(shares[1:] if self.n_classes == 2 else shares)

    def decode(self, encoded: Array) -> AnyArray:
        return np.ascontiguousarray((encoded if self.n_outputs > 1 else np.concatenate([1.0 - encoded, encoded])).T)

    def strata(self, encoded: Array) -> NDArray[np.intp] | None:
        """The most probable class of each row."""
        return np.asarray(encoded.argmax(axis=0) if self.n_outputs > 1 else encoded[0] > 0.5, dtype=np.intp)

    def loss_of(self, name: str | LossFunction) -> Loss:
        loss = named_loss("classification", "cross_entropy")
        return loss if self.n_outputs == 1 else loss.for_classes(self.n_classes)  # type: ignore[no-any-return]

    def check_loss(self, loss: Loss) -> None:
        traits = traits_of(loss)
        n_classes = traits.n_scores if traits.labels == "shares_of_classes" else 2
        if n_classes != self.n_classes or (traits.labels == "share") != (self.n_outputs == 1):
            raise ValueError(
                f"loss={loss!r} does not match y, which has probabilities of {self.n_classes} classes; use "
                "loss='cross_entropy'."
            )


def _no_weights(class_weight: Mapping[Any, float] | str | None, what: str) -> None:
    if class_weight is not None:
        raise ValueError(
            f"class_weight={class_weight!r} needs one class per row; y has {what}. Use class_weight=None, and "
            "sample_weight for weights of rows."
        )
