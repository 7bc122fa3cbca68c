"""The default weak learner: histogram trees, grown by the native kernels.

Bins, growth, forests, and new values for the leaves of known trees. It imports `_core` and everything below it.
"""

from .forest import Forest
from .learner import BinnedTable, CodedRows, TableBins, TableFitter, TreeFitter, TreeLearner
from .shared_bins import SharedBins

__all__ = [
    "BinnedTable",
    "CodedRows",
    "Forest",
    "SharedBins",
    "TableBins",
    "TableFitter",
    "TreeFitter",
    "TreeLearner",
]
