"""Building HTML safely: every string that is not `Html` is escaped, and documents load nothing."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template


class Html(str):
    """Markup. A plain str is text from possibly untrusted files, and is escaped."""


# Blocks network access, and all scripts but those of the document. Some charts and figures are images in the page.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

# Elements without an end tag.
_EMPTY = {"meta", "br", "img", "source"}


@dataclass(frozen=True)
class Section:
    """A section with a title, linked from the top of the page."""

    name: str
    title: str
    body: Html


Make = Callable[[], Section | None]
"""Makes a section; None if it has no content."""


def element(tag: str, *children: str, **attributes: str | bool) -> Html:
    """Return an element. In attribute names, `_` stands for `-`, and a trailing `_` is removed, as in `class_`.

    True gives an attribute without a value; False omits the attribute.
    """
    words = [tag]
    for name, value in attributes.items():
        name = name.rstrip("_").replace("_", "-")
        if value is not False:
            words.append(name if value is True else f'{name}="{escape(str(value))}"')
    start = Html(f"<{' '.join(words)}>")
    return start if tag in _EMPTY else Html(f"{start}{joined(children)}</{tag}>")


def joined(children: Iterable[str]) -> Html:
    """Concatenate markup and text."""
    return Html("".join(child if isinstance(child, Html) else escape(child) for child in children))


def table(caption: str, header: Sequence[str], rows: Sequence[Sequence[str]], name: str = "") -> Html:
    """Return a table in a scrollable box. The first cell of each row is its header; `name` is the CSS class.

    On a phone, the rows of a table of the class "stack" are lists of cells with the names of their columns.
    """
    head = element("tr", *(element("th", cell, scope="col") for cell in header))
    body = [
        element(
            "tr",
            element("th", row[0], scope="row"),
            *(element("td", cell, data_label=label) for label, cell in zip(header[1:], row[1:], strict=True)),
        )
        for row in rows
    ]
    whole = element("table", element("caption", caption), element("thead", head), element("tbody", *body), class_=name)
    return element("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


def pairs(entries: Iterable[tuple[str, str]], name: str) -> Html:
    """Return a description list; `name` is its CSS class."""
    return element(
        "dl", *(element("div", element("dt", key), element("dd", value)) for key, value in entries), class_=name
    )


def with_range(value: str, range: str) -> Html:
    """The content of a cell: a value, and below it an interval or a share."""
    return joined([element("span", value, class_="value"), element("span", range, class_="range")])


def number(value: float, digits: int = 4) -> str:
    """Format a number with thousands separators; NaN becomes a dash."""
    if math.isnan(value):
        return "–"
    text = f"{value:,.{digits}g}"
    if "e" not in text:
        return text
    return f"{value:,.0f}" if 1.0 <= abs(value) < 1e15 else text


def percent(share: float) -> str:
    """Format a share; NaN becomes a dash."""
    return "–" if math.isnan(share) else f"{100 * share:.3g} %"


def seconds(value: float) -> str:
    """Format a duration; NaN becomes a dash."""
    if math.isnan(value):
        return "–"
    if value < 100.0:
        return f"{value:.3g} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes:,} min {rest} s"


def document(
    title: str, header: Html, main: Html, scripts: Sequence[str] = (), style: str = "", navigation: str = ""
) -> str:
    """A self-contained file, whose content policy admits these scripts and nothing else; `style` follows page.css."""
    return Template(part("page.html")).substitute(
        policy=_POLICY + _admitted(scripts),
        title=joined([title]),
        style=part("page.css") + style,
        script="".join(f'<script type="module">{script}</script>\n' for script in scripts),
        header=header,
        navigation=navigation,
        sections=main,
    )


def _admitted(scripts: Sequence[str]) -> str:
    """The part of the policy that admits scripts, by their digests, so that no other text of the page can be one."""
    digests = (b64encode(sha256(script.encode()).digest()).decode() for script in scripts)
    sources = " ".join(f"'sha256-{digest}'" for digest in digests)
    return f"; script-src {sources}" if sources else ""


def literal(data: object) -> str:
    """Data as an expression of JavaScript that cannot end a script, whatever text it contains."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def part(name: str) -> str:
    """The text of a file of this package."""
    return (files(__package__) / name).read_text(encoding="utf-8")
