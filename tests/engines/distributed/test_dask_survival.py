"""Survival analysis on a cluster has the bits of that in memory."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from agbm import AGBMSurvival
from agbm.dask import DaskAGBMSurvival

pytestmark = pytest.mark.slow

FAST = {"max_iter": 3, "max_leaf_nodes": 5, "n_members": 2, "n_jobs": 1}


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    time, end = rng.exponential(np.exp(-X[:, 0])) + 0.01, rng.exponential(2.0, 300) + 0.01
    return X, np.minimum(time, end), time <= end


@pytest.mark.parametrize(
    ("client", "loss", "weighted"),
    [("threads", "aft:normal", True), ("processes", "piecewise_exponential", False)],
    indirect=["client"],
)
def test_same_bits(client, loss, weighted):
    X, time, event = data()
    y = np.column_stack([time, event])
    weight = np.random.default_rng(1).integers(1, 4, 300) if weighted else None
    local = AGBMSurvival(loss=loss, **FAST).fit(X, y, weight)
    parts = (X, y) if weight is None else (X, y, weight)
    spread = [da.from_array(part, chunks=(117, *part.shape[1:])) for part in parts]
    found = DaskAGBMSurvival(loss=loss, **FAST).fit(*spread, client=client)
    assert np.array_equal(np.asarray(found.predict(spread[0])), local.predict(X))
    assert np.array_equal(found.history_["validation_loss"], local.history_["validation_loss"])
    wanted = local.predict_survival_function(X, return_array=True)
    assert np.array_equal(found.predict_survival_function(X, return_array=True), wanted)
    assert np.array_equal(found.to_local().predict_time(X), local.predict_time(X))
    assert found.score(X, y) == local.score(X, y)
    for method in ("predict_time", "predict_survival_function", "predict_cumulative_hazard_function"):
        with pytest.raises(TypeError, match=f"{method} needs rows in memory"):
            getattr(found, method)(spread[0])


def test_bounds_in_a_data_frame(client):
    X, time, event = data()
    bounds = pd.DataFrame({"lower": 0.9 * time, "upper": np.where(event, 1.1 * time, np.nan)})
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    local = AGBMSurvival(loss="aft:logistic", **FAST).fit(frame, bounds)
    spread = [dd.from_pandas(part, npartitions=3) for part in (frame, bounds)]
    found = DaskAGBMSurvival(loss="aft:logistic", **FAST).fit(*spread, client=client)
    assert np.array_equal(found.predict(frame), local.predict(frame))


def test_dates_and_durations_are_refused(client):
    X, time, event = data()
    span = pd.to_timedelta(time, unit="D")
    labels = (
        pd.DataFrame({"time": span, "event": event}),
        pd.DataFrame({"time": pd.Timestamp("2020-01-01") + span, "event": event}),
        pd.DataFrame({"lower": span, "upper": span}),
    )
    for y in labels:
        spread = [dd.from_pandas(part, npartitions=3) for part in (pd.DataFrame(X, columns=["a", "b", "c"]), y)]
        with pytest.raises(ValueError, match="y has dates or times"):
            DaskAGBMSurvival(loss="aft:normal", **FAST).fit(*spread, client=client)


def test_cox_is_refused(client):
    X, time, event = data()
    spread = [da.from_array(part, chunks=(117, part.shape[1])) for part in (X, np.column_stack([time, event]))]
    with pytest.raises(ValueError, match=r"loss=Cox\(ties='breslow'\) compares every row with others"):
        DaskAGBMSurvival(loss="cox", **FAST).fit(*spread, client=client)
