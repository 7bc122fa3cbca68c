"""Tables in files: every format gives the same table, types follow all rows, errors name the file."""

import gzip
import os
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from scipy.sparse import issparse
from sklearn.datasets import dump_svmlight_file

from agbm._apps.cli.reading import files as files
from agbm._apps.cli.reading.files import Column, open_table, write_pieces
from agbm._apps.cli.shared_options import Form
from agbm._base.atomic_file import replacing


def frame(n=30):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "number": np.where(np.arange(n) % 7 == 0, np.nan, rng.normal(size=n)),
            "whole": rng.integers(0, 5, n),
            "text": np.where(np.arange(n) % 5 == 0, None, rng.choice(["a", "b, c", 'd"e\nf'], n)),
            "truth": rng.random(n) < 0.5,
            "day": pd.date_range("2026-01-01", periods=n, freq="D"),
        }
    )


def written(tmp_path, format):
    table = frame()
    if format == "folder":
        (tmp_path / "folder").mkdir()
        for i in range(3):
            table[10 * i : 10 * i + 10].to_parquet(tmp_path / "folder" / f"{i}.parquet")
        return tmp_path / "folder"
    path = tmp_path / f"table.{format}"
    if format == "parquet":
        table.to_parquet(path)
    elif format == "arrow":
        pyarrow.feather.write_feather(pa.Table.from_pandas(table), path)
    elif format == "tsv":
        table.to_csv(path, index=False, sep="\t")
    else:
        table.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("format", ["csv", "csv.gz", "csv.xz", "tsv", "parquet", "arrow", "folder"])
def test_every_format_gives_the_same_table(format, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "BLOCK_VALUES", 35)  # seven rows a piece
    file, expected = open_table(written(tmp_path, format)), frame()
    kinds = {column.name: column.kind for column in file.columns}
    assert kinds == {"number": "number", "whole": "number", "text": "category", "truth": "truth", "day": "time"}
    assert file.n_rows == 30
    whole = file.table(list(kinds))
    pieces = list(file.pieces(list(kinds)))
    assert [piece.num_rows for piece in pieces] == [7, 7, 7, 7, 2]
    assert pa.concat_tables(pieces).equals(whole)
    np.testing.assert_allclose(whole["number"].to_numpy(), expected["number"])
    assert whole["text"].to_pylist() == [None if pd.isna(text) else text for text in expected["text"]]
    np.testing.assert_array_equal(whole["truth"].to_numpy(), expected["truth"].astype(float))
    days = np.datetime64("2026-01-01") + np.arange(30) * np.timedelta64(1, "D")
    np.testing.assert_array_equal(whole["day"].to_numpy().astype("datetime64[D]"), days)
    values, absent = file.vector("text")
    assert absent.tolist() == expected["text"].isna().tolist()
    assert values[1] == expected["text"][1]
    assert file.vector("number")[1].sum() == 5


@pytest.mark.slow
def test_a_csv_column_is_what_all_of_its_values_are(tmp_path):
    """Types are guessed from the beginning of a file; these columns change after a megabyte of it."""
    n = 200_000
    lines = [f"{i % 7},{i % 7},,1" for i in range(n)]
    lines += ["1.5,x,3,2", "2,3,y,3"]
    path = tmp_path / "table.csv"
    path.write_text('a,b,"of\ntwo lines",d\n' + "\n".join(lines) + "\n")
    file = open_table(path)
    assert [column.kind for column in file.columns] == ["number", "category", "category", "number"]
    table = file.table(["a", "b", "of\ntwo lines"])
    assert table["a"][n].as_py() == 1.5
    assert table["b"][0].as_py() == "0"
    assert table["of\ntwo lines"].to_pylist()[-3:] == [None, "3", "y"]
    assert file.n_rows == n + 2


