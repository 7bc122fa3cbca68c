"""Names of the models that `comparison.py` compares. Nothing heavy is imported here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec

DEFAULT = "agbm"
"""The default of this library: several members, each of which holds out other rows."""
ONE_MODEL = "agbm, one model"
"""The same with one member and the validation rows of the other libraries."""
PAPER: Mapping[str, str] = {
    "gbm": "gradient boosting", "vagbm": "VAGBM (paper)", "agbm": "AGBM (paper)", "agbmr": "AGBMR (paper)",
}  # fmt: skip
"""Maps the methods of the paper to their titles. All use the leaves and tree sizes of the default."""
OURS = (DEFAULT, ONE_MODEL, *PAPER.values())
FIVE = "five LightGBMs"
"""Five models of LightGBM with as much data as our members: each validates with another fifth of the rows."""

PACKAGES: Mapping[str, tuple[str, str]] = {
    "LightGBM": ("lightgbm", "lightgbm"),
    "XGBoost": ("xgboost", "xgboost"),
    "CatBoost": ("catboost", "catboost"),
    "HistGradientBoosting": ("sklearn", "scikit-learn"),
}
"""Maps other libraries to the module that is imported and the package that is installed."""


def installed_peers() -> list[str]:
    """The libraries that are installed. None of them is imported."""
    return [name for name, (module, _) in PACKAGES.items() if find_spec(module) is not None]


def let_idle_threads_sleep() -> None:
    """Make idle OpenMP threads sleep, unless the user has chosen otherwise; call it before NumPy is imported.

    By default they spin for a while. On a machine with other work, threads that spin keep those that have work from
    running: on two busy cores, LightGBM took 7.7 s instead of 0.2 s for 23 small trees. OpenMP reads the variable when
    it is loaded.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
