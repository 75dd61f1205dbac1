"""The multiclass part of the table of the cutting-plane paper: 1-slack, n-slack, line searches, the default.

Every class is a listed candidate with the features of the sample in its own block (``tasks.Enumerable``), so
that all solvers see the same structured problem. Covertype (7 classes) at growing sizes up to that of the
paper, with C_mean = n C fixed as there, and MNIST (10 classes), to a certified gap of 0.01, at most 3,000
passes and 300 CPU seconds.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu

# ruff: isort: split
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from benchmarks import datasets
from benchmarks.problems import Watch

TITLE = "Solvers for structures: multiclass"
TOL, PASSES, LIMIT = 1e-2, 3000, 300.0
#: rows, C_mean
SETS = {
    "covtype 3k": (3_000, 1000.0),
    "covtype 10k": (10_000, 1000.0),
    "covtype 30k": (30_000, 1000.0),
    "covtype 100k": (100_000, 1000.0),
    "covtype 523k": (522_911, 1000.0),
    "mnist 2k": (2_000, 1000.0),
    "mnist 10k": (10_000, 1000.0),
}
METHODS = {
    "1-slack": "CuttingPlane(use_cache=False, line_search=False)",
    "1-slack + cache": "CuttingPlane(use_cache=True, line_search=False)",
    "OCA on the cached model": "CuttingPlane()",
    "OCA, exact lines": "CuttingPlane() on ScoreRisk(X, y, losses.CandidateHinge())",
    "n-slack": 'DualCoordinate(batch_size="all")',
    "default": "DualCoordinate()",
    "LinearSVC": "LinearSVC(), the same problem as a loss of scores with its own default solver",
}


class Data(NamedTuple):
    """Samples, with a constant feature, and classes 0 .. K-1; and test samples."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any
    K: int


def load(name: str, quick: bool) -> Data:
    """Random samples."""
    n = SETS[name][0] if not quick else 300
    if name.startswith("covtype"):
        X, y = datasets.covtype()
        y = y - 1
    else:
        X, y = datasets.mnist(sparse=True)
    X = sp.csr_matrix(sp.hstack([X, np.ones((X.shape[0], 1))], format="csr"))
    rows = np.random.default_rng(0).permutation(X.shape[0])
    train, test = rows[:n], rows[-10_000:]  # disjoint: the data sets are larger than both together
    return Data(X[train], y[train], X[test], y[test], int(y.max()) + 1)


def candidates(data: Data) -> Any:
    """Every sample K times, once in the block of each class."""
    n, d = data.X.shape
    X = data.X[np.repeat(np.arange(n), data.K)]
    block = np.repeat(np.tile(np.arange(data.K), n), np.diff(X.indptr))
    indices = X.indices.astype(np.int32) + np.int32(d) * block.astype(np.int32)
    return sp.csr_matrix((X.data, indices, X.indptr), (n * data.K, d * data.K))


def solver(name: str) -> Any:
    """The solver object."""
    from maxmargin.solvers import CuttingPlane, DualCoordinate

    return {
        "1-slack": CuttingPlane(use_cache=False, line_search=False),
        "1-slack + cache": CuttingPlane(use_cache=True, line_search=False),
        "OCA on the cached model": CuttingPlane(),
        "OCA, exact lines": CuttingPlane(),
        "n-slack": DualCoordinate(batch_size="all"),
        "default": DualCoordinate(),
    }[name]


def risk(data: Data, method: str) -> Any:
    """The problem in the form required by the method."""
    from maxmargin.losses import CandidateHinge
    from maxmargin.risks import ScoreRisk, TaskRisk
    from maxmargin.tasks import Enumerable
    from maxmargin.tasks.enumerable_examples import EnumerableExamples

    X, counts = candidates(data), np.full(len(data.y), data.K)
    labels = CandidateHinge.labels(counts, data.y)
    if method == "OCA, exact lines":
        return ScoreRisk(X, labels, CandidateHinge())
    examples = EnumerableExamples(X, counts, data.y, labels[:, 1])
    return TaskRisk(Enumerable(), (), (), X.shape[1], examples=examples)


