"""The table that opens the page: what the paper claims, whether it holds, and the number that says so.

Verdicts are computed from the results, so that they cannot become stale.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..experiments.angles import Angles
from ..experiments.curves import MOMENTA, STUMPS, TREES
from ..experiments.proof import Track
from ..experiments.restarts import Run, Setting
from ..experiments.table import Table
from . import curve_sections, table_sections, theory_sections
from .curve_sections import Curves
from .document import Grid, Section
from .wording import mean_ratio, number, of, ratio, span


class Claim(NamedTuple):
    """A row of the table."""

    claim: str
    where: str
    """In the paper."""
    verdict: str
    shown_by: str
    """The number, with a link to its section."""


HOLDS, IN_PART, FAILS = "*✓ holds", "in part", "**✗ does not hold**"


def verdict(holds: bool, partly: bool = False) -> str:
    """The words for a verdict."""
    return HOLDS if holds else IN_PART if partly else FAILS


def section(
    table: Table | None, curves: Curves | None, tracks: Sequence[Track], runs: Sequence[Run], angles: Sequence[Angles]
) -> Section:
    """The table of all claims that the results can decide."""
    claims = [
        *(of_theory(tracks) if tracks else ()),
        *(of_angles(angles) if angles else ()),
        *(of_restarts(runs) if runs else ()),
        *(of_curves(curves) if curves else ()),
        *(of_table(table) if table else ()),
    ]
    header = ["claim of the paper", "where", "verdict", "because"]
    text = (
        "The experiments of Accelerating Gradient Boosting Machines (Lu, Karimireddy, Ponomareva, Mirrokni, AISTATS "
        "2020), rerun, with an experiment for each theorem and claim, and with "
        "[what has been proposed since](#other-accelerations-and-regularisations). Verdicts and sentences are computed "
        "from stored results: `agbm paper all` gives those of the paper in about ten minutes on two cores, `agbm paper "
        "rivals` the comparison. A cell is one data set with one number of trees."
    )
    return Section("Claims and verdicts", [text], [Grid("Claims of the paper", header, claims)] if claims else [])


def of_theory(tracks: Sequence[Track]) -> Iterator[Claim]:
    """Theorem 4.1."""
    link = "[Theorem 4.1](#theorem-41)"
    admissible = [track for track in tracks if track.admissible]
    above = sum(track.n_above_bound for track in admissible)
    loose = [track.columns["bound"][-1] / track.columns["gap"][-1] for track in admissible]
    yield Claim(
        "with an admissible γ, the training loss falls at the rate 1/M²", "Theorem 4.1", verdict(above == 0),
        f"the gap is above the bound in {above} iterations; the bound is {span(loose)} times the gap ({link})",
    )  # fmt: skip
    slower = [track.columns["gap"][-1] / track.columns["gap_of_gbm"][-1] for track in admissible]
    yield Claim(
        "so AGBM can require far fewer weak learners than GBM", "Remark after Theorem 4.1", verdict(max(slower) < 1),
        f"with an admissible γ its gap is {span(slower)} times GBM's after as many iterations ({link})",
    )  # fmt: skip


def of_angles(angles: Sequence[Angles]) -> Iterator[Claim]:
    """The assumption about deep trees."""
    deepest = [one for one in angles if one.depth == max(other.depth for other in angles)]
    bounds = [min(one.smallest_gbm, one.smallest_agbm, one.noise) for one in deepest]
    yield Claim(
        "for deep trees, Θ ≈ 1", "Section 4.1", verdict(min(bounds) > 0.9, max(bounds) > 0.9),
        f"at depth {deepest[0].depth} at most {span(bounds)} ([angles](#weak-learners-the-cosine-θ))",
    )  # fmt: skip


def of_restarts(runs: Sequence[Run]) -> Iterator[Claim]:
    """Theorem 4.2 and the remarks after it."""
    link = "[restarts](#theorem-42-restarts)"
    ratios = theory_sections.halved(runs)
    yield Claim(
        "with strong convexity, each restart (option 1) halves the gap", "Theorem 4.2", verdict(max(ratios) <= 0.5),
        f"{len(ratios)} periods multiplied it by {span(ratios)} ({link})",
    )  # fmt: skip
    settings = theory_sections.settings_of(runs)
    squared = next(s for s in settings if s.condition == 1.0 and s.levels is not None)
    plain, best = theory_sections.find(runs, squared, "gbm").needed[-1], theory_sections.best_restart(runs, squared)
    yield Claim(
        "least squares gain nothing from restarts", "Remark after Theorem 4.2",
        verdict(plain is not None and (best is None or best >= plain)),
        f"{number(plain)} trees of GBM, {number(best)} of AGBMR ({link})",
    )  # fmt: skip
    worst = [s for s in settings if s.condition == max(other.condition for other in settings)]
    weak, exact = (next(s for s in worst if (s.levels is None) == is_exact) for is_exact in (False, True))
    gains = []
    for setting in (weak, exact):
        plain, best = theory_sections.find(runs, setting, "gbm").needed[-1], theory_sections.best_restart(runs, setting)
        gains.append(best is not None and (plain is None or best < plain))
    admitted = theory_sections.find(runs, weak, "option 1")
    only = "" if admitted.needed[-1] else ", but only with γ that the theorem does not admit"
    yield Claim(
        "for large σ/μ, AGBMR is significantly better than GBM", "Remark after Theorem 4.2",
        verdict(all(gains) and not only, any(gains)),
        f"{_against(runs, exact)} with exact trees; {_against(runs, weak)} with depth 3{only} ({link})",
    )  # fmt: skip


def _against(runs: Sequence[Run], setting: Setting) -> str:
    plain = theory_sections.find(runs, setting, "gbm")
    against = f"over {number(plain.trees[-1])}" if plain.needed[-1] is None else number(plain.needed[-1])
    return f"{number(theory_sections.best_restart(runs, setting))} trees against {against}"


def of_curves(curves: Curves) -> Iterator[Claim]:
    """Section 5.1, 5.2, and the sentence about gamma."""
    link = "[sensitivity](#sensitivity-to-γ)"
    spreads = [max(x) / min(x) for x in (curve_sections.sensitivity(curves, name, None) for name in curves.data_sets)]
    fixed = [max(x) / min(x) for x in (curve_sections.sensitivity(curves, name, 100) for name in curves.data_sets)]
    yield Claim(
        "AGBM is not too sensitive to γ between 0 and 1", "Section 3.2", verdict(max(fixed) < 1.1, min(fixed) < 1.1),
        f"between γ = 0.01 and 1 the test loss differs by factors of {span(spreads, 3)} with the best number of "
        f"trees, {span(fixed, 3)} with 100 trees ({link})",
    )  # fmt: skip
    link = "[figure](#training-and-test-loss)"
    steps = curve_sections.FIGURE_STEPS
    faster = {step: len(curve_sections.faster_momenta(curves, STUMPS, step)) for step in steps}
    by_step = ", ".join(f"{of(n, len(MOMENTA))} at η = {step:g}" for step, n in faster.items())
    yield Claim(
        "AGBM trains faster than GBM for all η", "Section 5.2, figure 1",
        verdict(min(faster.values()) == len(MOMENTA), max(faster.values()) > 0),
        f"values of γ with a lower training loss after {TREES[STUMPS]} trees: {by_step} ({link})",
    )  # fmt: skip
    sooner, n = curve_sections.earlier(curves)
    yield Claim(
        "AGBM overfits at an earlier stage", "Section 5.2", verdict(sooner == n, sooner > n / 2),
        f"its test loss is lowest with fewer trees than GBM's on {of(sooner, n)} data sets (η = 0.1, γ = 0.1; {link})",
    )  # fmt: skip
    best = curve_sections.best_of_momenta(curves)
    names = [name for name, x in zip(curves.data_sets, best, strict=True) if x > 1.02]
    yield Claim(
        "with early stopping, AGBM's best test loss is comparable to GBM's", "Section 5.2",
        verdict(max(best) <= 1.02, mean_ratio(best) <= 1.02),
        f"with the best of {len(MOMENTA)} values of γ it is {span(best, 3)} of GBM's (η = 0.1)"
        + (f"; more than 2% higher on {', '.join(names)}" if names else ""),
    )  # fmt: skip
    link = "[housing](#vagbm-and-agbm-on-housing)"
    vagbm = curves("housing", "vagbm", 1.0)
    quiet = {step: [c for c in curves.momenta("housing", step) if not curve_sections.rises(c)] for step in (1.0, 0.3)}
    yield Claim(
        "for large η VAGBM diverges, and AGBM with proper γ converges", "Section 5.1, figure 2",
        verdict(vagbm.diverged > 0 and all(quiet.values()), vagbm.diverged > 0),
        f"VAGBM diverges on {of(vagbm.diverged, 5)} splits; AGBM's loss rises or diverges with every γ from 1 to "
        f"{MOMENTA[-1]:g} at η = {' and '.join(f'{s:g}' for s, found in quiet.items() if not found)} ({link})"
        if not all(quiet.values())
        else f"VAGBM diverges on {of(vagbm.diverged, 5)} splits, AGBM does not with γ = {MOMENTA[-1]:g} ({link})",
    )  # fmt: skip
    small = curves("housing", "vagbm", 0.1)
    yield Claim(
        "for smaller η VAGBM is fast at first, then gets stuck or diverges", "Section 5.1, appendix",
        verdict(curve_sections.rises(small)),
        f"at η = 0.1 its loss falls to {number(min(small.train))} and then diverges on {of(small.diverged, 5)} splits "
        f"({link})",
    )  # fmt: skip


def of_table(table: Table) -> Iterator[Claim]:
    """Section 5.3 and the remark on VAGBM; nothing if one of the methods was not run."""
    if not {"agbm", "vagbm"} <= set(table.methods):
        return
    link = "[table](#the-table)"
    lower, n = table_sections.below(table, "agbm", "train")
    yield Claim(
        "tuned, AGBM has a lower training loss than GBM", "Table 2", verdict(lower == n, lower > 0.8 * n),
        f"{of(lower, n)} cells (printed: {table_sections.printed_below(table, 'train')}) ({link})",
    )  # fmt: skip
    few = [30, 50]
    lower, n = table_sections.below(table, "agbm", trees=few)
    yield Claim(
        "AGBM is beneficial in underfitting scenarios (30 and 50 trees)", "Section 5.3",
        verdict(lower >= table_sections.printed_below(table, trees=few), lower > n / 2),
        f"lower test loss in {of(lower, n)} cells (printed: {table_sections.printed_below(table, trees=few)}) ({link})",
    )  # fmt: skip
    lower, n = table_sections.below(table, "agbm", trees=[100])
    yield Claim(
        "with 100 trees AGBM overfits faster", "Section 5.3", verdict(n - lower > n / 2, n - lower > 0),
        f"higher test loss than GBM in {of(n - lower, n)} cells (printed: "
        f"{n - table_sections.printed_below(table, trees=[100])}) ({link})",
    )  # fmt: skip
    lower, n = table_sections.below(table, "vagbm")
    ratios = {m: mean_ratio(table_sections.ratios_to_gbm(table, m)) for m in ("vagbm", "agbm")}
    yield Claim(
        "VAGBM may perform well on small data sets", "Appendix, remark on VAGBM", verdict(ratios["vagbm"] < 1.0),
        f"lower test loss than GBM in {of(lower, n)} cells; {ratio(ratios['vagbm'])} of GBM's, AGBM "
        f"{ratio(ratios['agbm'])} ({link})",
    )  # fmt: skip
