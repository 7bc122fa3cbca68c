"""Parameters of both estimators: documentation, allowed values and combinations."""

from __future__ import annotations

import numbers
from typing import Any

from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from .._core.methods import METHODS, Method
from .._losses import LOSS_METHODS
from .._storage.ensemble import MAX_MEMBERS

_PARAMETERS = """
    Parameters
    ----------
    method : {"fading", "gbm", "vagbm", "agbm", "agbmr"} or method object, default="fading"
        The boosting algorithm. A name selects the algorithm with default settings, which for the algorithms of the
        paper is the published form; the objects in agbm.methods have the settings as parameters. "fading": trees enter
        with a large weight, which decays to a small one. "gbm": gradient boosting (Algorithm 1 of the paper, with a
        constant step). "vagbm": accelerated boosting without correction (appendix). "agbm": accelerated boosting with a
        corrected residual (Algorithm 2). "agbmr": the same with restarts when the training loss rises.
    max_iter : int or "auto", default="auto"
        The maximum number of boosting iterations. "agbm" and "agbmr" grow two trees per iteration. "auto": 1,000 with
        early stopping, otherwise 100.
    learning_rate : float, default=0.1
        The step size eta. For "fading", the weight that the first trees decay to; later trees keep a larger weight.
    loss : {LOSSES} or a loss object, default="auto"
        The loss to minimise. "auto": the squared error in regression, the logistic loss in classification, and
        Cox's partial likelihood in survival analysis. Numbers
        are parameters, the same as those of the objects of agbm.losses: the quantile, the residual from which Huber's
        loss is linear, and the power of the variance. With "cross_entropy", the labels are probabilities; see fit. Any
        object with the methods of agbm.losses.Loss is accepted.
    multi_strategy : {"auto", "one_output_per_tree", "multi_output_tree"}, default="auto"
        How to fit more than two classes, several columns of y, or a loss with several scores per row (quantiles,
        distributions): one tree for each in every iteration, or one tree whose leaves have one value for each. "auto":
        one tree for the scores of such a loss, otherwise one for each class or column. Only with trees.
{CLASS_WEIGHT}    second_order : bool or "auto", default="auto"
        If True, use Newton leaves (sums of residuals divided by sums of hessians) instead of the gradient leaves of the
        paper (means of residuals). "auto": True for "fading", False for the algorithms of the paper.
    init : "prior", "zero" or fitted estimator, default="prior"
        The initial function f^0: the best constant given the offsets, zero, or the predictions of a fitted model, which
        is not fitted again. Offsets are added to it. Wrap the model in sklearn.frozen.FrozenEstimator if this estimator
        will be cloned.
    max_depth : int or None, default=None
        The maximum number of split levels. None: unlimited (at most 4,096).
    max_leaf_nodes : int, "auto" or None, default="auto"
        The maximum number of leaves per tree; trees are then grown best-first. None: unlimited, and trees are grown
        level by level. "auto": None if max_depth is set; otherwise one leaf per 128 training rows, but between 8 and 31
        (31 from 3,968 rows on). For the squared error, the upper bound is half the square root of the number of rows if
        that is larger, up to 63 (15,876 rows). For Cox's loss, the lower bound is 4.
    min_samples_leaf : int or "auto", default="auto"
        The minimum number of training rows per leaf. "auto": 1/500 of the training rows, but between 2 and 10 (10 from
        5,000 rows on); for a quantile q, divided by (4 q (1 - q))^(3/4). With integer sample weights, a row counts as
        often as it is repeated; otherwise every row counts once.
    l2_regularization : float or "auto", default="auto"
        Added to the sum of hessians in the denominator of leaf values and gains; for the squared error and with
        second_order=False, added to the number of rows instead. For quantiles and the absolute error, whose hessians
        have the unit of 1 / y, the value is multiplied by the mean hessian at the initial function, so that it is a
        number of rows as well. "auto": 3 if it is added to the number of rows; otherwise 7 times the mean hessian at
        the initial function, as if each leaf had 7 more rows. For classification losses: 7, reduced in proportion if
        the mean hessian is below 0.05. For a quantile q, 7 is multiplied by 4 q (1 - q).
    min_split_gain : float, default=0.0
        A split is made only if its gain exceeds this value. The gain is
        G_L^2 / (n_L + l2) + G_R^2 / (n_R + l2) - G^2 / (n + l2), where G are sums of residuals.
    max_bins : int in [2, 255], default=255
        The maximum number of bins per feature, not counting the bin of missing values. If a feature has more categories
        than bins, categories with similar residuals at the initial function share a bin.
    categorical_features : "from_dtype", list of names or positions, mask, or None, default="from_dtype"
        The features whose values are categories: numbers or text without an order. "from_dtype": columns of text or
        categories (pandas, polars, arrow dictionaries, object arrays of strings), apart from dates, numbers in text and
        ordered categories. Names and positions add to these; a mask has all of them. Categories that were not seen in
        fit are treated like rare categories if the feature has more categories than bins, and otherwise like missing
        values. Only with trees.
    monotonic_cst : list of {-1, 0, 1}, or dict from names or positions to these, default=None
        Monotonic constraints per feature: 1 increasing, -1 decreasing, 0 none. They apply to the prediction of a
        regressor, and to the probability of the second class of a binary classifier. With more classes, name the class
        whose probability is monotone, one per feature: {"income": {"rich": 1}}. An init model is not constrained. Only
        with trees.
    interaction_cst : "no_interactions", "pairwise" or list of lists of names or positions, default=None
        Groups of features that may interact: all features on a path of a tree must belong to one group. Features that
        are in none of the given groups form one more group. Only with trees.
    subsample : float in (0, 1], default=1.0
        The fraction of training rows that each iteration uses, drawn again for each iteration. Only with trees.
    colsample_bytree : float in (0, 1], default=1.0
        The fraction of features that each tree may use.
    colsample_bynode : float in (0, 1] or "auto", default="auto"
        The fraction of the features of the tree that each node may be split on. "auto": 0.5 for "fading", 1 for the
        algorithms of the paper; for a quantile q, the rest to 1 is multiplied by 4 q (1 - q).
    dropout : float in [0, 1), default=0.0
        In each iteration, the learners of each earlier iteration are left out with this probability (DART). If k
        iterations are left out, their learners keep k / (k + 1) of their weight, and the new learners get 1 / (k + 1)
        of theirs.
    early_stopping : bool or "auto", default="auto"
        Whether to stop when the validation loss no longer improves; the model of the best iteration is kept. "auto":
        True if X_val is given, with several members from 75 rows on, and with one member from 10,000 rows on. For a
        ranker, these are 20 and 1,000 queries. From 2,000 rows on, a trial with early stopping finds the number of
        iterations of one member, which is then fitted to all rows.
    n_members : int or "auto", default="auto"
        The number of members: models of the same kind, fitted to different rows, whose raw scores are averaged. Each
        member holds out its own part of the rows for early stopping, and all stop at the iteration with the lowest mean
        validation loss, so every row is used for training. With X_val, or without early stopping, members differ only
        in the random numbers of `subsample`, `colsample_bytree`, `colsample_bynode` and `dropout`. "auto": 5 for
        "fading" with trees, 1 for the algorithms of the paper and for other learners.
    validation_fraction : float or None, default=0.1
        The fraction of the training rows that is held out for early stopping if X_val is not given. None: no rows are
        held out, and training stops when the training loss no longer improves.
    n_iter_no_change : int, default=20
        The number of iterations without improvement after which training stops.
    tol : float, default=1e-7
        The minimum improvement of the validation loss, relative to its total decrease since the initial function.
    scoring : str, callable, list or dict, default=None
        The metric for early stopping: the name of a scorer of scikit-learn, such as "roc_auc", or a callable
        ``scorer(estimator, X, y)``, whose estimator predicts for the rows of y and ignores X. Of several metrics, early
        stopping uses the first; all are recorded in history_. None: the loss. Scores are computed on the validation
        rows (the training rows if there are none) and on the rows to watch.
    learner : scikit-learn regressor, default=None
        The weak learner to use instead of trees, one per output. Tree parameters are then ignored, except for
        constraints, subsample and categorical features, which raise an error. If fit of the learner does not accept
        sample_weight, second_order=False is required unless the hessian of the loss is constant.
    callbacks : list of callables, default=None
        Each is called after every iteration with a record (iteration, trees, train_loss, validation_loss, theta,
        momentum, cosine_residual, cosine_corrected, restart, seconds, scores); a callback that returns True stops
        training.
        agbm.Checkpoint is a callback that saves the run to a file, from which a later fit resumes. Callbacks are not
        part of model files, pickles or copies of a fitted model; sklearn.base.clone keeps them.
    warm_start : bool, default=False
        If True, continue training from the model of the previous fit, up to max_iter iterations in total. With the same
        data, the result is that of a single fit, bit for bit. Parameters that affect the fitted model must not change.
        Callbacks see only the new iterations.
    verbose : int, default=0
        If 1, show progress: a live bar in notebooks and in terminals (if rich is installed), plain lines elsewhere.
    random_state : int, RandomState or None, default=0
        The seed of the validation split, sampling, dropout and random learners. An integer gives the same model in
        every run; None draws a new seed.
    n_jobs : int, default=None
        The number of threads. None: all cores available to the process. At most 64 threads are started, or two per core
        if that is more. The model is the same, bit for bit, for every value.
    device : {"cpu", "cuda"}, default="cpu"
        Where trees are grown: "cuda" is an NVIDIA GPU (extra: cuda). The model, its file and its predictions are the
        same, bit for bit, so a run may begin on one and be resumed on the other. See docs/guides/gpu.md.

    Attributes
    ----------
    model_ : FittedModel
        The fitted state; its attributes may change between versions.
    resolved_params_ : dict
        The values used for parameters that may be "auto": method, loss, second_order, max_iter, learning_rate,
        early_stopping, n_members, and for trees max_depth, max_leaf_nodes, min_samples_leaf, l2_regularization and
        colsample_bynode.
    n_iter_ : int
        The number of iterations that were run.
    best_iteration_ : int
        The iteration whose model is used for predictions: after early stopping or divergence the one with the lowest
        validation loss (training loss if there are no validation rows), otherwise the last.
    n_trees_ : int
        The number of trees (or other learners) in that model.
    history_ : dict of arrays
        One entry per iteration, including the initial function as iteration 0: iteration, trees, train_loss,
        validation_loss, theta, momentum, cosine_residual, cosine_corrected, restart, seconds; scores and losses of
        `scoring` and `watch`; spread_level, if a loss has a spread and there are validation rows.
    feature_importances_ : array of shape (n_features,)
        Total gain of the splits on each feature, with each tree multiplied by its weight in the model; normalised to
        sum to 1. Only with trees.
    split_counts_ : array of shape (n_features,)
        Number of splits on each feature, in trees with nonzero weight. Only with trees.
    notes_ : dict of str to str
        Notes that are saved with the model; empty after fit. `agbm train` records in them how the model was trained.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : array
        Names of the features seen in fit. Defined only if X had column names.
"""

