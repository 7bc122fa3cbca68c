"""Other libraries: their parameters, objectives and defaults as ours, and hints for errors.

Each library has a table in a module of its own; translation and error messages read these tables. It imports `_losses`
only.
"""

from .catboost import CATBOOST
from .library import CLASSIFICATION, REGRESSION, Library
from .lightgbm import LIGHTGBM
from .sklearn import HIST_GRADIENT_BOOSTING
from .xgboost import XGBOOST

__all__ = ["CLASSIFICATION", "LIBRARIES", "REGRESSION"]

LIBRARIES: dict[str, Library] = {
    "lightgbm": LIGHTGBM,
    "xgboost": XGBOOST,
    "catboost": CATBOOST,
    "hist_gradient_boosting": HIST_GRADIENT_BOOSTING,
    "sklearn": HIST_GRADIENT_BOOSTING,
}
"""The libraries whose settings can be translated, by name."""
