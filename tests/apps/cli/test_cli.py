"""The command line: what it infers, what it writes, what it says, and how it ends."""

import itertools
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file, load_breast_cancer, load_iris
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

import agbm
from agbm._apps import cli
from agbm._apps.cli.reading import data as _data
from agbm._apps.cli.reading import files as files
from agbm._apps.evaluation import comparison
from agbm._apps.evaluation.metrics import metrics_of_classes, metrics_of_values
from agbm._data.hold_out import hold_out, seed_of
from agbm.methods import AGBM
from commands import FEW, ONE, SOLD, agbm_table, fails, mixed, run

COMMANDS = ["train", "predict", "compare", "tune", "inspect", "explain", "export", "report", "completion"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")  # the narrowest usual terminal: what is said must fit
    mixed().to_csv("mixed.csv", index=False)
    return tmp_path


class TestTrain:
    def test_a_metric_stops(self, here, capsys):
        run(*SOLD, "--metric", "auc")
        capsys.readouterr()
        model = agbm.load("sold.agbm")
        assert model.scoring == "auc"
        assert model.best_iteration_ == model.history_["validation_auc"].argmax()

    @pytest.mark.slow
    def test_what_is_inferred_is_shown_and_what_is_said_is_true(self, here, capsys):
        run(*SOLD)
        said = capsys.readouterr().out
        assert "mixed.csv: 400 rows, 8 columns" in said
        assert re.search(r"target +sold: 2 classes: \w+ [\d.]+ %, \w+ [\d.]+ %", said)
        assert "classification: the target is text" in said
        assert re.search(r"numeric +2: size, times", said)
        assert re.search(r"categorical +2: colour, code", said)
        assert re.search(r"dates +day: elapsed time, ", said)
        assert re.search(r"rows +320 for training \(10 % held out by each member\); 80 for testing", said)
        assert "sold.agbm" in said

        model, table = agbm.load("sold.agbm"), mixed()
        train, test = hold_out(400, 0.2, table["sold"].to_numpy(str), 0)
        by_hand = agbm.AGBMClassifier(early_stopping=True)
        X = pd.read_csv("mixed.csv")[["size", "colour", "code", "day", "times"]]
        X["day"] = pd.to_datetime(X["day"])
        by_hand.fit(X.iloc[train], table["sold"].to_numpy(str)[train])
        probabilities = by_hand.predict_proba(X.iloc[test])
        metrics = metrics_of_classes(table["sold"].to_numpy(str)[test], probabilities, by_hand.classes_)
        assert f"log loss {metrics[0]}" in said
        assert json.loads(model.notes_["metrics"])[0]["value"] == metrics[0].value
        np.testing.assert_array_equal(model.predict_proba(X), by_hand.predict_proba(X))
        assert model.notes_["command"].startswith("agbm train mixed.csv --target sold")
        assert model.get_params()["verbose"] == 0

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ("early_stopping=false", "320 for training; 80"),
            ("validation_fraction=0.3", "320 for training (30 % held out by each member)"),
        ],
    )
    def test_rows_to_stop_by_are_those_of_the_model(self, given, said, here, capsys):
        run(*SOLD, "--set", "max_iter=3", given)
        assert said in capsys.readouterr().out

    def test_json_is_all_that_is_printed(self, here, capsys):
        run(*SOLD, "--json")
        said = capsys.readouterr()
        found = json.loads(said.out)
        assert said.err == ""
        assert found["task"] == "classification"
        assert found["categories"] == ["colour", "code"]
        assert found["trees"] == agbm.load("sold.agbm").n_trees_
        assert {metric["name"] for metric in found["metrics"]} == {"log loss", "accuracy", "ROC AUC"}
        assert sum(found["importances"].values()) == pytest.approx(1.0)

    def test_names_cannot_move_the_cursor(self, here, capsys):
        mixed().rename(columns={"size": "si\x1b[2Jze"}).to_csv("mixed.csv", index=False)
        run(*SOLD, *FEW, "--weight", "times")
        said = capsys.readouterr().out
        assert "\x1b" not in said
        assert r"si\x1b[2Jze" in said
        assert re.search(r"weights +times: for training only; test metrics are unweighted", said)

    @pytest.mark.slow
    def test_quiet_shows_no_progress(self, here, capsys):
        run(*SOLD)
        assert "train loss" in capsys.readouterr().err
        run(*SOLD, "--quiet")
        assert capsys.readouterr().err == ""

    @pytest.mark.slow
    @pytest.mark.parametrize("more", [[], ["--weight", "times"], ["--test-fraction", "0"], ["--folds", "2"]], ids=str)
    def test_reading_in_pieces_gives_the_same_bits(self, more, here, monkeypatch, capsys):
        monkeypatch.setattr(files, "BLOCK_VALUES", 300)
        kept = []
        for how in [], ["--stream"]:
            run(*SOLD, *FEW, *more, *how, "--json")
            found = json.loads(capsys.readouterr().out)
            model = agbm.load("sold.agbm")
            model.notes_.clear()
            model.history_["seconds"] = np.zeros(len(model.history_["seconds"]))
            model.save("bare.agbm")
            kept.append(((here / "bare.agbm").read_bytes(), found["metrics"]))
        assert kept[0] == kept[1]

    def test_a_table_that_may_not_fit_is_read_in_pieces(self, here, monkeypatch, capsys):
        monkeypatch.setattr(_data, "available_memory", lambda: 30_000)
        run(*SOLD, *FEW)
        assert "read in batches" in capsys.readouterr().out

    def test_formats_and_threads_do_not_change_the_model(self, here):
        table = pd.read_csv("mixed.csv")
        table["day"] = pd.to_datetime(table["day"]).astype("datetime64[ns]")
        table.to_parquet("mixed.parquet")
        table.to_feather("mixed.arrow")
        kept = []
        for name in "mixed.csv", "mixed.parquet", "mixed.arrow":
            run("train", name, "--target", "price", "--drop", "id", "--out", "m.agbm", "--jobs", 1 + len(kept), *FEW)
            kept.append(agbm.load("m.agbm").history_["train_loss"].tolist())
        assert kept[0] == kept[1] == kept[2]

    def test_folds(self, here, capsys):
        run(*SOLD, *FEW, "--folds", "4", "--weight", "times", "--json")
        found = json.loads(capsys.readouterr().out)["metrics"][0]["value"]
        table = pd.read_csv("mixed.csv")
        X = table[["size", "colour", "code", "day"]].copy()
        X["day"] = pd.to_datetime(X["day"])
        y = table["sold"].to_numpy(str)
        predicted = np.zeros((400, 2))
        for train, test in StratifiedKFold(4, shuffle=True, random_state=0).split(y, y):
            model = agbm.AGBMClassifier(max_iter=8, early_stopping=False)
            model.fit(X.iloc[train], y[train], sample_weight=table["times"].iloc[train].astype(float))
            predicted[test] = model.predict_proba(X.iloc[test])
        assert found == pytest.approx(log_loss(y, predicted), rel=1e-9)
        assert agbm.load("sold.agbm").notes_["rows"].startswith("400 for training")

    def test_rows_of_another_file(self, here, capsys):
        mixed(seed=1).assign(new=1.0).to_csv("later.csv", index=False)
        run("train", "mixed.csv", "--target", "price", "--drop", "id", "sold", "day", "--out", "m.agbm",
            "--test", "later.csv", *FEW, "--json")  # fmt: skip
        found = json.loads(capsys.readouterr().out)["metrics"]
        later, model = pd.read_csv("later.csv"), agbm.load("m.agbm")
        metrics = metrics_of_values(later["price"].to_numpy(), model.predict(later[model.feature_names_in_]))
        assert [metric["value"] for metric in found] == pytest.approx([metric.value for metric in metrics])

    def test_labels_that_the_model_does_not_know(self, here, capsys):
        mixed().replace({"sold": {"yes": "yesterday"}}).to_csv("later.csv", index=False)
        assert "labels ['yesterday']" in fails(capsys, *SOLD, *FEW, "--test", "later.csv", "--quiet")

    def test_svmlight(self, here, capsys):
        X, y = load_breast_cancer(return_X_y=True)
        dump_svmlight_file(X, y, "cancer.svmlight", zero_based=False)
        run("train", "cancer.svmlight", "--out", "c.agbm", *FEW, "--json")
        assert json.loads(capsys.readouterr().out)["task"] == "classification"
        run("predict", "c.agbm", "cancer.svmlight", "--out", "p.csv")
        predicted = pd.read_csv("p.csv")["prediction"]
        assert (predicted == y).mean() > 0.9
        run("explain", "c.agbm", "cancer.svmlight", "--rows", "1")
        assert "base value" in capsys.readouterr().out
        assert "--keep x0" in fails(capsys, "predict", "c.agbm", "cancer.svmlight", "--keep", "x0", "--out", "p.csv")

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("values", "classifies"),
        [
            (["a", "b"] * 20, True),
            ([0, 1] * 20, True),
            ([0.0, 1.0] * 20, True),
            (["true", "false"] * 20, True),
            (list(range(40)), False),
            ([0.5, 1.5] * 20, False),
            ([1e25, 2e25] * 20, False),
            ([1, None] * 20, None),
        ],
        ids=str,
    )
    def test_task(self, values, classifies, here, capsys):
        pd.DataFrame({"x": np.arange(40) % 7, "y": values}).to_csv("t.csv", index=False)
        if classifies is None:
            assert "only one class" in fails(capsys, "train", "t.csv", "--target", "y", "--out", "m.agbm", *FEW)
            return
        run("train", "t.csv", "--target", "y", "--out", "m.agbm", *FEW)
        assert isinstance(agbm.load("m.agbm"), agbm.AGBMClassifier if classifies else agbm.AGBMRegressor)

    def test_rows_without_a_target_are_left_out_and_said(self, here, capsys):
        table = mixed()
        table.loc[:24, "sold"] = None
        table.to_csv("mixed.csv", index=False)
        run(*SOLD, *FEW)
        assert re.search(r"dropped +25 rows with a missing target", capsys.readouterr().out)
        assert agbm.load("sold.agbm").classes_.tolist() == ["no", "yes"]

    def test_parameters(self, here):
        run(*SOLD, "--set", "method=agbmr", "max_iter=5", "method__restart=gradient", "method__momentum=0.3",
            "max_depth=None", "--categorical", "times", "--no-early-stopping")  # fmt: skip
        model = agbm.load("sold.agbm")
        assert (model.max_iter, model.max_depth) == (5, None)
        assert (type(model.method), model.method.restart, model.method.momentum) == (AGBM, "gradient", 0.3)
        assert [model.feature_names_in_[f] for f in model.model_.categories] == ["colour", "code", "times"]

    def test_options_that_are_given_twice_add_up(self, here):
        run(*SOLD, "--set", "max_iter=5", "--set", "max_depth=2", "--categorical", "times", "--drop", "code", "--drop",
            "colour", "--no-early-stopping")  # fmt: skip
        model = agbm.load("sold.agbm")
        assert (model.max_iter, model.max_depth) == (5, 2)
        assert not {"code", "colour"} & set(model.feature_names_in_)

    def test_a_run_goes_on_from_its_checkpoint(self, here, capsys):
        many = ["--set", "max_iter=14", "--no-early-stopping"]
        run(*SOLD, *many)
        expected = agbm.load("sold.agbm").predict_proba(agbm_table())
        run(*SOLD, "--set", "max_iter=10", "--no-early-stopping", "--checkpoint", "run.checkpoint")
        assert (here / "run.checkpoint").exists()
        capsys.readouterr()
        run(*SOLD, *many, "--checkpoint", "run.checkpoint")
        np.testing.assert_array_equal(agbm.load("sold.agbm").predict_proba(agbm_table()), expected)

    def test_a_header_without_rows(self, here, capsys):
        (here / "header.csv").write_text("x,y\n")
        assert "--target y: the table has no rows" in fails(
            capsys, "train", "header.csv", "--target", "y", "--out", "m.agbm"
        )

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["none.csv", "--target", "y"], r"'none.csv': no such file"),
            (["mixed.csv"], r"--target is required: give the column to predict, one of 'id', 'size'"),
            (["mixed.csv", "--target", "sol"], r"--target sol: no such column; did you mean 'sold'\?"),
            (["mixed.csv", "--target", "sold", "--drop", "idd"], r"--drop idd: .* did you mean 'id'\?"),
            (["mixed.csv", "--target", "sold", "--drop", "sold"], r"--drop sold: the column is the target"),
            (
                ["mixed.csv", "--target", "id", "--task", "classification", "--test-fraction", "2"],
                r"--test-fraction must be .* got 2",
            ),
            (["mixed.csv", "--target", "sold", "--task", "regression"], r"the target 'sold' is text, such as"),
            (
                ["mixed.csv", "--target", "price", "--task", "classification"],
                r"the column has non-integer values; classes",
            ),
            (["mixed.csv", "--target", "day"], r"--target day: the column is neither numeric nor text"),
            (["mixed.csv", "--target", "sold", "--set", "max_itr=3"], r"no parameter 'max_itr'; did you mean 'max_it"),
            (["mixed.csv", "--target", "sold", "--set", "num_leaves=3"], r"num_leaves is max_leaf_nodes=3 here"),
            (
                ["mixed.csv", "--target", "sold", "--metric", "rmse"],
                r"--metric 'rmse' must .* neg_root_mean_sq",
            ),
            (
                ["mixed.csv", "--target", "sold", "--set", "momentum=1"],
                r"use method__momentum, a parameter of VAGBM and AGBM",
            ),
            (["mixed.csv", "--target", "sold", "--set", "max_iter=-3"], r"'max_iter' parameter"),
            (["mixed.csv", "--target", "sold", "--set", "max_iter"], r"expected NAME=VALUE"),
            (["mixed.csv", "--target", "sold", "--folds", "1"], r"--folds must be at least 2; got 1"),
            (
                ["mixed.csv", "--target", "sold", "--weight", "size"],
                r"--weight size: weights must be numbers that are not",
            ),
            (["mixed.csv", "--target", "sold", "--weight", "colour"], r"--weight colour: the column must be numeric"),
            (["mixed.csv", "--target", "sold", "--seed", "-1"], r"--seed must be between 0 and 4294967295; got -1"),
            (["mixed.csv", "--target", "sold", "--jobs", "0"], r"--jobs must not be 0; give a number of threads"),
        ],
        ids=str,
    )
    def test_mistakes_are_said_in_one_line(self, arguments, message, here, capsys):
        assert re.search(message, fails(capsys, "train", *arguments, "--out", "m.agbm", "--quiet"))
        assert not (here / "m.agbm").exists()

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            (["--out", "no/m.agbm"], "/no; create it, or use another path"),
            (["--out", "."], "'.' is a folder; use the path of a file"),
            (["--test", "none.csv"], "'none.csv': no such file"),
            (["--test", "part.csv"], "--test part.csv size: no such column"),
            (["--folds", "401"], "--folds 401: Cannot have number of splits"),
        ],
        ids=str,
    )
    def test_what_can_be_said_before_the_training_is(self, more, message, here, capsys, monkeypatch):
        mixed().drop(columns="size").to_csv("part.csv", index=False)
        monkeypatch.setattr(_data.Question, "fit", None)
        assert message in fails(capsys, *SOLD, *more, "--quiet")

    def test_what_ends_the_evaluation_does_not_cost_the_model(self, here, monkeypatch):
        def interrupted(*arguments):
            raise KeyboardInterrupt

        monkeypatch.setattr(_data.Question, "evaluate", interrupted)
        assert cli.main([*SOLD, *ONE]) == 130
        assert agbm.load("sold.agbm").n_trees_ == 8

    @pytest.mark.slow
    @pytest.mark.parametrize("more", [[], ["--folds", "3"]], ids=str)
    def test_a_class_of_one_row(self, more, here, capsys):
        table = mixed()
        table.loc[7, "sold"] = "perhaps"
        table.to_csv("mixed.csv", index=False)
        for seed in range(6):
            run(*SOLD, *FEW, *more, "--seed", seed, "--quiet", "--json")
            metrics = json.loads(capsys.readouterr().out)["metrics"]
            assert metrics[0]["value"] < 2.0
            assert agbm.load("sold.agbm").classes_.tolist() == ["no", "perhaps", "yes"]

    def test_svmlight_files_count_as_the_one_that_was_trained_on(self, here):
        """A file without values in its first column looks as if it began with 1."""
        X, y = load_breast_cancer(return_X_y=True)
        dump_svmlight_file(X, y, "cancer.svmlight", zero_based=True)
        run("train", "cancer.svmlight", "--out", "c.agbm", "--test", "cancer.svmlight", *FEW, "--quiet")
        X[:, 0] = 0.0
        dump_svmlight_file(X, y, "later.svmlight", zero_based=True)
        run("predict", "c.agbm", "later.svmlight", "--scores", "--out", "p.csv")
        expected = agbm.load("c.agbm").decision_function(X)
        np.testing.assert_allclose(pd.read_csv("p.csv")["score"], expected)

    @pytest.mark.parametrize("option", ["--weight", "--drop", "--categorical"])
    def test_svmlight_has_no_names(self, option, here, capsys):
        dump_svmlight_file(np.eye(20), np.arange(20) % 2, "t.svmlight")
        line = fails(capsys, "train", "t.svmlight", option, "x0", "--out", "m.agbm")
        assert f"{option} x0: svmlight files have no column names" in line


