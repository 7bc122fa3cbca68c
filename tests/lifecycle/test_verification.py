"""Fingerprints, differences of models, and verification, which names what has changed."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeRegressor

import agbm
from agbm import AGBMClassifier, AGBMRanker, AGBMRegressor, AGBMSurvival, Batches
from agbm._apps.cli import main
from agbm._estimators.base import loaded
from agbm._lifecycle.differences import Content, of_iterations
from agbm.methods import Fading
from toys import rewrite

N = 300


def whole_numbers(n=N, n_features=4):
    """Rows of integers from a formula, the same on every machine."""
    rows, columns = np.arange(n)[:, np.newaxis], np.arange(1, n_features + 1)
    X = (rows * (7 * columns + 4) + rows**2 * columns) % (11 + 6 * columns)
    return X.astype(np.float64), (3.0 * X[:, 0] + X[:, 1] * (X[:, 2] > 10) + np.arange(n) % 5)


@pytest.fixture(scope="module")
def data():
    return whole_numbers()


SMALL = {"max_iter": 12, "n_members": 1, "early_stopping": False}


@pytest.fixture(scope="module")
def fitted(data):
    return AGBMRegressor(**SMALL).fit(*data)


# Of models of `whole_numbers`. They change only with the model: never edit one without a line in the changelog.
GOLDEN = {
    "regressor": "c7d2196fc323d5e0ae1d462e2f4b50258bf6f81b36002a63231d6874abc62816",
    "members": "4c6372f3abd8dadb69b2e7cee5be19b424a3975be8fe1dc36ee0600517b98f18",
    "classifier": "e0d7cd0fc4191a786502feb0af42933258c3d012eec36cc8ab578bdff1cadd09",
}


def golden(name):
    X, y = whole_numbers()
    if name == "regressor":
        return AGBMRegressor(**SMALL).fit(X, y)
    if name == "members":
        return AGBMRegressor(max_iter=8, early_stopping=True, n_members=2).fit(X, y)
    return AGBMClassifier(**SMALL, method="agbm", subsample=0.5).fit(X, (y % 3).astype(int))


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_fingerprints(name):
    assert golden(name).fingerprint_ == GOLDEN[name]


class TestFingerprints:
    def test_the_same_for_threads_batches_and_files(self, data, fitted, tmp_path):
        X, y = data
        batches = Batches(lambda: ((X[i : i + 70], y[i : i + 70]) for i in range(0, N, 70)))
        others = [AGBMRegressor(**SMALL, n_jobs=3).fit(X, y), AGBMRegressor(**SMALL).fit(batches)]
        fitted.save(tmp_path / "m.agbm")
        others.append(agbm.load(tmp_path / "m.agbm"))
        assert {model.fingerprint_ for model in others} == {fitted.fingerprint_}

    def test_fingerprint_ignores_other_attributes(self, data, fitted):
        other = AGBMRegressor(**SMALL, verbose=0, n_iter_no_change=3, n_jobs=1).fit(*data)
        other.notes_["who"] = "someone"
        assert other.fingerprint_ == fitted.fingerprint_

    def test_fingerprint_covers_the_predictions(self, data, fitted):
        X, y = data
        found = {fitted.fingerprint_, fitted.at_iteration(11).fingerprint_}
        found.add(AGBMRegressor(**SMALL).fit(X, y + 1e-9).fingerprint_)
        found.add(AGBMRegressor(**SMALL).fit(pd.DataFrame(X, columns=list("abcd")), y).fingerprint_)
        found.add(AGBMRegressor(**SMALL).fit(X, y).calibrate(X, y).fingerprint_)
        assert len(found) == 5

    def test_models_without_files_have_none(self, data):
        model = AGBMRegressor(max_iter=2, method=Fading(learner=DecisionTreeRegressor(max_depth=2))).fit(*data)
        assert not hasattr(model, "fingerprint_")


def attacked(path, change):
    """Change the model in a file, and make its chain and folded values match again."""
    saved = loaded(path)
    model = change(saved.model) or saved.model
    folded = model.at_iteration(model.best_iteration).folded
    saved.estimator.model_ = replace(model, folded=folded)
    saved.estimator.save(path)
    assert not Content.of(loaded(path)).chain_differences()
    return agbm.load(path)


def with_other_leaf(m):
    def change(model):
        forest = model.ensembles[0].models[m - 1]
        forest.value = forest.value.copy()
        forest.value[-1] += 0.5

    return change


def with_other_threshold(model):
    forest = model.ensembles[0].models[4]
    forest.nodes = forest.nodes.copy()
    forest.nodes["threshold"][0] += 0.25


def with_other_order(model):
    models = model.ensembles[0].models
    models[2], models[6] = models[6], models[2]


def with_parameter(name, value):
    return lambda model: replace(model, parameters={**model.parameters, name: value})


@pytest.fixture
def saved(fitted, tmp_path):
    fitted.save(tmp_path / "m.agbm")
    return tmp_path / "m.agbm"


class TestVerification:
    @pytest.mark.parametrize("iterations", ["all", [2, 9], 5, 12])
    def test_unchanged_model(self, data, saved, iterations):
        found = agbm.load(saved).verify(*data, iterations=iterations)
        assert found
        assert found.differences == []

    @pytest.mark.parametrize(("change", "where"), [
        (with_other_leaf(7), "7, tree 0, node"),
        (with_other_threshold, "5, tree 0, node 0, threshold"),
        (with_other_order, "3, "),
    ], ids=["leaf", "threshold", "order"])  # fmt: skip
    @pytest.mark.parametrize("iterations", ["all", [1], [3, 5, 7]], ids=["all", "another", "these"])
    def test_changed_trees(self, data, saved, change, where, iterations):
        model = attacked(saved, change)
        found = model.verify(*data, iterations=iterations)
        assert not found
        (difference,) = found.differences
        assert difference.part == "iteration"
        # If other iterations are grown again, the recorded loss differs from that of the changed tree.
        exact = iterations != [1] or change is with_other_threshold
        assert difference.where.startswith(where if exact else where.split(",")[0])
        assert difference.values[0] != difference.values[1]

    def test_values_of_a_changed_leaf_are_named(self, data, saved, fitted):
        found = attacked(saved, with_other_leaf(7)).verify(*data, iterations=7)
        forest = fitted.model_.ensembles[0].models[6]
        value = float(forest.value[-1, 0])
        (difference,) = found.differences
        assert difference.where == f"7, tree 0, node {len(forest.nodes) - 1}, value"
        assert difference.values == (repr(value + 0.5), repr(value))

    def test_later_iterations_are_not_checked(self, data, saved):
        found = attacked(saved, with_other_leaf(7)).verify(*data, iterations=4)
        assert found
        assert any("other 11 iterations" in text for text in found.unchecked)

    def test_changed_rows(self, data, saved):
        X, y = data
        model = agbm.load(saved)
        X_other, y_other = X.copy(), y.copy()
        X_other[123, 2] += 1e-12
        y_other[7] += 1.0
        weight = np.ones(N)
        weight[5] = 2.0
        expected = {"rows 123; columns 2 of X": (X_other, y), "rows 7; columns y": (X, y_other),
                    "rows 0 to 299; columns sample_weight": (X, y, weight), "rows": (X[:-1], y[:-1])}  # fmt: skip
        for where, rows in expected.items():
            found = model.verify(*rows)
            assert [(one.part, one.where) for one in found.differences] == [("data", where)]
        swapped = np.arange(N)
        swapped[[10, 20]] = 20, 10
        assert model.verify(X[swapped], y[swapped]).differences[0].where.startswith("rows 10, 20; columns y, 0 of X")

    @pytest.mark.parametrize(("name", "value", "part"), [
        ("max_bins", 8, "iteration"), ("learning_rate", 0.2, "parameters"), ("min_samples_leaf", 9, "parameters"),
        ("max_depth", 2, "parameters"), ("init", "zero", "start"), ("subsample", 0.5, "iteration"),
    ])  # fmt: skip
    def test_changed_parameters(self, data, saved, name, value, part):
        found = attacked(saved, with_parameter(name, value)).verify(*data, iterations=1)
        assert found.differences[0].part == part
        assert part != "parameters" or found.differences[0].where == name

    def test_another_seed_and_another_version(self, data, saved):
        model = AGBMRegressor(**SMALL, subsample=0.5).fit(*data)
        model.model_ = replace(model.model_, seed=model.model_.seed + 1)
        assert model.verify(*data, iterations=1).differences[0].part == "iteration"
        origin = agbm.load(saved).model_.origin._replace(version="0.0.1")
        found = attacked(saved, lambda model: replace(model, origin=origin)).verify(*data)
        assert [(one.part, one.values) for one in found.differences] == [
            ("version", ("'0.0.1'", f"'{agbm.__version__}'"))
        ]

    def test_folded_values_and_history(self, data, saved):
        def change(description, arrays):
            arrays["folded_value"][3] += 0.5

        rewrite(saved, change)
        for iterations in ("all", [1], 1):
            (found,) = agbm.load(saved).verify(*data, iterations=iterations).differences
            assert (found.part, found.where) == ("result", "folded_value, entry 3")

        def with_other_loss(model):
            losses = model.history["train_loss"].copy()
            losses[6] = 0.0
            return replace(model, history={**model.history, "train_loss": losses})

        model = attacked(saved, with_other_loss)
        assert model.verify(*data, iterations=[1]).differences[0].where == "6, train_loss"

    def test_broken_chain_of_updates(self, saved):
        def change(description, arrays):
            arrays["value"][-1] += 0.5
            description["fitted_parameters"]["max_bins"] = 9

        rewrite(saved, lambda description, arrays: change(description, arrays))
        assert Content.of(loaded(saved)).chain_differences()[0].where == "parameters"
        rewrite(saved, lambda description, arrays: description["fitted_parameters"].update(max_bins=255))
        assert Content.of(loaded(saved)).chain_differences()[0].where == "iteration 12"

    @pytest.mark.parametrize("method", ["fading", "gbm", "vagbm", "agbm", "agbmr"])
    def test_every_method_with_members_and_early_stopping(self, data, method):
        X, y = data
        model = AGBMRegressor(method=method, max_iter=10, n_members=2, early_stopping=True, colsample_bytree=0.5)
        model.fit(X, y)
        for iterations in ("all", [1, model.best_iteration_], 2):
            assert model.verify(X, y, iterations=iterations).differences == []

    def test_every_form_of_input(self, data):
        X, y = data
        table = pd.DataFrame(X, columns=list("abcd")).astype({"b": "category"})
        weight, offset = 1.0 + np.arange(N) % 3, np.arange(N) % 2 / 4
        classifier = AGBMClassifier(max_iter=6, method=Fading(temperature_scaling=True, dropout=0.2), random_state=None)
        rows = (table, y > 20, weight)
        classifier.fit(*rows, offset=offset)
        validated = AGBMRegressor(max_iter=6, n_members=1).fit(X, y, X_val=X[:50], y_val=y[:50])
        survival = AGBMSurvival(max_iter=5, loss="cox").fit(X, np.column_stack([1.0 + y, y % 2]))
        ranker = AGBMRanker(max_iter=5, early_stopping=False).fit(X, y % 3, qid=np.arange(N) // 10)
        for iterations in ("all", [1, 2], 2):
            assert classifier.verify(*rows, offset=offset, iterations=iterations).differences == []
            assert validated.verify(X, y, X_val=X[:50], y_val=y[:50], iterations=iterations).differences == []
            assert survival.verify(X, np.column_stack([1.0 + y, y % 2]), iterations=iterations).differences == []
            assert ranker.verify(X, y % 3, qid=np.arange(N) // 10, iterations=iterations).differences == []
        other = validated.verify(X, y, X_val=X[1:51], y_val=y[1:51])
        assert other.differences[0].where.startswith("rows 300 to 349")

    def test_batches(self, data, saved):
        X, y = data
        batches = Batches(lambda: ((X[i : i + 90], y[i : i + 90]) for i in range(0, N, 90)))
        assert agbm.load(saved).verify(batches, iterations=[2, 3])
        found = attacked(saved, with_other_threshold).verify(batches, iterations=[1])
        assert found.differences[0].where == "5, tree 0, node 0, threshold"

    def test_models_that_cannot_be_verified(self, data, fitted, saved):
        X, y = data
        updated = agbm.load(saved).update(X, y, mode="leaves")
        with pytest.raises(ValueError, match="update\\(mode='leaves'\\)"):
            updated.verify(X, y)
        with pytest.raises(ValueError, match="no digest of its rows"):
            agbm.load(Path(__file__).parents[1] / "storage" / "model_files" / "1-regressor.agbm").verify(X, y)
        for wanted in (0, 13, [1, 13], "some"):
            with pytest.raises(ValueError, match="iterations="):
                fitted.verify(X, y, iterations=wanted)

    def test_the_estimator_is_unchanged(self, data, fitted):
        before = fitted.model_, fitted.get_params()
        assert fitted.verify(*data)
        assert (fitted.model_, fitted.get_params()) == before


def test_differences_of_categories(data):
    X, y = data
    table = pd.DataFrame(X, columns=list("abcd")).astype({"b": "category"})
    one = AGBMRegressor(**SMALL).fit(table, y).model_.ensembles
    other = AGBMRegressor(**SMALL).fit(table, y).model_.ensembles
    assert of_iterations(one, other) == []
    forest = next(model for model in other[0].models if len(model.category_words))
    forest.category_words = forest.category_words.copy()
    forest.category_words[0] ^= np.uint64(1)
    assert "categories that go left" in of_iterations(one, other)[0].where


class TestCommands:
    @pytest.fixture
    def here(self, data, tmp_path, monkeypatch):
        X, y = data
        table = pd.DataFrame(X, columns=list("abcd")).assign(w=1 + np.arange(N) % 2, y=y)
        table.to_csv(tmp_path / "t.csv", index=False)
        monkeypatch.chdir(tmp_path)
        train = ["train", "t.csv", "--target", "y", "--weight", "w", "--task", "regression", "--quiet", "--set"]
        assert main([*train, "max_iter=10", "--out", "m.agbm"]) == 0
        assert main([*train, "max_iter=10", "max_bins=6", "--out", "other.agbm"]) == 0
        return table

    def found(self, capsys, *arguments):
        capsys.readouterr()
        code = main([*arguments, "--json"])
        return code, json.loads(capsys.readouterr().out)

    def test_diff(self, here, capsys):
        code, found = self.found(capsys, "diff", "m.agbm", "m.agbm")
        assert (code, found["same"], found["training_differences"]) == (0, True, [])
        assert found["fingerprints"] == [agbm.load("m.agbm").fingerprint_] * 2
        code, found = self.found(capsys, "diff", "m.agbm", "other.agbm")
        assert (code, found["same"]) == (1, False)
        assert [one["where"] for one in found["training_differences"]] == ["max_bins"]
        assert found["differences"][0]["where"].startswith("1, member 0, tree 0, node ")
        main(["diff", "m.agbm", "other.agbm"])
        assert "max_bins: 255 and 6" in " ".join(capsys.readouterr().out.split())

    def test_verify(self, here, capsys):
        for options, n in ((["--all"], 10), (["--sample", "2"], 2), (["--iteration", "2"], 1)):
            code, found = self.found(capsys, "verify", "m.agbm", "t.csv", *options)
            assert (code, found["verified"], len(found["iterations"])) == (0, True, n)
        here.assign(c=here["c"].where(here.index != 40, 3.5)).to_csv("changed.csv", index=False)
        code, found = self.found(capsys, "verify", "m.agbm", "changed.csv")
        assert (code, found["verified"]) == (1, False)
        assert found["differences"][0]["where"].endswith("columns 'c'")
        assert main(["verify", "m.agbm", "changed.csv"]) == 1
        assert "NOT VERIFIED" in capsys.readouterr().out

    def test_a_file_that_was_changed(self, here, capsys):
        rewrite("m.agbm", lambda description, arrays: arrays["value"].__setitem__(-1, 0.25))
        code, found = self.found(capsys, "verify", "m.agbm", "t.csv", "--iteration", "1")
        assert code == 1
        assert found["differences"][0]["part"] == "chain"

    def test_files_without_a_command(self, here, capsys):
        for command in (None, "agbm tune t.csv --target y --out m", "agbm train", "rm 'x"):
            model = agbm.load("m.agbm")
            model.notes_ = {} if command is None else {"command": command}
            model.save("bare.agbm")
            assert main(["verify", "bare.agbm", "t.csv"]) == 1
            assert "verify it in Python" in capsys.readouterr().err
