"""Tables of every kind, and categories in them."""

import pickle
import re
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array, csc_matrix, csr_array, csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import Ridge
from sklearn.metrics import log_loss

from agbm import AGBMClassifier, AGBMRegressor, Batches
from agbm._data.tables import Categories, Columns, as_table, category_sums
from agbm.methods import Fading
from variants import methods


@pytest.fixture(scope="module")
def mixed():
    """Numbers with holes, whole numbers, flags, text with holes; the text says most about y."""
    rng = np.random.default_rng(0)
    n = 600
    colour = rng.choice(["red", "green", "blue", "grey"], size=n)
    y = pd.Series(colour).map({"red": 0.0, "green": 5.0, "blue": 1.0, "grey": 4.0}).to_numpy() + rng.normal(size=n)
    number = rng.normal(size=n)
    number[::7] = np.nan
    count = rng.integers(0, 9, size=n)
    flag = rng.random(n) < 0.5
    text = np.where(rng.random(n) < 0.1, None, colour)
    return {"number": number, "count": count, "flag": flag, "colour": text}, y + flag


def as_pandas(columns):
    return pd.DataFrame({**columns, "colour": pd.Series(columns["colour"], dtype="str")})


def as_pandas_category(columns):
    return as_pandas(columns).astype({"colour": "category"})


def as_pandas_nullable(columns):
    return as_pandas(columns).astype({"count": "Int64", "flag": "boolean", "number": "Float64"})


def as_pandas_object(columns):
    return pd.DataFrame(columns).astype({"colour": object})


def as_polars(columns):
    number = pl.Series(columns["number"]).fill_nan(None)
    return pl.DataFrame({**columns, "number": number, "colour": columns["colour"].tolist()})


def as_polars_object(columns):
    return as_polars(columns).with_columns(pl.Series("colour", columns["colour"], dtype=pl.Object))


def as_polars_category(columns):
    return as_polars(columns).with_columns(pl.col("colour").cast(pl.Categorical))


def as_polars_enum(columns):
    return as_polars(columns).with_columns(pl.col("colour").cast(pl.Enum(["blue", "green", "grey", "red"])))


def as_arrow(columns):
    return pa.table({name: pa.array(values.tolist()) for name, values in columns.items()})


def as_arrow_dictionary(columns):
    table = as_arrow(columns)
    return table.set_column(3, "colour", table["colour"].dictionary_encode())


def as_object_array(columns):
    return np.column_stack([np.asarray(values, dtype=object) for values in columns.values()])


FRAMES = [
    as_pandas, as_pandas_category, as_pandas_nullable, as_pandas_object, as_polars, as_polars_category, as_polars_enum,
    as_polars_object, as_arrow, as_arrow_dictionary,
]  # fmt: skip
TABLES = [*FRAMES, as_object_array]