class TestPredict:
    @pytest.fixture
    def trained(self, here):
        run(*SOLD, *FEW)
        return agbm.load("sold.agbm")

    @pytest.mark.slow
    @pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
    def test_predictions_are_those_of_the_model(self, ending, trained, monkeypatch):
        monkeypatch.setattr(files, "BLOCK_VALUES", 300)  # several pieces
        run("predict", "sold.agbm", "mixed.csv", "--keep", "id", "--out", f"p.{ending}")
        found = files.open_table(f"p.{ending}").table(["id", "prediction"]).to_pydict()
        assert found["prediction"] == trained.predict(agbm_table()).tolist()
        assert found["id"] == list(range(400))

    @pytest.mark.slow
    @pytest.mark.parametrize(("source", "ending"), [("csv", "csv"), ("csv", "parquet"), ("parquet", "parquet")])
    def test_kept_columns_are_copied_exactly(self, source, ending, trained):
        table = mixed().assign(id=2**53 + 1 + np.arange(400), zip=[f"{i:05d}" for i in range(400)])
        table.to_csv("wide.csv", index=False)
        table.assign(day=pd.to_datetime(table["day"])).to_parquet("wide.parquet")
        run("predict", "sold.agbm", f"wide.{source}", "--keep", "id", "zip", "times", "--out", f"p.{ending}")
        found = pd.read_csv("p.csv", dtype=str) if ending == "csv" else pd.read_parquet(f"p.{ending}")
        assert found["id"].astype(str).tolist() == table["id"].astype(str).tolist()
        assert found["times"].astype(str).tolist() == table["times"].astype(str).tolist()
        if (source, ending) != ("csv", "parquet"):  # where a column of digits is one of numbers
            assert found["zip"].tolist() == table["zip"].tolist()
        assert found["prediction"].tolist() == trained.predict(agbm_table()).tolist()

    def test_probabilities_and_scores(self, trained):
        run("predict", "sold.agbm", "mixed.csv", "--proba", "--out", "p.csv")
        np.testing.assert_allclose(pd.read_csv("p.csv")["probability_yes"], trained.predict_proba(agbm_table())[:, 1])
        run("predict", "sold.agbm", "mixed.csv", "--scores", "--out", "p.csv")
        np.testing.assert_allclose(pd.read_csv("p.csv")["score"], trained.decision_function(agbm_table()))

    def test_categories_that_look_like_numbers_stay_text(self, trained):
        table = mixed().query("code != 'x3'")  # all that is left in the file are digits
        table.to_csv("digits.csv", index=False)
        run("predict", "sold.agbm", "digits.csv", "--scores", "--out", "p.csv")
        expected = trained.decision_function(agbm_table()[(mixed()["code"] != "x3").to_numpy()])
        np.testing.assert_allclose(pd.read_csv("p.csv")["score"], expected)

    def test_a_category_that_is_missing_everywhere(self, trained):
        X = agbm_table().assign(code=None)
        X.to_parquet("none.parquet")
        run("predict", "sold.agbm", "none.parquet", "--scores", "--out", "p.tsv")
        found = pd.read_csv("p.tsv", sep="\t")
        np.testing.assert_allclose(found["score"], trained.decision_function(X))

    def test_tabs_by_the_ending(self, trained, here):
        run("predict", "sold.agbm", "mixed.csv", "--keep", "times", "--out", "p.tsv")
        assert (here / "p.tsv").read_text().startswith('"times"\t"prediction"\n')

    def test_to_standard_output(self, trained, capfd):
        run("predict", "sold.agbm", "mixed.csv", "--out", "-")
        lines = capfd.readouterr().out.replace('"', "").split()
        assert lines == ["prediction", *trained.predict(agbm_table())]

    def test_many_classes(self, here):
        iris = load_iris(as_frame=True).frame
        iris["target"] = np.array(["a", "b", "c"])[iris["target"]]
        iris.to_csv("iris.csv", index=False)
        run("train", "iris.csv", "--target", "target", "--out", "iris.agbm", *FEW)
        run("predict", "iris.agbm", "iris.csv", "--proba", "--out", "p.csv")
        assert list(pd.read_csv("p.csv")) == ["probability_a", "probability_b", "probability_c"]
        run("predict", "iris.agbm", "iris.csv", "--scores", "--out", "p.csv")
        assert list(pd.read_csv("p.csv")) == ["score_a", "score_b", "score_c"]

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["sold.agbm", "part.csv"], r"lacks the columns \['size'\] that the model needs"),
            (["sold.agbm", "mixed.csv", "--keep", "idd"], r"--keep idd: .*did you mean 'id'"),
            (["mixed.csv", "mixed.csv"], r"'mixed.csv' cannot be loaded"),
            (["none.agbm", "mixed.csv"], r"none.agbm"),
            (["sold.agbm", "named.csv", "--keep", "prediction"], r"--keep prediction: a column of predictions has"),
            (["sold.agbm", "empty.csv"], r"'empty.csv' has no rows"),
            (["sold.agbm", "codes.parquet"], r"'codes.parquet': column 'code' must be text, as in the training data"),
        ],
    )
    def test_mistakes(self, arguments, message, trained, capsys):
        mixed().drop(columns="size").to_csv("part.csv", index=False)
        mixed().assign(prediction=1).to_csv("named.csv", index=False)
        mixed()[:0].to_csv("empty.csv", index=False)
        mixed().assign(code=12, day=pd.Timestamp(2026, 1, 1)).to_parquet("codes.parquet")
        capsys.readouterr()
        assert re.search(message, fails(capsys, "predict", *arguments, "--out", "p.csv"))

    def test_regressors_have_no_probabilities(self, here, capsys):
        run("train", "mixed.csv", "--target", "price", "--out", "m.agbm", *FEW)
        capsys.readouterr()
        assert "--proba: the model is a regressor" in fails(
            capsys, "predict", "m.agbm", "mixed.csv", "--proba", "--out", "p.csv"
        )


