"""Labels with several numbers per row, and constraints of classes, on Dask: the model of one machine."""

import dask
import dask.array as da
import numpy as np
import pytest
from dask.delayed import delayed
from scipy.sparse import csr_array

from agbm import AGBMClassifier
from agbm.dask import DaskAGBMClassifier

pytestmark = pytest.mark.slow

SMALL = {"max_iter": 4, "max_depth": 3, "n_members": 1}


def rows(n=300):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    return X, X[:, :3] + rng.normal(scale=0.5, size=(n, 3))


def in_parts(X, chunk=80):
    return da.from_array(X, chunks=(chunk, -1) if X.ndim == 2 else chunk)


def test_several_labels(client):
    X, signal = rows()
    Y = (signal > 0).astype(int)
    parameters = {**SMALL, "early_stopping": True, "n_iter_no_change": 2}
    expected = AGBMClassifier(**parameters).fit(X, Y)
    lazy = in_parts(X)
    model = DaskAGBMClassifier(**parameters).fit(lazy, in_parts(Y))
    for method in ("predict", "predict_proba"):
        found = getattr(model, method)(lazy)
        assert found.shape == (len(X), 3)
        assert np.array_equal(found.compute(), getattr(expected, method)(X))
        assert found.dtype == getattr(expected, method)(X).dtype
    sparse = [delayed(csr_array)(Y[i : i + 80]) for i in range(0, len(Y), 80)]
    parts = [delayed(X[i : i + 80]) for i in range(0, len(X), 80)]
    model = DaskAGBMClassifier(**parameters).fit(parts, sparse)
    found = np.concatenate(dask.compute(*model.predict_proba(parts)))
    assert np.array_equal(found, expected.predict_proba(X))
    with pytest.raises(ValueError, match="class_weight='balanced' needs one class per row"):
        DaskAGBMClassifier(class_weight="balanced").fit(lazy, in_parts(Y))


def test_monotone_classes(client):
    X, signal = rows()
    parameters = {**SMALL, "early_stopping": False, "monotonic_cst": {0: {1: 1}, 3: {2: -1}}}
    expected = AGBMClassifier(**parameters).fit(X, signal.argmax(axis=1)).predict_proba(X)
    lazy = in_parts(X)
    model = DaskAGBMClassifier(**parameters).fit(lazy, in_parts(signal.argmax(axis=1)))
    assert np.array_equal(model.predict_proba(lazy).compute(), expected)
    free = AGBMClassifier(**parameters | {"monotonic_cst": None}).fit(X, signal.argmax(axis=1)).predict_proba(X)
    assert not np.array_equal(free, expected)


@pytest.mark.parametrize(("client", "n_classes"), [("threads", 2), ("processes", 3)], indirect=["client"])
def test_probabilities_as_labels(client, n_classes):
    X, signal = rows()
    shares = np.exp(signal[:, :n_classes])
    shares /= shares.sum(axis=1, keepdims=True)
    parameters = {**SMALL, "early_stopping": True, "loss": "cross_entropy"}
    expected = AGBMClassifier(**parameters).fit(X, shares)
    lazy = in_parts(X)
    model = DaskAGBMClassifier(**parameters).fit(lazy, in_parts(shares))
    assert np.array_equal(model.predict_proba(lazy).compute(), expected.predict_proba(X))
    assert np.array_equal(model.predict(lazy).compute(), expected.predict(X))
