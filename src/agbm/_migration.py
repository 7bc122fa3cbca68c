"""Settings of other libraries as estimators of this one.

What is known of each library is in tables: which of its parameters have a counterpart and how values change, which of
its objectives are which loss, what its defaults are, and what there is instead of parameters that have no counterpart.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from ._core.losses import Huber, Quantile, Tweedie
from ._estimators import AGBMClassifier, AGBMRegressor

CLASSIFICATION, REGRESSION = "classification", "regression"
MOST_BINS = 255

Convert = Callable[[Any], Any]


@dataclass(frozen=True)
class Setting:
    """A parameter of ours, and what it is called elsewhere."""

    ours: str
    theirs: str
    """Their name and its aliases, apart by blanks."""
    convert: Convert = lambda value: value


@dataclass(frozen=True)
class Library:
    """What is known of another library's parameters."""

    name: str
    estimators: Mapping[str, str]
    """Names of its scikit-learn estimators, and their tasks."""
    objective: str
    """The parameter that names the objective, with its aliases."""
    objectives: Mapping[str, tuple[str, Any]]
    """From an objective to the task and the loss: a name, or a function of the loss's own parameter."""
    settings: tuple[Setting, ...]
    defaults: Mapping[str, Any]
    """Of ours, as their defaults mean them."""
    needless: str
    """What changes no model, or is found out here: dropped without a word."""
    instead: Mapping[str, str]
    """Parameters without a counterpart, and what to do instead."""
    fine: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Values of those that ask for nothing, beside 0, False and None."""
    none_is_a_value: bool = False
    """Elsewhere a parameter that is None was not given."""
    dart: Mapping[str, Any] = field(default_factory=dict)
    """Their defaults that count with DART alone."""


# Conversions. Each takes the other library's value and gives ours.


def _positive(value: Any) -> int | None:
    """0 and -1 mean that there is no limit, or no such number."""
    return None if value is None or value <= 0 else int(value)


def _at_least_one(value: Any) -> int:
    return max(1, int(value))


def _bins(value: Any) -> int:
    return min(int(value), MOST_BINS)


def _monotone(value: Any) -> Any:
    """A list of -1, 0 and 1, as text such as "(1,0,-1)" or as a sequence; a dict from names stays one."""
    if isinstance(value, str):
        return [int(part) for part in value.strip("()[] ").split(",")]
    return value if value is None or isinstance(value, Mapping) else [int(part) for part in value]


def _groups(value: Any) -> Any:
    """Lists of positions, also as text such as "[[0,1],[2]]" or "[0,1],[2]"."""
    if not isinstance(value, str) or value in ("pairwise", "no_interactions"):
        return value
    return json.loads(value if value.lstrip().startswith("[[") else f"[{value}]")


def _categories(value: Any) -> Any:
    """Names or positions, also as text such as "0,1" or "name:district,street"; "auto" is by type."""
    if not isinstance(value, str):
        return list(value) or None
    if value in ("auto", ""):
        return "from_dtype"
    parts = value.removeprefix("name:").split(",")
    return parts if value.startswith("name:") else [int(part) for part in parts]


def _start(from_average: Any) -> str:
    return "prior" if from_average else "zero"


def _weight_of_second(value: Any) -> dict[int, float] | None:
    """Their classes are 0 and 1. Weights of 1 are none."""
    return None if value == 1 else {0: 1.0, 1: float(value)}


def _weights_of_classes(value: Any) -> Any:
    return value if isinstance(value, (Mapping, str)) else dict(enumerate(map(float, value)))


def _balanced(value: Any) -> str | None:
    if value not in (False, True, "None", "Balanced"):
        raise ValueError("weights are balanced, or given")
    return "balanced" if value in (True, "Balanced") else None


def _same_for_all(task_and_loss: tuple[str, Any], names: str) -> dict[str, tuple[str, Any]]:
    return dict.fromkeys(names.split(), task_and_loss)


def _quantile(settings: Mapping[str, Any], name: str, default: float) -> Quantile:
    return Quantile(float(settings.get(name, default)))


_SQUARED, _ABSOLUTE = (REGRESSION, "squared_error"), (REGRESSION, "absolute_error")
_POISSON, _GAMMA, _CLASSES = (REGRESSION, "poisson"), (REGRESSION, "gamma"), (CLASSIFICATION, "log_loss")

_METRIC = "early stopping looks at the loss; compute metrics from staged_predict or staged_predict_proba"
_L1 = "leaves have an l2 only; l2_regularization or min_split_gain also hold small leaves back"
_HESSIAN = "losses of classes have a floor of their own; min_samples_leaf counts rows"
_DELTA = "no row's Newton step is longer than the loss allows (six log-odds, or a factor of e^2)"
_GPU = "training runs on processor cores; n_jobs is their number"
_BOOSTING = "trees are boosted, all rows alike; subsample draws some of them, dropout is DART"
_BOOSTED = ("gbdt", "gbrt", "gbtree", "dart")
_FREQUENCY = "rows are drawn anew for every iteration"
_TOL = "tol is relative here: a share of what the validation loss has fallen by since the start"
_CATEGORY = "splits on categories have a rule of their own instead of a parameter"

LIGHTGBM = Library(
    name="lightgbm",
    estimators={"LGBMClassifier": CLASSIFICATION, "LGBMRegressor": REGRESSION},
    objective="objective objective_type app application loss",
    objectives={
        **_same_for_all(
            _SQUARED,
            "regression regression_l2 l2 mean_squared_error mse l2_root root_mean_squared_error rmse",
        ),
        **_same_for_all(_ABSOLUTE, "regression_l1 l1 mean_absolute_error mae"),
        "huber": (REGRESSION, lambda settings: Huber(float(settings.get("alpha", 0.9)))),
        "quantile": (REGRESSION, lambda settings: _quantile(settings, "alpha", 0.9)),
        "poisson": _POISSON,
        "gamma": _GAMMA,
        "tweedie": (REGRESSION, lambda settings: Tweedie(float(settings.get("tweedie_variance_power", 1.5)))),
        **_same_for_all(_CLASSES, "binary multiclass softmax"),
    },
    settings=(
        Setting(
            "max_iter",
            "num_iterations num_iteration n_iter num_tree num_trees num_round num_rounds nrounds num_boost_round "
            "n_estimators max_iter",
            int,
        ),
        Setting("learning_rate", "learning_rate shrinkage_rate eta", float),
        Setting("max_leaf_nodes", "num_leaves num_leaf max_leaves max_leaf max_leaf_nodes", int),
        Setting("max_depth", "max_depth", _positive),
        Setting(
            "min_samples_leaf",
            "min_data_in_leaf min_data_per_leaf min_data min_child_samples min_samples_leaf",
            _at_least_one,
        ),
        Setting("l2_regularization", "lambda_l2 reg_lambda lambda l2_regularization", float),
        Setting("min_split_gain", "min_gain_to_split min_split_gain", float),
        Setting("max_bins", "max_bin max_bins", _bins),
        Setting("subsample", "bagging_fraction sub_row subsample bagging", float),
        Setting("colsample_bytree", "feature_fraction sub_feature colsample_bytree", float),
        Setting("colsample_bynode", "feature_fraction_bynode sub_feature_bynode colsample_bynode", float),
        Setting("dropout", "drop_rate rate_drop", float),
        Setting(
            "n_iter_no_change",
            "early_stopping_round early_stopping_rounds early_stopping n_iter_no_change",
            _positive,
        ),
        Setting("monotonic_cst", "monotone_constraints mc monotone_constraint monotonic_cst", _monotone),
        Setting("interaction_cst", "interaction_constraints", _groups),
        Setting(
            "categorical_features",
            "categorical_feature cat_feature categorical_column cat_column categorical_features",
            _categories,
        ),
        Setting("init", "boost_from_average", _start),
        Setting("class_weight", "class_weight", _weights_of_classes),
        Setting("class_weight", "scale_pos_weight", _weight_of_second),
        Setting("class_weight", "is_unbalance unbalance unbalanced_sets", _balanced),
        Setting("random_state", "seed random_seed random_state"),
        Setting("n_jobs", "num_threads num_thread nthread nthreads n_jobs", _positive),
    ),
    defaults={"max_leaf_nodes": 31, "max_depth": None, "min_samples_leaf": 20, "l2_regularization": 0.0},
    needless="""
        num_class num_classes verbosity verbose silent task force_row_wise force_col_wise histogram_pool_size
        deterministic importance_type subsample_for_bin bin_construct_sample_cnt alpha tweedie_variance_power
        is_enable_sparse is_sparse enable_sparse sparse feature_pre_filter bagging_seed
        feature_fraction_seed data_random_seed drop_seed extra_seed objective_seed two_round pre_partition
        enable_bundle is_enable_bundle bundle use_missing first_metric_only tree_learner
    """,
    instead={
        "boosting": _BOOSTING,
        "boosting_type": _BOOSTING,
        "boost": _BOOSTING,
        "device": _GPU,
        "device_type": _GPU,
        "bagging_freq": _FREQUENCY,
        "subsample_freq": _FREQUENCY,
        "min_sum_hessian_in_leaf": _HESSIAN,
        "min_child_weight": _HESSIAN,
        "lambda_l1": _L1,
        "reg_alpha": _L1,
        "max_delta_step": _DELTA,
        "metric": _METRIC,
        "eval_metric": _METRIC,
        "extra_trees": "thresholds are always searched; colsample_bynode makes trees differ",
        "early_stopping_min_delta": _TOL,
        "path_smooth": "l2_regularization holds small leaves back",
        "linear_tree": "leaves are constants; learner= takes any scikit-learn regressor",
        "skip_drop": "dropout is drawn in every iteration; with LightGBM's default, 0.5, in half of them",
        "max_drop": "dropout has no limit on the number of dropped iterations",
        "cat_smooth": _CATEGORY,
        "cat_l2": _CATEGORY,
        "max_cat_threshold": _CATEGORY,
        "max_cat_to_onehot": _CATEGORY,
        "min_data_per_group": _CATEGORY,
        "top_rate": "rows are drawn evenly; use subsample",
        "other_rate": "rows are drawn evenly; use subsample",
        "data_sample_strategy": "rows are drawn evenly; use subsample",
        "pos_bagging_fraction": "rows are drawn evenly; use class_weight",
        "neg_bagging_fraction": "rows are drawn evenly; use class_weight",
        "zero_as_missing": "zeros are numbers; put NaN where a zero means that nothing is known",
        "min_data_in_bin": "bins follow from the values and max_bins",
        "monotone_constraints_method": "bounds lie halfway between the two sides of a split",
        "sigmoid": "scores are log-odds",
        "use_quantized_grad": "histograms add integers in any case",
    },
    fine={
        "boosting": _BOOSTED,
        "boosting_type": _BOOSTED,
        "boost": _BOOSTED,
        "device": ("cpu",),
        "device_type": ("cpu",),
        "bagging_freq": (1,),
        "subsample_freq": (1,),
        "min_sum_hessian_in_leaf": (1e-3,),
        "min_child_weight": (1e-3,),
        "metric": ("", "None"),
        "data_sample_strategy": ("bagging",),
    },
    dart={"drop_rate": 0.1, "skip_drop": 0.5},
)

XGBOOST = Library(
    name="xgboost",
    estimators={"XGBClassifier": CLASSIFICATION, "XGBRegressor": REGRESSION},
    objective="objective",
    objectives={
        **_same_for_all(_SQUARED, "reg:squarederror reg:linear"),
        "reg:absoluteerror": _ABSOLUTE,
        "reg:pseudohubererror": (REGRESSION, lambda settings: Huber(float(settings.get("huber_slope", 1.0)))),
        "reg:quantileerror": (REGRESSION, lambda settings: _quantile(settings, "quantile_alpha", 0.5)),
        "count:poisson": _POISSON,
        "reg:gamma": _GAMMA,
        "reg:tweedie": (REGRESSION, lambda settings: Tweedie(float(settings.get("tweedie_variance_power", 1.5)))),
        **_same_for_all(_CLASSES, "binary:logistic binary:logitraw multi:softmax multi:softprob"),
    },
    settings=(
        Setting("max_iter", "n_estimators num_boost_round num_round", int),
        Setting("learning_rate", "eta learning_rate", float),
        Setting("max_depth", "max_depth", _positive),
        Setting("max_leaf_nodes", "max_leaves", _positive),
        Setting("l2_regularization", "lambda reg_lambda", float),
        Setting("min_split_gain", "gamma min_split_loss", float),
        Setting("max_bins", "max_bin", _bins),
        Setting("subsample", "subsample", float),
        Setting("colsample_bytree", "colsample_bytree", float),
        Setting("colsample_bynode", "colsample_bynode", float),
        Setting("dropout", "rate_drop", float),
        Setting("n_iter_no_change", "early_stopping_rounds", _positive),
        Setting("monotonic_cst", "monotone_constraints", _monotone),
        Setting("interaction_cst", "interaction_constraints", _groups),
        Setting("multi_strategy", "multi_strategy"),
        Setting("class_weight", "scale_pos_weight", _weight_of_second),
        Setting("random_state", "seed random_state"),
        Setting("n_jobs", "nthread n_jobs", _positive),
    ),
    defaults={
        "learning_rate": 0.3,
        "max_depth": 6,
        "min_samples_leaf": 1,
        "l2_regularization": 1.0,
        "max_iter": 100,
    },
    needless="""
        num_class verbosity silent enable_categorical feature_types missing predictor importance_type quantile_alpha
        tweedie_variance_power huber_slope validate_parameters disable_default_eval_metric seed_per_iteration
        grow_policy sampling_method
    """,
    instead={
        "booster": _BOOSTING,
        "device": _GPU,
        "tree_method": "thresholds come from bins",
        "min_child_weight": _HESSIAN,
        "alpha": _L1,
        "reg_alpha": _L1,
        "max_delta_step": _DELTA,
        "eval_metric": _METRIC,
        "colsample_bylevel": "shares of features are drawn for a tree or a node; use colsample_bynode",
        "base_score": "the start is the best constant; init='zero' or a fitted model for another one",
        "num_parallel_tree": "an iteration grows one tree for each output",
        "max_cat_to_onehot": _CATEGORY,
        "max_cat_threshold": _CATEGORY,
        "sample_type": "dropout draws evenly",
        "normalize_type": "with k iterations dropped, the new tree has 1 / (k + 1) of its weight",
        "skip_drop": "dropout is drawn in every iteration",
        "one_drop": "dropout may drop nothing",
        "feature_weights": "features are drawn evenly",
        "callbacks": "callbacks= takes functions of a record; see agbm.Checkpoint",
    },
    fine={
        "booster": _BOOSTED,
        "device": ("cpu",),
        "tree_method": ("auto", "hist", "approx"),
        "num_parallel_tree": (1,),
    },
)

CATBOOST = Library(
    name="catboost",
    estimators={"CatBoostClassifier": CLASSIFICATION, "CatBoostRegressor": REGRESSION},
    objective="loss_function objective",
    objectives={
        "RMSE": _SQUARED,
        "MAE": _ABSOLUTE,
        "Huber": (REGRESSION, lambda settings: Huber(float(settings["delta"]))),
        "Quantile": (REGRESSION, lambda settings: _quantile(settings, "alpha", 0.5)),
        "Poisson": _POISSON,
        "Tweedie": (REGRESSION, lambda settings: Tweedie(float(settings["variance_power"]))),
        **_same_for_all(_CLASSES, "Logloss MultiClass"),
    },
    settings=(
        Setting("max_iter", "iterations num_boost_round n_estimators num_trees", int),
        Setting("learning_rate", "learning_rate eta", float),
        Setting("max_depth", "depth max_depth", int),
        Setting("max_leaf_nodes", "max_leaves num_leaves", int),
        Setting("min_samples_leaf", "min_data_in_leaf min_child_samples", _at_least_one),
        Setting("l2_regularization", "l2_leaf_reg reg_lambda", float),
        Setting("max_bins", "border_count max_bin", _bins),
        Setting("subsample", "subsample", float),
        Setting("colsample_bynode", "rsm colsample_bylevel", float),
        Setting("n_iter_no_change", "early_stopping_rounds od_wait", _positive),
        Setting("monotonic_cst", "monotone_constraints", _monotone),
        Setting("categorical_features", "cat_features", _categories),
        Setting("init", "boost_from_average", _start),
        Setting("class_weight", "class_weights", _weights_of_classes),
        Setting("class_weight", "scale_pos_weight", _weight_of_second),
        Setting("class_weight", "auto_class_weights", _balanced),
        Setting("random_state", "random_seed random_state"),
        Setting("n_jobs", "thread_count", _positive),
    ),
    defaults={
        "learning_rate": 0.03,
        "max_depth": 6,
        "min_samples_leaf": 1,
        "l2_regularization": 3.0,
        "max_iter": 1000,
    },
    needless="""
        verbose logging_level silent verbose_eval metric_period allow_writing_files train_dir use_best_model od_type
        classes_count used_ram_limit name save_snapshot snapshot_file leaf_estimation_method
    """,
    instead={
        "task_type": _GPU,
        "eval_metric": _METRIC,
        "custom_metric": _METRIC,
        "bootstrap_type": "rows are drawn, not weighted at random; use subsample",
        "grow_policy": "trees are not symmetric: level by level, or best-first with max_leaf_nodes",
        "boosting_type": "there is no ordered boosting; early stopping and l2_regularization hold overfitting back",
        "bagging_temperature": "rows are drawn, not weighted at random; use subsample",
        "random_strength": "splits are not random; colsample_bynode makes trees differ",
        "one_hot_max_size": _CATEGORY,
        "max_ctr_complexity": _CATEGORY,
        "simple_ctr": _CATEGORY,
        "combinations_ctr": _CATEGORY,
        "model_size_reg": _CATEGORY,
        "leaf_estimation_iterations": "a leaf is one Newton step",
        "score_function": "splits are judged by the gain of a Newton step",
        "nan_mode": "missing values go to the side where they gain most, at every split",
        "od_pval": "early stopping counts iterations without improvement",
        "langevin": "there is no added noise; subsample and colsample_bynode draw rows and columns",
        "feature_weights": "features are drawn evenly",
        "text_features": "text columns are categories",
        "embedding_features": "give each number of an embedding as a column",
    },
    fine={
        "task_type": ("CPU",),
        "bootstrap_type": ("Bernoulli", "No"),
        "leaf_estimation_iterations": (1,),
        "grow_policy": ("Depthwise", "Lossguide"),
        "boosting_type": ("Plain",),
    },
)

HIST_GRADIENT_BOOSTING = Library(
    name="hist_gradient_boosting",
    estimators={"HistGradientBoostingClassifier": CLASSIFICATION, "HistGradientBoostingRegressor": REGRESSION},
    objective="loss",
    objectives={
        "squared_error": _SQUARED,
        "absolute_error": _ABSOLUTE,
        "poisson": _POISSON,
        "gamma": _GAMMA,
        "quantile": (REGRESSION, lambda settings: _quantile(settings, "quantile", 0.5)),
        "log_loss": _CLASSES,
    },
    settings=(
        Setting("max_iter", "max_iter", int),
        Setting("learning_rate", "learning_rate", float),
        Setting("max_leaf_nodes", "max_leaf_nodes"),
        Setting("max_depth", "max_depth"),
        Setting("min_samples_leaf", "min_samples_leaf", int),
        Setting("l2_regularization", "l2_regularization", float),
        Setting("colsample_bynode", "max_features", float),
        Setting("max_bins", "max_bins", int),
        Setting("categorical_features", "categorical_features"),
        Setting("monotonic_cst", "monotonic_cst"),
        Setting("interaction_cst", "interaction_cst"),
        Setting("warm_start", "warm_start"),
        Setting("early_stopping", "early_stopping"),
        Setting("validation_fraction", "validation_fraction"),
        Setting("n_iter_no_change", "n_iter_no_change", int),
        Setting("random_state", "random_state"),
        Setting("class_weight", "class_weight"),
    ),
    defaults={
        "max_leaf_nodes": 31,
        "max_depth": None,
        "min_samples_leaf": 20,
        "l2_regularization": 0.0,
        "early_stopping": "auto",
        "n_iter_no_change": 10,
    },
    needless="quantile verbose",
    none_is_a_value=True,
    instead={"scoring": _METRIC, "tol": _TOL},
    fine={"scoring": ("loss",), "tol": (1e-7,)},
)

LIBRARIES = {
    "lightgbm": LIGHTGBM,
    "xgboost": XGBOOST,
    "catboost": CATBOOST,
    "hist_gradient_boosting": HIST_GRADIENT_BOOSTING,
    "sklearn": HIST_GRADIENT_BOOSTING,
}

# What all of them mean where they say nothing: plain boosting, and no early stopping.
_PLAIN = {"method": "gbm", "max_iter": 100, "learning_rate": 0.1, "early_stopping": False}


def from_params(library: str, params: Any, *, task: str | None = None) -> AGBMClassifier | AGBMRegressor:
    """An unfitted estimator with the settings of another library.

    It is plain boosting (method="gbm"), since a learning rate means the same thing there and something else with the
    default, method="fading". Parameters that are not given have the other library's defaults. Those without a
    counterpart are named in one warning, with what there is instead; a name that the library does not have is an error.

    Parameters
    ----------
    library : {"lightgbm", "xgboost", "catboost", "hist_gradient_boosting", "sklearn"}
        Whose parameters these are; the last two are the same.
    params : dict or estimator
        Parameters by the library's names, aliases included: those of its training function or of its estimators. Or
        one of its scikit-learn estimators, such as LGBMClassifier(num_leaves=15), fitted or not.
    task : {"classification", "regression"}, default=None
        Which estimator to create. Needed only if a dict names no objective (or loss), as `get_params()` of
        LGBMClassifier and CatBoostClassifier: it may then belong to a classifier or to a regressor.

    Returns
    -------
    AGBMClassifier or AGBMRegressor

    Examples
    --------
    >>> import agbm
    >>> model = agbm.from_params("lightgbm", {"objective": "binary", "num_leaves": 63, "lambda_l2": 1.0})
    >>> model.max_leaf_nodes, model.l2_regularization, model.method
    (63, 1.0, 'gbm')
    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> agbm.from_params("sklearn", HistGradientBoostingRegressor(max_iter=50)).max_iter
    50
    """
    if library not in LIBRARIES:
        raise ValueError(f"library={library!r} must be one of {', '.join(map(repr, LIBRARIES))}.")
    if task not in (None, CLASSIFICATION, REGRESSION):
        raise ValueError(f"task={task!r} must be {CLASSIFICATION!r}, {REGRESSION!r} or None.")
    theirs = LIBRARIES[library]
    if not isinstance(params, Mapping):
        task = _task_of(theirs, params, task)
        params = params.get_params()
    _check_names(theirs, params)
    given = {name: value for name, value in params.items() if value is not None or theirs.none_is_a_value}
    given = _with_defaults_of_dart(theirs, given)
    kind, loss = _objective(theirs, given, task)
    ours = {**_PLAIN, **theirs.defaults, "loss": loss, **_converted(theirs, given)}
    if kind == REGRESSION and "class_weight" in ours:
        raise ValueError("params have weights of classes, and their objective is one of regression; leave them out.")
    lost = _without_counterpart(theirs, given)
    if lost:
        listed = "\n".join(f"  {name}: {instead}" for name, instead in lost.items())
        warnings.warn(f"No counterpart of these parameters of {library}:\n{listed}", UserWarning, stacklevel=2)
    return (AGBMClassifier if kind == CLASSIFICATION else AGBMRegressor)(**ours)


def _task_of(theirs: Library, estimator: Any, task: str | None) -> str | None:
    """The task of another library's estimator, by the names of its classes, since the library is not imported."""
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        raise TypeError(f"params={estimator!r} must be a dict, or an estimator of {theirs.name} (an instance).")
    name = type(estimator).__name__
    names = [kind.__name__ for kind in type(estimator).__mro__]
    if any(known.startswith("XGBRF") for known in names):
        raise ValueError(f"params: {name} is a random forest, which has no counterpart.")
    for library in LIBRARIES.values():
        if library is not theirs and not library.estimators.keys().isdisjoint(names):
            raise ValueError(f"params: {name} is an estimator of {library.name}, got library={theirs.name!r}.")
    found = next((theirs.estimators[known] for known in names if known in theirs.estimators), None)
    if None not in (found, task) and found != task:
        raise ValueError(f"params: {name} is for {found}, got task={task!r}; leave the task out.")
    return found or task


