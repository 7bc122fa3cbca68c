"""Errors of fits on Dask: bad partitions and labels, partitions that change, and errors of user-defined losses."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from dask.delayed import delayed
from sklearn.linear_model import LinearRegression

from agbm import AGBMRegressor
from agbm.dask import DaskAGBMClassifier, DaskAGBMRegressor
from agbm.losses import AbsoluteError, HalfSquaredError
from agbm.methods import Fading
from dask_cluster import SMALL, assert_same, cuts_of, frame, frames, labels, series, wait_until

pytestmark = pytest.mark.slow


def fit_parts(tables, ys, model=None):
    model = DaskAGBMRegressor(**SMALL) if model is None else model
    return model.fit([delayed(table) for table in tables], [delayed(y) for y in ys])


def halves():
    table = frame(200)
    y = labels("numbers", table)
    return [table[:100], table[100:]], [y[:100], y[100:]]


BAD_TABLES = {
    "fewer columns": (lambda table: table[["a", "b"]], "partition 1: X has 2 columns, partition 0 has 7"),
    "another order": (lambda table: table[list(table)[::-1]], "partition 1: column 0 of X is 'kind'"),
    "other names": (lambda table: table.rename(columns={"a": "z"}), "partition 1: column 0 of X is 'z'"),
    "no names": (lambda table: table.to_numpy(object), "partition 1: X has no column names"),
    "text for numbers": (lambda table: table.assign(a="text"), "partition 0: column 0 of X has numbers"),
    "numbers for text": (lambda table: table.assign(text=1.0), "partition 1: column 5 of X has numbers"),
    "a vector": (lambda table: table["a"], "partition 1: X must be a table"),
}


def test_infinite_values(client, tmp_path):
    (first, second), ys = halves()
    tables = [first.assign(a=first["a"].where(first["a"] < 1, np.inf)), second.assign(a=-np.inf)]
    expected = AGBMRegressor(**SMALL).fit(pd.concat(tables), pd.concat(ys))
    assert 0 in expected.model_.folded.nodes["feature"]
    assert_same(fit_parts(tables, ys), expected, tmp_path)


@pytest.mark.parametrize(("change", "message"), BAD_TABLES.values(), ids=BAD_TABLES.keys())
def test_partitions_with_other_columns_are_refused(client, change, message):
    (first, second), ys = halves()
    with pytest.raises(ValueError, match=message):
        fit_parts([first, change(second)], ys)


BAD_LABELS = {
    "too few": (lambda y: y[:-1], "partition 1: y has shape"),
    "missing": (lambda y: y.where(y > 0), "y contains NaN"),
    "text": (lambda y: y.astype(str), "partition 1: y has type"),
    "two columns": (lambda y: np.column_stack([y, y]), "partition 1: y has shape"),
}


@pytest.mark.parametrize(("change", "message"), BAD_LABELS.values(), ids=BAD_LABELS.keys())
def test_bad_labels_are_refused(client, change, message):
    tables, (first, second) = halves()
    with pytest.raises(ValueError, match=message):
        fit_parts(tables, [first, change(second)])


def test_one_class_is_refused(client):
    tables, ys = halves()
    with pytest.raises(ValueError, match="class"):
        fit_parts(tables, [np.ones(len(y)) for y in ys], DaskAGBMClassifier(**SMALL))


def test_different_numbers_of_partitions(client):
    tables, ys = halves()
    with pytest.raises(ValueError, match="y has 1 partitions, X has 2"):
        fit_parts(tables, ys[:1])


def test_no_rows(client):
    tables, ys = halves()
    with pytest.raises(ValueError, match="X has no rows in its 2 partitions"):
        fit_parts([table[:0] for table in tables], [y[:0] for y in ys])


def test_tables_in_memory_are_refused(client):
    (table, _), (y, _) = halves()
    for X, given in ((table, y), (table.to_numpy(), y), ([1, 2], y), ([delayed(table)], y)):
        with pytest.raises(TypeError, match="must be a Dask"):
            DaskAGBMRegressor().fit(X, given)


def test_missing_client():
    code = (
        "import dask.array as da; from agbm.dask import DaskAGBMRegressor\n"
        "try: DaskAGBMRegressor().fit(da.ones((10, 2)), da.ones(10))\n"
        "except ValueError as error: print(error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "client" in ran.stdout


def test_other_learners_are_refused(client):
    with pytest.raises(ValueError, match=r"learner=.*needs all rows at once"):
        fit_parts(*halves(), DaskAGBMRegressor(method=Fading(learner=LinearRegression())))


def raise_error():
    raise RuntimeError("not to be read")


def test_partition_that_cannot_be_read(two_workers):
    tables, ys = halves()
    with pytest.raises(RuntimeError, match="not to be read") as caught:
        DaskAGBMRegressor(**SMALL).fit([delayed(tables[0]), delayed(raise_error)()], [delayed(y) for y in ys])
    assert "partition 1" in "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])


def shuffle(table):
    return table.sample(frac=1.0, random_state=np.random.default_rng().integers(2**31))


@pytest.mark.parametrize("of", ["X", "y", "X_val"])
def test_partitions_that_change_between_passes(client, of):
    """Dask computes a partition again for every pass, unless it is persisted."""
    tables, ys = halves()
    parts = {"X": [delayed(table) for table in tables], "y": [delayed(y) for y in ys]}
    if of == "X_val":
        parts |= {"X_val": [delayed(shuffle)(tables[0])], "y_val": [delayed(ys[0])]}
    else:
        parts[of][1] = delayed(shuffle)(parts[of][1])
    message = {"X": "partition 1: X has", "y": "partition 1: y has", "X_val": "X_val: partition 0: X has"}[of]
    with pytest.raises(
        ValueError, match=f"^{message} different values than in the previous pass.*persist the collection"
    ):
        DaskAGBMRegressor(**SMALL).fit(**parts)


def shard_keys(cluster):
    """Of all workers."""
    return {key for keys in cluster.client.has_what().values() for key in keys if "make_dask_shard" in str(key)}


def test_failed_fit_changes_nothing(two_workers):
    """The estimator keeps its model, and the workers free what they had for the fit."""
    at_first = shard_keys(two_workers)
    tables, ys = halves()
    model = fit_parts(tables, ys)
    before = model.predict(tables[0])
    with pytest.raises(ValueError, match="columns"):
        fit_parts([tables[0], tables[1][["a"]]], ys, model)
    np.testing.assert_array_equal(model.predict(tables[0]), before)
    wait_until(lambda: shard_keys(two_workers) <= at_first)


class Halves(HalfSquaredError):
    """Half of the hessian, as in a loss that a user writes."""

    constant_hessian = False

    def hessian(self, y, f, weight=None):
        return np.full_like(f, 0.5)


class Failing(Halves):
    row_wise = True

    def __init__(self, error):
        self.error = error

    def hessian(self, y, f, weight=None):
        raise self.error("an error", "of a worker")


class OddError(Exception):
    """An exception that cannot be unpickled."""

    def __init__(self, first, second):
        super().__init__(first)


def test_custom_losses_must_be_row_wise(two_workers):
    """The hessian sees the rows of one worker only."""
    tables, ys = halves()
    table, y = pd.concat(tables), np.concatenate(ys)
    with pytest.raises(ValueError, match="row_wise"):
        fit_parts(tables, ys, DaskAGBMRegressor(**SMALL, loss=Halves()))
    with pytest.raises(ValueError, match="row_wise"):
        fit_parts(tables, ys, DaskAGBMRegressor(**SMALL, loss=type("Mine", (AbsoluteError,), {})()))
    loss = Halves()
    loss.row_wise = True
    model = fit_parts(tables, ys, DaskAGBMRegressor(**SMALL, loss=loss))
    expected = AGBMRegressor(**SMALL, loss=loss).fit(table, y)
    np.testing.assert_array_equal(model.predict(table), expected.predict(table))


def test_functions_of_gradients(two_workers):
    tables, ys = halves()
    table, y = pd.concat(tables), np.concatenate(ys)
    small = {**SMALL, "early_stopping": False}
    model = fit_parts(tables, ys, DaskAGBMRegressor(**small, loss=half_of_squares))
    expected = AGBMRegressor(**small, loss=half_of_squares).fit(table, y)
    np.testing.assert_array_equal(model.predict(table), expected.predict(table))


def half_of_squares(y_true, y_pred):
    return 0.5 * (y_pred - y_true), np.full(len(y_true), 0.5)


@pytest.mark.parametrize(("error", "raised"), [(OSError, OSError), (OddError, RuntimeError)])
def test_errors_of_custom_losses_are_raised(two_workers, error, raised):
    tables, ys = halves()
    with pytest.raises(raised, match="an error"):
        fit_parts(tables, ys, DaskAGBMRegressor(**SMALL, loss=Failing(error), l2_regularization=1.0))


def changing(path, table):
    """A partition that has one row fewer whenever it is read."""
    n = int(path.read_text()) + 1 if path.exists() else 0
    path.write_text(str(n))
    return table.iloc[n:]


def test_partition_that_loses_rows(client, tmp_path):
    tables, ys = halves()
    sources = [delayed(tables[0]), delayed(changing)(tmp_path / "n", tables[1])]
    with pytest.raises(ValueError, match=r"partition 1.*rows"):
        DaskAGBMRegressor(**SMALL).fit(sources, [delayed(y) for y in ys])


def test_scoring_and_watch_are_refused(client):
    table = frame()
    X, y = frames(table, cuts_of(len(table), 2)), series(labels("numbers", table), cuts_of(len(table), 2))
    with pytest.raises(ValueError, match="scoring='r2' needs all validation rows in one process"):
        DaskAGBMRegressor(scoring="r2").fit(X, y)
    with pytest.raises(ValueError, match=r"watch=\['new'\] needs X as a table"):
        DaskAGBMRegressor().fit(X, y, watch={"new": (table, y)})
