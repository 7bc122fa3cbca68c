"""Documents beside the README, where people and code-hosting sites look for them, as pages of the site."""

import os
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

PAGES = {"changelog": "CHANGELOG.md", "contributing": "CONTRIBUTING.md", "security": "SECURITY.md"}
HOMES = {file: f"{page}.md" for page, file in PAGES.items()} | {"README.md": "index.md"}


def read(app: Sphinx, page: str, source: list[str]) -> None:
    """The document instead of the page, which only says where it is."""
    if page not in PAGES:
        return
    document = Path(app.srcdir).parent / PAGES[page]
    app.env.note_dependency(document)
    source[0] = re.sub(r"(?<=\]\()(?!\w+:|#)[^)]+", lambda link: seen_from_here(link[0]), document.read_text())


def seen_from_here(link: str) -> str:
    """A link from the root of the repository as one from the folder docs."""
    path, mark, anchor = link.partition("#")
    return HOMES.get(path, os.path.relpath(path, "docs")) + mark + anchor


def setup(app: Sphinx) -> dict[str, Any]:
    """Before a page is parsed."""
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
