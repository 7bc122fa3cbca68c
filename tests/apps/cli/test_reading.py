"""Forms of tables: texts for missing values, decimal marks, encodings, folders, standard input; models keep them."""

import errno
import gc
import gzip
import io
import json
import lzma
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

import agbm
from agbm._apps.cli.reading import sources as sources
from agbm._apps.cli.reading.files import Column, open_table
from agbm._apps.cli.reading.text_numbers import Mixed
from agbm._apps.cli.shared_options import Form
from commands import FEW, ONE, SOLD, fails, mixed, run

LINES = "größe;menge;stadt\n1,5;10;Köln\n?;-999;?\n2,25;30;Düren\n"
GERMAN = Form(missing=("?", "-999"), decimal=",", encoding="iso8859-1")
EXPECTED = {"größe": [1.5, None, 2.25], "menge": [10.0, None, 30.0], "stadt": ["Köln", None, "Düren"]}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def given_to_standard_input(monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def contents_of(file):
    return file.table([column.name for column in file.columns]).to_pydict()


class TestForms:
    @pytest.mark.parametrize("name", ["t.csv", "t.csv.xz", "t.csv.gz"])
    def test_missing_values_decimal_commas_and_encoding(self, name, here):
        data = LINES.encode("latin-1")
        compress = {".xz": lzma.compress, ".gz": gzip.compress}.get(name[-3:], bytes)
        (here / name).write_bytes(compress(data))
        file = open_table(name, GERMAN)
        assert [column.kind for column in file.columns] == ["number", "number", "category"]
        assert contents_of(file) == EXPECTED
        assert file.name == name

    def test_a_space_around_a_missing_value(self, here):
        (here / "t.csv").write_text("a,b\n1, ?\n2,? \n3,x\n")
        assert contents_of(open_table("t.csv", Form(missing=("?",))))["b"] == [None, None, "x"]

    def test_commas_are_delimiters_only_where_there_is_no_other(self, here):
        (here / "t.csv").write_text("1,5;2,5\n3,5;4\n")
        assert contents_of(open_table("t.csv", Form(header=False, decimal=","))) == {"c0": [1.5, 3.5], "c1": [2.5, 4.0]}
        (here / "t.csv").write_text('a,b\n"1,5",x\n"2,5",y\n')
        assert contents_of(open_table("t.csv", Form(decimal=","))) == {"a": [1.5, 2.5], "b": ["x", "y"]}

    def test_mixed_decimals(self, here):
        """Numbers of the other kind make a column text, which is said; --numeric reads both."""
        (here / "t.csv").write_text("a;b\n" + "1,5;1\n" * 30 + "2.5;1\n7;1\n")
        form = Form(decimal=",")
        assert open_table("t.csv", form).columns[0] == Column("a", "category", Mixed(32, 1, ("2.5",), 3))
        file = open_table("t.csv", form, numeric=["a"])
        assert file.columns[0] == Column("a", "number", None, decimal_commas=True)
        assert contents_of(file)["a"] == [1.5] * 30 + [2.5, 7.0]

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "cp1252"])
    def test_other_encodings(self, encoding, here):
        (here / "t.csv").write_text(LINES, encoding=encoding)
        assert contents_of(open_table("t.csv", Form(missing=("?", "-999"), decimal=",", encoding=encoding))) == EXPECTED

    @pytest.mark.parametrize(
        ("content", "encoding", "message"),
        [
            (
                LINES.encode("latin-1"),
                None,
                "the first line is not UTF-8; use --encoding .* such as --encoding latin-1",
            ),
            (b"a,b\n1,\xe9\n", None, r"columns \['b'\] contain text that is not UTF-8; use --encoding"),
            (b"a,b\n" + b"1,x\n" * 400_000 + b"1,\xe9\n", None, "a text is not UTF-8; use --encoding"),
            (b"a,b\n1,x\n2,\x81\n", "cp1252", "line 3 is not cp1252: .*; use --encoding to specify another encoding"),
            (LINES.encode("utf-16")[:-1], "utf-16", "line 4 is not utf-16: truncated data"),
            ("".encode("utf-16"), "utf-16", "the first line is empty"),
        ],
        ids=["header", "cell", "late", "cp1252", "cut", "empty"],
    )
    def test_wrong_encodings(self, content, encoding, message, here):
        (here / "t.csv").write_bytes(content)
        with pytest.raises(ValueError, match=f"'t.csv' cannot be read: {message}"):
            open_table("t.csv", Form(encoding=encoding))

    def test_utf8_that_is_read_as_something_else_is_said(self, here):
        (here / "t.csv").write_text(LINES)
        with pytest.warns(UserWarning, match=r"'t.csv' is valid UTF-8, but is read as iso8859-1.*--encoding utf-8"):
            open_table("t.csv", GERMAN)
        (here / "t.csv").write_text("a,b\n1,2\n")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            open_table("t.csv", GERMAN)

    @pytest.mark.parametrize(("content", "reason"), [(b"no xz", "format not supported"), (None, "end-of-stream")])
    def test_broken_xz(self, content, reason, here):
        (here / "t.csv.xz").write_bytes(content or lzma.compress(LINES.encode() * 100)[:-20])
        with pytest.raises(ValueError, match=f"'t.csv.xz' cannot be decompressed: .*{reason}"):
            open_table("t.csv.xz")

    def test_svmlight_in_xz(self, here):
        (here / "t.svmlight.xz").write_bytes(lzma.compress(b"1 1:2 2:3\n0 1:5\n"))
        assert open_table("t.svmlight.xz").table([]).toarray().tolist() == [[2.0, 3.0], [5.0, 0.0]]

    def test_copies_are_deleted(self, here, monkeypatch):
        (here / "copies").mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(here / "copies"))
        (here / "t.csv").write_bytes(LINES.encode("latin-1"))
        file = open_table("t.csv", GERMAN)
        assert len(list((here / "copies").rglob("*.csv"))) == 1
        assert contents_of(file) == EXPECTED
        del file
        gc.collect()
        assert list((here / "copies").iterdir()) == []

    def test_a_full_disk(self, here, monkeypatch):
        def full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        (here / "t.csv").write_bytes(LINES.encode("latin-1"))
        monkeypatch.setattr(sources._Recoder, "__call__", full)
        with pytest.raises(OSError, match=r"'t.csv' cannot be copied .*: No space left on device. Set .* TMPDIR"):
            open_table("t.csv", GERMAN)


