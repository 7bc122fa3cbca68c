"""The page of the documentation: it is what the stored results give, and a rerun gives the stored results."""

import json
import os
from dataclasses import replace

import pytest

from agbm._apps.paper import data_sets, results
from agbm._apps.paper.experiments import angles, curves, proof, restarts, rivals, table, tables
from agbm._apps.paper.experiments.angles import Sample
from agbm._apps.paper.experiments.curves import Line
from agbm._apps.paper.experiments.restarts import Setting
from agbm._apps.paper.experiments.table import Run
from agbm._apps.paper.page import explorer, write
from documents import ROOT

PAGE = ROOT / "docs" / "paper.md"
FOLDER = PAGE.parent / "_static" / "paper"

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="there is no folder docs")
needs_data = pytest.mark.skipif(not os.environ.get(data_sets.VARIABLE), reason=f"{data_sets.VARIABLE} is not set")


@pytest.fixture(scope="module")
def stored():
    return results.load(FOLDER)


def as_read(found):
    """Results as they are read from JSON."""
    return json.loads(json.dumps(found))


def test_the_page_is_generated(stored):
    assert set(stored.made) == set(results.PARTS)
    assert PAGE.read_text(encoding="utf-8") == write.markdown(stored, "_static/paper")


def test_the_interactive_figure_is_generated(stored):
    assert (FOLDER / "explorer.html").read_text(encoding="utf-8") == explorer.page(stored.curves)


def test_all_figures_are_there():
    named = {f"{name.partition(chr(34))[0]}" for name in PAGE.read_text().split('src="_static/paper/')[1:]}
    assert len(named) > 8
    for name in named:
        assert (FOLDER / name).is_file()
        assert (FOLDER / name.replace("-light", "-dark")).is_file()


@needs_data
class TestDigits:
    """Units that take seconds: the page is stale if a rerun has other digits."""

    @pytest.mark.parametrize(
        "run",
        [Run("housing", 1, "gbm"), Run("sonar", 2, "vagbm"), Run("german", 4, "default"), Run("diabetes", 0, "agbm")],
    )
    def test_the_table(self, stored, run):
        found = table.as_stored(run, data_sets.load(run.data), stored.table.conventions)
        assert table.from_stored(as_read(found)) == stored.table.outcomes[run]

    @pytest.mark.parametrize(
        "line",
        [
            Line("a1a", 3, "gbm", 1.0),
            Line("a1a", 1, "agbm", 0.1, 0.3),
            Line("w1a", 3, "vagbm", 0.3),
            Line("housing", 3, "agbm", 0.1, 1.0),
            Line("sonar", 3, "agbm-minus", 0.01, 0.1),
            Line("german", 3, "gbm-search", None),
        ],
        ids=lambda line: f"{line.data}-{line.method}",
    )
    def test_the_curves(self, stored, line):
        found = as_read(curves.as_stored(line, data_sets.load(line.data), 0))
        assert [curve for curve in stored.curves if curve.line == line] == [curves.from_stored(found)]

    def test_theorem_41(self, stored):
        found = as_read(proof.as_stored(data_sets.load("housing")))
        assert [proof.to_stored(track) for track in stored.theory if track.problem == "housing"] == found

    def test_the_restarts(self, stored):
        setting = Setting("housing", 1.0, 3)
        found = as_read(restarts.as_stored(setting, data_sets.load("housing")))
        assert [run for run in stored.restarts if run.setting == setting] == list(map(restarts.from_stored, found))

    @pytest.mark.parametrize(("sample", "depth"), [(Sample("a1a", None, 0.3), 4), (Sample("a9a", 500), 8)])
    def test_the_angles(self, stored, sample, depth):
        found = as_read(angles.as_stored(sample, depth, data_sets.load(sample.data), 0))
        of_place = [one for one in stored.angles if (one.sample, one.depth) == (sample, depth)]
        assert of_place == [angles.from_stored(found)]

    def test_the_rivals(self, stored):
        (sonar,) = [one for one in tables.of_paper(None) if one.name == "sonar"]
        learner = "depth 3"
        units = [(k, method) for k in range(rivals.SPLITS) for method in ("plain", "fading", "hybrid")]
        found = [rivals.compute(sonar, k, learner, rivals.LEARNERS[learner], method) for k, method in units]
        again = rivals.summarise(rivals.from_stored(as_read(trace)) for of_unit in found for trace in of_unit)
        known = {(run.method, run.rate): run for run in stored.rivals if (run.table, run.learner) == ("sonar", learner)}
        for run in again:  # seconds are those of another machine
            of_stored = known[run.method, run.rate]
            assert replace(run, seconds=0.0, at_times=()) == replace(of_stored, seconds=0.0, at_times=())
