"""The page of a report: what it shows is true, whatever the names in it are, and it can be read everywhere."""

import json
import math
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import sync_playwright
from scipy.sparse import csr_array
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.inspection import partial_dependence
from sklearn.linear_model import Ridge
from sklearn.metrics import (
    accuracy_score,
    confusion_matrix,
    log_loss,
    mean_absolute_error,
    precision_recall_curve,
    precision_recall_fscore_support,
    roc_curve,
    root_mean_squared_error,
)
from sklearn.model_selection import train_test_split

import browser as browsers
from agbm import AGBMClassifier, AGBMRegressor
from agbm._apps import cli
from agbm._apps.evaluation.metrics import Metric, Tried
from agbm._apps.evaluation.tasks import task_of
from agbm._apps.report import (
    Column,
    Findings,
    describe_columns,
    loss_name,
    predictions_of,
    to_html,
    tried_from_model,
    write,
)
from agbm._apps.report.markup import number, percent, seconds
from agbm._apps.report.models import losses_of
from agbm.export import export_text
from agbm.methods import AGBM, GBM

SCREENSHOTS = Path(__file__).parents[3] / "out" / "screenshots"
PHONE = {"width": 390, "height": 844}

# Whoever reads one of these as markup runs it, or leaves the text that it is in.
HOSTILE = [
    "</script ><script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked = 1">',
    "<!--<script>",
    "'];window.hacked = 1;//",
    "\u2028window.hacked = 1\u2029 $title ${data} &lt;b&gt;",
]


# What pages are made of
def findings_of(title, X, y, models, **more):
    X, X_test, y, y_test = train_test_split(X, np.asarray(y), random_state=0, test_size=0.3)
    for model in models.values():
        model.fit(X, y)
    first = next(iter(models.values()))
    return Findings(
        title=title,
        command=f"agbm train '{title}.csv' --target y --seed 0",
        facts={"agbm": "0.1.0", "date": "2026-11-15", "seed": "0"},
        data={"file": f"{title}.csv", "training rows": f"{len(X):,}", "test rows": f"{len(y_test):,}"},
        columns=describe_columns(X),
        tried=[tried(name, model, X_test, y_test) for name, model in models.items()],
        model=first,
        test=predictions_of(first, [X_test[:30], X_test[30:]], y_test),
        loss=loss_name(first),
        **more,
    )


def tried(name, model, X, y):
    task = task_of(model)
    metrics, _ = task.evaluate(y, task.predict(model, X))
    return replace(tried_from_model(name, model, metrics, seconds=0.25), model=model)


def with_rows(findings, model, X, y):
    """The same report, about another model and other rows."""
    rows = predictions_of(model, [X], np.asarray(y))
    return replace(findings, model=model, tried=[tried("m", model, X, y)], test=rows, loss=loss_name(model))


def early(**parameters):
    return {"early_stopping": True, "validation_fraction": 0.2, "n_iter_no_change": 60, **parameters}


@pytest.fixture(scope="module")
def cancer():
    """One model of the paper, with restarts."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = AGBMClassifier(
        **early(
            method=AGBM(momentum=0.5, shared_structure=True, restart="loss_rise", second_order=True),
            learning_rate=0.3,
            max_depth=3,
        )
    )
    names = np.array(["malignant", "benign"])[y]
    return findings_of("breast cancer", X, names, {"agbmr": model}, costs=(1.0, 3.0))


@pytest.fixture(scope="module")
def diabetes():
    """Three contenders and one that failed."""
    X, y = load_diabetes(return_X_y=True)
    models = {
        "default": AGBMRegressor(**early(n_members=1)),
        "plain": AGBMRegressor(**early(method=GBM(second_order=True))),
        "agbmr": AGBMRegressor(
            **early(method=AGBM(momentum=0.5, correction=0.5, restart="loss_rise", second_order=True))
        ),
    }
    found = findings_of("diabetes", X, y, models)
    failed = Tried("catboost", failure="catboost cannot be imported: pip install catboost.")
    return replace(found, tried=[*found.tried, failed])


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True, as_frame=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    return findings_of("iris", X, names, {"agbm": AGBMClassifier(max_iter=20, n_members=1, early_stopping=False)})


@pytest.fixture(scope="module")
def frame():
    """The default: several members, with validation rows. Categories, missing values, many columns with long names."""
    rng = np.random.default_rng(0)
    names = [f"sensor_{k:03d}_in_the_third_hall_of_the_eastern_works" for k in range(198)]
    X = pd.DataFrame(rng.normal(size=(600, 198)), columns=names)
    X.insert(0, "side", rng.choice(np.array(["north", "south", "east", None], dtype=object), 600))
    X.insert(0, "level", np.where(rng.random(600) < 0.25, np.nan, rng.normal(size=600)))
    y = 2.0 * X["level"].fillna(1.0) + 3.0 * (X["side"] == "south") + X[names[0]] + rng.normal(size=600)
    return findings_of("sensors", X, 1e5 * y, {"agbm": AGBMRegressor(max_iter=30)})


@pytest.fixture(scope="module")
def hostile():
    """Names of all kinds that strangers choose."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 4)), columns=HOSTILE[:4])
    X[HOSTILE[4]] = rng.choice(HOSTILE[:2], 200)
    y = np.where(X[HOSTILE[0]] + (X[HOSTILE[4]] == HOSTILE[0]) > 0, HOSTILE[0], HOSTILE[1])
    found = findings_of(HOSTILE[0], X, y, {name: AGBMClassifier(max_iter=5) for name in HOSTILE[:2]})
    metric = Metric(HOSTILE[1], 0.5, 0.4, 0.6, lower_is_better=True)
    first = replace(found.tried[0], metrics=[metric], parameters={HOSTILE[0]: HOSTILE[1]})
    return replace(
        found,
        command=HOSTILE[4],
        facts={HOSTILE[0]: HOSTILE[1]},
        data={HOSTILE[0]: HOSTILE[1]},
        columns=[*found.columns, Column(HOSTILE[0], HOSTILE[1])],
        tried=[first, *found.tried[1:], Tried(HOSTILE[1], failure=HOSTILE[0])],
    )


def long_run(name, n=1000, seed=0):
    """A curve as long as they come, of a contender of which little is known."""
    rng = np.random.default_rng(seed)
    loss = 1.0 / np.sqrt(1.0 + np.arange(n)) + 0.01 * rng.random(n)
    columns = {"trees": np.arange(1, n + 1), "seconds": np.cumsum(rng.random(n)), "validation_loss": loss}
    metric = Metric("log loss", float(loss.min()), 0.0, 0.5, lower_is_better=True)
    return Tried(name, 12.0, n, int(loss.argmin()), columns | {"train_loss": 0.9 * loss}, [metric])


