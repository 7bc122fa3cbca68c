"""The command `agbm paper`: its parts, its messages and its files."""

import argparse
import json
import sys

import pytest
from sklearn.datasets import dump_svmlight_file

from agbm._apps import cli
from agbm._apps.paper import command, results
from agbm._apps.paper import data_sets as data
from agbm._apps.paper.experiments import curves, table
from agbm._apps.paper.experiments.curves import Line
from agbm._apps.paper.experiments.protocol import Conventions
from agbm._apps.paper.experiments.table import Table
from paper_results import outcomes_of


def test_errors_are_one_line(tmp_path, capsys):
    assert cli.main(["paper", "table", "--data", str(tmp_path), "--out", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("agbm: diabetes is not in ")
    assert error.count("\n") == 1
    with pytest.raises(data.DataSetError):
        cli.main(["--debug", "paper", "theory", "--data", str(tmp_path)])
    for wrong in (["paper"], ["paper", "tables"], ["paper", "table", "--sets", "iris"], []):
        with pytest.raises(SystemExit) as end:
            cli.main(wrong)
        assert end.value.code == 2


def test_a_page_needs_results(tmp_path, capsys):
    assert cli.main(["paper", "page", "--out", str(tmp_path)]) == 1
    assert "there are no results in this folder" in capsys.readouterr().err


def test_without_matplotlib(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in [name for name in sys.modules if name.startswith("agbm._apps.paper.page")]:
        monkeypatch.delitem(sys.modules, name)
    from agbm._apps import paper

    monkeypatch.delattr(paper, "page", raising=False)
    for part in ("curves", "theory", "all", "rivals"):
        assert cli.main(["paper", part, "--data", str(tmp_path)]) == 1
        assert "the page needs matplotlib" in (error := capsys.readouterr().err)
        assert "pip install 'agbm[paper]'" in error


def test_help(capsys):
    for words in (["--help"], ["paper", "--help"], ["paper", "table", "--help"]):
        with pytest.raises(SystemExit) as end:
            cli.main(words)
        assert end.value.code == 0
    assert "released scripts" in capsys.readouterr().out


def test_single_options_go_before_released():
    parser = argparse.ArgumentParser()
    command.add_to(parser.add_subparsers())
    asked = parser.parse_args(["paper", "table", "--released", "--keep", "best", "--seed", "3"])
    assert command.conventions_of(asked) == Conventions(levels=4, validation="test", keep="best", seed=3)


def test_all_is_everything_but_the_rivals():
    parser = argparse.ArgumentParser()
    command.add_to(parser.add_subparsers())
    assert parser.parse_args(["paper", "all"]).parts == ["table", "curves", "theory", "restarts", "angles"]
    assert parser.parse_args(["paper", "rivals"]).parts == ["rivals"]


def test_tables_with_other_conventions_are_parts_of_their_own():
    names = [results.part_of(c) for c in (Conventions(), Conventions.released(), Conventions(validation="none"))]
    assert names == list(results.TABLES)


def test_results_are_stored_and_read(numbers, tmp_path, monkeypatch):
    monkeypatch.setattr(curves, "TREES", {"housing": 5})
    made = results.made_by("curves", "agbm paper all", 3)
    invented = Table(Conventions(), outcomes_of(lambda run, trees: (0.1, 0.2 + 0.01 * run.split)))
    found = [curves.curve(Line("housing", 2, "gbm", 0.1), numbers, 0)]
    results.save("table", invented, made, tmp_path)
    results.save("curves", found, made, tmp_path)
    read = results.load(tmp_path)
    assert (read.table, read.curves, read.theory) == (invented, found, ())
    assert read.made == {"table": made, "curves": made}
    assert (tmp_path / "table.csv").read_text().count("\n") == 1 + len(list(invented.cells()))
    # One entry per line: a changed result is a changed line.
    assert len((tmp_path / "table.json").read_text().splitlines()) > len(invented.outcomes)


@pytest.mark.slow
def test_results_do_not_depend_on_the_number_of_jobs(classes, tmp_path, capsys, monkeypatch):
    dump_svmlight_file(classes.X, classes.y, str(tmp_path / "sonar"), zero_based=False)
    known = data._Source("sonar", 200, 10, data.checksum(classes.X, classes.y, True))
    monkeypatch.setitem(data._SOURCES, "sonar", known)
    numbers = []
    for jobs in ("1", "2"):
        out = tmp_path / jobs
        words = ["paper", "table", "--sets", "sonar", "--methods", "gbm", "agbm", "--draws", "1", "--jobs", jobs]
        assert cli.main([*words, "--data", str(tmp_path), "--out", str(out)]) == 0
        numbers.append([json.loads((out / "table.json").read_text())["runs"], (out / "table.csv").read_bytes()])
    assert numbers[0] == numbers[1]
    assert "index.html" in capsys.readouterr().out
    assert table.BASELINE in (out / "index.md").read_text().lower()
