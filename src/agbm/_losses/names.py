"""The built-in losses by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from difflib import get_close_matches
from typing import Any

from .._base.sums import Array
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
from .histogram import HistogramDistribution
from .lifetimes import AcceleratedFailureTime, LifetimeLoss, PiecewiseExponential
from .loss import Loss
from .ranking import LambdaRank, ListwiseCrossEntropy, PairwiseLogistic
from .regression import AbsoluteError, Gamma, HalfSquaredError, Huber, Poisson, Quantile, Tweedie

_REGRESSION: dict[str, Callable[[], Loss]] = {
    "auto": HalfSquaredError,
    "squared_error": HalfSquaredError,
    "absolute_error": AbsoluteError,
    "poisson": Poisson,
    "gamma": Gamma,
    "cross_entropy": CrossEntropy,
}
_WITH_A_NUMBER: dict[str, Callable[[float], Loss]] = {"quantile": Quantile, "huber": Huber, "tweedie": Tweedie}
"""Losses whose name is followed by a number, as in "quantile:0.9"."""
_EXAMPLES = ("quantile:0.9", "quantile:0.05,0.5,0.95", "huber:1.5", "tweedie:1.5", "distribution:normal")

_CLASSIFICATION: dict[str, Callable[[], Loss]] = {
    "auto": LogLoss,
    "log_loss": LogLoss,
    "exponential": Exponential,
    "cross_entropy": CrossEntropy,
}

_RANKING: dict[str, Callable[[], Loss]] = {
    "auto": lambda: LambdaRank("ndcg", 10),
    "ndcg": lambda: LambdaRank("ndcg"),
    "map": lambda: LambdaRank("map"),
    "mrr": lambda: LambdaRank("mrr"),
    "listwise": ListwiseCrossEntropy,
    "pairwise": PairwiseLogistic,
}

DISTRIBUTIONS: dict[str, type[DistributionLoss]] = {
    "normal": NormalDistribution,
    "lognormal": LogNormalDistribution,
    "student_t": StudentTDistribution,
    "gamma": GammaDistribution,
    "negative_binomial": NegativeBinomialDistribution,
    "zero_inflated_poisson": ZeroInflatedPoissonDistribution,
    "zero_inflated_gamma": ZeroInflatedGammaDistribution,
    "histogram": HistogramDistribution,
}
"""By the name after "distribution:"."""


_SURVIVAL: dict[str, Callable[[], Cox | LifetimeLoss]] = {
    "auto": Cox,
    "cox": Cox,
    "cox:breslow": Cox,
    "cox:efron": lambda: Cox("efron"),
    "aft:normal": AcceleratedFailureTime,
    "aft:logistic": lambda: AcceleratedFailureTime("logistic"),
    "aft:extreme": lambda: AcceleratedFailureTime("extreme"),
    "piecewise_exponential": PiecewiseExponential,
}


def regression_loss(name: str) -> Loss:
    """The loss of a regressor with a name such as "poisson" or "quantile:0.9"."""
    if name in _REGRESSION:
        return _REGRESSION[name]()
    kind, _, number = name.partition(":")
    if kind == "distribution":
        if number not in DISTRIBUTIONS:
            raise ValueError(f"loss={name!r}: 'distribution:' must be followed by one of {_listed(DISTRIBUTIONS)}.")
        return DISTRIBUTIONS[number]()
    if kind not in _WITH_A_NUMBER:
        raise _unknown(name, [*_REGRESSION, *_EXAMPLES])
    try:
        values = [float(one) for one in number.split(",")]
    except ValueError:
        raise ValueError(f"loss={name!r} needs a number after a colon, as in {_listed(_EXAMPLES)}.") from None
    if len(values) == 1:
        return _WITH_A_NUMBER[kind](values[0])
    if kind != "quantile":
        raise ValueError(f"loss={name!r} takes one number; only 'quantile:' takes several.")
    return Quantile(values)


def classification_loss(name: str) -> Loss:
    """The loss of a classifier of two classes with a name."""
    if name not in _CLASSIFICATION:
        raise _unknown(name, _CLASSIFICATION)
    return _CLASSIFICATION[name]()


def ranking_loss(name: str) -> Loss:
    """The loss of a ranker with a name such as "listwise" or "ndcg:10"."""
    if name in _RANKING:
        return _RANKING[name]()
    metric, _, cut = name.partition(":")
    if metric not in ("ndcg", "map", "mrr"):
        raise _unknown(name, [*_RANKING, "ndcg:10"])
    if not cut.isascii() or not cut.isdigit() or int(cut) == 0:
        raise ValueError(f"loss={name!r} needs a number of positions after the colon, as in 'ndcg:10'.")
    return LambdaRank(metric, int(cut))


def survival_loss(name: str) -> Cox | LifetimeLoss:
    """The loss of survival analysis with a name."""
    if name not in _SURVIVAL:
        raise _unknown(name, _SURVIVAL)
    return _SURVIVAL[name]()


def is_loss_name(name: str) -> bool:
    """Whether an estimator has a loss with this name."""
    for named in (regression_loss, classification_loss, ranking_loss, survival_loss):
        with suppress(ValueError):
            named(name)
            return True
    return False


def is_survival_loss(loss: object) -> bool:
    """Whether a loss is one of survival analysis."""
    return isinstance(loss, Cox | LifetimeLoss)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _unknown(name: str, known: Iterable[str]) -> ValueError:
    known = list(known)
    similar = get_close_matches(name.lower(), known, n=1)
    hint = f" Did you mean {similar[0]!r}?" if similar else ""
    return ValueError(f"loss={name!r} must be one of {_listed(known)}, or a loss object.{hint}")


_BUILT_IN = {
    AbsoluteError, AcceleratedFailureTime, Cox, CrossEntropy, Exponential, Gamma, HalfSquaredError, Huber, LambdaRank,
    ListwiseCrossEntropy, LogLoss, Multinomial, MultinomialCrossEntropy, PairwiseLogistic, PiecewiseExponential,
    Poisson, Quantile, Tweedie, *DISTRIBUTIONS.values(),
}  # fmt: skip


def is_built_in(loss: object) -> bool:
    """Whether a loss is a built-in one; a custom loss that is derived from one may have changed anything."""
    return type(loss) in _BUILT_IN


def frozen_distribution(loss: Any, f: Array) -> Any:
    """The distributions of rows with scores f; raises ValueError for a loss that does not determine them."""
    if isinstance(loss, DistributionLoss):
        return loss.frozen(f)
    if isinstance(loss, Poisson):
        from scipy.stats import poisson

        return poisson(loss.inverse_link(f[0]))
    names = _listed(f"distribution:{name}" for name in DISTRIBUTIONS)
    raise ValueError(f"predict_dist() needs a loss that is a distribution: {names} or 'poisson'; got loss={loss!r}.")
