"""The example scripts, and whether their output is correct."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import agbm

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs an example in an empty folder; gives what it printed and its names."""
    monkeypatch.chdir(tmp_path)

    def run(name):
        monkeypatch.setattr(sys, "argv", [name])
        names = runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out, names

    return run


def numbers(pattern, text):
    """The numbers of every match of a pattern, which must be there."""
    found = re.findall(pattern, text)
    assert found, text
    return np.array(found, dtype=float)


def test_every_example_is_documented_and_tested():
    tested = Path(__file__).read_text() + (Path(__file__).parent / "test_serving.py").read_text()
    for path in EXAMPLES.glob("*.py"):
        assert f"python examples/{path.name}" in path.read_text() or path.name == "demo.py", path
        assert path.name in tested or path.name == "demo.py", f"no test runs {path}"


def test_first_model(run):
    text, _ = run("first_model.py")
    losses = numbers(r"iteration +\d+: validation loss ([\d.]+)", text)
    assert losses[3] == losses.min() < 0.4 * losses[0]
    ran, kept = numbers(r"ran (\d+) iterations, kept iteration (\d+)", text)[0]
    assert ran == kept + 20, "patience"
    assert numbers(r"test accuracy: ([\d.]+)", text) > 0.95


def test_classification(run, tmp_path):
    text, _ = run("classification.py")
    assert numbers(r"ROC AUC ([\d.]+)", text) > 0.8
    thresholds, costs = numbers(r"threshold ([\d.]+): cost per row ([\d.]+)", text).T
    assert thresholds.tolist() == [0.5, 0.048]
    assert costs[1] < 0.8 * costs[0], "a threshold that follows from the costs is better than 0.5"
    assert (tmp_path / "threshold_costs.png").stat().st_size > 10_000


def test_regression(run, tmp_path):
    text, _ = run("regression.py")
    assert numbers(r"R2 ([\d.]+)", text) > 0.95
    as_fitted, corrected = numbers(r"([\d.]+)% of the test rows inside", text)
    assert abs(corrected - 90.0) < abs(as_fitted - 90.0)
    assert 85.0 < corrected < 95.0
    assert (tmp_path / "partial_dependence.png").stat().st_size > 10_000


