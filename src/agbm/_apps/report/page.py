"""The HTML page: a self-contained file without external resources, whose only scripts are its own."""

from __future__ import annotations

import os
from collections.abc import Callable

from ..._base.atomic_file import replacing
from .findings import Findings
from .markup import Section, document, element, joined, part
from .sections import header, makers, navigation
from .what_if import panel

Update = Callable[..., None]
"""A function (done, total, text) that shows progress."""


def silent(done: int, total: int, text: str = "") -> None:
    """Show no progress."""


def write(page: str, path: str | os.PathLike[str]) -> None:
    """Write a page to a file; an existing file is replaced atomically."""
    with replacing(path) as fresh:
        fresh.write_bytes(page.encode("utf-8", "replace"))  # names may contain lone surrogates


USUAL_STEPS = 20
"""About the number of steps, before it is known."""


def to_html(findings: Findings, update: Update = silent) -> str:
    """Return the page as text. The first step is over: the findings are there."""
    what_if = panel(findings)
    steps = makers(findings, what_if)
    sections: list[Section] = []
    for done, make in enumerate(steps, 1):
        update(done, len(steps) + 1, sections[-1].title if sections else "")
        found = make()
        sections += [] if found is None else [found]
    update(len(steps) + 1, len(steps) + 1)
    bodies = [element("section", element("h2", section.title), section.body, id=section.name) for section in sections]
    scripts = [part("page.js")] if sections else []
    scripts += [what_if.script] if what_if is not None and what_if.script else []
    links = navigation(sections) if sections else ""
    return document(findings.title, header(findings), joined(bodies), scripts, navigation=links)
