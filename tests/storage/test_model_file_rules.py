"""Rules of model files: a file that breaks one cannot be loaded, and never crashes or raises another error."""

import json
import shutil
import struct
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import agbm
from agbm import AGBMClassifier, AGBMRegressor, Checkpoint, ModelFileError
from agbm._storage import container as model_file
from agbm._storage import values as stored_values
from agbm._storage.columns import category_arrays
from agbm._tree.forest import NODE
from mixed_tables import labels, table
from toys import damage, rewrite

KEPT_FILE = Path(__file__).parent / "model_files" / "1-classifier.agbm"


@pytest.fixture(scope="module")
def model_bytes():
    """The bytes of a model file."""
    X = table()
    model = AGBMClassifier(max_iter=3, multi_strategy="one_output_per_tree").fit(
        X, pd.cut(labels(X), 3, labels=["low", "middle", "high"]).astype(str)
    )
    with TemporaryDirectory() as folder:
        model.save(Path(folder) / "m.agbm")
        return (Path(folder) / "m.agbm").read_bytes()


@pytest.fixture
def written(tmp_path, model_bytes):
    """A model file, which tests change."""
    (tmp_path / "m.agbm").write_bytes(model_bytes)
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
    def test_missing_file(self, tmp_path):
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

    def test_errors_name_the_file(self, written):
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

    def test_changed_byte_of_a_section(self, written):
        size = written.stat().st_size
        patched(written, size - 1, b"\x55")
        refused(written, "checksum of section 'chain': the file is damaged")

    def test_truncated_file(self, written):
        whole = written.read_bytes()
        for n in (10, 63, 64, 100, 1000, len(whole) - 1):
            written.write_bytes(whole[:n])
            refused(written, "size")

    def test_appended_bytes(self, written):
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

    def test_files_without_newer_parameters_are_loaded(self, regression, tmp_path):
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
            if name in ("chain", "profile.size"):  # older files have none
                agbm.load(written)
            else:
                refused(written, f"sections: section '{name}' is missing")

    @pytest.mark.parametrize(
        ("name", "place", "value", "rule"),
        [
            ("profile.size", 0, -1, "profile: section 'profile.size'"),
            ("profile.size", 0, 65, "profile: section 'profile.size'"),
            ("profile.size", 1, 2, "profile: section 'profile.size'"),
            ("profile.edge", 1, -1e300, "profile: edges must be ascending"),
            ("profile.edge", 0, np.nan, "profile: edges must be ascending"),
            ("profile.count", 3, -1, "profile: counts must not be negative"),
        ],
    )
    def test_profiles(self, written, name, place, value, rule):
        rewrite(written, lambda description, arrays: np.put(arrays[name], place, value))
        refused(written, rule)

    def test_very_deep_trees_are_refused(self, regression, tmp_path):
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

    def test_many_features_take_no_memory(self, regression, tmp_path):
        X, y = regression
        path = tmp_path / "m.agbm"
        AGBMRegressor(max_iter=1).fit(X, y).save(path)
        rewrite(path, lambda description, arrays: description.update(n_features=2**24))
        agbm.load(path)
        with pytest.raises(ValueError, match="features"):
            agbm.load(path).predict(X)


@pytest.mark.slow
class TestFuzzing:
    """Whatever a file contains: ModelFileError, or a model that predicts; never a crash or another error."""

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

    @settings(max_examples=2 * settings.default.max_examples)
    @given(data=st.data())
    def test_changed_bytes(self, data, tmp_path_factory):
        content = bytearray(KEPT_FILE.read_bytes())
        for _ in range(data.draw(st.integers(1, 8))):
            at = data.draw(st.integers(0, len(content) - 1))
            content[at] = data.draw(st.integers(0, 255))
        path = tmp_path_factory.getbasetemp() / "fuzzed.agbm"
        path.write_bytes(with_right_checksums(content))
        self.use(path)

    @settings(max_examples=2 * settings.default.max_examples)
    @given(data=st.data())
    def test_changed_numbers(self, data, model_bytes, tmp_path_factory):
        path = tmp_path_factory.getbasetemp() / "fuzzed.agbm"
        path.write_bytes(data.draw(st.sampled_from([KEPT_FILE.read_bytes(), model_bytes])))

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

    @settings(max_examples=3 * settings.default.max_examples)
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
            absent = ("device", "views", "l1_regularization")  # from this file
            assert place[-1] in within or place[-1] in absent
            within[place[-1]] = value if place != ["kind"] or isinstance(value, str) else "else"

        rewrite(path, change)
        self.use(path)
