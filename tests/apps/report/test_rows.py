"""The numbers behind a report about rows: gain, calibration, segments, drift, coverage by group."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ks_2samp
from sklearn.metrics import average_precision_score

from agbm import AGBMClassifier, AGBMRegressor
from agbm._apps.evaluation.metrics import Z, average_precision
from agbm._apps.evaluation.tasks import task_of
from agbm._apps.report.build import drift_of, segments_of
from agbm._apps.report.calibration import grouped
from agbm._apps.report.classes import Event, gains_of, separation_of, tenths_of
from agbm._apps.report.drift import tell_apart
from agbm._apps.report.findings import numbers_of, predictions_of
from agbm._apps.report.measured import GROUPED_COVERAGE, GroupCoverage
from agbm._apps.report.segments import find, find_segments
from agbm._apps.report.wording import Wording

FEW = {"max_iter": 5, "n_members": 1, "early_stopping": False}


def event(seed, n=997, digits=2):
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 4, n).round(digits)
    return Event("yes", "no", p, rng.random(n) < p)


class TestProbabilities:
    @pytest.mark.parametrize("digits", [1, 8])
    def test_gain_is_the_mean_over_orders_of_equal_predictions(self, digits):
        one = event(0, 200, digits)
        rng, found = np.random.default_rng(1), np.zeros(201)
        n_orders = 2000
        for _ in range(n_orders):
            order = np.lexsort([rng.random(200), -one.probabilities])
            found[1:] += np.cumsum(one.occurred[order]) / one.occurred.sum() / n_orders
        np.testing.assert_allclose(gains_of(one).at(np.arange(201) / 200), found, atol=0.01)

    def test_separation_is_the_statistic_of_two_samples(self):
        one = event(1)
        found = separation_of(one)
        expected = ks_2samp(one.probabilities[one.occurred], one.probabilities[~one.occurred])
        assert found.value == pytest.approx(expected.statistic)
        above = one.probabilities >= found.threshold
        assert (found.positive, found.negative) == (above[one.occurred].mean(), above[~one.occurred].mean())

    def test_tenths_add_up(self):
        one = event(2)
        tenths = tenths_of(one)
        assert sum(tenth.rows for tenth in tenths) == 997
        assert sum(tenth.share * tenth.rows for tenth in tenths) == pytest.approx(one.occurred.sum())
        assert tenths[-1].found == tenths[-1].lift == pytest.approx(1.0)
        assert all(tenth.low <= tenth.share <= tenth.high for tenth in tenths)

    def test_average_precision_and_its_interval(self):
        """The interval contains the area of a large sample in about 95 % of the cases."""
        whole = event(3, 200_000, 8)
        true, inside = average_precision_score(whole.occurred, whole.probabilities), []
        for seed in range(200):
            rows = np.random.default_rng(seed).choice(200_000, 1000)
            found = average_precision(whole.occurred[rows], whole.probabilities[rows])
            assert found.value == average_precision_score(whole.occurred[rows], whole.probabilities[rows])
            inside.append(found.low <= true <= found.high)
        assert np.mean(inside) > 0.9

    @given(st.lists(st.sampled_from([0.0, 0.1, 0.1000001, 0.5, 1.0]), min_size=1, max_size=300), st.booleans())
    def test_groups_of_calibration(self, predicted, shares):
        predicted = np.array(predicted)
        observed = (np.arange(len(predicted)) % 3 == 0).astype(float)
        groups = grouped(predicted, observed, shares)
        assert groups.rows.sum() == len(predicted)
        assert groups.rows @ groups.observed == pytest.approx(observed.sum())
        assert groups.rows @ groups.predicted == pytest.approx(predicted.sum())
        assert (np.diff(groups.predicted) > 0).all()
        assert (groups.low <= groups.observed + 1e-12).all()
        assert (groups.observed <= groups.high + 1e-12).all()

    def test_groups_have_about_the_same_size(self):
        predicted = np.random.default_rng(0).random(10_000) ** 4
        groups = grouped(predicted, predicted, shares=False)
        assert len(groups.rows) == 20
        assert groups.rows.max() - groups.rows.min() <= 2


@pytest.fixture(scope="module")
def shops():
    """Rows with noise in one segment, a date, an ordered category, and missing values."""
    rng = np.random.default_rng(0)
    n = 4000
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "region": rng.choice(["north", "east", "south"], n),
            "size": pd.Categorical(rng.choice(["S", "M", "L"], n), ["S", "M", "L"], ordered=True),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "price": np.where(rng.random(n) < 0.2, np.nan, rng.lognormal(size=n)),
        }
    )
    noisy = (X["age"] > 60) & X["region"].isin(["north", "east"])
    return X, X["age"] / 10.0 + np.where(noisy, 6.0, 0.5) * rng.normal(size=n)


@pytest.fixture(scope="module")
def model(shops):
    X, y = shops
    return AGBMRegressor(max_iter=40, n_members=1).fit(X[:2000], y[:2000])


class TestSegments:
    def test_a_planted_segment_is_found(self, shops, model):
        X, y = shops[0][2000:], shops[1][2000:]
        test = predictions_of(model, [X[:500], X[500:]], y.to_numpy())
        found = segments_of(model, test, task_of(model), None)
        assert found.n_sampled == 2000
        assert found.n_rows == 1000
        first = found.found[0]
        assert "age > 60" in first.rule
        assert "region" in first.rule
        assert first.low > 2.5 * found.loss[0]
        assert next(iter(found.groups)) == "age"
        assert sum(group.rows for group in found.groups["age"]) == 2000

    def test_rules_hold_for_their_rows(self, shops, model):
        """The text of a rule, as a condition of pandas, selects the rows that the segment was measured on."""
        X, y = shops
        numbers = numbers_of(model, X)
        rules, others = find(
            numbers, np.abs(y - y.mean()).to_numpy() * (X["price"].isna() + 1), Wording(model.model_.reader)
        )
        assert len(rules) > 3
        assert sum(len(rule.rows) for rule in rules) == len(others) == 2000
        for rule in rules:
            mask = np.logical_and.reduce([holds(part, X) for part in rule.text.split(" and ")])
            np.testing.assert_array_equal(np.flatnonzero(mask & np.isin(np.arange(4000), others)), rule.rows)

    def test_noise_has_few_segments(self):
        """Of ten samples without any pattern, at most a few have a segment: losses are those of the other half."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(1000, 5))
        wording = Wording(AGBMRegressor(**FEW).fit(X, X[:, 0]).model_.reader)
        counts = [len(find_segments(X, rng.exponential(size=1000), None, wording, []).found) for _ in range(10)]
        assert sum(counts) <= 5

    def test_few_rows_have_none(self):
        X = np.zeros((199, 1))
        wording = Wording(AGBMRegressor(**FEW).fit(X, X[:, 0]).model_.reader)
        assert find_segments(X, X[:, 0], None, wording, []) is None


