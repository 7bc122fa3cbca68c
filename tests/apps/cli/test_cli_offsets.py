"""Columns of offsets and exposures on the command line: remembered by the model and used for predictions."""

import json

import numpy as np
import pandas as pd
import pytest

import agbm
from agbm import AGBMRegressor
from agbm._apps import cli
from commands import ONE, fails, run

CLAIMS = ["train", "claims.csv", "--target", "claims", "--task", "regression", "--out", "claims.agbm", *ONE]
POISSON = ["--set", "loss=poisson"]
FEATURES = ["age", "power"]


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    rng, n = np.random.default_rng(0), 400
    found = pd.DataFrame({"age": rng.integers(18, 90, n), "power": rng.normal(size=n).round(2)})
    found["years"] = rng.uniform(0.1, 2.0, n).round(3)
    found["log_years"] = np.log(found["years"])
    found["claims"] = rng.poisson(found["years"] * np.exp(found["power"] / 2))
    found["late"] = np.where(rng.random(n) < 0.3, "yes", "no")
    found["score"] = rng.normal(size=n).round(2)
    found.to_csv("claims.csv", index=False)
    return found


def exposed(*more):
    run(*CLAIMS, *POISSON, "--exposure", "years", "--drop", "log_years", "late", "score", *more)
    return agbm.load("claims.agbm")


def expected(table):
    """The model of the library on all rows."""
    model = AGBMRegressor(loss="poisson", max_iter=8, n_members=1, early_stopping=False)
    return model.fit(table[FEATURES].astype(float), table["claims"], offset=np.log(table["years"]))


def predicted(*arguments):
    run("predict", "claims.agbm", "claims.csv", "--out", "p.csv", *arguments)
    return pd.read_csv("p.csv")


def test_exposures_are_offsets_and_no_feature(table, capsys):
    model = exposed("--test-fraction", "0")
    assert list(model.feature_names_in_) == FEATURES
    assert model.notes_["exposure"] == "years"
    same = expected(table)
    X = table[FEATURES].astype(float)
    np.testing.assert_allclose(model.predict(X), same.predict(X), rtol=1e-12)
    assert "exposure" in capsys.readouterr().out
    run("inspect", "claims.agbm")
    assert "note: exposure" in capsys.readouterr().out


def test_a_column_of_offsets(table):
    exposed("--test-fraction", "0")
    one = predicted("--scores")["score"]
    drop = ["--drop", "years", "late", "score"]
    run(*CLAIMS, *POISSON, "--offset", "log_years", *drop, "--test-fraction", "0")
    model = agbm.load("claims.agbm")
    assert list(model.feature_names_in_) == FEATURES
    assert model.notes_["offset"] == "log_years"
    np.testing.assert_allclose(predicted("--scores")["score"], one, rtol=1e-9)


def test_predictions_use_the_column(table, capsys):
    model = exposed()
    X = table[FEATURES].astype(float)
    found = predicted("--keep", "years")
    np.testing.assert_allclose(found["prediction"], model.predict(X, offset=np.log(table["years"])))
    np.testing.assert_array_equal(found["years"], table["years"])
    np.testing.assert_allclose(predicted("--no-offset")["prediction"], model.predict(X))
    np.testing.assert_allclose(predicted("--offset", "score")["prediction"], model.predict(X, offset=table["score"]))
    table.drop(columns="years").to_csv("claims.csv", index=False)
    np.testing.assert_allclose(predicted("--no-offset")["prediction"], model.predict(X))
    capsys.readouterr()
    said = fails(capsys, "predict", "claims.agbm", "claims.csv", "--out", "p.csv")
    assert "lacks the column 'years' with the exposure of the model; use --no-offset" in said


def test_model_saved_in_python(table):
    model = expected(table)
    model.save("claims.agbm")
    X = table[FEATURES].astype(float)
    np.testing.assert_allclose(predicted()["prediction"], model.predict(X))
    found = predicted("--exposure", "years")["prediction"]
    np.testing.assert_allclose(found, model.predict(X, offset=np.log(table["years"])))


