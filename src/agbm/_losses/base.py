"""What a loss is: its interface, its traits, and the bases of the built-in losses, which native kernels evaluate."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Literal, Protocol, Self

from .._base import _native
from .._base.collectives import largest, smallest
from .._base.sums import Array, ExactSum, empty, exact_sum, rows_together, weight_sum
from .constants import zero_slope

LOSS_METHODS = ["check", "value", "negative_gradient", "hessian", "best_constant", "link", "inverse_link"]
"""The methods that a custom loss must have."""

Task = Literal["regression", "classification", "ranking", "survival"]
Argument = Literal["none", "number", "numbers", "word"]
LabelKind = Literal["numbers", "share", "two_classes", "classes", "shares_of_classes", "relevances", "times"]
Prediction = Literal[
    "identity", "exp", "sigmoid", "sigmoid_of_double", "softmax", "sorted", "first", "exp_of_first", "log_normal_mean",
    "mean_unless_zero", "mean_of_bins", "minus_first", "log_of_hazards",
]  # fmt: skip
"""What makes predictions of scores, by name. Predictors, devices and exports implement these; no other part does."""
Intervals = Literal["distance", "quantiles", "standardised", "standardised_logarithm", "tails", "none"]
"""The nonconformity of labels."""


@dataclass(frozen=True)
class Traits:
    """What other parts of the library ask of a loss. They never ask for its class."""

    labels: LabelKind = "numbers"
    """What labels are. A share is a probability; classes are codes; times are bounds of censored times."""
    rows: Literal["apart", "groups", "all"] = "apart"
    """Which rows the derivatives of a row depend on: its own, those of its group, or all."""
    prediction: Prediction = "identity"
    n_scores: int = 1
    """Scores per label."""
    score_signs: tuple[int, ...] = ()
    """For several scores of one label, whether the prediction increases (1) or decreases (-1) with each; 0: neither."""
    quantiles: tuple[float, ...] = ()
    """If the value of a leaf is a quantile of its rows, that quantile; several for a list."""
    label_range: tuple[float, float] = (-math.inf, math.inf)
    """No label is outside, so no interval reaches beyond."""
    variance_power: float = 0.0
    """The variance of a label grows with this power of its mean."""
    intervals: Intervals = "distance"
    is_distribution: bool = False
    """Whether the scores of a row determine the distribution of its label, which `frozen` returns."""
    trees: Literal["plain", "larger", "of_spread", "of_events"] = "plain"
    """Which rule the sizes of trees follow if they are "auto"."""
    l2: Literal["rows", "classes", "times"] = "rows"
    """Which rule l2_regularization follows if it is "auto"."""
    min_hessian_leaf: float = 0.0
    """Minimum sum of hessians per leaf: the gradients of confidently correct rows are mostly noise."""
    has_value: bool = True
    """Whether the loss of a row is known, and not only its derivatives."""
    has_baseline: bool = False
    """Whether survival functions need a baseline hazard, estimated after the fit."""
    learns_from_labels: bool = False
    """Whether `learned_from` has something to learn, which a fitted model then keeps."""
    shown_as: str = ""
    """The name of the loss in progress and reports; "RMSE": the root of twice the mean is shown. Empty: its repr."""
    lightgbm: str = "regression"
    """The objective in LightGBM's model files whose predictions follow from scores in the same way."""

    @property
    def several(self) -> bool:
        """Whether a label has several scores."""
        return bool(self.score_signs)

    @property
    def listed_quantiles(self) -> tuple[float, ...]:
        """The quantiles that are predicted for each row, if there is a list of them."""
        return self.quantiles if self.several else ()

    @property
    def middle(self) -> int:
        """The position of the median among the quantiles, or of the one that is closest to it."""
        return min(range(len(self.quantiles)), key=lambda place: abs(self.quantiles[place] - 0.5))

    @property
    def shows_roots(self) -> bool:
        """Whether the root of twice the mean loss is shown, which has the unit of the labels."""
        return self.shown_as == "RMSE"

    @property
    def spread(self) -> int | None:
        """The score that is the logarithm of a spread or shape; None for losses without one, or with several."""
        return self.score_signs.index(0) if self.score_signs.count(0) == 1 else None


LOSSES: dict[str, type[BuiltInLoss]] = {}
"""The built-in losses by the names of their classes; a class enters when it is defined."""


