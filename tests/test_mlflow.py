"""Models in MLflow: agbm.mlflow, and mlflow.sklearn for pipelines."""

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import agbm
from agbm import AGBMClassifier, AGBMRegressor
from agbm.methods import Fading

pytestmark = pytest.mark.filterwarnings("default")  # those of MLflow itself
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"number": RNG.normal(size=200), "text": RNG.choice(["x", "y", "z"], 200)})
Y = np.where(TABLE["text"] == "x", "yes", "no")


@pytest.fixture(autouse=True)
def mlflow(tmp_path, monkeypatch):
    """MLflow with a store of files: to make the tables of a database takes seconds."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "runs").as_uri())
    monkeypatch.chdir(tmp_path)
    import mlflow
    import mlflow.pyfunc

    import agbm.mlflow  # noqa: F401

    return mlflow


@pytest.fixture(scope="module")
def model():
    return AGBMClassifier(max_iter=5).fit(TABLE, Y)


def test_a_logged_model(mlflow, model):
    with mlflow.start_run() as run:
        info = agbm.mlflow.log_model(model, name="churn", input_example=TABLE[:5], tags={"team": "a"})
    assert info.run_id == run.info.run_id
    assert info.signature.inputs.input_names() == ["number", "text"]
    again = agbm.mlflow.load_model(info.model_uri)
    assert type(again) is AGBMClassifier
    np.testing.assert_array_equal(again.predict_proba(TABLE), model.predict_proba(TABLE))

    served = mlflow.pyfunc.load_model(info.model_uri)
    np.testing.assert_array_equal(served.predict(TABLE), model.predict(TABLE))
    for method in ("predict_proba", "decision_function", "predict_set", "predict_contributions"):
        expected = getattr(model, method)(TABLE)
        np.testing.assert_array_equal(served.predict(TABLE, params={"method": method}), expected)
    for method in ("save", "predict_interval", "__class__"):
        with pytest.raises(ValueError, match=f"method must be one of .*'predict_proba'.* got '{method}'"):
            served.predict(TABLE, params={"method": method})
    with pytest.raises(mlflow.MlflowException, match="missing inputs"):
        served.predict(TABLE[["number"]])
    assert isinstance(served.get_raw_model(), AGBMClassifier)


def test_a_saved_model(mlflow, model, tmp_path):
    """The folder holds a model file, which is the one that save writes, and no pickles."""
    agbm.mlflow.save_model(model, tmp_path / "saved", metadata={"source": "here"})
    model.save(tmp_path / "model.agbm")
    files = {str(file.relative_to(tmp_path / "saved")) for file in (tmp_path / "saved").rglob("*") if file.is_file()}
    assert files == {"MLmodel", "conda.yaml", "data/model.agbm", "python_env.yaml", "requirements.txt"}
    assert (tmp_path / "saved/data/model.agbm").read_bytes() == (tmp_path / "model.agbm").read_bytes()
    assert f"agbm=={agbm.__version__}" in (tmp_path / "saved/requirements.txt").read_text().split()
    described = mlflow.models.Model.load(str(tmp_path / "saved"))
    assert described.flavors["agbm"] == {"agbm_version": agbm.__version__, "model_class": "AGBMClassifier"}
    assert described.metadata == {"source": "here"}
    np.testing.assert_array_equal(agbm.mlflow.load_model(tmp_path / "saved").predict(TABLE), model.predict(TABLE))
    served = mlflow.pyfunc.load_model(str(tmp_path / "saved"))  # without a signature
    np.testing.assert_array_equal(served.predict(TABLE), model.predict(TABLE))


def test_arrays_and_the_registry(mlflow):
    X = RNG.normal(size=(100, 3))
    model = AGBMRegressor(max_iter=3).fit(X, X[:, 0])
    agbm.mlflow.log_model(model, name="prices", registered_model_name="prices", input_example=X[:2])
    served = mlflow.pyfunc.load_model("models:/prices/1")
    np.testing.assert_array_equal(served.predict(X), model.predict(X))
    np.testing.assert_array_equal(served.predict(X, params={"method": "predict_interval"}), model.predict_interval(X))


def test_mistakes(mlflow, model, tmp_path):
    with pytest.raises(ValueError, match=r"learner=Ridge\(\)"):
        agbm.mlflow.save_model(
            AGBMRegressor(method=Fading(learner=Ridge()), max_iter=2).fit(TABLE[["number"]], TABLE["number"]), "a"
        )
    mlflow.pyfunc.save_model(str(tmp_path / "other"), loader_module="agbm.mlflow", pip_requirements=[])
    with pytest.raises(ValueError, match=r"not a model of agbm\.mlflow"):
        agbm.mlflow.load_model(tmp_path / "other")
    agbm.mlflow.save_model(model, tmp_path / "broken")
    file = tmp_path / "broken/data/model.agbm"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(agbm.ModelFileError):
        agbm.mlflow.load_model(tmp_path / "broken")


def test_mlflow_is_needed(monkeypatch):
    monkeypatch.delitem(sys.modules, "agbm.mlflow")
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ImportError, match=r"pip install 'agbm\[mlflow\]'"):
        import agbm.mlflow  # noqa: F401


def test_pipelines_by_mlflow_sklearn(mlflow, tmp_path):
    """MLflow writes scikit-learn models by skops, which asks whether the types of agbm can be trusted."""
    import mlflow.sklearn
    import skops.io

    X = RNG.normal(size=(100, 3))
    pipeline = make_pipeline(StandardScaler(), AGBMRegressor(max_iter=3)).fit(X, X[:, 0])
    trusted = skops.io.get_untrusted_types(data=skops.io.dumps(pipeline))
    assert all(name.startswith("agbm.") for name in trusted)
    how = {"serialization_format": "skops", "skops_trusted_types": trusted}
    mlflow.sklearn.save_model(
        pipeline, tmp_path / "pipeline", pip_requirements=[], **how
    )  # not inferred, which is slow
    again = mlflow.sklearn.load_model(str(tmp_path / "pipeline"))
    np.testing.assert_array_equal(again.predict(X), pipeline.predict(X))


def test_autologging(mlflow):
    agbm.mlflow.autolog(silent=True)
    try:
        with mlflow.start_run() as run:
            model = AGBMRegressor(max_iter=5, scoring="r2").fit(TABLE[["number"]], TABLE["number"])
            with pytest.raises(ValueError, match="max_iter"):
                AGBMRegressor(max_iter=-1).fit(TABLE[["number"]], TABLE["number"])
        AGBMClassifier(max_iter=3).fit(TABLE[["number"]], Y)  # in a run of its own
        alone = mlflow.last_active_run()
    finally:
        agbm.mlflow.autolog(disable=True, silent=True)
    assert alone.info.run_id != run.info.run_id
    assert alone.data.params["max_iter"] == "3"
    logged = mlflow.get_run(run.info.run_id)
    assert logged.data.params["resolved_n_members"] == str(model.resolved_params_["n_members"])
    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "train_loss")
    assert {one.step: one.value for one in history} == dict(enumerate(model.history_["train_loss"].tolist()))
    found = [one for one in mlflow.search_logged_models(output_format="list") if one.source_run_id == run.info.run_id]
    assert agbm.mlflow.load_model(found[0].model_uri).fingerprint_ == model.fingerprint_
    AGBMClassifier(max_iter=3).fit(TABLE[["number"]], Y)
    assert mlflow.last_active_run().info.run_id == alone.info.run_id


def test_autologging_of_pipelines(mlflow):
    """docs/guides/deployment.md; MLflow patches the classes of scikit-learn only."""
    mlflow.sklearn.autolog(log_models=False)
    try:
        with mlflow.start_run() as run:
            make_pipeline(StandardScaler(), AGBMClassifier(max_iter=5)).fit(TABLE[["number"]], Y)
    finally:
        mlflow.sklearn.autolog(disable=True)
    logged = mlflow.get_run(run.info.run_id).data
    assert logged.params["agbmclassifier__max_iter"] == "5"
    assert "training_log_loss" in logged.metrics
