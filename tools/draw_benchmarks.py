"""Draw the benchmark figure of the front page, and write the numbers and tables that the pages show.

    python tools/draw_benchmarks.py

Reads the tables in benchmarks/results. Writes docs/_static/benchmarks.svg, docs/_benchmark_numbers.inc, which
defines one reStructuredText substitution per number, and docs/_benchmark_tables.inc. Run it after a benchmark
was repeated.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
STATIC = ROOT / "docs" / "_static"

#: the precisions of the objective at which linear solvers are compared
PRECISIONS = ("1e-02", "1e-03")
#: the number of samples up to which the pages call data small
SMALL = 1000
#: the default tolerance of SequenceTagger
TAGGER = "tol=0.05"

#: (label, speedup, whether the other program was stopped before it finished)
Point = tuple[str, float, bool]


def read(name: str) -> list[dict[str, str]]:
    with open(RESULTS / f"{name}.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def linear_points() -> list[Point]:
    rows = [*read("linear_binary"), *read("linear_multiclass")]
    shown = [row for row in rows if row["eps"] in PRECISIONS and known(row["ratio"])]
    return [speedup(row["set"], row["ratio"]) for row in shown]


def kernel_points() -> list[Point]:
    return [
        speedup(row["cell"], row["ratio"]) for row in read("kernels_fits") if known(row["ratio"])
    ]


def sequence_points() -> list[Point]:
    """Feature matrix and training together, for both programs."""
    rows = read("sequence_training")
    ours = {row["set"]: seconds(row) for row in rows if TAGGER in row["program"]}
    return [
        (f"{row['set']}, {row['program'].split()[1]}", seconds(row) / ours[row["set"]], False)
        for row in rows
        if row["program"].startswith("crfsuite")
    ]


def seconds(row: dict[str, str]) -> float:
    return float(row["matrix s"]) + float(row["train s"])


def known(text: str) -> bool:
    return text not in ("", "–")


def speedup(label: str, ratio: str) -> Point:
    return label, float(ratio.lstrip("> ")), ratio.startswith(">")


def draw(panels: list[tuple[str, list[Point]]], path: Path) -> None:
    """One panel per program, one line per data set, one dot per measured setting."""
    names = [list(dict.fromkeys(label for label, _, _ in points)) for _, points in panels]
    figure, axes = plt.subplots(
        len(panels),
        1,
        figsize=(4.8, 6.2),  # legible on a phone
        layout="constrained",
        sharex=True,
        squeeze=False,
        height_ratios=[len(labels) + 1 for labels in names],
    )
    for ax, (title, points), labels in zip(axes[:, 0], panels, names, strict=True):
        for label, ratio, stopped in points:
            color = "#1f77b4" if ratio >= 1 else "#d62728"
            ax.plot(
                ratio,
                labels.index(label),
                marker=">" if stopped else "o",
                color=color,
                alpha=0.75,
                markersize=6,
                markeredgewidth=0,
            )
        ax.axvline(1, color="0.3", linewidth=1)
        ax.set_xscale("log")
        least = min(ratio for _, points in panels for _, ratio, _ in points)
        ax.set_xlim(min(0.5, 0.85 * least), 300)
        ax.set_xticks([0.3, 1, 10, 100], ["0.3", "1", "10", "100"])
        ax.set_ylim(len(labels) - 0.4, -0.6)
        ax.set_yticks(range(len(labels)), labels, fontsize=9)
        ax.set_title(title, fontsize=10, loc="left")
        ax.grid(axis="x", color="0.9")
        ax.set_axisbelow(True)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    axes[-1, 0].set_xlabel("times faster")
    save(figure, path)


def draw_dense(rows: list[dict[str, str]], path: Path) -> None:
    """The ratios on dense data of several classes: a panel for each loss, a line for each set."""
    losses = list(dict.fromkeys(row["loss"] for row in rows))
    figure, axes = plt.subplots(1, len(losses), figsize=(9.0, 3.4), sharey=True)
    for axis, loss in zip(axes, losses, strict=True):
        for name in dict.fromkeys(row["set"] for row in rows):
            own = [r for r in rows if r["set"] == name and r["loss"] == loss and known(r["ratio"])]
            at, ratios = ([float(r[key]) for r in own] for key in ("C", "ratio"))
            axis.plot(at, ratios, marker="o", ms=4, lw=1.2, label=name)
        axis.axhline(1.0, color="#808080", lw=0.8)
        axis.set(xscale="log", yscale="log", title=loss, xlabel="C")
        ticks = [0.5, 1, 2, 5, 10]
        axis.set_yticks(ticks, [f"{t:g}" for t in ticks], minor=False)
        axis.minorticks_off()
    axes[0].set_ylabel("times faster than scikit-learn")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=len(labels), frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.92))
    save(figure, path)


def save(figure: plt.Figure, path: Path) -> None:
    """Write an SVG file that is the same whenever the data are."""
    with plt.rc_context({"svg.hashsalt": "maxmargin"}):
        figure.savefig(path, metadata={"Date": None, "Creator": None})
    plt.close(figure)
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join(line.rstrip() for line in lines) + "\n", encoding="utf-8")


def numbers(linear: list[Point], kernel: list[Point], sequence: list[Point]) -> dict[str, str]:
    """The substitutions: names and texts."""
    reached = [ratio for _, ratio, stopped in linear if not stopped]
    out = {
        "linear_cells": str(len(linear)),
        "linear_mean": f"{math.exp(sum(map(math.log, reached)) / len(reached)):.1f}",
        "linear_slower": str(sum(ratio < 1 for ratio in reached)),
        "linear_worst": f"{1 / min(reached):.1f}",
        "linear_stopped": str(len(linear) - len(reached)),
        "kernel_least": f"{min(r for _, r, _ in kernel):.0f}",
        "kernel_most": f"{max(r for _, r, _ in kernel):.0f}",
    }
    small = {"small_svc": "LinearSVC", "small_svr": "LinearSVR", "small_kernel": "KernelSVC"}
    for name, fit in small.items():
        rows = [row for row in read("small_fits_fits") if row["fit"].startswith(fit)]
        least = min(float(row["ratio"]) for row in rows if int(row["rows"]) <= SMALL)
        out[name] = f"{1 / least:.1f}"
    for label, ratio, _ in sequence:
        out[label.replace(", ", "_")] = f"{ratio:.1f}"
    dense = [float(row["ratio"]) for row in read("dense_fits") if known(row["ratio"])]
    out["dense_cells"] = str(len(dense))
    out["dense_mean"] = f"{math.exp(sum(map(math.log, dense)) / len(dense)):.1f}"
    out["dense_slower"] = str(sum(ratio < 1.0 for ratio in dense))
    out["dense_worst"] = f"{1 / min(dense):.1f}"
    return out


MADE_BY = ".. made by tools/draw_benchmarks.py from benchmarks/results; do not edit"

LINEAR = {
    "set": "data",
    "C_mean": "C × samples",
    "eps": "precision",
    "ours s": "maxmargin, s",
    "theirs s": "LIBLINEAR, s",
    "ratio": "times faster",
    "our certified gap": "certified gap",
}
#: section -> (name of the table, the columns shown and their headers)
TABLES: dict[str, list[tuple[str, dict[str, str]]]] = {
    "Linear SVMs against LIBLINEAR": [
        ("linear_binary", LINEAR),
        ("linear_multiclass", LINEAR),
    ],
    "Dense data with several classes against scikit-learn": [
        (
            "dense_groups",
            {
                "sets": "data",
                "loss": "loss",
                "cells": "settings",
                "geometric mean": "times faster, geometric mean",
                "worst": "worst",
            },
        ),
        (
            "dense_fits",
            {
                "set": "data",
                "loss": "loss",
                "C": "C",
                "ours ms": "maxmargin, ms",
                "theirs ms": "scikit-learn, ms",
                "best of scikit-learn": "its fastest method",
                "ratio": "times faster",
                "certified gap": "certified gap",
            },
        ),
        (
            "dense_grids",
            {
                "set": "data",
                "loss": "loss",
                "LinearSVCCV s": "LinearSVCCV, s",
                "GridSearchCV of ours s": "GridSearchCV over LinearSVC, s",
                "scikit-learn s": "GridSearchCV over scikit-learn's class, s",
                "ratio": "times faster",
            },
        ),
    ],
    "Small data against scikit-learn": [
        (
            "small_fits_fits",
            {
                "fit": "estimator",
                "C": "C",
                "rows": "samples",
                "ours ms": "maxmargin, ms",
                "theirs ms": "scikit-learn, ms",
                "ratio": "times faster",
                "our certified gap": "certified gap",
            },
        ),
        (
            "small_fits_many",
            {
                "work": "work",
                "ours s": "maxmargin, s",
                "theirs s": "scikit-learn, s",
                "ratio": "times faster",
            },
        ),
    ],
    "Regression against scikit-learn": [
        (
            "regression_fits",
            {
                "data": "data",
                "loss": "loss",
                "C": "C",
                "ours s": "maxmargin, s",
                "theirs s": "scikit-learn, s",
                "ratio": "times faster",
                "our certified gap": "certified gap",
            },
        ),
    ],
    "Kernels against LIBSVM and oneDAL": [
        (
            "kernels_fits",
            {
                "cell": "data",
                "rows": "samples",
                "SVC s": "LIBSVM, s",
                "exact s": "maxmargin, s",
                "ratio": "times faster",
                "oneDAL s": "oneDAL, s",
                "oneDAL ratio": "times faster than oneDAL",
                "exact gap": "certified gap",
                "SVC err %": "LIBSVM, error %",
                "exact err %": "maxmargin, error %",
            },
        ),
    ],
    "Kernels with two threads, wall time": [
        (
            "kernels_two_threads",
            {
                "cell": "data",
                "exact, 1 thread": "maxmargin, 1 thread, s",
                "exact, 2 threads": "2 threads, s",
                "times faster": "times faster with 2",
                "oneDAL, 2 threads": "oneDAL, 2 threads, s",
                "oneDAL ratio": "times faster than oneDAL",
            },
        ),
    ],
    "Sequences against crfsuite": [
        (
            "sequence_training",
            {
                "set": "data",
                "program": "program",
                "matrix s": "features, s",
                "train s": "training, s",
                "test accuracy %": "test accuracy %",
                "certified gap": "certified gap",
            },
        ),
    ],
    "Conditional random fields against crfsuite": [
        (
            "crf_training",
            {
                "set": "data",
                "program": "program",
                "weights": "weights",
                "CPU s": "training, s",
                "F": "objective",
                "certified gap": "certified gap",
                "test accuracy %": "test accuracy %",
                "test log loss": "test log loss",
            },
        ),
    ],
    "Logistic loss against LogisticRegression": [
        (
            "logistic_fits",
            {
                "data": "data",
                "C": "C",
                "precision": "precision",
                "ours s": "LinearSVC, s",
                "theirs s": "LogisticRegression, s",
                "their solver": "its best solver",
                "ratio": "ratio",
            },
        ),
    ],
    "Training for F1 and ROC AUC": [
        (
            "measures_test_scores",
            {
                "set": "data",
                "measure": "metric",
                "method": "method",
                "test %": "test %",
                "fit s": "fit, s",
            },
        ),
    ],
}


def cell(text: str) -> str:
    """A table cell: numbers with three digits or without a fraction, nothing where nothing was measured."""
    if not known(text):
        return ""
    if text == "ROC area":
        return "ROC AUC"
    try:
        number = float(text)
    except ValueError:
        return text
    return text if len(text) < 6 else f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def tables() -> list[str]:
    lines = [MADE_BY, ""]
    for section, parts in TABLES.items():
        lines += [section, "-" * len(section), ""]
        for name, columns in parts:
            header = ", ".join(f'"{title}"' for title in columns.values())
            lines += [".. csv-table::", f"   :header: {header}", ""]
            for row in read(name):
                cells = (cell(row[column]) for column in columns)
                lines.append("   " + ", ".join(f'"{text}"' for text in cells))
            lines.append("")
    return lines


def write(name: str, lines: list[str]) -> None:
    (ROOT / "docs" / name).write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def main() -> None:
    linear, kernel, sequence = linear_points(), kernel_points(), sequence_points()
    panels = [
        ("LinearSVC against LIBLINEAR", linear),
        ("KernelSVC against LIBSVM", kernel),
        ("SequenceTagger against crfsuite", sequence),
    ]
    draw(panels, STATIC / "benchmarks.svg")
    draw_dense(read("dense_fits"), STATIC / "dense.svg")
    texts = numbers(linear, kernel, sequence)
    lines = [f".. |{name}| replace:: {text}" for name, text in texts.items()]
    write("_benchmark_numbers.inc", [MADE_BY, "", *lines])
    write("_benchmark_tables.inc", tables())


if __name__ == "__main__":
    main()
