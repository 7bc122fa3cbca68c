"""Calibrations on a real Dask cluster: those of a fit in this process, bit for bit."""

import dask.array as da
import numpy as np
import pytest

from agbm import AGBMClassifier, AGBMRegressor
from agbm.dask import DaskAGBMClassifier, DaskAGBMRegressor
from dask_cluster import cuts_of, frame, in_parts, labels

pytestmark = pytest.mark.slow

PARAMETERS = {"max_iter": 4, "max_leaf_nodes": 5, "n_members": 2, "random_state": 0}


def bits(model):
    calibration = model.model_.calibration
    lists = [scores for part in calibration.parts for scores in part]
    arrays = [array for scores in lists for array in (scores.values, scores.weights) if array is not None]
    return [calibration.test_weight, *(array.tobytes() for array in [calibration.starts, *arrays])]


@pytest.mark.parametrize(
    ("client", "kind", "weights"),
    [
        ("threads", "numbers", "counts"),
        ("threads", "two outputs", "relative"),
        ("threads", "two classes", None),
        ("processes", "three classes", "relative"),
    ],
    indirect=["client"],
)
def test_same_bits(client, kind, weights):
    local, remote = (AGBMClassifier, DaskAGBMClassifier) if "classes" in kind else (AGBMRegressor, DaskAGBMRegressor)
    X = frame(700, seed=0)
    y, rng = labels(kind, X), np.random.default_rng(0)
    weight = {None: None, "counts": rng.integers(1, 4, 700), "relative": rng.random(700)}[weights]
    expected = local(**PARAMETERS).fit(X, y, weight)
    cuts = cuts_of(len(X), 5)
    parts = None if weight is None else in_parts(weight, cuts)
    model = remote(**PARAMETERS).fit(in_parts(X, cuts), in_parts(y, cuts), parts, client=client)
    assert bits(model) == bits(expected)
    ask = "predict_set" if "classes" in kind else "predict_interval"
    np.testing.assert_array_equal(getattr(model, ask)(X), getattr(expected, ask)(X))
    np.testing.assert_array_equal(getattr(model.to_local(), ask)(X), getattr(expected, ask)(X))


def test_collections_are_refused(client):
    X = np.random.default_rng(0).normal(size=(300, 3))
    y = X[:, 0] + X[:, 1] ** 2
    lazy, lazy_y = da.from_array(X, chunks=(100, 3)), da.from_array(y, chunks=100)
    model = DaskAGBMRegressor(**PARAMETERS).fit(lazy, lazy_y, client=client)
    with pytest.raises(TypeError, match=r"predict_interval needs rows in memory.*to_local\(\)\.predict_interval"):
        model.predict_interval(lazy)
    with pytest.raises(TypeError, match=r"calibrate needs rows in memory, got a Dask collection \(Array\)"):
        model.calibrate(lazy, lazy_y)
    assert np.isfinite(model.calibrate(X, y).predict_interval(X)).all()
    found = lazy.map_blocks(model.to_local().predict_interval, dtype=float, chunks=((100,) * 3, (2,)))
    np.testing.assert_array_equal(found.compute(), model.predict_interval(X))
    classes = DaskAGBMClassifier(**PARAMETERS).fit(lazy, lazy_y > 0, client=client)
    with pytest.raises(TypeError, match="predict_set needs rows in memory"):
        classes.predict_set(lazy)
    assert classes.predict_set(X).any()
