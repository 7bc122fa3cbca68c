"""Ablation of the default: one part is changed at a time, on the tasks of trees_to_match.py.

The table shows geometric means over the tasks of the final test loss, and of the number of trees to reach the test loss
of plain boosting with learning rate 0.1 and early stopping, both relative to those of the default.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from scipy.stats import gmean

from agbm.methods import AGBM, VAGBM, Fading
from trees_to_match import PLAIN, TASKS, Fit, Run, Split, fit_model, fit_ours, mean, reach, split

DEFAULT, REFERENCE = "the default", "plain boosting, 0.1"
FINISHED = "the default, then plain boosting, 0.03"


def with_finish(data: Split, iterations: int) -> Run:
    """The default, continued by plain boosting with small steps."""
    default = fit_ours(data, iterations)
    model, _ = fit_model(data, iterations)  # fitted again, because runs do not keep their models
    end = fit_ours(data, iterations, init=model, **{**PLAIN, "learning_rate": 0.03})
    after = [(default.trees + trees, default.seconds + seconds, loss) for trees, seconds, loss in end.curve]
    return replace(end, trees=after[-1][0], seconds=after[-1][1], curve=default.curve + after)


# The default's weights for VAGBM and AGBM. With this entry weight, their g is the point at which the default takes
# residuals.
AHEAD = Fading(entry=9.3)


def newton(method: Any, **parameters: Any) -> dict[str, Any]:
    """Another method with the leaves of the default."""
    return {"method": method, "second_order": True, **parameters}


VARIANTS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "plain boosting, 0.1, with l2 (no entry weight, no growth)": newton("gbm"),
    "no growth": {"method": Fading(growth=0.0)},
    "fade 0.2 instead of 0.4": {"method": Fading(fade=0.2)},
    "no look-ahead": {"method": Fading(look_ahead=0.0)},
    "no look-ahead, entry 2.7": {"method": Fading(look_ahead=0.0, entry=2.7)},
    "VAGBM": newton(VAGBM(momentum=AHEAD)),
    "depth 6 and 20 rows per leaf on all data": {"max_depth": 6, "min_samples_leaf": 20},
    "no l2": {"l2_regularization": 0.0},
    "0.8 of the columns": {"colsample_bytree": 0.8},
    "0.8 of the rows": {"subsample": 0.8},
    "gradient leaves": {"second_order": False},
    "AGBM, correction 0.5, shared structure": newton(AGBM(momentum=AHEAD, correction=0.5, shared_structure=True)),
    "AGBM, correction 0.5, two trees": newton(AGBM(momentum=AHEAD, correction=0.5)),
    "AGBM, correction -0.5, shared structure": newton(AGBM(momentum=AHEAD, correction=-0.5, shared_structure=True)),
    **{
        f"VAGBM, restart {when}": newton(AGBM(momentum=AHEAD, correction=0.0, shared_structure=True, restart=rule))
        for when, rule in (
            ("when training loss rises", "loss_rise"),
            ("by the gradient test", "gradient"),
            ("when validation loss rises", "validation_rise"),
        )
    },
    "VAGBM, the paper's schedule, gamma 0.02, step 0.3": newton(VAGBM(momentum=0.02), learning_rate=0.3),
    "AGBM, correction 0.5, shared structure, gamma 0.02, step 0.3": newton(
        AGBM(momentum=0.02, correction=0.5, shared_structure=True), learning_rate=0.3
    ),
    "Algorithm 2 with Newton leaves and l2, gamma 0.1, step 0.1": newton(AGBM()),
    REFERENCE: {**PLAIN, "learning_rate": 0.1},
}


def variants() -> Iterator[tuple[str, Fit]]:
    """All variants, by name."""
    for name, parameters in VARIANTS.items():
        yield name, partial(fit_ours, **parameters)
    yield FINISHED, with_finish


def runs_of(args: argparse.Namespace) -> dict[str, dict[str, list[Run]]]:
    """Runs by variant and task, one per split. Runs that are already in files are not repeated."""
    args.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, list[Run]]] = {name: {} for name, _ in variants()}
    for task in args.tasks:
        for seed in range(args.seeds):
            data = split(args.data, task, seed, args.rows)
            if data is None:
                print(f"{task}: file not found")
                break
            for name, fit in variants():
                path = args.out / f"{TASKS.index(task)}-{seed}-{crc32(name.encode())}.json"
                if not path.exists():
                    path.write_text(json.dumps(asdict(fit(data, args.iterations))))
                found[name].setdefault(task, []).append(Run(**json.loads(path.read_text())))
            print(f"{task}, split {seed}: done", flush=True)
    return found


def table(found: dict[str, dict[str, list[Run]]]) -> Iterator[str]:
    """A Markdown table with one row per variant."""
    yield "| | final test loss | largest | trees to reach plain boosting's loss | not reached | total time |"
    yield "|---|---:|---:|---:|---:|---:|"
    tasks = list(found[DEFAULT])
    aims = {task: mean(found[REFERENCE][task], "test_loss") for task in tasks}

    def trees(name: str, task: str) -> float | None:
        reached = reach(found[name][task], aims[task])
        return None if reached is None else reached[0]

    for name, of_task in found.items():
        losses = np.array([mean(of_task[t], "test_loss") / mean(found[DEFAULT][t], "test_loss") for t in tasks])
        seconds = gmean([mean(of_task[t], "seconds") / mean(found[DEFAULT][t], "seconds") for t in tasks])
        needs = [(trees(name, task), trees(DEFAULT, task)) for task in tasks]
        # A variant that does not reach the loss counts as if it needed twice the trees.
        ratios = [2.0 if own is None else own / default for own, default in needs if default is not None]
        yield (
            f"| {name} | {gmean(losses):.4f} | {losses.max():.4f} | {gmean(ratios):.2f} "
            f"| {sum(own is None for own, _ in needs)} | {seconds:.2f} |"
        )


def main() -> None:
    """Run all variants and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the data sets")
    parser.add_argument("--out", type=Path, default=Path("out/ablation"))
    parser.add_argument("--rows", type=int, default=50_000, help="maximum rows per task (fewer if it has many classes)")
    parser.add_argument("--iterations", type=int, default=600, help="maximum number of iterations")
    parser.add_argument("--seeds", type=int, default=3, help="number of splits")
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=TASKS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = list(table(runs_of(args)))
    (args.out / "ablation.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
