"""agbm train."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file, load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

import agbm
from agbm._apps import cli
from agbm._apps.cli.reading import data as _data
from agbm._apps.cli.reading import files as files
from agbm._apps.evaluation.metrics import metrics_of_classes, metrics_of_values
from agbm._data.hold_out import hold_out
from agbm.methods import AGBM
from commands import FEW, ONE, SOLD, agbm_table, fails, mixed, run


class TestTrain:
    def test_early_stopping_by_a_metric(self, here, capsys):
        run(*SOLD, "--metric", "auc")
        capsys.readouterr()
        model = agbm.load("sold.agbm")
        assert model.scoring == "auc"
        assert model.best_iteration_ == model.history_["validation_auc"].argmax()

    @pytest.mark.slow
    def test_summary_matches_the_model(self, here, capsys):
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
    def test_summary_of_validation_rows(self, given, said, here, capsys):
        run(*SOLD, "--set", "max_iter=3", given)
        assert said in capsys.readouterr().out

    def test_json_is_the_only_output(self, here, capsys):
        run(*SOLD, "--json")
        said = capsys.readouterr()
        found = json.loads(said.out)
        assert said.err == ""
        assert found["task"] == "classification"
        assert found["categories"] == ["colour", "code"]
        assert found["trees"] == agbm.load("sold.agbm").n_trees_
        assert {metric["name"] for metric in found["metrics"]} == {"log loss", "accuracy", "ROC AUC"}
        assert sum(found["importances"].values()) == pytest.approx(1.0)

    def test_control_characters_are_escaped(self, here, capsys):
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
    def test_reading_in_batches_gives_the_same_bits(self, more, here, monkeypatch, capsys):
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

    def test_large_tables_are_read_in_batches(self, here, monkeypatch, capsys):
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

    def test_unknown_labels_of_test_rows(self, here, capsys):
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

    def test_rows_without_a_target_are_dropped(self, here, capsys):
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

    def test_repeated_options_are_combined(self, here):
        run(*SOLD, "--set", "max_iter=5", "--set", "max_depth=2", "--categorical", "times", "--drop", "code", "--drop",
            "colour", "--no-early-stopping")  # fmt: skip
        model = agbm.load("sold.agbm")
        assert (model.max_iter, model.max_depth) == (5, 2)
        assert not {"code", "colour"} & set(model.feature_names_in_)

    def test_resumes_from_a_checkpoint(self, here, capsys):
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
                r"use method__momentum with method=vagbm or method=agbm or method=agbmr",
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
    def test_errors_are_one_line(self, arguments, message, here, capsys):
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
    def test_errors_before_training(self, more, message, here, capsys, monkeypatch):
        mixed().drop(columns="size").to_csv("part.csv", index=False)
        monkeypatch.setattr(_data.Question, "fit", None)
        assert message in fails(capsys, *SOLD, *more, "--quiet")

    def test_interrupted_evaluation_keeps_the_model(self, here, monkeypatch):
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

    def test_svmlight_keeps_the_column_offset_of_training(self, here):
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
