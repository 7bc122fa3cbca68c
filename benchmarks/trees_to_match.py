"""Number of trees, and time, that the default needs to reach the loss of tuned plain boosting.

Every task is split into training, validation and test rows (60, 20, 20 %; Beijing air by time), three times. Plain
Newton boosting runs with six learning rates in this library (with and without the l2 of the default), in LightGBM,
XGBoost and CatBoost (with their default trees). Regularised Newton boosting runs with three learning rates. The default
of this library runs with one setting for all tasks. All use early stopping on the validation rows with the same
patience (twice that of the default) and the same maximum number of iterations. Learning rates are chosen by the mean
validation loss over the splits; results are for the test rows, averaged over the splits. Trees and seconds are those up
to the iteration that is kept. For other libraries, all iterations are assumed to take the same time, including the
preparation of data.

The result of each run is stored in a file, so an interrupted benchmark can be resumed. Use a new folder after changes.
"""

from __future__ import annotations

import argparse
import json
import pickle
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import gmean

from agbm import AGBMClassifier, AGBMRegressor
from rnb import RegularizedNewton
from tables import TABLES, classifies, read

TASKS = (
    "adult", "higgs (sample)", "diamonds (log)", "covertype (2 or not)", "covertype", "flights (delayed)",
    "Beijing air (log)", "diabetes-130",
)  # fmt: skip
RATES = (0.03, 0.05, 0.1, 0.2, 0.3, 0.5)
PATIENCE = 40
CLOSE = 1.001
"""A loss counts as reached if the ratio to it is at most this."""
PLAIN: dict[str, Any] = {"method": "gbm", "second_order": True, "l2_regularization": 0.0}
POINTS = 40
"""Number of points of a curve, for libraries that have to predict from scratch for each of them."""

DEFAULT = "agbm, default"
BASELINE = "agbm, plain"


@dataclass(frozen=True)
class Split:
    """One task, split once."""

    train: tuple[pd.DataFrame, np.ndarray]
    validation: tuple[pd.DataFrame, np.ndarray]
    test: tuple[pd.DataFrame, np.ndarray]
    classes: np.ndarray | None

    @property
    def n_outputs(self) -> int:
        """Number of trees per iteration."""
        return 1 if self.classes is None or len(self.classes) == 2 else len(self.classes)

    def loss(self, predicted: np.ndarray, y: np.ndarray) -> float:
        """Log loss of probabilities (row, class), or half the mean squared error."""
        if self.classes is None:
            return float(np.mean((predicted - y) ** 2) / 2)
        if predicted.ndim == 1:
            predicted = np.column_stack([1.0 - predicted, predicted])
        own = predicted[np.arange(len(y)), y]
        return float(-np.mean(np.log(np.maximum(own, 1e-15))))


@dataclass(frozen=True)
class Run:
    """The result of one fit. Trees and seconds are those up to the iteration that it keeps."""

    trees: int
    seconds: float
    validation_loss: float
    test_loss: float
    megabytes: float
    """Size of the saved model."""
    curve: list[tuple[int, float, float]]
    """(trees, seconds, test loss)."""


def split(folder: Path, task: str, seed: int, most_rows: int) -> Split | None:
    """Split a task into three parts. A split by time samples 90 % of each part, so that splits differ."""
    data = read(folder, task)
    if data is None:
        return None
    X, y = data
    classes = None
    if classifies(y):
        classes, y = np.unique(y, return_inverse=True)
    rng = np.random.default_rng(seed)
    when = TABLES[task].time
    order = np.arange(len(y)) if not when else np.lexsort([X[column] for column in reversed(when)])
    order = order if when else rng.permutation(order)
    parts = np.split(order, [int(0.6 * len(y)), int(0.8 * len(y))])
    if classes is not None and len(classes) > 2:
        most_rows = 2 * most_rows // len(classes)  # the iterations of such a task grow more trees
    share = min(0.9 if when else 1.0, most_rows / len(y))
    parts = [rng.permutation(part)[: int(share * len(part))] for part in parts]
    train, validation, test = ((X.iloc[part].reset_index(drop=True), y[part]) for part in parts)
    return Split(train, validation, test, classes)


