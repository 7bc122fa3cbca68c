"""Parameters of LightGBM."""

from . import conversions as convert
from . import library as hints
from . import objectives
from .library import CLASSIFICATION, REGRESSION, Library, Setting

LIGHTGBM = Library(
    name="lightgbm",
    estimators={"LGBMClassifier": CLASSIFICATION, "LGBMRegressor": REGRESSION},
    objective="objective objective_type app application loss",
    objectives={
        **objectives.same_for_all(
            objectives.SQUARED_ERROR,
            "regression regression_l2 l2 mean_squared_error mse l2_root root_mean_squared_error rmse",
        ),
        **objectives.same_for_all(objectives.ABSOLUTE_ERROR, "regression_l1 l1 mean_absolute_error mae"),
        "huber": objectives.huber("alpha", 0.9),
        "quantile": objectives.quantile("alpha", 0.9),
        "poisson": objectives.POISSON,
        "gamma": objectives.GAMMA,
        "tweedie": objectives.tweedie("tweedie_variance_power", 1.5),
        **objectives.same_for_all(objectives.CROSS_ENTROPY, "cross_entropy xentropy"),
        **objectives.same_for_all(objectives.LOG_LOSS, "binary multiclass softmax"),
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
        Setting("max_depth", "max_depth", convert.positive_or_none),
        Setting(
            "min_samples_leaf",
            "min_data_in_leaf min_data_per_leaf min_data min_child_samples min_samples_leaf",
            convert.at_least_one,
        ),
        Setting("l1_regularization", "lambda_l1 reg_alpha l1_regularization", float),
        Setting("l2_regularization", "lambda_l2 reg_lambda lambda l2_regularization", float),
        Setting("min_split_gain", "min_gain_to_split min_split_gain", float),
        Setting("max_bins", "max_bin max_bins", convert.bins),
        Setting("subsample", "bagging_fraction sub_row subsample bagging", float),
        Setting("colsample_bytree", "feature_fraction sub_feature colsample_bytree", float),
        Setting("colsample_bynode", "feature_fraction_bynode sub_feature_bynode colsample_bynode", float),
        Setting("method__dropout", "drop_rate rate_drop", float),
        Setting(
            "n_iter_no_change",
            "early_stopping_round early_stopping_rounds early_stopping n_iter_no_change",
            convert.positive_or_none,
        ),
        Setting(
            "monotonic_cst", "monotone_constraints mc monotone_constraint monotonic_cst", convert.monotonic_constraints
        ),
        Setting("interaction_cst", "interaction_constraints", convert.interaction_groups),
        Setting(
            "categorical_features",
            "categorical_feature cat_feature categorical_column cat_column categorical_features",
            convert.categorical_features,
        ),
        Setting("init", "boost_from_average", convert.init),
        Setting("class_weight", "class_weight", convert.class_weights),
        Setting("class_weight", "scale_pos_weight", convert.weight_of_positive_class),
        Setting("class_weight", "is_unbalance unbalance unbalanced_sets", convert.balanced),
        Setting("random_state", "seed random_seed random_state"),
        Setting("n_jobs", "num_threads num_thread nthread nthreads n_jobs", convert.positive_or_none),
    ),
    defaults={"max_leaf_nodes": 31, "max_depth": None, "min_samples_leaf": 20, "l2_regularization": 0.0},
    ignored="""
        num_class num_classes verbosity verbose silent task force_row_wise force_col_wise histogram_pool_size
        deterministic importance_type subsample_for_bin bin_construct_sample_cnt alpha tweedie_variance_power
        is_enable_sparse is_sparse enable_sparse sparse feature_pre_filter bagging_seed
        feature_fraction_seed data_random_seed drop_seed extra_seed objective_seed two_round pre_partition
        enable_bundle is_enable_bundle bundle use_missing first_metric_only tree_learner
    """,
    instead={
        "boosting": hints.BOOSTING,
        "boosting_type": hints.BOOSTING,
        "boost": hints.BOOSTING,
        "device": hints.GPU,
        "device_type": hints.GPU,
        "bagging_freq": hints.FREQUENCY,
        "subsample_freq": hints.FREQUENCY,
        "min_sum_hessian_in_leaf": hints.HESSIAN,
        "min_child_weight": hints.HESSIAN,
        "max_delta_step": hints.DELTA,
        "metric": hints.METRIC,
        "eval_metric": hints.METRIC,
        "extra_trees": "thresholds are never random; use colsample_bynode to vary the trees",
        "early_stopping_min_delta": hints.TOL,
        "path_smooth": "use l2_regularization, which shrinks small leaves most",
        "linear_tree": "leaf values are constants; learner accepts any scikit-learn regressor",
        "skip_drop": "dropout applies in every iteration; with LightGBM's default, 0.5, it is skipped in half of them",
        "max_drop": "dropout has no limit on the number of dropped iterations",
        "cat_smooth": hints.CATEGORY,
        "cat_l2": hints.CATEGORY,
        "max_cat_threshold": hints.CATEGORY,
        "max_cat_to_onehot": hints.CATEGORY,
        "min_data_per_group": hints.CATEGORY,
        "top_rate": hints.EVEN_ROWS,
        "other_rate": hints.EVEN_ROWS,
        "data_sample_strategy": hints.EVEN_ROWS,
        "pos_bagging_fraction": "rows are sampled uniformly; use class_weight",
        "neg_bagging_fraction": "rows are sampled uniformly; use class_weight",
        "zero_as_missing": "zero is a number; replace zeros that mean missing by NaN",
        "min_data_in_bin": "bins depend on the values and max_bins only",
        "monotone_constraints_method": "bounds are halfway between the values of the two children",
        "sigmoid": "scores are log-odds",
        "use_quantized_grad": "histograms always add integers",
    },
    harmless={
        "boosting": hints.SUPPORTED_BOOSTERS,
        "boosting_type": hints.SUPPORTED_BOOSTERS,
        "boost": hints.SUPPORTED_BOOSTERS,
        "device": ("cpu",),
        "device_type": ("cpu",),
        "bagging_freq": (1,),
        "subsample_freq": (1,),
        "min_sum_hessian_in_leaf": (1e-3,),
        "min_child_weight": (1e-3,),
        "metric": ("", "None"),
        "data_sample_strategy": ("bagging",),
    },
    dart_defaults={"drop_rate": 0.1, "skip_drop": 0.5},
    sampling_frequency="bagging_freq subsample_freq",
)
