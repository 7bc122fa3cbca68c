"""The documentation site: `make docs` builds it with Sphinx. Its pages are the Markdown files of this folder."""

import inspect
import re
import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "agbm"
author = "the authors of agbm"
project_copyright = author
version = release = version_of("agbm")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "linked_files",
    "mathml",
    "root_pages",
]
exclude_patterns = ["_extensions"]
language = "en"
templates_path: list[str] = []

# Markdown as code-hosting sites read it, too.
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_dmath_double_inline = False

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings say what may be given, in words
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_param = False  # types of parameters are text, not names of classes
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]  # and so are those of attributes

smartquotes_action = "D"  # dashes; quotes of parameters are shown as they are written

html_theme = "furo"
html_title = f"agbm {version}"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    # Blues of Okabe and Ito, which colour-blind readers can tell from the text.
    "light_css_variables": {"color-brand-primary": "#005a8f", "color-brand-content": "#005a8f"},
    "dark_css_variables": {"color-brand-primary": "#56b4e9", "color-brand-content": "#56b4e9"},
    "navigation_with_keys": True,
}


def escape(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text: names are in single backticks, best_iteration_ is no link, |y - f| no substitution."""
    special = re.compile(r"(?<!`)`([^`]+)`(?!`)|(?<=\w)_(?!\w)|\|")
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[i] = special.sub(lambda found: f"``{found[1]}``" if found[1] else "\\" + found[0], line)


def show_parameters(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, result: str | None
) -> tuple[str | None, str | None] | None:
    """The parameters of an estimator are those of __init__; Sphinx would show those of __new__."""
    if what != "class" or signature is None or "**" not in signature:
        return None
    parameters = [of.replace(annotation=of.empty) for of in inspect.signature(obj).parameters.values()]
    return str(inspect.Signature(parameters)), result


def setup(app: Sphinx) -> None:
    """After napoleon, which has turned sections into lists."""
    app.connect("autodoc-process-signature", show_parameters)
    app.connect("autodoc-process-docstring", escape, priority=900)
