"""device="auto": a GPU for large tables if there is one, the CPU otherwise."""

import sys

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.linear_model import Ridge

import agbm
from agbm import AGBMClassifier, AGBMRanker, AGBMRegressor
from agbm._data.rows import Given
from agbm._engines import device as engine
from agbm._fit.sources import LocalSource
from agbm.methods import Fading
from devices import is_on_device

SMALL = {"max_iter": 3, "n_members": 1, "max_leaf_nodes": 4, "early_stopping": False, "max_bins": 20}
AUTO = SMALL | {"device": "auto"}
NO_ROWS = Given(None, None)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 5)).round(1)
    return X, X[:, 0] + X[:, 2] ** 2


@pytest.fixture
def large(data, monkeypatch):
    """The table of the data is just large enough."""
    monkeypatch.setattr(engine, "FEWEST_NUMBERS", data[0].size)


def bytes_of(model, path):
    model.save(path)
    return path.read_bytes()


def test_large_tables(data, device, large, tmp_path):
    X, y = data
    expected = AGBMRegressor(**SMALL).fit(X, y)
    assert expected.resolved_params_["device"] == "cpu"
    model = AGBMRegressor(**AUTO).fit(X, y)
    assert model.resolved_params_["device"] == "cuda"
    assert "agbm_histograms" in device.launched
    assert bytes_of(model, tmp_path / "auto") == bytes_of(expected, tmp_path / "cpu")
    device.launched.clear()
    assert model.predict(X).tobytes() == expected.predict(X).tobytes()
    assert device.launched
    device.launched.clear()
    assert model.predict(X[1:]).tobytes() == expected.predict(X[1:]).tobytes()
    assert AGBMRegressor(**AUTO).fit(X[1:], y[1:]).resolved_params_["device"] == "cpu"
    assert not device.launched, "one row less"


def test_full_memory(data, device, large, monkeypatch, tmp_path):
    expected = AGBMRegressor(**SMALL).fit(*data)

    def full(*_):
        raise MemoryError("the memory of the GPU is full.")

    monkeypatch.setattr(device, "empty", full)
    with pytest.warns(UserWarning, match=r"device='auto': the memory of the GPU is full\. The CPU is used\."):
        model = AGBMRegressor(**AUTO).fit(*data)
    assert model.resolved_params_["device"] == "cpu"
    assert bytes_of(model, tmp_path / "auto") == bytes_of(expected, tmp_path / "cpu")
    with pytest.raises(MemoryError):
        AGBMRegressor(**SMALL, device="cuda").fit(*data)


def test_usual_limit(data, device):
    assert AGBMRegressor(**AUTO).fit(*data).resolved_params_["device"] == "cpu"
    for columns, name in ((28, "cuda"), (27, "cpu")):
        assert engine.chosen_device("auto", np.empty((53_572, columns), dtype=np.int8)) == name
    assert engine.chosen_device("cuda", data[0]) == "cuda"


def test_tables_on_the_gpu_stay_there(data, device):
    X, y = data
    on_device = device.to_device(X)
    model = AGBMRegressor(**AUTO).fit(on_device, device.to_device(y))
    assert model.resolved_params_["device"] == "cuda"
    assert is_on_device(model.predict(on_device))
    assert not is_on_device(model.predict(X))
    assert model.score(on_device, device.to_device(y)) == model.score(X, y)
    relevance, queries = (y > 0).astype(int), np.arange(len(y)) // 10
    ranker = AGBMRanker(**AUTO).fit(on_device, relevance, qid=queries)
    assert ranker.resolved_params_["device"] == "cuda"


def test_what_only_the_cpu_can_do(data, device, large):
    X, y = data
    batches = agbm.Batches(lambda: iter([(X, y)]))
    models = [
        AGBMRegressor(**AUTO).fit(csr_matrix(X), y),
        AGBMRegressor(**AUTO).fit(X.tolist(), y),
        AGBMRegressor(**AUTO).fit(batches),
        AGBMRegressor(**AUTO, method=Fading(learner=Ridge())).fit(X, y),
        AGBMRegressor(**AUTO)._fit(Given(X, y), NO_ROWS, None, LocalSource()),
        AGBMRegressor(**AUTO).fit(X, y).update(X, y, mode="trees", max_iter=1),
        AGBMRegressor(**SMALL, device="cuda").fit(X, y).update(X, y, mode="all"),
        agbm.cv(AGBMRegressor(**AUTO), X, y, cv=2).estimators[0],
    ]
    assert [model.resolved_params_["device"] for model in models] == ["cpu"] * len(models)
    with pytest.raises(ValueError, match="device='cuda': workers of a cluster"):
        AGBMRegressor(**SMALL, device="cuda")._fit(Given(X, y), NO_ROWS, None, LocalSource())


@pytest.mark.parametrize("error", [None, RuntimeError("no NVIDIA GPU or driver was found")])
def test_without_a_gpu(error, data, large, monkeypatch):
    def missing():
        raise error

    if error is None:
        monkeypatch.setitem(sys.modules, "cupy", None)
    else:
        monkeypatch.setattr("agbm._engines.device.cuda.cuda_device", missing)
    X, y = data
    model = AGBMClassifier(**AUTO).fit(X, y > 0)
    assert model.resolved_params_["device"] == "cpu"
    expected = AGBMClassifier(**SMALL).fit(X, y > 0)
    assert model.predict_proba(X).tobytes() == expected.predict_proba(X).tobytes()
    model.set_params(device="cuda")
    for method in (model.fit, model.score):
        with pytest.raises((ImportError, RuntimeError)):
            method(X, y > 0)


def test_parameters_and_files(data, device, large, tmp_path):
    model = clone(AGBMRegressor().set_params(**AUTO))
    assert model.get_params()["device"] == "auto"
    model.fit(*data).save(tmp_path / "model")
    loaded = agbm.load(tmp_path / "model")
    assert loaded.device == "cpu"
    assert loaded.resolved_params_.keys() == model.resolved_params_.keys() - {"device"}
    assert loaded.fingerprint_ == model.fingerprint_
    assert model.verify(*data)
