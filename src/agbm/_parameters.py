"""Parameters of both estimators: what they mean, and which values are allowed."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from itertools import combinations
from typing import Any

from sklearn.base import is_regressor
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

_PARAMETERS = """
    Parameters
    ----------
    method : {"fading", "gbm", "vagbm", "agbm", "agbmr"}, default="fading"
        "fading": a tree enters the model with a large weight, and what it has beyond its lasting one fades away. "gbm":
        gradient boosting (Algorithm 1 of the paper). "vagbm": accelerated boosting without correction. "agbm":
        accelerated boosting with a corrected residual (Algorithm 2). "agbmr": the same with restarts.
    max_iter : int or "auto", default="auto"
        Boosting iterations. "agbm" and "agbmr" without shared_structure grow two trees in an iteration. "auto": up to
        1,000 with early stopping, else 100.
    learning_rate : float or "line_search", default=0.1
        The step eta. Where weights fade, the one that the first trees come to have; later ones have more.
        "line_search" (only "gbm") finds the best step for every tree.
    momentum : "fading", float in (0, 1] or "theory", default="fading"
        The schedule of "vagbm", "agbm" and "agbmr". A number is the paper's momentum parameter gamma; smaller values
        overfit later. "theory": at each iteration the largest gamma that Theorem 4.1 admits for the cosine angles seen
        so far, which is small. "fading": weights as those of method="fading", instead of the paper's.
    entry : float, default=6.0
        "fading": the next tree sees a new one with this many times learning_rate, at most with 1 or learning_rate
        itself.
    fade : float in [0, 1], default=0.4
        "fading": the share that a tree loses in an iteration of what it has beyond its lasting weight.
    rate_growth : float, default=0.01
        "fading": by how much the lasting weight of new trees grows in an iteration, as a share of learning_rate; it
        does not grow beyond what a tree enters with. Runs that stop after few trees so keep small weights, and long
        ones make large steps.
    look_ahead : float in [0, 1000], default=2.0
        method="fading": how much more the next tree sees of what the newest trees have beyond their lasting weights
        than the model does. 0: the next tree sees the model itself. Larger values make the model change more smoothly
        from iteration to iteration.
    correction : float in [-1, 1], default=0.5
        How much of the fitting error the corrected residual of "agbm" and "agbmr" carries on. 1 is Algorithm 2, 0 fits
        the momentum to the plain residual, -1 is what the authors' released scripts compute.
    shared_structure : bool, default=True
        "agbm" and "agbmr": grow one tree with two values a leaf for both residuals of an iteration instead of the two
        trees of the paper. Only with trees.
    restart : {"loss_rise", "fixed", "gradient", "validation_rise"}, default="loss_rise"
        When "agbmr" restarts: when the training loss rises (option 2 of the paper); after a fixed number of iterations
        that follows from strong_convexity (option 1); when a step goes against the gradient it started from; when the
        validation loss rises.
    strong_convexity : float, default=None
        Strong-convexity constant mu of the loss; needed by restart="fixed". It is 1 for the squared error.
    loss : {LOSSES} or loss object, default="auto"
        The loss to minimise; "auto" is the squared error in regression and the logistic loss in classification.
        Losses with parameters are given as objects: agbm.losses has Quantile, Huber and Tweedie, and any object with
        the methods of agbm.losses.Loss will do.
    multi_strategy : {"one_output_per_tree", "multi_output_tree"}, default="one_output_per_tree"
        With more than two classes, or several columns in y: a tree for each of them in every iteration, or one tree
        whose leaves have a value for each. Only with trees.
{CLASS_WEIGHT}    second_order : bool, default=True
        Newton leaves (sums of residuals over sums of hessians) instead of the paper's gradient leaves (means of
        residuals).
    init : "prior", "zero" or fitted estimator, default="prior"
        The start function f^0: the best constant, zero, or a given model, which is not fitted again. Wrap it in
        sklearn.frozen.FrozenEstimator where this estimator will be cloned.
    max_depth : int, "auto" or None, default="auto"
        Levels of splits; None for no limit but 4,096. "auto": 6, and fewer below 8,000 training rows, so that a full
        tree has 125 of them a leaf, but at least 3; no limit where max_leaf_nodes is given.
    max_leaf_nodes : int, default=None
        Leaves of a tree, grown best-first. None for no limit: trees grow level by level.
    min_samples_leaf : int or "auto", default="auto"
        Training rows in a leaf, at least. "auto": 10, and fewer below 5,000 training rows, down to 2. A row counts as
        often as it is repeated where sample_weight has integers, and once otherwise.
    l2_regularization : float or "auto", default="auto"
        Added to the sum of hessians where leaf values and gains divide by it; to the row count for the squared error
        and with second_order=False. For quantiles and the absolute error, whose hessians have the unit of 1 / y, it is
        multiplied by their mean under the start function: it counts rows, too. "auto": 1 where leaves count rows, else
        7 times the mean hessian of the start function, as if a leaf had 7 more rows. For losses of classes: 7, and less
        in proportion where these hessians are below 0.05 on average.
    min_split_gain : float, default=0.0
        Gain that a split must exceed: G_L^2 / (n_L + l2) + G_R^2 / (n_R + l2) - G^2 / (n + l2), G sums of residuals.
    max_bins : int in [2, 255], default=255
        Bins of each feature; missing values have one more. With more categories than bins, those that are alike under
        the start function share one.
    categorical_features : "from_dtype", list of names or positions, mask, or None, default="from_dtype"
        Features whose values are categories: numbers or text without order. "from_dtype": columns of text or categories
        (pandas, polars, arrow dictionaries, object arrays of strings). Categories that fit has not seen are treated as
        rare ones if a feature has more categories than bins, and as missing values otherwise. Only with trees.
    monotonic_cst : list of {-1, 0, 1}, or dict from names to these, default=None
        Features in which the prediction may only rise (1) or only fall (-1): the value for a regressor, the probability
        of the second class for a classifier of two. An init model is not constrained. Only with trees.
    interaction_cst : "no_interactions", "pairwise" or list of lists of positions, default=None
        Features that may be combined: those on a path of a tree are all in one of these groups. Features in no group
        form one of their own. Only with trees.
    subsample : float in (0, 1], default=1.0
        Share of the training rows that the trees of an iteration see, drawn anew for each iteration. Only with trees.
    colsample_bytree : float in (0, 1], default=1.0
        Share of the features that a tree may use.
    colsample_bynode : float in (0, 1], default=1.0
        Share of these that a node may be split on.
    dropout : float in [0, 1), default=0.0
        Probability with which the learners of each earlier iteration are left out of an iteration (DART). With k of
        them left out, these keep k / (k + 1) of their weight, and the new learners get 1 / (k + 1) of theirs.
    early_stopping : "auto" or bool, default="auto"
        Stop when the validation loss no longer improves, and keep the best iteration. "auto": when X_val is given
        or there are more than 10,000 rows.
    validation_fraction : float, default=0.1
        Share of the training rows held out for early stopping where X_val is not given.
    n_iter_no_change : int, default=20
        Iterations without improvement before stopping.
    tol : float, default=1e-7
        Smallest improvement that counts, as a share of what the validation loss has fallen by since the start.
    learner : scikit-learn regressor, default=None
        Weak learner to use instead of trees, one for each output; the tree parameters are ignored then, but for those
        whose promise nobody would keep (constraints, subsample, categories), which are refused. One whose fit takes no
        sample_weight needs second_order=False where the loss has no constant hessian.
    callbacks : list of callables, default=None
        Each is called with a record of every iteration (iteration, trees, train_loss, validation_loss, theta,
        momentum, cosine_residual, cosine_corrected, restart, seconds); one that returns True ends training.
        agbm.Checkpoint is one that saves the run to a file, and from which a later fit goes on. Model files,
        pickles and copies of a fitted model are without callbacks; sklearn.base.clone keeps them.
    warm_start : bool, default=False
        Go on from the model of the last fit, to max_iter iterations in all. With the same data the result is, bit for
        bit, that of a single fit; parameters that shape the model must not change. Callbacks see the new iterations
        only.
    verbose : int, default=0
        1 shows progress: a live bar in terminals (with rich installed) and notebooks, plain lines elsewhere.
    random_state : int, RandomState or None, default=0
        For the validation split, sampling, dropout, and learners that are random. A number, as by default, gives the
        same model in every run; None draws one.
    n_jobs : int, default=None
        Threads. None means all cores that the process may use. More than two per core, and more than 64, are not
        started. The model is the same, bit for bit, for every value.

    Attributes
    ----------
    n_iter_ : int
        Iterations that were run.
    best_iteration_ : int
        The iteration whose model predicts: after early stopping or divergence the one with the lowest validation loss
        (training loss where there are no validation rows), else the last.
    n_trees_ : int
        Trees (or other learners) in that model.
    history_ : dict of arrays
        One entry an iteration, starting with the start function: iteration, trees, train_loss, validation_loss, theta,
        momentum, cosine_residual, cosine_corrected, restart, seconds.
    feature_importances_ : array of shape (n_features,)
        Gain of the splits on each feature, each tree times its weight in the model, with sum 1. Only with trees.
    split_counts_ : array of shape (n_features,)
        Number of splits on each feature, in the trees that have weight in the model. Only with trees.
    notes_ : dict of texts
        Empty after fit; what is put into it is saved with the model. The command `agbm train` notes how it made it.
    n_features_in_ : int
        Features seen in fit.
    feature_names_in_ : array
        Their names, where X had names.
