"""scikit-learn estimators: validate, encode, call boosting. No algorithm here."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_regressor
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, _num_samples, check_is_fitted, validate_data

from . import _threads, boosting
from .ensemble import Ensemble
from .learners import Fitter, Learner, RegressorLearner, mean_repeats
from .losses import CLASSIFICATION_LOSSES, LOSS_METHODS, REGRESSION_LOSSES, Array, Loss
from .problem import Problem
from .resume import ReplayingFitter
from .rows import Rows, check_y_val, plain
from .theory import Momentum
from .tree import Forest, TreeLearner
from .watch import EarlyStopping, Watcher, after, progress, warn_diverged, watch

# With early_stopping="auto", data sets with more rows stop early; smaller ones can spare no rows.
AUTO_EARLY_STOPPING_ROWS = 10_000

_PARAMETERS = """
    Parameters
    ----------
    method : {"gbm", "agbm", "agbmr", "vagbm"}, default="agbm"
        "gbm": gradient boosting (Algorithm 1 of the paper). "agbm": accelerated boosting with a corrected residual
        (Algorithm 2). "agbmr": the same with restarts. "vagbm": accelerated boosting without correction.
    max_iter : int, default=100
        Boosting iterations. "agbm" and "agbmr" without shared_structure grow two trees in an iteration.
    learning_rate : float or "line_search", default=0.3
        The step eta. "line_search" (only "gbm") finds the best step for every tree.
    momentum : float in (0, 1] or "theory", default=0.02
        The momentum parameter gamma; smaller values overfit later. "theory": at each iteration the largest value that
        Theorem 4.1 admits for the cosine angles seen so far, which is small.
    correction : float in [-1, 1], default=0.5
        How much of the fitting error the corrected residual carries on. 1 is Algorithm 2, 0 fits the momentum to the
        plain residual, -1 is what the authors' released scripts compute.
    shared_structure : bool, default=True
        "agbm" and "agbmr": grow one tree with two values a leaf for both residuals of an iteration instead of the two
        trees of the paper. Only with trees.
    restart : {"loss_rise", "fixed"}, default="loss_rise"
        When "agbmr" restarts: when the training loss rises (option 2), or after a fixed number of iterations that
        follows from strong_convexity (option 1).
    strong_convexity : float, default=None
        Strong-convexity constant mu of the loss; needed by restart="fixed". It is 1 for the squared error.
    loss : {LOSSES} or loss object, default="auto"
        The loss to minimise; "auto" is the squared error in regression and the logistic loss in classification.
        Losses with parameters are given as objects: agbm.losses has Quantile, Huber and Tweedie, and any object with
        the methods of agbm.losses.Loss will do.
    second_order : bool, default=True
        Newton leaves (sums of residuals over sums of hessians) instead of the paper's gradient leaves (means of
        residuals).
    init : "prior", "zero" or fitted estimator, default="prior"
        The start function f^0: the best constant, zero, or a given model, which is not fitted again. Wrap it in
        sklearn.frozen.FrozenEstimator where this estimator will be cloned.
    max_depth : int, default=6
        Levels of splits; None for no limit.
    max_leaf_nodes : int, default=None
        Leaves of a tree, grown best-first. None for no limit: trees grow level by level.
    min_samples_leaf : int, default=20
        Training rows in a leaf, at least. A row counts as often as its weight says where all weights are whole numbers,
        else once.
    l2_regularization : float, default=0.0
        Added to the row count (or the sum of hessians) where leaf values and gains divide by it.
    min_split_gain : float, default=0.0
        Gain that a split must exceed: G_L^2 / (n_L + l2) + G_R^2 / (n_R + l2) - G^2 / (n + l2), G sums of residuals.
    max_bins : int in [2, 255], default=255
        Bins of each feature; missing values have one more.
    early_stopping : "auto" or bool, default="auto"
        Stop when the validation loss no longer improves, and keep the best iteration. "auto": when X_val is given
        or there are more than 10,000 rows.
    validation_fraction : float, default=0.1
        Share of the training rows held out for early stopping where X_val is not given.
    n_iter_no_change : int, default=10
        Iterations without improvement before stopping.
    tol : float, default=1e-7
        Smallest improvement that counts, in the units of the loss.
    learner : scikit-learn regressor, default=None
        Weak learner to use instead of trees; the tree parameters are ignored then. One whose fit takes no sample_weight
        needs second_order=False where the loss has no constant hessian.
    callbacks : list of callables, default=None
        Each is called with a record of every iteration (iteration, trees, train_loss, validation_loss, theta,
        momentum, cosine_residual, cosine_corrected, restart, seconds); one that returns True ends training.
    warm_start : bool, default=False
        Go on from the model of the last fit, to max_iter iterations in all. With the same data and parameters the
        result is, bit for bit, that of a single fit. Callbacks see the new iterations only.
    verbose : int, default=0
        1 shows progress: a live bar on a terminal (with rich installed), plain lines elsewhere.
    random_state : int, RandomState or None, default=None
        For the validation split and for learners that are random.
    n_jobs : int, default=None
        Threads. None means all cores that the process may use. The model is the same, bit for bit, for every value.

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
    n_features_in_ : int
        Features seen in fit.
    feature_names_in_ : array
        Their names, where X had names.
