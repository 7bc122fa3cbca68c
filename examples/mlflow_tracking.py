"""A callback that logs the losses of each iteration to MLflow; the model file is logged as an artifact.

python examples/mlflow_tracking.py        (needs pip install mlflow)

The run is logged to MLFLOW_TRACKING_URI, or by default to mlflow.db in the current folder, which MLflow takes some
seconds to create. `mlflow ui` shows it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import mlflow
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from agbm import AGBMClassifier, Record


def log_losses(record: Record) -> None:
    """Log the losses of one iteration. Returning None lets training continue."""
    losses = {"train_loss": record.train_loss, "validation_loss": record.validation_loss}
    mlflow.log_metrics(losses, step=record.iteration)


def main() -> None:
    """Fit within an MLflow run, then read the loss curve back."""
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
    print(f"the model kept iteration {model.best_iteration_}, and its file is logged with the run")


if __name__ == "__main__":
    main()
