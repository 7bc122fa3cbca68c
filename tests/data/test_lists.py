"""Columns of lists of numbers, such as embeddings, from every kind of table; computed tables of polars."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import agbm
from agbm import AGBMRegressor, Batches
from agbm._apps.report import describe_columns
from agbm._data.derivation import Derivation, look
from commands import run
from toys import rewrite

FAST = {"max_iter": 8, "n_members": 1, "early_stopping": False}
LENGTH = 5


@pytest.fixture(scope="module")
def rows():
    """A column of numbers, embeddings, and labels that depend on a product of two numbers of these."""
    rng = np.random.default_rng(0)
    embeddings, a = rng.normal(size=(400, LENGTH)), rng.normal(size=400)
    return embeddings, a, 2.0 * embeddings[:, 1] * embeddings[:, 3] + a


def as_pandas(embeddings, a):
    return pd.DataFrame({"e": list(embeddings), "a": a})


def as_polars(embeddings, a):
    return pl.DataFrame({"e": embeddings.tolist(), "a": a})


def as_arrow_of_fixed_size(embeddings, a):
    return pa.table({"e": pa.FixedSizeListArray.from_arrays(pa.array(embeddings.ravel()), LENGTH), "a": a})


def as_objects(embeddings, a):
    table = np.empty((len(a), 2), dtype=object)
    for i, values in enumerate(zip(embeddings, a, strict=True)):
        table[i, 0], table[i, 1] = values
    return table


TABLES = {
    "pandas, arrays": as_pandas,
    "pandas, lists": lambda e, a: pd.DataFrame({"e": e.tolist(), "a": a}),
    "pandas, arrow types": lambda e, a: as_polars(e, a).to_arrow().to_pandas(types_mapper=pd.ArrowDtype),
    "polars, lists": as_polars,
    "polars, arrays": lambda e, a: as_polars(e, a).with_columns(e=pl.col("e").cast(pl.Array(pl.Float64, LENGTH))),
    "polars, lazy": lambda e, a: as_polars(e, a).lazy(),
    "arrow, lists": lambda e, a: as_polars(e, a).to_arrow(),
    "arrow, fixed size": as_arrow_of_fixed_size,
    "objects": as_objects,
}


@pytest.mark.parametrize("kind", TABLES)
def test_are_the_model_of_a_column_for_each_number(rows, kind):
    embeddings, a, y = rows
    columns = {"e[0]": embeddings[:, 0], "a": a} | {f"e[{i}]": embeddings[:, i] for i in range(1, LENGTH)}
    wide = AGBMRegressor(**FAST).fit(pd.DataFrame(columns), y)
    table = TABLES[kind](embeddings, a)
    model = AGBMRegressor(**FAST).fit(table, y)
    assert np.array_equal(model.predict(table), wide.predict(pd.DataFrame(columns)))
    assert model.n_features_in_ == 2
    importances, contributions = wide.feature_importances_, wide.predict_contributions(pd.DataFrame(columns))
    of_lists = [0, *range(2, LENGTH + 1)]
    np.testing.assert_allclose(model.feature_importances_, [importances[of_lists].sum(), importances[1]])
    found = model.predict_contributions(table)
    np.testing.assert_allclose(found[:, 0], contributions[:, of_lists].sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(found[:, 1], contributions[:, 1], atol=1e-12)


def test_names_files_records_and_batches(rows, tmp_path):
    embeddings, a, y = rows
    table = as_pandas(embeddings, a)
    model = AGBMRegressor(**FAST).fit(table, y)
    expected = model.predict(table)
    assert model.model_.reader.feature_names == ["e[0]", "a", "e[1]", "e[2]", "e[3]", "e[4]"]
    model.save(tmp_path / "m.agbm")
    for read in (agbm.load(tmp_path / "m.agbm"), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(read.predict(table), expected)
        assert read.fingerprint_ == model.fingerprint_
    records = [{"a": a[i], "e": embeddings[i].tolist()} for i in range(3)]
    assert np.array_equal(model.predictor()(records), expected[:3])

    def batches():
        for begin in range(0, len(a), 150):
            yield table[begin : begin + 150], y[begin : begin + 150]

    assert np.array_equal(AGBMRegressor(**FAST).fit(Batches(batches)).predict(table), expected)
    assert model.verify(table, y)


@pytest.mark.parametrize("entry", [[0, "list", [0], []], [0, "list", [5, 5], []], [2, "list", [5], []]], ids=str)
def test_files_with_impossible_lists_are_refused(rows, tmp_path, entry):
    embeddings, a, y = rows
    AGBMRegressor(**FAST).fit(as_pandas(embeddings, a), y).save(tmp_path / "m.agbm")
    rewrite(tmp_path / "m.agbm", lambda description, arrays: description.update(derivation=[entry]))
    with pytest.raises(agbm.ModelFileError, match="is not a column of dates, numbers or lists"):
        agbm.load(tmp_path / "m.agbm")
    rewrite(tmp_path / "m.agbm", lambda description, _: description.update(derivation=[[0, "list", [2**40], []]]))
    with pytest.raises(agbm.ModelFileError, match="lists have more than"):
        agbm.load(tmp_path / "m.agbm")


def test_missing_lists_and_numbers_are_missing(rows):
    embeddings, a, y = rows
    holes = embeddings.copy()
    holes[::7] = np.nan
    holes[3, 2] = np.nan
    lists = [None if i % 7 == 0 else row.tolist() for i, row in enumerate(holes)]
    lists[3][2] = None
    expected = AGBMRegressor(**FAST).fit(as_pandas(holes, a), y).predict(as_pandas(holes, a))
    for table in (pd.DataFrame({"e": lists, "a": a}), pl.DataFrame({"e": lists, "a": a})):
        assert np.array_equal(AGBMRegressor(**FAST).fit(table, y).predict(table), expected)
    model = AGBMRegressor(**FAST).fit(as_pandas(embeddings, a), y)
    assert np.isfinite(model.predict(pd.DataFrame({"e": [None] * 3, "a": a[:3]}))).all()


@given(hnp.arrays(st.sampled_from([np.float32, np.float64]), hnp.array_shapes(min_dims=2, max_dims=2)), st.data())
def test_numbers_are_those_of_the_lists(numbers, data):
    absent = data.draw(hnp.arrays(bool, len(numbers)))
    absent[data.draw(st.integers(0, len(numbers) - 1))] = False
    table = pd.DataFrame({"e": [None if gone else row for gone, row in zip(absent, numbers, strict=True)]})
    derivation = Derivation.of([look(table)])
    found = derivation.apply(table)
    read = np.column_stack([found.instead[0], *found.after])
    assert read.dtype == numbers.dtype
    assert np.array_equal(read, np.where(absent[:, np.newaxis], np.nan, numbers), equal_nan=True)


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        (
            [[1.0, 2.0], [3.0]],
            r"column 'e' has the shape \(1,\) in row 1, and \(2,\) in row 0; lists must have the same",
        ),
        ([[], []], r"column 'e' has the shape \(0,\) in row 0; lists must .* at least one number"),
        ([[[1.0]], [[2.0]]], r"column 'e' has the shape \(1, 1\) in row 0; lists must"),
        ([["red"], ["blue"]], "column 'e' has lists, but not all of them are of numbers: could not convert string"),
        ([[1.0], 2.0], r"column 'e' has the shape \(\) in row 1, and \(1,\) in row 0"),
    ],
)
def test_other_lists_raise_an_error(lists, message):
    table = pd.DataFrame({"e": pd.Series(lists * 20, dtype=object)})
    with pytest.raises(ValueError, match=message):
        AGBMRegressor().fit(table, np.arange(40.0))


def test_errors_of_what_knows_one_number_per_column(rows):
    embeddings, a, y = rows
    table = as_pandas(embeddings, a)
    model = AGBMRegressor(**FAST).fit(table, y)
    with pytest.raises(ValueError, match=r"has the shape \(2,\) in row 0, and \(5,\) in fit"):
        model.predict(as_pandas(embeddings[:, :2], a))
    with pytest.raises(ValueError, match=r"columns named \['e\[2\]'\], which are the names of parts of others"):
        AGBMRegressor(**FAST).fit(table.assign(**{"e[2]": a}), y)
    with pytest.raises(ValueError, match=r"columns \[0\] are dates, of which parts repeat, or lists"):
        AGBMRegressor(monotonic_cst={"e": 1}).fit(table, y)
    with pytest.raises(ValueError, match=r"\['e'\] are lists, which partial dependence cannot vary"):
        agbm.plot.partial_dependence(model, table, ["e"])

    def batches():
        for length in (3, 4):
            yield as_pandas(embeddings[:200, :length], a[:200]), y[:200]

    with pytest.raises(ValueError, match=r"column 0 has lists of \[3, 4\] numbers; lists must have the same length"):
        AGBMRegressor(**FAST).fit(Batches(batches))


def test_interactions_and_columns_of_reports(rows):
    embeddings, a, y = rows
    table = as_pandas(embeddings, a)
    model = AGBMRegressor(**FAST, interaction_cst=[["e"], ["a"]]).fit(table, y)
    moved = model.predict(as_pandas(embeddings, a + 1.0)) - model.predict(table)
    again = as_pandas(embeddings[::-1], a)
    np.testing.assert_allclose(moved, model.predict(again.assign(a=a + 1.0)) - model.predict(again), atol=1e-12)
    assert [column.kind for column in describe_columns(table)] == ["list", "number"]


def test_lazy_frames_are_computed(rows):
    embeddings, a, y = rows
    lazy = pl.LazyFrame({"a": a, "b": embeddings[:, 1]})
    model = AGBMRegressor(**FAST).fit(lazy, y, X_val=lazy, y_val=y)
    expected = model.predict(lazy.collect())
    assert np.array_equal(model.predict(lazy), expected)
    assert model.score(lazy, y) == model.score(lazy.collect(), y)
    assert np.array_equal(model.update(lazy, y, mode="leaves", old_weight=0.0).predict(lazy), expected)
    assert agbm.cv(AGBMRegressor(**FAST), lazy, y, cv=2).best_iteration > 0


def test_command_line(rows, tmp_path):
    embeddings, a, y = rows
    table = as_polars(embeddings, a).with_columns(y=pl.Series(y)).to_arrow()
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    words = ["--target", "y", "--set", "max_iter=5", "--out", tmp_path / "m.agbm", "--report", tmp_path / "m.html"]
    run("train", tmp_path / "t.parquet", *words)
    run("predict", tmp_path / "m.agbm", tmp_path / "t.parquet", "--out", tmp_path / "p.csv")
    found = pd.read_csv(tmp_path / "p.csv")["prediction"]
    np.testing.assert_allclose(found, agbm.load(tmp_path / "m.agbm").predict(table.drop_columns("y")), rtol=1e-12)
