"""KernelSVR compared to scikit-learn's SVR (LIBSVM) at equal precision, with the RBF kernel.

Ours certifies a relative gap of 1e-3, its default. Theirs has the loosest tolerance of a ladder for which F,
recomputed from its coefficients, is within 1e-3 of our lower bound; from 20,000 samples on the ladder begins
at 1e-2. Targets: the elevation of covtype's sites
from their other features, the digits of MNIST, and a sum of waves of normal features. Targets are
standardized, and features too, except for pixels; gamma="scale" and epsilon=0.1.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu

# ruff: isort: split
import statistics
import warnings
from functools import cache
from typing import Any

import numpy as np
from sklearn.svm import SVR

from benchmarks import datasets
from maxmargin import KernelSVR

TITLE = "KernelSVR against scikit-learn's SVR at equal precision"
SETS = ("waves 2,000", "covtype 5,000", "MNIST 10,000", "covtype 20,000", "waves 50,000")
CS = (1.0, 10.0)
PRECISION = 1e-3
LADDER = (0.1, 0.03, 1e-2, 1e-3, 1e-4)
#: samples from which the ladder begins at its third step
LONG = 20_000
#: repeats, CPU seconds above which a fit is measured once, and megabytes of kernel values for both
REPEATS, SLOW, MEMORY = 3, 10.0, 1000


@cache
def data(name: str) -> tuple[Any, Any]:
    """Features and standardized targets."""
    kind, n = name.split()[0], int(name.split()[1].replace(",", ""))
    rng = np.random.default_rng(0)
    if kind == "waves":
        X = rng.normal(size=(n, 8))
        y = np.sin(2.0 * X[:, :3]).sum(axis=1) + X[:, 3] ** 2 + 0.5 * rng.standard_t(3, size=n)
    elif kind == "covtype":
        X = datasets.covtype(dense=True).X[rng.choice(581_012, n, replace=False)].astype(float)
        X, y = X[:, 1:], X[:, 0]
        X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)
    else:
        X, y = datasets.mnist("test")
        X = np.asarray(X, dtype=np.float64)
    y = np.asarray(y, dtype=np.float64)
    return np.ascontiguousarray(X), (y - y.mean()) / y.std()


def theirs(C: float, tol: float) -> SVR:
    """scikit-learn's estimator."""
    return SVR(C=C, epsilon=0.1, tol=tol, cache_size=MEMORY)


def ours(C: float) -> KernelSVR:
    """Ours, with the same limit of memory."""
    return KernelSVR(C=C, epsilon=0.1, method="exact", memory=MEMORY * 2**20)


def objective(C: float, fit: SVR, X: Any, y: Any) -> float:
    """F of a fitted model of scikit-learn."""
    scores = fit.predict(X)
    f = scores[fit.support_] - fit.intercept_[0]
    loss = np.maximum(0.0, np.abs(scores - y) - 0.1).sum()
    return float(0.5 * fit.dual_coef_[0] @ f + C * loss)


def _seconds(fit: Any, X: Any, y: Any) -> float:
    began = cpu()
    fit.fit(X, y)
    return cpu() - began


def cell(spec: Cell, bench: Bench) -> Cell:
    """One problem: CPU seconds of both, interleaved."""
    warnings.simplefilter("ignore")
    C = spec["C"]
    X, y = data(spec["set"])
    ours(C).fit(X[:200], y[:200])  # loads the compiled functions
    mine, seconds = ours(C), {"ours": list[float](), "theirs": list[float]()}
    seconds["ours"].append(_seconds(mine, X, y))
    precision, tol = np.inf, LADDER[0]
    for tol in LADDER[2:] if len(y) >= LONG else LADDER:
        peer = theirs(C, tol)
        took = _seconds(peer, X, y)
        precision = objective(C, peer, X, y) / mine.lower_bound_ - 1.0
        if precision <= PRECISION:
            break
    seconds["theirs"].append(took)
    for _ in range(REPEATS - 1 if took < SLOW else 0):
        seconds["ours"].append(_seconds(ours(C), X, y))
        seconds["theirs"].append(_seconds(theirs(C, tol), X, y))
    return {
        "gap": mine.gap_,
        "support": len(mine.support_),
        "values": mine.kernel_values_ / len(y) ** 2,
        "tol": tol,
        "precision": precision,
        **seconds,
    }


def table(bench: Bench) -> None:
    """All problems."""
    rows: list[Row] = []
    for name in SETS[:1] if bench.quick else SETS:
        for C in CS[:1] if "50,000" in name else CS:  # theirs takes minutes
            found = bench.run(f"{name} {C:g}", {"set": name, "C": C})
            mine, peer = statistics.median(found["ours"]), statistics.median(found["theirs"])
            rows.append(
                {
                    "data": name,
                    "C": C,
                    "ours s": mine,
                    "theirs s": peer,
                    "ratio": round(peer / mine, 2),
                    "our certified gap": found["gap"],
                    "their tol": found["tol"],
                    "their precision": found["precision"],
                    "support vectors": found["support"],
                    "kernel values / n^2": round(found["values"], 2),
                }
            )
    slower = [row for row in rows if row["ratio"] < 1.0]
    notes = f"""
*ratio* is theirs / ours: above 1 ours is faster. **Ours is slower in {len(slower)} of {len(rows)} rows.**
CPU seconds of one thread, medians of {REPEATS} (1 where theirs takes more than {SLOW:g} s), interleaved. Both
may use {MEMORY} MB for kernel values. *their precision* is relative to our lower bound; scikit-learn gives no
bound, and finding the tolerance is not counted. From 20,000 samples on, the ladder of their tolerances begins
at 1e-2: on covtype 20,000, theirs takes as long at 0.03 (24.7 and 33.1 s).
"""
    bench.save(TITLE, [("fits", "Fits", rows, notes)])


if __name__ == "__main__":
    command_line("kernel_regression", TITLE, cell, table)