class TestLooking:
    @pytest.fixture
    def trained(self, here, capsys):
        run(*SOLD, *FEW)
        capsys.readouterr()
        return agbm.load("sold.agbm")

    def test_inspect(self, here, capsys):
        run(*SOLD, *ONE)
        run("inspect", "sold.agbm")
        said = capsys.readouterr().out
        assert "AGBMClassifier, loss LogLoss" in said
        assert "fading: 8 trees, iteration 8 of 8" in said
        assert "note: command" in said
        assert re.search(r"note: metrics +log loss", said)
        model = agbm.load("sold.agbm")
        assert re.search(rf"fingerprint +{model.fingerprint_}", said)
        assert re.search(rf"origin +agbm {agbm.__version__}, 320 rows with\s+digest [0-9a-f]+…", said)
        run("inspect", "sold.agbm", "--json")
        found = json.loads(capsys.readouterr().out)
        assert found["changed_parameters"] == {"max_iter": 8, "early_stopping": False, "n_members": 1}
        assert found["categories"] == {"colour": 2, "code": 3}
        assert found["validation_loss"] is None
        assert found["fingerprint"] == model.fingerprint_
        assert found["notes"]["metrics"][0]["name"] == "log loss"

    def test_inspect_counts_members(self, trained, capsys):
        run("inspect", "sold.agbm")
        assert "fading: 5 members, 40 trees, iteration 8 of 8" in capsys.readouterr().out

    @pytest.mark.slow
    @pytest.mark.parametrize("metrics", ["no json", "3", "[3]", '[{"name": 1}]', '{"a": 1}'])
    def test_notes_of_strangers_are_only_shown(self, metrics, trained, capsys):
        trained.notes_["metrics"] = metrics
        trained.save("odd.agbm")
        run("inspect", "odd.agbm", "--json")
        assert json.loads(capsys.readouterr().out)["notes"]["metrics"] == []
        run("inspect", "odd.agbm")

    def test_contributions_add_up_to_the_score(self, trained, capsys):
        run("explain", "sold.agbm", "mixed.csv", "--rows", "2", "--json")
        rows = json.loads(capsys.readouterr().out)["rows"]
        scores = trained.decision_function(agbm_table()[:2])
        for row, score in zip(rows, scores, strict=True):
            assert row["base"] + sum(entry["adds"] for entry in row["contributions"]) == pytest.approx(score)
            assert row["of"] == "yes"
        run("explain", "sold.agbm", "mixed.csv", "--rows", "1", "--top", "2")
        said = capsys.readouterr().out
        assert len(re.findall(r"(?m)^  (size|colour|code|day|times) ", said)) == 2
        assert "all others" in said
        run("explain", "sold.agbm", "mixed.csv", "--out", "c.csv")
        written = pd.read_csv("c.csv")
        np.testing.assert_allclose(written.sum(axis=1), trained.decision_function(agbm_table()))
        assert list(written) == ["size", "colour", "code", "day", "times", "base value"]

    @pytest.mark.slow
    @pytest.mark.parametrize("to", ["onnx", "lightgbm", "treelite", "c", "js", "text", "dot"])
    def test_export(self, to, trained, capsys, here):
        run("export", "sold.agbm", "--to", to, "--out", f"m.{to}", "--json")
        written = (here / f"m.{to}").read_bytes()
        assert json.loads(capsys.readouterr().out) == {"out": f"m.{to}", "bytes": len(written)}
        if to == "onnx":
            session = onnxruntime.InferenceSession(written)
            X = agbm_table()[:20]
            texts = {name: X[name].fillna("").to_numpy(object)[:, None] for name in ("colour", "code")}
            names = trained.model_.reader.derivation.feature_names(trained.feature_names_in_)
            encoded = dict(zip(names, agbm.export.encode(trained, X, np.float32).T, strict=True))
            numbers = {name: encoded[name][:, None] for name in names if name not in texts}
            labels = session.run(["label"], texts | numbers)[0]
            assert labels.tolist() == trained.predict(X).tolist()
        else:
            text = b"/*\nagbm "
            start = {
                "lightgbm": b"tree\n",
                "treelite": b"",
                "c": text,
                "js": text,
                "text": b"tree 0",
                "dot": b"digraph",
            }[to]
            assert written.startswith(start)
            assert len(written) > 100

    def test_trees_by_number(self, trained, here, capsys):
        for tree in 0, 3:
            run("export", "sold.agbm", "--to", "text", "--tree", tree, "--out", f"{tree}.txt")
            assert (here / f"{tree}.txt").read_text() == agbm.export.export_text(trained, tree)
        assert "tree" in fails(capsys, "export", "sold.agbm", "--to", "text", "--tree", 99, "--out", "x.txt")


