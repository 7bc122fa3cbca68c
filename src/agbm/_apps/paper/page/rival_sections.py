"""The section that compares the methods with other proposals since 2018."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain

from ..experiments.rival_comparison import LEVEL, Comparison, Versus, holm
from ..experiments.rival_methods import BOULEVARD_DROPOUT, DEFAULT, DROPOUT, GPBOOST, GPBOOST_PLAIN, PLAIN, RIVALS
from ..experiments.rival_roles import CHECKPOINTS, CLOCK_RATE, CLOCK_TREES, RATES, Run
from ..experiments.rivals import GPBOOST_LEARNER, learners_of
from ..experiments.tables import MOST_ROWS
from .document import Figure, Grid, Section
from .wording import SPACE, number, of, ratio, span

TREE_BUDGETS = (25, 50, 100, 200, 400)
TIME_BUDGETS = (0.25, 0.5, 1.0, 2.0)
KINDS = {"binary": "binary classification", "regression": "regression"}
GOALS = (0.06, 0.03)
"""Rates of plain boosting whose losses others try to reach."""
NEAR = 1.01
"""A loss near another is at most this multiple of it."""
MOMENTUM = ("vagbm", "vagbm-0.1", "agbm", "agbmr", "agb", "hybrid")
"""The methods with momentum, without the default."""
FEWER = 0.8
"""A number of trees is called fewer below this multiple."""
_STARRED = f"highlighted: p below {LEVEL:g} after Holm's correction for the number of methods"


def of_rivals(runs: Sequence[Run]) -> list[Section]:
    """The section, with one subsection per kind of trees."""
    comparisons = [Comparison(learner, runs) for learner in learners_of(runs)]
    return [
        Section(
            "Other accelerations and regularisations",
            [_question(), in_short(comparisons), *chain.from_iterable(map(verdicts, comparisons))],
            figures=_figures(),
            subsections=[_protocol(comparisons[0]), *map(_of_learner, comparisons)],
        )
    ]  # fmt: skip


def _question() -> str:
    return (
        "What has been proposed to accelerate or to regularise boosting, most of it since 2018, with the same trees on "
        "the same rows: does a method reach a lower loss than plain boosting, or the same loss with fewer trees, and "
        "should it be the default? Ratios are geometric means over tables, and below 1 where the method is better. "
        f"Significant means a p-value of Wilcoxon's signed-rank test over tables below {LEVEL:g} after Holm's "
        "correction within a column of methods."
    )


# What the numbers say


def in_short(comparisons: Sequence[Comparison]) -> str:
    """Where momentum as published pays, and where it does not, with all kinds of trees."""
    few, small = TREE_BUDGETS[0], RATES[0]

    def ratios(method: str, versus: Callable[[Comparison], Callable[[str], Versus]]) -> list[Versus]:
        return [versus(comparison)(method) for comparison in comparisons]

    early = {m: ratios(m, lambda c: partial(c.after_trees, trees=few)) for m in MOMENTUM}
    slow = {m: ratios(m, lambda c: partial(c.single, rate=small)) for m in MOMENTUM}
    sooner = [f"{RIVALS[m].title}: {_losses(found)}" for m, found in early.items() if max(v.test for v in found) < 1.0]
    frugal = [
        f"{RIVALS[m].title}: {span([v.trees for v in found])} of the trees for {_losses(found)}"
        for m, found in slow.items()
        if max(v.test for v in found) <= NEAR and max(v.trees for v in found) < FEWER
    ]
    rates = " and ".join(f"{comparison.chosen_rate(PLAIN):g}" for comparison in comparisons)
    larger = [comparison.single(PLAIN, comparison.chosen_rate(PLAIN)) for comparison in comparisons]
    chosen = [v for m in MOMENTUM for v in ratios(m, lambda c: c.best)]
    nothing = "no method with both kinds of trees"
    pays = "is below plain boosting's for some" if min(v.test for v in chosen) < 1.0 else "is higher for all"
    return (
        f"**Momentum as published.** After {few} trees, below plain boosting: {_listed(sooner) or nothing}. With a "
        f"small rate for all, {small:g}, fewer trees for about the same loss: {_listed(frugal) or nothing}; a larger "
        f"rate of plain boosting ({rates}) takes {span([v.trees for v in larger])} of the trees for {_losses(larger)}. "
        f"With the best rate of each table the loss {pays}: {_losses(chosen)}."
    )


def _losses(found: Sequence[Versus]) -> str:
    return f"{ratio(min(v.test for v in found))} to {ratio(max(v.test for v in found))} of the loss"


def verdicts(comparison: Comparison) -> list[str]:
    """What was found with one kind of trees."""
    trees = _trees(comparison)
    quality = " ".join(part(comparison) for part in (_on_quality, _on_kinds, _on_budgets))
    return [
        f"**{trees}: lower loss?** {quality}",
        f"**{trees}: fewer trees?** {_on_trees(comparison)}",
        f"**{trees}: a better default?** {_on_default(comparison)}",
    ]


def _trees(comparison: Comparison) -> str:
    """The kind of trees, as a title."""
    learner = comparison.learner
    return f"Trees {'with' if learner[0].isdigit() else 'of'} {learner}"


def _on_quality(comparison: Comparison) -> str:
    judged = _against(comparison, comparison.judged)
    best = _against(comparison, comparison.best)
    return (
        f"With one learning rate for all tables, chosen on half of them, {_significantly(judged)}. With the best of "
        f"{len(RATES)} rates for each table, {_significantly(best)}."
    )


def _on_kinds(comparison: Comparison) -> str:
    parts = []
    for kind, name in KINDS.items():
        found = _against(comparison, partial(comparison.best, kind=kind))
        better = _listed([f"{RIVALS[m].title} ({ratio(found[m].test)})" for m in _significant(found, better=True)])
        parts.append(f"{better or 'none'} for {name}")
    return f"By kind of labels, significantly better with the best rate: {'; '.join(parts)}."


def _on_budgets(comparison: Comparison) -> str:
    budgets = {f"after {n} trees": partial(comparison.after_trees, trees=n) for n in TREE_BUDGETS}
    budgets |= {f"in time {t:g}": partial(comparison.after_time, time=t) for t in TIME_BUDGETS}
    found = {name: _significant(_against(comparison, versus), better=True) for name, versus in budgets.items()}
    better = [f"{_names(methods)} {name}" for name, methods in found.items() if methods]
    return f"Significantly better at equal budgets of trees or of time: {'; '.join(better) or 'none'}."


def _on_trees(comparison: Comparison) -> str:
    """Which methods need fewer trees for about the same loss, and what the most frugal one costs."""
    best = _against(comparison, comparison.best)
    frugal = {m: v for m, v in best.items() if v.test <= NEAR and v.trees < FEWER}
    least = min(best, key=lambda method: best[method].trees if _everywhere(method) else math.inf)
    title, cost = RIVALS[least].title, best[least]
    return (
        f"With less than {FEWER:g} of the trees and at most {NEAR - 1:.0%} more loss than plain boosting: "
        f"{_listed(_costs(frugal)) or 'none'}. The fewest trees are those of {title}: {number(cost.trees, 2)} of plain "
        f"boosting's, with {ratio(cost.test)} of its loss."
    )


def _everywhere(method: str) -> bool:
    """Whether a method is for all kinds of tables."""
    return len(RIVALS[method].kinds) > 1


def _costs(found: Mapping[str, Versus]) -> list[str]:
    return [
        f"{RIVALS[m].title} ({number(v.trees, 2)} of the trees, {ratio(v.test)} of the loss)" for m, v in found.items()
    ]


def _on_default(comparison: Comparison) -> str:
    others = [method for method in comparison.methods if method != DEFAULT]
    found = [{method: versus(method, DEFAULT) for method in others} for versus in (comparison.judged, comparison.best)]
    better = sorted({name for of_role in found for name in _significant(of_role, better=True)}, key=others.index)
    if not better:
        return f"No method is significantly better than {RIVALS[DEFAULT].title} in either role."
    return f"Significantly better than {RIVALS[DEFAULT].title} in one of these roles: {_names(better)}."


def _against(comparison: Comparison, versus: Callable[[str], Versus]) -> dict[str, Versus]:
    return {method: versus(method) for method in comparison.methods if method != PLAIN}


def _significant(found: Mapping[str, Versus], *, better: bool) -> list[str]:
    adjusted = holm({method: versus.p for method, versus in found.items()})
    return [m for m, versus in found.items() if adjusted[m] < LEVEL and (versus.test < 1.0) == better]


def _significantly(found: Mapping[str, Versus]) -> str:
    better, worse = (_significant(found, better=side) for side in (True, False))
    best = _listed([f"{RIVALS[m].title} ({ratio(found[m].test)})" for m in better])
    losses = [found[m].test for m in worse]
    by = f" (ratios {ratio(min(losses))} to {ratio(max(losses))})" if worse else ""
    verb = "are" if len(better) > 1 else "is"
    return (
        f"{best or 'no method'} {verb} significantly better than plain boosting, and {of(len(worse), len(found))} "
        f"methods are significantly worse{by}"
    )


def _names(methods: Sequence[str]) -> str:
    return _listed([RIVALS[method].title for method in methods])


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


# How it was measured


def _protocol(comparison: Comparison) -> Section:
    choosing, judging = comparison.halves
    training, validation, test = MOST_ROWS
    return Section(
        "Protocol of this comparison",
        [
            f"{len(comparison.kinds)} tables, with at most {training:,} training, {validation:,} validation and "
            f"{test:,} test rows, which are 60%, 20% and 20% of the rows in random order. Losses are means over the "
            "splits, log losses for two classes and squared errors for numbers. Every method grows at most "
            f"{CHECKPOINTS[-1]} trees with each of {len(RATES)} rates ({', '.join(f'{rate:g}' for rate in RATES)}), "
            "with Newton leaves, an l2 of 1, at least 20 rows per leaf and 255 bins. The model is that of the "
            "iteration with the lowest validation loss. Methods with two trees per iteration make half of the "
            "iterations. Time is processor time of the algorithm, without binning and without the test loss, on one "
            "thread.",
            f"A rate is chosen on {len(choosing)} tables ({', '.join(choosing)}) and evaluated on the other "
            f"{len(judging)}. The best rate of each table is that with the lowest validation loss, which takes "
            f"{len(RATES)} fits.",
            "The rates of Boulevard are its λ; its trees see 80% of the rows, and its dropout probability is "
            f"{BOULEVARD_DROPOUT:g}. It is defined for the squared error only, for which gradient-regularised Newton "
            f"equals plain boosting. DART drops each tree with probability {DROPOUT:g}, with the weights of XGBoost; "
            "this library's dropout has those of the original paper, times the rate. AGB differs from VAGBM with γ = 1 "
            "in the sequence θ only. AGBM has γ = 0.1.",
            "Home advantages: the loops are this library's own, and the numbers of its default were once chosen on "
            "eight tasks from seven data sets, and its other rules on a suite that most of these tables belong to. "
            "None of the other methods was tuned beyond its rate. The hybrid of Schalk et al. has a tiny γ and linear "
            "base learners.",
            f"{_capped(comparison)} Methods for one kind of labels have about half of the tables: the losses of "
            "Boulevard are far higher, but on too few tables for significance with a chosen rate.",
        ],
        [Grid("Methods", ["method", "proposed by"], [[RIVALS[m].title, RIVALS[m].source] for m in comparison.methods])],
    )


def _capped(comparison: Comparison) -> str:
    most, slow = CHECKPOINTS[-1], comparison.of(PLAIN, RATES[0])
    capped = sum(run.trees > 0.95 * most for run in slow.values())
    return (
        f"With a rate of {RATES[0]:g} and trees {_trees(comparison).removeprefix('Trees ')}, plain boosting still "
        f"improves at the limit of {most} trees on {of(capped, len(slow))} tables, so small rates have a disadvantage "
        "there."
    )


def _figures() -> list[Figure]:
    rows = "One row per kind of trees; geometric means over tables. AGB is close to VAGBM, and Boulevard out of range."
    return [
        Figure("rivals-rates", "Loss and number of trees with each learning rate, relative to plain boosting with a "
               f"rate of {RATES[0]:g}; labels are the rates of plain boosting. {rows}"),
        Figure("rivals-trees", "Test loss with the best rate of each table after a number of trees, relative to that "
               f"of plain boosting after {CHECKPOINTS[-1]}. {rows}"),
        Figure("rivals-seconds", f"The same against processor time. {rows}"),
    ]  # fmt: skip


# Tables


def _of_learner(comparison: Comparison) -> Section:
    grids = [_methods(comparison), _by_kind(comparison), _rates(comparison), _budgets(comparison), _reach(comparison)]
    grids += [_beside(comparison), *_gpboost(comparison)]
    return Section(f"Trees: {comparison.learner}", grids=grids, paragraphs=_missing(comparison))


def _missing(comparison: Comparison) -> list[str]:
    if comparison.of_gpboost or comparison.learner != GPBOOST_LEARNER:
        return []
    return ["GPBoost was not installed, so its momentum was not measured."]


def _sorted(comparison: Comparison) -> list[str]:
    """The methods by their ratio on the tables that evaluate."""
    return sorted(comparison.methods, key=lambda method: _last_if_nan(comparison.judged(method).test))


def _last_if_nan(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _methods(comparison: Comparison) -> Grid:
    roles = comparison.judged, comparison.best
    stars = [_starred(_against(comparison, role)) for role in roles]
    rows = []
    for method in _sorted(comparison):
        diverged = sum(run.diverged for run in comparison.of(method, None).values())
        cells = [
            cell
            for role, of_role in zip(roles, stars, strict=True)
            for cell in _versus_cells(role(method), of_role[method], is_itself=method == PLAIN)
        ]
        rows.append([RIVALS[method].title, f"{comparison.chosen_rate(method):g}", *cells, str(diverged)])
    header = ["method", "chosen rate"]
    for role in ("chosen rate", f"best of {len(RATES)}"):
        header += [f"{role}: {name}" for name in ("test loss", "lower on", "p", "trees", "seconds")]
    caption = f"Relative to plain boosting in the same role, with early stopping ({_STARRED})"
    return Grid(caption, [*header, "fits that diverged"], rows)


def _versus_cells(versus: Versus, star: str = "", *, is_itself: bool = False) -> list[str]:
    if is_itself:
        return ["1", "–", "–", "1", "1"]
    p = "–" if math.isnan(versus.p) else f"{versus.p:.2g}"
    return [
        f"{star}{ratio(versus.test)}", of(versus.better, versus.tables), p, number(versus.trees, 2),
        number(versus.seconds, 2),
    ]  # fmt: skip


def _starred(found: Mapping[str, Versus]) -> dict[str, str]:
    """For each method a star if it is significantly better, as in a cell that is highlighted."""
    better = _significant(found, better=True)
    return {method: "*" if method in better else "" for method in [*found, PLAIN]}


def _by_kind(comparison: Comparison) -> Grid:
    columns = {name: _against(comparison, partial(comparison.best, kind=kind)) for kind, name in KINDS.items()}
    rows = []
    for method in _sorted(comparison):
        cells = []
        for found in columns.values():
            if method in found and found[method].tables:
                v, star = found[method], _starred(found)[method]
                p = "–" if math.isnan(v.p) else f"{v.p:.2g}"
                cells += [f"{star}{ratio(v.test)}", ratio(v.median), of(v.better, v.tables), p, number(v.trees, 2)]
            else:
                cells += ["–"] * 5
        if method != PLAIN:
            rows.append([RIVALS[method].title, *cells])
    names = ("test loss", "median", "lower on", "p", "trees")
    header = ["method", *(f"{kind}: {name}" for kind in columns for name in names)]
    caption = f"By kind of labels, best of {len(RATES)} rates, relative to plain boosting ({_STARRED})"
    return Grid(caption, header, rows, folded=True)


def _rates(comparison: Comparison) -> Grid:
    rows = []
    for method in _sorted(comparison):
        cells = [comparison.single(method, rate) for rate in RATES]
        rows.append([RIVALS[method].title, *(f"{ratio(c.test)}{SPACE}({number(c.trees, 2)})" for c in cells)])
    caption = f"Test loss with each rate, relative to plain boosting with {RATES[0]:g}, and in brackets number of trees"
    return Grid(caption, ["method", *(f"{rate:g}" for rate in RATES)], rows, folded=True)


def _budgets(comparison: Comparison) -> Grid:
    columns = [
        *(_against(comparison, partial(comparison.after_trees, trees=n)) for n in TREE_BUDGETS),
        *(_against(comparison, partial(comparison.after_time, time=t)) for t in TIME_BUDGETS),
    ]
    stars = [_starred(column) for column in columns]
    rows = []
    for method in _sorted(comparison):
        if method != PLAIN:
            cells = [f"{star[method]}{ratio(column[method].test)}" for star, column in zip(stars, columns, strict=True)]
            rows.append([RIVALS[method].title, *cells])
    header = ["method", *(f"{n} trees" for n in TREE_BUDGETS), *(f"time {t:g}" for t in TIME_BUDGETS)]
    caption = (
        f"Test loss with the best of {len(RATES)} rates within equal budgets, relative to plain boosting; time 1 is "
        f"that of {CLOCK_TREES} trees of plain boosting with rate {CLOCK_RATE:g} ({_STARRED})"
    )
    return Grid(caption, header, rows, folded=True)


def _reach(comparison: Comparison) -> Grid:
    rows = []
    for method in _sorted(comparison):
        rate = comparison.chosen_rate(method)
        found = [comparison.reach(method, rate, goal, within) for goal in GOALS for within in (1.0, NEAR)]
        cells = [cell for reach in found for cell in (of(reach.reached, reach.tables), number(reach.trees, 2))]
        rows.append([RIVALS[method].title, f"{rate:g}", *cells])
    goals = [goal for rate in GOALS for goal in (f"loss of {rate:g}", f"within {NEAR - 1:.0%} of {rate:g}")]
    header = ["method", "rate", *(name for goal in goals for name in (f"{goal}: on", "median trees"))]
    caption = (
        "Evaluating tables on which a method with its chosen rate reaches the test loss of plain boosting with a small "
        "rate and early stopping, and median number of trees, relative to those of plain boosting (∞: not on most "
        "tables)"
    )
    return Grid(caption, header, rows, folded=True)


def _beside(comparison: Comparison) -> Grid:
    others = [method for method in comparison.methods if method != DEFAULT]
    roles = [{m: versus(m, DEFAULT) for m in others} for versus in (comparison.judged, comparison.best)]
    stars = [_starred(found) for found in roles]
    rows = []
    for method in sorted(others, key=lambda m: _last_if_nan(roles[0][m].test)):
        cells = [_versus_cells(found[method], star[method])[:3] for found, star in zip(roles, stars, strict=True)]
        rows.append([RIVALS[method].title, *cells[0], *cells[1]])
    names = ("test loss", "lower on", "p")
    header = ["method", *(f"{role}: {name}" for role in ("chosen rate", f"best of {len(RATES)}") for name in names)]
    return Grid(f"Relative to {RIVALS[DEFAULT].title} ({_STARRED})", header, rows, folded=True)


def _gpboost(comparison: Comparison) -> list[Grid]:
    """The methods of GPBoost relative to its own plain boosting."""
    rows = []
    for method in comparison.of_gpboost:
        if method == GPBOOST_PLAIN:
            continue
        singles = [comparison.same_rate(method, rate) for rate in RATES]
        row = [GPBOOST[method][0], *(f"{ratio(c.test)}{SPACE}({number(c.trees, 2)})" for c in singles)]
        judged, best = comparison.judged(method), comparison.best(method)
        rows.append([*row, *_versus_cells(judged)[:3], *_versus_cells(best)])
    if not rows:
        return []
    header = ["method", *(f"{rate:g}" for rate in RATES)]
    header += [f"chosen rate: {name}" for name in ("test loss", "lower on", "p")]
    header += [f"best of {len(RATES)}: {name}" for name in ("test loss", "lower on", "p", "trees", "seconds")]
    caption = (
        "GPBoost's momentum in its own package, relative to its plain boosting with the same rate, and in brackets "
        "number of trees"
    )
    return [Grid(caption, header, rows)]
