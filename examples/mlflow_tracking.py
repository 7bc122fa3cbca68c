"""A callback that logs the losses of every iteration to MLflow, and the model file with the run.

python examples/mlflow_tracking.py        (needs pip install mlflow)

The run goes where MLFLOW_TRACKING_URI says; without it to mlflow.db in this folder (which takes MLflow some seconds to
make), and `mlflow ui` shows it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import mlflow
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from agbm import AGBMClassifier, Record


def log_losses(record: Record) -> None:
    """One point of each curve; it returns nothing, and so does not end the run."""
    losses = {"train_loss": record.train_loss, "validation_loss": record.validation_loss}
    mlflow.log_metrics(losses, step=record.iteration)


def main() -> None:
    """Fit within a run of MLflow, then read the curve back from it."""
    X, y = load_breast_cancer(return_X_y=True)
    X, X_val, y, y_val = train_test_split(X, y, random_state=0)
    model = AGBMClassifier(max_iter=60, learning_rate=0.05, early_stopping=True, callbacks=[log_losses])
    with mlflow.start_run() as run, tempfile.TemporaryDirectory() as folder:
        mlflow.log_params({name: model.get_params()[name] for name in ("method", "max_iter", "learning_rate")})
        model.fit(X, y, X_val=X_val, y_val=y_val)
        model.save(Path(folder) / "model.agbm")
        mlflow.log_artifact(str(Path(folder) / "model.agbm"))
    curve = mlflow.MlflowClient().get_metric_history(run.info.run_id, "validation_loss")
    lowest = min(curve, key=lambda point: point.value)
    print(f"run {run.info.run_id}: {len(curve)} points, the lowest {lowest.value:.4f} at iteration {lowest.step}")
    print(f"the model kept iteration {model.best_iteration_}, and its file is with the run")


if __name__ == "__main__":
    main()
