"""The page of a report: what it says is what was found, in a real browser, whatever the names in it are."""

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import expect, sync_playwright
from scipy.sparse import csr_array
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split

import browser as browsers
from agbm import AGBMClassifier, AGBMRegressor
from agbm._core.methods import name_of
from agbm._report import Column, Findings, describe_columns, to_html, tried_from_model, write
from agbm._report.curves import curve, thinned
from agbm._report.markup import data_block, number, seconds
from agbm._study.evaluation import Metric, Tried, metrics_of_classes, metrics_of_values
from agbm.export import export_text
from agbm.methods import AGBM

SCREENSHOTS = Path(__file__).parents[2] / "out" / "screenshots"
PHONE = {"width": 390, "height": 844}

# Whoever reads one of these as markup runs it, or leaves the text that it is in.
HOSTILE = [
    "</script ><script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked = 1">',
    "<!--<script>",
    "'];window.hacked = 1;//",
    "\u2028window.hacked = 1\u2029 $title ${data} &lt;b&gt;",
]


# What pages are made of
def tried(name, model, X, y, X_test, y_test):
    model.fit(X, y)
    if isinstance(model, AGBMClassifier):
        metrics = metrics_of_classes(y_test, model.predict_proba(X_test), model.classes_)
    else:
        metrics = metrics_of_values(y_test, model.predict(X_test))
    return tried_from_model(name, model, metrics, seconds=0.25)


def findings_of(title, X, y, models, **more):
    X, X_test, y, y_test = train_test_split(X, np.asarray(y), random_state=0, test_size=0.3)
    return Findings(
        title=title,
        command=f"agbm train '{title}.csv' --target y --seed 0",
        facts={"agbm": "0.1.0", "date": "2026-11-15", "seed": "0"},
        data={"file": f"{title}.csv", "training rows": f"{len(X):,}", "test rows": f"{len(y_test):,}"},
        columns=describe_columns(X),
        tried=[tried(name, model, X, y, X_test, y_test) for name, model in models.items()],
        model=next(iter(models.values())),
        **more,
    )


def early(**parameters):
    return {"early_stopping": True, "validation_fraction": 0.2, "n_iter_no_change": 60, **parameters}


@pytest.fixture(scope="module")
def cancer():
    """One model, with momentum and restarts."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = AGBMClassifier(
        **early(
            method=AGBM(momentum=0.5, shared_structure=True, restart="loss_rise"),
            second_order=True,
            learning_rate=0.3,
            max_depth=3,
        )
    )
    return findings_of("breast cancer", X, y, {"agbmr": model})


@pytest.fixture(scope="module")
def diabetes():
    """Three contenders and one that failed."""
    X, y = load_diabetes(return_X_y=True)
    models = {
        "default": AGBMRegressor(**early(n_members=1)),
        "plain": AGBMRegressor(**early(method="gbm", second_order=True)),
        "agbmr": AGBMRegressor(
            **early(method=AGBM(momentum=0.5, correction=0.5, restart="loss_rise"), second_order=True)
        ),
    }
    found = findings_of("diabetes", X, y, models)
    failed = Tried("catboost", failure="catboost cannot be imported: pip install catboost.")
    return replace(found, tried=[*found.tried, failed])


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True, as_frame=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    return findings_of("iris", X, names, {"agbm": AGBMClassifier(max_iter=20, n_members=1, early_stopping=False)})


@pytest.fixture(scope="module")
def frame():
    """The default: several members, with validation rows. Categories, holes, and many columns with long names."""
    rng = np.random.default_rng(0)
    names = [f"sensor_{k:03d}_in_the_third_hall_of_the_eastern_works" for k in range(198)]
    X = pd.DataFrame(rng.normal(size=(600, 198)), columns=names)
    X.insert(0, "side", rng.choice(np.array(["north", "south", "east", None], dtype=object), 600))
    X.insert(0, "level", np.where(rng.random(600) < 0.25, np.nan, rng.normal(size=600)))
    y = 2.0 * X["level"].fillna(1.0) + 3.0 * (X["side"] == "south") + X[names[0]] + rng.normal(size=600)
    return findings_of("sensors", X, y, {"agbm": AGBMRegressor(max_iter=30)})


@pytest.fixture(scope="module")
def hostile():
    """Names of all kinds that strangers choose."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 4)), columns=HOSTILE[:4])
    X[HOSTILE[4]] = rng.choice(HOSTILE[:2], 200)
    y = np.where(X[HOSTILE[0]] + (X[HOSTILE[4]] == HOSTILE[0]) > 0, HOSTILE[0], HOSTILE[1])
    found = findings_of(HOSTILE[0], X, y, {name: AGBMClassifier(max_iter=5) for name in HOSTILE[:2]})
    metric = Metric(HOSTILE[1], 0.5, 0.4, 0.6, lower_is_better=True)
    first = replace(found.tried[0], metrics=[metric], parameters={HOSTILE[0]: HOSTILE[1]})
    return replace(
        found,
        command=HOSTILE[4],
        facts={HOSTILE[0]: HOSTILE[1]},
        data={HOSTILE[0]: HOSTILE[1]},
        columns=[*found.columns, Column(HOSTILE[0], HOSTILE[1])],
        tried=[first, *found.tried[1:], Tried(HOSTILE[1], failure=HOSTILE[0])],
    )


