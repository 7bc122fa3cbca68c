"""The page of a report in a browser, and its file."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes

from agbm import AGBMRegressor
from agbm._apps.report import (
    Findings,
    to_html,
    write,
)
from agbm._apps.report.markup import number
from report_pages import HOSTILE, page_of, with_rows

SCREENSHOTS = Path(__file__).parents[3] / "out" / "screenshots"


PHONE = {"width": 390, "height": 844}


ALL = ["cancer", "diabetes", "iris", "frame", "hostile", "ten"]


class Tabs:
    """One page of the browser for each set of options, since opening a page takes long."""

    def __init__(self, browser):
        self._browser = browser
        self._open = {}
        self.wrong, self.asked = [], []

    def get(self, options):
        key = json.dumps(options)
        if key not in self._open:
            context = self._browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
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
    """Opens pages, which must neither report errors nor request anything but the file."""
    tabs.wrong, tabs.asked = [], []

    def go(findings, **options):
        path = tmp_path / "report.html"
        path.write_text(page_of(findings), encoding="utf-8")
        page = tabs.get(options)
        page.goto(path.as_uri())
        return page

    yield go
    assert tabs.wrong == []
    images = [url for url in tabs.asked if url.startswith("data:image/png;base64,")]
    assert set(tabs.asked) - set(images) == {(tmp_path / "report.html").as_uri()}


class TestPage:
    @pytest.mark.parametrize("name", ALL)
    def test_every_part_is_there(self, name, visit, request):
        findings = request.getfixturevalue(name)
        page = visit(findings)
        titles = page.locator("h2").all_inner_texts()
        explained = [
            "Drift",
            "Importances",
            "Contributions",
            "Partial dependence",
            "What if",
            "Convergence",
            "Example trees",
        ]
        two = ["ROC and precision-recall", "Gain and lift", "Confusion matrix", "Threshold and costs", "Calibration"]
        parts = {
            "cancer": [*two, "Uncertainty", *explained, "Theory"],
            "diabetes": ["Predictions and errors", "Uncertainty", *explained],
            "iris": ["Confusion matrix", "Calibration", *explained],
            "frame": ["Predictions and errors", "Uncertainty", *explained],
            "hostile": [*two, "Uncertainty", *explained],
            "ten": ["Convergence"],
        }
        expected = ["Test metrics", *parts[name], *(["Columns", "Parameters"] if name != "ten" else [])]
        assert titles == expected
        assert page.locator("nav a").all_inner_texts() == expected
        assert page.locator("header").evaluate("e => e.nextElementSibling.tagName") == "NAV"
        assert page.locator("h1").inner_text().strip() == findings.title
        assert page.locator("#command").text_content() == findings.command
        for fact, value in {**findings.data, **findings.facts}.items():
            assert fact in page.locator("header").text_content()
            assert value in page.locator("header").text_content()
        for one in findings.tried:
            assert one.name in page.locator("#metrics").text_content()
            assert one.failure in page.locator("#metrics").text_content()
        for drawing in page.locator("svg").all():
            assert drawing.get_attribute("role") == "img"
            assert drawing.get_attribute("aria-label")

    @pytest.mark.parametrize("width", [PHONE["width"], 1280])
    @pytest.mark.parametrize("name", ALL)
    def test_nothing_overflows(self, name, width, visit, request):
        page = visit(request.getfixturevalue(name), viewport={"width": width, "height": 844})
        for details in page.locator("details").all():
            details.evaluate("e => e.open = true")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # Trees, figures, and tables that are not matrices: no part is beyond the page, nor hidden in a smaller box.
        cut = page.evaluate("""() => {
          const parts = 'section, nav, dl, .node, figure, figure svg, .stack td, .stack tbody th';
          const beyond = [...document.querySelectorAll(parts)].filter(
            (e) => e.getBoundingClientRect().right > innerWidth || e.getBoundingClientRect().left < 0);
          const lower = (e) => e.scrollHeight > e.clientHeight + 1;
          const wider = (e) => e.scrollWidth > e.clientWidth + 1;
          const hidden = [...document.querySelectorAll('.scroll')].filter(
            (e) => lower(e) || (wider(e) && innerWidth < 400 && e.querySelector('.stack')));
          return [...beyond, ...hidden].map((e) => `${e.tagName} ${e.className} ${e.textContent.slice(0, 60)}`);
        }""")
        assert cut == []

    def test_the_last_row_of_the_columns(self, diabetes, visit):
        page = visit(diabetes)
        last, part = page.locator(".columns tbody tr").last, page.locator("#columns")
        assert last.is_visible()
        ends = [place.bounding_box()["y"] + place.bounding_box()["height"] for place in (last, part)]
        assert ends[0] <= ends[1]

    def test_texts_of_charts_on_a_phone(self, frame, visit):
        page = visit(frame, viewport=PHONE)
        sizes = page.evaluate(
            "[...document.querySelectorAll('figure text')].map((t) => parseFloat(getComputedStyle(t).fontSize)"
            " * t.getScreenCTM().a).filter((size) => size > 0)"
        )
        assert len(sizes) > 50
        assert min(sizes) > 8.5

    def test_empty_page(self, visit):
        page = visit(Findings("nothing yet", "agbm train"))
        assert page.locator("h1").inner_text() == "nothing yet"
        assert page.locator("section").count() == 0

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    @pytest.mark.parametrize("name", ["diabetes", "cancer"])
    def test_contrast_of_text(self, scheme, name, visit, request):
        page = visit(request.getfixturevalue(name), color_scheme=scheme)
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
    def test_screenshots(self, look, options, diabetes, visit):
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        target = SCREENSHOTS / f"report-{look}.png"
        visit(diabetes, **options).screenshot(path=target, full_page=True)
        assert target.read_bytes().startswith(b"\x89PNG")
        assert target.stat().st_size > 50_000

    def test_works_without_javascript(self, cancer, visit):
        page = visit(cancer, java_script_enabled=False)
        assert not page.locator("#what-if-panel").is_visible()
        assert "This section needs JavaScript." in page.locator("#what-if").inner_text()
        assert page.locator("figure svg").first.is_visible()
        assert number(cancer.tried[0].metrics[0].value) in page.locator("#metrics").inner_text()

    def test_print_layout(self, diabetes, visit):
        page = visit(diabetes, color_scheme="dark", viewport={"width": 720, "height": 1000})
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
        assert not page.locator("nav").is_visible()
        assert page.locator("#convergence svg").first.is_visible()
        fills = page.evaluate("[...document.querySelectorAll('figure text')].map((t) => getComputedStyle(t).fill)")
        assert set(fills) == {"rgb(0, 0, 0)"}
        assert page.pdf().startswith(b"%PDF")


class TestScript:
    def test_tables_are_sorted_by_a_click(self, frame, visit):
        page = visit(frame)
        page.locator("#columns summary").click()
        table = page.locator("#columns table")

        def column(number):
            return table.locator(f"tbody tr > :nth-child({number})").all_inner_texts()

        original = column(1)
        distinct = table.get_by_role("button", name="distinct")
        distinct.click()
        values = [int(text.replace(",", "")) for text in column(4) if text != "–"]
        assert values == sorted(values, reverse=True)
        assert table.locator("[aria-sort]").get_attribute("aria-sort") == "descending"
        distinct.click()
        assert [int(text.replace(",", "")) for text in column(4)] == sorted(values)
        distinct.click()
        assert column(1) == original
        assert table.locator("[aria-sort]").count() == 0
        table.get_by_role("button", name="column").focus()
        page.keyboard.press("Enter")
        assert column(1)[0] == "level"
        assert column(1)[-1] == "side"
        assert page.locator("#confusion .matrix button").count() == 0

    def test_values_under_the_pointer(self, cancer, visit):
        page = visit(cancer)
        figure = page.locator("#importances figure")
        x, y, (_, points) = json.loads(figure.get_attribute("data-points"))
        assert (x, y) == ("share of the gain of all splits", "")
        first = cancer.model.feature_importances_.argmax()
        assert points[2] == pytest.approx(cancer.model.feature_importances_[first], rel=1e-4)
        assert points[3] == cancer.model.feature_names_in_[first]
        drawing = figure.locator("svg")
        drawing.scroll_into_view_if_needed()
        box = drawing.bounding_box()
        page.mouse.move(box["x"] + points[0] / 1000 * box["width"], box["y"] + points[1] / 1000 * box["height"])
        tip = page.locator(".tip")
        assert tip.is_visible()
        assert cancer.model.feature_names_in_[first] in tip.inner_text()
        assert number(points[2], 3) in tip.inner_text()
        page.mouse.move(1, 1)
        assert not tip.is_visible()

    @pytest.mark.parametrize("width", [PHONE["width"], 1000, 1280])
    def test_the_navigation_stays_and_shows_the_section(self, width, cancer, visit):
        page = visit(cancer, viewport={"width": width, "height": 844})
        page.locator("nav a", has_text="Importances").click()
        page.locator("nav [aria-current]", has_text="Importances").wait_for()
        assert page.url.endswith("#importances")
        nav, section = (page.locator(name).bounding_box() for name in ("nav", "#importances"))
        assert 0 <= nav["y"] < 100
        beside = nav["x"] + nav["width"] <= section["x"]
        assert beside == (width == 1280)
        assert beside or nav["y"] + nav["height"] <= section["y"] + 1


# Every element with text of its own, and its contrast with the background, by WCAG's formula.
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
  const background = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const { rgb, alpha } = parse(getComputedStyle(e).backgroundColor);
      if (alpha > 0.99) return rgb;
    }
    return [1, 1, 1];
  };
  const found = [];
  for (const element of document.body.querySelectorAll("*")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const ink = light(parse(element instanceof SVGElement ? style.fill : style.color).rgb);
    const ground = light(background(element));
    const contrast = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
    found.push([element.textContent.slice(0, 40), contrast]);
  }
  return found;
}"""