@pytest.fixture(scope="module")
def ten():
    return Findings("ten", "agbm compare", tried=[long_run(f"contender {k}", seed=k) for k in range(10)])


ALL = ["cancer", "diabetes", "iris", "frame", "hostile", "ten"]


# Reading pages
PAGES = {}


def page_of(findings):
    """The page, made once: the charts take a second."""
    if id(findings) not in PAGES:
        PAGES[id(findings)] = findings, to_html(findings)
    return PAGES[id(findings)][1]


def body_of(findings):
    """The body of the page; it is also well-formed XML, but for attributes without a value."""
    found = re.search(r"<body>.*</body>", page_of(findings), re.DOTALL)[0]
    return ElementTree.fromstring(found.replace("<details open>", '<details open="">'))


def section(findings, name):
    return body_of(findings).find(f".//section[@id='{name}']")


def text(element):
    return "".join(element.itertext())


def rows_of(part, caption):
    """The cells of the table whose caption begins so, without its header."""
    (table,) = [table for table in part.iter("table") if text(table.find("caption")).startswith(caption)]
    return [[text(cell) for cell in row] for row in table.find("tbody")]


def chart(part, title):
    """The drawing with this title."""
    (found,) = [figure for figure in part.iter("figure") if text(figure.find("figcaption")) == title]
    return found.find("svg")


def texts_of(drawing):
    return [node.text for node in drawing.iter("text")]


def points_of(drawing, colour="--c0", dashed=False):
    """The points of the longest line of a colour."""
    found = [
        np.array(re.findall(r"[ML] (\S+) (\S+)", path.get("d")), dtype=float)
        for path in drawing.iter("path")
        if f"stroke: var({colour})" in path.get("style", "") and ("stroke-dasharray" in path.get("style")) == dashed
    ]
    return max(found, key=len)


def assert_on_line(points, x, y, atol=0.02):
    """The points are those of the values, on linear axes."""
    assert len(points) == len(x)
    for place, values in ((0, x), (1, y)):
        slope, start = np.polyfit(values, points[:, place], 1)
        assert slope > 0 if place == 0 else slope < 0
        np.testing.assert_allclose(points[:, place], start + slope * np.asarray(values), atol=atol)


class TestMetrics:
    @pytest.mark.parametrize("name", ["cancer", "iris"])
    def test_the_baseline_of_classes(self, name, request):
        findings = request.getfixturevalue(name)
        y, classes = findings.test.y, findings.model.classes_
        dummy = DummyClassifier(strategy="prior").fit(np.zeros((len(y), 1)), y)
        predicted = dummy.predict_proba(np.zeros((len(y), 1)))
        expected = [log_loss(y, predicted, labels=classes), accuracy_score(y, dummy.predict(np.zeros((len(y), 1))))]
        (_, last) = rows_of(section(findings, "metrics"), "Metrics on the test rows")
        assert last[:3] == ["baseline (class shares)", *map(number, expected)]
        assert last[3:-2] == (["0.5"] if name == "cancer" else [])
        lead = text(body_of(findings).find(".//p[@class='lead']"))
        assert f"The baseline (class shares) has {number(expected[0])}." in lead

    @pytest.mark.parametrize(("loss", "strategy"), [("squared_error", "mean"), ("absolute_error", "median")])
    def test_the_baseline_of_values(self, loss, strategy, diabetes):
        X, y = load_diabetes(return_X_y=True)
        model = AGBMRegressor(loss=loss, max_iter=5).fit(X, y)
        found = with_rows(diabetes, model, X[:99], y[:99])
        constant = DummyRegressor(strategy=strategy).fit(X[:99], y[:99]).predict(X[:99])
        (_, last) = rows_of(section(found, "metrics"), "Metrics")
        expected = [root_mean_squared_error(y[:99], constant), mean_absolute_error(y[:99], constant)]
        assert last[:3] == [f"baseline ({strategy})", *map(number, expected)]

    def test_without_rows(self, cancer):
        found = replace(cancer, test=None)
        part = section(found, "metrics")
        assert len(rows_of(part, "Metrics")) == 1
        assert "agbm report MODEL DATA" in text(part)
        ids = [part.get("id") for part in body_of(found).iter("section")]
        assert ids == ["metrics", "importances", "convergence", "trees", "theory", "columns", "parameters"]

    def test_are_ranked_and_drawn(self, diabetes):
        part = section(diabetes, "metrics")
        ranked = sorted(diabetes.tried[:3], key=lambda one: one.metrics[0].value)
        rows = rows_of(part, "Metrics on the test rows, best first")
        assert [row[0] for row in rows] == [*(one.name for one in ranked), "baseline (mean)"]
        low = min(one.metrics[0].low for one in ranked)
        width = max(one.metrics[0].high for one in ranked) - low
        for k, one in enumerate(ranked):
            metric = one.metrics[0]
            cell = part.findall(".//tbody/tr")[k].find("td")
            spans = {span.get("class"): span for span in cell.iter("span")}
            assert spans["value"].text == number(metric.value)
            assert spans["range"].text == f"{number(metric.low, 3)} to {number(metric.high, 3)}"
            place = float(re.search(r"left:([\d.]+)%", spans["dot"].get("style"))[1])
            assert place == pytest.approx(3 + 94 * (metric.value - low) / width, abs=0.01)
            assert ("badge" in spans) == (k == 0)
        lead = text(body_of(diabetes).find(".//p[@class='lead']"))
        assert lead.startswith(
            f"Of 3 models, {ranked[0].name} has the lowest RMSE on the test rows: {number(ranked[0].metrics[0].value)}"
        )
        assert "other models overlap with this one, so the order may be due to chance." in lead
        assert [text(entry) for entry in part.find(".//dl").iter() if entry.tag in ("dt", "dd")] == [
            "catboost",
            diabetes.tried[3].failure,
        ]

    def test_clear_winners_and_ties(self):
        def one(name, value):
            return Tried(
                name, 1.0, 5, metrics=[Metric("accuracy", value, value - 0.01, value + 0.01, lower_is_better=False)]
            )

        page = to_html(Findings("t", "c", tried=[one("a", 0.5), one("b", 0.9)]))
        assert "Of 2 models, b has the highest accuracy on the test rows: 0.9" in page
        assert "overlap" not in page.split("<main>")[1].split("</main>")[0]
        page = to_html(Findings("t", "c", tried=[one("a", 0.9), one("b", 0.9)]))
        assert page.count(">best</span>") == 2
        assert "The interval of another model overlaps with this one" in page
        page = to_html(Findings("t", "c", tried=[replace(one("a", 0.9), trees=0, seconds=math.nan)]))
        assert "On the test rows, a has accuracy 0.9 (95 % interval 0.89 to 0.91)." in page
        page = to_html(Findings("t", "c", tried=[Tried("a", failure="no such file")]))
        assert "No model was trained: no such file" in page


