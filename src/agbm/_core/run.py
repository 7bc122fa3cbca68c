"""The inputs of a training run."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple

from .ensemble import Ensemble
from .learners import Fitter, Learner, V
from .losses import Loss
from .objective import Objective


class Plan(NamedTuple):
    """How long to train and how to validate; follows from labels and parameters alone."""

    loss: Loss
    max_iter: int
    stops_early: bool
    earlier: Ensemble | None
    """The run that this one resumes."""
    held_out: bool
    """Whether some of the given rows are held out for validation."""


class Run(NamedTuple, Generic[V]):
    """Everything that training needs."""

    plan: Plan
    start: Any
    """The start function: constants, or a model."""
    objective: Objective[V]
    learner: Learner
    fitter: Fitter[V]
