"""Losses of classification."""

from __future__ import annotations

import math
from dataclasses import replace
from operator import add
from typing import ClassVar

import numpy as np

from .._base import _native
from .._base.collectives import anywhere, combined, largest, smallest
from .._base.sums import Array, ExactSum, exact_mean, exact_means, exact_sum, rows_together
from .base import BuiltInLoss, Task, Traits
from .constants import class_scores, weight_in_steps
from .elementary import exp, log, sigmoid

# Keeps probabilities away from 0 and 1.
_TINY = 1e-12


class _Binary(BuiltInLoss, family=True):
    """Losses of labels 0 and 1."""

    tasks: ClassVar[tuple[Task, ...]] = ("classification",)

    def check(self, y: Array) -> None:
        """Labels are encoded: nothing to check."""

    def best_constant(self, y: Array, weight: Array | None) -> float:
        """The score of the mean; kept finite if all labels are equal."""
        return float(self.link(np.asarray(exact_mean(y, weight))))

    def link(self, prediction: Array) -> Array:
        """The log-odds."""
        share = np.clip(prediction, _TINY, 1.0 - _TINY)
        return log(share / (1.0 - share), self.n_threads)


class LogLoss(_Binary):
    """l(y, f) = log(1 + exp(f)) - y f, with y in {0, 1} and f the log-odds: the paper's logistic loss.

    The hessian is the second derivative P (1 - P), or a sixth of the residual if that is larger: the Newton step of a
    row is then at most 6 log-odds. LogitBoost clips it in a similar way (Friedman, Hastie, Tibshirani, "Additive
    logistic regression", 2000). Otherwise, confidently misclassified rows would dominate.
    """

    names: ClassVar[tuple[str, ...]] = ("log_loss",)
    _kernel = "logistic"
    smoothness = 0.25

    @property
    def traits(self) -> Traits:
        """What other parts of the library ask of the loss."""
        return Traits(
            "two_classes", prediction="sigmoid", l2="classes", min_hessian_leaf=0.1, shown_as="log loss",
            lightgbm="binary sigmoid:1",
        )  # fmt: skip

    def for_classes(self, n_classes: int) -> BuiltInLoss:
        """Multinomial."""
        return Multinomial(n_classes)

    def inverse_link(self, f: Array) -> Array:
        """The probability of label 1."""
        return sigmoid(f, self.n_threads)


class CrossEntropy(LogLoss):
    """LogLoss for labels that are probabilities, y in [0, 1]: the cross-entropy of y and the predicted probability."""

    tasks: ClassVar[tuple[Task, ...]] = ("regression", "classification")
    names: ClassVar[tuple[str, ...]] = ("cross_entropy",)

    @property
    def traits(self) -> Traits:
        """Those of LogLoss, for shares."""
        return replace(super().traits, labels="share", label_range=(0.0, 1.0), shown_as="cross-entropy")

    def for_classes(self, n_classes: int) -> BuiltInLoss:
        """MultinomialCrossEntropy."""
        return MultinomialCrossEntropy(n_classes)

    def check(self, y: Array) -> None:
        """Labels must be probabilities."""
        _check_probabilities(y, self)


class Exponential(_Binary):
    """l(y, f) = exp(-f) for label 1 and exp(f) for label 0, the loss of AdaBoost; f is half the log-odds."""

    names: ClassVar[tuple[str, ...]] = ("exponential",)
    _kernel = "exponential"
    smoothness = math.inf

    @property
    def traits(self) -> Traits:
        """What other parts of the library ask of the loss."""
        return Traits("two_classes", prediction="sigmoid_of_double", l2="classes", lightgbm="binary sigmoid:2")

    def link(self, prediction: Array) -> Array:
        """Half the log-odds."""
        return 0.5 * super().link(prediction)

    def inverse_link(self, f: Array) -> Array:
        """The probability of label 1."""
        return sigmoid(2.0 * f, self.n_threads)


