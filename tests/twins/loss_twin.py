"""The losses in plain NumPy, as a reference for the native kernels.

Each twin implements the formulas of one loss with its parameter, using NumPy's exp and log.
"""

import numpy as np

TINY = np.finfo(float).tiny


def exp(f):
    return np.exp(np.minimum(f, 700.0))


class Twin:
    def __init__(self, loss):
        self.loss = loss


class HalfSquaredError(Twin):
    def value(self, y, f):
        return 0.5 * (y - f) ** 2

    def negative_gradient(self, y, f):
        return y - f

    def hessian(self, y, f):
        return np.ones_like(f)


class Quantile(Twin):
    def value(self, y, f):
        return np.maximum(self.loss.quantile * (y - f), (self.loss.quantile - 1.0) * (y - f))

    def negative_gradient(self, y, f):
        return (self.loss.quantile - 0.5) * np.abs(np.sign(y - f)) + 0.5 * np.sign(y - f)

    def hessian(self, y, f):
        distance = np.abs(y - f)
        apart = np.sort(distance[distance > 0.0])
        return 0.5 / np.maximum(distance, apart[(len(apart) - 1) // 2] if len(apart) else 1.0)


class AbsoluteError(Quantile):
    def value(self, y, f):
        return np.abs(y - f)

    def negative_gradient(self, y, f):
        return np.sign(y - f)

    def hessian(self, y, f):
        return 2.0 * super().hessian(y, f)


class Huber(Twin):
    def value(self, y, f):
        distance = np.abs(y - f)
        near = np.minimum(distance, self.loss.delta)
        return near * (distance - 0.5 * near)

    def negative_gradient(self, y, f):
        return np.clip(y - f, -self.loss.delta, self.loss.delta)

    def hessian(self, y, f):
        return self.loss.delta / np.maximum(np.abs(y - f), self.loss.delta)


class Expectile(Twin):
    def weight(self, y, f):
        return 2.0 * np.where(y < f, 1.0 - self.loss.tau, self.loss.tau)

    def value(self, y, f):
        return self.weight(y, f) * 0.5 * (y - f) ** 2

    def negative_gradient(self, y, f):
        return self.weight(y, f) * (y - f)

    def hessian(self, y, f):
        return self.weight(y, f)


class LogCosh(Twin):
    def value(self, y, f):
        d = np.abs(y - f) / self.loss.scale
        near = d**2 / 2 - d**4 / 12 + d**6 / 45
        return self.loss.scale**2 * np.where(d < 1e-2, near, d + np.log1p(np.exp(-2 * d)) - np.log(2.0))

    def negative_gradient(self, y, f):
        return self.loss.scale * np.tanh((y - f) / self.loss.scale)

    def hessian(self, y, f):
        d = np.abs(y - f) / self.loss.scale
        return np.where(d > 0.0, np.tanh(d) / np.where(d > 0.0, d, 1.0), 1.0)


class Tweedie(Twin):
    def value(self, y, f):
        p = self.loss.power
        return exp((2.0 - p) * f) / (2.0 - p) - y * exp((1.0 - p) * f) / (1.0 - p)

    def negative_gradient(self, y, f):
        p = self.loss.power
        return y * exp((1.0 - p) * f) - exp((2.0 - p) * f)

    def hessian(self, y, f):
        p = self.loss.power
        second = (2.0 - p) * exp((2.0 - p) * f) - (1.0 - p) * y * exp((1.0 - p) * f)
        return np.maximum(np.maximum(second, np.abs(self.negative_gradient(y, f)) / 2), TINY)


class Poisson(Tweedie):
    def value(self, y, f):
        return exp(f) - y * f


class Gamma(Tweedie):
    def value(self, y, f):
        return f + y * exp(-f)


class LogLoss(Twin):
    def value(self, y, f):
        return np.maximum(f, 0.0) - y * f + np.log1p(np.exp(-np.abs(f)))

    def negative_gradient(self, y, f):
        return y - 1.0 / (1.0 + exp(-f))

    def hessian(self, y, f):
        e = np.exp(-np.abs(f))
        return np.maximum(np.maximum(e / (1.0 + e) ** 2, np.abs(self.negative_gradient(y, f)) / 6), TINY)


class CrossEntropy(LogLoss):
    pass


class Exponential(Twin):
    def value(self, y, f):
        return y * exp(-f) + (1.0 - y) * exp(f)

    def negative_gradient(self, y, f):
        return y * exp(-f) - (1.0 - y) * exp(f)

    def hessian(self, y, f):
        return np.maximum(self.value(y, f), TINY)


class Multinomial(Twin):
    def probabilities(self, f):
        e = np.exp(f - f.max(axis=0))
        return e / e.sum(axis=0)

    def value(self, y, f):
        most = f.max(axis=0)
        of_label = np.take_along_axis(f, y.astype(int)[np.newaxis], axis=0)[0]
        return most - of_label + np.log(np.exp(f - most).sum(axis=0))

    def negative_gradient(self, y, f):
        return (y == np.arange(len(f))[:, np.newaxis]) - self.probabilities(f)

    def hessian(self, y, f):
        p = self.probabilities(f)
        second = len(f) / (len(f) - 1) * p * (1.0 - p)
        return np.maximum(np.maximum(second, np.abs(self.negative_gradient(y, f)) / 6), TINY)


class MultinomialCrossEntropy(Multinomial):
    """The mean of the losses of the classes."""

    def value(self, y, f):
        return sum(
            share * super(MultinomialCrossEntropy, self).value(np.full(f.shape[1], k), f) for k, share in enumerate(y)
        )

    def negative_gradient(self, y, f):
        return y - self.probabilities(f)


def twin_of(loss):
    return globals()[type(loss).__name__](loss)
