"""Labels: numbers and classes, and their encoding as arrays. Objects of this module are pickled for workers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _num_samples, check_is_fitted

from .._base.collectives import distinct
from .._base.sums import Array
from .._base.types import AnyArray, Table, Values
from .._base.weights import class_factors, refuse_dates, refuse_text
from .._core.objective import Outputs, of_each_output
from .._data.hold_out import strata_of_numbers
from .._data.offsets import RawScores, check_offset
from .._data.rows import RemoteMatrix, check_y_val, classes_of, some_of
from .._data.tables import missing
from .._losses import Loss, LossFunction, named_loss, traits_of


class Result(Enum):
    """What scores become."""

    SCORES = "decision_function"
    PROBABILITIES = "predict_proba"
    PREDICTIONS = "predict"


@dataclass(frozen=True, eq=False)
class Labels(ABC):
    """The labels of a fit: encodes them as numbers (output, row), and turns scores into predictions."""

    numeric: ClassVar[bool]

    @property
    @abstractmethod
    def n_outputs(self) -> int:
        """Scores per row."""

    @property
    def one_for_all_outputs(self) -> bool:
        """Whether the loss takes one label and all scores of a row at once, instead of one label per score."""
        return False

    def scored_by(self, loss: Loss, encoded: Array) -> tuple[Labels, Array]:
        """These labels and their encoding for a loss that may have several scores for each of them."""
        return self, encoded

    @staticmethod
    @abstractmethod
    def check(y: Values) -> None:
        """Raise ValueError for invalid labels that scikit-learn's checks accept."""

    @staticmethod
    def exact(y: Values, name: str = "y") -> Any:
        """Labels that scikit-learn's checks do not round; `name` is the argument."""
        return y

    @classmethod
    @abstractmethod
    def learn(cls, y: AnyArray, known: Self | None) -> tuple[Self, Array]:
        """The labels of the training rows, and their encoding; `known` are the labels of a run that is resumed."""

    @staticmethod
    def check_weights(y: AnyArray, weight: AnyArray, name: str) -> None:
        """Raise ValueError if rows with these labels cannot have these weights; `name` is the argument."""
        return

    @staticmethod
    def weights(
        class_weight: Mapping[Any, float] | str | None, y: AnyArray, sample_weight: AnyArray | None
    ) -> Array | None:
        """The weight of the class of each row; None if class_weight is None."""
        return None

    @abstractmethod
    def encode(self, y: AnyArray) -> Array:
        """The labels of other training rows, for a model that is updated, as numbers; like encode_validation."""

    def check_alone(self, encoded: Array) -> None:
        """Raise ValueError if an update cannot use rows with these labels without the rows of the fit."""
        return

    def updated_with(self, encoded: Array) -> Labels:
        """These labels after an update with rows whose labels have this encoding."""
        return self

    @abstractmethod
    def encode_validation(self, y: Values, n_rows: int) -> Array:
        """Labels of validation rows as numbers (output, row), or (row) if one_for_all_outputs."""

    @abstractmethod
    def decode(self, encoded: Array) -> AnyArray:
        """Encoded labels in the form in which they were passed."""

    def encode_offset(self, offset: Values | None, n_rows: int, name: str = "offset") -> Array | None:
        """Offsets as scores (output, row). One per row applies to all outputs, unless the loss sees these together."""
        if offset is None:
            return None
        return check_offset(offset, n_rows, self.n_outputs, self.one_for_all_outputs, name)

    def strata(self, encoded: Array) -> NDArray[np.intp] | None:
        """The classes for a stratified validation split; None if there are no classes.

        If there are groups of rows, class 0 has those that do not affect the loss.
        """
        return strata_of_numbers(np.atleast_2d(encoded))

    def groups(self, encoded: Array) -> AnyArray | None:
        """For each row, the number of its group, which a validation split must not divide; None without groups."""
        return None

    def check_unit(self, encoded: Array, unit: AnyArray, name: str) -> None:
        """Raise ValueError if rows that the loss sees together have several groups or times; `name`: which of these."""
        return

    def check_partitions(self, groups: Sequence[tuple[int, AnyArray]]) -> None:
        """Raise ValueError if rows that the loss sees together are in different partitions of a cluster.

        `groups` are the numbers of partitions, and the groups of their rows.
        """
        return

    @abstractmethod
    def loss_of(self, name: str | LossFunction) -> Loss:
        """The loss with the given name, or of a function of gradients."""

    @abstractmethod
    def predictions(self, loss: Loss, raw: Array) -> AnyArray:
        """Predictions for scores (output, row)."""

    def results(self, kind: Result, loss: Loss, raw: Array) -> AnyArray:
        """What scores (output, row) become; only classifiers have other results than predictions."""
        assert kind is Result.PREDICTIONS
        return self.predictions(loss, raw)

    def check_loss(self, loss: Loss) -> None:
        """Raise ValueError for a loss object that is for other labels."""
        return

    def joint(self, loss: Loss) -> Loss | Outputs:
        """The loss of all outputs together."""
        return loss if self.one_for_all_outputs else of_each_output(loss)

    def check_monotone(self, given: object) -> None:
        """Raise ValueError if predictions cannot be monotone; `given` is the parameter monotonic_cst."""
        return

    def monotone_scores(self) -> tuple[int, ...]:
        """For each output, the factor of the monotonic constraints of predictions."""
        return (1,) * self.n_outputs

    def monotone_outputs(self, signs: Mapping[Any, int], where: str) -> list[int]:
        """The monotonic constraint of each output in a feature, from those of predictions by output or class.

        `where` is the parameter, for errors.
        """
        names = list(range(self.n_outputs))
        unknown = [name for name in signs if name not in names]
        if self.n_outputs == 1:
            raise ValueError(f"{where}: y has one output; use 1 or -1 instead of {dict(signs)!r}.")
        if unknown:
            raise ValueError(f"{where}: the outputs are 0 to {self.n_outputs - 1}; got {some_of(unknown)}.")
        return [signs.get(name, 0) for name in names]

    def start_scores(self, start: object, loss: Loss, X: Table) -> Array:
        """The start function f^0 on the rows of X, as passed by the user: (output, row), or (output, 1) if constant."""
        if isinstance(start, np.ndarray):
            return start[:, np.newaxis]
        if isinstance(start, RawScores):
            return start(X)
        if isinstance(X, RemoteMatrix):
            X = np.asarray(X)
        n_rows = _num_samples(X)
        if isinstance(start, BaseEstimator):
            check_is_fitted(start)
        values = np.asarray(self._raw_score_of(start, loss)(X), dtype=np.float64)
        scores = values[np.newaxis] if values.ndim == 1 else values.T
        if scores.shape != (self.n_outputs, n_rows) or not np.isfinite(scores).all():
            log_link = ", positive because of the log link" if traits_of(loss).prediction == "exp" else ""
            raise ValueError(
                f"init={start!r} must predict {self.n_outputs} finite numbers per row{log_link}; got an array of shape "
                f"{values.shape} with {np.count_nonzero(~np.isfinite(scores))} invalid numbers."
            )
        return np.ascontiguousarray(scores)

    @abstractmethod
    def _raw_score_of(self, model: object, loss: Loss) -> Callable[[Any], Any]:
        """The function of an `init` model that returns raw scores, (row) or (row, output)."""


