"""Loss functions, for the parameter `loss` of the estimators."""

from ._losses.base import Loss
from ._losses.classification import CrossEntropy, Exponential, LogLoss, Multinomial, MultinomialCrossEntropy
from ._losses.distributions import (
    GammaDistribution,
    LogNormalDistribution,
    NegativeBinomialDistribution,
    NormalDistribution,
    StudentTDistribution,
    ZeroInflatedGammaDistribution,
    ZeroInflatedPoissonDistribution,
)
from ._losses.histogram_distribution import HistogramDistribution
from ._losses.ranking import LambdaRank, ListwiseCrossEntropy, PairwiseLogistic
from ._losses.regression import (
    AbsoluteError,
    Expectile,
    Gamma,
    HalfSquaredError,
    Huber,
    LogCosh,
    Poisson,
    Quantile,
    Tweedie,
)
from ._losses.survival import AcceleratedFailureTime, Cox, PiecewiseExponential

__all__ = [
    "AbsoluteError",
    "AcceleratedFailureTime",
    "Cox",
    "CrossEntropy",
    "Expectile",
    "Exponential",
    "Gamma",
    "GammaDistribution",
    "HalfSquaredError",
    "HistogramDistribution",
    "Huber",
    "LambdaRank",
    "ListwiseCrossEntropy",
    "LogCosh",
    "LogLoss",
    "LogNormalDistribution",
    "Loss",
    "Multinomial",
    "MultinomialCrossEntropy",
    "NegativeBinomialDistribution",
    "NormalDistribution",
    "PairwiseLogistic",
    "PiecewiseExponential",
    "Poisson",
    "Quantile",
    "StudentTDistribution",
    "Tweedie",
    "ZeroInflatedGammaDistribution",
    "ZeroInflatedPoissonDistribution",
]