class TestClasses:
    @pytest.mark.parametrize("name", ["cancer", "iris"])
    def test_confusion_matrix_and_classes_are_those_of_scikit_learn(self, name, request):
        findings = request.getfixturevalue(name)
        y, classes = findings.test.y, findings.model.classes_
        right = classes[findings.test.predicted.argmax(axis=1)]
        part = section(findings, "confusion")
        (table,) = part.findall(".//table[@class='matrix few']")
        assert [text(cell) for cell in table.find("thead/tr")][1:] == list(classes)
        counts = [[int(cell.text) for cell in row.findall("td")] for row in table.find("tbody")]
        expected = confusion_matrix(y, right, labels=classes)
        assert counts == expected.tolist()
        shares = [[cell.find("span").text for cell in row.findall("td")] for row in table.find("tbody")]
        assert shares == [[percent(share) for share in row] for row in expected / expected.sum(axis=1, keepdims=True)]
        precision, recall, _, n_rows = precision_recall_fscore_support(y, right, labels=classes)
        assert rows_of(part, "Precision and recall") == [
            [label, str(n), percent(n / len(y)), percent(p), percent(r)]
            for label, n, p, r in zip(classes, n_rows, precision, recall, strict=True)
        ]
        sentence = f"{percent(accuracy_score(y, right))} of the {len(y)} test rows are assigned to their class."
        assert sentence in text(part)
        _, most = np.unique(y, return_counts=True)
        assert f"is right for {percent(most.max() / len(y))}." in text(part)

    def test_curves_are_those_of_scikit_learn(self, cancer):
        part = section(cancer, "ranking")
        y, probabilities = cancer.test.y == "malignant", cancer.test.predicted[:, 1]
        x, height, _ = roc_curve(y, probabilities)
        assert_on_line(points_of(chart(part, "ROC curve")), x, height)
        precision, recall, _ = precision_recall_curve(y, probabilities)
        drawn = points_of(chart(part, "Precision-recall curve"))
        # A curve of steps, of which only the corners are drawn; the first point has the lowest precision.
        x = (drawn[:, 0] - drawn[:, 0].min()) / np.ptp(drawn[:, 0])
        y = 1.0 - (1.0 - precision[0]) * (drawn[:, 1] - drawn[:, 1].min()) / np.ptp(drawn[:, 1])
        assert precision.min() == precision[0]
        corners = np.vstack([np.column_stack([recall, precision]), np.column_stack([recall[1:], precision[:-1]])])
        for point in np.column_stack([x, y]):
            assert np.abs(corners - point).max(axis=1).min() < 1e-4
        assert len(drawn) > 8

    @pytest.mark.parametrize("name", ["cancer", "iris"])
    def test_calibration_is_that_of_scikit_learn(self, name, request):
        findings = request.getfixturevalue(name)
        y, predicted, classes = findings.test.y, findings.test.predicted, findings.model.classes_
        if len(classes) == 2:
            happened, probabilities, what = y == classes[1], predicted[:, 1], f"share of class {classes[1]}"
        else:
            happened, probabilities = classes[predicted.argmax(axis=1)] == y, predicted.max(axis=1)
            what = "share of correct predictions"
        share, mean = calibration_curve(happened, probabilities, n_bins=10)
        drawing = chart(section(findings, "calibration"), "Calibration")
        line = next(
            np.array(re.findall(r"[ML] (\S+) (\S+)", path.get("d")), dtype=float)
            for path in drawing.iter("path")
            if "stroke: var(--c0)" in path.get("style", "") and "clip-path" in path.attrib
        )
        assert_on_line(line, mean, share)
        assert what in texts_of(drawing)

    def test_costs(self, cancer):
        part = section(cancer, "costs")
        y, probabilities = cancer.test.y == "malignant", cancer.test.predicted[:, 1]
        assert cancer.model.classes_[1] == "malignant"
        rows = rows_of(part, "Costs of wrong decisions")
        assert [row[0] for row in rows] == ["1 : 3", "1 : 1", "1 : 5", "1 : 10", "5 : 1"]
        for row, (alarm, miss) in zip(rows, [(1, 3), (1, 1), (1, 5), (1, 10), (5, 1)], strict=True):
            threshold = alarm / (alarm + miss)
            costs = []
            for decided in (probabilities >= threshold, probabilities >= 0.5):
                (_, false_alarms), (missed, _) = confusion_matrix(y, decided)
                costs.append(number(100 * (alarm * false_alarms + miss * missed) / len(y), 3))
                if not costs[1:]:
                    counts = [str(false_alarms), str(missed)]
            constant = 100 * min(alarm * (~y).mean(), miss * y.mean())
            assert row[1:] == [number(threshold, 3), *counts, *costs, number(constant, 3)]
        assert chart(part, "Cost by threshold, 1 : 3") is not None

    def test_many_classes(self, iris):
        rng = np.random.default_rng(0)
        y = np.array([f"class {k:02d}" for k in np.tile(np.arange(40), 6)])
        X = rng.normal(size=(240, 3)) + np.tile(np.arange(40), 6)[:, np.newaxis]
        model = AGBMClassifier(max_iter=2, n_members=1).fit(X, y)
        for n_classes in (30, 40):
            chosen = y < f"class {n_classes}"
            model = AGBMClassifier(max_iter=2, n_members=1).fit(X[chosen], y[chosen])
            part = section(with_rows(iris, model, X[chosen], y[chosen]), "confusion")
            counts = confusion_matrix(y[chosen], model.predict(X[chosen]))
            assert len(rows_of(part, "Precision and recall")) == n_classes
            if n_classes == 30:
                (table,) = part.findall(".//table[@class='matrix many']")
                assert [
                    [int(cell.text) for cell in row.findall("td")] for row in table.find("tbody")
                ] == counts.tolist()
                continue
            assert part.find(".//table[@class='matrix many']") is None
            most = [int(row[2]) for row in rows_of(part, "The most frequent errors")]
            np.fill_diagonal(counts, 0)
            assert most == [count for count in np.sort(counts, axis=None)[::-1][:20].tolist() if count]

    def test_a_class_that_no_test_row_has(self, iris):
        model, X = iris.model, load_iris(as_frame=True).data
        found = with_rows(iris, model, X[:60], model.predict(X[:60]))
        assert set(found.test.y) == {"setosa", "versicolor"}
        rows = rows_of(section(found, "confusion"), "Precision and recall")
        assert rows[2] == ["virginica", "0", "0 %", "–", "–"]

    def test_one_class_in_all_test_rows(self, cancer):
        found = replace(cancer, test=replace(cancer.test, y=np.repeat("benign", len(cancer.test.y))))
        assert "All test rows have the class benign: no curves." in text(section(found, "ranking"))
        assert rows_of(section(found, "confusion"), "Precision")[1][1] == "0"
        assert section(found, "costs") is not None
        assert section(found, "calibration") is not None


