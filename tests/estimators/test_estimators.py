"""The estimators: scikit-learn's rules, bad input, divergence, interruption."""

import copy
import pickle
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

import agbm
from agbm import AGBMClassifier, AGBMRegressor, Checkpoint
from agbm._base import threads
from agbm._data.hold_out import hold_out
from agbm.losses import HalfSquaredError, Huber, Quantile, Tweedie
from agbm.methods import AGBM, GBM, Fading
from variants import METHODS, like_default, made, methods, newton


@pytest.fixture(scope="module")
def binary():
    return load_breast_cancer(return_X_y=True)


@pytest.mark.slow
@parametrize_with_checks(
    [
        estimator(**parameters)
        for estimator in (AGBMRegressor, AGBMClassifier)
        for parameters in (
            {},
            *({"method": method, "max_iter": 20} for method in METHODS),
            {"method": AGBM(shared_structure=True), "max_iter": 20, "multi_strategy": "multi_output_tree"},
            {"n_members": 3, "max_iter": 20, "colsample_bynode": 0.5},
        )
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@methods
def test_every_method_learns(method, regression, binary):
    X, y = regression
    assert cross_val_score(AGBMRegressor(method=method, max_iter=30, max_depth=2), X, y).mean() > 0.35
    X, y = binary
    assert cross_val_score(AGBMClassifier(method=method, max_iter=30), X, y).mean() > 0.94


@pytest.mark.slow
def test_gbm_is_close_to_hist_gradient_boosting(regression, binary):
    """The same algorithm with the same trees: losses must agree closely, on data with as many bins as values."""
    shared = {"max_iter": 40, "learning_rate": 0.1, "min_samples_leaf": 20, "early_stopping": False}
    shared |= {"max_leaf_nodes": 8, "l2_regularization": 0.0}
    only_ours = {"method": GBM(second_order=True), "max_depth": None, "colsample_bytree": 1.0}
    X, y = regression
    X = np.round(X, 2)
    theirs = HistGradientBoostingRegressor(**shared).fit(X, y).predict(X)
    ours = AGBMRegressor(**shared, **only_ours).fit(X, y).predict(X)
    assert np.corrcoef(theirs, ours)[0, 1] > 0.999
    np.testing.assert_allclose(np.mean((ours - y) ** 2), np.mean((theirs - y) ** 2), rtol=0.01)
    X, y = binary
    X = np.round(X, 1)
    theirs = HistGradientBoostingClassifier(**shared).fit(X, y).predict_proba(X)[:, 1]
    ours = AGBMClassifier(**shared, **only_ours).fit(X, y).predict_proba(X)[:, 1]
    np.testing.assert_allclose(np.log(np.abs(ours - 1 + y)).mean(), np.log(np.abs(theirs - 1 + y)).mean(), rtol=0.02)


@pytest.mark.slow
@methods
@pytest.mark.parametrize("shared", [False, True])
@newton
def test_identical_bits_for_every_n_jobs(method, shared, second_order):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 12)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nansum(X[:, :3], axis=1) + rng.normal(size=len(X)) > 0
    models = [
        AGBMClassifier(
            method=made(method, shared_structure=shared, second_order=second_order),
            max_iter=6,
            n_jobs=n,
            random_state=0,
        ).fit(X, y)
        for n in (1, 2, 4)
    ]
    first = models[0]
    for other in models[1:]:
        assert np.array_equal(first.decision_function(X), other.decision_function(X))
        assert np.array_equal(first.model_.folded.nodes, other.model_.folded.nodes)
        assert np.array_equal(first.model_.folded.value, other.model_.folded.value)
        for name in ("train_loss", "validation_loss", "cosine_residual"):
            assert np.array_equal(first.history_[name], other.history_[name], equal_nan=True)


@methods
def test_identical_bits_for_one_and_two_threads_with_columns_drawn(method, regression):
    X, y = regression
    X, y = np.tile(X, (20, 1)), np.tile(y, 20)
    one, two = (
        AGBMRegressor(
            method=made(method, momentum="fading"), colsample_bytree=0.5, max_iter=8, n_jobs=n, random_state=0
        )
        for n in (1, 2)
    )
    assert np.array_equal(one.fit(X, y).predict(X), two.fit(X, y).predict(X))
    assert np.array_equal(one.history_["train_loss"], two.history_["train_loss"])


def test_n_jobs_honours_limits():
    assert threads.resolve(3) == 3
    assert threads.resolve(None) == threads.resolve(-1) >= 1
    with threadpool_limits(limits=1):
        assert threads.resolve(None) == 1


def test_fits_in_several_threads_at_once(regression):
    """The pool serves one caller at a time; the others do their own work."""
    X, y = regression
    expected = AGBMRegressor(max_iter=30, n_jobs=2).fit(X, y).predict(X)
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(AGBMRegressor(max_iter=30, n_jobs=2).fit(X, y).predict(X)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all(np.array_equal(result, expected) for result in results)


@pytest.mark.slow
def test_fit_after_fork():
    """A forked child has none of the parent's threads."""
    run_script(
        """
        import multiprocessing, warnings
        import numpy as np
        from agbm import AGBMRegressor
        warnings.simplefilter("ignore")
        rng = np.random.default_rng(0)
        X = rng.normal(size=(40_000, 5)); y = X[:, 0]
        def fit():
            return AGBMRegressor(max_iter=3, n_jobs=2, early_stopping=False).fit(X, y).predict(X[:5])
        def child(queue):
            queue.put(fit())
        expected = fit()
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        assert np.array_equal(queue.get(timeout=60), expected)
        process.join(60)
        assert np.array_equal(fit(), expected)
        """
    )


def assert_same_model(one, other, X):
    for name in ("feature", "threshold", "left", "missing_left", "count"):
        assert np.array_equal(one.model_.folded.nodes[name], other.model_.folded.nodes[name]), name
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), rtol=1e-9)


def run_script(text):
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, timeout=240, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.slow
def test_interrupt_in_the_middle_of_a_tree():
    """Ctrl-C must not wait for the end of the tree: Python alone would only see it then.

    The signal comes from a thread that cannot run before the kernel has released the interpreter. `extend` calls the
    kernel and keeps what it returns without a step of Python between: a tree that was finished would be in the list.
    """
    run_script(
        """
        import functools, operator, os, signal, sys, threading
        import numpy as np
        from agbm import AGBMRegressor
        from agbm._tree import TreeLearner

        grown, growing = [], threading.Event()

        class Watched:
            def __init__(self, grower):
                self.grower = grower

            def grow(self, **arguments):
                call = functools.partial(self.grower.grow, **arguments)
                sys.setswitchinterval(1e6)
                growing.set()
                grown.extend(map(operator.call, [call]))
                raise SystemExit("was not interrupted")

        def interrupt():
            growing.wait()
            os.kill(os.getpid(), signal.SIGINT)

        rng = np.random.default_rng(0)
        X = rng.normal(size=(200_000, 20)); y = rng.normal(size=len(X))
        model = AGBMRegressor(max_iter=1, early_stopping=False).fit(X, y)
        expected = model.predict(X[:3])
        model.set_params(method="gbm", min_samples_leaf=1, max_depth=None, max_leaf_nodes=20_000)
        grower = TreeLearner._grower
        TreeLearner._grower = lambda *arguments: Watched(grower(*arguments))
        threading.Thread(target=interrupt).start()
        try:
            model.fit(X, y)
        except KeyboardInterrupt:
            sys.setswitchinterval(0.005)
        else:
            raise SystemExit("was not interrupted")
        assert grown == [], "the tree was finished first"
        TreeLearner._grower = grower
        assert AGBMRegressor(max_iter=5).fit(X[:500], y[:500]).predict(X[:3]).shape == (3,)
        assert np.array_equal(model.predict(X[:3]), expected)
        """
    )


@pytest.mark.slow
def test_interrupt_between_trees():
    run_script(
        """
        import os, signal, threading
        import numpy as np
        from agbm import AGBMRegressor
        rng = np.random.default_rng(0)
        X = rng.normal(size=(2000, 20)); y = rng.normal(size=len(X))
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            AGBMRegressor(max_iter=10**7, max_depth=3, learning_rate=1e-3, early_stopping=False).fit(X, y)
        except KeyboardInterrupt:
            pass
        else:
            raise SystemExit("was not interrupted")
        assert AGBMRegressor(max_iter=5).fit(X, y).predict(X[:3]).shape == (3,)
        """
    )