def fit_model(data: Split, iterations: int, **parameters: Any) -> tuple[Any, float]:
    """Fit an estimator of this library; also return the seconds that it took."""
    kind = AGBMRegressor if data.classes is None else AGBMClassifier
    model = kind(max_iter=iterations, n_iter_no_change=PATIENCE, random_state=0, **parameters)
    began = time.perf_counter()
    model.fit(*data.train, X_val=data.validation[0], y_val=data.validation[1])
    return model, time.perf_counter() - began


def fit_ours(data: Split, iterations: int, **parameters: Any) -> Run:
    """Run this library."""
    model, total = fit_model(data, iterations, **parameters)
    history, best = model.history_, model.best_iteration_
    before = total - history["seconds"][-1]  # checks and bins
    staged = model.staged_predict if data.classes is None else model.staged_predict_proba
    losses = [data.loss(predicted, data.test[1]) for predicted in staged(data.test[0])]
    if best == 0:  # no iteration improves on the initial prediction
        whole = model.predict if data.classes is None else model.predict_proba
        losses = [data.loss(whole(data.test[0]), data.test[1])]
    kept = slice(min(best, 1), best + 1)
    seconds = (before + history["seconds"][kept]).tolist()
    trees = [int(count) for count in history["trees"][kept]]
    return Run(
        trees=trees[-1],
        seconds=seconds[-1],
        validation_loss=float(history["validation_loss"][best]),
        test_loss=losses[-1],
        megabytes=len(pickle.dumps(model)) / 1e6,
        curve=list(zip(trees, seconds, losses, strict=True)),
    )


def of_peer(
    data: Split, total: float, done: int, best: int, predict: Callable[[Any, int], np.ndarray], X: Sequence[Any],
    size: int, trees: int,
) -> Run:  # fmt: skip
    """The run of another library, from `predict(X, iterations)`.

    `done` and `best` are the numbers of iterations in total and kept, `trees` is the number of trees per iteration.
    """
    points = np.unique(np.linspace(1, best, min(best, POINTS)).astype(int)).tolist()
    losses = [data.loss(predict(X[1], m), data.test[1]) for m in points]
    curve = [(trees * m, total * m / done, loss) for m, loss in zip(points, losses, strict=True)]
    validation = data.loss(predict(X[0], best), data.validation[1])
    return Run(trees * best, total * best / done, validation, losses[-1], size / 1e6, curve)


def fit_lightgbm(data: Split, iterations: int, learning_rate: float) -> Run:
    """Run LightGBM with its default trees (31 leaves)."""
    import lightgbm

    kind = "regression" if data.classes is None else "binary" if data.n_outputs == 1 else "multiclass"
    parameters = {"objective": kind, "learning_rate": learning_rate, "verbose": -1}
    if kind == "multiclass":
        parameters["num_class"] = data.n_outputs
    began = time.perf_counter()
    rows = lightgbm.Dataset(*data.train, params=parameters)
    done = [0]
    model = lightgbm.train(
        parameters, rows, iterations, valid_sets=[lightgbm.Dataset(*data.validation, reference=rows)],
        callbacks=[
            lightgbm.early_stopping(PATIENCE, verbose=False), lambda state: done.__setitem__(0, state.iteration + 1)
        ],
    )  # fmt: skip
    total = time.perf_counter() - began

    def predict(X: Any, m: int) -> np.ndarray:
        return np.asarray(model.predict(X, num_iteration=m))

    size = len(model.model_to_string(num_iteration=model.best_iteration))
    X = (data.validation[0], data.test[0])
    return of_peer(data, total, done[0], model.best_iteration, predict, X, size, data.n_outputs)


def fit_xgboost(data: Split, iterations: int, learning_rate: float) -> Run:
    """Run XGBoost with its default trees (depth 6)."""
    import xgboost

    kind = "reg:squarederror" if data.classes is None else "binary:logistic"
    parameters: dict[str, Any] = {"objective": kind, "learning_rate": learning_rate, "tree_method": "hist"}
    if data.n_outputs > 1:
        parameters |= {"objective": "multi:softprob", "num_class": data.n_outputs, "eval_metric": "mlogloss"}
    began = time.perf_counter()
    train = xgboost.QuantileDMatrix(*data.train, enable_categorical=True)
    validation = xgboost.QuantileDMatrix(*data.validation, enable_categorical=True, ref=train)
    model = xgboost.train(
        parameters, train, iterations, evals=[(validation, "validation")], early_stopping_rounds=PATIENCE,
        verbose_eval=False,
    )  # fmt: skip
    total = time.perf_counter() - began
    best = model.best_iteration + 1
    test = xgboost.DMatrix(data.test[0], enable_categorical=True)

    def predict(X: Any, m: int) -> np.ndarray:
        return np.asarray(model.predict(X, iteration_range=(0, m)))

    size = len(model[:best].save_raw("ubj"))
    validation_rows = xgboost.DMatrix(data.validation[0], enable_categorical=True)
    X = (validation_rows, test)
    return of_peer(data, total, model.num_boosted_rounds(), best, predict, X, size, data.n_outputs)


