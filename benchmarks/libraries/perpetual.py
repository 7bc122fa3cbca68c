"""Perpetual."""

from __future__ import annotations

import logging
from typing import Any, ClassVar

import numpy as np

from .base import BINS, Library, Setting


class Perpetual(Library):
    """Perpetual, which chooses the size and number of its trees itself, within a budget.

    Without a memory limit it fills gigabytes before the first tree, which takes far longer than growing the trees.
    """

    name = "Perpetual"
    module = "perpetual"
    package = "perpetual"
    classes: ClassVar[dict[str, str]] = {"classes": "PerpetualBooster", "values": "PerpetualBooster"}
    remark = (
        "its own trees, without a depth limit; controlled by a budget (1, a learning rate of 0.1) and limits on "
        "iterations and memory (1 GB)"
    )
    same_trees = False
    takes_sparse = False

    def __init__(self) -> None:
        logging.getLogger("perpetual").setLevel(logging.ERROR)  # it warns if it reaches the limit on iterations
        super().__init__()

    def fit(self, X: Any, y: np.ndarray, setting: Setting) -> Any:
        return self.estimator(
            "values", objective="LogLoss" if setting.logistic else "SquaredLoss", budget=1.0,
            iteration_limit=setting.trees, max_bin=BINS, num_threads=setting.threads, memory_limit=1.0,
        ).fit(X, y)  # fmt: skip
