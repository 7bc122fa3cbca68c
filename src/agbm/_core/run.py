"""What is settled before a training run begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .ensemble import Ensemble
from .learners import Fitter, Learner, Model
from .losses import Array, Loss
from .objective import Problem


class Plan(NamedTuple):
    """How long to train and which rows to watch, known from labels and parameters alone."""

    loss: Loss
    max_iter: int
    stops_early: bool
    earlier: Ensemble | None
    """The run that this one goes on from."""
    held_out: bool
    """Whether some of the rows are watched, and not trained on."""


class Run(NamedTuple):
    """Everything that training needs."""

    plan: Plan
    start: Any
    """The start function: constants, or a model."""
    problem: Problem
    learner: Learner
    fitter: Fitter
    values: Callable[[Model], Sequence[Array]]
    """The values of a model's functions (output, row) on the rows of the problem."""
