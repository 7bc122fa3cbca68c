"""What the loop does with functions, and the instructions that kernels use."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agbm import _native
from agbm.losses import Gamma, HalfSquaredError, Huber, LogLoss, Poisson

SIZES = st.sampled_from([1, 7, 8, 9, 100, 16383, 16384, 16385, 40_000])


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_rows=SIZES, n_outputs=st.integers(1, 3), n_threads=st.integers(1, 3))
def test_sums_and_products_are_those_of_numpy(seed, n_rows, n_outputs, n_threads):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, n_outputs, n_rows + 5))[..., :n_rows] * 10.0 ** rng.integers(-5, 5)
    a, b = rng.normal(size=2)
    out = np.empty((n_outputs, n_rows))
    _native.mix(a, x, b, y, out, n_threads)
    assert np.array_equal(out, a * x + b * y)
    _native.multiply(x, y, out, n_threads)
    assert np.array_equal(out, x * y)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_rows=SIZES, weighted=st.booleans())
def test_inner_products_do_not_depend_on_threads(seed, n_rows, weighted):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, 2, n_rows))
    weight = rng.uniform(size=n_rows) if weighted else None
    found = [_native.inner_products(x, y, weight, n_threads) for n_threads in (1, 2, 5)]
    assert found[0] == found[1] == found[2]
    w = 1.0 if weight is None else weight
    scale = np.abs(x).sum() + np.abs(y).sum()
    expected = [np.sum(x * x * w), np.sum(x * y * w), np.sum(y * y * w)]
    np.testing.assert_allclose(found[0], expected, atol=1e-13 * scale)


@pytest.mark.parametrize("loss", [HalfSquaredError(), LogLoss(), Poisson(), Gamma(), Huber(0.5)], ids=repr)
@pytest.mark.parametrize("n_rows", [1, 9, 40_000])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_sum_of_a_loss(loss, n_rows, weighted):
    rng = np.random.default_rng(0)
    y, f = rng.integers(1, 2, size=n_rows).astype(float), rng.normal(size=n_rows)
    weight = rng.uniform(size=n_rows) if weighted else None
    found = [loss.with_threads(n).total(y, f, weight) for n in (1, 3)]
    assert found[0] == found[1]
    assert found[0] == pytest.approx(np.sum(loss.value(y, f) * (1.0 if weight is None else weight)), rel=1e-13)


def test_vectors_that_do_not_fit():
    x, out = np.zeros((1, 5)), np.zeros((1, 5))
    for bad in (np.zeros((1, 4)), np.zeros((2, 5)), np.zeros((1, 10))[:, ::2]):
        with pytest.raises(ValueError, match="x, y"):
            _native.mix(1.0, x, 1.0, bad, out, 1)
        with pytest.raises(ValueError, match="x, y"):
            _native.multiply(bad, x, out, 1)
        with pytest.raises(ValueError, match="x, y"):
            _native.inner_products(x, bad, None, 1)
    with pytest.raises(ValueError, match="weight"):
        _native.inner_products(x, x, np.zeros(4), 1)
    with pytest.raises(ValueError, match="f:"):
        _native.loss_sum("logistic", 0.0, np.zeros(3), np.zeros(2), None, 1)


def test_memory_is_used_again_within_a_run_only():
    n = 100_000
    _native.begin_run()
    try:
        first = _native.empty((2, n))
        second = _native.empty((2, n))
        assert first.shape == (2, n)
        assert not np.shares_memory(first, second)
        address = second.ctypes.data
        del second
        again = _native.empty((n, 2))
        assert again.ctypes.data == address, "the same size"
        assert not np.shares_memory(first, again)
    finally:
        _native.end_run()
    first[:] = 1.0  # outlives the run
    assert first.sum() == 2 * n


DIGEST = """
import hashlib
import numpy as np
from agbm import AGBMClassifier, AGBMRegressor
rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 12))
X[rng.random(X.shape) < 0.05] = np.nan
X[:, 3] = rng.integers(0, 40, size=3000)
score = np.nan_to_num(X[:, 0]) * np.nan_to_num(X[:, 1]) + np.nan_to_num(X[:, 2]) + rng.normal(size=3000)
digest = hashlib.sha256()
for model, y in (
    (AGBMRegressor(max_iter=6, categorical_features=[3]), score),
    (AGBMRegressor(method="agbm", max_iter=6, loss="poisson", max_leaf_nodes=9), np.exp(score / 3)),
    (AGBMClassifier(method="agbm", max_iter=6, shared_structure=False, momentum="theory"), score > 0),
    (AGBMClassifier(max_iter=4, multi_strategy="multi_output_tree"), np.digitize(score, [-1, 1])),
):
    model.fit(X, y)
    digest.update(model._folded.nodes.tobytes())
    digest.update(model._folded.value.tobytes())
    digest.update(np.ascontiguousarray(model.predict(X)).tobytes())
    digest.update(np.ascontiguousarray(model.predict_contributions(X)).tobytes())
    digest.update(model.history_["train_loss"].tobytes())
print(digest.hexdigest())
"""


def test_all_instructions_give_the_same_bits():
    """Those of every machine of its kind, and wider ones where there are such."""

    def digest(most):
        environment = {**os.environ, "AGBM_INSTRUCTIONS": most}
        run = subprocess.run(
            [sys.executable, "-c", DIGEST], env=environment, capture_output=True, text=True, check=True
        )
        return run.stdout.strip()

    found = {most: digest(most) for most in ("plain", "avx2", "avx512")}
    assert len(found["plain"]) == hashlib.sha256().digest_size * 2
    assert len(set(found.values())) == 1, found
