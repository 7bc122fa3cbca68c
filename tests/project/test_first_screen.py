"""What users see first: its figures are those of docs/quality.md, and words that people search for lead somewhere."""

import math
import re
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
    from benchmarks.quality import figure

    return figure


def inserted(name, part):
    """The lines that a script has inserted into a page."""
    return re.search(rf"<!-- figures: {part} -->\n\n(.+?)\n\n<!-- end -->", read(name), re.DOTALL)[1].splitlines()


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


class TestTable:
    def test_is_that_of_the_results(self, figure):
        page, name = read("docs/quality.md"), "README.md"
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
        ratios = figure.ratios_of_sets(read("docs/quality.csv"), protocol)
        compared = figure.rows_below(page, heading, "### agbm compared with each contestant")
        means = {row["agbm against"]: float(row["loss ratio"]) for row in compared}
        for who, mean in means.items():
            found = geometric_mean([ratio for name, ratio in ratios[who].items() if name != figure.EXTREME])
            assert mean == pytest.approx(found, abs=0.004), who
        (ours,) = [row for row in figure.rows_below(page, heading) if row["contestant"] == "agbm"]
        of_all = sorted(set.intersection(*map(set, ratios.values())) - {figure.EXTREME})
        found = geometric_mean([ratios["LightGBM"][name] for name in of_all])
        assert float(ours["test loss"]) == pytest.approx(found, abs=0.004)
        assert f"geometric mean of {len(of_all)} tables" in read("README.md")


class TestTypedFigures:
    """Figures that are typed into sentences and small tables are those that commands have written into pages."""

    LIBRARIES = ("LightGBM", "XGBoost", "CatBoost", "HistGradientBoosting")

    def ratios(self, first_words):
        """A row of README's table of benchmarks."""
        (line,) = [line for line in read("README.md").splitlines() if line.startswith(f"| {first_words}")]
        return [float(cell) for cell in line.strip("|").split("|")[1:]]

    def cells(self, part, first_cell, second_cell=None):
        """A row of a table that a command has written into docs/benchmarks.md, by heads."""
        lines = [line for line in inserted("docs/benchmarks.md", part) if line.startswith("|")]
        head, _, *body = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines]
        (found,) = [cells for cells in body if cells[0] == first_cell and second_cell in (None, tuple(cells[1:3]))]
        return dict(zip(head, found, strict=True))

    def test_time_per_tree(self):
        found = self.cells("cases", "one tree: squared error, 500,000×28 float32, depth 6")
        assert self.ratios("time per tree, 500,000 × 28, squared error") == [
            float(found[name]) for name in self.LIBRARIES
        ]

    def test_time_and_memory(self):
        found = [self.cells("speed", name) for name in self.LIBRARIES]
        (n,) = {int(row["comparisons"]) for row in found}
        means = [float(row["geometric mean of the ratios"]) for row in found]
        assert self.ratios(f"time and memory, geometric mean of {n} measurements") == means

    def test_time_of_one_row(self):
        found = self.cells("latency", "class", ("NumPy", "1"))
        ratios = [float(re.search(r"\((.+)\)", found[name])[1]) for name in self.LIBRARIES]
        assert self.ratios("time to predict one row, `predict_proba`") == ratios

    def test_rows_and_threads(self):
        page = read("docs/quality.md")
        (n_rows,) = re.findall(r"^At most ([\d,]+) training rows", page, re.MULTILINE)
        assert f"with up to {n_rows} training rows" in read("README.md")
        assert set(re.findall(r"threads: (\d+)", page)) == {"2"}
        assert "Times: two threads" in " ".join(read("README.md").split())

    def test_sentences(self, figure):
        page = read("docs/quality.md")
        rows = {row["contestant"]: row for row in figure.rows_below(page, "## Protocol: early stopping")}
        loss = {name: float(row["test loss"]) for name, row in rows.items()}
        gain = {name: 1 - value for name, value in loss.items()}
        one, plain = "agbm, one model", "agbm, plain"
        trees = float(rows[one]["trees"]) / float(rows[plain]["trees"])
        times = float(rows["agbm"]["fit time"])
        assert gain["five LightGBMs"] / gain["agbm"] < 0.5
        assert times / float(rows["agbm, no crosses"]["fit time"]) == pytest.approx(4 / 3, abs=0.05)
        stated = {
            "docs/quality.md": (
                f"the default has a loss of {loss['agbm']:.3f}, five LightGBMs have {loss['five LightGBMs']:.3f}, "
                f"`{one}` has {loss[one]:.3f}, and `agbm, no crosses` has {loss['agbm, no crosses']:.3f}",
                "explains less than half of the gain",
            ),
            "docs/acceleration.md": (
                f"needs {trees:.2f} of the trees of plain boosting",
                f"its loss is {1 - loss[one] / loss[plain]:.1%} lower".replace("%", " %"),
                f"Five members gain {1 - loss['agbm'] / loss[one]:.0%}".replace("%", " %"),
            ),
            "docs/limits.md": (
                f"about {times:.1f} times as long as one of LightGBM",
                "make [fits a third longer](quality.md)",
            ),
        }
        for name, sentences in stated.items():
            for sentence in sentences:
                assert sentence in " ".join(read(name).split()), name


class TestFigure:
    @pytest.mark.parametrize("theme", ["light", "dark"])
    def test_files_are_those_of_the_page(self, figure, theme):
        drawn = figure.svg(read("docs/quality.md"), read("docs/quality.csv"), figure.THEMES[theme])
        assert drawn == read(f"docs/comparison-{theme}.svg"), "make figures draws it again"

    def test_means_are_those_of_the_page(self, figure):
        rows = figure.rows_below(
            read("docs/quality.md"), "## Protocol: early stopping", "### agbm compared with each contestant"
        )
        compared = {row["agbm against"]: float(row["loss ratio"]) for row in rows}
        for strip in figure.strips(read("docs/quality.md"), read("docs/quality.csv")):
            assert len(strip.ratios) == sum(strip.record)
            assert strip.mean == pytest.approx(compared[strip.library], abs=0.004)

    def test_dots_do_not_leave_their_strip(self, figure):
        heights = figure.swarm([100.0] * 40)
        assert max(map(abs, heights)) <= figure.SPREAD
        assert figure.swarm([0.0, 50.0, 100.0]) == [0.0, 0.0, 0.0]

    def test_a_missing_heading(self, figure):
        with pytest.raises(ValueError, match="no heading '## Protocol: early stopping'"):
            figure.strips("# Accuracy", "")

    def test_both_pages_have_both_variants(self):
        for name in PAGES:
            for theme in ("light", "dark"):
                assert f"comparison-{theme}.svg" in read(name)
        assert 'media="(prefers-color-scheme: dark)" srcset="docs/comparison-dark.svg"' in read("README.md")


def test_order_of_the_first_screen():
    text = read("README.md")
    marks = ["pip install", "AGBMClassifier()", "| LightGBM |", "limits.md", "| task | call | page |", "## Benchmarks"]
    places = [text.index(mark) for mark in marks]
    assert places == sorted(places)


def test_documents_are_short():
    """Words as `wc -w` counts them, of all pages, but for the tables of those that are generated from results."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md"), *ROOT.glob("release/*.md")]
    lines = [(page.name, line) for page in pages for line in page.read_text().splitlines()]
    generated = ("paper.md", "quality.md", "benchmarks.md")
    assert sum(len(line.split()) for name, line in lines if name not in generated or not line.startswith("|")) <= 39_900
    assert len(read("README.md").split()) <= 900


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
