"""AGBMRegressor, the estimator of regression."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Never, Self, cast

from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from .._base import threads
from .._base.sums import Array
from .._base.types import Table, Values
from .._base.weights import refuse_dates
from .._core.methods import Method
from .._core.training import Watcher
from .._data.rows import Given
from .._data.units import GivenUnit
from .._labels.base import Numbers, Result
from .._losses import Loss, LossFunction, frozen_distribution, traits_of
from .._migration.foreign import refuse_arguments
from .._model.calibration import predicted_intervals
from .._model.predictor import Predictor
from .._model.settings import (
    Auto,
    CategoricalFeatures,
    DeviceName,
    Directions,
    Interactions,
    MethodName,
    MultiStrategy,
    RandomState,
    Scoring,
    Start,
    Views,
)
from .base import ESTIMATORS, CalibratedAGBM
from .parameters import CONSTRAINTS, FitTable, RegressionLoss


class AGBMRegressor(RegressorMixin, CalibratedAGBM):  # type: ignore[misc]
    """Accelerated gradient boosting for regression.

    Parameters
    ----------
    method : {"fading", "gbm", "vagbm", "agbm", "agbmr"} or method object, default="fading"
        The boosting algorithm. A name selects the algorithm with default settings; the objects in agbm.methods have
        the settings as parameters, also Newton leaves, dropout and other weak learners than trees. "fading": trees
        enter with a large weight, which decays to a small one. "gbm": gradient boosting (Algorithm 1 of the paper, with
        a constant step). "vagbm": accelerated boosting without correction (appendix). "agbm": accelerated boosting with
        a corrected residual (Algorithm 2). "agbmr": the same with restarts when the training loss rises.
    max_iter : int or "auto", default="auto"
        The maximum number of boosting iterations. "agbm" and "agbmr" grow two trees per iteration. "auto": 1,000 with
        early stopping, otherwise 100.
    learning_rate : float or "auto", default="auto"
        The step size eta. For "fading", the weight that the first trees decay to; later trees keep a larger weight.
        "auto": 0.1; 0.15 for several members of "fading" with the squared error or classes.
    loss : str, loss object or function, default="auto"
        The loss to minimise: "squared_error" (as "auto"), "absolute_error", "quantile:0.9", "expectile:0.8",
        "huber:1.5", "log_cosh", "poisson", "gamma", "tweedie:1.5", "cross_entropy" for y that are probabilities, or a
        distribution, such as "distribution:normal". Numbers are parameters, the same as those of the objects of
        agbm.losses: the quantile or expectile, the residual from which Huber's loss is linear, the power of the
        variance. docs/api.md lists all losses. Any object with the methods of agbm.losses.Loss is accepted, and any
        function of LightGBM or XGBoost (y_true, y_pred) that returns the gradient and the hessian; y_pred are raw
        scores, which predictions then are. See docs/guides/custom-losses.md.
    multi_strategy : {"auto", "one_output_per_tree", "multi_output_tree"}, default="auto"
        How to fit more than two classes, several columns of y, or a loss with several scores per row (quantiles,
        distributions): one tree for each in every iteration, or one tree whose leaves have one value for each, and
        whose splits are chosen by at most five of them, drawn for each tree. "auto": one tree for the scores of such a
        loss and, with method="fading", for all classes unless their monotonic constraints differ; otherwise one for
        each. Only with trees.
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
        that is larger, up to 63 (15,876 rows). For distributions, it is 16. For Cox's loss, the lower bound is 4.
    min_samples_leaf : int or "auto", default="auto"
        The minimum number of training rows per leaf. "auto": 1/500 of the training rows, but between 2 and 10 (10 from
        5,000 rows on); for a quantile q, divided by (4 q (1 - q))^(3/4); for distributions, 1/250 of the rows, but
        between 5 and 20. With integer sample weights, a row counts as often as it is repeated; otherwise every row
        counts once.
    l1_regularization : float, default=0.0
        Subtracted from the absolute value of the sum of residuals of a leaf, at most down to zero; weak leaves are then
        zero. It has the unit of the gradient of the loss, times rows or weights, as in LightGBM and XGBoost.
    l2_regularization : float or "auto", default="auto"
        Added to the sum of hessians in the denominator of leaf values and gains; for the squared error and with
        gradient leaves, added to the number of rows instead. For quantiles and the absolute error, whose hessians
        have the unit of 1 / y, the value is multiplied by the mean hessian at the initial function, so that it is a
        number of rows as well. "auto": 3 if it is added to the number of rows; otherwise 7 times the mean hessian at
        the initial function, as if each leaf had 7 more rows. For classification losses: 7, reduced in proportion if
        the mean hessian is below 0.05. For a quantile q, 7 is multiplied by 4 q (1 - q). For spreads of distributions
        and for times, 7 is replaced: 60 for spreads, 30 for the first score of a time and 400 for its others.
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
    views : "auto", list of (column, sign, column) or None, default="auto"
        Further features that are computed from pairs of numeric columns: their sums, differences and products, such as
        [("width", "*", "height"), (0, "-", 3)] by names or positions. "auto": for "fading", up to 16 of those of the
        eight most important columns, for the squared error and classes, from 2,000 rows on, if the loss on held-out
        rows of a short run is lower by 0.2 %. Two of three members see them, and all members from 5 % on; columns with
        constraints are left out. None: none. Only with trees.
    subsample : float in (0, 1], default=1.0
        The fraction of training rows that each iteration uses, drawn again for each iteration. Only with trees.
    colsample_bytree : float in (0, 1], default=1.0
        The fraction of features that each tree may use.
    colsample_bynode : float in (0, 1] or "auto", default="auto"
        The fraction of the features of the tree that each node may be split on. "auto": 0.5 for "fading", 1 for the
        algorithms of the paper; for a quantile q, the rest to 1 is multiplied by 4 q (1 - q).
    early_stopping : bool or "auto", default="auto"
        Whether to stop when the validation loss no longer improves; the model of the best iteration is kept. "auto":
        True if X_val is given, with several members from 75 rows on, and with one member from 10,000 rows on. For a
        ranker, these are 20 and 1,000 queries. From 1,000 rows on, a trial with early stopping finds the number of
        iterations of one member, which is then fitted to all rows; for spreads, for Cox's loss and with
        temperature_scaling, whose held-out rows are needed, there is no trial.
    n_members : int or "auto", default="auto"
        The number of members: models of the same kind, fitted to different rows, whose raw scores are averaged. Each
        member holds out its own part of the rows for early stopping, and all stop at the iteration with the lowest mean
        validation loss, so every row is used for training. With X_val, or without early stopping, members differ only
        in the random numbers of `subsample`, `colsample_bytree`, `colsample_bynode` and dropout. "auto": 5 for
        "fading" with trees (3 from 250,000 rows on), 1 for the algorithms of the paper and for other learners.
    validation_fraction : float or None, default=0.1
        The fraction of the training rows that is held out for early stopping if X_val is not given. None: no rows are
        held out, and training stops when the training loss no longer improves.
    n_iter_no_change : int, default=20
        The number of iterations without improvement after which training stops.
    scoring : str, callable, list or dict, default=None
        The metric for early stopping: the name of a scorer of scikit-learn, such as "roc_auc", a callable
        ``scorer(estimator, X, y)``, whose estimator predicts for the rows of y and ignores X, or a metric of LightGBM,
        ``metric(y_true, y_pred)``, that returns (name, value, is_higher_better). Of several metrics, early stopping
        uses the first; all are recorded in history_. None: the loss. Scores are computed on the validation rows (the
        training rows if there are none) and on the rows to watch.
    callbacks : list of callables, default=None
        Each is called after every iteration with a record (iteration, trees, train_loss, validation_loss, theta,
        momentum, cosine_residual, cosine_corrected, restart, seconds, scores); a callback that returns True stops
        training. agbm.Checkpoint is a callback that saves the run to a file, from which a later fit resumes. Callbacks
        are not part of model files, pickles or copies of a fitted model; sklearn.base.clone keeps them.
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
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where trees are grown and evaluated: "cuda" is an NVIDIA GPU (extra: cuda); "auto" is a GPU if there is one and
        X is large, and the CPU otherwise. The model, its file and its predictions are the same, bit for bit, so a run
        may begin on one and be resumed on the other. See docs/guides/gpu.md.

    Attributes
    ----------
    model_ : FittedModel
        The fitted state; its attributes may change between versions.
    resolved_params_ : dict
        The values used for parameters that may be "auto": method, loss, second_order, max_iter, learning_rate,
        early_stopping, n_members, device (not in model files), and for trees max_depth, max_leaf_nodes,
        min_samples_leaf, l2_regularization, colsample_bynode and multi_strategy.
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
    fingerprint_ : str
        A digest of everything that predictions depend on: models with the same fingerprint predict the same bits.
    notes_ : dict of str to str
        Notes that are saved with the model; empty after fit. `agbm train` records in them how the model was trained.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : array
        Names of the features seen in fit. Defined only if X had column names.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from agbm import AGBMRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = AGBMRegressor(max_iter=30, max_depth=3).fit(X, y)
    >>> model.predict(X[:2]).shape
    (2,)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = CONSTRAINTS
    _kind = Numbers

    def __init__(
        self,
        *,
        method: MethodName | Method = "fading",
        max_iter: int | Auto = "auto",
        learning_rate: float | Auto = "auto",
        loss: RegressionLoss | Loss | LossFunction = "auto",
        multi_strategy: MultiStrategy = "auto",
        init: Start = "prior",
        max_depth: int | None = None,
        max_leaf_nodes: int | Auto | None = "auto",
        min_samples_leaf: int | Auto = "auto",
        l1_regularization: float = 0.0,
        l2_regularization: float | Auto = "auto",
        min_split_gain: float = 0.0,
        max_bins: int = 255,
        categorical_features: CategoricalFeatures = "from_dtype",
        monotonic_cst: Directions = None,
        interaction_cst: Interactions = None,
        views: Views = "auto",
        subsample: float = 1.0,
        colsample_bytree: float = 1.0,
        colsample_bynode: float | Auto = "auto",
        early_stopping: bool | Auto = "auto",
        n_members: int | Auto = "auto",
        validation_fraction: float | None = 0.1,
        n_iter_no_change: int = 20,
        scoring: Scoring = None,
        callbacks: Sequence[Watcher] | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: RandomState = 0,
        n_jobs: int | None = None,
        device: DeviceName = "cpu",
    ) -> None:
        self._set_parameters(locals())

    def fit(
        self,
        X: FitTable,
        y: Values | None = None,
        sample_weight: Values | None = None,
        X_val: FitTable | None = None,
        y_val: Values | None = None,
        sample_weight_val: Values | None = None,
        *,
        offset: Values | None = None,
        offset_val: Values | None = None,
        groups: Values | str | None = None,
        time: Values | str | None = None,
        watch: Mapping[str, Any] | None = None,
        **unknown: Never,
    ) -> Self:
        """Fit to X of shape (rows, features) and y of shape (rows) or (rows, outputs); NaN in X is a missing value.

        Infinite values in X are the largest and the smallest number. Text in y raises an error, even if it shows
        numbers. The loss of several outputs is the sum of their losses. With loss="cross_entropy", y and the
        predictions are probabilities from 0 to 1. X_val, y_val and sample_weight_val are validation rows for early
        stopping. watch has other rows by name, as (X, y), (X, y, sample_weight) or (X, y, sample_weight, offset), whose
        losses and scores are recorded in history_. Integers in sample_weight are numbers of repetitions; for floats,
        only ratios matter. offset, of shape (rows) or (rows, outputs), is the raw score that the model of a row is
        added to, such as log(exposure) for a loss with a log link; offset_val is that of X_val. Rows that do not fit
        into memory can be passed as agbm.Batches or as a pyarrow.dataset.Dataset; for a dataset, y, sample_weight and
        offset may be names of columns.
        """
        refuse_arguments(unknown)
        validation = Given(X_val, y_val, sample_weight_val, offset_val)
        given = Given(X, y, sample_weight, offset, GivenUnit.of(X, groups, time))
        return self._fit(given, validation, watch)

    def predict(self, X: Table, offset: Values | None = None) -> Array:
        """Predicted values. offset is added to the raw scores; None: 0, as for an exposure of 1."""
        return cast(Array, self._results(X, offset, Result.PREDICTIONS))

    def predict_dist(self, X: Table, offset: Values | None = None) -> Any:
        """The distribution of the label of each row, for loss="poisson" and losses of kind "distribution:...".

        The result has the methods of a frozen distribution of scipy.stats, with one distribution per row: mean, std,
        pdf or pmf, logpdf or logpmf, cdf, sf, ppf, isf, interval and rvs. offset, of shape (rows, parameters), is added
        to the raw scores.
        """
        raw = self._raw_predict(X, offset)
        return frozen_distribution(self.model_.loss, raw)

    def predict_interval(self, X: Table, coverage: float = 0.9, offset: Values | None = None) -> Array:
        """Intervals that contain the labels of a share `coverage` of new rows: lower and upper bounds, (rows, 2).

        Of shape (rows, outputs, 2) for several outputs; the coverage holds for each output. Works after a fit that has
        held out rows for early stopping, as by default (CV+), and after calibrate (split conformal prediction). See
        docs/guides/uncertainty.md for what is guaranteed.
        """
        check_is_fitted(self)
        return predicted_intervals(self.model_, X, coverage, threads.resolve(self.n_jobs), offset)

    def predictor(self) -> Predictor:
        """Return a function equivalent to predict for numeric arrays; it is faster, since it skips most checks.

        It accepts no offset: with a log link, multiply its results by the exposure instead.
        """
        return self._predictor(Result.PREDICTIONS)

    def staged_predict(self, X: Table, offset: Values | None = None) -> Iterator[Array]:
        """Predicted values after each iteration, up to best_iteration_."""
        return self._staged(X, offset, lambda loss, raw: self._labels.predictions(loss, raw))

    @property
    def _labels(self) -> Numbers:
        return cast(Numbers, self.model_.labels)

    def score(self, X: Table, y: Values, sample_weight: Values | None = None) -> float:
        """The coefficient of determination R^2; for a list of quantiles, the mean D^2 of the pinball loss.

        D^2 is the share of the loss that is explained, compared with the same quantile of y for all rows; see
        sklearn.metrics.d2_pinball_score.
        """
        X, y, sample_weight, *_ = self._received(Given(X, y, sample_weight))
        refuse_dates(y, "y")
        refuse_dates(sample_weight, "sample_weight")
        levels = traits_of(self.model_.loss).listed_quantiles if self.__sklearn_is_fitted__() else ()
        if not levels:
            return float(super().score(X, y, sample_weight))
        from sklearn.metrics import d2_pinball_score  # slow to import

        of_levels = zip(self.predict(X).T, levels, strict=True)
        scores = [d2_pinball_score(y, found, sample_weight=sample_weight, alpha=level) for found, level in of_levels]
        return float(sum(scores) / len(scores))

    def _one_column(self) -> bool:
        return self._labels.single

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


ESTIMATORS[AGBMRegressor.__name__] = AGBMRegressor
