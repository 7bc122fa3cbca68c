"""Invariance to the unit, the zero and the magnitude of the labels, and to the order of classes."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from agbm import AGBMClassifier, AGBMRegressor
from agbm._core.training import EarlyStopping, Record, by_loss
from agbm._losses import LOSSES, named_loss
from agbm._losses.distributions import DistributionLoss
from agbm.losses import Expectile, Huber, LogCosh, Quantile, Tweedie
from variants import like_default

N = 700


def rows(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 4))
    return X, X[:, 0] * 2 + X[:, 1] ** 2 + rng.normal(size=N)


# The loss of labels in another unit.
OF_NUMBERS = {
    "squared": lambda unit: "squared_error",
    "absolute": lambda unit: "absolute_error",
    "low quantile": lambda unit: Quantile(0.05),
    "high quantile": lambda unit: Quantile(0.9),
    "huber": lambda unit: Huber(1.5 * unit),
    "expectile": lambda unit: Expectile(0.8),
    "log-cosh": lambda unit: LogCosh(1.5 * unit),
}
SMOOTH = ("squared", "huber", "expectile", "log-cosh")
OF_AMOUNTS = {
    "poisson": lambda unit: "poisson",
    "gamma": lambda unit: "gamma",
    "tweedie": lambda unit: Tweedie(1.6),
}
LOSSES_OF = {"numbers": OF_NUMBERS, "amounts": OF_AMOUNTS}
VARIANTS = {
    "default": {},
    "early stopping": {"early_stopping": True, "max_iter": 200, "learning_rate": 0.3, "n_iter_no_change": 5},
    "agbm": like_default("agbm"),
    "gbm with l2": {**like_default("gbm"), "l2_regularization": 3.0},
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def predictions(loss, variant, X, y, unit):
    model = AGBMRegressor(**{"max_iter": 15, **VARIANTS[variant]}, loss=loss(unit)).fit(X, y * unit)
    return model.predict(X) / unit, model.n_iter_


@cache
def in_unit_one(losses, loss, variant):
    """Predictions for the rows above, with which those in several other units are compared."""
    X, y = rows()
    return predictions(LOSSES_OF[losses][loss], variant, X, np.exp(y / 4) if losses == "amounts" else y, 1.0)


@pytest.mark.slow
class TestUnit:
    @every_variant
    @pytest.mark.parametrize("unit", [2.0**-40, 2.0**30])
    @pytest.mark.parametrize("loss", OF_NUMBERS)
    def test_numbers_in_powers_of_two(self, loss, unit, variant):
        X, y = rows()
        one, n_iter = in_unit_one("numbers", loss, variant)
        other, as_many = predictions(OF_NUMBERS[loss], variant, X, y, unit)
        np.testing.assert_array_equal(other, one)
        assert n_iter == as_many

    @pytest.mark.parametrize("unit", [2.0**-40, 2.0**30])
    @pytest.mark.parametrize("loss", OF_NUMBERS)
    def test_labels_that_are_mostly_equal(self, loss, unit):
        """The residual of most rows is zero at first, and does not reveal the unit."""
        X, y = rows()
        y = np.where(y > 2.5, y, 0.0)
        assert np.mean(y == 0.0) > 0.6
        one, _ = predictions(OF_NUMBERS[loss], "default", X, y, 1.0)
        np.testing.assert_array_equal(predictions(OF_NUMBERS[loss], "default", X, y, unit)[0], one)

    @every_variant
    @pytest.mark.parametrize("unit", [1e-7, 1e9])
    @pytest.mark.parametrize("loss", OF_NUMBERS)
    def test_numbers(self, loss, unit, variant):
        """To rounding, which decides between splits that gain the same: losses with a kink have many such."""
        X, y = rows()
        one, n_iter = in_unit_one("numbers", loss, variant)
        other, as_many = predictions(OF_NUMBERS[loss], variant, X, y, unit)
        if loss in SMOOTH:
            assert np.mean(np.abs(other - one) > 1e-6) < 0.02
            assert n_iter == as_many
        else:
            quantile = {"absolute": 0.5, "low quantile": 0.05, "high quantile": 0.9}[loss]
            losses = [Quantile(quantile).value(y, found).mean() for found in (one, other)]
            stops = "early_stopping" in VARIANTS[variant]  # at another iteration of nearly the same loss
            assert losses[0] == pytest.approx(losses[1], rel=0.25 if stops else 0.05)

    @pytest.mark.parametrize("variant", ["default", "early stopping", "agbm"])
    @pytest.mark.parametrize("unit", [1e-30, 0.01, 1e20])
    @pytest.mark.parametrize("loss", OF_AMOUNTS)
    def test_amounts(self, loss, unit, variant):
        """With a log link the scores shift, which changes their last bits; l2 is in rows, of no unit."""
        X, y = rows()
        one, n_iter = in_unit_one("amounts", loss, variant)
        other, as_many = predictions(OF_AMOUNTS[loss], variant, X, np.exp(y / 4), unit)
        assert np.mean(np.abs(other / one - 1.0) > 1e-5) < 0.05
        assert abs(n_iter - as_many) <= 2

    def test_quality_does_not_suffer_from_small_units(self):
        """The tolerance is relative: the loss falls by less and less than any absolute one."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(12_000, 3))
        y = X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=len(X))
        large, small = (AGBMRegressor().fit(X, y * unit) for unit in (1.0, 1e-6))
        assert large.n_iter_ == small.n_iter_ > 40


