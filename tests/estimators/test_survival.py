"""AGBMSurvival: labels, predictions, scikit-survival's metrics, files, updates and errors."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import agbm
import survival_twin as twin
from agbm import AGBMRegressor, AGBMSurvival, Batches
from agbm.losses import AcceleratedFailureTime, Cox, PiecewiseExponential

FAST = {"max_iter": 6, "max_leaf_nodes": 5, "n_members": 2, "n_jobs": 1}
LOSSES = ["cox", "cox:efron", "aft:normal", "aft:logistic", "aft:extreme", "piecewise_exponential"]
WITHOUT_COX = LOSSES[2:]


def data(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    time = rng.weibull(1.5, n) * np.exp(-0.8 * X[:, 0] + 0.4 * X[:, 1])
    end = rng.exponential(2.0, n)
    return X, np.round(np.minimum(time, end), 3) + 0.001, time <= end


X, TIME, EVENT = data()
Y = np.column_stack([TIME, EVENT])


def structured(time=TIME, event=EVENT):
    y = np.empty(len(time), dtype=[("status", bool), ("days", float)])
    y["status"], y["days"] = event, time
    return y


def intervals(seed=0):
    """Bounds of the same times: events, right-, left- and interval-censored."""
    kind = np.random.default_rng(seed).integers(0, 3, len(TIME))
    lower = np.where(EVENT & (kind == 1), 0.0, np.where(EVENT & (kind == 2), TIME * 0.8, TIME))
    upper = np.where(EVENT, np.where(kind == 0, TIME, TIME * 1.2), np.inf)
    return pd.DataFrame({"lower": lower, "upper": upper})


@pytest.mark.parametrize(
    "y",
    [
        structured(),
        structured()[["days", "status"]],
        (TIME, EVENT),
        (TIME.tolist(), EVENT.astype(int).tolist()),
        pd.DataFrame({"time": TIME, "event": EVENT}),
        pd.DataFrame({"event": EVENT, "time": TIME}),
        pd.DataFrame({"event": EVENT.astype(int), "weeks": TIME}),
        pl.DataFrame({"weeks": TIME, "gone": EVENT}),
        pd.DataFrame({"lower": TIME, "upper": np.where(EVENT, TIME, np.nan)}),
        np.rec.fromarrays([TIME, np.where(EVENT, TIME, np.inf)], names="lower,upper"),
    ],
    ids=str,
)
def test_forms_of_y(y):
    wanted = AGBMSurvival(**FAST).fit(X, Y)
    found = AGBMSurvival(**FAST).fit(X, y, X_val=None)
    assert np.array_equal(found.predict(X), wanted.predict(X))
    assert found.score(X, y) == wanted.score(X, Y)


@pytest.mark.parametrize("loss", LOSSES)
def test_predictions_are_consistent(loss):
    model = AGBMSurvival(loss=loss, **FAST).fit(X, Y)
    risk, times = model.predict(X), model.unique_times_
    survival = model.predict_survival_function(X, return_array=True)
    hazard = model.predict_cumulative_hazard_function(X, return_array=True)
    assert survival.shape == hazard.shape == (len(X), len(times))
    assert np.array_equal(times, np.unique(TIME[EVENT]))
    assert np.allclose(survival, np.exp(-hazard))
    assert (np.diff(hazard, axis=1) >= 0.0).all()
    assert model.score(X, Y) > 0.7
    assert np.array_equal(survival, model.predict_survival_function(X, times=times))
    functions = model.predict_survival_function(X[:5])
    assert functions[0].domain == (0.0, None)
    assert functions[0](0.0) == 1.0
    assert np.array_equal(functions[3](times), survival[3])
    assert np.array_equal(functions[3].y, survival[3])
    assert model.predict_cumulative_hazard_function(X[:5])[0](0.0) == 0.0
    median = model.predict_time(X)
    finite = np.isfinite(median)
    rows = np.flatnonzero(finite)
    at_median = np.array([model.predict_survival_function(X[[i]], times=median[i])[0, 0] for i in rows])
    if loss.startswith("cox"):
        assert (at_median <= 0.5).all()
        assert (survival[~finite, -1] > 0.5).all()
    else:
        assert np.allclose(at_median, 0.5)
    assert (model.predict_time(X, 0.25) <= median).all()
    assert np.corrcoef(risk, np.log(model.predict_time(X, 0.2)))[0, 1] < -0.9
    *_, last = model.staged_predict(X)
    assert np.allclose(last, risk)
    assert np.array_equal(model.predictor()(X), risk)


@pytest.mark.parametrize("loss", LOSSES)
def test_files_and_pickles_keep_everything(loss, tmp_path):
    model = AGBMSurvival(loss=loss, **FAST).fit(X, Y)
    model.save(tmp_path / "model.agbm")
    for other in (agbm.load(tmp_path / "model.agbm"), pickle.loads(pickle.dumps(model))):
        assert type(other) is AGBMSurvival
        for method in ("predict", "predict_time", "predict_contributions"):
            assert np.array_equal(getattr(other, method)(X), getattr(model, method)(X))
        found = other.predict_survival_function(X, return_array=True)
        assert np.array_equal(found, model.predict_survival_function(X, return_array=True))
        assert repr(other.resolved_params_["loss"]) == repr(model.resolved_params_["loss"])


def test_files_of_other_settings(tmp_path):
    for loss in (AcceleratedFailureTime("logistic", scale=0.5), PiecewiseExponential([0.0, 0.5, 1.0]), Cox("efron")):
        model = AGBMSurvival(loss=loss, **FAST).fit(X, Y)
        model.save(tmp_path / "model.agbm")
        assert np.array_equal(agbm.load(tmp_path / "model.agbm").predict(X), model.predict(X))


@pytest.mark.parametrize("loss", ["cox", "aft:normal", "piecewise_exponential"])
def test_weights_are_repetitions(loss):
    weight = np.random.default_rng(1).integers(1, 4, len(X))
    rows = np.repeat(np.arange(len(X)), weight)
    fast = {**FAST, "early_stopping": False}
    weighted = AGBMSurvival(loss=loss, **fast).fit(X, Y, weight)
    repeated = AGBMSurvival(loss=loss, **fast).fit(X[rows], Y[rows])
    assert np.array_equal(weighted.predict(X), repeated.predict(X))
    assert np.array_equal(weighted.predict_time(X), repeated.predict_time(X))


@pytest.mark.parametrize("loss", ["cox", "cox:efron", "aft:extreme", "piecewise_exponential"])
def test_results_do_not_depend_on_row_order_or_threads(loss):
    order = np.random.default_rng(2).permutation(len(X))
    fast = {**FAST, "early_stopping": False}
    wanted = AGBMSurvival(loss=loss, **fast).fit(X, Y)
    found = AGBMSurvival(loss=loss, **{**fast, "n_jobs": 3}).fit(X[order], Y[order])
    assert np.array_equal(found.predict(X), wanted.predict(X))
    assert np.array_equal(found.predict_time(X), wanted.predict_time(X))
    assert np.array_equal(found.history_["train_loss"], wanted.history_["train_loss"])


@pytest.mark.parametrize("loss", LOSSES)
def test_results_do_not_depend_on_the_unit_of_time(loss):
    fast = {**FAST, "early_stopping": False}
    wanted = AGBMSurvival(loss=loss, **fast).fit(X, Y)
    found = AGBMSurvival(loss=loss, **fast).fit(X, np.column_stack([TIME * 1024.0, EVENT]))
    assert np.allclose(found.predict_time(X), wanted.predict_time(X) * 1024.0, rtol=1e-6)


@pytest.mark.parametrize("distribution", ["normal", "logistic", "extreme"])
def test_all_kinds_of_censoring(distribution):
    bounds = intervals()
    model = AGBMSurvival(loss=f"aft:{distribution}", **FAST).fit(X, bounds, X_val=X[:50], y_val=bounds[:50])
    exact = AGBMSurvival(loss=f"aft:{distribution}", **FAST).fit(X, Y)
    assert np.corrcoef(model.predict(X), exact.predict(X))[0, 1] > 0.9
    assert model.score(X, bounds) > 0.7
    with pytest.raises(ValueError, match="supports events and right-censored times only; a row is known to be between"):
        AGBMSurvival(loss="cox", **FAST).fit(X, bounds)
    with pytest.raises(ValueError, match="supports events and right-censored times only"):
        AGBMSurvival(loss="piecewise_exponential", **FAST).fit(X, bounds)


@pytest.mark.parametrize("loss", WITHOUT_COX)
def test_early_stopping_waits_for_the_risk(loss):
    """Spreads and hazards of intervals overfit first; still, survival functions are as good as after 100 iterations."""
    rng = np.random.default_rng(100)
    X = rng.normal(size=(3_000, 6))
    risk = 1.5 * X[:, 0] + X[:, 1] * X[:, 2]
    time, end = rng.weibull(1.5, 3_000) * np.exp(-risk / 1.5), rng.exponential(2.0, 3_000)
    y, at = np.column_stack([np.minimum(time, end), time <= end]), np.quantile(time, [0.1, 0.25, 0.5, 0.75, 0.9])
    true = np.exp(-((at / np.exp(-risk[1_000:, np.newaxis] / 1.5)) ** 1.5))
    errors = []
    for parameters in ({}, {"early_stopping": False}):
        model = AGBMSurvival(loss=loss, n_jobs=1, **parameters).fit(X[:1_000], y[:1_000])
        found = model.predict_survival_function(X[1_000:], times=at)
        errors.append(np.sqrt(((found - true) ** 2).mean()))
    assert errors[0] < 1.02 * errors[1]
    assert errors[0] < 0.112


def test_baseline_is_that_of_rows_held_out():
    members = AGBMSurvival(**FAST).fit(X, Y)
    assert members.predict_survival_function(X[:1], return_array=True).shape == (1, len(members.unique_times_))
    for given in ({}, {"X_val": X[200:], "y_val": Y[200:]}):
        rows = slice(200, 300) if given else slice(300)
        model = AGBMSurvival(**{**FAST, "early_stopping": bool(given)}).fit(X[:200], Y[:200], **given)
        if not given:
            rows = slice(200)
        times, hazard = twin.cumulative_baseline(TIME[rows], EVENT[rows], model.predict(X[rows]), np.ones(len(X[rows])))
        at = np.append(0.0, hazard)[np.searchsorted(times, model.unique_times_, side="right")]
        found = model.predict_cumulative_hazard_function(X[:1], return_array=True)[0]
        assert np.allclose(found, at * np.exp(model.predict(X[:1])[0]))


def test_models_without_a_baseline_raise(tmp_path):
    early = AGBMSurvival(**FAST).fit(X, Y).at_iteration(2)
    assert early.predict(X).shape == (len(X),)
    for method in ("predict_survival_function", "predict_time", "predict_cumulative_hazard_function"):
        with pytest.raises(ValueError, match=f"{method} needs the baseline hazard"):
            getattr(early, method)(X)
    early.save(tmp_path / "early.agbm")
    assert np.array_equal(agbm.load(tmp_path / "early.agbm").predict(X), early.predict(X))


def test_trees_of_small_tables_have_fewer_leaves_with_the_loss_of_cox():
    few = {"max_iter": 2, "n_members": 1, "early_stopping": False}
    for loss, n_leaves in (("cox", 4), ("aft:normal", 8)):
        assert AGBMSurvival(loss=loss, **few).fit(X, Y).resolved_params_["max_leaf_nodes"] == n_leaves
    several = AGBMSurvival(**few).fit(np.tile(X, (4, 1)), np.tile(Y, (4, 1)))
    assert several.resolved_params_["max_leaf_nodes"] == 9  # one per 128 rows


@pytest.mark.parametrize("mode", ["trees", "leaves", "weights", "all"])
@pytest.mark.parametrize("members", [1, 2])
def test_baseline_of_an_update_is_that_of_its_rows(mode, members):
    """Of all of them if none are held out, as for fit; later rows may have been observed for longer."""
    later = np.column_stack([3.0 * TIME[200:], EVENT[200:]])
    model = AGBMSurvival(**{**FAST, "n_members": members, "early_stopping": False}).fit(X[:200], Y[:200])
    model.update(X[200:], later, mode=mode)
    times = np.union1d(TIME[:200][EVENT[:200]], later[EVENT[200:], 0])
    assert np.array_equal(model.unique_times_, times)
    risk = model.predict(X[200:])
    at, hazard = twin.cumulative_baseline(later[:, 0], EVENT[200:], risk, np.ones(100))
    wanted = np.append(0.0, hazard)[np.searchsorted(at, times, side="right")]
    found = model.predict_cumulative_hazard_function(X[200:], return_array=True)
    assert np.allclose(found, wanted * np.exp(risk)[:, np.newaxis])


@pytest.mark.parametrize("mode", ["trees", "leaves", "weights", "all"])
def test_batches_of_an_update_give_the_same_bits(mode):
    parts = [slice(150, 200), slice(200, 300)]
    first, second = (AGBMSurvival(**FAST).fit(X[:150], Y[:150]) for _ in range(2))
    first.update(X[150:], Y[150:], mode=mode)
    second.update(Batches(lambda: ((X[part], Y[part]) for part in parts)), mode=mode)
    assert np.array_equal(first.predict_time(X), second.predict_time(X))
    assert np.array_equal(first.unique_times_, second.unique_times_)


def test_baseline_of_an_update_is_that_of_its_held_out_rows(tmp_path):
    model = AGBMSurvival(**FAST).fit(X[:150], Y[:150])
    model.update(X[150:250], Y[150:250], mode="trees", X_val=X[250:], y_val=Y[250:])
    at, hazard = twin.cumulative_baseline(TIME[250:], EVENT[250:], model.predict(X[250:]), np.ones(50))
    wanted = np.append(0.0, hazard)[np.searchsorted(at, model.unique_times_, side="right")]
    found = model.predict_cumulative_hazard_function(X[:1], return_array=True)[0]
    assert np.allclose(found, wanted * np.exp(model.predict(X[:1])))
    model.update(X, Y, mode="trees")  # its members hold out rows of their own
    model.save(tmp_path / "model.agbm")
    assert np.array_equal(agbm.load(tmp_path / "model.agbm").predict_time(X), model.predict_time(X))
    with pytest.raises(ValueError, match="y has no event"):
        model.update(X[~EVENT], Y[~EVENT], mode="trees")


@pytest.mark.parametrize("loss", ["cox", "aft:logistic", "piecewise_exponential"])
@pytest.mark.parametrize("mode", ["trees", "leaves", "weights"])
def test_updates(loss, mode):
    model = AGBMSurvival(loss=loss, **FAST).fit(X[:200], structured()[:200])
    before = model.history_["train_loss"][-1]
    model.update(X, structured(), mode=mode)
    assert np.isfinite(model.predict(X)).all()
    assert model.score(X, Y) > 0.7
    assert np.isfinite(before)


@pytest.mark.parametrize("loss", ["cox", "aft:normal", "piecewise_exponential"])
def test_warm_start_checkpoints_and_batches_have_the_same_bits(loss, tmp_path):
    wanted = AGBMSurvival(loss=loss, **FAST).fit(X, Y)
    warm = AGBMSurvival(loss=loss, **{**FAST, "max_iter": 3}, warm_start=True).fit(X, Y)
    warm.set_params(max_iter=6).fit(X, Y)
    saved = {**FAST, "callbacks": [agbm.Checkpoint(tmp_path / "run", every=2)]}
    AGBMSurvival(loss=loss, **{**saved, "max_iter": 3}).fit(X, Y)
    resumed = AGBMSurvival(loss=loss, **saved).fit(X, Y)
    parts = [slice(0, 100), slice(100, 250), slice(250, 300)]
    batches = AGBMSurvival(loss=loss, **FAST).fit(Batches(lambda: ((X[part], Y[part]) for part in parts)))
    for_all = AGBMSurvival(loss=loss, **FAST).fit(Batches(lambda: (X[part] for part in parts)), structured())
    for other in (warm, resumed, batches, for_all):
        assert np.array_equal(other.predict(X), wanted.predict(X))
        assert np.array_equal(other.predict_time(X), wanted.predict_time(X))


@pytest.mark.parametrize("loss", LOSSES)
def test_offsets_are_added_to_scores(loss):
    model = AGBMSurvival(loss=loss, **FAST).fit(X[:, 1:], Y, offset=_offset(loss))
    plain = AGBMSurvival(loss=loss, **FAST).fit(X[:, 1:], Y)
    risk = model.predict(X[:, 1:], offset=_offset(loss))
    assert model._labels.n_outputs == plain._labels.n_outputs
    found = twin.concordance(TIME, np.where(EVENT, TIME, np.inf), risk, np.ones(len(X)))
    assert found > plain.score(X[:, 1:], Y) + 0.05


def _offset(loss):
    """The effect of the first column, which the model does not see."""
    effect = 0.8 * X[:, 0]
    if loss.startswith("cox"):
        return effect
    n_intervals = len(np.unique(np.quantile(TIME[EVENT], np.linspace(0.0, 1.0, 11)))) - 1
    first, others = (-effect, 1) if loss.startswith("aft") else (effect, n_intervals)
    return np.column_stack([first, *[0.0 * effect] * others])


class OfEvents(AGBMSurvival):
    """Any numbers in one column, which scikit-learn's checks pass, are times of events."""

    def fit(self, X, y=None, sample_weight=None):
        return super().fit(X, self._two_columns(y), sample_weight)

    def score(self, X, y, sample_weight=None):
        return super().score(X, self._two_columns(y), sample_weight)

    def _two_columns(self, y):
        times = np.asarray(y)
        if y is None or times.ndim != 1:
            return y
        return np.column_stack([times, np.ones(len(times))])


