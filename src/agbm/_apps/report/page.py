"""The HTML page: a self-contained file without external resources; its only script is that of the what-if panel."""

from __future__ import annotations

import os
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from string import Template

from ..._base.atomic_file import replacing
from .findings import Findings
from .markup import Html, element, joined
from .sections import all_sections, header
from .what_if import panel

# Blocks network access, and all scripts but that of the panel. Parts of charts with many dots are images in the page.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def write(findings: Findings, path: str | os.PathLike[str]) -> None:
    """Write the page to a file; an existing file is replaced atomically."""
    content = to_html(findings).encode("utf-8", "replace")  # names may contain lone surrogates
    with replacing(path) as fresh:
        fresh.write_bytes(content)


def to_html(findings: Findings) -> str:
    """Return the page as text."""
    what_if = panel(findings)
    sections = all_sections(findings, what_if)
    script = "" if what_if is None else what_if.script
    bodies = [element("section", element("h2", section.title), section.body, id=section.name) for section in sections]
    return Template(_part("page.html")).substitute(
        policy=_POLICY + _allowed(script),
        title=joined([findings.title]),
        style=_part("page.css"),
        script=Html(f'<script type="module">{script}</script>\n') if script else "",
        header=header(findings, sections),
        sections=joined(bodies),
    )


def _allowed(script: str) -> str:
    """The part of the policy that allows a script, by its digest, so that no other text of the page can be one."""
    digest = b64encode(sha256(script.encode()).digest()).decode()
    return f"; script-src 'sha256-{digest}'" if script else ""


def _part(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
