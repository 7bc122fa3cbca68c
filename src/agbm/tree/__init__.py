"""The default weak learner: histogram trees grown by the native kernels."""

from .learner import TreeLearner

__all__ = ["TreeLearner"]