_CLASS_WEIGHT = """    class_weight : dict, "balanced" or None, default=None
        Class weights by label, multiplied by the weights of the rows; only their ratios matter. "balanced": weights
        that give all classes the same total weight.
    temperature_scaling : bool, default=False
        Whether to multiply all trees by the factor that minimises the loss of the validation rows, for better
        probabilities; resolved_params_["temperature"] is its inverse. It needs validation rows. See
        docs/guides/probabilities.md.
"""


_LOSSES = {
    True: '"auto", "log_loss", "exponential", "cross_entropy"',
    False: (
        '"auto", "squared_error", "absolute_error", "quantile:0.9", "expectile:0.8", "huber:1.5", "log_cosh", '
        '"poisson", "gamma", "tweedie:1.5", "cross_entropy"'
    ),
}


def documentation(classifies: bool, losses: str | None = None) -> str:
    """The "Parameters" and "Attributes" sections of the docstring of an estimator; `losses` names those of its own."""
    losses = _LOSSES[classifies] if losses is None else losses
    return _PARAMETERS.replace("{LOSSES}", losses).replace("{CLASS_WEIGHT}", _CLASS_WEIGHT if classifies else "")


CONSTRAINTS: dict[str, list[Any]] = {
    "method": [StrOptions(set(METHODS)), Method],
    "max_iter": [Interval(numbers.Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "learning_rate": [Interval(numbers.Real, 0, None, closed="neither")],
    "multi_strategy": [StrOptions({"auto", "one_output_per_tree", "multi_output_tree"})],
    "second_order": ["boolean", StrOptions({"auto"})],
    "warm_start": ["boolean"],
    "init": [StrOptions({"prior", "zero"}), HasMethods("predict"), HasMethods("decision_function")],
    "max_depth": [Interval(numbers.Integral, 1, None, closed="left"), None],
    "max_leaf_nodes": [Interval(numbers.Integral, 2, None, closed="left"), StrOptions({"auto"}), None],
    "min_samples_leaf": [Interval(numbers.Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "l2_regularization": [Interval(numbers.Real, 0, None, closed="left"), StrOptions({"auto"})],
    "min_split_gain": [Interval(numbers.Real, 0, None, closed="left")],
    "max_bins": [Interval(numbers.Integral, 2, 255, closed="both")],
    "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
    "monotonic_cst": ["array-like", dict, None],
    "interaction_cst": [list, tuple, StrOptions({"no_interactions", "pairwise"}), None],
    "subsample": [Interval(numbers.Real, 0, 1, closed="right")],
    "colsample_bytree": [Interval(numbers.Real, 0, 1, closed="right")],
    "colsample_bynode": [Interval(numbers.Real, 0, 1, closed="right"), StrOptions({"auto"})],
    "dropout": [Interval(numbers.Real, 0, 1, closed="left")],
    "early_stopping": [StrOptions({"auto"}), "boolean"],
    "n_members": [Interval(numbers.Integral, 1, MAX_MEMBERS, closed="both"), StrOptions({"auto"})],
    "validation_fraction": [Interval(numbers.Real, 0, 1, closed="neither"), None],
    "n_iter_no_change": [Interval(numbers.Integral, 1, None, closed="left")],
    "loss": [str, HasMethods(LOSS_METHODS)],
    "tol": [Interval(numbers.Real, 0, None, closed="left")],
    "scoring": [str, callable, list, tuple, dict, None],
    "learner": [HasMethods(["fit", "predict"]), None],
    "callbacks": [list, tuple, None],
    "verbose": ["verbose"],
    "random_state": ["random_state"],
    "n_jobs": [
        Interval(numbers.Integral, 1, None, closed="left"),
        Interval(numbers.Integral, None, -1, closed="right"),
        None,
    ],
    "device": [StrOptions({"cpu", "cuda"})],
}
