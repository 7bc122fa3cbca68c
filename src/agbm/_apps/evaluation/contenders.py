"""Names of the methods and libraries that `comparison.py` compares. Nothing heavy is imported here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec

METHODS = ("fading", "gbm", "vagbm", "agbm", "agbmr")
"""Methods of this library. All use the leaves and tree sizes of the default, which also has several members."""

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