class TestFolders:
    def test_files_in_the_order_of_their_names_with_columns_in_any_order(self, here):
        (here / "b.csv").write_text("y,x\nq,3\n")
        (here / "a.csv").write_text("x,y\n1,p\n2,p\n")
        (here / "c.csv.xz").write_bytes(lzma.compress(b"x,y\n4.5,r\n"))
        (here / "_ignored.csv").write_text("z\n1\n")
        (here / ".ignored.csv").write_text("z\n1\n")
        (here / "notes.txt").write_text("notes")
        file = open_table(".")
        assert contents_of(file) == {"x": [1.0, 2.0, 3.0, 4.5], "y": ["p", "p", "q", "r"]}
        assert file.n_rows == 4
        assert [piece.to_pydict()["x"] for piece in file.pieces(["x"])] == [[1.0, 2.0, 3.0, 4.5]]

    def test_types_fit_the_values_of_all_files(self, here):
        (here / "a.csv").write_text("x,y,z\n1,,1\n")
        (here / "b.csv").write_text("z,y,x\nn/a?,text,2.5\n")
        file = open_table(".")
        assert [column.kind for column in file.columns] == ["number", "category", "category"]
        assert contents_of(file) == {"x": [1.0, 2.5], "y": [None, "text"], "z": ["1", "n/a?"]}

    def test_without_headers(self, here):
        (here / "a.csv").write_text("1,2\n")
        (here / "b.csv").write_text("3,4\n")
        assert contents_of(open_table(".", Form(header=False))) == {"c0": [1.0, 3.0], "c1": [2.0, 4.0]}
        (here / "b.csv").write_text("3,4,5\n")
        with pytest.raises(ValueError, match=r"compared with 'a.csv', 'b.csv' also has the columns \['c2'\]"):
            open_table(".", Form(header=False))

    @pytest.mark.parametrize("format", ["csv", "parquet"])
    def test_different_columns(self, format, here):
        for name, table in {"a": {"x": [1], "y": [2]}, "b": {"x": [1], "z": [2]}}.items():
            getattr(pd.DataFrame(table), f"to_{format}")(f"{name}.{format}", index=False)
        message = (
            rf"all files of a folder must have the same columns; compared with 'a.{format}', 'b.{format}' also has the "
            r"columns \['z'\] and lacks the columns \['y'\]."
        )
        with pytest.raises(ValueError, match=message):
            open_table(".")

    def test_partitions_and_order_of_parquet(self, here):
        for year, x in [(2020, 1.0), (2019, 2.0)]:
            (here / f"year={year}").mkdir()
            pd.DataFrame({"x": [x]}).to_parquet(f"year={year}/part.parquet")
        assert contents_of(open_table(".")) == {"x": [2.0, 1.0], "year": [2019.0, 2020.0]}

    @pytest.mark.parametrize(
        ("names", "form", "message"),
        [
            ([], None, "'folder': the folder has no files with the extensions .csv,"),
            (["a.txt"], None, "'folder': the folder has no files with the extensions .csv,"),
            (["a.csv", "b.parquet"], None, "'folder': the folder has csv and parquet files; choose one .* --format"),
            (["a.csv"], Form("parquet"), "'folder': the folder has no parquet files, as --format parquet requires"),
            (["a.svm"], None, "'folder': a folder of svmlight files cannot be read; join them"),
        ],
    )
    def test_mistakes(self, names, form, message, here):
        (here / "folder").mkdir()
        for name in names:
            (here / "folder" / name).write_text("x,y\n1,2\n")
        with pytest.raises(ValueError, match=message):
            open_table("folder", form)

    def test_one_format_of_several(self, here):
        (here / "a.csv").write_text("x\n1\n")
        pd.DataFrame({"x": [2.0]}).to_parquet("b.parquet")
        assert contents_of(open_table(".", Form("csv"))) == {"x": [1.0]}


