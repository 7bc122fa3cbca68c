"""Regressors with several scores per label: lists of quantiles, and distributions."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri
from sklearn.base import clone
from sklearn.metrics import d2_pinball_score, mean_pinball_loss
from sklearn.model_selection import cross_val_score

import agbm
from agbm import AGBMRegressor, Batches, Checkpoint
from agbm.export import encode, to_lightgbm, to_onnx, to_treelite
from agbm.losses import HistogramDistribution, NormalDistribution, Poisson, Quantile
from agbm.methods import GBM
from distributions import DISTRIBUTIONS
from toys import rewrite

LEVELS = [0.1, 0.5, 0.9]
FAST = {"max_iter": 6, "max_leaf_nodes": 6, "n_members": 1, "early_stopping": False, "n_jobs": 1}
ALL = [Quantile(LEVELS), *(f"distribution:{name}" for name in DISTRIBUTIONS)]


def rows(n=300, seed=0):
    """Counts whose mean depends on the first feature and whose spread depends on the second; some are zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = rng.negative_binomial(np.exp(1.0 + 0.5 * X[:, 1]), 0.3 / (1.0 + np.exp(-X[:, 0])))
    return X, y.astype(float)


def fitted(loss, n=300, **parameters):
    X, y = rows(n)
    shifted = y if isinstance(loss, Quantile) or "zero" in str(loss) else y + 1.0
    return AGBMRegressor(loss=loss, **FAST | parameters).fit(X, shifted), X, shifted


