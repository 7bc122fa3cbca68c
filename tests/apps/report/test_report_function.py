"""agbm.report: the page of the command, from Python."""

import json
import re
import sys

import numpy as np
import pandas as pd
import pytest

import agbm
from agbm import AGBMClassifier, AGBMRanker, AGBMRegressor, AGBMSurvival
from agbm._apps import cli
from agbm._apps.report import figures
from agbm._apps.report.markup import element, number
from agbm._apps.report.segments import Segment

FEW = {"max_iter": 8, "n_members": 1}
N = 300


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"size": rng.normal(size=N), "kind": rng.choice(["a", "b"], N), "age": rng.integers(0, 90, N)})


@pytest.fixture
def fast(monkeypatch):
    """Charts are titles only."""
    monkeypatch.setattr(figures, "_figure", lambda _, title: element("figure", element("figcaption", title)))


def labels(kind, X):
    rng = np.random.default_rng(1)
    score = X["size"].to_numpy() + (X["kind"] == "a") + rng.normal(size=N)
    return {
        "two": np.where(score > 1.5, "yes", "no"),
        "several": np.digitize(score, [0.0, 1.0]),
        "numbers": score,
        "outputs": np.column_stack([score, 100.0 * X["size"]]),
        "labels": np.column_stack([score > 0.5, X["size"] > 0.0]).astype(int),
        "shares": np.column_stack([1.0 / (1.0 + np.exp(-score)), 1.0 / (1.0 + np.exp(score))]),
        "relevance": np.clip(np.rint(score), 0, 3),
        "lifetimes": np.column_stack([np.exp(score), rng.random(N) < 0.7]),
    }[kind]