def fit(data: Data, method: str, C: float, watch: Watch) -> Cell:
    """One fit, by the estimator or the solver."""
    from maxmargin import LinearSVC, minimize
    from maxmargin.solvers import RelativeGap

    if method == "LinearSVC":
        began = cpu()
        joint = {"multi_class": "crammer_singer", "fit_intercept": False}
        svc = LinearSVC(C=C, tol=TOL, callbacks=[watch], **joint).fit(data.X, data.y)
        last = svc.history_[-1]
        out = {"gap": svc.gap_, "objective": svc.objective_, "stop": svc.stop_reason_}
        weights = np.zeros((data.K, data.X.shape[1]))
        weights[svc.classes_] = svc.coef_  # a few rows may miss a class
        passes, active = last["oracle_calls"], last["n_active"]
        iterations, seconds = svc.n_iter_, cpu() - began
    else:
        problem = risk(data, method)
        watch.began = began = cpu()
        result = minimize(
            problem, C, solver=solver(method), stopping=RelativeGap(TOL), callbacks=[watch]
        )
        seconds, record = cpu() - began, result.history[-1]
        out = {"gap": result.gap, "objective": result.objective, "stop": result.stop_reason}
        weights, passes, active = result.w, record.oracle_calls, record.n_active
        iterations = result.n_iter
    scores = data.X_test @ np.reshape(weights, (data.K, -1)).T
    return {
        **out,
        "passes": passes,
        "iterations": iterations,
        "support": active,
        "seconds": seconds,
        "accuracy": float(np.mean(scores.argmax(axis=1) == data.y_test)),
    }


def cell(spec: Cell, bench: Bench) -> Cell:
    """Warm up on a few rows, then fit."""
    data = load(spec["set"], bench.quick)
    some = data._replace(X=data.X[:200], y=data.y[:200])
    fit(some, spec["method"], 1.0, Watch(5.0, 30))
    watch = Watch(5.0 if bench.quick else LIMIT, PASSES)
    C = SETS[spec["set"]][1] / len(data.y)
    out = fit(data, spec["method"], C, watch)
    if out["stop"] == "callback":
        out["stop"] = "3,000 passes" if out["passes"] >= PASSES else "CPU limit"
    return {**out, "C": C}


def table(bench: Bench) -> None:
    """All fits."""
    for name in sorted(SETS, key=lambda name: SETS[name][0]):  # the small ones first
        for method in reversed(METHODS):
            bench.run(f"{name} {method}", {"set": name, "method": method})
        report(bench)


def report(bench: Bench) -> None:
    """Table from the finished cells."""
    rows: list[Row] = []
    for name in SETS:
        for method in METHODS:
            c = bench.get(f"{name} {method}")
            if c and "error" not in c:
                rows.append(
                    {
                        "set": name,
                        "solver": method,
                        "gap": c["gap"],
                        "stop": c["stop"],
                        "iterations": c["iterations"],
                        "oracle calls": f"{c['passes']:.1f}",
                        "CPU s": c["seconds"],
                        "support vectors": c["support"],
                        "objective": f"{c['objective']:.6g}",
                        "test accuracy %": f"{100 * c['accuracy']:.2f}",
                    }
                )
    called = "\n".join(f"- **{m}**: `{code}`" for m, code in METHODS.items())
    notes = f"""
{len(rows)} of {len(SETS) * len(METHODS)} planned fits were measured. C_mean = n C = 1000 everywhere;
0/1 loss; a constant feature.
Stops: gap {TOL:g}, {PASSES:,} passes, or {LIMIT:.0f} CPU seconds (checked once per iteration).
*oracle calls* are per sample. *support vectors* are planes with a positive dual variable: cuts for cutting
planes, (sample, class) pairs for the dual coordinate solvers, samples for LinearSVC. Test accuracy is on
10,000 other samples.

{called}
"""
    bench.save(TITLE, [("passes", f"To a certified gap of {TOL:g}", rows, notes)])


if __name__ == "__main__":
    command_line("multiclass_solvers", TITLE, cell, table)