class TestStandardInput:
    def test_a_table(self, here, monkeypatch):
        given_to_standard_input(monkeypatch, LINES.encode("latin-1"))
        file = open_table("-", GERMAN)
        assert file.name == "standard input"
        assert contents_of(file) == EXPECTED

    def test_parquet(self, here, monkeypatch):
        pd.DataFrame({"x": [1.0, 2.0]}).to_parquet("t.parquet")
        given_to_standard_input(monkeypatch, (here / "t.parquet").read_bytes())
        assert contents_of(open_table("-", Form("parquet"))) == {"x": [1.0, 2.0]}

    def test_nothing_and_closed(self, monkeypatch):
        given_to_standard_input(monkeypatch, b"")
        with pytest.raises(ValueError, match="'standard input' cannot be read: the first line is empty"):
            open_table("-")
        monkeypatch.setattr(sys, "stdin", None)
        with pytest.raises(ValueError, match="'standard input' cannot be read: it is closed; pass a file"):
            open_table("-")

    def test_training_and_prediction(self, here, monkeypatch, capsys):
        mixed().to_csv("mixed.csv", index=False)
        content = (here / "mixed.csv").read_bytes()
        run(*SOLD, *ONE, "--quiet")
        run("predict", "sold.agbm", "mixed.csv", "--out", "expected.csv")
        given_to_standard_input(monkeypatch, content)
        run("train", "-", *SOLD[2:], *ONE, "--stream", "--quiet", "--out", "other.agbm")
        given_to_standard_input(monkeypatch, content)
        run("predict", "other.agbm", "-", "--out", "p.csv")
        assert (here / "p.csv").read_bytes() == (here / "expected.csv").read_bytes()
        capsys.readouterr()
        assert "--test -: only DATA can be standard input" in fails(capsys, *SOLD, "--test", "-")

    def test_as_a_process(self, here):
        """A pipe whose reader leaves early, and a closed standard input."""
        mixed().to_csv("mixed.csv", index=False)
        run(*SOLD, *ONE, "--quiet")
        predict = f"{sys.executable} -m agbm predict sold.agbm - --out -"
        piped = ["bash", "-o", "pipefail", "-c", f"cat mixed.csv | {predict} | head -1"]
        done = subprocess.run(piped, capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, '"prediction"\n', "")
        done = subprocess.run(["bash", "-c", f"{predict} <&-"], capture_output=True, text=True)
        assert done.returncode == 1
        assert done.stderr == (
            "agbm: 'standard input' cannot be read: it is closed; pass a file, or redirect data to it.\n"
        )


