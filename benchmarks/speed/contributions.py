"""Time to compute contributions of features: agbm, LightGBM's `pred_contrib` and XGBoost's `pred_contribs`.

All three compute path-dependent Shapley values, each for the same number of its own trees with the same depth.
`--what interactions` compares `predict_interactions` with XGBoost's `pred_interactions`, and `--what background`
contributions relative to 100 rows with shap.TreeExplainer on the same trees. Prints a table; `python -m
benchmarks.speed.contributions --help` lists the options.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np

from agbm.export import to_shap
from benchmarks.libraries import LightGBM, Ours, Setting, XGBoost
from benchmarks.shared.measure import Turn, clocked, compare, machine, take_turns

TRAINING_ROWS = 50_000
FEATURES = 28
BACKGROUND_ROWS = 100
# (trees, depth, rows)
SIZES = ((100, 6, 10_000), (500, 6, 10_000), (100, 6, 50_000), (100, 10, 2_000), (500, 6, 1))


def table_of(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal features, and a target that depends on ten of them, with noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, FEATURES))
    y = X[:, 0] * X[:, 1] + np.sin(3.0 * X[:, 2]) + 0.3 * X[:, 3:10].sum(axis=1) + 0.1 * rng.standard_normal(n_rows)
    return X, y


def contributions_of(X: np.ndarray, y: np.ndarray, setting: Setting) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """For each installed library, a function from rows to contributions (row, feature + 1)."""
    ours = Ours().fit(X, y, setting)
    found: dict[str, Callable[[np.ndarray], np.ndarray]] = {"agbm": ours.predict_contributions}
    try:
        booster = LightGBM().fit(X, y, setting)
        found["LightGBM"] = lambda rows: np.asarray(
            booster.predict(rows, pred_contrib=True, num_threads=setting.threads)
        )
    except ImportError:
        print("LightGBM is not installed.")
    try:
        library = XGBoost()
        model = library.fit(X, y, setting)
        found["XGBoost"] = lambda rows: np.asarray(
            model.predict(library.api.DMatrix(rows, nthread=setting.threads), pred_contribs=True)
        )
    except ImportError:
        print("XGBoost is not installed.")
    return found


def interactions_of(X: np.ndarray, y: np.ndarray, setting: Setting) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """Functions from rows to interactions (row, feature + 1, feature + 1)."""
    library = XGBoost()
    model = library.fit(X, y, setting)
    return {
        "agbm": Ours().fit(X, y, setting).predict_interactions,
        "XGBoost": lambda rows: np.asarray(
            model.predict(library.api.DMatrix(rows, nthread=setting.threads), pred_interactions=True)
        ),
    }


def relative_of(X: np.ndarray, y: np.ndarray, setting: Setting) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """Functions from rows to contributions relative to the last rows of X."""
    import shap

    model, background = Ours().fit(X, y, setting), X[-BACKGROUND_ROWS:]
    theirs = shap.TreeExplainer(to_shap(model), background, feature_perturbation="interventional")
    return {"agbm": partial(model.predict_contributions, background=background), "shap": theirs.shap_values}


WHAT = {"contributions": contributions_of, "interactions": interactions_of, "background": relative_of}


def main() -> None:
    """Measure all sizes with all numbers of threads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--what", choices=WHAT, default="contributions")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="+", default=range(len(SIZES)), help=f"indices into {SIZES}")
    parser.add_argument("--rows", type=int, help="instead of those of the sizes")
    asked = parser.parse_args()
    print(*(f"{name}: {fact}" for name, fact in machine().items()), sep="\n")
    print("| trees | depth | rows | threads | agbm, ms | other | its ms | ratio |\n" + "|---:" * 5 + "|---|---:|---:|")
    X, y = table_of(TRAINING_ROWS)
    for size in asked.sizes:
        trees, depth, n_rows = SIZES[size]
        n_rows = asked.rows or n_rows
        for threads in asked.threads:
            functions = WHAT[asked.what](X, y, Setting(threads, depth=depth, trees=trees))
            turns: dict[str, Turn] = {name: clocked(partial(of, X[:n_rows])) for name, of in functions.items()}
            seconds = take_turns(turns, asked.rounds)
            for r in compare("contributions", "", "agbm", seconds, {}, {}):
                print(
                    f"| {trees} | {depth} | {n_rows:,} | {threads} | {r.value:.3g} | {r.against} | {r.reference:.3g} "
                    f"| {r.ratio:.3f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
