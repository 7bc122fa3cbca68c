"""Model files: the same model after loading, and nothing but an error from a file that breaks a rule."""

import datetime
import errno
import json
import os
import shutil
import struct
import subprocess
import sys
import zlib
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LinearRegression, Ridge

import agbm
from agbm import AGBMClassifier, AGBMRegressor, Checkpoint, ModelFileError, losses
from agbm._labels.base import Classes
from agbm._storage import container as model_file
from agbm._storage import values as stored_values
from agbm._storage.columns import category_arrays
from agbm._tree.forest import NODE
from agbm.methods import Fading
from toys import damage, rewrite
from variants import made, methods, strategies

KEPT = Path(__file__).parent / "model_files"
KEPT_FILE = KEPT / "1-classifier.agbm"


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "number": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "text": rng.choice(["a", "b", "c d", "é"], n),
            "category": pd.Categorical(rng.choice([3, 1, 7], n)),
            "other": rng.normal(size=n),
        }
    )


def labels(X):
    return X["other"] + (X["text"] == "b") + 0.3 * (X["category"] == 7) + X["number"].fillna(0.5)


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

    def test_nothing_better_than_the_start(self, tmp_path):
        X = np.arange(200.0)[:, np.newaxis]
        model = AGBMRegressor(method="gbm", learning_rate=1.0, early_stopping=True)
        model.fit(X, X[:, 0], X_val=X, y_val=-X[:, 0])
        assert model.best_iteration_ == 0
        loaded = saved_and_loaded(model, tmp_path)
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        np.testing.assert_array_equal(loaded.predictor()(X), model.predict(X))

    @pytest.mark.slow
    @methods
    def test_training_goes_on(self, method, tmp_path):
        """From a loaded model to the model of one long fit."""
        X, y = load_diabetes(return_X_y=True)
        model = AGBMRegressor(method=method, max_iter=6, colsample_bytree=0.5).fit(X, y)
        loaded = saved_and_loaded(model, tmp_path).set_params(max_iter=14, warm_start=True).fit(X, y)
        whole = clone(model).set_params(max_iter=14).fit(X, y)
        np.testing.assert_array_equal(loaded.predict(X), whole.predict(X))

    def test_notes_travel_with_the_model(self, tmp_path):
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

    def test_what_is_of_the_process_is_not_saved(self, tmp_path):
        X, y = load_diabetes(return_X_y=True)
        model = AGBMRegressor(max_iter=3, callbacks=[print], random_state=np.random.RandomState(3), verbose=0)
        loaded = saved_and_loaded(model.fit(X, y), tmp_path)
        assert loaded.callbacks is None
        assert loaded.random_state is None
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))

    def test_a_loaded_model_is_an_ordinary_one(self, tmp_path):
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
    def test_loading_in_a_process_of_its_own(self, tmp_path):
        X, y = load_breast_cancer(return_X_y=True)
        model = AGBMClassifier(max_iter=5).fit(X, y)
        model.save(tmp_path / "m.agbm")
        code = "import agbm, sys, numpy as np; from sklearn.datasets import load_breast_cancer as d; " \
               "np.save(sys.argv[2], agbm.load(sys.argv[1]).predict_proba(d(return_X_y=True)[0]))"  # fmt: skip
        subprocess.run([sys.executable, "-c", code, tmp_path / "m.agbm", tmp_path / "p.npy"], check=True)
        np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), model.predict_proba(X))


class TestFilesOfEarlierVersions:
    """They must load for ever, and predict what they did."""

    @pytest.mark.parametrize("path", sorted(KEPT.glob("*.agbm")), ids=lambda path: path.stem)
    def test_predictions(self, path):
        model = agbm.load(path)
        X = table(40, seed=5)
        expected = np.array(json.loads(path.with_suffix(".json").read_text()))
        found = model.predict_proba(X) if isinstance(model, AGBMClassifier) else model.predict(X)
        np.testing.assert_array_equal(found, expected)

    def test_there_are_some(self):
        assert {"1-regressor", "1-classifier", "1-histogram"} <= {path.stem for path in KEPT.glob("*.agbm")}


