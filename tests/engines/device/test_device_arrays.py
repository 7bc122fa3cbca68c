"""Tables that are already on the device: fits and predictions read them there, and give the bits of the host."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.linear_model import Ridge

import agbm
from agbm import AGBMClassifier, AGBMRanker, AGBMRegressor, AGBMSurvival
from agbm._engines.device.matrix import DeviceMatrix, blocks_on, matrix_of
from devices import a_device, is_on_device

SMALL = {"max_iter": 3, "n_members": 1, "max_leaf_nodes": 4, "early_stopping": False, "max_bins": 20}
CUDA = SMALL | {"device": "cuda"}

pytestmark = pytest.mark.usefixtures("device")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 5)).round(1)
    X[::9, 1] = np.nan
    return X, np.nan_to_num(X[:, 0]) + X[:, 2] ** 2


def bytes_of(model, path):
    model.set_params(device="cpu").save(path)
    return path.read_bytes()


@pytest.fixture
def no_copies(device, monkeypatch):
    """Refuses to copy tables of the data to the host; vectors, sums and samples are copied."""
    copy = device.to_host

    def to_host(array):
        assert array.shape != (150, 5), "a copy of the table"
        return copy(array)

    monkeypatch.setattr(device, "to_host", to_host)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("order", ["C", "F"])
def test_fit_equals_that_of_the_host(data, device, dtype, order, tmp_path):
    X, y = np.asarray(data[0], dtype=dtype, order=order), data[1]
    expected = bytes_of(AGBMRegressor(**SMALL).fit(X, y), tmp_path / "host")
    on_device = device.to_device(X.T).T if order == "F" else device.to_device(X)
    model = AGBMRegressor(**CUDA).fit(on_device, device.to_device(y))
    found = model.predict(on_device)
    assert is_on_device(found)
    assert device.to_host(found).tobytes() == model.set_params(device="cpu").predict(X).tobytes()
    assert bytes_of(model, tmp_path / "device") == expected


def test_tables_are_not_copied_to_the_host(data, device, no_copies, monkeypatch):
    monkeypatch.setattr("agbm._tree.bins.MAX_SAMPLE", 100)
    monkeypatch.setattr("agbm._data.digest.ROWS_AT_ONCE", 100)
    X, y = device.to_device(data[0]), data[1]
    model = AGBMRegressor(**CUDA).fit(X, y)
    assert is_on_device(model.predict(X))
    with pytest.raises(AssertionError, match="a copy of the table"):
        np.asarray(matrix_of(device, X))


def test_held_out_rows_members_weights_and_offsets(data, device, tmp_path):
    X, y = data
    rng = np.random.default_rng(0)
    weight, offset = rng.random(len(y)), rng.normal(size=len(y))
    weight[::7] = 0.0
    model = AGBMRegressor(max_iter=4, n_members=2, max_leaf_nodes=4)
    expected = bytes_of(model.fit(X, y, weight, offset=offset), tmp_path / "host")
    parts = map(device.to_device, (X, y, weight))
    found = model.set_params(device="cuda").fit(*parts, offset=device.to_device(offset))
    assert bytes_of(found, tmp_path / "device") == expected


@pytest.mark.parametrize("where", ["both", "training", "validation"])
def test_validation_and_watched_rows(data, device, where, tmp_path):
    X, y = data
    training = X[:100].astype(np.float32)
    arguments = {"y_val": y[100:], "watch": {"others": (X[90:], y[90:])}}
    model = AGBMRegressor(**SMALL | {"early_stopping": True})
    expected = bytes_of(model.fit(training, y[:100], X_val=X[100:], **arguments), tmp_path / "host")
    X_train = training if where == "validation" else device.to_device(training)
    X_val = X[100:] if where == "training" else device.to_device(X[100:])
    found = model.set_params(device="cuda").fit(X_train, y[:100], X_val=X_val, **arguments)
    assert bytes_of(found, tmp_path / "device") == expected


def test_categories_checkpoints_and_warm_start(data, device, tmp_path):
    X, y = np.column_stack([data[0], np.arange(150) % 7]), data[1]
    on_device = device.to_device(X)
    for name, options in {
        "categories": {"categorical_features": [5]},
        "checkpoint": {"callbacks": [agbm.Checkpoint(tmp_path / "run", every=1)]},
    }.items():
        expected = bytes_of(AGBMRegressor(**SMALL, **options).fit(X, y), tmp_path / "host")
        found = AGBMRegressor(**CUDA, **options).fit(on_device, y)
        np.testing.assert_array_equal(device.to_host(found.predict(on_device)), found.predict(X), name)
        assert bytes_of(found, tmp_path / "device") == expected, name
    whole = bytes_of(AGBMRegressor(**SMALL | {"max_iter": 6}).fit(X, y), tmp_path / "host")
    model = AGBMRegressor(**CUDA, warm_start=True).fit(on_device, y)
    model.set_params(max_iter=6).fit(on_device, y)
    assert bytes_of(model.set_params(warm_start=False), tmp_path / "device") == whole


@pytest.mark.parametrize("training", ["device", "host"])
def test_crosses_of_tables_on_the_device(data, device, training, tmp_path):
    X, y = data
    model = AGBMRegressor(**SMALL | {"early_stopping": True}, views=[(0, "*", 2), (3, "-", 4)])
    expected = bytes_of(model.fit(X[:100], y[:100], X_val=X[100:], y_val=y[100:]), tmp_path / "host")
    X_train = device.to_device(X[:100]) if training == "device" else X[:100]
    found = model.set_params(device="cuda").fit(X_train, y[:100], X_val=device.to_device(X[100:]), y_val=y[100:])
    assert bytes_of(found, tmp_path / "device") == expected


def test_init_models_get_arrays_of_the_host(data, device):
    X, y = np.nan_to_num(data[0]), data[1]
    init = Ridge().fit(X, y)
    expected = AGBMRegressor(**SMALL, init=init).fit(X, y).predict(X)
    model = AGBMRegressor(**CUDA, init=init).fit(device.to_device(X), y)
    np.testing.assert_array_equal(device.to_host(model.predict(device.to_device(X))), expected)


FINISHES = {
    "squared": (AGBMRegressor(**CUDA), "agbm_predicted_values"),
    "poisson": (AGBMRegressor(**CUDA, loss="poisson"), "agbm_predicted_values"),
    "cross entropy": (AGBMRegressor(**CUDA, loss="cross_entropy"), "agbm_predicted_values"),
    "quantiles": (AGBMRegressor(**CUDA, loss=agbm.losses.Quantile([0.2, 0.8])), None),
    "distribution": (AGBMRegressor(**CUDA, loss="distribution:normal"), None),
    "two classes": (AGBMClassifier(**CUDA), "agbm_two_probabilities"),
    "exponential": (AGBMClassifier(**CUDA, loss="exponential"), "agbm_two_probabilities"),
    "three classes": (AGBMClassifier(**CUDA), "agbm_softmax"),
    "several labels": (AGBMClassifier(**CUDA), None),
}  # fmt: skip


@pytest.mark.parametrize("name", FINISHES)
def test_predictions_are_made_on_the_device(name, data, device):
    X, y = data
    model, kernel = FINISHES[name]
    labels = {
        "poisson": np.abs(y).round(), "cross entropy": 1.0 / (1.0 + np.exp(-y)), "two classes": y > 0,
        "exponential": np.where(y > 0, 7.0, 2.0), "three classes": 10 * ((y > 0).astype(int) + (y > 1)),
        "several labels": np.column_stack([y > 0, y > 1]).astype(int),
    }.get(name, y)  # fmt: skip
    on_device = device.to_device(X)
    model.fit(X, labels)
    methods = ["predict", "predict_proba", "decision_function"] if isinstance(model, AGBMClassifier) else ["predict"]
    expected = [getattr(model.set_params(device="cpu"), method)(X) for method in methods]
    device.launched.clear()
    for method, of_host in zip(methods, expected, strict=True):
        found = getattr(model.set_params(device="cuda"), method)(on_device)
        assert is_on_device(found)
        assert found.dtype == of_host.dtype
        assert device.to_host(found).tobytes() == of_host.tobytes()
    if kernel is not None:
        assert kernel in device.launched


def test_scores_with_offsets(data, device):
    X, y = data
    model = AGBMRegressor(**CUDA).fit(X, y)
    found = model.predict(device.to_device(X), offset=device.to_device(y))
    assert is_on_device(found)
    assert device.to_host(found).tobytes() == model.set_params(device="cpu").predict(X, offset=y).tobytes()


def test_classes_rankings_survival_and_scores(data, device):
    X, y = data
    on_device = device.to_device(X)
    classes = (y > 0).astype(int) + (y > 1)
    model = AGBMClassifier(**CUDA).fit(on_device, device.to_device(classes))
    for method in ("predict", "predict_proba", "decision_function"):
        found = getattr(model, method)(on_device)
        np.testing.assert_array_equal(device.to_host(found), getattr(model, method)(X))
    assert model.score(on_device, device.to_device(classes)) == model.score(X, classes)
    names = np.array(["low", "middle", "high"])[classes]
    assert AGBMClassifier(**CUDA).fit(on_device, names).predict(on_device).dtype.kind == "U", "text stays on the host"
    regressor = AGBMRegressor(**CUDA).fit(on_device, device.to_device(y))
    assert regressor.score(on_device, device.to_device(y)) == regressor.score(X, y)
    queries = np.arange(len(y)) // 10
    ranker = AGBMRanker(**CUDA).fit(on_device, device.to_device(classes), qid=queries)
    assert ranker.score(on_device, device.to_device(classes), qid=queries) == ranker.score(X, classes, qid=queries)
    lifetimes = np.column_stack([1.0 + np.abs(y), y > 0])
    survival = AGBMSurvival(**CUDA).fit(on_device, device.to_device(lifetimes))
    assert survival.score(on_device, device.to_device(lifetimes)) == survival.score(X, lifetimes)


def test_other_numbers_become_float64(data, device, tmp_path):
    X, y = np.round(10.0 * np.nan_to_num(data[0])), data[1]
    expected = bytes_of(AGBMRegressor(**SMALL).fit(X, y), tmp_path / "host")
    found = AGBMRegressor(**CUDA).fit(device.to_device(X.astype(np.int16)), y)
    assert bytes_of(found, tmp_path / "device") == expected


def test_errors(data, device):
    X, y = data
    on_device = device.to_device(X)
    with pytest.raises(TypeError, match=r"X is a .* on a GPU.*device='cuda'.*X.get\(\)"):
        AGBMRegressor(**SMALL).fit(on_device, y)
    model = AGBMRegressor(**CUDA).fit(on_device, y)
    with pytest.raises(TypeError, match="pass a copy in host memory"):
        model.update(on_device, y, mode="leaves")
    with pytest.raises(ValueError, match="X has 4 features, but AGBMRegressor is expecting 5 features"):
        model.predict(on_device[:, :4])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        AGBMRegressor(**CUDA).fit(on_device, y[:-1])
    with pytest.raises(ValueError, match="must have rows and columns"):
        model.predict(on_device[0])
    with pytest.raises(ValueError, match="at least one of each"):
        model.predict(on_device[:0])
    with pytest.raises(ValueError, match="real numbers; got complex128"):
        model.predict(device.to_device(X.astype(complex)))


TABLES = arrays(np.float32, st.tuples(st.integers(0, 7), st.just(3)), elements=st.floats(width=32))


@settings(max_examples=30)
@given(tables=st.lists(TABLES, min_size=1), data=st.data(), bytes_at_once=st.integers(1, 60))
def test_rows_of_matrices(tables, data, bytes_at_once):
    device = a_device()
    matrix, expected = DeviceMatrix(device, [device.to_device(tables[0])]), tables[0]
    for table in tables[1:]:
        if data.draw(st.booleans()) and len(expected):
            rows = np.array(data.draw(st.lists(st.integers(0, len(expected) - 1))), dtype=np.intp)
            matrix, expected = matrix[rows], expected[rows]
        if data.draw(st.booleans()):
            part = slice(*sorted((data.draw(st.integers(0, len(expected))), data.draw(st.integers(0, len(expected))))))
            matrix, expected = matrix[part], expected[part]
        wide = data.draw(st.sampled_from([np.float32, np.float64]))
        matrix, expected = matrix.followed_by(table.astype(wide)), np.concatenate([expected, table.astype(wide)])
    with patch("agbm._engines.device.matrix.BYTES_AT_ONCE", bytes_at_once):
        found = np.asarray(matrix)
        blocks = [device.to_host(block) for block in blocks_on(device, matrix)]
    assert found.dtype == expected.dtype
    assert len(matrix) == len(expected)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.concatenate([expected[:0], *blocks]), expected)
