"""The sections about losses against the number of trees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ..experiments.curves import LEVELS, MOMENTA, STEPS, STUMPS, TREES, Curve, Line
from ..experiments.protocol import N_SPLITS
from .document import Figure, Grid, Section
from .wording import number, of, ratio

FIGURE_STEPS = (1.0, 0.1, 0.01)
FIGURE_MOMENTA = (0.1, 0.3, 1.0)
"""Values from the range that the paper tunes in; it does not say which three its figures show."""
USUAL_STEP = 0.1
RISING = 1.05
"""A training loss rises if it ends above its lowest value by this factor."""


@dataclass(frozen=True)
class Curves:
    """All curves, by line."""

    found: Sequence[Curve]

    @cached_property
    def _by_line(self) -> dict[Line, Curve]:
        return {curve.line: curve for curve in self.found}

    @cached_property
    def data_sets(self) -> list[str]:
        """The data sets."""
        return list(dict.fromkeys(curve.line.data for curve in self.found))

    def __call__(
        self, data: str, method: str, step: float | None = USUAL_STEP, gamma: float | None = None, levels: int = LEVELS
    ) -> Curve:
        """The curve of a method."""
        return self._by_line[Line(data, levels, method, None if method == "gbm-search" else step, gamma)]

    def momenta(self, data: str, step: float, method: str = "agbm", levels: int = LEVELS) -> list[Curve]:
        """The curves with all momenta, from the largest."""
        return [self(data, method, step, gamma, levels) for gamma in MOMENTA]


def test_at(curve: Curve, trees: int) -> float:
    """The test loss with a number of trees; that of the last tree if the curve ends before."""
    return [loss for n, loss in zip(curve.trees, curve.test, strict=True) if n <= trees][-1]


def rises(curve: Curve) -> bool:
    """Whether the training loss diverged in some split, or ends above its lowest value."""
    return curve.diverged > 0 or curve.last_train > RISING * min(curve.train)


def sections(curves: Curves) -> list[Section]:
    """Sections for the paper's figures, for the momentum, and for the divergence on housing."""
    return [_a1a(curves, LEVELS), _a1a(curves, 1), _momentum(curves), _housing(curves)]


def _a1a(curves: Curves, levels: int) -> Section:
    lines = [("gbm", None), ("gbm-search", None), ("vagbm", None)]
    lines += [(method, gamma) for method in ("agbm", "agbm-minus") for gamma in FIGURE_MOMENTA]  # type: ignore[misc]
    rows = []
    for method, gamma in lines:
        found = [curves(STUMPS, method, step, gamma, levels) for step in FIGURE_STEPS]
        rows.append([found[0].line.title, *map(_summary, found)])
    header = ["lowest test loss (trees); last training loss", *(f"η = {step:g}" for step in FIGURE_STEPS)]
    trees = "trees with three levels" if levels == LEVELS else "stumps"
    stem = "a1a" if levels == LEVELS else "stumps"
    caption = (
        f"Training and test loss on {STUMPS}, {trees}, mean of {N_SPLITS} splits. Solid: the sign of the text; dashed: "
        "the sign of the released scripts. × marks a run that diverges."
    )
    grid = Grid(f"Logistic loss on {STUMPS}, {trees}, up to {TREES[STUMPS]} trees", header, rows, folded=True)
    title = "Training and test loss" if levels == LEVELS else "Stumps"
    return Section(title, [_a1a_text(curves, levels)], [grid], [Figure(stem, caption)])


def _summary(curve: Curve) -> str:
    diverged = f" ×{curve.diverged}" if curve.diverged else ""
    return f"{curve.lowest_test:.3f} ({curve.trees_at_lowest}); {curve.last_train:.3g}{diverged}"


def _a1a_text(curves: Curves, levels: int) -> str:
    parts = []
    for step in FIGURE_STEPS:
        faster = faster_momenta(curves, STUMPS, step, levels)
        parts.append(f"{of(len(faster), len(MOMENTA))} values of γ at η = {step:g}")
    best = min(curve.lowest_test for curve in curves.momenta(STUMPS, USUAL_STEP, levels=levels))
    against = best / curves(STUMPS, "gbm", USUAL_STEP, levels=levels).lowest_test
    return (
        f"After {TREES[STUMPS]} trees, AGBM's training loss is below GBM's with {', '.join(parts)}. At η = "
        f"{USUAL_STEP}, its lowest test loss with the best of these γ is {ratio(against)} of GBM's."
    )


def faster_momenta(curves: Curves, data: str, step: float, levels: int = LEVELS) -> list[float]:
    """The momenta with which AGBM's training loss ends below GBM's, without diverging."""
    gbm = curves(data, "gbm", step, levels=levels)
    found = curves.momenta(data, step, levels=levels)
    return [g for g, c in zip(MOMENTA, found, strict=True) if c.diverged == 0 and c.last_train < gbm.last_train]


def _momentum(curves: Curves) -> Section:
    header = ["test loss / GBM's", *(f"γ = {gamma:g}" for gamma in MOMENTA), "largest / smallest"]
    grids = []
    for trees in (None, 100):
        rows = []
        for data in curves.data_sets:
            found = sensitivity(curves, data, trees)
            rows.append([data, *(number(x) for x in found), f"{max(found) / min(found):.2f}"])
        how = "with the best number of trees" if trees is None else f"with {trees} trees, without early stopping"
        grids.append(Grid(f"AGBM at η = {USUAL_STEP}, test loss relative to GBM's, each {how}", header, rows))
    worst = {data: _spread(sensitivity(curves, data, None)) for data in curves.data_sets}
    stopped = f"{min(worst.values()):.2f} to {max(worst.values()):.2f}"
    unstopped = [_spread(sensitivity(curves, data, 100)) for data in curves.data_sets]
    text = (
        'The paper says that "the performance of AGBM is not too sensitive to the momentum-parameter γ", which "can be '
        'manually picked to lie between (0, 1)". With the best number of trees for each γ, the largest test loss is '
        f"{stopped} times the smallest. With 100 trees it is {min(unstopped):.2f} to {number(max(unstopped), 2)} "
        f"times.{_best_and_worst(curves)}"
    )
    return Section("Sensitivity to γ", [text], grids)


