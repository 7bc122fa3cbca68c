"""The default weak learner: histogram trees grown by the native kernels."""

from .forest import Forest
from .learner import TableFitter, TreeFitter, TreeLearner
from .shared_bins import SharedBins

__all__ = ["Forest", "SharedBins", "TableFitter", "TreeFitter", "TreeLearner"]
