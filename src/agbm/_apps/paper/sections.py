"""The sections of the page: the results of the runs, compared with the claims of the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import gmean

from .curves import PLANS, Curve
from .page import Grid, Section
from .printed import PRINTED, TREES, Figure
from .proof import Track
from .protocol import METHODS, N_SPLITS
from .table import BASELINE, Cell, Table, nearer, off_print, printed_errors, within_printed_errors


def of_table(table: Table) -> Section:
    """Losses next to the printed ones, paired differences, and counts for each claim."""
    c = table.conventions
    stopping = {
        "held-out": "uses early stopping on held-out training rows, with a patience of 5 iterations",
        "test": "uses early stopping on the test rows, with a patience of 5 iterations, as in the released scripts, "
        "so the test losses are optimistic",
        "none": "does not stop early",
    }[c.validation]
    kept = "" if c.validation == "none" else f"; the {c.keep} model is kept"
    text = (
        f"Five random 80/20 splits (seed {c.seed}), trees with {c.levels} levels, learning rate 0.1, parameters from "
        f"a random search with 5 folds and {c.draws} draws per parameter; the final fit {stopping}{kept}. Values are "
        "means and standard errors over the splits. The default of this library is not tuned and chooses its own tree "
        'depth. The columns "printed" are the paper\'s numbers; the errors there are '
        f"{printed_errors(table):.1f} times ours (standard deviations would be 2.2 times our standard errors)."
    )
    cells = {(cell.data, cell.trees, cell.method): cell for cell in table.cells()}
    grids = [_claims(table, list(cells.values())), *(_losses(table, cells, trees) for trees in TREES)]
    grids.append(_differences(table, cells))
    if c.validation != "none":
        grids.append(_kept(table, cells))
    return Section("The table: losses after tuning", [text, *_sign_question(table)], grids)


def _sign_question(table: Table) -> list[str]:
    """A paragraph on which sign of the correction gives losses closer to the printed ones."""
    if not {"agbm", "agbm-minus"} <= set(table.methods):
        return []
    near, n = nearer(table, "agbm", "agbm-minus"), len(table.data_sets) * len(TREES)
    return [
        "The loss relative to GBM's is compared with the printed ratio. Algorithm 2 is closer to print than the "
        f"released code's sign in {near.train} of {n} cells by training loss and in {near.test} by test loss."
    ]


def _number(figure: Figure) -> str:
    digits = 4 if abs(figure.mean) < 2 else 2
    return f"{figure.mean:.{digits}f}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{figure.error:.{digits}f}"


def _of(part: int, whole: int) -> str:
    return f"{part}\N{NO-BREAK SPACE}of\N{NO-BREAK SPACE}{whole}"


def _losses(table: Table, cells: Mapping[tuple[str, int, str], Cell], trees: int) -> Grid:
    columns = [(method, METHODS[method].title) for method in table.methods]
    header = ["test loss (training loss)", "printed GBM", "printed AGBM", *(title for _, title in columns)]
    rows = []
    for data in table.data_sets:
        best = min(cells[data, trees, method].losses.test.mean for method, _ in columns)
        row = [data]
        for printed in ("gbm", "agbm"):
            train, test = PRINTED[data, trees, printed]
            row.append(f"{_number(test)} ({train.mean:.4g})")
        for method, _ in columns:
            losses = cells[data, trees, method].losses
            mark = "*" if losses.test.mean == best else ""
            row.append(f"{mark}{_number(losses.test)} ({losses.train.mean:.4g})")
        rows.append(row)
    return Grid(f"{trees} trees", header, rows)


def _differences(table: Table, cells: Mapping[tuple[str, int, str], Cell]) -> Grid:
    others = [method for method in table.methods if method != BASELINE]
    rows = []
    for trees in TREES:
        for data in table.data_sets:
            of_row = [cells[data, trees, method] for method in others]
            rows.append([f"{data}, {trees} trees", *(f"{_number(c.difference)} ({c.wins}/{N_SPLITS})" for c in of_row)])
    caption = "Test loss minus that of GBM on the same splits (number of splits won); negative is better than GBM"
    return Grid(caption, ["", *(METHODS[method].title for method in others)], rows)


def _claims(table: Table, cells: Sequence[Cell]) -> Grid:
    """How often each method has a lower loss than GBM, in print and here, over all cells."""
    n = len(table.data_sets)
    pairs = [(PRINTED[d, t, "agbm"], PRINTED[d, t, "gbm"], t) for d in table.data_sets for t in TREES]
    header = ["number of cells below GBM", "training loss", "test loss"]
    header += [f"test loss, {trees} trees" for trees in TREES] + ["splits won", "test loss / GBM's, geometric mean"]
    header += ["test loss lower, higher by 2 standard errors", "lowest test loss of all", "runs diverged"]
    header += ["test loss within 2 printed errors", "factor between our losses and the printed ones"]
    printed = [sum(a.test.mean < g.test.mean for a, g, t in pairs if t == trees) for trees in TREES]
    rows = [[
        "AGBM, as printed", _of(sum(a.train.mean < g.train.mean for a, g, _ in pairs), 3 * n),
        _of(sum(printed), 3 * n), *(_of(k, n) for k in printed), "",
        f"{gmean([a.test.mean / g.test.mean for a, g, _ in pairs]):.3f}", "", "", "", "", "",
    ]]  # fmt: skip
    base = {(c.data, c.trees): c.losses for c in cells if c.method == BASELINE}
    least = {(d, t): min(c.losses.test.mean for c in cells if (c.data, c.trees) == (d, t)) for d, t in base}
    for method in table.methods:
        mine = [c for c in cells if c.method == method]
        tests = [sum(c.losses.test.mean < base[c.data, c.trees].test.mean for c in mine if c.trees == t) for t in TREES]
        trains = sum(c.losses.train.mean < base[c.data, c.trees].train.mean for c in mine)
        lowest = _of(sum(c.losses.test.mean == least[c.data, c.trees] for c in mine), 3 * n)
        against = [""] * (len(TREES) + 5)
        if method != BASELINE:
            against = [
                _of(trains, 3 * n), _of(sum(tests), 3 * n), *(_of(k, n) for k in tests),
                _of(sum(c.wins for c in mine), 3 * n * N_SPLITS),
                f"{gmean([c.losses.test.mean / base[c.data, c.trees].test.mean for c in mine]):.3f}",
                f"{sum(c.difference.mean < -2 * c.difference.error for c in mine)}, "
                f"{sum(c.difference.mean > 2 * c.difference.error for c in mine)}",
            ]  # fmt: skip
        to_print = ["", ""]
        if METHODS[method].printed:
            to_print = [_of(within_printed_errors(table, method), 3 * n), f"{off_print(table, method):.2f}"]
        rows.append([METHODS[method].title, *against, lowest, str(sum(c.diverged for c in mine)), *to_print])
    return Grid("Counts over all cells", header, rows)


def _kept(table: Table, cells: Mapping[tuple[str, int, str], Cell]) -> Grid:
    most = max(TREES)
    rows = [
        [data, *(f"{cells[data, most, method].iterations:.0f}" for method in table.methods)] for data in table.data_sets
    ]
    asked = [f"{METHODS[m].title}: of {most // METHODS[m].trees_per_iteration}" for m in table.methods]
    return Grid(f"Mean number of iterations that early stopping kept, with at most {most} trees", ["", *asked], rows)


def of_curves(curves: Sequence[Curve]) -> list[Section]:
    """One section per figure."""
    sections = []
    for plan in PLANS:
        mine = [curve for curve in curves if curve.figure == plan.name]
        if not mine:
            continue
        header = ["line", *(f"η = {step:g}: lowest test loss (at trees), last training loss" for step in plan.steps)]
        rows = []
        for line in plan.lines:
            of_line = [curve for curve in mine if curve.title == line.title]
            rows.append([line.title, *map(_curve_cell, of_line)])
        caption = f"Mean of {N_SPLITS} splits; × and the number of runs that diverged (the curve ends at the first one)"
        grid = Grid(caption, header, rows)
        text = (
            f"{plan.title}, trees with {plan.levels} level{'s' if plan.levels > 1 else ''}, up to {plan.trees} trees."
        )
        sections.append(Section(f"Figure: {plan.title}", [text], [grid], [f"{plan.name}.svg"]))
    return sections


def _curve_cell(curve: Curve) -> str:
    diverged = f" ×{curve.diverged}" if curve.diverged else ""
    return f"{curve.lowest_test:.4g} ({curve.trees_at_lowest}), {curve.train[-1]:.3g}{diverged}"


def of_tracks(tracks: Sequence[Track], spans: Mapping[str, bool]) -> Section:
    """The quantities of the theorem for each run."""
    text = (
        "Algorithm 2 on problems whose optimum is known, with the largest step that the theorem admits. γ is "
        "admissible if it is at most Θ⁴/(4 + Θ²), where Θ is the smallest cosine between a residual and its fit in "
        "the same run. The bound is that of the theorem as printed; with θ as defined, its proof gives four times as "
        "much. The error terms δ are defined for γ below Θ²."
    )
    header = [
        "run",
        "γ",
        "smallest cosine",
        "mean cosine of r and c in the second half",
        "γ admitted",
        "admissible",
        "gap at the end",
        "gap of GBM after as many iterations",
    ]
    header += ["bound at the end", "iterations above the bound", "V ≤ V⁰ + Σδ in all iterations", "Σδ at the end"]
    rows = [_track_row(track) for track in tracks]
    figures = [f"theory-{name}.svg" for name in dict.fromkeys(track.problem for track in tracks)]
    reach = "; ".join(f"{name}: {'yes' if yes else 'not shown'}" for name, yes in spans.items())
    paragraphs = [text, f"Sums of stumps reach the optimum exactly: {reach}."]
    return Section("Theory", paragraphs, [Grid("Theorem 4.1", header, rows)], figures)


def _track_row(track: Track) -> list[str]:
    columns = track.columns
    held, last_sum = "not defined", ""
    if not math.isnan(columns["error_terms"][-1]):
        limit = [track.start_potential + total for total in columns["error_terms"]]
        # A tolerance for rounding: these are sums of squares over all rows.
        broken = sum(v > b * (1 + 1e-9) for v, b in zip(columns["potential"], limit, strict=True))
        held, last_sum = "yes" if broken == 0 else f"no ({broken} iterations)", f"{columns['error_terms'][-1]:.3g}"
    second_half = len(columns["gap"]) // 2
    cosines = [float(np.nanmean(columns[name][second_half:])) for name in ("cosine_residual", "cosine_corrected")]
    return [
        track.problem, f"{track.gamma:.3g}", f"{track.smallest_cosine:.3f}", f"{cosines[0]:.2f}, {cosines[1]:.2f}",
        f"{columns['admitted'][-1]:.3g}",
        "yes" if track.admissible else "no", f"{columns['gap'][-1]:.4g}",
        f"{columns['gap_of_gbm'][-1]:.4g}", f"{columns['bound'][-1]:.4g}",
        _of(track.n_above_bound, len(columns['gap'])), held, last_sum,
    ]  # fmt: skip


def of_making(made: Mapping[str, Any]) -> Section:
    """Commands, seeds and versions."""
    return Section(
        "Reproducibility",
        [],
        [Grid("Commands, seeds, versions", ["", ""], [[str(k), str(v)] for k, v in made.items()])],
    )
