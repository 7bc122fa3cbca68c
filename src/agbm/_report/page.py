"""The HTML page: a self-contained file that loads nothing and runs only its own script."""

from __future__ import annotations

import base64
import hashlib
import os
from importlib.resources import files
from string import Template

from .._storage.whole_file import replacing
from .findings import Findings
from .markup import Html, data_block, element, joined
from .sections import all_sections, header


def write(findings: Findings, path: str | os.PathLike[str]) -> None:
    """Write the page to a file; an existing file is replaced atomically."""
    content = to_html(findings).encode("utf-8", "replace")  # names may contain lone surrogates
    with replacing(path) as fresh:
        fresh.write_bytes(content)


def to_html(findings: Findings) -> str:
    """Return the page as text."""
    sections = all_sections(findings)
    script = _part("page.js")
    bodies = [element("section", element("h2", section.title), section.body, id=section.name) for section in sections]
    return Template(_part("page.html")).substitute(
        policy=_policy(script),
        title=joined([findings.title]),
        style=_part("page.css"),
        header=header(findings, sections),
        sections=joined(bodies),
        data=data_block({section.name: section.data for section in sections if section.data is not None}),
        script=script,
    )


def _policy(script: str) -> Html:
    """Return a content security policy that blocks network access and all scripts but the page's own."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rules = [
        "default-src 'none'", f"script-src 'sha256-{digest}'", "style-src 'unsafe-inline'", "base-uri 'none'",
        "form-action 'none'",
    ]  # fmt: skip
    return Html("; ".join(rules))


def _part(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
