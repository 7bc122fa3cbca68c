"""A search starts with the default, can be resumed, ends on time, and reports its gain."""

import math
import signal
import subprocess
import sys
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import numpy as np
import optuna
import pandas as pd
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.metrics import log_loss, mean_squared_error

from agbm import AGBMClassifier, AGBMRegressor
from agbm._apps.evaluation.metrics import Metric, Split
from agbm._apps.evaluation.tasks import Classification, Regression
from agbm._apps.evaluation.tuning import search, tune
from agbm._apps.evaluation.tuning.fits import Fits
from agbm._apps.evaluation.tuning.space import Points
from agbm._apps.evaluation.tuning.study_file import STUDY
from agbm._core.training import Record
from toys import three_parts


def split(X, y, classifies):
    parts = three_parts(len(y), y if classifies else None)
    train, validation, test = ((X[part], y[part]) for part in parts)
    return Split(*train, *validation, *test)


@pytest.fixture(scope="module")
def classes():
    X, y = load_breast_cancer(return_X_y=True)
    return split(X, np.array(["malignant", "benign"])[y], classifies=True)


@pytest.fixture(scope="module")
def values():
    return split(*load_diabetes(return_X_y=True), classifies=False)


def run(data, path, classifies=True, **changes):
    options = {"trials": 4, "seed": 0, "threads": 1, "parameters": {"max_iter": 40}} | changes
    task = Classification(np.unique(data.y)) if classifies else Regression()
    return tune(data, task, study_path=path, **options)


def trials_in(path):
    storage = JournalStorage(JournalFileBackend(str(path)))
    return optuna.load_study(study_name=STUDY, storage=storage).get_trials()


def states(path):
    return [trial.state.name for trial in trials_in(path)]


@pytest.mark.slow
def test_the_default_is_first_and_the_gain_is_that_of_the_test_rows(classes, tmp_path):
    seen = []
    given = {"max_iter": 40, "n_members": 1}
    tuned = run(classes, tmp_path / "study", trials=8, on_trial=seen.append, parameters=given)
    d = classes
    default = AGBMClassifier(**given).fit(d.X, d.y, X_val=d.X_val, y_val=d.y_val)
    first, *others = seen
    assert first.number == 0
    assert first.parameters == {
        "learning_rate": 0.1, "method__entry": 6.0, "method__growth": 0.01, "max_leaf_nodes": 8, "min_samples_leaf": 2,
        "l2_regularization": 7.0, "subsample": 1.0, "colsample_bynode": 0.5,
    }  # fmt: skip
    assert first.loss == first.best_loss == default.history_["validation_loss"].min() == tuned.default_validation_loss
    assert [trial.number for trial in others] == list(range(1, 8))
    assert all(trial.parameters != first.parameters for trial in others)

    losses = [trial.loss for trial in seen if not math.isnan(trial.loss)]
    assert tuned.validation_loss == min(losses) == seen[-1].best_loss < first.loss
    assert not tuned.is_default
    best = next(trial for trial in seen if trial.loss == min(losses))
    assert tuned.parameters == {**given, **best.parameters}
    assert (tuned.complete, tuned.pruned) == (len(losses), len(seen) - len(losses))

    model = AGBMClassifier().set_params(**tuned.parameters).fit(d.X, d.y, X_val=d.X_val, y_val=d.y_val)
    probabilities = [one.predict_proba(d.X_test) for one in (default, model)]
    np.testing.assert_array_equal(tuned.model.predict_proba(d.X_test), probabilities[1])
    assert log_loss(d.y_val, model.predict_proba(d.X_val)) == pytest.approx(tuned.validation_loss)
    before, after = (log_loss(d.y_test, found) for found in probabilities)
    assert (tuned.default_metrics[0].value, tuned.metrics[0].value) == pytest.approx((before, after), rel=1e-6)
    assert tuned.gain.value == pytest.approx(before - after, abs=1e-9)
    rows = np.log(probabilities[1]) - np.log(probabilities[0])
    rows = rows[np.arange(len(d.y_test)), (d.y_test == "malignant").astype(int)]
    assert tuned.gain.high - tuned.gain.value == pytest.approx(1.96 * rows.std() / math.sqrt(len(rows)), rel=1e-4)
    assert tuned.n_test == len(d.y_test)


