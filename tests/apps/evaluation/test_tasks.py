"""Tasks whose labels have two columns: how rows are split and how predictions are evaluated."""

import numpy as np
import pytest
from sklearn.metrics import ndcg_score
from sksurv import metrics as of_sksurv
from sksurv.nonparametric import kaplan_meier_estimator

from agbm import AGBMSurvival
from agbm._apps.evaluation.survival_metrics import concordance_metric, integrated_brier, kaplan_meier
from agbm._apps.evaluation.tasks import Ranking, Regression, Survival, task_of


@pytest.fixture
def lifetimes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    time, censored = rng.exponential(np.exp(-X[:, 0])), rng.exponential(2.0, 300)
    y = np.column_stack([np.round(np.minimum(time, censored), 2) + 0.01, time <= censored])
    return X, y


def structured(y):
    found = np.empty(len(y), dtype=[("event", bool), ("time", float)])
    found["event"], found["time"] = y[:, 1] > 0, y[:, 0]
    return found


def test_rankings_are_evaluated_by_query():
    rng = np.random.default_rng(1)
    query, relevance, scores = np.arange(200) % 20, rng.integers(0, 4, 200), rng.normal(size=200)
    relevance[query == 7] = 0  # nothing to find
    metrics, losses = Ranking().evaluate(np.column_stack([relevance, query]), scores)
    expected = [
        ndcg_score([2.0 ** relevance[query == q] - 1.0], [scores[query == q]], k=10) for q in range(20) if q != 7
    ]
    np.testing.assert_allclose(1.0 - losses, expected)
    assert metrics[0].name == "NDCG@10"
    assert metrics[0].value == pytest.approx(np.mean(expected))
    assert metrics[0].low < metrics[0].value < metrics[0].high
    with pytest.raises(ValueError, match="no query of the test rows has a relevant document"):
        Ranking().evaluate(np.column_stack([np.zeros(200), query]), scores)


@pytest.mark.parametrize("split", ["hold_out", "folds"])
def test_queries_are_not_divided(split):
    y = np.column_stack([np.zeros(100), np.random.default_rng(2).integers(0, 10, 100)])
    parts = [Ranking().hold_out(y, 0.3, 0)] if split == "hold_out" else Ranking().folds(y, 3, 0)
    for train, test in parts:
        assert sorted(np.concatenate([train, test])) == list(range(100))
        assert not set(y[train, 1]) & set(y[test, 1])


@pytest.mark.parametrize(
    ("task", "rare"),
    [
        (Regression(), lambda rows: np.isin(np.arange(100), rows).astype(float)),
        (Survival(), lambda rows: np.column_stack([np.arange(100), np.isin(np.arange(100), rows)])),
        (Ranking(), lambda rows: np.column_stack([np.isin(np.arange(100), rows), np.arange(100) // 5])),
    ],
)
def test_rare_labels_are_on_both_sides(task, rare):
    y = rare([1, 33, 66])
    kind = y if y.ndim == 1 else y[:, 1 if isinstance(task, Survival) else 0]
    for seed in range(5):
        for train, test in [task.hold_out(y, 0.2, seed), *task.folds(y, 3, seed)]:
            assert sorted(np.concatenate([train, test])) == list(range(100))
            assert kind[train].any()
            assert kind[test].any()


def test_samples_have_whole_queries():
    query = np.repeat(np.arange(50), np.random.default_rng(4).integers(1, 9, 50))
    y = np.column_stack([np.zeros(len(query)), query])
    for n in (1, 30, 100, len(y), 2 * len(y)):
        rows = Ranking().sample(y, n, 0)
        assert len(rows) <= max(n, 8)
        assert not set(y[rows, 1]) & set(np.delete(y, rows, axis=0)[:, 1])
    assert len(rows) == len(y)


def test_survival_metrics_are_those_of_scikit_survival(lifetimes):
    X, y = lifetimes
    labels = structured(y)
    model = AGBMSurvival(max_iter=10).fit(X[:150], y[:150])
    time, event = y[150:, 0], y[150:, 1] > 0
    times = np.quantile(time[event], np.linspace(0.05, 0.9, 12))
    curves = model.predict_survival_function(X[150:], times=times)
    expected = of_sksurv.integrated_brier_score(labels[150:], labels[150:], curves, times)
    assert integrated_brier(time, event, curves, times).mean() == pytest.approx(expected, rel=1e-12)
    steps = kaplan_meier(time, event)
    np.testing.assert_allclose(steps[1], kaplan_meier_estimator(event, time)[1])
    risk = model.predict(X[150:])
    found, shares = concordance_metric(time, event, risk)
    assert found.value == pytest.approx(of_sksurv.concordance_index_censored(event, time, risk)[0])
    assert found.low < found.value < found.high
    assert np.all((shares >= 0.0) & (shares <= 1.0))


def test_the_interval_of_the_concordance_is_that_of_repeated_samples():
    """Of 200 samples, the number whose interval contains the true value has a 99.9 % interval of 181 to 198."""
    rng = np.random.default_rng(3)

    def sample(n):
        x = rng.normal(size=n)
        time, censored = rng.exponential(np.exp(-x)), rng.exponential(2.0, n)
        return np.minimum(time, censored), time <= censored, x

    truth = concordance_metric(*sample(20_000))[0].value
    found = [concordance_metric(*sample(150))[0] for _ in range(200)]
    assert 181 <= sum(one.low <= truth <= one.high for one in found) <= 198


def test_models_of_survival_have_times_unless_they_have_no_baseline(lifetimes):
    X, y = lifetimes
    model = AGBMSurvival(max_iter=5, loss="cox").fit(X, y)
    task = task_of(model)
    assert isinstance(task, Survival)
    assert 2 <= len(task.times) <= 50
    metrics, losses = task.evaluate(y, task.predict(model, X))
    assert [metric.name for metric in metrics] == ["integrated Brier score", "concordance"]
    assert len(losses) == len(y)
    assert task_of(model.update(X, y, mode="trees", max_iter=2)).loss == "integrated Brier score"
    early = task_of(model.at_iteration(2))
    assert early.loss == "discordance"
    metrics, losses = early.evaluate(y, early.predict(model, X))
    assert [metric.name for metric in metrics] == ["concordance"]
    assert len(losses) <= len(y)
