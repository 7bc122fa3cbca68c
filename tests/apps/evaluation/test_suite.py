"""The benchmark of default settings (benchmarks/quality): contestants, processes and the page."""

import json
import os
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.libraries import LightGBM, Rows, XGBoost
from benchmarks.quality import contestants, report, suite
from benchmarks.shared import processes, tables

ROOT = Path(__file__).parents[3]

ROWS = 200


def a_problem(n_classes=0):
    """A split of random rows, whose first feature is the number of the row among training and validation rows."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"number": np.arange(ROWS, dtype=float), "noise": rng.standard_normal(ROWS)})
    y = np.arange(ROWS) % n_classes if n_classes else rng.standard_normal(ROWS)
    rows = Rows(X, y)
    parts = [rows[np.arange(start, stop)] for start, stop in ((0, 100), (100, 125), (125, ROWS))]
    kind = "multiclass" if n_classes else "regression"
    return tables.Problem("toy", kind, *parts, rows[np.arange(125)])


EARLY = contestants.Run(contestants.EARLY_STOPPING, 30, 0, 1)


class TestAverages:
    @pytest.mark.parametrize("n_classes", [0, 3])
    def test_every_row_is_held_out_once(self, n_classes):
        """Each model is trained on the others; the test rows stay as they are."""
        problem, seen = a_problem(n_classes), []

        def fit(fold, run):
            seen.append((fold, run))
            predicted = np.full(len(fold.test.y), float(len(seen)))
            return contestants.Outcome(predicted, 10, 10 * len(seen), 2.0, 0.5, float(len(seen)))

        outcome = contestants.cross_fitted(fit)(problem, EARLY)
        held_out = [set(fold.validation.X["number"]) for fold, _ in seen]
        assert sorted(number for part in held_out for number in part) == list(range(125))
        for (fold, _), part in zip(seen, held_out, strict=True):
            assert set(fold.train.X["number"]) == set(range(125)) - part
            assert fold.test is problem.test
            if n_classes:
                assert np.bincount(fold.validation.y).tolist() == pytest.approx([25 / 3] * 3, abs=2.0)
        assert [run.seed for _, run in seen] == [0, 1, 2, 3, 4]
        assert outcome.predicted == pytest.approx(np.full(75, 3.0))
        assert (outcome.trees, outcome.iterations, outcome.models) == (50, 30, 5)
        assert (outcome.seconds, outcome.prediction_seconds, outcome.validation_loss) == (10.0, 2.5, 3.0)

    @pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated")  # its successor is not in LightGBM 4.5
    @pytest.mark.parametrize("name", ["five LightGBMs", "five XGBoosts"])
    def test_contestants(self, name):
        """Predictions are the mean of those of five models that are fitted one by one."""
        (contestant,) = [found for found in contestants.built_in() if found.name == name]
        assert contestant.protocols == (contestants.EARLY_STOPPING,)
        problem = a_problem()
        library = {"five LightGBMs": LightGBM, "five XGBoosts": XGBoost}[name]
        folds = contestants._folds(problem, 0)
        alone = [
            contestants.fit_defaults(library, fold, replace(EARLY, seed=i)).predicted for i, fold in enumerate(folds)
        ]
        assert contestant.fit(problem, EARLY).predicted == pytest.approx(np.mean(alone, axis=0))
        assert np.ptp(alone, axis=0).max() > 0


class TestOurs:
    def test_members_hold_out_their_own_rows_or_share_one_set(self, monkeypatch):
        import agbm

        fitted = []
        original = agbm.AGBMRegressor.fit

        def fit(self, X, y, **keywords):
            fitted.append((len(X), "X_val" in keywords))
            return original(self, X, y, **keywords)

        monkeypatch.setattr(agbm.AGBMRegressor, "fit", fit)
        problem = a_problem()
        found = {
            name: contestants.fit_ours(problem, EARLY, **parameters)
            for name, parameters in {"own": {}, "one": {"one_hold_out": True}, "alone": {"n_members": 1}}.items()
        }
        assert fitted == [(125, False), (100, True), (100, True)]
        assert [outcome.models for outcome in found.values()] == [5, 5, 1]
        assert np.isnan(found["own"].validation_loss), "its models were trained on the validation rows"
        assert np.isfinite(found["one"].validation_loss)
        assert all(outcome.prediction_seconds > 0 for outcome in found.values())


class TestProcesses:
    def test_every_process_has_its_own_cores(self):
        cores = sorted(os.sched_getaffinity(0))
        n = min(2, len(cores))

        def work(item):
            yield item, os.getpid(), tuple(os.sched_getaffinity(0))
            yield -item, os.getpid(), tuple(os.sched_getaffinity(0))

        found = list(processes.in_processes(work, range(1, 21), n, 1))
        assert sorted(item for item, *_ in found) == sorted([*range(1, 21), *range(-20, 0)])
        assert len({own for _, _, own in found}) == len({process for _, process, _ in found}) <= n
        assert all(len(own) == 1 and set(own) <= set(cores) for _, _, own in found)
        assert sorted(os.sched_getaffinity(0)) == cores

    def test_crash_loses_one_item(self, capsys):
        def work(item):
            yield item
            if item == 1:
                os._exit(7)
            yield item + 100

        n = min(2, len(os.sched_getaffinity(0)))
        found = set(processes.in_processes(work, [1, 2, 3], n, 1))
        assert found >= {1}
        assert 101 not in found
        if n == 2:
            assert found == {1, 2, 3, 102, 103}
        assert "exit code 7" in capsys.readouterr().out

    def test_too_many(self):
        with pytest.raises(ValueError, match="9999 processes with 2 cores each need 19998 cores; there are"):
            list(processes.in_processes(lambda item: [item], [1], 9999, 2))


def record(contestant, loss, task="p", seed=0, machine="here", **more):
    more = {"protocol": contestants.EARLY_STOPPING, "seconds": 1.0, "prediction_seconds": 1.0, "trees": 10} | more
    return report.Record(
        task=task, kind="binary", half="A", seed=seed, contestant=contestant, settings="", version="1", rows=100,
        iterations=10, threads=1, machine=machine, loss=loss, **more,
    )  # fmt: skip


def results(records):
    return report.Results(records, contestants.EARLY_STOPPING, 100, 10)


def cells(lines):
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: dict(zip(head, row, strict=True)) for row in rows}


class TestReport:
    def test_summary_is_relative_to_lightgbm_and_leaves_the_extreme_set_out(self):
        found = results([
            record("LightGBM", 0.2, seconds=2.0), record("agbm", 0.1, seconds=8.0, prediction_seconds=0.5, models=5),
            record("LightGBM", 100.0, "shuttle"), record("agbm", 0.001, "shuttle", models=5),
        ])  # fmt: skip
        rows = cells(report.summary(found))
        assert rows["agbm"] == {
            "contestant": "agbm", "models": "5", "test loss": "0.5000", "half A": "0.5000", "half B": "",
            "mean rank": "1.00", "fit time": "4.00", "prediction time": "0.50", "trees": "1.00",
        }  # fmt: skip
        assert (rows["LightGBM"]["test loss"], rows["LightGBM"]["fit time"]) == ("1.0000", "1.00")

    def test_summary_has_the_sets_of_all_contestants(self):
        found = results([
            record("LightGBM", 0.2), record("agbm", 0.1), record("CatBoost", 0.3),
            record("LightGBM", 0.2, "slow"), record("agbm", 0.01, "slow"),
        ])  # fmt: skip
        assert cells(report.summary(found))["agbm"]["test loss"] == "0.5000"

    def test_times_of_other_machines_do_not_count(self):
        found = results([
            record("LightGBM", 0.2), record("agbm", 0.1), record("CatBoost", 0.1, machine="there", seconds=0.001),
        ])  # fmt: skip
        row = cells(report.summary(found))["CatBoost"]
        assert (row["test loss"], row["fit time"], row["prediction time"]) == ("0.5000", "", "")
        assert found.machine == "here"

    def test_where_agbm_is_behind(self):
        """Only seeds that both have are compared; other settings of agbm are ignored."""
        found = results([
            record("agbm", 1.5), record("agbm", 9.0, seed=1), record("LightGBM", 1.0), record("XGBoost", 1.2),
            record("agbm", 1.02, "q"), record("LightGBM", 1.0, "q"), record("agbm, one model", 0.1, "q"),
        ])  # fmt: skip
        text = report.where_behind(found, "agbm")
        assert text == "agbm is more than 3 % behind the best other library on 1 of 2 data sets: p (50 %, LightGBM)."


def test_command(tmp_path, monkeypatch):
    """Two processes (or one), stopped and resumed; the page needs the results alone."""
    data, out = tmp_path / "data", tmp_path / "out"
    (data / "suite").mkdir(parents=True)
    rng = np.random.default_rng(0)
    index = []
    for name in ("first", "second"):
        frame = pd.DataFrame({"a": rng.standard_normal(300), "b": rng.choice(["x", "y"], 300)})
        frame.assign(target=frame["a"] + rng.standard_normal(300)).to_csv(
            data / "suite" / f"{name}.csv.xz", index=False
        )
        index.append(
            {"file": f"{name}.csv.xz", "task": "regression", "target": "target", "categorical": ["b"], "drop": []}
        )
    (data / "suite" / "index.json").write_text(json.dumps(index))
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n<!-- figures: suite -->\n<!-- end -->\n\nThe end.\n")
    names = ["agbm, one model", "LightGBM", "five LightGBMs"]
    settings = ["--out", str(out), "--iterations", "20", "--rows", "150"]

    def run(*more):
        command = [sys.executable, "-m", "benchmarks.quality.suite", *settings, *more]
        subprocess.run(command, check=True, capture_output=True, cwd=ROOT)

    n = str(min(2, len(os.sched_getaffinity(0))))
    measuring = [
        "--data", str(data), "--only", "second", "first", "--seeds", "1", "--threads", "1", "--processes", n,
        "--contestants", *names,
    ]  # fmt: skip
    run(*measuring)
    path = out / "results.jsonl"
    lines = path.read_text().splitlines()
    keys = [(r["task"], r["seed"], r["protocol"], r["contestant"]) for r in map(json.loads, lines)]
    assert len(keys) == len(set(keys)) == 2 * (3 + 2)
    assert [json.loads(line)["error"] for line in lines] == [None] * len(lines)
    path.write_text("\n".join(lines[:7]) + "\n" + lines[7][:20])
    run(*measuring)
    kept = path.read_text().splitlines()
    assert kept[:7] == lines[:7]
    assert len(kept) == len(lines) + 1, "and the line that was cut off"
    monkeypatch.setattr(sys, "argv", ["suite", *settings, "--report", "--document", str(page)])
    with warnings.catch_warnings():
        suite.main()
    figures = pd.read_csv(page.with_suffix(".csv"))
    assert figures.groupby(["protocol", "contestant"])["set"].agg(list).tolist() == [["first", "second"]] * 5
    assert figures[["test loss", "trees"]].notna().all(axis=None)
    text = page.read_text()
    assert text.startswith("# Title\n")
    assert text.endswith("The end.\n")
    assert "| five LightGBMs | 5 |" in text
    assert text.index("## Protocol: early stopping") < text.index("## Protocol: out of the box")
