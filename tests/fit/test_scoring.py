"""Metrics during training, further evaluation sets (`watch`), and the weights of validation rows."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.metrics import accuracy_score, get_scorer, log_loss, make_scorer, mean_absolute_error, roc_auc_score

import agbm
from agbm import AGBMClassifier, AGBMRegressor

FEW = {"max_iter": 12, "n_jobs": 1}


@pytest.fixture(scope="module")
def halves():
    X, y = load_breast_cancer(return_X_y=True)
    return X[:300], y[:300], X[300:], y[300:]


class TestScores:
    @pytest.mark.parametrize("n_members", [1, 3])
    def test_validation_scores_are_those_of_the_model(self, halves, n_members):
        X, y, X_val, y_val = halves
        weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y_val))
        names = ["roc_auc", "neg_log_loss", "accuracy", "average_precision"]
        model = AGBMClassifier(scoring=names, n_members=n_members, early_stopping=False, **FEW)
        model.fit(X, y, X_val=X_val, y_val=y_val, sample_weight_val=weight)
        for name in names:
            scorer, found = get_scorer(name), model.history_[f"validation_{name}"]
            assert found[-1] == pytest.approx(scorer(model, X_val, y_val, sample_weight=weight), abs=1e-12)
            assert len(found) == 13
        staged = [roc_auc_score(y_val, p[:, 1], sample_weight=weight) for p in model.staged_predict_proba(X_val)]
        np.testing.assert_allclose(model.history_["validation_roc_auc"][1:], staged, atol=1e-12)

    def test_held_out_scores_of_members_are_averaged(self, halves):
        X, y, *_ = halves
        model = AGBMClassifier(scoring="accuracy", n_members=3, validation_fraction=0.2, **FEW).fit(X, y)
        found = model.history_["validation_accuracy"]
        assert (found > 0.5).all()
        whole = found * 3 * 60  # each of the three accuracies is a multiple of 1 / 60
        np.testing.assert_allclose(whole, np.rint(whole), atol=1e-9)

    @pytest.mark.parametrize("n_members", [1, 3])
    def test_watched_rows(self, halves, n_members):
        X, y, X_new, y_new = halves
        weight = np.arange(1.0, len(y_new) + 1)
        watch = {"new": (X_new, y_new), "weighted": (X_new, y_new, weight)}
        model = AGBMClassifier(scoring="roc_auc", n_members=n_members, n_iter_no_change=12, **FEW)
        plain = clone(model).fit(X, y)
        model.fit(X, y, watch=watch)
        assert model.best_iteration_ == plain.best_iteration_
        np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
        last = model.best_iteration_
        probability = model.predict_proba(X_new)
        assert model.history_["new_loss"][last] == pytest.approx(log_loss(y_new, probability), rel=1e-12)
        assert model.history_["new_roc_auc"][last] == pytest.approx(roc_auc_score(y_new, probability[:, 1]), rel=1e-12)
        of_weighted = log_loss(y_new, probability, sample_weight=weight)
        assert model.history_["weighted_loss"][last] == pytest.approx(of_weighted, rel=1e-12)

    def test_classes_of_text_and_several_outputs(self):
        X, y = load_iris(return_X_y=True)
        names = load_iris().target_names[y]
        model = AGBMClassifier(scoring="f1_macro", early_stopping=False, **FEW).fit(X, names, X_val=X, y_val=names)
        assert model.history_["validation_f1_macro"][-1] == get_scorer("f1_macro")(model, X, names)
        X, y = load_diabetes(return_X_y=True)
        both = np.column_stack([y, -y])
        model = AGBMRegressor(scoring="r2", early_stopping=False, **FEW).fit(X, both, X_val=X, y_val=both)
        assert model.history_["validation_r2"][-1] == pytest.approx(model.score(X, both), rel=1e-12)

    def test_tables_and_sparse_matrices(self, halves):
        X, y, X_new, y_new = halves
        dense = AGBMClassifier(scoring="roc_auc", **FEW).fit(X, y, watch={"new": (X_new, y_new)})
        frames = [pd.DataFrame(part).add_prefix("f") for part in (X, X_new)]
        of_frame = clone(dense).fit(frames[0], y, watch={"new": (frames[1], y_new)})
        of_sparse = clone(dense).fit(csr_matrix(X), y, watch={"new": (csr_matrix(X_new), y_new)})
        for other in (of_frame, of_sparse):
            np.testing.assert_array_equal(other.history_["new_roc_auc"], dense.history_["new_roc_auc"])

    def test_batches_have_scores_of_validation_rows(self, halves):
        X, y, X_val, y_val = halves
        model = AGBMClassifier(scoring="roc_auc", **FEW)
        whole = clone(model).fit(X, y, X_val=X_val, y_val=y_val, sample_weight_val=np.arange(len(y_val)))
        batches = agbm.Batches(lambda: iter([(X[:100], y[:100]), (X[100:], y[100:])]))
        model.fit(batches, X_val=X_val, y_val=y_val, sample_weight_val=np.arange(len(y_val)))
        for name in ("validation_roc_auc", "validation_loss"):
            np.testing.assert_array_equal(model.history_[name], whole.history_[name])
        with pytest.raises(ValueError, match=r"watch=\['new'\] needs X as a table"):
            model.fit(batches, watch={"new": (X_val, y_val)})


class TestStopping:
    def test_at_the_best_score(self, halves):
        X, y, X_val, y_val = halves
        model = AGBMClassifier(scoring=["roc_auc", "accuracy"], n_iter_no_change=5).fit(X, y, X_val=X_val, y_val=y_val)
        found = model.history_["validation_roc_auc"]
        assert model.best_iteration_ == np.argmax(found)
        assert model.n_iter_ == model.best_iteration_ + 5
        by_accuracy = clone(model).set_params(scoring="accuracy").fit(X, y, X_val=X_val, y_val=y_val)
        assert by_accuracy.best_iteration_ == np.argmax(by_accuracy.history_["validation_accuracy"])

    def test_by_a_metric_to_minimise(self):
        X, y = load_diabetes(return_X_y=True)
        absolute = make_scorer(mean_absolute_error, greater_is_better=False)
        model = AGBMRegressor(scoring={"error": absolute}, n_members=1, early_stopping=True).fit(X, y)
        assert model.best_iteration_ == np.argmax(model.history_["validation_error"])
        assert (model.history_["validation_error"] < 0).all()

    def test_by_a_function(self, halves):
        X, y, X_val, y_val = halves

        def share_found(estimator, X, y):
            return float(np.mean(estimator.predict(X)[y == 1]))

        model = AGBMClassifier(scoring=share_found, **FEW).fit(X, y, X_val=X_val, y_val=y_val)
        last = model.history_["validation_share_found"][model.best_iteration_]
        assert last == np.mean(model.predict(X_val)[y_val == 1])

    @pytest.mark.parametrize(
        "metric",
        [
            lambda y_true, y_pred: ("mae", np.abs(y_true - y_pred).mean(), False),
            lambda y_true, y_pred, weight: ("mae", np.average(np.abs(y_true - y_pred), weights=weight), False),
            lambda y_pred, data: (
                "mae",
                np.average(np.abs(data.get_label() - y_pred), weights=data.get_weight()),
                False,
            ),
            lambda y_true, y_pred, sample_weight=None: ("accuracy", -mean_absolute_error(y_true, y_pred), True),
        ],
        ids=["pair", "weight", "data", "optional weight"],
    )
    def test_by_a_metric_of_another_library(self, metric):
        X, y = load_diabetes(return_X_y=True)
        expected = AGBMRegressor(scoring="neg_mean_absolute_error").fit(X, y)
        model = AGBMRegressor(scoring={"mae": metric}).fit(X, y)
        np.testing.assert_allclose(
            model.history_["validation_mae"], expected.history_["validation_neg_mean_absolute_error"], rtol=1e-12
        )
        assert model.best_iteration_ == expected.best_iteration_

    def test_metrics_of_other_libraries_get_what_these_pass(self, halves):
        X, y, X_val, y_val = halves
        seen = []

        def metric(y_true, y_pred, weight):
            seen.append((y_true, y_pred, weight))
            return "constant", 1.0, True

        def fitted(model, y, y_val):
            model.set_params(scoring=metric, **FEW).fit(X, y, X_val=X_val, y_val=y_val, sample_weight_val=y_val_weight)
            return model, *seen[-1]

        y_val_weight = np.arange(1.0, len(y_val) + 1)
        names = np.array(["a", "b"])
        model, y_true, y_pred, weight = fitted(AGBMClassifier(), names[y], names[y_val])
        np.testing.assert_array_equal(y_true, y_val)
        np.testing.assert_allclose(weight / weight[0], y_val_weight)
        assert y_pred.shape == (len(y_val),)
        assert ((y_pred > 0.0) & (y_pred < 1.0)).all()
        model, y_true, y_pred, _ = fitted(AGBMClassifier(), y + 5 * (X[:, 0] > 14), y_val + 5 * (X_val[:, 0] > 14))
        np.testing.assert_array_equal(model.classes_[y_true], y_val + 5 * (X_val[:, 0] > 14))
        np.testing.assert_allclose(y_pred.sum(axis=1), 1.0)
        _, _, y_pred, _ = fitted(
            AGBMClassifier(loss=lambda y, f: (1.0 / (1.0 + np.exp(-f)) - y, np.full(len(y), 0.25))), y, y_val
        )
        assert y_pred.shape == (len(y_val),)
        assert (y_pred < 0.0).any()

    def test_metrics_of_groups_are_refused(self):
        X, y = load_diabetes(return_X_y=True)
        with pytest.raises(TypeError, match=r"scoring=.* 4 are required"):
            AGBMRegressor(scoring=lambda y_true, y_pred, weight, group: ("ndcg", 1.0, True)).fit(X, y)

    def test_by_the_training_loss(self):
        X, y = load_diabetes(return_X_y=True)
        model = AGBMRegressor(
            early_stopping=True,
            validation_fraction=None,
            n_iter_no_change=3,
            learning_rate=0.5,
            max_iter=2000,
        )
        model.fit(X, y)
        loss = model.history_["train_loss"]
        assert np.isnan(model.history_["validation_loss"]).all()
        assert 3 < model.n_iter_ < 2000
        assert model.best_iteration_ == np.argmin(loss)
        assert loss[-4] - loss[-1] <= 3e-3 * (loss[0] - loss[-1])
        scored = clone(model).set_params(scoring="r2").fit(X, y)
        best = scored.history_["train_r2"][scored.best_iteration_]
        assert best == pytest.approx(scored.score(X, y), rel=1e-12)

    def test_weights_of_validation_rows_are_repetitions_and_change_no_tree(self, halves):
        X, y, X_val, y_val = halves
        counts = np.random.default_rng(1).integers(0, 4, len(y_val))
        one = AGBMClassifier(early_stopping=False, **FEW)
        weighted = clone(one).fit(X, y, X_val=X_val, y_val=y_val, sample_weight_val=counts)
        rows = np.repeat(np.arange(len(y_val)), counts)
        repeated = clone(one).fit(X, y, X_val=X_val[rows], y_val=y_val[rows])
        plain = clone(one).fit(X, y)
        np.testing.assert_array_equal(weighted.history_["validation_loss"], repeated.history_["validation_loss"])
        np.testing.assert_array_equal(weighted.predict_proba(X), plain.predict_proba(X))
        trained = clone(one).fit(X, y, np.arange(1, 301), X_val=X_val, y_val=y_val, sample_weight_val=counts)
        assert trained.history_["validation_loss"][0] != weighted.history_["validation_loss"][0]


class TestDisplay:
    def test_the_bar_names_the_scores_and_the_best(self, halves, capsys):
        X, y, X_val, y_val = halves
        model = AGBMClassifier(scoring="auc", verbose=1, **FEW).fit(X, y, watch={"new": (X_val, y_val)})
        last = capsys.readouterr().err.splitlines()[-1]
        assert "validation auc 0.9" in last
        assert "new loss" in last
        assert f"at {model.best_iteration_}" in last

    def test_a_chart_of_a_metric(self, halves):
        X, y, X_val, y_val = halves
        model = AGBMClassifier(scoring="accuracy", **FEW).fit(X, y, watch={"new": (X_val, y_val)})
        ax = agbm.plot.convergence(model, "iterations", metric="accuracy")
        lines = {len(line.get_xdata()): line.get_ydata() for line in ax.lines}
        assert set(lines) == {13, 1}
        drawn = [line.get_ydata() for line in ax.lines if len(line.get_xdata()) == 13]
        np.testing.assert_array_equal(drawn, [model.history_[f"{name}_accuracy"] for name in ("new", "validation")])
        best = model.best_iteration_
        assert (lines[1][0], ax.get_ylabel()) == (model.history_["validation_accuracy"][best], "accuracy")
        assert [text.get_text() for text in ax.get_legend().texts] == ["validation", "new", "best iteration"]
        with pytest.raises(ValueError, match="metric='r2': 'agbm' has not recorded it; fit with scoring='r2'"):
            agbm.plot.convergence(model, metric="r2")

    def test_scores_named_like_losses_are_not_drawn_as_losses(self, halves):
        X, y, X_val, y_val = halves
        scoring = {"neg_log_loss": "neg_log_loss", "auc": "roc_auc", "pr_auc": "average_precision"}
        rows = {"new": (X_val, y_val), "new_neg_log": (X, y)}
        model = AGBMClassifier(scoring=scoring, **FEW)
        with pytest.raises(ValueError, match=r"'new' and 'new_neg_log' would both have the column 'new_neg_log_loss'"):
            model.fit(X, y, watch=rows)
        model.fit(X, y, watch={"new": rows["new"], "neg_log": rows["new_neg_log"]})
        drawn = {
            "loss": ["train", "new", "neg_log", "validation"],
            "neg_log_loss": ["new", "neg_log", "validation"],
            "auc": ["new", "neg_log", "validation"],
        }
        for metric, names in drawn.items():
            ax = agbm.plot.convergence(model, "iterations", metric=metric)
            lines = [line.get_ydata() for line in ax.lines if len(line.get_xdata()) == 13]
            np.testing.assert_array_equal(lines, [model.history_[f"{name}_{metric}"] for name in names])
        assert min(model.history_["validation_neg_log_loss"]) < 0.0 < min(model.history_["validation_loss"])
        for metric in ("log_loss", "c"):
            with pytest.raises(ValueError, match=f"metric='{metric}': 'agbm' has not recorded it"):
                agbm.plot.convergence(model, metric=metric)
        with pytest.raises(ValueError, match=r"log=True needs positive values, but the new neg_log_loss of 'agbm'"):
            agbm.plot.convergence(model, metric="neg_log_loss", log=True)
        result = agbm.cv(AGBMClassifier(scoring=scoring, **FEW), X, y, cv=2)
        ax = agbm.plot.convergence(result, "iterations")
        lines = [line.get_ydata() for line in ax.lines if len(line.get_xdata()) > 1]
        wanted = [result.history[f"{name}_loss_mean"] for name in ("train", "validation")]
        np.testing.assert_array_equal(lines, wanted)


class TestFiles:
    def test_scores_are_kept(self, halves, tmp_path):
        X, y, X_val, y_val = halves
        model = AGBMClassifier(scoring="roc_auc", **FEW).fit(X, y, watch={"new": (X_val, y_val)})
        model.save(tmp_path / "model.agbm")
        loaded = agbm.load(tmp_path / "model.agbm")
        assert list(loaded.history_) == list(model.history_)
        for name in model.history_.keys() - {"seconds"}:
            np.testing.assert_array_equal(loaded.history_[name], model.history_[name])
        assert loaded.scoring == "roc_auc"
        loaded.set_params(warm_start=True, max_iter=20).fit(X, y)
        assert len(loaded.history_["validation_roc_auc"]) == loaded.n_iter_ + 1

    def test_functions_are_not_kept(self, halves, tmp_path):
        X, y, *_ = halves
        model = AGBMClassifier(scoring=get_scorer("roc_auc"), **FEW).fit(X, y)
        model.save(tmp_path / "model.agbm")
        assert agbm.load(tmp_path / "model.agbm").scoring is None


class TestErrors:
    @pytest.mark.parametrize(
        ("scoring", "message"),
        [
            ("rocauc", r"scoring='rocauc' must be a callable or the name of a scorer .* roc_auc"),
            ("rmse", "similar names: neg_root_mean_squared_error"),
            ("?", r"get_scorer_names\(\) lists all"),
            ([], r"scoring=\[\] has no metrics"),
            ("loss", "'loss' is always recorded"),
            (3, "The 'scoring' parameter"),
        ],
    )
    def test_of_scoring(self, halves, scoring, message):
        with pytest.raises(ValueError, match=message):
            AGBMClassifier(scoring=scoring, **FEW).fit(*halves[:2])

    @pytest.mark.parametrize(
        ("metric", "why"),
        [
            (lambda y_true, y_pred: 0.5, r"it returned 0.5"),  # XGBoost's
            (lambda y_pred, data: ("error", 0.5), r"it returned \('error', 0.5\)"),
            (lambda estimator, X, y: ("error", 0.5, False), r"it returned \('error', 0.5, False\)"),
            (lambda y_true: 0.5, r"its arguments are \(y_true\)"),
            (accuracy_score, r"its arguments are \(y_true, y_pred, \*, normalize=True"),
        ],
    )
    def test_of_metrics_that_are_not_scorers(self, halves, metric, why):
        for scoring in (metric, {"named": metric}):
            with pytest.raises(TypeError, match=rf"must be a scorer\(estimator, X, y\) .*{why}.*make_scorer\(metric"):
                AGBMClassifier(scoring=scoring, **FEW).fit(*halves[:2])

    @pytest.mark.parametrize(
        ("watch", "message"),
        [
            ({"validation": (1, 2)}, "watch: the name 'validation' must be text other than"),
            ({"train_2": (1, 2)}, r"watch: the name 'train_2' must be .* not begin with 'train_' or 'validation_'"),
            ({3: (1, 2)}, "watch: the name 3 must be text"),
            ({"new": 1}, r"watch\['new'\] must be \(X, y\), .* or \(X, y, sample_weight, offset\); got int"),
            ({"new": (np.ones((2, 4)), [0, 1])}, r"watch\['new'\]: X has 4 features"),
            ({"new": (np.ones((2, 30)), [0, 1], [0, 0])}, r"watch\['new'\]: sample_weight: .* at least one non-zero"),
            ({"new": (np.ones((2, 30)), [0, 7])}, r"watch\['new'\]: .*\[7\]"),
        ],
    )
    def test_of_watch(self, halves, watch, message):
        with pytest.raises(ValueError, match=message):
            AGBMClassifier(**FEW).fit(*halves[:2], watch=watch)

    def test_of_weights(self, halves):
        X, y, X_val, y_val = halves
        with pytest.raises(ValueError, match="sample_weight_val has the weights of X_val, which is not given"):
            AGBMClassifier(**FEW).fit(X, y, sample_weight_val=[1.0])
        with pytest.raises(ValueError, match="X_val: sample_weight"):
            AGBMClassifier(**FEW).fit(X, y, X_val=X_val, y_val=y_val, sample_weight_val=[1.0])