def test_compare_libraries(run, monkeypatch):
    for name in ("xgboost", "catboost"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # which the example sets, and which is undone
    text, _ = run("compare_libraries.py")
    assert re.findall(r"(\w+) is not installed", text) == ["XGBoost", "CatBoost"]
    errors, more = numbers(r"([\d.]+), agbm's plus +([\d.-]+)", text).T
    assert len(errors) == 3
    np.testing.assert_allclose(errors - errors[0], more, atol=0.011)
    assert np.all((errors > 50.0) & (errors < 70.0))


def test_categories_and_missing(run):
    text, _ = run("categories_and_missing.py")
    assert numbers(r"R2 on new flats: ([\d.]+)", text) > 0.97
    assert numbers(r"R2 on flats with a missing area: ([\d.]+)", text) > 0.6
    hill, hole, station, airport = numbers(r"gas +(?:60.0|NaN) +([\d.]+)", text)
    assert hill == pytest.approx(9.0 * 60.0 + 450.0, abs=30.0)
    assert station == pytest.approx(9.0 * 60.0 + 150.0, abs=30.0)
    assert hole < hill - 150.0, "those without an area are small"
    assert station < airport < hill


def test_custom_loss(run):
    text, names = run("custom_loss.py")
    (usual, short_usual), (own, short_own), (same, short_same) = numbers(
        r"cost per day +([\d.]+), short on +(\d+)%", text
    )
    assert own < 0.9 * usual
    assert (same, short_same) == (own, short_own)
    assert short_own < short_usual
    y = np.random.default_rng(0).gamma(2.0, 10.0, 500)
    best = names["Shortage"]().best_constant(y, None)
    around = [names["Shortage"]().value(y, np.full_like(y, best + by)).sum() for by in (-0.01, 0.0, 0.01)]
    assert around[1] == min(around)


def test_custom_learner(run):
    text, _ = run("custom_learner.py")
    tree, tree_fast, smooth, smooth_fast = numbers(r"surface ([\d.]+)", text)
    assert smooth_fast < smooth < tree_fast < tree


def test_constraints(run):
    text, _ = run("constraints.py")
    (free_fall, free_interaction), (fall, interaction) = numbers(r"rises ([\d.e-]+), .* debt ([\d.e-]+)", text)
    assert free_fall > 0.01
    assert free_interaction > 0.01
    assert fall == 0.0
    assert interaction < 1e-12


def test_quantiles(run):
    text, _ = run("quantiles.py")
    assert 86.0 < numbers(r"([\d.]+)% of the test rows are between", text) < 93.0
    assert 88.0 < numbers(r"([\d.]+)% are in intervals", text) < 93.0
    assert np.all(np.abs(numbers(r": (\d+)% inside", text) - 90.0) < 6.0)
    widths = numbers(r"mean width ([\d.]+)", text)
    # The distance of the 5 % and the 95 % quantile of normal noise in the middle of each range of x.
    np.testing.assert_allclose(widths, 2.0 * 1.645 * (0.2 + 0.3 * np.array([0.5, 5.5, 9.5])), rtol=0.4)


def test_survive_a_crash(run):
    text, _ = run("survive_a_crash.py")
    assert "died with exit code 9" in text
    assert "ran iterations 61 to 100" in text
    assert "uninterrupted run: True" in text


def test_more_rows_than_memory(run):
    text, _ = run("more_rows_than_memory.py")
    assert numbers(r"accuracy ([\d.]+)", text) > 0.7
    assert numbers(r"files (\d) times", text) == 4  # labels, sample, rows for crosses, codes and digest
    assert "fit on one table: True" in text


def test_on_a_cluster():
    """In a process of its own: a cluster leaves threads running."""
    text = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / "on_a_cluster.py"],
        capture_output=True, text=True, check=True, timeout=120,
    ).stdout  # fmt: skip
    assert re.search(r"5 partitions, 2 workers, 5 members of \d+ trees", text)
    assert "byte for byte: True" in text


def test_on_ray():
    pytest.importorskip("ray", reason="Ray is not installed; pip install ray")
    text = subprocess.run(
        [sys.executable, EXAMPLES / "on_ray.py"], capture_output=True, text=True, check=True, timeout=180
    ).stdout
    assert "killed an actor" in text
    assert "same bytes as that of AGBMClassifier: True" in text


def test_autogluon_model(tmp_path):
    pytest.importorskip("autogluon.tabular", reason="AutoGluon is not installed; pip install autogluon.tabular")
    text = subprocess.run(
        [sys.executable, EXAMPLES / "autogluon_model.py"],
        capture_output=True, text=True, check=True, timeout=300, cwd=tmp_path,
    ).stdout  # fmt: skip
    losses = dict(re.findall(r"(\w+): test log loss ([\d.]+)", text))
    assert list(losses) == ["AGBM_BAG_L1", "AGBM_BAG_L1_FULL"]
    assert all(0.05 < float(loss) < 0.25 for loss in losses.values())
    space = runpy.run_path(str(EXAMPLES / "autogluon_model.py"))["search_space"]()
    assert set(space) <= set(agbm.AGBMClassifier().get_params())


def test_secure_sum(run):
    text, _ = run("secure_sum.py")
    sent = [[int(number) for number in line] for line in re.findall(r"sends (\d+) (\d+) (\d+)", text)]
    assert [sum(of) % 2**64 for of in zip(*sent, strict=True)] == [42, 58, 95]
    assert "all hospitals have 42 58 95" in text


def test_federated():
    """In a process of its own, whose processes load the example as well."""
    text = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / "federated.py"],
        capture_output=True, text=True, check=True, timeout=180,
    ).stdout  # fmt: skip
    sent, (total,) = re.findall(r"sent +(\d+)", text), re.findall(r"sum modulo 2\^64 +(-?\d+)", text)
    assert len(sent) == 3
    assert (sum(map(int, sent)) - int(total)) % 2**64 == 0
    assert abs(int(total)) < 2**56 < max(map(int, sent))
    assert "30 trees; models equal: True" in text


