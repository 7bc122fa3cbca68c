"""Rows in shards: the same models as from rows in one place, also when shards are lost. All in one process."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agbm import AGBMClassifier, AGBMRegressor
from agbm._base.sums import of_ordered_bits, ordered_bits
from agbm._base.weights import MOST_REPEATS_IN_ALL
from agbm.losses import Quantile
from shards import (
    LABELS,
    N_SHARDS,
    Disturbed,
    InProcess,
    assert_same,
    compare,
    labels_of,
    model_of,
    rows_of,
    sharded,
)  # fmt: skip
from variants import STRATEGIES, made, methods, newton, shared, strategies


@pytest.mark.slow
@methods
@shared
@newton
@pytest.mark.parametrize("kind", ["numbers", "three classes"])
def test_methods(method, shared_structure, second_order, kind):
    X, signal = rows_of()
    model = model_of(kind, method=made(method, shared_structure=shared_structure, second_order=second_order))
    compare(model, X, labels_of(kind, signal))


@pytest.mark.slow
@strategies
@methods
@pytest.mark.parametrize("kind", ["two outputs", "three classes"])
def test_several_outputs(strategy, method, kind):
    X, signal = rows_of()
    compare(model_of(kind, method=method, multi_strategy=strategy, subsample=0.7), X, labels_of(kind, signal))


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["loss_rise", "gradient", "validation_rise"])
def test_restarts(rule):
    X, signal = rows_of()
    model = model_of("numbers", method=made("agbmr", restart=rule, momentum=0.9), learning_rate=0.9, max_iter=25)
    disturbed = compare(model, X, signal, None, X[:50] + 0.1, signal[:50], often=0.02)
    assert disturbed.history_["restart"].any()


def test_restarts_of_fixed_length():
    X, signal = rows_of()
    model = model_of("numbers", method=made("agbm", restart=0.5, momentum=0.5), max_iter=25)
    assert compare(model, X, signal, often=0.02).history_["restart"].any()


@pytest.mark.slow
@newton
@pytest.mark.parametrize("kind", LABELS)
def test_line_search(second_order, kind):
    X, signal = rows_of()
    y = labels_of(kind, signal)
    compare(model_of(kind, method=made("gbm", line_search=True, second_order=second_order)), X, y, often=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("momentum", ["theory", "fading"])
@pytest.mark.parametrize("method", ["vagbm", "agbm", "agbmr"])
def test_schedules(method, momentum):
    X, signal = rows_of()
    compare(model_of("numbers", method=made(method, momentum=momentum)), X, signal)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("whole", [True, False])
def test_weights(kind, whole):
    X, signal = rows_of()
    rng = np.random.default_rng(1)
    weight = rng.integers(0, 4, len(X)) if whole else rng.random(len(X))
    compare(model_of(kind), X, labels_of(kind, signal), weight, X[:40] + 0.1, labels_of(kind, signal[:40]))


def test_weights_that_are_whole_in_some_shards_only():
    X, signal = rows_of()
    weight = np.ones(len(X))
    weight[-10:] = [0.5, 1.5] * 5
    compare(model_of("numbers"), X, signal, weight)


def test_counts_times_class_weights():
    X, signal = rows_of()
    counts = np.random.default_rng(1).integers(0, 4, len(X))
    model = model_of("three classes", class_weight={0: 0.7, 1: 1.9, 2: 3.1})
    compare(model, X, labels_of("three classes", signal), counts)


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_losses(loss):
    X, signal = rows_of()
    compare(model_of("numbers", loss=loss), X, np.exp(signal / 4))


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["none", "counts", "floats"])
@pytest.mark.parametrize("parameters", [
    {"loss": "absolute_error"}, {"loss": Quantile(0.07)}, {"loss": Quantile(0.9), "subsample": 0.6},
    {"loss": Quantile(0.3), "method": "agbm"}, {"loss": Quantile(0.3), "monotonic_cst": [1, -1, 0, 0]},
], ids=str)  # fmt: skip
def test_quantile_leaves(parameters, weights):
    X, signal = rows_of()
    rng = np.random.default_rng(1)
    weight = {"none": None, "counts": rng.integers(0, 4, len(X)), "floats": rng.random(len(X))}[weights]
    compare(model_of("numbers", **parameters), X, np.round(signal, 1), weight)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.7, 0.999, 1.0])
def test_quantiles_of_labels_that_are_mostly_equal(share):
    X, signal = rows_of()
    y = np.where(signal > np.quantile(signal, share), signal, 0.0)
    for weight in (None, np.random.default_rng(1).random(len(X))):
        compare(model_of("numbers", loss=Quantile(0.8)), X, y, weight)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_quantiles_of_several_outputs(strategy):
    X, signal = rows_of()
    y = np.column_stack([signal, -2.0 * signal**2])
    compare(model_of("numbers", loss=Quantile(0.2), multi_strategy=strategy), X, y)


def test_bits_in_the_order_of_numbers():
    x = np.sort(
        np.concatenate([np.random.default_rng(0).normal(size=50), [0.0, np.inf, -np.inf, 1e-320, -1e-320, 3e300]])
    )
    bits = np.where(x.view(np.uint64) >> np.uint64(63), ~x.view(np.uint64), x.view(np.uint64) | np.uint64(1 << 63))
    assert np.all(np.diff(bits.astype(object)) >= 0)
    np.testing.assert_array_equal(of_ordered_bits(bits), x)
    np.testing.assert_array_equal(ordered_bits(x), bits)


VARIANTS = {
    "held-out rows": {"early_stopping": True, "n_iter_no_change": 3, "max_iter": 40, "learning_rate": 0.8},
    "subsample": {"subsample": 0.5},
    "few rows of a subsample": {"subsample": 0.004, "min_samples_leaf": 1},
    "columns of a tree": {"colsample_bytree": 0.5},
    "columns of a node": {"colsample_bynode": 0.5},
    "monotone": {"monotonic_cst": [1, -1, 0, 0]},
    "interactions": {"interaction_cst": [[0, 1], [2, 3]]},
    "best first": {"max_leaf_nodes": 6, "max_depth": None},
    "dropout": {"method": made("fading", dropout=0.4)},
    "dropout with momentum": {"method": made("agbm", shared_structure=False, dropout=0.4)},
    "few bins": {"max_bins": 3},
    "stumps": {"max_depth": 1},
    "no split": {"min_samples_leaf": 300},
    "zero": {"init": "zero"},
}


@pytest.mark.slow
@pytest.mark.parametrize("parameters", VARIANTS.values(), ids=VARIANTS.keys())
@pytest.mark.parametrize("kind", ["numbers", "three classes"])
def test_variants(kind, parameters):
    X, signal = rows_of()
    if "monotonic_cst" in parameters and kind == "three classes":
        kind = "two classes"  # for more, there are no such constraints
    compare(model_of(kind, random_state=3, **parameters), X, labels_of(kind, signal))


@pytest.mark.slow
@pytest.mark.parametrize("max_bins", [255, 8])
def test_categories(max_bins):
    """Also more categories than bins."""
    X, signal = rows_of()
    rng = np.random.default_rng(2)
    table = pd.DataFrame(X, columns=list("abcd"))
    table["e"] = rng.choice(["u", "v", "w", None], len(X))
    table["f"] = pd.Categorical(rng.integers(0, 30, len(X)))
    y = signal + (table["e"] == "u") + table["f"].astype(int) % 3
    disturbed = compare(model_of("numbers", max_bins=max_bins), table, y, None, table[:50], y[:50])
    assert disturbed.split_counts_[-1] > 0


def test_init_model():
    from sklearn.linear_model import LinearRegression

    X, signal = rows_of()
    X = np.nan_to_num(X)
    init = LinearRegression().fit(X[:100], signal[:100])
    expected = model_of("numbers", init=init).fit(X, signal)
    model = sharded(expected, 0, N_SHARDS, Disturbed(0)).fit(X, signal)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    assert expected.n_trees_ > 0


def test_divergence_is_reported():
    X, signal = rows_of()
    model = model_of("numbers", method="gbm", learning_rate=1.0, max_iter=30)
    y = np.where(np.arange(len(X)) < 3, 1e150, signal)
    expected = fit_that_diverges(model, X, y)
    assert_same(fit_that_diverges(sharded(model, 0, N_SHARDS, Disturbed(0)), X, y), expected)


def fit_that_diverges(model, X, y):
    model.set_params(loss=Runaway())
    with pytest.warns(UserWarning, match="diverged"):
        return model.fit(X, y)


class Runaway:
    """A squared error whose residuals run away until one is not finite."""

    smoothness = 1.0
    constant_hessian = True

    def value(self, y, f):
        return np.minimum(np.abs(y - f), 1e3)

    def negative_gradient(self, y, f):
        return np.where(np.abs(f) > 1e140, np.inf, 1e3 * (y - f))

    def hessian(self, y, f, weight=None):
        return np.ones_like(f)

    def best_constant(self, y, weight=None):
        return 0.0

    def link(self, prediction):
        return prediction

    inverse_link = link

    def check(self, y):
        pass


@pytest.mark.slow
@settings(max_examples=settings.default.max_examples // 2)
@given(st.data())
def test_random_cuts_and_lost_shards(data):
    draw = data.draw
    X, signal = rows_of(draw(st.integers(0, 2**31)), n=draw(st.sampled_from([2, 20, 150])))
    kind = draw(st.sampled_from(["numbers", "two outputs"]))
    model = model_of(
        kind,
        method=made(
            draw(st.sampled_from(["fading", "gbm", "vagbm", "agbm", "agbmr"])),
            shared_structure=draw(st.booleans()),
            dropout=draw(st.sampled_from([0.0, 0.3])),
        ),
        subsample=draw(st.sampled_from([1.0, 0.5])),
        max_leaf_nodes=draw(st.sampled_from([None, 4])),
        max_iter=draw(st.integers(1, 8)),
        min_samples_leaf=1,
        random_state=0,
    )
    y = labels_of(kind, signal)
    disturbance = Disturbed(draw(st.integers(0, 2**31)), draw(st.sampled_from([0.0, 0.02, 0.2, 0.6])))
    seed, n_shards = draw(st.integers(0, 2**31)), draw(st.integers(1, 7))
    assert_same(sharded(model, seed, n_shards, disturbance).fit(X, y), model.fit(X, y))


@pytest.mark.parametrize("kind", LABELS)
def test_members(kind):
    X, signal = rows_of(seed=3)
    early = {"n_members": 3, "validation_fraction": 0.3, "early_stopping": True, "colsample_bynode": 0.6}
    compare(model_of(kind, **early), X, labels_of(kind, signal))


@pytest.mark.parametrize("kind", LABELS)
def test_default_parameters(kind):
    X, signal = rows_of(seed=3)
    model = (AGBMClassifier if "classes" in kind else AGBMRegressor)(max_iter=2, n_jobs=1)
    compare(model, X, labels_of(kind, signal))
    assert (model.resolved_params_["n_members"], model.resolved_params_["early_stopping"]) == (5, True)


# Numbers of rows that no test can have; see also test_many_rows.py.


def claiming(monkeypatch, n_rows):
    """Let the shards report this number of rows in all; their sums must leave room for it."""
    send = InProcess._send

    def claim(self, message):
        reply, what = send(self, message), message.orders[-1].what
        if what in ("histograms", "leaf_sums", "noise"):
            assert int(np.abs(reply.sums[0]).max()) * (n_rows // len(rows_of()[0])) < 2**62
        return reply._replace(sums=(n_rows,)) if what == "set_residuals" else reply

    monkeypatch.setattr(InProcess, "_send", claim)


@pytest.mark.parametrize("kind", ["numbers", "two classes"])
@pytest.mark.parametrize("n_rows", [10**10, MOST_REPEATS_IN_ALL])
def test_sums_leave_bits_for_rows(monkeypatch, kind, n_rows):
    """Integers of rows are coarser, so that sums over all rows fit into 64 bits: 23 bits at least remain."""
    X, signal = rows_of()
    expected = model_of(kind).fit(X, labels_of(kind, signal))
    claiming(monkeypatch, n_rows)
    model = sharded(expected, 0).fit(X, labels_of(kind, signal))
    for a, b in zip(model.model_.models, expected.model_.models, strict=True):
        np.testing.assert_array_equal(a.nodes["feature"], b.nodes["feature"])
        np.testing.assert_array_equal(a.nodes["count"], b.nodes["count"])
        np.testing.assert_allclose(a.value, b.value, rtol=1e-4, atol=1e-5)


def test_too_many_rows_of_all_shards(monkeypatch):
    X, signal = rows_of()
    claiming(monkeypatch, MOST_REPEATS_IN_ALL + 1)
    with pytest.raises(ValueError, match=r"The workers have 274,877,906,945 training rows.*at most 274,877,906,944"):
        sharded(model_of("numbers"), 0).fit(X, labels_of("numbers", signal))
