"""The page of the paper: its text in HTML and Markdown, and the interactive figure in a browser."""

import json
import re
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from agbm._apps.paper.experiments import curves
from agbm._apps.paper.experiments.curves import Curve, Line
from agbm._apps.paper.page import document, explorer
from agbm._apps.paper.page.document import Figure, Grid, Section

HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"></svg>'
STEPS = (1.0, 0.1)
GAMMAS = (1.0, 0.1)


def loss(line, trees, offset):
    """An artificial loss, different for all lines; on housing it falls by more than a factor of a thousand."""
    step, gamma = line.step or 0.05, line.gamma or 0.5
    start, speed = (300.0, 0.4) if line.data == "housing" else (0.7, 0.1 / line.levels)
    rate = speed * (1.0 + step + gamma + (line.method == "vagbm") + 0.3 * (line.method == "agbm-minus"))
    return float(f"{start * (0.9 ** (rate * trees)) + offset:.6g}")


def curve_of(line):
    diverges = line.data == "housing" and line.method == "vagbm"
    trees = list(range(0, 31 if diverges else 101, 2 if line.method.startswith("agbm") else 1))
    train, test = ([loss(line, n, offset) for n in trees] for offset in (0.01, 0.02))
    if diverges:
        test[-1] = 5000.0
    lowest = min(test)
    return Curve(line, trees, train, test, 2 * diverges, lowest, trees[test.index(lowest)], train[-1])


def lines_of(data, levels):
    yield Line(data, levels, "gbm-search", None)
    for step in STEPS:
        yield from (Line(data, levels, method, step) for method in ("gbm", "vagbm"))
        yield from (Line(data, levels, method, step, g) for method in ("agbm", "agbm-minus") for g in GAMMAS)


@pytest.fixture(scope="module")
def found():
    places = [("housing", 3), ("a1a", 3), ("a1a", 1), (HOSTILE, 3)]
    return [curve_of(line) for place in places for line in lines_of(*place)]


def by_line(found, data, method, step, gamma=None, levels=3):
    return next(curve for curve in found if curve.line == Line(data, levels, method, step, gamma))


# Text


def rendered(markdown):
    return MarkdownIt("commonmark").enable("table").render(markdown)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("`a_b` and **c**", "<code>a_b</code> and <b>c</b>"),
        ("[t](https://x.org/a?b=1&c)", '<a href="https://x.org/a?b=1&amp;c">t</a>'),
        ("[**t**](#part-1), [`p`](p.md#q)", '<a href="#part-1"><b>t</b></a>, <a href="p.md#q"><code>p</code></a>'),
        ("a_b_c * d * <b> & $x$ {y} [z] ~~n~~", "a_b_c * d * &lt;b&gt; &amp; $x$ {y} [z] ~~n~~"),
        ("[t](javascript:alert(1))", "[t](javascript:alert(1))"),
        ('[t](https://x.org/"onclick="y)', "[t](https://x.org/&quot;onclick=&quot;y)"),
        ("# no heading", "# no heading"),
        ("1. no list", "1. no list"),
        ("- no list", "- no list"),
        (r"\* back", r"\* back"),
        (HOSTILE, HOSTILE.replace("<", "&lt;").replace(">", "&gt;").replace("'", "&#x27;")),
    ],
)
def test_text_is_the_same_in_html_and_markdown(text, html, tmp_path):
    sections = [Section("s", [text])]
    assert f"<p>{html}</p>" in document.to_html(sections, "t", tmp_path).replace("\n", "")
    expected = html.replace("<b>", "<strong>").replace("</b>", "</strong>").replace("&#x27;", "'")
    assert f"<p>{expected}</p>" in rendered(document.to_markdown(sections, "t"))