@pytest.mark.slow
class TestUntrustedNames:
    def test_names_are_escaped(self, hostile, visit):
        page = visit(hostile)
        assert page.evaluate("window.hacked") is None
        assert (
            page.locator("script").count() == page.locator("head > script").count() == 2
        )  # those of the page and of the panel
        assert page.locator("img").count() == 0
        assert page.locator("h1").text_content() == HOSTILE[0]
        assert page.locator("title").text_content() == HOSTILE[0]
        assert set(page.locator("#dependence figcaption").all_text_contents()) <= set(HOSTILE)
        assert HOSTILE[0] in page.locator("#trees").text_content()
        assert page.locator("#confusion .matrix tbody th").all_text_contents() == sorted(HOSTILE[:2])
        shown = " ".join(page.locator("#importances text").all_text_contents())
        assert "window.hacked" in shown

    def test_policy_blocks_injected_code(self, cancer, tmp_path, browser):
        """Even if a name were markup: the content security policy of the page refuses scripts, images and requests."""
        page = to_html(cancer).replace(
            "</h1>", "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'></h1>"
        )
        (tmp_path / "changed.html").write_text(page)
        tab = browser.new_page()
        refused = []
        tab.on("console", lambda message: refused.append(message.text))
        tab.goto((tmp_path / "changed.html").as_uri())
        assert tab.locator("#convergence svg").count() == 1
        assert tab.evaluate("window.hacked") is None
        assert tab.evaluate("fetch('data:,x').then(() => 'sent', () => 'refused')") == "refused"
        assert len([text for text in refused if "Content Security Policy" in text]) >= 2
        tab.close()

    def test_names_that_charts_cannot_draw(self, diabetes, tmp_path):
        names = ["half \ud800 a letter", "a\0b", "bell \a", "$x_{$", "#0072b2"]
        X, y = load_diabetes(return_X_y=True, as_frame=True)
        X.columns = pd.Index([*X.columns[5:], *names], dtype=object)  # the last have the largest importances
        found = with_rows(replace(diabetes, title="".join(names)), AGBMRegressor(max_iter=20).fit(X, y), X, y)
        write(to_html(found), tmp_path / "report.html")
        page = (tmp_path / "report.html").read_text()
        for name in names:
            assert page.count(name.replace("\ud800", "?")) > 2
        assert ">#0072b2</text>" in page


