"""Counts of work for some thirty small fits, which do not depend on how busy the machine is.

    python -m benchmarks.guard              compare with the recorded counts; 1 if any is too large
    python -m benchmarks.guard --record     record anew, in results/guard.csv

A test compares them in CI (``tests/performance/test_guard.py``). Every fit is run three times: the first one
compiles and fills caches, the second one is counted by Python's profiler, the third one by tracemalloc.

    iterations, passes     ``n_iter_``, and ``oracle_calls`` of the last record (passes over the data)
    kernel values          ``kernel_values_`` of kernel machines
    calls                  Python functions called, without those of other libraries
    all calls              with those of other libraries
    peak kB                largest memory that Python and NumPy allocated during the fit

Iterations may differ by one and counts of work by 10 % on another processor, because the last bits of sums
do. Calls may differ by 5 %, or 15 % with those of other libraries, whose versions differ; memory by 20 %.
"""

from __future__ import annotations

from benchmarks.common import HERE, markdown

# ruff: isort: split
import argparse
import csv
import gc
import sys
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import maxmargin as mm
from maxmargin import solvers, tasks

FILE = HERE / "results" / "guard.csv"
LIBRARY = str(Path(mm.__file__).resolve().parent)
#: per count: the relative and the absolute excess that is allowed
ALLOWED = {
    "iterations": (0.1, 1.0),
    "passes": (0.1, 1.0),
    "kernel values": (0.1, 100.0),
    "calls": (0.05, 10.0),
    "all calls": (0.15, 20.0),
    "peak kB": (0.2, 20.0),
}
#: each also below this fraction of the record is worth a new record
BETTER = 0.7
Counts = dict[str, float]


def rows(n: int = 100, d: int = 10, K: int = 2) -> tuple[Any, Any]:
    """Samples with noisy linear labels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, (X @ rng.normal(size=(d, K)) + rng.normal(size=(n, K))).argmax(axis=1)


def targets(n: int = 100, d: int = 10) -> tuple[Any, Any]:
    """Samples with noisy linear targets."""
    X, _ = rows(n, d)
    return X, X @ np.arange(1.0, d + 1.0) + np.random.default_rng(1).normal(size=n)


def sparse(n: int = 2000, d: int = 3000) -> tuple[Any, Any]:
    """Sparse samples."""
    X = sp.random(n, d, 0.01, format="csr", random_state=0)
    return X, (X @ np.random.default_rng(1).normal(size=d) > 0).astype(int)


def sentences(n: int = 60) -> tuple[Any, Any]:
    """Sequences of tokens with named features."""
    rng = np.random.default_rng(2)
    y = [rng.integers(0, 3, size=rng.integers(2, 9)).tolist() for _ in range(n)]
    return [[[f"w{(3 * t + rng.integers(4)) % 9}"] for t in labels] for labels in y], y


def queries() -> tuple[Any, Any, Any]:
    """Documents of twelve queries."""
    X, _ = rows(120, 6)
    return X, np.digitize(X @ np.arange(6.0), [-3.0, 3.0]).astype(float), np.repeat(range(12), 10)


def graphs() -> tuple[Any, Any]:
    """Cycles of five nodes."""
    rng = np.random.default_rng(4)
    edges = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [0, 4]])
    X = [(rng.normal(size=(5, 3)), edges, np.ones((5, 1))) for _ in range(15)]
    return X, [(x[0] + 0.7 * rng.normal(size=(5, 3))).argmax(axis=1) for x in X]


def fits() -> dict[str, Callable[[], Any]]:
    """All fits, by name."""
    small, large, many, wide = rows(), rows(5000, 20), rows(300, 10, 4), sparse()
    line, words, kernel, chains = targets(), sentences(), rows(400, 5), _chains()
    squared = "squared_epsilon_insensitive"
    out: dict[str, Callable[[], Any]] = {
        f"LinearSVC {loss} C={C:g}": lambda loss=loss, C=C: mm.LinearSVC(C=C, loss=loss).fit(*small)
        for loss in ("hinge", "squared_hinge")
        for C in (0.01, 1.0, 100.0)
    }
    out |= {
        f"KernelSVC C={C:g}": lambda C=C: mm.KernelSVC(C=C).fit(*small) for C in (0.01, 1.0, 100.0)
    }
    return out | {
        "LinearSVC 50 rows": lambda: mm.LinearSVC(loss="hinge").fit(*rows(50)),
        "LinearSVC 1000 rows": lambda: mm.LinearSVC(loss="hinge").fit(*rows(1000)),
        "LinearSVC 5000 rows": lambda: mm.LinearSVC(C=0.1, loss="hinge").fit(*large),
        "LinearSVC sparse": lambda: mm.LinearSVC(loss="hinge").fit(*wide),
        "LinearSVC four classes": lambda: mm.LinearSVC(multi_class="crammer_singer").fit(*many),
        "LinearSVC one-vs-rest": lambda: mm.LinearSVC(multi_class="ovr", loss="hinge").fit(*many),
        "LinearSVC free intercept": lambda: mm.LinearSVC(
            penalize_intercept=False, loss="hinge"
        ).fit(*small),
        "LinearSVC coordinates": lambda: mm.LinearSVC(
            solver=solvers.DualCoordinate(), loss="hinge"
        ).fit(*large),
        "LinearSVC planes": lambda: mm.LinearSVC(
            C=0.1, solver=solvers.CuttingPlane(), loss="hinge"
        ).fit(*large),
        "LinearSVR": lambda: mm.LinearSVR(epsilon=0.1).fit(*line),
        "LinearSVR squared": lambda: mm.LinearSVR(epsilon=0.1, loss=squared).fit(*line),
        "LinearSVCCV": lambda: mm.LinearSVCCV(Cs=[0.01, 1.0, 100.0], cv=3, loss="hinge").fit(
            *small
        ),
        "MeasureSVC f1": lambda: mm.MeasureSVC(measure="f1").fit(*rows(400)),
        "MeasureSVC roc_auc": lambda: mm.MeasureSVC(measure="roc_auc").fit(*rows(400)),
        "RankSVM": lambda: mm.RankSVM().fit(*queries()[:2], groups=queries()[2]),
        "KernelSVC 400 rows": lambda: mm.KernelSVC().fit(*kernel),
        "KernelSVC landmarks": lambda: mm.KernelSVC(method="nystrom", random_state=0).fit(*kernel),
        "SequenceTagger": lambda: mm.SequenceTagger(0.5).fit(*words),
        "SequenceTagger planes": lambda: mm.SequenceTagger(0.5, solver=solvers.CuttingPlane()).fit(
            *words
        ),
        "StructuredSVM chain": lambda: mm.StructuredSVM(tasks.Chain(3, 4)).fit(*chains),
        "GraphLabeler": lambda: mm.GraphLabeler().fit(*graphs()),
    }


def _chains() -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    X = [rng.normal(size=(rng.integers(2, 7), 4)) for _ in range(25)]
    return X, [(x[:, :3] + 0.5 * rng.normal(size=(len(x), 3))).argmax(axis=1) for x in X]


def count(fit: Callable[[], Any]) -> Counts:
    """The counts of one fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit()
        own, others, fitted = _calls(fit)
        peak = _peak(fit)
    record = (getattr(fitted, "history_", None) or [{}])[-1]
    return {
        "iterations": float(getattr(fitted, "n_iter_", 0)),
        "passes": round(float(record.get("oracle_calls", 0.0)), 2),
        "kernel values": float(getattr(fitted, "kernel_values_", 0)),
        "calls": float(own),
        "all calls": float(own + others),
        "peak kB": round(peak / 1000),
    }