def _check_names(theirs: Library, params: Mapping[str, Any]) -> None:
    settings = [name for setting in theirs.settings for name in setting.theirs.split()]
    known = {*theirs.objective.split(), *settings, *theirs.needless.split(), *theirs.instead}
    for name in params:
        if name not in known:
            close = get_close_matches(str(name), sorted(known), n=3)
            hint = f"did you mean {' or '.join(close)}?" if close else "leave it out."
            raise ValueError(f"params: {theirs.name} has no parameter {name!r} that is known here; {hint}")


def _given(names: Iterable[str], params: Mapping[str, Any]) -> str | None:
    """Which of several names for one thing is used; None of them, and two are an error."""
    used = [name for name in names if name in params]
    if len(used) > 1:
        raise ValueError(f"params: {' and '.join(used)} are names of one parameter; give one of them.")
    return used[0] if used else None


def _objective(theirs: Library, params: Mapping[str, Any], task: str | None) -> tuple[str, Any]:
    """The task and the loss."""
    name = _given(theirs.objective.split(), params)
    if name is None:
        if task is None:
            raise ValueError(
                f"params: nothing says whether they are for classification or regression, since they have no "
                f"{theirs.objective.split()[0]}. Give task='classification' or task='regression', or one of the "
                f"estimators {' and '.join(theirs.estimators)} instead of a dict."
            )
        return task, "auto"
    # CatBoost's have their parameters behind a colon: "Quantile:alpha=0.9".
    wanted, _, behind = (params[name], "", "") if theirs is not CATBOOST else str(params[name]).partition(":")
    if not isinstance(wanted, str) or wanted not in theirs.objectives:
        raise ValueError(
            f"params: {name}={params[name]!r} has no counterpart; those with one are {', '.join(theirs.objectives)}. "
            "For a loss of your own see agbm.losses.Loss."
        )
    kind, loss = theirs.objectives[wanted]
    if task not in (None, kind):
        raise ValueError(f"params: {name}={params[name]!r} is for {kind}, got task={task!r}; leave one of them out.")
    if callable(loss):
        try:
            loss = loss({**params, **dict(part.split("=") for part in behind.split(";") if part)})
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"params: {name}={params[name]!r} needs one number for its parameter: {error}.") from error
    return kind, loss