"""


class _BaseAGBM(BaseEstimator, ABC):  # type: ignore[misc]
    """What the regressor and the classifier share."""

    _numeric_labels: ClassVar[bool]
    _losses: ClassVar[dict[str, Callable[[], Loss]]]
    _ensemble: Ensemble
    _split_seed: int

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "method": [StrOptions({"gbm", "agbm", "agbmr", "vagbm"})],
        "max_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "learning_rate": [Interval(numbers.Real, 0, None, closed="neither"), StrOptions({"line_search"})],
        "momentum": [Interval(numbers.Real, 0, 1, closed="right"), StrOptions({"theory"})],
        "correction": [Interval(numbers.Real, -1, 1, closed="both")],
        "shared_structure": ["boolean"],
        "restart": [StrOptions({"loss_rise", "fixed"})],
        "strong_convexity": [Interval(numbers.Real, 0, None, closed="neither"), None],
        "second_order": ["boolean"],
        "warm_start": ["boolean"],
        "init": [StrOptions({"prior", "zero"}), HasMethods("predict"), HasMethods("decision_function")],
        "max_depth": [Interval(numbers.Integral, 1, None, closed="left"), None],
        "max_leaf_nodes": [Interval(numbers.Integral, 2, None, closed="left"), None],
        "min_samples_leaf": [Interval(numbers.Integral, 1, None, closed="left")],
        "l2_regularization": [Interval(numbers.Real, 0, None, closed="left")],
        "min_split_gain": [Interval(numbers.Real, 0, None, closed="left")],
        "max_bins": [Interval(numbers.Integral, 2, 255, closed="both")],
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

    def __init__(
        self,
        *,
        method: str = "agbm",
        max_iter: int = 100,
        learning_rate: float | str = 0.3,
        momentum: float | str = 0.02,
        correction: float = 0.5,
        shared_structure: bool = True,
        restart: str = "loss_rise",
        strong_convexity: float | None = None,
        loss: str | Loss = "auto",
        second_order: bool = True,
        init: Any = "prior",
        max_depth: int | None = 6,
        max_leaf_nodes: int | None = None,
        min_samples_leaf: int = 20,
        l2_regularization: float = 0.0,
        min_split_gain: float = 0.0,
        max_bins: int = 255,
        early_stopping: bool | str = "auto",
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-7,
        learner: Any = None,
        callbacks: Sequence[Watcher] | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.method = method
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.correction = correction
        self.shared_structure = shared_structure
        self.restart = restart
        self.strong_convexity = strong_convexity
        self.loss = loss
        self.second_order = second_order
        self.init = init
        self.max_depth = max_depth
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.min_split_gain = min_split_gain
        self.max_bins = max_bins
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.learner = learner
        self.callbacks = callbacks
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _fit(self, X: Any, y: Any, sample_weight: Any, X_val: Any, y_val: Any) -> Self:
        before = dict(self.__dict__)
        try:
            return self._fit_new(X, y, sample_weight, X_val, y_val)
        except BaseException:  # a fit that fails or is interrupted leaves the model as it was
            self.__dict__ = before
            raise

    def _fit_new(self, X: Any, y: Any, sample_weight: Any, X_val: Any, y_val: Any) -> Self:
        self._validate_params()
        self._check_combinations(X_val, y_val)
        earlier = self._ensemble if self._goes_on() else None
        random = check_random_state(self.random_state)
        split_seed = self._split_seed if earlier is not None else random.randint(np.iinfo(np.int32).max)
        loss = self._make_loss()
        learner = self._make_learner(random, loss)
        rows = self._check_training_rows(X, y, sample_weight)
        stops_early = self._stops_early(len(rows.y), X_val)
        n_train = len(rows.y)
        if X_val is not None:
            rows = rows.followed_by(self._check_validation_rows(X_val, y_val, weighted=rows.weight is not None))
        elif stops_early:
            train, held_out = self._split(rows.y, split_seed)
            rows, n_train = rows.take(np.concatenate([train, held_out])), len(train)

        loss.check(rows.y)
        start: Any = deepcopy(self.init)  # what becomes of a given model later is not our model's business
        if isinstance(start, str):
            weight = None if rows.weight is None else rows.weight[:n_train]
            start = float(loss.best_constant(rows.y[:n_train], weight)) if self.init == "prior" else 0.0
        start_values = np.full(len(rows.y), start) if rows.start is None else rows.start
        problem = Problem(loss, rows.y, n_train, start_values, rows.weight, self.second_order)
        ensemble = Ensemble(learner)
        fitter: Fitter = learner.bind(rows.X, n_train, problem.train_weight)
        if earlier is not None:
            fitter = ReplayingFitter(earlier, fitter, rows.X, n_train, _threads.resolve(self.n_jobs))
        steps = self._steps(problem, fitter)
        with progress(self.method, self.max_iter, self.verbose) as bar:
            watchers = [after(0 if earlier is None else len(earlier), callback) for callback in self.callbacks or ()]
            if bar is not None:
                watchers.append(bar)
            if stops_early:
                watchers.append(EarlyStopping(self.n_iter_no_change, self.tol))
            history, diverged = watch(steps, problem, ensemble, watchers)

        best = history.records[-1].iteration
        if stops_early or diverged:
            best = history.best_iteration(by_validation=problem.has_validation)
        ensemble.truncate(best)
        if diverged:
            warn_diverged(history, best)
        self._split_seed = split_seed
        self._fitted_start = start
        self._fitted_loss = loss
        self._ensemble = ensemble
        self._folded = ensemble.fold()
        self.n_iter_ = history.records[-1].iteration
        self.best_iteration_ = best
        self.n_trees_ = len(ensemble.models)
        self.history_ = history.columns()
        return self

    def _check_combinations(self, X_val: Any, y_val: Any) -> None:
        """Parameters that are fine alone and not together."""
        if self.learning_rate == "line_search" and self.method != "gbm":
            raise ValueError(
                f"learning_rate='line_search' works with method='gbm' only, got method={self.method!r}; "
                "give learning_rate a positive number."
            )
        if self.method == "agbmr" and self.restart == "fixed" and self.strong_convexity is None:
            raise ValueError(
                "strong_convexity=None: restart='fixed' needs the strong-convexity constant of the loss, a positive "
                "number (1 for the squared error); or use restart='loss_rise'."
            )
        if self.method == "agbmr" and self.restart != "fixed" and self.strong_convexity is not None:
            raise ValueError(
                f"strong_convexity={self.strong_convexity} is for restart='fixed', got restart={self.restart!r}; "
                "use restart='fixed' or strong_convexity=None."
            )
        if self.learner is not None and (isinstance(self.learner, type) or not is_regressor(self.learner)):
            raise TypeError(
                f"learner={self.learner!r} must be a scikit-learn regressor, an instance and not a class; or None."
            )
        for callback in self.callbacks or ():
            if not callable(callback):
                raise TypeError(f"callbacks must be callables that take a record, got {callback!r}.")
        if self._goes_on() and self.max_iter < self.best_iteration_:
            raise ValueError(
                f"max_iter={self.max_iter} must be at least best_iteration_={self.best_iteration_}, the iterations "
                "that the model has, with warm_start=True."
            )
        if (X_val is None) != (y_val is None):
            missing, given = ("y_val", "X_val") if y_val is None else ("X_val", "y_val")
            raise ValueError(f"{missing}=None: X_val and y_val must be given together, got {given} alone.")

    def _goes_on(self) -> bool:
        return self.warm_start and self.__sklearn_is_fitted__()

    def _make_loss(self) -> Loss:
        return self._losses[self.loss]() if isinstance(self.loss, str) else self.loss

    def _stops_early(self, n_rows: int, X_val: Any) -> bool:
        if self.early_stopping == "auto":
            return X_val is not None or n_rows > AUTO_EARLY_STOPPING_ROWS
        return bool(self.early_stopping)

    def _check_training_rows(self, X: Any, y: Any, sample_weight: Any) -> Rows:
        try:
            checked, y = validate_data(
                self,
                X,
                y,
                dtype=[np.float64, np.float32],
                ensure_all_finite="allow-nan",
                y_numeric=self._numeric_labels,
                reset=not self._goes_on(),
            )
        except ValueError as error:
            if "could not convert string" in str(error):
                raise ValueError(f"X and the y of a regressor must be numbers: {error}.") from error
            raise
        start = self._init_values(X)
        if sample_weight is None:
            return Rows(plain(checked), self._encode_fit(y), None, start)
        weight = _check_sample_weight(sample_weight, checked, dtype=np.float64, ensure_non_negative=True)
        kept = np.flatnonzero(weight)  # rows without weight must change nothing: not bins, not classes, not a split
        if len(kept) == 0:
            raise ValueError("sample_weight: all weights are zero; at least one row needs a positive weight.")
        if len(kept) < len(weight):
            checked, y, weight = checked[kept], np.asarray(y)[kept], weight[kept]
            start = None if start is None else start[kept]
        if not mean_repeats(weight):
            weight = weight / weight.mean()  # then only their ratios matter
        return Rows(plain(checked), self._encode_fit(y), weight, start)

    def _check_validation_rows(self, X_val: Any, y_val: Any, weighted: bool) -> Rows:
        try:
            checked = self._check_X(X_val)
        except ValueError as error:
            raise ValueError(f"X_val: {error}") from error
        y = self._encode_validation(y_val, len(checked))
        return Rows(checked, y, np.ones(len(y)) if weighted else None, self._init_values(X_val))

    def _init_values(self, X: Any) -> Array | None:
        return None if isinstance(self.init, str) else self._start_values(self.init, self._make_loss(), X)

    def _split(self, y: Array, seed: int) -> list[NDArray[np.intp]]:
        from sklearn.model_selection import train_test_split  # here, not above: it takes long to import

        try:
            split: list[NDArray[np.intp]] = train_test_split(
                np.arange(len(y)), test_size=self.validation_fraction, stratify=self._stratify(y), random_state=seed
            )
        except ValueError as error:
            raise ValueError(
                f"early_stopping={self.early_stopping!r} with validation_fraction={self.validation_fraction} cannot "
                f"split {len(y)} rows: {error} Give X_val and y_val, or use early_stopping=False."
            ) from error
        return split

    def _make_learner(self, random: np.random.RandomState, loss: Loss) -> Learner:
        if self.learner is None:
            return TreeLearner(
                max_depth=self.max_depth,
                max_leaf_nodes=self.max_leaf_nodes,
                min_samples_leaf=self.min_samples_leaf,
                l2_regularization=self.l2_regularization,
                min_split_gain=self.min_split_gain,
                max_bins=self.max_bins,
                shared_structure=self.shared_structure,
                largest_hessian=loss.smoothness,
                n_threads=_threads.resolve(self.n_jobs),
            )
        learner = RegressorLearner(self.learner, random)
        if self.second_order and not loss.constant_hessian and not learner.takes_weights:
            raise ValueError(
                f"second_order=True needs a learner whose fit takes sample_weight, got learner={self.learner!r}; "
                "use second_order=False."
            )
        return learner

    def _steps(self, problem: Problem, fitter: Fitter) -> Iterator[boosting.Step]:
        """The algorithm that `method` names."""
        if self.method == "gbm":
            eta = None if isinstance(self.learning_rate, str) else self.learning_rate
            return boosting.gbm(problem, fitter, eta=eta, max_iter=self.max_iter)
        shared: dict[str, Any] = {"eta": self.learning_rate, "momentum": Momentum(self.momentum)}
        if self.method == "vagbm":
            return boosting.vagbm(problem, fitter, max_iter=self.max_iter, **shared)
        shared["correction"] = self.correction
        if self.method == "agbm":
            return boosting.agbm(problem, fitter, length=lambda gamma: self.max_iter, **shared)
        mu = self.strong_convexity if self.restart == "fixed" else None
        return boosting.agbmr(problem, fitter, max_iter=self.max_iter, strong_convexity=mu, **shared)

    def _start_values(self, start: Any, loss: Loss, X: Any) -> Array:
        """The start function f^0, a constant or a model, on the rows of X as the user gave them."""
        n_rows = _num_samples(X)
        if isinstance(start, float):
            return np.full(n_rows, start)
        if isinstance(start, BaseEstimator):
            check_is_fitted(start)
        values = np.asarray(self._raw_score_of(start, loss)(X), dtype=np.float64)
        if values.shape != (n_rows,) or not np.isfinite(values).all():
            raise ValueError(f"init={start!r} must give one finite number a row, got an array of shape {values.shape}.")
        return values

    def _check_X(self, X: Any) -> NDArray[Any]:
        return plain(validate_data(self, X, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan", reset=False))

    def _raw_predict(self, X: Any) -> Array:
        check_is_fitted(self)
        checked = self._check_X(X)
        values = self._folded.predict(checked, _threads.resolve(self.n_jobs))[:, 0]
        return np.asarray(self._start_values(self._fitted_start, self._fitted_loss, X) + values)

    def _staged_raw_predict(self, X: Any) -> Iterator[Array]:
        check_is_fitted(self)
        checked = self._check_X(X)
        start = self._start_values(self._fitted_start, self._fitted_loss, X)
        yield from self._ensemble.staged(checked, start, _threads.resolve(self.n_jobs))

    @property
    def feature_importances_(self) -> Array:
        """Gain of the splits on each feature, each tree times its weight in the model, with sum 1."""
        check_is_fitted(self)
        total = np.zeros(self.n_features_in_)
        for model, weights in zip(self._ensemble.models, self._ensemble.model_weights(), strict=True):
            if not isinstance(model, Forest):
                raise AttributeError("feature_importances_ exists for trees only, this model has another learner.")
            total += weights.sum() * model.gain_by_feature()
        return np.asarray(total / total.sum()) if total.sum() > 0 else total

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_folded")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.learner is None
        return tags

    # What the two estimators differ in.
    @abstractmethod
    def _encode_fit(self, y: NDArray[Any]) -> Array:
        """Labels of the training rows as numbers."""

    @abstractmethod
    def _encode_validation(self, y: Any, n_rows: int) -> Array:
        """Labels of the validation rows as numbers."""

    @abstractmethod
    def _stratify(self, y: Array) -> Array | None:
        """What a validation split keeps in proportion."""

    @abstractmethod
    def _raw_score_of(self, model: Any, loss: Loss) -> Callable[[Any], Any]:
        """The function of an `init` model that gives raw scores."""


class AGBMRegressor(RegressorMixin, _BaseAGBM):  # type: ignore[misc]  # noqa: D101
    __doc__ = f"""Accelerated gradient boosting for regression.
{_PARAMETERS.replace("{LOSSES}", '"auto", "squared_error", "absolute_error", "poisson", "gamma"')}
    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from agbm import AGBMRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = AGBMRegressor(max_iter=30, max_depth=3).fit(X, y)
    >>> model.predict(X[:2]).shape
    (2,)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_BaseAGBM._parameter_constraints,
        "loss": [StrOptions(set(REGRESSION_LOSSES)), HasMethods(LOSS_METHODS)],
    }
    _numeric_labels = True
    _losses = REGRESSION_LOSSES

    def fit(self, X: Any, y: Any, sample_weight: Any = None, X_val: Any = None, y_val: Any = None) -> Self:
        """Fit to X (rows, features; NaN is a missing value) and y.

        X_val and y_val are watched for early stopping; their rows weigh 1 each. sample_weight: whole numbers mean
        repeated rows; of other weights only the ratios matter.
        """
        return self._fit(X, y, sample_weight, X_val, y_val)

    def predict(self, X: Any) -> Array:
        """Predicted values."""
        raw = self._raw_predict(X)
        return self._fitted_loss.inverse_link(raw)

    def staged_predict(self, X: Any) -> Iterator[Array]:
        """Predicted values after each iteration, up to best_iteration_."""
        return (self._fitted_loss.inverse_link(raw) for raw in self._staged_raw_predict(X))

    def _encode_fit(self, y: NDArray[Any]) -> Array:
        try:
            return np.asarray(y, dtype=np.float64)
        except ValueError as error:
            raise ValueError(f"y must be numbers for a regressor: {error}.") from error

    def _encode_validation(self, y: Any, n_rows: int) -> Array:
        return np.asarray(check_y_val(y, n_rows, numeric=True), dtype=np.float64)

    def _stratify(self, y: Array) -> Array | None:
        return None

    def _raw_score_of(self, model: Any, loss: Loss) -> Callable[[Any], Any]:
        if not hasattr(model, "predict"):
            raise TypeError(f"init={model!r} has no predict; give 'prior', 'zero' or a fitted regressor.")
        return lambda X: loss.link(np.asarray(model.predict(X), dtype=np.float64))


