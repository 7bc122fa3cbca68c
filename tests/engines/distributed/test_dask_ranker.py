"""Rankings on a cluster: the bits of those in memory, if every query is in one partition."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from agbm import AGBMRanker
from agbm.dask import DaskAGBMRanker

pytestmark = pytest.mark.slow

FAST = {"max_iter": 3, "max_leaf_nodes": 5, "n_members": 2, "n_jobs": 1}


def documents(n_queries=60, per_query=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * per_query, 3))
    y = np.clip(np.round(X[:, 0] + rng.normal(size=len(X))), 0, 3)
    return X, y, np.repeat(rng.permutation(n_queries) * 10, per_query)


X, Y, QID = documents()


def spread(*arrays, rows=50):
    return [da.from_array(array, chunks=(rows, *array.shape[1:])) for array in arrays]


@pytest.mark.parametrize(
    ("client", "loss", "weighted"),
    [("processes", "ndcg:10", False), ("threads", "listwise", True), ("threads", "pairwise", True)],
    indirect=["client"],
)
def test_same_bits(client, loss, weighted):
    weight = 1 + QID // 10 % 3 if weighted else None
    local = AGBMRanker(loss=loss, **FAST).fit(X, Y, weight, qid=QID)
    parts, qid = spread(X, Y, *([] if weight is None else [weight])), spread(QID)[0]
    found = DaskAGBMRanker(loss=loss, **FAST).fit(*parts, qid=qid, client=client)
    assert np.array_equal(np.asarray(found.predict(parts[0])), local.predict(X))
    assert np.array_equal(found.history_["validation_loss"], local.history_["validation_loss"])
    assert found.score(X, Y, qid=QID) == local.score(X, Y, qid=QID)


def test_validation_queries_frames_and_updates(client, tmp_path):
    val = documents(20, seed=1)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=Y, query=QID)
    X_val = pd.DataFrame(val[0], columns=["a", "b", "c"])
    local = AGBMRanker(**FAST).fit(frame[["a", "b", "c"]], Y, qid=QID, X_val=X_val, y_val=val[1], qid_val=val[2])
    there = dd.from_pandas(frame, npartitions=1).repartition(divisions=[0, 100, 200, 299])
    other = dd.from_pandas(X_val.assign(y=val[1], query=val[2]), npartitions=1)
    found = DaskAGBMRanker(**FAST).fit(
        there[["a", "b", "c"]], there["y"], qid=there["query"], X_val=other[["a", "b", "c"]], y_val=other["y"],
        qid_val=other["query"], client=client,
    )  # fmt: skip
    assert np.array_equal(found.predict(frame[["a", "b", "c"]]), local.predict(frame[["a", "b", "c"]]))
    found.save(tmp_path / "model.agbm")
    new = documents(30, seed=2)
    names = [pd.DataFrame(new[0], columns=["a", "b", "c"]), new[1], new[2]]
    local.update(names[0], names[1], qid=names[2], mode="trees", max_iter=2)
    parts = dd.from_pandas(names[0].assign(y=new[1], query=new[2]), npartitions=1)
    found.update(parts[["a", "b", "c"]], parts["y"], qid=parts["query"], mode="trees", max_iter=2,
                 client=client)  # fmt: skip
    assert np.array_equal(found.predict(names[0]), local.predict(names[0]))


def test_divided_queries_are_refused(client):
    parts = spread(X, Y, QID, rows=52)
    with pytest.raises(ValueError, match=r"must be in one partition.*shuffle"):
        DaskAGBMRanker(**FAST).fit(*parts[:2], qid=parts[2], client=client)
    whole = spread(X, Y, QID)
    with pytest.raises(ValueError, match=r"X_val.*one partition"):
        DaskAGBMRanker(**FAST).fit(
            *whole[:2], qid=whole[2], X_val=parts[0], y_val=parts[1], qid_val=parts[2], client=client
        )


@pytest.mark.parametrize("form", ["int64", "text", "frame"])
def test_queries_are_not_converted_to_floats(client, form):
    large = 1_700_000_000_000_000_000 + QID
    local = AGBMRanker(**FAST).fit(X, Y, qid=QID)
    if form == "frame":
        table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=Y, query=large)
        there = dd.from_pandas(table, npartitions=1).repartition(divisions=[0, 100, 200, 299])
        model = DaskAGBMRanker(**FAST).fit(there[["a", "b", "c"]], there[["y", "query"]], client=client)
        assert np.array_equal(model.predict(table[["a", "b", "c"]]), local.predict(X))
        return
    qid = large if form == "int64" else np.array([f"q{number:04}" for number in QID])
    found = DaskAGBMRanker(**FAST).fit(*spread(X, Y), qid=spread(qid)[0], client=client)
    assert np.array_equal(np.asarray(found.predict(spread(X)[0])), local.predict(X))
    divided = spread(X, Y, qid, rows=52)
    with pytest.raises(
        ValueError, match=f"query {qid[50].item()!r} has rows in several partitions; all rows of a query"
    ):
        DaskAGBMRanker(**FAST).fit(*divided[:2], qid=divided[2], client=client)


def test_unsupported_arguments_are_refused(client):
    parts = spread(X, Y, QID)
    for name in ("group", "position"):
        with pytest.raises(ValueError, match=f"{name} does not work on a Dask cluster"):
            DaskAGBMRanker(**FAST).fit(*parts[:2], qid=parts[2], **{name: parts[2]}, client=client)
    with pytest.raises(ValueError, match="columns relevance, query"):
        DaskAGBMRanker(**FAST).fit(*parts[:2], client=client)
    dates = spread(Y.astype("timedelta64[s]"))[0]
    with pytest.raises(ValueError, match="y has dates or times"):
        DaskAGBMRanker(**FAST).fit(parts[0], dates, qid=parts[2], client=client)
    with pytest.raises(TypeError, match="score needs rows in memory"):
        DaskAGBMRanker(**FAST).fit(*parts[:2], qid=parts[2], client=client).score(*parts[:2], qid=QID)