def _converted(theirs: Library, params: Mapping[str, Any]) -> dict[str, Any]:
    """Ours, from those that have a counterpart."""
    found: dict[str, Any] = {}
    for setting in theirs.settings:
        name = _given(setting.theirs.split(), params)
        if name is None or not _counts(theirs, setting, params):
            continue
        try:
            value = setting.convert(params[name])
        except (TypeError, ValueError) as error:
            raise ValueError(f"params: {name}={params[name]!r} cannot be read as {setting.ours}: {error}.") from error
        if value is None and setting.ours in ("class_weight", "n_iter_no_change"):
            continue  # turned off
        if setting.ours in found:
            raise ValueError(f"params: {name}={params[name]!r} and another parameter both set {setting.ours}.")
        found[setting.ours] = value
    if "n_iter_no_change" in found and theirs is not HIST_GRADIENT_BOOSTING:
        found["early_stopping"] = True
    return found


def _counts(theirs: Library, setting: Setting, params: Mapping[str, Any]) -> bool:
    """Whether a parameter does anything there: LightGBM draws rows only with a frequency, and only DART drops."""
    if theirs is LIGHTGBM and setting.ours == "subsample":
        return bool(params.get("bagging_freq", params.get("subsample_freq", 0)))
    if setting.ours == "dropout":
        return _is_dart(params)
    return True