def fit_catboost(data: Split, iterations: int, learning_rate: float) -> Run:
    """Run CatBoost with its default trees (depth 6, one split per level)."""
    import catboost

    names = list(data.train[0].select_dtypes("category"))

    def pool(X: pd.DataFrame, y: np.ndarray | None = None) -> Any:
        text = {name: X[name].astype(object).where(X[name].notna(), "").astype(str) for name in names}
        return catboost.Pool(X.assign(**text), y, cat_features=names)

    kind = "RMSE" if data.classes is None else "Logloss" if data.n_outputs == 1 else "MultiClass"
    began = time.perf_counter()
    model = catboost.CatBoost({
        "loss_function": kind, "iterations": iterations, "learning_rate": learning_rate, "logging_level": "Silent",
        "allow_writing_files": False, "early_stopping_rounds": PATIENCE, "use_best_model": False, "random_seed": 0,
    }).fit(pool(*data.train), eval_set=pool(*data.validation))  # fmt: skip
    total = time.perf_counter() - began
    best = model.get_best_iteration() + 1
    form = "RawFormulaVal" if data.classes is None else "Probability"

    def predict(X: Any, m: int) -> np.ndarray:
        return np.asarray(model.predict(X, prediction_type=form, ntree_end=m))

    size = len(pickle.dumps(model)) * best // model.tree_count_
    X = (pool(data.validation[0]), pool(data.test[0]))
    return of_peer(data, total, model.tree_count_, best, predict, X, size, 1)  # one tree for all classes


Fit = Callable[[Split, int], Run]


def contestants() -> Iterator[tuple[str, float | None, Fit]]:
    """All contestants with their learning rates: baselines are tuned, the default is not."""
    yield DEFAULT, None, fit_ours
    for rate in RATES:
        yield BASELINE, rate, partial(fit_ours, learning_rate=rate, **PLAIN)
    for rate in RATES:
        yield "agbm, plain with l2", rate, partial(fit_ours, learning_rate=rate, method="gbm", second_order=True)
    for rate in (0.1, 0.3, 1.0):  # 1 / rate is the factor of the damping
        newton = {**PLAIN, "method": RegularizedNewton()}
        yield "agbm, regularised Newton", rate, partial(fit_ours, learning_rate=rate, **newton)
    for name, fit in (("LightGBM", fit_lightgbm), ("XGBoost", fit_xgboost), ("CatBoost", fit_catboost)):
        for rate in RATES:
            yield name, rate, partial(fit, learning_rate=rate)


def unit_path(out: Path, task: str, seed: int, who: str, rate: float | None) -> Path:
    """The file of a run."""
    name = f"{task}-{seed}-{who}-{rate}"
    return out / "runs" / ("".join(c if c.isalnum() or c in ".-" else "_" for c in name) + ".json")


def run_all(args: argparse.Namespace) -> None:
    """Do all runs that are not stored yet, one at a time, since their time is measured."""
    (args.out / "runs").mkdir(parents=True, exist_ok=True)
    for seed in range(args.seeds):
        for task in args.tasks:
            data = None
            for who, rate, fit in contestants():
                path = unit_path(args.out, task, seed, who, rate)
                if path.exists() or not any(part in who for part in args.libraries):
                    continue
                data = data or split(args.data, task, seed, args.rows)
                if data is None:
                    print(f"{task}: file not found")
                    break
                try:
                    run = fit(data, args.iterations)
                except ImportError as error:
                    print(f"{who} is skipped: {error}")
                    continue
                path.write_text(json.dumps(asdict(run)))
                print(
                    f"{task}, split {seed}: {who} {rate or ''} loss {run.test_loss:.5f}, {run.trees} trees, "
                    f"{run.seconds:.1f} s", flush=True,
                )  # fmt: skip


