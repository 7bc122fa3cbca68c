"""Parameters of estimators, labels, weights and columns on Dask: the model has the bytes of one of this process."""

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeRegressor

from agbm import AGBMClassifier, AGBMRegressor
from agbm._data.crosses import Cross
from agbm.dask import DaskAGBMRegressor
from dask_cluster import array, assert_same, cuts_of, frame, frames, labels, local_of, numbers_of, on_dask, series
from variants import made

pytestmark = pytest.mark.slow

KINDS = ["numbers", "two classes", "three classes"]


def weights_of(how, n):
    rng = np.random.default_rng(5)
    if how == "whole":
        return rng.integers(0, 4, n).astype(float)
    if how == "whole here and there":
        weight = np.ones(n)
        weight[-10:] = [0.5, 1.5] * 5
        return weight
    return rng.random(n) * (rng.random(n) < 0.8)


@pytest.mark.parametrize(
    ("how", "kind"), [("whole", "three classes"), ("real", "numbers"), ("whole here and there", "two classes")]
)
def test_weights(client, kind, how, tmp_path):
    table = frame()
    y, weight = labels(kind, table), weights_of(how, len(table))
    cuts = cuts_of(len(table), 6)
    expected = local_of(kind).fit(table, y, weight)
    model = on_dask(expected).fit(frames(table, cuts), series(y, cuts), series(weight, cuts))
    assert_same(model, expected, tmp_path)


def test_partition_with_weights_of_zero(client, tmp_path):
    table = frame()
    y, weight = labels("three classes", table), np.ones(len(table))
    cuts = np.array([0, 500, 1000, 2000])
    weight[:500] = 0.0
    expected = local_of("three classes").fit(table, y, weight)
    model = on_dask(expected).fit(frames(table, cuts), series(y, cuts), series(weight, cuts))
    assert_same(model, expected, tmp_path)


@pytest.mark.parametrize("class_weight", ["balanced", {"no": 3.0, "yes": 0.0, "more": 1.0}])
def test_class_weight(client, class_weight, tmp_path):
    table = frame()
    y = labels("three classes", table)
    cuts = cuts_of(len(table), 6)
    expected = local_of("three classes", class_weight=class_weight).fit(table, y)
    assert_same(on_dask(expected).fit(frames(table, cuts), series(y, cuts)), expected, tmp_path)


@pytest.mark.parametrize(
    ("kind", "weighted"),
    [("numbers", False), ("two outputs", False), ("numbers", True), ("two classes", True), ("three classes", True)],
)
def test_validation_rows(client, kind, weighted, tmp_path):
    table, other = frame(), frame(700, seed=9)
    y, y_val = labels(kind, table), labels(kind, other)
    weight = weights_of("real", len(table)) if weighted else None
    weight_val = weights_of("real", len(other)) if weighted else None
    cuts, cuts_val = cuts_of(len(table), 6), cuts_of(len(other), 3)
    early = {"early_stopping": True, "n_iter_no_change": 2, "max_iter": 12, "learning_rate": 0.9}
    expected = local_of(kind, **early).fit(table, y, weight, other, y_val, weight_val)
    lazily = series if kind != "two outputs" else array
    model = on_dask(expected).fit(
        frames(table, cuts), lazily(y, cuts), None if weight is None else series(weight, cuts), frames(other, cuts_val),
        lazily(y_val, cuts_val), None if weight_val is None else series(weight_val, cuts_val),
    )  # fmt: skip
    assert_same(model, expected, tmp_path)


def test_scores_need_one_process(client):
    table = frame()
    X, y = frames(table, cuts_of(len(table), 2)), series(labels("numbers", table), cuts_of(len(table), 2))
    with pytest.raises(ValueError, match="scoring='r2' needs all validation rows in one process"):
        DaskAGBMRegressor(scoring="r2").fit(X, y)
    with pytest.raises(ValueError, match=r"watch=\['new'\] needs X as a table"):
        DaskAGBMRegressor().fit(X, y, watch={"new": (table, y)})