def long_run(name, n=1000, seed=0):
    """A curve as long as they come, of a contender of which little is known."""
    rng = np.random.default_rng(seed)
    loss = 1.0 / np.sqrt(1.0 + np.arange(n)) + 0.01 * rng.random(n)
    columns = {"trees": np.arange(1, n + 1), "seconds": np.cumsum(rng.random(n)), "validation_loss": loss}
    metric = Metric("log loss", float(loss.min()), 0.0, 0.5, lower_is_better=True)
    return Tried(name, 12.0, n, int(loss.argmin()), columns | {"train_loss": 0.9 * loss}, [metric])


@pytest.fixture(scope="module")
def ten():
    return Findings("ten", "agbm compare", tried=[long_run(f"contender {k}", seed=k) for k in range(10)])


ALL = ["cancer", "diabetes", "iris", "frame", "hostile", "ten"]


# A browser
@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = browsers.launch(playwright)
        if browser is None:
            pytest.skip(browsers.HOW_TO_GET_ONE)
        yield browser
        browser.close()


class Tabs:
    """Pages of the browser, one for each way of looking: opening them takes longer than what is done with them."""

    def __init__(self, browser):
        self._browser = browser
        self._open = {}
        self.wrong, self.asked = [], []

    def get(self, options):
        key = json.dumps(options)
        if key not in self._open:
            context = self._browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
            page = self._open[key] = context.new_page()
            page.on("console", lambda message: self.wrong.append(message.text))
            page.on("pageerror", lambda error: self.wrong.append(str(error)))
            page.on("dialog", lambda dialog: self.wrong.append(dialog.message))
            page.on("request", lambda request: self.asked.append(request.url))
        return self._open[key]


@pytest.fixture(scope="module")
def tabs(browser):
    return Tabs(browser)


@pytest.fixture
def visit(tabs, tmp_path):
    """Opens a page; at the end, nothing may have gone wrong in it, and nothing but the file may have been asked for."""
    tabs.wrong, tabs.asked = [], []

    def go(findings, **options):
        path = tmp_path / "report.html"
        write(findings, path)
        page = tabs.get(options)
        page.mouse.move(0, 0)
        page.goto(path.as_uri())
        return page

    yield go
    assert tabs.wrong == []
    assert set(tabs.asked) == {(tmp_path / "report.html").as_uri()}


def points(page, line=0):
    """Where a line of the first drawing has its points, in pixels."""
    path = page.locator("#convergence .plot .line").nth(line).get_attribute("d")
    return np.array([[float(x) for x in point.split()] for point in path.removeprefix("M").split("L")])


def assert_affine(pixels, values):
    """The pixels are those of the values on a straight scale, to the tenth that is written."""
    slope, start = np.polyfit(values, pixels, 1)
    assert abs(slope) > 0
    np.testing.assert_allclose(pixels, start + slope * np.asarray(values), atol=0.11)


def choose(page, name, option):
    page.locator(f"input[name={name}][value='{option}']").locator("xpath=..").click()


def reading(page):
    """Where the crosshair is, and the values there."""
    legend = page.locator("#convergence .legend")
    where = legend.locator(".at").inner_text()
    rows = [row.locator("td:visible").all_inner_texts() for row in legend.locator("tbody tr").all()]
    return where, rows


def to_number(text):
    return float(re.sub(r"[^\d.e-]", "", text.replace(",", "")))


