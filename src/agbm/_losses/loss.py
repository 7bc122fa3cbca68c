"""The interface of losses."""

from __future__ import annotations

from typing import Protocol

from .._base.sums import Array

LOSS_METHODS = ["check", "value", "negative_gradient", "hessian", "best_constant", "link", "inverse_link"]
"""The methods that a custom loss must have."""


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
