"""Several labels per row: a matrix of 0 and 1 as y of a classifier."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csc_matrix, csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, get_scorer, log_loss, roc_auc_score
from sklearn.model_selection import cross_val_predict, cross_val_score
from sklearn.multiclass import OneVsRestClassifier

import agbm
from agbm import AGBMClassifier, Batches, Checkpoint, ModelFileError
from agbm._apps.cli import main
from agbm.export import encode, export_text, to_lightgbm, to_onnx, to_treelite
from agbm.losses import Exponential
from toys import rewrite

PLAIN = {"n_members": 1, "early_stopping": False, "l2_regularization": 2.0, "max_leaf_nodes": 6, "max_iter": 8}
"""Nothing that depends on all labels at once."""


def rows(n=240, n_labels=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[rng.random(X.shape) < 0.05] = np.nan
    signal = np.nan_to_num(X) @ rng.normal(size=(4, n_labels)) + rng.normal(scale=0.5, size=(n, n_labels))
    return X, (signal > np.linspace(-0.5, 1.0, n_labels)).astype(int)


@pytest.fixture(scope="module")
def fitted():
    X, Y = rows()
    return AGBMClassifier(**PLAIN).fit(X, Y)


@pytest.mark.parametrize(
    "parameters", [{}, {"loss": "exponential"}, {"loss": Exponential()}, {"method": "agbm"}, {"subsample": 0.5}]
)
def test_equals_one_classifier_per_label(parameters):
    """The losses add up: each label has the trees of a classifier of that label."""
    X, Y = rows()
    settings = PLAIN | {"colsample_bynode": 1.0} | parameters
    model = AGBMClassifier(**settings).fit(X, Y)
    for label, y in enumerate(Y.T):
        alone = AGBMClassifier(**settings).fit(X, y)
        assert np.array_equal(model.decision_function(X)[:, label], alone.decision_function(X))
        assert np.array_equal(model.predict_proba(X)[:, label], alone.predict_proba(X)[:, 1])
        assert np.array_equal(model.predict(X)[:, label], alone.predict(X))


def test_predictions(fitted):
    X, Y = rows()
    predicted, probabilities = fitted.predict(X), fitted.predict_proba(X)
    assert predicted.shape == probabilities.shape == fitted.decision_function(X).shape == Y.shape
    assert predicted.dtype == np.int64
    assert np.array_equal(predicted, probabilities > 0.5)
    assert fitted.score(X, Y) == accuracy_score(Y, predicted) > 0.5
    assert fitted.classes_.tolist() == [0, 1, 2]
    assert fitted.n_classes_ == 3
    losses = [log_loss(y, p) for y, p in zip(Y.T, probabilities.T, strict=True)]
    assert fitted.history_["train_loss"][-1] == pytest.approx(sum(losses), rel=1e-12)
    *_, last = fitted.staged_predict_proba(X)
    np.testing.assert_allclose(last, probabilities, atol=1e-12)
    for method in ("predict", "predict_proba", "decision_function"):
        assert np.array_equal(fitted.predictor(method)(X), getattr(fitted, method)(X))


def test_contributions_add_up(fitted):
    X, _ = rows()
    contributions = fitted.predict_contributions(X)
    assert contributions.shape == (len(X), 3, 5)
    np.testing.assert_allclose(contributions.sum(axis=2), fitted.decision_function(X), atol=1e-9)


@pytest.mark.parametrize("form", [
    lambda Y: Y.astype(bool), lambda Y: Y.astype(float), lambda Y: Y.tolist(), pd.DataFrame, csr_array, csc_matrix,
    np.asfortranarray,
])  # fmt: skip
def test_forms_of_the_matrix(form, fitted):
    X, Y = rows()
    same = AGBMClassifier(**PLAIN).fit(X, form(Y))
    assert np.array_equal(same.predict_proba(X), fitted.predict_proba(X))


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_batches(form, fitted):
    X, Y = rows()
    batches = Batches(lambda: ((X[i : i + 70], form(Y[i : i + 70])) for i in range(0, len(X), 70)))
    assert np.array_equal(AGBMClassifier(**PLAIN).fit(batches).predict_proba(X), fitted.predict_proba(X))
    apart = Batches(lambda: (X[i : i + 70] for i in range(0, len(X), 70)))
    assert np.array_equal(AGBMClassifier(**PLAIN).fit(apart, form(Y)).predict_proba(X), fitted.predict_proba(X))


@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
def test_validation_rows_members_and_weights(strategy):
    X, Y = rows(600)
    weight = np.random.default_rng(1).integers(0, 3, 600)
    settings = {"max_iter": 30, "multi_strategy": strategy, "n_iter_no_change": 5}
    held_out = AGBMClassifier(**settings).fit(X, Y, weight)
    assert len(held_out.model_.ensembles) == 5
    assert roc_auc_score(Y, held_out.predict_proba(X)) > 0.8
    given = AGBMClassifier(**settings, n_jobs=1).fit(X, Y, weight, X[:100], csr_array(Y[:100]))
    threads = AGBMClassifier(**settings, n_jobs=3).fit(X, Y, weight, X[:100], Y[:100])
    assert np.array_equal(given.predict_proba(X), threads.predict_proba(X))


def test_weights_repeat_rows():
    X, Y = rows()
    weight = np.random.default_rng(1).integers(0, 3, len(X))
    settings = PLAIN | {"min_samples_leaf": 5}
    weighted = AGBMClassifier(**settings).fit(X, Y, weight)
    repeated = AGBMClassifier(**settings).fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight, axis=0))
    assert np.array_equal(weighted.predict_proba(X), repeated.predict_proba(X))


def test_scoring():
    X, Y = rows(400)
    model = AGBMClassifier(max_iter=6, n_members=1, scoring=["roc_auc", "f1_micro", "accuracy"])
    model.fit(X, Y, X_val=X[:150], y_val=Y[:150], watch={"rest": (X[150:], Y[150:])})
    kept = model.at_iteration(model.best_iteration_)
    for name in ("roc_auc", "f1_micro", "accuracy"):
        history = model.history_[f"validation_{name}"]
        assert history[model.best_iteration_] == pytest.approx(get_scorer(name)(kept, X[:150], Y[:150]))
    assert np.isfinite(model.history_["rest_loss"]).all()


def test_in_scikit_learn():
    X, Y = rows()
    assert cross_val_score(AGBMClassifier(**PLAIN), X, Y, scoring="roc_auc", cv=2).min() > 0.7
    assert cross_val_predict(AGBMClassifier(**PLAIN), X, Y, method="predict_proba", cv=2).shape == Y.shape
    two = AGBMClassifier(**PLAIN).fit(X, Y[:, :2])
    assert get_scorer("roc_auc")(two, X, Y[:, :2]) == roc_auc_score(Y[:, :2], two.predict_proba(X))


def test_a_label_of_all_rows_or_none():
    X, Y = rows()
    Y[:, 0], Y[:, 1] = 0, 1
    model = AGBMClassifier(**PLAIN).fit(X, Y)
    assert np.array_equal(model.predict(X)[:, :2], Y[:, :2])
    assert np.isfinite(model.predict_proba(X)).all()


def test_an_init_model():
    X, Y = rows()
    X = np.nan_to_num(X)
    init = OneVsRestClassifier(LogisticRegression()).fit(X, Y)
    model = AGBMClassifier(**PLAIN, init=init).fit(X, Y)
    assert model.at_iteration(0).predict_proba(X) == pytest.approx(init.predict_proba(X), abs=1e-9)
    with pytest.raises(TypeError, match="decision_function"):
        AGBMClassifier(init=agbm.AGBMRegressor().fit(X, Y)).fit(X, Y)


def test_monotone_in_every_label():
    X, Y = rows()
    model = AGBMClassifier(**PLAIN, monotonic_cst=[1, 0, -1, 0]).fit(X, Y)
    grid = np.repeat(np.nan_to_num(X)[:20], 30, axis=0)
    for feature, sign in ((0, 1), (2, -1)):
        moved = grid.copy()
        moved[:, feature] = np.tile(np.linspace(-3.0, 3.0, 30), 20)
        steps = np.diff(model.predict_proba(moved).reshape(20, 30, 3), axis=1)
        assert (sign * steps).min() >= 0.0
        assert (sign * steps).max() > 0.0


@pytest.mark.parametrize(
    ("Y", "parameters", "message"),
    [
        (np.full((240, 3), 0.5), {}, r"shape \(240, 3\).*one class per row.*matrix of 0 and 1"),
        (rows()[1] * 2, {}, "matrix of 0 and 1"),
        (rows()[1].astype(str), {}, "matrix of 0 and 1"),
        (rows()[1], {"class_weight": "balanced"}, "class_weight='balanced' needs one class per row"),
        (rows()[1], {"class_weight": {0: 2.0}}, "class_weight={0: 2.0} needs one class per row"),
    ],
)
def test_errors(Y, parameters, message):
    with pytest.raises(ValueError, match=message):
        AGBMClassifier(**parameters).fit(rows()[0], Y)


def test_errors_of_validation_labels():
    X, Y = rows()
    with pytest.raises(ValueError, match="y_val has shape"):
        AGBMClassifier().fit(X, Y, X_val=X, y_val=Y[:, :2])
    with pytest.raises(ValueError, match=r"y_val must contain only 0 and 1 .* got \[2\]"):
        AGBMClassifier().fit(X, Y, X_val=X, y_val=Y * 2)
    with pytest.raises(ValueError, match="matrix of 0 and 1"):
        AGBMClassifier().fit(Batches(lambda: iter([(X[:120], Y[:120]), (X[120:], Y[120:] * 2)])))


def test_warm_start_and_checkpoint(tmp_path, fitted):
    X, Y = rows()
    model = AGBMClassifier(**PLAIN | {"max_iter": 4}, warm_start=True).fit(X, Y)
    assert np.array_equal(model.set_params(max_iter=8).fit(X, Y).predict_proba(X), fitted.predict_proba(X))
    with pytest.raises(ValueError, match="y has 2 labels"):
        model.fit(X, Y[:, :2])
    with pytest.raises(ValueError, match="same kind as in the previous fit"):
        model.fit(X, Y.argmax(axis=1))
    path = tmp_path / "run"
    calls = itertools.count()
    stop = lambda record: next(calls) == 3  # noqa: E731
    AGBMClassifier(**PLAIN, callbacks=[Checkpoint(path, every=1), stop]).fit(X, Y)
    resumed = AGBMClassifier(**PLAIN, callbacks=[Checkpoint(path, every=1)]).fit(X, Y)
    assert np.array_equal(resumed.predict_proba(X), fitted.predict_proba(X))


def test_model_files(tmp_path, fitted):
    X, Y = rows()
    path = tmp_path / "model.agbm"
    fitted.save(path)
    loaded = agbm.load(path)
    for method in ("predict", "predict_proba", "decision_function"):
        assert np.array_equal(getattr(loaded, method)(X), getattr(fitted, method)(X))
    assert loaded.classes_.tolist() == [0, 1, 2]
    assert loaded.set_params(warm_start=True, max_iter=9).fit(X, Y).best_iteration_ == 9


@pytest.mark.parametrize(
    ("entry", "rule"),
    [
        ({"n_labels": 2}, "start: must be 2 finite numbers"),
        ({"n_labels": 1}, "n_labels"),
        ({"n_labels": 2**40}, "n_labels"),
        ({"n_labels": 3.0}, "n_labels"),
        ({"n_labels": "3"}, "n_labels"),
        ({"n_labels": None}, "n_labels"),
        ({"loss": {"loss": "Multinomial", "made_of": {"n_classes": 3}}}, "does not match the labels"),
        ({"loss": {"loss": "Poisson", "made_of": {}}}, "does not match the labels"),
    ],
)
def test_changed_files(tmp_path, fitted, entry, rule):
    path = tmp_path / "model.agbm"
    fitted.save(path)
    rewrite(path, lambda description, arrays: description.update(entry))
    with pytest.raises(ModelFileError, match=rule):
        agbm.load(path)


def test_onnx(fitted):
    import onnxruntime

    X, _ = rows()
    proto = to_onnx(fitted, dtype=np.float64).SerializeToString()
    session = onnxruntime.InferenceSession(proto, providers=["CPUExecutionProvider"])
    labels, probabilities = session.run(["label", "probabilities"], {"X": encode(fitted, X)})
    assert np.array_equal(labels, fitted.predict(X))
    np.testing.assert_allclose(probabilities, fitted.predict_proba(X), atol=1e-12)


def test_treelite(fitted):
    import treelite

    X, _ = rows()
    found = treelite.gtil.predict(to_treelite(fitted), encode(fitted, X))
    np.testing.assert_allclose(found.reshape(len(X), 3), fitted.predict_proba(X), atol=1e-12)


def test_other_exports(fitted):
    with pytest.raises(ValueError, match="3 outputs: LightGBM does not apply a link to several outputs"):
        to_lightgbm(fitted)
    assert "adds to the score of output 0" in export_text(fitted, 0)


def test_charts(fitted):
    from agbm import plot

    X, Y = rows()
    assert "of label 1" in plot.contributions(fitted, X, target=1).get_xlabel()
    for chart in (plot.calibration, plot.threshold_costs):
        with pytest.raises(ValueError, match="several labels per row; this plot needs one class per row"):
            chart(fitted, X, Y)
    with pytest.raises(ValueError, match="several labels per row"):
        plot.partial_dependence(fitted, X, [0], target=1)


def test_commands(tmp_path, capsys):
    X, Y = rows()
    table = pd.DataFrame(X, columns=list("abcd"))
    model = AGBMClassifier(**PLAIN).fit(table, Y)
    model.save(tmp_path / "model.agbm")
    table.assign(y=Y[:, 0]).to_csv(tmp_path / "rows.csv", index=False)
    files = [str(tmp_path / "model.agbm"), str(tmp_path / "rows.csv")]
    for option, expected in (("--proba", model.predict_proba(table)), (None, model.predict(table))):
        out = str(tmp_path / "out.csv")
        assert main(["predict", *files, "--out", out, *([option] if option else [])]) == 0
        found = pd.read_csv(out)
        assert found.columns.tolist() == [f"{'probability' if option else 'prediction'}_{i}" for i in range(3)]
        np.testing.assert_allclose(found, expected)
    assert main(["inspect", files[0]]) == 0
    assert main(["explain", *files, "--rows", "1"]) == 0
    assert "score of 2" in capsys.readouterr().out
    assert main(["report", *files, "--target", "y", "--out", str(tmp_path / "report.html")]) != 0
    assert "several labels per row" in capsys.readouterr().err
    assert main(["report", files[0], "--out", str(tmp_path / "report.html")]) == 0
