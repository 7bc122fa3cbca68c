"""Arithmetic of the boosting loop on functions, and the vector instructions of the kernels."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agbm._base import _native

SIZES = st.sampled_from([1, 7, 8, 9, 100, 16383, 16384, 16385, 40_000])


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


def test_wrong_shapes_raise():
    x, out = np.zeros((1, 5)), np.zeros((1, 5))
    for bad in (np.zeros((1, 4)), np.zeros((2, 5)), np.zeros((1, 10))[:, ::2]):
        with pytest.raises(ValueError, match="x, y"):
            _native.mix(1.0, x, 1.0, bad, out, 1)
        with pytest.raises(ValueError, match="x, y"):
            _native.multiply(bad, x, out, 1)
        with pytest.raises(ValueError, match="x, y"):
            _native.inner_products(x, bad, None, 1)
    for kernel in (lambda w: _native.inner_products(x, x, w, 1), lambda w: _native.exact_sum(x, w, 1)):
        with pytest.raises(ValueError, match="weight"):
            kernel(np.zeros(4))
    with pytest.raises(ValueError, match="rows must be contiguous"):
        _native.exact_sum(np.zeros((1, 10))[:, ::2], None, 1)
    with pytest.raises(ValueError, match="f:"):
        _native.loss_sum("logistic", 0.0, np.zeros(3), np.zeros(2), None, 1)


def test_memory_is_reused_within_a_run_only():
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
from agbm.methods import AGBM
rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 12))
X[rng.random(X.shape) < 0.05] = np.nan
X[:, 3] = rng.integers(0, 40, size=3000)
score = np.nan_to_num(X[:, 0]) * np.nan_to_num(X[:, 1]) + np.nan_to_num(X[:, 2]) + rng.normal(size=3000)
digest = hashlib.sha256()
SHARED = AGBM(shared_structure=True, second_order=True)
for model, y in (
    (AGBMRegressor(max_iter=6, categorical_features=[3]), score),
    (AGBMRegressor(method=SHARED, max_iter=6, loss="poisson", max_leaf_nodes=9), np.exp(score / 3)),
    (AGBMClassifier(method=AGBM(momentum="theory", second_order=True), max_iter=6), score > 0),
    (AGBMClassifier(max_iter=4, multi_strategy="multi_output_tree"), np.digitize(score, [-1, 1])),
):
    model.fit(X, y)
    digest.update(model.model_.folded.nodes.tobytes())
    digest.update(model.model_.folded.value.tobytes())
    digest.update(np.ascontiguousarray(model.predict(X)).tobytes())
    digest.update(np.ascontiguousarray(model.predict_contributions(X)).tobytes())
    digest.update(model.history_["train_loss"].tobytes())
print(digest.hexdigest())
"""


@pytest.mark.slow
def test_all_instructions_give_the_same_bits():
    """Baseline instructions, and wider ones if the machine has them."""

    def digest(most):
        environment = {**os.environ, "AGBM_INSTRUCTIONS": most}
        command = [sys.executable, "-c", DIGEST]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    found = {most: digest(most) for most in ("plain", "avx2", "avx512")}
    assert len(found["plain"]) == hashlib.sha256().digest_size * 2
    assert len(set(found.values())) == 1, found