class TestShift:
    @pytest.mark.slow
    @pytest.mark.parametrize("variant", ["default", "early stopping", "agbm"])
    @pytest.mark.parametrize("loss", OF_NUMBERS)
    def test_numbers(self, loss, variant):
        X, y = rows()
        y = np.round(y * 2.0**20) / 2.0**20  # nothing is lost when something is added
        one, _ = predictions(OF_NUMBERS[loss], variant, X, y, 1.0)
        other, _ = predictions(OF_NUMBERS[loss], variant, X, y + 1024.0, 1.0)
        difference = np.abs(other - 1024.0 - one)
        assert np.mean(difference > 1e-6) < 0.02 if loss in SMOOTH else np.mean(difference) < 0.2


class TestClasses:
    @pytest.mark.parametrize("loss", ["log_loss", "exponential"])
    def test_order_of_two_classes(self, loss):
        X, y = rows()
        model = AGBMClassifier(loss=loss, max_iter=15, early_stopping=False)
        one = clone(model).fit(X, np.where(y > 0.5, "b", "a")).predict_proba(X)
        other = clone(model).fit(X, np.where(y > 0.5, "a", "b")).predict_proba(X)
        np.testing.assert_allclose(one, other[:, ::-1], atol=1e-9)

    def test_order_of_several_classes(self):
        X, y = rows()
        codes = np.digitize(y, [-0.5, 0.5, 1.5])
        order = np.array([2, 0, 3, 1])
        model = AGBMClassifier(n_members=1, colsample_bynode=1.0, max_iter=10)
        one, other = clone(model).fit(X, codes).predict_proba(X), clone(model).fit(X, order[codes]).predict_proba(X)
        np.testing.assert_allclose(one, other[:, order], atol=1e-9)


class TestSmallAndLarge:
    @pytest.mark.parametrize("loss", ["poisson", "gamma", Tweedie(1.5)], ids=str)
    @pytest.mark.parametrize("unit", [1e-15, 1e-30, 1e-100])
    def test_means_of_tiny_amounts(self, loss, unit):
        X, y = rows()
        amounts = unit * np.exp(y / 4)
        assert AGBMRegressor(loss=loss).fit(X, amounts).predict(X).mean() == pytest.approx(amounts.mean(), rel=0.05)

    @pytest.mark.parametrize("loss", ["squared_error", "poisson"])
    def test_squares_that_underflow(self, loss):
        X, y = rows()
        with pytest.raises(ValueError, match=r"y: residuals of the start function are at most .* scale y up"):
            AGBMRegressor(loss=loss).fit(X, 1e-200 * np.exp(y / 4))
        AGBMRegressor(loss="absolute_error", max_iter=2).fit(X, 1e-200 * y)
        AGBMRegressor(max_iter=2).fit(X, np.full(N, 1e-200))

    @pytest.mark.parametrize("model", ["zero", "negative"])
    def test_predictions_of_zero(self, model):
        class Constant:
            def predict(self, X):
                return np.full(len(X), 0.0 if model == "zero" else -1.0)

        X, y = rows()
        with pytest.raises(ValueError, match=r"init=.* must predict .* finite .*, positive because of the log link"):
            AGBMRegressor(loss="poisson", init=Constant()).fit(X, np.exp(y))


