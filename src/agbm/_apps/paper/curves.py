"""Losses against the number of trees: the paper's figures, for both signs of the correction."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning

from ...methods import AGBM, GBM, VAGBM
from .data_sets import DataSet
from .protocol import FIXED, N_SPLITS, diverged, estimator_of, split

MOMENTA = (0.1, 0.3, 1.0)
"""Values from the range that the paper tunes in; the paper does not say which three its figures show."""
WIDER_MOMENTA = (0.01, 0.1, 1.0)
"""A wider range, to see which values converge."""
SIGNS = {1.0: "", -1.0: ", sign of the released code"}


class Line(NamedTuple):
    """A line of a panel: its label and the parameters of the estimator."""

    title: str
    parameters: Mapping[str, Any]


GBM_LINE = Line("GBM", {"method": GBM()})
VAGBM_LINE = Line("VAGBM", {"method": VAGBM()})


def agbm_lines(momenta: Sequence[float]) -> tuple[Line, ...]:
    """Lines of AGBM with the given momenta, for both signs of the correction."""
    return tuple(
        Line(f"AGBM, γ = {gamma:g}{of_sign}", {"method": AGBM(momentum=gamma, correction=sign)})
        for sign, of_sign in SIGNS.items()
        for gamma in momenta
    )


@dataclass(frozen=True)
class Plan:
    """The plan of a figure: one column of panels per step size, training loss above test loss."""

    name: str
    title: str
    data: str
    levels: int
    steps: tuple[float, ...]
    lines: tuple[Line, ...]
    trees: int


PLANS = (
    Plan("a1a", "Logistic loss on a1a", "a1a", 3, (1.0, 0.1, 0.01), (GBM_LINE, *agbm_lines(MOMENTA)), 200),
    Plan("stumps", "Logistic loss on a1a, stumps", "a1a", 1, (1.0, 0.1, 0.01), (GBM_LINE, *agbm_lines(MOMENTA)), 200),
    Plan(
        "vanilla",
        "Squared error on housing",
        "housing",
        3,
        (1.0, 0.3, 0.1, 0.03),
        (VAGBM_LINE, GBM_LINE, *agbm_lines(WIDER_MOMENTA)),
        600,
    ),
)


@dataclass(frozen=True)
class Curve:
    """The data of a line: mean losses over the splits after each iteration, until the first split diverged."""

    figure: str
    step: float
    title: str
    trees: list[int]
    train: list[float]
    test: list[float]
    diverged: int
    """Number of splits that diverged."""
    lowest_test: float
    """The smallest mean test loss."""
    trees_at_lowest: int


def run(
    plans: Sequence[Plan],
    data_sets: Mapping[str, DataSet],
    seed: int,
    n_jobs: int,
    progress: Callable[[int, int], None],
) -> list[Curve]:
    """Compute all curves of the figures. `progress` is called with the number of curves done and in total."""
    wanted = [(plan, step, line) for plan in plans for step in plan.steps for line in plan.lines]
    progress(0, len(wanted))
    work = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(curve)(plan, data_sets[plan.data], step, line, seed) for plan, step, line in wanted
    )
    found = []
    for one in work:
        found.append(one)
        progress(len(found), len(wanted))
    return found


def curve(plan: Plan, data: DataSet, step: float, line: Line, seed: int) -> Curve:
    """Compute one line over all splits."""
    runs = [_run(plan, data, step, line, number, seed) for number in range(N_SPLITS)]
    length = min(len(run["trees"]) for run in runs)
    mean = {name: np.mean([run[name][:length] for run in runs], axis=0) for name in ("train_loss", "validation_loss")}
    trees = runs[0]["trees"][:length]
    best = int(np.argmin(mean["validation_loss"]))
    return Curve(
        plan.name, step, line.title, [int(n) for n in trees], mean["train_loss"].tolist(),
        mean["validation_loss"].tolist(), sum(run["diverged"] for run in runs),
        float(mean["validation_loss"][best]), int(trees[best]),
    )  # fmt: skip


def _run(plan: Plan, data: DataSet, step: float, line: Line, number: int, seed: int) -> dict[str, Any]:
    train, test = split(data, number, seed)
    asked = {"learning_rate": step, "max_depth": plan.levels, "early_stopping": False}
    model = estimator_of(data, {**FIXED, **line.parameters, **asked}, plan.trees, seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(data.X[train], data.y[train], X_val=data.X[test], y_val=data.y[test])
    finite = np.isfinite(model.history_["train_loss"]) & np.isfinite(model.history_["validation_loss"])
    end = len(finite) if finite.all() else int(np.argmin(finite))
    history = {name: values[:end] for name, values in model.history_.items()}
    return {**history, "diverged": diverged(caught)}
