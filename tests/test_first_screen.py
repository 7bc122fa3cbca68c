"""What users see first: its figures are those of docs/quality.md, and words that people search for lead somewhere."""

import math
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "docs/index.md")
SMALL = 60_000
WORDS = [
    "eval_set", "eval_metric", "early_stopping_rounds", "n_estimators", "num_leaves", "scale_pos_weight", "imbalanced",
    "hyperparameter", "datetime", "missing", "categorical", "text", "shap", "importance", "partial dependence",
    "calibration", "threshold", "quantile", "offset", "exposure", "base_margin", "init_score", "incremental",
    "continue training", "refit", "soft labels", "multi-label", "monotone", "cross-validation", "save", "load", "onnx",
    "serving", "gpu", "learning to rank", "survival", "dask", "out-of-core",
]  # fmt: skip
"""What people search for."""

# A source distribution has tests, but not the documentation.
pytestmark = pytest.mark.skipif(not (ROOT / "docs" / "index.md").is_file(), reason="there is no documentation")


def read(name):
    return (ROOT / name).read_text()


@pytest.fixture(scope="module")
def figure():
    """The script that draws the first figure."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import suite_figure
    finally:
        sys.path.pop(0)
    return suite_figure


def first_table(name):
    """Cells of the first table of a page by the first cell of their row."""
    lines = re.search(r"^\|.+?(?=\n\n)", read(name), re.DOTALL | re.MULTILINE)[0].splitlines()
    return {cells[0].strip(" *"): [cell.strip() for cell in cells[1:]] for cells in
            (line.strip("|").split("|") for line in lines[2:])}  # fmt: skip


def named_ratios():
    """Loss ratios with and without early stopping, from the sentences of docs/quality.md about them."""
    text = read("docs/quality.md").partition("**On shuttle losses are tiny")[2]
    libraries = "LightGBM", "XGBoost", "CatBoost", "HistGradientBoosting", "ChimeraBoost"
    patterns = {library: rf"([\d.]+)\s+of\s+(?:the\s+loss\s+of\s+)?{library}" for library in libraries}
    return {library: [float(value) for value in re.findall(patterns[library], text)[:2]] for library in libraries}


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


class TestTable:
    def test_both_pages_have_the_same(self):
        assert first_table("README.md") == first_table("docs/index.md")

    def test_loss_ratios_are_those_that_the_page_names(self):
        for library, ratios in named_ratios().items():
            shown = first_table("README.md")[library][:2]
            assert [float(value) for value in shown] == pytest.approx(ratios, abs=0.0051), "rounded to two digits"

    def test_ranks_and_seconds(self, figure):
        page = read("docs/quality.md")
        given = {row["contestant"]: row for row in figure.rows_below(page, "## Protocol: given")}
        seconds = {row[""]: row["seconds / LightGBM"] for row in figure.rows_below(page, "## Seconds")}
        for name, (_, _, rank, time) in first_table("README.md").items():
            assert rank == given[name]["mean rank (36 sets)"]
            assert time == seconds.get(name, "1")

    def test_plain_fits_without_the_extreme_set(self, figure):
        """These means are not in the tables of the page, but follow from its losses."""
        losses = figure.rows_below(read("docs/quality.md"), "## Protocol: out of the box", "### Test loss")
        for library, (_, shown, *_) in first_table("README.md").items():
            ratios = [
                float(row["agbm"]) / float(row[library])
                for row in losses
                if row["set"] != figure.EXTREME and row[library]
            ]
            assert float(shown) == round(geometric_mean(ratios), 2), library


class TestFigure:
    @pytest.mark.parametrize("theme", ["light", "dark"])
    def test_files_are_those_of_the_page(self, figure, theme):
        drawn = figure.svg(read("docs/quality.md"), figure.THEMES[theme])
        assert drawn == read(f"docs/comparison-{theme}.svg"), "make figures draws it again"

    def test_means_are_those_that_the_page_names(self, figure):
        for strip in figure.strips(read("docs/quality.md")):
            assert len(strip.ratios) == sum(strip.record) == 36
            assert strip.mean == pytest.approx(named_ratios()[strip.library][0], abs=0.002)

    def test_dots_do_not_leave_their_strip(self, figure):
        heights = figure.swarm([100.0] * 40)
        assert max(map(abs, heights)) <= figure.SPREAD
        assert figure.swarm([0.0, 50.0, 100.0]) == [0.0, 0.0, 0.0]

    def test_a_missing_heading(self, figure):
        with pytest.raises(ValueError, match="no heading '## Protocol: given'"):
            figure.strips("# Accuracy")

    def test_both_pages_have_both_variants(self):
        for name in PAGES:
            for theme in ("light", "dark"):
                assert f"comparison-{theme}.svg" in read(name)
        assert 'media="(prefers-color-scheme: dark)" srcset="docs/comparison-dark.svg"' in read("README.md")


@pytest.mark.parametrize("name", PAGES)
def test_order_of_the_first_screen(name):
    text = read(name)
    marks = [
        "pip install",
        "AGBMClassifier()",
        "| LightGBM |",
        "comparison-light.svg",
        "Accelerating Gradient Boosting",
    ]
    places = [text.index(mark) for mark in marks]
    assert places == sorted(places)


def test_words_of_other_libraries_lead_somewhere():
    """One line each, with a link, on the page of questions."""
    rows = [line.lower() for line in read("docs/how-do-i.md").splitlines() if line.startswith("| ")]
    for word in WORDS:
        answers = [row.split("|")[2] for row in rows if re.search(rf"\b{word}", row.split("|")[1])]
        assert any("](" in answer for answer in answers), word


def test_gallery():
    """Every figure is drawn by the code above it, is there, and is small."""
    page = read("docs/examples.md")
    drawn = re.findall(r'savefig\("(.+?)"', page)
    assert drawn == re.findall(r"!\[.+?\]\((.+?)\)", page)
    assert 5 <= len(drawn) <= 10
    for name in drawn:
        assert 5_000 < (ROOT / "docs" / name).stat().st_size < SMALL, name


def test_every_example_is_in_the_gallery():
    page = read("docs/examples.md")
    assert [path.name for path in (ROOT / "examples").glob("*.py") if f"../examples/{path.name})" not in page] == []
