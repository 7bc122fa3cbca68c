"""A loss of one's own: bread that is missing costs four times as much as bread that is left over.

python examples/custom_loss.py
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agbm import AGBMRegressor

Array = NDArray[np.float64]


class Shortage:
    """l(y, f) = s (y - f)^2 / 2, with s = 4 where the score is too low and 1 where it is too high."""

    smoothness = 4.0  # the largest second derivative
    constant_hessian = False

    def check(self, y: Array) -> None:
        """Labels that make no sense are named before training begins."""
        if np.any(y < 0.0):
            raise ValueError("y must not be negative: it is how much was asked for.")

    def value(self, y: Array, f: Array) -> Array:
        """The loss of each row."""
        return np.asarray(self.hessian(y, f, None) * (y - f) ** 2 / 2.0)

    def negative_gradient(self, y: Array, f: Array) -> Array:
        """-dl/df of each row."""
        return np.asarray(self.hessian(y, f, None) * (y - f))

    def hessian(self, y: Array, f: Array, weight: Array | None) -> Array:
        """The second derivative of each row."""
        return np.where(y > f, 4.0, 1.0)

    def best_constant(self, y: Array, weight: Array | None) -> float:
        """Newton's steps from the mean; the loss is made of parabolas, so a few of them find the lowest point."""
        best = float(np.average(y, weights=weight))
        for _ in range(20):
            s = self.hessian(y, np.full_like(y, best), None)
            best = float(np.average(y, weights=s if weight is None else s * weight))
        return best

    def link(self, prediction: Array) -> Array:
        """The score is the prediction itself."""
        return prediction

    inverse_link = link


def main() -> None:
    """What a day costs with the usual loss, and with this one."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(4000, 3))
    sold = 100.0 + 80.0 * X[:, 0] + rng.gamma(2.0, 5.0 + 20.0 * X[:, 1])
    for name, loss in (("squared_error", "squared_error"), ("Shortage", Shortage())):
        baked = AGBMRegressor(loss=loss).fit(X[:3000], sold[:3000]).predict(X[3000:])
        cost, short = Shortage().value(sold[3000:], baked).mean(), np.mean(baked < sold[3000:])
        print(f"{name:14} cost of a day {cost:6.1f}, short on {short:4.0%} of days")


if __name__ == "__main__":
    main()
