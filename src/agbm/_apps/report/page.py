"""The HTML page: a self-contained file without external resources; its only script is that of the what-if panel."""

from __future__ import annotations

import os

from ..._base.atomic_file import replacing
from .findings import Findings
from .markup import document, element, joined
from .sections import all_sections, header
from .what_if import panel


def write(findings: Findings, path: str | os.PathLike[str]) -> None:
    """Write the page to a file; an existing file is replaced atomically."""
    content = to_html(findings).encode("utf-8", "replace")  # names may contain lone surrogates
    with replacing(path) as fresh:
        fresh.write_bytes(content)


def to_html(findings: Findings) -> str:
    """Return the page as text."""
    what_if = panel(findings)
    sections = all_sections(findings, what_if)
    bodies = [element("section", element("h2", section.title), section.body, id=section.name) for section in sections]
    scripts = [what_if.script] if what_if is not None and what_if.script else []
    return document(findings.title, header(findings, sections), joined(bodies), scripts)