class TestPage:
    @pytest.mark.parametrize("name", ALL)
    def test_every_part_is_there(self, name, visit, request):
        findings = request.getfixturevalue(name)
        page = visit(findings)
        titles = page.locator("h2").all_inner_texts()
        expected = ["Convergence", "Test metrics"]
        if findings.model is not None:
            expected += ["Importances", "Example trees", "Theory", "Columns", "Parameters"]
            whose = f"This section is about the model {name_of(findings.model.method)}. "
            for part in ("importances", "trees", "theory"):
                assert (whose in page.locator(f"#{part}").text_content()) == (len(findings.tried) > 1)
        assert titles == expected
        assert page.locator("nav a").all_inner_texts() == expected
        assert page.locator("h1").inner_text().strip() == findings.title
        assert page.locator("#command").text_content() == findings.command
        for fact, value in {**findings.data, **findings.facts}.items():
            assert fact in page.locator("header").text_content()
            assert value in page.locator("header").text_content()
        # Both losses of a single model; of several that of validation rows, or of training where there are none.
        drawn = {"cancer": 2, "diabetes": 3, "iris": 1, "frame": 2, "hostile": 2, "ten": 10}
        assert page.locator("#convergence .plot .line").count() == drawn[name]
        assert page.locator("#metrics tbody tr").count() == sum(1 for one in findings.tried if not one.failure)
        for one in findings.tried:
            assert one.name in page.locator("#metrics").text_content()
            assert one.failure in page.locator("#metrics").text_content()

    @pytest.mark.parametrize("name", ALL)
    def test_fits_a_phone(self, name, visit, request):
        page = visit(request.getfixturevalue(name), viewport=PHONE)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        right = page.evaluate(
            "Math.max(...[...document.querySelectorAll('section, nav, dl')].map(e => e.getBoundingClientRect().right))"
        )
        assert right <= PHONE["width"]

    def test_a_page_without_anything(self, visit):
        page = visit(Findings("nothing yet", "agbm train"))
        assert page.locator("h1").inner_text() == "nothing yet"
        assert page.locator("section").count() == 0

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_text_stands_out(self, scheme, diabetes, visit):
        page = visit(diabetes, color_scheme=scheme)
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        brightness = np.mean([int(part) for part in re.findall(r"\d+", ground)[:3]])
        assert brightness > 240 if scheme == "light" else brightness < 40
        for details in page.locator("details").all():
            details.evaluate("e => e.open = true")
        contrasts = page.evaluate(CONTRASTS)
        assert len(contrasts) > 100
        weakest = min(contrasts, key=lambda found: found[1])
        assert weakest[1] >= 4.5, weakest

    @pytest.mark.parametrize(
        ("look", "options"), [("light", {}), ("dark", {"color_scheme": "dark"}), ("phone", {"viewport": PHONE})]
    )
    def test_pictures_to_look_at(self, look, options, diabetes, visit):
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        target = SCREENSHOTS / f"report-{look}.png"
        visit(diabetes, **options).screenshot(path=target, full_page=True)
        assert target.read_bytes().startswith(b"\x89PNG")
        assert target.stat().st_size > 50_000

    def test_without_a_script(self, diabetes, visit):
        page = visit(diabetes, java_script_enabled=False)
        text = page.locator("body").inner_text()
        for one in diabetes.tried:
            for metric in one.metrics:
                assert number(metric.value) in text
            if not one.failure:
                assert number(one.curve["validation_loss"][one.best]) in page.locator("#convergence").inner_text()
        assert not page.locator(".controls").first.is_visible()
        assert not page.locator("#copy").is_visible()
        assert page.locator(".bars").count() == 2
        assert all(bars.is_visible() for bars in page.locator(".bars").all())

    def test_on_paper(self, diabetes, visit):
        page = visit(diabetes, color_scheme="dark", viewport={"width": 720, "height": 1000})
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
        assert not page.locator(".controls").first.is_visible()
        assert not page.locator("nav").is_visible()
        assert page.locator("#convergence .plot svg").is_visible()
        assert page.pdf().startswith(b"%PDF")


# Every element with text of its own, and the contrast of the text with what is behind it, by WCAG's formula.
CONTRASTS = """() => {
  const parse = (text) => {
    const parts = text.match(/[\\d.]+(e-?\\d+)?/g).map(Number);
    const rgb = parts.slice(0, 3).map((part) => (text.startsWith("color(") ? part : part / 255));
    return { rgb, alpha: parts.length > 3 ? parts[3] : 1 };
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const { rgb, alpha } = parse(getComputedStyle(e).backgroundColor);
      if (alpha > 0.99) return rgb;
    }
    return [1, 1, 1];
  };
  const found = [];
  for (const element of document.body.querySelectorAll("*")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || ["SCRIPT", "NOSCRIPT"].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    const ink = light(parse(element instanceof SVGElement ? style.fill : style.color).rgb);
    const ground = light(behind(element));
    const contrast = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
    found.push([element.textContent.slice(0, 40), contrast]);
  }
  return found;
}"""


