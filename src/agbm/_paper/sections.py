"""The sections of the page: what the runs say about each claim of the paper."""

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
    """Losses beside the printed ones, paired differences, and counts for each claim."""
    c = table.conventions
    stopping = {
        "held-out": "stops early after 5 rounds, judged on held-out training rows",
        "test": "stops early after 5 rounds, judged on the test rows as in the released scripts: test losses are then "
        "too good",
        "none": "does not stop early",
    }[c.judge]
    kept = "" if c.judge == "none" else f"; the {c.keep} model is kept"
    text = (
        f"Five random 80/20 splits (seed {c.seed}), trees with {c.levels} levels, learning rate 0.1, parameters by "
        f"random search with 5 folds and {c.draws} draws for each parameter; the final fit {stopping}{kept}. Mean and "
        "standard error over the splits. The default of this library is not tuned and has its own levels. Printed: the "
        f"paper's own figures; their errors are {printed_errors(table):.1f} times ours (a standard deviation would be "
        "2.2 times)."
    )
    cells = {(cell.data, cell.trees, cell.method): cell for cell in table.cells()}
    grids = [_claims(table, list(cells.values())), *(_losses(table, cells, trees) for trees in TREES)]
    grids.append(_differences(table, cells))
    if c.judge != "none":
        grids.append(_kept(table, cells))
    return Section("The table: losses after tuning", [text, *_sign_question(table)], grids)


def _sign_question(table: Table) -> list[str]:
    """Which sign of the correction gives losses like the printed ones."""
    if not {"agbm", "agbm-minus"} <= set(table.methods):
        return []
    near, n = nearer(table, "agbm", "agbm-minus"), len(table.data_sets) * len(TREES)
    return [
        f"Loss over GBM's, against the same in print: of {n} cells, Algorithm 2 is nearer than the released code's "
        f"sign in {near.train} by training loss and in {near.test} by test loss."
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
    caption = "Test loss minus that of GBM on the same splits (and splits won): below zero is better than GBM"
    return Grid(caption, ["", *(METHODS[method].title for method in others)], rows)


def _claims(table: Table, cells: Sequence[Cell]) -> Grid:
    """Over all cells: how often a method beats GBM, in print and here."""
    n = len(table.data_sets)
    pairs = [(PRINTED[d, t, "agbm"], PRINTED[d, t, "gbm"], t) for d in table.data_sets for t in TREES]
    header = ["cells in which it is below GBM", "training loss", "test loss"]
    header += [f"test loss, {trees} trees" for trees in TREES] + ["splits won", "test loss over GBM's, geometric mean"]
    header += ["test loss below by 2 errors, above", "lowest test loss of all", "runs diverged"]
    header += ["test within 2 printed errors", "off the print by a factor of"]
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
    asked = [f"{METHODS[m].title}: of {most // METHODS[m].trees_an_iteration}" for m in table.methods]
    return Grid(f"Iterations that early stopping kept of {most} trees, mean", ["", *asked], rows)


def of_curves(curves: Sequence[Curve]) -> list[Section]:
    """One section a figure."""
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
        caption = f"Mean of {N_SPLITS} splits; ×: runs that diverged (the curve then ends at the first of them)"
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
    """The theorem's quantities along runs."""
    text = (
        "Algorithm 2 on problems whose optimum is known, with the largest step that the theorem admits. Admissible: "
        "γ is at most Θ⁴/(4 + Θ²) with Θ the smallest cosine between a residual and its fit in the same run. The "
        "bound is that of the theorem as printed; with θ as defined, its proof gives four times as much. The error "
        "terms δ are defined for γ below Θ²."
    )
    header = [
        "run",
        "γ",
        "smallest cosine",
        "mean cosine of r, c in the second half",
        "γ admitted",
        "admissible",
        "gap at the end",
        "gap of GBM then",
    ]
    header += ["bound at the end", "iterations above the bound", "V ≤ V⁰ + Σδ throughout", "Σδ at the end"]
    rows = [_track_row(track) for track in tracks]
    pictures = [f"theory-{name}.svg" for name in dict.fromkeys(track.problem for track in tracks)]
    reach = "; ".join(f"{name}: {'yes' if yes else 'not shown'}" for name, yes in spans.items())
    paragraphs = [text, f"Whether sums of stumps alone reach the optimum exactly: {reach}."]
    return Section("Theory along runs", paragraphs, [Grid("Theorem 4.1", header, rows)], pictures)


def _track_row(track: Track) -> list[str]:
    columns = track.columns
    held, last_sum = "not defined", ""
    if not math.isnan(columns["error_terms"][-1]):
        limit = [track.start_potential + total for total in columns["error_terms"]]
        # Sums of squares of many numbers: equal up to rounding counts as held.
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
    """Versions, seeds, commands."""
    return Section(
        "How this page was made",
        [],
        [Grid("Commands, seeds, versions", ["", ""], [[str(k), str(v)] for k, v in made.items()])],
    )