class TestData:
    @methods
    def test_missing_values_are_learned(self, method):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(2000, 3))
        y = (rng.random(2000) < 0.5).astype(int)
        X[y == 1, 1] = np.where(rng.random((y == 1).sum()) < 0.9, np.nan, X[y == 1, 1])
        model = AGBMClassifier(method=method, max_iter=10, max_depth=2).fit(X, y)
        assert model.score(X, y) > 0.9

    def test_columns_that_say_nothing(self):
        X = np.column_stack([np.full(100, np.nan), np.ones(100)])
        y = np.arange(100.0)
        np.testing.assert_allclose(AGBMRegressor(max_iter=5, early_stopping=False).fit(X, y).predict(X), y.mean())

    @methods
    def test_one_row_and_few_rows(self, method):
        for n in (1, 2, 5):
            X, y = np.arange(float(n))[:, np.newaxis], np.arange(float(n))
            assert np.isfinite(AGBMRegressor(method=method, max_iter=5).fit(X, y).predict(X)).all()
        model = AGBMClassifier(method=method, max_iter=5).fit([[0.0], [1.0]], ["no", "yes"])
        assert set(model.predict([[0.0], [1.0]])) <= {"no", "yes"}

    @methods
    def test_rows_without_weight_change_nothing(self, method, binary):
        X, y = binary
        weight = np.arange(len(y)) % 3 + 1.0
        model = AGBMClassifier(method=method, max_iter=6, max_bins=16, early_stopping=True, random_state=0)
        garbage = 10 * X[::-1]
        with_garbage = clone(model).fit(
            np.vstack([X, garbage]), np.append(y, 1 - y), sample_weight=np.append(weight, 0 * weight)
        )
        without = clone(model).fit(X, y, sample_weight=weight)
        assert np.array_equal(with_garbage.decision_function(X), without.decision_function(X))

    @pytest.mark.slow
    @methods
    @pytest.mark.parametrize("shared", [False, True])
    @newton
    def test_a_whole_weight_is_a_repeated_row(self, method, shared, second_order, binary):
        X, y = binary
        weight = np.arange(len(y)) % 4 + 1
        model = AGBMClassifier(
            method=made(method, shared_structure=shared, second_order=second_order),
            max_iter=10,
            max_depth=3,
            max_bins=32,
            early_stopping=False,
        )
        weighted = clone(model).fit(X, y, sample_weight=weight)
        repeated = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
        assert_same_model(weighted, repeated, X)

    @pytest.mark.parametrize(
        "parameters",
        [
            {"method": made("gbm", line_search=True)},
            {"method": made("vagbm", momentum="theory")},
            {"method": made("agbm", momentum="theory")},
            {"method": made("agbm", correction=1.0), "learning_rate": 3.0},
        ],
        ids=str,
    )
    def test_whole_weights_reach_every_part(self, parameters, binary):
        X, y = binary
        weight = np.arange(len(y)) % 4 + 1
        settings = {"max_iter": 10, "max_depth": 3, "max_bins": 32, **parameters}
        weighted = AGBMClassifier(**settings).fit(X, y, sample_weight=weight)
        repeated = AGBMClassifier(**settings).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
        assert_same_model(weighted, repeated, X)
        for name in ("train_loss", "cosine_residual", "cosine_corrected", "momentum"):
            np.testing.assert_array_equal(weighted.history_[name], repeated.history_[name])

    def test_held_out_rows_are_weighted(self, regression):
        X, y = regression
        weight = np.arange(len(y)) % 5 + 0.5
        model = AGBMRegressor(n_members=1, early_stopping=True, max_iter=3, random_state=0)
        model.fit(X, y, sample_weight=weight)
        seed = model.model_.seed
        train, held_out = hold_out(len(y), 0.1, None, seed)
        prior = np.average(y[train], weights=weight[train])
        expected = np.average((y[held_out] - prior) ** 2 / 2, weights=weight[held_out])
        assert model.history_["validation_loss"][0] == pytest.approx(expected)

    def test_classes_without_weight_are_no_classes(self, binary):
        X, y = binary
        with pytest.raises(ValueError, match=r"only one class \(1\)"):
            AGBMClassifier().fit(X, y, sample_weight=y)

    @pytest.mark.slow
    @methods
    @pytest.mark.parametrize("scale", [1e-9, 1e9])
    def test_the_scale_of_the_weights_does_not_matter(self, method, scale, binary):
        X, y = binary
        weight = np.arange(len(y)) % 3 + 1.3
        model = AGBMClassifier(method=method, max_iter=10, max_depth=3)
        one = clone(model).fit(X, y, sample_weight=weight).decision_function(X)
        other = clone(model).fit(X, y, sample_weight=scale * weight).decision_function(X)
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)

    def test_nullable_and_odd_arrays(self, regression):
        X, y = regression
        holes = X.copy()
        holes[::7, 3] = np.nan
        expected = AGBMRegressor(max_iter=5).fit(holes, y).predict(holes)
        packed = np.zeros(len(X), dtype=[("flag", "i1"), ("x", "f8", X.shape[1])])
        packed["x"] = holes
        for table in (
            pd.DataFrame(holes).astype("Float64"),
            np.asfortranarray(holes),
            packed["x"],
            np.repeat(holes, 2, axis=1)[:, ::2],
        ):
            model = AGBMRegressor(max_iter=5).fit(table, y)
            assert np.array_equal(model.predict(table), expected)

    @methods
    def test_equal_weights_change_nothing(self, method, regression):
        X, y = regression
        model = AGBMRegressor(method=method, max_iter=10, max_depth=3)
        plain = clone(model).fit(X, y).predict(X)
        assert np.array_equal(clone(model).fit(X, y, sample_weight=np.ones(len(y))).predict(X), plain)
        weighted = clone(model).fit(X, y, sample_weight=np.full(len(y), 2.5)).predict(X)
        np.testing.assert_allclose(weighted, plain, rtol=1e-9)

    def test_data_frames_and_names(self, regression):
        X, y = load_diabetes(return_X_y=True, as_frame=True)
        model = AGBMRegressor(max_iter=10).fit(X, y)
        assert list(model.feature_names_in_) == list(X.columns)
        with pytest.raises(ValueError, match="feature names"):
            model.predict(X.rename(columns={"age": "years"}))

    def test_string_labels_and_their_order(self, binary):
        X, y = binary
        labels = np.where(y == 1, "benign", "malign")
        model = AGBMClassifier(max_iter=20).fit(X, labels)
        assert list(model.classes_) == ["benign", "malign"]
        assert model.score(X, labels) > 0.95
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
        assert np.array_equal(model.predict(X) == "malign", model.decision_function(X) > 0)
        for staged in (model.staged_predict(X), model.staged_predict_proba(X), model.staged_decision_function(X)):
            assert len(list(staged)) == 20

    def test_float32_is_used_as_it_is(self, regression):
        X, y = regression
        X = X.astype(np.float32)
        one = AGBMRegressor(max_iter=10).fit(X, y)
        other = AGBMRegressor(max_iter=10).fit(X.astype(np.float64), y)
        assert np.array_equal(one.predict(X), other.predict(X.astype(np.float64)))


