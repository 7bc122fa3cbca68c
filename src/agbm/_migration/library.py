"""The building blocks of the tables of other libraries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

CLASSIFICATION, REGRESSION = "classification", "regression"

MAX_BINS = 255
"""The largest number of bins per feature."""

Convert = Callable[[Any], Any]
TaskAndLoss = tuple[str, Any]
"""A task, and a loss: its name, or a function of the other library's parameters that creates it."""


@dataclass(frozen=True)
class Setting:
    """A parameter of agbm and its names in another library."""

    ours: str
    theirs: str
    """The other library's name and its aliases, separated by spaces."""
    convert: Convert = lambda value: value


@dataclass(frozen=True)
class Library:
    """The parameters of another library."""

    name: str
    estimators: Mapping[str, str]
    """Class names of its scikit-learn estimators, with their tasks."""
    objective: str
    """The parameter that names the objective, and its aliases, separated by spaces."""
    objectives: Mapping[str, TaskAndLoss]
    settings: tuple[Setting, ...]
    """Parameters with a counterpart."""
    defaults: Mapping[str, Any]
    """The library's defaults, as parameters of agbm."""
    ignored: str
    """Parameters that do not affect the model or are inferred from the data, separated by spaces."""
    instead: Mapping[str, str]
    """Parameters without a counterpart, and what to use instead."""
    harmless: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Values of the parameters in `instead` that cause no warning, besides 0, False and None."""
    none_is_a_value: bool = False
    """Whether None is a value; in most libraries, a parameter that is None was not given."""
    dart_defaults: Mapping[str, Any] = field(default_factory=dict)
    """The library's defaults that apply to DART only."""
    sampling_frequency: str = ""
    """The parameter (and its aliases) without which the library does not sample rows; empty if there is none."""
    objective_has_parameters: bool = False
    """Whether an objective may be followed by parameters, as in "Quantile:alpha=0.9"."""
    patience_turns_on_early_stopping: bool = True
    """Whether setting the number of iterations without improvement turns on early stopping."""


# What to use instead of parameters without a counterpart, for parameters that several libraries have.
METRIC = "scoring names the metrics of scikit-learn for early stopping; the loss is the default"
HESSIAN = "classification losses have a fixed minimum sum of hessians per leaf; min_samples_leaf limits the rows"
DELTA = "the loss limits the Newton step of each row (to six log-odds, or a factor of e^2)"
GPU = "device is 'cpu', 'cuda' (an NVIDIA GPU) or 'auto'"
BOOSTING = "boosted trees are the only booster; subsample samples rows, dropout of the methods is DART"
FREQUENCY = "rows are sampled in every iteration"
TOL = "an improvement of any size counts, apart from rounding errors"
CATEGORY = "splits on categories have no parameters"
EVEN_ROWS = "rows are sampled uniformly; use subsample"
EVEN_FEATURES = "features are sampled uniformly"

SUPPORTED_BOOSTERS = ("gbdt", "gbrt", "gbtree", "dart")
"""Values of the parameters of BOOSTING that have a counterpart."""
