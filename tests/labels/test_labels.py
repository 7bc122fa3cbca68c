"""Labels of plain numbers, which skip scikit-learn's check, integers that floats cannot hold, and text as numbers."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.multiclass import check_classification_targets

from agbm import AGBMClassifier, AGBMRanker, AGBMRegressor, Batches
from agbm._data.rows import classes_of


def outcome(check, y):
    """The error and the warnings of a check."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            check(y)
            error = None
        except (TypeError, ValueError) as raised:
            error = type(raised), str(raised)
    return error, [str(each.message) for each in warned]


@pytest.mark.parametrize("dtype", ["i1", "i8", "u8", "f4", "f8", "?"])
@pytest.mark.parametrize("n_classes", [1, 2, 3, 12, 100])
def test_class_labels_are_checked_as_by_sklearn(dtype, n_classes):
    rng = np.random.default_rng(n_classes)
    for n_rows in (1, 2, 20, 21, 50, 100):
        y = rng.integers(0, n_classes, n_rows).astype(dtype)
        assert outcome(classes_of, y) == outcome(check_classification_targets, y)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "i8", "u8", "?"])
@pytest.mark.parametrize(("low", "n_classes"), [(0, 2), (-128, 7), (100, 27), (-(2**63), 3), (2**63, 2), (7, 10**6)])
def test_classes_are_sorted_and_places_are_theirs(dtype, low, n_classes):
    limits = (0, 1) if dtype == "?" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    drawn = np.random.default_rng(0).integers(0, n_classes, 200).tolist()
    y = np.array([min(max(low + number, limits[0]), limits[1]) for number in drawn], dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there may be as many classes as labels
        classes, places = classes_of(y)
    expected, inverse = np.unique(y, return_inverse=True)
    assert classes.dtype == expected.dtype
    np.testing.assert_array_equal(classes, expected)
    np.testing.assert_array_equal(places, inverse)


@pytest.mark.parametrize("y", [[0.5, 1.0], [1e300, 0.0], [2.0**60, 0.0], [np.inf, 0.0], [np.nan, 1.0], [-0.0, 1.0]])
def test_unusual_numbers_are_checked_as_by_sklearn(y):
    assert outcome(classes_of, np.array(y)) == outcome(check_classification_targets, np.array(y))


@pytest.mark.parametrize("form", [np.asarray, pd.Series, lambda y: pd.array(y, dtype="Int64"), list])
def test_integers_beyond_float_precision(form):
    """Class labels and categories above 2^53 stay apart."""
    numbers = 1_700_000_000_000_000_000 + np.arange(120) % 3
    X = np.arange(120.0).reshape(-1, 1) % 3
    model = AGBMClassifier(max_iter=3).fit(X, form(numbers), X_val=X[:30], y_val=form(numbers[:30]))
    assert model.classes_.tolist() == numbers[:3].tolist()
    assert model.predict(X).tolist() == numbers.tolist()
    mixed = [[int(number), 0.5] for number in numbers]  # NumPy would make floats of all of them
    regressor = AGBMRegressor(max_iter=30, categorical_features=[0]).fit(mixed, X[:, 0])
    assert sorted(regressor.model_.reader.categories.of[0]) == numbers[:3].tolist()
    assert regressor.score(mixed, X[:, 0]) > 0.9


TEXTS = {
    "classes": np.array(["no", "yes"] * 50),
    "numbers": np.arange(100.0).astype(str),
    "objects": pd.Series([1.5] + ["2.5"] * 99, dtype=object),
    "categories": pd.Series(["1", "2"] * 50, dtype="category"),
    "list": ["1.5"] * 100,
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_is_not_a_number(name):
    """Neither y, nor y_val, nor weights may be text, even if it could be converted."""
    X, y, text = np.random.default_rng(0).normal(size=(100, 2)), np.arange(100.0), TEXTS[name]
    first, row = next((value, i) for i, value in enumerate(text) if isinstance(value, str))
    said = f"has text, such as {str(first)!r} in row {row}; convert it to numbers"
    model = AGBMRegressor(max_iter=2, n_members=1)
    with pytest.raises(ValueError, match=f"^y {said}.* For classes, use AGBMClassifier"):
        model.fit(X, text)
    with pytest.raises(ValueError, match=f"^block 0: y {said}|^y {said}"):
        model.fit(Batches(lambda: [(X, text)]))
    with pytest.raises(ValueError, match=f"^y_val {said}"):
        model.fit(X, y, X_val=X, y_val=text)
    with pytest.raises(ValueError, match=f"^sample_weight {said}"):
        model.fit(X, y, text)
    with pytest.raises(ValueError, match=f"^offset {said}"):
        model.fit(X, y, offset=text)
    with pytest.raises(ValueError, match=f"^y {said}"):
        AGBMRanker().fit(X, text, qid=np.arange(100) // 10)


def test_text_of_several_outputs():
    with pytest.raises(ValueError, match="such as 'a' in row 3;"):
        AGBMRegressor().fit(np.ones((5, 1)), pd.DataFrame({"p": [0.0] * 5, "q": [1.0, 2.0, 3.0, "a", 5.0]}))


class TestTrainingRowsWithoutSomeLabels:
    """What a loss needs, such as a positive label, may be among the rows that a member holds out."""

    @pytest.mark.parametrize("loss", ["poisson", "tweedie:1.5"])
    def test_one_positive_label(self, loss):
        X, y = np.random.default_rng(0).normal(size=(100, 2)), np.zeros(100)
        for row in range(0, 100, 7):
            y[:] = np.arange(100) == row
            model = AGBMRegressor(loss=loss, max_iter=3, n_jobs=1).fit(X, y)
            assert 0.0 < model.predict(X).mean() < 0.1

    @pytest.mark.parametrize("loss", ["poisson", "tweedie:1.5"])
    def test_an_output_whose_labels_are_in_the_classes_of_others(self, loss):
        """A member may hold out all rows in which the first output is positive."""
        X = np.random.default_rng(0).normal(size=(60, 2))
        for seed in range(6):
            y, rows = np.zeros((60, 4)), np.random.default_rng(seed).permutation(60)
            y[rows[:3], 0] = 1.0
            for output in (1, 2, 3):
                y[rows[[output - 1, output + 2]], output] = 1.0
            model = AGBMRegressor(loss=loss, max_iter=3, early_stopping=True, random_state=seed, n_jobs=1).fit(X, y)
            assert np.isfinite(model.predict(X)).all()

    @pytest.mark.parametrize(
        "loss",
        ["poisson", "tweedie:1.5"]
        + [f"distribution:{name}" for name in ("normal", "student_t", "negative_binomial", "zero_inflated_gamma")],
    )
    def test_large_hold_outs(self, loss):
        """One training row: the start is that of all rows, which is what makes the loss finite."""
        X = np.random.default_rng(0).normal(size=(12, 2))
        y = np.where(np.arange(12) % 2, np.arange(12), 0.0)
        for seed in range(4):
            model = AGBMRegressor(
                loss=loss, max_iter=3, early_stopping=True, validation_fraction=0.9, random_state=seed, n_jobs=1
            ).fit(X, y)
            predicted = model.predict(X)
            assert np.isfinite(predicted).all()
            assert np.isfinite(model.history_["validation_loss"]).all()
            batches = Batches(lambda: [(X[:5], y[:5]), (X[5:], y[5:])])
            assert np.array_equal(model.fit(batches).predict(X), predicted)

    def test_base_value_of_all_rows_is_a_fallback(self):
        """Of two training rows; no pair of these labels has the mean of all."""
        X, y = np.zeros((12, 1)), np.where(np.arange(12) % 2, 2.0 ** (np.arange(12) // 2), 0.0)
        models = [
            AGBMRegressor(
                loss="poisson", max_iter=1, early_stopping=True, validation_fraction=0.9, n_members=1, random_state=seed
            ).fit(X, y)
            for seed in range(8)
        ]
        starts = {round(float(model.at_iteration(0).predict(X)[0]), 9) for model in models}
        of_pairs = {(a + b) / 2 for a in y for b in y}
        assert y.mean() in starts - of_pairs
        assert starts - {y.mean()} <= of_pairs
        assert len(starts) > 2

    def test_all_zero_labels(self):
        X = np.zeros((20, 1))
        for more in ({}, {"X_val": X, "y_val": np.ones(20)}):
            with pytest.raises(
                ValueError, match=r"at least one positive value for loss Poisson, got values from 0\.0 to 0"
            ):
                AGBMRegressor(loss="poisson").fit(X, np.zeros(20), **more)
