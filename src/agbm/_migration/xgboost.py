"""Parameters of XGBoost."""

from . import conversions as convert
from . import library as hints
from . import objectives
from .library import CLASSIFICATION, REGRESSION, Library, Setting

XGBOOST = Library(
    name="xgboost",
    estimators={"XGBClassifier": CLASSIFICATION, "XGBRegressor": REGRESSION},
    objective="objective",
    objectives={
        **objectives.same_for_all(objectives.SQUARED_ERROR, "reg:squarederror reg:linear"),
        "reg:absoluteerror": objectives.ABSOLUTE_ERROR,
        "reg:pseudohubererror": objectives.huber("huber_slope", 1.0),
        "reg:quantileerror": objectives.quantile("quantile_alpha", 0.5),
        "count:poisson": objectives.POISSON,
        "reg:gamma": objectives.GAMMA,
        "reg:tweedie": objectives.tweedie("tweedie_variance_power", 1.5),
        "reg:logistic": objectives.CROSS_ENTROPY,
        **objectives.same_for_all(objectives.LOG_LOSS, "binary:logistic binary:logitraw multi:softmax multi:softprob"),
    },
    settings=(
        Setting("max_iter", "n_estimators num_boost_round num_round", int),
        Setting("learning_rate", "eta learning_rate", float),
        Setting("max_depth", "max_depth", convert.positive_or_none),
        Setting("max_leaf_nodes", "max_leaves", convert.positive_or_none),
        Setting("l1_regularization", "alpha reg_alpha", float),
        Setting("l2_regularization", "lambda reg_lambda", float),
        Setting("min_split_gain", "gamma min_split_loss", float),
        Setting("max_bins", "max_bin", convert.bins),
        Setting("subsample", "subsample", float),
        Setting("colsample_bytree", "colsample_bytree", float),
        Setting("colsample_bynode", "colsample_bynode", float),
        Setting("method__dropout", "rate_drop", float),
        Setting("n_iter_no_change", "early_stopping_rounds", convert.positive_or_none),
        Setting("monotonic_cst", "monotone_constraints", convert.monotonic_constraints),
        Setting("interaction_cst", "interaction_constraints", convert.interaction_groups),
        Setting("multi_strategy", "multi_strategy"),
        Setting("class_weight", "scale_pos_weight", convert.weight_of_positive_class),
        Setting("random_state", "seed random_state"),
        Setting("n_jobs", "nthread n_jobs", convert.positive_or_none),
    ),
    defaults={
        "learning_rate": 0.3,
        "max_depth": 6,
        "max_leaf_nodes": None,
        "min_samples_leaf": 1,
        "l2_regularization": 1.0,
        "max_iter": 100,
    },
    ignored="""
        num_class verbosity silent enable_categorical feature_types missing predictor importance_type quantile_alpha
        tweedie_variance_power huber_slope validate_parameters disable_default_eval_metric seed_per_iteration
        grow_policy sampling_method
    """,
    instead={
        "booster": hints.BOOSTING,
        "device": hints.GPU,
        "tree_method": "histograms are the only method",
        "min_child_weight": hints.HESSIAN,
        "max_delta_step": hints.DELTA,
        "eval_metric": hints.METRIC,
        "colsample_bylevel": "features are sampled per tree or per node; use colsample_bynode",
        "base_score": "the initial prediction is the best constant; init is 'zero' or a fitted model for another one",
        "num_parallel_tree": "an iteration grows one tree per output",
        "max_cat_to_onehot": hints.CATEGORY,
        "max_cat_threshold": hints.CATEGORY,
        "sample_type": "dropout samples uniformly",
        "normalize_type": "with k iterations dropped, the new tree has 1 / (k + 1) of its weight",
        "skip_drop": "dropout applies in every iteration",
        "one_drop": "dropout may drop no tree",
        "feature_weights": hints.EVEN_FEATURES,
        "callbacks": "callbacks takes functions of a record; see agbm.Checkpoint",
    },
    harmless={
        "booster": hints.SUPPORTED_BOOSTERS,
        "device": ("cpu",),
        "tree_method": ("auto", "hist", "approx"),
        "num_parallel_tree": (1,),
    },
)
