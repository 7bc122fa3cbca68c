"""Parameters of CatBoost."""

from . import conversions as convert
from . import library as hints
from . import objectives
from .library import CLASSIFICATION, REGRESSION, Library, Setting

CATBOOST = Library(
    name="catboost",
    estimators={"CatBoostClassifier": CLASSIFICATION, "CatBoostRegressor": REGRESSION},
    objective="loss_function objective",
    objectives={
        "RMSE": objectives.SQUARED_ERROR,
        "MAE": objectives.ABSOLUTE_ERROR,
        "Huber": objectives.huber("delta"),
        "Quantile": objectives.quantile("alpha", 0.5),
        "MultiQuantile": objectives.quantile("alpha"),
        "Expectile": objectives.expectile("alpha", 0.5),
        "LogCosh": objectives.LOG_COSH,
        "Poisson": objectives.POISSON,
        "Tweedie": objectives.tweedie("variance_power"),
        "CrossEntropy": objectives.CROSS_ENTROPY,
        **objectives.same_for_all(objectives.LOG_LOSS, "Logloss MultiClass"),
    },
    settings=(
        Setting("max_iter", "iterations num_boost_round n_estimators num_trees", int),
        Setting("learning_rate", "learning_rate eta", float),
        Setting("max_depth", "depth max_depth", int),
        Setting("max_leaf_nodes", "max_leaves num_leaves", int),
        Setting("min_samples_leaf", "min_data_in_leaf min_child_samples", convert.at_least_one),
        Setting("l2_regularization", "l2_leaf_reg reg_lambda", float),
        Setting("max_bins", "border_count max_bin", convert.bins),
        Setting("subsample", "subsample", float),
        Setting("colsample_bynode", "rsm colsample_bylevel", float),
        Setting("n_iter_no_change", "early_stopping_rounds od_wait", convert.positive_or_none),
        Setting("monotonic_cst", "monotone_constraints", convert.monotonic_constraints),
        Setting("categorical_features", "cat_features", convert.categorical_features),
        Setting("init", "boost_from_average", convert.init),
        Setting("class_weight", "class_weights", convert.class_weights),
        Setting("class_weight", "scale_pos_weight", convert.weight_of_positive_class),
        Setting("class_weight", "auto_class_weights", convert.balanced),
        Setting("random_state", "random_seed random_state"),
        Setting("n_jobs", "thread_count", convert.positive_or_none),
    ),
    defaults={
        "learning_rate": 0.03,
        "max_depth": 6,
        "max_leaf_nodes": None,
        "min_samples_leaf": 1,
        "l2_regularization": 3.0,
        "max_iter": 1000,
    },
    ignored="""
        verbose logging_level silent verbose_eval metric_period allow_writing_files train_dir use_best_model od_type
        classes_count used_ram_limit name save_snapshot snapshot_file leaf_estimation_method
    """,
    instead={
        "task_type": hints.GPU,
        "eval_metric": hints.METRIC,
        "custom_metric": hints.METRIC,
        "bootstrap_type": "rows are sampled, not weighted at random; use subsample",
        "grow_policy": "trees are not symmetric: they grow by level, or best-first with max_leaf_nodes",
        "boosting_type": "there is no ordered boosting; use early_stopping and l2_regularization against overfitting",
        "bagging_temperature": "rows are sampled, not weighted at random; use subsample",
        "random_strength": "splits are not random; use colsample_bynode to vary the trees",
        "one_hot_max_size": hints.CATEGORY,
        "max_ctr_complexity": hints.CATEGORY,
        "simple_ctr": hints.CATEGORY,
        "combinations_ctr": hints.CATEGORY,
        "model_size_reg": hints.CATEGORY,
        "leaf_estimation_iterations": "leaf values are one Newton step",
        "score_function": "splits are scored by the gain of a Newton step",
        "nan_mode": "every split sends missing values to the side with the larger gain",
        "od_pval": "early stopping counts iterations without improvement",
        "langevin": "no noise is added; use subsample and colsample_bynode",
        "feature_weights": hints.EVEN_FEATURES,
        "text_features": "text columns are categories; long text needs TF-IDF first, see docs/guides/columns.md",
        "embedding_features": "a column of lists becomes a feature for each number",
    },
    harmless={
        "task_type": ("CPU",),
        "bootstrap_type": ("Bernoulli", "No"),
        "leaf_estimation_iterations": (1,),
        "grow_policy": ("Depthwise", "Lossguide"),
        "boosting_type": ("Plain",),
    },
    objective_has_parameters=True,
)