class TestLosses:
    @pytest.mark.slow
    @methods
    @newton
    @pytest.mark.parametrize(
        "loss", ["absolute_error", Quantile(0.8), Huber(20.0), "poisson", "gamma", Tweedie(1.5)], ids=str
    )
    def test_regression(self, method, second_order, loss, regression):
        X, y = regression
        step, weights = 0.1, {"momentum": "fading"}
        if not second_order:  # then the step has the units of y, or of its inverse
            step = {"absolute_error": 5.0, "Quantile": 5.0, "poisson": 0.002}.get(
                loss if isinstance(loss, str) else type(loss).__name__, 0.1
            )
            weights = {"momentum": 0.02, "entry": 1.0}
        model = AGBMRegressor(
            method=made(method, **weights, second_order=second_order),
            loss=loss, max_iter=30, max_depth=3, learning_rate=step,
        )  # fmt: skip
        model.fit(X, y)
        losses = model.history_["train_loss"]
        deviance = losses - model.model_.loss.value(y, model.model_.loss.link(y)).mean()  # of a perfect fit: zero
        assert deviance[-1] < 0.9 * deviance[0]
        assert np.isfinite(model.predict(X)).all()
        np.testing.assert_allclose(list(model.staged_predict(X))[-1], model.predict(X), rtol=1e-9)

    def test_what_the_losses_estimate(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(size=(6000, 2))
        y = rng.gamma(2.0, np.exp(X[:, 0]))
        settings = {"max_iter": 60, "max_depth": 3, "early_stopping": False}
        for loss in ("poisson", "gamma", Tweedie(1.5)):
            predicted = AGBMRegressor(loss=loss, **settings).fit(X, y).predict(X)
            assert predicted.min() > 0
            np.testing.assert_allclose(predicted.mean(), y.mean(), rtol=0.02)
            assert np.corrcoef(predicted, np.exp(X[:, 0]))[0, 1] > 0.9
        for q in (0.1, 0.5, 0.9):
            below = y < AGBMRegressor(loss=Quantile(q), **settings).fit(X, y).predict(X)
            assert below.mean() == pytest.approx(q, abs=0.02)

    @pytest.mark.slow
    @methods
    @pytest.mark.parametrize("loss", ["absolute_error", Quantile(0.5), Huber(1.0)], ids=str)
    def test_outliers_do_not_matter(self, method, loss):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(2000, 3))
        y = X[:, 0] + 0.1 * rng.normal(size=2000)
        y[0] = 1e9
        predicted = AGBMRegressor(**like_default(method), loss=loss).fit(X, y).predict(X)
        assert np.median(np.abs(predicted - y)) < 0.15

    @methods
    def test_huber_far_from_every_label(self, method):
        """Hardly any curvature is no reason not to split."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(2000, 3))
        y = 1e5 * (X[:, 0] + 0.1 * rng.normal(size=2000))
        assert AGBMRegressor(**like_default(method), loss=Huber(1.0)).fit(X, y).score(X, y) > 0.9

    @pytest.mark.slow
    @pytest.mark.parametrize("loss", ["poisson", "gamma", Tweedie(1.5)], ids=str)
    def test_rates_of_very_different_size(self, loss):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(4000, 3))
        high, middle = X[:, 0] > 2, (X[:, 0] < 2) & (X[:, 1] > 0)
        mean = np.where(high, 1000.0, np.where(middle, 8.0, 1.0))
        y = mean * rng.gamma(4.0, 0.25, size=4000)
        for method in METHODS:
            model = AGBMRegressor(
                **like_default(method), loss=loss, learning_rate=0.2, max_iter=200, early_stopping=False
            )
            predicted = model.fit(X, y).predict(X)
            found = [np.mean(predicted[part]) for part in (high, middle, ~high & ~middle)]
            np.testing.assert_allclose(found, [1000, 8, 1], rtol=0.3)

    def test_what_a_loss_of_ones_own_gives_is_checked(self, regression):
        X, y = regression

        class Odd(HalfSquaredError):
            constant_hessian = False

            def __init__(self, residual, hessian=lambda f: np.ones(len(f))):
                self.residual, self.curvature = residual, hessian

            def negative_gradient(self, y, f):
                return self.residual(y - f)

            def hessian(self, y, f, weight):
                return self.curvature(f)

        model = AGBMRegressor(max_iter=3, l2_regularization=1.0)
        expected = model.fit(X, y).predict(X)
        for odd in (Odd(lambda r: r.astype(np.float32)), Odd(list), Odd(lambda r: r, lambda f: [1] * len(f))):
            np.testing.assert_allclose(model.set_params(loss=odd).fit(X, y).predict(X), expected, rtol=1e-4)
        with pytest.raises(ValueError, match=r"loss: negative_gradient must give one number for each of 442 rows"):
            AGBMRegressor(loss=Odd(lambda r: r[1:]), early_stopping=False).fit(X, y)
        with pytest.raises(ValueError, match=r"loss: hessian must give one number .* got an array of shape"):
            AGBMRegressor(loss=Odd(lambda r: r, lambda f: 1.0)).fit(X, y)

        class Doubled(HalfSquaredError):
            def value(self, y, f):
                return 2.0 * super().value(y, f)

        plain = AGBMRegressor(max_iter=3).fit(X, y).history_["train_loss"]
        doubled = AGBMRegressor(loss=Doubled(), max_iter=3).fit(X, y).history_["train_loss"]
        np.testing.assert_allclose(doubled, 2.0 * plain, rtol=1e-12)

        class Careless(HalfSquaredError):
            def negative_gradient(self, y, f):
                y -= f
                return y

        with pytest.raises(ValueError, match="read-only"):
            AGBMRegressor(loss=Careless()).fit(X, y)

    def test_exponential_is_close_to_logistic(self, binary):
        X, y = binary
        logistic = AGBMClassifier(max_iter=30, max_depth=2).fit(X, y).predict_proba(X)
        exponential = AGBMClassifier(loss="exponential", max_iter=30, max_depth=2).fit(X, y).predict_proba(X)
        assert np.corrcoef(logistic[:, 1], exponential[:, 1])[0, 1] > 0.98

    def test_a_loss_of_ones_own(self, regression):
        X, y = regression

        class CauchyLoss(HalfSquaredError):
            constant_hessian = False
            smoothness = 1e-3

            def value(self, y, f):
                return np.log1p((y - f) ** 2 / 2000)

            def negative_gradient(self, y, f):
                return 2 * (y - f) / (2000 + (y - f) ** 2)

            def hessian(self, y, f, weight):
                return 2 / (2000 + (y - f) ** 2)

        model = AGBMRegressor(loss=CauchyLoss(), max_iter=30, max_depth=3).fit(X, y)
        assert model.history_["train_loss"][-1] < 0.8 * model.history_["train_loss"][0]
        assert clone(model).fit(X, y).score(X, y) == model.score(X, y)

        class FailingLoss(HalfSquaredError):
            def negative_gradient(self, y, f):
                raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            AGBMRegressor(loss=FailingLoss()).fit(X, y)

    def test_a_start_model_goes_through_the_link(self, regression):
        X, y = regression
        start = AGBMRegressor(loss="poisson", max_iter=10).fit(X, y)
        model = AGBMRegressor(method="gbm", loss="gamma", init=start, max_iter=1, learning_rate=1e-12).fit(X, y)
        np.testing.assert_allclose(model.predict(X), start.predict(X), rtol=1e-9)


class TestStart:
    def test_prior_and_zero(self, regression, binary):
        X, y = regression
        prior = AGBMRegressor(init="prior", max_iter=1, max_depth=1, min_samples_leaf=400, early_stopping=False)
        assert prior.fit(X, y).predict(X)[0] == pytest.approx(y.mean())
        zero = AGBMRegressor(
            method="gbm", init="zero", max_iter=1, min_samples_leaf=400, learning_rate=0.5, l2_regularization=0.0
        ).fit(X, y)
        assert zero.predict(X)[0] == pytest.approx(y.mean() / 2)
        X, y = binary
        prior = AGBMClassifier(max_iter=1, min_samples_leaf=600, early_stopping=False).fit(X, y)
        assert prior.predict_proba(X)[0, 1] == pytest.approx(y.mean())

    @pytest.mark.slow
    @methods
    def test_a_given_model(self, method, regression, binary):
        X, y = regression
        start = LinearRegression().fit(X, y)
        model = AGBMRegressor(method=method, init=start, max_iter=5, early_stopping=False).fit(X, y)
        assert model.history_["train_loss"][0] == pytest.approx(np.mean((start.predict(X) - y) ** 2) / 2)
        assert model.history_["train_loss"][-1] < model.history_["train_loss"][0]
        np.testing.assert_allclose(list(model.staged_predict(X))[-1], model.predict(X), rtol=1e-12)
        X, y = binary
        start = LogisticRegression(max_iter=5000).fit(X, y)
        model = AGBMClassifier(method=method, init=FrozenEstimator(start), max_iter=5, early_stopping=False)
        assert clone(model).fit(X, y).history_["train_loss"][0] == pytest.approx(
            -np.log(start.predict_proba(X)[np.arange(len(y)), y]).mean()
        )

    def test_a_given_model_sees_the_data_as_it_was_given(self):
        """Names of columns reach it; warnings are errors here."""
        X, y = load_diabetes(return_X_y=True, as_frame=True)
        start = LinearRegression().fit(X, y)
        model = AGBMRegressor(init=start, max_iter=5, early_stopping=True, random_state=0).fit(X, y)
        assert np.isfinite(model.predict(X)).all()
        AGBMRegressor(init=start, max_iter=5).fit(X[:300], y[:300], X_val=X[300:], y_val=y[300:])

    def test_a_given_model_may_change_later(self, regression):
        X, y = regression
        start = LinearRegression().fit(X, y)
        model = AGBMRegressor(init=start, max_iter=5).fit(X, y)
        before = model.predict(X)
        start.fit(X, -y)
        assert np.array_equal(model.predict(X), before)

    def test_training_goes_on_from_a_model_of_ours(self, regression):
        X, y = regression
        whole = AGBMRegressor(method="gbm", max_iter=20, colsample_bytree=1.0).fit(X, y)
        half = AGBMRegressor(method="gbm", max_iter=10, colsample_bytree=1.0).fit(X, y)
        rest = AGBMRegressor(method="gbm", max_iter=10, init=half, colsample_bytree=1.0).fit(X, y)
        np.testing.assert_allclose(rest.predict(X), whole.predict(X), rtol=1e-9)


@pytest.mark.slow
class TestGoingOn:
    @methods
    @pytest.mark.parametrize("shared", [False, True])
    @pytest.mark.parametrize("momentum", [0.3, "theory", "fading"])
    @pytest.mark.parametrize("early_stopping", [False, True])
    def test_in_two_parts_gives_the_same_bits(self, method, shared, momentum, early_stopping, binary):
        X, y = binary
        model = AGBMClassifier(
            method=made(method, shared_structure=shared, momentum=momentum, correction=1.0),
            max_depth=3,
            learning_rate=0.2,
            early_stopping=early_stopping,
            n_iter_no_change=100,
            random_state=0,
        )
        whole = clone(model).set_params(max_iter=30).fit(X, y)
        parts = clone(model).set_params(max_iter=18).fit(X, y)
        if early_stopping and parts.best_iteration_ < 18:
            assert parts.best_iteration_ > 5
        seen = []
        parts.set_params(max_iter=30, warm_start=True, callbacks=[lambda r: seen.append(r.iteration)])
        before = parts.best_iteration_
        parts.fit(X, y)
        assert np.array_equal(whole.decision_function(X), parts.decision_function(X))
        assert np.array_equal(whole.model_.folded.value, parts.model_.folded.value)
        assert whole.n_trees_ == parts.n_trees_
        for name in ("train_loss", "validation_loss", "trees", "cosine_residual"):
            assert np.array_equal(whole.history_[name], parts.history_[name], equal_nan=True), name
        assert seen == list(range(before + 1, 31))

    @pytest.mark.parametrize("rule", ["loss_rise", "gradient"])
    def test_restarts_are_gone_through_again(self, regression, rule):
        X, y = regression
        model = AGBMRegressor(
            method=made("agbmr", restart=rule, momentum=1.0, correction=1.0, shared_structure=False),
            learning_rate=1.0,
            max_depth=3,
        )
        whole = clone(model).set_params(max_iter=40).fit(X, y)
        assert whole.history_["restart"].sum() >= 2
        parts = clone(model).set_params(max_iter=5, warm_start=True)
        for max_iter in (5, 6, 17, 33, 40):
            parts.set_params(max_iter=max_iter).fit(X, y)
        assert np.array_equal(whole.predict(X), parts.predict(X))

    def test_with_the_defaults_and_columns_drawn(self, binary):
        X, y = binary
        model = AGBMClassifier(colsample_bytree=0.5, max_depth=3, random_state=0)
        parts = clone(model).set_params(max_iter=3, warm_start=True)
        for max_iter in (3, 4, 11, 20):
            parts.set_params(max_iter=max_iter).fit(X, y)
        whole = clone(model).set_params(max_iter=20).fit(X, y)
        assert np.array_equal(whole.decision_function(X), parts.decision_function(X))
        for name in ("train_loss", "theta", "momentum", "cosine_residual"):
            assert np.array_equal(whole.history_[name], parts.history_[name], equal_nan=True), name

    def test_other_features_than_before(self, regression):
        X, y = regression
        model = AGBMRegressor(max_iter=3, warm_start=True).fit(X, y)
        with pytest.raises(ValueError, match="X has 4 features, but AGBMRegressor is expecting 10"):
            model.set_params(max_iter=6).fit(X[:, :4], y)
        assert model.predict(X).shape == y.shape

    @pytest.mark.parametrize(
        "change", [{"learning_rate": 0.01}, {"method": "gbm"}, {"loss": "absolute_error"}, {"max_depth": 2}], ids=str
    )
    def test_parameters_that_shape_the_model_must_not_change(self, regression, change):
        X, y = regression
        model = AGBMRegressor(max_iter=10, warm_start=True).fit(X, y)
        before = model.predict(X)
        name = next(iter(change))
        with pytest.raises(
            ValueError, match=rf"warm_start=True needs the parameters of the previous fit; got {name}=.* \(was "
        ):
            model.set_params(**change).fit(X, y)
        assert np.array_equal(model.predict(X), before)
        model.set_params(**{name: AGBMRegressor().get_params()[name]}, max_iter=12, n_jobs=1, verbose=0)
        assert model.fit(X, y).n_iter_ == 12

    def test_fewer_iterations_than_there_are(self, regression):
        X, y = regression
        model = AGBMRegressor(max_iter=10, warm_start=True, early_stopping=False).fit(X, y)
        with pytest.raises(ValueError, match=r"max_iter=5 .*must be at least best_iteration_=10"):
            model.set_params(max_iter=5).fit(X, y)
        before = model.predict(X)
        assert np.array_equal(model.set_params(max_iter=10).fit(X, y).predict(X), before)
        model.set_params(max_iter=101, max_depth=1, warm_start=False).fit(X, y)
        with pytest.raises(ValueError, match=r"max_iter='auto' .*100.* must be at least best_iteration_=101"):
            model.set_params(max_iter="auto", warm_start=True).fit(X, y)


@pytest.mark.slow
class TestDefault:
    @pytest.mark.parametrize("n_features", [2, 3])
    def test_learns_from_all_of_few_columns(self, n_features):
        """Also where a node may be split on some of them only: here none says anything without the others."""
        X = np.random.default_rng(0).normal(size=(3000, n_features))
        y = np.prod(np.sign(X), axis=1)
        assert AGBMRegressor(max_depth=None, max_leaf_nodes=31).fit(X[:2000], y[:2000]).score(X[2000:], y[2000:]) > 0.9

    @pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
    def test_l2_follows_small_hessians(self, scale):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(2000, 3))
        y = scale * (X[:, 0] + 0.1 * rng.normal(size=2000))
        assert AGBMRegressor(loss=Huber(0.01 * scale)).fit(X, y).score(X, y) > 0.9
        rare = rng.poisson(0.001 * np.exp(2 * X[:, 0]))
        model = AGBMRegressor(loss="poisson").fit(X, rare)
        assert model.predict(X[X[:, 0] > 1]).mean() > 5 * model.predict(X[X[:, 0] < 0]).mean()

    def test_is_the_same_in_every_run(self, binary):
        assert np.array_equal(
            *(AGBMClassifier(max_iter=20).fit(*binary).decision_function(binary[0]) for _ in range(2))
        )

    def test_a_small_learning_rate_makes_small_steps(self, regression):
        X, y = regression
        model = AGBMRegressor(learning_rate=1e-9, max_iter=5, early_stopping=False).fit(X, y)
        np.testing.assert_allclose(model.predict(X), y.mean(), rtol=1e-6)


class TestRestarts:
    def regressor(self, rule, rate):
        method = AGBM(momentum=1.0, restart=rule)
        return AGBMRegressor(
            method=made(method, second_order=True), learning_rate=rate, max_iter=40, max_depth=3, early_stopping=False
        )

    @pytest.mark.parametrize("weighted", [False, True])
    def test_when_a_step_goes_against_its_gradient(self, regression, weighted):
        """f and g from the learners and their weights, and the gradient at g, once more."""
        X, y = regression
        weight = np.where(np.arange(len(y)) % 3 == 0, 10, 1) if weighted else np.ones(len(y))
        model = self.regressor("gradient", 0.3)
        model.fit(X, y, sample_weight=weight if weighted else None)
        ensemble = model.model_.ensembles[0]
        learners = np.array(
            [tree.predict(X, 1)[number, 0] for tree, number in map(ensemble.function, range(len(ensemble.functions)))]
        )
        start = np.average(y, weights=weight)
        restarts = model.history_["restart"]
        turned = []
        for m, theta in enumerate(model.history_["theta"][1:]):
            (a, d), (after, _) = ensemble.coefficients(m), ensemble.coefficients(m + 1)
            g = start + (a if restarts[m + 1] else (1 - theta) * a + theta * d) @ learners
            turned.append(np.sum(weight * (y - g) * ((after - a) @ learners)) < 0)
        assert sum(turned) >= 2, "this setting must restart"
        assert np.array_equal(restarts[2:], turned[:-1])

    @pytest.mark.parametrize("given", [False, True])
    def test_when_the_validation_loss_rises(self, regression, given):
        X, y = regression
        model = self.regressor("validation_rise", 0.5)
        if given:
            rows = {"X_val": X[::3], "y_val": y[::3]}
            model.fit(X[1::3], y[1::3], **rows)
            losses = [np.mean((f - y[::3]) ** 2) / 2 for f in model.staged_predict(X[::3])]
        else:
            model.set_params(early_stopping=True, n_iter_no_change=100).fit(X, y)
            losses = model.history_["validation_loss"][1:]
        rises = np.diff(losses) > 0
        assert rises.sum() >= 2, "this setting must restart"
        restarts = model.history_["restart"][2:]  # the first iteration never is one
        assert np.array_equal(restarts[1:], rises[:-1])
        assert restarts[0] == (model.history_["validation_loss"][1] > model.history_["validation_loss"][0])

    def test_each_rule_is_another(self, regression):
        X, y = regression
        found = [
            self.regressor(rule, 0.5).fit(X[::2], y[::2], X_val=X[1::2], y_val=y[1::2])
            for rule in ("loss_rise", "gradient", "validation_rise")
        ]
        assert len({tuple(model.history_["restart"]) for model in found}) == 3


class TestBadInput:
    @pytest.mark.parametrize(
        ("parameter", "value"),
        [
            ("method", "adaboost"), ("max_iter", 0), ("max_iter", 2.5), ("max_iter", "many"), ("learning_rate", 0.0),
            ("learning_rate", "fast"), ("learning_rate", "line_search"), ("method", 3),
            ("loss", 3), ("init", "mean"), ("max_depth", 0), ("max_leaf_nodes", 1),
            ("max_depth", "auto"), ("max_leaf_nodes", "few"), ("colsample_bynode", "half"),
            ("min_samples_leaf", 0), ("l2_regularization", -1.0), ("min_split_gain", -1.0), ("max_bins", 1),
            ("max_bins", 256), ("early_stopping", "always"), ("validation_fraction", 1.0), ("n_iter_no_change", 0),
            ("callbacks", print), ("random_state", "seed"),
            ("n_jobs", 1.5), ("n_jobs", 0), ("warm_start", "yes"), ("multi_strategy", "both"), ("subsample", 0.0),
            ("subsample", 1.5), ("colsample_bytree", 0.0), ("colsample_bynode", 2.0),
            ("categorical_features", "all"), ("monotonic_cst", "up"), ("interaction_cst", "none"),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("estimator", [AGBMRegressor, AGBMClassifier])
    def test_parameters(self, estimator, parameter, value):
        with pytest.raises((ValueError, TypeError)) as caught:
            estimator(**{parameter: value}).fit([[0.0], [1.0]], [0, 1])
        assert f"'{parameter}' parameter" in str(caught.value)
        assert repr(value) in str(caught.value)
        assert "must be" in str(caught.value)

    @pytest.mark.parametrize(
        ("parameters", "words"),
        [
            ({"method": Fading(learner=LinearRegression)}, ["learner=", "LinearRegression", "instance"]),
            ({"method": Fading(learner=LogisticRegression())}, ["learner=LogisticRegression()", "regressor"]),
            ({"early_stopping": True, "validation_fraction": 0.9}, ["early_stopping=True", "validation_fraction=0.9"]),
            ({"callbacks": [3]}, ["callbacks", "3"]),
            ({"method": GBM(line_search=True, dropout=0.1)}, ["line_search", "dropout=0.1"]),
            ({"method": Fading(second_order="no")}, ["'second_order' parameter", "'no'"]),
            ({"method": Fading(dropout=1.0)}, ["'dropout' parameter", "1.0"]),
            ({"method": Fading(dropout=-0.1)}, ["'dropout' parameter", "-0.1"]),
            ({"method": Fading(learner="tree")}, ["'learner' parameter", "'tree'"]),
            ({"method": Fading(learner=LinearRegression()), "subsample": 0.5}, ["subsample=0.5", "trees only"]),
            ({"method": Fading(learner=LinearRegression()), "monotonic_cst": [1]}, ["monotonic_cst=[1]", "trees only"]),
            ({"monotonic_cst": [1, 0]}, ["monotonic_cst", "1 features"]),
            ({"monotonic_cst": [3]}, ["monotonic_cst", "[3]"]),
            ({"interaction_cst": [[0, 4]]}, ["interaction_cst=[[0, 4]]", "[4]"]),
            ({"interaction_cst": [["a", "b"]]}, ["interaction_cst=[['a', 'b']]", "positions"]),
            ({"interaction_cst": [0, 1]}, ["interaction_cst=[0, 1]", "list of lists"]),
            ({"interaction_cst": [[0.5]]}, ["interaction_cst=[[0.5]]", "positions"]),
            ({"categorical_features": [2]}, ["categorical_features=[2]", "features 0 to 0"]),
            ({"categorical_features": ["a"]}, ["categorical_features=['a']", "no column names"]),
            ({"categorical_features": [True, False]}, ["categorical_features", "2 entries", "1 features"]),
            ({"categorical_features": [0], "monotonic_cst": [1]}, ["monotonic_cst=[1]", "[0]", "categorical"]),
            (
                {"categorical_features": [0], "method": Fading(learner=LinearRegression())},
                ["categorical", "trees only"],
            ),
        ],
    )
    def test_combinations(self, parameters, words):
        with pytest.raises((ValueError, TypeError)) as caught:
            AGBMRegressor(**parameters).fit([[0.0], [1.0]], [0, 1])
        assert all(word in str(caught.value) for word in words), str(caught.value)

    def test_restarts_by_validation_rows_that_are_not_there(self, regression):
        X, y = regression
        going_on = AGBMRegressor(method=made("agbmr", restart="validation_rise"), warm_start=True, early_stopping=True)
        with pytest.raises(ValueError, match=r"restart='validation_rise' .* cannot be resumed; use warm_start=False"):
            going_on.fit(*regression)
        fixed = AGBMRegressor(method=AGBM(restart=1.0, momentum=Fading()))
        with pytest.raises(ValueError, match=r"restart=1.0 .* got momentum=Fading\(.*; set momentum to a number"):
            fixed.fit(*regression)
        model = AGBMRegressor(method=made("agbmr", restart="validation_rise"), max_iter=3, random_state=0)
        with pytest.raises(ValueError, match=r"restart='validation_rise' needs validation rows: give X_val and y_val"):
            model.fit(X, y)
        assert model.set_params(early_stopping=True).fit(X, y).n_iter_ == 3

    def test_numbers_beyond_the_kernels(self, regression):
        X, y = regression
        huge = {"max_depth": 2**40, "max_leaf_nodes": 2**40, "min_samples_leaf": 2**70, "n_jobs": 2**40}
        model = AGBMRegressor(max_iter=2, early_stopping=False, **huge)
        np.testing.assert_allclose(model.fit(X, y).predict(X), y.mean())

    def test_one_row_of_a_class_is_no_reason_not_to_stop_early(self):
        y = np.zeros(10_001)
        y[5] = 1
        AGBMClassifier(max_iter=2, random_state=0).fit(np.arange(10_001.0)[:, np.newaxis], y)

    def test_start_models(self, regression):
        X, y = regression
        with pytest.raises(NotFittedError):
            AGBMRegressor(init=LinearRegression()).fit(X, y)
        with pytest.raises(TypeError, match="decision_function"):
            AGBMClassifier(init=LinearRegression().fit(X, y)).fit(X, y > 100)
        with pytest.raises(ValueError, match=r"init=.* has classes \['a', 'b'\], y has \[False, True\]"):
            AGBMClassifier(init=LogisticRegression().fit(X, np.where(y > 100, "b", "a"))).fit(X, y > 100)
        two = LinearRegression().fit(X, np.column_stack([y, y]))
        with pytest.raises(ValueError, match=r"init=.*shape \(442, 2\)"):
            AGBMRegressor(init=two).fit(X, y)

    @pytest.mark.parametrize(
        ("arrays", "words"),
        [
            ({"y": [1.0, 2.0]}, ["inconsistent", "3", "2"]),
            ({"y": [np.nan, 1.0, 2.0]}, ["y", "NaN"]),
            ({"y": [np.inf, 1.0, 2.0]}, ["y", "infinity"]),
            ({"y": ["a", "b", "c"]}, ["y", "numbers", "'a'"]),
            ({"X": [["a"], [1.0], [2.0]]}, ["X", "numbers", "'a'"]),
            ({"X": [1.0, 2.0, 3.0]}, ["2D array", "1D array"]),
            ({"sample_weight": [1.0, 2.0]}, ["sample_weight", "(2,)"]),
            ({"sample_weight": [1.0, -1.0, 1.0]}, ["egative", "weight"]),
            ({"sample_weight": ["a", "b", "c"]}, ["sample_weight", "'a'"]),
            ({"sample_weight": [0.0, 0.0, 0.0]}, ["weight", "zero"]),
            ({"sample_weight": [np.inf, 1.0, 1.0]}, ["sample_weight", "infinity"]),
            ({"X_val": [[1.0]]}, ["y_val=None", "X_val"]),
            ({"y_val": [1.0]}, ["X_val=None", "y_val"]),
            ({"X_val": [[1.0, 2.0]], "y_val": [1.0]}, ["X_val", "2 features", "1 features"]),
            ({"X_val": [[1.0]], "y_val": [np.inf]}, ["y_val", "infinity"]),
            ({"X_val": [[1.0]], "y_val": [[1.0, 2.0]]}, ["y_val", "1d array"]),
            ({"X_val": [[1.0]], "y_val": ["a"]}, ["y_val", "numbers", "'a'"]),
            ({"y": [1e200, 0.0, 2.0]}, ["not finite", "y", "scale"]),
            ({"X_val": [[1.0]], "y_val": [1e200]}, ["not finite", "y_val", "scale"]),
            ({"X_val": [[1.0]], "y_val": [1.0, 2.0]}, ["y_val", "2", "1"]),
            ({"X_val": [[1.0]], "y_val": [np.nan]}, ["y_val", "NaN"]),
        ],
    )
    def test_arrays(self, arrays, words):
        good = {"X": [[0.0], [1.0], [2.0]], "y": [0.0, 1.0, 2.0]}
        with pytest.raises(ValueError, match=r".") as caught:
            AGBMRegressor(max_iter=2).fit(**{**good, **arrays})
        assert all(word in str(caught.value) for word in words), str(caught.value)

    def test_infinity_where_the_learner_takes_none(self):
        with pytest.raises(ValueError, match=r"Input X contains infinity"):
            AGBMRegressor(method=Fading(learner=LinearRegression()), max_iter=2).fit(
                [[np.inf], [0.0], [1.0]], [0.0, 1.0, 2.0]
            )

    def test_labels_that_a_loss_does_not_allow(self):
        X = [[0.0], [1.0], [2.0]]
        with pytest.raises(ValueError, match=r"y must .* Poisson, got values from -1.0 to 2.0"):
            AGBMRegressor(loss="poisson").fit(X, [-1.0, 0.0, 2.0])
        with pytest.raises(ValueError, match="y must be positive for loss Gamma"):
            AGBMRegressor(loss="gamma").fit(X, [0.0, 1.0, 2.0])
        with pytest.raises(ValueError, match="y must be positive for loss Gamma"):
            AGBMRegressor(loss="gamma").fit(X, [1.0, 1.0, 2.0], X_val=X, y_val=[0.0, 1.0, 2.0])
        with pytest.raises(ValueError, match="y must have no negative values and at least one positive value"):
            AGBMRegressor(loss="poisson").fit(X, [[0.0, 1.0], [0.0, 2.0], [0.0, 3.0]])

    def test_labels(self):
        X = [[0.0], [1.0], [2.0]]
        with pytest.raises(ValueError, match=r"loss='exponential' supports only two classes, y has 3"):
            AGBMClassifier(loss="exponential").fit(X, [0, 1, 2])
        with pytest.raises(ValueError, match="only one class"):
            AGBMClassifier().fit(X, ["a", "a", "a"])
        for missing in (None, np.nan, pd.NA):
            with pytest.raises(ValueError, match=r"missing|NaN"):
                AGBMClassifier().fit(X, np.array(["a", missing, "b"], dtype=object))
        with pytest.raises(TypeError, match=r"labels of types \['int', 'str'\]"):
            AGBMClassifier().fit(X, np.array(["a", 1, "b"], dtype=object))
        with pytest.raises(ValueError, match="Unknown label type"):
            AGBMClassifier().fit(X, [0.5, 1.5, 2.5])
        with pytest.raises(ValueError, match=r"y_val has labels \['c'\]"):
            AGBMClassifier().fit(X, ["a", "b", "a"], X_val=[[1.0]], y_val=["c"])

    @pytest.mark.slow
    @methods
    def test_constant_targets_are_fitted(self, method):
        """No error, as in scikit-learn's own regressors: there is nothing to learn but the constant."""
        X = np.arange(100.0)[:, np.newaxis]
        for value in (0.0, 7.5, -1e9):
            # Halves, which mix a constant with itself exactly.
            model = AGBMRegressor(method=made(method, fade=0.5), max_iter=5).fit(X, np.full(100, value))
            assert np.array_equal(model.predict(X), np.full(100, value))
        for loss in ("absolute_error", Huber(1.0), "poisson", "gamma", Quantile(0.9)):
            model = AGBMRegressor(method=method, loss=loss, max_iter=5).fit(X, np.full(100, 3.0))
            np.testing.assert_allclose(model.predict(X), 3.0, rtol=1e-12)

    def test_prediction_before_fit(self):
        with pytest.raises(NotFittedError):
            AGBMRegressor().predict([[0.0]])
        with pytest.raises(NotFittedError):
            next(AGBMClassifier().staged_predict([[0.0]]))

    def test_wrong_number_of_features_in_prediction(self, regression):
        X, y = regression
        model = AGBMRegressor(max_iter=2).fit(X, y)
        with pytest.raises(ValueError, match="9 features, but AGBMRegressor is expecting 10"):
            model.predict(X[:, :9])


