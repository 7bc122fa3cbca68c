"""The default weak learner: histogram trees grown by the native kernels."""

from .forest import Tree
from .learner import TreeLearner

__all__ = ["Tree", "TreeLearner"]