class Outline(HTMLParser):
    """A strict parser: all elements must be closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.names, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        assert len(attributes) == len(attrs)
        self.names += [attributes["id"]] if "id" in attributes else []
        self.links += [attributes[name] for name in ("src", "href", "action", "clip-path") if name in attributes]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.slow
class TestFile:
    @pytest.mark.parametrize("name", ALL)
    def test_is_valid_and_self_contained(self, name, request):
        page = page_of(request.getfixturevalue(name))
        outline = Outline()
        outline.feed(page)
        outline.close()
        assert outline.open == []
        assert len(set(outline.names)) == len(outline.names)
        for link in outline.links:
            target = link.removeprefix("url(").removesuffix(")")
            assert target.startswith("data:image/png;base64,") or target[1:] in outline.names
        assert re.findall(r"https?:[^\"' ]*", page) == []
        assert "@import" not in page
        assert set(re.findall(r"url\(.", page)) <= {"url(#"}

    @pytest.mark.parametrize("name", ALL)
    def test_size(self, name, request):
        assert len(page_of(request.getfixturevalue(name)).encode()) < 1_000_000

    def test_is_replaced_atomically(self, iris, tmp_path, monkeypatch):
        first, later = (to_html(replace(iris, model=None, title=title)) for title in ("first", "later"))
        write(first, tmp_path / "report.html")
        before = (tmp_path / "report.html").read_text()
        assert before == first

        def full(*args):
            raise OSError("No space left on device")

        monkeypatch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space left"):
            write(later, tmp_path / "report.html")
        assert (tmp_path / "report.html").read_text() == before
        assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
        with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere; create it"):
            write(later, tmp_path / "nowhere" / "report.html")
