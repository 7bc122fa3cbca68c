"""agbm and the libraries that it is compared with, each wrapped once.

A `Library` grows trees of a given size, for times, and trains models with the library's own defaults, for losses; how
it takes categories, offsets, queries and validation rows is written down here and nowhere else.
"""

from __future__ import annotations

from .base import BINS, MIN_ROWS_IN_LEAF, PATIENCE, RATE, Array, Effort, Library, Model, Rows, Setting, Work, timed
from .catboost import CatBoost
from .chimeraboost import ChimeraBoost
from .lightgbm import LightGBM, QuantisedLightGBM
from .ours import Ours
from .perpetual import Perpetual
from .sklearn import HistGradientBoosting
from .xgboost import XGBoost

__all__ = [
    "BINS", "MIN_ROWS_IN_LEAF", "PATIENCE", "PEERS", "RATE", "Array", "CatBoost", "ChimeraBoost", "Effort",
    "HistGradientBoosting", "Library", "LightGBM", "Model", "Ours", "Perpetual", "QuantisedLightGBM", "Rows", "Setting",
    "Work", "XGBoost", "installed_peers", "named", "timed",
]  # fmt: skip

PEERS: tuple[type[Library], ...] = (
    LightGBM, QuantisedLightGBM, XGBoost, HistGradientBoosting, CatBoost, Perpetual,
)  # fmt: skip
"""The libraries whose times are compared."""


def installed_peers() -> list[Library]:
    """The peers that can be imported; prints the names of the others."""
    peers = []
    for kind in PEERS:
        try:
            peers.append(kind())
        except ImportError:
            print(f"{kind.name} is not installed and is skipped (pip install {kind.package})")
    return peers


def named(name: str) -> Library:
    """The library with this name, which may be agbm."""
    kinds: tuple[type[Library], ...] = (Ours, *PEERS)
    return next(kind for kind in kinds if kind.name == name)()
