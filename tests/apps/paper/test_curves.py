"""Losses against the number of trees."""

import numpy as np
import pytest

from agbm._apps.paper.experiments import curves, protocol
from agbm._apps.paper.experiments.curves import Line
from agbm._apps.paper.printed import TREES


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(curves, "TREES", {"housing": 20})


def test_all_methods_steps_and_momenta(short):
    found = curves.lines()
    assert len(set(found)) == len(found)
    of_a1a = [line for line in found if (line.data, line.levels) == ("a1a", 3)]
    assert {line.step for line in of_a1a} == {None, *curves.STEPS}
    assert {line.gamma for line in of_a1a if line.method == "agbm"} == set(curves.MOMENTA)
    assert {line.levels for line in found if line.data == "a1a"} == {1, 3}  # the paper's figure with stumps
    methods = {line.method: line.parameters()["method"] for line in found if line.gamma in (None, 0.1)}
    assert (methods["agbm"].correction, methods["agbm-minus"].correction) == (1.0, -1.0)
    assert methods["gbm-search"].line_search
    assert not methods["gbm"].line_search
    assert methods["vagbm"].momentum == 1.0
    assert all(line.parameters()["n_members"] == 1 for line in found)


def test_a_curve(numbers, short):
    calm = curves.curve(Line("housing", 2, "gbm", 0.1), numbers, 0)
    assert calm.diverged == 0
    assert calm.trees == list(range(21))
    assert np.all(np.diff(calm.train) < 0)
    assert calm.lowest_test == min(calm.test)
    assert calm.trees[np.argmin(calm.test)] == calm.trees_at_lowest
    start = np.mean([0.5 * np.mean(numbers.y[protocol.split(numbers, k, 0)[1]] ** 2) for k in range(5)])
    assert calm.test[0] == pytest.approx(start, rel=1e-5)
    assert curves.curve(Line("housing", 2, "agbm", 0.1, 0.1), numbers, 0).trees[-1] <= 20


def test_a_diverging_curve_ends(numbers, short):
    wild = curves.curve(Line("housing", 2, "vagbm", 30.0), numbers, 0)
    assert wild.diverged == 5
    assert np.isfinite(wild.train).all()


def test_the_line_search_has_no_step(numbers, short):
    line = Line("housing", 2, "gbm-search", None)
    searched = curves.curve(line, numbers, 0)
    steps = [curves.curve(Line("housing", 2, "gbm", step), numbers, 0).train[1] for step in (0.1, 0.5, 1.0, 1.5)]
    assert searched.train[1] <= min(steps) * (1 + 1e-9)


def test_few_points_and_those_of_the_table():
    kept = curves._thinned(np.arange(0, 601))
    assert len(kept) <= curves.MOST_POINTS + len(TREES) + 1
    assert {0, 1, 600, *TREES} <= set(kept)
    assert curves._thinned(np.array([0])) == [0]


def test_stored_and_read(numbers, short, tmp_path):
    line = Line("housing", 2, "agbm", 0.1, 0.3)
    stored = curves.as_stored(line, numbers, 0)
    assert curves.from_stored(stored) == curves.curve(line, numbers, 0)
    other = numbers._replace(checksum="other")
    assert curves.unit(line, numbers, 0).file == curves.unit(line, numbers, 0).file
    assert curves.unit(line, other, 0).file != curves.unit(line, numbers, 0).file
