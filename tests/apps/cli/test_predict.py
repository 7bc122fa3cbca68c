"""agbm predict, inspect, explain and export."""

import json
import re

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from sklearn.datasets import load_iris

import agbm
from agbm._apps.cli.reading import files as files
from commands import FEW, ONE, SOLD, agbm_table, fails, mixed, run


class TestPredict:
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

    def test_numeric_looking_categories_stay_text(self, trained):
        table = mixed().query("code != 'x3'")  # all that is left in the file are digits
        table.to_csv("digits.csv", index=False)
        run("predict", "sold.agbm", "digits.csv", "--scores", "--out", "p.csv")
        expected = trained.decision_function(agbm_table()[(mixed()["code"] != "x3").to_numpy()])
        np.testing.assert_allclose(pd.read_csv("p.csv")["score"], expected)

    def test_column_of_missing_categories(self, trained):
        X = agbm_table().assign(code=None)
        X.to_parquet("none.parquet")
        run("predict", "sold.agbm", "none.parquet", "--scores", "--out", "p.tsv")
        found = pd.read_csv("p.tsv", sep="\t")
        np.testing.assert_allclose(found["score"], trained.decision_function(X))

    def test_tsv_output(self, trained, here):
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
        assert "--proba: the model is no classifier" in fails(
            capsys, "predict", "m.agbm", "mixed.csv", "--proba", "--out", "p.csv"
        )


class TestInspectExplainExport:
    def test_inspect(self, here, capsys):
        run(*SOLD, *ONE)
        run("inspect", "sold.agbm")
        said = capsys.readouterr().out
        assert "AGBMClassifier, loss LogLoss" in said
        assert "agbm: 8 trees, iteration 8 of 8" in said
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
        assert "agbm: 5 members, 40 trees, iteration 8 of 8" in capsys.readouterr().out

    def test_inspect_lists_crosses(self, here, capsys):
        run(*SOLD, "--set", 'views=[["size", "-", "times"]]')
        run("inspect", "sold.agbm")
        assert re.search(r"crosses +size - times\n", capsys.readouterr().out)

    @pytest.mark.slow
    @pytest.mark.parametrize("metrics", ["no json", "3", "[3]", '[{"name": 1}]', '{"a": 1}'])
    def test_invalid_notes_are_ignored(self, metrics, trained, capsys):
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
            assert re.match(r"The probability of (yes|no) is 0\.\d+ instead of the typical ", row["reason"])
        run("explain", "sold.agbm", "mixed.csv", "--rows", "1", "--top", "2")
        said = capsys.readouterr().out
        assert len(re.findall(r"(?m)^  (size|colour|code|day|times) ", said)) == 2
        assert "all others" in said
        assert said.count("The probability of ") == 1
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
