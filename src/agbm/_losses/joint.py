"""The base of losses whose rows depend on each other."""

from __future__ import annotations

from abc import abstractmethod

from .._base.sums import Array, ExactSum, exact_sum, weight_sum
from .built_in import BuiltInLoss


class JointLoss(BuiltInLoss):
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
        """See BuiltInLoss."""
        return exact_sum(self.value(y, f, weight), weight, self.n_threads)

    def total_weight(self, y: Array, weight: Array | None) -> ExactSum:
        """What the total is divided by for the mean loss: the weight of all rows, unless rows come in larger units."""
        return weight_sum(weight, y.shape[-1], self.n_threads)
