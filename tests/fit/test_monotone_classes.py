"""Monotone probabilities of one class among many, of labels and of outputs."""

import numpy as np
import pandas as pd
import pytest

import agbm
from agbm import AGBMClassifier, AGBMRegressor, Batches
from agbm.methods import AGBM, GBM, Fading
from variants import METHODS

SMALL = {"max_iter": 12, "n_members": 1, "early_stopping": False, "min_samples_leaf": 3, "max_leaf_nodes": 6}
CLASSES = np.array(["middle", "poor", "rich"])


def people(n=400, seed=0, n_classes=3):
    """Labels whose noise violates the constraints."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"income": rng.normal(size=n), "age": rng.normal(size=n), "height": rng.normal(size=n)})
    scores = rng.normal(size=(n, n_classes)) + 0.8 * np.sin(3.0 * X.to_numpy()[:, :n_classes])
    return X, scores.argmax(axis=1)


def steps(predict, X, feature, n_rows=25, n_points=40):
    """Changes of predictions (row, point, output) along a feature, all others as in X."""
    table = pd.DataFrame(np.repeat(X.to_numpy()[:n_rows], n_points, axis=0), columns=X.columns)
    table[feature] = np.tile(np.linspace(-4.0, 4.0, n_points), n_rows)
    return np.diff(predict(table).reshape(n_rows, n_points, -1), axis=1)


VARIANTS = [
    *({"method": method} for method in METHODS),
    {"method": AGBM(shared_structure=True)},
    {"method": GBM(line_search=True)},
    {"n_members": 3, "early_stopping": True, "n_iter_no_change": 3},
    {"method": Fading(dropout=0.3)},
    {"subsample": 0.5, "colsample_bytree": 0.7},
    {"max_depth": 3, "max_leaf_nodes": None},
    {"method": Fading(second_order=False)},
]


@pytest.mark.parametrize("parameters", VARIANTS, ids=str)
def test_probabilities_are_monotone(parameters):
    X, codes = people()
    wanted = {"income": {"rich": 1}, "age": {"poor": -1}}
    model = AGBMClassifier(**SMALL | parameters, monotonic_cst=wanted).fit(X, CLASSES[codes])
    for feature, of_class in wanted.items():
        ((label, sign),) = of_class.items()
        change = sign * steps(model.predict_proba, X, feature)[..., CLASSES.tolist().index(label)]
        assert change.min() >= -1e-15
        assert change.max() > 0.0
    free = AGBMClassifier(**SMALL | parameters).fit(X, CLASSES[codes])
    assert steps(free.predict_proba, X, "income")[..., 2].min() < -1e-3  # otherwise the test would show nothing


def test_scores_move_in_opposite_directions():
    X, codes = people()
    model = AGBMClassifier(**SMALL, monotonic_cst={0: {1: 1}}).fit(X, codes)
    change = steps(model.decision_function, X, "income")
    assert change[..., 1].min() >= 0.0
    assert change[..., [0, 2]].max() <= 0.0
    assert change[..., [0, 2]].min() < 0.0


@pytest.mark.parametrize("seed", range(3))
def test_many_classes_and_features(seed):
    """Each feature constrains another class: each class has its own constraints."""
    rng = np.random.default_rng(seed)
    X, codes = people(500, seed, n_classes=3)
    y = np.where(rng.random(500) < 0.3, 3, codes)
    wanted = {"income": {0: 1}, "age": {3: -1}, "height": {2: 1}}
    model = AGBMClassifier(**SMALL, monotonic_cst=wanted).fit(X, y)
    for feature, of_class in wanted.items():
        ((label, sign),) = of_class.items()
        assert (sign * steps(model.predict_proba, X, feature)[..., label]).min() >= -1e-15


def test_two_classes():
    X, codes = people()
    y = np.where(codes == 2, "rich", "other")
    second = AGBMClassifier(**SMALL, monotonic_cst=[1, 0, 0]).fit(X, y).predict_proba(X)
    for wanted in ({"income": {"rich": 1}}, {"income": {"other": -1}}, {0: {"rich": 1, "other": 0}}):
        assert np.array_equal(AGBMClassifier(**SMALL, monotonic_cst=wanted).fit(X, y).predict_proba(X), second)


def test_labels_and_outputs():
    """They are independent: any of them may have a constraint."""
    X, codes = people()
    Y = np.eye(3, dtype=int)[codes]
    settings = SMALL | {"l2_regularization": 1.0, "colsample_bynode": 1.0}
    model = AGBMClassifier(**settings, monotonic_cst={"income": {0: 1, 2: -1}}).fit(X, Y)
    for label, sign in ((0, 1), (1, 0), (2, -1)):
        alone = AGBMClassifier(**settings, monotonic_cst=[sign, 0, 0]).fit(X, Y[:, label])
        assert np.array_equal(model.predict_proba(X)[:, label], alone.predict_proba(X)[:, 1])
    model = AGBMRegressor(**settings, monotonic_cst={"income": {1: -1}, "age": 1}).fit(X, Y)
    for output, sign in ((0, 0), (1, -1), (2, 0)):
        alone = AGBMRegressor(**settings, monotonic_cst=[sign, 1, 0]).fit(X, Y[:, output])
        assert np.array_equal(model.predict(X)[:, output], alone.predict(X))


def test_zero_means_unconstrained():
    X, codes = people()
    free = AGBMClassifier(**SMALL).fit(X, codes).predict_proba(X)
    assert np.array_equal(
        AGBMClassifier(**SMALL, monotonic_cst={"income": {1: 0}}).fit(X, codes).predict_proba(X), free
    )
    assert np.array_equal(AGBMClassifier(**SMALL, monotonic_cst={"income": {}}).fit(X, codes).predict_proba(X), free)


def test_batches_threads_files_and_warm_start(tmp_path):
    X, codes = people()
    settings = SMALL | {"monotonic_cst": {"income": {1: 1}}}
    expected = AGBMClassifier(**settings, n_jobs=1).fit(X, codes)
    batches = Batches(lambda: iter([(X[:170], codes[:170]), (X[170:], codes[170:])]))
    assert np.array_equal(AGBMClassifier(**settings, n_jobs=3).fit(batches).predict_proba(X), expected.predict_proba(X))
    AGBMClassifier(**settings | {"max_iter": 6}).fit(X, codes).save(tmp_path / "model.agbm")
    loaded = agbm.load(tmp_path / "model.agbm")
    assert loaded.monotonic_cst == {"income": {1: 1}}
    loaded.set_params(warm_start=True, max_iter=12).fit(X, codes)
    assert np.array_equal(loaded.predict_proba(X), expected.predict_proba(X))


@pytest.mark.parametrize(
    ("wanted", "parameters", "message"),
    [
        ({"income": {0: 1, 1: 1}}, {}, "one class only.*opposite directions, which two classes contradict"),
        ({"income": {7: 1}}, {}, r"\[7\] are not classes of y, which has \[0, 1, 2\]"),
        ({"income": {1: 2}}, {}, r"must be -1, 0 or 1; got \[2\]"),
        ({"income": {1: True}}, {}, r"must be -1, 0 or 1; got \[True\]"),
        ({"income": 1}, {}, r"supports only two classes; y has 3.*monotonic_cst={feature: {2: 1}}"),
        ({"incme": {1: 1}}, {}, "similar names: 'income'"),
        ({"income": {1: 1}}, {"multi_strategy": "multi_output_tree"}, "multi_strategy='one_output_per_tree'"),
        ({"income": {1: 1}}, {"categorical_features": ["income"]}, "categorical"),
    ],
)
def test_errors(wanted, parameters, message):
    X, codes = people()
    with pytest.raises(ValueError, match=message):
        AGBMClassifier(monotonic_cst=wanted, **parameters).fit(X.round(0), codes)


def test_errors_of_regressors():
    X, codes = people()
    with pytest.raises(ValueError, match="y has one output; use 1 or -1 instead"):
        AGBMRegressor(monotonic_cst={"income": {0: 1}}).fit(X, codes)
    with pytest.raises(ValueError, match=r"the outputs are 0 to 1; got \[2\]"):
        AGBMRegressor(monotonic_cst={"income": {2: 1}}).fit(X, np.eye(2)[codes % 2])
