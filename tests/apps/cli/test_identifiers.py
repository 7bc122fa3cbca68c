"""Identifier columns are dropped, and reported, unless options keep them."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import agbm
from agbm._apps.cli.reading import files as files
from agbm._apps.cli.reading.files import open_table
from agbm._apps.cli.reading.identifiers import identifiers, is_name_of_identifier
from commands import ONE, fails, run

N = 60


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def found(**columns):
    pd.DataFrame({"x": np.arange(N) % 7, **columns}).to_csv("t.csv", index=False)
    file = open_table("t.csv")
    return list(identifiers(file, [column.name for column in file.columns]))


NAMES = ["id", "ID", "Id", "customer_id", "customerID", "customerId", "id_customer", "user id", "uuid", "row_uuid"]
OTHERS = ["idle", "paid", "width", "grid", "age", "video", "reindex", "hidden", "valid", "price"]


@pytest.mark.parametrize("name", [*NAMES, "RowID", "Unnamed: 0", "index", "", "PassengerId", "order.id", "id2"])
def test_names_of_identifiers(name):
    assert is_name_of_identifier(name)


@pytest.mark.parametrize("name", OTHERS)
def test_names_of_other_columns(name):
    assert not is_name_of_identifier(name)


def test_text_whose_values_all_differ(here):
    texts = [f"A-{i}" for i in range(N)]
    assert found(code=texts) == ["code"]
    assert found(code=[*texts[:-1], texts[0]]) == []
    assert found(code=[*texts[:-1], None]) == []


def test_integers_need_the_name_of_an_identifier(here):
    numbers = np.arange(N) * 7 + 1000
    assert found(customer_id=numbers, population=numbers) == ["customer_id"]
    assert found(customer_id=np.append(numbers[:-1], numbers[0])) == []
    assert found(customer_id=numbers + 0.5) == []
    assert found(customer_id=[*numbers[:-1], None]) == []


def test_numeric_looking_text_is_not_an_identifier(here):
    """It may be a number with a decimal comma, for which there is a warning."""
    assert found(code=[f"{i},5" for i in range(N)]) == []


def test_few_rows(here):
    pd.DataFrame({"id": range(19), "name": [f"n{i}" for i in range(19)]}).to_csv("t.csv", index=False)
    assert identifiers(open_table("t.csv"), ["id", "name"]) == {}


def test_values_that_repeat_late(here, monkeypatch):
    monkeypatch.setattr(files, "FIRST_ROWS", 10)
    texts = [f"A-{i}" for i in range(N)]
    assert found(code=[*texts[:-1], texts[30]], other=texts) == ["other"]


def test_types_of_parquet(here):
    texts = [f"A-{i}" for i in range(N)]
    table = pd.DataFrame({"code": pd.Categorical(texts), "id": pd.array(range(N), "Int32"), "x": np.arange(N) * 1.0})
    table.to_parquet("t.parquet")
    assert list(identifiers(open_table("t.parquet"), list(table))) == ["code", "id"]


class TestCommands:
    @pytest.fixture
    def table(self, here):
        rng = np.random.default_rng(0)
        table = pd.DataFrame(
            {"id": range(N), "name": [f"n{i}" for i in range(N)], "x": rng.normal(size=N), "y": rng.normal(size=N)}
        )
        table.to_csv("t.csv", index=False)
        return ["t.csv", "--target", "y"]

    def test_identifiers_are_dropped_and_reported(self, table, capsys):
        run("train", *table, "--out", "m.agbm", *ONE)
        said = re.sub(r"\n {3,}", " ", capsys.readouterr().out)
        assert re.search(
            r"left out +id \(distinct integers, named like an identifier; keep with --numeric\); name \(distinct text; "
            r"keep with --categorical\)\n",
            said,
        )
        assert agbm.load("m.agbm").feature_names_in_.tolist() == ["x"]
        run("predict", "m.agbm", "t.csv", "--keep", "id", "--out", "p.csv")
        assert pd.read_csv("p.csv")["id"].tolist() == list(range(N))

    @pytest.mark.parametrize(
        ("options", "kept"),
        [
            (["--numeric", "id"], ["id", "x"]),
            (["--categorical", "id", "name"], ["id", "name", "x"]),
            (["--drop", "id"], ["x"]),
        ],
        ids=str,
    )
    def test_options_keep_them(self, options, kept, table, capsys):
        run("train", *table, "--out", "m.agbm", *ONE, *options, "--json")
        said = json.loads(capsys.readouterr().out)
        assert said["features"] == kept
        assert said["identifiers"] == [name for name in ["id", "name"] if name not in kept and name not in options]

    def test_compare_leaves_the_same_out(self, table, capsys):
        run("compare", *table, "--methods", "gbm", "--peers", "--max-iter", "3", "--json")
        assert json.loads(capsys.readouterr().out)["identifiers"] == ["id", "name"]

    def test_no_other_features(self, table, capsys):
        line = fails(capsys, "train", *table, "--drop", "x", "--out", "m.agbm")
        assert "all features look like identifiers: id, name. Use --categorical or --numeric to keep them." in line