@parametrize_with_checks([OfEvents(loss=loss, max_iter=10) for loss in ("auto", "aft:normal")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_labels_can_be_sliced_by_scikit_learn():
    model = AGBMSurvival(**FAST)
    for y in (structured(), Y, intervals()):
        loss = "aft:normal" if isinstance(y, pd.DataFrame) else "cox"
        scores = cross_validate(clone(model).set_params(loss=loss), X, y, cv=3)["test_score"]
        assert (scores > 0.65).all()
    search = GridSearchCV(model, {"loss": ["cox", "aft:normal"]}, cv=2).fit(X, structured())
    assert search.best_score_ > 0.65
    piped = make_pipeline(FunctionTransformer(), model).fit(X, structured())
    assert piped.score(X, structured()) > 0.7


def test_scoring_and_watched_rows():
    def concordance(model, X, y):
        return model.score(X, y)

    model = AGBMSurvival(scoring=concordance, **FAST)
    model.fit(X[:200], structured()[:200], watch={"other": (X[200:], structured()[200:])})
    assert model.history_["other_concordance"][model.best_iteration_] == pytest.approx(
        model.score(X[200:], structured()[200:])
    )
    assert {"validation_concordance", "other_loss"} <= set(model.history_)


def test_constraints_apply_to_risks():
    grid = np.zeros((50, 4))
    grid[:, 0] = np.linspace(-2.0, 2.0, 50)
    for loss in LOSSES:
        risk = AGBMSurvival(loss=loss, monotonic_cst=[-1, 0, 0, 0], **FAST).fit(X, Y).predict(grid)
        assert (np.diff(risk) <= 1e-12).all()


def test_times_are_thinned_if_there_are_many():
    rng = np.random.default_rng(3)
    time = rng.exponential(size=3_000)
    model = AGBMSurvival(**FAST).fit(rng.normal(size=(3_000, 2)), (time, np.ones(3_000)))
    assert len(model.unique_times_) == 1_000
    assert model.unique_times_[[0, -1]].tolist() == [time.min(), time.max()]
    assert model.event_times_ is model.unique_times_


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.column_stack([TIME - 1.0, EVENT]), "y has negative times, such as"),
        ((TIME, np.zeros(300)), "y has no event: all rows are right-censored.* check their column: 1"),
        ((TIME, EVENT * 2), r"events must be 0 or 1 .*; got \[2.0\]"),
        ((EVENT, TIME), "events must be 0 or 1"),
        (TIME, r"y has shape \(300,\); it must be a structured array"),
        (np.ones((300, 4)), r"y has shape \(300, 4\); it must be"),
        ((TIME, EVENT, EVENT), "y is a tuple of length 3"),
        ((TIME, EVENT[:9]), r"times have shape \(300,\) and events \(9,\)"),
        (pd.DataFrame({"lower": TIME + 1.0, "upper": TIME}), "lower bounds must not exceed upper bounds; row 0"),
        (pd.DataFrame({"lower": -TIME, "upper": TIME}), "y has negative times"),
        (pd.DataFrame({"lower": np.full(300, np.inf), "upper": TIME}), "lower bounds of times must be finite"),
        (pd.DataFrame({"a": TIME, "b": EVENT, "c": TIME}), r"y has columns \['a', 'b', 'c'\]"),
        (np.zeros(300, dtype=[("a", float), ("b", float)]), r"structured array with fields \['a', 'b'\]"),
        ((TIME.astype(str) + "x", EVENT), "y: times must be numbers: could not convert"),
        ((TIME, np.where(EVENT, "yes", "no")), r"y: events must be 0 or 1 \(censored or not\): could not convert"),
        (
            (TIME, np.where(EVENT, 1.0, np.nan)),
            r"events must be 0 or 1 \(censored or not\); that of row \d+ is missing",
        ),
        ((TIME + 0j, EVENT), "y: times must be numbers; got complex128"),
    ],
)
def test_wrong_labels(y, message):
    with pytest.raises(ValueError, match=message):
        AGBMSurvival(**FAST).fit(X, y)


