"""AGBMRanker: queries in every form, the same bits, bad input, files, exports and scikit-learn's conventions."""

from __future__ import annotations

import pickle
import warnings

import lightgbm
import numpy as np
import onnxruntime
import pandas as pd
import polars as pl
import pytest
import sklearn
import treelite
from sklearn.base import clone
from sklearn.metrics import ndcg_score
from sklearn.model_selection import GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import agbm
from agbm import AGBMRanker, AGBMRegressor, Batches
from agbm.losses import HalfSquaredError, LambdaRank

FAST = {"max_iter": 12, "max_leaf_nodes": 8, "n_members": 2}


def documents(n_queries=60, seed=0):
    """Features, relevances and queries: two features say something, and queries differ in size."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 20, n_queries)
    qid = np.repeat(np.arange(n_queries), sizes)
    X = rng.normal(size=(len(qid), 4))
    level = X[:, 0] + 0.5 * X[:, 1] ** 2 + rng.normal(size=n_queries)[qid] + 0.3 * rng.normal(size=len(qid))
    return X, np.clip(np.round(level), 0, 4), qid, sizes


X, Y, QID, SIZES = documents()


def test_it_ranks_better_than_chance():
    train = QID < 45
    model = AGBMRanker(max_iter=50).fit(X[train], Y[train], qid=QID[train])
    assert model.score(X[~train], Y[~train], qid=QID[~train]) > 0.85
    reversed_order = AGBMRanker(max_iter=50).fit(-X[train], Y[train], qid=QID[train])
    assert reversed_order.score(X[~train], Y[~train], qid=QID[~train]) < 0.85


@pytest.mark.parametrize("loss", ["auto", "ndcg", "ndcg:3", "map", "mrr", "listwise", "pairwise"])
def test_every_loss_learns(loss):
    model = AGBMRanker(loss=loss, early_stopping=False, **FAST).fit(X, Y, qid=QID)
    assert model.history_["train_loss"][-1] < 0.9 * model.history_["train_loss"][0]
    assert model.score(X, Y, qid=QID) > 0.85


@pytest.mark.parametrize("method", ["gbm", "agbm", "agbmr", "vagbm"])
def test_every_method_learns(method):
    model = AGBMRanker(method=method, loss="listwise", early_stopping=False, max_iter=20).fit(X, Y, qid=QID)
    assert model.history_["train_loss"][-1] < model.history_["train_loss"][0]


def test_score_is_ndcg_at_ten():
    model = AGBMRanker(**FAST).fit(X, Y, qid=QID)
    scores = model.predict(X)
    of_queries = [
        ndcg_score([2.0 ** Y[q == QID] - 1.0], [scores[q == QID]], k=10)
        for q in range(len(SIZES)) if SIZES[q] > 1 and Y[q == QID].any()
    ]  # fmt: skip
    of_queries += [1.0 for q in range(len(SIZES)) if SIZES[q] == 1 and Y[q == QID].any()]
    assert model.score(X, Y, qid=QID) == pytest.approx(np.mean(of_queries))
    assert model.score(X, Y, group=SIZES) == model.score(X, Y, qid=QID)


@pytest.mark.parametrize("loss", ["auto", "listwise", "pairwise"])
def test_same_bits_for_every_form_of_qid_and_row_order(loss):
    model = AGBMRanker(loss=loss, **FAST).fit(X, Y, qid=QID)
    expected = model.predict(X)
    order = np.random.default_rng(1).permutation(len(X))
    names = np.array([f"query {q:03}" for q in QID])
    for arguments, rows in (
        ({"group": SIZES}, slice(None)), ({"qid": names}, slice(None)), ({"qid": QID[order]}, order),
        ({"qid": names[order].astype(object)}, order),
    ):  # fmt: skip
        other = AGBMRanker(loss=loss, n_jobs=1, **FAST).fit(X[rows], Y[rows], **arguments)
        assert np.array_equal(other.predict(X), expected)
    as_columns = AGBMRanker(loss=loss, **FAST).fit(X, np.column_stack([Y, QID * 1.5]))
    assert np.array_equal(as_columns.predict(X), expected)


def test_held_out_queries_are_whole():
    seen = []

    def whole(estimator, X, y):
        seen.append(y)
        return float(len(y))

    AGBMRanker(scoring=whole, early_stopping=True, **FAST).fit(X, Y, qid=QID)
    for y in seen:
        for query in np.unique(y[:, 1]):
            assert np.count_nonzero(y[:, 1] == query) == SIZES[int(query)]


def test_early_stopping_counts_queries():
    few = QID < 15
    assert not AGBMRanker(**FAST).fit(X[few], Y[few], qid=QID[few]).resolved_params_["early_stopping"]
    assert AGBMRanker(**FAST).fit(X, Y, qid=QID).resolved_params_["early_stopping"]
    alone = AGBMRanker(**{**FAST, "n_members": 1}).fit(X, Y, qid=QID)
    assert not alone.resolved_params_["early_stopping"]


def test_metrics_by_name():
    watch = {"again": (X, np.column_stack([Y, QID]))}
    model = AGBMRanker(scoring=["ndcg@5", "map", "mrr@3"], **FAST).fit(X, Y, qid=QID, watch=watch)
    best = model.best_iteration_
    again = [ndcg_score([2.0 ** Y[q == QID] - 1], [model.predict(X[q == QID])], k=5)
             for q in range(len(SIZES)) if SIZES[q] > 1 and Y[q == QID].any()]  # fmt: skip
    again += [1.0 for q in range(len(SIZES)) if SIZES[q] == 1 and Y[q == QID].any()]
    assert model.history_["again_ndcg@5"][best] == pytest.approx(np.mean(again))
    assert {"validation_ndcg@5", "validation_map", "validation_mrr@3", "again_loss"} <= set(model.history_)
    with pytest.raises(ValueError, match="'ndcg@5'"):
        AGBMRanker(scoring="roc_auc", **FAST).fit(X, Y, qid=QID)


def test_validation_queries_may_be_given_in_every_form():
    train = QID < 45
    rest = {"X_val": X[~train], "y_val": Y[~train]}
    models = [
        AGBMRanker(**FAST).fit(X[train], Y[train], qid=QID[train], **rest, qid_val=QID[~train]),
        AGBMRanker(**FAST).fit(X[train], Y[train], group=SIZES[:45], **rest, group_val=SIZES[45:]),
    ]
    assert np.array_equal(models[0].predict(X), models[1].predict(X))
    np.testing.assert_array_equal(models[0].history_["validation_loss"], models[1].history_["validation_loss"])


def test_weights_are_those_of_queries():
    weight = 1 + np.arange(len(SIZES)) % 3
    of_rows = AGBMRanker(early_stopping=False, **FAST).fit(X, Y, weight[QID], qid=QID)
    of_queries = AGBMRanker(early_stopping=False, **FAST).fit(X, Y, weight, group=SIZES)
    repeated = np.concatenate([np.flatnonzero(weight[QID] > k) for k in range(3)])
    copies = np.concatenate([QID[weight[QID] > k] + 1_000 * k for k in range(3)])
    as_rows = AGBMRanker(early_stopping=False, **FAST).fit(X[repeated], Y[repeated], qid=copies)
    assert np.array_equal(of_rows.predict(X), of_queries.predict(X))
    assert of_rows.history_["train_loss"][0] == as_rows.history_["train_loss"][0]
    np.testing.assert_allclose(of_rows.predict(X), as_rows.predict(X), atol=1e-9)
    zero = np.where(np.arange(len(SIZES)) < 20, 0.0, 1.0)[QID]
    without = AGBMRanker(**FAST).fit(X[QID >= 20], Y[QID >= 20], qid=QID[QID >= 20])
    assert np.array_equal(AGBMRanker(**FAST).fit(X, Y, zero, qid=QID).predict(X), without.predict(X))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "Neither group nor qid"),
        ({"qid": QID, "group": SIZES}, "both given"),
        ({"group": SIZES[:-1]}, "add up to"),
        ({"group": -SIZES}, "positive integers"),
        ({"group": SIZES + 0.5}, "positive integers"),
        ({"qid": QID[:-1]}, "one query per row"),
        ({"qid": np.where(QID == 3, np.nan, QID)}, "missing values"),
        ({"qid": np.array([1, "a"] * len(X), dtype=object)[: len(X)]}, "several types"),
        ({"y": -Y, "qid": QID}, "at least 0"),
        ({"y": np.where(QID == 3, np.nan, Y), "qid": QID}, "NaN"),
        ({"y": ["good"] * len(X), "qid": QID}, "y has text, such as 'good' in row 0"),
        ({"y": Y[:, np.newaxis] + [[0, 0]], "qid": QID}, "vector of numbers"),
        ({"y": np.ones(len(X)), "qid": QID}, "nothing to learn"),
        ({"y": QID * 1.0, "qid": QID}, "nothing to learn"),
        ({"qid": QID, "sample_weight": np.arange(len(X)) + 1.0}, "same weight"),
        ({"qid": QID, "position": np.full(len(X), -1)}, "at least 0"),
        ({"qid": QID, "position": [1, 2]}, "one position per row"),
        ({"qid": "query"}, "names of columns"),
        ({"position": np.ones(len(X))}, "needs group or qid"),
        ({"qid": QID, "X_val": X, "y_val": Y}, "Neither group_val nor qid_val"),
        ({"qid": QID, "X_val": X, "y_val": Y, "qid_val": QID, "position_val": QID}, "training rows have none"),
        ({"qid": QID, "X_val": X, "y_val": 0 * Y, "qid_val": QID}, "a relevant document"),
        (
            {"qid": QID, "X_val": X, "y_val": Y, "qid_val": QID, "sample_weight_val": np.arange(len(X)) + 1.0},
            "sample_weight_val: .*same weight",
        ),
        ({"qid": QID, "watch": {"w": (X, np.column_stack([Y, QID]), np.arange(len(X)) + 1.0)}}, "watch.*same weight"),
        ({"qid": QID, "qids": QID}, "qids"),
    ],
)  # fmt: skip
def test_bad_input(arguments, message):
    arguments = {"y": Y, **arguments}
    with pytest.raises((ValueError, TypeError), match=message):
        AGBMRanker(**FAST).fit(X, **arguments)


def test_bad_losses():
    for loss in (HalfSquaredError(), "squared_error"):
        with pytest.raises(ValueError, match="loss="):
            AGBMRanker(loss=loss, **FAST).fit(X, Y, qid=QID)
    with pytest.raises(ValueError, match="loss="):
        AGBMRegressor(loss="ndcg").fit(X, Y)


def test_scores_cannot_be_calibrated():
    assert not hasattr(AGBMRanker, "calibrate")


def test_offsets_start_the_ranking():
    offset = 2.0 * X[:, 0]
    model = AGBMRanker(early_stopping=False, **FAST).fit(X, Y, qid=QID, offset=offset)
    assert model.history_["train_loss"][0] < AGBMRanker(**FAST).fit(X, Y, qid=QID).history_["train_loss"][0]
    np.testing.assert_allclose(model.predict(X, offset), model.predict(X) + offset)


def test_batches_give_the_same_bits():
    expected = AGBMRanker(**FAST).fit(X, Y, qid=QID).predict(X)
    parts = np.array_split(np.arange(len(X)), 4)  # these divide queries
    alone = Batches(lambda: (X[rows] for rows in parts))
    together = Batches(lambda: ((X[rows], np.column_stack([Y, QID])[rows]) for rows in parts))
    assert np.array_equal(AGBMRanker(**FAST).fit(alone, Y, qid=QID).predict(X), expected)
    assert np.array_equal(AGBMRanker(**FAST).fit(together).predict(X), expected)


BIG = 1_700_000_000_000_000_000  # neighbours are one number as float64


def large_queries(form, relevance, number):
    """Labels with a column of queries that float64 cannot tell apart, in one of several forms."""
    if form == "int64":
        return np.column_stack([relevance.astype(np.int64), number + np.iinfo(np.int64).min])
    if form == "uint64":
        return np.column_stack([relevance.astype(np.uint64), number.astype(np.uint64) + np.uint64(2**64 - 1000)])
    if form == "frame":
        return pd.DataFrame({"relevance": relevance.astype(float), "query": BIG + number})
    if form == "polars":
        return pl.DataFrame({"relevance": relevance.astype(float), "query": BIG + number})
    if form == "list":
        return [[float(r), BIG + int(n)] for r, n in zip(relevance, number, strict=True)]
    return np.column_stack([relevance, [f"q{n:04}" for n in number]]).astype(object)  # text


@pytest.mark.parametrize("form", ["int64", "uint64", "frame", "polars", "list", "text"])
def test_qid_beyond_float_precision(form):
    rng = np.random.default_rng(0)
    X, number = rng.normal(size=(240, 3)), np.repeat(rng.permutation(40), 6)
    relevance = np.clip(np.round(X[:, 0] + X[:, 1]), 0, 3)
    settings = {"max_iter": 4, "n_members": 2, "scoring": "ndcg@3"}
    y = large_queries(form, relevance, number)
    first, second = y[:120], y[120:]
    expected = AGBMRanker(**settings).fit(X, relevance, qid=number)
    model = AGBMRanker(**settings).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    assert model.fingerprint_ == expected.fingerprint_
    assert model.score(X, y) == expected.score(X, relevance, qid=number)
    batches = agbm.Batches(lambda: [(X[:120], first), (X[120:], second)])
    np.testing.assert_array_equal(AGBMRanker(**settings).fit(batches).predict(X), expected.predict(X))
    known = {"X_val": X[120:], "watch": {"same": (X, y)}}
    model = AGBMRanker(**settings).fit(X[:120], first, y_val=second, **known)
    expected = AGBMRanker(**settings).fit(
        X[:120], relevance[:120], qid=number[:120], y_val=relevance[120:], qid_val=number[120:],
        X_val=X[120:], watch={"same": (X, np.column_stack([relevance, number]))},
    )  # fmt: skip
    for name in ("train_loss", "validation_loss", "validation_ndcg@3", "same_loss", "same_ndcg@3"):
        np.testing.assert_array_equal(model.history_[name], expected.history_[name])
    model.update(X[120:], second, mode="leaves")
    expected.update(X[120:], relevance[120:], qid=number[120:], mode="leaves")
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    folds, others = (agbm.cv(AGBMRanker(**settings), X, of, cv=3) for of in (y, np.column_stack([relevance, number])))
    np.testing.assert_array_equal(folds.predictions, others.predictions)


def test_missing_and_mixed_queries():
    X = np.zeros((4, 1))
    with pytest.raises(ValueError, match="y has missing queries in its second column"):
        AGBMRanker().fit(X, np.array([[0, "a"], [1, None], [0, "b"], [1, "b"]], dtype=object))
    with pytest.raises(TypeError, match="y has queries of several types"):
        AGBMRanker().fit(X, np.array([[0, "a"], [1, "a"], [0, 3], [1, 3]], dtype=object))


def test_warm_start_and_checkpoints_resume(tmp_path):
    whole = AGBMRanker(early_stopping=False, **FAST).fit(X, Y, qid=QID)
    part = AGBMRanker(early_stopping=False, **{**FAST, "max_iter": 5}, warm_start=True).fit(X, Y, qid=QID)
    part.set_params(max_iter=12).fit(X, Y, qid=QID)
    assert np.array_equal(part.predict(X), whole.predict(X))
    checkpoint = [agbm.Checkpoint(tmp_path / "run", every=2)]
    AGBMRanker(early_stopping=False, **{**FAST, "max_iter": 5}, callbacks=checkpoint).fit(X, Y, qid=QID)
    resumed = AGBMRanker(early_stopping=False, **FAST, callbacks=checkpoint).fit(X, Y, qid=QID)
    assert np.array_equal(resumed.predict(X), whole.predict(X))


@pytest.mark.parametrize("mode", ["trees", "leaves", "weights", "all"])
def test_update(mode):
    model = AGBMRanker(**FAST).fit(X, Y, qid=QID)
    before = model.predict(X)
    other_X, other_Y, other_qid, _ = documents(seed=2)
    model.update(other_X, other_Y, qid=other_qid, mode=mode)
    assert not np.array_equal(model.predict(X), before)
    assert model.score(other_X, other_Y, qid=other_qid) > 0.8


def test_files_and_pickles_are_exact(tmp_path):
    for arguments in ({}, {"position": np.arange(len(X)) % 5}):
        model = AGBMRanker(loss=LambdaRank("ndcg", 5, "linear"), **FAST).fit(X, Y, qid=QID, **arguments)
        model.save(tmp_path / "ranker.agbm")
        loaded = agbm.load(tmp_path / "ranker.agbm")
        for other in (loaded, pickle.loads(pickle.dumps(model))):
            assert type(other) is AGBMRanker
            assert np.array_equal(other.predict(X), model.predict(X))
            assert repr(other.model_.loss) == repr(model.model_.loss)
            assert other.model_.labels.has_positions == bool(arguments)
            assert other.score(X, Y, qid=QID) == model.score(X, Y, qid=QID)


def test_common_methods_of_estimators():
    model = AGBMRanker(**FAST).fit(X, Y, qid=QID)
    *_, last = model.staged_predict(X)
    np.testing.assert_allclose(last, model.predict(X))
    assert np.array_equal(model.predictor()(X), model.predict(X))
    contributions = model.predict_contributions(X)
    assert contributions.shape == (len(X), X.shape[1] + 1)
    np.testing.assert_allclose(contributions.sum(axis=1), model.predict(X))
    assert model.feature_importances_.argmax() == 0
    assert model.apply(X).shape == (len(X), model.n_trees_)
    rising = AGBMRanker(monotonic_cst={0: 1}, **FAST).fit(X, Y, qid=QID)
    grid = np.column_stack([np.linspace(-2, 2, 50), np.zeros((50, 3))])
    assert (np.diff(rising.predict(grid)) >= 0.0).all()


def test_exports():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own, about what other libraries will no longer have
        import shap
    model = AGBMRanker(**FAST).fit(X, Y, qid=QID)
    found = treelite.gtil.predict(agbm.export.to_treelite(model), X, nthread=1)
    np.testing.assert_allclose(np.ravel(found), model.predict(X), rtol=1e-12, atol=1e-12)
    values = shap.TreeExplainer(agbm.export.to_shap(model)).shap_values(X)
    np.testing.assert_allclose(values, model.predict_contributions(X)[:, :-1], rtol=1e-6, atol=1e-7)
    assert model.explain(X).values.shape == X.shape
    booster = lightgbm.Booster(model_str=agbm.export.to_lightgbm(model))
    np.testing.assert_allclose(booster.predict(X), model.predict(X), rtol=1e-12, atol=1e-12)
    session = onnxruntime.InferenceSession(agbm.export.to_onnx(model).SerializeToString())
    rows = X.astype(np.float32)
    (scores,) = session.run(None, {session.get_inputs()[0].name: rows})
    np.testing.assert_allclose(np.ravel(scores), model.predict(rows), rtol=1e-4, atol=1e-5)


def test_cross_validation_keeps_queries_whole():
    y = np.column_stack([Y, QID])
    result = agbm.cv(AGBMRanker(**FAST), X, y, cv=3, scoring="ndcg@10")
    assert (result.scores["validation_ndcg@10"] > 0.7).all()
    with pytest.raises(ValueError, match="divided"):
        agbm.cv(AGBMRanker(**FAST), X, y, cv=[(np.arange(50), np.arange(50, 100))])


def test_metadata_is_routed():
    with sklearn.config_context(enable_metadata_routing=True):
        ranker = AGBMRanker(**FAST).set_fit_request(qid=True, groups=True).set_score_request(qid=True)
        found = cross_validate(ranker, X, Y, cv=GroupKFold(3), params={"qid": QID, "groups": QID}, error_score="raise")
        assert (found["test_score"] > 0.7).all()
        model = make_pipeline(StandardScaler(), ranker).fit(X, Y, qid=QID)
        assert model.score(X, Y, qid=QID) > 0.8


class OneQuery(AGBMRanker):
    """A ranker that treats any numbers as the relevances of one query."""

    def fit(self, X, y=None):
        return super().fit(X, self._relevances(y), qid=np.zeros(0 if y is None else len(y)))

    def score(self, X, y):
        return super().score(X, self._relevances(y), qid=np.zeros(len(y)))

    def _relevances(self, y):
        numbers = np.asarray(y)
        return y if numbers.dtype.kind not in "iuf" or np.isnan(numbers).any() else numbers - numbers.min()


@parametrize_with_checks([OneQuery(max_iter=10)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_clones_and_tags():
    model = AGBMRanker(loss="listwise", **FAST)
    assert clone(model).get_params()["loss"] == "listwise"
    assert not sklearn.base.is_classifier(model)
    assert model.__sklearn_tags__().target_tags.required


def clicks(n_queries=600, seed=0):
    """Clicks on documents that an earlier ranking showed in the order of a poor feature; few look at low positions."""
    rng = np.random.default_rng(seed)
    n = 10
    qid = np.repeat(np.arange(n_queries), n)
    features = rng.normal(size=(len(qid), 3))
    relevance = (features[:, 0] + 0.3 * rng.normal(size=len(qid)) > 0.8).astype(float)
    shown = np.concatenate([np.argsort(np.argsort(-features[qid == q, 1])) for q in range(n_queries)])
    seen = rng.random(len(qid)) < 1.0 / (1.0 + shown)
    clicked = (seen & (rng.random(len(qid)) < 0.1 + 0.8 * relevance)).astype(float)
    return features, relevance, clicked, qid, shown


def test_positions_make_clicks_into_relevances():
    features, _, clicked, qid, shown = clicks()
    settings = {"max_iter": 30, "max_leaf_nodes": 8, "early_stopping": False, "n_members": 1}
    for loss in ("auto", "pairwise"):
        plain = AGBMRanker(loss=loss, **settings).fit(features, clicked, qid=qid)
        aware = AGBMRanker(loss=loss, **settings).fit(features, clicked, qid=qid, position=shown)
        fresh_X, fresh_y, *_, fresh_qid, _ = clicks(seed=1)
        scores = [model.score(fresh_X, fresh_y, qid=fresh_qid) for model in (plain, aware)]
        assert scores[1] > scores[0] + 0.05