@dataclass(frozen=True, eq=False)
class Numbers(Labels):
    """Labels of a regressor."""

    shape: tuple[int, ...]
    """Shape of the label of one row: () or (outputs,)."""
    score_signs: tuple[int, ...] = ()
    """For a loss with several scores per label, whether predictions increase (1) or decrease (-1) with each of them.

    Empty for losses with one score."""
    numeric = True

    @property
    def n_outputs(self) -> int:
        return len(self.score_signs) or (self.shape[0] if self.shape else 1)

    @property
    def one_for_all_outputs(self) -> bool:
        return bool(self.score_signs)

    @property
    def single(self) -> bool:
        """Whether a row has one label, which is a number and not a list, with one score."""
        return not self.shape and not self.score_signs

    def scored_by(self, loss: Loss, encoded: Array) -> tuple[Labels, Array]:
        signs = traits_of(loss).score_signs
        if not signs:
            return self, encoded
        if self.shape:
            raise ValueError(
                f"loss={loss!r} has {len(signs)} scores per label and needs one label per row; y has "
                f"{self.shape[0]} columns. Fit one model for each."
            )
        return replace(self, score_signs=signs), encoded.ravel()

    @staticmethod
    def check(y: Values) -> None:
        refuse_dates(y, "y")
        refuse_text(y, "y", " For classes, use AGBMClassifier.")

    @classmethod
    def learn(cls, y: AnyArray, known: Self | None) -> tuple[Self, Array]:
        if known is not None and known.shape != y.shape[1:]:
            raise ValueError(
                f"y has shape {y.shape}; with warm_start=True it must have the same shape per row as in the previous "
                f"fit: {known.shape}."
            )
        labels = cls(y.shape[1:])
        return labels, labels._outputs_first(y)

    def encode(self, y: AnyArray) -> Array:
        if self.shape != y.shape[1:]:
            raise ValueError(f"y has shape {y.shape}; its shape per row must be that of the model: {self.shape}.")
        return self._outputs_first(y)

    def encode_validation(self, y: Values, n_rows: int) -> Array:
        return self._outputs_first(check_y_val(y, n_rows, numeric=True, shape=self.shape))

    def decode(self, encoded: Array) -> AnyArray:
        return encoded.T if self.shape else encoded.ravel()

    def _outputs_first(self, y: AnyArray) -> Array:
        numbers = np.asarray(y, dtype=np.float64)
        return numbers.ravel() if self.score_signs else np.ascontiguousarray(numbers.reshape(len(y), -1).T)

    def loss_of(self, name: str | LossFunction) -> Loss:
        return named_loss("regression", name)  # type: ignore[no-any-return]

    def check_loss(self, loss: Loss) -> None:
        if traits_of(loss).labels == "times":
            raise ValueError(f"loss={loss!r} is for censored times; use AGBMSurvival.")

    def predictions(self, loss: Loss, raw: Array) -> Array:
        """Predicted values for scores (output, row)."""
        if self.score_signs:
            return np.ascontiguousarray(np.asarray(loss.inverse_link(raw)).T)
        if not self.shape:
            return np.asarray(loss.inverse_link(raw[0]))
        return np.stack([loss.inverse_link(scores) for scores in raw], axis=-1)

    def check_monotone(self, given: object) -> None:
        if self.score_signs and not any(self.score_signs):
            raise ValueError(
                f"monotonic_cst={given!r}: the mean of a histogram is not monotone in its scores; use another "
                "distribution, or monotonic_cst=None."
            )

    def monotone_scores(self) -> tuple[int, ...]:
        return self.score_signs or super().monotone_scores()

    def _raw_score_of(self, model: object, loss: Loss) -> Callable[[Any], Any]:
        if not hasattr(model, "predict"):
            raise TypeError(f"init={model!r} has no method predict; use 'prior', 'zero' or a fitted regressor.")
        return lambda X: loss.link(np.asarray(model.predict(X), dtype=np.float64))