@pytest.mark.parametrize("loss", ALL, ids=str)
class TestEach:
    def test_same_bits_everywhere(self, loss, tmp_path):
        model, X, y = fitted(loss)
        expected = model.model_.raw_predict(X, 1)
        threaded = AGBMRegressor(loss=loss, **FAST | {"n_jobs": 3}).fit(X, y)
        assert np.array_equal(threaded.model_.raw_predict(X, 3), expected)
        batches = Batches(lambda: ((X[i : i + 70], y[i : i + 70]) for i in range(0, len(X), 70)))
        assert np.array_equal(clone(model).fit(batches).model_.raw_predict(X, 1), expected)
        model.save(tmp_path / "model.agbm")
        for other in (agbm.load(tmp_path / "model.agbm"), pickle.loads(pickle.dumps(model))):
            assert np.array_equal(other.model_.raw_predict(X, 1), expected)
            assert np.array_equal(other.predict(X), model.predict(X))

    def test_a_run_can_be_resumed(self, loss, tmp_path):
        model, X, y = fitted(loss)
        resumed = AGBMRegressor(loss=loss, **FAST | {"max_iter": 3, "warm_start": True}).fit(X, y)
        resumed.set_params(max_iter=6).fit(X, y)
        assert np.array_equal(resumed.predict(X), model.predict(X))
        checkpoint = Checkpoint(tmp_path / "run.agbm", every=1)
        AGBMRegressor(loss=loss, callbacks=[checkpoint], **FAST | {"max_iter": 4}).fit(X, y)
        again = AGBMRegressor(loss=loss, callbacks=[checkpoint], **FAST).fit(X, y)
        assert np.array_equal(again.predict(X), model.predict(X))

    def test_the_loss_falls(self, loss):
        model, *_ = fitted(loss, max_iter=20)
        assert model.history_["train_loss"][-1] < model.history_["train_loss"][0]
        assert (np.diff(model.history_["train_loss"]) < 0).mean() >= 0.9

    def test_staged_predictions_end_at_the_prediction(self, loss):
        model, X, _ = fitted(loss)
        stages = list(model.staged_predict(X))
        np.testing.assert_allclose(stages[-1], model.predict(X), rtol=1e-9)
        assert model.predictor()(X).tobytes() == model.predict(X).tobytes()

    def test_contributions_add_up(self, loss):
        model, X, _ = fitted(loss)
        found = model.predict_contributions(X)
        assert found.shape == (len(X), model.model_.n_outputs, 5)
        np.testing.assert_allclose(found.sum(axis=2).T, model.model_.raw_predict(X, 1), rtol=1e-9, atol=1e-9)

    def test_whole_weights_are_repetitions(self, loss):
        _, X, y = fitted(loss)
        weight = np.random.default_rng(1).integers(1, 4, len(y))
        settings = FAST | {"min_samples_leaf": 1}
        weighted = AGBMRegressor(loss=loss, **settings).fit(X, y, weight)
        repeated = AGBMRegressor(loss=loss, **settings).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
        np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-6)

    @pytest.mark.parametrize("mode", ["trees", "leaves", "weights", "all"])
    def test_update(self, loss, mode):
        model, X, y = fitted(loss)
        before = model.predict(X)
        model.update(X[:200], y[:200] + 2.0, mode=mode)
        assert model.predict(X).shape == before.shape
        assert not np.array_equal(model.predict(X), before)

    def test_one_tree_for_all_scores_or_one_for_each(self, loss):
        shared, *_ = fitted(loss)
        own, *_ = fitted(loss, multi_strategy="one_output_per_tree")
        assert shared.n_trees_ == 6
        assert own.n_trees_ == 6 * own.model_.n_outputs

    def test_several_columns_of_y(self, loss):
        X, y = rows()
        with pytest.raises(ValueError, match="needs one label per row; y has 2 columns"):
            AGBMRegressor(loss=loss, **FAST).fit(X, np.column_stack([y, y]))

    def test_offsets_are_added_to_scores(self, loss):
        model, X, _ = fitted(loss)
        offset = np.random.default_rng(2).normal(size=(len(X), model.model_.n_outputs))
        expected = model._labels.predictions(model.model_.loss, model.model_.raw_predict(X, 1) + offset.T)
        assert np.array_equal(model.predict(X, offset=offset), expected)
        with pytest.raises(ValueError, match="offset"):
            model.predict(X, offset=offset[:, 0])

    def test_exports_have_the_raw_scores(self, loss):
        model, X, _ = fitted(loss)
        raw = model.model_.raw_predict(X, 1).T
        import lightgbm
        import onnxruntime
        import treelite

        X32 = encode(model, X).astype(np.float32).astype(float)
        raw = model.model_.raw_predict(X32, 1).T
        booster = lightgbm.Booster(model_str=to_lightgbm(model))
        np.testing.assert_allclose(booster.predict(X32, raw_score=True), raw, rtol=1e-9, atol=1e-9)
        session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
        (name,) = [one.name for one in session.get_inputs()]
        (found,) = session.run(None, {name: X32.astype(np.float32)})
        np.testing.assert_allclose(found, raw, rtol=1e-4, atol=1e-4)
        trees = treelite.gtil.predict(to_treelite(model), X32)
        np.testing.assert_allclose(trees.reshape(raw.shape), raw, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "loss", [loss for loss in ALL if "poisson" not in str(loss) and "neg" not in str(loss)], ids=str
)
def test_the_unit_of_y_does_not_matter(loss):
    """Counts have no unit."""
    model, X, y = fitted(loss)
    scaled = clone(model).fit(X, 1024.0 * y)
    np.testing.assert_allclose(scaled.predict(X), 1024.0 * model.predict(X), rtol=1e-6)


def test_cross_validation():
    X, y = rows()
    found = agbm.cv(AGBMRegressor(loss=Quantile(LEVELS), **FAST), X, y, cv=3)
    assert found.predictions.shape == (len(X), 3)
    assert (np.diff(found.predictions, axis=1) >= 0.0).all()