@pytest.mark.parametrize("how", [["--test", "claims.csv"], ["--test-fraction", "0.3"], ["--folds", "3"]], ids=" ".join)
def test_metrics_are_with_offsets(table, capsys, how):
    """Ten times the exposure is ten times the prediction: errors without it would be far larger."""
    table["years"] *= 1000.0 ** (np.arange(len(table)) % 2)
    table["claims"] = np.round(table["years"])
    table.to_csv("claims.csv", index=False)
    exposed(*how, "--json")
    metrics = {metric["name"]: metric["value"] for metric in json.loads(capsys.readouterr().out)["metrics"]}
    assert metrics["R²"] > 0.99


def test_reading_in_batches_gives_the_same_bits(table):
    model, streamed = exposed(), exposed("--stream")
    X = table[FEATURES].astype(float)
    assert np.array_equal(model.predict(X), streamed.predict(X))


def test_reports(table, capsys):
    exposed("--report", "train.html")
    capsys.readouterr()
    run("report", "claims.agbm", "claims.csv", "--out", "all.html", "--json")
    found = json.loads(capsys.readouterr().out)["metrics"]
    model = agbm.load("claims.agbm")
    wanted = model.predict(table[FEATURES].astype(float), offset=np.log(table["years"]))
    rmse = {metric["name"]: metric["value"] for metric in found}["RMSE"]
    assert rmse == pytest.approx(np.sqrt(np.mean((table["claims"] - wanted) ** 2)))
    table.drop(columns="years").to_csv("claims.csv", index=False)
    assert "lacks the column 'years'" in fails(capsys, "report", "claims.agbm", "claims.csv", "--out", "none.html")


def test_offsets_of_classes(table):
    drop = ["--drop", "years", "log_years", "claims"]
    run("train", "claims.csv", "--target", "late", "--offset", "score", *drop, "--out", "claims.agbm", *ONE)
    model = agbm.load("claims.agbm")
    found = predicted("--proba")["probability_yes"]
    wanted = model.predict_proba(table[FEATURES].astype(float), offset=table["score"])[:, 1]
    np.testing.assert_allclose(found, wanted)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [*CLAIMS, "--exposure", "years"],
            "--exposure years: exposures need a loss with a log link, but the loss is auto",
        ),
        ([*CLAIMS, *POISSON, "--exposure", "power"], "--exposure power: values must be positive numbers, but"),
        ([*CLAIMS, *POISSON, "--exposure", "late"], "--exposure late: the column must be numeric"),
        ([*CLAIMS, *POISSON, "--exposure", "year"], "--exposure year: no such column; did you mean 'years'?"),
        ([*CLAIMS, *POISSON, "--offset", "claims"], "--offset claims: the column is the target"),
        (
            ["train", "claims.csv", "--target", "late", "--exposure", "years", "--out", "m.agbm"],
            "exposures need a loss with a log link",
        ),
    ],
)
def test_mistakes(table, capsys, arguments, message):
    assert message in fails(capsys, *arguments)


def test_missing_offsets(table, capsys):
    table["log_years"] = np.where(np.arange(len(table)) < 3, np.nan, table["log_years"])
    table.to_csv("claims.csv", index=False)
    said = fails(capsys, *CLAIMS, *POISSON, "--offset", "log_years")
    assert "--offset log_years: values must be finite numbers, but 3 of 400 are missing or infinite" in said


def test_predicting_with_exposures_needs_a_log_link(table, capsys):
    AGBMRegressor(max_iter=2).fit(table[FEATURES].astype(float), table["claims"]).save("claims.agbm")
    said = fails(capsys, "predict", "claims.agbm", "claims.csv", "--exposure", "years", "--out", "p.csv")
    assert "the loss is HalfSquaredError" in said


@pytest.mark.parametrize("command", ["compare", "tune"])
def test_other_commands_reject_the_options(table, capsys, command):
    out = ["--out", "m.agbm"] if command == "tune" else []
    with pytest.raises(SystemExit):
        cli.main([command, "claims.csv", "--target", "claims", *out, "--exposure", "years"])
    assert "unrecognized arguments: --exposure years" in capsys.readouterr().err


def test_one_of_the_options(table, capsys):
    with pytest.raises(SystemExit):
        cli.main([*CLAIMS, "--exposure", "years", "--offset", "score"])
    assert "not allowed with" in capsys.readouterr().err
