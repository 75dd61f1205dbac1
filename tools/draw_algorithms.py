"""Draw the pictures of the page "How it works" and the one on the front page, from real fits.

    python tools/draw_algorithms.py

Writes to docs/_static. Every picture is a run of the library on a problem small enough to be
drawn; the functions that are minimized have one or two weights.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.preprocessing import scale

from maxmargin import KernelSVC, LinearSVC, StructuredSVM, minimize
from maxmargin.estimators.constraints import Method
from maxmargin.losses import Hinge
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import CuttingPlane, SampledCuts
from maxmargin.tasks import Task

STATIC = Path(__file__).resolve().parent.parent / "docs" / "_static"
#: of the objective, the lower bound (the gap between them is a blue band), a method, and another one
BLUE, ORANGE, GREEN, GRAY = "#1f77b4", "#e6550d", "#2ca02c", "0.55"


def save(figure: plt.Figure, name: str) -> None:
    """Write an SVG file that is the same whenever the fits are."""
    path = STATIC / name
    with plt.rc_context({"svg.hashsalt": "maxmargin"}):
        figure.savefig(path, metadata={"Date": None, "Creator": None})
    plt.close(figure)
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join(line.rstrip() for line in lines) + "\n", encoding="utf-8")


def plain(ax: Any) -> None:
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


class Recorded:
    """A risk that records where it was evaluated, with its cuts."""

    def __init__(self, risk: ScoreRisk) -> None:
        self.risk = risk
        self.points: list[Any] = []
        self.cuts: list[tuple[float, float]] = []  # (offset, plane)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.risk, name)

    def evaluate(self, w: Any, *, exact: bool = True) -> Any:
        evaluation = self.risk.evaluate(w, exact=exact)
        self.points.append(np.array(w))
        cut = evaluation.cut()
        self.cuts.append((cut.offset, float(np.asarray(cut.plane)[0])))
        return evaluation


# -- the front page ------------------------------------------------------------------------------------


def draw_bounds() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    svc = LinearSVC(C=1.0, tol=1e-3, solver=CuttingPlane(), loss="hinge").fit(scale(X), y)
    upper = np.array([record["objective"] for record in svc.history_])
    lower = np.array([record["lower_bound"] for record in svc.history_])
    step = np.arange(1, len(upper) + 1)
    figure, ax = plt.subplots(figsize=(5.4, 3.1), layout="constrained")
    ax.fill_between(step, lower, upper, color=BLUE, alpha=0.12)
    ax.plot(step, upper, "o-", color=BLUE, markersize=3.5)
    ax.plot(step, lower, "o-", color=ORANGE, markersize=3.5)
    ax.text(3.5, 54, "objective: what you have", color=BLUE)
    ax.text(11.2, 7, "lower bound: no weights can be better than this", color=ORANGE)
    ax.text(step[-1], 33, f"gap {svc.gap_:.1g}", ha="right")
    ax.set(xlabel="iteration", xlim=(0.5, step[-1] + 0.5), ylim=(0, 75))
    plain(ax)
    save(figure, "bounds.svg")


# -- how it works --------------------------------------------------------------------------------------

C_1D = 1.0


def one_dimension() -> tuple[Recorded, Any, Any]:
    """A hinge risk of eight samples with one feature, and the values of F on a grid of weights."""
    x = np.array([0.3, 0.5, 0.9, 1.6, -0.4, -0.8, -1.4, 0.7])
    y = np.array([1.0, 1, 1, 1, -1, -1, -1, -1])
    risk = Recorded(ScoreRisk(x[:, None], y, Hinge()))
    w = np.linspace(-0.4, 3.0, 600)
    F = 0.5 * w**2 + C_1D * np.maximum(0, 1 - np.outer(y * x, w)).sum(axis=0)
    return risk, w, F


def model(cuts: list[tuple[float, float]], w: Any) -> Any:
    """The reduced problem: the regularizer, and the largest of the cuts and of 0."""
    values = [offset + plane * w for offset, plane in cuts]
    return 0.5 * w**2 + C_1D * np.maximum(0, np.max(values, axis=0))


def draw_cutting_planes() -> None:
    risk, w, F = one_dimension()
    minimize(risk, C_1D, solver=CuttingPlane(line_search=False))
    figure, axes = plt.subplots(
        1, 3, figsize=(9.6, 3.1), layout="constrained", sharex=True, sharey=True
    )
    for ax, n_cuts in zip(axes, (1, 2, 3), strict=True):
        below = model(risk.cuts[:n_cuts], w)
        for offset, plane in risk.cuts[:n_cuts]:
            ax.plot(w, 0.5 * w**2 + C_1D * (offset + plane * w), color=GRAY, linewidth=0.8)
        ax.plot(w, F, color=BLUE, linewidth=2, label="objective F")
        ax.plot(w, below, color=ORANGE, linewidth=2, label="model: the cuts so far")
        at = np.concatenate(risk.points[:n_cuts])
        ax.plot(at, np.interp(at, w, F), "o", color=BLUE, label="F was evaluated here")
        best = int(below.argmin())
        ax.plot(w[best], below[best], "v", color=ORANGE, markersize=8, label="minimum of the model")
        upper = np.interp(at, w, F).min()
        ax.axhspan(below[best], upper, color=BLUE, alpha=0.12, linewidth=0)
        ax.set(ylim=(0, 12), xlabel="weight w")
        ax.set_title(f"{n_cuts} cut{'s' * (n_cuts > 1)}", fontsize=10)
        plain(ax)
    axes[2].legend(fontsize=8, frameon=False, loc="upper right")
    save(figure, "how_cutting_planes.svg")


def remember(record: Any, w: Any, best_points: list[Any]) -> None:
    best_points.append(np.array(w))


def draw_line_search() -> None:
    rng = np.random.default_rng(3)
    y = np.repeat([1.0, -1.0], 40)
    X = rng.normal(size=(80, 2)) * [1.0, 0.6] + 0.8 * y[:, None]
    C = 1.0
    runs: dict[str, Any] = {}
    for name, solver in (
        ("plain", CuttingPlane(line_search=False)),
        ("optimized", CuttingPlane()),
    ):
        risk = ScoreRisk(X, y, Hinge())
        best_points: list[Any] = [np.zeros(2)]
        recorded = Recorded(risk)
        result = minimize(
            recorded, C, solver=solver, observer=partial(remember, best_points=best_points)
        )
        # plain cutting planes evaluate where the model is smallest: their best point would hide the jumps
        visited = recorded.points if name == "plain" else best_points
        runs[name] = np.array(visited), result
    best = runs["optimized"][1].w
    figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.1), layout="constrained")
    grid = np.meshgrid(np.linspace(-0.6, 4.2, 160), np.linspace(-0.6, 4.2, 160))
    flat = np.stack([g.ravel() for g in grid])
    F = 0.5 * (flat**2).sum(axis=0) + C * np.maximum(0, 1 - y[:, None] * (X @ flat)).sum(axis=0)
    for ax, (name, color) in zip(axes, (("plain", GRAY), ("optimized", GREEN)), strict=False):
        points = runs[name][0]
        ax.contour(*grid, np.log(F).reshape(grid[0].shape), levels=18, colors="0.8", linewidths=0.7)
        ax.plot(*points.T, "o-", color=color, markersize=3.5, linewidth=1)
        ax.plot(*best, "*", color="k", markersize=9)
        ax.set(xlabel="first weight", ylabel="second weight", xlim=(-0.6, 4.2), ylim=(-0.6, 4.2))
        ax.set_title(f"{name}: {runs[name][1].n_iter} iterations", fontsize=10)
    for name, color in (("plain", GRAY), ("optimized", GREEN)):
        history = runs[name][1].history
        step = np.arange(1, len(history) + 1)
        axes[2].plot(step, [r.objective for r in history], color=color, label=f"{name}, F")
        axes[2].plot(step, [r.lower_bound for r in history], "--", color=color, label="lower bound")
    low = runs["optimized"][1].objective
    axes[2].set(xlabel="iteration", ylim=(0.55 * low, 1.6 * low))
    axes[2].set_title("bounds", fontsize=10)
    axes[2].legend(fontsize=8, frameon=False)
    plain(axes[2])
    save(figure, "how_line_search.svg")


class Matching(Task):
    """The task of the quick start, which also counts the different outputs that its argmax returns."""

    def setup(self, X: Any, Y: Any) -> int:
        self.found: dict[int, set[bytes]] = {}
        return int(X[0].shape[2])

    def joint_feature(self, x: Any, y: Any) -> Any:
        return x[np.arange(len(y)), y].sum(axis=0)

    def loss(self, y: Any, y_hat: Any) -> float:
        return float(np.sum(y != y_hat))

    def inference(self, x: Any, w: Any) -> Any:
        return linear_sum_assignment(x @ w, maximize=True)[1]

    def loss_augmented_inference(self, x: Any, y: Any, w: Any) -> Any:
        wrong = np.arange(len(y)) != y[:, None]
        y_hat = linear_sum_assignment(x @ w + wrong, maximize=True)[1]
        self.found.setdefault(hash(x.tobytes()), set()).add(y_hat.tobytes())
        return y_hat


def draw_working_sets() -> None:
    rng = np.random.default_rng(0)
    Y = [rng.permutation(6) for _ in range(60)]
    X = [rng.normal(size=(6, 6, 20)) for _ in Y]
    for x, y in zip(X, Y, strict=True):
        x[np.arange(6), y, :3] += 0.6
    figure, axes = plt.subplots(1, 2, figsize=(8.6, 3.1), layout="constrained")
    methods: list[tuple[str, str, Method]] = [
        ("cutting planes", GRAY, CuttingPlane()),
        ("working sets", GREEN, "auto"),
    ]
    for label, color, solver in methods:
        fitted = StructuredSVM(Matching(), C=0.1, tol=0.01, solver=solver).fit(X, Y)
        calls = [record["oracle_calls"] for record in fitted.history_]
        lower = [record["lower_bound"] for record in fitted.history_]
        axes[0].plot(calls, lower, "o-", color=color, markersize=3, label=f"lower bound, {label}")
    axes[0].axhline(fitted.objective_, color="k", linewidth=1, label="objective at the end")
    axes[0].set(xlabel="calls of the argmax per example", ylim=(0, 1.2 * fitted.objective_))
    axes[0].legend(fontsize=8, frameon=False)
    task: Any = fitted.task_
    sizes = [len(outputs) for outputs in task.found.values()]
    axes[1].hist(sizes, bins=np.arange(0.5, max(sizes) + 1.5), color=GREEN, rwidth=0.85)
    axes[1].set(xlabel="outputs found per example, of 720 possible ones", ylabel="examples")
    for ax in axes:
        plain(ax)
    save(figure, "how_working_sets.svg")


def draw_sampled_cuts() -> None:
    X, y = make_moons(4000, noise=0.4, random_state=0)
    figure, axes = plt.subplots(
        1, 2, figsize=(8.6, 3.3), layout="constrained", sharex=True, sharey=True
    )
    grid = np.meshgrid(np.linspace(-2.4, 3.4, 120), np.linspace(-1.9, 2.4, 90))
    flat = np.stack([g.ravel() for g in grid], axis=1)
    for ax, method, title in zip(
        axes,
        ("exact", SampledCuts(size=10)),
        ("exact", "sampled cuts"),
        strict=True,
    ):
        svc = KernelSVC(C=1.0, gamma=1.0, method=method, random_state=0).fit(X, y)
        ax.scatter(*X.T, c=np.where(y == 1, "#9ecae1", "#fdd0a2"), s=3, linewidths=0)
        ax.scatter(*svc.support_vectors_.T, s=6, color="k", linewidths=0)
        scores = svc.decision_function(flat).reshape(grid[0].shape)
        ax.contour(*grid, scores, levels=[0], colors=[GREEN], linewidths=2)
        ax.set(xticks=[], yticks=[], xlim=(-2.4, 3.4), ylim=(-1.9, 2.4))
        ax.set_title(
            f"{title}: {len(svc.support_vectors_)} kernel functions, F = {svc.objective_:.0f}",
            fontsize=10,
        )
    figure.savefig(STATIC / "how_sampled_cuts.png", dpi=100, metadata={"Software": None})
    plt.close(figure)


if __name__ == "__main__":
    for draw in (
        draw_bounds,
        draw_cutting_planes,
        draw_line_search,
        draw_working_sets,
        draw_sampled_cuts,
    ):
        draw()