@pytest.mark.slow
def test_values_are_scored_by_their_squared_error(values, tmp_path):
    d, given = values, {"max_iter": 30, "learning_rate": 0.2, "n_members": 1}
    tuned = run(d, tmp_path / "study", classifies=False, trials=3, parameters=given)
    default = AGBMRegressor(**given).fit(d.X, d.y, X_val=d.X_val, y_val=d.y_val)
    assert tuned.default_validation_loss == pytest.approx(mean_squared_error(d.y_val, default.predict(d.X_val)))
    assert tuned.validation_loss == pytest.approx(mean_squared_error(d.y_val, tuned.model.predict(d.X_val)))
    before, after = (mean_squared_error(d.y_test, one.predict(d.X_test)) for one in (default, tuned.model))
    assert tuned.gain.value == pytest.approx(before - after)
    assert tuned.gain.name == "squared error"
    assert tuned.parameters["learning_rate"] == 0.2
    assert all("learning_rate" not in trial.params for trial in trials_in(tmp_path / "study"))


@pytest.mark.slow
def test_same_seed_same_search_also_in_parts(classes, tmp_path):
    whole = run(classes, tmp_path / "whole", trials=5)
    run(classes, tmp_path / "parts", trials=2)
    parts = run(classes, tmp_path / "parts", trials=3)
    assert parts.parameters == whole.parameters
    assert parts.gain == whole.gain
    assert (parts.complete, parts.pruned) == (whole.complete, whole.pruned)
    one, other = (
        [(trial.params, trial.value, trial.state) for trial in trials_in(tmp_path / name)]
        for name in ("whole", "parts")
    )
    assert one == other
    assert len(one) == 5
    run(classes, tmp_path / "seed", trials=2, seed=1)
    assert trials_in(tmp_path / "seed")[1].params != one[1][0]


def test_without_samples_the_default_is_not_random(classes, tmp_path):
    fixed = {"max_iter": 40, "colsample_bynode": 1.0}
    one, other = (run(classes, tmp_path / str(seed), trials=1, seed=seed, parameters=fixed) for seed in (0, 1))
    assert one.default_validation_loss == other.default_validation_loss


@pytest.mark.slow
def test_a_killed_search_goes_on(classes, tmp_path):
    path = tmp_path / "study"
    code = f"""
import time
import numpy as np
from agbm._apps.evaluation.metrics import Split
from agbm._apps.evaluation.tuning import tune
from agbm._apps.evaluation.tasks import Classification
from agbm._apps.evaluation.tuning.space import Points

def hang(self, record):
    print("hangs", flush=True)
    time.sleep(600)

def on_trial(trial):
    if trial.number == 2:
        Points.__call__ = hang

data = np.load({str(tmp_path / "data.npz")!r})
tune(
    Split(**data), Classification(np.unique(data["y"])), study_path={str(path)!r}, seed=0, threads=1, trials=9,
    parameters={{"max_iter": 40}}, on_trial=on_trial,
)
"""
    np.savez(tmp_path / "data.npz", **vars(classes))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "hangs\n"
        process.send_signal(signal.SIGKILL)
    assert len(states(path)) == 3
    run(classes, path, trials=2)
    run(classes, tmp_path / "whole", trials=5)
    one, other = ([(trial.params, trial.value) for trial in trials_in(p)] for p in (path, tmp_path / "whole"))
    assert one == other


def test_a_line_that_ends_halfway_is_cut_off(classes, tmp_path):
    path = tmp_path / "study"
    run(classes, path, trials=2)
    whole = path.read_bytes()
    path.write_bytes(whole + whole.splitlines()[-1][:50])
    run(classes, path, trials=1)
    assert path.read_bytes().startswith(whole)
    assert len(states(path)) == 3


def test_two_searches_at_once_learn_from_each_other(classes, tmp_path):
    path, within = tmp_path / "study", []

    def other(trial):
        if trial.number == 1:
            within.append(run(classes, path, trials=2))

    tuned = run(classes, path, trials=4, on_trial=other)
    trials = trials_in(path)
    assert len(trials) == 6 == tuned.complete + tuned.pruned
    assert within[0].complete + within[0].pruned == 4
    assert len({tuple(trial.params.values()) for trial in trials}) == 6
    assert tuned.validation_loss == min(trial.value for trial in trials if trial.state.name == "COMPLETE")