class TestCompare:
    FEW = ("--methods", "fading", "gbm", "--peers", "HistGradientBoosting", "--max-iter", "15")

    @pytest.mark.slow
    def test_all_are_evaluated_on_the_same_rows(self, here, capsys):
        run("compare", "mixed.csv", "--target", "sold", "--drop", "price", "id", *self.FEW, "--json")
        found = json.loads(capsys.readouterr().out)["contenders"]
        assert {contender["name"] for contender in found} == {"fading", "gbm", "HistGradientBoosting"}
        losses = [contender["metrics"][0]["value"] for contender in found]
        assert losses == sorted(losses)
        above = [contender["above_best"]["value"] for contender in found]
        assert above == pytest.approx([loss - losses[0] for loss in losses])
        y = mixed()["sold"].to_numpy(str)
        rest, test = hold_out(400, 0.2, y, 0)
        train, validation = (rest[part] for part in hold_out(320, 0.1, y[rest], seed_of(0)))
        X, model = agbm_table(), agbm.AGBMClassifier(max_iter=15)
        model.fit(X.iloc[train], y[train], X_val=X.iloc[validation], y_val=y[validation])
        expected = metrics_of_classes(y[test], model.predict_proba(X.iloc[test]), model.classes_)[0].value
        assert next(c for c in found if c["name"] == "fading")["metrics"][0]["value"] == expected

    @pytest.mark.slow
    def test_table_and_page(self, here, capsys, monkeypatch):
        monkeypatch.setenv("COLUMNS", "160")
        run("compare", "mixed.csv", "--target", "price", "--drop", "sold", "--rows", "300", *self.FEW,
            "--report", "page.html", "--quiet")  # fmt: skip
        said = capsys.readouterr()
        assert said.err == ""
        assert re.search(r"RMSE +MAE +R² +trees +seconds +fading matches it after", said.out)
        assert re.search(r"(?m)^  fading .* \d+ trees, [\d.e-]+ s$", said.out)
        assert re.search(r"No significant difference from \w+ on the test rows \(paired, 95 %\): \w+", said.out)
        page = (here / "page.html").read_text()
        assert "agbm compare mixed.csv --target price" in page
        assert "216 for training, 24 for early stopping, 60 for testing" in page

    def test_tables_fit_into_a_narrow_terminal(self, here, capsys):
        table = mixed()
        table["price"] = 20_000 * table["price"]
        table.to_csv("mixed.csv", index=False)
        run("compare", "mixed.csv", "--target", "price", "--drop", "sold", *self.FEW, "--quiet")
        said = capsys.readouterr().out
        assert max(map(len, said.splitlines())) <= 80
        assert re.search(r"RMSE +MAE +R² +trees +seconds\n", said)
        assert re.search(
            r"(?m)^  HistGradientBoosting +\d{3},\d{3} ± \d+,\d{3} +\d{3},\d{3} +-?0\.\d+ +\d+ +[\d.]+$", said
        )
        assert re.search(r"(?m)^ +fading matches it after$", said)
        assert re.search(r"(?m)^  fading +\d+ trees, [\d.e-]+ s$", said)

    def test_a_library_that_is_not_there_is_said(self, here, capsys, monkeypatch):
        monkeypatch.setattr("agbm._apps.cli.commands.compare.installed_peers", lambda: [])
        line = fails(capsys, "compare", "mixed.csv", "--target", "price", "--peers", "LightGBM", "--quiet")
        assert "pip install lightgbm" in line

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            (["--methods", "--peers"], r"--methods and --peers are both empty; name at least one"),
            (["--methods", "gbm", "--peers"], r"no model could be trained; gbm: RuntimeError: no memory"),
        ],
    )
    def test_no_model_at_all_is_a_failure(self, more, message, here, capsys, monkeypatch):
        def broken(*_):
            raise RuntimeError("no memory")

        monkeypatch.setattr(comparison, "_fit_ours", broken)
        assert re.search(message, fails(capsys, "compare", "mixed.csv", "--target", "price", "--quiet", *more))

    def test_no_folder_is_said_before_the_training(self, here, capsys):
        line = fails(capsys, "compare", "mixed.csv", "--target", "price", "--report", "no/page.html", "--quiet")
        assert "/no; create it, or use another path" in line

    @pytest.mark.parametrize("command", [["compare"], ["tune", "--out", "m.agbm"]], ids=str)
    def test_no_weights_where_they_are_not_used(self, command, capsys):
        with pytest.raises(SystemExit):
            cli.main([*command, "mixed.csv", "--target", "price", "--weight", "times"])
        assert "unrecognized arguments: --weight times" in capsys.readouterr().err

    def test_an_interrupt_shows_what_is_done(self, here, capsys, monkeypatch):
        def two_and_no_more(*given, **options):
            yield from itertools.islice(comparison.compare(*given, **options), 2)
            raise KeyboardInterrupt

        monkeypatch.setattr("agbm._apps.cli.commands.compare.compare", two_and_no_more)
        assert cli.main(["compare", "mixed.csv", "--target", "price", "--drop", "sold", *self.FEW, "--json"]) == 130
        said = capsys.readouterr()
        assert {contender["name"] for contender in json.loads(said.out)["contenders"]} == {"fading", "gbm"}
        assert said.err == "interrupted\n"

    @pytest.mark.parametrize("option", ["--validation-fraction", "--test-fraction"])
    @pytest.mark.parametrize("share", ["0.0", "1.0"])
    def test_shares(self, option, share, here, capsys):
        line = fails(capsys, "compare", "mixed.csv", "--target", "price", option, share)
        assert f"{option} must be above 0 and below 1; got {share}" in line

    @pytest.mark.slow
    def test_too_large_for_memory(self, here, capsys, monkeypatch):
        compare = ["compare", "mixed.csv", "--target", "price", "--drop", "sold", *self.FEW, "--json"]
        run(*compare, "--rows", "200")
        in_memory = json.loads(capsys.readouterr().out)["contenders"]
        monkeypatch.setattr(_data, "available_memory", lambda: 1000)
        monkeypatch.setattr(files, "BLOCK_VALUES", 300)
        monkeypatch.setattr(files._ArrowFile, "table", None)  # which reads all of it
        assert "use --rows N" in fails(capsys, *compare)
        run(*compare, "--rows", "200")
        found = json.loads(capsys.readouterr().out)["contenders"]
        assert [c["metrics"] for c in found] == [c["metrics"] for c in in_memory]


