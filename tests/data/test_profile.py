"""Profiles: the distributions of columns that fitted models keep."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import agbm
from agbm import AGBMClassifier, AGBMRegressor, Batches
from agbm._data import profile as module
from agbm._data.profile import FEWEST_ROWS, MOST_CATEGORIES, MOST_COLUMNS, MOST_NUMBERS, profile_of_table
from agbm._data.tables import Categories
from agbm._tree.bins import MAX_SAMPLE
from mixed_tables import labels, table

NONE = Categories()


def same(one, other):
    return len(one) == len(other) and all(
        np.array_equal(a.edges, b.edges) and np.array_equal(a.counts, b.counts) and a.n_missing == b.n_missing
        for a, b in zip(one, other, strict=True)
    )


values = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True, width=32), st.sampled_from([0.0, 1.0, 2.0, np.nan, np.inf, -np.inf])
)


@settings(max_examples=5 * settings.default.max_examples)
@given(st.lists(values, min_size=1, max_size=30), st.integers(1, 40))
def test_bins_of_numbers(some, repeats):
    """Bins partition the values, none is small, and edges separate values."""
    column = np.array(some * repeats)
    (found,) = profile_of_table(column[:, np.newaxis], 1, NONE)
    present = column[~np.isnan(column)]
    assert found.n_missing == len(column) - len(present)
    assert found.counts.sum() == len(present)
    assert np.array_equal(found.counts, np.bincount(np.searchsorted(found.edges, present), minlength=len(found.counts)))
    if len(found.edges):
        assert found.counts.min() >= FEWEST_ROWS
        assert (np.diff(found.edges) > 0).all()
        assert present.min() <= found.edges[0]
        assert found.edges[-1] < present.max()


def test_deciles_and_tails():
    column = np.random.default_rng(0).permutation(10_000).astype(float)
    (found,) = profile_of_table(column[:, np.newaxis], 1, NONE)
    np.testing.assert_array_equal(found.edges, [49.5, *np.arange(1000, 10_000, 1000) - 0.5, 9949.5])
    np.testing.assert_array_equal(found.counts, [50, 950, *[1000] * 8, 950, 50])


def test_a_frequent_value_has_a_bin_of_its_own():
    rng = np.random.default_rng(0)
    column = np.where(rng.random(5000) < 0.6, 0.0, rng.normal(size=5000))
    (found,) = profile_of_table(column[:, np.newaxis], 1, NONE)
    assert (column == 0.0).sum() in found.counts


def test_categories():
    codes = np.repeat([0.0, 1.0, 2.0, 3.0, np.nan], [50, 30, 9, 20, 7])
    (found,) = profile_of_table(codes[:, np.newaxis], 1, Categories({0: ["a", "b", "rare"]}))  # 3 is unknown
    np.testing.assert_array_equal(found.counts, [50, 30, 0, 29])
    assert found.n_missing == 7
    many = np.repeat(np.arange(200.0), 10)
    (found,) = profile_of_table(many[:, np.newaxis], 1, Categories({0: list(range(200))}))
    np.testing.assert_array_equal(found.counts, [10] * MOST_CATEGORIES + [10 * (200 - MOST_CATEGORIES)])


def test_limits(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, MOST_COLUMNS + 5))
    assert len(profile_of_table(X, X.shape[1], NONE)) == MOST_COLUMNS
    tall = rng.normal(size=(MAX_SAMPLE + 1, 1))
    assert profile_of_table(tall, 1, NONE)[0].counts.sum() == MOST_NUMBERS
    monkeypatch.setattr(module, "COLUMNS_AT_ONCE", 2)
    X[X < 0] = 0
    assert same(profile_of_table(csr_matrix(X), 7, NONE), profile_of_table(X[:, :7], 7, NONE))


@pytest.fixture(scope="module")
def rows():
    X = table(700)
    X["when"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(700) % 365, unit="D")
    return X, labels(X)


class TestModels:
    @pytest.mark.parametrize("size", [64, 333, 700])
    def test_batches_have_that_of_the_table(self, rows, size, monkeypatch):
        monkeypatch.setattr(module, "MOST_NUMBERS", 150)  # the values of rows far apart
        X, y = rows

        def read():
            return ((X[i : i + size], y[i : i + size]) for i in range(0, 700, size))

        options = {"max_iter": 2, "categorical_features": "from_dtype"}
        whole = AGBMRegressor(**options).fit(X, y)
        assert same(AGBMRegressor(**options).fit(Batches(read)).model_.profile, whole.model_.profile)
        assert len(whole.model_.profile) == X.shape[1]

    def test_weights_do_not_change_it(self, rows):
        X, y = rows
        sold = y > np.median(y)
        plain = AGBMClassifier(max_iter=2).fit(X, sold)
        balanced = AGBMClassifier(max_iter=2, class_weight={False: 1.0, True: 9.0}).fit(X, sold)
        weighted = AGBMClassifier(max_iter=2).fit(X, sold, sample_weight=np.where(sold, 2.0, 0.5))
        for other in (balanced, weighted):
            for f, column in enumerate(plain.model_.profile):
                if f not in plain.model_.categories:  # whose codes are ordered by weight
                    assert same([other.model_.profile[f]], [column])

    def test_files(self, rows, tmp_path):
        X, y = rows
        model = AGBMRegressor(max_iter=2).fit(X, y)
        model.save(tmp_path / "m.agbm")
        loaded = agbm.load(tmp_path / "m.agbm")
        assert same(loaded.model_.profile, model.model_.profile)
        loaded.save(tmp_path / "again.agbm")
        assert (tmp_path / "again.agbm").read_bytes() == (tmp_path / "m.agbm").read_bytes()

    def test_the_fingerprint_does_not_depend_on_it(self, rows):
        X, y = rows
        model = AGBMRegressor(max_iter=2).fit(X, y)
        before = model.fingerprint_
        object.__setattr__(model.model_, "profile", None)
        assert model.fingerprint_ == before

    @pytest.mark.parametrize("mode", ["trees", "leaves", "weights", "all"])
    def test_updated_models_have_that_of_the_new_rows(self, rows, mode):
        X, y = rows
        model = AGBMRegressor(max_iter=5).fit(X, y)
        new = X.assign(when=X["when"] + pd.Timedelta(days=1000))[:300]
        model.update(new, y[:300], mode=mode)
        place = list(X.columns).index("when")
        column = model.model_.profile[place]
        assert column.counts.sum() == 300
        assert column.edges.min() > (pd.Timestamp("2026-01-01") - pd.Timestamp("1970-01-01")).days
