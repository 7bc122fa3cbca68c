"""Losses: the functions that boosting minimizes.

A loss is a function of the label y and the raw score f of each row. All methods work on whole vectors. Any object with
the methods of `Loss` can be used. Native kernels compute the values and derivatives of the built-in losses. It imports
`_base` only.
"""

from .._base.sums import Array
from .best_constants import enough
from .built_in import BuiltInLoss, has_kernels
from .classification import CrossEntropy, Exponential, LogLoss, Multinomial, MultinomialCrossEntropy
from .cox import Cox
from .distributions import (
    DistributionLoss,
    GammaDistribution,
    LogNormalDistribution,
    NegativeBinomialDistribution,
    NormalDistribution,
    StudentTDistribution,
    ZeroInflatedGammaDistribution,
    ZeroInflatedPoissonDistribution,
)
from .elementary import exp, log
from .histogram import HistogramDistribution
from .joint import JointLoss
from .lifetimes import AcceleratedFailureTime, LifetimeLoss, PiecewiseExponential, has_event
from .loss import LOSS_METHODS, Loss
from .names import (
    DISTRIBUTIONS,
    classification_loss,
    frozen_distribution,
    is_built_in,
    is_loss_name,
    is_survival_loss,
    ranking_loss,
    regression_loss,
    survival_loss,
)
from .offset_constants import best_constant_with
from .ranking import LambdaRank, ListwiseCrossEntropy, PairwiseLogistic, RankingLoss
from .regression import AbsoluteError, Gamma, HalfSquaredError, Huber, Poisson, Quantile, Tweedie

__all__ = [
    "DISTRIBUTIONS",
    "LOSS_METHODS",
    "AbsoluteError",
    "AcceleratedFailureTime",
    "Array",
    "BuiltInLoss",
    "Cox",
    "CrossEntropy",
    "DistributionLoss",
    "Exponential",
    "Gamma",
    "GammaDistribution",
    "HalfSquaredError",
    "HistogramDistribution",
    "Huber",
    "JointLoss",
    "LambdaRank",
    "LifetimeLoss",
    "ListwiseCrossEntropy",
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
    "RankingLoss",
    "StudentTDistribution",
    "Tweedie",
    "ZeroInflatedGammaDistribution",
    "ZeroInflatedPoissonDistribution",
    "best_constant_with",
    "classification_loss",
    "enough",
    "exp",
    "frozen_distribution",
    "has_event",
    "has_kernels",
    "is_built_in",
    "is_loss_name",
    "is_survival_loss",
    "log",
    "ranking_loss",
    "regression_loss",
    "survival_loss",
]
