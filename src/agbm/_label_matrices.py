"""Labels of classifiers with several numbers per row: sets of labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ._core.losses import Array, Loss, classification_loss
from ._data.blocks import dense
from ._data.rows import check_y_val, some_of
from ._labels import Classes, Labels


def kind_of(kind: type[Labels], y: Any) -> type[Labels]:
    """The kind of the labels y of an estimator whose usual labels are `kind`."""
    if not issubclass(kind, Classes):
        return kind
    try:
        matrix = np.asarray(y)
    except ValueError:  # lists of different lengths; scikit-learn's checks say so
        return kind
    if matrix.ndim != 2 or matrix.shape[1] < 2:
        return kind
    if not _is_indicator(matrix):
        raise ValueError(
            f"y has shape {matrix.shape}; a classifier needs a 1d array with one class per row, or for several labels "
            "per row (multi-label) a matrix of 0 and 1, with one column per label."
        )
    return LabelSets


def _is_indicator(y: NDArray[Any]) -> bool:
    return y.dtype.kind == "b" or (y.dtype.kind in "iuf" and bool(np.isin(y, (0, 1)).all()))


@dataclass(frozen=True, eq=False)
class LabelSets(Labels):
    """Labels of a classifier with any number of labels per row, as a matrix (row, label) of 0 and 1.

    Every label has a score of its own, the log-odds that a row has it; the losses of the labels add up.
    """

    n_labels: int
    numeric = True

    @property
    def n_outputs(self) -> int:
        """See Labels."""
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
    def check(y: Any) -> None:
        """See Labels."""

    @classmethod
    def learn(cls, y: NDArray[Any], known: Self | None) -> tuple[Self, Array]:
        """See Labels."""
        labels = cls(y.shape[1])
        if known is not None and known.n_labels != labels.n_labels:
            raise ValueError(
                f"y has {labels.n_labels} labels; with warm_start=True it must have those of the previous fit: "
                f"{known.n_labels}."
            )
        return labels, labels._labels_first(y, "y")

    @staticmethod
    def weights(class_weight: Any, y: NDArray[Any], sample_weight: NDArray[Any] | None) -> Array | None:
        """See Labels."""
        if class_weight is not None:
            raise ValueError(
                f"class_weight={class_weight!r} needs one class per row; y has several labels per row. Use "
                "class_weight=None, and sample_weight for weights of rows."
            )
        return None

    def encode_validation(self, y: Any, n_rows: int) -> Array:
        """See Labels."""
        return self._labels_first(check_y_val(dense(y), n_rows, numeric=True, shape=(self.n_labels,)), "y_val")

    def _labels_first(self, y: NDArray[Any], name: str) -> Array:
        if not _is_indicator(y):
            others = some_of([value for value in np.unique(y).tolist() if value not in (0, 1)])
            raise ValueError(f"{name} must contain only 0 and 1 for several labels per row; got {others}.")
        return np.ascontiguousarray(y.T, dtype=np.float64)

    def decode(self, encoded: Array) -> NDArray[Any]:
        """See Labels."""
        return np.ascontiguousarray(encoded.T).astype(np.int64)

    def loss_of(self, name: str) -> Loss:
        """See Labels."""
        return classification_loss(name)

    def scores(self, loss: Loss, raw: Array) -> Array:
        """The decision function: log-odds (row, label)."""
        return np.ascontiguousarray(raw.T)

    def probabilities(self, loss: Loss, raw: Array) -> Array:
        """The probability of each label (row, label)."""
        return np.stack([loss.inverse_link(scores) for scores in raw], axis=-1)

    def predictions(self, loss: Loss, raw: Array) -> NDArray[Any]:
        """A matrix (row, label) of 0 and 1: the labels that are more probable than not."""
        return np.ascontiguousarray((raw > 0.0).T).astype(np.int64)

    def _raw_score_of(self, model: Any, loss: Loss) -> Callable[[Any], Any]:
        if not hasattr(model, "decision_function"):
            raise TypeError(
                f"init={model!r} has no decision_function; use 'prior', 'zero' or a fitted classifier that has one."
            )
        return model.decision_function  # type: ignore[no-any-return]