class TestTune:
    TUNE = ("tune", "mixed.csv", "--target", "price", "--drop", "sold", "--out", "m.agbm", "--set", "max_iter=20")

    @pytest.mark.slow
    def test_search_goes_on_and_says_what_it_gains(self, here, capsys):
        run(*self.TUNE, "--trials", "3")
        said = capsys.readouterr().out
        assert re.search(r"default .*\n +best ", said)
        assert re.search(r"trials +3 completed, 0 pruned", said)
        assert re.search(r"parameters +--set .*max_iter=20", said)
        assert (here / "m.agbm.study").exists()
        run(*self.TUNE, "--trials", "2", "--json")
        found = json.loads(capsys.readouterr().out)
        assert found["complete"] + found["pruned"] == 5
        assert found["validation_loss"] <= found["default_validation_loss"]
        model = agbm.load("m.agbm")
        assert model.notes_["gain"] == found["verdict"]
        assert {name: model.get_params()[name] for name in found["parameters"]} == found["parameters"]

    @pytest.mark.parametrize(("option", "value"), [("--seconds", "0"), ("--seconds", "nan"), ("--trials", "-1")])
    def test_budgets(self, option, value, here, capsys):
        assert f"{option} must be above 0; got {float(value) if option == '--seconds' else value}" in fails(
            capsys, *self.TUNE, option, value
        )


