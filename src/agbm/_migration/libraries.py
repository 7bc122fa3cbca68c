"""The libraries whose settings can be translated, by name."""

from .catboost import CATBOOST
from .lightgbm import LIGHTGBM
from .sklearn import HIST_GRADIENT_BOOSTING
from .xgboost import XGBOOST

LIBRARIES = {
    "lightgbm": LIGHTGBM,
    "xgboost": XGBOOST,
    "catboost": CATBOOST,
    "hist_gradient_boosting": HIST_GRADIENT_BOOSTING,
    "sklearn": HIST_GRADIENT_BOOSTING,
}
