"""Reports on models that predict intervals, lists of quantiles and distributions."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.metrics import mean_absolute_error, mean_pinball_loss

from agbm import AGBMClassifier, AGBMRegressor
from agbm._apps import cli
from agbm._apps.evaluation.tasks import task_of
from agbm._apps.report import Findings, loss_name, predictions_of, to_html, tried_from_model
from agbm._apps.report.markup import number, percent
from agbm._apps.report.measured import COVERAGE_ROWS, sample_of
from agbm._apps.report.predictions import baseline
from agbm.losses import Quantile

FEW = {"max_iter": 8, "n_members": 1, "early_stopping": False, "max_depth": 3, "max_leaf_nodes": None}
LEVELS = [0.05, 0.5, 0.95]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (500, 3))
    return X, 2.0 * X[:, 0] + 0.4 * rng.normal(size=500)


@pytest.fixture(scope="module")
def quantiles(rows):
    X, y = rows
    return AGBMRegressor(loss=Quantile(LEVELS), **FEW).fit(X[:200], y[:200]).calibrate(X[200:300], y[200:300])


def findings_of(model, X, y):
    test = predictions_of(model, [X[:50], X[50:]], y)
    metrics, _ = task_of(model).evaluate(y, test.predicted)
    tried = [tried_from_model("m", model, metrics, 1.0)]
    return Findings(title="t", command="c", model=model, test=test, loss=loss_name(model), tried=tried)


def captions(page):
    return re.findall("<figcaption>(.*?)</figcaption>", page)


def cells(page, caption):
    body = re.search(rf"<caption>{caption}</caption>.*?<tbody>(.*?)</tbody>", page)[1]
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall("<tr>(.*?)</tr>", body)]


def test_quantiles_are_compared_with_constant_ones(quantiles, rows):
    X, y = rows[0][300:], rows[1][300:]
    findings = findings_of(quantiles, X, y)
    page, predicted = to_html(findings), quantiles.predict(X)
    expected = [
        [
            f"{level:g}",
            number(mean_pinball_loss(y, values, alpha=level)),
            number(mean_pinball_loss(y, np.full(200, np.quantile(y, level)), alpha=level)),
            percent(np.mean(y <= values)),
        ]
        for level, values in zip(LEVELS, predicted.T, strict=True)
    ]
    assert cells(page, "Quantiles on the test rows") == expected
    inside = np.mean((predicted[:, 0] <= y) & (y <= predicted[:, 2]))
    assert f"{percent(inside)} of the labels are between the 0.05 quantile and the 0.95 quantile; 90 % should" in page
    pinball, mae = findings.tried[0].metrics
    mean = np.mean([mean_pinball_loss(y, values, alpha=q) for q, values in zip(LEVELS, predicted.T, strict=True)])
    assert [pinball.name, mae.name] == ["pinball loss", "MAE"]
    assert pinball.value == pytest.approx(mean)
    assert mae.value == pytest.approx(mean_absolute_error(y, predicted[:, 1]))
    assert baseline(findings).metrics[1].value == pytest.approx(np.mean(np.abs(y - np.median(y))))
    errors = cells(page, "Absolute errors: the given share of the rows has at most this error")
    assert errors[0][1] == number(np.median(np.abs(y - predicted[:, 1])))
    assert "Of the quantiles, the median is the prediction here." in page
    assert "The score is that of the 0.5 quantile." in page


@pytest.mark.parametrize("kind", ["quantiles", "values", "classes"])
def test_coverage_is_measured_if_the_model_is_calibrated(kind, quantiles, rows):
    X, y = rows
    if kind == "quantiles":
        model = quantiles
    elif kind == "values":
        model = AGBMRegressor(**FEW).fit(X[:200], y[:200]).calibrate(X[200:300], y[200:300])
    else:
        y = np.array(["a", "b", "c"])[np.digitize(y, [-1.0, 1.0])]
        model = AGBMClassifier(**FEW).fit(X[:200], y[:200]).calibrate(X[200:300], y[200:300])
    X, y = X[300:], y[300:]
    findings = findings_of(model, X, y)
    measured = findings.test.measured
    if kind == "classes":
        sets = model.predict_set(X, 0.5)
        expected = np.mean([label in model.classes_[found] for label, found in zip(y, sets, strict=True)])
    else:
        bounds = model.predict_interval(X, 0.5)
        expected = np.mean((bounds[:, 0] <= y) & (y <= bounds[:, 1]))
    assert measured.coverages[9] == pytest.approx(expected)
    assert measured.n_covered == 200
    name = "Coverage of the sets of classes" if kind == "classes" else "Coverage of the intervals"
    page = to_html(findings)
    assert name in captions(page)
    assert "The observed coverage is that of all test rows." in page


def test_without_calibration_there_is_no_section(rows):
    X, y = rows
    findings = findings_of(AGBMRegressor(**FEW).fit(X, y), X, y)
    assert findings.test.measured.coverages is None
    assert 'id="uncertainty"' not in to_html(findings)


def test_coverage_of_many_rows_is_that_of_a_sample(rows):
    X, y = np.tile(rows[0], (5, 1)), np.tile(rows[1], 5)
    model = AGBMRegressor(**FEW).fit(X[:200], y[:200]).calibrate(X[200:300], y[200:300])
    measured = predictions_of(model, [X[:1000], X[1000:]], y).measured
    assert measured.n_covered == COVERAGE_ROWS < len(X)
    sample = sample_of(len(X))
    bounds = model.predict_interval(X[sample], 0.5)
    assert measured.coverages[9] == pytest.approx(np.mean((bounds[:, 0] <= y[sample]) & (y[sample] <= bounds[:, 1])))


def test_groups_that_were_not_calibrated_have_no_coverage(rows):
    X, y = rows[0].copy(), rows[1]
    X[:, 2] = np.arange(500) % 2
    model = AGBMRegressor(**FEW).fit(X[:200], y[:200]).calibrate(X[200:300], y[200:300], group=2)
    assert predictions_of(model, [X[300:]], y[300:]).measured.coverages is not None
    X[-1, 2] = 7.0
    findings = findings_of(model, X[300:], y[300:])
    assert findings.test.measured.coverages is None
    assert "Coverage of the intervals" not in captions(to_html(findings))


def labels_for(name, X):
    rng = np.random.default_rng(1)
    if name in ("normal", "student_t"):
        return X[:, 0] + rng.normal(size=len(X))
    if name in ("lognormal", "gamma"):
        return np.exp(X[:, 0]) * rng.gamma(3.0, size=len(X))
    counts = rng.poisson(np.exp(X[:, 0])) * (rng.random(len(X)) < 0.7)
    return counts * (1.5 if name == "zero_inflated_gamma" else 1.0)


@pytest.mark.parametrize(
    "name",
    [
        "normal", "lognormal", "student_t", "gamma", "negative_binomial", "zero_inflated_poisson",
        "zero_inflated_gamma", "poisson",
    ],
)  # fmt: skip
def test_distributions_have_a_log_score_and_a_histogram(name, rows):
    X, y = rows[0], labels_for(name, rows[0])
    loss = name if name == "poisson" else f"distribution:{name}"
    model = AGBMRegressor(loss=loss, **FEW).fit(X[:300], y[:300])
    findings = findings_of(model, X[300:], y[300:])
    page, measured = to_html(findings), findings.test.measured
    found, distribution = float(measured.log_scores.mean()), model.predict_dist(X[300:])
    density = distribution.pmf if hasattr(distribution, "pmf") else distribution.pdf
    assert found == pytest.approx(-np.mean(np.log(density(y[300:]))))
    assert f"The mean log score of the predicted distributions is {number(found)}:" in page
    assert "Probability integral transform" in captions(page)
    assert np.histogram(measured.transformed, 4, (0.0, 1.0))[0].min() > 20  # of 200
    if name == "normal":
        constant = -norm(y[300:].mean(), y[300:].std()).logpdf(y[300:]).mean()
        assert f"the same for all test rows has {number(constant)}." in page
        np.testing.assert_allclose(measured.transformed, distribution.cdf(y[300:]))


def test_amounts_have_no_poisson_distribution(rows):
    X, y = rows[0], np.exp(rows[1])
    findings = findings_of(AGBMRegressor(loss="poisson", **FEW).fit(X, y), X, y)
    assert findings.test.measured.log_scores is None
    assert 'id="uncertainty"' not in to_html(findings)


def test_a_distribution_of_rows_with_categories_is_explained(rows):
    """The mean depends on the second score: partial dependence has one line all the same."""
    X = rows[0].copy()
    X[:, 2] = np.arange(500) % 3
    y = np.random.default_rng(0).poisson(np.exp(X[:, 0] + X[:, 2]))
    model = AGBMRegressor(loss="distribution:zero_inflated_poisson", categorical_features=[2], **FEW).fit(X, y)
    page = to_html(findings_of(model, X, y))
    assert "The score is parameter 2 of the distribution, with which its mean increases." in page
    assert "x2" in captions(page)


@pytest.mark.parametrize("loss", [Quantile(LEVELS), "distribution:normal"])
def test_command_line(loss, rows, tmp_path, capsys):
    X, y = pd.DataFrame(rows[0], columns=["a", "b", "c"]), rows[1]
    model = AGBMRegressor(loss=loss, **FEW).fit(X[:300], y[:300]).calibrate(X[300:400], y[300:400])
    model.save(tmp_path / "m.agbm")
    X.assign(y=y)[400:].to_csv(tmp_path / "new.csv", index=False)
    files = [str(tmp_path / "m.agbm"), str(tmp_path / "new.csv")]
    assert cli.main(["report", *files, "--target", "y", "--out", str(tmp_path / "m.html"), "--json"]) == 0
    metrics = json.loads(capsys.readouterr().out)["metrics"]
    expected = task_of(model).evaluate(y[400:], model.predict(X[400:]))[0]
    assert {metric.name: pytest.approx(metric.value) for metric in expected} == {
        metric["name"]: metric["value"] for metric in metrics
    }
    page = (tmp_path / "m.html").read_text(encoding="utf-8")
    assert "Coverage of the intervals" in captions(page)
