"""Offsets of the raw score, which give the same models as equivalent formulations of the problem."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.metrics import log_loss, mean_poisson_deviance

import agbm
from agbm import AGBMClassifier, AGBMRegressor, Batches, Checkpoint
from agbm.losses import Poisson
from agbm.methods import GBM

PLAIN = {"max_iter": 20, "n_members": 1, "early_stopping": False}
LINEAR = {**PLAIN, "method": GBM(learner=LinearRegression())}


def table(n=600, seed=0):
    """Rounded features, so that every value has its own bin whatever the weights are."""
    return np.random.default_rng(seed).normal(size=(n, 4)).round(1)


@pytest.fixture(scope="module")
def claims():
    """Features, numbers of claims, and exposures."""
    rng, X = np.random.default_rng(1), table()
    exposure = rng.uniform(0.1, 3.0, len(X))
    return X, rng.poisson(exposure * np.exp(0.5 * X[:, 0])).astype(float), exposure


@pytest.fixture(scope="module")
def classes():
    """Features, labels, and scores of another model."""
    rng, X = np.random.default_rng(2), table()
    other = X[:, 0] - X[:, 1]
    return X, (other + X[:, 2] ** 2 + rng.logistic(size=len(X)) > 1.0).astype(int), other


def same(one, other, X, **arguments):
    """Whether two models predict the same bits."""
    method = "predict_proba" if isinstance(one, AGBMClassifier) else "predict"
    return np.array_equal(*(getattr(model, method)(X, **arguments) for model in (one, other)))


class TestEquivalentProblems:
    def test_exposure_is_a_weighted_rate(self, claims):
        """exp(f + log e) - y f is e (exp(f) - (y / e) f): a rate with the exposure as its weight."""
        X, y, exposure = claims
        parameters = {**PLAIN, "loss": "poisson", "l2_regularization": 0.0, "colsample_bynode": 1.0}
        offset = AGBMRegressor(**parameters).fit(X, y, offset=np.log(exposure))
        rate = AGBMRegressor(**parameters).fit(X, y / exposure, sample_weight=exposure)
        np.testing.assert_allclose(offset.predict(X), rate.predict(X), rtol=1e-5)  # weights are rounded to 24 bits
        assert offset.model_.start == pytest.approx(np.log(y.sum() / exposure.sum()), abs=1e-12)
        np.testing.assert_allclose(offset.predict(X, offset=np.log(exposure)), exposure * offset.predict(X))

    @pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "quantile:0.8", "huber:1.0"])
    def test_losses_of_differences(self, loss):
        X, rng = table(), np.random.default_rng(3)
        y, offset = (rng.integers(-40, 40, len(X)) / 4.0 for _ in range(2))  # y - offset is exact
        one = AGBMRegressor(loss=loss, max_iter=20).fit(X, y, offset=offset)
        other = AGBMRegressor(loss=loss, max_iter=20).fit(X, y - offset)
        np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=1e-12, atol=1e-12)
        assert np.array_equal(one.predict(X, offset=offset), one.predict(X) + offset)

    @pytest.mark.parametrize(
        "parameters", [PLAIN, {"max_iter": 20}, {**PLAIN, "method": GBM(dropout=0.3)}, LINEAR], ids=repr
    )
    def test_scores_of_another_model_are_that_model_as_init(self, classes, parameters):
        X, y, _ = classes
        first = AGBMClassifier(max_iter=5, n_members=1).fit(X, y)
        scores = first.decision_function(X)
        one = AGBMClassifier(**parameters, init="zero").fit(X, y, offset=scores)
        other = AGBMClassifier(**parameters, init=FrozenEstimator(first)).fit(X, y)
        np.testing.assert_allclose(one.predict_proba(X, offset=scores), other.predict_proba(X), rtol=1e-12)
        for name in ("train_loss", "validation_loss"):
            assert np.array_equal(one.history_[name], other.history_[name], equal_nan=True)

    def test_offsets_and_an_init_model_add_up(self, classes):
        X, y, scores = classes
        first = AGBMClassifier(max_iter=5, n_members=1).fit(X, y)
        both = AGBMClassifier(**PLAIN, init=FrozenEstimator(first)).fit(X, y, offset=scores)
        sum_ = AGBMClassifier(**PLAIN, init="zero").fit(X, y, offset=first.decision_function(X) + scores)
        assert np.array_equal(both.history_["train_loss"], sum_.history_["train_loss"])

    def test_several_classes(self):
        X, rng = table(), np.random.default_rng(4)
        y = np.argmax(X[:, :3] + rng.gumbel(size=(len(X), 3)), axis=1)
        first = AGBMClassifier(max_iter=5, n_members=1).fit(X, y)
        scores = first.decision_function(X)
        one = AGBMClassifier(**PLAIN, init="zero").fit(X, y, offset=scores)
        other = AGBMClassifier(**PLAIN, init=FrozenEstimator(first)).fit(X, y)
        np.testing.assert_allclose(one.predict_proba(X, offset=scores), other.predict_proba(X), rtol=1e-12)
        prior = AGBMClassifier(**PLAIN).fit(X, y, offset=scores)
        p = AGBMClassifier(max_iter=1, n_members=1, early_stopping=False, learning_rate=1e-300).fit(X, y, offset=scores)
        expected = p.predict_proba(X, offset=scores).mean(axis=0)
        np.testing.assert_allclose(expected, np.bincount(y) / len(y), rtol=1e-9)
        assert prior.history_["train_loss"][0] <= one.history_["train_loss"][0]

    def test_one_offset_for_several_outputs(self):
        X, rng = table(), np.random.default_rng(5)
        y, offset = rng.normal(size=(len(X), 2)), rng.normal(size=len(X))
        one = AGBMRegressor(max_iter=5).fit(X, y, offset=offset)
        other = AGBMRegressor(max_iter=5).fit(X, y, offset=np.column_stack([offset, offset]))
        assert same(one, other, X)
        assert np.array_equal(one.predict(X, offset=offset), one.predict(X) + offset[:, np.newaxis])

    def test_offsets_of_zero_change_no_bit(self, claims, classes):
        fits = ((AGBMRegressor(loss="poisson", max_iter=9), claims), (AGBMClassifier(max_iter=9), classes))
        for model, (X, y, _) in fits:
            plain = model.fit(X, y).model_.raw_predict(X, 1)
            assert np.array_equal(plain, model.fit(X, y, offset=np.zeros(len(y))).model_.raw_predict(X, 1))

    def test_zero_starts_from_the_offsets(self, claims):
        X, y, exposure = claims
        model = AGBMRegressor(loss="poisson", init="zero", **PLAIN).fit(X, y, offset=np.log(exposure))
        assert model.model_.start.tolist() == [0.0]
        assert model.history_["train_loss"][0] == pytest.approx(np.mean(Poisson().value(y, np.log(exposure))))


class TestRows:
    def test_rows_of_weight_zero(self, claims):
        X, y, exposure = claims
        weight = np.arange(len(y)) % 3
        kept = weight > 0
        one = AGBMRegressor(loss="poisson", **PLAIN).fit(X, y, weight, offset=np.log(exposure))
        rows = X[kept], y[kept], weight[kept]
        other = AGBMRegressor(loss="poisson", **PLAIN).fit(*rows, offset=np.log(exposure[kept]))
        assert same(one, other, X)

    def test_counts_are_repetitions(self, claims):
        X, y, exposure = claims
        times = np.arange(len(y)) % 3 + 1
        model = AGBMRegressor(loss="gamma", **PLAIN, min_samples_leaf=5, max_leaf_nodes=8, l2_regularization=1.0)
        one = model.fit(X, y + 1, times, offset=np.log(exposure)).predict(X)
        rows = np.repeat(np.arange(len(y)), times)
        assert np.array_equal(model.fit(X[rows], y[rows] + 1, offset=np.log(exposure[rows])).predict(X), one)

    def test_validation_and_watched_rows_have_their_own(self, claims):
        X, y, exposure = claims
        offset = np.log(exposure)
        model = AGBMRegressor(loss="poisson", n_members=2, max_iter=30, scoring="neg_mean_poisson_deviance")
        model.fit(X[200:], y[200:], None, X[:200], y[:200], offset=offset[200:], offset_val=offset[:200],
                  watch={"again": (X[:200], y[:200], None, offset[:200])})  # fmt: skip
        at = model.best_iteration_
        assert model.history_["validation_loss"][0] != model.history_["train_loss"][0]
        expected = np.mean(Poisson().value(y[:200], np.log(model.predict(X[:200], offset=offset[:200]))))
        assert model.history_["again_loss"][at] == pytest.approx(expected)
        found = mean_poisson_deviance(y[:200], model.predict(X[:200], offset=offset[:200]))
        for name in ("validation", "again"):
            assert model.history_[f"{name}_neg_mean_poisson_deviance"][at] == pytest.approx(-found)

    def test_held_out_rows_keep_their_own(self, classes):
        """If offsets were assigned to other rows, the initial loss would differ."""
        X, y, _ = classes
        model = AGBMClassifier(max_iter=3, n_members=1, early_stopping=True, init="zero")
        model.fit(X, y, offset=20.0 * (y - 0.5))
        assert model.history_["train_loss"][0] == pytest.approx(np.log1p(np.exp(-10.0)))
        assert model.history_["validation_loss"][0] == pytest.approx(np.log1p(np.exp(-10.0)))

    @pytest.mark.parametrize("n_members", [1, 5])
    def test_threads_change_no_bit(self, classes, n_members):
        X, y, scores = classes
        parameters = {"max_iter": 9, "n_members": n_members, "early_stopping": True}
        models = [AGBMClassifier(**parameters, n_jobs=n).fit(X, y, offset=scores) for n in (1, 2)]
        assert same(*models, X, offset=scores)


class TestPrediction:
    def test_every_method_adds_the_offset(self, classes):
        X, y, scores = classes
        model = AGBMClassifier(max_iter=9).fit(X, y, offset=scores)
        found = model.decision_function(X, offset=scores)
        assert np.array_equal(found, model.decision_function(X) + scores)
        np.testing.assert_allclose(model.predict_proba(X, offset=scores)[:, 1], 1.0 / (1.0 + np.exp(-found)))
        assert np.array_equal(model.predict(X, offset=scores), found > 0)
        assert log_loss(y, model.predict_proba(X, offset=scores)) < log_loss(y, model.predict_proba(X))

    def test_stages_end_at_the_prediction(self, classes, claims):
        X, y, scores = classes
        model = AGBMClassifier(max_iter=5).fit(X, y, offset=scores)
        for name in ("predict", "predict_proba", "decision_function"):
            *_, last = getattr(model, f"staged_{name}")(X, offset=scores)
            np.testing.assert_allclose(last, getattr(model, name)(X, offset=scores))
        X, y, exposure = claims
        model = AGBMRegressor(loss="poisson", max_iter=5).fit(X, y, offset=np.log(exposure))
        *_, last = model.staged_predict(X, offset=np.log(exposure))
        np.testing.assert_allclose(last, model.predict(X, offset=np.log(exposure)))

    def test_contributions_and_predictors_leave_it_out(self, claims):
        X, y, exposure = claims
        model = AGBMRegressor(loss="poisson", max_iter=5).fit(X, y, offset=np.log(exposure))
        np.testing.assert_allclose(model.predict_contributions(X).sum(axis=1), np.log(model.predict(X)))
        assert np.array_equal(model.predictor()(X), model.predict(X))
        with pytest.raises(TypeError, match="offset"):
            model.predictor()(X, offset=exposure)

    def test_files(self, claims, tmp_path):
        X, y, exposure = claims
        model = AGBMRegressor(loss="poisson", max_iter=5).fit(X, y, offset=np.log(exposure))
        model.save(tmp_path / "m.agbm")
        assert same(agbm.load(tmp_path / "m.agbm"), model, X, offset=np.log(exposure))


class TestResumedRuns:
    def test_warm_start(self, claims):
        X, y, exposure = claims
        once = AGBMRegressor(loss="poisson", max_iter=12).fit(X, y, offset=np.log(exposure))
        twice = AGBMRegressor(loss="poisson", max_iter=5, warm_start=True).fit(X, y, offset=np.log(exposure))
        twice.set_params(max_iter=12).fit(X, y, offset=np.log(exposure))
        assert same(once, twice, X)
        assert np.array_equal(once.history_["train_loss"], twice.history_["train_loss"])

    @pytest.mark.parametrize("in_batches", [False, True])
    def test_checkpoint_of_other_offsets_raises(self, claims, tmp_path, in_batches):
        X, y, exposure = claims
        offset, file = np.log(exposure), tmp_path / "run.agbm"

        def fit(offset, n, **callbacks):
            rows = Batches(lambda: [X[:300], X[300:]]) if in_batches else X
            return AGBMRegressor(**{**PLAIN, "max_iter": n}, loss="poisson", **callbacks).fit(rows, y, offset=offset)

        fit(offset, 4, callbacks=[Checkpoint(file, every=1)])
        seen = []
        resumed = fit(offset, 9, callbacks=[Checkpoint(file, every=1), lambda record: seen.append(record.iteration)])
        assert min(seen) > 4
        assert same(resumed, fit(offset, 9), X)
        with pytest.raises(ValueError, match="other data or other parameters"):
            fit(offset + (np.arange(len(y)) == 7), 9, callbacks=[Checkpoint(file, every=1)])


class TestBatches:
    def parts(self, n, *arrays):
        cuts = np.linspace(0, len(arrays[0]), n + 1).astype(int)
        return [tuple(None if a is None else a[i:j] for a in arrays) for i, j in pairwise(cuts)]

    @pytest.mark.parametrize("early", [False, True])
    @pytest.mark.parametrize("n", [1, 4])
    def test_the_same_bits(self, claims, n, early):
        X, y, exposure = claims
        offset = np.log(exposure)
        model = AGBMRegressor(loss="tweedie:1.5", max_iter=9, early_stopping=early, n_members=2)
        expected = model.fit(X, y, offset=offset).predict(X)
        for batches, arguments in (
            (self.parts(n, X, y, None, offset), {}),
            (self.parts(n, X, y), {"offset": offset}),
            (self.parts(n, X), {"y": y, "offset": offset}),
        ):
            assert np.array_equal(model.fit(Batches(lambda: batches), **arguments).predict(X), expected)  # noqa: B023

    def test_validation_batches(self, classes):
        X, y, scores = classes
        model = AGBMClassifier(max_iter=9)
        rows = {"X_val": X[:100], "y_val": y[:100], "offset_val": scores[:100]}
        expected = model.fit(X[100:], y[100:], offset=scores[100:], **rows).history_["validation_loss"]
        batches = Batches(lambda: self.parts(3, X[100:], y[100:], None, scores[100:]))
        for more in (rows, {"X_val": Batches(lambda: self.parts(2, X[:100], y[:100], None, scores[:100]))}):
            assert np.array_equal(model.fit(batches, **more).history_["validation_loss"], expected)

    def test_an_init_model(self, classes):
        X, y, scores = classes
        first = FrozenEstimator(AGBMClassifier(max_iter=5, n_members=1).fit(X, y))
        model = AGBMClassifier(max_iter=5, init=first)
        expected = model.fit(X, y, offset=scores).history_["train_loss"]
        batches = Batches(lambda: self.parts(3, X, y, None, scores))
        assert np.array_equal(model.fit(batches).history_["train_loss"], expected)

    def test_a_column_of_a_dataset(self, claims, tmp_path):
        from pyarrow import dataset

        X, y, exposure = claims
        frame = pd.DataFrame(X, columns=list("abcd"))
        model = AGBMRegressor(loss="poisson", max_iter=5)
        expected = model.fit(frame, y, offset=np.log(exposure)).predict(frame)
        frame.assign(y=y, log_exposure=np.log(exposure)).to_parquet(tmp_path / "rows.parquet")
        rows = dataset.dataset(tmp_path / "rows.parquet")
        found = model.fit(rows, "y", offset="log_exposure")
        assert list(found.feature_names_in_) == list("abcd")
        assert np.array_equal(found.predict(frame), expected)
        with pytest.raises(ValueError, match="offset='exposure': the dataset has no such column"):
            model.fit(rows, "y", offset="exposure")

    def test_offsets_that_change_between_passes(self, claims):
        X, y, exposure = claims
        passes = iter(range(9))
        batches = Batches(lambda: [(X, y, None, np.log(exposure) + next(passes))])
        with pytest.raises(ValueError, match="offset has different values than in the previous pass"):
            AGBMRegressor(loss="poisson", max_iter=2).fit(batches)

    @pytest.mark.parametrize(
        ("batches", "arguments", "message"),
        [
            ([(np.ones((4, 1)), np.arange(4), None, np.ones(3))], {}, "offset has shape .3,., X has 4 rows"),
            ([np.ones((4, 1))], {"y": np.arange(4), "offset": np.ones(3)}, "offset has 3 rows, the blocks of X have 4"),
            ([np.ones((4, 1))], {"y": np.arange(4), "offset": "e"}, "offset='e': names of columns work with datasets"),
            ([(1, 2, 3, 4, 5)], {}, "sample_weight, offset.; got a tuple of length 5"),
        ],
    )
    def test_mistakes(self, batches, arguments, message):
        with pytest.raises((ValueError, TypeError), match=message):
            AGBMRegressor().fit(Batches(lambda: batches), **arguments)


class TestMistakes:
    @pytest.mark.parametrize(
        ("offset", "message"),
        [
            (np.ones(599), r"offset has shape \(599,\); it must have shape \(600,\) or \(600, 1\)"),
            (np.ones((600, 2)), r"offset has shape \(600, 2\)"),
            (1.0, r"offset has shape \(\)"),
            (np.full(600, np.nan), "offset has 600 values that are missing or infinite"),
            (np.append(np.ones(599), -np.inf), "offset has 1 values"),
            (["a"] * 600, "offset has text, such as 'a' in row 0; convert it to numbers"),
            (pd.date_range("2026-01-01", periods=600), "offset has dates"),
        ],
    )
    def test_of_fit_and_of_predict(self, claims, offset, message):
        X, y, _ = claims
        model = AGBMRegressor(**PLAIN)
        with pytest.raises(ValueError, match=message):
            model.fit(X, y, offset=offset)
        with pytest.raises(ValueError, match=message):
            model.fit(X, y).predict(X, offset=offset)

    def test_classes_need_an_offset_each(self):
        X = table()
        with pytest.raises(ValueError, match=r"must have shape \(600, 3\)"):
            AGBMClassifier(max_iter=2).fit(X, np.arange(600) % 3, offset=np.ones(600))

    def test_offsets_of_some_rows_raise(self, claims):
        X, y, exposure = claims
        model, offset = AGBMRegressor(max_iter=2), np.log(exposure)
        with pytest.raises(ValueError, match="offset_val=None, but the training rows have offsets"):
            model.fit(X, y, X_val=X, y_val=y, offset=offset)
        with pytest.raises(ValueError, match="offset_val is given, but the training rows have no offsets"):
            model.fit(X, y, X_val=X, y_val=y, offset_val=offset)
        with pytest.raises(ValueError, match=r"offset of watch\['more'\]=None"):
            model.fit(X, y, offset=offset, watch={"more": (X, y)})
        with pytest.raises(ValueError, match="offset_val=None"):
            model.fit(Batches(lambda: [(X, y, None, offset)]), X_val=X, y_val=y)
        with pytest.raises(ValueError, match="offset_val has the offsets of X_val, which is not given"):
            model.fit(X, y, offset=offset, offset_val=offset)

    @pytest.mark.parametrize("name", ["init_score", "base_margin", "baseline"])
    def test_names_of_other_libraries(self, claims, name):
        X, y, exposure = claims
        with pytest.raises(TypeError, match=f"fit has no argument '{name}': pass offset"):
            AGBMRegressor().fit(X, y, **{name: exposure})


def test_metadata_routing(claims):
    """scikit-learn splits offsets like rows, and passes them to fit and predict."""
    import sklearn
    from sklearn.model_selection import cross_val_predict

    X, y, exposure = claims
    first, last = np.arange(300), np.arange(300, 600)
    with sklearn.config_context(enable_metadata_routing=True):
        model = AGBMRegressor(loss="poisson", max_iter=5).set_fit_request(offset=True).set_predict_request(offset=True)
        folds = [(first, last), (last, first)]
        found = cross_val_predict(model, X, y, cv=folds, params={"offset": np.log(exposure)})
    expected = model.fit(X[:300], y[:300], offset=np.log(exposure[:300])).predict(X[300:])
    np.testing.assert_array_equal(found[300:], expected)