def test_a_page(tmp_path):
    for theme in ("light", "dark"):
        (tmp_path / f"f-{theme}.svg").write_text(SVG)
    grid = Grid("c `x`", ["n", "v", "w"], [["a|b", "*1.5 ± 0.1", "yes"], ["`c|d`", "–2", "no"]])
    inner = Section("Inner part", ["q"])
    sections = [Section("Part 4.1: γ", ["p"], [grid], [Figure("f", "cap **b**")], subsections=[inner])]
    assert [path.name for path in document.write(sections, "Title <b>", tmp_path)] == ["index.md", "index.html"]
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert '<nav aria-label="Contents"><a href="#part-41-γ">Part 4.1: γ</a></nav>' in page
    assert '<section id="part-41-γ"><h2>' in page
    assert '<div id="inner-part"><h3>' in page
    assert "<h1>Title &lt;b&gt;</h1>" in page
    assert page.count("data:image/svg+xml;base64,") == 2
    assert '<td data-label="v"><b class="best">1.5 ± 0.1</b></td>' in page
    assert 'class="grid text-3"' in page
    assert "<script" not in page
    markdown = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert markdown.startswith("# Title \\<b\\>\n\n## Part 4.1: γ\n")
    assert "| n | v | w |\n|---|---:|---|\n| a\\|b | **1.5 ± 0.1** | yes |\n| `c\\|d` | –2 | no |" in markdown
    assert "<strong>1.5 ± 0.1</strong>" in rendered(markdown)
    assert '<img alt="cap b" src="f-light.svg">' in markdown
    assert 'srcset="paper/f-dark.svg"' in document.to_markdown(sections, "t", figures="paper/")