class TestReport:
    def test_of_a_model_alone_and_on_other_rows(self, here, capsys):
        run(*SOLD, *FEW, "--report", "first.html", "--quiet")
        noted = json.loads(agbm.load("sold.agbm").notes_["metrics"])[0]["value"]
        run("report", "sold.agbm", "--out", "second.html")
        for name in "first.html", "second.html":
            page = (here / name).read_text()
            assert "agbm train mixed.csv --target sold" in page
            assert f"{noted:.4g}" in page
        assert "320 for training, 80 for testing" in page
        mixed(seed=1).to_csv("later.csv", index=False)
        capsys.readouterr()
        run("report", "sold.agbm", "later.csv", "--out", "third.html", "--json")
        found = json.loads(capsys.readouterr().out)["metrics"][0]["value"]
        assert found != noted
        assert f"{found:.4g}" in (here / "third.html").read_text()
        assert 'id="what-if"' in (here / "third.html").read_text()
        run("report", "sold.agbm", "later.csv", "--out", "fourth.html", "--no-rows")
        assert 'id="what-if"' not in (here / "fourth.html").read_text()

    def test_of_a_model_that_no_command_has_made(self, here, capsys):
        X, y = load_breast_cancer(return_X_y=True)
        agbm.AGBMClassifier(max_iter=3, max_depth=2).fit(X, y).save("bare.agbm")
        run("report", "bare.agbm", "--out", "bare.html")
        assert "max_depth" in (here / "bare.html").read_text()
        capsys.readouterr()
        assert "--target is required" in fails(capsys, "report", "bare.agbm", "mixed.csv", "--out", "x.html")
        assert "--target y: there are no data" in fails(
            capsys, "report", "bare.agbm", "--target", "y", "--out", "x.html"
        )

    @pytest.mark.parametrize(
        ("price", "message"),
        [
            (None, "all values of the target 'price' are missing"),
            ("dear", "column 'price' must be numeric, but contains no numbers"),
        ],
    )
    def test_labels_to_evaluate_with(self, price, message, here, capsys):
        run("train", "mixed.csv", "--target", "price", "--out", "m.agbm", *FEW, "--quiet")
        mixed().assign(price=price).to_csv("later.csv", index=False)
        capsys.readouterr()
        assert message in fails(capsys, "report", "m.agbm", "later.csv", "--out", "x.html")

    def test_rows_read_in_pieces(self, here):
        run(*SOLD, *FEW, "--stream", "--report", "page.html")
        assert "colour" in (here / "page.html").read_text()


