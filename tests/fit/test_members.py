"""Models of several members: their definition, reproducibility and files."""

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss

import agbm
from agbm import AGBMClassifier, AGBMRegressor, Batches, Checkpoint
from agbm._data.hold_out import both_parts, held_out_rows, seed_of
from profiles import examples
from toys import rewrite
from variants import like_default, methods

SAMPLED = {"colsample_bynode": 0.5, "subsample": 0.8}


def hold_out_parts(*given):
    """The remaining and the held-out rows of each member."""
    held_out = held_out_rows(*given)
    return [both_parts(held_out.rows(part)) for part in range(len(held_out.arcs))]


def members(n=3, **parameters):
    parameters = {"early_stopping": True, "validation_fraction": 1 / n, "max_iter": 15, "max_depth": 2} | parameters
    return {"n_members": n, **parameters}


class TestModel:
    def test_is_the_mean_of_models_of_its_parts(self, regression):
        X, y = regression
        X = np.clip(np.round(X, 2), -0.08, 0.08)  # every part has every value, and so the same thresholds
        model = AGBMRegressor(**members(colsample_bynode=1.0)).fit(X, y)
        parts = hold_out_parts(len(y), 1 / 3, 3, None, seed_of(0))
        one = {"n_members": 1, "learning_rate": 0.15, "colsample_bynode": 1.0, "max_depth": 2, "min_samples_leaf": 2}
        alone = [AGBMRegressor(**one, max_iter=model.best_iteration_).fit(X[train], y[train]) for train, _ in parts]
        np.testing.assert_allclose(model.predict(X), np.mean([m.predict(X) for m in alone], axis=0), rtol=1e-12)
        held_out = [np.mean((m.predict(X[rows]) - y[rows]) ** 2) / 2 for m, (_, rows) in zip(alone, parts, strict=True)]
        assert model.history_["validation_loss"][model.best_iteration_] == pytest.approx(np.mean(held_out), rel=1e-12)
        assert model.n_trees_ == 3 * model.best_iteration_ == model.model_.folded.n_learners

    def test_stops_where_the_mean_validation_loss_is_lowest(self, regression):
        model = AGBMRegressor(**members(max_iter=300, n_iter_no_change=5)).fit(*regression)
        losses = model.history_["validation_loss"]
        assert model.best_iteration_ == np.argmin(losses) < model.n_iter_ < 300

    def test_classes(self):
        X, y = load_iris(return_X_y=True)
        model = AGBMClassifier(**members(5, max_iter=60)).fit(X, y)
        assert log_loss(y, model.predict_proba(X)) < 0.2
        for raw in model.staged_decision_function(X):
            last = raw
        np.testing.assert_allclose(last, model.decision_function(X), rtol=1e-12)
        contributions = model.predict_contributions(X).sum(axis=-1)
        np.testing.assert_allclose(contributions, model.decision_function(X), atol=1e-12)

    def test_with_validation_rows_members_differ_in_random_numbers_only(self, regression):
        X, y = regression
        split = {"X_val": X[300:], "y_val": y[300:]}
        one, three = (
            AGBMRegressor(max_iter=10, learning_rate=0.1, n_members=n, colsample_bynode=1.0).fit(
                X[:300], y[:300], **split
            )
            for n in (1, 3)
        )
        np.testing.assert_allclose(three.predict(X), one.predict(X), rtol=1e-12)
        sampled = AGBMRegressor(max_iter=10, n_members=3, **SAMPLED).fit(X[:300], y[:300], **split)
        trees = sampled.model_.models
        assert trees[0].nodes.tobytes() != trees[sampled.best_iteration_].nodes.tobytes()

    def test_importances_are_those_of_all_members(self, regression):
        model = AGBMRegressor(**members()).fit(*regression)
        counts = sum(
            np.bincount(tree.nodes["feature"][tree.nodes["feature"] >= 0], minlength=10) for tree in model.model_.models
        )
        np.testing.assert_array_equal(model.split_counts_, counts)
        assert model.feature_importances_.sum() == pytest.approx(1.0)

    def test_an_init_model(self, regression):
        X, y = regression
        first = AGBMRegressor(max_iter=5).fit(X, y)
        model = AGBMRegressor(**members(init=first)).fit(X, y)
        assert np.mean((model.predict(X) - y) ** 2) < np.mean((first.predict(X) - y) ** 2)