@pytest.mark.slow
class TestSameModelFromEveryTable:
    @pytest.mark.parametrize("make", TABLES)
    def test_mixed_columns(self, mixed, make):
        columns, y = mixed
        expected = AGBMRegressor(max_iter=10).fit(as_pandas(columns), y)
        table = make(columns)
        model = AGBMRegressor(max_iter=10).fit(table, y)
        assert np.array_equal(model.predict(table), expected.predict(as_pandas(columns)))
        assert model.n_features_in_ == 4
        if make is not as_object_array:
            assert list(model.feature_names_in_) == ["number", "count", "flag", "colour"]
        assert model.feature_importances_.argmax() == 3

    @pytest.mark.parametrize("make", FRAMES)
    @pytest.mark.parametrize(
        "wanted", ["from_dtype", ["colour"], [3], [False, False, False, True], np.array([3])], ids=str
    )
    def test_categories_by_name_position_mask_or_type(self, mixed, make, wanted):
        columns, y = mixed
        table = make(columns)
        expected = AGBMRegressor(max_iter=5).fit(as_pandas(columns), y).predict(as_pandas(columns))
        assert np.array_equal(
            AGBMRegressor(max_iter=5, categorical_features=wanted).fit(table, y).predict(table), expected
        )

    @pytest.mark.parametrize("in_batches", [False, True])
    def test_sentences_that_do_not_come_again_give_a_warning(self, in_batches):
        table = pd.DataFrame({"note": [f"visit {i} of a patient" for i in range(120)], "code": ["a", "b"] * 60})
        y = np.arange(120.0)

        def fit(table, **parameters):
            model = AGBMRegressor(max_iter=2, **parameters)
            return model.fit(Batches(lambda: iter([(table, y)]))) if in_batches else model.fit(table, y)

        with pytest.warns(UserWarning, match=r"'note' has 120 different texts in 120 rows.* TF-IDF .*'Long text'"):
            fit(table)
        fit(table, categorical_features=["note"])
        fit(table.assign(note=[f"id {i}" for i in range(120)]))
        fit(table.assign(note=[f"visit {i % 50} of a patient" for i in range(120)]))

    @pytest.mark.parametrize("make", [pl.DataFrame, pa.table, pd.DataFrame])
    def test_numbers(self, regression, make):
        X, y = regression
        table = make({f"x{j}": X[:, j] for j in range(X.shape[1])})
        model = AGBMRegressor(max_iter=5).fit(table, y)
        assert np.array_equal(model.predict(table), AGBMRegressor(max_iter=5).fit(X, y).predict(X))
        assert list(model.feature_names_in_) == [f"x{j}" for j in range(10)]

    def test_arrays(self, regression, tmp_path):
        X, y = regression
        expected = AGBMRegressor(max_iter=5).fit(X, y).predict(X)
        np.save(tmp_path / "x.npy", X)
        read_only = X.copy()
        read_only.setflags(write=False)
        for table in (
            np.asfortranarray(X), read_only, np.load(tmp_path / "x.npy", mmap_mode="r"), X[::-1][::-1], X.astype(">f8"),
            X.astype(np.longdouble), X.tolist(), X.astype(object), np.repeat(X, 2, axis=0)[::2],
        ):  # fmt: skip
            assert np.array_equal(AGBMRegressor(max_iter=5).fit(table, y).predict(table), expected)
        whole = np.round(X * 100)
        expected = AGBMRegressor(max_iter=5).fit(whole, y).predict(whole)
        for dtype in (np.int8, np.int64, np.uint8, np.float16, np.float32):
            shifted = (whole + 50).astype(dtype)
            assert np.array_equal(AGBMRegressor(max_iter=5).fit(shifted, y).predict(shifted), expected)