class TestEnds:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_help_has_examples(self, command, capsys):
        with pytest.raises(SystemExit) as ended:
            cli.main([command, "--help"])
        assert ended.value.code == 0
        assert f"agbm {command}" in capsys.readouterr().out.split("examples:")[1]

    def test_wrong_arguments_end_with_2(self, capsys):
        with pytest.raises(SystemExit) as ended:
            cli.main(["train"])
        assert ended.value.code == 2
        with pytest.raises(SystemExit) as ended:
            cli.main(["trian"])
        assert ended.value.code == 2

    def test_interrupt_ends_with_130(self, here, monkeypatch, capsys):
        def interrupted(*arguments):
            raise KeyboardInterrupt

        monkeypatch.setattr(_data.Question, "fit", interrupted)
        assert cli.main(SOLD) == 130
        assert capsys.readouterr().err == "interrupted\n"
        assert not (here / "sold.agbm").exists()

    def test_what_nobody_foresaw_is_one_line_as_well(self, here, monkeypatch, capsys):
        def broken(*arguments):
            raise RuntimeError("line 1\nline 2")

        monkeypatch.setattr(_data.Question, "fit", broken)
        assert "RuntimeError: line 1 line 2 (agbm --debug" in fails(capsys, *SOLD, "--quiet")
        for arguments in ["--debug", *SOLD], [*SOLD, "--debug"]:
            with pytest.raises(RuntimeError):
                cli.main(arguments)

    def test_warnings_are_lines(self, here, capsys):
        run(*SOLD, *FEW, "--quiet", "--set", "max_iter=60", "method=gbm", "learning_rate=1e6")
        assert re.fullmatch(r"agbm: warning: Training diverged .*\n", capsys.readouterr().err)

    @pytest.mark.slow
    def test_as_a_process(self, here):
        """Exit codes as a shell sees them, a reader who leaves early, and `python -m agbm`."""
        agbm_command = [sys.executable, "-m", "agbm"]
        done = subprocess.run([*agbm_command, *SOLD, *FEW, "--quiet"], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        predict = f"{sys.executable} -m agbm predict sold.agbm mixed.csv --out - | head -1"
        piped = subprocess.run(["bash", "-o", "pipefail", "-c", predict], capture_output=True, text=True)
        assert (piped.returncode, piped.stdout, piped.stderr) == (0, '"prediction"\n', "")
        failed = subprocess.run([*agbm_command, "inspect", "none.agbm"], capture_output=True, text=True)
        assert failed.returncode == 1
        assert "Traceback" not in failed.stderr

    @pytest.mark.slow
    def test_letters_that_a_terminal_has_not(self, here):
        """Results are written whatever the encoding is, and JSON is JSON."""
        mixed().rename(columns={"size": "gr\u00f6\u00dfe"}).to_csv("mixed.csv", index=False)
        train = [sys.executable, "-m", "agbm", "train", "mixed.csv", "--target", "price", "--out", "m.agbm", *FEW]
        environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
        said = subprocess.run([*train, "--quiet", "--json"], capture_output=True, env=environment)
        assert (said.returncode, said.stderr) == (0, b"")
        assert "gr\u00f6\u00dfe" in json.loads(said.stdout)["features"]
        said = subprocess.run([*train], capture_output=True, env=environment)
        assert said.returncode == 0
        assert rb"R\xb2" in said.stdout

    @pytest.mark.slow
    def test_a_closed_standard_output(self, here):
        command = f"{sys.executable} -m agbm {' '.join([*SOLD, *ONE])} --quiet >&-"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        assert agbm.load("sold.agbm").n_trees_ == 8

    @pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
    def test_completion_in_bash(self, here, capsys):
        run("completion", "bash")
        (here / "agbm.bash").write_text(capsys.readouterr().out)
        script = (
            "source agbm.bash; COMP_WORDS=(agbm tra); COMP_CWORD=1; COMP_LINE='agbm tra'; COMP_POINT=8; "
            "$(complete -p agbm | sed -E 's/.*-F (\\S+).*/\\1/') agbm tra agbm; echo ${COMPREPLY[@]}"
        )
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
        assert done.stdout.split() == ["train"], done


def test_dates_as_text_are_predicted_and_updated(here, capsys):
    days = pd.date_range("2024-01-01", periods=400, freq="D")
    table = pd.DataFrame({"day": days.strftime("%d/%m/%Y"), "x": range(400), "sales": 10.0 * (days.day_of_week >= 5)})
    table[:300].to_csv("old.csv", index=False)
    table[300:].to_csv("new.csv", index=False)
    run("train", "old.csv", "--target", "sales", "--out", "m.agbm", *FEW)
    assert re.search(r"dates +day \(day/month/year\): elapsed time, day of month, weekday", capsys.readouterr().out)
    run("predict", "m.agbm", "new.csv", "--out", "p.csv")
    expected = agbm.load("m.agbm").predict(table[["day", "x"]][300:])
    np.testing.assert_allclose(pd.read_csv("p.csv")["prediction"], expected)
    run("update", "m.agbm", "new.csv", "--mode", "leaves", "--out", "n.agbm")
    assert agbm.load("n.agbm").model_.updates == (("leaves", 0),)
    run("report", "m.agbm", "new.csv", "--out", "page.html")
    assert "day" in (here / "page.html").read_text()
