"""Class labels of plain numbers, which skip scikit-learn's check, and integers that floats cannot hold."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.multiclass import check_classification_targets

from agbm import AGBMClassifier, AGBMRegressor
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
def test_numbers_of_classes_are_checked_as_by_sklearn(dtype, n_classes):
    rng = np.random.default_rng(n_classes)
    for n_rows in (1, 2, 20, 21, 50, 100):
        y = rng.integers(0, n_classes, n_rows).astype(dtype)
        assert outcome(classes_of, y) == outcome(check_classification_targets, y)


@pytest.mark.parametrize("y", [[0.5, 1.0], [1e300, 0.0], [2.0**60, 0.0], [np.inf, 0.0], [np.nan, 1.0], [-0.0, 1.0]])
def test_unusual_numbers_are_checked_as_by_sklearn(y):
    assert outcome(classes_of, np.array(y)) == outcome(check_classification_targets, np.array(y))


@pytest.mark.parametrize("form", [np.asarray, pd.Series, lambda y: pd.array(y, dtype="Int64"), list])
def test_integers_that_floats_would_merge(form):
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