@pytest.mark.slow
class TestSparse:
    @methods
    @pytest.mark.parametrize("make", [csr_array, csc_matrix, csr_matrix, coo_array])
    def test_is_the_dense_matrix(self, method, make):
        X, y = load_breast_cancer(return_X_y=True)
        X = np.where(np.median(X, axis=0) > X, 0.0, X)
        X[::50, 3] = np.nan
        model = AGBMClassifier(method=method, max_iter=5, max_depth=3, early_stopping=False)
        dense = clone(model).fit(X, y)
        sparse = clone(model).fit(make(X), y, X_val=make(X), y_val=y)
        assert np.array_equal(dense.decision_function(X), sparse.decision_function(make(X)))
        assert np.array_equal(dense.decision_function(X), sparse.decision_function(X)), "fit sparse, predict dense"
        np.testing.assert_array_equal(
            list(sparse.staged_decision_function(make(X)))[-1], list(dense.staged_decision_function(X))[-1]
        )
        stopped = clone(model).set_params(early_stopping=True, random_state=0)
        weight = np.arange(len(y)) % 3
        one = clone(stopped).fit(X, y, sample_weight=weight).decision_function(X)
        assert np.array_equal(clone(stopped).fit(make(X), y, sample_weight=weight).decision_function(X), one)

    def test_another_learner(self, regression):
        X, y = regression
        model = AGBMRegressor(method=Fading(learner=Ridge()), max_iter=3)
        dense = clone(model).fit(X, y).predict(X)
        np.testing.assert_allclose(clone(model).fit(csr_array(X), y).predict(csr_array(X)), dense, rtol=1e-4)

    def test_matrix_is_never_dense_as_a_whole(self):
        """Matrices whose dense form would need 1.6 and 3.2 GB are fitted and predicted within a few hundred MB."""
        script = """
            import resource
            import numpy as np
            from scipy.sparse import csr_array, random_array
            from agbm import AGBMRegressor
            rng = np.random.default_rng(0)
            X = random_array((100_000, 2000), density=1e-4, format="csr", rng=rng)
            y = np.asarray(X[:, [0]].todense())[:, 0] + rng.normal(size=100_000)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            model = AGBMRegressor(max_iter=2, max_depth=2, early_stopping=False).fit(X, y)
            assert model.predict(X).shape == (100_000,)
            wide = random_array((4000, 100_000), density=1e-4, format="csr", rng=rng)
            model = AGBMRegressor(max_iter=1, max_depth=2).fit(wide[:500], np.arange(500.0))
            assert model.predict(wide).shape == (4000,)
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
            print(grown)
            assert grown < 700, grown  # 200 MB of codes, one byte a value; the dense matrix has 1600 MB
        """
        result = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=240, check=False
        )
        assert result.returncode == 0, result.stdout + result.stderr

    def test_a_million_columns_take_little_memory(self, tmp_path):
        """Fit, early stopping, weights, prediction, contributions, importances, a model file and a look into it."""
        script = """
            import resource
            import numpy as np
            from scipy.sparse import csr_array
            import agbm
            from agbm import AGBMClassifier
            from agbm._apps import cli
            rng = np.random.default_rng(0)
            n_rows, n_columns, per_row = 11_000, 2**20, 60
            rows, frequent = np.repeat(np.arange(n_rows), per_row), np.arange(1000) * 1009
            columns = rng.integers(0, n_columns, size=len(rows))
            columns[::3] = rng.choice(frequent, size=len(columns[::3]))
            X = csr_array((rng.random(len(rows)), (rows, columns)), shape=(n_rows, n_columns))
            y = X[:, frequent[:30]].sum(axis=1) > 0
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            model = AGBMClassifier(max_iter=3, max_depth=4).fit(X, y)
            AGBMClassifier(max_iter=1, max_depth=2, class_weight="balanced").fit(X, y)
            model.save("wide.agbm")
            loaded = agbm.load("wide.agbm")
            assert np.array_equal(loaded.predict_proba(X[:5000]), model.predict_proba(X[:5000]))
            assert model.predict_contributions(X[:2]).shape == (2, n_columns + 1)
            assert model.feature_importances_.argmax() in frequent[:30]
            assert cli.main(["inspect", "wide.agbm"]) == 0
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
            print(grown)
            assert grown < 500, grown  # 6 GB of tables from values to bins, when every feature had one
        """
        result = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)],
            capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path,
        )  # fmt: skip
        assert result.returncode == 0, result.stdout + result.stderr

    def test_a_model_with_categories_needs_a_dense_table(self, mixed):
        columns, y = mixed
        model = AGBMRegressor(max_iter=2).fit(as_object_array(columns), y)
        with pytest.raises(ValueError, match=r"X is sparse, but the model has categorical features \(\[3\]\)"):
            model.predict(csr_array((5, 4)))

    def test_categories_need_a_dense_table(self, regression):
        X, y = regression
        with pytest.raises(ValueError, match=r"categorical_features=\[1\]: a sparse X contains only numbers"):
            AGBMRegressor(categorical_features=[1]).fit(csr_array(X), y)


def with_timestamps(n, seed):
    rng = np.random.default_rng(seed)
    size = rng.choice([1, 2, 4, 12, 18], n, p=[0.9, 0.05, 0.04, 0.005, 0.005])
    when = np.repeat(np.arange(n), size)[:n]
    X = rng.normal(size=(n, 6))
    score = 0.5 * X @ rng.normal(size=(6, 4)) + np.log([0.42, 0.37, 0.16, 0.05])
    own, of_time = (score + rng.gumbel(size=score.shape)).argmax(1), (score + rng.gumbel(size=score.shape)).argmax(1)
    y = np.where((size[when] > 1) & (rng.random(n) < 0.8), of_time[when], own)
    table = pd.DataFrame(X, columns=list("abcdef"))
    table["when"] = [f"2014-02-12 {i:06d}" for i in rng.permutation(n)[when]]
    order = rng.permutation(n)
    return table.iloc[order].reset_index(drop=True), y[order]


