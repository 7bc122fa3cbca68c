"""Quantiles on the command line."""

import numpy as np
import pandas as pd
import pytest

import agbm
from agbm._apps.cli import main


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=X[:, 0] + np.exp(0.5 * X[:, 1]) * rng.normal(size=400))
    path = tmp_path_factory.mktemp("data") / "rows.csv"
    frame.to_csv(path, index=False)
    return path, frame


def train(path, out, *options):
    common = ["--target", "y", "--out", str(out), "--set", "max_iter=20", "--quiet"]
    return main(["train", str(path), *common, *options])


def test_several_quantiles(data, tmp_path):
    path, frame = data
    out, found = tmp_path / "m.agbm", tmp_path / "p.csv"
    assert train(path, out, "--quantiles", "0.05", "0.5", "0.95") == 0
    assert main(["predict", str(out), str(path), "--out", str(found), "--interval", "0.8"]) == 0
    predicted = pd.read_csv(found)
    assert list(predicted) == ["quantile_0.05", "quantile_0.5", "quantile_0.95", "lower", "upper"]
    model = agbm.load(out)
    np.testing.assert_allclose(predicted.iloc[:, :3], model.predict(frame[["a", "b", "c"]]), rtol=1e-12)
    np.testing.assert_allclose(predicted.iloc[:, 3:], model.predict_interval(frame[["a", "b", "c"]], 0.8), rtol=1e-12)


def test_quantiles_of_distributions(data, tmp_path):
    path, frame = data
    out, found = tmp_path / "m.agbm", tmp_path / "p.csv"
    assert train(path, out, "--set", "loss=distribution:normal") == 0
    assert main(["predict", str(out), str(path), "--out", str(found), "--quantiles", "0.1", "0.9"]) == 0
    predicted = pd.read_csv(found)
    assert list(predicted) == ["prediction", "quantile_0.1", "quantile_0.9"]
    frozen = agbm.load(out).predict_dist(frame[["a", "b", "c"]])
    np.testing.assert_allclose(predicted["quantile_0.9"], frozen.ppf(0.9), rtol=1e-12)


def test_errors(data, tmp_path, capsys):
    path, frame = data
    out = tmp_path / "m.agbm"
    for options, message in (
        (["--quantiles", "0.9", "0.1"], "--quantiles 0.9 0.1: quantile="),
        (["--quantiles", "0.1", "--set", "loss=huber:1.5"], "cannot be combined with --set loss="),
        (["--quantiles", "0.1", "--task", "classification"], "the target is a class"),
    ):
        rows = path
        if "--task" in options:
            rows = tmp_path / "classes.csv"
            frame.assign(y=(frame["y"] > 0).astype(int)).to_csv(rows, index=False)
        assert train(rows, out, *options) != 0
        assert message in capsys.readouterr().err
    assert train(path, out) == 0
    predict = ["predict", str(out), str(path), "--out", str(tmp_path / "p.csv")]
    assert main([*predict, "--quantiles", "0.5"]) != 0
    assert "the model has no distribution" in capsys.readouterr().err
    assert train(path, out, "--set", "loss=distribution:normal") == 0
    assert main([*predict, "--quantiles", "1.5"]) != 0
    assert "quantiles must be between 0 and 1" in capsys.readouterr().err