"""

_CLASS_WEIGHT = """    class_weight : dict, "balanced" or None, default=None
        Weights of the classes by label, times those of the rows; only their ratios matter. "balanced": such that every
        class weighs as much as any other.
"""


def documentation(losses: str, classifies: bool) -> str:
    """The parameters and attributes of an estimator, for its docstring."""
    return _PARAMETERS.replace("{LOSSES}", losses).replace("{CLASS_WEIGHT}", _CLASS_WEIGHT if classifies else "")


CONSTRAINTS: dict[str, list[Any]] = {
    "method": [StrOptions({"fading", "gbm", "vagbm", "agbm", "agbmr"})],
    "max_iter": [Interval(numbers.Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "learning_rate": [Interval(numbers.Real, 0, None, closed="neither"), StrOptions({"line_search"})],
    "momentum": [Interval(numbers.Real, 0, 1, closed="right"), StrOptions({"fading", "theory"})],
    "entry": [Interval(numbers.Real, 1, None, closed="left")],
    "fade": [Interval(numbers.Real, 0, 1, closed="both")],
    "rate_growth": [Interval(numbers.Real, 0, None, closed="left")],
    "look_ahead": [Interval(numbers.Real, 0, 1000, closed="both")],
    "correction": [Interval(numbers.Real, -1, 1, closed="both")],
    "shared_structure": ["boolean"],
    "restart": [StrOptions({"loss_rise", "fixed", "gradient", "validation_rise"})],
    "strong_convexity": [Interval(numbers.Real, 0, None, closed="neither"), None],
    "multi_strategy": [StrOptions({"one_output_per_tree", "multi_output_tree"})],
    "second_order": ["boolean"],
    "warm_start": ["boolean"],
    "init": [StrOptions({"prior", "zero"}), HasMethods("predict"), HasMethods("decision_function")],
    "max_depth": [Interval(numbers.Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
    "max_leaf_nodes": [Interval(numbers.Integral, 2, None, closed="left"), None],
    "min_samples_leaf": [Interval(numbers.Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "l2_regularization": [Interval(numbers.Real, 0, None, closed="left"), StrOptions({"auto"})],
    "min_split_gain": [Interval(numbers.Real, 0, None, closed="left")],
    "max_bins": [Interval(numbers.Integral, 2, 255, closed="both")],
    "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
    "monotonic_cst": ["array-like", dict, None],
    "interaction_cst": [list, tuple, StrOptions({"no_interactions", "pairwise"}), None],
    "subsample": [Interval(numbers.Real, 0, 1, closed="right")],
    "colsample_bytree": [Interval(numbers.Real, 0, 1, closed="right")],
    "colsample_bynode": [Interval(numbers.Real, 0, 1, closed="right")],
    "dropout": [Interval(numbers.Real, 0, 1, closed="left")],
    "early_stopping": [StrOptions({"auto"}), "boolean"],
    "validation_fraction": [Interval(numbers.Real, 0, 1, closed="neither")],
    "n_iter_no_change": [Interval(numbers.Integral, 1, None, closed="left")],
    "tol": [Interval(numbers.Real, 0, None, closed="left")],
    "learner": [HasMethods(["fit", "predict"]), None],
    "callbacks": [list, tuple, None],
    "verbose": ["verbose"],
    "random_state": ["random_state"],
    "n_jobs": [
        Interval(numbers.Integral, 1, None, closed="left"),
        Interval(numbers.Integral, None, -1, closed="right"),
        None,
    ],
}


def check_combinations(model: Any, saves_checkpoints: bool) -> None:
    """Parameters of an estimator that are fine alone and not together."""
    if model.learning_rate == "line_search" and model.method != "gbm":
        raise ValueError(
            f"learning_rate='line_search' works with method='gbm' only, got method={model.method!r}; "
            "give learning_rate a positive number."
        )
    if model.learning_rate == "line_search" and model.dropout > 0.0:
        raise ValueError(
            f"learning_rate='line_search' searches the step to the next model, which dropout={model.dropout} "
            "changes; use dropout=0 or give learning_rate a positive number."
        )
    if model.method == "agbmr":
        _check_restart(model, saves_checkpoints)
    if model.learner is not None:
        _check_learner(model, saves_checkpoints)
    for callback in model.callbacks or ():
        if not callable(callback):
            raise TypeError(f"callbacks must be callables that take a record, got {callback!r}.")


def _check_restart(model: Any, saves_checkpoints: bool) -> None:
    if model.restart == "fixed" and model.strong_convexity is None:
        raise ValueError(
            "strong_convexity=None: restart='fixed' needs the strong-convexity constant of the loss, a positive "
            "number (1 for the squared error); or use restart='loss_rise'."
        )
    if model.restart != "fixed" and model.strong_convexity is not None:
        raise ValueError(
            f"strong_convexity={model.strong_convexity} is for restart='fixed', got restart={model.restart!r}; "
            "use restart='fixed' or strong_convexity=None."
        )
    if model.restart == "fixed" and model.momentum == "fading":
        raise ValueError(
            "restart='fixed' follows from the paper's schedule, got momentum='fading'; give momentum a number or "
            "'theory', or use another restart."
        )
    if model.restart == "validation_rise" and (model.warm_start or saves_checkpoints):
        raise ValueError(
            "restart='validation_rise' depends on rows that are not kept, so that a run cannot go on; use "
            "warm_start=False and no Checkpoint, or another restart."
        )


def _check_learner(model: Any, saves_checkpoints: bool) -> None:
    """A learner of the user's cannot honour what is asked of trees; where that would change the model, say so."""
    if isinstance(model.learner, type) or not is_regressor(model.learner):
        raise TypeError(
            f"learner={model.learner!r} must be a scikit-learn regressor, an instance and not a class; or None."
        )
    asked: dict[str, Any] = {"monotonic_cst": None, "interaction_cst": None, "subsample": 1.0}
    for name, default in asked.items():
        if getattr(model, name) is not default and getattr(model, name) != default:
            raise ValueError(
                f"{name}={getattr(model, name)!r} works with trees only, got learner={model.learner!r}; "
                f"use {name}={default!r}."
            )
    if saves_checkpoints:
        raise TypeError(f"Checkpoint saves trees only, got learner={model.learner!r}; leave it out of callbacks.")


def interaction_groups(wanted: Any, n_features: int) -> list[list[int]]:
    """Groups of features that may meet, from the parameter `interaction_cst`."""
    if wanted is None:
        return []
    if isinstance(wanted, str):
        size = 1 if wanted == "no_interactions" else min(2, n_features)
        return [list(group) for group in combinations(range(n_features), size)]
    if not all(
        isinstance(group, Iterable) and all(isinstance(f, numbers.Integral) and not isinstance(f, bool) for f in group)
        for group in wanted
    ):
        raise ValueError(
            f"interaction_cst={wanted!r} must be 'no_interactions', 'pairwise', or a list of lists of positions of "
            "features, such as [[0, 1], [1, 2]]."
        )
    groups = [sorted({int(feature) for feature in group}) for group in wanted]
    unknown = sorted({f for group in groups for f in group if not 0 <= f < n_features})
    if unknown:
        raise ValueError(f"interaction_cst={wanted!r}: X has features 0 to {n_features - 1}, not {unknown}.")
    left_over = sorted(set(range(n_features)).difference(*groups))
    return [*groups, left_over] if left_over else groups
