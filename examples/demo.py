"""Train the default and the algorithms of the paper on two data sets that ship with scikit-learn.

The default is compared with plain boosting with the same leaves, tree sizes and learning rate. AGBM, AGBMR and VAGBM
are compared with GBM as in the paper, all with the same small step. The script prints a table, and writes a figure of
the losses by number of trees and the predictions to the folder given as argument (default: out/demo).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.model_selection import train_test_split

from agbm import AGBMClassifier, AGBMRegressor
from agbm.methods import AGBM, GBM, VAGBM

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, NullFormatter

# Two hundred trees each, without early stopping. The default has five members; one of them is comparable to the others.
SHARED: dict[str, Any] = {"max_iter": 200, "early_stopping": False, "n_members": 1, "verbose": 1}
# As in the paper: gradient leaves, depth 3, no regularization; AGBM grows two trees per iteration. The step is small,
# so that there is something to accelerate.
PAPER: dict[str, Any] = {**SHARED, "learning_rate": 0.05, "max_depth": 3, "l2_regularization": 0.0}
METHODS: dict[str, dict[str, Any]] = {
    "default, one member": SHARED,
    "plain boosting": {**SHARED, "method": GBM(second_order=True), "colsample_bynode": 0.5},
    "GBM": {**PAPER, "method": "gbm"},
    "VAGBM": {**PAPER, "method": VAGBM(momentum=0.2)},
    "AGBM": {**PAPER, "method": AGBM(momentum=0.2), "max_iter": 100},
    "AGBMR": {**PAPER, "method": AGBM(momentum=0.2, restart="loss_rise"), "max_iter": 100},
}
STYLES = {
    "default, one member": ("#cc79a7", "-"),
    "plain boosting": ("#cc79a7", "--"),
    "GBM": ("#4d4d4d", "-"),
    "VAGBM": ("#0072b2", "-"),
    "AGBM": ("#d55e00", "-"),
    "AGBMR": ("#009e73", "--"),
}


def train(name: str, estimator: Any, data: tuple[Any, Any], out: Path) -> dict[str, Any]:
    """Fit all methods on one split, save their predictions and return the models by method."""
    X_train, X_test, y_train, y_test = train_test_split(*data, test_size=0.3, random_state=0)
    table = Table(
        title=f"{name}: {len(y_train)} training rows, {len(y_test)} test rows", box=SIMPLE, collapse_padding=True
    )
    for column in ("method", "iterations", "trees", "train loss", "test loss", "lowest (trees)", "seconds"):
        table.add_column(column, justify="left" if column == "method" else "right")
    models, saved = {}, {"y_test": y_test}
    for method, parameters in METHODS.items():
        began = time.perf_counter()
        model = estimator(**parameters).fit(X_train, y_train, X_val=X_test, y_val=y_test)
        seconds = time.perf_counter() - began
        history = model.history_
        best = int(np.argmin(history["validation_loss"]))
        table.add_row(
            method,
            str(model.n_iter_),
            str(model.n_trees_),
            f"{history['train_loss'][-1]:.4g}",
            f"{history['validation_loss'][-1]:.4g}",
            f"{history['validation_loss'][best]:.4g} ({history['trees'][best]})",
            f"{seconds:.2f}",
        )
        models[method] = model
        saved[method] = model.predict_proba(X_test)[:, 1] if hasattr(model, "predict_proba") else model.predict(X_test)
    Console().print(table)
    np.savetxt(
        out / f"predictions_{name.split()[0]}.csv",
        np.column_stack(list(saved.values())),
        delimiter=",",
        header=",".join(saved),
        comments="",
        fmt="%.10g",
    )
    return models


def draw(results: dict[str, dict[str, Any]], path: Path) -> None:
    """Plot training and test loss by number of trees, one row of panels per data set."""
    figure, axes = plt.subplots(len(results), 2, figsize=(10, 4 * len(results)), squeeze=False, layout="constrained")
    for row, (name, models) in zip(axes, results.items(), strict=True):
        for axis, (column, title) in zip(row, (("train_loss", "training"), ("validation_loss", "test")), strict=True):
            for method, model in models.items():
                history = model.history_
                colour, line = STYLES[method]
                axis.plot(history["trees"], history[column], label=method, linewidth=1.8, color=colour, linestyle=line)
                best = int(np.argmin(history[column]))
                if column == "validation_loss":
                    axis.plot(history["trees"][best], history[column][best], "o", color=colour, markersize=6)
            axis.set(xlabel="trees", ylabel=f"{title} loss", title=f"{name}: {title}", yscale="log")
            axis.grid(alpha=0.25, which="both")
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_formatter(NullFormatter())
    axes[0, 0].legend()
    axes[0, 1].annotate("dots: lowest test loss", (0.97, 0.95), xycoords="axes fraction", ha="right", va="top")
    figure.savefig(path, dpi=150)


def main() -> None:
    """Train all models, draw the figure and print the names of the files."""
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "out/demo")
    out.mkdir(parents=True, exist_ok=True)
    fitted = {
        name: train(name, estimator, load(return_X_y=True), out)
        for name, estimator, load in (
            ("breast_cancer (logistic loss)", AGBMClassifier, load_breast_cancer),
            ("diabetes (squared error)", AGBMRegressor, load_diabetes),
        )
    }
    draw(fitted, out / "convergence.png")
    for name in ("convergence.png", "predictions_breast_cancer.csv", "predictions_diabetes.csv"):
        print(f"wrote {out / name}")


if __name__ == "__main__":
    main()