def test_delimiters_headers_and_text_that_looks_like_numbers(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("\ufeffname;zip code\nx;01234\ny;98765\n", encoding="utf-8")
    assert [c.name for c in open_table(path).columns] == ["name", "zip code"]
    assert open_table(path).columns[1] == Column("zip code", "number")
    as_text = open_table(path, text=["zip code"])
    assert as_text.table(["zip code"])["zip code"].to_pylist() == ["01234", "98765"]
    path.write_text("1,2\n3,4\n")
    bare = open_table(path, Form(header=False))
    assert bare.n_rows == 2
    assert bare.table(["c0", "c1"]).to_pydict() == {"c0": [1.0, 3.0], "c1": [2.0, 4.0]}


def test_types_of_other_programs(tmp_path):
    """Polars writes views of text, and clocks count nanoseconds."""
    table = pa.table(
        {
            "text": pa.array(["a", None, "b"], pa.string_view()),
            "moment": pa.array([1001, 1999, None], pa.timestamp("ns")),
        }
    )
    pyarrow.feather.write_feather(table, tmp_path / "table.arrow", compression="uncompressed")
    file = open_table(tmp_path / "table.arrow")
    assert file.columns == [Column("text", "category"), Column("moment", "time")]
    read = file.table(["text", "moment"]).take([2, 1, 0])
    assert read["text"].to_pylist() == ["b", None, "a"]
    assert read["moment"].cast(pa.int64()).to_pylist() == [None, 1999, 1001]
    assert file.vector("text")[1].tolist() == [False, True, False]


def test_dictionaries_of_what_a_model_file_cannot_hold(tmp_path):
    """They were categories: a model was trained, and could not be saved."""
    kinds = {}
    for values in (["a", "b"], [1, 2], [True, False], [b"a", b"b"], [date(2020, 1, 1)], [Decimal(1)]):
        table = pa.table({"x": pa.array(values).dictionary_encode()})
        pyarrow.feather.write_feather(table, tmp_path / "table.arrow", compression="uncompressed")
        kinds[type(values[0])] = open_table(tmp_path / "table.arrow").columns[0].kind
    assert [kind for kind, found in kinds.items() if found == "category"] == [str, int, bool]
    assert [kind for kind, found in kinds.items() if found == "other"] == [bytes, date, Decimal]


def test_a_folder_without_files(tmp_path):
    with pytest.raises(ValueError, match=r"the folder has no files with the extensions .csv,"):
        open_table(tmp_path)


def test_columns_that_only_later_files_have_are_not_left_out_silently(tmp_path):
    pd.DataFrame({"a": [1.0]}).to_parquet(tmp_path / "0.parquet")
    pd.DataFrame({"a": [2.0], "b": [3.0]}).to_parquet(tmp_path / "1.parquet")
    with pytest.raises(ValueError, match=r"compared with '0.parquet', '1.parquet' also has the columns \['b'\]"):
        open_table(tmp_path)
    pd.DataFrame({"a": [1.0], "b": [None]}).to_parquet(tmp_path / "0.parquet")
    assert open_table(tmp_path).table(["a"])["a"].to_pylist() == [1.0, 2.0]
    pd.DataFrame({"a": [2.0]}).to_parquet(tmp_path / "2.parquet")
    with pytest.raises(ValueError, match=r"compared with '0.parquet', '2.parquet' lacks the columns \['b'\]"):
        open_table(tmp_path)


def test_svmlight(tmp_path):
    X = np.array([[0.0, 2.0], [3.0, 0.0]])
    dump_svmlight_file(X, [1, -1], str(tmp_path / "table.svmlight"), zero_based=False)
    file = open_table(tmp_path / "table.svmlight")
    assert issparse(file.table([]))
    np.testing.assert_array_equal(next(file.pieces([])).toarray(), X)
    assert file.vector("label")[0].tolist() == [1, -1]
    assert len(open_table(tmp_path / "table.svmlight", n_features=5).columns) == 5
    assert file.first_index == 1
    as_it_is = open_table(tmp_path / "table.svmlight", n_features=3, first_index=0)
    np.testing.assert_array_equal(as_it_is.table([]).toarray(), [[0.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    with pytest.raises(ValueError, match="the file has 2 columns, but the model has 1 features"):
        open_table(tmp_path / "table.svmlight", n_features=1)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.csv", None, r"none.csv'.*no such file"),
        ("table.xyz", b"", r"extensions.*--format"),
        ("table.csv", b"", r"the first line is empty"),
        ("table.csv", b"a,b\n1,2\n3,4,5\n", r"cannot be read: .*Expected 2 columns, got 3"),
        ("table.csv", b"a,a\n1,2\n", r"several columns are named \['a'\]"),
        ("table.csv", b"a,b\n1,\xff\xfe\n", r"table.csv' cannot be read: columns \['b'\].*UTF-8"),
        ("table.csv", b"gr\xf6\xdfe,b\n1,2\n", r"table.csv' cannot be read: the first line.*UTF-8"),
        ("table.parquet", b"not parquet", r"table.parquet' cannot be read"),
        ("table.arrow", b"not arrow", r"table.arrow' cannot be read"),
        ("table.svm", b"1 a:b\n", r"cannot be read as svmlight"),
    ],
)
def test_errors_name_the_file_in_one_line(name, content, message, tmp_path):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises((ValueError, FileNotFoundError), match=message) as caught:
        open_table(tmp_path / name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_written_pieces_are_read_back(ending, tmp_path):
    out = tmp_path / f"out.{ending}"
    pieces = [{"p": np.array([0.5, 1.5]), "q": np.array(["a", "b"])}, {"p": np.array([2.5]), "q": np.array(["c"])}]
    assert write_pieces(iter(pieces), out) == 3
    assert open_table(out).table(["p", "q"]).to_pydict() == {"p": [0.5, 1.5, 2.5], "q": ["a", "b", "c"]}


def test_a_failure_leaves_the_old_file(tmp_path):
    out = tmp_path / "out.csv"
    out.write_text("old")

    def pieces():
        yield {"p": np.array([1.0])}
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        write_pieces(pieces(), out)
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]
    with pytest.raises(ValueError, match=r"--out .*extension"):
        write_pieces(pieces(), tmp_path / "out.xls")


def test_what_is_no_file_is_not_replaced(tmp_path):
    """As /dev/null would be, for whoever may write to its folder."""
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_pieces([{"a": np.arange(3)}], pipe)
    assert os.read(reader, 100) == b'"a"\n0\n1\n2\n'
    os.close(reader)
    assert pipe.is_fifo()
    with pytest.raises(IsADirectoryError, match="is a folder; use the path of a file"), replacing(tmp_path):
        pass


def test_available_memory_is_that_of_the_machine_or_less():
    assert 0 < files.available_memory() < 2**50


def test_gzip_is_read_by_its_ending(tmp_path):
    with gzip.open(tmp_path / "x.csv.gz", "wt") as file:
        file.write("a;b\n1;x\n")
    assert [c.name for c in open_table(tmp_path / "x.csv.gz").columns] == ["a", "b"]
