"""Metrics agree with scikit-learn's, and intervals have the right coverage."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import (
    accuracy_score,
    log_loss,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

from agbm import AGBMClassifier
from agbm._apps.evaluation.metrics import metrics_of_classes, metrics_of_values, paired_difference


def probabilities(rng, n, k):
    return rng.dirichlet(np.ones(k), size=n)


@pytest.mark.parametrize("k", [2, 3])
def test_metrics_of_classes_are_those_of_scikit_learn(k):
    rng = np.random.default_rng(0)
    classes = np.array(["a", "b", "c"])[:k]
    y, p = rng.choice(classes, 300), probabilities(rng, 300, k).round(2)
    p /= p.sum(axis=1, keepdims=True)
    found = {m.name: m for m in metrics_of_classes(y, p, classes)}
    assert found["log loss"].value == pytest.approx(log_loss(y, p, labels=classes), rel=1e-6)
    assert found["accuracy"].value == accuracy_score(y, classes[p.argmax(axis=1)])
    assert ("ROC AUC" in found) == (k == 2)
    if k == 2:
        assert found["ROC AUC"].value == pytest.approx(roc_auc_score(y == "b", p[:, 1]))
    for metric in found.values():
        assert metric.low < metric.value < metric.high


@pytest.mark.slow
@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(3, 40))
def test_area_under_roc_with_ties(seed, n):
    rng = np.random.default_rng(seed)
    y = np.array([0, 1, *rng.integers(0, 2, n)])
    second = rng.integers(0, 4, n + 2) / 4
    found = metrics_of_classes(y, np.column_stack([1 - second, second]), np.array([0, 1]))[-1]
    assert found.value == pytest.approx(roc_auc_score(y, second))
    assert 0.0 <= found.low <= found.value <= found.high <= 1.0


def test_metrics_of_values_are_those_of_scikit_learn():
    rng = np.random.default_rng(1)
    y = rng.normal(size=200)
    predicted = y + rng.normal(size=200)
    rmse, mae, r2 = metrics_of_values(y, predicted)
    assert rmse.value == pytest.approx(root_mean_squared_error(y, predicted))
    assert mae.value == pytest.approx(mean_absolute_error(y, predicted))
    assert r2.value == pytest.approx(r2_score(y, predicted))
    assert [m.name for m in metrics_of_values(np.ones(5), np.zeros(5))] == ["RMSE", "MAE"]  # no variance to explain


@pytest.mark.slow
def test_intervals_hold_the_truth_in_95_percent_of_samples():
    """The true value is the metric on very many rows; the intervals are computed from 400 rows each."""
    rng = np.random.default_rng(2)

    def sample(n):
        y = rng.normal(size=n)
        return y, y + 0.7 * rng.standard_t(8, size=n)

    def labelled(n):
        score = rng.normal(size=n)
        y = (score + rng.normal(size=n) > 0).astype(int)
        second = 1 / (1 + np.exp(-1.5 * score))
        return y, np.column_stack([1 - second, second])

    truths = [m.value for m in metrics_of_values(*sample(1_000_000))]
    truths += [m.value for m in metrics_of_classes(*labelled(1_000_000), np.array([0, 1]))]
    held = np.zeros(len(truths))
    rounds = 400
    for _ in range(rounds):
        found = metrics_of_values(*sample(400)) + metrics_of_classes(*labelled(400), np.array([0, 1]))
        held += [m.low <= truth <= m.high for m, truth in zip(found, truths, strict=True)]
    assert len(truths) == 6
    assert (held / rounds > 0.92).all(), held / rounds
    assert (held / rounds < 0.98).all(), held / rounds


def test_a_paired_difference_by_hand():
    found = paired_difference("loss", np.array([1.0, 5.0, 3.0, 7.0]), np.array([0.0, 2.0, 4.0, 6.0]))
    half = 1.959963984540054 * math.sqrt(2.0) / 2.0  # differences 1, 3, -1, 1
    assert (found.value, found.low, found.high) == pytest.approx((1.0, 1.0 - half, 1.0 + half))
    assert not found.lower_is_better


def test_paired_intervals_hold_the_truth_in_95_percent_of_samples():
    rng = np.random.default_rng(3)
    held, widths = 0, []
    for _ in range(400):
        hard = rng.exponential(size=200)  # for both
        found = paired_difference(
            "loss", hard + 0.2 * rng.exponential(size=200), hard + 0.1 * rng.exponential(size=200)
        )
        held += found.low <= 0.1 <= found.high
        widths.append(found.high - found.low)
    assert 0.92 < held / 400 < 0.98
    assert np.mean(widths) < 0.5 * 2 * 1.96 / math.sqrt(200)  # the interval of a single mean is twice as wide


def test_unknown_labels_are_named():
    with pytest.raises(ValueError, match=r"labels \['z'\]"):
        metrics_of_classes(np.array(["a", "z"]), np.full((2, 2), 0.5), np.array(["a", "b"]))


@pytest.mark.slow
def test_many_unknown_labels_are_counted():
    """A column of numbers that is treated as classes has as many labels as rows."""
    numbers = np.arange(100_000).astype(str)
    with pytest.raises(ValueError, match=r"have labels \[.*'1000'.*\] and 99,990 more that the model") as raised:
        metrics_of_classes(numbers, np.full((100_000, 2), 0.5), np.array(["a", "b"]))
    assert len(str(raised.value)) < 500
    X = np.zeros((100_000, 1))
    with pytest.raises(ValueError, match=r"y_val has labels \[.*\] and 99,990 more that are not in y") as raised:
        AGBMClassifier().fit(X[:2], ["a", "b"], X_val=X, y_val=numbers)
    assert len(str(raised.value)) < 500
