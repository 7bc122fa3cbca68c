"""Weights: integers repeat rows, floats are relative, and their unit, order and size do not matter."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from agbm import AGBMClassifier, AGBMRegressor, losses
from agbm._base.sums import ExactSum, exact_mean, exact_sum, inner_sums
from agbm._base.weights import MOST_REPEATS, Weights, check_sample_weight
from profiles import examples

LOSSES = [
    "squared_error", "absolute_error", "poisson", "gamma", losses.Quantile(0.2), losses.Huber(1.0), losses.Tweedie(1.4),
]  # fmt: skip


def seeds(few, many):
    """Seeds of random rows, of which only the first few are a part of `make test`."""
    return [*range(few), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(few, many))]


def rows(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[rng.random(X.shape) < 0.05] = np.nan
    signal = np.nan_to_num(X[:, 0]) * 2 + np.nan_to_num(X[:, 1]) ** 2 + rng.normal(size=n)
    return X, signal, rng


def assert_same_bits(one, other, X):
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    for name in ("train_loss", "cosine_residual"):
        np.testing.assert_array_equal(one.history_[name], other.history_[name])


class TestSums:
    @given(seed=st.integers(0, 2**32 - 1), n=st.sampled_from([1, 15, 1025, 20_000]), exponent=st.integers(-300, 300))
    def test_integer_weights_equal_repeated_rows(self, seed, n, exponent):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(2, n)) * 10.0 ** rng.uniform(-3, 3, (2, n)) * 2.0 ** (exponent // 2)
        counts = rng.integers(0, 6, n)
        weight = counts.astype(float)
        assert exact_sum(x, weight) == exact_sum(np.repeat(x, counts))
        repeated = np.repeat(np.stack([x, y]), counts, axis=1)
        assert inner_sums(x[np.newaxis], y[np.newaxis], weight) == inner_sums(repeated[:1], repeated[1:])

    def test_largest_integer_weights(self):
        x = np.random.default_rng(0).normal(size=50)
        found = exact_sum(x, np.full(50, float(MOST_REPEATS)))
        assert found == ExactSum(exact_sum(x).units * MOST_REPEATS)

    def test_non_finite_products(self):
        x, weight = np.array([1e308, 1.0, -np.inf]), np.array([10.0, 1.0, 2.0])
        assert np.isnan(float(exact_sum(x, weight)))
        assert float(exact_sum(x[:2], weight[:2])) == np.inf


class TestScale:
    def test_relative_weights_have_mean_one_and_few_bits(self):
        weights = Weights.of(check_sample_weight(np.random.default_rng(0).exponential(size=1000), np.zeros((1000, 1))))
        assert weights.repeats is None
        assert exact_mean(weights.total) == pytest.approx(1.0, abs=1e-7)
        np.testing.assert_array_equal(weights.total.astype(np.float32), weights.total)

    @examples(15)
    @given(seed=st.integers(0, 1000))
    def test_counts_times_relative_weights_are_exact(self, seed):
        rng = np.random.default_rng(seed)
        counts, relative = rng.integers(1, MOST_REPEATS, 30), rng.exponential(size=30)
        weights = Weights.of(counts, relative)
        assert [int(w * 2**80) for w in weights.total] == [
            int(n) * int(r * 2**80) for n, r in zip(weights.repeats, weights.relative, strict=True)
        ]
        np.testing.assert_array_equal(weights.in_steps % 1.0, 0.0)
        difference = weights.in_steps * weights.step - weights.total
        assert (np.abs(difference) <= weights.repeats * weights.step).all()  # repetitions are rounded equally
        np.testing.assert_array_equal(weights[::2].in_steps, weights.in_steps[::2])

    @pytest.mark.slow
    @pytest.mark.parametrize("loss", LOSSES, ids=str)
    @pytest.mark.parametrize("unit", [1e-9, 3.0, 1e300])
    def test_relative_weights_are_scale_invariant(self, loss, unit):
        X, signal, rng = rows()
        y, weight = np.exp(signal / 4), rng.exponential(size=len(X))
        model = AGBMRegressor(loss=loss, max_iter=10)
        found = [clone(model).fit(X, y, sample_weight=w).predict(X) for w in (weight, unit * weight)]
        np.testing.assert_allclose(found[0], found[1], rtol=1e-6)

    def test_equal_relative_weights_change_nothing(self):
        X, y, _ = rows()
        model = AGBMRegressor(max_iter=10)
        alone = clone(model).fit(X, y)
        for weight in (0.3, 7.0, 1e300):
            assert_same_bits(clone(model).fit(X, y, sample_weight=np.full(len(y), weight)), alone, X)

    @pytest.mark.parametrize("largest", [1e308, 1e-300, 5e-324])
    def test_weights_at_the_ends_of_the_range(self, largest):
        X, y, rng = rows()
        share = rng.uniform(0.5, 1.0, len(y)) if largest > 1e-320 else np.ones(len(y))
        model = AGBMRegressor(max_iter=10)
        found = clone(model).fit(X, y, sample_weight=largest * share).predict(X)
        np.testing.assert_allclose(found, clone(model).fit(X, y, sample_weight=share).predict(X), rtol=1e-6)
        labels = np.where(y > 0, "1", "0")
        AGBMClassifier(max_iter=3, class_weight={"0": 1e308, "1": 1e300}).fit(X, labels, largest * share)


class TestContinuity:
    """A small change of the weights causes a small change of the model, whatever the weights are."""

    def test_integral_floats_are_relative_weights(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(600, 5))
        y = X[:, 0] + X[:, 1] ** 2 + 1.5 * rng.normal(size=600)
        dollars = rng.integers(1000, 100_000, 600).astype(float)
        a_cent_more = np.append(dollars[0] + 0.01, dollars[1:])
        found = [AGBMRegressor().fit(X, y, sample_weight=w).predict(X) for w in (dollars, a_cent_more, dollars / 1000)]
        np.testing.assert_allclose(found[1], found[0], atol=1e-3)
        np.testing.assert_allclose(found[2], found[0], atol=1e-3)

    def test_automatic_tree_sizes_ignore_weights(self):
        X, y, rng = rows(600)
        amounts = rng.integers(1000, 100_000, 600)
        found = AGBMRegressor().fit(X, y, sample_weight=amounts)
        alone = AGBMRegressor().fit(X, y)
        assert max(len(tree.nodes) for tree in found.model_.models) <= 15, "eight leaves"
        assert max(len(tree.nodes) for tree in alone.model_.models) <= 15

    def test_counts_and_floats_of_the_same_numbers_are_close(self):
        """They differ in the meaning of l2 and of the minimum number of rows, not in the size of trees."""
        X, y, rng = rows(600)
        amounts = rng.integers(1000, 100_000, 600)
        as_counts, as_ratios = (AGBMRegressor().fit(X, y, sample_weight=w).predict(X) for w in (amounts, amounts * 1.0))
        assert np.corrcoef(as_counts, as_ratios)[0, 1] > 0.95


# "auto" depends on the number of rows as given, and so does what is held out.
GIVEN_SIZES = {"max_depth": 3, "min_samples_leaf": 3, "max_iter": 12, "early_stopping": False, "views": None}


class TestRepetition:
    @pytest.mark.slow
    @pytest.mark.parametrize("seed", seeds(3, 12))
    @pytest.mark.parametrize("loss", LOSSES, ids=str)
    def test_losses(self, loss, seed):
        X, signal, rng = rows(seed=seed)
        y, counts = np.exp(signal / 4), rng.integers(0, 6, len(signal))
        model = AGBMRegressor(loss=loss, **GIVEN_SIZES)
        weighted = clone(model).fit(X, y, sample_weight=counts)
        repeated = clone(model).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
        assert_same_bits(weighted, repeated, X)

    @pytest.mark.slow
    @pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2, 1: 1, 2: 3}, {0: 0.1, 1: 0.7}])
    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_class_weights(self, class_weight, n_classes):
        X, signal, rng = rows(900)
        y, counts = np.digitize(signal, [0, 2][: n_classes - 1]), rng.integers(1, 5, len(signal))
        if isinstance(class_weight, dict):
            class_weight = {label: weight for label, weight in class_weight.items() if label < n_classes}
        model = AGBMClassifier(class_weight=class_weight, **GIVEN_SIZES)
        weighted = clone(model).fit(X, y, sample_weight=counts)
        repeated = clone(model).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
        np.testing.assert_array_equal(weighted.predict_proba(X), repeated.predict_proba(X))
        np.testing.assert_array_equal(weighted.history_["train_loss"], repeated.history_["train_loss"])

    def test_categories(self):
        X, y, rng = rows(3000)
        table = pd.DataFrame(X, columns=list("abcd")).assign(city=rng.integers(0, 400, len(y)).astype(str))
        counts = rng.integers(1, 4, len(y))
        model = AGBMRegressor(**GIVEN_SIZES)
        weighted = clone(model).fit(table, y, sample_weight=counts)
        again = table.loc[table.index.repeat(counts)]
        assert_same_bits(weighted, clone(model).fit(again, np.repeat(y, counts)), table)

    @pytest.mark.parametrize("kind", [np.uint8, np.int32, "Int64", list, bool])
    def test_integer_dtypes(self, kind):
        X, y, rng = rows()
        counts = rng.integers(0, 2 if kind is bool else 4, len(y))
        given = counts.tolist() if kind is list else pd.Series(counts).astype(kind)
        model = AGBMRegressor(**GIVEN_SIZES)
        repeated = clone(model).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
        assert_same_bits(clone(model).fit(X, y, sample_weight=given), repeated, X)

    def test_integers_above_the_limit_raise(self):
        X, y, _ = rows()
        weight = np.full(len(y), 2**27)
        with pytest.raises(ValueError, match=r"sample_weight has integers up to 134217728.*use floats"):
            AGBMRegressor().fit(X, y, sample_weight=weight)
        AGBMRegressor(max_iter=2).fit(X, y, sample_weight=weight.astype(float))


class TestOrder:
    """Without validation rows and subsampling, trees do not depend on the order of the rows."""

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", seeds(5, 20))
    def test_relative_weights(self, seed):
        X, y, rng = rows(700, seed)
        weight, order = rng.exponential(size=len(y)), rng.permutation(len(y))
        model = AGBMRegressor(max_iter=10, early_stopping=False)
        shuffled = clone(model).fit(X[order], y[order], weight[order])
        assert_same_bits(clone(model).fit(X, y, weight), shuffled, X)

    @pytest.mark.slow
    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("class_weight", ["balanced", {0: 0.3, 1: 1.7, 2: 0.9}])
    def test_class_weights(self, class_weight, weighted):
        for seed in range(3):
            X, signal, rng = rows(700, seed)
            y, order = np.digitize(signal, [0, 2]), rng.permutation(len(signal))
            weight = rng.exponential(size=len(y)) if weighted else None
            model = AGBMClassifier(max_iter=6, early_stopping=False, class_weight=class_weight)
            shuffled = clone(model).fit(X[order], y[order], None if weight is None else weight[order])
            np.testing.assert_array_equal(
                clone(model).fit(X, y, weight).decision_function(X), shuffled.decision_function(X)
            )

    def test_categories(self):
        X, y, rng = rows(3000)
        table = pd.DataFrame(X, columns=list("abcd")).assign(city=rng.integers(0, 400, len(y)).astype(str))
        weight, order = rng.exponential(size=len(y)), rng.permutation(len(y))
        model = AGBMRegressor(max_iter=6, early_stopping=False, views=None)  # runs that find views hold rows out
        shuffled = clone(model).fit(table.iloc[order], y[order], weight[order])
        assert_same_bits(clone(model).fit(table, y, weight), shuffled, table)


class TestClasses:
    @pytest.mark.parametrize("labels", [["0", "1"], ["1", "10"], ["True", "False"], [0, 1], [1.0, 2.0], [False, True]])
    def test_labels_of_every_kind(self, labels):
        X, signal, _ = rows()
        y = np.array(labels)[(signal > 1).astype(int)]
        weighted = AGBMClassifier(class_weight={labels[0]: 1, labels[1]: 5}, max_iter=5).fit(X, y)
        by_row = AGBMClassifier(max_iter=5).fit(X, y, sample_weight=np.where(y == labels[1], 5.0, 1.0))
        np.testing.assert_array_equal(weighted.predict_proba(X), by_row.predict_proba(X))

    def test_balanced(self):
        X, signal, rng = rows()
        y, weight = np.digitize(signal, [0, 2]), rng.exponential(size=len(signal))
        sizes = np.bincount(y, weight)
        balanced = AGBMClassifier(class_weight="balanced", max_iter=5).fit(X, y, weight).decision_function(X)
        by_row = AGBMClassifier(max_iter=5).fit(X, y, weight / sizes[y]).decision_function(X)
        np.testing.assert_allclose(balanced, by_row, atol=1e-6)

    @pytest.mark.parametrize("wrong", [{0: -1.0}, {0: np.nan}, {0: np.inf}, {0: "2"}, {0: None}])
    def test_invalid_class_weights(self, wrong):
        X, signal, _ = rows()
        with pytest.raises(ValueError, match=r"class_weight=.*must be finite and not negative"):
            AGBMClassifier(class_weight=wrong).fit(X, signal > 0)


@pytest.mark.parametrize("kind", ["timedelta64[ns]", "datetime64[ns]", "object"])
def test_dates_as_weights_raise(kind):
    X, y, _ = rows()
    weight = np.arange(len(y)).astype("timedelta64[us]").astype(kind)
    refused = rf"sample_weight has dates or times \({re.escape(kind)}"
    with pytest.raises(ValueError, match=refused):
        AGBMRegressor().fit(X, y, sample_weight=weight)
    regressor, classifier = AGBMRegressor(max_iter=1).fit(X, y), AGBMClassifier(max_iter=1).fit(X, y > 0)
    for model, labels in ((regressor, y), (classifier, y > 0)):
        with pytest.raises(ValueError, match=refused):
            model.score(X, labels, sample_weight=weight)
    with pytest.raises(ValueError, match=r"^y has dates or times"):
        regressor.score(X, weight)