def test_the_deadline_ends_a_trial_but_not_the_default(classes, tmp_path, monkeypatch):
    ticks = count()
    monkeypatch.setattr(search, "time", SimpleNamespace(perf_counter=lambda: float(next(ticks))))
    tuned = run(classes, tmp_path / "none", seconds=0.0, trials=None)
    assert states(tmp_path / "none") == ["COMPLETE"]
    assert tuned.is_default
    assert tuned.gain.value == tuned.gain.low == tuned.gain.high == 0.0
    ticks = count()
    tuned = run(classes, tmp_path / "some", seconds=60.0, trials=None)
    assert states(tmp_path / "some") == ["COMPLETE", "COMPLETE", "PRUNED"]  # 40 iterations check the time 41 times
    assert (tuned.complete, tuned.pruned) == (2, 1)
    assert tuned.seconds < 65.0


@pytest.mark.parametrize("ended", [0, 1])
def test_an_interrupt_keeps_what_was_found(classes, tmp_path, monkeypatch, ended):
    """Interrupt in the third iteration of the first trial, which is the default, or of the second."""
    path, thirds, call = tmp_path / "study", count(), Points.__call__

    def interrupt(self, record):
        if record.iteration == 3 and next(thirds) == ended:
            raise KeyboardInterrupt
        call(self, record)

    monkeypatch.setattr(Points, "__call__", interrupt)
    if ended:
        assert run(classes, path).is_default
        assert states(path) == ["COMPLETE"]
    else:
        with pytest.raises(KeyboardInterrupt):
            run(classes, path)
        assert states(path) == []
    run(classes, path, trials=1)
    assert len(states(path)) == 1 + ended  # it was resumed


def test_a_second_interrupt_is_one(classes, tmp_path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(Fits, "evaluate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(classes, tmp_path / "study", on_trial=interrupt)
    assert states(tmp_path / "study") == ["COMPLETE"]


def test_an_error_ends_the_search_and_leaves_a_study_that_goes_on(classes, tmp_path):
    def fail(trial):
        if trial.number == 1:
            raise LookupError("mine")

    verbosity = optuna.logging.get_verbosity()
    with pytest.raises(LookupError, match="mine"):
        run(classes, tmp_path / "study", on_trial=fail)
    assert optuna.logging.get_verbosity() == verbosity
    assert len(states(tmp_path / "study")) == 2
    tuned = run(classes, tmp_path / "study", trials=1)
    assert tuned.complete + tuned.pruned == 3


def test_a_study_of_something_else_is_refused(classes, tmp_path):
    path = tmp_path / "study"
    run(classes, path, trials=1)
    with pytest.raises(ValueError, match="belongs to a search with other rows; use another path, or remove the file"):
        run(replace(classes, y=classes.y[::-1]), path)
    with pytest.raises(ValueError, match="with other rows"):
        run(replace(classes, X_val=classes.X_val + 1e-9), path)
    with pytest.raises(ValueError, match="with other parameters"):
        run(classes, path, seed=1)
    with pytest.raises(ValueError, match="with other rows and parameters"):
        run(replace(classes, X=classes.X + 1.0), path, parameters={"max_iter": 41})
    assert len(states(path)) == 1
    # The test rows are not part of the identity.
    run(replace(classes, X_test=classes.X_test[:9], y_test=classes.y_test[:9]), path, trials=1)
    assert len(states(path)) == 2


def test_what_cannot_be_a_study(classes, tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        run(classes, tmp_path / "nowhere" / "study")
    path = tmp_path / "notes.txt"
    for text in ("notes without an end", '{"a": 1}\n', "7"):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"notes.txt' is not an Optuna study"):
            run(classes, path)
        assert path.read_text() == text
    with pytest.raises(ValueError, match=r"the test rows have labels \['x'\] that do not occur in the training rows"):
        run(replace(classes, y_test=np.full(len(classes.y_test), "x")), path)
    with pytest.raises(ValueError, match="set at least one of them to limit the search"):
        run(classes, tmp_path / "study", trials=None)
    with pytest.raises(ValueError, match=r"parameters has \['loss', 'method'\]"):
        run(classes, tmp_path / "study", parameters={"method": "gbm", "loss": "exponential"})


@pytest.mark.parametrize(
    ("name", "message"), [("mine", "contains other Optuna studies"), ("agbm", "contains trials of another program")]
)
def test_a_journal_of_another_program_is_left_alone(name, message, classes, tmp_path):
    path = tmp_path / "journal"
    storage = JournalStorage(JournalFileBackend(str(path)))
    study = optuna.create_study(storage=storage, study_name=name)
    study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=2)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=rf"study_path='.*journal' {message}.*; use another path"):
        run(classes, path)
    assert path.read_bytes() == before