def test_explain_predictions(run, tmp_path):
    text, _ = run("explain_predictions.py")
    assert (tmp_path / "contributions.png").stat().st_size > 10_000
    predicted, mean = numbers(r"([\d.]+) predicted, ([\d.]+) on average", text)[0]
    assert numbers(r"\n +([+-][\d.]+)  ", text).sum() == pytest.approx(predicted - mean, abs=0.31), "rounded to tenths"
    assert numbers(r"at most ([\d.e-]+)", text) < 1e-9


def test_deploy_onnx(run):
    text, _ = run("deploy_onnx.py")
    assert "0 of 45 labels differ" in text
    assert numbers(r"probabilities by at most ([\d.e-]+)", text) < 1e-6


def test_mlflow_tracking(run, tmp_path, monkeypatch):
    import mlflow
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    # A store of files: to make the tables of a database takes MLflow seven seconds.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "runs").as_uri())
    text, _ = run("mlflow_tracking.py")
    (run_id,) = re.findall(r"run (\w+):", text)
    client = mlflow.MlflowClient()
    model = agbm.load(client.download_artifacts(run_id, "model.agbm"))
    assert model.n_iter_ > 20
    for name in ("train_loss", "validation_loss"):
        curve = sorted(client.get_metric_history(run_id, name), key=lambda point: point.step)
        assert [point.step for point in curve] == list(range(model.n_iter_ + 1))
        assert [point.value for point in curve] == model.history_[name].tolist()
    assert client.get_run(run_id).data.params["learning_rate"] == "0.05"
    assert numbers(r"at iteration (\d+)", text) == model.best_iteration_ == numbers(r"kept iteration (\d+)", text)
    # Logging does not change the model.
    X, X_val, y, y_val = train_test_split(*load_breast_cancer(return_X_y=True), random_state=0)
    alone = agbm.AGBMClassifier(max_iter=60, learning_rate=0.05, early_stopping=True).fit(
        X, y, X_val=X_val, y_val=y_val
    )
    assert np.array_equal(alone.predict_proba(X_val), model.predict_proba(X_val))


def test_optuna_pruning(run):
    import optuna

    text, names = run("optuna_pruning.py")
    assert 2 <= numbers(r"(\d+) of 20 trials pruned", text) < 20
    assert numbers(r"that are fitted: (\d+)", text) == 0
    assert numbers(r"loss (\d+) with", text) < 1800

    class Impatient(optuna.pruners.BasePruner):
        def prune(self, study, trial):
            return trial.last_step >= 3

    # Pruning a fit of a model that was fitted before leaves it as it was.
    model = agbm.AGBMRegressor(max_iter=10).fit(names["X"], names["y"])
    before = model.predict(names["X"])
    trial = optuna.create_study(pruner=Impatient()).ask()
    model.set_params(callbacks=[names["pruning"](trial)])
    with pytest.raises(optuna.TrialPruned, match="at iteration 3"):
        model.fit(names["X"][::2], names["y"][::2], X_val=names["X"], y_val=names["y"])
    assert np.array_equal(model.predict(names["X"]), before)


def test_audit_a_credit_model(run):
    text, _ = run("audit_a_credit_model.py")
    results = dict(re.findall(r"^(\S.*): ((?:NOT )?VERIFIED|verified)$", text, re.MULTILINE))
    assert [name for name, result in results.items() if result == "verified"] == [
        "all iterations",
        "iterations 5, 20 and 41",
    ]
    assert [name for name, result in results.items() if result == "NOT VERIFIED"] == [
        "a changed leaf", "a changed parameter", "a changed row",
    ]  # fmt: skip
    assert "iteration, 20, tree 0, node" in text
    assert "parameters, min_samples_leaf" in text
    assert "rows 1232 to 1235; columns 'income'" in text
    found = agbm.load("filed.agbm")
    assert f"fingerprint: {found.fingerprint_}" in text