class Loss(Protocol):
    """The interface of a loss.

    Rows are on the last axis. Scores f are a vector with one score per row; a loss of K > 2 classes gets f of shape
    (K, n) and returns derivatives of that shape, while the loss of a row is still one number. Labels y are a vector;
    for classification they are codes from 0 to K - 1.
    """

    @property
    def smoothness(self) -> float:
        """The largest second derivative, sigma in the paper. Theorem 4.1 allows steps up to 1 / sigma.

        Infinite if there is no bound: the theorem does not cover such a loss.
        """

    @property
    def constant_hessian(self) -> bool:
        """Whether the second derivative is 1 everywhere, so that gradient and Newton steps are the same."""

    def check(self, y: Array) -> None:
        """Raise ValueError, with the labels that are allowed, if some of y are not."""

    def value(self, y: Array, f: Array) -> Array:
        """The loss of each row."""

    def negative_gradient(self, y: Array, f: Array) -> Array:
        """The pseudo-residual of each row, -dl/df."""

    def hessian(self, y: Array, f: Array, weight: Array | None) -> Array:
        """The second derivative at each row, or the curvature of a parabola above the loss if that has a kink.

        The weights of the rows (None: all 1) are for losses whose curvature depends on the other rows.
        """

    def best_constant(self, y: Array, weight: Array | None) -> float | Array:
        """The constant score with the smallest total loss; of shape (K,) for K scores per row."""

    def link(self, prediction: Array) -> Array:
        """The raw score for a prediction."""

    def inverse_link(self, f: Array) -> Array:
        """The prediction for a raw score: the expected label, or the quantile for losses with kinks."""


class BuiltInLoss:
    """A loss whose value and derivatives are computed by native kernels. Its repr is the call that creates it.

    Losses with one score per row also accept labels and scores (output, row); the losses of the outputs add up.
    """

    tasks: ClassVar[tuple[Task, ...]] = ()
    """The tasks that can name the loss."""
    names: ClassVar[tuple[str, ...]] = ()
    """Its names as values of the parameter `loss`; numbers after a colon stand for any."""
    argument: ClassVar[Argument] = "none"
    """What follows the colon in a name, and is passed to the constructor."""

    n_threads: int = 1
    """Number of threads of the kernels. It does not affect the bits of the results."""
    is_learned: bool = True
    """Whether everything is known that `learned_from` learns."""

    smoothness: float
    constant_hessian: ClassVar[bool] = False
    _kernel: ClassVar[str]

    def __init_subclass__(cls, family: bool = False) -> None:
        """A class of this package is a built-in loss, unless it is the base of a family of them."""
        super().__init_subclass__()
        if not family and cls.__module__.startswith(f"{__package__}."):
            LOSSES[cls.__name__] = cls

    @property
    def traits(self) -> Traits:
        """What other parts of the library ask of the loss."""
        return Traits()

    @property
    def _parameter(self) -> float:
        return 0.0

    @property
    def row_kernel(self) -> tuple[str, float] | None:
        """Name and parameter of the kernels that evaluate each row; None for losses that are more than such kernels."""
        return self._kernel, self._parameter

    @classmethod
    def named(cls, name: str) -> Self:
        """The loss with one of its names, such as "poisson" or "quantile:0.9"."""
        word, _, given = name.partition(":")
        if cls.argument == "none" or (not given and word in cls.names):
            return cls()
        make: Callable[[Any], Self] = cls
        if cls.argument == "word":
            return make(given)
        try:
            numbers = [float(one) for one in given.split(",")]
        except ValueError:
            raise ValueError(f"loss={name!r} needs a number after a colon, as in {cls.names[0]!r}.") from None
        if len(numbers) > 1 and cls.argument == "number":
            raise ValueError(f"loss={name!r} takes one number, as in {cls.names[0]!r}.")
        return make(numbers if len(numbers) > 1 else numbers[0])

    def __repr__(self) -> str:
        made_of = {name: value for name, value in vars(self).items() if name != "n_threads"}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in made_of.items())})"

    def with_threads(self, n_threads: int) -> Self:
        """A copy that uses this number of threads."""
        loss = copy.copy(self)
        loss.n_threads = n_threads
        return loss

    def learned_from(self, y: Array, weight: Array | None) -> Self:
        """The loss with the settings that follow from the encoded labels of the training rows."""
        return self

    def for_classes(self, n_classes: int) -> BuiltInLoss:
        """The loss of the same kind for this number of classes; raises ValueError if there is none."""
        name = self.names[0] if self.names else repr(self)
        raise ValueError(f"loss={name!r} supports only two classes, y has {n_classes}; use loss='log_loss'.")

    def frozen(self, f: Array) -> Any:
        """The distributions of all rows, as a frozen distribution of scipy.stats with array parameters."""
        raise NotImplementedError(f"{self!r} is no distribution")

    def value(self, y: Array, f: Array) -> Array:
        """The loss of each row."""
        return self._fill(_native.loss_value, y, f, one_per_row=True)

    def total(self, y: Array, f: Array, weight: Array | None) -> float:
        """The weighted sum of the losses of all rows."""
        return float(self.exact_total(y, f, weight))

    def exact_total(self, y: Array, f: Array, weight: Array | None) -> ExactSum:
        """The sum before rounding: the totals of parts of the rows add up to the total of all rows."""
        y, f = rows_together(y), rows_together(f)
        return ExactSum.of_native(_native.loss_sum(self._kernel, self._parameter, y, f, weight, self.n_threads))

    def mean(self, y: Array, f: Array) -> float:
        """The sum divided by the number of rows, rounded once."""
        return _native.loss_mean(self._kernel, self._parameter, rows_together(y), rows_together(f), self.n_threads)

    def negative_gradient(self, y: Array, f: Array) -> Array:
        """The pseudo-residual of each row, -dl/df."""
        return self._fill(_native.loss_negative_gradient, y, f)

    def hessian(self, y: Array, f: Array, weight: Array | None = None) -> Array:
        """The second derivative at each row, or what the loss defines in its place."""
        return self._fill(_native.loss_hessian, y, f)

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array]:
        """`negative_gradient` and `hessian` by one kernel, for losses that have no others."""
        y, f = rows_together(y), rows_together(f)
        residual, hessian = empty(f.shape), empty(f.shape)
        _native.loss_derivatives(self._kernel, self._parameter, y, f, residual, hessian, self.n_threads)
        return residual, hessian

    @abstractmethod
    def check(self, y: Array) -> None:
        """Raise ValueError, with the labels that are allowed, if some of y are not."""

    @abstractmethod
    def best_constant(self, y: Array, weight: Array | None) -> Any:
        """The constant score with the smallest total loss; of shape (K,) for K scores per row."""

    def best_constant_with(self, y: Array, weight: Array | None, offset: Array) -> Any:
        """The constant with the smallest total loss if each row starts from an offset."""
        return zero_slope(self, y, weight, offset)

    @abstractmethod
    def link(self, prediction: Array) -> Array:
        """The raw score for a prediction."""

    @abstractmethod
    def inverse_link(self, f: Array) -> Array:
        """The prediction for a raw score."""

    def _fill(
        self, kernel: Callable[..., None], y: Array, f: Array, parameter: float | None = None, one_per_row: bool = False
    ) -> Array:
        y, f = rows_together(y), rows_together(f)
        out = empty(y.shape if one_per_row else f.shape)
        kernel(self._kernel, self._parameter if parameter is None else parameter, y, f, out, self.n_threads)
        return out


