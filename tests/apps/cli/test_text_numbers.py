"""Numeric columns with a few cells of text: reported, and read as numbers on request."""

import json
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest
from sklearn.datasets import dump_svmlight_file

import agbm
from agbm._apps import cli
from agbm._apps.cli.reading import files as files
from agbm._apps.cli.reading.files import Column, open_table
from agbm._apps.cli.reading.text_numbers import Mixed, Tally, tally, to_numbers
from commands import fails, run

CELLS = {
    "1": ("plain", 1.0),
    "-2.5e3": ("plain", -2500.0),
    " +.5 ": ("plain", 0.5),
    "1,5": ("commas", 1.5),
    "-0,25e2": ("commas", -25.0),
    "0,125": ("commas", 0.125),
    "1,234": ("unclear", 1.234),
    "n/a?": ("others", None),
    "1,234,567": ("others", None),
    "1.234,5": ("others", None),
    "x\ny": ("others", None),
    "\u00a0": (None, None),
    "\n": (None, None),
    None: (None, None),
}


@pytest.mark.parametrize(("cell", "kind", "number"), [(cell, *found) for cell, found in CELLS.items()])
def test_cells(cell, kind, number):
    column = pa.chunked_array([pa.array([cell, cell], pa.string())])
    assert tally(column) == (Tally() if kind is None else Tally(**{kind: 2}))
    assert to_numbers(column, decimal_commas=True).to_pylist() == [number] * 2
    assert to_numbers(column, decimal_commas=False).to_pylist() == [number if kind == "plain" else None] * 2


@pytest.mark.parametrize(
    ("numbers", "others", "looks_like_numbers"), [(90, 10, True), (89, 11, False), (10, 1, True), (9, 0, False)]
)
def test_what_looks_like_numbers(numbers, others, looks_like_numbers):
    for kind in "plain", "commas", "unclear":
        assert Tally(**{kind: numbers}, others=others).looks_like_numbers == looks_like_numbers


def test_clear_text_columns_are_not_scanned_completely(tmp_path, monkeypatch):
    monkeypatch.setattr("agbm._apps.cli.reading.text_numbers.ENOUGH_TEXT", 20)
    assert Tally(plain=19, others=20).is_surely_text
    assert not Tally(plain=20, others=20).is_surely_text
    assert not Tally(others=19).is_surely_text
    cells = ["x"] * 30 + ["1,5"]
    _, column = column_of(tmp_path, cells, numeric=["a"])
    assert column == Column("a", "number", Mixed(31, 30, ("x",), 0), decimal_commas=True)


