"""agbm compare, tune and report."""

import itertools
import json
import re

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import agbm
from agbm._apps import cli
from agbm._apps.cli.reading import data as _data
from agbm._apps.cli.reading import files as files
from agbm._apps.evaluation import comparison
from agbm._apps.evaluation.metrics import metrics_of_classes
from agbm._data.hold_out import hold_out, seed_of
from commands import FEW, SOLD, agbm_table, fails, mixed, run


class TestCompare:
    FEW = ("--peers", "HistGradientBoosting", "--max-iter", "15")
    NAMES = frozenset({"agbm", "agbm, one model", "HistGradientBoosting"})

    @pytest.mark.slow
    def test_all_are_evaluated_on_the_same_rows(self, here, capsys):
        run(
            "compare", "mixed.csv", "--target", "sold", "--drop", "price", "id", *self.FEW, "--methods", "gbm", "--json"
        )
        found = json.loads(capsys.readouterr().out)["contenders"]
        assert {contender["name"] for contender in found} == self.NAMES | {"gradient boosting"}
        losses = [contender["metrics"][0]["value"] for contender in found]
        assert losses == sorted(losses)
        above = [contender["above_best"]["value"] for contender in found]
        assert above == pytest.approx([loss - losses[0] for loss in losses])
        y = mixed()["sold"].to_numpy(str)
        rest, test = hold_out(400, 0.2, y, 0)
        train, validation = (rest[part] for part in hold_out(320, 0.1, y[rest], seed_of(0)))
        X, one, default = agbm_table(), agbm.AGBMClassifier(max_iter=15, n_members=1), agbm.AGBMClassifier(max_iter=15)
        one.fit(X.iloc[train], y[train], X_val=X.iloc[validation], y_val=y[validation])
        default.fit(X.iloc[rest], y[rest])
        for name, model in {"agbm": default, "agbm, one model": one}.items():
            expected = metrics_of_classes(y[test], model.predict_proba(X.iloc[test]), model.classes_)[0].value
            assert next(c for c in found if c["name"] == name)["metrics"][0]["value"] == expected

    def test_groups(self, here, capsys):
        """No group is divided, and the default and five averaged models hold out whole groups."""
        mixed().assign(owner=np.arange(400) // 4).to_csv("mixed.csv", index=False)
        run("compare", "mixed.csv", "--target", "price", "--drop", "sold", "--peers", "LightGBM", "--max-iter", "5",
            "--groups", "owner", "--json")  # fmt: skip
        found = json.loads(capsys.readouterr().out)["contenders"]
        assert {one["name"] for one in found} == {"agbm", "agbm, one model", "five LightGBMs", "LightGBM"}
        assert not any(one["failure"] for one in found)
        run("compare", "mixed.csv", "--target", "price", "--drop", "sold", "--peers", "LightGBM", "--max-iter", "5",
            "--time-order", "owner", "--json")  # fmt: skip
        found = json.loads(capsys.readouterr().out)["contenders"]
        assert {one["name"] for one in found} == {"agbm", "agbm, one model", "LightGBM"}
        assert not any(one["failure"] for one in found)

    @pytest.mark.slow
    def test_table_and_page(self, here, capsys, monkeypatch):
        monkeypatch.setenv("COLUMNS", "160")
        run("compare", "mixed.csv", "--target", "price", "--drop", "sold", "--rows", "300", *self.FEW,
            "--methods", "gbm", "agbm", "--report", "page.html", "--quiet")  # fmt: skip
        said = capsys.readouterr()
        assert said.err == ""
        assert re.search(r"RMSE +MAE +R² +trees +seconds +one model matches it after", said.out)
        assert re.search(r"(?m)^  agbm, one model .* \d+ trees, [\d.e-]+ s$", said.out)
        assert re.search(r"No significant difference from [\w, ]+ on the test rows \(paired, 95 %\): \w+", said.out)
        page = (here / "page.html").read_text()
        assert "agbm compare mixed.csv --target price" in page
        assert "216 for training, 24 for early stopping, 60 for testing" in page
        (titles,) = re.findall(r'<section id="two"><h2>(.*?)</h2>', page)
        first, second = titles.split(" and ")
        best = re.search(r"Of \d models, (.+?) has the lowest RMSE", page)[1]
        assert first == best
        assert "agbm" in (first, second)
        two = page.split('<section id="two">')[1].split("</section>")[0]
        assert f"The mean squared error of {first} is lower than that of {second} by " in two
        charts = ["Calibration", "Absolute errors", "Predictions of both"]
        assert [title for title in re.findall("<figcaption>(.*?)</figcaption>", two) if title in charts] == charts

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
        assert re.search(r"(?m)^ +one model matches it after$", said)
        assert re.search(r"(?m)^  agbm, one model +\d+ trees, [\d.e-]+ s$", said)

    def test_missing_library(self, here, capsys, monkeypatch):
        monkeypatch.setattr("agbm._apps.cli.commands.compare.installed_peers", lambda: [])
        line = fails(capsys, "compare", "mixed.csv", "--target", "price", "--peers", "LightGBM", "--quiet")
        assert "pip install lightgbm" in line

    def test_no_trained_model_is_an_error(self, here, capsys, monkeypatch):
        def broken(*_):
            raise RuntimeError("no memory")

        monkeypatch.setattr(comparison, "_fit_ours", broken)
        line = fails(capsys, "compare", "mixed.csv", "--target", "price", "--quiet", "--peers")
        assert "no model could be trained; agbm: RuntimeError: no memory" in line

    def test_missing_folder_is_reported_before_training(self, here, capsys):
        line = fails(capsys, "compare", "mixed.csv", "--target", "price", "--report", "no/page.html", "--quiet")
        assert "/no; create it, or use another path" in line

    @pytest.mark.parametrize("command", [["compare"], ["tune", "--out", "m.agbm"]], ids=str)
    def test_weight_option_is_rejected(self, command, capsys):
        with pytest.raises(SystemExit):
            cli.main([*command, "mixed.csv", "--target", "price", "--weight", "times"])
        assert "unrecognized arguments: --weight times" in capsys.readouterr().err

    def test_interrupt_shows_finished_models(self, here, capsys, monkeypatch):
        def two_and_no_more(*given, **options):
            yield from itertools.islice(comparison.compare(*given, **options), 2)
            raise KeyboardInterrupt

        monkeypatch.setattr("agbm._apps.cli.commands.compare.compare", two_and_no_more)
        assert cli.main(["compare", "mixed.csv", "--target", "price", "--drop", "sold", *self.FEW, "--json"]) == 130
        said = capsys.readouterr()
        assert {contender["name"] for contender in json.loads(said.out)["contenders"]} == {"agbm", "agbm, one model"}
        assert said.err == "interrupted\n"

    @pytest.mark.parametrize("option", ["--validation-fraction", "--test-fraction"])
    @pytest.mark.parametrize("share", ["0.0", "1.0"])
    def test_invalid_fractions(self, option, share, here, capsys):
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
    def test_search_resumes_and_reports_its_gain(self, here, capsys):
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

    def test_of_a_model_saved_in_python(self, here, capsys):
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
