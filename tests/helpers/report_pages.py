"""Findings for the tests of reports, and functions that read the pages."""

import re
from dataclasses import replace
from unittest import mock
from xml.etree import ElementTree

import numpy as np
from sklearn.model_selection import train_test_split

from agbm._apps.evaluation.metrics import Metric, Tried
from agbm._apps.evaluation.tasks import task_of
from agbm._apps.report import (
    Findings,
    describe_columns,
    figures,
    loss_name,
    predictions_of,
    to_html,
    tried_from_model,
    with_test_rows,
)
from agbm._apps.report.markup import element

# Names that run code, or end the surrounding text, if they are not escaped.
HOSTILE = [
    "</script ><script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked = 1">',
    "<!--<script>",
    "'];window.hacked = 1;//",
    "\u2028window.hacked = 1\u2029 $title ${data} &lt;b&gt;",
]


# What pages are made of
def findings_of(title, X, y, models, **more):
    X, X_test, y, y_test = train_test_split(X, np.asarray(y), random_state=0, test_size=0.3)
    for model in models.values():
        model.fit(X, y)
    first = next(iter(models.values()))
    test = predictions_of(first, [X_test[:30], X_test[30:]], y_test)
    found = Findings(
        title=title,
        command=f"agbm train '{title}.csv' --target y --seed 0",
        facts={"agbm": "0.1.0", "date": "2026-11-15", "seed": "0"},
        data={"file": f"{title}.csv", "training rows": f"{len(X):,}", "test rows": f"{len(y_test):,}"},
        columns=describe_columns(X),
        tried=[tried(name, model, X_test, y_test) for name, model in models.items()],
        model=first,
        test=test,
        loss=loss_name(first),
        **more,
    )
    return with_test_rows(found, test)


def tried(name, model, X, y):
    task = task_of(model)
    metrics, _ = task.evaluate(y, task.predict(model, X))
    return replace(tried_from_model(name, model, metrics, seconds=0.25), model=model)


def with_rows(findings, model, X, y):
    """The same report, about another model and other rows."""
    rows = predictions_of(model, [X], np.asarray(y))
    found = replace(findings, model=model, tried=[tried("m", model, X, y)], test=rows, loss=loss_name(model))
    return with_test_rows(found, rows)


# Reading pages
PAGES = {}


def page_of(findings):
    """The page, made once: the charts take a second."""
    if id(findings) not in PAGES:
        PAGES[id(findings)] = findings, to_html(findings)
    return PAGES[id(findings)][1]


def body_of(findings):
    return parsed(page_of(findings))


def parsed(page):
    """The body of a page; it is also well-formed XML, but for attributes without a value."""
    found = re.search(r"<body>.*</body>", page, re.DOTALL)[0]
    return ElementTree.fromstring(found.replace("<details open>", '<details open="">'))


def section(findings, name):
    return body_of(findings).find(f".//section[@id='{name}']")


def without_charts(findings):
    """The page, where charts are titles only: to write them as SVG takes most of the time of a page."""
    with mock.patch.object(figures, "_figure", lambda _, title: element("figure", element("figcaption", title))):
        return to_html(findings)


def tables_of(findings, name):
    """A section of the page without charts."""
    return parsed(without_charts(findings)).find(f".//section[@id='{name}']")


def text(element):
    return "".join(element.itertext())


def rows_of(part, caption):
    """The cells of the table whose caption begins so, without its header."""
    (table,) = [table for table in part.iter("table") if text(table.find("caption")).startswith(caption)]
    return [[text(cell) for cell in row] for row in table.find("tbody")]


def chart(part, title):
    """The drawing with this title."""
    (found,) = [figure for figure in part.iter("figure") if text(figure.find("figcaption")) == title]
    return found.find("svg")


def texts_of(drawing):
    return [node.text for node in drawing.iter("text")]


def points_of(drawing, colour="--c0", dashed=False):
    """The points of the longest line of a colour."""
    found = [
        np.array(re.findall(r"[ML] (\S+) (\S+)", path.get("d")), dtype=float)
        for path in drawing.iter("path")
        if f"stroke: var({colour})" in path.get("style", "") and ("stroke-dasharray" in path.get("style")) == dashed
    ]
    return max(found, key=len)


def assert_on_line(points, x, y, atol=0.02):
    """The points are those of the values, on linear axes."""
    assert len(points) == len(x)
    for place, values in ((0, x), (1, y)):
        slope, start = np.polyfit(values, points[:, place], 1)
        assert slope > 0 if place == 0 else slope < 0
        np.testing.assert_allclose(points[:, place], start + slope * np.asarray(values), atol=atol)


def early(**parameters):
    return {"early_stopping": True, "validation_fraction": 0.2, "n_iter_no_change": 60, **parameters}


def long_run(name, n=1000, seed=0):
    """A curve as long as they come, of a contender of which little is known."""
    rng = np.random.default_rng(seed)
    loss = 1.0 / np.sqrt(1.0 + np.arange(n)) + 0.01 * rng.random(n)
    columns = {"trees": np.arange(1, n + 1), "seconds": np.cumsum(rng.random(n)), "validation_loss": loss}
    metric = Metric("log loss", float(loss.min()), 0.0, 0.5, lower_is_better=True)
    return Tried(name, 12.0, n, int(loss.argmin()), columns | {"train_loss": 0.9 * loss}, [metric])
