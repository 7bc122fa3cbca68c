"""Constraints by column names, which equal constraints by positions."""

import numpy as np
import pandas as pd
import pytest

import agbm
from agbm import AGBMClassifier, AGBMRegressor, Batches
from agbm._apps.cli import main

SMALL = {"max_iter": 4, "n_members": 1, "early_stopping": False, "min_samples_leaf": 5}
FORMS = [
    ({"monotonic_cst": {"rooms": 1, "age": -1}}, {"monotonic_cst": [1, -1, 0]}),
    ({"monotonic_cst": {0: 1, np.int64(1): -1}}, {"monotonic_cst": [1, -1, 0]}),
    ({"interaction_cst": [["rooms", "age"], ["plot"]]}, {"interaction_cst": [[0, 1], [2]]}),
    ({"interaction_cst": [("rooms", 1)]}, {"interaction_cst": [[0, 1]]}),
]


def houses(n=300):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"rooms": rng.integers(1, 9, n), "age": rng.integers(0, 90, n), "plot": rng.normal(size=n)})
    signal = table["rooms"] * table["age"] % 7 + table["rooms"] * table["plot"] - 0.1 * table["age"]
    return table, signal + rng.normal(scale=0.5, size=n)


@pytest.mark.parametrize(("named", "by_position"), FORMS)
def test_names_equal_positions(named, by_position):
    X, y = houses()
    expected = AGBMRegressor(**SMALL, **by_position).fit(X, y).predict(X)
    assert not np.array_equal(expected, AGBMRegressor(**SMALL).fit(X, y).predict(X))
    assert np.array_equal(AGBMRegressor(**SMALL, **named).fit(X, y).predict(X), expected)
    batches = Batches(lambda: iter([(X[:170], y[:170]), (X[170:], y[170:])]))
    assert np.array_equal(AGBMRegressor(**SMALL, **named).fit(batches).predict(X), expected)


@pytest.mark.parametrize("named", [FORMS[0][0], FORMS[2][0]])
def test_names_in_a_model_file(named, tmp_path):
    X, y = houses()
    AGBMRegressor(**SMALL, **named).fit(X, y).save(tmp_path / "model.agbm")
    (name, value), loaded = *named.items(), agbm.load(tmp_path / "model.agbm")
    assert getattr(loaded, name) == value
    assert loaded.set_params(warm_start=True, max_iter=6).fit(X, y).best_iteration_ == 6


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"monotonic_cst": {"roms": 1}}, r"monotonic_cst=.*no column 'roms'; similar names: 'rooms'"),
        ({"interaction_cst": [["rooms", "Age"]]}, r"interaction_cst=.*no column 'Age'; similar names: 'age'"),
        ({"interaction_cst": [["zzz"]]}, r"no column 'zzz'\.$"),
        ({"interaction_cst": ["rooms", "age"]}, "list of lists of names"),
        ({"monotonic_cst": {7: 1}}, r"columns 0 to 2; got \[7\]"),
        ({"monotonic_cst": {True: 1}}, "names or positions; got True"),
        ({"monotonic_cst": {"rooms": 2}}, "monotonic_cst"),
    ],
)
def test_unknown_columns(parameters, message):
    X, y = houses()
    with pytest.raises(ValueError, match=message):
        AGBMRegressor(**parameters).fit(X, y)


@pytest.mark.parametrize("parameters", [{"monotonic_cst": {"a": 1}}, {"interaction_cst": [["a"]]}])
def test_names_need_named_columns(parameters):
    X, y = houses()
    with pytest.raises(ValueError, match="no column names; use positions from 0 to 2"):
        AGBMRegressor(**parameters).fit(X.to_numpy(), y)


def test_names_in_the_command(tmp_path):
    X, y = houses()
    X.assign(price=y).to_csv(tmp_path / "houses.csv", index=False)
    command = ["train", str(tmp_path / "houses.csv"), "--target", "price", "--out", str(tmp_path / "model.agbm")]
    settings = ["--set", "max_iter=5", 'monotonic_cst={"rooms": 1}', 'interaction_cst=[["rooms", "age"]]']
    assert main([*command, *settings, "--quiet"]) == 0
    model = agbm.load(tmp_path / "model.agbm")
    assert model.monotonic_cst == {"rooms": 1}
    grid = pd.DataFrame({"rooms": range(1, 9), "age": 30, "plot": 0.0})
    assert np.diff(model.predict(grid)).min() >= 0.0


def test_two_classes_by_name():
    X, y = houses()
    model = AGBMClassifier(**SMALL, monotonic_cst={"rooms": -1}).fit(X, y > y.median())
    grid = pd.DataFrame({"rooms": range(1, 9), "age": 30, "plot": 0.0})
    assert np.diff(model.predict_proba(grid)[:, 1]).max() <= 0.0
