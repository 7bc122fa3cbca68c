"""Fits with device="cuda" write the file that fits on the CPU write. Kernels run in the emulation."""

import numpy as np
import pytest
from sklearn.datasets import make_classification

import agbm
from agbm import AGBMClassifier, AGBMRanker, AGBMRegressor, AGBMSurvival, methods
from agbm._data.crosses import Cross
from agbm.methods import Fading

pytestmark = pytest.mark.usefixtures("device")


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(
        160, 4, n_informative=3, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=0
    )
    X = X.round(1)
    X[::9, 1] = np.nan
    return X, y


def bytes_of(model, path):
    """The model file, and the fingerprint."""
    model.save(path)
    return path.read_bytes(), model.fingerprint_


SMALL = {"max_iter": 3, "n_members": 1, "max_leaf_nodes": 4, "early_stopping": False, "max_bins": 20}


def numbers(X, y):
    return X, np.nan_to_num(X[:, 0]) * y + y


def counts(X, y):
    return X, y.astype(float)


def positive(X, y):
    return X, y + 1.0


def lifetimes(X, y):
    return X, np.column_stack([1.0 + np.nan_to_num(X[:, 0]) ** 2, y > 0])


CASES = {
    "default": (AGBMRegressor(max_iter=3, n_members=2, max_leaf_nodes=4), numbers),
    "classes": (AGBMClassifier(**SMALL), None),
    "classes, vector leaves": (AGBMClassifier(**SMALL, multi_strategy="multi_output_tree"), None),
    "two classes, weights of classes": (
        AGBMClassifier(**SMALL, class_weight="balanced"), lambda X, y: (X, y > 0),
    ),
    "temperature": (
        AGBMClassifier(**SMALL | {"early_stopping": True}, method=Fading(temperature_scaling=True)),
        lambda X, y: (X, y > 0),
    ),
    "agbm": (AGBMRegressor(**SMALL, method=methods.AGBM(shared_structure=True)), numbers),
    "agbm, two trees": (AGBMClassifier(**SMALL, method="agbm"), lambda X, y: (X, y > 0)),
    "agbmr": (AGBMRegressor(**SMALL | {"max_iter": 5}, method="agbmr"), numbers),
    "vagbm": (AGBMRegressor(**SMALL, method="vagbm"), numbers),
    "gbm with a line search": (AGBMRegressor(**SMALL, method=methods.GBM(line_search=True), loss="poisson"), counts),
    "dropout": (AGBMRegressor(**SMALL | {"max_iter": 5}, method=Fading(dropout=0.5)), numbers),
    "samples": (AGBMRegressor(**SMALL, subsample=0.5, colsample_bytree=0.6, colsample_bynode=0.5), numbers),
    "constraints": (
        AGBMRegressor(**SMALL, monotonic_cst=[1, 0, -1, 0], interaction_cst=[[0, 1], [2, 3]]), numbers,
    ),
    "crosses": (AGBMRegressor(**SMALL, views=[(0, "*", 1), (2, "-", 0)]), numbers),
    "crosses for some members": (
        AGBMRegressor(**SMALL | {"n_members": 2}, views=[Cross(0, "*", 1, for_all=False)]), numbers,
    ),
    "absolute error": (AGBMRegressor(**SMALL, loss="absolute_error"), numbers),
    "quantiles": (AGBMRegressor(**SMALL, loss=agbm.losses.Quantile([0.1, 0.9])), numbers),
    "gamma": (AGBMRegressor(**SMALL, loss="gamma"), positive),
    "distribution": (AGBMRegressor(**SMALL, loss="distribution:normal"), numbers),
    "cox": (AGBMSurvival(**SMALL), lifetimes),
    "several outputs": (AGBMRegressor(**SMALL), lambda X, y: (X, np.column_stack([y, np.nan_to_num(X[:, 0])]))),
    "scoring": (AGBMRegressor(**SMALL | {"early_stopping": True}, scoring="r2"), numbers),
}  # fmt: skip


@pytest.mark.parametrize(("model", "made"), CASES.values(), ids=CASES)
def test_files_are_the_same(model, made, data, tmp_path, device):
    X, y = data if made is None else made(*data)
    expected = bytes_of(model.set_params(device="cpu").fit(X, y), tmp_path / "cpu")
    assert not device.launched
    found = bytes_of(model.set_params(device="cuda").fit(X, y), tmp_path / "cuda")
    assert "agbm_histograms" in device.launched
    assert found == expected
    on_device = model.predict(X)
    assert any(kernel.startswith("agbm_predict") for kernel in device.launched)
    assert on_device.tobytes() == model.set_params(device="cpu").predict(X).tobytes()


def test_functions_of_gradients_are_evaluated_on_the_host(data, device):
    X, y = numbers(*data)
    model = AGBMRegressor(**SMALL, loss=lambda y_true, y_pred: (y_pred - y_true, np.ones(len(y_true))))
    expected = model.set_params(device="cpu").fit(X, y).predict(X)
    found = model.set_params(device="cuda").fit(X, y)
    assert "agbm_histograms" in device.launched
    np.testing.assert_array_equal(found.predict(X), expected)


