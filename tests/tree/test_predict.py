"""Predictions of forests equal those of a plain walk, bit for bit, for any number and layout of rows."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_classification, make_regression
from sklearn.linear_model import LinearRegression

from agbm import AGBMClassifier, AGBMRegressor
from agbm.methods import Fading
from forests import LAYOUTS, random_forest
from toys import native_forest, sums_of_trees


def walked(forest, n_columns, X):
    """The prediction, by walking."""
    out = np.zeros((len(X), n_columns))
    n_values = forest["value"].shape[1]
    for root, first in zip(forest["roots"], forest["first_column"], strict=True):
        for row, x in enumerate(X.astype(np.float64)):
            node = root
            while forest["feature"][node] >= 0:
                value, number = x[forest["feature"][node]], forest["categories"][node]
                left = value <= forest["threshold"][node]
                words = forest["category_words"][slice(*forest["category_start"][number:][:2])]
                if np.isnan(value) or (number >= 0 and not 0 <= value < 64 * len(words)):
                    left = forest["missing_left"][node]
                elif number >= 0:
                    left = int(words[int(value) // 64]) >> int(value) % 64 & 1
                node = forest["left"][node] + (0 if left else 1)
            out[row, first : first + n_values] += forest["value"][node]
    return out


@pytest.mark.slow
@given(
    seed=st.integers(0, 2**32),
    n_rows=st.sampled_from([0, 1, 2, 31, 32, 33, 255, 256, 257, 300, 530]),
    n_features=st.integers(1, 5),
    n_trees=st.integers(1, 11),
    most_leaves=st.sampled_from([1, 2, 4, 9, 64, 256, 300]),
    n_thresholds=st.sampled_from([1, 2, 30, 254, 255, 256, 510, 511, 3000]),
    n_values=st.integers(1, 3),
    more_columns=st.integers(0, 2),
    n_sets=st.sampled_from([0, 0, 3, 40]),
    set_words=st.sampled_from([1, 3, 4, 5, 20]),
    narrow=st.booleans(),
    layout=st.sampled_from(sorted(LAYOUTS)),
)
def test_forests_predict_what_a_walk_predicts(
    seed, n_rows, n_features, n_trees, most_leaves, n_thresholds, n_values, more_columns, n_sets, set_words, narrow,
    layout,
):  # fmt: skip
    random = np.random.default_rng(seed)
    dtype = np.float32 if narrow else np.float64
    grid = random.normal(size=n_thresholds) * 10.0 ** random.integers(-3, 4)
    special = np.array([0.0, -0.0, np.inf, -np.inf, 1e300, -1e300, 1e-300, 5e-324, 3.4028235e38, 16777217.0])
    thresholds = np.append(grid, random.choice(special, random.integers(0, 4)))
    n_columns = n_values + more_columns
    sets = n_sets, set_words
    forest = random_forest(random, n_features, n_trees, most_leaves, thresholds, n_values, n_columns, *sets)
    with np.errstate(over="ignore", under="ignore"):
        equal = random.choice(thresholds, (n_rows, n_features)).astype(dtype)
        beside = np.nextafter(equal, dtype(random.choice([-1, 1]) * np.inf))
    X = np.where(random.random(equal.shape) < 0.5, equal, beside)
    categories = random.integers(-1, 64 * set_words + 3, X.shape) + random.choice([0.0, 0.0, 0.5], X.shape)
    X = np.where(random.random(X.shape) < (0.6 if n_sets else 0.1), categories, X).astype(dtype)
    X[random.random(X.shape) < 0.1] = np.nan
    native = native_forest(n_features, n_columns, **forest)
    expected = walked(forest, n_columns, X)
    for n_threads in (1, 3):
        np.testing.assert_array_equal(sums_of_trees(native, LAYOUTS[layout](X), n_columns, n_threads), expected)


@pytest.mark.parametrize("last_is_missing", [True, False])
def test_splits_on_256_categories(last_is_missing):
    """Codes of one byte have no room for the last category, unless it counts as missing."""
    random = np.random.default_rng(0)
    forest = random_forest(random, 2, 5, 9, np.zeros(1), 1, 1, 12, 1)
    forest["category_start"] = 4 * np.arange(13)
    words = forest["category_words"] = random.integers(0, 2**64, 48, dtype=np.uint64)
    forest["categories"] = np.where(forest["feature"] >= 0, random.integers(0, 12, len(forest["feature"])), -1)
    forest["categories"] = forest["categories"].astype(np.int32)
    if last_is_missing:
        words[3::4] &= np.uint64(2**63 - 1)
        forest["missing_left"][:] = 0
    X = np.stack([np.append(np.arange(-2.0, 300.0), np.nan), np.append(np.arange(299.0, -3.0, -1.0), 255.0)], axis=1)
    found = sums_of_trees(native_forest(2, 1, **forest), X, 1)
    np.testing.assert_array_equal(found, walked(forest, 1, X))


def test_more_categories_than_codes_of_two_bytes():
    random = np.random.default_rng(0)
    forest = random_forest(random, 1, 3, 9, np.zeros(1), 1, 1, 3, 1)
    forest["category_start"] = np.array([0, 1024, 1025, 1030])
    forest["category_words"] = random.integers(0, 2**64, 1030, dtype=np.uint64)
    forest["categories"] = np.where(forest["feature"] >= 0, random.integers(0, 3, len(forest["feature"])), -1)
    forest["categories"] = forest["categories"].astype(np.int32)
    X = np.append(random.integers(0, 70_000, 500), [65_534, 65_535, 65_536, 63, 64])[:, np.newaxis].astype(float)
    np.testing.assert_array_equal(sums_of_trees(native_forest(1, 1, **forest), X, 1), walked(forest, 1, X))


def test_nan_thresholds():
    forest = random_forest(np.random.default_rng(0), 2, 3, 8, np.array([0.0, np.nan, 1.0]), 1, 1, 0)
    with pytest.raises(ValueError, match=r"threshold: node \d+ has a threshold that is NaN"):
        native_forest(2, 1, **forest)


def fitted(kind):
    """A small model and its rows."""
    if kind == "regressor":
        X, y = make_regression(400, 6, noise=1.0, random_state=0)
        return AGBMRegressor(max_iter=8).fit(X, y), X
    if kind == "two labels":
        X, y = make_regression(400, 6, n_targets=2, random_state=0)
        return AGBMRegressor(max_iter=8, loss="squared_error").fit(X, y), X
    n_classes = 3 if kind == "three classes" else 2
    X, y = make_classification(400, 6, n_informative=4, n_classes=n_classes, random_state=0)
    return AGBMClassifier(max_iter=8).fit(X, np.array(["no", "yes", "perhaps"])[y]), X


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["regressor", "two labels", "two classes", "three classes"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_predictor_gives_what_the_methods_give(kind, dtype):
    model, X = fitted(kind)
    X = X.astype(dtype)
    X[::7, 2] = np.nan
    predictors = {"predict": model.predictor()}
    if isinstance(model, AGBMClassifier):
        predictors |= {name: model.predictor(name) for name in ("predict", "predict_proba", "decision_function")}
    for name, predictor in predictors.items():
        expected = getattr(model, name)(X)
        np.testing.assert_array_equal(predictor(X), expected)
        np.testing.assert_array_equal(predictor(np.asfortranarray(X)[::2]), expected[::2])
        np.testing.assert_array_equal(predictor(X[5]), expected[5])
        assert np.shape(predictor(X[5])) == expected.shape[1:]
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(predictor))(X), expected)
        with ThreadPoolExecutor(8) as threads:
            for row, result in enumerate(threads.map(predictor, X)):
                np.testing.assert_array_equal(result, expected[row])


@pytest.mark.parametrize("loss", ["huber:1.0", "poisson", "gamma", "tweedie:1.5", "quantile:0.1,0.9", "exponential"])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_links_of_predictors(loss, n_jobs):
    X, y = make_regression(40_000, 3, noise=1.0, random_state=0)
    classifies = loss == "exponential"
    kind, labels = (AGBMClassifier, y > 0) if classifies else (AGBMRegressor, abs(y) / 100 + 0.01)
    model = kind(loss=loss, max_iter=3, n_jobs=n_jobs, early_stopping=False).fit(X[:500], labels[:500])
    for name in ("predict", "predict_proba", "decision_function") if classifies else ("predict",):
        predictor = model.predictor(name) if classifies else model.predictor()
        for n_rows in (0, 1, 5, 100, len(X)):
            expected = getattr(model, name)(X[: max(n_rows, 1)])[:n_rows]
            np.testing.assert_array_equal(predictor(X[:n_rows]), expected)


def test_predictors_of_kernels_check_their_arguments():
    forest = fitted("regressor")[0].model_.folded
    with pytest.raises(ValueError, match=r"^link: no such link"):
        forest.predicting(np.zeros(1), "cube", 1)
    with pytest.raises(ValueError, match=r"^start: must have one entry"):
        forest.predicting(np.zeros(2), "exp", 1)
    kernel = forest.predicting(np.zeros(1), "exp", 1)
    with pytest.raises(ValueError, match=r"^X: wrong number"):
        kernel.fill(np.zeros((2, 5)), np.zeros(2))
    with pytest.raises(ValueError, match=r"^out: wrong size"):
        kernel.fill(np.zeros((2, 6)), np.zeros(6))


def test_later_fits_do_not_change_a_predictor():
    model, X = fitted("three classes")
    predictor, expected = model.predictor("predict"), model.predict(X)
    model.fit(X, X[:, 0] > 0)
    np.testing.assert_array_equal(predictor(X), expected)


def test_a_model_without_iterations_has_a_predictor():
    X, y = np.zeros((40, 2)), np.arange(40.0)
    model = AGBMRegressor(max_iter=1, early_stopping=True, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predictor()(X), model.predict(X))


def test_predictors_take_numbers_of_the_right_shape():
    model, X = fitted("regressor")
    predictor = model.predictor()
    for wrong in (X.tolist(), X.astype(object), X.astype(int), X.astype(">f8")):
        with pytest.raises(TypeError, match="float32 or float64"):
            predictor(wrong)
    for wrong in (X[:, :3], X[0, :3], X[np.newaxis], np.zeros(())):
        with pytest.raises(ValueError, match="shape"):
            predictor(wrong)


def homes():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "district": rng.choice(["north", "south", "east", None], 400), "kind": pd.Categorical(rng.choice([3, 5], 400)),
        "rooms": rng.integers(1, 9, 400), "size": rng.normal(80.0, 10.0, 400), "new": rng.random(400) < 0.5,
    })  # fmt: skip
    frame.loc[::9, "size"] = np.nan
    return frame, frame["rooms"] + 2.0 * (frame["district"] == "south") - frame["new"] * (frame["kind"] == 3)


def test_predictors_take_rows_by_name():
    frame, y = homes()
    model = AGBMRegressor(max_iter=8).fit(frame, y)
    predictor, expected = model.predictor(), model.predict(frame)
    records = frame.to_dict("records")
    np.testing.assert_array_equal(predictor(records), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(predictor))(records), expected)
    assert predictor(dict(reversed(records[3].items()))) == expected[3]
    odd = {"district": "nowhere", "kind": None, "rooms": np.int64(3), "size": None, "new": pd.NA}
    (found,) = model.predict(pd.DataFrame({name: [value] for name, value in odd.items()}).astype({"kind": object}))
    assert predictor(odd) == found
    for change, message in (
        ({"rooms": "three"}, "column 'rooms' must be a number; got 'three'"),
        ({"district": ["north"]}, r"column 'district'.*\['north'\]"),
        ({"more": 1}, r"columns \['more'\]"),
    ):
        with pytest.raises(ValueError, match=f"row 1.*{message}"):
            predictor([records[0], records[1] | change])
    with pytest.raises(ValueError, match=r"row 0 must be a mapping with a value for each of \['district', 'kind'"):
        predictor({"district": "north"})
    with pytest.raises(TypeError, match=r"by name, such as \{'district': value, ...\}, since columns \['district'"):
        predictor(np.zeros((2, 5)))


def test_predictors_take_categories_of_arrays():
    X, y = make_regression(100, 3, random_state=0)
    X = np.column_stack([X, np.arange(100) % 4])
    model = AGBMRegressor(max_iter=2, categorical_features=[3]).fit(X, y)
    X[0, 3], X[1, 3] = np.nan, 9.0
    np.testing.assert_array_equal(model.predictor()(X), model.predict(X))


def test_models_without_a_predictor():
    X, y = make_regression(100, 3, random_state=0)
    with pytest.raises(ValueError, match="init"):
        AGBMRegressor(max_iter=2, init=LinearRegression().fit(X, y)).fit(X, y).predictor()
    with pytest.raises(ValueError, match="trees"):
        AGBMRegressor(max_iter=2, method=Fading(learner=LinearRegression())).fit(X, y).predictor()
    with pytest.raises(ValueError, match="method='log_odds'"):
        AGBMClassifier(max_iter=2).fit(X, y > 0).predictor("log_odds")
