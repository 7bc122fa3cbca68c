"""What each part of the default is worth: one part is changed at a time, on the tables of suite.py.

All settings of agbm are fitted under the protocol `early stopping` of suite.py. The page has losses, trees and seconds
relative to the default. An interrupted run can be resumed.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agbm.methods import AGBM, VAGBM, Fading
from benchmarks.quality.contestants import EARLY_STOPPING, PLAIN, crossing, ours
from benchmarks.quality.report import METRICS, Record, Results, geometric_mean, ratios
from benchmarks.quality.suite import Benchmark
from benchmarks.shared.document import table
from benchmarks.shared.records import read

DEFAULT = "the default"
SAME_TREES: dict[str, Any] = {"n_members": 5, "colsample_bynode": 0.5}
"""The trees of the default, for the methods of the paper."""
AS_DEFAULT = Fading(entry=9.3)
"""Weights with which VAGBM takes residuals at the same points as the default."""
SETTINGS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "one member": {"n_members": 1},
    "ten members": {"n_members": 10},
    "a fifth of the rows held out by each member": {"validation_fraction": 0.2},
    "all features at every node": {"colsample_bynode": 1.0},
    "8 leaves": {"max_leaf_nodes": 8},
    "31 leaves": {"max_leaf_nodes": 31},
    "63 leaves": {"max_leaf_nodes": 63},
    "depth 5, level by level": {"max_depth": 5},
    "l2 of 1": {"l2_regularization": 1.0},
    "127 bins": {"max_bins": 127},
    "a tree per class": {"multi_strategy": "one_output_per_tree"},
    "no crosses": {"views": None},
    "0.8 of the rows per tree": {"subsample": 0.8},
    "no growth": {"method": Fading(growth=0.0)},
    "no look-ahead": {"method": Fading(look_ahead=0.0)},
    "fade 0.2": {"method": Fading(fade=0.2)},
    "learning rate 0.05": {"learning_rate": 0.05},
    "plain boosting, 0.1": {**PLAIN, "n_members": 5},
    "plain boosting, 0.05": {**PLAIN, "n_members": 5, "learning_rate": 0.05},
    "gradient leaves": {"method": Fading(second_order=False)},
    "VAGBM": {**SAME_TREES, "method": crossing(VAGBM)(momentum=AS_DEFAULT, second_order=True)},
    "AGBM, correction 0.5": {
        **SAME_TREES,
        "method": crossing(AGBM)(momentum=AS_DEFAULT, correction=0.5, shared_structure=True, second_order=True),
    },
}


def rows_of(results: Results) -> list[list[str]]:
    """A row per setting: losses by kind of task, the worst set, trees and seconds, relative to the default."""
    rows = []
    for name in (name for name in SETTINGS if name in results.contestants):
        losses = ratios(results.of(name, "loss"), results.of(DEFAULT, "loss"))
        worst = max(losses, key=lambda of: losses[of])
        by_kind = [[r for of, r in losses.items() if results.kinds[of] == kind] for kind in METRICS]
        figures = [geometric_mean(part) for part in (list(losses.values()), *by_kind)]
        sizes = [
            geometric_mean(list(ratios(results.of(name, field), results.of(DEFAULT, field)).values()))
            for field in ("trees", "seconds")
        ]
        rows.append([
            name, *(f"{figure:.4f}" for figure in figures), f"{losses[worst]:.3f} ({worst})",
            *(f"{size:.2f}" for size in sizes),
        ])  # fmt: skip
    return rows


def page(results: Results, rows: int) -> Sequence[str]:
    """The lines of the page."""
    heads = ["", "test loss", *METRICS, "worst set", "trees", "seconds"]
    text = f"{len(results.kinds)} sets, at most {rows:,} training rows. Geometric means relative to the default."
    return [text, "", *table(heads, rows_of(results))]


def arguments() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with suite/ and large/")
    parser.add_argument("--out", type=Path, default=Path("out/ablation"))
    parser.add_argument("--only", nargs="*", help="names of tasks (default: all)")
    parser.add_argument("--settings", nargs="*", choices=SETTINGS, help="beside the default (default: all)")
    parser.add_argument("--seeds", type=int, default=1, help="number of splits")
    parser.add_argument("--rows", type=int, default=5_000, help="maximum number of training rows")
    parser.add_argument("--iterations", type=int, default=2_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.set_defaults(protocols=[EARLY_STOPPING], retry=False, processes=1)
    return parser.parse_args()


def main() -> None:
    """Measure what is missing and write the page."""
    args = arguments()
    warnings.simplefilter("ignore")
    names = list(SETTINGS) if args.settings is None else [DEFAULT, *args.settings]
    Benchmark(args, [ours(name, (EARLY_STOPPING,), **SETTINGS[name]) for name in names]).run()
    results = Results(read(args.out / "results.jsonl", Record), EARLY_STOPPING, args.rows, args.iterations)
    lines = page(results, args.rows)
    (args.out / "ablation.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