class TestSaving:
    def test_unfitted(self, tmp_path):
        with pytest.raises(NotFittedError):
            AGBMRegressor().save(tmp_path / "m.agbm")

    def test_what_cannot_be_saved(self, regression, tmp_path):
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

    def test_what_load_would_refuse_leaves_the_old_file(self, regression, tmp_path):
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

    def test_a_full_disk_leaves_the_old_file(self, regression, tmp_path, monkeypatch):
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

    def test_whoever_has_loaded_a_file_keeps_it_when_it_is_replaced(self, regression, tmp_path):
        X, y = regression
        model = AGBMRegressor(max_iter=4).fit(X, y)
        loaded = saved_and_loaded(model, tmp_path)
        AGBMRegressor(max_iter=1).fit(X, y).save(tmp_path / "m.agbm")
        assert_same_model(loaded, model, X)


@pytest.fixture
def written(tmp_path):
    """A file, and the model in it."""
    X = table()
    model = AGBMClassifier(max_iter=3).fit(X, pd.cut(labels(X), 3, labels=["low", "middle", "high"]).astype(str))
    model.save(tmp_path / "m.agbm")
    return tmp_path / "m.agbm"


def refused(path, rule):
    with pytest.raises(ModelFileError, match=rule):
        agbm.load(path)


def patched(path, offset, content):
    data = bytearray(path.read_bytes())
    data[offset : offset + len(content)] = content
    path.write_bytes(data)


def with_right_checksums(data):
    """The bytes of a file whose checksums are those of its content, where the table can be read at all."""
    data = bytearray(data)
    n_sections = min(int.from_bytes(data[12:16], "little"), 256)
    for k in range(n_sections):
        at = 64 + 64 * k
        kind, _, offset, count = struct.unpack_from("<IIQQ", data, at + 32) if at + 64 <= len(data) else (0, 0, 0, 0)
        size = {1: 1, 2: 4, 3: 8, 4: 8, 5: 8, 6: NODE.itemsize}.get(kind, 0) * count
        if size and offset + size <= len(data):
            struct.pack_into("<I", data, at + 36, zlib.crc32(data[offset : offset + size]))
    struct.pack_into("<I", data, 24, zlib.crc32(data[64 : 64 + 64 * n_sections]))
    return bytes(data)