class TestDivergence:
    @pytest.mark.parametrize("early_stopping", [False, True])
    def test_the_best_model_so_far_is_kept(self, regression, early_stopping):
        X, y = regression
        model = AGBMRegressor(
            method=made("agbm", momentum=1.0, correction=1.0),
            learning_rate=1.0,
            max_depth=3,
            max_iter=200,
            early_stopping=early_stopping,
            n_iter_no_change=500,
            random_state=0,
        )
        message = "diverged at iteration .* learning_rate, entry, momentum or correction"
        with pytest.warns(ConvergenceWarning, match=message) as caught:
            model.fit(X, y)
        assert caught[0].filename == __file__, "the warning points at the call of fit"
        assert model.n_iter_ < 200
        losses = model.history_["validation_loss" if early_stopping else "train_loss"]
        assert model.best_iteration_ == int(np.nanargmin(np.where(np.isfinite(losses), losses, np.nan)))
        assert np.isfinite(model.predict(X)).all()
        if not early_stopping:
            assert np.mean((model.predict(X) - y) ** 2) / 2 == pytest.approx(losses.min())

    @pytest.mark.slow
    def test_growth_counts_from_the_lowest_loss(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(4000, 10))
        y = X[:, 0] + rng.normal(size=4000) > 0
        model = AGBMClassifier(
            method=made("agbm", correction=1.0, momentum=0.1, shared_structure=True, second_order=True),
            learning_rate=0.3,
            max_iter=200,
            early_stopping=False,
            l2_regularization=0.0,
            colsample_bytree=1.0,
        )
        with pytest.warns(ConvergenceWarning, match="diverged"):
            model.fit(X, y)
        losses = model.history_["train_loss"]
        assert losses[-1] > 100 * losses.min()
        assert losses[-1] < 100 * losses[0]
        assert model.best_iteration_ == np.argmin(losses)

    def test_numbers_out_of_range(self, regression):
        X, y = regression
        model = AGBMRegressor(method="gbm", learning_rate=1e160, max_iter=10)
        with pytest.warns(ConvergenceWarning, match="diverged"):
            model.fit(X, y)
        assert model.best_iteration_ == 0
        np.testing.assert_allclose(model.predict(X), y.mean())

    def test_huge_targets_are_no_divergence(self, regression):
        X, y = regression
        model = AGBMRegressor(max_iter=20, max_depth=3).fit(X, y * 1e120)
        assert model.score(X, y * 1e120) == pytest.approx(AGBMRegressor(max_iter=20, max_depth=3).fit(X, y).score(X, y))


