"""Plots of the benchmark of sampled cuts: time and error against number of samples and sample size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

COLOURS = {
    "linear time": "tab:blue",
    "constant time": "tab:orange",
    "low rank": "tab:purple",
    "exact": "tab:green",
    "SVC": "tab:grey",
}


def plot(path: Path, scaling: list[dict[str, Any]], sizes: list[dict[str, Any]]) -> None:
    """One row per question."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(3, 3, figsize=(13, 10.5), layout="constrained")
    for row, data in zip(axes, ("checkerboard", "covtype"), strict=False):
        here = [r for r in scaling if r["data"] == data]
        for axis, what in zip(row, ("s", "kernel values", "test error %"), strict=True):
            for method, color in COLOURS.items():
                points = [(r["rows"], r[what]) for r in here if r["method"] == method and r[what]]
                if points:
                    axis.plot(*zip(*points, strict=True), "o-", color=color, label=method)
            axis.set(xscale="log", xlabel="rows", title=f"{data}: {_title(what)}")
            ticks = sorted({r["rows"] for r in here})
            axis.set_xticks(ticks, [f"{n:,}" for n in ticks])
            axis.set_xticks([], minor=True)
            if what != "test error %":
                axis.set_yscale("log")
            axis.grid(alpha=0.3)
        if here:
            row[0].legend()
    for axis, what in zip(axes[2], ("s", "iterations", "test error %"), strict=True):
        for (method, C), style in {
            ("linear time", 0.1): ":",
            ("linear time", 1.0): "-",
            ("linear time", 10.0): "--",
            ("constant time", 1.0): "-",
        }.items():
            points = [(r["r"], r[what]) for r in sizes if (r["method"], r["C"]) == (method, C)]
            if points:
                axis.plot(
                    *zip(*points, strict=True),
                    "o",
                    ls=style,
                    color=COLOURS[method],
                    label=f"{method}, C = {C:g}",
                )
        axis.set(xscale="log", xlabel="size of a sample, r", title=f"a9a: {_title(what)}")
        if what != "test error %":
            axis.set_yscale("log")
        axis.grid(alpha=0.3)
    if sizes:
        axes[2][0].legend()
    figure.savefig(path, dpi=110)


def _title(what: str) -> str:
    return "CPU seconds" if what == "s" else what