@pytest.mark.parametrize("kind", [*KINDS, "two outputs"])
def test_held_out_rows(client, kind, tmp_path):
    table = frame()
    y = labels(kind, table)
    cuts = cuts_of(len(table), 6)
    early = {"early_stopping": True, "n_iter_no_change": 2, "max_iter": 20, "learning_rate": 0.9}
    expected = local_of(kind, **early, subsample=0.7, random_state=2).fit(table, y)
    model = on_dask(expected).fit(frames(table, cuts), (array if kind == "two outputs" else series)(y, cuts))
    assert expected.n_iter_ < 20
    assert_same(model, expected, tmp_path)


@pytest.mark.parametrize("name", ["groups", "time"])
@pytest.mark.parametrize("kind", ["numbers", "three classes"])
def test_groups_and_times(client, kind, name, tmp_path):
    """Groups are divided between partitions, and all partitions have rows of all times."""
    table = frame()
    y, who = labels(kind, table), pd.Series(np.random.default_rng(3).integers(0, 60, len(table)).astype(str))
    given = who if name == "groups" else pd.Series(pd.Timestamp("2024-01-01") + pd.to_timedelta(who.astype(int), "D"))
    cuts = cuts_of(len(table), 6)
    settings = {"n_members": 2, "max_iter": 5, "early_stopping": True}
    expected = local_of(kind, **settings).fit(table, y, weights_of("real", len(table)), **{name: given})
    weight = series(weights_of("real", len(table)), cuts)
    model = on_dask(expected).fit(frames(table, cuts), series(y, cuts), weight, **{name: series(given, cuts)})
    assert expected.resolved_params_["held_out_by"] == name
    assert_same(model, expected, tmp_path)


@pytest.mark.parametrize("kind", ["numbers", "three classes"])
def test_default_parameters(client, kind, tmp_path):
    """Several members, each with its own held-out rows, and trees that grow best-first."""
    table = frame(500)
    y = labels(kind, table)
    cuts = cuts_of(len(table), 4)
    expected = (AGBMRegressor if kind == "numbers" else AGBMClassifier)(max_iter=2).fit(table, y)
    model = on_dask(expected).fit(frames(table, cuts), series(y, cuts))
    assert (expected.resolved_params_["n_members"], expected.resolved_params_["early_stopping"]) == (5, True)
    assert_same(model, expected, tmp_path)


@pytest.mark.parametrize("n_full", [1, 6])
def test_init_model(client, n_full):
    """Also where a worker has empty partitions only. The model is a tree, which predicts every row on its own."""
    table = frame()
    X, y = np.nan_to_num(numbers_of(table)), labels("numbers", table).to_numpy()
    cuts = cuts_of(len(X), 6) if n_full == 6 else np.array([0, 0, len(X), len(X)])
    expected = local_of("numbers", init=DecisionTreeRegressor(max_depth=3).fit(X[:100], y[:100])).fit(X, y)
    model = on_dask(expected).fit(array(X, cuts), array(y, cuts))
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    np.testing.assert_array_equal(model.history_["train_loss"], expected.history_["train_loss"])


@pytest.mark.parametrize("kind", ["three classes", "two outputs"])
def test_workers_without_rows(client, kind, tmp_path):
    """One partition has all rows."""
    table = frame(500)
    y = labels(kind, table)
    cuts = np.array([0, 0, 500, 500])
    weight = weights_of("real", 500)
    expected = local_of(kind, subsample=0.7).fit(table, y, weight)
    lazy_y = (array if kind == "two outputs" else series)(y, cuts)
    assert_same(on_dask(expected).fit(frames(table, cuts), lazy_y, series(weight, cuts)), expected, tmp_path)


@pytest.mark.parametrize("method", ["gbm", "vagbm", "agbm", "agbmr"])
def test_methods(client, method, tmp_path):
    table = frame(500)
    y = labels("three classes", table)
    cuts = cuts_of(len(table), 4)
    expected = local_of("three classes", method=made(method, dropout=0.3)).fit(table, y)
    assert_same(on_dask(expected).fit(frames(table, cuts), series(y, cuts)), expected, tmp_path)