class TestCategories:
    @methods
    def test_subsets_need_one_split(self, method):
        """Six categories, those with even numbers high: ordered splits would need many."""
        rng = np.random.default_rng(0)
        X = rng.integers(0, 6, size=(1000, 1)).astype(float)
        y = np.where(X[:, 0] % 2 == 0, 10.0, 0.0)
        model = AGBMRegressor(
            method=method, max_depth=1, max_iter=1, learning_rate=1.0, l2_regularization=0.0, categorical_features=[0]
        )
        np.testing.assert_allclose(model.fit(X, y).predict(X), y, atol=1e-9)

    def test_order_and_names_of_categories_do_not_matter(self, mixed):
        columns, y = mixed
        table = as_pandas_category(columns)
        renamed = table.copy()
        renamed["colour"] = table["colour"].cat.rename_categories({"red": "zz", "green": "a", "blue": "m", "grey": "k"})
        shuffled = table.copy()
        shuffled["colour"] = table["colour"].cat.reorder_categories(["grey", "red", "blue", "green"])
        expected = AGBMRegressor(max_iter=10).fit(table, y).predict(table)
        assert np.array_equal(AGBMRegressor(max_iter=10).fit(renamed, y).predict(renamed), expected)
        assert np.array_equal(AGBMRegressor(max_iter=10).fit(shuffled, y).predict(shuffled), expected)

    @methods
    def test_unknown_categories_go_where_missing_ones_go(self, mixed, method):
        columns, y = mixed
        table = as_pandas(columns)
        model = AGBMRegressor(method=method, max_iter=10).fit(table, y)
        unknown, missing = table.copy(), table.copy()
        unknown["colour"] = "violet"
        missing["colour"] = None
        assert np.array_equal(model.predict(unknown), model.predict(missing))

    def test_missing_categories_are_learned(self):
        rng = np.random.default_rng(0)
        text = rng.choice(["a", "b", None], size=900)
        y = np.where(text == None, 5.0, 0.0)  # noqa: E711
        table = pd.DataFrame({"x": pd.Series(text, dtype="str")})
        model = AGBMRegressor(method="gbm", max_iter=20, learning_rate=0.5).fit(table, y)
        np.testing.assert_allclose(model.predict(table), y, atol=0.01)

    def test_categories_of_held_out_rows_only_are_unknown(self):
        """They are numbered with the others, but no tree has seen them: they go where missing values go."""
        rng = np.random.default_rng(0)
        for n_categories in (5, 600):
            kind = np.append(rng.integers(0, n_categories, size=6000), np.full(40, n_categories))
            y = kind % 3 + 0.1 * rng.normal(size=len(kind))
            table = pd.DataFrame({"kind": [f"k{i}" for i in kind]})
            seen = kind < n_categories
            model = AGBMRegressor(max_iter=10, warm_start=True).fit(table[seen], y[seen])
            both = AGBMRegressor(max_iter=10).fit(table, y, sample_weight=seen.astype(float))
            missing = pd.DataFrame({"kind": [None, "never seen", f"k{n_categories}"]}, dtype="str")
            for fitted in (model, both):
                predicted = fitted.predict(missing)
                assert np.array_equal(predicted, np.full(3, predicted[0]))
            stopped = AGBMRegressor(max_iter=10, early_stopping=True, random_state=0)
            alone = table["kind"] == "k0"  # a category whose rows are all held out
            rows = np.append(np.flatnonzero(~alone), np.flatnonzero(alone))
            stopped.fit(table.iloc[rows], y[rows], X_val=table[alone], y_val=y[alone])
            assert np.isfinite(stopped.predict(table)).all()

    @pytest.mark.parametrize(("n_categories", "min_samples_leaf", "each"), [(255, 1, 9), (256, 1, 9), (300, 20, 10)])
    def test_no_cliff_at_the_number_of_bins(self, n_categories, min_samples_leaf, each):
        rng = np.random.default_rng(0)
        kind = np.repeat(np.arange(n_categories), each)
        y = rng.normal(size=n_categories)[kind]
        settings = {"max_iter": 50, "early_stopping": False}  # so that no category loses rows
        model = AGBMRegressor(min_samples_leaf=min_samples_leaf, categorical_features=[0], **settings)
        assert model.fit(kind[:, np.newaxis], y).score(kind[:, np.newaxis], y) > 0.9

    @pytest.mark.slow
    @pytest.mark.parametrize("n_categories", [254, 255, 256, 1000, 20_000])
    def test_any_number_of_categories(self, n_categories):
        """Frequent ones are told apart; those with too few rows share a bin."""
        rng = np.random.default_rng(0)
        common = rng.integers(0, 10, size=20_000)
        rare = np.arange(20_000) % n_categories
        names = np.where(rng.random(20_000) < 0.5, common, rare)
        y = np.where(names < 10, names % 2 * 10.0, 3.0)
        table = pd.DataFrame({"id": pd.Series([f"n{i}" for i in names])})
        model = AGBMRegressor(
            method="gbm", learning_rate=0.3, max_iter=30, early_stopping=False, max_depth=3, l2_regularization=0.0
        )
        predicted = model.fit(table, y).predict(table)
        assert np.abs(predicted - y)[names < 10].max() < 0.5
        assert np.abs(predicted - y).mean() < 0.1

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", [0, 1])
    def test_values_that_mostly_do_not_come_again(self, seed):
        """As timestamps in text: few are repeated, with labels mostly alike, and most test rows have new ones."""
        table, y = with_timestamps(6_000, seed)
        train, test = slice(0, 4_500), slice(4_500, None)
        new = ~table["when"][test].isin(table["when"][train]).to_numpy()
        assert new.mean() > 0.7
        all_rows, new_rows = [], []
        for columns in (table, table.drop(columns="when")):
            model = AGBMClassifier(max_iter=40).fit(columns[train], y[train])
            predicted = model.predict_proba(columns[test])
            all_rows.append(log_loss(y[test], predicted, labels=model.classes_))
            new_rows.append(log_loss(y[test][new], predicted[new], labels=model.classes_))
        assert all_rows[0] < all_rows[1]
        assert new_rows[0] < 1.01 * new_rows[1]

    @pytest.mark.parametrize("least", [1, 3])
    def test_values_that_never_come_again(self, least):
        """Whole groups of rows are held out: what training finds in them is of no use."""
        rng = np.random.default_rng(0)
        group = np.repeat(np.arange(5_000), rng.integers(least, 2 * least + 1, 5_000))[:5_000]
        X = rng.normal(size=(5_000, 3))
        y = np.where(rng.random(5_000) < 0.5, rng.integers(0, 2, 5_000)[group], X[:, 0] > 0)
        table = pd.DataFrame({"x": X[:, 0], "z": X[:, 1], "group": [f"g{i}" for i in rng.permutation(5_000)[group]]})
        n_train = int(np.searchsorted(group, group[3_500]))
        losses = []
        for columns in (table, table[["x", "z"]]):
            model = AGBMClassifier(max_iter=40).fit(columns[:n_train], y[:n_train])
            losses.append(log_loss(y[n_train:], model.predict_proba(columns[n_train:])))
        assert losses[0] < 1.03 * losses[1]

    def test_new_categories_are_rare_ones(self):
        rng = np.random.default_rng(0)
        names = np.array([f"n{i}" for i in range(700)] + ["often"] * 1_500)
        y = np.where(names == "often", 0.0, 5.0) + 0.1 * rng.normal(size=2_200)
        model = AGBMRegressor(max_iter=20).fit(pd.DataFrame({"name": names}), y)
        new, rare, missing = model.predict(pd.DataFrame({"name": ["never seen", "n0", None]}))
        assert new == rare
        assert new > 3.5
        assert missing < 1.0  # there were none: they go where most rows go

    def test_numbers_by_frequency(self):
        columns = pd.DataFrame({"x": ["b", "a", "c", "a", None, "c", "d"]})
        assert Categories.learn(columns, np.array([True]), None).of == {0: ["a", "c", "b", "d"]}
        weight = np.array([5.0, 1.0, 1.0, 1.0, 9.0, 1.0, 0.0])
        assert Categories.learn(columns, np.array([True]), weight).of == {0: ["b", "a", "c"]}

    def test_kinds_of_values(self):
        values = np.array([3, "3", 2.5, True, None, ("a", 1)] * 40, dtype=object)[:, np.newaxis]
        y = np.tile(np.arange(6.0), 40)
        settings = {"method": "gbm", "max_iter": 40, "min_samples_leaf": 5, "learning_rate": 0.5}
        model = AGBMRegressor(categorical_features=[0], **settings).fit(values, y)
        np.testing.assert_allclose(model.predict(values), y, atol=0.01)

    def test_whole_numbers_are_the_same_category_in_every_type(self):
        y = np.tile([0.0, 5.0, 1.0], 50)
        numbers = np.tile([7, 8, 9], 50)[:, np.newaxis]
        model = AGBMRegressor(categorical_features=[0], max_iter=5).fit(numbers, y)
        assert np.array_equal(model.predict(numbers), model.predict(numbers.astype(np.float32)))

    @methods
    def test_weights_mean_repeats(self, mixed, method):
        columns, y = mixed
        table = as_pandas(columns)
        weight = np.arange(len(y)) % 4
        model = AGBMRegressor(method=method, max_iter=6, early_stopping=False)
        weighted = clone(model).fit(table, y, sample_weight=weight).predict(table)
        repeated = clone(model).fit(table.loc[table.index.repeat(weight)], np.repeat(y, weight)).predict(table)
        np.testing.assert_allclose(weighted, repeated, rtol=1e-9)

    def test_early_stopping_and_validation_tables(self, mixed):
        columns, y = mixed
        table = as_pandas(columns)
        model = AGBMRegressor(n_members=1, max_iter=5)
        model.fit(table[:400], y[:400], X_val=table[400:], y_val=y[400:])
        expected = ((model.predict(table[400:]) - y[400:]) ** 2 / 2).mean()
        assert model.history_["validation_loss"][model.best_iteration_] == pytest.approx(expected)
        AGBMRegressor(max_iter=5, early_stopping=True, random_state=0).fit(table, y)

    def test_warm_start(self, mixed):
        columns, y = mixed
        table = as_pandas(columns)
        whole = AGBMRegressor(max_iter=12).fit(table, y).predict(table)
        parts = AGBMRegressor(max_iter=5, warm_start=True).fit(table, y)
        assert np.array_equal(parts.set_params(max_iter=12).fit(table, y).predict(table), whole)

    def test_many_classes_and_vector_leaves(self, mixed):
        columns, y = mixed
        table, labels = as_pandas(columns), np.digitize(y, [0, 2, 4])
        for strategy in ("one_output_per_tree", "multi_output_tree"):
            model = AGBMClassifier(multi_strategy=strategy, max_iter=10).fit(table, labels)
            assert model.score(table, labels) > 0.6

    def test_none_means_numbers_only(self, mixed):
        columns, y = mixed
        with pytest.raises(
            ValueError, match=r"column 'colour' must contain numbers, or be listed in categorical_features"
        ):
            AGBMRegressor(categorical_features=None).fit(as_pandas_object(columns), y)


