"""Labels that are probabilities: loss="cross_entropy"."""

import numpy as np
import pandas as pd
import pytest

import agbm
from agbm import AGBMClassifier, AGBMRegressor, Batches, ModelFileError
from agbm._apps.cli import main
from agbm.export import encode, to_lightgbm, to_onnx, to_treelite
from agbm.losses import CrossEntropy, LogLoss, MultinomialCrossEntropy
from toys import rewrite

PLAIN = {"n_members": 1, "early_stopping": False, "max_leaf_nodes": 6, "max_iter": 8, "l2_regularization": 2.0}
SOFT = PLAIN | {"loss": "cross_entropy"}


def rows(n=260, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    scores = np.exp(2.0 * X @ rng.normal(size=(4, n_classes)) + rng.normal(scale=0.3, size=(n, n_classes)))
    return X, scores / scores.sum(axis=1, keepdims=True)


def entropy(shares, probabilities):
    return -(shares * np.log(probabilities)).sum(axis=-1).mean()


@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize(
    "parameters", [{}, {"method": "agbm"}, {"multi_strategy": "multi_output_tree"}, {"early_stopping": True}]
)
def test_one_hot_labels_equal_classes(n_classes, parameters):
    X, shares = rows(n_classes=n_classes)
    codes = shares.argmax(axis=1)
    hard = AGBMClassifier(**PLAIN | parameters).fit(X, codes)
    soft = AGBMClassifier(**SOFT | parameters).fit(X, np.eye(n_classes)[codes])
    assert np.array_equal(soft.predict_proba(X), hard.predict_proba(X))
    assert np.array_equal(soft.predict(X), hard.predict(X))
    assert soft.classes_.tolist() == list(range(n_classes))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_shares_equal_repeated_rows(n_classes):
    """A row with shares 1/4 and 3/4 of two classes is four rows, each with one class."""
    X, shares = rows(n_classes=n_classes)
    counts = np.random.default_rng(1).multinomial(4, shares)
    settings = {"min_samples_leaf": 1, "l2_regularization": 0.0, "max_depth": 3, "max_leaf_nodes": None}
    settings |= {"method": "gbm", "max_iter": 5}
    soft = AGBMClassifier(**SOFT | settings).fit(X, counts / 4)
    every = np.concatenate([np.full((len(X), 1), k) for k in range(n_classes)])[:, 0]
    hard = AGBMClassifier(**PLAIN | settings).fit(np.tile(X, (n_classes, 1)), every, counts.T.ravel())
    np.testing.assert_allclose(soft.predict_proba(X), hard.predict_proba(X), rtol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_it_learns_probabilities(n_classes):
    X, shares = rows(1500, n_classes)
    model = AGBMClassifier(loss="cross_entropy").fit(X[:1000], shares[:1000])
    guess = shares[:1000].mean(axis=0)
    found = model.predict_proba(X[1000:])
    least = entropy(shares[1000:], shares[1000:])
    assert entropy(shares[1000:], found) - least < 0.2 * (entropy(shares[1000:], guess) - least)
    assert found.sum(axis=1) == pytest.approx(1.0)
    hard = AGBMClassifier().fit(X[:1000], shares[:1000].argmax(axis=1))
    assert entropy(shares[1000:], found) < entropy(shares[1000:], hard.predict_proba(X[1000:]))
    loss = model.history_["train_loss"][-1]
    assert np.isfinite(loss)


def test_the_recorded_loss_is_the_entropy():
    X, shares = rows()
    model = AGBMClassifier(**SOFT).fit(X, shares, X_val=X[:50], y_val=shares[:50], watch={"w": (X[50:], shares[50:])})
    assert model.history_["train_loss"][-1] == pytest.approx(entropy(shares, model.predict_proba(X)))
    assert model.history_["validation_loss"][-1] == pytest.approx(entropy(shares[:50], model.predict_proba(X[:50])))
    assert model.history_["w_loss"][-1] == pytest.approx(entropy(shares[50:], model.predict_proba(X[50:])))


def test_two_classes_by_the_second():
    X, shares = rows(n_classes=2)
    both = AGBMClassifier(**SOFT).fit(X, shares, X_val=X, y_val=shares[:, 1])
    for y in (shares[:, 1], shares[:, 1].tolist(), pd.Series(shares[:, 1])):
        one = AGBMClassifier(**SOFT).fit(X, y, X_val=X, y_val=shares)
        np.testing.assert_allclose(one.predict_proba(X), both.predict_proba(X), rtol=1e-12)
    regressor = AGBMRegressor(**SOFT).fit(X, shares[:, 1])
    np.testing.assert_array_equal(regressor.predict(X), one.predict_proba(X)[:, 1])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_batches_threads_and_weights(n_classes):
    X, shares = rows(n_classes=n_classes)
    weight = np.random.default_rng(1).integers(0, 3, len(X))
    expected = AGBMClassifier(**SOFT, n_jobs=1, min_samples_leaf=5).fit(X, shares, weight).predict_proba(X)
    same = AGBMClassifier(**SOFT, n_jobs=3, min_samples_leaf=5)
    batches = Batches(lambda: ((X[i : i + 90], shares[i : i + 90]) for i in range(0, len(X), 90)))
    assert np.array_equal(same.fit(batches, sample_weight=weight).predict_proba(X), expected)
    assert np.array_equal(same.fit(X, pd.DataFrame(np.asfortranarray(shares)), weight).predict_proba(X), expected)
    repeated = same.fit(np.repeat(X, weight, axis=0), np.repeat(shares, weight, axis=0))
    assert np.array_equal(repeated.predict_proba(X), expected)


def test_rounded_shares_are_normalised():
    X, shares = rows()
    exact = AGBMClassifier(**SOFT).fit(X, shares).predict_proba(X)
    np.testing.assert_allclose(AGBMClassifier(**SOFT).fit(X, shares.round(4)).predict_proba(X), exact, atol=0.05)
    np.testing.assert_allclose(
        AGBMClassifier(**SOFT).fit(X, shares.astype(np.float32)).predict_proba(X), exact, atol=0.02
    )


def test_members_and_scoring():
    X, shares = rows(500)

    def scorer(model, X, y):
        return -entropy(y, model.predict_proba(X))

    model = AGBMClassifier(loss="cross_entropy", max_iter=15, scoring=scorer).fit(X, shares)
    assert len(model.model_.ensembles) == 5
    found = model.history_["validation_scorer"]
    np.testing.assert_allclose(found, -model.history_["validation_loss"], rtol=1e-9)


def test_monotone_shares():
    X, shares = rows()
    model = AGBMClassifier(**SOFT, monotonic_cst={0: {1: 1}}).fit(X, shares)
    grid = np.repeat(X[:20], 30, axis=0)
    grid[:, 0] = np.tile(np.linspace(-3.0, 3.0, 30), 20)
    assert np.diff(model.predict_proba(grid)[:, 1].reshape(20, 30), axis=1).min() >= -1e-15


@pytest.mark.parametrize("n_outputs", [None, 3])
def test_regressor(n_outputs):
    X, shares = rows(n_classes=4)
    y = shares[:, 0] if n_outputs is None else shares[:, :n_outputs]
    model = AGBMRegressor(**SOFT, colsample_bynode=1.0).fit(X, y)
    found = model.predict(X)
    assert found.shape == y.shape
    assert 0.0 < found.min() < found.max() < 1.0
    expected = -(y * np.log(found) + (1 - y) * np.log(1 - found))
    assert model.history_["train_loss"][-1] == pytest.approx(expected.reshape(len(X), -1).sum(axis=1).mean())
    if n_outputs is not None:
        alone = AGBMRegressor(**SOFT, colsample_bynode=1.0).fit(X, y[:, 1])
        assert np.array_equal(found[:, 1], alone.predict(X))
    else:
        same = AGBMRegressor(**SOFT | {"loss": LogLoss()}, colsample_bynode=1.0).fit(X, y)
        assert np.array_equal(same.predict(X), found)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_model_files_and_warm_start(n_classes, tmp_path):
    X, shares = rows(n_classes=n_classes)
    path = tmp_path / "model.agbm"
    expected = AGBMClassifier(**SOFT).fit(X, shares)
    AGBMClassifier(**SOFT | {"max_iter": 4}).fit(X, shares).save(path)
    loaded = agbm.load(path).set_params(warm_start=True, max_iter=8).fit(X, shares)
    assert np.array_equal(loaded.predict_proba(X), expected.predict_proba(X))
    with pytest.raises(ValueError, match="y has probabilities of 5 classes"):
        loaded.fit(X, rows(n_classes=5)[1])
    rewrite(path, lambda description, arrays: description.update(class_type="float64"))
    with pytest.raises(ModelFileError, match="classes"):
        agbm.load(path)


@pytest.mark.parametrize(
    ("kind", "name", "n_classes"),
    [(AGBMClassifier, "CrossEntropy", 3), (AGBMClassifier, "MultinomialCrossEntropy", 2),
     (AGBMRegressor, "MultinomialCrossEntropy", 2), (AGBMRegressor, "LogLoss", 2)],
)  # fmt: skip
def test_files_with_the_wrong_loss(kind, name, n_classes, tmp_path):
    X, shares = rows(n_classes=n_classes)
    path = tmp_path / "model.agbm"
    kind(**SOFT).fit(X, shares if kind is AGBMClassifier else shares[:, 0]).save(path)
    made_of = {"n_classes": 2} if name.startswith("Multinomial") else {}
    rewrite(path, lambda description, arrays: description.update(loss={"loss": name, "made_of": made_of}))
    with pytest.raises(ModelFileError, match="does not match the labels"):
        agbm.load(path)


def test_files_with_other_classes(tmp_path):
    """Of a model of classes, whose loss is changed."""
    X, shares = rows()
    path = tmp_path / "model.agbm"
    AGBMClassifier(**PLAIN).fit(X, np.array(["a", "b", "c"])[shares.argmax(axis=1)]).save(path)
    loss = {"loss": "MultinomialCrossEntropy", "made_of": {"n_classes": 3}}
    rewrite(path, lambda description, arrays: description.update(loss=loss))
    with pytest.raises(ModelFileError, match="must be 0, 1, 2"):
        agbm.load(path)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_exports(n_classes):
    import lightgbm
    import onnxruntime
    import treelite

    X, shares = rows(n_classes=n_classes)
    for model in (AGBMClassifier(**SOFT).fit(X, shares), AGBMRegressor(**SOFT).fit(X, shares[:, 1])):
        classifies = isinstance(model, AGBMClassifier)
        expected = model.predict_proba(X) if classifies else model.predict(X)
        proto = to_onnx(model, dtype=np.float64).SerializeToString()
        session = onnxruntime.InferenceSession(proto, providers=["CPUExecutionProvider"])
        (found,) = session.run(["probabilities" if classifies else "prediction"], {"X": encode(model, X)})
        np.testing.assert_allclose(found, expected, atol=1e-12)
        second = expected[:, 1] if classifies and n_classes == 2 else expected
        found = treelite.gtil.predict(to_treelite(model), encode(model, X))
        rtol = 1e-7 if n_classes == 2 else 1e-6  # treelite adds the exponentials of classes up in single precision
        np.testing.assert_allclose(np.squeeze(found), second, rtol=rtol, atol=1e-12)
        found = lightgbm.Booster(model_str=to_lightgbm(model)).predict(encode(model, X))
        np.testing.assert_allclose(found, second, atol=1e-12)


@pytest.mark.parametrize(
    ("change", "parameters", "message"),
    [
        (lambda y: y * 2, {}, "between 0 and 1 with loss='cross_entropy'; got values from"),
        (lambda y: y - 0.5, {}, "between 0 and 1 with loss='cross_entropy'"),
        (lambda y: y / 2, {}, r"must add up to 1 .* row 0 add up to 0\.5.*AGBMRegressor"),
        (
            lambda y: np.where(y > 0.5, "a", "b"),
            {},
            "y has text, such as 'b' .* probabilities; for classes, use loss='log_loss'",
        ),
        (lambda y: y.argmax(axis=1), {}, "got values from 0.0 to 2.0"),
        (lambda y: y, {"class_weight": "balanced"}, "class_weight='balanced' needs one class per row; y has prob"),
        (lambda y: y, {"loss": CrossEntropy()}, r"loss=CrossEntropy\(\) does not match y, which has prob"),
        (lambda y: y, {"loss": MultinomialCrossEntropy(4)}, "does not match y"),
        (lambda y: y, {"loss": "log_loss"}, "use loss='cross_entropy'"),
        (lambda y: y[:, 0], {"loss": "log_loss"}, "Unknown label type"),
    ],
)
def test_errors(change, parameters, message):
    X, shares = rows()
    with pytest.raises(ValueError, match=message):
        AGBMClassifier(**{"loss": "cross_entropy"} | parameters).fit(X, change(shares))


def test_errors_of_validation_labels_and_regressors():
    X, shares = rows()
    for y_val, message in ((shares[:, :2], "y_val has shape"), (shares / 2, "y_val: the probabilities")):
        with pytest.raises(ValueError, match=message):
            AGBMClassifier(loss="cross_entropy").fit(X, shares, X_val=X, y_val=y_val)
    with pytest.raises(ValueError, match="probabilities between 0 and 1 for loss CrossEntropy"):
        AGBMRegressor(loss="cross_entropy").fit(X, X[:, 0])


def test_object_labels_are_class_names():
    X, shares = rows()
    named = AGBMClassifier(**SOFT).fit(X, shares).predict_proba(X)
    made = AGBMClassifier(**SOFT | {"loss": MultinomialCrossEntropy(3)}).fit(X, shares).predict_proba(X)
    assert np.array_equal(named, made)


def test_names_of_other_libraries():
    for library, objective in (
        ("lightgbm", "cross_entropy"),
        ("xgboost", "reg:logistic"),
        ("catboost", "CrossEntropy"),
    ):
        name = "loss_function" if library == "catboost" else "objective"
        model = agbm.from_params(library, {name: objective})
        assert isinstance(model, AGBMRegressor)
        assert model.loss == "cross_entropy"


def test_commands(tmp_path):
    X, shares = rows()
    table = pd.DataFrame(X, columns=list("abcd")).assign(share=shares[:, 0])
    table.to_csv(tmp_path / "rows.csv", index=False)
    files = [str(tmp_path / "rows.csv"), "--target", "share", "--out", str(tmp_path / "model.agbm"), "--quiet"]
    assert main(["train", *files, "--set", "loss=cross_entropy", "max_iter=5"]) == 0
    found = agbm.load(tmp_path / "model.agbm").predict(table[list("abcd")])
    assert 0.0 < found.min() < found.max() < 1.0