def holds(text, X):
    """A part of a rule, read independently."""
    if text.endswith(" or missing)"):
        inner = text[1 : -len(" or missing)")]
        name = next(name for name in X if name in inner)
        return holds(inner, X) | X[name].isna()
    if text.endswith(" is missing"):
        return X[text.split()[0]].isna()
    if text.endswith(" is not missing"):
        return X[text.split()[0]].notna()
    for sign in (" in (", " not in ("):
        name, found, values = text.partition(sign)
        if found and " not" not in name:
            listed = X[name].astype(str).isin(values.rstrip(")").split(", "))
            return ~listed if "not" in sign else listed
    parts = text.split()
    if len(parts) == 5:  # 20 < age ≤ 60
        return holds(f"{parts[2]} > {parts[0]}", X) & holds(f"{parts[2]} ≤ {parts[4]}", X)
    name, sign, value = parts
    if sign in "=≠":
        return (X[name].astype(str) == value) == (sign == "=")
    limit = pd.Timestamp(value) if name == "day" else float(value.replace(",", ""))
    return X[name] > limit if sign == ">" else X[name] <= limit


class TestDrift:
    def test_index_of_a_category(self):
        """As its definition says: the sum over categories of (new - old) log(new / old)."""
        X = pd.DataFrame({"kind": ["a"] * 500 + ["b"] * 300 + ["c"] * 200, "x": np.arange(1000.0)})
        model = AGBMClassifier(**FEW).fit(X, np.where(X["kind"] == "a", 0, X["x"] > 700))
        later = pd.DataFrame({"kind": ["a"] * 200 + ["b"] * 100 + ["d"] * 60 + [None] * 40, "x": np.arange(400.0)})
        test = predictions_of(model, [later[:150], later[150:]], np.arange(400) % 2)
        found = {column.column: column for column in drift_of(model, test).columns}["kind"]
        shares = dict(zip(found.bins, zip(*found.shares, strict=True), strict=True))
        assert shares["a"] == (0.5, 0.5)
        assert shares["others"] == (0.0, 0.15)
        assert found.missing == (0.0, 0.1)
        assert found.notes == ("15 % new: d",)
        old, new = np.array([500, 300, 200, 0.5, 0.5]), np.array([200, 100, 0.5, 60, 40])
        old, new = old / old.sum(), new / new.sum()
        assert found.psi == pytest.approx(((new - old) * np.log(new / old)).sum())
        assert found.size == "large"

    def test_chance(self, shops):
        """Rows of the same distribution seldom count as drifted; shifted ones do."""
        X, y = shops
        sizes = Counter()
        for seed in range(10):
            order = np.random.default_rng(seed).permutation(4000)
            model = AGBMRegressor(**FEW).fit(X.iloc[order[:3000]], y.iloc[order[:3000]])
            test = predictions_of(model, [X.iloc[order[3000:]]], y.iloc[order[3000:]].to_numpy())
            sizes.update(column.differs for column in drift_of(model, test).columns)
        assert sizes[True] <= 3 < 20 < sizes[False]
        late = X["day"] > "2021-06-01"
        model = AGBMRegressor(max_iter=60, n_members=1).fit(X[~late], y[~late])
        test = predictions_of(model, [X[late]], y[late].to_numpy())
        first = drift_of(model, test).columns[0]
        assert (first.column, first.kind, first.size) == ("day", "date", "large")
        assert any(note.startswith("100 % > 2021-05") for note in first.notes)

    def test_a_classifier_tells_rows_apart(self, shops, model):
        X, _ = shops
        wording, numbers = Wording(model.model_.reader), numbers_of(model, X)
        same = tell_apart(numbers[:2000], numbers[2000:], wording)
        assert same.area.low < 0.5 < same.area.high
        late = numbers[:, 3] > np.median(numbers[:, 3])
        other = tell_apart(numbers[~late], numbers[late], wording)
        assert other.area.value > 0.99
        assert next(iter(other.columns)) == "day"

    def test_without_training_rows(self, shops, model):
        """Models of files without a profile have no section."""
        X, y = shops
        test = predictions_of(model, [X], y.to_numpy())
        bare = AGBMRegressor(**FEW).fit(X, y)
        bare.model_ = bare.model_.__class__(**{**vars(bare.model_), "profile": None})
        assert drift_of(bare, test) is None