class TestConvergence:
    def test_axes_are_straight_in_what_they_say(self, diabetes, visit):
        page = visit(diabetes)
        history = diabetes.tried[0].curve
        seen = set()
        for option, column in [("trees", "trees"), ("seconds", "seconds"), ("iterations", "iteration")]:
            choose(page, "axis", option)
            assert page.locator("#convergence .x-label").text_content() == option
            found = points(page)
            assert len(found) == len(history[column])
            assert_affine(found[:, 0], history[column])
            assert_affine(found[:, 1], history["validation_loss"])
            seen.add(page.locator("#convergence .line").nth(2).get_attribute("d"))
        assert len(seen) == 3  # of AGBMR, an iteration has more than one tree
        choose(page, "scale", "log")
        assert_affine(points(page)[:, 1], np.log(history["validation_loss"]))

    def test_the_lowest_part(self, diabetes, visit):
        page = visit(diabetes)
        before = points(page)
        choose(page, "range", "lowest part")
        after = points(page)
        losses = np.array(diabetes.tried[0].curve["validation_loss"])
        assert_affine(after[:, 1], losses)
        assert np.ptp(after[:, 1]) > 4 * np.ptp(before[:, 1])
        assert after[losses.argmin(), 1] == pytest.approx(before[losses.argmin(), 1], abs=15)

    def test_losses_and_lines_switch(self, diabetes, visit):
        page = visit(diabetes)
        lines, label = page.locator("#convergence .line"), page.locator("#convergence .y-label")
        expect(lines).to_have_count(3)
        assert label.text_content() == "validation loss"
        page.get_by_label("training").check()
        expect(lines).to_have_count(6)
        assert label.text_content() == "loss"
        page.get_by_label("validation").uncheck()
        expect(lines).to_have_count(3)
        assert label.text_content() == "training loss"
        assert_affine(points(page)[:, 1], diabetes.tried[0].curve["train_loss"])
        button = page.get_by_role("button", name="default")
        button.click()
        assert button.get_attribute("aria-pressed") == "false"
        expect(lines).to_have_count(2)
        assert_affine(points(page)[:, 1], diabetes.tried[1].curve["train_loss"])
        button.press("Enter")
        expect(lines).to_have_count(3)

    def test_lines_differ_in_more_than_colour(self, ten, visit):
        page = visit(ten)
        looks = page.locator("#convergence .line").evaluate_all(
            "lines => lines.map(l => getComputedStyle(l)).map(s => s.stroke + ' ' + s.strokeDasharray)"
        )
        assert len(set(looks)) == 10
        assert len({look.split(") ")[0] for look in looks}) == 8
        assert len({look.split(") ")[1] for look in looks}) == 5

    def test_the_kept_iteration_is_marked_and_read(self, diabetes, visit):
        page = visit(diabetes)
        where, rows = reading(page)
        assert where == "At the selected iteration"
        for k, one in enumerate(diabetes.tried[:3]):
            assert to_number(rows[k][0]) == pytest.approx(one.curve["validation_loss"][one.best], rel=1e-3)
            circle = page.locator("#convergence .kept").nth(k)
            place = [float(circle.get_attribute(name)) for name in ("cx", "cy")]
            np.testing.assert_allclose(points(page, k)[one.best], place, atol=0.06)

    @pytest.mark.parametrize("by", ["mouse", "finger"])
    def test_the_crosshair_reads_values(self, by, diabetes, visit):
        page = visit(diabetes, has_touch=by == "finger")
        plot = page.locator("#convergence .plot")
        plot.scroll_into_view_if_needed()
        frame = plot.bounding_box()
        for share in (0.2, 0.35):
            x, y = frame["x"] + share * frame["width"], frame["y"] + 0.5 * frame["height"]
            page.mouse.move(x, y) if by == "mouse" else page.touchscreen.tap(x, y)
            where, rows = reading(page)
            trees = int(re.fullmatch(r"At ([\d,]+) trees", where).group(1).replace(",", ""))
            assert trees > 0
            for row, one in zip(rows, diabetes.tried[:3], strict=True):
                last = np.flatnonzero(np.array(one.curve["trees"]) <= trees)[-1]
                assert to_number(row[0]) == pytest.approx(one.curve["validation_loss"][last], rel=1e-3)
            cross = page.locator("#convergence .cross").get_attribute("d")
            assert float(cross[1:].split()[0]) == pytest.approx(share * frame["width"], abs=6)
            dots = page.locator("#convergence .here").evaluate_all(
                "all => all.map(e => [e.cx.baseVal.value, e.cy.baseVal.value])"
            )
            for k, dot in enumerate(dots):
                assert np.abs(points(page, k) - dot).sum(axis=1).min() < 0.11
        if by == "mouse":
            page.mouse.move(5, 5)
            assert reading(page)[0] == "At the selected iteration"

    def test_the_crosshair_follows_keys(self, cancer, visit):
        page = visit(cancer)
        plot, curve = page.locator("#convergence .plot"), cancer.tried[0].curve
        plot.focus()
        assert plot.evaluate("e => getComputedStyle(e).outlineStyle") == "solid"
        for key, place in [("Home", 0), ("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", -1)]:
            plot.press(key)
            where, rows = reading(page)
            assert where == f"At {curve['trees'][place]} trees"
            assert to_number(rows[0][0]) == pytest.approx(curve["train_loss"][place], rel=1e-3)
            assert to_number(rows[0][1]) == pytest.approx(curve["validation_loss"][place], rel=1e-3)
            assert plot.get_attribute("aria-valuenow") == str(curve["trees"][place])
            assert rows[0][1] in plot.get_attribute("aria-valuetext")
        plot.press("Escape")
        assert reading(page)[0] == "At the selected iteration"

    def test_what_has_no_place_on_a_log_scale(self, ten, visit):
        one = ten.tried[0]
        losses = np.array(one.curve["validation_loss"])[:100] - 0.2
        short = {name: values[:100] for name, values in one.curve.items()} | {"validation_loss": losses}
        page = visit(replace(ten, tried=[replace(one, curve=short, best=3)]))
        warning = page.locator("#convergence .warning")
        page.get_by_label("training").uncheck()
        assert warning.text_content() == ""
        choose(page, "scale", "log")
        lost = int((losses <= 0).sum())
        assert 0 < lost < 100
        assert warning.text_content() == f"{lost} points at or below 0 are omitted, since the scale is logarithmic."
        assert_affine(points(page)[:, 1], np.log(losses[losses > 0]))
        choose(page, "scale", "linear")
        assert warning.text_content() == ""

    def test_what_is_not_known_cannot_be_chosen(self, visit):
        losses = {"validation_loss": [3.0, 2.0, math.nan, 1.0]}
        page = visit(Findings("short", "agbm", tried=[Tried("peer", curve=losses, best=3)]))
        for name in ("seconds", "trees"):
            assert page.locator(f"input[value={name}]").is_disabled()
        assert page.locator("#show-train").is_disabled()
        assert page.locator("#convergence .x-label").text_content() == "iterations"
        assert_affine(points(page)[:, 1], [3.0, 2.0, 1.0])
        assert_affine(points(page)[:, 0], [1, 2, 4])

    def test_a_narrower_window_draws_anew(self, diabetes, visit):
        page = visit(diabetes, viewport={"width": 1000, "height": 800})
        page.set_viewport_size(PHONE)
        page.wait_for_function("document.querySelector('.plot svg').viewBox.baseVal.width < 390")
        assert_affine(points(page)[:, 0], diabetes.tried[0].curve["trees"])


