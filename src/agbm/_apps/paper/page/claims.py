"""The table that opens the page: what the paper claims, whether it holds, and the number that says so.

Verdicts are computed from the results, so that they cannot become stale.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..experiments.angles import Angles
from ..experiments.curves import LEVELS, MOMENTA, STUMPS, TREES
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


PAPERS_MOMENTA = (1.0, 0.3, 0.1)
"""Those of MOMENTA in the range of the paper's search."""
FIGURE = "[figure](#training-and-test-loss)"
NOT_CONTRADICTED = "not contradicted"
HOLDS, IN_PART, FAILS = "*✓ holds", "in part", "*✗ does not hold"


def verdict(holds: bool, partly: bool = False) -> str:
    """The words for a verdict."""
    return HOLDS if holds else IN_PART if partly else FAILS


def section(
    table: Table | None, curves: Curves | None, tracks: Sequence[Track], runs: Sequence[Run], angles: Sequence[Angles]
) -> Section:
    """The table of all claims that the results can decide."""
    claims = [
        *(of_theory(tracks, runs) if tracks else ()),
        *(of_angles(angles, runs) if angles else ()),
        *(of_restarts(runs) if runs else ()),
        *(of_curves(curves) if curves else ()),
        *(of_table(table) if table else ()),
    ]
    header = ["claim of the paper", "where", "verdict", "because"]
    text = (
        "The experiments of Accelerating Gradient Boosting Machines (Lu, Karimireddy, Ponomareva, Mirrokni, AISTATS "
        "2020), rerun, with an experiment for each theorem and the main claims, and with "
        "[what has been proposed since](#other-accelerations-and-regularisations). Verdicts and sentences are computed "
        "from stored results: `agbm paper all` gives those of the paper in about ten minutes on two cores, `agbm paper "
        "rivals` the comparison. A cell is one data set with one number of trees."
    )
    return Section("Claims and verdicts", [text], [Grid("Claims of the paper", header, claims)] if claims else [])


def of_theory(tracks: Sequence[Track], runs: Sequence[Run]) -> Iterator[Claim]:
    """Theorem 4.1, and the remark about fewer learners, which the runs with exact trees test as well."""
    link = "[Theorem 4.1](#theorem-41)"
    admissible = [track for track in tracks if track.admissible]
    above = sum(track.n_above_bound for track in admissible)
    idle = min(theory_sections.n_idle(track) for track in admissible)
    yield Claim(
        "with an admissible γ, the gap stays below a bound that falls like 1/M²", "Theorem 4.1",
        NOT_CONTRADICTED if above == 0 and idle == theory_sections.n_iterations(admissible) else verdict(above == 0),
        f"the gap is above the bound in {above} iterations, but the bound is so loose that the gap after one iteration "
        f"is below it in at least {of(idle, theory_sections.n_iterations(admissible))} iterations; in the second half, "
        f"the gap falls like M to the {span([theory_sections.decay(track) for track in admissible])} ({link})",
    )  # fmt: skip
    slower = [track.columns["gap"][-1] / track.columns["gap_of_gbm"][-1] for track in admissible]
    exact = theory_sections.exact_against_gbm(runs) if runs else None
    fewer = exact is not None and exact[0] is not None and (exact[1] is None or exact[0] < exact[1])
    of_exact = f"; with exact trees, {number(exact[0])} trees against {number(exact[1])}" if exact else ""
    yield Claim(
        "so AGBM can require far fewer weak learners than GBM", "Remark after Theorem 4.1",
        verdict(max(slower) < 1 and fewer, max(slower) < 1 or fewer),
        f"with trees of depth 3 and an admissible γ, its gap is {span(slower)} times GBM's after as many iterations"
        f"{of_exact} ({link})",
    )  # fmt: skip
    larger = [track for track in tracks if not track.admissible and track.n_above_sum is not None]
    positive = [track.columns["error_terms"][-1] > 0 for track in larger]
    controlled = all(max(track.columns["error_terms"]) <= 0 for track in admissible)
    yield Claim(
        "the corrected residual keeps the error controlled", "Section 3.2",
        verdict(controlled and not any(positive), controlled),
        f"the error terms of the proof add up to at most 0 with an admissible γ, and to more in {sum(positive)} of "
        f"{len(positive)} runs with ten times that γ ({link})",
    )  # fmt: skip


