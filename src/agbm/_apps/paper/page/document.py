"""The results as a page: sections of text, tables and figures, in Markdown and HTML.

The HTML file is self-contained: styles, scripts and figures are embedded, and it cannot load anything else. Paragraphs,
captions and cells are plain text in which `code`, **bold** and [links](address) have their meaning of Markdown.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from ...report import markup
from ...report.markup import Html, element, joined, table
from .themes import css_variables

_ADDRESS = r"https?://[^\s()<>\"]+|#[\w-]+|[\w./-]+(?:#[\w-]+)?"
_MARKED = re.compile(rf"`(?P<code>[^`]+)`|\*\*(?P<bold>.+?)\*\*|\[(?P<link>[^\]]+)\]\((?P<address>{_ADDRESS})\)")
# What Markdown would not take as text: anywhere, and at the beginning of a paragraph.
_SPECIAL = re.compile(r"[\\`*_\[\]<>&|~${}]")
_LEADING = re.compile(r"^(\d*)([#+\-=:.)])")
_NUMBER = re.compile(r"[*(]?[−+\-×≤≥<>~≈]?\s?[\d.]*\d|[–—-]?$")


@dataclass(frozen=True)
class Grid:
    """A table of strings. A cell that starts with "*" is highlighted."""

    caption: str
    header: Sequence[str]
    """Plain text, one per column."""
    rows: Sequence[Sequence[str]]
    folded: bool = False
    """Whether only the caption is shown until somebody wants to see the details."""

    @property
    def text_columns(self) -> list[int]:
        """Columns, besides the first, with more texts than numbers."""
        n_numbers = [sum(bool(_NUMBER.match(cell)) for cell in column) for column in zip(*self.rows, strict=True)]
        return [k for k, n in enumerate(n_numbers) if k > 0 and 2 * n < len(self.rows)]


class Figure(NamedTuple):
    """Two files in the folder of the figures: `{stem}-light.svg` and `{stem}-dark.svg`."""

    stem: str
    caption: str


class Widget(NamedTuple):
    """An interactive part of the HTML page, which has at most one: markup, and the script that fills it."""

    markup: Html
    script: str


@dataclass(frozen=True)
class Section:
    """A title, followed by paragraphs, figures, an interactive part, tables and subsections."""

    title: str
    paragraphs: Sequence[str] = ()
    grids: Sequence[Grid] = ()
    figures: Sequence[Figure] = ()
    explorer: Widget | None = None
    subsections: Sequence[Section] = ()

    @property
    def id(self) -> str:
        """The name of the section in links, formed as on code-hosting sites and by MyST."""
        return re.sub(r"[^\w\- ]", "", self.title.strip().lower()).replace(" ", "-")


def write(sections: Sequence[Section], title: str, folder: Path) -> list[Path]:
    """Write index.md and index.html."""
    markdown, page = folder / "index.md", folder / "index.html"
    markdown.write_text(to_markdown(sections, title, explorer=page.name), encoding="utf-8")
    page.write_text(to_html(sections, title, folder), encoding="utf-8")
    return [markdown, page]


# Text


def _parts(text: str) -> Iterator[tuple[str, str, str]]:
    """The kind of each part ("text", "code", "bold" or "link"), its text, and the address of a link."""
    end = 0
    for found in _MARKED.finditer(text):
        yield "text", text[end : found.start()], ""
        kind = "link" if found["link"] else found.lastgroup or ""
        yield kind, found[kind], found["address"] or ""
        end = found.end()
    yield "text", text[end:], ""


def _html_text(text: str) -> Html:
    return joined(_html_part(*part) for part in _parts(text))


def _html_part(kind: str, text: str, address: str) -> str:
    if kind == "text":
        return text
    if kind == "link":
        return element("a", _html_text(text), href=address)
    return element("code", text) if kind == "code" else element("b", _html_text(text))


def _markdown_text(text: str) -> str:
    """The text in Markdown, on one line."""
    return "".join(_markdown_part(*part) for part in _parts(text.replace("\n", " ")))


def _markdown_part(kind: str, text: str, address: str) -> str:
    if kind == "text":
        return _SPECIAL.sub(lambda found: f"\\{found[0]}", text)
    if kind == "link":
        return f"[{_markdown_text(text)}]({address})"
    return f"`{text}`" if kind == "code" else f"**{_markdown_text(text)}**"


def _markdown_paragraph(text: str) -> str:
    return _LEADING.sub(r"\1\\\2", _markdown_text(text))


def _plain(text: str) -> str:
    """The text without marks."""
    return "".join(part if kind in ("text", "code") else _plain(part) for kind, part, _ in _parts(text))


# Markdown


def to_markdown(sections: Sequence[Section], title: str, figures: str = "", explorer: str = "") -> str:
    """The sections in Markdown, for MyST and code-hosting sites.

    `figures` is the address of the folder of the figures, such as "paper/". Interactive parts are links to `explorer`,
    an HTML page; if it is empty, they are left out.
    """
    lines = [f"# {_markdown_text(title)}", ""]
    for section in sections:
        lines += _markdown_section(section, 2, figures, explorer)
    return "\n".join(lines)


def _markdown_section(section: Section, level: int, figures: str, explorer: str) -> list[str]:
    lines = [f"{'#' * level} {_markdown_text(section.title)}", ""]
    for paragraph in section.paragraphs:
        lines += [_markdown_paragraph(paragraph), ""]
    for figure in section.figures:
        lines += [*_markdown_figure(figure, figures), ""]
    if section.explorer and explorer:
        lines += [f"[As a page of its own]({explorer})", ""]
    for grid in section.grids:
        lines += [*_markdown_grid(grid), ""]
    for part in section.subsections:
        lines += _markdown_section(part, level + 1, figures, explorer)
    return lines


def _markdown_figure(figure: Figure, folder: str) -> list[str]:
    light, dark = (escape(f"{folder}{figure.stem}-{theme}.svg") for theme in ("light", "dark"))
    return [
        "<picture>",
        f'  <source media="(prefers-color-scheme: dark)" srcset="{dark}">',
        f'  <img alt="{escape(_plain(figure.caption).partition(". ")[0])}" src="{light}">',  # the caption follows
        "</picture>",
        "",
        _markdown_paragraph(figure.caption),
    ]


def _markdown_grid(grid: Grid) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    def cell(text: str) -> str:
        return f"**{_in_table(text[1:])}**" if text.startswith("*") else _in_table(text)

    left = {0, *grid.text_columns}
    rule = "|".join("---" if k in left else "---:" for k in range(len(grid.header)))
    rows = [line([cell(text) for text in row]) for row in grid.rows]
    lines = [line([_in_table(text) for text in grid.header]), f"|{rule}|", *rows]
    if grid.folded:
        return [f"<details><summary>{escape(_plain(grid.caption))}</summary>", "", *lines, "", "</details>"]
    return [_markdown_paragraph(grid.caption), "", *lines]


def _in_table(text: str) -> str:
    """A cell in Markdown, where | would end it even in code."""
    return re.sub(r"(?<!\\)\|", r"\\|", _markdown_text(text))


# HTML


def to_html(sections: Sequence[Section], title: str, folder: Path) -> str:
    """The sections as one HTML file; the figures are read from the folder."""
    links = [element("a", section.title, href=f"#{section.id}") for section in sections]
    header = joined([element("h1", title), element("nav", *links, aria_label="Contents")])
    bodies = [element("section", *_html_section(section, folder, "h2"), id=section.id) for section in sections]
    return whole(title, header, joined(bodies), [script for section in sections for script in _scripts(section)])


def whole(title: str, header: Html, main: Html, scripts: Sequence[str]) -> str:
    """A document with the styles of these pages."""
    own = (files(__package__) / "page.css").read_text(encoding="utf-8")
    return markup.document(title, header, main, scripts, css_variables() + own)


def _scripts(section: Section) -> Iterator[str]:
    if section.explorer:
        yield section.explorer.script
    for part in section.subsections:
        yield from _scripts(part)


def _html_section(section: Section, folder: Path, heading: str) -> Iterator[Html]:
    yield element(heading, section.title)
    for paragraph in section.paragraphs:
        yield element("p", _html_text(paragraph))
    for figure in section.figures:
        yield _html_figure(figure, folder)
    if section.explorer:
        yield section.explorer.markup
    for grid in section.grids:
        yield _html_grid(grid)
    for part in section.subsections:
        yield element("div", *_html_section(part, folder, "h3"), id=part.id)


def _html_grid(grid: Grid) -> Html:
    kinds = ["grid", *(f"text-{k + 1}" for k in grid.text_columns)]  # page.css aligns these columns to the left
    if 2 * len(grid.text_columns) >= len(grid.header):  # on phones, rows become blocks
        kinds.append("stack")
    rows = [[_html_cell(text) for text in row] for row in grid.rows]
    whole = table(_plain(grid.caption), grid.header, rows, " ".join(kinds))
    if grid.folded:
        return element("details", element("summary", _html_text(grid.caption)), whole)
    return joined([element("p", _html_text(grid.caption), class_="caption"), whole])


def _html_cell(text: str) -> Html:
    return element("b", _html_text(text[1:]), class_="best") if text.startswith("*") else _html_text(text)


def _html_figure(figure: Figure, folder: Path) -> Html:
    light, dark = (_embedded(folder / f"{figure.stem}-{theme}.svg") for theme in ("light", "dark"))
    caption = _plain(figure.caption)
    source = element("source", media="(prefers-color-scheme: dark)", srcset=dark)
    picture = element("picture", source, element("img", alt=caption, src=light))
    # On phones, figures have a readable size, and scroll.
    box = element("div", picture, class_="scroll", tabindex="0", role="region", aria_label=caption)
    return element("figure", box, element("figcaption", _html_text(figure.caption)), class_="drawn")


def _embedded(path: Path) -> str:
    return f"data:image/svg+xml;base64,{b64encode(path.read_bytes()).decode()}"
