"""Weights of motile's trackers: maxmargin compared to structsvm, the bundle method of motile's
``fit_weights``.

Both minimize ``lambda/2 |w|^2 + max_y [Delta(y*, y) + <w, features' (y* - y)>]`` (ours divided by lambda,
with C = 1 / lambda), on the same integer program, the same labeled solution and the same mask, to the same
absolute gap. The number of solved integer programs is counted. ``maxmargin.testing`` recomputes the objective
of both results.

Requires ``pip install motile`` (with its SCIP backend), in a separate environment if necessary.
"""

from __future__ import annotations

import logging
import runpy
import warnings
from typing import Any

from benchmarks.common import HERE, Bench, Cell, Row, command_line, cpu

# ruff: isort: split
import numpy as np

TITLE = "Learned costs of motile's trackers"
EPS, LIMIT = 1e-3, 60.0
#: frames, cells per frame, radius of candidate edges, fraction of labeled objects
GRAPHS = {
    "documentation": None,
    "8 frames of 10": (8, 10, 0.2, 1.0),
    "6 frames of 8, a third labeled": (6, 8, 0.2, 0.33),
}
CASES = (
    ("documentation", 0.1),
    ("documentation", 0.01),
    ("8 frames of 10", 0.1),
    ("6 frames of 8, a third labeled", 0.1),
)


