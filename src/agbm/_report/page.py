"""The HTML page: a self-contained file that loads nothing and has no scripts."""

from __future__ import annotations

import os
from importlib.resources import files
from string import Template

from .._storage.whole_file import replacing
from .findings import Findings
from .markup import element, joined
from .sections import all_sections, header

# Blocks network access and all scripts. Parts of charts with many dots are images within the page.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def write(findings: Findings, path: str | os.PathLike[str]) -> None:
    """Write the page to a file; an existing file is replaced atomically."""
    content = to_html(findings).encode("utf-8", "replace")  # names may contain lone surrogates
    with replacing(path) as fresh:
        fresh.write_bytes(content)


def to_html(findings: Findings) -> str:
    """Return the page as text."""
    sections = all_sections(findings)
    bodies = [element("section", element("h2", section.title), section.body, id=section.name) for section in sections]
    return Template(_part("page.html")).substitute(
        policy=_POLICY,
        title=joined([findings.title]),
        style=_part("page.css"),
        header=header(findings, sections),
        sections=joined(bodies),
    )


def _part(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
