"""The sections about the theorems of the paper and the quantities in them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..experiments.angles import DEPTHS, ITERATIONS, Angles, Sample
from ..experiments.proof import Track
from ..experiments.restarts import MOMENTA, PERIOD_MOMENTUM, PERIODS, TOLERANCES, Run, Setting
from .document import Figure, Grid, Section
from .wording import number, of, span


def theorem_41(tracks: Sequence[Track]) -> Section:
    """The quantities of Theorem 4.1 for each run."""
    reach = "; ".join(dict.fromkeys(f"{t.problem}: {'yes' if t.spans else 'not shown'}" for t in tracks))
    text = (
        "Algorithm 2 on problems whose optimum is known (squared error on housing; logistic loss on diabetes with "
        "labels 0.05 and 0.95), with the largest step that the theorem admits, 1/σ. γ is admissible if it is at most "
        "Θ⁴/(4 + Θ²), where Θ is the smallest cosine between a residual and its fit in the same run. The bound is that "
        "of the theorem as printed; its proof gives a bound four times as large. The error terms δ are "
        f"defined for γ below Θ². Sums of stumps reach the optimum exactly ({reach})."
    )
    header = [
        "run", "γ", "smallest cosine Θ", "γ admitted", "L − L* at the end", "the same for GBM", "bound at the end",
        "iterations above the bound", "V ≤ V⁰ + Σδ", "Σδ at the end",
    ]  # fmt: skip
    grid = Grid("Theorem 4.1", header, list(map(_track_row, tracks)))
    admissible = [track for track in tracks if track.admissible]
    loose = [track.columns["bound"][-1] / track.columns["gap"][-1] for track in admissible]
    slower = [track.columns["gap"][-1] / track.columns["gap_of_gbm"][-1] for track in admissible]
    ten = [track for track in tracks if not track.admissible and track.columns["error_terms"][-1] > 0]
    verdict = (
        "Where γ is admissible, all statements of the proof are observed: the gap stays below the bound, the potential "
        "stays below its initial value plus the sum of the δ, and that sum is never positive. But the bound is "
        f"{span(loose)} times the gap, and after as many iterations (with twice the trees) the gap is {span(slower)} "
        "times that of GBM: with the admissible momentum the second learner has almost no weight, so AGBM is **slower "
        "than GBM**."
    )
    sums = ", ".join(f"{track.problem} {number(track.columns['error_terms'][-1])}" for track in ten)
    excess = (
        "At ten times the admissible γ, the inequality of the potential still holds but the sum of the δ becomes "
        f"positive ({sums}): only the last step of the proof needs the small γ."
        if ten
        else ""
    )
    second_half = {t.problem: _second_half(t) for t in admissible}
    cosines = "; ".join(f"{name}: {r:.2f} for r and {c:.2f} for c" for name, (r, c) in second_half.items())
    why = (
        "c accumulates what no tree can fit, which makes Θ small: mean cosines in the second half of the admissible "
        f"run ({cosines}). As the correction grows, its cosine falls, and with it the admissible γ."
    )
    figures = [
        Figure(
            f"theory-{name}",
            f"The quantities of the proof on {name}: cosines (solid r, dotted c); γ (solid) and what is admitted so "
            "far (dotted); gap (solid) and bound (dashed); potential minus its start (solid) and Σδ (dashed).",
        )
        for name in dict.fromkeys(track.problem for track in tracks)
    ]
    return Section("Theorem 4.1", [text, verdict, *filter(None, [excess]), why], [grid], figures)


def _second_half(track: Track) -> tuple[float, float]:
    half = len(track.columns["gap"]) // 2
    r, c = (float(np.nanmean(track.columns[name][half:])) for name in ("cosine_residual", "cosine_corrected"))
    return r, c


def _track_row(track: Track) -> list[str]:
    columns = track.columns
    held, last_sum = "not defined", "–"
    if track.n_above_sum is not None:
        held = "yes" if track.n_above_sum == 0 else f"no ({track.n_above_sum} iterations)"
        last_sum = number(columns["error_terms"][-1])
    diverged = not columns["gap"][-1] < 1e3 * track.columns["gap"][0]
    return [
        f"{track.problem}, {'admissible' if track.admissible else 'not admissible'}", number(track.gamma),
        f"{track.smallest_cosine:.3f}", number(columns["admitted"][-1]),
        "diverges" if diverged else number(columns["gap"][-1]), number(columns["gap_of_gbm"][-1]),
        number(columns["bound"][-1]), of(track.n_above_bound, len(columns["gap"])), held, last_sum,
    ]  # fmt: skip


def sample_name(found: Angles) -> str:
    """The rows and columns of a measurement."""
    columns = "" if found.sample.columns == 1.0 else f", {found.sample.columns:.0%} of the columns per tree"
    return f"{found.sample.data}, {found.n_rows:,} rows{columns}"


def angles(found: Sequence[Angles]) -> Section:
    """Cosines between residuals and trees by depth."""
    samples = list(dict.fromkeys(one.sample for one in found))
    names = {one.sample: sample_name(one) for one in found}
    by_place = {(one.sample, one.depth): one for one in found}

    def grid(caption: str, attribute: str) -> Grid:
        def row(sample: Sample) -> list[str]:
            return [names[sample], *(f"{getattr(by_place[sample, depth], attribute):.2f}" for depth in DEPTHS)]

        return Grid(caption, ["", *(f"depth {depth}" for depth in DEPTHS)], list(map(row, samples)))

    deepest = [one for one in found if one.depth == max(DEPTHS)]
    text = (
        'The paper says that "for a complex space of learners such as deep trees, we expect the prediction space to be '
        'dense and that Θ ≈ 1". Θ is the smallest cosine over all residuals, so every residual gives an upper bound, '
        "for trees as they are grown: the best tree of a depth may be better, but cannot be found. At depth "
        f"{max(DEPTHS)}, the bounds are {span([one.smallest_gbm for one in deepest])} from the residuals of GBM "
        f"(η = 0.1, {ITERATIONS} iterations), {span([one.smallest_agbm for one in deepest])} from those of AGBM "
        f"(γ = 0.1, r and c), and {span([one.noise for one in deepest])} from noise. A tree fits noise as well as its "
        "number of leaves per row allows, so more rows make Θ smaller, and sampling columns too. Only trees with "
        "nearly a leaf per row have Θ ≈ 1."
    )
    grids = [
        grid(f"Smallest cosine along {ITERATIONS} iterations of GBM", "smallest_gbm"),
        grid("Smallest cosine of r and c along as many iterations of AGBM", "smallest_agbm"),
        grid("Mean cosine of noise", "noise"),
    ]
    figure = Figure("angles", "Cosine between a residual and its tree, by depth of the tree.")
    return Section("Weak learners: the cosine Θ", [text], grids, [figure])


def problem_name(setting: Setting) -> str:
    """A problem and its trees."""
    learner = "exact trees" if setting.levels is None else f"depth {setting.levels}"
    loss = "squared error" if setting.condition == 1.0 else "logistic with ridge"
    return f"{setting.data}, {loss}, σ/μ = {setting.condition:g}, {learner}"


def find(runs: Sequence[Run], setting: Setting, method: str, gamma: float | None = None) -> Run:
    """The run of a method; gamma=None is the momentum that the theorem admits."""
    for run in runs:
        if (run.setting, run.method) == (setting, method):
            chosen = method == "gbm" or (run.gamma == gamma if gamma is not None else run.gamma not in MOMENTA)
            if chosen:
                return run
    raise KeyError((setting, method, gamma))


def settings_of(runs: Sequence[Run]) -> list[Setting]:
    """The settings of the runs, in their order."""
    return list(dict.fromkeys(run.setting for run in runs))


def trees_of_gbm(runs: Sequence[Run], setting: Setting) -> int | None:
    """Trees of GBM until the gap is a millionth of that at the start."""
    return find(runs, setting, "gbm").needed[-1]


def best_restart(runs: Sequence[Run], setting: Setting, *, admitted: bool | None = None) -> Run:
    """The run of AGBMR that needs the fewest trees, of those with an admitted or another momentum, or of all.

    Restarts in every second iteration with γ = 1 are left out: both iterations are then steps of GBM.
    """
    found = [
        run
        for run in runs
        if (run.setting, run.method in ("option 1", "option 2")) == (setting, True)
        and not (run.gamma == 1.0 and run.period <= 2.0)
        and (admitted is None or (run.gamma not in MOMENTA) == admitted)
    ]
    return min(found, key=lambda run: math.inf if run.needed[-1] is None else run.needed[-1])


def option_2(runs: Sequence[Run]) -> tuple[int, int, int]:
    """Problems on which option 2 needs fewer trees than GBM, problems, and runs of option 2 that diverge."""
    mine = [run for run in runs if run.method == "option 2"]
    better = 0
    for setting in settings_of(runs):
        needed = [run.needed[-1] for run in mine if run.setting == setting and run.needed[-1] is not None]
        plain = trees_of_gbm(runs, setting)
        better += bool(needed) and (plain is None or min(needed) < plain)
    return better, len(settings_of(runs)), sum(run.diverged for run in mine)


def exact_against_gbm(runs: Sequence[Run]) -> tuple[int | None, int | None]:
    """Trees of AGBM with exact trees and an admissible momentum, and of GBM, for the largest condition number."""
    setting = max((s for s in settings_of(runs) if s.levels is None), key=lambda s: s.condition)
    return find(runs, setting, "agbm").needed[-1], trees_of_gbm(runs, setting)


def n_iterations(tracks: Sequence[Track]) -> int:
    """Number of iterations of the runs."""
    return len(tracks[0].columns["gap"])


def n_idle(track: Track) -> int:
    """Number of iterations in which even the gap after the first one would be below the bound."""
    return sum(bound > track.columns["gap"][0] for bound in track.columns["bound"])


def decay(track: Track) -> float:
    """The exponent of M with which the gap falls in the second half of a run."""
    gaps = track.columns["gap"]
    return math.log(gaps[-1] / gaps[len(gaps) // 2 - 1]) / math.log(2.0)


def restarts(runs: Sequence[Run]) -> Section:
    """Theorem 4.2 and both options of AGBMR."""
    text = (
        "AGBM with restarts on strongly convex losses with known optima: the squared error (σ/μ = 1), and the logistic "
        "loss with a ridge μf²/2 on the scores (σ/μ = 10, 100 and 1000), with η = 1/σ. Exact trees give every row that "
        "can be told apart a leaf of its own, so Θ = 1 and γ = 0.2 is admissible. A run ends when the gap L − L* is a "
        "millionth of its start, or after 2,000 iterations (4,000 of GBM, which grows half as many trees)."
    )
    return Section("Theorem 4.2: restarts", [text, *_verdicts(runs)], [_halving(runs), _needed(runs), _periods(runs)],
                   [Figure("restarts", "Gap L − L*, relative to the start, against the number of trees. Where option 2 "
                           "has no reason to restart, its line covers that of AGBM.")])  # fmt: skip


def halved(runs: Sequence[Run]) -> list[float]:
    """The gap at the end of each whole period relative to its start, where Theorem 4.2 admits gamma."""
    return [x for run in runs if run.method == "option 1" and run.admitted for x in run.ratios]


def _verdicts(runs: Sequence[Run]) -> list[str]:
    ratios = halved(runs)
    squared = next(s for s in settings_of(runs) if s.condition == 1.0 and s.levels is not None)
    agbmr = best_restart(runs, squared).needed[-1]
    long = [s for s in settings_of(runs) if not find(runs, s, "option 1").ratios and s.levels is not None]
    ill = [s for s in settings_of(runs) if s.condition > 1.0]
    weak = [s for s in ill if s.levels is not None]
    reached = sum(find(runs, s, method).needed[-1] is not None for s in weak for method in ("option 1", "option 2"))
    quiet = [s for s in ill if best_restart(runs, s).n_restarts == 0]
    return [
        f"**Each period of M = √(2/(ηγμ)) iterations should halve the gap.** The {len(ratios)} periods with an "
        f"admissible γ multiplied it by {span(ratios)}. With trees of depth 3 the admissible γ is so small that a "
        f"period is longer than the run in {of(len(long), _n_weak(runs))} problems.",
        f"**Least squares should gain nothing.** GBM needs {number(trees_of_gbm(runs, squared))} trees, the best AGBMR "
        f"{number(agbmr)}.",
        "**Large condition numbers should gain.** Trees of the best AGBMR and of GBM: "
        f"{'; '.join(_gain(runs, s) for s in ill)}. With a γ that the theorem admits: "
        f"{'; '.join(_gain(runs, s, admitted=True) for s in ill if s.levels is None)}; with trees of depth 3, "
        f"{of(reached, 2 * len(weak))} such runs reach this gap at all. In {of(len(quiet), len(ill))} of the best runs "
        "no restart happens: the gain is that of momentum. All of this is about the training loss; there are no test "
        "rows here.",
    ]


def _gain(runs: Sequence[Run], setting: Setting, *, admitted: bool | None = None) -> str:
    best, gbm = best_restart(runs, setting, admitted=admitted), find(runs, setting, "gbm")
    return f"{_or_more(best)} against {_or_more(gbm)} ({_short(setting)})"


def _short(setting: Setting) -> str:
    return f"σ/μ = {setting.condition:g}, {'exact trees' if setting.levels is None else f'depth {setting.levels}'}"


def _or_more(run: Run) -> str:
    return f"more than {number(run.trees[-1])}" if run.needed[-1] is None else number(run.needed[-1])


def _n_weak(runs: Sequence[Run]) -> int:
    return sum(setting.levels is not None for setting in settings_of(runs))


def _halving(runs: Sequence[Run]) -> Grid:
    rows = []
    for setting in settings_of(runs):
        run = find(runs, setting, "option 1")
        seen = f"{number(max(run.ratios))}" if run.ratios else "run ends before"
        rows.append([problem_name(setting), f"{run.smallest_cosine:.3f}", number(run.gamma), number(run.period), seen])
    header = ["problem", "Θ", "γ admitted", "M of option 1", "largest ratio of a period (theorem: 0.5)"]
    return Grid("Option 1 with an admissible momentum", header, rows)


def _needed(runs: Sequence[Run]) -> Grid:
    columns: list[tuple[str, float | None]] = [("gbm", 0.0)]
    columns += [(method, None) for method in ("option 1", "option 2")]
    columns += [(method, gamma) for gamma in sorted(MOMENTA) for method in ("agbm", "option 1", "option 2")]
    rows = []
    for setting in settings_of(runs):
        found = [find(runs, setting, method, gamma) for method, gamma in columns]
        least = min((run.needed[-1] for run in found if run.needed[-1] is not None), default=None)
        cells = [_cell(run, least) for run in found]
        rows.append([problem_name(setting), *cells])
    names = {"agbm": "AGBM", "option 1": "option 1", "option 2": "option 2"}
    header = ["problem", "GBM"]
    header += [f"{names[m]}, γ {'admitted' if g is None else f'= {g:g}'}" for m, g in columns if m != "gbm"]
    caption = (
        f"Trees until the gap is {number(TOLERANCES[-1], 1)} of that at the start (– not within the run; × diverges)"
    )
    return Grid(caption, header, rows)


def _cell(run: Run, least: int | None) -> str:
    if run.diverged:
        return "×"
    needed = run.needed[-1]
    return ("*" if needed is not None and needed == least else "") + number(needed)


def _periods(runs: Sequence[Run]) -> Grid:
    rows = []
    for setting in settings_of(runs):
        found = {run.period: run for run in runs if run.setting == setting and run.method == "period"}
        least = min((run.needed[-1] for run in found.values() if run.needed[-1] is not None), default=None)
        theirs = math.ceil(find(runs, setting, "option 1", PERIOD_MOMENTUM).period)
        rows.append([problem_name(setting), number(theirs), *(_cell(found[period], least) for period in PERIODS)])
    header = ["problem", "M of option 1", *(f"M = {period}" for period in PERIODS)]
    return Grid(f"The same by the number M of iterations between restarts, γ = {PERIOD_MOMENTUM:g}", header, rows)