class TestRulesOfTheContainer:
    def test_no_file(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            agbm.load(tmp_path / "nowhere.agbm")

    @pytest.mark.parametrize(("content", "rule"), [
        (b"", "size: the file is shorter than its header"),
        (b"PK\x03\x04" + bytes(100), "magic: this is not a model file"),
        (b"AGBM\r\n\x1a\n" + bytes(100), "version"),
    ])  # fmt: skip
    def test_other_files(self, content, rule, tmp_path):
        (tmp_path / "m.agbm").write_bytes(content)
        refused(tmp_path / "m.agbm", rule)

    def test_the_name_of_the_file_is_said(self, written):
        patched(written, 0, b"X")
        refused(written, r"m.agbm' cannot be loaded: magic")

    @pytest.mark.parametrize(("offset", "content", "rule"), [
        (8, struct.pack("<I", 2), "version: the file has format 2, this library reads format 1; a newer agbm"),
        (12, struct.pack("<I", 257), "n_sections: 257 is more than 256"),
        (12, struct.pack("<I", 2**32 - 1), "n_sections"),
        (16, struct.pack("<Q", 2**63), "size: the file has"),
        (24, b"\0\0\0\0", "checksum of the table"),
        (40, b"\1", "reserved: the header"),
        (64, b"\0", "name: the name of a section is not"),
        (64, b"a\0b", "name: the name of a section is not"),
        (96, struct.pack("<I", 0), "type: section description has an unknown type"),
        (96, struct.pack("<I", 7), "type: section description has an unknown type"),
        (104, struct.pack("<Q", 1), "offset: section description is not aligned"),
        (104, struct.pack("<Q", 64), "offset: section description is out of place"),
        (104, struct.pack("<Q", 2**63), "offset: section description is out of place"),
        (112, struct.pack("<Q", 2**63), "count: section description ends after the end of the file"),
        (120, b"\1", "reserved: section description"),
        (64 + 64 + 40, struct.pack("<Q", 64 * 40), "offset: section sizes is out of place"),
    ])  # fmt: skip
    def test_header_and_table(self, written, offset, content, rule):
        patched(written, offset, content)
        refused(written, rule)

    def test_a_byte_of_a_section(self, written):
        size = written.stat().st_size
        patched(written, size - 1, b"\x55")
        refused(written, "checksum of section 'chain': the file is damaged")

    def test_cut_short(self, written):
        whole = written.read_bytes()
        for n in (10, 63, 64, 100, 1000, len(whole) - 1):
            written.write_bytes(whole[:n])
            refused(written, "size")

    def test_longer(self, written):
        written.write_bytes(written.read_bytes() + b"\0")
        refused(written, "size")

    @pytest.mark.parametrize(("text", "rule"), [
        (b"[]", "description: must be a JSON object"),
        (b"{", "description: not valid JSON"),
        (b"{}", "description: entry 'kind' is missing"),
        (b'{"kind": 3}', "description: 'kind' must be str, got 3"),
        (b'{"kind": NaN}', "NaN is not a JSON number"),
        (b"[" * 100_000, "description: not valid JSON"),
        (b'{"a": ' * 100_000, "description: not valid JSON"),
        (b"\xff\xfe\x00", "description: not valid JSON"),
        (b'{"kind": ' + b"9" * 5000 + b"}", "description: not valid JSON"),
    ])  # fmt: skip
    def test_description(self, written, text, rule, monkeypatch):
        monkeypatch.setattr(json, "dumps", lambda *args, **kwargs: text.decode("latin-1"))
        monkeypatch.setattr(model_file.json, "dumps", lambda *args, **kwargs: _Latin(text))
        model_file.write(written, "model", {}, {})
        refused(written, rule)

    def test_other_kinds(self, regression, tmp_path):
        X, y = regression
        AGBMRegressor(max_iter=2, callbacks=[Checkpoint(tmp_path / "m.agbm", every=1)]).fit(X, y)
        refused(tmp_path / "m.agbm", "kind: the file contains a checkpoint, not a model")
        model = AGBMRegressor(max_iter=2).fit(X, y)
        model.save(tmp_path / "run")
        with pytest.raises(ModelFileError, match=r"cannot be read: kind: the file contains a model"):
            clone(model).set_params(callbacks=[Checkpoint(tmp_path / "run")]).fit(X, y)


class _Latin:
    """A text whose bytes are given."""

    def __init__(self, content):
        self.content = content

    def encode(self, *how):
        return self.content


@pytest.mark.slow
class TestRulesOfModels:
    @pytest.mark.parametrize(("name", "value", "rule"), [
        ("estimator", "os.system", "estimator: unknown estimator 'os.system'"),
        ("estimator", None, "description: 'estimator' must be str, got None"),
        ("parameters", {"entrie": 3}, r"parameters: unknown parameters \['entrie'\]"),
        ("parameters", {"max_iter": -1}, "parameters: The 'max_iter' parameter"),
        ("parameters", {"callbacks": ["x"]}, "parameters: callbacks must be null"),
        ("parameters", {"method": {"method": "GBM", "made_of": {"learner": "x"}}}, "method: .*'learner'"),
        ("fitted_parameters", {"method": "gbm"}, "fitted_parameters: method must be a method"),
        ("parameters", {"loss": {"loss": "os", "made_of": {}}}, "loss: invalid loss 'os' with parameters {}"),
        ("parameters", {"loss": {"loss": "Quantile", "made_of": {"quantile": "x"}}}, "loss: invalid loss 'Quantile'"),
        ("parameters", {"loss": {"loss": "Quantile", "made_of": {"power": 1}}}, "loss: .*unexpected keyword"),
        ("parameters", {"loss": {"other": 3}}, "description: .* is not a valid value"),
        ("parameters", {"class_weight": {"map": [[[], 1]]}}, "unhashable"),
        ("fitted_parameters", {"entrie": 3}, r"parameters: unknown parameters \['entrie'\]"),
        ("seed", -1, "seed: must be from 0 to .*, got -1"),
        ("seed", 2**40, "seed: must be from 0 to"),
        ("seed", True, "description: 'seed' must be int, got True"),
        ("n_features", 2**24 + 1, "n_features: must be from 1 to 16777216, got"),
        ("n_features", 2, "feature_names must be 2 texts, or empty"),
        ("class_type", "<U999999999", "classes: type '<U999999999' is not supported"),
        ("class_type", "int8", "classes: "),
        ("parameters", {"learning_rate": 10**400}, "an integer has more than 64 bits"),
        ("start", [0.0, 0.0], "start: must be 3 finite numbers"),
        ("start", [0.0, 0.0, {"float": "nan"}], "start: must be 3 finite numbers"),
        ("loss", {"loss": "LogLoss", "made_of": {}}, "loss: .* does not match the labels"),
        ("loss", {"loss": "Multinomial", "made_of": {"n_classes": 4}}, "loss: .* does not match the labels"),
        ("loss", {"map": []}, "loss: must be a loss of this library"),
        ("notes", {"command": ["rm"]}, "notes: values must be texts"),
        ("notes", "text", "description: 'notes' must be dict, got 'text'"),
    ], ids=str)  # fmt: skip
    def test_description(self, written, name, value, rule):
        rewrite(written, lambda description, arrays: description.update({name: value}))
        refused(written, rule)

    @pytest.mark.parametrize("name", [
        "estimator", "parameters", "fitted_parameters", "seed", "held_out", "loss", "start", "n_features",
        "class_type",
    ])  # fmt: skip
    def test_no_such_entry(self, written, name):
        rewrite(written, lambda description, arrays: description.pop(name))
        refused(written, f"description: entry '{name}' is missing")

    @pytest.mark.parametrize(("values", "kind", "rule"), [
        (["a"], "str", "classes: there must be at least two"),
        (["b", "a", "c"], "str", "classes: there must be at least two, in ascending order"),
        ([1, 2, 1000], "int8", "classes: "),
        ([0, 1.5, 2.5], "int8", "classes: some are not of type int8"),
        ([0, 1], "bool", "classes: some are not of type bool"),
        (sorted(["a" * 10**6, *map(str, range(100))]), "str", "classes: 101 texts of up to 1000000 characters are too"),
        (["a", "b", "c", "d"], "str", "start: must be 4 finite numbers"),
        ([1, "b"], "object", "classes: "),
    ], ids=lambda value: str(value)[:40])  # fmt: skip
    def test_classes(self, written, values, kind, rule):
        def change(description, arrays):
            description["class_type"] = kind
            arrays.update(stored_values.to_arrays("classes", values, ""))

        rewrite(written, change)
        refused(written, rule)

    @pytest.mark.parametrize(("of", "rule"), [
        ({4: []}, "'categories.feature' must increase within 0 to 3"),
        ({}, "trees: splits by categories on features .*, not all categorical"),
    ])  # fmt: skip
    def test_categories(self, written, of, rule):
        rewrite(written, lambda description, arrays: arrays.update(category_arrays("categories", of)))
        refused(written, rule)

    @pytest.mark.parametrize("names", [["a", "b", "c", 4], ["a"]], ids=str)
    def test_feature_names(self, written, names):
        changed = stored_values.to_arrays("feature_names", names, "")
        rewrite(written, lambda description, arrays: arrays.update(changed))
        refused(written, "feature_names must be 4 texts")

    @pytest.mark.parametrize(("field", "value", "rule"), [
        ("left", 0, "left: node 0 has children out of place"),
        ("left", -1, "left: node 0 has children out of place"),
        ("left", 2, "left: node"),
        ("feature", 4, "feature: node 0 splits on feature 4, but the forest has 4"),
        ("feature", -2, "feature: node 0 splits on feature -2"),
        ("bin", 256, "bin: node 0 has bin 256"),
        ("count", -1, "count: node 0"),
        ("gain", np.nan, "gain: node 0"),
        ("threshold", np.nan, "threshold: node 0"),
        ("missing_left", 2, "missing_left: node 0"),
    ])  # fmt: skip
    def test_nodes(self, written, field, value, rule):
        def change(description, arrays):
            arrays["nodes"][field][0] = value

        rewrite(written, change)
        refused(written, f"trees: {rule}")

    @pytest.mark.parametrize(("field", "value"), [("left", 2**31 - 1), ("categories", 2**20)])
    def test_numbers_beyond_a_forest(self, written, field, value):
        def change(description, arrays):
            arrays["nodes"][field][0] = value

        rewrite(written, change)
        refused(written, f"{field}: a .* does not exist in its forest")

    def test_forests_without_nodes(self, written):
        """Sizes of which nothing has so many: no memory is asked for."""
        n_forests = len(agbm.load(written).model_.models)
        for huge in (2**40, 2**62):

            def change(description, arrays, huge=huge):
                arrays["sizes"] = np.concatenate([arrays["sizes"], [huge, 3, 0, huge, 1, 0]])
                arrays["roots"] = np.append(arrays["roots"], np.zeros(3, np.int32))
                arrays["first_column"] = np.append(arrays["first_column"], np.zeros(3, np.int32))
                arrays["category_start"] = np.append(arrays["category_start"], 0)

            rewrite(written, change)
            refused(written, f"sizes: forest {n_forests} has invalid sizes")

    def test_nested_too_deeply(self, written):
        deep = []
        for _ in range(900):
            deep = [deep]
        for entry in ("interaction_cst", "monotonic_cst"):
            rewrite(written, lambda description, arrays, entry=entry: description["parameters"].update({entry: deep}))
            refused(written, "nested too deeply")

    @pytest.mark.parametrize(("name", "place", "value", "rule"), [
        ("folded_value", 0, np.inf, "trees: value: some are not finite"),
        ("roots", 0, 99, "roots: a node does not exist"),
        ("roots", 1, 0, "trees: roots: must increase"),
        ("roots", 0, -1, "roots: a node does not exist"),
        ("first_column", 0, 3, "first_column: the trees of a forest must cover its 3 outputs"),
        ("value", 0, np.inf, "value: must be finite"),
        ("category_start", 0, 7, "category_start: must increase from 0"),
        ("sizes", 0, 0, "sizes: forest 0 has invalid sizes"),
        ("sizes", 2, 2**62, "sizes: nodes must have"),
        ("sizes", 3, 2, "sizes: forest 0 has invalid sizes"),
        ("sizes", 5, -1, "sizes: forest 0 has invalid sizes"),
        ("function_model", 0, 99, "functions: function 0 of model 99 does not exist"),
        ("function_number", 0, 1, "functions: function 1 of model 0 does not exist"),
        ("theta", 1, np.nan, "updates: theta must be finite"),
        ("primary", 1, 77, "updates: iteration 1 must use the next functions, from 1 on"),
        ("restart", 1, 2, "updates: iteration 1"),
        ("categories.kind", 0, 5, "categories: unknown kind 5 of values"),
        ("categories.kind", 0, 3, "categories: booleans must be 0 or 1|ends of texts"),
        ("categories.word", 0, -1, "sizes: the ends of texts must increase up to the length of section"),
        ("categories.word", 3, 2**62, "sizes: the ends of texts"),
        ("categories.text", 0, 0xFF, "categories: a text is not valid UTF-8"),
        ("categories.feature", 0, -1, "'categories.feature' must increase"),
        ("categories.feature", 1, 1, "'categories.feature' must increase"),
        ("categories.feature", 1, -(2**63), "'categories.feature' must increase"),
        ("categories.count", 0, 2**62, "'categories.count' does not add up"),
        ("categories.count", 0, -3, "'categories.count' does not add up"),
        ("feature_names.kind", 0, 1, "sizes: "),
        ("history.iteration", 1, 7, "history: iterations must be 0, 1, 2"),
        ("n_dropped", 1, 1, "updates: iteration 1 drops 1 iterations, which do not exist"),
    ])  # fmt: skip
    def test_arrays(self, written, name, place, value, rule):
        def change(description, arrays):
            arrays[name][place] = value

        rewrite(written, change)
        refused(written, rule)

    def test_parameters_that_an_older_version_had_not(self, regression, tmp_path):
        X, y = regression
        path = tmp_path / "m.agbm"
        model = AGBMRegressor(max_iter=4).fit(X, y)
        model.save(path)

        def forget(description, arrays):
            for name in ("parameters", "fitted_parameters"):
                del description[name]["subsample"], description[name]["min_samples_leaf"]

        rewrite(path, forget)
        loaded = agbm.load(path)
        assert loaded.get_params() == model.get_params()
        loaded.set_params(max_iter=6, warm_start=True).fit(X, y)
        np.testing.assert_array_equal(loaded.predict(X), AGBMRegressor(max_iter=6).fit(X, y).predict(X))

    def test_lengths_and_types(self, written):
        whole = written.read_bytes()
        names = model_file.read(written).names()
        assert len(names) > 20
        for name in names:
            for change in (
                lambda array: array[:-1],
                lambda array: np.append(array, array[-1:]),
                lambda array: np.zeros(len(array), np.float64 if array.dtype != np.float64 else np.int64),
            ):
                written.write_bytes(whole)

                def change_one(description, arrays, name=name, change=change):
                    arrays[name] = change(arrays[name])

                if not len(model_file.read(written).array(name, model_file.read(written)._arrays[name].dtype)):
                    continue
                rewrite(written, change_one)
                refused(written, "sizes|type|checksum|trees")
            written.write_bytes(whole)
            rewrite(written, lambda description, arrays, name=name: arrays.pop(name))
            if name == "chain":  # older files have none
                agbm.load(written)
            else:
                refused(written, f"sections: section '{name}' is missing")

    def test_a_tree_that_is_too_deep(self, regression, tmp_path):
        X, y = regression
        path = tmp_path / "m.agbm"
        AGBMRegressor(max_iter=1, n_members=1).fit(X, y).save(path)

        def chain(description, arrays, depth=5000):
            nodes = np.zeros(2 * depth + 1, NODE)
            nodes["left"][:-1:2] = np.arange(1, 2 * depth, 2)  # 0, 2, 4, ... have the children 1 and 2, 3 and 4, ...
            nodes["left"][-1] = -1
            nodes["left"][1::2] = nodes["feature"][1::2] = nodes["feature"][-1] = -1
            nodes["categories"] = -1
            arrays["nodes"], arrays["folded_value"] = nodes, np.zeros(len(nodes))
            arrays["value"] = np.zeros(len(nodes))
            arrays["sizes"][2] = len(nodes)

        rewrite(path, chain)
        refused(path, "trees: left: node .* is deeper than 4096 levels")
        rewrite(path, lambda description, arrays: chain(description, arrays, depth=4096))
        assert agbm.load(path).predict(X).shape == y.shape

    def test_very_many_features_cost_nothing(self, regression, tmp_path):
        X, y = regression
        path = tmp_path / "m.agbm"
        AGBMRegressor(max_iter=1).fit(X, y).save(path)
        rewrite(path, lambda description, arrays: description.update(n_features=2**24))
        agbm.load(path)
        with pytest.raises(ValueError, match="features"):
            agbm.load(path).predict(X)


@pytest.mark.slow
class TestFuzzing:
    """Whatever a file holds: an error that says so, or a model that predicts. Never a crash, never another error."""

    def use(self, path):
        try:
            model = agbm.load(path)
        except ModelFileError:
            return
        X = table(20, seed=2) if model.n_features_in_ == 4 else np.zeros((3, min(model.n_features_in_, 100)))
        try:
            assert len(model.predict(X)) == len(X)
            for _ in model.staged_predict(X):
                pass
        except (ValueError, UserWarning):
            pass  # such as other features than those of X

    @settings(max_examples=300)
    @given(data=st.data())
    def test_changed_bytes(self, data, tmp_path_factory):
        content = bytearray(KEPT_FILE.read_bytes())
        for _ in range(data.draw(st.integers(1, 8))):
            at = data.draw(st.integers(0, len(content) - 1))
            content[at] = data.draw(st.integers(0, 255))
        path = tmp_path_factory.getbasetemp() / "fuzzed.agbm"
        path.write_bytes(with_right_checksums(content))
        self.use(path)

    @settings(max_examples=300)
    @given(data=st.data())
    def test_changed_numbers(self, data, tmp_path_factory):
        path = tmp_path_factory.getbasetemp() / "fuzzed.agbm"
        shutil.copyfile(KEPT_FILE, path)

        def change(description, arrays):
            for name in data.draw(st.lists(st.sampled_from(sorted(arrays)), min_size=1, max_size=3)):
                if arrays[name].size:
                    arrays[name] = damage(data, arrays[name])

        rewrite(path, change)
        self.use(path)

    json_values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=6,
    )

    @settings(max_examples=400)
    @given(
        place=st.sampled_from([
            *(["parameters", name] for name in AGBMClassifier().get_params()), ["fitted_parameters", "loss"],
            *([name] for name in (
                "kind", "library", "estimator", "parameters", "fitted_parameters", "seed", "loss", "start",
                "n_features", "class_type",
            )),
        ]),
        value=json_values,
    )  # fmt: skip
    def test_changed_descriptions(self, place, value, tmp_path_factory):
        path = tmp_path_factory.getbasetemp() / "fuzzed.agbm"
        shutil.copyfile(KEPT_FILE, path)

        def change(description, arrays):
            within = description
            for name in place[:-1]:
                within = within[name]
            assert place[-1] in within or place[-1] == "device"  # which no file has
            within[place[-1]] = value if place != ["kind"] or isinstance(value, str) else "else"

        rewrite(path, change)
        self.use(path)


def test_diverged_models_can_be_saved(regression, tmp_path):
    X, y = regression
    with pytest.warns(ConvergenceWarning):
        model = AGBMRegressor(method="gbm", learning_rate=5.0, max_iter=200).fit(X, y)
    assert_same_model(saved_and_loaded(model, tmp_path), model, X)
