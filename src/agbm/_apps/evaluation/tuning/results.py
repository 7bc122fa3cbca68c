"""The results of a search, and of its trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...._estimators.base import BaseAGBM
from ..metrics import Metric


@dataclass(frozen=True)
class Trial:
    """A finished trial, and the progress of the search."""

    number: int
    parameters: Mapping[str, Any]
    loss: float
    """Log loss or mean squared error on the validation rows; NaN if the trial was pruned."""
    best_loss: float
    """The lowest loss of all trials so far."""
    seconds: float
    """Time since the start of the search."""


@dataclass(frozen=True)
class Tuned:
    """The result of a search, evaluated on the test rows."""

    parameters: Mapping[str, Any]
    """Parameters of the best trial, for an estimator or for JSON; numbers even if the default is "auto"."""
    model: BaseAGBM
    """The model that was fitted with them to the training rows."""
    is_default: bool
    """Whether no trial had a lower validation loss than the default."""
    validation_loss: float
    default_validation_loss: float
    metrics: list[Metric]
    """Metrics on the test rows."""
    default_metrics: list[Metric]
    gain: Metric
    """The decrease of the test loss (log loss or squared error) compared with the default, paired by rows."""
    n_test: int
    complete: int
    """Number of trials that completed, including those of earlier calls."""
    pruned: int
    """Number of trials that were pruned: because most others had a lower loss, or at the deadline."""
    seconds: float
    """Duration of this call."""
    interrupted: bool = False
    """Whether Ctrl-C ended the search."""

    @property
    def verdict(self) -> str:
        """The gain in a sentence, with its uncertainty."""
        if self.is_default:
            return "No trial had a lower validation loss than the default."
        rows = f"{self.n_test} test rows"
        if self.gain.low > 0.0:
            return f"The {self.gain.name} on {rows} is lower than the default's by {self.gain}."
        if self.gain.high < 0.0:
            higher = replace(self.gain, value=-self.gain.value, low=-self.gain.high, high=-self.gain.low)
            return (
                f"The {self.gain.name} on {rows} is higher than the default's by {higher}: the search has overfitted "
                "the validation rows. Keep the default, or use more validation rows."
            )
        return f"No significant gain on {rows}: the default's {self.gain.name} minus the tuned one's is {self.gain}."