class TestOtherParts:
    def test_copy(self, cancer, visit):
        page = visit(cancer, permissions=["clipboard-read", "clipboard-write"])
        page.locator("#copy").click()
        expect(page.locator("#copied")).to_have_text("Copied.")
        assert page.evaluate("navigator.clipboard.readText()") == cancer.command

    def test_copy_where_the_clipboard_is_refused(self, cancer, visit):
        page = visit(cancer)
        page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('refused')) }")
        page.locator("#copy").click()
        expect(page.locator("#copied")).to_contain_text("Selected")
        assert page.evaluate("getSelection().toString()") == cancer.command

    def test_metrics_are_ranked_and_drawn(self, diabetes, visit):
        page = visit(diabetes)
        ranked = sorted(diabetes.tried[:3], key=lambda one: one.metrics[0].value)
        rows = page.locator("#metrics tbody tr")
        assert rows.locator("th").all_inner_texts() == [one.name for one in ranked]
        low = min(one.metrics[0].low for one in ranked)
        width = max(one.metrics[0].high for one in ranked) - low
        for k, one in enumerate(ranked):
            metric = one.metrics[0]
            cell = rows.nth(k).locator("td").first
            assert cell.locator(".value").inner_text() == number(metric.value)
            assert cell.locator(".range").inner_text() == f"{number(metric.low, 3)} to {number(metric.high, 3)}"
            box, dot = cell.locator(".interval").bounding_box(), cell.locator(".dot").bounding_box()
            middle = (dot["x"] + dot["width"] / 2 - box["x"]) / box["width"]
            assert middle == pytest.approx(0.03 + 0.94 * (metric.value - low) / width, abs=0.01)
            assert cell.locator(".badge").count() == (k == 0)
        lead = page.locator(".lead").inner_text()
        assert lead.startswith(
            f"Of 3 models, {ranked[0].name} has the lowest RMSE on the test rows: {number(ranked[0].metrics[0].value)}"
        )
        assert "other models overlap with this one, so the order may be due to chance." in lead
        assert page.locator(".failures").inner_text().split("\n") == ["catboost", diabetes.tried[3].failure]

    def test_importances_switch(self, frame, visit):
        page, model = visit(frame), frame.model
        shown = page.locator(".bars:visible .name")
        for measure, values in [("gain", model.feature_importances_), ("splits", model.split_counts_)]:
            choose(page, "importance", measure)
            expect(shown).to_have_count(20)
            best = [str(model.feature_names_in_[f]) for f in np.argsort(-values, kind="stable")[:20]]
            assert shown.all_text_contents() == best
            bars = page.locator(".bars:visible .bar span").all()
            widths = np.array([bar.bounding_box()["width"] for bar in bars[:3]])
            np.testing.assert_allclose(
                widths / widths[0], np.sort(values)[::-1][:3] / values.max(), rtol=0.02, atol=0.01
            )

    @pytest.mark.parametrize("name", ["frame", "iris", "cancer"])
    def test_trees_say_what_their_text_says(self, name, visit, request):
        findings = request.getfixturevalue(name)
        page = visit(findings)
        shown = page.locator("#trees details")
        assert shown.count() == (6 if name == "iris" else 4)
        n_members = findings.model.resolved_params_["n_members"]
        assert n_members == (5 if name == "frame" else 1)
        for k in range(shown.count()):
            title = shown.nth(k).locator("summary").inner_text()
            member = " of the first member" if n_members > 1 else ""
            tree, iteration = re.fullmatch(rf"Tree (\d+) of .* \(iteration (\d+){member}\)", title).groups()
            history = findings.model.history_["trees"] // n_members
            assert history[int(iteration) - 1] <= int(tree) < history[int(iteration)]
            lines = export_text(findings.model, int(tree), precision=4, max_categories=6).splitlines()[1:]
            expected = [
                re.fullmatch(r"[│├└─ ]*(?:((?:yes|no)(?:, missing)?): )?(.*)  \((.*)\)", line).groups()
                for line in lines
            ]
            nodes = (
                shown.nth(k)
                .locator(".node")
                .evaluate_all(
                    "all => all.map(n => ['answer', 'main', 'facts'].map(c => n.querySelector('.' + c)?.textContent))"
                )
            )
            assert nodes == [[answer, main, facts.replace(", ", " · ")] for answer, main, facts in expected]
        assert shown.first.locator(".node").first.is_visible()
        assert not shown.last.locator(".node").first.is_visible()
        shown.last.locator("summary").click()
        assert shown.last.locator(".node").first.is_visible()

    def test_theory(self, cancer, visit):
        page, history = visit(cancer), cancer.model.history_
        plots = page.locator("#theory .plot")
        assert plots.count() == 3
        restarts = int(history["restart"].sum())
        assert restarts >= 1
        assert page.locator("#theory .upright").count() == 3 * restarts
        smallest = np.nanmin([history["cosine_residual"], history["cosine_corrected"]])
        assert f"Here it is {number(smallest, 3)}" in page.locator("#theory").inner_text()
        plots.nth(0).focus()
        plots.nth(0).press("Home")
        texts = page.locator("#track-0 .legend td").all_inner_texts()
        found = [to_number(text) for text in texts]
        assert found == pytest.approx([history["cosine_residual"][1], history["cosine_corrected"][1]], rel=1e-3)
        last = page.locator("#track-2 .legend td").inner_text()
        assert to_number(last) == pytest.approx(history["theta"][-1], rel=1e-3)

    def test_only_what_a_method_has(self, diabetes, visit):
        X, y = load_diabetes(return_X_y=True)
        plain = AGBMRegressor(method="gbm", max_iter=3).fit(X, y)
        page = visit(replace(diabetes, model=plain))
        assert page.locator("#theory h3").all_inner_texts() == ["Cosine of each fit"]
        other = AGBMRegressor(method="gbm", max_iter=3, learner=Ridge(), second_order=False).fit(X, y)
        page = visit(replace(diabetes, model=other))
        assert page.locator("h2").all_inner_texts() == [
            "Convergence",
            "Test metrics",
            "Theory",
            "Columns",
            "Parameters",
        ]

    def test_columns_and_parameters(self, frame, visit):
        page = visit(frame)
        rows = page.locator(".columns tbody tr")
        assert rows.count() == 200
        missing = frame.columns[0].missing
        assert 0.2 < missing < 0.3
        assert rows.nth(0).locator("th, td").all_inner_texts()[:3] == ["level", "number", f"{100 * missing:.3g} %"]
        assert rows.nth(1).locator("th, td").all_inner_texts()[1:] == [
            "category",
            f"{100 * frame.columns[1].missing:.3g} %",
            "3",
        ]
        changed = page.locator("#parameters table").first.locator("tbody tr")
        assert changed.locator("th, td").all_inner_texts() == ["max_iter", "30", "'auto'"]
        names = page.locator("#parameters details th[scope=row]").all_text_contents()
        assert sorted([*names, "max_iter"]) == sorted(frame.model.get_params())