CODES = [10001, 10002, 10003, 10004]


class TestFormsOfCategories:
    """Columns that have another type at prediction than in fit."""

    def fitted(self, convert):
        table = pd.DataFrame({"code": pd.Series([convert(CODES[i % 4]) for i in range(200)], dtype=object)})
        y = np.arange(200) % 4 * 1.0
        return AGBMRegressor(max_iter=3, categorical_features=["code"]).fit(table, y)

    def table(self, *values):
        return pd.DataFrame({"code": pd.Series(values, dtype=object)})

    @pytest.mark.parametrize(
        ("in_fit", "here"),
        [
            (int, str),
            (str, int),
            (str, float),
            (float, str),
            (int, lambda code: f"{code}.0"),
            (str, lambda code: f"{code}.0"),
            (lambda code: f"{code}.0", str),
            (str, lambda code: str(code).encode()),
            (lambda code: str(code).encode(), str),
            (lambda code: code == 10001, lambda code: str(code == 10001)),
            (lambda code: str(code == 10001), lambda code: code == 10001),
        ],
    )
    def test_other_forms(self, in_fit, here):
        model = self.fitted(in_fit)
        table = self.table(*map(here, CODES))
        message = (
            f"column 'code' has categories in another form than in fit: {here(10001)!r} "
            f"({type(here(10001)).__name__}), in fit {in_fit(10001)!r} ({type(in_fit(10001)).__name__})"
        )
        with pytest.warns(UserWarning, match=re.escape(message)):
            first = model.predict(table)
        assert np.array_equal(model.predict(table), first), "and no second warning"

    @pytest.mark.parametrize(
        ("in_fit", "here"),
        [(int, float), (float, int), (int, np.int64), (str, np.str_), (np.str_, str), (int, np.float32)],
    )
    def test_forms_that_are_equal(self, in_fit, here):
        model = self.fitted(in_fit)
        same = model.predict(self.table(*map(in_fit, CODES)))
        assert np.array_equal(model.predict(self.table(*map(here, CODES))), same)

    def test_values_of_another_kind(self):
        with pytest.warns(UserWarning, match=r"'red' \(str\), in fit 1000\d \(int\)"):
            self.fitted(int).predict(self.table("red", None))

    def test_values_that_are_new(self):
        """Are no reason for a warning, nor are strange ones among others."""
        model = self.fitted(int)
        model.predict(self.table(7, 8.5, None))
        model.predict(self.table("red", 10001))
        model = self.fitted(lambda code: f"1.{code % 10}")
        model.predict(self.table("1.10", "2", "nan", "1.1"))

    def test_positions_and_validation_rows(self):
        X = np.array([[1, "a"], [2, "b"]] * 50, dtype=object)
        y = np.arange(100) % 2 * 1.0
        model = AGBMRegressor(max_iter=3, categorical_features=[0, 1])
        with pytest.warns(UserWarning, match="column 0 has categories in another form"):
            model.fit(X, y, X_val=np.array([["1", "a"]], dtype=object), y_val=[0.0])
        with pytest.warns(UserWarning, match="column 0 has categories in another form"):
            pickle.loads(pickle.dumps(model)).predict(X.astype(str).astype(object))

    def test_batches(self):
        X = np.array([[1, "a"], [2, "b"]] * 50, dtype=object)
        y = np.arange(100) % 2 * 1.0
        model = AGBMRegressor(max_iter=3, categorical_features=[0, 1])
        drifted = np.array([["1", "a"], ["2", "b"]], dtype=object)
        validation = Batches(lambda: iter([(drifted, np.zeros(2)), (drifted, np.ones(2))]))
        with pytest.warns(UserWarning, match="column 0 has categories in another form") as caught:
            model.fit(Batches(lambda: iter([(X[:50], y[:50]), (X[50:], y[50:])])), X_val=validation)
        assert len(caught) == 1