class TestValues:
    def test_errors(self, diabetes):
        part, test = section(diabetes, "errors"), diabetes.test
        sizes, others = np.abs(test.y - test.predicted), np.abs(test.y - test.y.mean())
        assert rows_of(part, "Absolute errors") == [
            [
                f"{share} % of the rows",
                number(np.quantile(sizes, share / 100)),
                number(np.quantile(others, share / 100)),
            ]
            for share in (50, 90, 99)
        ]
        mean = float(np.mean(test.y - test.predicted))
        side = "low" if mean > 0 else "high"
        assert f"Predictions are {number(abs(mean))} too {side} on average." in text(part)
        titles = [text(title) for title in part.iter("figcaption")]
        assert titles == ["Predicted and actual values", "Residuals", "Distribution of the residuals"]

    def test_the_histogram(self, diabetes):
        drawing = chart(section(diabetes, "errors"), "Distribution of the residuals")
        errors = diabetes.test.y - diabetes.test.predicted
        counts, _ = np.histogram(errors, 40, tuple(np.quantile(errors, [0.005, 0.995])))
        bars = [
            np.array(re.findall(r"[ML] (\S+) (\S+)", path.get("d")), dtype=float)
            for path in drawing.iter("path")
            if path.get("style") == "fill: var(--c0)"
        ]
        heights = np.array([np.ptp(bar[:, 1]) for bar in bars])
        np.testing.assert_allclose(heights / heights.max(), counts / counts.max(), atol=1e-4)

    def test_numbers_are_for_people(self, frame):
        """Values of some 100,000, whose squares are in the billions."""
        body = body_of(frame)
        numbers = re.compile(r"−?(\d{1,3}(,\d{3})*|0)(\.\d+)?")
        ticks = 0
        for name, title in [("convergence", "RMSE against trees"), ("errors", "Residuals"), ("dependence", "side")]:
            drawing = chart(body.find(f".//section[@id='{name}']"), title)
            found = [tick for tick in texts_of(drawing) if tick[-1].isdigit()]
            assert all(numbers.fullmatch(tick) for tick in found), found
            ticks += len(found)
        assert ticks > 15
        value = frame.tried[0].metrics[0].value
        assert f"{value:,.0f}" in text(body.find(".//section[@id='metrics']"))
        nodes = [text(node) for node in body.find(".//section[@id='trees']").iter("span")]
        assert not [node for node in nodes if re.search(r"\de\+\d", node)]


class TestFeatures:
    def test_importances(self, frame):
        part, model = section(frame, "importances"), frame.model
        order = np.argsort(-model.feature_importances_, kind="stable")[:15]
        texts = texts_of(chart(part, "Importance of 15 features"))
        shown = [name for name in texts if name in ("level", "side") or name.startswith("sensor")]
        assert len(shown) == 15
        for name, feature in zip(shown, order, strict=True):
            assert str(model.feature_names_in_[feature]).startswith(name.split("…")[0])
        assert f"{model.feature_importances_.max():.3g}" in texts
        used = int((model.split_counts_ > 0).sum())
        assert f"{used} of 200 features are used" in text(part)

    def test_contributions(self, frame):
        part, sample = section(frame, "contributions"), frame.test.sample
        with pytest.warns(UserWarning, match="valid feature names"):
            found = np.abs(frame.model.predict_contributions(sample)[:, :-1]).mean(axis=0)
        best = frame.model.feature_names_in_[np.argsort(-found)[:10]]
        drawing = chart(part, "Contributions of the features")
        shown = [name for name in texts_of(drawing) if name in ("level", "side") or name.startswith("sensor")]
        assert [name.split("…")[0] for name in shown] == [
            name if len(name) <= 36 else name[:18] for name in best.tolist()
        ]
        assert "190 others" in texts_of(drawing)
        assert "all test rows" in text(part)
        assert len(list(drawing.iter("image"))) > 0

    def test_a_sample_of_many_rows(self, diabetes):
        X, y = load_diabetes(return_X_y=True)
        X, y = np.tile(X, (3, 1)), np.tile(y, 3)
        rows = predictions_of(diabetes.model, [X[:1000], X[1000:]], y)
        np.testing.assert_array_equal(rows.predicted, diabetes.model.predict(X))
        assert rows.sample.shape == (500, 10)
        assert {tuple(row) for row in rows.sample} <= {tuple(row) for row in X}
        parts = replace(diabetes, test=rows)
        assert "a sample of 500 test rows" in text(section(parts, "contributions"))
        assert "a sample of 250 test rows" in text(section(parts, "dependence"))

    def test_tables_of_all_kinds_give_the_same_sample(self, frame):
        import pyarrow as pa

        model, X = frame.model, pd.DataFrame(frame.test.sample, columns=frame.model.feature_names_in_)
        typed = X.astype({name: float for name in X.columns if name != "side"})
        y = np.zeros(len(X))
        wanted = predictions_of(model, [typed], y)
        found = predictions_of(model, [pa.Table.from_pandas(typed[:50]), pa.Table.from_pandas(typed[50:])], y)
        np.testing.assert_array_equal(found.predicted, wanted.predicted)
        pd.testing.assert_frame_equal(pd.DataFrame(found.sample), pd.DataFrame(wanted.sample))

    def test_partial_dependence(self, diabetes):
        part, model, X = section(diabetes, "dependence"), diabetes.model, diabetes.test.sample
        best = np.argsort(-model.feature_importances_, kind="stable")[:6]
        assert [text(title) for title in part.iter("figcaption")] == [f"x{feature}" for feature in best]
        for feature in best[:3].tolist():
            found = partial_dependence(model, X[:250], [feature], grid_resolution=30)
            assert_on_line(points_of(chart(part, f"x{feature}")), found["grid_values"][0], found["average"][0])

    def test_a_feature_without_values_in_the_test_rows(self, frame):
        sample = frame.test.sample.copy()
        sample[:, 0] = math.nan
        part = section(replace(frame, test=replace(frame.test, sample=sample)), "dependence")
        assert "level" not in [text(title) for title in part.iter("figcaption")]


