"""The results as a page: sections of text, tables and figures, in Markdown and HTML.

The HTML file is self-contained: styles and figures are embedded.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path


@dataclass(frozen=True)
class Grid:
    """A table of strings. A cell that starts with "*" is highlighted."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Section:
    """A title, followed by paragraphs, tables and figures."""

    title: str
    paragraphs: Sequence[str] = ()
    grids: Sequence[Grid] = ()
    figures: Sequence[str] = field(default_factory=tuple)
    """Names of SVG files in the folder."""


def write(sections: Sequence[Section], title: str, folder: Path) -> list[Path]:
    """Write index.md and index.html."""
    markdown, page = folder / "index.md", folder / "index.html"
    markdown.write_text(to_markdown(sections, title), encoding="utf-8")
    page.write_text(to_html(sections, title, folder), encoding="utf-8")
    return [markdown, page]


def to_markdown(sections: Sequence[Section], title: str) -> str:
    """The sections in Markdown, with links to the figures."""
    lines = [f"# {title}", ""]
    for section in sections:
        lines += [f"## {section.title}", ""]
        for paragraph in section.paragraphs:
            lines += [paragraph, ""]
        for grid in section.grids:
            lines += [f"**{grid.caption}**", "", *_markdown_rows(grid), ""]
        for figure in section.figures:
            lines += [f"![{section.title}]({figure})", ""]
    return "\n".join(lines)


def _markdown_rows(grid: Grid) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(f'**{cell[1:]}**' if cell.startswith('*') else cell for cell in cells)} |"

    return [line(grid.header), f"|{'|'.join(['---', *['---:'] * (len(grid.header) - 1)])}|", *map(line, grid.rows)]


_CSS = """
:root { color-scheme: light dark; --line: #8884; --mark: #0072b222; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 0 auto; padding: 1rem; }
h1 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; margin: .5rem 0 1.5rem; }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; }
th { vertical-align: bottom; }
td.best { background: var(--mark); font-weight: 600; }
img { width: 100%; max-width: 60rem; height: auto; background: #fff; border-radius: 4px; }
"""


def to_html(sections: Sequence[Section], title: str, folder: Path) -> str:
    """The sections as one HTML file, with styles and figures embedded."""
    parts = [
        "<!doctype html>", '<html lang="en">', "<head>", '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>", f"<style>{_CSS}</style>", "</head>", "<body>", f"<h1>{escape(title)}</h1>",
    ]  # fmt: skip
    for section in sections:
        parts.append(f"<h2>{escape(section.title)}</h2>")
        parts += [f"<p>{escape(paragraph)}</p>" for paragraph in section.paragraphs]
        parts += [_html_table(grid) for grid in section.grids]
        parts += [_html_figure(folder / figure, section.title) for figure in section.figures]
    return "\n".join([*parts, "</body>", "</html>", ""])


def _html_table(grid: Grid) -> str:
    def cell(text: str) -> str:
        return f'<td class="best">{escape(text[1:])}</td>' if text.startswith("*") else f"<td>{escape(text)}</td>"

    header = "".join(f"<th>{escape(text)}</th>" for text in grid.header)
    rows = "\n".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in grid.rows)
    caption = f"<caption>{escape(grid.caption)}</caption>"
    return (
        f'<div class="wide"><table>{caption}\n<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>'
    )


def _html_figure(path: Path, title: str) -> str:
    content = base64.b64encode(path.read_bytes()).decode()
    return f'<img alt="{escape(title)}" src="data:image/svg+xml;base64,{content}">'