class TestHuber:
    def test_one_label_far_away(self):
        X, y = rows()
        model = AGBMRegressor(loss=Huber(1.0), early_stopping=False)
        usual = model.fit(X[1:], y[1:]).predict(X)
        y[0] = 1e30
        found = model.fit(X, y).predict(X)
        assert np.abs(found - usual)[1:].mean() < 0.1

    @pytest.mark.parametrize("weight", [None, np.array([1.0, 2.0, 0.5, 0.1, 3.0, 1.0])])
    @pytest.mark.parametrize("unit", [1e-250, 1.0, 1e250])
    def test_the_best_constant_is_where_the_slope_turns(self, weight, unit):
        y = np.array([-3.0, 0.1, 0.2, 0.4, 7.0, 1e6]) * unit
        loss = Huber(0.25 * unit)
        found = loss.best_constant(y, weight)
        for f, sign in ((np.nextafter(found, -np.inf), 1.0), (found, -1.0), (np.nextafter(found, np.inf), -1.0)):
            slope = np.average(loss.negative_gradient(y, np.full(6, f)), weights=weight)
            assert sign * slope >= -1e-16 * unit

    def test_signs_and_zeros(self):
        for y in ([0.0, 0.0], [-0.0, 0.0], [-1.0, 1.0], [5.0], [-5.0, -5.0], [-1e308, 1e308]):
            assert min(y) <= Huber(1.0).best_constant(np.array(y), None) <= max(y)


class TestDates:
    KINDS = (
        pd.Series(pd.to_timedelta([1, None] * 50, unit="D")),
        pd.Series(pd.to_datetime(["2024-01-01", "2024-01-02"] * 50)),
        pd.Series(pd.to_datetime(["2024-01-01", "2024-01-02"] * 50, utc=True)),
        np.array([np.timedelta64(1, "s"), np.timedelta64("NaT", "s")] * 50),
        np.array([pd.Timestamp("2024-01-01"), pd.NaT] * 50, dtype=object),
        np.array(["2024-01-01", "NaT"] * 50, dtype="datetime64[D]"),
    )

    @pytest.mark.parametrize("y", KINDS, ids=lambda y: str(y.dtype))
    def test_dates_as_labels_raise(self, y):
        X = np.random.default_rng(0).normal(size=(100, 2))
        with pytest.raises(ValueError, match=r"^y has dates or times"):
            AGBMRegressor().fit(X, y)
        with pytest.raises(ValueError, match=r"^y_val has dates or times"):
            AGBMRegressor().fit(X, X[:, 0], X_val=X, y_val=y)

    def test_missing_dates_are_not_classes(self):
        X = np.random.default_rng(0).normal(size=(100, 2))
        for y in (np.array(["2024-01-01", "NaT"] * 50, dtype="datetime64[D]"), pd.Series([pd.NaT, "a"] * 50)):
            with pytest.raises(ValueError, match=r"y has missing labels"):
                AGBMClassifier().fit(X, y)


class TestEarlyStopping:
    """What counts as an improvement is relative to what was gained so far."""

    @pytest.mark.parametrize(("unit", "shift"), [(1.0, 0.0), (1e-9, 0.0), (1e9, 0.0), (1.0, -4.0), (1e-9, 1e-3)])
    def test_unit_and_zero_of_the_loss_do_not_matter(self, unit, shift, monkeypatch):
        monkeypatch.setattr("agbm._core.training.TOLERANCE", 0.1)
        losses = [5.0, 4.0, 3.95, 3.85, 3.84, 3.83, 3.0]
        stopping = EarlyStopping(n_iter_no_change=2, criterion=by_loss(validation=True))
        answers = [stopping(Record(i, i, 0.0, unit * loss + shift)) for i, loss in enumerate(losses)]
        assert answers == [False, False, False, False, False, True, False]

    def test_a_constant_loss(self):
        stopping = EarlyStopping(n_iter_no_change=3, criterion=by_loss(validation=True))
        assert [stopping(Record(i, i, 0.0, 1.0 + i)) for i in range(4)] == [False, False, False, True]


@pytest.mark.parametrize("value", ["0.3", None, np.nan, 0.0, 1.0, -1.0, 2.0, [0.5]])
def test_parameters_of_losses(value):
    for kind, name in ((Quantile, "quantile"), (Tweedie, "power")):
        if kind is Quantile and value == [0.5]:
            continue  # a list of quantiles is allowed
        with pytest.raises(ValueError, match=rf"{name}=.* must be a number between"):
            kind(value)
    if value not in (1.0, 2.0):
        with pytest.raises(ValueError, match=r"delta=.* must be a positive, finite number"):
            Huber(value)
    with pytest.raises(ValueError, match=r"use the squared error"):
        Huber(np.inf)


def test_numbers_of_numpy_are_parameters_of_losses():
    assert repr(Quantile(np.float32(0.25))) == "Quantile(quantile=0.25)"
    assert type(Huber(np.int64(3)).delta) is float


def test_every_loss_of_numbers_is_covered():
    named = {
        named_loss("regression", made(1.0)) if isinstance(made(1.0), str) else made(1.0)
        for made in {**OF_NUMBERS, **OF_AMOUNTS}.values()
    }
    alone = {
        kind for kind in LOSSES.values() if kind.tasks == ("regression",) and not issubclass(kind, DistributionLoss)
    }
    assert {type(loss) for loss in named} == alone