def synthetic(frames: int, cells: int, radius: float, labeled: float) -> Any:
    """Cells that move, divide and vanish, with false detections, in motile's format."""
    import motile
    import networkx as nx
    from motile.constraints import MaxChildren, MaxParents
    from motile.costs import (
        EdgeSelectedCost,
        NodeAppearCost,
        NodeDisappearCost,
        NodeSelectedCost,
        NodeSplitCost,
    )

    rng = np.random.default_rng(0)
    graph, tracks, before = nx.DiGraph(), [(p, None) for p in rng.random((cells, 2))], []

    def gt(label: int) -> int | None:
        return label if rng.random() < labeled else None

    def score(mean: float, spread: float) -> float:
        return float(np.clip(mean + spread * rng.normal(), 0.0, 1.0))

    for t in range(frames):
        now, following = [], []
        for place, parent in tracks:
            if t and rng.random() < 0.05:  # lost; another one appears
                following.append((rng.random(2), None))
                continue
            place = np.clip(place + 0.05 * rng.normal(size=2), 0.0, 1.0)
            now.append((len(graph), place, parent))
            graph.add_node(len(graph), t=t, score=score(0.7, 0.2), gt=gt(1))
            children = 2 if rng.random() < 0.05 else 1
            following += [(place + 0.02 * rng.normal(size=2), now[-1][0]) for _ in range(children)]
        for _ in range(len(now) // 3):
            now.append((len(graph), rng.random(2), -1))
            graph.add_node(len(graph), t=t, score=score(0.3, 0.2), gt=gt(0))
        for a, at, _ in before:
            for b, to, parent in now:
                distance = float(np.linalg.norm(at - to))
                true = int(parent == a)
                if distance < radius or true:
                    edge = {"distance": distance, "score": score(0.2 + 0.6 * true, 0.3)}
                    graph.add_edge(a, b, gt=gt(true), **edge)
        tracks, before = following, now
    solver = motile.Solver(motile.TrackGraph(graph))
    solver.add_constraint(MaxParents(1))
    solver.add_constraint(MaxChildren(2))
    solver.add_cost(NodeSelectedCost(attribute="score"))
    solver.add_cost(EdgeSelectedCost(attribute="distance"), "distance")
    solver.add_cost(EdgeSelectedCost(attribute="score"), "edge")
    solver.add_cost(NodeAppearCost())
    solver.add_cost(NodeDisappearCost())
    solver.add_cost(NodeSplitCost())
    return solver


def cell(spec: Cell, bench: Bench) -> Cell:
    """One graph, one lambda, one program."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    script = runpy.run_path(str(HERE.parent / "examples" / "integrations" / "motile_weights.py"))
    shape = GRAPHS[spec["graph"]]
    solver = script["tracker"]() if shape is None else synthetic(*shape)
    x = script["program"](solver)
    y = script["labeled_solution"](solver, x)
    lam = spec["lambda"]
    began = cpu()
    run = _structsvm if spec["who"] == "structsvm" else _maxmargin
    w, out = run(spec, solver, x, y, lam)
    out["seconds"] = cpu() - began
    from maxmargin.tasks import IntegerProgram
    from maxmargin.testing import structured_objective

    task = IntegerProgram()
    task.setup([x], [y])
    out["F"] = lam * structured_objective(task, [x], [y], w, 1.0 / lam)
    return {**out, "variables": len(y.values), "labeled": int(np.sum(y.weights))}


def _structsvm(spec: Cell, solver: Any, x: Any, y: Any, lam: float) -> tuple[Any, Cell]:
    import structsvm

    loss = structsvm.SoftMarginLoss(
        solver.constraints, x["features"].T, y.values, structsvm.HammingCosts(y.values, y.weights)
    )
    points: list[Any] = []
    began = cpu()

    def value_and_gradient(w: Any) -> Any:
        if cpu() - began > LIMIT:
            raise TimeoutError
        points.append(w)
        return loss.value_and_gradient(w)

    method = structsvm.BundleMethod(value_and_gradient, x["features"].shape[1], lam, EPS)
    method._solver.set_verbose(False)  # it prints SCIP's log otherwise
    try:
        w, stop = method.optimize(None), "gap"
    except TimeoutError:
        w, stop = points[-1], "CPU limit"
    return w, {"solves": len(points), "stop": stop}


def _maxmargin(spec: Cell, solver: Any, x: Any, y: Any, lam: float) -> tuple[Any, Cell]:
    from maxmargin import StructuredSVM
    from maxmargin.solvers import AbsoluteGap
    from maxmargin.tasks import IntegerProgram

    solves = 0

    class Counted(IntegerProgram):
        def _solve(self, known: Any, costs: Any) -> Any:
            nonlocal solves
            solves += 1
            return super()._solve(known, costs)

    params = {}
    if spec["who"].endswith("signed"):
        # splits, appearances and disappearances have nonnegative costs; the last weight is fixed
        params = {"nonnegative": list(range(6, x["features"].shape[1] - 1)), "fixed": {-1: 1.0}}
    task = Counted(recombine="without" not in spec["who"])
    svm = StructuredSVM(task, 1.0 / lam, tol=AbsoluteGap(EPS / lam), **params).fit([x], [y])
    bounds = {"lower": lam * svm.lower_bound_, "upper": lam * svm.objective_}
    return svm.coef_, {"solves": solves, "stop": svm.stop_reason_, **bounds}


def table(bench: Bench) -> None:
    """All graphs."""
    try:
        import motile  # noqa: F401
    except ImportError:
        raise SystemExit("benchmarks.motile needs the package motile: pip install motile") from None
    cases = CASES[:2] if bench.quick else CASES
    rows: list[Row] = []
    for graph, lam in cases:
        first = None
        for who in ("structsvm", "maxmargin", "maxmargin without recombination"):
            spec = {"graph": graph, "lambda": lam, "who": who}
            c = bench.run(f"{graph} {lam:g} {who}", spec)
            first = first or c
            failed = "error" in c
            rows.append(
                {
                    "graph": graph,
                    "variables": c.get("variables"),
                    "labeled": c.get("labeled"),
                    "lambda": lam,
                    "trained by": who,
                    "solves": c.get("solves"),
                    "of structsvm's": None
                    if failed or "error" in first
                    else f"{100 * c['solves'] / first['solves']:.0f} %",
                    "objective": None if failed else f"{c['F']:.6f}",
                    "lower bound": f"{c['lower']:.6f}" if "lower" in c else None,
                    "stop": c.get("stop"),
                    "CPU s": c.get("seconds"),
                }
            )
    rows2: list[Row] = []
    for graph, lam in cases[2:]:
        c = bench.run(f"{graph} signed", {"graph": graph, "lambda": lam, "who": "maxmargin signed"})
        rows2.append(
            {
                "graph": graph,
                "lambda": lam,
                "solves": c.get("solves"),
                "objective": c.get("upper"),
                "lower bound": c.get("lower"),
                "stop": c.get("stop"),
                "CPU s": c.get("seconds"),
            }
        )
    notes = (
        f"Absolute gap {EPS:g} of lambda/2 |w|^2 + R(w) for all; structsvm at most {LIMIT:g} CPU s. "
        "Objectives are recomputed by maxmargin.testing at the returned weights. structsvm solves with SCIP, "
        "maxmargin with HiGHS: seconds compare both the number of solves and the solvers."
    )
    sections = [("equal_gap", "To the same gap", rows, notes)]
    if rows2:
        sections.append(
            (
                "signed_and_fixed",
                "Signed and fixed weights",
                rows2,
                "Appearances, disappearances and splits have nonnegative costs; the last constant is fixed "
                "at 1. structsvm supports neither. Bounds exclude the fixed weight's part of the norm.",
            )
        )
    bench.save(TITLE, sections)


if __name__ == "__main__":
    command_line("motile", TITLE, cell, table)
