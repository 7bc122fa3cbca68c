"""The parameter views: crosses that short runs choose, or that are listed."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import make_regression

import agbm
from agbm import AGBMClassifier, AGBMRanker, AGBMRegressor
from agbm._data.crosses import Cross
from agbm._fit.auto import CROSSES_ROWS
from agbm.export import encode, to_lightgbm, to_shap, to_treelite
from agbm.methods import GBM

N = CROSSES_ROWS
FAST = {"max_iter": 8, "max_leaf_nodes": 8, "random_state": 0}


@pytest.fixture(scope="module")
def rows():
    """Labels that depend on a product and a difference of columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 5))
    X[rng.random(X.shape) < 0.02] = np.nan
    y = np.nan_to_num(X[:, 0] * X[:, 1]) + np.nan_to_num(np.sign(X[:, 2] - X[:, 3]))
    return X, y


@pytest.fixture(scope="module")
def noisy(rows):
    """Labels with which crosses help little."""
    X, y = rows
    return X, 0.5 * y + 2 * np.nan_to_num(X[:, 4]) + 2.5 * np.random.default_rng(4).normal(size=N)


def crosses_of(model):
    return model.model_.reader.crosses


def pairs_of(model):
    return {(min(c.left, c.right), c.sign, max(c.left, c.right)) for c in crosses_of(model)}


@pytest.fixture(scope="module")
def fitted(rows):
    return AGBMRegressor(**FAST).fit(*rows)


