"""Types and allowed values of the parameters of the estimators."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from .._base.types import SparseMatrix, Table, Values
from .._core.methods import METHODS, Method
from .._data.batches import Batches
from .._losses import LOSS_METHODS
from .._model.settings import DeviceName, MultiStrategy
from .._storage.ensemble import MAX_MEMBERS

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

FitTable: TypeAlias = "Table | Batches | Dataset"
"""X as users pass it to fit: a table, or rows that do not fit into memory."""

Targets: TypeAlias = "Values | SparseMatrix"
"""y as users pass it to a classifier: classes, or a matrix of labels, which may be sparse."""

# The losses by name, for type checkers. Names end in any number where these do; for other numbers than the common ones,
# type checkers accept the objects of agbm.losses.
RegressionLoss = Literal[
    "auto", "squared_error", "absolute_error", "cross_entropy", "poisson", "gamma", "log_cosh", "log_cosh:2.0",
    "huber:1.0", "huber:1.35", "huber:1.5", "tweedie:1.1", "tweedie:1.5", "tweedie:1.9",
    "quantile:0.01", "quantile:0.05", "quantile:0.1", "quantile:0.25", "quantile:0.5", "quantile:0.75", "quantile:0.9",
    "quantile:0.95", "quantile:0.99", "quantile:0.05,0.95", "quantile:0.05,0.5,0.95", "quantile:0.1,0.5,0.9",
    "expectile:0.1", "expectile:0.2", "expectile:0.5", "expectile:0.8", "expectile:0.9",
    "distribution:normal", "distribution:lognormal", "distribution:student_t", "distribution:gamma",
    "distribution:negative_binomial", "distribution:zero_inflated_poisson", "distribution:zero_inflated_gamma",
    "distribution:histogram",
]  # fmt: skip
ClassificationLoss = Literal["auto", "log_loss", "exponential", "cross_entropy"]
RankingLoss = Literal["auto", "ndcg", "ndcg:5", "ndcg:10", "ndcg:20", "map", "mrr", "listwise", "pairwise"]
SurvivalLoss = Literal[
    "auto", "cox", "cox:breslow", "cox:efron", "aft:normal", "aft:logistic", "aft:extreme", "piecewise_exponential",
]  # fmt: skip


CONSTRAINTS: dict[str, list[Any]] = {
    "method": [StrOptions(set(METHODS)), Method],
    "max_iter": [Interval(numbers.Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "learning_rate": [Interval(numbers.Real, 0, None, closed="neither"), StrOptions({"auto"})],
    "multi_strategy": [StrOptions(set(get_args(MultiStrategy)))],
    "warm_start": ["boolean"],
    "init": [StrOptions({"prior", "zero"}), HasMethods("predict"), HasMethods("decision_function")],
    "max_depth": [Interval(numbers.Integral, 1, None, closed="left"), None],
    "max_leaf_nodes": [Interval(numbers.Integral, 2, None, closed="left"), StrOptions({"auto"}), None],
    "min_samples_leaf": [Interval(numbers.Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "l1_regularization": [Interval(numbers.Real, 0, None, closed="left")],
    "l2_regularization": [Interval(numbers.Real, 0, None, closed="left"), StrOptions({"auto"})],
    "min_split_gain": [Interval(numbers.Real, 0, None, closed="left")],
    "max_bins": [Interval(numbers.Integral, 2, 255, closed="both")],
    "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
    "monotonic_cst": ["array-like", dict, None],
    "interaction_cst": [list, tuple, StrOptions({"no_interactions", "pairwise"}), None],
    "views": [list, tuple, StrOptions({"auto"}), None],
    "subsample": [Interval(numbers.Real, 0, 1, closed="right")],
    "colsample_bytree": [Interval(numbers.Real, 0, 1, closed="right")],
    "colsample_bynode": [Interval(numbers.Real, 0, 1, closed="right"), StrOptions({"auto"})],
    "early_stopping": [StrOptions({"auto"}), "boolean"],
    "n_members": [Interval(numbers.Integral, 1, MAX_MEMBERS, closed="both"), StrOptions({"auto"})],
    "validation_fraction": [Interval(numbers.Real, 0, 1, closed="neither"), None],
    "n_iter_no_change": [Interval(numbers.Integral, 1, None, closed="left")],
    "loss": [str, HasMethods(LOSS_METHODS), callable],
    "scoring": [str, callable, list, tuple, dict, None],
    "callbacks": [list, tuple, None],
    "verbose": ["verbose"],
    "random_state": ["random_state"],
    "n_jobs": [
        Interval(numbers.Integral, 1, None, closed="left"),
        Interval(numbers.Integral, None, -1, closed="right"),
        None,
    ],
    "device": [StrOptions(set(get_args(DeviceName)))],
}
