"""Draw our figures in the form of the papers' figures, for the page "The papers, re-run".

    python tools/draw_paper_figures.py

Reads benchmarks/results/papers. Curves are ours; a cross is a number that the paper prints for its own data,
size and machine. Writes docs/_static/papers_*.svg.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from draw_benchmarks import STATIC, save
from draw_papers import RESULTS, VERDICTS, load

COLORS = {"holds": "#2a9d5c", "differs": "#d1495b", "reversed": "#8d3b72", "other size": "#e9b44c"}
COLORS["not run yet"] = "#bbbbbb"
#: color and label of the methods of Joachims, Finley and Yu
METHODS = {
    "1-slack": "#1f6fb2",
    "1-slack + cache": "#2a9d5c",
    "n-slack 2009": "#d1495b",
    "default": "#555555",
}
TASKS = ("multiclass", "tagging", "parsing")
#: by figure and task, the numbers of Table 1 of the paper for 1-slack with a cache and for n-slack
PRINTED: dict[str, dict[str, tuple[float, float, float]]] = {
    "seconds": {
        "multiclass": (522_911, 3600 * 1.05, 3600 * 1180.56),
        "tagging": (35_531, 3600 * 0.90, 3600 * 177.0),
        "parsing": (9780, 3600 * 2.90, 3600 * 8.52),
    },
    "passes": {
        "multiclass": (522_911, 4_183_288 / 522_911, 10_981_131 / 522_911),
        "tagging": (35_531, 1_314_647 / 35_531, 4_476_906 / 35_531),
        "parsing": (9780, 224_940 / 9780, 479_220 / 9780),
    },
    "support": {
        "multiclass": (522_911, 98, 334_524),
        "tagging": (35_531, 139, 83_126),
        "parsing": (9780, 70, 12_890),
    },
}


def read(name: str) -> list[dict[str, Any]]:
    """The measured lines of a row."""
    lines: list[dict[str, Any]] = json.loads(
        (RESULTS / f"{name}.json").read_text(encoding="utf-8")
    )["figures"]
    return lines


def axes_of(titles: list[str], columns: int) -> tuple[plt.Figure, list[plt.Axes]]:
    """Small multiples with logarithmic axes."""
    rows = -(-len(titles) // columns)
    figure, grid = plt.subplots(rows, columns, figsize=(3.1 * columns, 2.6 * rows), squeeze=False)
    flat = list(grid.flat)
    for axes, title in zip(flat, titles, strict=False):
        axes.set(xscale="log", yscale="log")
        axes.set_title(title, fontsize=9)
        axes.tick_params(labelsize=7)
        axes.minorticks_off()
        axes.grid(alpha=0.3, linewidth=0.5)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in flat[len(titles) :]:
        axes.set_axis_off()
    return figure, flat


def is_curve(found: str, method: str, theirs: bool) -> bool:
    """Whether a line is one of this method: ours, or of a program of the paper's authors."""
    return found.endswith(f", {method.removesuffix(' 2009')}") if theirs else found == method


