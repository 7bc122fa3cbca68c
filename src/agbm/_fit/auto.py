"""The rules for all parameters of the estimators that are "auto"."""

from __future__ import annotations

import math

from .._base.sums import exact_mean
from .._core.methods import Method
from .._core.objective import LocalObjective
from .._losses import Loss, traits_of

# early_stopping="auto": True from this number of rows on. In smaller data sets, a single model needs all rows for
# training; several members use every row anyway. From TRIAL_ROWS on, a trial with early stopping finds the number of
# iterations for a single model, which is then fitted to all rows.
EARLY_STOPPING_ROWS = 10_000
TRIAL_ROWS = 1_000
EARLY_STOPPING_ROWS_OF_MEMBERS = 75

# The same for groups of rows, such as queries.
EARLY_STOPPING_GROUPS = 1_000
EARLY_STOPPING_GROUPS_OF_MEMBERS = 20

# n_members="auto": this many from this number of rows (or groups of rows) on. Fits then take minutes, and three members
# instead of five take half of the time: on seven tables of 85,000 to 580,000 rows, with 0.5 % more loss, 2 % at most.
MANY_ROWS = 250_000
MEMBERS_OF_MANY_ROWS = 3

# learning_rate="auto": that of a single model.
LEARNING_RATE = 0.1

# max_iter="auto": with and without early stopping.
ITERATIONS = 1_000
ITERATIONS_TO_THE_END = 100

# max_leaf_nodes="auto": such that leaves have this many training rows on average, within bounds. The squared error
# exceeds the upper bound where there are more rows: its targets carry more information per row than classes and
# counts. The spread of a distribution needs more rows per leaf than its mean. Cox's loss has a smaller lower bound:
# censored rows carry little information, so that the leaves of small tables have few events.
ROWS_PER_LEAF = 128
MAX_LEAF_NODES = 8, 31
FEWEST_LEAF_NODES_OF_COX = 4
MAX_LEAF_NODES_OF_SQUARES = 63
MAX_LEAF_NODES_OF_DISTRIBUTIONS = 16

# With many classes, labels or targets, the splits of trees for all of them are chosen by this many, drawn for each
# tree: the loss is about that of trees that look at all (docs/design.md), and histograms have a fraction of the sums.
# With a hessian each, the sums of a cell then fill a cache line.
SKETCHED_OUTPUTS = 4

# views="auto": crosses are looked for from this number of rows on. With fewer, too few are held out of a short run.
CROSSES_ROWS = 2_000

# min_samples_leaf="auto": the number of training rows divided by this, within bounds.
LEAVES = 500
MIN_SAMPLES_LEAF = 2, 10
LEAVES_OF_DISTRIBUTIONS = 250
MIN_SAMPLES_LEAF_OF_DISTRIBUTIONS = 5, 20

# l2_regularization="auto": L2_OF_COUNTS if leaves count rows. Otherwise L2_ROWS times the mean hessian, as if each leaf
# had this many more rows with residual zero, which does not depend on the unit of y; L2_ROWS_OF_SPREAD for the spread
# or shape of a distribution, which a few rows determine less well than its mean. Rows without an event carry little
# information about times: L2_ROWS_OF_TIMES for their location or common hazard, L2_ROWS_OF_TIME_SHAPES for their spread
# or the hazards of single intervals. The hessians of classification losses have no unit and are the variance of the
# gradient, so L2_OF_CLASSES acts as a prior on leaf values. It is reduced in proportion if the mean hessian is below
# L2_HESSIAN.
L2_OF_COUNTS = 3.0
L2_ROWS = 7.0
L2_ROWS_OF_SPREAD = 60.0
L2_ROWS_OF_TIMES = 30.0
L2_ROWS_OF_TIME_SHAPES = 400.0
L2_OF_CLASSES = 7.0
L2_HESSIAN = 0.05

# The gradient of a quantile q has the variance q (1 - q); v = 4 q (1 - q) is this variance relative to that of the
# median. Near 0 and 1, few rows are beyond the quantile: more splits are due to chance, and the value of a small leaf,
# a quantile of its rows, is not far enough out for other rows. Hence min_samples_leaf is divided by v^(3/4), and v is a
# factor of L2_ROWS and of the share of the features that a node may not be split on.


def _noise(loss: object) -> float:
    """The variance of the gradient of a quantile relative to the median; the mean for a list, 1 for other losses."""
    levels = traits_of(loss).quantiles or (0.5,)
    return math.fsum(_variance(level) for level in levels) / len(levels)


def _variance(level: float) -> float:
    return 4.0 * level * (1.0 - level)


def n_members(given: int | str, method: Method, n_units: int) -> int:
    """The number of members; "auto" is 1 for learners other than trees, since columns are not sampled for them.

    Units are rows, or groups of rows that are held out as a whole.
    """
    if not isinstance(given, str):
        return given
    if method.learner is not None:
        return 1
    return method.n_members if n_units < MANY_ROWS else min(method.n_members, MEMBERS_OF_MANY_ROWS)


def learning_rate(given: float | str, method: Method, n_members: int, loss: Loss) -> float:
    """The learning rate; the mean of several members bears larger steps than one model."""
    if not isinstance(given, str):
        return given
    return method.learning_rate_of_members if n_members > 1 and _is_squared_or_of_classes(loss) else LEARNING_RATE


def early_stopping(
    given: bool | str, n_units: int, of_groups: bool, has_validation: bool, n_members: int, asked: bool = False
) -> bool:
    """Whether training stops early; units are rows, or queries that are held out as a whole.

    `asked`: whether groups or times say what is held out.
    """
    if not isinstance(given, str):
        return bool(given)
    alone, of_members = TRIAL_ROWS, EARLY_STOPPING_ROWS_OF_MEMBERS
    if of_groups:
        alone, of_members = EARLY_STOPPING_GROUPS, EARLY_STOPPING_GROUPS_OF_MEMBERS
    return has_validation or n_units >= (alone if n_members == 1 and not asked else of_members)


