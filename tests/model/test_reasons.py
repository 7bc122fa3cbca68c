"""Reasons for predictions are sentences whose numbers follow from contributions."""

import re

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
from scipy.sparse import csr_array
from scipy.special import expit

from agbm import AGBMClassifier, AGBMRanker, AGBMRegressor, AGBMSurvival


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(0)
    X = pd.DataFrame({"size": random.normal(size=400).round(2), "rooms": random.integers(1, 9, 400)})
    X["sold"] = pd.Timestamp("2023-01-01") + pd.to_timedelta(random.integers(0, 900, 400), "D")
    X["kind"] = random.choice(["flat", "house", None], 400)
    X.loc[::7, "size"] = np.nan
    y = X["size"].fillna(0.0) * X["rooms"] + 2.0 * (X["kind"] == "house") + X["sold"].dt.year - 2023
    return X, y


def changes(sentence):
    """Signed numbers in brackets, and that of all other features."""
    return [float(number) for number in re.findall(r"(?:\(|features: )([+-]\d+(?:\.\d+)?(?:e[+-]\d+)?)", sentence)]


def test_differences_are_contributions(data):
    X, y = data
    model = AGBMRegressor(max_iter=40).fit(X, y)
    for row in (0, 1, 5):
        (said,) = model.reasons(X[row : row + 1], top=2)
        *parts, base = model.predict_contributions(X[row : row + 1])[0]
        prediction = base + sum(parts)
        side = "above" if prediction > base else "below"
        assert said.startswith(
            f"The prediction is {prediction:.4g}, {abs(prediction - base):.3g} {side} the typical {base:.4g}, "
        )
        order = np.argsort(-np.abs(parts))
        expected = [*(parts[f] for f in order[:2]), sum(parts[f] for f in order[2:])]
        assert sorted(changes(said)) == pytest.approx(sorted(expected), rel=0.01)
        reason, _, despite = said.partition(", despite")
        assert all(change * (prediction - base) > 0 for change in changes(reason.partition(" All other")[0]))
        assert all(change * (prediction - base) < 0 for change in changes(despite.partition(" All other")[0]))
    assert model.reasons(X[:3], 2) == [model.reasons(X[row : row + 1], 2)[0] for row in range(3)]
    (relative,) = model.reasons(X[:1], background=X[:50])
    assert f"the typical {model.predict(X[:50]).mean():.4g}," in relative


def test_factors_with_a_log_link(data):
    X, y = data
    model = AGBMRegressor(loss="poisson", max_iter=40).fit(X, np.exp(y / 8))
    (said,) = model.reasons(X[1:2], top=4)
    factors = np.exp(model.predict_contributions(X[1:2])[0])
    assert sorted(changes(said)) == pytest.approx(sorted(100 * (factors[:4] - 1)), abs=0.6)
    total = float(re.search(r"([0-9.]+) % (?:above|below) the typical", said)[1])
    assert total == pytest.approx(abs(100 * (factors[:4].prod() - 1)), abs=0.6)


@pytest.mark.parametrize("classes", [2, 3])
def test_changes_of_probabilities_add_up(data, classes):
    X, y = data
    labels = np.array(["low", "mid", "high"])[np.digitize(y, np.quantile(y, [0.5] if classes == 2 else [0.3, 0.6]))]
    model = AGBMClassifier(max_iter=40).fit(X, labels)
    for row, said in enumerate(model.reasons(X[:20])):
        probability = model.predict_proba(X[row : row + 1])[0]
        found = re.match(r"The probability of (\w+) is (\S+) instead of the typical ([0-9.e-]+), ", said)
        assert found[1] == model.predict(X[row : row + 1])[0]
        assert float(found[2]) == pytest.approx(probability.max(), rel=0.006)
        assert sum(changes(said)) == pytest.approx(float(found[2]) - float(found[3]), abs=0.012)
        if classes == 2:
            typical = expit(model.predict_contributions(X[:1])[0, -1])
            assert float(found[3]) == pytest.approx(
                typical if found[1] == model.classes_[1] else 1 - typical, rel=0.006
            )


def test_values_are_written_as_people_do(data):
    X, y = data
    model = AGBMRegressor(max_iter=20).fit(X, y)
    rows = X[[True, True, *[False] * 398]].assign(rooms=[3, 4], kind=[None, "house"])
    first, second = model.reasons(rows, top=4)
    for text in ("size is missing", "rooms = 3 (", f"sold = {rows['sold'].iloc[0]:%Y-%m-%d} (", "kind is missing ("):
        assert text in first
    assert f"size = {rows['size'].iloc[1]:.5g} (" in second
    assert "kind = house (" in second
    for table in (pyarrow.Table.from_pandas(rows, preserve_index=False), polars.from_pandas(rows)):
        assert model.reasons(table, top=4) == [first, second]
    numbers = X[["rooms"]].to_numpy(float)
    plain = AGBMRegressor(max_iter=5).fit(numbers, y + numbers[:, 0])
    assert "mainly because x0 = " in plain.reasons(numbers[:1])[0]
    assert plain.reasons(csr_array(numbers[:3])) == plain.reasons(numbers[:3])


def test_other_predictions(data):
    X, y = data
    both = AGBMRegressor(max_iter=5).fit(X, np.column_stack([y, -y])).reasons(X[:1])[0]
    assert re.findall(r"Prediction \d is", both) == ["Prediction 0 is", "Prediction 1 is"]
    ranker = AGBMRanker(max_iter=5).fit(X, np.digitize(y, [0, 3]), qid=np.arange(400) // 8)
    assert ranker.reasons(X[:1])[0].startswith("The score is ")
    survival = AGBMSurvival(max_iter=5).fit(X, np.column_stack([np.exp(y / 9), np.arange(400) % 3 > 0]))
    assert survival.reasons(X[:1])[0].startswith("The risk is ")
    labels = AGBMClassifier(max_iter=5).fit(X, np.column_stack([y > 0, y > 3]).astype(int)).reasons(X[:1])[0]
    assert labels.startswith("The probability of label ")
    constant = AGBMRegressor(max_iter=5).fit(X, np.zeros(400))
    assert constant.reasons(X[:1]) == ["The prediction is 0, which is typical."]
    with pytest.raises(ValueError, match="top=0 must be a positive integer"):
        constant.reasons(X, top=0)