class JointLoss(BuiltInLoss, family=True):
    """A loss of rows that depend on each other, such as the documents of a query.

    Labels are (part, row): a row has several numbers, such as a relevance and the number of its query. The loss is a
    sum over the rows, but the term of a row may depend on the labels, scores and weights of others.
    """

    @property
    def row_kernel(self) -> None:
        """None, since rows depend on each other."""

    @abstractmethod
    def value(self, y: Array, f: Array, weight: Array | None = None) -> Array:
        """The term of each row, before it is multiplied by the weight of the row."""

    @abstractmethod
    def negative_gradient(self, y: Array, f: Array, weight: Array | None = None) -> Array:
        """The negative derivative of the whole loss by each score, divided by the weight of the row."""

    @abstractmethod
    def hessian(self, y: Array, f: Array, weight: Array | None = None) -> Array:
        """The second derivative of the whole loss by each score, or a bound, divided by the weight of the row."""

    def exact_total(self, y: Array, f: Array, weight: Array | None) -> ExactSum:
        """The sum before rounding, of terms that weights affect twice."""
        return exact_sum(self.value(y, f, weight), weight, self.n_threads)

    def total_weight(self, y: Array, weight: Array | None) -> ExactSum:
        """What the total is divided by for the mean loss: the weight of all rows, unless rows come in larger units."""
        return weight_sum(weight, y.shape[-1], self.n_threads)

    def best_constant_with(self, y: Array, weight: Array | None, offset: Array) -> Any:
        """The constant without offsets: a constant changes neither rankings nor partial likelihoods."""
        return self.best_constant(y, weight)


def check_positive(y: Array, loss: BuiltInLoss) -> None:
    """Raise ValueError for labels that are not positive."""
    least, most = smallest(y), largest(y)
    if least <= 0.0:
        raise ValueError(f"y must be positive for loss {type(loss).__name__}, got values from {least} to {most}.")


def check_amounts(y: Array, loss: BuiltInLoss) -> None:
    """Raise ValueError for negative labels, and if all are zero."""
    least, most = smallest(y), largest(y)
    if least < 0.0 or most == 0.0:
        raise ValueError(
            f"y must have no negative values and at least one positive value for loss {type(loss).__name__}, got "
            f"values from {least} to {most}."
        )


def has_kernels(loss: BuiltInLoss) -> tuple[bool, bool]:
    """Whether the sum, and whether the derivatives are those of the kernels, which have all of them in one call."""
    kind = type(loss)
    derivatives = kind.negative_gradient is BuiltInLoss.negative_gradient and kind.hessian is BuiltInLoss.hessian
    return kind.exact_total is BuiltInLoss.exact_total, derivatives


def checked(name: str, value: float, low: float, high: float, instead: str = "") -> float:
    """Check a parameter of a loss; returns a Python float, which prints, compares and saves well."""
    if not isinstance(value, Real) or not low < value < high:
        allowed = f"a number between {low:g} and {high:g}" if math.isfinite(high) else "a positive, finite number"
        raise ValueError(f"{name}={value!r} must be {allowed}{instead}.")
    return float(value)