class TestStrangers:
    def test_names_are_text(self, hostile, visit):
        page = visit(hostile)
        assert page.evaluate("window.hacked") is None
        assert page.locator("script").count() == 2
        assert page.locator("img").count() == 0
        assert page.locator("h1").text_content() == HOSTILE[0]
        assert page.locator("title").text_content() == HOSTILE[0]
        assert page.locator("#convergence .legend .name").all_text_contents() == HOSTILE[:2]
        assert set(page.locator(".bars .name").all_text_contents()) <= set(HOSTILE)
        assert HOSTILE[0] in page.locator("#trees").text_content()
        kept = json.loads(page.locator("#data").text_content())
        assert [one["name"] for one in kept["convergence"]] == HOSTILE[:2]

    def test_nothing_runs_that_came_in(self, cancer, tmp_path, browser):
        """Even if a name were markup: the page's own policy refuses scripts, pictures and requests."""
        page = to_html(cancer).replace(
            "</h1>", "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'></h1>"
        )
        (tmp_path / "changed.html").write_text(page)
        tab = browser.new_page()
        refused = []
        tab.on("console", lambda message: refused.append(message.text))
        tab.goto((tmp_path / "changed.html").as_uri())
        expect(tab.locator("#convergence .line")).to_have_count(2)
        assert tab.evaluate("window.hacked") is None
        assert tab.evaluate("fetch('data:,x').then(() => 'sent', () => 'refused')") == "refused"
        assert len([text for text in refused if "Content Security Policy" in text]) >= 2
        tab.close()

    @pytest.mark.parametrize("name", [*HOSTILE, "<!--<script ", "\ud800", "\0"])
    def test_data_is_only_data(self, name):
        written = data_block({name: [name, 1.5, None]})
        assert json.loads(written) == {name: [name, 1.5, None]}
        assert written.isascii()
        assert not set(written) & set("<>&")

    def test_half_letters(self, cancer, tmp_path):
        write(replace(cancer, title="half \ud800 a letter"), tmp_path / "report.html")
        assert "half ? a letter" in (tmp_path / "report.html").read_text()


