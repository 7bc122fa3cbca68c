"""Files of the repository that pages link to, as pages of the site.

On a code-hosting site `[theory.py](../src/agbm/_core/theory.py)` leads to the file. Here it leads to a page that shows
it, unless it is a page itself, as in the folder `_static`.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

LEXERS = {".py": "python", ".pyi": "python", ".cpp": "cpp", ".hpp": "cpp", ".toml": "toml"}
FOLDER = "_files"


def link_to_pages(app: Sphinx, doctree: nodes.document) -> None:
    """Replace what Sphinx would offer for download, and note which files it was."""
    here = app.env.docname
    root = Path(app.srcdir).parent
    linked = []
    for node in list(doctree.findall(addnodes.download_reference)):
        path = (root / "docs" / here).parent.joinpath(node["reftarget"].lstrip("/")).resolve().relative_to(root)
        if path.is_relative_to("docs/_static"):
            page = os.path.relpath(path, Path("docs", here).parent)
        else:
            linked.append(str(path))
            page = app.builder.get_relative_uri(here, f"{FOLDER}/{path}")
        node.replace_self(nodes.reference("", "", *node.children, refuri=page, internal=True))
    app.env.metadata[here]["linked_files"] = linked


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """A page for each of them."""
    root = Path(app.srcdir).parent
    names = sorted({name for known in app.env.metadata.values() for name in known.get("linked_files", ())})
    for name in names:
        lexer = LEXERS.get(Path(name).suffix, "text")
        code = app.builder.highlighter.highlight_block((root / name).read_text(), lexer)
        yield f"{FOLDER}/{name}", {"title": name, "body": f"<h1>{name}</h1>{code}"}, "page.html"


def setup(app: Sphinx) -> dict[str, Any]:
    """Run before Sphinx collects downloads."""
    app.connect("doctree-read", link_to_pages, priority=400)
    app.connect("html-collect-pages", pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
