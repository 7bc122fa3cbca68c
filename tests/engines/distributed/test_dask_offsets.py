"""Offsets on a Dask cluster: the model has the same bits as one of this process."""

import itertools

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.delayed import delayed
from sklearn.frozen import FrozenEstimator

from agbm import AGBMClassifier, AGBMRegressor
from agbm.dask import DaskAGBMClassifier, DaskAGBMRegressor

pytestmark = pytest.mark.slow

SMALL = {"max_iter": 5, "max_depth": 3, "n_members": 2}
CUTS = [0, 300, 300, 550, 900]
"""Of partitions, one of which is empty."""


@pytest.fixture(scope="module")
def claims():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    offset = np.log(rng.uniform(0.1, 3.0, len(X)))
    return X, rng.poisson(np.exp(offset + X[:, 0] / 2)).astype(float), offset


def parts(array):
    return [delayed(np.asarray)(array[i:j]) for i, j in itertools.pairwise(CUTS)]


def same_history(one, other):
    return all(
        np.array_equal(one.history_[name], other.history_[name], equal_nan=True)
        for name in ("train_loss", "validation_loss")
    )


@pytest.mark.parametrize("client", ["processes"], indirect=True)
def test_regression(client, claims):
    """With early stopping, so that members hold out rows of every partition; and with weights, some of them zero."""
    X, y, offset = claims
    weight = np.arange(len(y)) % 3
    local = AGBMRegressor(loss="poisson", **SMALL).fit(X, y, weight, offset=offset)
    model = DaskAGBMRegressor(loss="poisson", **SMALL)
    model.fit(parts(X), parts(y), parts(weight), offset=parts(offset), client=client)
    assert same_history(model, local)
    assert np.array_equal(model.predict(X), local.predict(X))


def test_three_classes_with_validation_rows_and_init_model(client, claims):
    X, _, _ = claims
    rng = np.random.default_rng(1)
    y, offset = rng.integers(0, 3, len(X)), rng.normal(size=(len(X), 3))
    for init in ("prior", FrozenEstimator(AGBMClassifier(max_iter=3, n_members=1).fit(X, y))):
        rows = {"X_val": X[:200], "y_val": y[:200], "offset_val": offset[:200]}
        local = AGBMClassifier(init=init, **SMALL).fit(X, y, offset=offset, **rows)
        rows = {name: [delayed(np.asarray)(array)] for name, array in rows.items()}
        model = DaskAGBMClassifier(init=init, **SMALL)
        model.fit(parts(X), parts(y), offset=parts(offset), **rows, client=client)
        assert same_history(model, local)
        assert np.array_equal(model.predict_proba(X), local.predict_proba(X))


def test_checkpoint_of_other_offsets_is_refused(client, claims, tmp_path):
    X, y, offset = claims
    model, file = DaskAGBMRegressor(**{**SMALL, "max_iter": 10}, loss="poisson"), tmp_path / "run.agbm"
    model.fit(parts(X), parts(y), offset=parts(offset), client=client, checkpoint=file)
    with pytest.raises(ValueError, match="other data"):
        model.fit(parts(X), parts(y), offset=parts(offset + 1.0), client=client, checkpoint=file)


def test_resumed_run_has_the_same_bits(client, claims, tmp_path):
    X, y, offset = claims
    parameters, file = {**SMALL, "n_members": 1, "early_stopping": False, "loss": "poisson"}, tmp_path / "run.agbm"
    rows, seen = (parts(X), parts(y)), []
    also = {"offset": parts(offset), "client": client, "checkpoint": file}
    DaskAGBMRegressor(**{**parameters, "max_iter": 10}).fit(*rows, **also)
    callbacks = [lambda record: seen.append(record.iteration)]
    model = DaskAGBMRegressor(**{**parameters, "max_iter": 15}, callbacks=callbacks).fit(*rows, **also)
    assert min(seen) > 10
    local = AGBMRegressor(**{**parameters, "max_iter": 15}).fit(X, y, offset=offset)
    assert same_history(model, local)
    assert np.array_equal(model.predict(X, offset=offset), local.predict(X, offset=offset))


def test_frames_and_arrays(client, claims):
    X, y, offset = claims
    frame = pd.DataFrame(X, columns=list("abc"))
    local = AGBMRegressor(loss="poisson", **SMALL).fit(frame, y, offset=offset)
    table = dd.from_pandas(frame.assign(y=y, offset=offset), npartitions=3)
    features = table[list("abc")]
    model = DaskAGBMRegressor(loss="poisson", **SMALL)
    model.fit(features, table["y"], offset=table["offset"], client=client)
    expected = local.predict(frame, offset=offset)
    assert np.array_equal(model.predict(features, offset=table["offset"]).compute(), expected)
    assert np.array_equal(model.predict(features).compute(), local.predict(frame))
    with pytest.raises(TypeError, match="offset must be a Dask collection like X"):
        model.predict(features, offset=offset)

    rows, scores = da.from_array(X, chunks=(250, 2)), da.from_array(offset, chunks=250)
    model.fit(rows, da.from_array(y, chunks=250), offset=scores, client=client)
    assert np.array_equal(model.predict(rows, offset=scores).compute(), expected)
    assert np.array_equal(np.concatenate([part.compute() for part in model.predict(parts(X), parts(offset))]), expected)
    with pytest.raises(ValueError, match="offset has 2 partitions, X has 4"):
        model.predict(rows, offset=da.from_array(offset, chunks=450))


def test_classes_of_arrays(client, claims):
    X, _, offset = claims
    y = np.where(X[:, 0] + offset > -0.5, "yes", "no")
    local = AGBMClassifier(**SMALL).fit(X, y, offset=offset)
    model = DaskAGBMClassifier(**SMALL)
    rows, scores = da.from_array(X, chunks=(250, 3)), da.from_array(offset, chunks=250)
    model.fit(rows, da.from_array(y, chunks=250), offset=scores, client=client)
    found = model.predict_proba(rows, offset=scores).compute()
    assert np.array_equal(found, local.predict_proba(X, offset=offset))
    assert np.array_equal(model.predict(rows, offset=scores).compute(), local.predict(X, offset=offset))


def test_bad_offsets_are_refused(client, claims):
    X, y, offset = claims
    model = DaskAGBMRegressor(loss="poisson", **SMALL)
    with pytest.raises(ValueError, match="offset has 1 partitions, X has 4"):
        model.fit(parts(X), parts(y), offset=[delayed(np.asarray)(offset)], client=client)
    with pytest.raises(ValueError, match="offset has 1 values that are missing"):
        model.fit(parts(X), parts(y), offset=parts(np.append(offset[1:], np.nan)), client=client)
    rows = {"X_val": parts(X), "y_val": parts(y)}
    with pytest.raises(ValueError, match="offset_val=None, but the training rows have offsets"):
        model.fit(parts(X), parts(y), offset=parts(offset), **rows, client=client)
