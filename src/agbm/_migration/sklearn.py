"""Parameters of scikit-learn's HistGradientBoosting estimators."""

from . import library as hints
from . import objectives
from .library import CLASSIFICATION, REGRESSION, Library, Setting

HIST_GRADIENT_BOOSTING = Library(
    name="hist_gradient_boosting",
    estimators={"HistGradientBoostingClassifier": CLASSIFICATION, "HistGradientBoostingRegressor": REGRESSION},
    objective="loss",
    objectives={
        "squared_error": objectives.SQUARED_ERROR,
        "absolute_error": objectives.ABSOLUTE_ERROR,
        "poisson": objectives.POISSON,
        "gamma": objectives.GAMMA,
        "quantile": objectives.quantile("quantile", 0.5),
        "log_loss": objectives.LOG_LOSS,
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
    ignored="quantile verbose",
    none_is_a_value=True,
    instead={"scoring": hints.METRIC, "tol": hints.TOL},
    harmless={"scoring": ("loss",), "tol": (1e-7,)},
    patience_turns_on_early_stopping=False,
)
