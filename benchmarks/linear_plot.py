"""Objective against CPU time: one small panel per problem."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.common import Cell
from benchmarks.linear_fits import LADDER

#: precisions below this are drawn at it
FLOOR = 1e-6


def plot(traces: dict[str, Cell], path: Path) -> None:
    """Ours as two curves, F / F_best - 1 and 1 - lower bound / F_best; LIBLINEAR's fits as dots."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    if not traces:
        return
    across = min(4, len(traces))
    down = -(-len(traces) // across)
    figure, axes = plt.subplots(
        down, across, figsize=(3.2 * across, 2.7 * down), squeeze=False, sharey=True
    )
    for axis in axes.ravel()[len(traces) :]:
        axis.set_visible(False)
    for axis, (name, cell) in zip(axes.ravel(), traces.items(), strict=False):
        _panel(axis, name, cell)
    for line in axes:
        line[0].set_ylabel("distance from best F")
    for axis in axes.ravel()[max(0, len(traces) - across) : len(traces)]:
        axis.set_xlabel("CPU seconds")
    handles, labels = axes[0][0].get_legend_handles_labels()
    columns = len(labels) if across > 2 else across
    figure.legend(handles, labels, loc="upper center", ncols=columns, fontsize=8, frameon=False)
    head = 0.1 + 0.2 * -(-len(labels) // columns)
    figure.tight_layout(rect=(0, 0, 1, 1 - head / (2.7 * down)))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _panel(axis, name: str, cell: Cell) -> None:  # type: ignore[no-untyped-def]
    best = cell["F_best"]

    def off(values: list[float | None]) -> np.ndarray:
        known = np.array([np.nan if v is None else v for v in values], dtype=float)
        return np.maximum(known, FLOOR)

    trace = cell["ours"]["trace"]
    seconds = [t[0] for t in trace]
    upper = off([None if t[2] is None else t[2] / best - 1 for t in trace])
    lower = off([None if t[3] is None else 1 - t[3] / best for t in trace])
    axis.plot(seconds, upper, color="tab:blue", label="ours: objective", drawstyle="steps-post")
    axis.plot(
        seconds, lower, color="tab:blue", ls="--", label="ours: lower bound", drawstyle="steps-post"
    )
    fits = sorted(cell["theirs"]["fits"], key=lambda fit: -fit["tol"])
    axis.plot(
        [fit["seconds"] for fit in fits],
        off([fit["F"] / best - 1 for fit in fits]),
        "o",
        color="tab:orange",
        ms=4,
        label="LIBLINEAR, one fit per tol",
    )
    # skip fits that max_iter stopped to measure the pace: only the one at the limit matters
    cut = cell["theirs"]["cut_short"] if cell["theirs"]["too_slow"] < len(LADDER) else None
    axis.plot(
        [] if cut is None else [cut["seconds"]],
        off([] if cut is None else [cut["F"] / best - 1]),
        "x",
        color="tab:orange",
        ms=6,
        label="LIBLINEAR at the limit",
    )
    axis.set(xscale="log", yscale="log", ylim=(0.7 * FLOOR, 3.0))
    least, most = axis.get_xlim()
    axis.set_xlim(10 ** np.floor(np.log10(least)), 10 ** np.ceil(np.log10(most)))
    axis.xaxis.set_minor_formatter("")
    for eps in (1e-2, 1e-3):
        axis.axhline(eps, color="0.8", lw=0.7, zorder=0)
    axis.set_title(f"{name}, C_mean {cell['C_mean']:.0e}", fontsize=9)
    axis.tick_params(labelsize=8)