class TestNames:
    @pytest.mark.parametrize("make", FRAMES)
    def test_columns_in_another_order(self, mixed, make):
        columns, y = mixed
        model = AGBMRegressor(max_iter=2).fit(make(columns), y)
        table = make(columns)
        names = ["count", "number", "flag", "colour"]
        moved = table.select(names) if hasattr(table, "select") else table[names]
        with pytest.raises(
            ValueError, match=r"column 0 is 'count', in fit it was 'number'; column 1 is 'number', in fit"
        ):
            model.predict(moved)
        names = ["colour", "count", "flag", "number"]
        moved = table.select(names) if hasattr(table, "select") else table[names]
        with pytest.raises(ValueError, match=r"column 0 is 'colour', in fit it was 'number'; column 3 is 'number'"):
            model.predict(moved)
        with pytest.raises(ValueError, match="colour"):
            model.predict(table.select(names[1:]) if hasattr(table, "select") else table[names[1:]])

    def test_of_numbers(self, regression):
        X, y = load_diabetes(return_X_y=True, as_frame=True)
        model = AGBMRegressor(max_iter=2).fit(X, y)
        with pytest.raises(ValueError, match=r"column 0 is 's6', in fit it was 'age'.*and 5 more"):
            model.predict(X[X.columns[::-1]])
        with pytest.raises(ValueError, match="years"):
            model.predict(X.rename(columns={"age": "years"}))
        with pytest.raises(ValueError, match=r"(?s)X_val: .*column 0 is 's6'"):
            AGBMRegressor(max_iter=2).fit(X, y, X_val=X[X.columns[::-1]], y_val=y)


