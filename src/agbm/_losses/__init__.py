"""Losses: the functions that boosting minimises.

A loss is a function of the label y and the raw score f of each row. All methods work on whole vectors. Any object with
the methods of `Loss` can be used. Native kernels compute the values and derivatives of the built-in losses. It imports
`_base` only.
"""

from .base import LOSS_METHODS, LOSSES, BuiltInLoss, JointLoss, Loss, Prediction, Traits, has_kernels
from .constants import enough
from .elementary import exp, log
from .function import WEIGHT_NAMES, LossFunction, called, is_function, required_arguments
from .names import (
    best_constant_with,
    frozen_distribution,
    is_built_in,
    is_loss_name,
    is_row_wise,
    loss_names,
    named_loss,
    prediction_of,
    traits_of,
    with_threads,
)
from .survival import has_event

__all__ = [
    "LOSSES",
    "LOSS_METHODS",
    "WEIGHT_NAMES",
    "BuiltInLoss",
    "JointLoss",
    "Loss",
    "LossFunction",
    "Prediction",
    "Traits",
    "best_constant_with",
    "called",
    "enough",
    "exp",
    "frozen_distribution",
    "has_event",
    "has_kernels",
    "is_built_in",
    "is_function",
    "is_loss_name",
    "is_row_wise",
    "log",
    "loss_names",
    "named_loss",
    "prediction_of",
    "required_arguments",
    "traits_of",
    "with_threads",
]