class TestCoverageByGroup:
    def test_the_interval_is_that_of_whole_groups(self):
        """The same as by hand, and wider than that of independent rows if the rows of a group are alike."""
        rng = np.random.default_rng(0)
        groups = rng.integers(0, 40, 2000)
        inside = rng.random(2000) < np.where(groups < 8, 0.5, 0.98)
        found = GroupCoverage.of(groups, inside)
        assert (np.diff(found.rows) <= 0).all()
        share, low, high = found.overall()
        table = pd.DataFrame({"group": groups, "residual": inside - inside.mean()})
        variance = 40 / 39 * (table.groupby("group")["residual"].sum() ** 2).sum() / 2000**2
        assert share == inside.mean()
        assert high - low == pytest.approx(2 * 2.0227 * np.sqrt(variance), rel=1e-4)
        assert high - low > 3 * Z * inside.std() / np.sqrt(2000)
        assert np.isnan(GroupCoverage.of(np.zeros(5), inside[:5]).overall()[1])

    def test_counts_are_those_of_predict_interval(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(900, 3))
        y = X[:, 0] + rng.normal(size=900)
        model = AGBMRegressor(max_iter=20).fit(X[:500], y[:500])
        X, y, groups = X[500:], y[500:], rng.choice(["a", "b", "c"], 400)
        found = predictions_of(model, [X[:150], X[150:]], y, groups=groups).measured.by_group
        low, high = model.predict_interval(X, GROUPED_COVERAGE).T
        inside = (low <= y) & (y <= high)
        expected = {name: ((groups == name).sum(), inside[groups == name].sum()) for name in "abc"}
        assert dict(zip(found.names, zip(found.rows, found.inside, strict=True), strict=True)) == expected
