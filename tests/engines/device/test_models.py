"""Methods of models besides predictions run on the device, with the bits of the CPU."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.linear_model import Ridge

from agbm import AGBMClassifier, AGBMRegressor
from agbm.methods import Fading
from devices import is_on_device

SMALL = {"max_iter": 4, "max_leaf_nodes": 4, "early_stopping": False, "max_bins": 20}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 5)).round(1)
    X[::9, 1] = np.nan
    X[:, 4] = np.arange(150) % 7
    return X, (X[:, 0] > 0).astype(int) + (X[:, 2] > 1)


MODELS = {
    "members": AGBMRegressor(**SMALL | {"early_stopping": True}, n_members=2),
    "classes": AGBMClassifier(**SMALL, n_members=1),
    "two trees": AGBMRegressor(**SMALL, method="agbm"),
    "dropout": AGBMRegressor(**SMALL, method=Fading(dropout=0.5)),
    "crosses": AGBMRegressor(**SMALL, views=[(0, "*", 2)]),
    "categories": AGBMRegressor(**SMALL, categorical_features=[4]),
}


@pytest.fixture(params=MODELS)
def fitted(request, data, device):
    """A model, fitted on the CPU, that predicts on the device."""
    model = MODELS[request.param].set_params(device="cpu").fit(*data)
    return model.set_params(device="cuda")


def on_cpu(model, method, *args, **options):
    try:
        found = getattr(model.set_params(device="cpu"), method)(*args, **options)
        return [*found] if method.startswith("staged") else found
    finally:
        model.set_params(device="cuda")


def assert_same(device, found, expected):
    """The same bits; on the device if `found` is there."""
    found = device.to_host(found) if is_on_device(found) else found
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_leaves(data, device, fitted, dtype, order, monkeypatch):
    X = np.asarray(data[0], dtype=dtype, order=order)
    monkeypatch.setattr("agbm._engines.device.matrix.BYTES_AT_ONCE", 50 * X[0].nbytes)
    expected = on_cpu(fitted, "apply", X)
    assert not device.launched
    assert_same(device, fitted.apply(X), expected)
    found = fitted.apply(device.to_device(X))
    assert is_on_device(found)
    assert_same(device, found, expected)
    assert all(kernel.startswith("agbm_leaves") for kernel in device.launched)
    assert device.launched


@pytest.mark.parametrize("bytes_at_once", [2**26, 10_000])
def test_contributions(data, device, fitted, bytes_at_once, monkeypatch):
    X = data[0]
    for module in ("matrix", "prediction"):
        monkeypatch.setattr(f"agbm._engines.device.{module}.BYTES_AT_ONCE", bytes_at_once)
    expected = on_cpu(fitted, "predict_contributions", X)
    assert not device.launched
    assert_same(device, fitted.predict_contributions(X), expected)
    found = fitted.predict_contributions(device.to_device(X))
    assert is_on_device(found)
    assert_same(device, found, expected)
    assert set(device.launched) == {"agbm_contributions_float64"}


def test_background_rows_and_interactions_are_left_to_the_cpu(data, device, fitted):
    X = data[0][:20]
    rows, background = device.to_device(X), device.to_device(X[:5])
    for method in ("predict_contributions", "predict_interactions"):
        expected = on_cpu(fitted, method, X, X[:5])
        found = getattr(fitted, method)(rows, background)
        assert is_on_device(found)
        assert_same(device, found, expected)
        assert_same(device, getattr(fitted, method)(X, X[:5]), expected)


def test_stages(data, device, fitted, monkeypatch):
    X = data[0]
    monkeypatch.setattr("agbm._engines.device.matrix.BYTES_AT_ONCE", 50 * X[0].nbytes)
    classes = isinstance(fitted, AGBMClassifier)
    offset = None if classes else np.arange(len(X)) / 7.0
    on_device = device.to_device(X)
    for method in ["staged_predict", *["staged_predict_proba", "staged_decision_function"] * classes]:
        device.launched.clear()
        expected = on_cpu(fitted, method, X, offset)
        assert not device.launched
        for table in (X, on_device):
            found = [*getattr(fitted, method)(table, offset)]
            assert len(found) == len(expected) == fitted.best_iteration_
            for of_device, of_cpu in zip(found, expected, strict=True):
                assert is_on_device(of_device) == (table is on_device)
                assert_same(device, of_device, of_cpu)
        assert any(kernel.startswith("agbm_predict") for kernel in device.launched)


def test_tables_are_copied_once_for_all_stages(data, device, monkeypatch):
    X, y = data
    model = AGBMRegressor(**SMALL, n_members=2).fit(X, y).set_params(device="cuda")
    copied, copy = [], device.to_device
    monkeypatch.setattr(device, "to_device", lambda array: copied.append(array.shape) or copy(array))
    assert len([*model.staged_predict(X)]) == 4
    assert copied.count(X.shape) == 1


def test_predictors(data, device, fitted, monkeypatch):
    X = data[0]
    monkeypatch.setattr("agbm._engines.device.matrix.BYTES_AT_ONCE", 50 * X[0].nbytes)
    methods = ["predict", "predict_proba", "decision_function"] if isinstance(fitted, AGBMClassifier) else ["predict"]
    for method in methods:
        arguments = [method] if isinstance(fitted, AGBMClassifier) else []
        expected = on_cpu(fitted, method, X)
        predictor = pickle.loads(pickle.dumps(fitted.predictor(*arguments)))
        device.launched.clear()
        assert_same(device, predictor(X[:1]), expected[:1])
        assert np.asarray(predictor(X[0])).tobytes() == expected[0].tobytes()
        assert not device.launched, "one row is faster on the CPU"
        assert_same(device, predictor(X), expected)
        assert any(kernel.startswith("agbm_predict") for kernel in device.launched)
        device.launched.clear()
        assert_same(device, on_cpu(fitted, "predictor", *arguments)(X), expected)
        assert not device.launched


def test_predictors_choose_by_the_size_of_the_table(data, device, monkeypatch):
    X, y = data
    monkeypatch.setattr("agbm._engines.device.FEWEST_NUMBERS", X.size)
    model = AGBMRegressor(**SMALL).fit(X, y).set_params(device="auto")
    predictor = model.predictor()
    assert_same(device, predictor(X[1:]), on_cpu(model, "predict", X[1:]))
    assert not device.launched
    assert_same(device, predictor(X), on_cpu(model, "predict", X))
    assert device.launched


def test_what_the_cpu_does(data, device):
    X, y = np.nan_to_num(data[0]), data[1]
    model = AGBMRegressor(**SMALL).fit(X, y).set_params(device="cuda")
    sparse = csr_matrix(X)
    assert_same(device, model.apply(sparse), on_cpu(model, "apply", X))
    assert_same(device, model.predict_contributions(sparse), on_cpu(model, "predict_contributions", X))
    for found, expected in zip(model.staged_predict(sparse), on_cpu(model, "staged_predict", X), strict=True):
        assert_same(device, found, expected)
    assert not device.launched
    constant = AGBMRegressor(**SMALL | {"max_iter": 1}).fit(X, np.zeros(len(y))).set_params(device="cuda")
    assert_same(device, constant.apply(device.to_device(X)), on_cpu(constant, "apply", X))
    other = AGBMRegressor(**SMALL, method=Fading(learner=Ridge())).fit(X, y).set_params(device="cuda")
    with pytest.raises(ValueError, match=r"apply\(\) works with trees only"):
        other.apply(X)
    for found, expected in zip(other.staged_predict(X), on_cpu(other, "staged_predict", X), strict=True):
        assert_same(device, found, expected)
