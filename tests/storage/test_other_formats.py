"""Fitted models in the formats of other libraries: pickle, joblib and skops give the same model again."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from agbm import AGBMClassifier, AGBMRanker, AGBMRegressor, AGBMSurvival, losses
from agbm.methods import AGBM

RNG = np.random.default_rng(0)
N = 200
X = RNG.normal(size=(N, 3))
MIXED = pd.DataFrame(
    {
        "number": X[:, 0],
        "text": RNG.choice(["x", "y", "z"], N),
        "date": pd.date_range("2020-01-01", periods=N),
        "ordered": pd.Categorical(RNG.choice(["low", "high"], N), ["low", "high"], ordered=True),
    }
)
TIMES = np.c_[np.exp(X[:, 0]), RNG.random(N) < 0.7]


@pytest.fixture(scope="module", params=["classes", "quantiles", "survival", "ranking"])
def fitted(request):
    """A fitted model, and rows to predict."""
    if request.param == "classes":
        return AGBMClassifier(max_iter=3).fit(MIXED, np.where(MIXED["text"] == "x", "yes", "no")), MIXED
    if request.param == "quantiles":
        return AGBMRegressor(max_iter=3, loss=losses.Quantile([0.1, 0.5, 0.9])).fit(X, X[:, 0]), X
    if request.param == "survival":
        return AGBMSurvival(max_iter=3).fit(X, TIMES), X
    return AGBMRanker(max_iter=3).fit(X, (X[:, 0] > 0).astype(int), qid=np.arange(N) // 10), X


def by_pickle(model, folder):
    return pickle.loads(pickle.dumps(model))


def by_joblib(model, folder):
    joblib.dump(model, folder / "model.joblib", compress=3)
    return joblib.load(folder / "model.joblib")


def by_mapped_joblib(model, folder):
    """Arrays are parts of the file and cannot be written."""
    joblib.dump(model, folder / "model.joblib")
    return joblib.load(folder / "model.joblib", mmap_mode="r")


def by_skops(model, folder):
    from skops import io as skops_io

    skops_io.dump(model, folder / "model.skops")
    unknown = skops_io.get_untrusted_types(file=folder / "model.skops")
    assert all(name.startswith(("agbm.", "sklearn.")) for name in unknown), unknown
    return skops_io.load(folder / "model.skops", trusted=unknown)


WAYS = [by_pickle, by_joblib, by_mapped_joblib, by_skops]


def bytes_of(model, folder):
    model.save(folder / "model.agbm")
    return (folder / "model.agbm").read_bytes()


@pytest.mark.parametrize("way", WAYS)
def test_the_same_bits(fitted, way, tmp_path):
    model, rows = fitted
    again = way(model, tmp_path)
    assert type(again) is type(model)
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))
    np.testing.assert_array_equal(again.predict_contributions(rows), model.predict_contributions(rows))
    assert bytes_of(again, tmp_path) == bytes_of(model, tmp_path)


@pytest.mark.parametrize("way", WAYS)
def test_in_a_pipeline_and_with_a_learner(way, tmp_path):
    """Model files hold neither."""
    learner = DecisionTreeRegressor(max_depth=2, random_state=0)
    model = make_pipeline(StandardScaler(), AGBMRegressor(method=AGBM(learner=learner), max_iter=3)).fit(X, X[:, 0])
    np.testing.assert_array_equal(way(model, tmp_path).predict(X), model.predict(X))


def test_skops_loads_only_trusted_types(tmp_path):
    from skops import io as skops_io
    from skops.io.exceptions import UntrustedTypesFoundException

    model = AGBMRegressor(max_iter=2).fit(X, X[:, 0])
    with pytest.raises(UntrustedTypesFoundException, match="AGBMRegressor"):
        skops_io.loads(skops_io.dumps(model))


def test_files_contain_no_memory_of_other_things(tmp_path):
    """The padding of nodes is zero in files, whatever it is in memory."""
    model = AGBMRegressor(max_iter=2, n_members=1).fit(X, X[:, 0])
    expected = bytes_of(model, tmp_path)
    for forest in model.model_.ensembles[0].models:
        raw = bytearray(forest.nodes.tobytes())
        used = {i for field, start in forest.nodes.dtype.fields.values() for i in range(start, start + field.itemsize)}
        padding = [i for i in range(len(raw)) if i % forest.nodes.itemsize not in used]
        assert padding
        for i in padding:
            raw[i] = 0xAA
        object.__setattr__(forest, "nodes", np.frombuffer(bytes(raw), forest.nodes.dtype))
    assert bytes_of(model, tmp_path) == expected
