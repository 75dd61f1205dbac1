"""Draw the pictures at the top of guides that have no example in the gallery, from real fits.

    python tools/draw_guides.py

Writes docs/_static/guide_*.svg. Every curve is computed by the library, or by a page of the docs; the picture
of the cluster is a drawing.
"""

from __future__ import annotations

import csv
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from draw_algorithms import BLUE, GRAY, GREEN, ORANGE, plain, save
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

from maxmargin import LinearSVC, StructuredSVM, data, structured_path
from maxmargin.callbacks import ValidationScore
from maxmargin.losses import FBeta, Hinge, SquaredHinge
from maxmargin.solvers import CuttingPlane, DualCoordinate, Newton
from maxmargin.tasks import Chain

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "docs"))
from huber_hinge import HuberHinge  # the loss of the page "Your own loss"
from jaccard import Jaccard  # the measure of the page "Your own measure"


def axes(width: float = 5.4, height: float = 3.1) -> tuple[plt.Figure, Any]:
    figure, ax = plt.subplots(figsize=(width, height), layout="constrained")
    plain(ax)
    return figure, ax


def digits() -> tuple[Any, Any]:
    X, y = load_digits(return_X_y=True)
    return scale(X), y


def draw_linear() -> None:
    X, y = make_blobs(80, centers=[[-1.6, -0.8], [1.2, 1.0]], cluster_std=0.9, random_state=2)
    svc = LinearSVC(C=1.0, loss="hinge").fit(X, y)
    figure, ax = axes(5.4, 3.6)
    x = np.array([X[:, 0].min() - 0.5, X[:, 0].max() + 0.5])
    (a, b), c = svc.coef_[0], svc.intercept_[0]
    for level, style in ((-1.0, "--"), (0.0, "-"), (1.0, "--")):
        ax.plot(x, (level - c - a * x) / b, style, color="0.3", linewidth=1.8 if level == 0 else 1)
    for label, color in ((0, ORANGE), (1, BLUE)):
        ax.plot(*X[y == label].T, "o", color=color, markersize=5, markeredgewidth=0, alpha=0.8)
    violated = np.where(y == 1, 1, -1) * svc.decision_function(X) < 1 - 1e-3
    ax.plot(
        *X[violated].T, "o", markersize=9, markerfacecolor="none", color="k", label="in the margin"
    )
    ax.set(xlabel="first feature", ylabel="second feature", ylim=(-3.6, 3.6), xlim=x)
    ax.legend(frameon=False, loc="lower right")
    save(figure, "guide_linear.svg")


def draw_solvers() -> None:
    X, y = digits()
    figure, ax = axes()
    for solver, color in ((DualCoordinate(), BLUE), (Newton(), GREEN), (CuttingPlane(), GRAY)):
        svc = LinearSVC(C=0.01, tol=1e-4, solver=solver, loss="hinge").fit(X, y < 5)
        passes = [record["oracle_calls"] for record in svc.history_]
        gaps = [record["gap"] for record in svc.history_]
        ax.semilogy(passes, gaps, "o-", markersize=3, color=color, label=type(solver).__name__)
    ax.set(xlabel="passes over the samples", ylabel="certified gap", ylim=(5e-5, 1.2))
    ax.legend(frameon=False)
    save(figure, "guide_solvers.svg")


def draw_own_loss() -> None:
    figure, ax = axes()
    margins = np.linspace(-0.6, 1.8, 300)
    one = np.ones(1)
    for name, loss, color in (
        ("hinge", Hinge(), GRAY),
        ("squared hinge", SquaredHinge(), ORANGE),
        ("Huberized hinge, width 0.5", HuberHinge(0.5), BLUE),
    ):
        ax.plot(margins, [loss.value(np.array([m]), one, one) for m in margins], color=color)
        ax.plot([], [], color=color, label=name)
    ax.set(xlabel="margin: label times score", ylabel="loss", ylim=(0, 2))
    ax.legend(frameon=False)
    save(figure, "guide_own_loss.svg")


def draw_own_measure() -> None:
    figure, ax = axes()
    P, N = 100, 900
    fp = np.arange(0, 301)
    tp = np.full(len(fp), 80)
    for name, measure, color in (("1 - F1", FBeta(), GRAY), ("1 - Jaccard", Jaccard(), BLUE)):
        ax.plot(fp, measure.loss(tp, fp, P - tp, N - fp), color=color, label=name)
    ax.set(xlabel="false positives, with 80 of 100 positives found", ylabel="loss", ylim=(0, 1))
    ax.legend(frameon=False)
    save(figure, "guide_own_measure.svg")