def _best_and_worst(curves: Curves) -> str:
    """A sentence about a momentum that is the best on some data sets and the worst on others, if there is one."""
    found = {data: sensitivity(curves, data, 100) for data in curves.data_sets}
    for k, gamma in enumerate(MOMENTA):
        best = [data for data, losses in found.items() if losses[k] == min(losses)]
        worst = [data for data, losses in found.items() if losses[k] == max(losses)]
        if best and worst:
            return f" γ = {gamma:g} is the best of these values on {', '.join(best)}, the worst on {', '.join(worst)}."
    return ""


def sensitivity(curves: Curves, data: str, trees: int | None, momenta: Sequence[float] = MOMENTA) -> list[float]:
    """AGBM's test loss relative to GBM's for some momenta, with some number of trees or with the best one."""

    def loss(curve: Curve) -> float:
        return curve.lowest_test if trees is None else test_at(curve, trees)

    base = loss(curves(data, "gbm"))
    return [loss(curves(data, "agbm", USUAL_STEP, gamma)) / base for gamma in momenta]


def _spread(values: Sequence[float]) -> float:
    return max(values) / min(values)


def _housing(curves: Curves) -> Section:
    data, steps = "housing", STEPS[:4]
    lines: list[tuple[str, float | None]] = [("gbm", None), ("gbm-search", None), ("vagbm", None)]
    lines += [("agbm", gamma) for gamma in MOMENTA]
    lines += [("agbm-minus", gamma) for gamma in (1.0, 0.1, 0.01)]
    rows = []
    for method, gamma in lines:
        found = [curves(data, method, step, gamma) for step in steps]
        rows.append([found[0].line.title, *map(_ending, found)])
    header = ["last training loss", *(f"η = {step:g}" for step in steps)]
    caption = (
        f"Squared error on {data}, up to {TREES[data]} trees. ×{N_SPLITS} means that all {N_SPLITS} splits diverged: "
        "their training loss grew to a hundred times its lowest value"
    )
    quiet = [step for step in steps if any(not rises(c) for c in curves.momenta(data, step))]
    converging = f"only at η = {', '.join(f'{step:g}' for step in quiet)}" if quiet else "at no step"
    text = (
        "VAGBM behaves as the paper says: its loss falls faster at first, then rises and diverges, later for smaller "
        'steps. But "our AGBM with proper parameter γ converges" is true '
        f"{converging} for the values of γ down to {MOMENTA[-1]:g}. The guarantee that AGBM always converges is for "
        "the far smaller γ of [Theorem 4.1](#theorem-41). With the sign of the released scripts, AGBM with γ ≤ 0.1 "
        f"{'never' if not _minus_rises(curves, steps) else 'sometimes'} diverges here."
    )
    figure = Figure(
        "vanilla", f"Training and test loss on {data}, mean of {N_SPLITS} splits; × marks a run that diverges."
    )
    return Section("VAGBM and AGBM on housing", [text], [Grid(caption, header, rows)], [figure])


def _minus_rises(curves: Curves, steps: Sequence[float]) -> bool:
    return any(curves("housing", "agbm-minus", step, gamma).diverged for step in steps for gamma in (0.1, 0.01))


def _ending(curve: Curve) -> str:
    if curve.diverged == N_SPLITS:
        return f"×{curve.diverged}"
    diverged = f" ×{curve.diverged}" if curve.diverged else ""
    return f"{number(curve.last_train)}{diverged}{', rising' if rises(curve) and not curve.diverged else ''}"


def best_of_momenta(curves: Curves, step: float = USUAL_STEP) -> list[float]:
    """By data set: the lowest test loss of AGBM with its best momentum, relative to GBM's."""
    return [
        min(curve.lowest_test for curve in curves.momenta(data, step)) / curves(data, "gbm", step).lowest_test
        for data in curves.data_sets
    ]


def earlier(curves: Curves, step: float = USUAL_STEP, gamma: float = 0.1) -> tuple[int, int]:
    """Number of data sets on which AGBM's test loss is lowest with fewer trees than GBM's, and number of data sets."""
    found = [
        curves(data, "agbm", step, gamma).trees_at_lowest < curves(data, "gbm", step).trees_at_lowest
        for data in curves.data_sets
    ]
    return sum(found), len(found)


def trees_for_similar_loss(curves: Curves, step: float = USUAL_STEP, within: float = 1.02) -> list[tuple[float, float]]:
    """By data set: trees of AGBM with its best momentum, and of GBM, until a multiple of GBM's lowest test loss."""

    def reached(curve: Curve, loss: float) -> float:
        return next((n for n, test in zip(curve.trees, curve.test, strict=True) if test <= loss), math.inf)

    found = []
    for data in curves.data_sets:
        gbm = curves(data, "gbm", step)
        goal = within * gbm.lowest_test
        found.append((min(reached(curve, goal) for curve in curves.momenta(data, step)), reached(gbm, goal)))
    return found
