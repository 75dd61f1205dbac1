"""A math renderer that writes MathML with the converter that docutils brings along.

Sphinx's own renderers need a script from a content delivery network or a LaTeX installation. Browsers
have drawn MathML themselves for years.
"""

from __future__ import annotations

import html
import re
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx

NAMESPACE = "http://www.w3.org/1998/Math/MathML"
ElementTree.register_namespace("", NAMESPACE)
ACCENTS = ("ˆ", "ˉ", "˜")
BRACKETS = ("⟨", "⟩", "‖", "|")
SAME_ON_BOTH_SIDES = ("‖", "|")
ENTITY = re.compile(r"&(?!amp;|lt;|gt;|quot;|#)\w+;")


def _tex2mathml(tex: str, **options: Any) -> str:
    """MathML of a formula, with some corrections of what docutils writes."""
    text = latex2mathml.tex2mathml(tex, **options)
    root = ElementTree.fromstring(ENTITY.sub(lambda match: html.unescape(match[0]), text))
    for element in list(root.iter()):
        if element.tag == f"{{{NAMESPACE}}}munderover" and element[2].text in ACCENTS:
            # \hat{y}_t has its subscript beside the letter, not under it
            base, below, accent = element
            accented = ElementTree.Element(f"{{{NAMESPACE}}}mover", {"accent": "true"})
            accented.extend([base, accent])
            element.tag, element[:] = f"{{{NAMESPACE}}}msub", [accented, below]
    is_open = dict.fromkeys(SAME_ON_BOTH_SIDES, False)
    for element in root.iter(f"{{{NAMESPACE}}}mo"):
        # brackets are as large as the text, unless \left or \big says otherwise
        if element.text in BRACKETS and not {"minsize", "fence", "form"} & element.attrib.keys():
            element.set("stretchy", "false")
            if element.text in SAME_ON_BOTH_SIDES:
                element.set("form", "postfix" if is_open[element.text] else "prefix")
                is_open[element.text] = not is_open[element.text]
    return ElementTree.tostring(root, encoding="unicode")


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(_tex2mathml(node.astext()))
    raise nodes.SkipNode


def _display(translator: Any, node: nodes.math_block) -> None:
    # "a \\ b" are two lines of one display
    for line in node.astext().split(r"\\"):
        mathml = _tex2mathml(line.strip(), as_block=True)
        translator.body.append(f'<div class="math-display">{mathml}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
