"""A callback that reports the loss of each iteration to Optuna and stops unpromising trials.

python examples/optuna_pruning.py        (needs pip install '.[tune]')
"""

from __future__ import annotations

import optuna
from optuna.trial import TrialState
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from agbm import AGBMRegressor, Record, Watcher

X, y = load_diabetes(return_X_y=True)
X_train, X_val, y_train, y_val = train_test_split(X, y, random_state=0)


def pruning(trial: optuna.Trial) -> Watcher:
    """Return the callback of a trial. Its exceptions propagate from fit, which leaves the estimator unchanged."""

    def report(record: Record) -> None:
        trial.report(record.validation_loss, record.iteration)
        if trial.should_prune():
            raise optuna.TrialPruned(f"at iteration {record.iteration}")

    return report


def objective(trial: optuna.Trial) -> float:
    """Return the validation loss of the best iteration."""
    model = AGBMRegressor(
        learning_rate=trial.suggest_float("learning_rate", 0.001, 0.5, log=True),
        max_depth=trial.suggest_int("max_depth", 1, 8),
        max_iter=100, early_stopping=True, callbacks=[pruning(trial)],
    )  # fmt: skip
    try:
        model.fit(X_train, y_train, X_val=X_val, y_val=y_val)
    finally:
        trial.set_user_attr("fitted", hasattr(model, "history_"))
    return float(model.history_["validation_loss"][model.best_iteration_])


def main() -> None:
    """Run twenty trials, most of which are pruned."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        sampler=optuna.samplers.TPESampler(seed=0), pruner=optuna.pruners.MedianPruner(n_startup_trials=4)
    )
    study.optimize(objective, n_trials=20)
    pruned = study.get_trials(states=[TrialState.PRUNED])
    print(f"{len(pruned)} of {len(study.trials)} trials pruned, on average at iteration", end=" ")
    print(f"{sum(max(trial.intermediate_values) for trial in pruned) / len(pruned):.0f}")
    print("pruned estimators that are fitted:", sum(trial.user_attrs["fitted"] for trial in pruned))
    print(f"lowest validation loss {study.best_value:.0f} with {study.best_params}")


if __name__ == "__main__":
    main()
