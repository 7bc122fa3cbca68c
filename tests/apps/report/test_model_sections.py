"""The sections of a report about the model: features, training, trees, columns and parameters."""

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_diabetes
from sklearn.inspection import partial_dependence
from sklearn.linear_model import Ridge

from agbm import AGBMRegressor
from agbm._apps.evaluation.metrics import Tried
from agbm._apps.report import (
    Column,
    Findings,
    describe_columns,
    loss_name,
    predictions_of,
    tried_from_model,
)
from agbm._apps.report.markup import number, seconds
from agbm._apps.report.models import losses_of
from agbm.export import export_text
from report_pages import (
    assert_on_line,
    chart,
    early,
    page_of,
    points_of,
    rows_of,
    section,
    tables_of,
    text,
    texts_of,
    without_charts,
)


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
        page = without_charts(parts)
        assert "a sample of 500 test rows" in page
        assert "a sample of 250 test rows" in page

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
        part = tables_of(replace(frame, test=replace(frame.test, sample=sample)), "dependence")
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

    def test_log_losses_are_not_transformed(self, cancer):
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

    def test_unknown_values(self):
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
    def test_trees_equal_exported_text(self, name, request):
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
        model = AGBMRegressor(max_iter=1, max_depth=None, min_samples_leaf=1, early_stopping=False).fit(X, y)
        page = without_charts(replace(cancer, model=model, test=None))
        below = [int(count) for count in re.findall(r">(\d+) more nodes below", page)]
        shown = page.count(' class="node')
        assert shown <= 200
        assert shown + sum(below) == len(export_text(model).splitlines()) - 1

    def test_trees_of_several_members(self, cancer):
        X, y = load_diabetes(return_X_y=True)
        model = AGBMRegressor(n_members=3, max_iter=8, colsample_bynode=0.5).fit(X, y)
        page = without_charts(replace(cancer, model=model, test=None))
        titles = re.findall(r"<summary>Tree (\d+) of .*?\(iteration (\d+) of the first member\)", page)
        assert titles == [("0", "1"), ("1", "2"), ("3", "4"), ("7", "8")]

    def test_trees_that_cannot_be_drawn(self, diabetes):
        X, y = load_diabetes(return_X_y=True)
        model = AGBMRegressor(max_iter=2, init=Ridge().fit(X, y)).fit(X, y)
        assert "The trees cannot be drawn: init=Ridge()" in without_charts(replace(diabetes, model=model, test=None))

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
            assert (tables_of(replace(diabetes, model=model, test=None), "theory") is not None) == expected


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
        assert "This section is about" not in page_of(frame)

    def test_columns_of_tables(self):
        table = pd.DataFrame({"a": [1.0, math.nan, 1.0, 2.0], "b": ["x", None, "y", "x"]})
        assert describe_columns(table) == [Column("a", "number", 0.25, 2), Column("b", "category", 0.25, 2)]
        sparse = describe_columns(csr_array(np.eye(2)))
        assert repr(sparse) == repr([Column("x0", "number"), Column("x1", "number")])  # NaN is equal to nothing
        assert describe_columns(np.zeros((3, 2)))[1] == Column("x1", "number", 0.0, 1)

    def test_facts_of_a_model(self, cancer):
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
    def test_number_format(self, value, written):
        assert number(value) == written

    @pytest.mark.parametrize(
        ("value", "written"),
        [(0.01234, "0.0123 s"), (59.9, "59.9 s"), (179.7, "3 min 0 s"), (3725, "62 min 5 s"), (math.nan, "–")],
    )
    def test_time_format(self, value, written):
        assert seconds(value) == written
