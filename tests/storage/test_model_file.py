"""Model files: saving, and the same model after loading, also from files of earlier versions."""

import datetime
import errno
import json
import os
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LinearRegression, Ridge

import agbm
from agbm import AGBMClassifier, AGBMRegressor, losses
from agbm._labels.base import Classes
from agbm._storage import container as model_file
from agbm.methods import Fading
from mixed_tables import labels, table
from variants import made, methods, strategies

KEPT = Path(__file__).parent / "model_files"


def saved_and_loaded(model, tmp_path):
    model.save(tmp_path / "m.agbm")
    return agbm.load(tmp_path / "m.agbm")


def assert_same_model(loaded, model, X):
    """To the last bit, in everything that can be asked of it."""
    assert type(loaded) is type(model)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    outputs = [loaded.staged_predict, model.staged_predict]
    if isinstance(model, AGBMClassifier):
        np.testing.assert_array_equal(loaded.classes_, model.classes_)
        assert loaded.classes_.dtype.kind == model.classes_.dtype.kind
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
        outputs = [loaded.staged_predict_proba, model.staged_predict_proba]
    for ours, theirs in zip(*(staged(X) for staged in outputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(loaded.feature_importances_, model.feature_importances_)
    for name, column in model.history_.items():
        expected = np.full(len(column), np.nan) if name == "seconds" else column
        np.testing.assert_array_equal(loaded.history_[name], expected)
        assert loaded.history_[name].dtype == column.dtype
    for name in ("n_features_in_", "n_iter_", "best_iteration_", "n_trees_"):
        assert getattr(loaded, name) == getattr(model, name)
    if hasattr(model, "feature_names_in_"):
        assert loaded.feature_names_in_.tolist() == model.feature_names_in_.tolist()


class TestRoundTrip:
    @pytest.mark.slow
    @methods
    def test_methods(self, method, tmp_path):
        X, y = load_diabetes(return_X_y=True)
        model = AGBMRegressor(method=method, max_iter=12, subsample=0.7).fit(X, y)
        loaded = saved_and_loaded(model, tmp_path)
        assert_same_model(loaded, model, X)
        assert loaded.get_params() == model.get_params()

    @pytest.mark.slow
    @pytest.mark.parametrize("parameters", [
        {"method": made("agbm", shared_structure=False, momentum=0.2)},
        {"method": made("agbm", momentum=0.2, correction=1.0)},
        {"method": made("agbmr", momentum=0.5), "learning_rate": 0.5},
        {"method": made("agbmr", shared_structure=False, momentum=1.0, dropout=0.2), "learning_rate": 1.0},
        {"method": made("agbmr", shared_structure=False, restart="gradient", momentum=1.0), "early_stopping": True},
        {"method": "agbm", "early_stopping": True, "n_iter_no_change": 3, "learning_rate": 1.0},
        {"method": Fading(dropout=0.3)},
        {"early_stopping": True, "n_iter_no_change": 3},
        {"max_leaf_nodes": 7, "max_depth": None},
        {"monotonic_cst": np.eye(1, 10, dtype=int)[0]},
        {"interaction_cst": [{0, 1}, (2, 3)]},
    ], ids=str)  # fmt: skip
    def test_parameters(self, parameters, tmp_path):
        X, y = load_diabetes(return_X_y=True)
        model = AGBMRegressor(max_iter=15, **parameters).fit(X, y)
        assert_same_model(saved_and_loaded(model, tmp_path), model, X)

    @pytest.mark.slow
    @pytest.mark.parametrize("loss", [
        "squared_error", "absolute_error", "poisson", "gamma", losses.Quantile(0.9), losses.Huber(10.0),
        losses.Tweedie(1.2),
    ], ids=str)  # fmt: skip
    def test_losses(self, loss, tmp_path):
        X, y = load_diabetes(return_X_y=True)
        model = AGBMRegressor(loss=loss, max_iter=5).fit(X, y)
        loaded = saved_and_loaded(model, tmp_path)
        assert_same_model(loaded, model, X)
        assert repr(loaded.model_.loss) == repr(model.model_.loss)
        assert repr(loaded.loss) == repr(model.loss)

    @pytest.mark.parametrize("loss", ["log_loss", "exponential"])
    def test_two_classes(self, loss, tmp_path):
        X, y = load_breast_cancer(return_X_y=True)
        model = AGBMClassifier(loss=loss, max_iter=5, class_weight={0: 2.0, 1: 1.0}).fit(X, y)
        loaded = saved_and_loaded(model, tmp_path)
        assert_same_model(loaded, model, X)
        assert loaded.class_weight == {0: 2.0, 1: 1.0}

    @pytest.mark.slow
    @strategies
    @pytest.mark.parametrize("names", [
        [0, 1, 2], [-1.0, 0.0, 2.0], ["a", "b", "c"], np.array(["x", "yy", "zzz"], dtype=object),
    ], ids=str)  # fmt: skip
    def test_classes(self, strategy, names, tmp_path):
        X, y = load_iris(return_X_y=True)
        model = AGBMClassifier(max_iter=4, multi_strategy=strategy).fit(X, np.asarray(names)[y])
        assert_same_model(saved_and_loaded(model, tmp_path), model, X)

    def test_booleans(self, tmp_path):
        X, y = load_breast_cancer(return_X_y=True)
        model = AGBMClassifier(max_iter=3).fit(X, y == 1)
        assert_same_model(saved_and_loaded(model, tmp_path), model, X)

    @strategies
    def test_many_outputs(self, strategy, tmp_path):
        X, y = load_diabetes(return_X_y=True)
        model = AGBMRegressor(max_iter=4, multi_strategy=strategy, method="agbm").fit(X, np.column_stack([y, -y, y**2]))
        assert_same_model(saved_and_loaded(model, tmp_path), model, X)

    def test_tables(self, tmp_path):
        X = table()
        model = AGBMRegressor(max_iter=20).fit(X, labels(X))
        new = table(100, seed=1)
        new.loc[3, "text"] = "never seen"
        new.loc[4, "text"] = None
        assert_same_model(saved_and_loaded(model, tmp_path), model, new)

    @pytest.mark.slow
    def test_names_and_categories_have_no_limit(self, tmp_path, monkeypatch):
        """They are not in the description, whose size is limited."""
        monkeypatch.setattr(model_file, "LARGEST_DESCRIPTION", 4000)
        rng = np.random.default_rng(0)
        X = pd.DataFrame(rng.normal(size=(3000, 300)), columns=[f"column {i}" for i in range(300)])
        X["column 0"] = [f"user-{i:09d}" for i in range(len(X))]
        y = rng.choice([f"class {i}" for i in range(3)], len(X))
        model = AGBMClassifier(max_iter=1).fit(X, y)
        assert_same_model(saved_and_loaded(model, tmp_path), model, X)

    def test_sparse_and_float32(self, tmp_path):
        X, y = load_diabetes(return_X_y=True)
        X = X.astype(np.float32)
        model = AGBMRegressor(max_iter=5).fit(X, y)
        assert_same_model(saved_and_loaded(model, tmp_path), model, X)

    def test_models_without_trees(self, tmp_path):
        X = np.arange(200.0)[:, np.newaxis]
        model = AGBMRegressor(method="gbm", learning_rate=1.0, early_stopping=True)
        model.fit(X, X[:, 0], X_val=X, y_val=-X[:, 0])
        assert model.best_iteration_ == 0
        loaded = saved_and_loaded(model, tmp_path)
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        np.testing.assert_array_equal(loaded.predictor()(X), model.predict(X))

    @pytest.mark.slow
    @methods
    def test_loaded_models_continue_training(self, method, tmp_path):
        """From a loaded model to the model of one long fit."""
        X, y = load_diabetes(return_X_y=True)
        model = AGBMRegressor(method=method, max_iter=6, colsample_bytree=0.5).fit(X, y)
        loaded = saved_and_loaded(model, tmp_path).set_params(max_iter=14, warm_start=True).fit(X, y)
        whole = clone(model).set_params(max_iter=14).fit(X, y)
        np.testing.assert_array_equal(loaded.predict(X), whole.predict(X))

    def test_notes_are_saved(self, tmp_path):
        X, y = load_diabetes(return_X_y=True)
        model = AGBMRegressor(max_iter=2).fit(X, y)
        assert model.notes_ == {}
        model.save(tmp_path / "without.agbm")
        model.notes_["command"] = 'agbm train "é.csv"'
        loaded = saved_and_loaded(model, tmp_path)
        assert loaded.notes_ == {"command": 'agbm train "é.csv"'}
        loaded.notes_.clear()
        loaded.save(tmp_path / "again.agbm")
        assert (tmp_path / "again.agbm").read_bytes() == (tmp_path / "without.agbm").read_bytes()
        model.fit(X, y)
        assert model.notes_ == {}
        model.notes_["rows"] = len(X)
        with pytest.raises(TypeError, match=r"notes_=.*str to str"):
            model.save(tmp_path / "m.agbm")

    def test_runtime_parameters_are_not_saved(self, tmp_path):
        X, y = load_diabetes(return_X_y=True)
        model = AGBMRegressor(max_iter=3, callbacks=[print], random_state=np.random.RandomState(3), verbose=0)
        loaded = saved_and_loaded(model.fit(X, y), tmp_path)
        assert loaded.callbacks is None
        assert loaded.random_state is None
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))

    def test_loaded_models_are_ordinary_estimators(self, tmp_path):
        X, y = load_diabetes(return_X_y=True)
        loaded = saved_and_loaded(AGBMRegressor(max_iter=3).fit(X, y), tmp_path)
        again = saved_and_loaded(loaded, tmp_path)
        np.testing.assert_array_equal(again.predict(X), loaded.predict(X))
        assert clone(loaded).fit(X, y).n_iter_ == 3
        assert (tmp_path / "m.agbm").read_bytes() == self.written_twice(loaded, tmp_path)

    def written_twice(self, model, tmp_path):
        model.save(tmp_path / "again.agbm")
        return (tmp_path / "again.agbm").read_bytes()

    @pytest.mark.slow
    def test_loading_in_another_process(self, tmp_path):
        X, y = load_breast_cancer(return_X_y=True)
        model = AGBMClassifier(max_iter=5).fit(X, y)
        model.save(tmp_path / "m.agbm")
        code = "import agbm, sys, numpy as np; from sklearn.datasets import load_breast_cancer as d; " \
               "np.save(sys.argv[2], agbm.load(sys.argv[1]).predict_proba(d(return_X_y=True)[0]))"  # fmt: skip
        subprocess.run([sys.executable, "-c", code, tmp_path / "m.agbm", tmp_path / "p.npy"], check=True)
        np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), model.predict_proba(X))