KINDS = {
    "two": (AGBMClassifier, ["ranking", "gain", "confusion", "costs", "calibration"]),
    "several": (AGBMClassifier, ["confusion", "calibration"]),
    "numbers": (AGBMRegressor, ["errors"]),
    "outputs": (AGBMRegressor, ["outputs"]),
    "labels": (AGBMClassifier, ["outputs"]),
    "shares": (AGBMClassifier, ["outputs"]),
    "relevance": (AGBMRanker, ["queries"]),
    "lifetimes": (AGBMSurvival, ["survival"]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model(kind, X, fast, capsys):
    estimator, expected = KINDS[kind]
    y, more = labels(kind, X), {"qid": np.arange(N) // 10} if kind == "relevance" else {}
    loss = {"loss": "cross_entropy"} if kind == "shares" else {}
    model = estimator(**FEW, **loss).fit(X, y, **more)
    found = agbm.report(model, X, y, **more, verbose=0)
    assert capsys.readouterr().err == ""
    ids = re.findall(r'<section id="([\w-]+)"', found.html)
    assert ids[0] == "metrics"
    assert [name for name in ids if name in expected] == expected
    assert {"drift", "importances", "convergence"} <= {*ids}
    assert ("segments" in ids) == (kind != "relevance")
    assert number(found.metrics[0].value) in found.html
    assert [column.size for column in found.drift] == ["none"] * len(found.drift)
    assert all(isinstance(segment, Segment) for segment in found.segments)


def test_forms_of_lifetimes(X, fast):
    y = labels("lifetimes", X)
    time, event = y[:, 0], y[:, 1] > 0
    model = AGBMSurvival(**FEW).fit(X, y)
    bounds = pd.DataFrame({"lower": time, "upper": np.where(event, time, np.inf)})
    metrics = [agbm.report(model, X, form, verbose=0).metrics for form in (y, (time, event), bounds)]
    assert metrics[0] == metrics[1] == metrics[2]
    bounds["upper"] += 1.0
    with pytest.raises(ValueError, match="times are left- or interval-censored, which a report cannot evaluate"):
        agbm.report(model, X, bounds)


def test_the_page_is_that_of_the_command(X, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    y = labels("two", X)
    X.assign(y=y).to_csv("rows.csv", index=False)
    model = AGBMClassifier(**FEW).fit(X, y)
    model.save("m.agbm")
    assert cli.main(["report", "m.agbm", "rows.csv", "--target", "y", "--positive", "no", "--out", "page.html"]) == 0
    agbm.report(agbm.load("m.agbm"), X, y, positive="no", verbose=0).save("function.html")
    pages = [(tmp_path / name).read_text().split("<main>")[1] for name in ("page.html", "function.html")]
    sections = [dict(re.findall(r'(?s)<section id="([\w-]+)">(.*?)</section>', page)) for page in pages]
    for name in ("metrics", "ranking", "gain", "confusion", "costs", "calibration", "segments", "drift", "what-if"):
        assert sections[0][name] == sections[1][name]


def test_positive_class(X, fast, tmp_path, monkeypatch, capsys):
    y = labels("two", X)
    model = AGBMClassifier(**FEW).fit(X, y)
    rare = "yes" if (y == "yes").mean() < 0.5 else "no"
    pages = {label: agbm.report(model, X, y, positive=label, verbose=0) for label in ("yes", "no", None)}
    areas = {label: one.metrics[-1] for label, one in pages.items()}
    assert areas["yes"].name == "average precision"
    assert areas[None] == areas[rare] != areas[{"yes": "no", "no": "yes"}[rare]]
    assert f"<dt>positive class</dt><dd>{rare}</dd>" in pages[None].html
    with pytest.raises(ValueError, match=r"positive='maybe' must be one of the classes \['no', 'yes'\]"):
        agbm.report(model, X, y, positive="maybe")
    with pytest.raises(ValueError, match="must be a classifier with two classes; omit it"):
        agbm.report(AGBMRegressor(**FEW).fit(X, X["age"]), X, X["age"], positive=1)
    monkeypatch.chdir(tmp_path)
    model.save("m.agbm")
    X.assign(y=y).to_csv("rows.csv", index=False)
    words = ["report", "m.agbm", "rows.csv", "--target", "y", "--positive", "yes", "--out", "p.html", "--json"]
    assert cli.main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["positive"] == "yes"
    assert found["metrics"][-1]["value"] == areas["yes"].value


def test_notebooks_and_files(X, fast, tmp_path):
    model = AGBMRegressor(**FEW).fit(X, X["age"])
    found = agbm.report(model, title='<b>"&', verbose=0)
    assert "&lt;b&gt;" in found.html
    frame = found._repr_html_()
    assert frame.startswith("<iframe ")
    assert frame.count("<") == 2  # the page is an attribute
    assert f"{len(found.html.encode()):,} bytes" in repr(found)
    assert (found.metrics, found.segments, found.drift) == ((), (), ())
    found.save(tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text() == found.html


def test_progress(X, fast, capsys):
    model = AGBMRegressor(**FEW).fit(X, X["age"])
    agbm.report(model, X, X["age"])
    said = capsys.readouterr().err
    assert "report" in said
    assert re.search(r"report  16/16 ", said)


def test_offsets_and_training_rows(X, fast):
    y, years = np.random.default_rng(0).poisson(3.0, N), np.full(N, 2.0)
    model = AGBMRegressor(loss="poisson", **FEW).fit(X, y, offset=np.log(years))
    found = agbm.report(model, X, y, offset=np.log(years), X_train=X, verbose=0)
    assert "A classifier that tells the test rows from the training rows" in found.html
    other = agbm.report(model, X, y, offset=np.zeros(N), verbose=0)
    assert found.metrics[0].value < other.metrics[0].value


class TestGroups:
    def test_from_python(self, X, fast):
        model = AGBMRegressor(max_iter=8).fit(X, X["age"] + X["size"])
        vector, column = (
            agbm.report(model, X, X["age"] + X["size"], groups=groups, verbose=0).html
            for groups in (X["kind"].to_numpy(), "kind")
        )
        assert "Coverage of the 90 % intervals by group" in vector
        uncertainty = [
            re.search(r'(?s)<section id="uncertainty">(.*?)</section>', page)[1] for page in (vector, column)
        ]
        assert uncertainty[0] == uncertainty[1]
        many = agbm.report(model, X, X["age"] + X["size"], groups=np.arange(N) // 12, verbose=0).html
        assert "25 of 25 groups with at least 10 test rows" in many
        for groups, message in [
            ("none", "no such column"),
            ([1, 2], "pass one value per row"),
            ([None] * N, "missing"),
        ]:
            with pytest.raises(ValueError, match=message):
                agbm.report(model, X, X["age"], groups=groups)
        bare = AGBMRegressor(**FEW, early_stopping=False).fit(X, X["age"])
        with pytest.raises(ValueError, match="groups: the model has no intervals"):
            agbm.report(bare, X, X["age"], groups="kind")

    def test_the_command_uses_the_column_of_the_training(self, X, fast, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        X.assign(y=X["age"] + X["size"], shop=np.arange(N) // 30).to_csv("r.csv", index=False)
        train = [
            "train",
            "r.csv",
            "--target",
            "y",
            "--groups",
            "shop",
            "--set",
            "max_iter=8",
            "--out",
            "m.agbm",
            "--quiet",
        ]
        assert cli.main([*train, "--report", "t.html"]) == 0
        assert cli.main(["report", "m.agbm", "r.csv", "--out", "a.html"]) == 0
        assert cli.main(["report", "m.agbm", "r.csv", "--groups", "kind", "--out", "b.html"]) == 0
        pages = [(tmp_path / f"{name}.html").read_text() for name in "tab"]
        counts = [
            len(re.findall(r"<tr>", page.split("intervals by group</caption>")[1].split("</table>")[0]))
            for page in pages
        ]
        assert counts == [3, 11, 3]  # with the header; two of ten shops are for testing
        assert cli.main(["report", "m.agbm", "--groups", "kind", "--out", "c.html"]) == 1
        assert "--groups kind: there are no data" in capsys.readouterr().err
        assert cli.main(["report", "m.agbm", "r.csv", "--groups", "no", "--out", "c.html"]) == 1
        assert "--groups" in capsys.readouterr().err


class TestErrors:
    def test_wrong_arguments(self, X):
        y = labels("two", X)
        model = AGBMClassifier(**FEW).fit(X, y)
        for given, message in [
            ({"X": X}, "X and y: pass the labels"),
            ({"positive": "yes"}, "positive has no effect without test rows"),
            ({"X": X, "y": y[:-1]}, "299"),
            ({"X": X, "y": np.repeat("maybe", N)}, "maybe"),
            ({"X": X, "y": y, "qid": np.zeros(N)}, "group and qid are for rankers"),
            ({"X": X, "y": y, "costs": (1, 0)}, "costs="),
        ]:
            with pytest.raises(ValueError, match=message):
                agbm.report(model, **given, verbose=0)

    def test_without_matplotlib(self, X, monkeypatch):
        model = AGBMRegressor(**FEW).fit(X, X["age"])
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        for name in [name for name in sys.modules if name.startswith("agbm.plot")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.delattr("agbm.plot", raising=False)
        with pytest.raises(ImportError, match=r"pip install 'agbm\[plot\]'"):
            agbm.report(model)