def one_slack() -> plt.Figure:
    """Figures 1, 3, 4 and 5 of Joachims, Finley and Yu: a row for each, a column for each task."""
    kinds = {
        "seconds": ("jfy-figure-1", "Figure 1: CPU seconds"),
        "iterations": ("jfy-figure-3", "Figure 3: iterations"),
        "support": ("jfy-figure-4", "Figure 4: support vectors"),
        "passes": ("jfy-figure-5", "Figure 5: oracle calls / n"),
    }
    titles = [f"{label}, {task}" for _, label in kinds.values() for task in TASKS]
    figure, grid = axes_of(titles, len(TASKS))
    for place, axes in enumerate(grid):
        name, task = list(kinds)[place // len(TASKS)], TASKS[place % len(TASKS)]
        lines = [f for f in read(kinds[name][0]) if f["task"] == task]
        for method, color in METHODS.items():
            for theirs in (False, True):
                some = [f for f in lines if f["finished"] and is_curve(f["method"], method, theirs)]
                style: dict[str, Any] = {
                    "ls": ":" if theirs else "-",
                    "marker": "" if theirs else "o",
                }
                points = [f["n"] for f in some], [f[name] for f in some]
                axes.plot(*points, ms=3, lw=1, color=color, **style)
        if task in PRINTED.get(name, {}):
            n, one, many = PRINTED[name][task]
            axes.plot(n, one, "x", color=METHODS["1-slack + cache"])
            axes.plot(n, many, "x", color=METHODS["n-slack 2009"])
    handles = [plt.Line2D([], [], color=c, marker="o", ms=3, lw=1) for c in METHODS.values()]
    handles.append(plt.Line2D([], [], color="black", ls=":", lw=1))
    handles.append(plt.Line2D([], [], color="black", marker="x", lw=0))
    labels = [*METHODS, "the authors' programs, run here", "the paper's Table 1"]
    figure.legend(handles, labels, ncols=3, loc="lower center", fontsize=8, frameon=False)
    figure.supxlabel("n", fontsize=9, y=0.055)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    return figure


def sampled() -> plt.Figure:
    """Figure 1 of Yu and Joachims: seconds against n for both algorithms, and exact solvers."""
    lines = read("yj-table-1")
    sets = [name for name in dict.fromkeys(f["data"] for f in lines) if name != "adult"]
    figure, grid = axes_of([f"{name}: CPU seconds" for name in sets], len(sets))
    names = list(dict.fromkeys(f["method"] for f in lines))
    for axes, data in zip(grid, sets, strict=True):
        for method in names:
            some = [f for f in lines if f["data"] == data and f["method"] == method]
            axes.plot([f["rows"] for f in some], [f["seconds"] for f in some], "o-", ms=3, lw=1)
        sizes = sorted({f["rows"] for f in lines if f["data"] == data})
        axes.set_xticks(sizes, [f"{n:,.0f}" for n in sizes])
        axes.set_xlabel("n", fontsize=8)
    figure.legend(names, ncols=3, loc="lower center", fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.16, 1, 1))
    return figure


def optimized() -> plt.Figure:
    """Figures 4 and 6 of Franc and Sonnenburg: iterations against mu, seconds against n."""
    figure, (left, right) = axes_of(["Figure 4: iterations by mu", "Figure 6: CPU seconds by n"], 2)
    lines = [f for f in read("oca-figure-4") if f["mu"] != "default"]
    for name in dict.fromkeys(f["set"] for f in lines):
        some = [f for f in lines if f["set"] == name]
        left.plot(
            [f["mu"] for f in some], [f["iterations"] for f in some], "o-", ms=3, lw=1, label=name
        )
    left.axvline(0.1, color="#bbbbbb", lw=1, zorder=0)
    left.legend(fontsize=8, frameon=False)
    growth = read("oca-figure-6")
    right.plot(
        [f["rows"] for f in growth], [f["CPU s"] for f in growth], "o-", ms=3, lw=1, color="#1f6fb2"
    )
    figure.tight_layout()
    return figure


def verdicts() -> plt.Figure:
    """All claims in one picture: how many have which verdict, by paper."""
    claims = load()
    papers = list(dict.fromkeys(c["paper"] for c in claims))
    figure, axes = plt.subplots(figsize=(6.4, 2.1))
    left = dict.fromkeys(papers, 0)
    for verdict in VERDICTS:
        count = Counter(c["paper"] for c in claims if c["verdict"] == verdict)
        if not count:
            continue
        widths = [count[p] for p in papers]
        axes.barh(
            papers, widths, left=[left[p] for p in papers], color=COLORS[verdict], label=verdict
        )
        for paper, width in zip(papers, widths, strict=True):
            if width:
                axes.text(left[paper] + width / 2, paper, str(width), ha="center", va="center")
            left[paper] += width
    axes.invert_yaxis()
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.set_xticks([])
    axes.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.02), frameon=False, fontsize=9)
    figure.tight_layout()
    return figure


FIGURES: dict[str, Callable[[], plt.Figure]] = {
    "verdicts": verdicts,
    "one_slack": one_slack,
    "optimized": optimized,
    "sampled": sampled,
}


def main() -> None:
    for name, draw in FIGURES.items():
        save(draw(), STATIC / f"papers_{name}.svg")


if __name__ == "__main__":
    main()