class TestFilesOfEarlierVersions:
    """They stay loadable, and predict the same values."""

    @pytest.mark.parametrize("path", sorted(KEPT.glob("*.agbm")), ids=lambda path: path.stem)
    def test_predictions(self, path):
        model = agbm.load(path)
        X = table(40, seed=5)
        expected = np.array(json.loads(path.with_suffix(".json").read_text()))
        found = model.predict_proba(X) if isinstance(model, AGBMClassifier) else model.predict(X)
        np.testing.assert_array_equal(found, expected)

    def test_stored_files_exist(self):
        assert {"1-regressor", "1-classifier", "1-histogram"} <= {path.stem for path in KEPT.glob("*.agbm")}


class TestSaving:
    def test_unfitted(self, tmp_path):
        with pytest.raises(NotFittedError):
            AGBMRegressor().save(tmp_path / "m.agbm")

    def test_unsupported_models_are_refused(self, regression, tmp_path):
        X, y = regression

        class Mine(losses.HalfSquaredError):
            pass

        for model, message in (
            (
                AGBMRegressor(method=Fading(learner=Ridge()), max_iter=2),
                r"learner=Ridge\(\): model files support only trees; pickle",
            ),
            (AGBMRegressor(init=LinearRegression().fit(X, y), max_iter=2), r"init=LinearRegression\(\): .* pickle"),
            (AGBMRegressor(loss=Mine(), max_iter=2), r"loss=Mine\(\) is not one of agbm.losses"),
        ):
            with pytest.raises(ValueError, match=message):
                model.fit(X, y).save(tmp_path / "m.agbm")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize(("classes", "message"), [
        (np.array(["2020-01-01", "2020-01-02", "2020-01-03"], "datetime64[D]"), r"classes of type datetime64\[D\]"),
        (np.array([b"a", b"b", b"c"]), r"y: classes of type \|S1"),
        (np.array([Decimal(1), Decimal(2), Decimal(3)]), r"y: the class Decimal\('1'\) is of type Decimal"),
    ], ids=str)  # fmt: skip
    def test_classes_that_cannot_be_saved(self, classes, message, tmp_path):
        X, y = load_iris(return_X_y=True)
        codes = AGBMClassifier(max_iter=2).fit(X, y)
        # scikit-learn's checks refuse some of them in fit, depending on its version.
        codes.model_ = replace(codes.model_, labels=Classes(classes))
        with pytest.raises(ValueError, match=message):
            codes.save(tmp_path / "m.agbm")

    @pytest.mark.parametrize("values", [
        [("x", 1), ("y", 2)], [b"x", b"y"], [Decimal(1), Decimal(2)],
        [datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)],
    ], ids=str)  # fmt: skip
    def test_categories_that_cannot_be_saved(self, values, tmp_path):
        column = np.empty((100, 1), dtype=object)
        column[:, 0] = values * 50
        model = AGBMRegressor(max_iter=2, categorical_features=[0]).fit(column, np.arange(100.0) % 2)
        with pytest.raises(ValueError, match=r"X: the category .* which cannot be saved in a model file; use"):
            model.save(tmp_path / "m.agbm")

    def test_models_that_load_would_refuse_are_not_saved(self, regression, tmp_path):
        """Subclasses, parameters that fit would refuse, and attributes that were changed."""
        X, y = regression

        class Mine(AGBMRegressor):
            pass

        def changed(**attributes):
            model = AGBMRegressor(max_iter=2).fit(X, y)
            model.__dict__.update(attributes)
            return model

        deep = []
        for _ in range(5000):
            deep = [deep]
        path = tmp_path / "m.agbm"
        AGBMRegressor(max_iter=1).fit(X, y).save(path)
        before = path.read_bytes()
        for model, message in (
            (Mine(max_iter=2).fit(X, y), "Mine cannot be saved: model files contain no code"),
            (
                AGBMRegressor(max_iter=2, n_iter_no_change=10**20).fit(X, y),
                "n_iter_no_change=1000.*: this value of",
            ),
            (changed(n_jobs=0), "cannot be saved, because .*: parameters: The 'n_jobs' parameter .* Got 0 instead.$"),
            (changed(method=Fading(learner=Ridge())), r"learner=Ridge\(\): this value of type Ridge cannot be saved"),
            (changed(interaction_cst=deep), "nested too deeply"),
            (changed(categorical_features=[b"a"]), "categorical_features=.*: this value of type bytes cannot be saved"),
            (changed(notes_={"a": "x" * 2**24}), "most of them for 'notes'; at most 16777216"),
        ):
            with pytest.raises((ValueError, TypeError), match=message):
                model.save(path)
            assert path.read_bytes() == before
        assert [file.name for file in tmp_path.iterdir()] == ["m.agbm"]

    def test_full_disk_keeps_the_old_file(self, regression, tmp_path, monkeypatch):
        X, y = regression
        model = AGBMRegressor(max_iter=2).fit(X, y)
        model.save(tmp_path / "m.agbm")
        before = (tmp_path / "m.agbm").read_bytes()

        def full(*args):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            AGBMRegressor(max_iter=3).fit(X, y).save(tmp_path / "m.agbm")
        assert (tmp_path / "m.agbm").read_bytes() == before
        assert [path.name for path in tmp_path.iterdir()] == ["m.agbm"]

    def test_links_modes_and_long_names(self, regression, tmp_path):
        X, y = regression
        model = AGBMRegressor(max_iter=2).fit(X, y)
        real, link = tmp_path / "real.agbm", tmp_path / "link.agbm"
        model.save(real)
        real.chmod(0o600)
        link.symlink_to(real)
        model.set_params(max_iter=3).fit(X, y).save(link)
        assert link.is_symlink()
        assert agbm.load(real).n_iter_ == 3
        assert real.stat().st_mode & 0o777 == 0o600
        model.save(os.fsencode(tmp_path / ("n" * 240)))
        assert agbm.load(tmp_path / ("n" * 240)).n_iter_ == 3
        with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere; create it"):
            model.save(tmp_path / "nowhere" / "m.agbm")

    def test_loaded_model_survives_the_replacement_of_its_file(self, regression, tmp_path):
        X, y = regression
        model = AGBMRegressor(max_iter=4).fit(X, y)
        loaded = saved_and_loaded(model, tmp_path)
        AGBMRegressor(max_iter=1).fit(X, y).save(tmp_path / "m.agbm")
        assert_same_model(loaded, model, X)


def test_diverged_models_can_be_saved(regression, tmp_path):
    X, y = regression
    with pytest.warns(ConvergenceWarning):
        model = AGBMRegressor(method="gbm", learning_rate=5.0, max_iter=200).fit(X, y)
    assert_same_model(saved_and_loaded(model, tmp_path), model, X)