class AGBMClassifier(ClassifierMixin, _BaseAGBM):  # type: ignore[misc]  # noqa: D101
    __doc__ = f"""Accelerated gradient boosting for classification into two classes.
{_PARAMETERS.replace("{LOSSES}", '"auto", "log_loss", "exponential"')}
    classes_ : array
        The two labels, sorted.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from agbm import AGBMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = AGBMClassifier(max_iter=30, max_depth=3).fit(X, y)
    >>> model.predict_proba(X[:2]).shape
    (2, 2)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_BaseAGBM._parameter_constraints,
        "loss": [StrOptions(set(CLASSIFICATION_LOSSES)), HasMethods(LOSS_METHODS)],
    }
    _numeric_labels = False
    _losses = CLASSIFICATION_LOSSES

    def fit(self, X: Any, y: Any, sample_weight: Any = None, X_val: Any = None, y_val: Any = None) -> Self:
        """Fit to X (rows, features; NaN is a missing value) and y.

        X_val and y_val are watched for early stopping; their rows weigh 1 each. sample_weight: whole numbers mean
        repeated rows; of other weights only the ratios matter.
        """
        return self._fit(X, y, sample_weight, X_val, y_val)

    def decision_function(self, X: Any) -> Array:
        """Log-odds of the second class."""
        return self._raw_predict(X)

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the two classes."""
        return self._probabilities(self._raw_predict(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The more probable class."""
        return self._labels(self._raw_predict(X))

    def staged_decision_function(self, X: Any) -> Iterator[Array]:
        """Log-odds of the second class after each iteration, up to best_iteration_."""
        return self._staged_raw_predict(X)

    def staged_predict_proba(self, X: Any) -> Iterator[Array]:
        """Probabilities of the two classes after each iteration, up to best_iteration_."""
        return map(self._probabilities, self._staged_raw_predict(X))

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """The more probable class after each iteration, up to best_iteration_."""
        return map(self._labels, self._staged_raw_predict(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _probabilities(self, raw: Array) -> Array:
        second = self._fitted_loss.inverse_link(raw)
        return np.column_stack([1.0 - second, second])

    def _labels(self, raw: Array) -> NDArray[Any]:
        return np.asarray(self.classes_[(raw > 0).astype(np.intp)])

    def _encode_fit(self, y: NDArray[Any]) -> Array:
        try:
            check_classification_targets(y)
            kind = type_of_target(y, input_name="y")
            self.classes_, codes = np.unique(y, return_inverse=True)
        except TypeError as error:
            kinds = sorted({type(label).__name__ for label in y})
            raise TypeError(f"y has labels of types {kinds}, which have no order; give labels of one type.") from error
        if len(self.classes_) > 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {kind}: y has "
                f"{len(self.classes_)} classes."
            )
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class only ({self.classes_[0]!r}); a classifier needs rows of two classes.")
        return np.asarray(codes, dtype=np.float64)

    def _encode_validation(self, y: Any, n_rows: int) -> Array:
        y = check_y_val(y, n_rows, numeric=False)
        unknown = [label for label in dict.fromkeys(y.tolist()) if label not in self.classes_.tolist()]
        if unknown:
            raise ValueError(f"y_val has labels {unknown} that y has not; y has {self.classes_.tolist()}.")
        return np.asarray(np.searchsorted(self.classes_, y), dtype=np.float64)

    def _stratify(self, y: Array) -> Array | None:
        return y if np.bincount(y.astype(np.intp)).min() > 1 else None  # a class of one row cannot be in both parts

    def _raw_score_of(self, model: Any, loss: Loss) -> Callable[[Any], Any]:
        if not hasattr(model, "decision_function"):
            raise TypeError(
                f"init={model!r} has no decision_function; give 'prior', 'zero' or a fitted classifier that has."
            )
        return model.decision_function  # type: ignore[no-any-return]