def test_a_fit_that_fails_leaves_the_model_as_it_was(regression):
    X, y = regression
    model = AGBMRegressor(max_iter=10).fit(X, y)
    before = model.predict(X)

    def fail(record):
        if record.iteration == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.set_params(callbacks=[fail], init="zero").fit(X, -y)
    assert np.array_equal(model.predict(X), before)
    np.testing.assert_allclose(list(model.staged_predict(X))[-1], before, rtol=1e-12)
    classifier = AGBMClassifier(max_iter=10).fit(X, y > 100)
    before = classifier.predict(X)
    with pytest.raises(KeyboardInterrupt):
        classifier.set_params(callbacks=[fail]).fit(X[:, :4], np.where(y > 100, "yes", "no"))
    assert np.array_equal(classifier.predict(X), before)


def test_pickles_and_files_of_fitted_models_are_without_callbacks(regression, tmp_path):
    """Callbacks may be lambdas, or hold what cannot be pickled."""
    X, y = regression
    callbacks = [lambda record: None]
    model = AGBMRegressor(max_iter=2, callbacks=callbacks)
    with pytest.raises((pickle.PicklingError, AttributeError)):  # not fitted: it would fit something else without them
        pickle.dumps(model)
    model.fit(X, y)
    model.save(tmp_path / "m.agbm")
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), agbm.load(tmp_path / "m.agbm")):
        assert again.callbacks is None
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert model.callbacks is callbacks
    assert model.get_params()["callbacks"] is callbacks
    assert clone(model).callbacks == callbacks
    assert pickle.loads(pickle.dumps(AGBMRegressor(callbacks=[print]))).callbacks == [print]


