"""A custom loss: underestimating the demand for bread costs four times as much as overestimating it.

The loss exists as Expectile(0.8), up to a factor; here it is written out, and both give about the same costs.

python examples/custom_loss.py
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agbm import AGBMRegressor
from agbm.losses import Expectile, HalfSquaredError, Loss

Array = NDArray[np.float64]


class Shortage:
    """l(y, f) = s (y - f)^2 / 2, with s = 4 if the score f is too low and s = 1 if it is too high."""

    smoothness = 4.0  # the largest second derivative
    constant_hessian = False

    def check(self, y: Array) -> None:
        """Validate the labels before training."""
        if np.any(y < 0.0):
            raise ValueError("y must not be negative: it is the demand.")

    def value(self, y: Array, f: Array) -> Array:
        """Return the loss of each row."""
        return np.asarray(self.hessian(y, f, None) * (y - f) ** 2 / 2.0)

    def negative_gradient(self, y: Array, f: Array) -> Array:
        """Return -dl/df of each row."""
        return np.asarray(self.hessian(y, f, None) * (y - f))

    def hessian(self, y: Array, f: Array, weight: Array | None) -> Array:
        """Return the second derivative of each row."""
        return np.where(y > f, 4.0, 1.0)

    def best_constant(self, y: Array, weight: Array | None) -> float:
        """Return the best constant by Newton's method; the loss is piecewise quadratic, so few steps suffice."""
        best = float(np.average(y, weights=weight))
        for _ in range(20):
            s = self.hessian(y, np.full_like(y, best), None)
            best = float(np.average(y, weights=s if weight is None else s * weight))
        return best

    def link(self, prediction: Array) -> Array:
        """Return the score for a prediction: here they are the same."""
        return prediction

    inverse_link = link


def main() -> None:
    """Compare the cost per day of the squared error and of the custom loss."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(4000, 3))
    demand = 100.0 + 80.0 * X[:, 0] + rng.gamma(2.0, 5.0 + 20.0 * X[:, 1])
    losses: list[Loss] = [HalfSquaredError(), Shortage(), Expectile(0.8)]
    for loss in losses:
        baked = AGBMRegressor(loss=loss).fit(X[:3000], demand[:3000]).predict(X[3000:])
        cost, short = Shortage().value(demand[3000:], baked).mean(), np.mean(baked < demand[3000:])
        print(f"{type(loss).__name__:16} cost per day {cost:6.1f}, short on {short:4.0%} of days")


if __name__ == "__main__":
    main()
