"""Plots of fitted models, for screens and for print in grey. Needs matplotlib (extra: plot).

Every function draws on the given axes, or on new ones, and returns them; no setting of matplotlib is changed. Names of
features and models are shown as they are: a dollar sign in them does not start a formula.
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

__all__ = ["calibration", "contributions", "convergence", "importances", "partial_dependence", "tree"]