class TestBadTables:
    @pytest.mark.parametrize("make", [lambda: pd.DataFrame(index=range(600)), lambda: np.empty((600, 0))])
    def test_no_columns(self, make):
        with pytest.raises(ValueError, match=r"0 feature\(s\) \(shape=\(600, 0\)\) .*: X has no columns\."):
            AGBMRegressor().fit(make(), np.arange(600.0))

    def test_columns(self, mixed):
        columns, y = mixed
        dates = {"number": np.array(["2020-01-01"] * 600, dtype="datetime64[s]")}
        model = AGBMRegressor(max_iter=2).fit(pd.DataFrame(columns), y)
        with pytest.raises(ValueError, match="column 'number' has dates"):
            model.predict(pd.DataFrame({**columns, **dates}))

    def test_na_in_an_object_column(self, mixed):
        columns, y = mixed
        values = np.array(np.nan_to_num(columns["number"]), dtype=object)
        values[::5] = pd.NA
        holes = np.where(np.arange(len(y)) % 5 == 0, np.nan, np.nan_to_num(columns["number"]))
        expected = AGBMRegressor(max_iter=3).fit(holes[:, np.newaxis], y).predict(holes[:, np.newaxis])
        for table in (pd.DataFrame({"x": values}), values[:, np.newaxis]):
            assert np.array_equal(AGBMRegressor(max_iter=3).fit(table, y).predict(table), expected)

    def test_names_that_occur_twice(self, regression):
        X, y = regression
        with pytest.raises(ValueError, match=r"several columns named \['a'\]"):
            AGBMRegressor().fit(pd.DataFrame(X[:, :3], columns=["a", "b", "a"]), y)

    def test_categories_that_cannot_be_told_apart(self):
        table = pd.DataFrame({"x": [[1], [2], [3]] * 10})
        with pytest.raises(ValueError, match=r"column 'x' has values that cannot be categories \(unhashable type"):
            AGBMRegressor(categorical_features=["x"]).fit(table, np.arange(30.0))
        complex_numbers = np.array([1j, 2j, 1 + 1j] * 20, dtype=object)[:, np.newaxis]
        model = AGBMRegressor(categorical_features=[0], max_iter=2, min_samples_leaf=5)
        assert np.isfinite(model.fit(complex_numbers, np.arange(60.0)).predict(complex_numbers)).all()

    def test_rows_that_are_not_there_yet(self):
        lazy = pl.LazyFrame({"x": [1.0, 2.0]})
        with pytest.raises(TypeError, match=r"X is a LazyFrame.* pass X.collect\(\)"):
            as_table(lazy)
        with pytest.raises(TypeError, match=r"groups='x': X is a LazyFrame; pass X.collect\(\) to name one"):
            AGBMRegressor().fit(lazy, [1.0, 2.0], groups="x")

    def test_tables_of_cudf(self):
        frame = type("DataFrame", (), {"__module__": "cudf.core.dataframe", "shape": (2, 1), "columns": ["x"]})()
        with pytest.raises(TypeError, match=r"DataFrame of cuDF on a GPU. Pass X.to_cupy\(\) with device='cuda'"):
            AGBMRegressor().fit(frame, [1.0, 2.0])
        model = AGBMRegressor(max_iter=1).fit(np.arange(40.0)[:, np.newaxis], np.arange(40.0))
        with pytest.raises(TypeError, match=r"otherwise, pass X.to_pandas\(\)"):
            model.predict(frame)

    def test_without_narwhals(self, mixed, monkeypatch):
        columns, y = mixed
        monkeypatch.setitem(sys.modules, "narwhals", None)
        for table in (as_pandas(columns), as_pandas_category(columns)):
            with pytest.raises(ImportError, match=r"pip install 'agbm\[tables\]'"):
                AGBMRegressor().fit(table, y)

    def test_text_among_numbers(self, mixed):
        columns, y = mixed
        values = np.array(columns["number"], dtype=object)
        values[5:100] = [f"seven {i}" for i in range(95)]  # so many that they are not missing values
        table = pd.DataFrame({**columns, "number": values})
        with pytest.raises(ValueError, match=r"column 'number' must contain numbers.*'seven 0'"):
            AGBMRegressor().fit(table, y)
        with pytest.raises(ValueError, match=r"column 'number' must contain numbers.*'seven 0'"):
            AGBMRegressor().fit(table[["number", "count"]], y)
        model = AGBMRegressor(max_iter=2).fit(as_pandas(columns), y)
        with pytest.raises(ValueError, match=r"column 'number' must contain numbers.*'seven 0'"):
            model.predict(table)

    def test_unknown_names(self, mixed):
        columns, y = mixed
        with pytest.raises(ValueError, match=r"X has no columns \['taste'\]; its columns are \['number', 'count'"):
            AGBMRegressor(categorical_features=["colour", "taste"]).fit(as_pandas(columns), y)
        with pytest.raises(ValueError, match=r"\['colour', 1\] must be names or positions, not both"):
            AGBMRegressor(categorical_features=["colour", 1]).fit(as_pandas(columns), y)
        with pytest.raises(ValueError, match="must be a flat list"):
            AGBMRegressor(categorical_features=[["colour"]]).fit(as_pandas(columns), y)


class TestFactors:
    """Columns of pandas with categories or text are read by their codes; the result is that of a value per row."""

    COLUMNS = st.lists(st.sampled_from(["a", "b", "é", "", None]), min_size=1, max_size=30)

    @given(values=COLUMNS)
    @pytest.mark.parametrize("dtype", ["category", "string", "str"])
    def test_results_equal_those_of_objects(self, dtype, values):
        objects = np.array(values, dtype=object)[:, np.newaxis]
        frame = pd.DataFrame({"x": pd.Series(values, dtype=dtype)})
        expected, found = Columns(objects).factors(0), Columns(frame).factors(0)

        def decoded(factors):
            return [None if place < 0 else factors.distinct[place] for place in factors.places.tolist()]

        assert decoded(found) == decoded(expected) == values
        one = np.array([True])
        assert category_sums(frame, one, [None]) == category_sums(objects, one, [None])

    def test_categories_without_rows_are_not_learned(self):
        frame = pd.DataFrame({"x": pd.Categorical(["b", None, "b"], categories=["a", "b", "c"])})
        assert Categories.learn(frame, np.array([True]), None).of == {0: ["b"]}