def test_classes_of_only_one_partition(client, tmp_path):
    table = frame().sort_values("a")
    y = pd.Series(np.repeat(["x", "y", "z"], [900, 1000, 100]), index=table.index)
    cuts = np.array([0, 900, 1900, 2000])
    expected = local_of("three classes").fit(table, y)
    assert_same(on_dask(expected).fit(frames(table, cuts), series(y, cuts)), expected, tmp_path)


def test_more_categories_than_bins(client, tmp_path):
    table = frame()
    table["many"] = np.random.default_rng(3).integers(0, 400, len(table)).astype(str)
    y = labels("numbers", table) + table["many"].astype(int) % 3
    cuts = cuts_of(len(table), 6)
    expected = local_of("numbers", max_bins=20, views=None).fit(table, y)
    assert expected.split_counts_[-1] > 0
    assert_same(on_dask(expected).fit(frames(table, cuts), series(y, cuts)), expected, tmp_path)


@pytest.mark.parametrize("views", ["auto", [("a", "*", "c")], [Cross(0, "*", 2, for_all=False)]])
def test_crosses(views, client, tmp_path):
    table = frame(11_000)  # short runs have a sample of the rows
    y = table["a"] * table["c"] + (table["text"] == "u")
    cuts = cuts_of(len(table), 6)
    expected = local_of("numbers", views=views).fit(table, y)
    assert "a * c" in expected.resolved_params_["views"]
    assert_same(on_dask(expected).fit(frames(table, cuts), series(y, cuts)), expected, tmp_path)


def test_dates_and_ordered_categories(client, tmp_path):
    table = frame()
    hours = np.random.default_rng(4).integers(0, 900 * 24, len(table))
    table["when"] = pd.Timestamp("2021-01-01") + pd.to_timedelta(hours, unit="h")
    table["text"] = table["when"].dt.strftime("%d/%m/%Y")
    table["size"] = pd.Categorical(np.array(["s", "m", "l"])[hours % 3], categories=["s", "m", "l"], ordered=True)
    y = labels("numbers", table) + hours % 24
    cuts = cuts_of(len(table), 6)
    expected = local_of("numbers").fit(table, y)
    assert len(expected.model_.reader.derivation.parts) == 7
    assert_same(on_dask(expected).fit(frames(table, cuts), series(y, cuts)), expected, tmp_path)


def test_text_of_numbers_and_dates(client, tmp_path):
    """Values that cannot be read count as missing, and the warning is that of rows in memory."""
    table = frame()
    table["number"] = np.random.default_rng(4).normal(size=len(table)).round(4).astype(str)
    table["when"] = pd.date_range("2021-01-01", periods=len(table), freq="7h").strftime("%Y-%m-%d %H:%M")
    table.iloc[[30, 200], -2] = "?"
    table.iloc[-1, -1] = "0000-00-00"
    y, cuts = labels("numbers", table), cuts_of(len(table), 6)
    with pytest.warns(UserWarning, match="is read as") as local_warnings:
        expected = local_of("numbers").fit(table, y)
    with pytest.warns(UserWarning, match="is read as") as warnings:
        found = on_dask(expected).fit(frames(table, cuts), series(y, cuts))
    assert [str(warning.message) for warning in warnings] == [str(warning.message) for warning in local_warnings]
    assert len(warnings) == 2
    assert_same(found, expected, tmp_path)


def test_members_without_positive_labels(client):
    """A member whose training rows have no positive label starts from the constant of all rows."""
    table = frame()[:30]
    y, cuts = np.where(np.arange(30) % 2, 2.0 ** (np.arange(30) // 6), 0.0), cuts_of(30, 3)
    held_out = {"early_stopping": True, "validation_fraction": 0.95, "max_iter": 1}
    for seed in range(2):
        expected = AGBMRegressor(loss="poisson", **held_out, random_state=seed).fit(table, y)
        model = on_dask(expected).fit(frames(table, cuts), series(y, cuts))
        assert model.fingerprint_ == expected.fingerprint_
        assert np.array_equal(model.history_["validation_loss"], expected.history_["validation_loss"])
