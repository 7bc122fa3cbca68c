"""Rows that are held out: classes in proportion, none lost, and the same rows for estimators and commands."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from agbm import AGBMClassifier, AGBMRanker, AGBMRegressor
from agbm._apps.cli.reading import data as _data
from agbm._apps.cli.reading import files as files
from agbm._data.hold_out import held_out_rows, hold_out, seed_of, strata_of_numbers, strata_of_queries
from commands import mixed, run


def test_classes_in_proportion_and_every_row_once():
    classes = np.repeat([0, 1], [900, 100])
    remaining, held_out = hold_out(1000, 0.2, classes, seed=3)
    assert sorted(np.concatenate([remaining, held_out])) == list(range(1000))
    assert (len(remaining), len(held_out)) == (800, 200)
    assert [classes[part].mean() for part in (remaining, held_out)] == pytest.approx([0.1] * 2)
    assert all(np.array_equal(part, np.sort(part)) for part in (remaining, held_out))
    again = hold_out(1000, 0.2, classes, seed=3)
    assert all(np.array_equal(a, b) for a, b in zip(again, (remaining, held_out), strict=True))
    assert not np.array_equal(hold_out(1000, 0.2, classes, seed=4)[1], held_out)
    assert len(hold_out(1000, 0.0, None, seed=3)[1]) == 0


@pytest.mark.parametrize("share", [0.1, 0.2])
@pytest.mark.parametrize(
    "classes",
    [
        np.repeat([0, 1, 2], [50, 50, 1]),  # a class of one row
        np.arange(600) % 300,  # more classes than rows held out
        np.arange(30) // 2,
    ],
)
def test_every_class_is_among_the_remaining_rows(classes, share):
    for seed in range(20):
        parts = hold_out(len(classes), share, classes, seed)
        assert sorted(np.concatenate(parts)) == list(range(len(classes)))
        assert set(classes[parts[0]]) == set(classes)
        assert all(len(part) for part in parts)


def test_class_of_one_row_keeps_the_proportions_of_the_others():
    classes = np.repeat([0, 1, 2], [800, 200, 1])
    _, held_out = hold_out(1001, 0.2, classes, seed=0)
    assert np.mean(classes[held_out] == 1) == pytest.approx(0.2, abs=0.006)


@pytest.mark.parametrize("rare", [[2], [3, 2], [9, 5, 1]])
@pytest.mark.parametrize("grouped", [False, True])
def test_every_class_is_held_out(rare, grouped):
    """Some part holds out a row of each class of two or more; groups of a class are in as many parts as possible."""
    classes = np.repeat(np.arange(1 + len(rare)), [1000, *rare])
    several = {0, *(1 + np.flatnonzero(np.array(rare) > 1)).tolist()}
    for seed in range(5):
        groups = np.arange(len(classes)) if grouped else None
        held_out = held_out_rows(len(classes), 0.1, 5, classes, seed, groups)
        parts = [held_out.rows(number) for number in range(5)]
        assert {int(part.sum()) for part in parts} <= {len(classes) // 10, math.ceil(0.1 * len(classes))}
        assert set(classes[np.any(parts, axis=0)]) == several
        for number, size in enumerate(rare, 1):
            having = sum(number in classes[part] for part in parts)
            assert having >= (min(size - 1, 5) if grouped else min(size - 1, 1))
        assert all(set(classes[~part]) == set(classes) for part in parts)
        assert np.sum(parts, axis=0).max() == 1


def test_classes_of_labels():
    assert strata_of_numbers(np.array([[1.0, 2.0, 2.0, 1.0]])) is None
    assert strata_of_numbers(np.array([[0.0, 2.0, 0.0, 0.5, 0.0]])).tolist() == [0, 1, 0, 1, 0]
    outputs = np.array([[0, 1, 0, 0, 0, 1, 0], [1, 1, 1, 1, 1, 0, 1], [1, 2, 3, 4, 5, 6, 7]], dtype=float)
    assert strata_of_numbers(outputs).tolist() == [0, 1, 0, 0, 0, 2, 0]  # the second output differs in one row only
    relevance, query = np.array([0, 1, 0, 0, 2, 2]), np.array([7, 3, 7, 3, 5, 5])
    assert strata_of_queries(relevance, query).tolist() == [0, 1, 0, 1, 0, 0]


class TestRareLabels:
    """Every member trains on rare labels, and some member holds out one of them, unless it is the only one."""

    @pytest.mark.parametrize("loss", ["poisson", "tweedie:1.5", "cross_entropy", "distribution:zero_inflated_poisson"])
    @pytest.mark.parametrize("n_rare", [1, 2])
    def test_numbers(self, loss, n_rare):
        X, y = np.random.default_rng(0).normal(size=(300, 2)), np.zeros(300)
        y[:n_rare] = 1.0
        model = AGBMRegressor(loss=loss, max_iter=2).fit(X, y)
        assert model.resolved_params_["early_stopping"]
        if loss == "poisson":  # the start of a member is the mean of its training rows, and one has held out a one
            n_train = np.array([n_rare - 1, *[n_rare] * 4]) if n_rare > 1 else n_rare
            assert model.model_.start[0] == pytest.approx(np.log(n_train / 270).mean())

    def test_several_labels(self):
        X, y = np.random.default_rng(0).normal(size=(300, 2)), np.zeros((300, 3), dtype=int)
        y[::2, 0] = y[:2, 1] = y[3:, 2] = 1
        model = AGBMClassifier(max_iter=2, scoring="roc_auc").fit(X, y)
        assert np.isfinite(model.history_["validation_roc_auc"]).all()
        assert (np.abs(model.model_.start) < 10.0).all()  # no member trains without one of the labels

    @pytest.mark.parametrize("n_rare", [2, 3, 6])
    def test_a_metric_that_needs_both_classes(self, n_rare):
        X, y = np.random.default_rng(0).normal(size=(1000, 2)), np.zeros(1000)
        y[:n_rare] = 1
        model = AGBMClassifier(max_iter=3, scoring="roc_auc").fit(X, y)
        assert np.isfinite(model.history_["validation_roc_auc"]).all()

    @pytest.mark.filterwarnings("ignore:Only one class is present")
    def test_one_row_of_a_class_and_such_a_metric(self):
        X, y = np.random.default_rng(0).normal(size=(1000, 2)), np.zeros(1000)
        y[0] = 1
        with pytest.raises(ValueError, match=r"scoring: the metric of early stopping .* such as one class only. Pass"):
            AGBMClassifier(scoring="roc_auc").fit(X, y)

    @pytest.mark.parametrize("n_clicked", [1, 3, 10])
    @pytest.mark.parametrize("early_stopping", ["auto", True])
    def test_queries_with_something_to_rank(self, n_clicked, early_stopping):
        rng = np.random.default_rng(0)
        X, qid, y = rng.normal(size=(400, 3)), np.repeat(np.arange(80), 5), np.zeros(400)
        y[np.arange(n_clicked) * 5] = 1
        ranker = AGBMRanker(max_iter=3, early_stopping=early_stopping)
        if n_clicked < 5 and early_stopping is True:  # too few for five members
            with pytest.raises(ValueError, match="no query has a relevant document among the rows"):
                ranker.fit(X, y, qid=qid)
            return
        ranker.fit(X, y, qid=qid)
        assert ranker.resolved_params_["early_stopping"] == (early_stopping is True)  # 20 such queries are too few
        if early_stopping is True:
            assert np.isfinite(ranker.history_["validation_loss"]).all()


@pytest.mark.parametrize(
    ("n", "classes", "message"),
    [
        (1, None, r"1 rows are too few to hold out 0\.2 of them"),
        (2, np.array([0, 1]), r"2 rows are too few to hold out 0\.2 of them and to keep a row of every class"),
    ],
)
def test_too_few_rows_are_named(n, classes, message):
    with pytest.raises(ValueError, match=message):
        hold_out(n, 0.2, classes, seed=0)
    model = (AGBMRegressor if classes is None else AGBMClassifier)(early_stopping=True, validation_fraction=0.2)
    with pytest.raises(ValueError, match=r"early_stopping=True with validation_fraction=0\.2: .* Pass X_val and y_val"):
        model.fit(np.zeros((n, 1)), np.zeros(n) if classes is None else classes)


@pytest.mark.parametrize("classifies", [True, False])
def test_an_estimator_holds_out_these_rows(classifies):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 9, (250, 2)), rng.integers(0, 3, 250)  # thresholds are the same without the held-out rows
    y[7] = 3  # the only one of its class
    kind = AGBMClassifier if classifies else AGBMRegressor
    common = {"n_members": 1, "early_stopping": True, "max_iter": 4, "random_state": 5}
    own = kind(validation_fraction=0.3, **common).fit(X, y)
    train, validation = hold_out(250, 0.3, y if classifies else None, seed_of(5))
    given = kind(**common).fit(X[train], y[train], X_val=X[validation], y_val=y[validation])
    assert own.history_["train_loss"].tolist() == given.history_["train_loss"].tolist()
    assert own.history_["validation_loss"].tolist() == given.history_["validation_loss"].tolist()


class TestCommandsUseTheSameRows:
    """Metrics and validation losses are equal only if training, validation and test rows are the same."""

    SHARES = ("--test-fraction", "0.25", "--seed", "3")

    @pytest.fixture
    def table(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        table = mixed(seed=1)
        table["size"] = table["size"].round()  # thresholds are the same without the held-out rows
        table["day"] = table["day"].str.slice(stop=10) + " 00:00:00"
        table.loc[5, "sold"] = "perhaps"
        table.loc[20:30, ["sold", "price"]] = None  # rows without a label
        table.to_csv("mixed.csv", index=False)

    @pytest.mark.slow
    @pytest.mark.parametrize("target", ["sold", "price"])
    def test_in_memory_and_in_pieces(self, target, table, capsys, monkeypatch):
        other = {"sold": "price", "price": "sold"}[target]
        question = ["mixed.csv", "--target", target, "--drop", other, *self.SHARES, "--json", "--set", "n_members=1"]
        share = ["--validation-fraction", "0.15"]

        def said(command, *more):
            run(command, *question, *more)
            return json.loads(capsys.readouterr().out)

        def trained(*more):
            found = said("train", "--out", "m.agbm", "--set", "validation_fraction=0.15", *more)
            return found["metrics"], found["iterations"]

        def compared(*more):
            contenders = said("compare", "--peers", *share, *more)["contenders"]
            (found,) = [one for one in contenders if one["name"] == "agbm, one model"]
            return found["metrics"], len(found["curve"]["trees"]) - 1

        def tuned(*more):
            return said("tune", "--out", "m.agbm", "--trials", "1", *share, *more)["default_metrics"]

        expected = trained()
        assert len(expected[0]) > 1
        assert trained("--stream") == expected
        assert compared() == expected
        assert tuned() == expected[0]
        monkeypatch.setattr(_data, "available_memory", lambda: 1000)
        monkeypatch.setattr(files, "BLOCK_VALUES", 300)
        assert trained() == expected
        assert compared("--rows", "400") == expected
        assert tuned("--rows", "400", "--study", "second") == expected[0]

    def test_the_test_rows_are_those_that_are_drawn_first(self, table, capsys):
        run("train", "mixed.csv", "--target", "price", "--drop", "sold", *self.SHARES, "--out", "m.agbm", "--json")
        metric = json.loads(capsys.readouterr().out)["metrics"][0]
        labelled = pd.read_csv("mixed.csv")["price"].dropna()
        _, test = hold_out(len(labelled), 0.25, None, seed=3)
        pd.read_csv("mixed.csv").loc[labelled.index[test]].to_csv("test.csv", index=False)
        run("report", "m.agbm", "test.csv", "--out", "page.html", "--json")
        assert json.loads(capsys.readouterr().out)["metrics"][0] == metric
