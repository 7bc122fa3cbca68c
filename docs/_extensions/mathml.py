"""Mathematics as MathML, which browsers draw by themselves: no script, no font, nothing from the network."""

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx


def visit_inline(translator: Any, node: nodes.math) -> None:
    """Write a formula within a line."""
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.math_block) -> None:
    """Write a formula on lines of its own. Wide ones scroll within the page."""
    # What may stand between dollar signs in LaTeX is "aligned"; the converter knows it by its other name.
    formula = node.astext().replace("{aligned}", "{align*}")
    translator.body.append(f'<div class="math">{convert(formula, display="block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Offer the renderer under the name that conf.py chooses it by."""
    app.add_html_math_renderer("mathml", inline_renderers=(visit_inline, None), block_renderers=(visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
