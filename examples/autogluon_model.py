"""agbm as a model of AutoGluon, and its entry for TabArena: `python examples/autogluon_model.py`.

Needs `pip install autogluon.tabular`. The script lets AutoGluon train agbm on folds of the breast cancer table and
refit it to all rows. In TabArena's environment:

    from tabarena.benchmark.experiment import run_experiments_new
    run_experiments_new("results", experiments(n_random=200), tasks, repetitions_mode="TabArena-Lite")

Import AGBMModel from this file, do not paste it into a script: AutoGluon pickles models by the name of their module.
"""

from __future__ import annotations

import tempfile
import time
from typing import TYPE_CHECKING, Any

from autogluon.core.constants import REGRESSION
from autogluon.core.models import AbstractModel

from agbm import AGBMClassifier, AGBMRegressor, Record

if TYPE_CHECKING:
    import pandas as pd


class AGBMModel(AbstractModel):  # type: ignore[misc]
    """agbm with its defaults; `hyperparameters={AGBMModel: {...}}` has parameters of the estimators.

    Validation rows of AutoGluon are those of early stopping, which follows the loss, not AutoGluon's metric. Categories
    and missing values are left to agbm. Quantile regression is not offered.
    """

    ag_key = "AGBM"
    ag_name = "AGBM"
    seed_name = "random_state"

    def _fit(
        self,
        X: pd.DataFrame,
        y: pd.Series,
        X_val: pd.DataFrame | None = None,
        y_val: pd.Series | None = None,
        time_limit: float | None = None,
        sample_weight: Any = None,
        sample_weight_val: Any = None,
        num_cpus: int = 1,
        **kwargs: Any,
    ) -> None:
        end = None if time_limit is None else time.monotonic() + 0.9 * time_limit
        X = self.preprocess(X, y=y, is_train=True)
        kind = AGBMRegressor if self.problem_type == REGRESSION else AGBMClassifier

        def out_of_time(_: Record) -> bool:
            return end is not None and time.monotonic() > end

        self.model = kind(n_jobs=num_cpus, callbacks=[out_of_time], **self._get_model_params())
        if X_val is None:
            self.model.fit(X, y, sample_weight)
        else:
            X_val = self.preprocess(X_val)
            self.model.fit(X, y, sample_weight, X_val=X_val, y_val=y_val, sample_weight_val=sample_weight_val)
        self.model.set_params(callbacks=None)  # the model will be pickled
        # For the model that is fitted to all rows afterwards.
        self.params_trained = {"max_iter": self.model.best_iteration_, "early_stopping": False}

    @classmethod
    def supported_problem_types(cls) -> list[str]:
        """The kinds of tasks, in AutoGluon's words."""
        return ["binary", "multiclass", "regression"]

    def _get_default_auxiliary_params(self) -> dict[str, Any]:
        return dict(super()._get_default_auxiliary_params()) | {"valid_raw_types": ["int", "float", "category"]}

    def _more_tags(self) -> dict[str, bool]:
        return {"can_refit_full": True}


def search_space() -> dict[str, Any]:
    """Random configurations of TabArena, from the ranges of `agbm tune`."""
    from autogluon.common.space import Categorical, Real

    return {
        "learning_rate": Real(0.02, 0.3, log=True),
        "max_leaf_nodes": Categorical(4, 8, 16, 32, 64, 128),
        "min_samples_leaf": Categorical(1, 2, 5, 10, 20, 50, 100),
        "subsample": Real(0.5, 1.0),
        "colsample_bynode": Real(0.2, 1.0),
    }


def experiments(n_random: int) -> Any:
    """The default and random configurations, as TabArena runs them: bagged over eight folds."""
    from tabarena.utils.config_utils import ConfigGenerator  # type: ignore[import-not-found]

    generator = ConfigGenerator(model_cls=AGBMModel, manual_configs=[{}], search_space=search_space())
    return generator.generate_all_bag_experiments(num_random_configs=n_random)


def main() -> None:
    """Train agbm by AutoGluon."""
    from autogluon.tabular import TabularPredictor
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    from autogluon_model import AGBMModel  # by the name of its module

    table = load_breast_cancer(as_frame=True).frame
    train, test = train_test_split(table, random_state=0, stratify=table["target"])
    with tempfile.TemporaryDirectory() as folder:
        predictor = TabularPredictor("target", eval_metric="log_loss", path=folder, verbosity=0)
        in_turn = {"fold_fitting_strategy": "sequential_local"}
        predictor.fit(train, hyperparameters={AGBMModel: {}}, num_bag_folds=4, num_gpus=0, calibrate=False,
                      fit_weighted_ensemble=False, ag_args_ensemble=in_turn)  # fmt: skip
        predictor.refit_full()
        board = predictor.leaderboard(test)
        for name, score in zip(board["model"], board["score_test"], strict=True):
            print(f"{name}: test log loss {-score:.3f}")


if __name__ == "__main__":
    main()