def test_members_are_trained_at_the_same_time_on_streams_of_their_own(data, tmp_path, device):
    X, y = numbers(*data)
    model = AGBMRegressor(max_iter=4, n_members=3, max_leaf_nodes=4, early_stopping=False)
    expected = bytes_of(model.fit(X, y), tmp_path / "cpu")
    assert bytes_of(model.set_params(device="cuda").fit(X, y), tmp_path / "cuda") == expected
    assert [n >= 4 for n in device.streams.values()] == [True] * 3


@pytest.mark.parametrize("kind", [int, float])
def test_weights_offsets_and_validation_rows(kind, data, tmp_path):
    X, y = numbers(*data)
    rng = np.random.default_rng(0)
    weight, offset = rng.integers(1, 4, len(y)).astype(kind), rng.normal(size=len(y))
    model = AGBMRegressor(**SMALL | {"early_stopping": True})
    found = [
        bytes_of(
            model.set_params(device=name).fit(
                X[:120], y[:120], weight[:120], X[120:], y[120:], weight[120:],
                offset=offset[:120], offset_val=offset[120:], watch={"all": (X, y, weight, offset)},
            ),
            tmp_path / name,
        )
        for name in ("cpu", "cuda")
    ]  # fmt: skip
    assert found[0] == found[1]


def test_categories_and_batches(data, tmp_path):
    X, y = numbers(*data)
    X = np.column_stack([X[:, :2], np.arange(len(X)) % 7])
    model = AGBMRegressor(**SMALL, categorical_features=[2])
    found = [bytes_of(model.set_params(device=name).fit(X, y), tmp_path / name) for name in ("cpu", "cuda")]
    assert found[0] == found[1]
    batches = agbm.Batches(lambda: ((X[i : i + 50], y[i : i + 50]) for i in range(0, len(X), 50)))
    found.append(bytes_of(model.set_params(device="cuda").fit(batches), tmp_path / "batches"))
    assert found[2] == found[0]


@pytest.mark.parametrize("name", ["groups", "time"])
def test_groups_and_times(name, data, tmp_path):
    X, y = numbers(*data)
    model = AGBMRegressor(max_iter=3, n_members=2, max_leaf_nodes=4)
    who = {name: np.arange(len(y)) % 40}
    found = [bytes_of(model.set_params(device=on).fit(X, y, **who), tmp_path / on) for on in ("cpu", "cuda")]
    assert found[0] == found[1]
    assert model.resolved_params_["held_out_by"] == name


def test_rankings(data, tmp_path):
    X, y = data
    model = AGBMRanker(**SMALL)
    found = [
        bytes_of(model.set_params(device=name).fit(X, y, qid=np.arange(len(y)) // 8), tmp_path / name)
        for name in ("cpu", "cuda")
    ]
    assert found[0] == found[1]


def test_warm_start_on_another_device(data, tmp_path):
    X, y = numbers(*data)
    expected = bytes_of(AGBMRegressor(**SMALL | {"max_iter": 6}).fit(X, y), tmp_path / "whole")
    model = AGBMRegressor(**SMALL, warm_start=True).fit(X, y)
    model.set_params(max_iter=4, device="cuda").fit(X, y)
    model.set_params(max_iter=6, device="cpu", warm_start=False)
    moved = AGBMRegressor(**SMALL | {"max_iter": 6}, warm_start=True)
    moved.model_, moved.notes_ = model.model_, model.notes_
    moved.fit(X, y)
    assert bytes_of(moved.set_params(warm_start=False), tmp_path / "moved") == expected


def test_checkpoint_is_resumed_on_another_device(data, tmp_path):
    X, y = numbers(*data)
    settings = SMALL | {"max_iter": 5}
    expected = bytes_of(AGBMRegressor(**settings).fit(X, y), tmp_path / "whole")

    def stop(record):
        return record.iteration == 3

    checkpoint = agbm.Checkpoint(tmp_path / "run", every=1)
    AGBMRegressor(**settings, device="cuda", callbacks=[checkpoint, stop]).fit(X, y)
    resumed = AGBMRegressor(**settings, callbacks=[checkpoint]).fit(X, y)
    assert bytes_of(resumed, tmp_path / "resumed") == expected


def test_predictions_of_several_blocks_of_rows(data, monkeypatch):
    X, y = data
    monkeypatch.setattr("agbm._engines.device.matrix.BYTES_AT_ONCE", 50 * X.shape[1] * 8)
    model = AGBMClassifier(**SMALL).fit(X, y)
    for table in (X, np.asfortranarray(X), X.astype(np.float32), X[:1]):
        expected = model.set_params(device="cpu").predict_proba(table)
        assert model.set_params(device="cuda").predict_proba(table).tobytes() == expected.tobytes()


def test_unsupported_features_are_refused(data):
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import Ridge

    X, y = data
    with pytest.raises(ValueError, match='device="cuda" needs dense X'):
        AGBMClassifier(**SMALL, device="cuda").fit(csr_matrix(np.nan_to_num(X)), y)
    with pytest.raises(ValueError, match='device="cuda" grows trees'):
        AGBMRegressor(max_iter=3, method=Fading(learner=Ridge()), device="cuda").fit(np.nan_to_num(X), y)
    with pytest.raises(ValueError, match="device"):
        AGBMRegressor(device="gpu").fit(X, y)