def test_pickle_and_read_only_models(regression):
    X, y = regression
    model = AGBMRegressor(max_iter=10).fit(X, y)
    model.predict(X)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(list(again.staged_predict(X))[-1], list(model.staged_predict(X))[-1])


@pytest.mark.slow
def test_in_a_search(binary):
    X, y = binary
    search = GridSearchCV(
        AGBMClassifier(max_iter=10, max_depth=2), {"method": METHODS, "learning_rate": [0.1, 0.5]}, n_jobs=2
    )
    assert search.fit(X, y).best_score_ > 0.93


def test_importances(binary):
    X, y = binary
    X = np.column_stack([X[:, :3], np.zeros(len(X))])
    for method in METHODS:
        importances = AGBMClassifier(method=method, max_iter=10, max_depth=2).fit(X, y).feature_importances_
        assert importances.sum() == pytest.approx(1.0)
        assert importances[3] == 0.0
        assert np.all(importances[:3] >= 0)
    assert AGBMClassifier(max_iter=1, min_samples_leaf=600).fit(X, y).feature_importances_.sum() == 0.0


def test_importances_weigh_trees_as_the_model_does(regression):
    X, y = regression
    model = AGBMRegressor(method=made("agbm", shared_structure=False, momentum=0.5), max_iter=8, max_depth=2).fit(X, y)
    expected = np.zeros(X.shape[1])
    for tree, weight in zip(model.model_.models, model.model_.ensembles[0].coefficients()[0], strict=True):
        for feature, gain in zip(tree.nodes["feature"], tree.nodes["gain"], strict=True):
            if feature >= 0:
                expected[feature] += weight * gain
    np.testing.assert_allclose(model.feature_importances_, expected / expected.sum(), rtol=1e-12)


