"""Landmarks: KernelSVC(method="nystrom") compared to scikit-learn's Nystroem, as a map and with its
LinearSVC.

    python -m benchmarks.nystrom

Both use the same kernel, the same C and the same number of landmarks, which each draws itself; F is computed
in double precision for the function in the whole kernel space (with an unpenalized intercept; LIBLINEAR,
which penalizes it, gains nothing from this).
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, command_line, cpu, peak_memory_gb

# ruff: isort: split
import resource
import warnings
from typing import Any

import numpy as np

from benchmarks.datasets import DatasetMissing
from benchmarks.kernel_cells import CELLS, PROBLEMS, load

#: cells of the kernel benchmark, and landmarks
WORK = {
    "checkerboard-50k": 300,
    "checkerboard-200k": 300,
    "checkerboard-1m": 300,
    "a9a": 1000,
    "ijcnn1": 1000,
    "covtype-50k": 1000,
    "mnist-60k": 1000,
}
QUICK = {"checkerboard-50k": 100}
WAYS = ("ours", "their map, our solver", "theirs")
#: CPU limit of a fit in seconds
LIMIT = 300
BLOCK = 4096


def _objective(X: Any, y: Any, B: Any, coef: Any, bias: float, gamma: float, C: float) -> float:
    """F of the function over the rows B, a block of rows at a time."""
    from sklearn.metrics.pairwise import rbf_kernel

    risk = 0.0
    for lo in range(0, len(X), BLOCK):
        scores = rbf_kernel(X[lo : lo + BLOCK], B, gamma=gamma) @ coef + bias
        risk += float(np.maximum(0.0, 1.0 - y[lo : lo + BLOCK] * scores).sum())
    return 0.5 * float(coef @ rbf_kernel(B, B, gamma=gamma) @ coef) + C * risk


def _ours(X: Any, y: Any, k: int, gamma: float, C: float) -> tuple[Any, ...]:
    from maxmargin import KernelSVC
    from maxmargin.kernels import Nystrom

    model = KernelSVC(C, gamma=gamma, method=Nystrom(k)).fit(X, y)
    found = (model.support_vectors_, model.dual_coef_[0], float(model.intercept_[0]))
    return *found, {"gap": model.restricted_gap_, "claimed": model.objective_}


def _theirs(X: Any, y: Any, k: int, gamma: float, C: float, solver: str) -> tuple[Any, ...]:
    from sklearn.kernel_approximation import Nystroem
    from sklearn.svm import LinearSVC as Liblinear

    from maxmargin import LinearSVC

    features = Nystroem(gamma=gamma, n_components=k, random_state=0)
    began = cpu()
    Z = features.fit_transform(X)
    extra: Cell = {"map": cpu() - began}
    linear: Any
    if solver == "theirs":
        linear = Liblinear(C=C, loss="hinge", random_state=0).fit(Z, y)
        extra["converged"] = bool(linear.n_iter_ < linear.max_iter)
    else:
        linear = LinearSVC(C=C, penalize_intercept=False, loss="hinge").fit(Z, y)
        extra["gap"] = linear.gap_
    coef = features.normalization_.T @ linear.coef_[0]
    return features.components_, coef, float(linear.intercept_[0]), extra


def cell(spec: Cell, bench: Bench) -> Cell:
    """One fit."""
    warnings.simplefilter("ignore")
    try:
        rows = load(spec["cell"], 0)
    except DatasetMissing as missing:
        return {"error": str(missing)}
    problem, k = PROBLEMS[CELLS[spec["cell"]][0]], spec["k"]
    gamma, C = problem.gamma, problem.C
    fit = {
        "ours": _ours,
        "theirs": lambda *a: _theirs(*a, "theirs"),
        "their map, our solver": lambda *a: _theirs(*a, "ours"),
    }[spec["way"]]
    fit(rows.X[:500], rows.y[:500], min(k, 50), gamma, C)  # load the compiled functions
    held = peak_memory_gb()
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu()) + LIMIT, resource.RLIM_INFINITY))
    began = cpu()
    B, coef, bias, extra = fit(rows.X, rows.y, k, gamma, C)
    seconds, peak = cpu() - began, peak_memory_gb()
    resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    wrong = 0
    from sklearn.metrics.pairwise import rbf_kernel

    for lo in range(0, len(rows.X_test), BLOCK):
        scores = rbf_kernel(rows.X_test[lo : lo + BLOCK], B, gamma=gamma) @ coef + bias
        wrong += int((np.where(scores > 0, 1, -1) != rows.y_test[lo : lo + BLOCK]).sum())
    F = _objective(rows.X, rows.y, B, coef, bias, gamma, C)
    return {
        "seconds": seconds, "memory": peak, "held": held, "F": F, "landmarks": len(B),
        "error": None, "wrong": wrong / len(rows.X_test), **extra,
    }  # fmt: skip


def table(bench: Bench) -> None:
    """All cells."""
    work = QUICK if bench.quick else WORK
    for name, k in work.items():
        for way in WAYS:
            bench.run(f"{name} {way}", {"cell": name, "way": way, "k": k})
    report(bench)


def report(bench: Bench) -> None:
    """Table from the finished cells. A killed fit leaves no cell."""
    out = []
    for name, k in (QUICK if bench.quick else WORK).items():
        done = {way: bench.get(f"{name} {way}") for way in WAYS}
        ours = done["ours"]
        if ours is None or ours.get("error"):
            continue
        for way, one in done.items():
            one = one or {}
            out.append(
                {
                    "data": name,
                    "k": k,
                    "who": way,
                    "s": one.get("seconds"),
                    "of that the map": one.get("map"),
                    "test error": one.get("wrong"),
                    "F / ours": one["F"] / ours["F"] if "F" in one else None,
                    "gap": one.get("gap"),
                    "peak GB": one.get("memory"),
                    "of that rows": one.get("held"),
                }
            )
    bench.save(
        "Landmarks, against scikit-learn's Nystroem", [("landmarks", "One thread", out, NOTES)]
    )


NOTES = f"""
"theirs": `Nystroem(n_components=k)` and `LinearSVC(loss="hinge")`, whose intercept is penalized and whose
tolerance gives no bound; it stops after 1,000 iterations, converged or not, or here after {LIMIT} s.
"their map, our solver": the same features, then `maxmargin.LinearSVC(penalize_intercept=False)`. "gap" is
that of the restricted problem. Peak memory includes the training and test data, in double precision. A row
without figures was killed or has not been run.
"""


if __name__ == "__main__":
    command_line("nystrom", "Landmarks, against scikit-learn's Nystroem", cell, table)