class TestQuantiles:
    def test_they_never_cross(self):
        """Far fewer rows than quantiles and leaves need: the scores do cross."""
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
        model = AGBMRegressor(loss=Quantile(np.arange(1, 20) / 20), max_iter=50, early_stopping=False, n_members=1)
        model.fit(X, y)
        new = rng.normal(size=(500, 3))
        assert (np.diff(model.model_.raw_predict(new, 1), axis=0) < 0.0).any()
        assert (np.diff(model.predict(new), axis=1) >= 0.0).all()
        for stage in model.staged_predict(new):
            assert (np.diff(stage, axis=1) >= 0.0).all()

    def test_sorting_never_increases_the_loss(self):
        rng = np.random.default_rng(1)
        loss, y, f = Quantile(LEVELS), rng.normal(size=500), rng.normal(size=(3, 500))
        assert (loss.value(y, np.sort(f, axis=0)) <= loss.value(y, f) + 1e-12).all()

    def test_the_loss_is_the_sum_over_quantiles(self):
        rng = np.random.default_rng(2)
        loss, y, f = Quantile(LEVELS), rng.normal(size=50), rng.normal(size=(3, 50))
        one_by_one = [Quantile(level) for level in LEVELS]
        parts = list(zip(one_by_one, f, strict=True))
        np.testing.assert_allclose(loss.value(y, f), sum(one.value(y, s) for one, s in parts), rtol=1e-12)
        assert np.array_equal(loss.negative_gradient(y, f), [one.negative_gradient(y, s) for one, s in parts])
        assert np.array_equal(loss.hessian(y, f), [one.hessian(y, s) for one, s in parts])
        assert np.array_equal(loss.best_constant(y, None), [one.best_constant(y, None) for one in one_by_one])
        expected = sum(mean_pinball_loss(y, s, alpha=level) for level, s in zip(LEVELS, f, strict=True))
        assert loss.total(y, f, None) / 50 == pytest.approx(expected)

    def test_leaves_are_order_statistics(self):
        """With a learning rate of 1, one tree, and no regularization, a prediction is the quantile of its leaf."""
        X, y = rows()
        model = AGBMRegressor(
            method=GBM(second_order=True), loss=Quantile(LEVELS), max_iter=1, learning_rate=1.0, max_leaf_nodes=5,
            l2_regularization=0.0, init="zero", n_members=1, early_stopping=False,
        ).fit(X, y)  # fmt: skip
        leaf = model.apply(X)[:, 0]
        for one in np.unique(leaf):
            inside = np.sort(y[leaf == one])
            ranks = [int(np.ceil(level * len(inside) * (1 - 1e-15))) - 1 for level in LEVELS]
            np.testing.assert_allclose(model.predict(X[leaf == one][:1])[0], inside[ranks])

    def test_a_list_with_one_quantile(self):
        X, y = rows()
        one = AGBMRegressor(loss=Quantile(0.3), **FAST).fit(X, y).predict(X)
        several = AGBMRegressor(loss=Quantile([0.3]), **FAST).fit(X, y).predict(X)
        assert several.shape == (len(X), 1)
        np.testing.assert_allclose(several[:, 0], one, rtol=1e-12)

    def test_losses_by_name(self):
        X, y = rows()
        by_name = AGBMRegressor(loss="quantile:0.1,0.5,0.9", **FAST).fit(X, y)
        assert np.array_equal(by_name.predict(X), fitted(Quantile(LEVELS))[0].predict(X))
        assert repr(Quantile(LEVELS)) == "Quantile(quantile=(0.1, 0.5, 0.9))"

    @pytest.mark.parametrize("wrong", [[], [0.5, 0.1], [0.5, 0.5], [0.0, 0.5], [0.5, 1.0], ["a"], "0.5", None])
    def test_invalid_lists_raise(self, wrong):
        with pytest.raises(ValueError, match=r"quantile=.* must"):
            Quantile(wrong)

    def test_invalid_names_raise(self):
        X, y = rows()
        for name, message in (("quantile:0.5,x", "needs a number"), ("huber:1,2", "takes one number")):
            with pytest.raises(ValueError, match=message):
                AGBMRegressor(loss=name).fit(X, y)

    def test_score_is_the_mean_share_of_the_pinball_loss_explained(self):
        model, X, y = fitted(Quantile(LEVELS), max_iter=30)
        predicted = model.predict(X)
        expected = np.mean([d2_pinball_score(y, predicted[:, k], alpha=level) for k, level in enumerate(LEVELS)])
        assert model.score(X, y) == pytest.approx(expected)
        assert cross_val_score(model, X, y, cv=2).shape == (2,)

    def test_an_outer_quantile_of_skewed_labels(self):
        """The pinball loss is near that of the quantile that the labels were drawn with, and so is the coverage."""
        X = np.random.default_rng(0).normal(size=(8_000, 5))
        mean = 2.0 * X[:, 0] + X[:, 1] ** 2
        y = mean + 0.3 * np.random.default_rng(1).normal(size=8_000)
        best = mean_pinball_loss(y[3_000:], (mean + 0.3 * ndtri(0.99))[3_000:], alpha=0.99)
        found = AGBMRegressor(loss="quantile:0.99").fit(X[:3_000], y[:3_000]).predict(X[3_000:])
        assert mean_pinball_loss(y[3_000:], found, alpha=0.99) < 2.5 * best
        assert 0.97 < (y[3_000:] <= found).mean() < 0.995

    def test_monotone_quantiles(self):
        X, y = rows()
        model = AGBMRegressor(loss=Quantile(LEVELS), monotonic_cst=[1, 0, 0, 0], max_iter=30).fit(X, y)
        grid = np.repeat(X[:20], 30, axis=0)
        grid[:, 0] = np.tile(np.linspace(-3, 3, 30), 20)
        assert (np.diff(model.predict(grid).reshape(20, 30, 3), axis=1) >= -1e-12).all()