class TestTraining:
    def test_losses_are_root_mean_squared_errors(self, frame):
        part, history = section(frame, "convergence"), frame.model.history_
        drawing = chart(part, "RMSE against trees")
        for column, dashed in (("validation_loss", False), ("train_loss", True)):
            loss = np.sqrt(2 * history[column])
            assert_on_line(points_of(drawing, dashed=dashed), history["trees"], loss)
        best = frame.model.best_iteration_
        assert rows_of(part, "Losses at the selected iterations") == [
            [
                "agbm",
                f"{frame.model.n_trees_:,}",
                *(number(np.sqrt(2 * history[name][best])) for name in ("train_loss", "validation_loss")),
                "0.25 s",
            ]
        ]
        assert frame.model.resolved_params_["n_members"] == 5
        assert "means over its members" in text(part)

    def test_losses_of_watched_rows_have_the_same_unit_and_scores_are_not_drawn(self):
        X = np.random.default_rng(0).normal(size=(200, 2))
        y = 3.0 * X[:, 0]
        model = AGBMRegressor(max_iter=3, scoring={"neg_half_loss": lambda model, X, y: -1.0})
        model.fit(X, y, watch={"later": (X, y)})
        curve = tried_from_model("m", model, [], 0.25).curve
        for name in ("train", "validation", "later"):
            np.testing.assert_array_equal(curve[f"{name}_loss"], 2.0 * model.history_[f"{name}_loss"])
        drawn = losses_of(Tried("m", curve=curve), "RMSE")
        assert list(drawn) == ["training", "later", "validation"]
        rmse = float(np.sqrt(np.mean((y - model.predict(X)) ** 2)))
        assert drawn["later"][model.best_iteration_] == pytest.approx(rmse)

    def test_log_losses_are_as_they_are(self, cancer):
        part, history = section(cancer, "convergence"), cancer.model.history_
        drawing = chart(part, "Log loss against trees")
        assert_on_line(points_of(drawing), history["trees"], history["validation_loss"])
        assert "members" not in text(part)

    def test_of_several_models_the_lowest_part(self, ten):
        part = section(ten, "convergence")
        for against, column in [("trees", "trees"), ("seconds", "seconds")]:
            drawing = chart(part, f"Loss against {against}")
            found, curve = points_of(drawing), ten.tried[0].curve
            assert len(found) < 1000  # outside the chart there is nothing to draw
            slope = np.polyfit(found[-100:, 0], found[-100:, 1], 1)[0]
            assert np.isfinite(slope)
            assert set(texts_of(drawing)) >= {one.name for one in ten.tried}
            assert column in curve
        assert "The charts show the lowest part of the losses." in text(part)

    def test_what_is_not_known(self):
        losses = {"validation_loss": [3.0, 2.0, math.nan, 1.0]}
        part = section(Findings("short", "agbm", tried=[Tried("peer", curve=losses, best=3)]), "convergence")
        assert rows_of(part, "Losses") == [["peer", "0", "–", "1", "–"]]
        assert section(Findings("none", "agbm", tried=[Tried("peer")]), "convergence") is None

    @pytest.mark.parametrize(
        ("loss", "name"),
        [("squared_error", "RMSE"), ("absolute_error", "MAE"), ("poisson", "loss Poisson()")],
    )
    def test_names_of_losses(self, loss, name):
        model = AGBMRegressor(loss=loss, max_iter=2).fit(np.arange(20.0)[:, np.newaxis], np.arange(20.0))
        assert loss_name(model) == name

    @pytest.mark.parametrize("name", ["frame", "iris", "cancer"])
    def test_trees_say_what_their_text_says(self, name, request):
        findings = request.getfixturevalue(name)
        shown = section(findings, "trees").findall("details")
        assert len(shown) == (6 if name == "iris" else 4)
        n_members = findings.model.resolved_params_["n_members"]
        assert n_members == (5 if name == "frame" else 1)
        for k, tree in enumerate(shown):
            member = " of the first member" if n_members > 1 else ""
            pattern = rf"Tree (\d+) of .* \(iteration (\d+){member}\)"
            index, iteration = re.fullmatch(pattern, tree.find("summary").text).groups()
            history = findings.model.history_["trees"] // n_members
            assert history[int(iteration) - 1] <= int(index) < history[int(iteration)]
            lines = export_text(findings.model, int(index), precision=4, max_categories=6).splitlines()[1:]
            expected = [
                re.fullmatch(r"[│├└─ ]*(?:((?:yes|no)(?:, missing)?): )?(.*)  \((.*)\)", line).groups()
                for line in lines
            ]
            nodes = [node for node in tree.iter() if node.get("class", "").startswith("node")]
            found = [{span.get("class"): span.text for span in node} for node in nodes]
            for spans, (answer, main, facts) in zip(found, expected, strict=True):
                assert spans.get("answer") == answer
                assert spans["facts"] == " · ".join(fact for fact in facts.split(", ") if not fact.startswith("gain"))
                if "e+" not in main:
                    assert spans["main"] == main
            assert ("open" in tree.attrib) == (k == 0)
            deep = tree.findall("./ul/li/details/ul/li/details/ul/li/details/ul/li/details")
            assert not [branch for branch in deep if "open" in branch.attrib]

    def test_large_trees_are_cut(self, cancer):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(1000, 3)), rng.normal(size=1000)
        model = AGBMRegressor(max_iter=1, max_depth=None, min_samples_leaf=1).fit(X, y)
        page = to_html(replace(cancer, model=model, test=None))
        below = [int(count) for count in re.findall(r">(\d+) more nodes below", page)]
        shown = page.count(' class="node')
        assert shown <= 200
        assert shown + sum(below) == len(export_text(model).splitlines()) - 1

    def test_trees_of_several_members(self, cancer):
        X, y = load_diabetes(return_X_y=True)
        model = AGBMRegressor(n_members=3, max_iter=8, colsample_bynode=0.5).fit(X, y)
        page = to_html(replace(cancer, model=model, test=None))
        titles = re.findall(r"<summary>Tree (\d+) of .*?\(iteration (\d+) of the first member\)", page)
        assert titles == [("0", "1"), ("1", "2"), ("3", "4"), ("7", "8")]

    def test_trees_that_cannot_be_drawn(self, diabetes):
        X, y = load_diabetes(return_X_y=True)
        model = AGBMRegressor(max_iter=2, init=Ridge().fit(X, y)).fit(X, y)
        assert "The trees cannot be drawn: init=Ridge()" in to_html(replace(diabetes, model=model, test=None))

    def test_theory_is_collapsed(self, cancer):
        (details,) = section(cancer, "theory").findall("details")
        assert "open" not in details.attrib
        history = cancer.model.history_
        restarts = int(history["restart"].sum())
        assert restarts >= 1
        assert f"{restarts} restart" in text(details)
        smallest = np.nanmin([history["cosine_residual"], history["cosine_corrected"]])
        assert f"Here it is {number(smallest, 3)}" in text(details)
        titles = [text(title) for title in details.iter("figcaption")]
        assert titles == ["Cosine of each fit", "Momentum γ", "Share of momentum θ"]
        drawing = chart(details, "Share of momentum θ")
        assert_on_line(points_of(drawing), history["iteration"][1:], history["theta"][1:])

    def test_only_methods_with_a_theory_have_that_section(self, diabetes):
        X, y = load_diabetes(return_X_y=True)
        for method, expected in (("fading", False), ("gbm", False), ("vagbm", False), ("agbm", True)):
            model = AGBMRegressor(method=method, max_iter=3, n_members=1).fit(X, y)
            assert (section(replace(diabetes, model=model, test=None), "theory") is not None) == expected