def test_without_optuna(classes, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match=r"tune needs Optuna: pip install 'agbm\[tune\]'"):
        run(classes, tmp_path / "study")


@pytest.mark.parametrize("size", [{"max_leaf_nodes": 5}, {"max_depth": 3}], ids=str)
def test_tables_rare_classes_and_trees_of_a_given_size(size, tmp_path):
    """The default is in the search space for any rows: small hessians lead to a small l2."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"town": rng.choice(["Rome", "Oslo", None], 3000), "size": rng.normal(size=3000)})
    y = rng.random(3000) < np.where(X["town"] == "Oslo", 0.03, 0.001)
    rows = [slice(0, 2000), slice(2000, 2500), slice(2500, 3000)]
    data = Split(*(part for at in rows for part in (X[at], y[at])))
    fixed = {"max_iter": 10, "subsample": 0.9, **size}
    seen = []
    tuned = run(data, tmp_path / "study", trials=3, parameters=fixed, on_trial=seen.append)
    assert seen[0].parameters["l2_regularization"] < 3.0
    assert tuned.parameters.items() >= fixed.items()
    assert not {"max_depth", "max_leaf_nodes", "subsample"} & {name for trial in seen for name in trial.parameters}


@pytest.mark.slow
def test_hopeless_trials_are_given_up(classes, tmp_path, monkeypatch):
    """Optuna gets the losses at the points; here, later trials are made worse than all others."""
    scaled = Fits.scaled
    seen = []

    def worse(self, loss):
        return scaled(self, loss) + (9.0 if len(seen) > 5 else 0.0)

    monkeypatch.setattr(Fits, "scaled", worse)
    tuned = run(classes, tmp_path / "study", trials=8, parameters={"max_iter": 200}, on_trial=seen.append)
    assert [math.isnan(trial.loss) for trial in seen[6:]] == [True, True]
    assert tuned.pruned >= 2


def test_points_are_where_weights_have_doubled():
    reports = []
    parameters = {"learning_rate": 0.25, "method__growth": 0.0, "method__entry": 6.0}
    points = Points(parameters, lambda *report: reports.append((iteration, *report)))
    for iteration in range(40):
        points(Record(iteration, iteration, 1.0, 2.0 + (iteration - 10) ** 2))
    assert reports == [(4, 0, 38.0), (8, 1, 6.0), (16, 2, 2.0), (32, 3, 2.0)]
    reports.clear()
    faster = parameters | {"method__growth": 1.0, "method__entry": 2.0}
    growing = Points(faster, lambda *report: reports.append(report))
    for iteration in range(4):
        growing(Record(iteration, iteration, 1.0, 1.0))  # 0.25, 0.5, 0.5, the maximum
    assert reports == [(0, 1.0)]


def test_verdicts(classes, tmp_path):
    tuned = replace(run(classes, tmp_path / "study", trials=1), n_test=100)
    assert tuned.verdict == "No trial had a lower validation loss than the default."

    def said(value, half):
        return replace(
            tuned, is_default=False, gain=Metric("log loss", value, value - half, value + half, lower_is_better=False)
        ).verdict

    assert said(0.5, 0.25) == "The log loss on 100 test rows is lower than the default's by 0.5 [0.25, 0.75]."
    assert said(0.25, 0.5) == (
        "No significant gain on 100 test rows: the default's log loss minus the tuned one's is 0.25 [-0.25, 0.75]."
    )
    assert said(-0.5, 0.25).startswith(
        "The log loss on 100 test rows is higher than the default's by 0.5 [0.25, 0.75]:"
    )
