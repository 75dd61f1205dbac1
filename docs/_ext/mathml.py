"""A math renderer that writes MathML with the converter that docutils brings along.

Sphinx's own renderers need a script from a content delivery network or a LaTeX installation. Browsers
have drawn MathML themselves for years.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(latex2mathml.tex2mathml(node.astext()))
    raise nodes.SkipNode


def _display(translator: Any, node: nodes.math_block) -> None:
    # "a \\ b" are two lines of one display
    for line in node.astext().split(r"\\"):
        mathml = latex2mathml.tex2mathml(line.strip(), as_block=True)
        translator.body.append(f'<div class="math-display">{mathml}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
