"""Quantiles and distributions on a cluster have the bits of those in memory."""

import dask.array as da
import numpy as np
import pytest

from agbm import AGBMRegressor
from agbm.dask import DaskAGBMRegressor

pytestmark = pytest.mark.slow

FAST = {"max_iter": 3, "max_leaf_nodes": 5, "n_members": 1, "early_stopping": True, "n_jobs": 1}


@pytest.mark.parametrize(
    ("client", "loss", "weighted"),
    [
        ("threads", "quantile:0.1,0.5,0.9", True),
        ("threads", "distribution:normal", False),
        ("threads", "distribution:gamma", True),
        ("threads", "distribution:zero_inflated_poisson", True),
        ("processes", "distribution:histogram", False),
    ],
    indirect=["client"],
)
def test_same_bits(client, loss, weighted):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = 1.0 + rng.poisson(np.exp(1.0 + 0.5 * X[:, 0]))
    weight = rng.integers(1, 4, 300) if weighted else None
    local = AGBMRegressor(loss=loss, **FAST).fit(X, y, weight)
    parts = (X, y) if weight is None else (X, y, weight)
    spread = [da.from_array(part, chunks=(160, *part.shape[1:])) for part in parts]
    found = DaskAGBMRegressor(loss=loss, **FAST).fit(*spread, client=client)
    assert np.array_equal(np.asarray(found.predict(spread[0])), local.predict(X))
    assert np.array_equal(found.history_["validation_loss"], local.history_["validation_loss"])
    if "distribution" in loss:
        assert np.array_equal(found.predict_dist(X).mean(), local.predict_dist(X).mean())
        assert np.array_equal(found.predict_dist(X).std(), local.predict_dist(X).std())
        assert set(found.history_) == set(local.history_)
        with pytest.raises(TypeError, match="predict_dist needs rows in memory"):
            found.predict_dist(spread[0])