def of_angles(angles: Sequence[Angles], runs: Sequence[Run]) -> Iterator[Claim]:
    """The assumption about deep trees; the runs have those with a leaf for every row."""
    whole = [one for one in angles if one.sample.columns == 1.0]
    deepest = [one for one in whole if one.depth == max(other.depth for other in whole)]
    found = [min(one.smallest_gbm, one.smallest_agbm, one.noise) for one in deepest]
    exact = [run.smallest_cosine for run in runs if run.setting.levels is None]
    yield Claim(
        "for deep trees, Θ ≈ 1", "Section 4.1", verdict(min(found) > 0.9, max([*found, *exact]) > 0.9),
        f"trees of depth {deepest[0].depth}, as they are grown: at most {span(found)}"
        + (f"; with a leaf for every row {min(exact):.3f}" if exact else "")
        + " ([angles](#weak-learners-the-cosine-θ))",
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
    plain, best = theory_sections.trees_of_gbm(runs, squared), theory_sections.best_restart(runs, squared)
    yield Claim(
        "least squares gain nothing from restarts", "Remark after Theorem 4.2",
        verdict(plain is not None and (best.needed[-1] is None or best.needed[-1] >= plain)),
        f"{number(plain)} trees of GBM, {number(best.needed[-1])} of the best AGBMR ({link})",
    )  # fmt: skip
    worst = [s for s in settings if s.condition == max(other.condition for other in settings)]
    weak, exact = (next(s for s in worst if (s.levels is None) == is_exact) for is_exact in (False, True))
    gains = {}
    for setting in (weak, exact):
        for admitted in (True, False):
            trees = theory_sections.best_restart(runs, setting, admitted=admitted).needed[-1]
            plain = theory_sections.trees_of_gbm(runs, setting)
            gains[setting, admitted] = trees is not None and (plain is None or trees < plain)
    yield Claim(
        "for large σ/μ, AGBMR is significantly better than GBM", "Remark after Theorem 4.2",
        verdict(gains[weak, True] and gains[exact, True], any(gains.values())),
        f"trees with an admissible γ, with any other, and of GBM: {_against(runs, exact)} with exact trees; "
        f"{_against(runs, weak)} with depth 3 ({link})",
    )  # fmt: skip
    better, n, diverged = theory_sections.option_2(runs)
    yield Claim(
        "restarts when the training loss rises perform well", "Algorithm 3, option 2",
        verdict(better == n and not diverged, better > n / 2),
        f"with the best γ, fewer trees than GBM on {of(better, n)} problems; {diverged} runs diverge ({link})",
    )  # fmt: skip


def _against(runs: Sequence[Run], setting: Setting) -> str:
    """Trees of AGBMR with admissible and with other momenta, and of GBM; a dash where the gap is never reached."""
    found = [theory_sections.best_restart(runs, setting, admitted=admitted).needed[-1] for admitted in (True, False)]
    return ", ".join(number(trees) for trees in (*found, theory_sections.trees_of_gbm(runs, setting)))


def of_curves(curves: Curves) -> Iterator[Claim]:
    """Sections 5.1 and 5.2, and the sentence about gamma."""
    yield _of_momentum(curves)
    yield from _of_training(curves)
    yield from _of_test_loss(curves)
    yield from _of_housing(curves)


def _of_momentum(curves: Curves) -> Claim:
    link = "[sensitivity](#sensitivity-to-γ)"
    best, fixed = (
        [_spread(curve_sections.sensitivity(curves, name, trees, PAPERS_MOMENTA)) for name in curves.data_sets]
        for trees in (None, 100)
    )
    return Claim(
        "AGBM is not too sensitive to γ between 0 and 1", "Section 3.2",
        verdict(max(best) < 1.1 and max(fixed) < 1.1, max(best) < 1.25),
        f"between γ = {min(PAPERS_MOMENTA):g} and 1, as in the paper's search, the test loss differs by factors of "
        f"{span(best, 3)} with the best number of trees for each γ, and of {span(fixed, 3)} with 100 trees ({link})",
    )  # fmt: skip


def _of_training(curves: Curves) -> Iterator[Claim]:
    faster = "AGBM trains faster than GBM for all η", "Section 5.2, figure 1", LEVELS, FIGURE
    stumps = "with stumps, the results are consistent with figure 1", "Appendix", 1, "[figure](#stumps)"
    for claim, where, levels, link in (faster, stumps):
        steps = curve_sections.FIGURE_STEPS
        better = {step: len(curve_sections.faster_momenta(curves, STUMPS, step, levels)) for step in steps}
        by_step = ", ".join(f"{of(n, len(MOMENTA))} at η = {step:g}" for step, n in better.items())
        yield Claim(
            claim, where, verdict(min(better.values()) == len(MOMENTA), max(better.values()) > 0),
            f"values of γ with a lower training loss after {TREES[STUMPS]} trees: {by_step} ({link})",
        )  # fmt: skip


def _of_test_loss(curves: Curves) -> Iterator[Claim]:
    sooner, n = curve_sections.earlier(curves)
    yield Claim(
        "AGBM overfits at an earlier stage", "Section 5.2", verdict(sooner == n, sooner > n / 2),
        f"its test loss is lowest with fewer trees than GBM's on {of(sooner, n)} data sets (η = 0.1, γ = 0.1; "
        f"{FIGURE})",
    )  # fmt: skip
    fewer = curve_sections.trees_for_similar_loss(curves)
    won = sum(mine < theirs for mine, theirs in fewer)
    shares = [mine / theirs for mine, theirs in fewer if mine < float("inf")]
    yield Claim(
        "AGBM may require fewer trees than GBM for a similar test loss", "Section 5.2",
        verdict(won == n, won > 0),
        f"with the best γ, fewer trees for a test loss within 2% of GBM's lowest on {of(won, n)} data sets, a loss "
        f"that it reaches on {len(shares)}, with {span(shares)} of the trees (η = 0.1; {FIGURE})",
    )  # fmt: skip
    best = curve_sections.best_of_momenta(curves)
    names = [name for name, x in zip(curves.data_sets, best, strict=True) if x > 1.02]
    yield Claim(
        "AGBM's lowest test loss is comparable to GBM's", "Section 5.2",
        verdict(max(best) <= 1.02, mean_ratio(best) <= 1.02),
        f"with γ and number of trees chosen on the test rows it is {span(best, 3)} of GBM's (η = 0.1)"
        + (f"; more than 2% higher on {', '.join(names)}" if names else ""),
    )  # fmt: skip


def _of_housing(curves: Curves) -> Iterator[Claim]:
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
    small, slow = curves("housing", "vagbm", 0.1), curves("housing", "gbm", 0.1)
    lowest = small.trees[small.train.index(min(small.train))]
    beside = slow.train[slow.trees.index(lowest)]
    yield Claim(
        "for smaller η VAGBM is fast at first, then gets stuck or diverges", "Section 5.1, appendix",
        verdict(min(small.train) < beside and curve_sections.rises(small), curve_sections.rises(small)),
        f"at η = 0.1 its training loss falls to {number(min(small.train))} with {lowest} trees (GBM: {number(beside)}) "
        f"and then diverges on {of(small.diverged, 5)} splits ({link})",
    )  # fmt: skip


def _spread(values: Sequence[float]) -> float:
    return max(values) / min(values)


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
    printed = n - table_sections.printed_below(table, trees=[100])
    yield Claim(
        "with 100 trees AGBM overfits faster", "Section 5.3", verdict(n - lower >= printed, n - lower > 0),
        f"higher test loss than GBM in {of(n - lower, n)} cells (printed: {printed}) ({link})",
    )  # fmt: skip
    lower, n = table_sections.below(table, "vagbm")
    ratios = {m: mean_ratio(table_sections.ratios_to_gbm(table, m)) for m in ("vagbm", "agbm")}
    yield Claim(
        "VAGBM may perform well on small data sets", "Appendix, remark on VAGBM", verdict(ratios["vagbm"] < 1.0),
        f"lower test loss than GBM in {of(lower, n)} cells; {ratio(ratios['vagbm'])} of GBM's, AGBM "
        f"{ratio(ratios['agbm'])} ({link})",
    )  # fmt: skip