class TestModelsRememberTheForm:
    OPTIONS = ("--decimal", ",", "--missing", "?", "-999", "--encoding", "latin-1")

    @pytest.fixture
    def trained(self, here, capsys):
        """A model of a csv file of an unusual form, and the same table in the usual form."""
        table = mixed().drop(columns=["id", "day", "sold"]).rename(columns={"size": "größe"})
        table["colour"] = table["colour"].replace({"green": "grün"})
        table.to_csv("usual.csv", index=False)
        table.to_csv("german.csv", index=False, sep=";", decimal=",", encoding="latin-1", na_rep="?")
        run("train", "german.csv", "--target", "price", *self.OPTIONS, "--out", "m.agbm", *ONE, "--quiet")
        run("train", "usual.csv", "--target", "price", "--out", "usual.agbm", *ONE, "--quiet")
        capsys.readouterr()
        return table

    def predicted(self, *arguments):
        run("predict", *arguments, "--out", "p.csv")
        return pd.read_csv("p.csv")["prediction"].to_numpy()

    def test_predictions_are_those_of_the_usual_form(self, trained, capsys):
        expected = self.predicted("usual.agbm", "usual.csv")
        np.testing.assert_array_equal(self.predicted("m.agbm", "german.csv"), expected)
        trained.to_parquet("t.parquet")
        np.testing.assert_array_equal(self.predicted("m.agbm", "t.parquet"), expected)
        assert capsys.readouterr().err == ""
        # A dot is a decimal point also where commas are expected; the encoding has to be said.
        np.testing.assert_array_equal(self.predicted("m.agbm", "usual.csv", "--encoding", "utf-8"), expected)

    def test_batches_give_the_same_model(self, trained, here):
        run("train", "german.csv", "--target", "price", *self.OPTIONS, "--out", "s.agbm", *ONE, "--quiet", "--stream")
        np.testing.assert_array_equal(self.predicted("s.agbm", "german.csv"), self.predicted("m.agbm", "german.csv"))

    def test_other_rows_and_explanations(self, trained, capsys):
        train = ["train", "german.csv", "--target", "price", *self.OPTIONS, "--out", "t.agbm", *ONE, "--json"]
        run(*train, "--test", "german.csv")
        found = json.loads(capsys.readouterr().out)["metrics"][0]["value"]
        error = self.predicted("m.agbm", "german.csv") - trained["price"]
        assert found < 1.5 * np.sqrt(np.mean(error**2))
        capsys.readouterr()
        run("explain", "m.agbm", "german.csv", "--rows", "1", "--json")
        values = json.loads(capsys.readouterr().out)["rows"][0]["contributions"]
        expected = trained["größe"][0]
        assert next(entry["value"] for entry in values if entry["feature"] == "größe") == pytest.approx(expected)

    @pytest.mark.parametrize(
        "note", ["no json", "[]", '{"missing": 3, "decimal": 4, "encoding": "hex", "header": 0}', '{"missing": [3]}']
    )
    def test_notes_of_strangers(self, note, trained):
        expected = self.predicted("usual.agbm", "usual.csv")
        model = agbm.load("usual.agbm")
        model.notes_["csv"] = note
        model.save("odd.agbm")
        np.testing.assert_array_equal(self.predicted("odd.agbm", "usual.csv"), expected)

    def test_files_without_a_header(self, trained, here):
        trained[["größe", "times", "price"]].to_csv("bare.csv", index=False, header=False)
        run("train", "bare.csv", "--no-header", "--target", "c2", "--out", "bare.agbm", *ONE, "--quiet")
        assert json.loads(agbm.load("bare.agbm").notes_["csv"]) == {"header": False}
        assert len(self.predicted("bare.agbm", "bare.csv")) == 400

    @pytest.mark.parametrize(
        "option", [["--missing", "?"], ["--decimal", ","], ["--encoding", "latin-1"], ["--no-header"]], ids=str
    )
    @pytest.mark.parametrize("command", ["train", "predict"])
    def test_options_of_csv_for_other_formats(self, option, command, trained, capsys):
        trained.to_parquet("t.parquet")
        what = {"train": ["t.parquet", "--target", "price", "--out", "x.agbm"], "predict": ["m.agbm", "t.parquet"]}
        line = fails(capsys, command, *what[command], *option, *(["--out", "p.csv"] if command == "predict" else []))
        assert f"{option[0]}" in line
        assert "this option is for csv files, but the file is parquet" in line

    def test_an_unknown_encoding(self, trained, capsys):
        with pytest.raises(SystemExit) as ended:
            run("predict", "m.agbm", "german.csv", "--out", "p.csv", "--encoding", "latin-77")
        assert ended.value.code == 2
        assert "argument --encoding: unknown encoding 'latin-77'; use a name such as" in capsys.readouterr().err


def test_options_add_up(here):
    """Also in a command: texts of all options, and those of the model."""
    assert Form(missing=("a",)).completed(Form(missing=("b", "a"), decimal=",")) == Form(
        missing=("b", "a"), decimal=","
    )
    (here / "t.csv").write_text("x,y\n" + "1,a\n?,b\n-,a\n" * 20)
    run("train", "t.csv", "--target", "y", "--missing", "?", "--missing", "-", "--out", "m.agbm", *FEW, "--quiet")
    assert json.loads(agbm.load("m.agbm").notes_["csv"]) == {"missing": ["?", "-"]}