def written(path, header, *cells):
    lines = [header, *(";".join(row) for row in zip(*cells, strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_blank_cells_of_a_csv_are_missing(tmp_path):
    rows = [
        ("1.5", "7", "true", "2026-01-01", "a"),
        (" ", "   ", "  ", " ", "\t"),
        ("2", "8", "false", "2026-01-02", "b"),
    ]
    file = open_table(written(tmp_path / "t.csv", "a;b;c;d;e", *zip(*rows, strict=True)))
    assert [column.kind for column in file.columns] == ["number", "number", "truth", "time", "category"]
    table = file.table(list("abcde"))
    assert all(table[name].to_pylist()[1] is None for name in "abcde")
    assert table["a"].to_pylist() == [1.5, None, 2.0]


def column_of(tmp_path, cells, **options):
    file = open_table(written(tmp_path / "t.csv", "a;b", cells, ["1"] * len(cells)), **options)
    return file, file.columns[0]


def test_numeric_looking_text_columns_are_reported(tmp_path):
    cells = [str(i) for i in range(95)] + ["n/a?", "n/a?", "1,5", " ", "", "?"]
    _, column = column_of(tmp_path, cells)
    assert column == Column("a", "category", Mixed(99, 4, ("n/a?", "1,5", "?"), 98))
    _, column = column_of(tmp_path, cells, text=["a"])
    assert column == Column("a", "category")
    _, column = column_of(tmp_path, ["x", *cells[-9:]])
    assert column == Column("a", "category")


@pytest.mark.parametrize("block", [files.BLOCK_VALUES, 20])
def test_text_columns_are_read_as_numbers(block, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "BLOCK_VALUES", block)
    cells = ["1.5", "1,5", "1,234", "n/a?", " "] * 9
    file, column = column_of(tmp_path, cells, numeric=["a", "b"])
    assert column == Column("a", "number", Mixed(36, 9, ("n/a?",), 0), decimal_commas=True)
    assert file.columns[1] == Column("b", "number")
    expected = [1.5, 1.5, 1.234, None, None] * 9
    assert file.table(["a"])["a"].to_pylist() == expected
    assert pa.concat_tables(file.pieces(["a"]))["a"].to_pylist() == expected
    values, absent = file.vector("a")
    assert absent.tolist() == [value is None for value in expected]
    assert values[:3].tolist() == [1.5, 1.5, 1.234]
    kept = [piece["a"] for _, piece in file.pieces_beside(["b"], ["a"])]
    assert kept[0][1].as_py() == "1,5"  # as the file has it


def test_a_comma_that_may_separate_thousands_is_no_number(tmp_path):
    cells = ["1.5"] * 10 + ["1,234", "12,500"]
    file, column = column_of(tmp_path, cells, numeric=["a"])
    assert column == Column("a", "number", Mixed(12, 2, ("1,234", "12,500"), 0))
    assert file.table(["a"])["a"].null_count == 2
    file, column = column_of(tmp_path, cells, numeric=["a"], decimal_commas=["a"])
    assert column == Column("a", "number", decimal_commas=True)
    assert file.table(["a"])["a"].to_pylist()[-2:] == [1.234, 12.5]


@pytest.mark.parametrize(
    "type", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_text_of_other_formats(type, tmp_path):
    table = pa.table({"a": pa.array(["1,5", "2", None, "x"], pa.string()).cast(type), "b": [1.0, 2.0, 3.0, 4.0]})
    pa.feather.write_feather(table, tmp_path / "t.arrow", compression="uncompressed")
    assert open_table(tmp_path / "t.arrow").columns == [Column("a", "category"), Column("b", "number")]
    file = open_table(tmp_path / "t.arrow", numeric=["a", "b"])
    assert file.columns[0] == Column("a", "number", Mixed(3, 1, ("x",), 0), decimal_commas=True)
    assert file.table(["b", "a"])["a"].to_pylist() == [1.5, 2.0, None, None]


def test_a_column_without_numbers_is_an_error(tmp_path):
    with pytest.raises(
        ValueError, match="column 'a' must be numeric, but contains no numbers; its values are 'red', 'blue'"
    ):
        column_of(tmp_path, ["red", "red", "blue"], numeric=["a"])
    _, column = column_of(tmp_path, ["", "NA", " "], numeric=["a"])
    assert column == Column("a", "number")


def table(n=400, odd=()):
    """Numbers, some of which a CSV file has as text: those of some rows, by what is written for them."""
    rng = np.random.default_rng(0)
    size = rng.normal(10.0, 3.0, n).round(3)
    frame = pd.DataFrame({"size": size, "kind": rng.choice(["a", "b"], n), "rooms": rng.integers(1, 9, n)})
    frame["price"] = (3.0 * size + frame["rooms"] + rng.normal(size=n)).round(3)
    frame["size"] = frame["size"].astype(object)
    for row, cell in enumerate(odd):
        frame.loc[7 * row, "size"] = cell
    return frame


ODD = ["n/a?"] * 5 + ["?", " "]
MANY = [f"about {number}" for number in range(1, 7)]  # too many different ones to be marks of missing values
TRAIN = ["train", "odd.csv", "--target", "price", "--out", "m.agbm", "--set", "max_iter=9", "--quiet"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table(odd=ODD).to_csv("odd.csv", index=False)
    table(odd=[None] * len(ODD)).to_csv("clean.csv", index=False)
    return tmp_path


def bare(name):
    """The bytes of a model without what may differ between runs."""
    model = agbm.load(name)
    model.notes_.clear()
    model.history_["seconds"] = np.zeros(len(model.history_["seconds"]))
    model.save("bare.agbm")
    with open("bare.agbm", "rb") as file:
        return file.read()


@pytest.mark.slow
class TestTraining:
    @pytest.mark.parametrize("more", [[], ["--json"], ["--stream"]], ids=str)
    def test_few_values_are_missing(self, more, here, capsys):
        """The rule of fit applies, and is reported once."""
        run(*TRAIN, *more)
        said = capsys.readouterr()
        assert said.err == (
            "agbm: warning: 'odd.csv': column 'size' is read as numbers; 'n/a?' in row 0 and 1 other value cannot be "
            "read and count as missing. Use --categorical size to keep all values as categories.\n"
        )
        if "--json" in more:
            assert json.loads(said.out)["mixed_columns"][0]["read_as"] == "number"
            assert json.loads(said.out)["categories"] == ["kind"]
        expected = agbm.load("m.agbm").predict(pd.read_csv("clean.csv").drop(columns="price"))
        assert agbm.load("m.agbm").model_.reader.derivation.numbers == {0: ("?", "n/a?")}
        run("inspect", "m.agbm")
        assert "missing text   size ('?', 'n/a?')" in capsys.readouterr().out
        run("train", "clean.csv", *TRAIN[2:])
        assert np.array_equal(agbm.load("m.agbm").predict(pd.read_csv("clean.csv").drop(columns="price")), expected)
        run(*[word for word in TRAIN if word != "--quiet"], "--folds", "2")
        said = capsys.readouterr()
        assert "missing text  size ('?', 'n/a?')" in said.out
        assert said.err.count("is read as") == 1

    @pytest.mark.parametrize("more", [[], ["--json"], ["--stream"]], ids=str)
    def test_warning(self, more, here, capsys):
        table(odd=MANY).to_csv("odd.csv", index=False)
        run(*TRAIN, *more)
        said = capsys.readouterr()
        (line,) = said.err.splitlines()
        assert line.startswith("agbm: warning: 'odd.csv': column 'size' is read as text with ")
        assert "6 of its 400 values are not plain numbers, such as 'about 1', 'about 2', 'about 3'." in line
        assert "Use --numeric size to read it as numbers" in line
        assert "or --categorical size to keep categories." in line
        n_categories = len(set(map(str, table(odd=MANY)["size"])))
        assert f"{n_categories} distinct values" in line
        if "--json" in more:
            (found,) = json.loads(said.out)["mixed_columns"]
            assert found == {
                "column": "size", "read_as": "category", "values": 400, "not_numbers": 6,
                "examples": ["about 1", "about 2", "about 3"], "categories": n_categories,
            }  # fmt: skip

    @pytest.mark.parametrize("more", [["--categorical", "size"], ["--drop", "size"]], ids=str)
    def test_no_warning_if_the_type_is_given(self, more, here, capsys):
        run(*TRAIN, *more)
        assert capsys.readouterr().err == ""

    @pytest.mark.parametrize("more", [[], ["--stream"]], ids=str)
    def test_numeric_gives_the_model_of_clean_data(self, more, here, capsys, monkeypatch):
        monkeypatch.setattr(files, "BLOCK_VALUES", 300)
        run(*TRAIN, "--numeric", "size", *more, "--json")
        said = capsys.readouterr()
        assert said.err == (
            "agbm: warning: 'odd.csv': column 'size': 6 of its 399 values are not plain numbers, such as 'n/a?', '?'. "
            "They are treated as missing.\n"
        )
        assert json.loads(said.out)["mixed_columns"][0]["read_as"] == "number"
        assert json.loads(said.out)["categories"] == ["kind"]
        found = bare("m.agbm")
        run("train", "clean.csv", *TRAIN[2:], "--numeric", "rooms")
        assert capsys.readouterr().err == ""
        assert found == bare("m.agbm")

    def test_decimal_commas(self, here, capsys):
        frame = table()
        frame.assign(size=frame["size"].map(str).str.replace(".", ",")).to_csv("odd.csv", index=False, sep=";")
        run(*TRAIN)
        assert "400 of its 400 values are not plain numbers" in capsys.readouterr().err
        run(*TRAIN, "--numeric", "size")
        assert capsys.readouterr().err == ""
        found = bare("m.agbm")
        table().to_csv("clean.csv", index=False)
        run("train", "clean.csv", *TRAIN[2:])
        assert found == bare("m.agbm")

    def test_a_target(self, here, capsys):
        frame = table()
        frame["price"] = frame["price"].astype(object)
        frame.loc[:4, "price"] = "ask"
        frame.to_csv("odd.csv", index=False)
        run(*TRAIN)
        line = capsys.readouterr().err
        assert "Use --numeric price to read it as numbers" in line
        assert "or --task classification to keep classes" in line
        assert cli.main([*TRAIN, "--task", "regression"]) == 1
        assert "--task regression: the target 'price' is text, such as 'ask'" in capsys.readouterr().err
        run(*TRAIN, "--numeric", "price", "--json")
        assert json.loads(capsys.readouterr().out)["task"] == "regression"
        assert agbm.load("m.agbm").notes_["rows"] == "316 for training, 79 for testing, 400 in the file"

    @pytest.mark.parametrize(
        "command", [["compare", "--methods", "gbm", "--peers"], ["tune", "--trials", "1", "--out", "m.agbm"]], ids=str
    )
    def test_other_commands(self, command, here, capsys):
        table(odd=MANY).to_csv("odd.csv", index=False)
        for more, said, read_as in [([], "Use --numeric", "category"), (["--numeric", "size"], "missing", "number")]:
            (here / "m.agbm.study").unlink(missing_ok=True)
            run(command[0], "odd.csv", *command[1:], "--target", "price", *more, "--json")
            found = capsys.readouterr()
            assert said in found.err
            assert json.loads(found.out)["mixed_columns"][0]["read_as"] == read_as

    def test_mistakes(self, here, capsys):
        line = fails(capsys, *TRAIN, "--numeric", "sise")
        assert "--numeric sise: no such column; did you mean 'size'?" in line
        assert "column 'kind' must be numeric, but contains no numbers" in fails(capsys, *TRAIN, "--numeric", "kind")
        dump_svmlight_file(np.eye(20), np.arange(20) % 2, "t.svmlight")
        line = fails(capsys, "train", "t.svmlight", "--numeric", "x0", "--out", "m.agbm")
        assert "--numeric x0: svmlight files have no column names" in line

    def test_control_characters_are_escaped(self, here, capsys):
        table(odd=MANY).rename(columns={"size": "si\x1b[2Jze"}).to_csv("odd.csv", index=False)
        run(*TRAIN)
        said = capsys.readouterr().err
        assert "\x1b" not in said
        assert r"--numeric 'si\x1b[2Jze'" in said


class TestModelsReadColumnsAsTheyWere:
    @pytest.fixture
    def trained(self, here, capsys):
        run(*TRAIN, "--numeric", "size")
        capsys.readouterr()
        return agbm.load("m.agbm")

    def X(self):
        return table(odd=[None] * len(ODD))[["size", "kind", "rooms"]].astype({"size": float})

    def test_predict(self, trained, capsys):
        run("predict", "m.agbm", "odd.csv", "--keep", "size", "--out", "p.csv")
        assert re.search(r"'odd.csv': column 'size': 6 of its 399 values are not plain", capsys.readouterr().err)
        found = pd.read_csv("p.csv")
        np.testing.assert_array_equal(found["prediction"], trained.predict(self.X()))
        assert found["size"][0] == "n/a?"

    def test_text_in_parquet(self, trained):
        table(odd=ODD).astype({"size": str}).to_parquet("odd.parquet")
        run("predict", "m.agbm", "odd.parquet", "--out", "p.csv")
        np.testing.assert_array_equal(pd.read_csv("p.csv")["prediction"], trained.predict(self.X()))

    def test_explain(self, trained, capsys):
        run("explain", "m.agbm", "odd.csv", "--rows", "1", "--json")
        entries = json.loads(capsys.readouterr().out)["rows"][0]["contributions"]
        assert next(entry["value"] for entry in entries if entry["feature"] == "size") is None

    def test_report_and_another_file_to_test_on(self, trained, capsys):
        frame = table(odd=ODD)
        frame["price"] = frame["price"].astype(object)
        frame.loc[1, "price"] = "ask"  # a row that cannot count
        frame.to_csv("later.csv", index=False)
        run("report", "m.agbm", "later.csv", "--out", "page.html", "--json")
        found = json.loads(capsys.readouterr().out)["metrics"][0]["value"]
        squares = (trained.predict(self.X()) - table()["price"]).drop(1) ** 2
        assert found == pytest.approx(np.sqrt(squares.mean()))
        run(*TRAIN, "--numeric", "size", "--test", "later.csv", "--no-early-stopping", "--json")
        assert len(json.loads(capsys.readouterr().out)["metrics"]) == 3

    def test_a_column_that_has_no_numbers_at_all(self, trained, capsys):
        table().assign(size="large").to_csv("later.csv", index=False)
        line = fails(capsys, "predict", "m.agbm", "later.csv", "--out", "p.csv")
        assert "column 'size' must be numeric, but contains no numbers; its values are 'large'" in line

    def test_decimal_commas_are_remembered(self, here, capsys):
        """A file in which every comma may separate thousands is read as the one that the model was trained on."""
        frame = table()
        with_commas = frame.assign(size=frame["size"].map(str).str.replace(".", ","))
        with_commas.to_csv("odd.csv", index=False, sep=";")
        run(*TRAIN, "--numeric", "size")
        model = agbm.load("m.agbm")
        assert model.notes_["decimal commas"] == '["size"]'
        few = with_commas["size"].str.fullmatch(r"[1-9]\d?,\d{3}").to_numpy()
        with_commas[few].to_csv("later.csv", index=False, sep=";")
        run("predict", "m.agbm", "later.csv", "--out", "p.csv")
        expected = model.predict(frame[["size", "kind", "rooms"]].astype({"size": float}))[few]
        np.testing.assert_array_equal(pd.read_csv("p.csv")["prediction"], expected)
        for note in "no json", "3", "[3]":
            model.notes_["decimal commas"] = note
            model.save("odd.agbm")
            line = fails(capsys, "predict", "odd.agbm", "later.csv", "--out", "p.csv")
            assert "column 'size' must be numeric" in line
