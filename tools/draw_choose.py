"""Draw the decision diagram "which estimator for what" of the page "Choose an estimator".

    python tools/draw_choose.py

Writes docs/_static/choose.svg. Boxes with an estimator link to its guide. A test compares the names with the
library's.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

STATIC = Path(__file__).resolve().parent.parent / "docs" / "_static"

#: what is predicted, with what follows from it: (the case, the estimator, its guide)
CHOICES = [
    (
        "a class",
        [
            ("linear, or on embeddings", "LinearSVC", "linear"),
            ("with probabilities", "LogisticRegression", "linear"),
            ("curved boundaries", "KernelSVC", "kernels"),
            ("best F1, AUC, precision at k", "MeasureSVC", "measures"),
        ],
    ),
    (
        "a number",
        [
            ("linear; also quantiles", "LinearSVR", "regression"),
            ("curved", "KernelSVR", "regression"),
            ("is it like the others?", "OneClassSVM", "one_class"),
        ],
    ),
    (
        "an order",
        [
            ("grades: bad, fair, good", "OrdinalSVC", "linear"),
            ("of the documents of a query", "RankSVM", "ranking"),
        ],
    ),
    (
        "a structure",
        [
            ("a label per token", "SequenceTagger", "sequences"),
            ("labels of nodes, pixels, tags", "GraphLabeler", "graphs"),
            ("a parse tree", "GrammarParser", "parsing"),
            ("what your argmax finds", "StructuredSVM", "own_argmax"),
            ("with hidden parts", "LatentStructuredSVM", "latent"),
        ],
    ),
]
#: what can be added to most of them
ADDED = [
    ("choose C", "LinearSVCCV, SequenceTaggerCV, StructuredSVMCV", "grids"),
    ("what you know", "prior=, nonnegative=, fixed=", "priors"),
    ("larger than memory", "data.open(path)", "out_of_core"),
    ("arrives in batches", "partial_fit", "streams"),
    ("several machines", 'engine="ray"', "cluster"),
]

ROW, TOP, WIDTH = 34, 24, 760
#: left edges and widths of the columns
COLUMNS = ((10, 130), (200, 120), (360, 210), (600, 150))


def text(x: float, y: float, words: str, style: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" {style}>{escape(words)}</text>'


def box(column: int, y: float, words: str, kind: str, page: str = "") -> str:
    """A box in the middle of a row; it is a link if there is a page."""
    x, width = COLUMNS[column]
    drawn = f'<rect class="{kind}" x="{x}" y="{y - 13:g}" width="{width}" height="26" rx="5"/>'
    drawn += text(x + width / 2, y + 4.5, words, f'class="{kind}" text-anchor="middle"')
    return f'<a href="{page}.html">{drawn}</a>' if page else drawn


def line(column: int, from_y: float, to_y: float) -> str:
    """From the right edge of a box to the left edge of one in the next column."""
    start, end = sum(COLUMNS[column]), COLUMNS[column + 1][0]
    middle = (start + end) / 2
    return f'<path d="M{start} {from_y:g}H{middle:g}V{to_y:g}H{end}"/>'


def diagram() -> str:
    rows = sum(len(cases) for _, cases in CHOICES)
    height = TOP + ROW * (rows + len(ADDED)) + 66
    root = TOP + ROW * (rows - 1) / 2
    lines, boxes, y = [], [], float(TOP)
    for what, cases in CHOICES:
        center = y + ROW * (len(cases) - 1) / 2
        lines.append(line(0, root, center))
        boxes.append(box(1, center, what, "what"))
        for case, estimator, page in cases:
            lines += [line(1, center, y), line(2, y, y)]
            boxes += [box(2, y, case, "case"), box(3, y, estimator, "name", page)]
            y += ROW
    boxes.append(box(0, root, "You predict …", "what"))
    y += 16
    boxes.append(text(10, y, "And with most of them:", 'class="head"'))
    y += 30
    for case, how, page in ADDED:
        boxes.append(text(30, y, case))
        boxes.append(f'<a href="{page}.html">{text(200, y, how, "class=added")}</a>')
        y += ROW * 0.8
    style = (
        "text{font:13px sans-serif;fill:#222}path{fill:none;stroke:#999;stroke-width:1.2}"
        "rect.what{fill:#e8eef7;stroke:#4a6fa5}rect.case{fill:#fff;stroke:#bbb}"
        "rect.name{fill:#fdebd9;stroke:#c8651b}text.name,.added{font-family:monospace}"
        "text.added{fill:#a34a0b}.head{font-weight:bold}"
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height - 60:g}" role="img" '
            'aria-label="From what you predict to an estimator">',
            f'<style>{style}</style><rect width="100%" height="100%" fill="#fff"/>',
            *lines,
            *boxes,
            "</svg>\n",
        ]
    ).replace("class=added", 'class="added"')


if __name__ == "__main__":
    (STATIC / "choose.svg").write_text(diagram(), encoding="utf-8")
