"""The rules behind every "auto" of the estimators."""

from __future__ import annotations

from ._core.losses import Exponential, LogLoss, Multinomial
from ._core.methods import Method
from ._core.objective import LocalObjective
from ._core.sums import exact_mean

# early_stopping="auto": larger data sets stop early; smaller ones can spare no rows.
EARLY_STOPPING_ROWS = 10_000

# max_iter="auto": with early stopping, and without.
ITERATIONS = 1_000
ITERATIONS_TO_THE_END = 100

# max_depth="auto": a full tree has this many training rows per leaf, within bounds.
ROWS_PER_LEAF = 125
DEPTH = 3, 6

# min_samples_leaf="auto": this fraction of the training rows, within bounds.
LEAVES = 500
MIN_SAMPLES_LEAF = 2, 10

# l2_regularization="auto". If leaves count rows, the first. Otherwise as if a leaf had this many more rows with
# residual zero, which depends on no unit. The hessians of classes have no unit: they are the noise of the gradient, and
# the third is a prior of leaf values; if their mean is below the fourth it is less, in proportion.
L2_OF_COUNTS = 1.0
L2_ROWS = 7.0
L2_OF_CLASSES = 7.0
L2_HESSIAN = 0.05


def early_stopping(given: bool | str, n_rows: int, has_validation: bool) -> bool:
    """Whether training stops early."""
    return has_validation or n_rows > EARLY_STOPPING_ROWS if given == "auto" else bool(given)


def max_iter(given: int | str, stops_early: bool) -> int:
    """The largest number of iterations."""
    if not isinstance(given, str):
        return given
    return ITERATIONS if stops_early else ITERATIONS_TO_THE_END


def second_order(given: bool | str, method: Method) -> bool:
    """Whether leaves are Newton steps."""
    return method.second_order if isinstance(given, str) else given


def max_depth(given: int | str | None, n_rows: int, max_leaf_nodes: int | None) -> int | None:
    """The depth of trees; "auto" depends on the number of training rows, whatever their weights."""
    if not isinstance(given, str):
        return given
    full = (n_rows // ROWS_PER_LEAF).bit_length() - 1
    return None if max_leaf_nodes is not None else min(max(full, DEPTH[0]), DEPTH[1])


def min_samples_leaf(given: int | str, n_rows: int) -> int:
    """The smallest number of rows per leaf; "auto" depends on the number of training rows, whatever their weights."""
    if not isinstance(given, str):
        return given
    return min(max(n_rows // LEAVES, MIN_SAMPLES_LEAF[0]), MIN_SAMPLES_LEAF[1])


def l2_regularization(given: float | str, objective: LocalObjective) -> float:
    """What leaves add to their sums of hessians, or to their numbers of rows."""
    number = None if isinstance(given, str) else given
    if number is not None and objective.quantile is None:
        return number
    hessian = objective.hessian(objective.start)
    if hessian is None:
        return L2_OF_COUNTS if number is None else number
    mean = exact_mean(hessian, objective.train_weight, objective.n_threads)
    if number is not None:
        return number * mean
    if isinstance(objective.loss, (LogLoss, Exponential, Multinomial)):
        return L2_OF_CLASSES * min(1.0, mean / L2_HESSIAN)
    return L2_ROWS * mean
