"""--groups and --time-order: which rows are held out, and what a model notes."""

import re
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import agbm
from agbm import AGBMRegressor
from commands import FEW, fails, mixed, run

PRICE = ("train", "mixed.csv", "--target", "price", "--drop", "sold", "--out", "m.agbm", "--quiet")


@pytest.fixture
def owned(here):
    """A table whose rows have owners in no order, and days of the form dd.mm.yyyy."""
    rng = np.random.default_rng(0)
    table = mixed()
    table["owner"] = rng.permutation(np.arange(400) // 4)
    table["sale"] = pd.to_datetime("2026-01-01") + pd.to_timedelta(rng.permutation(400), "D")
    table["sale"] = table["sale"].dt.strftime("%d.%m.%Y")
    table.to_csv("mixed.csv", index=False)
    return table


@pytest.fixture
def fits(monkeypatch):
    """The features of each fit, and the groups or times that it was given."""
    seen, fit = [], AGBMRegressor.fit

    def watched(self, X, y, *rest, **named):
        seen.append((X.column_names, named))
        return fit(self, X, y, *rest, **named)

    monkeypatch.setattr(AGBMRegressor, "fit", watched)
    return seen


def test_groups_stay_together_and_are_no_feature(owned, fits):
    run(*PRICE, "--groups", "owner", *FEW)
    ((names, given),) = fits
    assert "owner" not in names
    sizes = pd.Series(given["groups"]).value_counts()
    assert (sizes == 4).all()
    assert len(sizes) == 80
    assert agbm.load("m.agbm").notes_["groups"] == "owner"


def test_the_last_rows_are_tested(owned, fits):
    run(*PRICE, "--time-order", "sale", *FEW)
    ((names, given),) = fits
    assert "sale" in names  # unlike the number of a group, a date may be used by the model
    wanted = np.sort(pd.to_datetime(owned["sale"], dayfirst=True).to_numpy())[:320]
    np.testing.assert_array_equal(np.sort(given["time"].astype("M8[D]")), wanted.astype("M8[D]"))
    assert agbm.load("m.agbm").notes_["time order"] == "sale"


def test_folds(owned, fits, capsys):
    run(*PRICE, "--groups", "owner", *FEW, "--folds", "4")
    of_folds = [given["groups"] for _, given in fits]
    assert sorted(map(len, of_folds)) == [300, 300, 300, 300, 400]
    left_out = [set(owned["owner"]) - set(groups) for groups in of_folds if len(groups) < 400]
    assert sorted(owner for part in left_out for owner in part) == list(range(100))
    fits.clear()
    run(*PRICE, "--time-order", "sale", *FEW, "--folds", "4")
    ends = sorted((len(given["time"]), given["time"].max()) for _, given in fits)
    assert [n for n, _ in ends] == [80, 160, 240, 320, 400]
    assert all(a < b for (_, a), (_, b) in pairwise(ends))


def test_summary_and_verification(owned, capsys):
    arguments = [argument for argument in PRICE if argument != "--quiet"]
    run(*arguments, "--groups", "owner", *FEW)
    assert re.search(r"groups +owner: 100 groups", capsys.readouterr().out)
    run("verify", "m.agbm", "mixed.csv")
    run(*arguments, "--time-order", "sale", *FEW)
    assert re.search(r"time-order +sale: 400 times, the last for testing", capsys.readouterr().out)
    run("verify", "m.agbm", "mixed.csv")


def test_updates_use_the_noted_column(owned, capsys):
    run(*PRICE, "--groups", "owner", *FEW)
    capsys.readouterr()
    seen, update = [], AGBMRegressor.update

    def watched(self, *given, **named):
        seen.append(named.get("groups"))
        return update(self, *given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AGBMRegressor, "update", watched)
        run("update", "m.agbm", "mixed.csv", "--mode", "trees", "--out", "n.agbm")
        owned.drop(columns="owner").to_csv("other.csv", index=False)
        run("update", "m.agbm", "other.csv", "--mode", "trees", "--out", "o.agbm")
    assert seen[0] is not None
    assert (pd.Series(seen[0]).value_counts() == 4).all()
    assert seen[1] is None


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--groups", "ownr"], "--groups ownr: no such column; did you mean 'owner'?"),
        (["--groups", "size"], r"--groups size: \d+ values are missing; every row needs one"),
        (["--time-order", "code"], r"--time-order code: '\w+' is not a date of the form that most values have"),
    ],
)
def test_errors(more, message, owned, capsys):
    assert re.search(message, fails(capsys, *PRICE, *more, *FEW))


def test_one_of_the_two(owned, capsys):
    with pytest.raises(SystemExit):
        run(*PRICE, "--groups", "owner", "--time-order", "sale")
    assert "not allowed with argument" in capsys.readouterr().err