class TestTinyData:
    def test_two_rows(self, diabetes, cancer):
        X, y = load_diabetes(return_X_y=True)
        model = AGBMRegressor(max_iter=2).fit(X, y)
        for n_rows in (2, 1):
            part = section(with_rows(diabetes, model, X[:n_rows], y[:n_rows]), "errors")
            assert len(rows_of(part, "Absolute errors")) == 3
        X, y = load_breast_cancer(return_X_y=True)
        model = AGBMClassifier(max_iter=2).fit(X, y)
        for n_rows in (2, 1):
            assert section(with_rows(cancer, model, X[:n_rows], y[:n_rows]), "confusion") is not None

    def test_a_constant_target(self, diabetes):
        X = np.arange(40.0)[:, np.newaxis]
        model = AGBMRegressor(max_iter=3).fit(X, np.full(40, 7.0))
        found = with_rows(diabetes, model, X, np.full(40, 7.0))
        assert rows_of(section(found, "errors"), "Absolute errors")[0] == ["50 % of the rows", "0", "0"]
        assert section(found, "importances") is None
        assert section(found, "dependence") is None

    def test_a_model_without_trees(self, diabetes):
        X = np.random.default_rng(0).normal(size=(400, 2))
        y = X[:, 0] + np.r_[np.zeros(200), np.ones(200)]
        model = AGBMRegressor().fit(X[:200], y[:200], X_val=X[200:], y_val=-5 * y[200:])
        assert model.n_trees_ == 0
        found = with_rows(diabetes, model, X, y)
        assert section(found, "convergence") is not None
        assert section(found, "trees") is None
        assert section(found, "contributions") is None

    def test_other_learners(self, diabetes):
        X, y = load_diabetes(return_X_y=True)
        model = AGBMRegressor(method=GBM(learner=Ridge(), second_order=False), max_iter=3).fit(X, y)
        ids = [part.get("id") for part in body_of(with_rows(diabetes, model, X, y)).iter("section")]
        assert ids == ["metrics", "errors", "convergence", "columns", "parameters"]


class TestOtherParts:
    def test_columns_and_parameters(self, frame):
        rows = rows_of(section(frame, "columns"), "200 columns")
        assert len(rows) == 200
        missing = frame.columns[0].missing
        assert 0.2 < missing < 0.3
        assert rows[0][:3] == ["level", "number", f"{100 * missing:.3g} %"]
        assert rows[1][1:] == ["category", f"{100 * frame.columns[1].missing:.3g} %", "3"]
        part = section(frame, "parameters")
        assert rows_of(part, "Parameters that differ") == [["max_iter", "30", "'auto'"]]
        names = [row[0] for row in rows_of(part, "Defaults")]
        assert sorted([*names, "max_iter"]) == sorted(frame.model.get_params())

    def test_sections_name_their_model_if_there_are_several(self, diabetes, frame):
        about = "This section is about the model default."
        for name in ("errors", "importances", "contributions", "dependence", "trees"):
            assert text(section(diabetes, name)).count(about) == 1
        assert "This section is about" not in to_html(frame)

    def test_columns_of_tables(self):
        table = pd.DataFrame({"a": [1.0, math.nan, 1.0, 2.0], "b": ["x", None, "y", "x"]})
        assert describe_columns(table) == [Column("a", "number", 0.25, 2), Column("b", "category", 0.25, 2)]
        sparse = describe_columns(csr_array(np.eye(2)))
        assert repr(sparse) == repr([Column("x0", "number"), Column("x1", "number")])  # NaN is equal to nothing
        assert describe_columns(np.zeros((3, 2)))[1] == Column("x1", "number", 0.0, 1)

    def test_what_is_kept_of_a_model(self, cancer):
        model, one = cancer.model, cancer.tried[0]
        assert (one.trees, one.best, one.seconds) == (model.n_trees_, model.best_iteration_, 0.25)
        assert set(one.parameters) == {*early(), "method", "learning_rate", "max_depth"}
        assert one.parameters["method"] is model.method
        assert one.curve["momentum"][1:] == [0.5] * model.n_iter_

    @pytest.mark.parametrize(
        ("value", "written"),
        [
            (0.123456, "0.1235"),
            (12345.6, "12,346"),
            (1234.5, "1,234"),
            (3.21e-7, "3.21e-07"),
            (0.0, "0"),
            (math.nan, "–"),
            (5e8, "500,000,000"),
            (-1e12, "-1,000,000,000,000"),
        ],
    )
    def test_numbers_to_read(self, value, written):
        assert number(value) == written

    @pytest.mark.parametrize(
        ("value", "written"),
        [(0.01234, "0.0123 s"), (59.9, "59.9 s"), (179.7, "3 min 0 s"), (3725, "62 min 5 s"), (math.nan, "–")],
    )
    def test_times_to_read(self, value, written):
        assert seconds(value) == written