class Results:
    """All stored runs."""

    def __init__(self, out: Path, seeds: int) -> None:
        self._out, self._seeds = out, seeds

    def runs(self, task: str, who: str, rate: float | None) -> list[Run]:
        """One run per split; empty if some are missing."""
        paths = [unit_path(self._out, task, seed, who, rate) for seed in range(self._seeds)]
        return [Run(**json.loads(path.read_text())) for path in paths] if all(path.exists() for path in paths) else []

    def tuned(self, task: str, who: str) -> tuple[float | None, list[Run]]:
        """The learning rate with the lowest mean validation loss, and its runs."""
        found = [(rate, self.runs(task, who, rate)) for name, rate, _ in contestants() if name == who]
        found = [(rate, runs) for rate, runs in found if runs]
        return min(found, key=lambda item: mean(item[1], "validation_loss"), default=(None, []))


def mean(runs: Sequence[Run], name: str) -> float:
    """The mean of a field over the splits."""
    return float(np.mean([getattr(run, name) for run in runs]))


def mean_curve(runs: Sequence[Run]) -> np.ndarray:
    """(trees, seconds, test loss), averaged over the splits; a run that has stopped keeps its last values."""
    curves = [np.array(run.curve) for run in runs]
    trees = np.unique(np.concatenate([curve[:, 0] for curve in curves]))
    columns = [[np.interp(trees, curve[:, 0], curve[:, column]) for curve in curves] for column in (1, 2)]
    return np.column_stack([trees, *(np.mean(column, axis=0) for column in columns)])


def reach(runs: Sequence[Run], loss: float) -> tuple[float, float] | None:
    """(trees, seconds) at which the mean curve first reaches a loss, up to the factor CLOSE; None if it never does."""
    curve = mean_curve(runs)
    there = np.flatnonzero(curve[:, 2] <= CLOSE * loss)
    return (float(curve[there[0], 0]), float(curve[there[0], 1])) if len(there) else None


def table(results: Results, tasks: Sequence[str]) -> Iterator[str]:
    """A Markdown table: for each task, all baselines, and what the default needs to reach their loss."""
    yield (
        "| task | method | learning rate | test loss | trees | trees to within 0.1 % | seconds | model size, MB "
        "| default: trees to reach this loss | seconds | final loss of the default / this |"
    )
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    for task in tasks:
        default = results.runs(task, DEFAULT, None)
        if not default:
            continue
        yield f"| {task} | **{DEFAULT}** | | {_row(default)} | | | |"
        for who, rate, runs in baselines(results, task):
            loss = mean(runs, "test_loss")
            reached = reach(default, loss)
            needs = f"{reached[0]:.0f} | {reached[1]:.2f}" if reached else "not reached | "
            ratio = mean(default, "test_loss") / loss
            yield f"| | {who} | {rate:g} | {_row(runs)} | {needs} | {ratio:.4f} |"


def _row(runs: Sequence[Run]) -> str:
    loss, trees, seconds, size = (mean(runs, name) for name in ("test_loss", "trees", "seconds", "megabytes"))
    nearly = reach(runs, loss)
    return f"{loss:.5f} | {trees:.0f} | {nearly[0] if nearly else trees:.0f} | {seconds:.2f} | {size:.2f}"


def baselines(results: Results, task: str) -> Iterator[tuple[str, float, list[Run]]]:
    """Plain boosting with learning rate 0.1, and all baselines with their best learning rate."""
    plain = results.runs(task, BASELINE, 0.1)
    if plain:
        yield f"{BASELINE}, 0.1", 0.1, plain
    for who in dict.fromkeys(name for name, rate, _ in contestants() if rate is not None):
        rate, runs = results.tuned(task, who)
        if rate is not None:
            yield f"{who}, tuned", rate, runs