def _calls(fit: Callable[[], Any]) -> tuple[int, int, Any]:
    """Python functions of the library and of others that a fit calls."""
    counted = [0, 0]

    def see(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            counted[not frame.f_code.co_filename.startswith(LIBRARY)] += 1

    gc.collect()
    gc.disable()  # collections would run finalizers of other objects
    before = sys.getprofile()
    sys.setprofile(see)
    try:
        fitted = fit()
    finally:
        sys.setprofile(before)
        gc.enable()
    return counted[0], counted[1], fitted


def _peak(fit: Callable[[], Any]) -> int:
    """Largest memory allocated during a fit, in bytes."""
    gc.collect()
    tracemalloc.start()
    try:
        fit()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def measure(only: str = "") -> dict[str, Counts]:
    """The counts of all fits with this in their name."""
    return {name: count(fit) for name, fit in fits().items() if only in name}


def recorded() -> dict[str, Counts]:
    """The committed counts."""
    with FILE.open(newline="") as file:
        return {
            row.pop("fit"): {name: float(value) for name, value in row.items()}
            for row in csv.DictReader(file)
        }


def excess(name: str, found: Counts, before: dict[str, Counts]) -> list[str]:
    """What a fit does more of than recorded, in words."""
    if name not in before:
        return [f"{name}: not recorded"]
    out = []
    for what, (relative, absolute) in ALLOWED.items():
        old, new = before[name][what], found[what]
        if new > old + max(relative * old, absolute):
            out.append(f"{name}: {new:g} {what}, recorded {old:g}")
    return out


def main() -> int:
    """Record, or compare."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guard", description=__doc__)
    parser.add_argument("--record", action="store_true", help="write results/guard.csv anew")
    parser.add_argument("--only", default="", help="fits with this in their name")
    options = parser.parse_args()
    found = measure(options.only)
    table = [{"fit": name, **{k: f"{v:g}" for k, v in row.items()}} for name, row in found.items()]
    if options.record:
        with FILE.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(table)
        print("\n".join(markdown(table)))
        return 0
    before, wrong = recorded(), 0
    for name, counts in found.items():
        worse = excess(name, counts, before)
        wrong += bool(worse)
        for line in worse:
            print(line)
        for what, new in counts.items() if name in before else ():
            if new < BETTER * before[name][what]:
                print(f"{name}: only {new:g} {what}, recorded {before[name][what]:g}")
    print(f"{len(found) - wrong} of {len(found)} fits do no more than recorded")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