class TestChoice:
    def test_crosses_that_help_are_found(self, rows, fitted):
        assert {(0, "*", 1), (2, "-", 3)} <= pairs_of(fitted)
        names = fitted.model_.reader.feature_names
        assert fitted.resolved_params_["views"] == names[5:]
        without = AGBMRegressor(**FAST, views=None).fit(*rows)
        assert without.resolved_params_["views"] is None
        assert fitted.score(*rows) > without.score(*rows) + 0.1

    def test_classes(self, rows):
        X, y = rows
        found = AGBMClassifier(**FAST).fit(X, np.digitize(y, [-0.5, 0.5]))
        assert {(0, "*", 1), (2, "-", 3)} <= pairs_of(found)

    @pytest.mark.parametrize(
        "case", ["few rows", "no gain", "another loss", "interactions", "another learner", "one column"]
    )
    def test_none_are_looked_for_or_found(self, case, rows):
        X, y = rows
        parameters = {}
        if case == "few rows":
            X, y = X[:-1], y[:-1]
        if case == "no gain":
            y = (X[:, 0] > 0) + np.random.default_rng(4).normal(size=N)
        if case == "another loss":
            parameters["loss"] = "absolute_error"
        if case == "interactions":
            parameters["interaction_cst"] = [[0, 1], [2, 3, 4]]
        if case == "another learner":
            X = np.nan_to_num(X)
            from sklearn.linear_model import Ridge

            parameters = {"method": GBM(learner=Ridge()), "max_leaf_nodes": "auto"}
        if case == "one column":
            X = X[:, :1]
        assert crosses_of(AGBMRegressor(**FAST | parameters).fit(X, y)) == ()

    def test_members_that_see_none_of_small_gains(self, noisy):
        model = AGBMRegressor(**FAST).fit(*noisy)
        assert len(crosses_of(model)) > 0
        assert not any(cross.for_all for cross in crosses_of(model))
        last = [max(int(tree.nodes["feature"].max()) for tree in of.models) for of in model.model_.ensembles]
        assert [f >= 5 for f in last] == [False, True, True, False, True]
        assert crosses_of(AGBMRegressor(**FAST, n_members=1).fit(*noisy)) == ()

    def test_rankers(self, rows):
        X, y = rows
        model = AGBMRanker(**FAST).fit(X, np.digitize(y, [0.0, 1.0]), qid=np.arange(N) // 10)
        assert crosses_of(model) == ()

    def test_columns_with_constraints_are_left_out(self, rows):
        found = AGBMRegressor(**FAST, monotonic_cst={2: 1, 4: 0}).fit(*rows)
        assert (0, "*", 1) in pairs_of(found)
        assert not any(2 in (c.left, c.right) for c in crosses_of(found))

    def test_columns_that_are_no_numbers_are_left_out(self, rows):
        X, y = rows
        table = pd.DataFrame(X, columns=list("abcde"))
        table["b"] = pd.cut(table["b"], 4).astype(str)
        table["when"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(N), "h")
        found = AGBMRegressor(**FAST).fit(table, y)
        assert (2, "-", 3) in pairs_of(found)
        assert {f for c in crosses_of(found) for f in (c.left, c.right)} <= {0, 2, 3, 4}
        importances = dict(zip(found.feature_names_in_, found.feature_importances_, strict=True))
        assert importances["c"] > 0.1
        assert sum(importances.values()) == pytest.approx(1.0)

    def test_a_sample_of_many_rows_decides(self, rows, monkeypatch):
        seen = []
        monkeypatch.setattr("agbm._fit.views.AUDITION_ROWS", 1500)
        monkeypatch.setattr(
            "agbm._fit.prepare_table.found_crosses", lambda request, reader, labels, rows: seen.append(rows) or []
        )
        AGBMClassifier(**FAST).fit(rows[0], np.arange(N) % 100 == 7)
        (sample,) = seen
        assert sample.n == sample.X.shape[0] == pytest.approx(1500, abs=1)
        assert sample.y.sum() == 15


class TestSameBits:
    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("gain", ["rows", "noisy"])
    def test_batches_and_threads(self, weighted, gain, request, monkeypatch):
        monkeypatch.setattr("agbm._fit.views.AUDITION_ROWS", 1800)  # fewer than there are
        X, y = request.getfixturevalue(gain)
        weight = np.arange(N) % 3 + 0.5 if weighted else None
        model = AGBMRegressor(**FAST, n_jobs=1).fit(X, y, weight)
        assert len(crosses_of(model)) > 0

        def parts():
            for part in np.split(np.arange(N), [0, 17, 900]):
                yield (X[part], y[part]) if weight is None else (X[part], y[part], weight[part])

        for other in (
            AGBMRegressor(**FAST, n_jobs=1).fit(agbm.Batches(parts)),
            AGBMRegressor(**FAST, n_jobs=2).fit(X, y, weight),
        ):
            assert crosses_of(other) == crosses_of(model)
            assert other.fingerprint_ == model.fingerprint_

    def test_files(self, fitted, rows, tmp_path):
        fitted.save(tmp_path / "model.agbm")
        loaded = agbm.load(tmp_path / "model.agbm")
        assert crosses_of(loaded) == crosses_of(fitted)
        assert loaded.predict(rows[0]).tobytes() == fitted.predict(rows[0]).tobytes()

    def test_predictor(self, fitted, rows):
        predict = fitted.predictor()
        assert predict(rows[0]).tobytes() == fitted.predict(rows[0]).tobytes()
        assert predict(rows[0][3]) == fitted.predict(rows[0][3:4])[0]

    def test_a_trial_looks_for_crosses_once(self, rows, monkeypatch):
        from agbm._fit import views

        calls, found = [], views.found_crosses
        monkeypatch.setattr("agbm._fit.prepare_table.found_crosses", lambda *given: calls.append(1) or found(*given))
        model = AGBMRegressor(**FAST, n_members=1).fit(*rows)
        assert calls == [1]
        assert len(crosses_of(model)) > 0
        assert model.views == model.model_.parameters["views"] == "auto"

    def test_folds_choose_from_their_training_rows(self, rows):
        X, y = (np.concatenate([of, of[:200]]) for of in rows)
        train, test = np.arange(200, N + 200), np.arange(200)
        result = agbm.cv(AGBMRegressor(**FAST), X, y, cv=[(train, test)])
        (of_fold,) = result.estimators
        assert crosses_of(of_fold) == crosses_of(AGBMRegressor(**FAST).fit(X[train], y[train])) != ()
        np.testing.assert_array_equal(result.predictions[test], of_fold.predict(X[test]))

    @pytest.mark.parametrize("gain", ["rows", "noisy"])
    def test_warm_start_and_updates_keep_the_crosses(self, gain, request):
        X, y = request.getfixturevalue(gain)
        model = AGBMRegressor(**FAST, warm_start=True, early_stopping=False).fit(X, y)
        kept = crosses_of(model)
        longer = AGBMRegressor(**FAST | {"max_iter": 10}, early_stopping=False).fit(X, y)
        assert model.set_params(max_iter=10).fit(X, y).predict(X).tobytes() == longer.predict(X).tobytes()
        assert crosses_of(model) == kept
        assert crosses_of(AGBMRegressor(**FAST).fit(X, y).update(X[:300], y[:300], mode="leaves")) == kept


class TestExplanations:
    def test_contributions_add_up_by_column(self, fitted, rows):
        X = rows[0][:40]
        found = fitted.predict_contributions(X)
        assert found.shape == (40, 6)
        np.testing.assert_allclose(found.sum(axis=1), fitted.predict(X), rtol=1e-12)

    def test_columns_share_their_crosses(self, rows):
        X, _ = rows
        model = AGBMRegressor(**FAST, views=[(0, "*", 1)]).fit(X, np.nan_to_num(X[:, 0] * X[:, 1]))
        nodes = model.model_.folded.nodes
        of_cross, own = (np.sum(nodes["feature"] == f) for f in (5, 0))
        assert model.split_counts_[0] == of_cross + own
        importances = model.feature_importances_
        assert importances[:2].min() > 0.4
        assert importances.sum() == pytest.approx(1.0)

    def test_recursion_is_refused(self, fitted, rows):
        cross = crosses_of(fitted)[0]
        with pytest.raises(ValueError, match="views=None"):
            fitted.model_.partial_dependence([cross.left], np.zeros((1, 1)))

    @pytest.mark.parametrize("export", [to_lightgbm, to_treelite, to_shap])
    def test_formats_without_crosses_refuse(self, export, fitted):
        with pytest.raises(ValueError, match="views=None"):
            export(fitted)

    def test_encode_leaves_them_to_the_export(self, fitted, rows):
        np.testing.assert_array_equal(encode(fitted, rows[0]), rows[0])


class TestLists:
    def test_names_and_positions(self, rows):
        X, y = rows
        table = pd.DataFrame(X, columns=["a", "b", "c", "d", "e"])
        model = AGBMRegressor(**FAST, views=[("a", "*", "b"), (2, "-", 3)]).fit(table, y)
        assert crosses_of(model) == (Cross(0, "*", 1), Cross(2, "-", 3))
        assert model.resolved_params_["views"] == ["a * b", "c - d"]
        sparse_like = AGBMRegressor(**FAST, views=[(0, "*", 1)], loss="poisson").fit(X[:300], np.abs(y[:300]))
        assert crosses_of(sparse_like) == (Cross(0, "*", 1),)

    @pytest.mark.parametrize(
        ("views", "message"),
        [
            ([("a", "/", "b")], "must be"),
            ([("a", "b")], "must be"),
            (["a"], "must be"),
            ([("a", "+", "nowhere")], "nowhere"),
            ([("a", "+", "text")], "categories or dates"),
            ([("a", "+", "e")], "constraints"),
        ],
    )
    def test_errors(self, views, message, rows):
        X, y = rows
        table = pd.DataFrame(X, columns=["a", "b", "c", "d", "e"]).assign(text="x")
        with pytest.raises(ValueError, match=message):
            AGBMRegressor(**FAST, views=views, monotonic_cst={"e": 1}).fit(table, y)

    def test_sparse_tables(self, rows):
        X, y = csr_array(np.nan_to_num(rows[0])), rows[1]
        assert crosses_of(AGBMRegressor(**FAST).fit(X, y)) == ()
        halves = [(X[: N // 2], y[: N // 2]), (X[N // 2 :], y[N // 2 :])]
        assert crosses_of(AGBMRegressor(**FAST).fit(agbm.Batches(lambda: iter(halves)))) == ()
        with pytest.raises(ValueError, match="sparse"):
            AGBMRegressor(**FAST, views=[(0, "+", 1)]).fit(X, y)

    def test_other_learners(self):
        from sklearn.linear_model import Ridge

        with pytest.raises(ValueError, match="works with trees only"):
            AGBMRegressor(method=GBM(learner=Ridge()), views=[(0, "+", 1)]).fit(*make_regression(50, 3))
