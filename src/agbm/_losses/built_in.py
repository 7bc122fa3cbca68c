"""The base of the built-in losses, whose values and derivatives are computed by native kernels."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from numbers import Real
from typing import ClassVar, Self

from .. import _native
from .._base.sums import Array, ExactSum, empty, rows_together
from .._base.together import largest, smallest


class BuiltInLoss:
    """A loss whose value and derivatives are computed by native kernels. Its repr is the call that creates it.

    Losses with one score per row also accept labels and scores (output, row); the losses of the outputs add up.
    """

    n_threads: int = 1
    """Number of threads of the kernels. It does not affect the bits of the results."""

    min_leaf_hessian = 0.0
    """Minimum sum of hessians per leaf after a Newton fit: the gradients of confidently correct rows are mostly noise.
    Custom losses may define it, too."""

    learns_from_labels: ClassVar[bool] = False
    """Whether `learned_from` has something to learn, which a fitted model then keeps."""

    link_kernel: ClassVar[str | None] = None
    """What the inverse link is called by the kernels of devices; None if they have none."""

    _kernel: ClassVar[str]

    @property
    def _parameter(self) -> float:
        return 0.0

    @property
    def row_kernel(self) -> tuple[str, float] | None:
        """Name and parameter of the kernels that evaluate each row; None for losses that are more than such kernels."""
        return self._kernel, self._parameter

    @property
    def spread(self) -> int | None:
        """The score that is the logarithm of a spread or shape; None for losses without one, or with several."""
        signs: tuple[int, ...] = getattr(self, "mean_signs", ())
        return signs.index(0) if signs.count(0) == 1 else None

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
        gradient, hessian = empty(f.shape), empty(f.shape)
        _native.loss_derivatives(self._kernel, self._parameter, y, f, gradient, hessian, self.n_threads)
        return gradient, hessian

    def _fill(
        self, kernel: Callable[..., None], y: Array, f: Array, parameter: float | None = None, one_per_row: bool = False
    ) -> Array:
        y, f = rows_together(y), rows_together(f)
        out = empty(y.shape if one_per_row else f.shape)
        kernel(self._kernel, self._parameter if parameter is None else parameter, y, f, out, self.n_threads)
        return out


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
