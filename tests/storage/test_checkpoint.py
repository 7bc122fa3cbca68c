"""Checkpoints: runs that are saved, interrupted or killed, and resumed."""

import errno
import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, Ridge

from agbm import AGBMClassifier, AGBMRegressor, Batches, Checkpoint
from agbm._base.identity import fingerprint
from agbm._storage.container import ModelFileError
from agbm.losses import HalfSquaredError
from agbm.methods import Fading
from toys import damage, rewrite, stop_at
from variants import made, methods, shared, strategies


@contextmanager
def naming(path):
    """An error, if there is one, must say which file is damaged, and what to do."""
    caught = None
    try:
        yield
    except ModelFileError as error:
        caught = str(error)
    assert caught is None or (str(path) in caught and "Remove it, or use another path" in caught)


def small_run(folder):
    """The checkpoint of a run, its model and its rows."""
    path = folder / "run"
    X, y = load_diabetes(return_X_y=True)
    model = AGBMRegressor(max_iter=3, max_depth=2, n_members=2, callbacks=[Checkpoint(path, every=2)])
    path.write_bytes(bytes_of_small_run())
    return path, model, X, y


@cache
def bytes_of_small_run():
    """The checkpoint: every example starts from the same one."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        model = AGBMRegressor(max_iter=3, max_depth=2, n_members=2, callbacks=[Checkpoint(path, every=2)])
        model.fit(*load_diabetes(return_X_y=True))
        return path.read_bytes()


class TestResuming:
    @pytest.mark.slow
    @methods
    @shared
    @pytest.mark.parametrize(
        "more",
        [
            {},
            {"early_stopping": True, "n_iter_no_change": 40},
            {"subsample": 0.5, "colsample_bynode": 0.5, "dropout": 0.1},
            {"momentum": "theory"},
            {"momentum": 0.1},
            {"momentum": "fading", "colsample_bytree": 0.5},
        ],
        ids=str,
    )
    def test_same_bits_as_a_run_that_was_never_interrupted(self, regression, tmp_path, method, shared_structure, more):
        X, y = regression
        of_method = {name: value for name, value in more.items() if name in ("momentum", "dropout")}
        more = {name: value for name, value in more.items() if name not in of_method}
        method = made(method, shared_structure=shared_structure, **of_method)
        model = AGBMRegressor(method=method, max_iter=30, max_depth=3, random_state=0, **more)
        whole = clone(model).fit(X, y)
        path = tmp_path / "run"
        for interrupted in (3, 8, 17):  # nothing saved yet; saved at 5; saved at 15
            with pytest.raises(KeyboardInterrupt):
                clone(model).set_params(callbacks=[Checkpoint(path, every=5), stop_at(interrupted)]).fit(X, y)
        seen = []
        resumed = clone(model).set_params(callbacks=[Checkpoint(path, every=5), seen.append]).fit(X, y)
        assert seen[0].iteration == 16, "callbacks see what is new"
        assert np.array_equal(resumed.predict(X), whole.predict(X))
        assert resumed.best_iteration_ == whole.best_iteration_
        assert resumed.n_trees_ == whole.n_trees_
        for name in ("train_loss", "validation_loss", "cosine_residual", "cosine_corrected", "momentum", "restart"):
            assert np.array_equal(resumed.history_[name], whole.history_[name], equal_nan=True), name

    def test_restarts_with_momentum_from_the_theorem(self, regression, tmp_path):
        """A learner without weight is dropped at a restart, and its cosine still counts when the run is repeated."""
        X, y = regression
        model = AGBMRegressor(
            method=made("agbmr", momentum="theory", correction=1.0, shared_structure=False),
            learning_rate=2.0,
            max_iter=40,
            max_depth=3,
            min_samples_leaf=2,
            l2_regularization=0.0,
            colsample_bytree=1.0,
        )
        whole = clone(model).fit(X, y)
        assert whole.history_["restart"][:30].sum() >= 1
        with pytest.raises(KeyboardInterrupt):
            clone(model).set_params(callbacks=[Checkpoint(tmp_path / "run", every=30), stop_at(31)]).fit(X, y)
        resumed = clone(model).set_params(callbacks=[Checkpoint(tmp_path / "run", every=30)]).fit(X, y)
        assert np.array_equal(resumed.history_["momentum"], whole.history_["momentum"], equal_nan=True)
        assert np.array_equal(resumed.predict(X), whole.predict(X))

    @strategies
    def test_classes_categories_and_weights(self, tmp_path, strategy):
        X, y = load_iris(return_X_y=True)
        table = pd.DataFrame({"a": X[:, 0], "kind": [f"k{i % 7}" for i in range(150)], "b": X[:, 2]})
        weight = np.arange(150) % 3 + 0.5
        model = AGBMClassifier(multi_strategy=strategy, max_iter=12, class_weight="balanced")
        whole = clone(model).fit(table, y, sample_weight=weight)
        saving = clone(model).set_params(callbacks=[Checkpoint(tmp_path / "run", every=1), stop_at(7)])
        with pytest.raises(KeyboardInterrupt):
            saving.fit(table, y, sample_weight=weight)
        resumed = clone(model).set_params(callbacks=[Checkpoint(tmp_path / "run")]).fit(table, y, sample_weight=weight)
        assert np.array_equal(resumed.decision_function(table), whole.decision_function(table))

    def test_more_iterations_with_a_random_seed(self, regression, tmp_path):
        X, y = regression
        model = AGBMRegressor(
            max_iter=10, subsample=0.5, early_stopping=False, random_state=None,
            callbacks=[Checkpoint(tmp_path / "run", every=10)],
        )  # fmt: skip
        short = clone(model).fit(X, y)
        long = clone(model).set_params(max_iter=20, n_jobs=1, verbose=0).fit(X, y)
        np.testing.assert_allclose(list(long.staged_predict(X))[9], short.predict(X), rtol=1e-12)
        again = clone(model).set_params(max_iter=20).fit(X, y)
        assert np.array_equal(again.predict(X), long.predict(X))

    def test_warm_start_with_more_iterations(self, regression, tmp_path):
        X, y = regression
        whole = AGBMRegressor(max_iter=30).fit(X, y).predict(X)
        model = AGBMRegressor(max_iter=10, warm_start=True, callbacks=[Checkpoint(tmp_path / "run", every=10)]).fit(
            X, y
        )
        assert np.array_equal(model.set_params(max_iter=30).fit(X, y).predict(X), whole)


KILLED = """
    import sys, time
    import numpy as np
    from sklearn.datasets import load_diabetes
    from agbm import AGBMRegressor, Checkpoint
    from agbm.methods import AGBM
    X, y = load_diabetes(return_X_y=True)
    def say(record):
        print(record.iteration, flush=True)
        time.sleep(0.002)  # so that no machine has finished before the process is killed
    model = AGBMRegressor(
        method=AGBM(second_order=True), max_iter=200, max_depth=4, subsample=0.7, random_state=0, n_members=2,
        callbacks=[Checkpoint(sys.argv[1], every=1), say],
    )
    np.save(sys.argv[2], model.fit(X, y).predict(X))