class Outline(HTMLParser):
    """Reads a page strictly: every element that begins must end in its turn."""

    def __init__(self):
        super().__init__()
        self.open, self.names, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        assert len(attributes) == len(attrs)
        self.names += [attributes["id"]] if "id" in attributes else []
        self.links += [attributes[name] for name in ("src", "href", "action") if name in attributes]
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


class TestFile:
    @pytest.mark.parametrize("name", ALL)
    def test_is_whole_and_refers_to_nothing(self, name, request):
        page = to_html(request.getfixturevalue(name))
        outline = Outline()
        outline.feed(page)
        outline.close()
        assert outline.open == []
        assert len(set(outline.names)) == len(outline.names)
        assert all(link.startswith("#") and link[1:] in outline.names for link in outline.links)
        assert set(re.findall(r"https?:[^\"' ]*", page)) == {"http://www.w3.org/2000/svg"}
        assert "@import" not in page
        assert re.findall(r"url\(.", page) == ["url(#"]

    def test_size(self, ten):
        assert len(to_html(ten).encode()) < 1_000_000

    def test_is_replaced_at_once(self, cancer, iris, tmp_path, monkeypatch):
        write(cancer, tmp_path / "report.html")
        before = (tmp_path / "report.html").read_text()
        assert before == to_html(cancer)

        def full(*args):
            raise OSError("No space left on device")

        monkeypatch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space left"):
            write(iris, tmp_path / "report.html")
        assert (tmp_path / "report.html").read_text() == before
        assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
        with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere; create it"):
            write(iris, tmp_path / "nowhere" / "report.html")


class TestCurves:
    def test_long_ones_keep_their_extremes(self):
        rng = np.random.default_rng(0)
        columns = [rng.normal(size=20_000), rng.normal(size=20_000)]
        columns[1][::3] = math.nan
        kept = thinned(columns, {777})
        assert len(kept) <= 4 * 250 + 3
        assert {0, 777, 19_999} <= set(kept.tolist())
        for column in columns:
            for part in np.array_split(np.arange(20_000), 250):
                inside = np.intersect1d(part, kept)
                assert np.nanmin(column[inside]) == np.nanmin(column[part])
                assert np.nanmax(column[inside]) == np.nanmax(column[part])

    def test_short_ones_keep_everything(self):
        assert thinned([np.zeros(500)], set()).tolist() == list(range(500))

    def test_what_is_written(self):
        losses = [0.123456789, math.inf, math.nan, 0.25]
        found = curve(
            Tried("x", best=3, curve={"trees": [0, 2, 4, 6], "train_loss": losses, "seconds": [math.nan] * 4})
        )
        assert found == {
            "name": "x", "best": 3, "points": 4,
            "trees": [0, 2, 4, 6], "iteration": [0, 1, 2, 3], "train_loss": [0.123457, None, None, 0.25],
        }  # fmt: skip

    def test_the_best_point_is_kept(self):
        one = long_run("long", n=5000)
        found = curve(one)
        assert len(found["trees"]) < 1200
        assert found["trees"][found["best"]] == one.best + 1
        assert found["validation_loss"][found["best"]] == pytest.approx(
            one.curve["validation_loss"][one.best], rel=1e-5
        )