def test_history_makes_a_data_frame(regression):
    X, y = regression
    model = AGBMRegressor(method=made("agbm", momentum=0.02, shared_structure=False), max_iter=10)
    model.fit(X, y, X_val=X, y_val=y)
    table = pd.DataFrame(model.history_)
    assert list(table["iteration"]) == list(range(11))
    assert table["trees"].is_monotonic_increasing
    np.testing.assert_allclose(table["theta"][1:], 2 / (np.arange(10) + 2))
    np.testing.assert_allclose(table["momentum"][1:], 0.02)
    np.testing.assert_allclose(table["train_loss"], table["validation_loss"])
    assert table["cosine_residual"][1:].between(0, 1).all()
    assert table["cosine_corrected"][1:10].between(0, 1).all()
    assert np.isnan(table["cosine_corrected"][10]), "the last momentum learner is not grown"


def test_validation_rows_do_not_shape_the_trees():
    """Not their numbers, nor their labels, nor their categories."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=300), "kind": rng.integers(0, 5, size=300).astype(str)})
    y = X["x"] + rng.normal(size=300)
    model = AGBMRegressor(max_iter=5, max_bins=16, early_stopping=False).fit(X, y)
    other = pd.DataFrame({"x": 1000 * rng.normal(size=300), "kind": ["q"] * 300})
    watched = AGBMRegressor(max_iter=5, max_bins=16, early_stopping=False).fit(X, y, X_val=other, y_val=-100 * y)
    assert np.array_equal(model.predict(X), watched.predict(X))
    assert np.array_equal(model.model_.folded.nodes["threshold"], watched.model_.folded.nodes["threshold"])


def test_the_validation_split_keeps_the_classes_in_proportion():
    y = np.zeros(2000)
    y[:100] = 1
    model = AGBMClassifier(early_stopping=True, max_iter=1, max_depth=1, random_state=1)
    model.fit(np.zeros((2000, 1)), y)
    expected = -(0.05 * np.log(0.05) + 0.95 * np.log(0.95))
    assert model.history_["validation_loss"][0] == pytest.approx(expected)


@pytest.mark.slow
def test_as_many_iterations_as_are_needed(regression):
    """max_iter="auto": 100 where nothing stops the run, else up to 1,000."""
    X, y = regression
    model = AGBMRegressor(n_members=1, max_iter="auto", max_depth=1, random_state=0)
    assert clone(model).fit(X, y).n_iter_ == 100
    assert clone(model).set_params(early_stopping=False).fit(X, y, X_val=X, y_val=y).n_iter_ == 100
    stopping = clone(model).set_params(early_stopping=True)
    assert stopping.fit(X, y).n_iter_ < 1000
    assert stopping.set_params(n_iter_no_change=1000).fit(X, y).n_iter_ == 1000
    assert AGBMRegressor().get_params()["max_iter"] == "auto"


@pytest.mark.slow
def test_early_stopping_modes(binary):
    X, y = binary
    assert np.isnan(AGBMClassifier(n_members=1, max_iter=3).fit(X, y).history_["validation_loss"]).all()
    assert np.isfinite(AGBMClassifier(max_iter=3).fit(X, y).history_["validation_loss"]).all()
    auto = AGBMClassifier(n_members=1, max_iter=3, max_depth=1).fit(np.tile(X, (20, 1)), np.tile(y, 20))
    assert np.isfinite(auto.history_["validation_loss"]).all()
    watched = AGBMClassifier(max_iter=300, learning_rate=0.5, early_stopping=False).fit(
        X, y, X_val=X[:50], y_val=y[:50]
    )
    assert watched.best_iteration_ == watched.n_iter_ == 300
    stopped = AGBMClassifier(
        max_iter=300,
        learning_rate=0.5,
        early_stopping=True,
        validation_fraction=0.3,
        n_iter_no_change=3,
        random_state=0,
    )
    stopped.fit(X, y)
    assert stopped.best_iteration_ < stopped.n_iter_ < 300
    again = clone(stopped).fit(X, y)
    assert np.array_equal(stopped.predict_proba(X), again.predict_proba(X))


class TestAutomaticEarlyStopping:
    @pytest.mark.parametrize(
        ("parameters", "fewest"),
        [({}, 75), ({"n_members": 2}, 75), ({"method": "agbm", "n_members": 2}, 75),
         ({"n_members": 1}, 10_000), ({"method": "gbm"}, 10_000),
         ({"method": Fading(learner=LinearRegression())}, 10_000)],
        ids=str,
    )  # fmt: skip
    def test_from_so_many_rows_on(self, parameters, fewest):
        for n_rows in (fewest - 1, fewest):
            X = np.arange(float(n_rows))[:, np.newaxis]
            model = AGBMRegressor(max_iter=1, **parameters).fit(X, X[:, 0])
            assert model.resolved_params_["early_stopping"] == (n_rows == fewest)
            assert np.isfinite(model.history_["validation_loss"]).all() == (n_rows == fewest)

    @pytest.mark.parametrize("n_members", ["auto", 1])
    def test_with_validation_rows_of_any_number(self, n_members):
        X, y = np.arange(20.0)[:, np.newaxis], np.arange(20.0)
        model = AGBMRegressor(n_members=n_members, max_iter=1).fit(X, y, X_val=X[:1], y_val=y[:1])
        assert model.resolved_params_["early_stopping"]

    def test_what_is_given_holds(self):
        X, y = np.arange(200.0)[:, np.newaxis], np.arange(200.0)
        model = AGBMRegressor(early_stopping=False, max_iter=1).fit(X, y, X_val=X, y_val=y)
        assert not model.resolved_params_["early_stopping"]
        assert AGBMRegressor(early_stopping=True, max_iter=1).fit(X[:50], y[:50]).resolved_params_["early_stopping"]


class TestAutomaticTreeSizes:
    """max_leaf_nodes, min_samples_leaf and l2_regularization follow the data by default."""

    @pytest.mark.parametrize(
        ("n_rows", "leaves", "fewest"),
        [
            (60, 8, 2), (1151, 8, 2), (1152, 9, 2), (1999, 15, 3), (2000, 15, 4), (3967, 30, 7), (3968, 31, 7),
            (4095, 31, 8), (4096, 32, 8), (7999, 44, 10), (15_876, 63, 10), (70_000, 63, 10),
        ],
    )  # fmt: skip
    def test_of_so_many_rows(self, n_rows, leaves, fewest):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n_rows, 3))
        y = X @ [1.0, 2.0, 3.0] + X[:, 0] * X[:, 1] + rng.normal(size=n_rows)
        common = {"max_iter": 3, "early_stopping": False}
        sizes = {"max_leaf_nodes": leaves, "min_samples_leaf": fewest, "l2_regularization": 3.0}
        by_hand = AGBMRegressor(n_members=5, colsample_bynode=0.5, max_depth=None, **sizes, **common).fit(X, y)
        model = AGBMRegressor(**common).fit(X, y)
        np.testing.assert_array_equal(model.predict(X), by_hand.predict(X))
        assert model.resolved_params_ | sizes == model.resolved_params_

    def test_losses_other_than_the_squared_error_have_at_most_31_leaves(self):
        X = np.arange(16_000.0)[:, np.newaxis]
        one = {"n_members": 1, "max_iter": 1}
        for model in (
            AGBMRegressor(loss="poisson", **one),
            AGBMRegressor(loss="absolute_error", **one),
            AGBMClassifier(**one),
        ):
            found = model.fit(X, X[:, 0] % 2).resolved_params_
            assert found["max_leaf_nodes"] == 31

    def test_rows_count_once_however_often_they_are_repeated(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(700, 3))
        y = X[:, 0] * X[:, 1] + X[:, 2]
        common = {"max_iter": 3, "early_stopping": False}
        weighted = AGBMRegressor(**common).fit(X, y, np.full(700, 20))
        by_hand = AGBMRegressor(max_leaf_nodes=8, min_samples_leaf=2, **common).fit(X, y, np.full(700, 20))
        np.testing.assert_array_equal(weighted.predict(X), by_hand.predict(X))

    def test_rows_count_once_whatever_they_weigh(self, binary):
        """Whatever part of them is held out; so do weights of classes."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(9000, 3))
        y = X[:, 0] * X[:, 1] + X[:, 2]
        weight = np.where(rng.random(9000) < 0.001, 1e6, 0.5)
        common = {"max_iter": 3, "early_stopping": True}
        by_hand = AGBMRegressor(max_leaf_nodes=45, min_samples_leaf=10, **common).fit(X, y, weight)
        np.testing.assert_array_equal(AGBMRegressor(**common).fit(X, y, weight).predict(X), by_hand.predict(X))
        X, y = binary
        model = AGBMClassifier(max_iter=3, class_weight={0: 1, 1: 100})
        by_hand = clone(model).set_params(max_leaf_nodes=8, min_samples_leaf=2).fit(X, y)
        np.testing.assert_array_equal(model.fit(X, y).predict_proba(X), by_hand.predict_proba(X))

    def test_rows_that_are_held_out_do_not_count(self):
        X = np.arange(2560.0)[:, np.newaxis]
        for n_members in (1, 5):
            model = AGBMRegressor(max_iter=1, n_members=n_members, early_stopping=True).fit(X, X[:, 0])
            found = model.resolved_params_
            assert (found["max_leaf_nodes"], found["min_samples_leaf"]) == (18, 4), "of 2304 rows"

    def test_a_number_of_leaves_has_no_limit_of_levels(self):
        X = np.arange(640.0)[:, np.newaxis]
        model = AGBMRegressor(n_members=1, max_iter=1, max_leaf_nodes=16, min_samples_leaf=1).fit(X, X[:, 0])
        assert (model.model_.folded.nodes["feature"] < 0).sum() == 16
        assert model.resolved_params_["max_depth"] is None

    def test_a_number_of_levels_lifts_the_limit_of_leaves(self):
        X = np.arange(640.0)[:, np.newaxis]
        small = {"min_samples_leaf": 1, "l2_regularization": 0.0}
        model = AGBMRegressor(n_members=1, max_iter=1, max_depth=5, **small).fit(X, X[:, 0])
        assert (model.model_.folded.nodes["feature"] < 0).sum() == 32
        assert model.resolved_params_["max_leaf_nodes"] is None
        both = clone(model).set_params(max_leaf_nodes=20).fit(X, X[:, 0])
        assert (both.model_.folded.nodes["feature"] < 0).sum() == 20

    def test_none_is_no_limit(self):
        X = np.arange(64.0)[:, np.newaxis]
        small = {"min_samples_leaf": 1, "l2_regularization": 0.0}
        model = AGBMRegressor(n_members=1, max_iter=1, max_leaf_nodes=None, **small).fit(X, X[:, 0])
        assert (model.model_.folded.nodes["feature"] < 0).sum() == 64

    def test_l2_of_likelihoods(self, binary):
        X, y = binary
        by_hand = AGBMClassifier(max_iter=3, l2_regularization=7.0).fit(X, y)
        np.testing.assert_array_equal(AGBMClassifier(max_iter=3).fit(X, y).predict_proba(X), by_hand.predict_proba(X))


def test_a_run_goes_on_with_the_same_training_rows(tmp_path):
    """Not where rows were held out before and are not now, or the other way round."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), rng.normal(size=300)
    given = {"X_val": X[:50], "y_val": y[:50]}
    for first, then, message in (({}, given, "held out some rows"), (given, {}, "held out no rows")):
        model = AGBMRegressor(early_stopping=True, max_iter=3, n_iter_no_change=50).fit(X, y, **first)
        model.save(tmp_path / "m.agbm")
        for going_on in (model, agbm.load(tmp_path / "m.agbm")):
            with pytest.raises(ValueError, match=message):
                going_on.set_params(warm_start=True, max_iter=6).fit(X, y, **then)
            going_on.fit(X, y, **first)
        saved = clone(model).set_params(warm_start=False, callbacks=[Checkpoint(tmp_path / f"{len(first)}", every=1)])
        clone(saved).fit(X, y, **first)
        with pytest.raises(ValueError, match="other data"):
            clone(saved).fit(X, y, **then)