class TestCommand:
    @pytest.fixture
    def sold(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        rng = np.random.default_rng(0)
        table = pd.DataFrame({"kind": rng.choice(["a", "b"], 300), "size": rng.normal(size=300)})
        table["sold"] = np.where(table["size"] + (table["kind"] == "a") > rng.normal(size=300), "yes", "no")
        AGBMClassifier(max_iter=5).fit(table[["kind", "size"]], table["sold"]).save("sold.agbm")
        table.loc[5, "sold"] = None
        table.to_csv("later.csv", index=False)
        return table

    def run(self, *words):
        return cli.main(["report", "sold.agbm", *words, "--out", "page.html"])

    def test_the_page(self, sold, capsys):
        assert self.run("later.csv", "--target", "sold", "--json") == 0
        metrics = json.loads(capsys.readouterr().out)["metrics"]
        page = Path("page.html").read_text()
        assert "A model: classification with agbm (default)" in page
        assert "later.csv: 299 rows" in page
        assert number(metrics[0]["value"]) in page
        assert all(f'id="{name}"' in page for name in ("ranking", "confusion", "costs", "calibration", "contributions"))

    def test_costs(self, sold, capsys):
        assert self.run("later.csv", "--target", "sold", "--costs", "1", "4") == 0
        assert "1 : 4" in Path("page.html").read_text()
        for words, message in [
            (
                ["later.csv", "--target", "sold", "--costs", "1", "0"],
                "--costs 1 0: both costs must be positive numbers.",
            ),
            (["--costs", "1", "4"], "--costs 1 4: there are no data to evaluate on; give DATA, or omit this option."),
        ]:
            assert self.run(*words) == 1
            assert message in capsys.readouterr().err
        AGBMRegressor(max_iter=2).fit(sold[["size"]], np.arange(300.0)).save("sold.agbm")
        assert self.run("later.csv", "--target", "size", "--costs", "1", "4") == 1
        assert "the model must be a classifier with two classes; omit this option." in capsys.readouterr().err

    def test_without_matplotlib(self, sold, capsys, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        monkeypatch.delitem(sys.modules, "matplotlib.pyplot")
        for name in [name for name in sys.modules if name.startswith("agbm.plot")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.delattr("agbm.plot", raising=False)
        assert self.run("later.csv", "--target", "sold") == 1
        assert "agbm.plot needs matplotlib: pip install 'agbm[plot]'." in capsys.readouterr().err
        assert not Path("page.html").exists()


# A browser
@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = browsers.launch(playwright)
        if browser is None:
            pytest.skip(browsers.HOW_TO_GET_ONE)
        yield browser
        browser.close()


class Tabs:
    """Pages of the browser, one for each way of looking: opening them takes longer than what is done with them."""

    def __init__(self, browser):
        self._browser = browser
        self._open = {}
        self.wrong, self.asked = [], []

    def get(self, options):
        key = json.dumps(options)
        if key not in self._open:
            context = self._browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
            page = self._open[key] = context.new_page()
            page.on("console", lambda message: self.wrong.append(message.text))
            page.on("pageerror", lambda error: self.wrong.append(str(error)))
            page.on("dialog", lambda dialog: self.wrong.append(dialog.message))
            page.on("request", lambda request: self.asked.append(request.url))
        return self._open[key]


@pytest.fixture(scope="module")
def tabs(browser):
    return Tabs(browser)


@pytest.fixture
def visit(tabs, tmp_path):
    """Opens a page; at the end, nothing may have gone wrong in it, and nothing but the file may have been asked for."""
    tabs.wrong, tabs.asked = [], []

    def go(findings, **options):
        path = tmp_path / "report.html"
        path.write_text(page_of(findings), encoding="utf-8")
        page = tabs.get(options)
        page.goto(path.as_uri())
        return page

    yield go
    assert tabs.wrong == []
    images = [url for url in tabs.asked if url.startswith("data:image/png;base64,")]
    assert set(tabs.asked) - set(images) == {(tmp_path / "report.html").as_uri()}


class TestPage:
    @pytest.mark.parametrize("name", ALL)
    def test_every_part_is_there(self, name, visit, request):
        findings = request.getfixturevalue(name)
        page = visit(findings)
        titles = page.locator("h2").all_inner_texts()
        explained = ["Importances", "Contributions", "Partial dependence", "What if", "Convergence", "Example trees"]
        two = ["ROC and precision-recall", "Confusion matrix", "Threshold and costs", "Calibration"]
        parts = {
            "cancer": [*two, "Uncertainty", *explained, "Theory"],
            "diabetes": ["Predictions and errors", "Uncertainty", *explained],
            "iris": ["Confusion matrix", "Calibration", *explained],
            "frame": ["Predictions and errors", "Uncertainty", *explained],
            "hostile": [*two, "Uncertainty", *explained],
            "ten": ["Convergence"],
        }
        expected = ["Test metrics", *parts[name], *(["Columns", "Parameters"] if name != "ten" else [])]
        assert titles == expected
        assert page.locator("nav a").all_inner_texts() == expected
        assert page.locator("h1").inner_text().strip() == findings.title
        assert page.locator("#command").text_content() == findings.command
        for fact, value in {**findings.data, **findings.facts}.items():
            assert fact in page.locator("header").text_content()
            assert value in page.locator("header").text_content()
        for one in findings.tried:
            assert one.name in page.locator("#metrics").text_content()
            assert one.failure in page.locator("#metrics").text_content()
        for drawing in page.locator("svg").all():
            assert drawing.get_attribute("role") == "img"
            assert drawing.get_attribute("aria-label")

    @pytest.mark.parametrize("width", [PHONE["width"], 1280])
    @pytest.mark.parametrize("name", ALL)
    def test_nothing_is_cut(self, name, width, visit, request):
        page = visit(request.getfixturevalue(name), viewport={"width": width, "height": 844})
        for details in page.locator("details").all():
            details.evaluate("e => e.open = true")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # Trees, figures, and tables that are not matrices: no part is beyond the page, nor hidden in a smaller box.
        cut = page.evaluate("""() => {
          const parts = 'section, nav, dl, .node, figure, figure svg, .stack td, .stack tbody th';
          const beyond = [...document.querySelectorAll(parts)].filter(
            (e) => e.getBoundingClientRect().right > innerWidth || e.getBoundingClientRect().left < 0);
          const lower = (e) => e.scrollHeight > e.clientHeight + 1;
          const wider = (e) => e.scrollWidth > e.clientWidth + 1;
          const hidden = [...document.querySelectorAll('.scroll')].filter(
            (e) => lower(e) || (wider(e) && innerWidth < 400 && e.querySelector('.stack')));
          return [...beyond, ...hidden].map((e) => `${e.tagName} ${e.className} ${e.textContent.slice(0, 60)}`);
        }""")
        assert cut == []

    def test_the_last_row_of_the_columns(self, diabetes, visit):
        page = visit(diabetes)
        last, part = page.locator(".columns tbody tr").last, page.locator("#columns")
        assert last.is_visible()
        ends = [place.bounding_box()["y"] + place.bounding_box()["height"] for place in (last, part)]
        assert ends[0] <= ends[1]

    def test_texts_of_charts_on_a_phone(self, frame, visit):
        page = visit(frame, viewport=PHONE)
        sizes = page.evaluate(
            "[...document.querySelectorAll('figure text')].map((t) => parseFloat(getComputedStyle(t).fontSize)"
            " * t.getScreenCTM().a).filter((size) => size > 0)"
        )
        assert len(sizes) > 50
        assert min(sizes) > 8.5

    def test_a_page_without_anything(self, visit):
        page = visit(Findings("nothing yet", "agbm train"))
        assert page.locator("h1").inner_text() == "nothing yet"
        assert page.locator("section").count() == 0

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    @pytest.mark.parametrize("name", ["diabetes", "cancer"])
    def test_text_stands_out(self, scheme, name, visit, request):
        page = visit(request.getfixturevalue(name), color_scheme=scheme)
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        brightness = np.mean([int(part) for part in re.findall(r"\d+", ground)[:3]])
        assert brightness > 240 if scheme == "light" else brightness < 40
        for details in page.locator("details").all():
            details.evaluate("e => e.open = true")
        contrasts = page.evaluate(CONTRASTS)
        assert len(contrasts) > 100
        weakest = min(contrasts, key=lambda found: found[1])
        assert weakest[1] >= 4.5, weakest

    @pytest.mark.parametrize(
        ("look", "options"), [("light", {}), ("dark", {"color_scheme": "dark"}), ("phone", {"viewport": PHONE})]
    )
    def test_pictures_to_look_at(self, look, options, diabetes, visit):
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        target = SCREENSHOTS / f"report-{look}.png"
        visit(diabetes, **options).screenshot(path=target, full_page=True)
        assert target.read_bytes().startswith(b"\x89PNG")
        assert target.stat().st_size > 50_000

    def test_needs_no_script(self, cancer, visit):
        page = visit(cancer, java_script_enabled=False)
        assert not page.locator("#what-if-panel").is_visible()
        assert "This section needs JavaScript." in page.locator("#what-if").inner_text()
        assert page.locator("figure svg").first.is_visible()
        assert number(cancer.tried[0].metrics[0].value) in page.locator("#metrics").inner_text()

    def test_on_paper(self, diabetes, visit):
        page = visit(diabetes, color_scheme="dark", viewport={"width": 720, "height": 1000})
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
        assert not page.locator("nav").is_visible()
        assert page.locator("#convergence svg").first.is_visible()
        fills = page.evaluate("[...document.querySelectorAll('figure text')].map((t) => getComputedStyle(t).fill)")
        assert set(fills) == {"rgb(0, 0, 0)"}
        assert page.pdf().startswith(b"%PDF")


# Every element with text of its own, and the contrast of the text with what is behind it, by WCAG's formula.
CONTRASTS = """() => {
  const parse = (text) => {
    const parts = text.match(/[\\d.]+(e-?\\d+)?/g).map(Number);
    const rgb = parts.slice(0, 3).map((part) => (text.startsWith("color(") ? part : part / 255));
    return { rgb, alpha: parts.length > 3 ? parts[3] : 1 };
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const { rgb, alpha } = parse(getComputedStyle(e).backgroundColor);
      if (alpha > 0.99) return rgb;
    }
    return [1, 1, 1];
  };
  const found = [];
  for (const element of document.body.querySelectorAll("*")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const ink = light(parse(element instanceof SVGElement ? style.fill : style.color).rgb);
    const ground = light(behind(element));
    const contrast = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
    found.push([element.textContent.slice(0, 40), contrast]);
  }
  return found;
}"""


@pytest.mark.slow
class TestStrangers:
    def test_names_are_text(self, hostile, visit):
        page = visit(hostile)
        assert page.evaluate("window.hacked") is None
        assert page.locator("script").count() == page.locator("head > script").count() == 1  # that of the panel
        assert page.locator("img").count() == 0
        assert page.locator("h1").text_content() == HOSTILE[0]
        assert page.locator("title").text_content() == HOSTILE[0]
        assert set(page.locator("#dependence figcaption").all_text_contents()) <= set(HOSTILE)
        assert HOSTILE[0] in page.locator("#trees").text_content()
        assert page.locator("#confusion .matrix tbody th").all_text_contents() == sorted(HOSTILE[:2])
        shown = " ".join(page.locator("#importances text").all_text_contents())
        assert "window.hacked" in shown

    def test_nothing_runs_that_came_in(self, cancer, tmp_path, browser):
        """Even if a name were markup: the page's own policy refuses scripts, pictures and requests."""
        page = to_html(cancer).replace(
            "</h1>", "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'></h1>"
        )
        (tmp_path / "changed.html").write_text(page)
        tab = browser.new_page()
        refused = []
        tab.on("console", lambda message: refused.append(message.text))
        tab.goto((tmp_path / "changed.html").as_uri())
        assert tab.locator("#convergence svg").count() == 1
        assert tab.evaluate("window.hacked") is None
        assert tab.evaluate("fetch('data:,x').then(() => 'sent', () => 'refused')") == "refused"
        assert len([text for text in refused if "Content Security Policy" in text]) >= 2
        tab.close()

    @pytest.mark.parametrize("name", ["half \ud800 a letter", "a\0b", "bell \a", "$x_{$", "#0072b2"])
    def test_names_that_charts_cannot_draw(self, name, diabetes, tmp_path):
        X, y = load_diabetes(return_X_y=True, as_frame=True)
        X.columns = pd.Index([name, *X.columns[1:]], dtype=object)
        found = with_rows(replace(diabetes, title=name), AGBMRegressor(max_iter=2).fit(X, y), X, y)
        write(found, tmp_path / "report.html")
        page = (tmp_path / "report.html").read_text()
        assert page.count(name.replace("\ud800", "?")) > 1
        if name == "#0072b2":
            assert f">{name}</text>" in page


class Outline(HTMLParser):
    """Reads a page strictly: every element that begins must end in its turn."""

    def __init__(self):
        super().__init__()
        self.open, self.names, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        assert len(attributes) == len(attrs)
        self.names += [attributes["id"]] if "id" in attributes else []
        self.links += [attributes[name] for name in ("src", "href", "action", "clip-path") if name in attributes]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.slow
class TestFile:
    @pytest.mark.parametrize("name", ALL)
    def test_is_whole_and_refers_to_nothing(self, name, request):
        page = page_of(request.getfixturevalue(name))
        outline = Outline()
        outline.feed(page)
        outline.close()
        assert outline.open == []
        assert len(set(outline.names)) == len(outline.names)
        for link in outline.links:
            target = link.removeprefix("url(").removesuffix(")")
            assert target.startswith("data:image/png;base64,") or target[1:] in outline.names
        assert re.findall(r"https?:[^\"' ]*", page) == []
        assert "@import" not in page
        assert set(re.findall(r"url\(.", page)) <= {"url(#"}

    @pytest.mark.parametrize("name", ALL)
    def test_size(self, name, request):
        assert len(page_of(request.getfixturevalue(name)).encode()) < 1_000_000

    def test_is_replaced_at_once(self, cancer, iris, tmp_path, monkeypatch):
        write(cancer, tmp_path / "report.html")
        before = (tmp_path / "report.html").read_text()
        assert before == to_html(cancer)

        def full(*args):
            raise OSError("No space left on device")

        monkeypatch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space left"):
            write(iris, tmp_path / "report.html")
        assert (tmp_path / "report.html").read_text() == before
        assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
        with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere; create it"):
            write(iris, tmp_path / "nowhere" / "report.html")
