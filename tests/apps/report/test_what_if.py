"""The what-if panel of a report, which shows the predictions of the model for changed rows."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from agbm import AGBMClassifier, AGBMRegressor
from agbm._apps.report import Findings, predictions_of, to_html, what_if
from agbm.export._view import view

N_ROWS = 300
HOSTILE = ["</script><script>window.hacked = 1</script>", '"><img src=x onerror="window.hacked = 1">', "\u2028'\"`${1}"]


def houses():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "area": np.round(rng.uniform(30, 250, N_ROWS)),
            "district": rng.choice(["north", "south", HOSTILE[0]], N_ROWS),
            HOSTILE[1]: rng.normal(size=N_ROWS),
            "built": pd.Timestamp("2000-01-01") + pd.to_timedelta(rng.integers(0, 3000, N_ROWS), "D"),
            "state": pd.Categorical(rng.choice(["poor", "good"], N_ROWS), categories=["poor", "good"], ordered=True),
        }
    )
    X.loc[::7, HOSTILE[1]] = np.nan
    X.loc[::11, "district"] = None
    price = X["area"] + 40.0 * (X["district"] == "south") + 10.0 * X[HOSTILE[1]].fillna(2.0)
    price += 20.0 * (X["state"] == "good") + 3.0 * X["built"].dt.day_of_week
    return X, price.to_numpy() + rng.normal(scale=5.0, size=N_ROWS)


def findings_of(model, X, y):
    return Findings("houses", "agbm train", model=model, test=predictions_of(model, [X], y))


@pytest.fixture(scope="module")
def regression():
    X, y = houses()
    return findings_of(AGBMRegressor(max_iter=20).fit(X, y), X[:100], y[:100]), X


@pytest.fixture(scope="module")
def classes():
    X, y = houses()
    labels = np.array([HOSTILE[0], HOSTILE[2], "dear"])[np.digitize(y, np.quantile(y, [0.3, 0.7]))]
    return findings_of(AGBMClassifier(max_iter=10).fit(X, labels), X[:100], labels[:100]), X


@pytest.fixture(scope="module")
def visit(tmp_path_factory, browser):
    """Opens the pages of findings, which must neither report errors nor request anything but the file."""
    wrong, asked, pages = [], [], {}

    def go(findings):
        if id(findings) not in pages:
            path = tmp_path_factory.mktemp("page") / "report.html"
            path.write_text(to_html(findings), encoding="utf-8")
            pages[id(findings)] = path.as_uri()
        page = browser.new_page()
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(pages[id(findings)])
        return page

    yield go
    assert wrong == []
    assert {url for url in asked if not url.startswith("data:image/png")} <= set(pages.values())


def shown(text):
    """A number of the page."""
    found = re.search(r"[+−]?[\d,.]+", text)[0]
    return float(found.replace(",", "").replace("−", "-"))


def read(page):
    """The predictions, and contributions by name, that the panel shows."""
    panel = page.locator("#what-if-panel")
    lines = panel.locator(".line:not(.heads)").all()
    contributions = {
        line.locator(".name").text_content(): shown(line.locator(".number").text_content()) for line in lines
    }
    facts = dict(zip(panel.locator("dt").all_text_contents(), panel.locator("dd").all_text_contents(), strict=True))
    values = [shown(text) for text in panel.locator(".result .value").all_text_contents()]
    return values, contributions, {name: shown(text) for name, text in facts.items()}


def assert_shows(page, findings, X, output=0):
    """The panel shows the predictions of a row, a table, and its contributions."""
    values, contributions, facts = read(page)
    model = findings.model
    wanted = 100.0 * model.predict_proba(X)[0] if hasattr(model, "classes_") else model.predict(X)
    np.testing.assert_allclose(values, wanted, rtol=5.1e-3, atol=1e-9)
    explained = model.predict_contributions(X).reshape(-1, X.shape[1] + 1)[output]
    names = list(X.columns)
    np.testing.assert_allclose(
        [contributions[name] for name in names], explained[[names.index(name) for name in names]], rtol=6e-4, atol=1e-9
    )
    np.testing.assert_allclose(facts["base value"], explained[-1], rtol=6e-4)
    np.testing.assert_allclose(facts["score"], explained.sum(), rtol=6e-4)


def first_row(findings, X):
    """The first row of the panel: that of the sample of the report."""
    return X.iloc[[int(np.flatnonzero(np.isin(X["area"], findings.test.sample[0, 0]))[0])]]


def test_unchanged_and_changed_row(regression, visit):
    findings, X = regression
    page = visit(findings)
    panel = page.locator("#what-if-panel")
    row = first_row(findings, X).copy()
    assert_shows(page, findings, row)
    panel.get_by_label("area", exact=True).fill("60")
    row["area"] = 60.0
    assert_shows(page, findings, row)
    assert "was" in panel.locator(".old").text_content()
    panel.get_by_label("district").select_option("south")
    row["district"] = "south"
    assert_shows(page, findings, row)
    panel.get_by_label(f"{HOSTILE[1]}, exact value").fill("-1.25")
    row[HOSTILE[1]] = -1.25
    assert_shows(page, findings, row)
    panel.locator(".line", has_text=HOSTILE[1]).get_by_role("checkbox").check()
    row[HOSTILE[1]] = np.nan
    assert_shows(page, findings, row)
    panel.get_by_label("district").select_option("(another category)")
    row["district"] = "never seen"
    assert_shows(page, findings, row)
    panel.get_by_label("district").select_option("(missing)")
    row["district"] = None
    assert_shows(page, findings, row)
    panel.get_by_label("state").select_option("good")
    row["state"] = pd.Categorical(["good"], categories=["poor", "good"], ordered=True)
    assert_shows(page, findings, row)
    panel.get_by_role("button", name="Reset").click()
    assert_shows(page, findings, first_row(findings, X))
    assert panel.locator(".old").text_content() == ""
    assert panel.locator(".line", has_text="built").locator("input, select").count() == 0
    assert "Dates cannot be changed here." in page.locator("#what-if").inner_text()
    page.close()


def test_all_rows(regression, visit):
    findings, X = regression
    page = visit(findings)
    options = page.locator("#what-if-row option").all_text_contents()
    assert len(options) == what_if.MOST_ROWS
    wanted = findings.model.predict(X[:100])
    assert all(np.isclose(wanted, shown(text.split(": ")[1]), rtol=6e-4).any() for text in options)
    assert f"contains the features of {what_if.MOST_ROWS} test rows" in page.locator("#what-if").inner_text()
    page.locator("#what-if-row").select_option("7")
    assert read(page)[0] == [shown(options[7].split(": ")[1])]
    page.close()


def test_classes(classes, visit):
    findings, X = classes
    page = visit(findings)
    row = first_row(findings, X).copy()
    labels = findings.model.classes_.tolist()
    best = int(findings.model.predict_proba(row)[0].argmax())
    assert page.locator("#what-if-score").input_value() == str(best)
    assert_shows(page, findings, row, best)
    page.locator("#what-if-score").select_option(label=labels[0])
    assert_shows(page, findings, row, 0)
    assert page.locator("#what-if-panel .result .name").all_text_contents() == labels
    page.get_by_role("slider", name="area").fill("200")
    row["area"] = 200.0
    assert_shows(page, findings, row, 0)
    assert page.evaluate("window.hacked") is None
    assert page.locator("script").count() == 2
    page.close()


def test_by_keyboard(regression, visit):
    """Every control has a name, and can be reached and used without a mouse."""
    page = visit(regression[0])
    names = page.locator("#what-if-panel").locator("input, select, button").evaluate_all(
        "all => all.map((e) => e.getAttribute('aria-label') || e.labels?.[0]?.textContent || e.textContent)"
    )  # fmt: skip
    assert all(name.strip() for name in names)
    page.locator("#what-if-row").focus()
    before = read(page)[0]
    for _ in range(2):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.type") == "range"
    for _ in range(30):
        page.keyboard.press("ArrowLeft")
    assert read(page)[0] != before
    page.close()


def test_unknown_categories(regression):
    """Test rows may have categories that the training rows do not have."""
    X, y = houses()
    model = regression[0].model
    new = X[:20].assign(district=["never seen", "nor this"] * 10)
    data = what_if._data(model, view(model), predictions_of(model, [new], y[:20]))
    assert ["(another category)", 3] in next(of for of in data["features"] if of["name"] == "district")["values"]
    assert all(row[data["used"].index(1)] == 3.0 for row in data["rows"])
    numbers = X.assign(district=np.arange(N_ROWS) % 3.0)
    fitted = AGBMRegressor(max_iter=3, categorical_features=["district"]).fit(numbers, y)
    rows = numbers[:5].assign(district=[7.0, 0.0, 9.0, np.nan, 1.0])
    sample = predictions_of(fitted, [rows], y[:5]).sample
    assert sample[:, 1].tolist() == [3.0, 0.0, 3.0, None, 1.0]


def test_a_model_that_is_too_large(regression, monkeypatch):
    monkeypatch.setattr(what_if, "MOST_BYTES", 10_000)
    page = to_html(replace(regression[0], test=replace(regression[0].test, sample=regression[0].test.sample[:3])))
    assert re.search(r"as JavaScript, the model takes 0\.\d MB, and pages contain at most 0\.01 MB of it", page)
    assert page.count("<script") == page.count("'sha256-") == 1


def test_models_that_cannot_be_exported():
    X = np.random.default_rng(0).normal(size=(100, 2))
    model = AGBMRegressor(max_iter=3, init=AGBMRegressor(max_iter=2).fit(X, X[:, 0])).fit(X, X[:, 0])
    assert what_if.panel(findings_of(model, X, X[:, 0])) is None
    assert what_if.panel(Findings("t", "c", model=model)) is None


def test_a_page_without_rows(regression):
    findings, _ = regression
    page = to_html(replace(findings, shows_rows=False))
    assert 'id="what-if' in to_html(findings)
    assert 'id="what-if' not in page
    assert page.count("<script") == 1  # that of tables, charts and navigation


@pytest.mark.parametrize("width", [0.0037, 1.0, 250.0, 1e-300, 1e300])
def test_steps_of_sliders(width):
    assert width / 500 <= what_if._step(width) <= width / 100