def test_what_is_kept_of_a_model(cancer):
    model, one = cancer.model, cancer.tried[0]
    assert (one.trees, one.best, one.seconds) == (model.n_trees_, model.best_iteration_, 0.25)
    assert set(one.parameters) == {*early(), "method", "second_order", "learning_rate", "max_depth"}
    assert one.parameters["method"] is model.method
    assert one.curve["momentum"][1:] == [0.5] * model.n_iter_


def test_large_trees_are_cut(cancer):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1000, 3)), rng.normal(size=1000)
    model = AGBMRegressor(max_iter=1, max_depth=None, min_samples_leaf=1).fit(X, y)
    page = to_html(replace(cancer, model=model))
    below = [int(count) for count in re.findall(r">(\d+) more nodes below", page)]
    shown = page.count('<div class="node')
    assert shown <= 200
    assert shown + sum(below) == len(export_text(model).splitlines()) - 1


def test_trees_that_cannot_be_drawn(cancer):
    X, y = load_diabetes(return_X_y=True)
    model = AGBMRegressor(max_iter=2, init=Ridge().fit(X, y)).fit(X, y)
    assert "The trees cannot be drawn: init=Ridge()" in to_html(replace(cancer, model=model))


def test_a_model_that_is_its_start(cancer):
    X, y = np.zeros((50, 2)), np.arange(50.0)
    page = to_html(replace(cancer, model=AGBMRegressor(max_iter=3).fit(X, y)))
    assert 'id="importances"' not in page
    assert 'id="parameters"' in page


def test_columns_of_tables():
    table = pd.DataFrame({"a": [1.0, math.nan, 1.0, 2.0], "b": ["x", None, "y", "x"]})
    assert describe_columns(table) == [Column("a", "number", 0.25, 2), Column("b", "category", 0.25, 2)]
    assert describe_columns(csr_array(np.eye(2))) == [Column("x0", "number"), Column("x1", "number")]
    assert describe_columns(np.zeros((3, 2)))[1] == Column("x1", "number", 0.0, 1)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.123456, "0.1235"),
        (12345.6, "12,346"),
        (1234.5, "1,234"),
        (3.21e-7, "3.21e-07"),
        (0.0, "0"),
        (math.nan, "–"),
        (-1e12, "-1e+12"),
    ],
)
def test_numbers_to_read(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.01234, "0.0123 s"), (59.9, "59.9 s"), (179.7, "3 min 0 s"), (3725, "62 min 5 s"), (math.nan, "–")],
)
def test_times_to_read(value, text):
    assert seconds(value) == text


def test_clear_winners_and_ties():
    def one(name, value):
        return Tried(
            name, 1.0, 5, metrics=[Metric("accuracy", value, value - 0.01, value + 0.01, lower_is_better=False)]
        )

    page = to_html(Findings("t", "c", tried=[one("a", 0.5), one("b", 0.9)]))
    assert "Of 2 models, b has the highest accuracy on the test rows: 0.9" in page
    assert "overlap" not in page.split("<main>")[1].split("</main>")[0]
    page = to_html(Findings("t", "c", tried=[one("a", 0.9), one("b", 0.9)]))
    assert page.count(">best</span>") == 2
    assert "The interval of another model overlaps with this one" in page
    page = to_html(Findings("t", "c", tried=[replace(one("a", 0.9), trees=0, seconds=math.nan)]))
    assert "On the test rows, a has accuracy 0.9 (95 % interval 0.89 to 0.91)." in page
    page = to_html(Findings("t", "c", tried=[Tried("a", failure="no such file")]))
    assert "No model was trained: no such file" in page


def test_trees_of_several_members(cancer):
    X, y = load_diabetes(return_X_y=True)
    model = AGBMRegressor(n_members=3, max_iter=8, colsample_bynode=0.5).fit(X, y)
    titles = re.findall(
        r"<summary>Tree (\d+) of .*?\(iteration (\d+) of the first member\)", to_html(replace(cancer, model=model))
    )
    assert titles == [("0", "1"), ("1", "2"), ("3", "4"), ("7", "8")]


def test_a_model_without_trees(cancer):
    X = np.random.default_rng(0).normal(size=(400, 2))
    y = X[:, 0] + np.r_[np.zeros(200), np.ones(200)]
    model = AGBMRegressor().fit(X[:200], y[:200], X_val=X[200:], y_val=-5 * y[200:])
    assert model.n_trees_ == 0
    page = to_html(replace(cancer, model=model))
    assert "Convergence" in page
    assert "Example trees" not in page