class TestDistributions:
    def test_it_learns_mean_and_spread(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (4_000, 3))
        mean, std = 3.0 * X[:, 0], np.exp(X[:, 1])
        y = rng.normal(mean, std)
        found = AGBMRegressor(loss="distribution:normal").fit(X[:3_000], y[:3_000]).predict_dist(X[3_000:])
        assert np.corrcoef(np.log(found.std()), X[3_000:, 1])[0, 1] > 0.9
        assert np.abs(found.mean() - mean[3_000:]).mean() < 0.2
        constant = -np.log(std[3_000:]).mean() - 0.5 * np.log(2 * np.pi) - 0.5
        assert found.logpdf(y[3_000:]).mean() > constant - 0.1  # close to the true distribution

    def test_predict_dist_of_each(self):
        for name in DISTRIBUTIONS:
            model, X, y = fitted(f"distribution:{name}")
            found = model.predict_dist(X)
            assert found.mean().shape == found.ppf(0.9).shape == (len(X),)
            np.testing.assert_allclose(found.mean(), model.predict(X), rtol=1e-9)
            assert found.rvs(size=(2, len(X)), random_state=0).shape == (2, len(X))
            assert np.isfinite(found.cdf(y)).all()

    def test_poisson(self):
        X, y = rows()
        model = AGBMRegressor(loss=Poisson(), **FAST).fit(X, y)
        np.testing.assert_allclose(model.predict_dist(X).var(), model.predict(X))

    def test_losses_without_a_distribution(self):
        X, y = rows()
        with pytest.raises(ValueError, match="predict_dist\\(\\) needs a loss that is a distribution: 'distribution:"):
            AGBMRegressor(**FAST).fit(X, y).predict_dist(X)

    def test_unknown_names(self):
        X, y = rows()
        with pytest.raises(ValueError, match="must be followed by one of 'normal', 'lognormal'"):
            AGBMRegressor(loss="distribution:cauchy").fit(X, y)

    def test_an_init_model(self):
        X, y = rows()
        start = AGBMRegressor(**FAST).fit(X, y)
        with pytest.raises(ValueError, match="use init='prior' or init='zero'"):
            AGBMRegressor(loss=NormalDistribution(), init=start, **FAST).fit(X, y)

    @pytest.mark.parametrize("name", ["normal", "zero_inflated_poisson", "zero_inflated_gamma"])
    def test_the_mean_is_monotone(self, name):
        X, y = rows()
        model = AGBMRegressor(loss=f"distribution:{name}", monotonic_cst=[-1, 0, 0, 0], max_iter=30).fit(X, y)
        grid = np.repeat(X[:20], 30, axis=0)
        grid[:, 0] = np.tile(np.linspace(-3, 3, 30), 20)
        assert (np.diff(model.predict(grid).reshape(20, 30), axis=1) <= 1e-12).all()

    def test_two_peaks(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(1_500, 2))
        y = np.where(rng.random(1_500) < 0.5, -3.0, 3.0) + 0.3 * rng.normal(size=1_500)
        found = AGBMRegressor(loss=HistogramDistribution(30), max_iter=30).fit(X, y).predict_dist(X[:5])
        assert (np.abs(found.cdf(0.0) - 0.5) < 0.15).all()
        assert (found.cdf(1.5) - found.cdf(-1.5) < 0.05).all()
        with pytest.raises(ValueError, match="the mean of a histogram is not monotone"):
            AGBMRegressor(loss="distribution:histogram", monotonic_cst=[1, 0]).fit(X, y)

    @pytest.mark.parametrize(
        "made_of",  # labels that rise with uniform random numbers u, for each of three values of a feature
        [
            pytest.param(lambda x, u: np.exp(0.8 * x + ndtri(u)), id="skewed"),
            pytest.param(lambda x, u: np.exp(0.8 * x + 1.5 * ndtri(u)), id="very skewed"),
            pytest.param(lambda x, u: np.where(np.arange(len(u)) == 7, 1e6, 10.0 + x + ndtri(u)), id="one outlier"),
            pytest.param(lambda x, u: np.maximum(-np.log1p(-u) - 2.0 + 0.5 * x, 0.0), id="zeros"),
            pytest.param(lambda x, u: np.floor(6.0 * u ** np.exp(-0.5 * x)), id="integers"),
            pytest.param(lambda x, u: np.where(u < 0.5 + 0.3 * x, -1.0, 4.0), id="two values"),
            pytest.param(lambda x, u: u + x, id="uniform"),
        ],
    )
    def test_histograms_of_skewed_labels(self, made_of):
        rng = np.random.default_rng(0)
        X = np.column_stack([rng.integers(-1, 2, 6_000), rng.normal(size=6_000)])
        y = made_of(X[:, 0], rng.random(6_000))
        model = AGBMRegressor(loss="distribution:histogram").fit(X[:3_000], y[:3_000])
        assert model.predict(X[:3_000]).mean() == pytest.approx(y[:3_000].mean(), rel=0.05)
        X, y = X[3_000:], y[3_000:]
        found = model.predict_dist(X)
        np.testing.assert_allclose(model.predict(X), found.mean())
        for share in (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95):
            at = found.ppf(share)
            for value in (-1, 0, 1):
                rows = X[:, 0] == value
                assert (y < at)[rows].mean() - 0.07 < share < (y <= at)[rows].mean() + 0.07
        for share in (0.5, 0.9):
            low, high = found.interval(share)
            assert ((low <= y) & (y <= high)).mean() > share - 0.03
            if len(np.unique(y)) == len(y):
                assert ((low <= y) & (y <= high)).mean() < share + 0.04

    def test_weights_of_histograms_are_repetitions(self):
        X, y = rows()
        repeats = np.random.default_rng(1).integers(1, 4, len(y))
        sizes = FAST | {"min_samples_leaf": 5}
        model = AGBMRegressor(loss=HistogramDistribution(6), **sizes).fit(X, y, sample_weight=repeats)
        repeated = AGBMRegressor(loss=HistogramDistribution(6), **sizes)
        repeated.fit(np.repeat(X, repeats, axis=0), np.repeat(y, repeats))
        assert repeated.model_.loss.pieces == model.model_.loss.pieces
        assert np.array_equal(repeated.predict(X), model.predict(X))

    def test_constant_labels(self):
        with pytest.raises(ValueError, match=r"y has only one value, 3\.0"):
            AGBMRegressor(loss="distribution:normal", **FAST).fit(np.ones((9, 1)), np.full(9, 3.0))

    def test_early_stopping_does_not_wait_for_the_spread_to_overfit(self):
        """The mean is about as good as that of the squared error, although training residuals are too small."""
        errors = []
        for seed in range(3):
            rng = np.random.default_rng(seed)
            X = rng.normal(size=(3_000, 6))
            mean = 1.5 * X[:, 0] + X[:, 1] * X[:, 2]
            y = mean + rng.normal(size=3_000)
            for loss in ("distribution:normal", "squared_error"):
                model = AGBMRegressor(loss=loss, n_jobs=1).fit(X[:1_000], y[:1_000])
                errors.append(np.sqrt(((model.predict(X[1_000:]) - mean[1_000:]) ** 2).mean()))
        assert sum(errors[::2]) < 1.1 * sum(errors[1::2])

    def test_score_is_that_of_the_mean(self):
        model, X, y = fitted("distribution:normal", max_iter=30)
        assert model.score(X, y) == pytest.approx(1 - ((y - model.predict(X)) ** 2).mean() / y.var())