def chains() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    Y = [rng.integers(0, 3, 6) for _ in range(60)]
    return [np.eye(3)[y] + 0.8 * rng.normal(size=(6, 3)) for y in Y], Y


def draw_structured_grids() -> None:
    X, Y = chains()
    Cs = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0]
    task = Chain(n_labels=3)
    path = structured_path(task, X, Y, Cs=Cs, tol=1e-2)
    alone = [StructuredSVM(task, C=C, tol=1e-2).fit(X, Y) for C in Cs]
    figure, ax = axes()
    for name, fits, color in (("each alone", alone, GRAY), ("structured_path", path, BLUE)):
        calls = np.cumsum([fit.history_[-1]["oracle_calls"] for fit in fits])
        ax.semilogx(Cs, calls, "o-", color=color, label=name)
    ax.set(xlabel="C", ylabel="argmax calls per example,\nup to this C", ylim=(0, None))
    ax.legend(frameon=False)
    save(figure, "guide_structured_grids.svg")


def draw_watching() -> None:
    X, y = digits()
    watch = ValidationScore(X[1200:], y[1200:])
    solver = CuttingPlane()
    svc = LinearSVC(C=0.01, solver=solver, callbacks=[watch], loss="hinge").fit(X[:1200], y[:1200])
    figure, ax = axes()
    ax.semilogy([record["gap"] for record in svc.history_], color=BLUE)
    ax.set(xlabel="iteration", ylim=(5e-4, 1.5))
    ax.set_ylabel("certified gap", color=BLUE)
    right = ax.twinx()
    right.plot(*np.transpose(watch.scores), color=GREEN)
    right.set_ylabel("validation accuracy", color=GREEN)
    right.spines["top"].set_visible(False)
    save(figure, "guide_watching.svg")


def draw_checkpoints() -> None:
    X, y = digits()
    file = Path(tempfile.mkdtemp()) / "fit.checkpoint"
    settings: dict[str, Any] = {"C": 0.01, "solver": CuttingPlane(), "checkpoint": file}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        killed = LinearSVC(**settings, max_iter=25, loss="hinge").fit(X, y)
    resumed = LinearSVC(**settings, loss="hinge").fit(X, y, resume_from=file)
    figure, ax = axes()
    for fit, color, name in ((resumed, BLUE, "resumed"), (killed, "k", "until it was stopped")):
        steps = [record["iteration"] for record in fit.history_]
        ax.semilogy(steps, [r["gap"] for r in fit.history_], "o-", ms=3, color=color, label=name)
    ax.set(xlabel="iteration", ylabel="certified gap")
    ax.legend(frameon=False)
    save(figure, "guide_checkpoints.svg")


def batches() -> Iterator[tuple[Any, Any]]:
    rng = np.random.default_rng(0)
    for _ in range(20):
        X = rng.normal(size=(1000, 20)).astype(np.float32)
        yield X, np.where(X[:, :3].sum(axis=1) + rng.normal(size=1000) > 0, 1, -1)


def draw_out_of_core() -> None:
    dataset = data.write(tempfile.mkdtemp(), batches())
    svc = LinearSVC(C=1.0, solver=CuttingPlane(), loss="hinge").fit(dataset)
    passes = [record["oracle_calls"] for record in svc.history_]
    figure, ax = axes()
    upper = [record["objective"] for record in svc.history_]
    lower = [record["lower_bound"] for record in svc.history_]
    ax.fill_between(passes, lower, upper, color=BLUE, alpha=0.12)
    ax.plot(passes, upper, "o-", color=BLUE, markersize=3.5, label="objective")
    ax.plot(passes, lower, "o-", color=ORANGE, markersize=3.5, label="lower bound")
    ax.set(xlabel="passes over the files", ylim=(0, 1.6 * svc.objective_))
    ax.legend(frameon=False, loc="lower right")
    save(figure, "guide_out_of_core.svg")


def draw_cluster() -> None:
    figure, ax = plt.subplots(figsize=(5.4, 3.1), layout="constrained")
    box = {"boxstyle": "round,pad=0.5", "facecolor": "#e8f1f8", "edgecolor": BLUE}
    ax.text(0.5, 0.86, "driver\nweights, cuts, bounds", ha="center", va="center", bbox=box)
    for k, x in enumerate((0.13, 0.5, 0.87)):
        first = 1 + 4 * k
        text = f"worker {k + 1}\nshards {first} to {first + 3}"
        ax.text(x, 0.17, text, ha="center", va="center", bbox=box)
        for shift, style, color in ((-0.025, "-|>", BLUE), (0.025, "<|-", ORANGE)):
            ax.annotate(
                "",
                xy=(x + shift, 0.3),
                xytext=(0.5 + shift + (x - 0.5) / 3, 0.71),
                arrowprops={"arrowstyle": style, "color": color, "lw": 1.5},
            )
    ax.text(0.02, 0.62, "weights", color=BLUE)
    ax.text(0.98, 0.62, "sums of cuts,\nin a fixed order", color=ORANGE, ha="right", va="center")
    ax.set(xlim=(-0.05, 1.05), ylim=(0, 1))
    ax.set_axis_off()
    save(figure, "guide_cluster.svg")