def _is_dart(params: Mapping[str, Any]) -> bool:
    return "dart" in (params.get(name) for name in ("boosting", "boosting_type", "boost", "booster"))


def _with_defaults_of_dart(theirs: Library, params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters, and those of DART that are not given under any of their names."""
    if not _is_dart(params):
        return dict(params)
    aliases = {name: setting.theirs.split() for setting in theirs.settings for name in setting.theirs.split()}
    absent = {name for name in theirs.dart if set(aliases.get(name, [name])).isdisjoint(params)}
    return {**{name: theirs.dart[name] for name in absent}, **params}


def _without_counterpart(theirs: Library, params: Mapping[str, Any]) -> dict[str, str]:
    """Names of theirs that ask for something that is not there, with what to do instead."""
    lost = {
        name: instead
        for name, instead in theirs.instead.items()
        if _asks_for_something(params.get(name), theirs.fine.get(name, ()))
    }
    for name in ("max_bin", "max_bins", "border_count"):
        if params.get(name, 0) > MOST_BINS:
            lost[name] = f"a feature has {MOST_BINS} bins at most"
    return lost


def _asks_for_something(value: Any, fine: tuple[Any, ...]) -> bool:
    if isinstance(value, (str, bool, int, float)):
        return bool(value) and value not in fine
    return value is not None
