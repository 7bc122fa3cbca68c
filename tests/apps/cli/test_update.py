"""`agbm update`: the models are those of the library, and the table says what held-out rows say."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import agbm
from agbm._apps.cli.commands import update as command
from agbm._apps.evaluation.metrics import metrics_of_classes, metrics_of_values
from agbm._data.hold_out import hold_out
from commands import fails, run


def table(n=300, seed=0, shift=0.0):
    random = np.random.default_rng(seed)
    size, colour = random.normal(size=n), random.choice(["red", "blue"], n)
    price = 3.0 * size + 2.0 * (colour == "red") + shift + 0.3 * random.normal(size=n)
    sold = np.where(price > 1.0, "yes", "no")
    return pd.DataFrame({"size": size, "colour": colour, "price": price, "sold": sold})


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    table().to_csv("old.csv", index=False)
    table(200, 1, shift=2.0).to_csv("new.csv", index=False)
    return tmp_path


def train(target, other, capsys):
    few = ("--set", "max_iter=8", "n_members=2")
    run("train", "old.csv", "--target", target, "--drop", other, "--out", "m.agbm", "--quiet", *few)
    capsys.readouterr()
    return agbm.load("m.agbm")


@pytest.mark.parametrize("mode", ["trees", "leaves", "weights", "all"])
@pytest.mark.parametrize("streams", [False, True])
def test_the_model_is_that_of_the_library(mode, streams, here, capsys, monkeypatch):
    model = train("price", "sold", capsys)
    if streams:
        monkeypatch.setattr(command, "available_memory", lambda: 0)
    run("update", "m.agbm", "new.csv", "--mode", mode, "--out", "n.agbm")
    said = capsys.readouterr().out
    new = pd.read_csv("new.csv")
    X, y = new[["size", "colour"]], new["price"].to_numpy()
    rows, test = hold_out(200, 0.2, None, 0)
    before = metrics_of_values(y[test], model.predict(X.iloc[test]))
    by_hand = model.update(X.iloc[rows], y[rows], mode=mode)
    saved = agbm.load("n.agbm")
    np.testing.assert_array_equal(saved.predict(X), by_hand.predict(X))
    after = metrics_of_values(y[test], saved.predict(X.iloc[test]))
    assert "160 for the update, 40 held out at random (20 %)" in said
    assert re.search(rf"before +{before[0].value:.4g} ", said)
    assert re.search(rf"{mode} +{after[0].value:.4g} ", said)
    assert after[0].value < before[0].value
    assert "n.agbm (" in said
    assert json.loads(saved.notes_["metrics"])[0]["value"] == after[0].value
    assert saved.notes_["update"].startswith(f"agbm update m.agbm new.csv --mode {mode}")
    assert saved.notes_["target"] == "price"
    assert saved.model_.updates == by_hand.model_.updates


def test_all_modes_are_compared_without_one(here, capsys):
    model = train("sold", "price", capsys)
    run("update", "m.agbm", "new.csv", "--json")
    found = json.loads(capsys.readouterr().out)
    assert [one["mode"] for one in found["models"]] == ["before", "trees", "leaves", "weights", "all"]
    assert found["out"] is None
    new = pd.read_csv("new.csv")
    y = new["sold"].to_numpy(str)
    rows, test = hold_out(200, 0.2, y, 0)
    X = new[["size", "colour"]]
    losses = [metrics_of_classes(y[test], model.predict_proba(X.iloc[test]), model.classes_)[0].value]
    model.update(X.iloc[rows], y[rows], mode="leaves")
    losses.append(metrics_of_classes(y[test], model.predict_proba(X.iloc[test]), model.classes_)[0].value)
    assert [found["models"][i]["metrics"][0]["value"] for i in (0, 2)] == losses
    assert found["models"][0]["change"] is None
    assert found["models"][2]["change"]["value"] == pytest.approx(losses[1] - losses[0])
    run("update", "m.agbm", "new.csv")
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 80
    assert sorted(path.name for path in here.iterdir()) == ["m.agbm", "new.csv", "old.csv"]


def test_options(here, capsys):
    train("price", "sold", capsys)
    run("update", "m.agbm", "new.csv", "--mode", "trees", "--max-iter", "3", "--test-fraction", "0", "--out", "n.agbm")
    assert "200 for the update, none held out" in capsys.readouterr().out
    assert agbm.load("n.agbm").best_iteration_ <= agbm.load("m.agbm").best_iteration_ + 3
    for weight in ("0", "5"):
        run("update", "m.agbm", "new.csv", "--mode", "leaves", "--old-weight", weight, "--out", f"{weight}.agbm")
    X = table()[["size", "colour"]]
    assert not np.array_equal(agbm.load("0.agbm").predict(X), agbm.load("5.agbm").predict(X))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mode", "leaves"], "--mode leaves needs --out"),
        (["--out", "n.agbm"], "--out n.agbm needs --mode"),
        (["--test-fraction", "0"], "--test-fraction 0 leaves no rows"),
        (
            ["--test-fraction", "1", "--mode", "all", "--out", "n.agbm"],
            "--test-fraction must be at least 0 and below 1",
        ),
        (["--mode", "all", "--out", "new.csv"], "--out new.csv is the same file as DATA"),
        (["--target", "prise"], "did you mean 'price'?"),
    ],
)
def test_mistakes(arguments, message, here, capsys):
    train("price", "sold", capsys)
    assert message in fails(capsys, "update", "m.agbm", "new.csv", *arguments)


def test_labels_that_the_model_does_not_know(here, capsys):
    train("sold", "price", capsys)
    table(50, 2).assign(sold="perhaps").to_csv("other.csv", index=False)
    said = fails(capsys, "update", "m.agbm", "other.csv", "--mode", "trees", "--out", "n.agbm")
    assert "perhaps" in said
    table(50, 2).assign(sold=np.nan).to_csv("other.csv", index=False)
    assert "missing" in fails(capsys, "update", "m.agbm", "other.csv", "--mode", "trees", "--out", "n.agbm")
