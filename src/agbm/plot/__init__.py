"""Plots of fitted models, readable on screen and in greyscale print. Needs matplotlib (extra: plot).

Every function draws on the given axes, or on new ones, and returns them; no matplotlib settings are changed. Names of
features and models are shown literally: a dollar sign in them does not start a formula.
"""

try:
    import matplotlib.pyplot  # noqa: F401
except ImportError as error:
    raise ImportError("agbm.plot needs matplotlib: pip install 'agbm[plot]'.") from error

from ..export import plot_tree as tree
from ._calibration import calibration
from ._contributions import contributions
from ._convergence import convergence
from ._importances import importances
from ._partial_dependence import partial_dependence
from ._threshold import threshold_costs
from ._uncertainty import coverage, intervals, pit

__all__ = [
    "calibration",
    "contributions",
    "convergence",
    "coverage",
    "importances",
    "intervals",
    "partial_dependence",
    "pit",
    "threshold_costs",
    "tree",
]
