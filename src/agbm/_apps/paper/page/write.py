"""The page with all results: figures, sections, and the files of the page."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from ..experiments import protocol
from ..results import Results
from . import claims, curve_sections, document, explorer, figures, rival_figures, rival_sections, table_sections
from . import theory_sections as theory
from .document import Grid, Section

TITLE = "Reproducing the paper"


def write(results: Results, folder: Path, page: Path | None = None) -> list[Path]:
    """Draw the figures into the folder, and write the page.

    The page is index.html and index.md in the folder. If `page` is given, it is this Markdown file, and the folder gets
    the interactive figure as explorer.html.
    """
    draw(results, folder)
    if page is None:
        return document.write(sections(results), TITLE, folder)
    alone = folder / "explorer.html"
    alone.write_text(explorer.page(results.curves), encoding="utf-8")
    page.write_text(markdown(results, os.path.relpath(folder, page.parent)), encoding="utf-8")
    return [page, alone]


def markdown(results: Results, folder: str) -> str:
    """The page in Markdown; `folder` is the address of the figures."""
    return document.to_markdown(sections(results), TITLE, f"{folder}/", f"{folder}/explorer.html") + "\n"


def draw(results: Results, folder: Path) -> None:
    """Draw the figures of all parts that there are."""
    drawn: Mapping[str, Callable[..., object]] = {
        "curves": figures.draw_losses,
        "theory": figures.draw_tracks,
        "restarts": figures.draw_restarts,
        "angles": figures.draw_angles,
        "rivals": rival_figures.draw,
    }
    for part, draw_part in drawn.items():
        if part in results.made:
            draw_part(getattr(results, part), folder)


def sections(results: Results) -> list[Section]:
    """The sections of all parts that there are."""
    curves = curve_sections.Curves(results.curves) if results.curves else None
    opening = claims.section(results.table, curves, results.theory, results.restarts, results.angles)
    return [
        opening,
        *([_explorer(results)] if curves else []),
        *(table_sections.sections(results) if results.table else []),
        *(curve_sections.sections(curves) if curves else []),
        *([theory.theorem_41(results.theory)] if results.theory else []),
        *([theory.angles(results.angles)] if results.angles else []),
        *([theory.restarts(results.restarts)] if results.restarts else []),
        *(rival_sections.of_rivals(results.rivals) if results.rivals else []),
        _deviations(),
        _reproducibility(results),
    ]


def _explorer(results: Results) -> Section:
    text = "Choose a data set, methods, a step η and a momentum γ: training and test loss, mean of five splits."
    return Section("Interactive figure", [text], explorer=explorer.widget(results.curves))


def _deviations() -> Section:
    rows = [
        ["thresholds of trees", "100 quantiles per split and feature", "100 quantiles of all rows, computed once"],
        ["range of γ in the search", "uniform(0.1, 1): in SciPy, 0.1 to 1.1", "0.1 to 1, as γ is at most 1"],
        [
            "search", "not said whether each number of trees has its own",
            "one for all numbers of trees, as a model with 30 trees is the start of one with 100; the candidates are "
            "the same for all splits and data sets",
        ],
        ["rows for early stopping", "not said; the released scripts use the test rows", "10% of the training rows"],
        ["model that is kept", "not said; the released scripts keep the last one", "the best one"],
        ["depth 3", "the released scripts grow four levels", "three levels"],
        ["rows per leaf, leaf values", "not said", "at least one; means of residuals"],
        ["labels", "−1 and 1 in the released scripts", "0 and 1: the same logistic loss in the score"],
        ["averaged members", "none", "none: `n_members=1` in every cell, so that a cell's trees are its trees"],
    ]  # fmt: skip
    text = (
        "What the paper leaves open, or what is different here. `agbm paper table --released` uses the conventions of "
        "the released scripts where they differ (four levels, the test rows, the last model). That "
        "acceleration helps more on large data sets, as Section 6.2 expects, is not tested."
    )
    grid = Grid("Deviations and choices", ["what", "in the paper", "here"], rows)
    return Section("Deviations", [text], [grid])


def _reproducibility(results: Results) -> Section:
    names = list(dict.fromkeys(key for made in results.made.values() for key in made))
    rows = [[part, *(made.get(name, "–") for name in names)] for part, made in results.made.items()]
    text = (
        "The same digits in every run, for any number of processes, but for what depends on seconds. The five splits "
        f"have {protocol.TEST_SHARE:.0%} test rows. The data are LIBSVM's files, read from the folder given by "
        "`--data` or the environment variable AGBM_DATA, and downloaded otherwise; the further tables of the "
        "comparison are public ones that the folder must have, with an index. `agbm paper page` writes this page from "
        "the stored results. A test runs some units of every part again, of the tables those with the protocol of the "
        "text, and compares their digits with the stored ones."
    )
    return Section("Reproducibility", [text], [Grid("How the results were made", ["part", *names], rows)])