def draw_proven() -> None:
    X, y = make_blobs(60, centers=[[-1.2, -0.6], [1.0, 0.9]], cluster_std=0.9, random_state=4)
    T = make_blobs(18, centers=[[-0.4, -0.2], [0.3, 0.3]], cluster_std=0.6, random_state=5)[0]
    plane = LinearSVC(C=0.05, loss="logistic", fit_intercept=False, tol=0.1)
    early, exact = (clone(plane).set_params(tol=tol).fit(X, y) for tol in (0.1, 1e-10))
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.4), layout="constrained")
    proof, w, best = early._proof, early.coef_[0], exact.coef_[0]
    middle = w + proof.unit * proof.difference[0].astype(float)
    around_w = np.sqrt(2.0 * (early.objective_ - early.lower_bound_))
    for center, radius, color, style in (
        (w, around_w, GRAY, "--"),
        (middle, proof.radius[0], BLUE, "-"),
    ):
        left.add_patch(plt.Circle(center, radius, fill=False, color=color, linestyle=style))
    u = 2.0 * middle - w
    left.plot(*np.array([w, u]).T, "-", color=GRAY, linewidth=1)
    for point, name, color in ((w, "w", "k"), (u, "u", ORANGE), (best, "w*", GREEN)):
        left.plot(*point, "o", color=color, markersize=5)
        left.annotate(name, point, xytext=(5, 4), textcoords="offset points", color=color)
    left.set(xlabel="first weight", ylabel="second weight", aspect="equal")
    left.margins(0.05)
    low, high = early.decision_interval(T)
    rank, proven = np.argsort(low + high), early.proven(T)
    for place, k in enumerate(rank):
        color = BLUE if proven[k] else ORANGE
        right.plot(
            [place, place],
            [low[k], high[k]],
            color=color,
            linewidth=3,
            alpha=0.6,
            solid_capstyle="butt",
        )
    right.plot(exact.decision_function(T)[rank], "o", color=GREEN, markersize=3.5)
    right.axhline(0.0, color="k", linewidth=0.8)
    for color, name in ((BLUE, "proven"), (ORANGE, "not proven"), (GREEN, "the optimum")):
        right.plot([], [], color=color, linewidth=3, label=name)
    right.set(xlabel="sample", ylabel="score", xticks=[])
    right.legend(frameon=False, loc="upper left")
    for ax in (left, right):
        plain(ax)
    save(figure, "guide_proven.svg")


def draw_embeddings() -> None:
    root = Path(__file__).resolve().parent.parent / "benchmarks" / "results"
    with open(root / "probes_fits.csv", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["loss"] == "logistic"]
    figure, panels = plt.subplots(1, 2, figsize=(7.6, 3.6), layout="constrained", sharey=True)
    names = [f"{row['set']}, C = {float(row['C']):g}" for row in rows]
    methods = (("ours", BLUE), ("scikit-learn", ORANGE), ("torch", GRAY))
    for ax, suffix, label in zip(
        panels,
        ("", " beyond X"),
        ("CPU seconds", "peak of memory / size of the vectors"),
        strict=True,
    ):
        for k, (method, color) in enumerate(methods):
            shown = [(i, row[method + suffix]) for i, row in enumerate(rows)]
            places = [i + 0.27 * (k - 1) for i, value in shown if value]
            values = [float(value) + bool(suffix) for _, value in shown if value]
            ax.barh(places, values, 0.25, color=color, label=method)
        ax.set(xlabel=label, xscale="log")
        plain(ax)
    panels[0].set_yticks(range(len(names)), names)
    panels[0].invert_yaxis()
    panels[1].legend(frameon=False)
    save(figure, "guide_embeddings.svg")


if __name__ == "__main__":
    for draw in (
        draw_embeddings,
        draw_proven,
        draw_linear,
        draw_solvers,
        draw_own_loss,
        draw_own_measure,
        draw_structured_grids,
        draw_watching,
        draw_checkpoints,
        draw_out_of_core,
        draw_cluster,
    ):
        draw()
