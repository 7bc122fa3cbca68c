"""The default weak learner: histogram trees grown by the native kernels."""

from .forest import Forest
from .learner import TableFitter, TreeFitter, TreeLearner

__all__ = ["Forest", "TableFitter", "TreeFitter", "TreeLearner"]