@pytest.mark.parametrize("loss", WITHOUT_COX)
@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
def test_few_events(loss, share):
    """The start has the right share of events by the end, and later times are not absurd."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(1_000, 3))
    time = rng.exponential(1_000.0, 1_000) * np.exp(-X[:, 0])
    end = np.quantile(time, share)
    model = AGBMSurvival(loss=loss, **FAST).fit(X, (np.minimum(time, end), time <= end))
    start = model.at_iteration(0).predict_survival_function(X[:1], times=[0.3 * end, 0.999 * end])[0]
    assert start[1] == pytest.approx(1.0 - share, abs=0.03)
    assert 1.0 - start[0] < 0.7 * share
    assert (model.predict_time(X) < 1e9).all()


ONE_TIME = r"the time 2 agrees with the events and bounds of all rows \(n_samples=\d+\), .* Fix the scale: loss="


@pytest.mark.parametrize(
    ("loss", "lower", "upper", "message"),
    [
        ("aft:normal", 2.0, 2.0, ONE_TIME),
        ("aft:logistic", np.minimum(TIME, 2.0), np.where(TIME < 2.0, np.inf, 2.0), ONE_TIME),
        ("aft:extreme", np.where(EVENT, 0.0, 2.0), np.where(EVENT, 2.0, np.inf), ONE_TIME),
        ("aft:normal", np.minimum(TIME, 2.0), TIME + 2.0, "the time 2 agrees with"),
        ("aft:normal", 0.0, TIME, "y: all rows are left-censored, .* add rows with an event or with a lower bound"),
        ("aft:normal", TIME, np.inf, "y has no event: all rows are right-censored"),
        ("piecewise_exponential", TIME, np.inf, "y has no event: all rows are right-censored"),
        ("piecewise_exponential", 0.0, np.where(EVENT, 0.0, np.inf), "y: all times are 0"),
        ("cox", 0.0, np.where(EVENT, 0.0, np.inf), "y: all times are 0"),
    ],
)
def test_degenerate_censoring(loss, lower, upper, message):
    y = pd.DataFrame({"lower": lower + np.zeros(300), "upper": upper + np.zeros(300)})
    with pytest.raises(ValueError, match=message):
        AGBMSurvival(loss=loss, **FAST).fit(X, y)


SPANS = (TIME * 1e6).astype("timedelta64[us]")
DATES = {
    "spans": SPANS,
    "dates": np.datetime64("2020-01-01") + SPANS,
    "series": pd.Series(SPANS),
    "zoned": pd.Series(np.datetime64("2020-01-01") + SPANS).dt.tz_localize("UTC"),
    "objects": SPANS.astype(object),
}


@pytest.mark.parametrize("times", DATES.values(), ids=DATES)
def test_dates_and_durations_are_refused(times):
    frame = pd.DataFrame({"time": times, "event": EVENT})
    bounds = pd.DataFrame({"lower": times, "upper": times})
    fields = np.empty(300, dtype=[("event", bool), ("time", np.asarray(times).dtype)])
    fields["event"], fields["time"] = EVENT, times
    refused = r"^y has dates or times \((timedelta|datetime)64|^y has dates or times \(object"
    model = AGBMSurvival(**FAST).fit(X, Y)
    for y in ((times, EVENT), frame, frame[["event", "time"]], fields):
        with pytest.raises(ValueError, match=refused):
            AGBMSurvival(**FAST).fit(X, y)
        with pytest.raises(ValueError, match=refused):
            model.score(X, y)
    for y in (bounds, bounds.to_records(index=False)):
        with pytest.raises(ValueError, match=refused):
            AGBMSurvival(loss="aft:normal", **FAST).fit(X, y)
    with pytest.raises(ValueError, match=r"^y_val has dates or times"):
        AGBMSurvival(**FAST).fit(X, Y, X_val=X, y_val=frame)
    with pytest.raises(ValueError, match=refused):
        model.update(X, frame, mode="trees")
    with pytest.raises(ValueError, match=refused):
        agbm.cv(model, X, frame)
    with pytest.raises(ValueError, match="dates or times"):
        AGBMSurvival(**FAST).fit(X, Y, watch={"other": (X, frame)})
    with pytest.raises(ValueError, match=r"^times has dates or times"):
        model.predict_survival_function(X, times=times)
    with pytest.raises(ValueError, match=r"^sample_weight has dates or times"):
        model.score(X, Y, sample_weight=times)


def test_other_errors():
    zero = np.column_stack([np.where(np.arange(300) == 3, 0.0, TIME), np.ones(300)])
    with pytest.raises(ValueError, match=r"y has events at time 0, which loss=.* does not allow"):
        AGBMSurvival(loss="aft:normal", **FAST).fit(X, zero)
    assert np.isfinite(AGBMSurvival(**FAST).fit(X, zero).predict_time(X)).any()
    with pytest.raises(ValueError, match="loss='squared_error' must be one of 'auto', 'cox'"):
        AGBMSurvival(loss="squared_error").fit(X, Y)
    with pytest.raises(ValueError, match="is not a loss of survival analysis"):
        AGBMSurvival(loss=agbm.losses.Poisson()).fit(X, Y)
    with pytest.raises(ValueError, match="is for censored times; use AGBMSurvival"):
        AGBMRegressor(loss=Cox()).fit(X, TIME)
    model = AGBMSurvival(**FAST).fit(X, Y)
    with pytest.raises(ValueError, match="quantile=1 must be a number between 0 and 1"):
        model.predict_time(X, 1)
    with pytest.raises(ValueError, match="must be finite numbers that are not negative"):
        model.predict_survival_function(X, times=[-1.0])
    with pytest.raises(ValueError, match=r"times=\['1', '2'\] must be finite numbers"):
        model.predict_cumulative_hazard_function(X, times=["1", "2"])
    with pytest.raises(ValueError, match="no pair of rows of which it is certain"):
        model.score(X[:2], Y[:2] * [[1.0, 0.0]])
    assert not hasattr(model, "calibrate")  # there are no intervals of censored times
    with pytest.raises(ValueError, match="y_val has negative times"):
        AGBMSurvival(**FAST).fit(X, Y, X_val=X, y_val=(-TIME, EVENT))


@pytest.mark.parametrize("loss", LOSSES)
def test_metrics_of_scikit_survival(loss):
    from sksurv import metrics

    y, (others, time, event) = structured(), data(200, seed=1)
    test = structured(time, event)
    model = AGBMSurvival(loss=loss, **FAST).fit(X, y)
    assert model.score(others, test) == pytest.approx(
        metrics.concordance_index_censored(event, time, model.predict(others))[0], abs=1e-12
    )
    assert metrics.concordance_index_ipcw(y, test, model.predict(others), tau=2.0)[0] > 0.65
    times = np.linspace(0.2, 1.5, 10)
    values = model.predict_survival_function(others, times=times)
    steps = np.stack([function(times) for function in model.predict_survival_function(others)])
    brier = [metrics.integrated_brier_score(y, test, found, times) for found in (values, steps)]
    assert brier == pytest.approx([brier[0]] * 2, rel=0.02)
    assert brier[0] < 0.22
    scorer = metrics.as_integrated_brier_score_scorer(AGBMSurvival(loss=loss, **FAST), times=times).fit(X, y)
    assert scorer.score(others, test) == pytest.approx(-brier[1], rel=1e-9)
    area = metrics.cumulative_dynamic_auc(y, test, model.predict_cumulative_hazard_function(others, times=times), times)
    assert area[1] > 0.65


def test_cox_agrees_with_scikit_survival_on_linear_scores():
    from sksurv import linear_model as linear

    for ties in ("breslow", "efron"):
        other = linear.CoxPHSurvivalAnalysis(ties=ties).fit(X, structured())
        y, f = np.stack([TIME, np.where(EVENT, TIME, np.inf)]), other.predict(X)[np.newaxis]
        slope = X.T @ Cox(ties).negative_gradient(y, f)[0]
        assert np.abs(slope).max() < 1e-3  # the other model has the best coefficients
        at, hazard = Cox(ties).baseline(y, f, None)
        if ties == "breslow":
            baseline = other.cum_baseline_hazard_
            assert np.allclose(hazard[np.isin(at, baseline.x)], baseline.y, rtol=1e-6)


@pytest.mark.parametrize("loss", ["cox", "aft:normal", "piecewise_exponential"])
def test_exports_return_raw_scores(loss):
    import lightgbm
    import onnxruntime

    model = AGBMSurvival(loss=loss, **FAST).fit(X, Y)
    raw = model.model_.raw_predict(X, 1).T
    booster = lightgbm.Booster(model_str=agbm.export.to_lightgbm(model))
    assert np.allclose(booster.predict(X, raw_score=True), raw[:, 0] if loss == "cox" else raw)
    onnx = agbm.export.to_onnx(model, dtype=np.float64).SerializeToString()
    found = onnxruntime.InferenceSession(onnx).run(None, {"X": X})[0].reshape(raw.shape)
    assert np.allclose(found, raw, atol=1e-5)
    if loss == "cox":
        assert np.allclose(model.predict(X), raw[:, 0])


@pytest.mark.parametrize("loss", ["cox", "aft:normal", "piecewise_exponential"])
def test_cross_validation_returns_risks(loss):
    scorer = {"concordance": lambda model, X, y: model.score(X, y)}
    result = agbm.cv(AGBMSurvival(loss=loss, **FAST), X, structured(), cv=3, scoring=scorer)
    assert (result.scores["validation_concordance"] > 0.65).all()
    for model, (_, test) in zip(result.estimators, result.splits, strict=True):
        assert np.allclose(result.predictions[test], model.predict(X[test]))
    if loss == "cox":
        with pytest.raises(ValueError, match="needs the baseline hazard"):
            result.estimators[0].predict_time(X)