def summary(results: Results, tasks: Sequence[str]) -> Iterator[str]:
    """A Markdown table of geometric means over the tasks. If a loss is not reached, the ratio counts as at least 1."""
    yield (
        "| compared with | trees to reach its loss / its trees | / its trees to within 0.1 % "
        "| time to reach its loss / its time | final loss / its final loss | as low or lower |"
    )
    yield "|---|---:|---:|---:|---:|---:|"
    rows: dict[str, list[tuple[float, float, float, float, bool]]] = {}
    for task in tasks:
        default = results.runs(task, DEFAULT, None)
        if not default:
            continue
        for who, _, runs in baselines(results, task):
            loss = mean(runs, "test_loss")
            reached, nearly = reach(default, loss), reach(runs, loss)
            trees, seconds = reached or (mean(default, "trees"), mean(default, "seconds"))
            least = 0.0 if reached else 1.0
            own = nearly[0] if nearly else mean(runs, "trees")
            rows.setdefault(who, []).append((
                max(least, trees / mean(runs, "trees")), max(least, trees / own),
                max(least, seconds / mean(runs, "seconds")), mean(default, "test_loss") / loss, reached is not None,
            ))  # fmt: skip
    for who, numbers in rows.items():
        kept, nearly_kept, of_seconds, losses, there = (np.array(column) for column in zip(*numbers, strict=True))
        missed = "" if there.all() else f" ({int(np.sum(~there))} not reached)"
        yield (
            f"| {who} | {gmean(kept):.2f}{missed}, largest {kept.max():.2f} "
            f"| {gmean(nearly_kept):.2f}, largest {nearly_kept.max():.2f} | {gmean(of_seconds):.2f} "
            f"| {gmean(losses):.4f}, largest {losses.max():.4f} | {int(np.sum(losses <= 1))} of {len(there)} |"
        )


def draw(results: Results, tasks: Sequence[str], path: Path) -> None:
    """Plot the test loss against trees and against seconds, one row of two panels per task."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import NullFormatter

    there = [task for task in tasks if results.runs(task, DEFAULT, None)]
    figure, axes = plt.subplots(len(there), 2, figsize=(11, 3.1 * len(there)), squeeze=False, sharey="row")
    for (by_trees, by_seconds), task in zip(axes, there, strict=True):
        lines = [(DEFAULT, results.runs(task, DEFAULT, None))]
        lines += [(f"{who} ({rate:g})", runs) for who, rate, runs in baselines(results, task)]
        lowest = min(mean(runs, "test_loss") for _, runs in lines)
        top, first = 1.12 * lowest, np.full(2, np.inf)  # where the first line enters the panel
        for number, (who, runs) in enumerate(lines):
            curve = mean_curve(runs)
            style = {"linewidth": 2.4, "color": "black", "zorder": 3} if number == 0 else {"linewidth": 1.2}
            by_trees.plot(curve[:, 0], curve[:, 2], label=who, **style)
            by_seconds.plot(curve[:, 1], curve[:, 2], **style)
            first = np.minimum(first, curve[curve[:, 2] <= top, :2].min(axis=0, initial=np.inf))
        by_trees.set(xlabel="trees", ylabel="test loss", ylim=(0.995 * lowest, top), title=task)
        by_seconds.set(xlabel="seconds", title=task)
        for axis, left in zip((by_trees, by_seconds), first, strict=True):
            axis.set_xscale("log")
            axis.set_xlim(left=0.9 * left)
            axis.xaxis.set_major_formatter("{x:g}")
            axis.xaxis.set_minor_formatter(NullFormatter())
            axis.grid(alpha=0.25, which="both")
        by_seconds.legend(*by_trees.get_legend_handles_labels(), fontsize=7, loc="upper right")
    figure.tight_layout()
    figure.savefig(path, dpi=80)


def main() -> None:
    """Run the benchmark and write the tables and the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the data sets")
    parser.add_argument("--out", type=Path, default=Path("out/trees-to-match"))
    parser.add_argument("--rows", type=int, default=10**9, help="maximum rows per task (fewer if it has many classes)")
    parser.add_argument("--iterations", type=int, default=1000, help="maximum number of iterations")
    parser.add_argument("--seeds", type=int, default=3, help="number of splits")
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=TASKS)
    parser.add_argument("--libraries", nargs="*", default=["agbm", "LightGBM", "XGBoost", "CatBoost"])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    run_all(args)
    results = Results(args.out, args.seeds)
    lines = [*table(results, args.tasks), "", *summary(results, args.tasks)]
    (args.out / "results.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    draw(results, args.tasks, args.out / "curves.png")


if __name__ == "__main__":
    main()