def is_trial(given: bool | str, n_units: int, of_groups: bool, n_members: int) -> bool:
    """Whether a run that holds out rows only finds the number of iterations."""
    return isinstance(given, str) and n_members == 1 and not of_groups and n_units < EARLY_STOPPING_ROWS


def max_iter(given: int | str, stops_early: bool) -> int:
    """The maximum number of iterations."""
    if not isinstance(given, str):
        return given
    return ITERATIONS if stops_early else ITERATIONS_TO_THE_END


def max_leaf_nodes(given: int | str | None, n_rows: int, loss: Loss, max_depth: int | None) -> int | None:
    """The maximum number of leaves; "auto" depends on the number of training rows, not on their weights."""
    if not isinstance(given, str):
        return given
    if max_depth is not None:
        return None
    fewest, most = MAX_LEAF_NODES
    rule = traits_of(loss).trees
    if rule == "larger":
        most = min(max(math.isqrt(n_rows) // 2, most), MAX_LEAF_NODES_OF_SQUARES)
    if rule == "of_spread":
        most = MAX_LEAF_NODES_OF_DISTRIBUTIONS
    if rule == "of_events":
        fewest = FEWEST_LEAF_NODES_OF_COX
    return min(max(n_rows // ROWS_PER_LEAF, fewest), most)


def vector_leaves(given: str, method: Method, loss: Loss, constraints_differ: bool) -> bool:
    """Whether all outputs share each tree; "auto" does so if they are scores of one label, which change together.

    Classes share trees with methods for which that is better. Separate trees are needed if the monotonic constraints of
    the outputs differ.
    """
    if given == "auto":
        together = traits_of(loss).several or (method.shares_classes and _has_classes(loss))
        return together and not constraints_differ
    return given == "multi_output_tree"


def sketched_outputs(loss: Loss, is_shared: bool) -> int:
    """The number of outputs that the splits of trees for all are chosen by; 0 for all, as for the scores of a label."""
    return SKETCHED_OUTPUTS if is_shared and not traits_of(loss).several else 0


def _is_squared_or_of_classes(loss: Loss) -> bool:
    """Whether a loss is one of those that some rules were measured with."""
    return traits_of(loss).trees == "larger" or traits_of(loss).l2 == "classes"


def _has_classes(loss: Loss) -> bool:
    """Whether there is a score for each of several classes."""
    return traits_of(loss).prediction == "softmax"


def colsample_bynode(given: float | str, method: Method, loss: Loss) -> float:
    """The fraction of features that each node may be split on."""
    return 1.0 - _noise(loss) * (1.0 - method.colsample_bynode) if isinstance(given, str) else given


def tries_crosses(method: Method, loss: Loss, n_rows: int) -> bool:
    """Whether short runs look for crosses: not for the algorithms of the paper, nor with learners other than trees."""
    has_crosses = method.crosses and method.learner is None
    return has_crosses and n_rows >= CROSSES_ROWS and _is_squared_or_of_classes(loss)


def min_samples_leaf(given: int | str, n_rows: int, loss: Loss) -> int:
    """The minimum number of rows per leaf; "auto" depends on the number of training rows, not on their weights."""
    if not isinstance(given, str):
        return given
    leaves, (fewest, most) = LEAVES, MIN_SAMPLES_LEAF
    if traits_of(loss).trees == "of_spread":
        leaves, (fewest, most) = LEAVES_OF_DISTRIBUTIONS, MIN_SAMPLES_LEAF_OF_DISTRIBUTIONS
    root = math.sqrt(_noise(loss))
    return round(min(min(max(n_rows // leaves, fewest), most) / (root * math.sqrt(root)), max(n_rows, 1)))


def _rows_of_scores(loss: object) -> list[float]:
    """L2_ROWS for each score of a label, more for those of spreads and shapes; the first score of times is neither."""
    traits = traits_of(loss)
    if traits.l2 == "times":
        return [L2_ROWS_OF_TIMES] + [L2_ROWS_OF_TIME_SHAPES] * (traits.n_scores - 1)
    if traits.quantiles:
        return [L2_ROWS * _variance(level) for level in traits.quantiles]
    return [L2_ROWS if sign != 0 else L2_ROWS_OF_SPREAD for sign in traits.score_signs]


def l2_regularization(given: float | str, objective: LocalObjective) -> float | list[float]:
    """The value that leaves add to their sums of hessians, or to their numbers of rows; one per score if these differ.

    The scores of a label differ in their units, and so do their hessians: a given number is then a number of rows.
    """
    number = None if isinstance(given, str) else given
    has_units = bool(objective.quantiles) or traits_of(objective.loss).several
    if number is not None and not has_units:
        return number
    hessian = objective.hessian(objective.start)
    if hessian is None:
        return L2_OF_COUNTS if number is None else number
    if traits_of(objective.loss).several:
        means = [exact_mean(of_score, objective.train_weight, objective.n_threads) for of_score in hessian]
        rows = _rows_of_scores(objective.loss) if number is None else [number] * len(means)
        return [n * mean for n, mean in zip(rows, means, strict=True)]
    mean = exact_mean(hessian, objective.train_weight, objective.n_threads)
    if number is not None:
        return number * mean
    if traits_of(objective.loss).l2 == "classes":
        return L2_OF_CLASSES * min(1.0, mean / L2_HESSIAN)
    return L2_ROWS * _noise(objective.loss) * mean
