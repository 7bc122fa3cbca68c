"""Rankings and survival analysis on the command line: training, evaluation, prediction, comparison and reports."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import agbm
from agbm import AGBMRanker, AGBMSurvival
from agbm._apps import cli

FEW = ["--set", "max_iter=8", "n_members=2", "max_leaf_nodes=6", "--quiet"]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("two_columns"), np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    table["query"] = [f"q{k}" for k in rng.permutation(np.arange(600) % 60)]
    table["relevance"] = np.clip(np.round(X[:, 0] + rng.normal(size=600)), 0, 3).astype(int)
    time, censored = rng.exponential(np.exp(-X[:, 0])), rng.exponential(2.0, 600)
    table["days"], table["died"] = np.minimum(time, censored), (time <= censored).astype(int)
    table.to_csv(folder / "all.csv", index=False)
    return folder


@pytest.fixture
def here(tables, monkeypatch):
    monkeypatch.chdir(tables)
    return pd.read_csv("all.csv")


RANKING = ["all.csv", "--target", "relevance", "--group", "query", "--drop", "days", "died"]
SURVIVAL = ["all.csv", "--time", "days", "--event", "died", "--drop", "query", "relevance"]


def run(capsys, *arguments):
    assert cli.main(list(map(str, arguments))) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def fails(capsys, *arguments):
    assert cli.main(list(map(str, arguments))) == 1
    return capsys.readouterr().err


def test_a_ranking_is_trained_as_in_python(here, capsys):
    shown = json.loads(run(capsys, "train", *RANKING, *FEW, "--out", "r.agbm", "--test-fraction", "0", "--json"))
    assert shown["task"] == "ranking"
    assert shown["features"] == ["a", "b", "c"]
    model = agbm.load("r.agbm")
    assert isinstance(model, AGBMRanker)
    expected = AGBMRanker(max_iter=8, n_members=2, max_leaf_nodes=6, early_stopping=True)
    expected.fit(here[["a", "b", "c"]], here["relevance"], qid=here["query"])
    np.testing.assert_array_equal(model.predict(here[["a", "b", "c"]]), expected.predict(here[["a", "b", "c"]]))


def test_queries_are_not_divided(here, capsys, monkeypatch):
    seen = {}
    fit = AGBMRanker.fit

    def spy(self, X, y, **more):
        seen["queries"] = set(y[:, 1])
        return fit(self, X, y, **more)

    monkeypatch.setattr(AGBMRanker, "fit", spy)
    shown = json.loads(run(capsys, "train", *RANKING, *FEW, "--out", "r.agbm", "--json"))
    assert len(seen["queries"]) == 48  # of 60, a fifth for testing
    model = agbm.load("r.agbm")
    codes = np.unique(here["query"], return_inverse=True)[1]
    test = ~np.isin(codes, list(seen["queries"]))
    found = model.score(here.loc[test, ["a", "b", "c"]], here["relevance"][test], qid=codes[test])
    assert [metric["name"] for metric in shown["metrics"]] == ["NDCG@10", "NDCG@1", "MAP"]
    assert shown["metrics"][0]["value"] == pytest.approx(found)


def test_survival_is_trained_as_in_python(here, capsys):
    shown = json.loads(run(capsys, "train", *SURVIVAL, *FEW, "--out", "s.agbm", "--test", "all.csv", "--json"))
    assert shown["task"] == "survival"
    model = agbm.load("s.agbm")
    assert isinstance(model, AGBMSurvival)
    X, y = here[["a", "b", "c"]], here[["days", "died"]].to_numpy()
    expected = AGBMSurvival(max_iter=8, n_members=2, max_leaf_nodes=6, early_stopping=True).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    values = {metric["name"]: metric["value"] for metric in shown["metrics"]}
    assert values["concordance"] == pytest.approx(model.score(X, y))
    assert 0.0 < values["integrated Brier score"] < 0.25


@pytest.mark.parametrize("task", [RANKING, SURVIVAL], ids=["ranking", "survival"])
def test_train_predict_report_and_update(task, here, capsys):
    run(capsys, "train", *task, *FEW, "--out", "m.agbm", "--report", "m.html", "--stream")
    assert ("Queries" if task is RANKING else "Survival by predicted risk") in Path("m.html").read_text()
    run(capsys, "train", *task, *FEW, "--out", "f.agbm", "--folds", "3")
    run(capsys, "predict", "m.agbm", "all.csv", "--out", "p.csv")
    found = pd.read_csv("p.csv")["prediction"]
    np.testing.assert_allclose(found, agbm.load("m.agbm").predict(here[["a", "b", "c"]]), rtol=1e-15)
    run(capsys, "report", "m.agbm", "all.csv", "--out", "again.html")
    changed = json.loads(run(capsys, "update", "m.agbm", "all.csv", "--mode", "trees", "--out", "u.agbm", "--json"))
    assert [one["mode"] for one in changed["models"]][-1] == "trees"
    run(capsys, "inspect", "m.agbm")


def test_rankings_are_compared(here, capsys):
    shown = json.loads(
        run(
            capsys,
            "compare",
            *RANKING,
            "--methods",
            "gbm",
            "--peers",
            "LightGBM",
            "--max-iter",
            "8",
            "--json",
        )
    )
    assert {one["name"] for one in shown["contenders"]} == {"agbm", "agbm, one model", "gradient boosting", "LightGBM"}
    assert not any(one["failure"] for one in shown["contenders"])
    assert all(one["metrics"][0]["name"] == "NDCG@10" for one in shown["contenders"])
    best = [one["metrics"][0]["value"] for one in shown["contenders"]]
    assert best == sorted(best, reverse=True)


def test_survival_is_compared(here, capsys):
    options = ["--peers", "XGBoost", "LightGBM", "--max-iter", "8", "--report", "c.html"]
    shown = json.loads(run(capsys, "compare", *SURVIVAL, *options, "--json"))
    found = {one["name"]: one for one in shown["contenders"]}
    assert found["LightGBM"]["failure"] == "ValueError: LightGBM has no loss for censored times"
    for name in ("agbm", "agbm, one model", "XGBoost"):
        assert [metric["name"] for metric in found[name]["metrics"]] == ["concordance"]
    assert "Survival by predicted risk" in Path("c.html").read_text()


def test_errors(here, capsys):
    out = ["--out", "x.agbm", "--quiet"]
    assert "--time days needs --event" in fails(capsys, "train", "all.csv", "--time", "days", *out)
    assert "omit --target" in fails(capsys, "train", *SURVIVAL, "--target", "a", *out)
    assert "rankings have no --time" in fails(capsys, "train", *SURVIVAL, "--group", "a", *out)
    assert "--task regression cannot be combined" in fails(capsys, "train", *RANKING, "--task", "regression", *out)
    assert "--group quer: no such column; did you mean 'query'?" in fails(
        capsys, "train", "all.csv", "--target", "relevance", "--group", "quer", *out
    )
    assert "must contain 1 for an event and 0" in fails(
        capsys, "train", "all.csv", "--time", "days", "--event", "relevance", *out
    )
    when = pd.Timestamp("2020-01-01") + pd.to_timedelta(here["days"], unit="D")
    here.assign(when=when).to_csv("when.csv", index=False)
    for option, others in {
        "--time": ["--event", "died"],
        "--target": ["--group", "query"],
        "--event": ["--time", "days"],
        "--weight": ["--time", "days", "--event", "died"],
        "--offset": ["--time", "days", "--event", "died"],
    }.items():
        line = fails(capsys, "train", "when.csv", option, "when", *others, *out)
        assert f"{option} when: the column has dates or times (datetime64" in line
    assert "predicts no quantiles" in fails(capsys, "train", *SURVIVAL, "--quantiles", "0.5", *out)
    AGBMRanker(max_iter=2).fit(here[["a"]], here["relevance"], qid=here["query"]).save("plain.agbm")
    line = fails(capsys, "report", "plain.agbm", "all.csv", "--target", "relevance", "--out", "x.html")
    assert "does not record the column with its queries" in line