"""


@pytest.mark.slow
def test_killed_run_resumes_to_the_same_bits(tmp_path):
    """SIGKILL at random moments, such as while a checkpoint is written; then the same model as without."""

    def run(path, out, seconds=None):
        """Run to the end, or for some seconds after the first iteration; returns the first iteration."""
        command = [sys.executable, "-c", textwrap.dedent(KILLED), str(path), str(out)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            first = int(process.stdout.readline())
            if seconds is None:
                process.communicate(timeout=120)
                assert process.returncode == 0
            else:
                time.sleep(seconds)
                process.send_signal(signal.SIGKILL)
        return first

    run(tmp_path / "whole", tmp_path / "whole.npy")
    rng = np.random.default_rng(0)
    reached = 0
    for _ in range(3):
        first = run(tmp_path / "run", tmp_path / "run.npy", rng.uniform(0.0, 0.1))
        assert first >= reached, "nothing that was saved is lost"
        reached = first
    assert run(tmp_path / "run", tmp_path / "run.npy") > 0
    assert np.array_equal(np.load(tmp_path / "run.npy"), np.load(tmp_path / "whole.npy"))


class TestFiles:
    def test_only_the_checkpoint_is_left(self, regression, tmp_path):
        X, y = regression
        AGBMRegressor(max_iter=10, callbacks=[Checkpoint(tmp_path / "run", every=3)]).fit(X, y)
        assert [path.name for path in tmp_path.iterdir()] == ["run"]

    @pytest.mark.parametrize(
        "change",
        [{"learning_rate": 0.2}, {"method": "gbm"}, {"max_depth": 2}, {"random_state": 1}, {"loss": "absolute_error"}],
        ids=str,
    )
    def test_checkpoint_of_another_run_is_refused(self, regression, tmp_path, change):
        X, y = regression
        model = AGBMRegressor(max_iter=4, random_state=0, callbacks=[Checkpoint(tmp_path / "run", every=2)]).fit(X, y)
        before = (tmp_path / "run").read_bytes()
        with pytest.raises(ValueError, match=r"run is the checkpoint of a run with other data or other parameters"):
            clone(model).set_params(**change).fit(X, y)
        for other_X, other_y in ((X[::-1], y), (X, y + 1), (X[:-1], y[:-1])):
            with pytest.raises(ValueError, match="other data"):
                clone(model).fit(other_X, other_y)
        assert (tmp_path / "run").read_bytes() == before

    def test_checkpoint_of_other_features_is_refused(self, tmp_path):
        """The same numbers may be text in a table, belong to other names, or to fewer columns."""
        rng = np.random.default_rng(0)
        numbers = pd.DataFrame({"a": rng.permutation([0.0, 0.0, 0.0, 1.0, 1.0] * 60), "b": rng.random(300)})
        text = numbers.assign(a=np.where(numbers["a"] == 0.0, "x", "y"))
        sparse = csr_array(numbers.to_numpy())
        wider = csr_array((sparse.data, sparse.indices, sparse.indptr), shape=(300, 3))
        y = numbers["b"] + numbers["a"]
        for i, (one, other) in enumerate(
            [(text, numbers), (numbers, numbers.rename(columns={"a": "b", "b": "a"})), (sparse, wider)]
        ):
            model = AGBMRegressor(max_iter=2, callbacks=[Checkpoint(tmp_path / f"run{i}", every=1)])
            clone(model).fit(one, y)
            with pytest.raises(ValueError, match="other data or other parameters"):
                clone(model).fit(other, y)

    def test_checkpoint_of_other_categories_in_batches_is_refused(self, tmp_path):
        kind = np.array([["abc"[i % 3]] for i in range(300)], dtype=object)
        swapped = kind.copy()
        swapped[[0, 1]] = swapped[[1, 0]]
        y = np.arange(300) % 3 * 1.0
        model = AGBMRegressor(max_iter=2, callbacks=[Checkpoint(tmp_path / "run", every=1)])
        clone(model).fit(Batches(lambda: iter([(kind[:100], y[:100]), (kind[100:], y[100:])])))
        clone(model).fit(Batches(lambda: iter([(kind, y)])))  # in other pieces
        with pytest.raises(ValueError, match="other data or other parameters"):
            clone(model).fit(Batches(lambda: iter([(swapped, y)])))

    def test_other_validation_rows(self, regression, tmp_path):
        """Trees do not depend on them: a run resumes as if it had them from the start."""
        X, y = regression
        model = AGBMRegressor(max_iter=8, early_stopping=True, n_iter_no_change=20)
        saving = clone(model).set_params(max_iter=4, callbacks=[Checkpoint(tmp_path / "run", every=2)])
        saving.fit(X, y, X_val=X[:50], y_val=y[:50])
        resumed = saving.set_params(max_iter=8).fit(X, y, X_val=X[50:], y_val=y[50:])
        whole = model.fit(X, y, X_val=X[50:], y_val=y[50:])
        assert np.array_equal(resumed.history_["validation_loss"], whole.history_["validation_loss"])
        assert np.array_equal(resumed.predict(X), whole.predict(X))

    def test_init_models_on_batches(self, regression, tmp_path):
        X, y = regression
        rows = Batches(lambda: iter([(X, y)]))
        model = AGBMRegressor(max_iter=2, callbacks=[Checkpoint(tmp_path / "run", every=1)])
        model.set_params(init=LinearRegression().fit(X, y)).fit(rows)
        with pytest.raises(ValueError, match="other data or other parameters"):
            model.set_params(init=LinearRegression().fit(X, y * 1.001)).fit(rows)

    def test_damaged_files(self, regression, tmp_path):
        X, y = regression
        path = tmp_path / "run"
        model = AGBMRegressor(max_iter=4, callbacks=[Checkpoint(path, every=2)]).fit(X, y)
        whole = path.read_bytes()
        for damaged in (b"", b"not a checkpoint", whole[: len(whole) // 2], whole[:-30]):
            path.write_bytes(damaged)
            with pytest.raises(ValueError, match=r"The checkpoint .* cannot be read"):
                clone(model).fit(X, y)

    @pytest.mark.slow
    @given(data=st.data())
    def test_invalid_numbers(self, tmp_path_factory, data):
        """Whatever a file contains: an error that names it, or a run that resumes; never a crash."""
        path, model, X, y = small_run(tmp_path_factory.mktemp("damaged"))

        def change(description, arrays):
            name = data.draw(st.sampled_from([*sorted(arrays), "seed"]))
            if name == "seed":
                description["seed"] = data.draw(st.sampled_from([-1, 2**80, None, "one", 0.5]))
            elif arrays[name].size:
                arrays[name] = damage(data, arrays[name])
            else:
                del arrays[name]

        rewrite(path, change)
        with naming(path), suppress(ConvergenceWarning):
            model.fit(X, y)

    @pytest.mark.slow
    @given(data=st.data())
    def test_changed_or_truncated_bytes(self, tmp_path_factory, data):
        path, model, X, y = small_run(tmp_path_factory.mktemp("damaged"))
        content = bytearray(path.read_bytes())
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] ^= data.draw(st.integers(1, 255))
        path.write_bytes(data.draw(st.sampled_from([bytes(content), bytes(content[:place]), bytes(content) + b"\0"])))
        with naming(path):
            model.fit(X, y)

    def test_code_in_a_file_is_not_run(self, regression, tmp_path):
        X, y = regression

        class Boom:
            def __reduce__(self):
                return os.remove, (str(tmp_path / "victim"),)

        (tmp_path / "victim").touch()
        with open(tmp_path / "run", "wb") as file:
            np.savez(file, format=1, identity=np.array([Boom()], dtype=object))
        with pytest.raises(ValueError, match=r"The checkpoint .* cannot be read"):
            AGBMRegressor(callbacks=[Checkpoint(tmp_path / "run")]).fit(X, y)
        assert (tmp_path / "victim").exists()

    def test_no_such_folder(self, regression, tmp_path):
        X, y = regression
        with pytest.raises(FileNotFoundError, match=r"every=3\): there is no folder .*nowhere"):
            AGBMRegressor(callbacks=[Checkpoint(tmp_path / "nowhere" / "run", every=3)]).fit(X, y)

    @pytest.mark.parametrize("how", ["refused", "folder"])
    def test_unwritable_path_is_refused_before_training(self, regression, tmp_path, monkeypatch, how):
        X, y = regression
        path = tmp_path / "run"
        seen = []

        def refuse(*args, **kwargs):
            raise PermissionError(errno.EACCES, "Permission denied")

        if how == "refused":
            monkeypatch.setattr(Path, "touch", refuse)  # as root, no folder is read-only
            message = r"run', every=10\): cannot write a file in .* \(Permission denied\); use another path"
        else:
            path.mkdir()
            message = r"run', every=10\): .* is a folder; use the path of a file"
        with pytest.raises(OSError, match=message):
            AGBMRegressor(callbacks=[Checkpoint(path), seen.append]).fit(X, y)
        assert not seen

    def test_training_survives_a_full_disk(self, regression, tmp_path, monkeypatch):
        X, y = regression
        model = AGBMRegressor(max_iter=4, callbacks=[Checkpoint(tmp_path / "run", every=3)])

        def full(*args, **kwargs):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.warns(RuntimeWarning, match="could not save iteration 3"):
            model.fit(X, y)
        assert np.array_equal(model.predict(X), AGBMRegressor(max_iter=4).fit(X, y).predict(X)), "training went on"
        assert list(tmp_path.iterdir()) == []

    def test_other_learners_cannot_be_saved(self, regression, tmp_path):
        X, y = regression
        with pytest.raises(TypeError, match=r"Checkpoint saves trees only; got learner=Ridge\(\)"):
            AGBMRegressor(method=Fading(learner=Ridge()), callbacks=[Checkpoint(tmp_path / "run")]).fit(X, y)

    def test_checkpoint_of_other_weights_or_init_is_refused(self, regression, tmp_path):
        X, y = regression
        model = AGBMRegressor(max_iter=2, callbacks=[Checkpoint(tmp_path / "run", every=1)])
        start = LinearRegression().fit(X, y)
        clone(model).set_params(init=FrozenEstimator(start)).fit(X, y, sample_weight=np.arange(len(y)) + 1.0)
        with pytest.raises(ValueError, match="other data"):
            clone(model).set_params(init=FrozenEstimator(start)).fit(X, y, sample_weight=np.arange(len(y)) + 2.0)
        other = LinearRegression().fit(X, 2 * y)  # prints the same
        with pytest.raises(ValueError, match="other data"):
            clone(model).set_params(init=FrozenEstimator(other)).fit(X, y, sample_weight=np.arange(len(y)) + 1.0)

    def test_fingerprints_of_parameters(self):
        class Mine(HalfSquaredError):
            __repr__ = object.__repr__

            def __init__(self, scale):
                self.scale = scale

        assert fingerprint(Mine(2.0)) == fingerprint(Mine(2.0)) != fingerprint(Mine(3.0))
        mask = np.zeros(5000, dtype=bool)
        other = mask.copy()
        other[2500] = True
        assert fingerprint({"a": [mask]}) != fingerprint({"a": [other]})

    @pytest.mark.parametrize("every", [0, -1, 2.5, "often", True])
    def test_every_must_be_a_positive_integer(self, every):
        with pytest.raises(ValueError, match=r"every=.*positive integer"):
            Checkpoint("run", every=every)
