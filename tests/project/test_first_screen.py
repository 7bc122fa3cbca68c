"""What users see first: its figures are those of docs/quality.md, and words that people search for lead somewhere."""

import math
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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


def inserted(name, part):
    """The lines that a script has inserted into a page."""
    return re.search(rf"<!-- figures: {part} -->\n\n(.+?)\n\n<!-- end -->", read(name), re.DOTALL)[1].splitlines()


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


class TestTable:
    @pytest.mark.parametrize("name", PAGES)
    def test_is_that_of_the_results(self, figure, name):
        page = read("docs/quality.md")
        assert inserted(name, "suite") == figure.first_table(page), "make figures writes it again"
        assert inserted(name, "where it loses") == figure.where_it_loses(page)

    def test_everything_is_relative_to_lightgbm(self):
        rows = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in inserted("README.md", "suite")]
        (lightgbm,) = [cells for cells in rows if cells[0] == "LightGBM"]
        assert [cell for cell in lightgbm[2:] if cell] == ["1.00"] * len([cell for cell in lightgbm[2:] if cell])
        losses = [float(cells[2]) for cells in rows[2:]]
        assert losses == sorted(losses)
        assert "agbm" in [cells[0] for cells in rows]

    @pytest.mark.parametrize("protocol", ["early stopping", "out of the box"])
    def test_means_follow_from_the_ratios_of_all_sets(self, figure, protocol):
        page, heading = read("docs/quality.md"), f"## Protocol: {protocol}"
        by_set = [row for row in figure.rows_below(page, heading, figure.RATIOS) if row["set"] != figure.EXTREME]
        compared = figure.rows_below(page, heading, "### agbm compared with each contestant")
        means = {row["agbm against"]: float(row["loss ratio"]) for row in compared}
        for who, mean in means.items():
            found = geometric_mean([float(row[who]) for row in by_set if row[who]])
            assert mean == pytest.approx(found, abs=0.004), who
        (ours,) = [row for row in figure.rows_below(page, heading) if row["contestant"] == "agbm"]
        assert float(ours["test loss"]) == means["LightGBM"]
        assert len(by_set) == int(ours["sets"])
        assert all(f"geometric mean of {len(by_set)} tables" in read(name) for name in PAGES)


class TestFigure:
    @pytest.mark.parametrize("theme", ["light", "dark"])
    def test_files_are_those_of_the_page(self, figure, theme):
        drawn = figure.svg(read("docs/quality.md"), figure.THEMES[theme])
        assert drawn == read(f"docs/comparison-{theme}.svg"), "make figures draws it again"

    def test_means_are_those_of_the_page(self, figure):
        rows = figure.rows_below(
            read("docs/quality.md"), "## Protocol: early stopping", "### agbm compared with each contestant"
        )
        compared = {row["agbm against"]: float(row["loss ratio"]) for row in rows}
        for strip in figure.strips(read("docs/quality.md")):
            assert len(strip.ratios) == sum(strip.record)
            assert strip.mean == pytest.approx(compared[strip.library], abs=0.004)

    def test_dots_do_not_leave_their_strip(self, figure):
        heights = figure.swarm([100.0] * 40)
        assert max(map(abs, heights)) <= figure.SPREAD
        assert figure.swarm([0.0, 50.0, 100.0]) == [0.0, 0.0, 0.0]

    def test_a_missing_heading(self, figure):
        with pytest.raises(ValueError, match="no heading '## Protocol: early stopping'"):
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
