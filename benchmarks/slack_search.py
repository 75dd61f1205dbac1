"""Slack rescaling by a search over calls of the margin argmax: calls, gaps that are left, and certified fits.

Parsing: 100 sentences of GUM of at most 12 words. Graphs: 40 grids of 3 x 3 cells, three labels, made up.
Integer programs: 30 knapsacks with 8 items, made up. All to a gap of 1e-2, within a minute each.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu

# ruff: isort: split
import warnings
from typing import Any

import numpy as np

from benchmarks import datasets

TITLE = "Slack rescaling by calls of the margin argmax"
FITS: dict[str, Cell] = {
    "parsing, 0/1 loss": {"task": "parsing", "loss": "zero_one", "C": 1.0},
    "parsing, span loss": {"task": "parsing", "loss": "span", "C": 0.03},
    "parsing, span loss, larger C": {"task": "parsing", "loss": "span", "C": 0.3},
    "graphs": {"task": "graphs", "C": 0.1},
    "graphs, larger C": {"task": "graphs", "C": 1.0},
    "graphs, without loss_step": {"task": "graphs", "C": 0.1, "no step": True},
    "integer programs": {"task": "programs", "C": 0.1},
    "integer programs, larger C": {"task": "programs", "C": 1.0},
}


def problem(spec: Cell, quick: bool) -> tuple[Any, list[Any], list[Any]]:
    """Task, inputs and outputs."""
    from maxmargin.tasks import GraphLabeling, IntegerProgram, Parsing
    from maxmargin.tasks.parsing.trees import as_tree, words

    rng = np.random.default_rng(0)
    if spec["task"] == "parsing":
        Y = [t for t in datasets.gum_trees("train") if len(words(as_tree(t))) <= 12]
        Y = Y[:: len(Y) // (20 if quick else 100)][:100]
        return Parsing(loss=spec["loss"], min_count=1), [words(as_tree(t)) for t in Y], Y
    X: list[Any] = []
    truths = []
    if spec["task"] == "graphs":
        grid = np.arange(9).reshape(3, 3)
        across = np.stack([grid[:, :-1].ravel(), grid[:, 1:].ravel()], axis=1)
        down = np.stack([grid[:-1].ravel(), grid[1:].ravel()], axis=1)
        edges = np.concatenate([across, down])
        maker = GraphLabeling(3, edges="potts")
        w = np.concatenate([rng.normal(size=12), [0.7]])
        maker.setup([(np.zeros((9, 4)), edges)], [np.zeros(9, dtype=int)])
        for _ in range(40):
            X.append((rng.normal(size=(9, 4)), edges))
            truths.append(maker.inference(X[-1], w + 0.7 * rng.normal(size=13)))
        return GraphLabeling(3, edges="potts"), X, truths
    w = rng.normal(size=4)
    for _ in range(30):
        sizes = rng.integers(1, 5, (1, 8)).astype(float)
        rows = (sizes, 0.0, float(sizes.sum() / 2))
        X.append({"features": rng.normal(size=(8, 4)), "constraints": rows})
        truths.append(IntegerProgram().inference(X[-1], w + 0.7 * rng.normal(size=4)))
    return IntegerProgram(), X, truths


def cell(spec: Cell, bench: Bench) -> Cell:
    """One fit, and the gaps at its weights."""
    from maxmargin import StructuredSVM
    from maxmargin.core.vectors import dot
    from maxmargin.tasks import Bounded

    task, X, Y = problem(spec, bench.quick)
    calls = {"margin": 0, "slack": 0}

    def counting(kind: str, method: Any) -> Any:
        def call(self: Any, *given: Any) -> Any:
            calls[kind] += 1
            return method(self, *given)

        return call

    cls = type(task)
    more: dict[str, Any] = {
        "loss_augmented_inference": counting("margin", cls.loss_augmented_inference),
        "slack_augmented_inference": counting("slack", cls.slack_augmented_inference),
    }
    if spec.get("no step"):
        more["loss_step"] = lambda self, x, y: 0.0
    task.__class__ = type("Counting", (cls,), more)
    began = cpu()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        svm = StructuredSVM(task, spec["C"], rescaling="slack", tol=1e-2, max_seconds=60.0)
        svm.fit(X, Y)
    seconds, per_call = cpu() - began, calls["margin"] / calls["slack"]
    left = 0
    for x, y in zip(X, Y, strict=True):
        found = svm.task_.slack_augmented_inference(x, y, svm.coef_)
        if isinstance(found, Bounded):
            ahead = dot(svm.task_.difference(x, found.y, y), svm.coef_)
            value = svm.task_.loss(y, found.y) * (1.0 + ahead)
            left += found.upper > value + 1e-6 * (1.0 + value)
    return {
        "examples": len(X),
        "calls": per_call,
        "left": left / len(X),
        "gap": svm.gap_,
        "ended": svm.stop_reason_,
        "seconds": seconds,
    }


def table(bench: Bench) -> None:
    """All fits."""
    rows: list[Row] = []
    for name, spec in FITS.items():
        bench.run(name, spec)
        c = bench.get(name)
        if c is not None:
            row: Row = {"problem": name, "C": spec["C"], "examples": c["examples"]}
            row |= {"margin calls per slack call": c["calls"], "share with a gap": c["left"]}
            rows.append(row | {"gap": c["gap"], "ended": c["ended"], "CPU s": c["seconds"]})
    notes = """
*share with a gap*: examples whose bound is above the value of the best output found, at the weights of the
fit. *gap*: that of the fit; *ended*: its `stop_reason_`.
"""
    bench.save(TITLE, [("fits", "Fits to a gap of 1e-2", rows, notes)])


if __name__ == "__main__":
    command_line("slack_search", TITLE, cell, table)