class TestSameBits:
    @methods
    def test_for_every_number_of_threads(self, method, regression):
        X, y = regression
        models = [AGBMRegressor(**like_default(method), **members(n_jobs=n, **SAMPLED)).fit(X, y) for n in (1, 2, 3, 4)]
        for model in models[1:]:
            np.testing.assert_array_equal(model.predict(X), models[0].predict(X))
            np.testing.assert_array_equal(model.history_["validation_loss"], models[0].history_["validation_loss"])

    def test_with_several_threads_for_each(self):
        X = np.random.default_rng(0).normal(size=(20_000, 6))
        y = X[:, 0] * X[:, 1] + X[:, 2]
        one, several = (AGBMRegressor(n_members=2, max_iter=4, n_jobs=n).fit(X, y) for n in (1, 6))
        np.testing.assert_array_equal(several.predict(X), one.predict(X))

    def test_in_batches(self, regression):
        X, y = regression
        expected = AGBMRegressor(**members(**SAMPLED)).fit(X, y)
        found = AGBMRegressor(**members(**SAMPLED)).fit(
            Batches(lambda: (X[i : i + 50] for i in range(0, len(X), 50))), y
        )
        np.testing.assert_array_equal(found.predict(X), expected.predict(X))

    @methods
    @pytest.mark.parametrize("dropout", [0.0, 0.2])
    def test_continued(self, method, dropout, regression):
        X, y = regression
        settings = like_default(method, dropout=dropout) | members(early_stopping=False, **SAMPLED)
        whole = AGBMRegressor(**settings).fit(X, y)
        model = AGBMRegressor(**settings | {"max_iter": 7, "warm_start": True}).fit(X, y)
        np.testing.assert_array_equal(model.set_params(max_iter=15).fit(X, y).predict(X), whole.predict(X))

    def test_after_an_interruption(self, regression, tmp_path):
        X, y = regression
        checkpoint = Checkpoint(tmp_path / "run", every=2)

        def interrupt(record):
            if record.iteration == 9:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            AGBMRegressor(**members(callbacks=[checkpoint, interrupt], **SAMPLED)).fit(X, y)
        resumed = []
        resume = [checkpoint, lambda record: resumed.append(record.iteration)]
        found = AGBMRegressor(**members(callbacks=resume, **SAMPLED)).fit(X, y)
        assert resumed[0] == 9
        np.testing.assert_array_equal(found.predict(X), AGBMRegressor(**members(**SAMPLED)).fit(X, y).predict(X))

    @methods
    @pytest.mark.parametrize("dropout", [0.0, 0.2])
    def test_saved(self, method, dropout, regression, tmp_path):
        X, y = regression
        model = AGBMRegressor(**like_default(method, dropout=dropout), **members()).fit(X, y)
        model.save(tmp_path / "model.agbm")
        loaded = agbm.load(tmp_path / "model.agbm")
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        for ours, theirs in zip(loaded.staged_predict(X), model.staged_predict(X), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert (loaded.n_members, len(loaded.model_.ensembles), loaded.n_trees_) == (3, 3, model.n_trees_)


class TestFiles:
    @pytest.mark.parametrize(
        ("n_members", "rule"), [(0, "n_members"), (1001, "n_members"), (7, "do not divide"), (True, "n_members")]
    )
    def test_invalid_numbers_of_members_raise(self, n_members, rule, regression, tmp_path):
        path = tmp_path / "model.agbm"
        AGBMRegressor(**members(early_stopping=False)).fit(*regression).save(path)
        rewrite(path, lambda description, arrays: description.update(n_members=n_members))
        with pytest.raises(agbm.ModelFileError, match=rule):
            agbm.load(path)

    def test_a_model_of_two_members(self, regression, tmp_path):
        """Two functions of one forest must not belong to different members."""
        path = tmp_path / "model.agbm"
        AGBMRegressor(**like_default("agbm"), max_iter=3).fit(*regression).save(path)

        def change(description, arrays):
            assert arrays["function_model"].tolist() == [0, 1, 1, 2, 2]
            description["n_members"] = 2
            for name in ("theta", "eta", "alpha", "restart", "n_dropped"):
                arrays[name] = np.resize(arrays[name], 4)
            arrays["primary"], arrays["momentum"] = np.arange(4), np.array([-1, -1, -1, 4])

        rewrite(path, change)
        with pytest.raises(agbm.ModelFileError, match="member 1 shares a model"):
            agbm.load(path)

    def test_another_number_of_members_cannot_be_resumed(self, regression, tmp_path):
        path = tmp_path / "model.agbm"
        AGBMRegressor(**members(early_stopping=False)).fit(*regression).save(path)
        rewrite(path, lambda description, arrays: (description.update(n_members=5), arrays.pop("chain")))
        with pytest.raises(ValueError, match="has 5 members; n_members=3 differs"):
            agbm.load(path).set_params(warm_start=True, max_iter=20).fit(*regression)


class TestFoldsOfMembers:
    @given(
        n_rows=st.integers(5, 60), n_parts=st.integers(2, 6), share=st.floats(0.05, 0.6), n_classes=st.integers(1, 4),
        seed=st.integers(0, 1000),
    )  # fmt: skip
    @examples(60)
    def test_every_row_once_and_every_class_remains(self, n_rows, n_parts, share, n_classes, seed):
        classes = np.random.default_rng(seed).integers(0, n_classes, n_rows)
        try:
            parts = hold_out_parts(n_rows, share, n_parts, classes, seed)
        except ValueError:
            reject()  # a part would have only rows of classes that have no others
        assert len(parts) == n_parts
        for train, held_out in parts:
            np.testing.assert_array_equal(np.sort(np.concatenate([train, held_out])), np.arange(n_rows))
            assert set(classes[train]) == set(classes)
            assert 0 < len(held_out) <= max(np.ceil(share * n_rows) + 1, 1)
        if np.bincount(classes)[classes].min() > np.ceil(share * n_rows) + 1:  # otherwise parts take what can be spared
            times = np.bincount(np.concatenate([held_out for _, held_out in parts]), minlength=n_rows)
            assert times.max() <= np.ceil(share * n_parts) + 1

    def test_where_most_classes_have_a_single_row(self):
        classes = np.arange(400) % 390
        for train, held_out in hold_out_parts(400, 0.1, 5, classes, 0):
            assert set(classes[train]) == set(range(390))
            assert 0 < len(held_out) <= 10
        with pytest.raises(ValueError, match="too few"):
            hold_out_parts(400, 0.1, 5, np.arange(400), 0)

    def test_folds(self):
        parts = hold_out_parts(100, 0.2, 5, np.arange(100) % 2, 0)
        held_out = np.concatenate([rows for _, rows in parts])
        np.testing.assert_array_equal(np.sort(held_out), np.arange(100))
        for _, rows in parts:
            assert abs(np.mean(rows % 2) - 0.5) <= 0.1

    def test_too_few_rows(self):
        with pytest.raises(ValueError, match="2 rows are too few"):
            hold_out_parts(2, 0.9, 2, None, 0)


@pytest.mark.parametrize("value", [0, 1.5, "many", 1001])
def test_invalid_n_members_raises(value, regression):
    with pytest.raises(ValueError, match="n_members"):
        AGBMRegressor(n_members=value).fit(*regression)
