"""The default weak learner: histogram trees grown by the native kernels."""

from .forest import Forest
from .learner import TreeLearner

__all__ = ["Forest", "TreeLearner"]