def test_files_with_wrong_quantiles(tmp_path):
    model, *_ = fitted(Quantile(LEVELS))
    model.save(tmp_path / "good.agbm")
    for wrong in ([0.5, 0.1, 0.9], [0.5], 0.5, [], "x", [[0.1], 0.5, 0.9]):
        path = tmp_path / "bad.agbm"
        path.write_bytes((tmp_path / "good.agbm").read_bytes())
        rewrite(path, lambda description, _, wrong=wrong: description["loss"]["made_of"].update(quantile=wrong))
        with pytest.raises(agbm.ModelFileError):
            agbm.load(path)


def test_files_with_wrong_histograms(tmp_path):
    X, y = rows()
    model = AGBMRegressor(loss=HistogramDistribution(8), **FAST).fit(X, np.maximum(y - 9.5, 0.0))
    pieces = model.model_.loss.pieces
    assert pieces[0].low == pieces[0].high == 0.0
    assert pieces[-1].high == np.inf
    model.save(tmp_path / "good.agbm")
    assert agbm.load(tmp_path / "good.agbm").model_.loss.pieces == pieces
    for wrong in (None, [], [[0, 1.0]], [[0, 0.0, 0.0, 0.0, 1.0], "x"], 7, "x"):
        path = tmp_path / "bad.agbm"
        path.write_bytes((tmp_path / "good.agbm").read_bytes())
        rewrite(path, lambda description, _, wrong=wrong: description["loss"]["made_of"].update(pieces=wrong))
        with pytest.raises(agbm.ModelFileError):
            agbm.load(path)


