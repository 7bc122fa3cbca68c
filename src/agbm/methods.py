"""Boosting algorithms, for the parameter `method` of the estimators."""

from ._core.methods import AGBM, GBM, VAGBM, Fading, Method

__all__ = ["AGBM", "GBM", "VAGBM", "Fading", "Method"]