class Multinomial(BuiltInLoss):
    """l(y, f) = log(sum over k of exp(f_k)) - f_y for class codes y from 0 to K - 1, with the scores f as (K, n).

    The negative gradient of score k is (1 if y = k else 0) - p_k with the probabilities p. The hessian is its second
    derivative p_k (1 - p_k) times K / (K - 1), Friedman's factor ("Greedy function approximation", 2001): the scores of
    all classes change together, and Newton steps from the second derivatives alone would be too long. As for LogLoss,
    it is at least a sixth of the residual.
    """

    _kernel = "multinomial"
    smoothness = 0.5  # the largest eigenvalue of diag(p) - p p^T

    def __init__(self, n_classes: int) -> None:
        if n_classes < 2 or n_classes != int(n_classes):
            raise ValueError(f"n_classes={n_classes!r} must be an integer of at least 2.")
        self.n_classes = int(n_classes)

    @property
    def traits(self) -> Traits:
        """Scores of classes."""
        n = self.n_classes
        return Traits(
            "classes", prediction="softmax", n_scores=n, l2="classes", min_hessian_leaf=0.2,
            shown_as="log loss", lightgbm=f"multiclass num_class:{n}",
        )  # fmt: skip

    @property
    def _parameter(self) -> float:
        return float(self.n_classes)

    def exact_total(self, y: Array, f: Array, weight: Array | None) -> ExactSum:
        return exact_sum(self.value(y, f), weight, self.n_threads)

    def check(self, y: Array) -> None:
        """Labels must be codes of classes."""
        least, most = smallest(y), largest(y)
        if least < 0 or most >= self.n_classes or anywhere(y != np.floor(y)):
            raise ValueError(
                f"y must contain integers from 0 to {self.n_classes - 1} for loss Multinomial, got values from "
                f"{least} to {most}."
            )

    def best_constant(self, y: Array, weight: Array | None) -> Array:
        """The logarithms of the class frequencies, (K,); kept finite if a class is absent."""
        share = combined(np.bincount(y.astype(np.intp), weight_in_steps(weight), self.n_classes), add)
        return self.link(share / share.sum())

    def best_constant_with(self, y: Array, weight: Array | None, offset: Array) -> Array:
        """The scores that make the expected shares of classes equal to their actual shares."""
        return class_scores(self, y, weight, offset)

    def link(self, prediction: Array) -> Array:
        """The logarithms of the probabilities, less their mean over the classes."""
        score = log(np.maximum(prediction, _TINY), self.n_threads)
        return np.asarray(score - _over_classes(score) / len(score))

    def inverse_link(self, f: Array) -> Array:
        """The probabilities of the classes."""
        e = exp(f - f.max(axis=0), self.n_threads)
        return np.asarray(e / _over_classes(e))


class MultinomialCrossEntropy(Multinomial):
    """Multinomial for labels that are probabilities of the classes, y as (K, n): l(y, f) = sum over k of y_k l(k, f).

    The negative gradient of score k is y_k - p_k; the hessian is that of Multinomial. Probabilities of 0 and 1 give the
    same bits as codes of classes.
    """

    _kernel = "shares_of_classes"

    @property
    def traits(self) -> Traits:
        """Those of Multinomial, for shares."""
        return replace(super().traits, labels="shares_of_classes", shown_as="cross-entropy")

    def value(self, y: Array, f: Array) -> Array:
        """The loss of each row."""
        y, f = rows_together(y), rows_together(f)
        out = _native.empty(f.shape[1:])
        _native.loss_value(self._kernel, self._parameter, y, f, out, self.n_threads)
        return out

    def check(self, y: Array) -> None:
        """Labels must be probabilities of the classes."""
        _check_probabilities(y, self)

    def best_constant(self, y: Array, weight: Array | None) -> Array:
        """The logarithms of the mean probabilities, (K,); kept finite if a class is absent."""
        return self.link(np.array(exact_means(lambda: y, weight)))


def _check_probabilities(y: Array, loss: BuiltInLoss) -> None:
    least, most = smallest(y), largest(y)
    if not (least >= 0.0 and most <= 1.0):  # also for NaN
        raise ValueError(
            f"y must contain probabilities between 0 and 1 for loss {type(loss).__name__}, got values from {least} "
            f"to {most}."
        )


def _over_classes(scores: Array) -> Array:
    """Sums over classes, in their order: NumPy's order of addition depends on the number of rows."""
    total = np.array(scores[0])
    for of_class in scores[1:]:
        total = total + of_class
    return total