def test_tables_with_categories_and_names():
    X, y = rows()
    table = pd.DataFrame(X, columns=list("abcd"))
    table["kind"] = pd.Categorical(np.where(X[:, 0] > 0, "high", "low"))
    model = AGBMRegressor(loss=Quantile(LEVELS), **FAST).fit(table, y)
    assert model.predict(table.iloc[:5]).shape == (5, 3)


WITH_SPREAD = ["normal", "lognormal", "student_t", "gamma", "negative_binomial", "zero_inflated_gamma"]


def levelled(name, **parameters):
    """A model with a level of its spread, which the last rows determine."""
    X, y = rows(500)
    y = y if name.startswith("zero") else y + 1.0
    given = {"early_stopping": True, "max_iter": 40, "n_iter_no_change": 10, **parameters}
    model = AGBMRegressor(loss=f"distribution:{name}", **FAST | given)
    return model.fit(X[:300], y[:300], X_val=X[300:], y_val=y[300:]), X, y


class TestLevelsOfSpreads:
    @pytest.mark.parametrize("name", WITH_SPREAD)
    def test_they_fit_the_validation_rows(self, name):
        model, X, y = levelled(name)
        loss, levels, best = model.model_.loss, model.history_["spread_level"], model.best_iteration_
        raw = model.model_.raw_predict(X[300:], 1)
        assert loss.value(y[300:], raw).mean() == pytest.approx(model.history_["validation_loss"][best], rel=1e-12)
        residual = loss.negative_gradient(y[300:], raw)[loss.traits.spread].mean()
        assert abs(residual) < 0.02 * loss.hessian(y[300:], raw)[loss.traits.spread].mean()
        unlevelled = raw - np.eye(len(raw))[loss.traits.spread][:, np.newaxis] * levels[best]
        assert loss.value(y[300:], unlevelled).mean() > loss.value(y[300:], raw).mean()
        assert np.abs(levels[1:]).min() > 0.0

    @pytest.mark.parametrize("name", WITH_SPREAD[:2])
    def test_every_iteration_has_its_own(self, name):
        model, X, y = levelled(name)
        stages = list(model.model_.staged_raw_predict(X[300:], 1))
        found = [model.model_.loss.value(y[300:], raw).mean() for raw in stages]
        np.testing.assert_allclose(found, model.history_["validation_loss"][1 : len(found) + 1], rtol=1e-12)
        early = model.at_iteration(3).model_.raw_predict(X[300:], 1)
        np.testing.assert_allclose(early, stages[2], rtol=1e-12)

    def test_trees_do_not_depend_on_them(self):
        with_rows, X, y = levelled("normal", early_stopping=False, max_iter=6)
        without = AGBMRegressor(loss="distribution:normal", **FAST).fit(X[:300], y[:300])
        assert "spread_level" not in without.history_
        difference = with_rows.model_.raw_predict(X, 1) - without.model_.raw_predict(X, 1)
        assert np.array_equal(difference[0], np.zeros(500))
        assert difference[1] == pytest.approx(np.full(500, with_rows.history_["spread_level"][-1]))

    def test_members_have_their_own(self):
        X, y = rows(600)
        given = {"n_members": 3, "early_stopping": True, "max_iter": 30}
        model = AGBMRegressor(loss="distribution:gamma", **FAST | given).fit(X, y + 1.0)
        starts = model.model_.calibration.starts
        assert len({*starts[:, 1].tolist()}) == 3
        np.testing.assert_allclose(model.model_.start, starts.mean(axis=0), rtol=1e-12)
        low, high = model.predict_interval(X[:100]).T
        assert ((y[:100] + 1.0 >= low) & (y[:100] + 1.0 <= high)).mean() > 0.8

    def test_updates_keep_them(self):
        model, X, y = levelled("normal")
        before, level = model.history_["spread_level"], model.model_.spread_level
        more = pickle.loads(pickle.dumps(model))
        more.update(X[:200], y[:200], mode="trees", X_val=X[300:], y_val=y[300:], max_iter=10)
        raw, best = more.model_.raw_predict(X[300:], 1), more.best_iteration_
        found = more.model_.loss.value(y[300:], raw).mean()
        assert found == pytest.approx(more.history_["validation_loss"][best], rel=1e-12)
        kept = model.best_iteration_ + 1
        assert np.array_equal(more.history_["spread_level"][:kept], before[:kept])
        assert more.model_.start[1] - model.model_.start[1] == pytest.approx(more.model_.spread_level - level)
        model.update(X[:300], y[:300], mode="leaves")
        of_rows = AGBMRegressor(loss="distribution:normal", **FAST).fit(X[:300], y[:300]).model_.start[1]
        assert model.model_.start[1] == pytest.approx(of_rows + level)
        assert "spread_level" not in model.history_

    def test_verification(self, tmp_path):
        model, X, y = levelled("normal", max_iter=8)
        model.save(tmp_path / "model.agbm")
        other = agbm.load(tmp_path / "model.agbm")
        assert np.array_equal(other.history_["spread_level"], model.history_["spread_level"])
        validation = {"X_val": X[300:], "y_val": y[300:]}
        for iterations in ("all", 2, [1, 3]):
            assert other.verify(X[:300], y[:300], iterations=iterations, **validation)
        other.model_ = replace(other.model_, start=1.01 * other.model_.start)
        assert not other.verify(X[:300], y[:300], **validation)

    def test_cross_validation_has_none(self):
        X, y = rows()
        found = agbm.cv(AGBMRegressor(loss="distribution:normal", **FAST), X, y, cv=2)
        assert "spread_level_mean" not in found.history
        assert all("spread_level" not in one.history_ for one in found.estimators)
