"""The sections of a report about predictions: metrics, classes, residuals."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.dummy import DummyClassifier, DummyRegressor
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

from agbm import AGBMClassifier, AGBMRegressor
from agbm._apps.evaluation.metrics import Metric, Tried
from agbm._apps.report import (
    Findings,
)
from agbm._apps.report.calibration import grouped
from agbm._apps.report.markup import number, percent
from agbm.methods import GBM
from report_pages import (
    assert_on_line,
    body_of,
    chart,
    points_of,
    rows_of,
    section,
    tables_of,
    text,
    texts_of,
    with_rows,
    without_charts,
)


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
        (_, last) = rows_of(tables_of(found, "metrics"), "Metrics")
        expected = [root_mean_squared_error(y[:99], constant), mean_absolute_error(y[:99], constant)]
        assert last[:3] == [f"baseline ({strategy})", *map(number, expected)]

    def test_without_rows(self, cancer):
        found = replace(cancer, test=None)
        part = section(found, "metrics")
        assert len(rows_of(part, "Metrics")) == 1
        assert "agbm report MODEL DATA" in text(part)
        ids = [part.get("id") for part in body_of(found).iter("section")]
        assert ids == ["metrics", "importances", "convergence", "trees", "theory", "columns", "parameters"]

    def test_ranked_models_and_intervals(self, diabetes):
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

        page = without_charts(Findings("t", "c", tried=[one("a", 0.5), one("b", 0.9)]))
        assert "Of 2 models, b has the highest accuracy on the test rows: 0.9" in page
        assert "overlap" not in page.split("<main>")[1].split("</main>")[0]
        page = without_charts(Findings("t", "c", tried=[one("a", 0.9), one("b", 0.9)]))
        assert page.count(">best</span>") == 2
        assert "The interval of another model overlaps with this one" in page
        page = without_charts(Findings("t", "c", tried=[replace(one("a", 0.9), trees=0, seconds=math.nan)]))
        assert "On the test rows, a has accuracy 0.9 (95 % interval 0.89 to 0.91)." in page
        page = without_charts(Findings("t", "c", tried=[Tried("a", failure="no such file")]))
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
    def test_calibration(self, name, request):
        """The groups of rows, which other tests check, are drawn, and those outside their intervals are counted."""
        findings = request.getfixturevalue(name)
        y, predicted, classes = findings.test.y, findings.test.predicted, findings.model.classes_
        if len(classes) == 2:
            happened, probabilities, what = y == classes[1], predicted[:, 1], f"share of class {classes[1]}"
        else:
            happened, probabilities = classes[predicted.argmax(axis=1)] == y, predicted.max(axis=1)
            what = "share of correct predictions"
        groups = grouped(probabilities, happened.astype(float), shares=True)
        drawing = chart(section(findings, "calibration"), "Calibration")
        line = next(
            np.array(re.findall(r"[ML] (\S+) (\S+)", path.get("d")), dtype=float)
            for path in drawing.iter("path")
            if "stroke: var(--c0)" in path.get("style", "") and "opacity" not in path.get("style")
            if "clip-path" in path.attrib
        )
        assert_on_line(line, groups.predicted, groups.observed)
        assert what in texts_of(drawing)
        outside = ((groups.predicted < groups.low) | (groups.predicted > groups.high)).sum()
        said = text(section(findings, "calibration"))
        assert f"Here {outside} of {len(groups.rows)} groups are outside." in said

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
        for n_classes in (30, 40):
            chosen = y < f"class {n_classes}"
            model = AGBMClassifier(max_iter=2, n_members=1).fit(X[chosen], y[chosen])
            part = tables_of(with_rows(iris, model, X[chosen], y[chosen]), "confusion")
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
        rows = rows_of(tables_of(found, "confusion"), "Precision and recall")
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
        assert titles == ["Predicted and actual values", "Residuals", "Distribution of the residuals", "Calibration"]

    def test_histogram_of_residuals(self, diabetes):
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

    def test_number_format_of_large_values(self, frame):
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
        assert ids == ["metrics", "errors", "segments", "drift", "convergence", "columns", "parameters"]