def test_policy_admits_only_the_scripts(found, tmp_path):
    widget = explorer.widget(found)
    sections = [Section("s", explorer=widget)]
    for page in (document.to_html(sections, HOSTILE, tmp_path), explorer.page(found)):
        (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
        assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")
        assert re.findall(r"script-src ('sha256-[\w+/=]{44}')$", policy)
        assert page.count("<script") == page.count("</script>") == 1
        assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert "explorer" not in document.to_markdown(sections, "t")
    assert "[As a page of its own](paper/explorer.html)" in document.to_markdown(
        sections, "t", explorer="paper/explorer.html"
    )


def test_data_are_compact():
    trees = sorted({*range(30), *range(30, 600, 19)})
    losses = [float(f"{0.123456 + n / 7.0:.6g}") for n in trees]
    found = [Curve(line, trees, losses, losses, 0, 0.1, 1, 0.1) for line in curves.lines()]
    data = explorer.data(found)
    assert len(data["trees"]) == 1
    assert len(json.dumps(data, separators=(",", ":"))) < 480_000
    assert [choice["key"] for choice in data["choices"]][:5] == ["gbm", "gbm-search", "vagbm", "agbm-1", "agbm-0.3"]
    assert data["sets"][-1] == {"key": "a1a-1", "title": "a1a, stumps"}


# A browser


@pytest.fixture(scope="module")
def address(found, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    (folder / "explorer.html").write_text(explorer.page(found), encoding="utf-8")
    return (folder / "explorer.html").as_uri()


@pytest.fixture
def visit(browser, address):
    """Opens the page, which must neither report errors nor request anything else."""
    wrong, asked, opened = [], [], []

    def go(fragment="", **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        opened.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: asked.append(request.url.partition("#")[0]))
        page.goto(address + fragment)
        return page

    yield go
    for context in opened:
        context.close()
    assert wrong == []
    assert set(asked) == {address}


def chosen(page):
    """Titles of the lines that are read out, with their cells."""
    rows = page.locator(".readout tbody tr").all()
    return {row.locator(".named").inner_text(): row.locator("td").all_inner_texts() for row in rows}


def paths(page):
    """The paths of both panels, by line."""
    return page.locator(".panel path[data-line]").evaluate_all(
        "all => all.map((e) => [e.dataset.line, e.getAttribute('d')])"
    )


def shown(value):
    """A loss as the page writes it."""
    return f"{value:.5e}".replace("e-0", "e-").replace("-", "−") if abs(value) < 1e-3 else f"{value:#.6g}".rstrip(".")


def cells(curve, trees):
    at = curve.trees.index(trees)
    losses = (curve.train[at], curve.test[at], curve.lowest_test)
    return [str(trees), *map(shown, losses), str(curve.trees_at_lowest)]


def test_values_at_a_number_of_trees(found, visit):
    page = visit()
    lines = {"GBM": ("gbm", None), "VAGBM": ("vagbm", None), "AGBM, γ = 0.1": ("agbm", 0.1)}
    wanted = {title: by_line(found, "a1a", method, 0.1, gamma) for title, (method, gamma) in lines.items()}
    assert chosen(page) == {title: cells(curve, 100) for title, curve in wanted.items()}
    page.get_by_role("slider").fill("40")
    assert chosen(page) == {title: cells(curve, 40) for title, curve in wanted.items()}
    page.get_by_role("slider").press("ArrowRight")  # AGBM has even numbers of trees
    assert [cells[0] for cells in chosen(page).values()] == ["41", "41", "40"]
    box = page.locator(".panel svg").last.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 50)
    at = int(page.locator("output").inner_text())
    assert 35 < at < 50
    assert chosen(page)["GBM"] == cells(wanted["GBM"], at)
    assert page.locator(".cross circle").count() == 6


def test_choosing(found, visit):
    page = visit()
    seen = [paths(page)]
    assert [name for name, _ in seen[0]] == ["gbm", "vagbm", "agbm-0.1"] * 2
    for label in ("a1a, stumps", "housing"):
        page.get_by_label(label, exact=True).check()
        seen.append(paths(page))
    page.get_by_label("1", exact=True).first.check()  # eta
    seen.append(paths(page))
    assert all(a != b for k, a in enumerate(seen) for b in seen[:k])
    page.get_by_label("AGBM, sign of the released code, γ = 1").check()
    page.get_by_label("GBM, line search").check()
    page.get_by_label("VAGBM", exact=True).uncheck()
    titles = ["GBM", "GBM, line search", "AGBM, γ = 0.1", "AGBM, sign of the released code, γ = 1"]
    assert list(chosen(page)) == titles
    assert chosen(page)["GBM, line search"] == cells(by_line(found, "housing", "gbm-search", None), 100)
    dashed = page.locator("path[data-line=agbm-minus-1]").first
    assert dashed.get_attribute("stroke-dasharray")
    assert not page.locator("path[data-line='agbm-0.1']").first.get_attribute("stroke-dasharray")
    page.locator("input[type=checkbox]:checked").evaluate_all("all => all.forEach((e) => e.click())")
    assert paths(page) == []
    assert page.locator(".readout tbody").inner_text() == "No method is chosen."


def test_a_run_that_diverges(found, visit):
    page = visit("#explorer&set=housing-3&eta=0.1&lines=gbm,vagbm&trees=60")
    assert chosen(page)["VAGBM"][:3] == ["–", "–", "–"]
    assert "2 of 5 splits diverge, the first at 30 trees" in page.locator(".readout").inner_text()
    assert page.locator(".panel path.diverged").count() == 2
    assert page.locator(".panel circle.lowest").count() == 2
    page.get_by_role("slider").fill("30")
    assert chosen(page)["VAGBM"] == cells(by_line(found, "housing", "vagbm", 0.1), 30)


def ticks(page):
    return page.locator(".panel svg").first.locator("text[text-anchor=end]").all_text_contents()


def test_scales(visit):
    page = visit("#explorer&set=a1a-3&eta=0.1&lines=gbm")
    linear = ticks(page)
    page.get_by_label("log", exact=True).check()
    assert ticks(page) != linear
    page.get_by_label("linear", exact=True).check()
    assert ticks(page) == linear
    page.get_by_label("housing", exact=True).check()
    assert {"100", "200"} <= set(ticks(page))
    page.get_by_label("auto", exact=True).check()
    assert {"1", "10", "100"} <= set(ticks(page))


def test_the_address_is_the_state(visit):
    page = visit()
    assert "#" not in page.url
    page.get_by_label("housing", exact=True).check()
    page.get_by_label("GBM, line search").check()
    page.get_by_label("log", exact=True).check()
    slider = page.get_by_role("slider")
    slider.focus()
    for _ in range(3):
        slider.press("ArrowLeft")
    fragment = "#" + page.url.partition("#")[2]
    assert fragment == "#explorer&set=housing-3&eta=0.1&lines=gbm,vagbm,agbm-0.1,gbm-search&scale=log&trees=97"
    again = visit(fragment)
    assert chosen(again) == chosen(page)
    assert paths(again) == paths(page)
    page.evaluate("location.hash = '#explorer&set=a1a-1&lines=gbm'")
    page.wait_for_function("document.querySelectorAll('.readout tbody tr').length === 1")
    assert page.get_by_label("a1a, stumps").is_checked()
    assert visit("#explorer&set=none&eta=x&lines=<b>&scale=y&trees=-1").get_by_label("a1a", exact=True).is_checked()
    assert list(chosen(visit("#other"))) == ["GBM", "VAGBM", "AGBM, γ = 0.1"]


def test_hostile_names_are_inert(visit):
    page = visit(color_scheme="dark")
    page.get_by_label(HOSTILE, exact=True).check()
    page.wait_for_timeout(50)
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 1


def test_other_scripts_are_blocked(found, browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(
        explorer.page(found).replace("<main>", "<main><script>window.hacked = 1</script>"), encoding="utf-8"
    )
    page = browser.new_page()
    page.goto(path.as_uri())
    assert page.evaluate("window.hacked") is None
    page.close()


def test_by_keyboard(visit):
    """Every control has a name and can be reached and used with the keyboard."""
    page = visit()
    names = page.locator("input").evaluate_all(
        "all => all.map((e) => e.getAttribute('aria-label') ?? e.labels[0].textContent)"
    )
    assert all(name.strip() for name in names)
    page.get_by_label("a1a", exact=True).focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_label("a1a, stumps").is_checked()
    page.get_by_label("VAGBM", exact=True).focus()
    page.keyboard.press("Space")
    assert [name for name, _ in paths(page)] == ["gbm", "agbm-0.1"] * 2
    assert page.locator(".panel svg").first.get_attribute("aria-label").startswith("Training loss against")


@pytest.mark.parametrize("width", [390, 1280])
def test_widths(visit, width):
    page = visit(viewport={"width": width, "height": 844})
    page.locator("input[type=checkbox]").evaluate_all("all => all.forEach((e) => e.checked || e.click())")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    first, second = (panel.bounding_box() for panel in page.locator(".panel svg").all())
    assert (first["y"] == second["y"]) == (width == 1280)
    assert second["x"] + second["width"] <= width


def test_without_scripts(visit):
    page = visit(java_script_enabled=False)
    assert "needs JavaScript" in page.locator("noscript").inner_text()


def test_a_page_with_wide_tables_on_a_phone(found, browser, tmp_path):
    for theme in ("light", "dark"):
        (tmp_path / f"f-{theme}.svg").write_text(SVG.replace('width="40"', 'width="900"'))
    grid = Grid("caption " * 30, [f"column {k}" for k in range(12)], [["1.2345 ± 0.1234"] * 12] * 3)
    words = Grid("words", ["what", "why"], [["a", "some longer sentence " * 8]] * 2)
    sections = [Section(f"Part {k}", ["text " * 50], [grid, words], [Figure("f", "caption")]) for k in range(9)]
    sections.append(replace(sections[0], title="Explorer", explorer=explorer.widget(found)))
    _, path = document.write(sections, "Title", tmp_path)
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(path.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator(".scroll").first.evaluate("e => e.scrollWidth > e.clientWidth")
    page.close()