@dataclass(frozen=True, eq=False)
class Classes(Labels):
    """Labels of a classifier."""

    classes: AnyArray
    """The classes, sorted."""
    numeric = False

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def n_outputs(self) -> int:
        return 1 if len(self.classes) == 2 else len(self.classes)

    @property
    def one_for_all_outputs(self) -> bool:
        return self.n_outputs > 1

    @staticmethod
    def check(y: Values) -> None:
        labels = np.asarray(y)
        if labels.ndim == 1 and labels.dtype.kind in "OMm" and missing(labels).any():
            raise ValueError("y has missing labels (None, NaN, NaT or NA); remove these rows.")

    @staticmethod
    def exact(y: Values, name: str = "y") -> Any:
        """Labels with integers of pandas' own types as NumPy's, since scikit-learn would convert them to floats."""
        kind: Any = getattr(y, "dtype", None)
        return (
            np.asarray(y, kind.numpy_dtype) if getattr(kind, "kind", "") in "iu" and hasattr(kind, "numpy_dtype") else y
        )

    @classmethod
    def learn(cls, y: AnyArray, known: Self | None) -> tuple[Self, Array]:
        classes, codes = classes_of(y)
        if len(classes) < 2:
            raise ValueError(f"y has only one class ({classes.tolist()[0]!r}); a classifier needs at least two.")
        if known is not None and not np.array_equal(classes, known.classes):
            raise ValueError(
                f"y has classes {some_of(classes.tolist())}; with warm_start=True they must be those of the previous "
                f"fit: {some_of(known.classes.tolist())}."
            )
        labels = cls(classes)
        return labels, labels._codes(codes)

    @staticmethod
    def weights(
        class_weight: Mapping[Any, float] | str | None, y: AnyArray, sample_weight: AnyArray | None
    ) -> Array | None:
        if class_weight is None:
            return None
        classes, codes = classes_of(y)
        labels = classes.tolist()
        if isinstance(class_weight, dict):
            unknown = [label for label in class_weight if label not in set(labels)]
            if unknown:
                raise ValueError(f"class_weight has weights for {unknown}, which are not in y; y has classes {labels}.")
            values: list[float] = list(class_weight.values())
            if not all(isinstance(value, Real) and math.isfinite(value) and value >= 0.0 for value in values):
                raise ValueError(f"class_weight={class_weight!r}: weights must be finite and not negative.")
        return class_factors(class_weight, codes, labels, sample_weight)

    def encode(self, y: AnyArray) -> Array:
        found, codes = classes_of(y)
        known = self.classes.tolist()
        unknown = [label for label in found.tolist() if label not in set(known)]
        if unknown:
            raise ValueError(
                f"y has classes {some_of(unknown)} that the model does not have; it has {some_of(known)}. An update "
                "cannot add classes: fit a new model."
            )
        return self._codes(np.array([known.index(label) for label in found.tolist()], dtype=np.intp)[codes])

    def check_alone(self, encoded: Array) -> None:
        found = distinct(np.unique(encoded))
        if len(found) < 2:
            raise ValueError(
                f"y has only one class ({self.decode(found).tolist()[0]!r}), and this update does not combine its rows "
                "with those of the fit; use mode='leaves' or mode='weights' with a positive old_weight."
            )

    def encode_validation(self, y: Values, n_rows: int) -> Array:
        y = check_y_val(self.exact(y), n_rows, numeric=False, shape=())
        known = set(self.classes.tolist())
        unknown = [label for label in dict.fromkeys(y.tolist()) if label not in known]
        if unknown:
            known_ones = some_of(self.classes.tolist())
            raise ValueError(f"y_val has labels {some_of(unknown)} that are not in y; y has classes {known_ones}.")
        return self._codes(np.searchsorted(self.classes, y))

    def decode(self, encoded: Array) -> AnyArray:
        return np.asarray(self.classes[encoded.ravel().astype(np.intp)])

    def _codes(self, codes: NDArray[np.intp]) -> Array:
        numbers = np.asarray(codes, dtype=np.float64)
        return numbers if self.one_for_all_outputs else numbers[np.newaxis]

    def strata(self, encoded: Array) -> NDArray[np.intp] | None:
        return encoded.ravel().astype(np.intp)

    def loss_of(self, name: str | LossFunction) -> Loss:
        loss = named_loss("classification", name)
        return loss if self.n_outputs == 1 else loss.for_classes(len(self.classes))  # type: ignore[no-any-return]

    def check_monotone(self, given: object) -> None:
        if self.n_outputs > 1:
            raise ValueError(
                f"monotonic_cst={given!r} supports only two classes; y has {len(self.classes)}. With more, name the "
                f"class whose probability is monotone: monotonic_cst={{feature: {{{self.classes.tolist()[-1]!r}: 1}}}}."
            )

    def monotone_outputs(self, signs: Mapping[Any, int], where: str) -> list[int]:
        """The signs of the scores that make the probability of a class monotone.

        The probability of class k is P_k = 1 / (1 + sum over j != k of exp(s_j - s_k)) with the scores s. If s_k
        increases in a feature and all other scores decrease, every s_j - s_k decreases and P_k increases. For two
        classes, some scores would have to increase and decrease.
        """
        classes = self.classes.tolist()
        unknown = [label for label in signs if label not in classes]
        if unknown:
            raise ValueError(f"{where}: {some_of(unknown)} are not classes of y, which has {some_of(classes)}.")
        named = {label: sign for label, sign in signs.items() if sign != 0}
        if len(named) > 1:
            raise ValueError(
                f"{where}: a feature can be constrained for one class only; got {dict(signs)!r}. The probability of a "
                "class is monotone if its score and the scores of all other classes move in opposite directions, which "
                "two classes contradict."
            )
        if not named:
            return [0] * self.n_outputs
        ((label, sign),) = named.items()
        signs_of_classes = [sign if other == label else -sign for other in classes]
        return signs_of_classes if self.n_outputs > 1 else signs_of_classes[1:]

    def results(self, kind: Result, loss: Loss, raw: Array) -> AnyArray:
        if kind is Result.SCORES:
            return self.scores(loss, raw)
        return self.probabilities(loss, raw) if kind is Result.PROBABILITIES else self.predictions(loss, raw)

    def scores(self, loss: Loss, raw: Array) -> Array:
        """The decision function: log-odds of the second class for two classes, scores (row, class) for more."""
        return raw[0] if self.n_outputs == 1 else np.ascontiguousarray(raw.T)

    def probabilities(self, loss: Loss, raw: Array) -> Array:
        """Probabilities (row, class)."""
        if self.n_outputs > 1:
            return np.ascontiguousarray(loss.inverse_link(raw).T)
        second = loss.inverse_link(raw[0])
        both = np.empty((len(second), 2))  # filled in half the time of column_stack, which counts for one row
        both[:, 0] = 1.0 - second
        both[:, 1] = second
        return both

    def predictions(self, loss: Loss, raw: Array) -> AnyArray:
        """The most probable class of each row."""
        return np.asarray(self.classes.take(raw.argmax(axis=0) if self.n_outputs > 1 else raw[0] > 0))

    def _raw_score_of(self, model: object, loss: Loss) -> Callable[[Any], Any]:
        if not hasattr(model, "decision_function"):
            raise TypeError(
                f"init={model!r} has no decision_function; use 'prior', 'zero' or a fitted classifier that has one."
            )
        classes = getattr(model, "classes_", self.classes)
        if not np.array_equal(classes, self.classes):
            raise ValueError(
                f"init={model!r} has classes {np.asarray(classes).tolist()}, y has {self.classes.tolist()}; they must "
                "be the same."
            )
        return model.decision_function  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class StartScores:
    """Computes the scores of an `init` model for tables as passed by the user; None if `init` names a constant."""

    init: object
    labels: Labels
    loss: Loss

    def __call__(self, X: Table) -> Array | None:
        """Scores (output, row)."""
        return None if isinstance(self.init, str) else self.labels.start_scores(self.init, self.loss, X)
