"""All values of C for little more than the cost of the hardest one: argmax calls on a path and in a grid.

Chains on 2,000 sentences of UD English EWT and on fold 0 of the OCR letters (compiled), and multiclass
classification of 1,500 digits as a task in plain Python.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu

# ruff: isort: split
from typing import Any

from benchmarks import expensive

TITLE = "Paths of C for structures"
TOL, FOLDS = 5e-2, 4
PROBLEMS = {
    "EWT": [1e-3, 1e-2, 1e-1, 1.0],
    "OCR": [1e-4, 1e-3, 1e-2, 1e-1, 1.0],
    "digits, plain Python": [1e-4, 1e-3, 1e-2, 1e-1, 1.0],
}


def load(name: str, quick: bool) -> tuple[Any, list[Any], list[Any]]:
    """(task, inputs, outputs)."""
    import numpy as np
    from tests.tiny_tasks import TinyMulticlass

    from maxmargin.tasks import Chain

    if name.startswith("digits"):
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        n = 100 if quick else 1500
        return TinyMulticlass(), list(X[:n] / 16.0), [int(label) for label in y[:n]]
    X, Y = expensive.load(name, quick)
    if name == "OCR":
        return Chain(26), X, Y
    from maxmargin.data import TokenVectorizer

    rows = TokenVectorizer().fit_transform(X)
    ends = np.cumsum([len(s) for s in X])
    labels = sorted({label for s in Y for label in s})
    X = [rows[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    return Chain(len(labels)), X, [np.array([labels.index(v) for v in s]) for s in Y]


def cell(spec: Cell, bench: Bench) -> Cell:
    """One problem: the path, every C alone, and the folds."""
    from maxmargin import StructuredSVM, StructuredSVMCV, structured_path

    task, X, Y = load(spec["set"], bench.quick)
    Cs = PROBLEMS[spec["set"]]
    structured_path(task, X[:20], Y[:20], Cs[:2])

    def calls(svm: Any) -> float:
        return float(svm.history_[-1]["oracle_calls"])

    began = cpu()
    path = structured_path(task, X, Y, Cs, tol=TOL)
    seconds = cpu() - began
    began = cpu()
    alone = [StructuredSVM(task, C, tol=TOL).fit(X, Y) for C in Cs]
    seconds_alone = cpu() - began
    search = StructuredSVMCV(task, Cs, cv=FOLDS, tol=TOL, refit=False)
    began = cpu()
    search.fit(X, Y)
    return {
        "path": [calls(svm) for svm in path],
        "alone": [calls(svm) for svm in alone],
        "gaps": [svm.gap_ for svm in path],
        "seconds": seconds,
        "seconds_alone": seconds_alone,
        "grid": search.oracle_calls_,
        "seconds_grid": cpu() - began,
        "best": search.best_params_["C"],
        "converged": all(
            bool(search.cv_results_[f"split{k}_converged"].all()) for k in range(FOLDS)
        ),
    }


def table(bench: Bench) -> None:
    """All problems."""
    for name in reversed(PROBLEMS):
        bench.run(name, {"set": name})
        report(bench)


def report(bench: Bench) -> None:
    """Table from the finished cells."""
    rows: list[Row] = []
    for name, Cs in PROBLEMS.items():
        c = bench.get(name)
        if c is None:
            continue
        cells = len(Cs) * FOLDS
        rows.append(
            {
                "problem": name,
                "values of C": len(Cs),
                "path: passes": sum(c["path"]),
                "hardest C alone": max(c["alone"]),
                "ratio": sum(c["path"]) / max(c["alone"]),
                "all alone": sum(c["alone"]),
                "path: CPU s": c["seconds"],
                "all alone: CPU s": c["seconds_alone"],
                "cells": cells,
                "cells: passes": c["grid"],
                "cells: CPU s": c["seconds_grid"],
                "every cell certified": c["converged"] and max(c["gaps"]) <= TOL,
            }
        )
    notes = f"""
*passes* are calls of the argmax per example, to a certified gap of {TOL:g} each. *alone*: independent fits.
*cells*: {FOLDS} folds times the values of C by `StructuredSVMCV`, where a pass over three quarters of the
examples counts as 0.75. The claim: *ratio* is at most 2.
"""
    bench.save(TITLE, [("passes", "Passes of the argmax", rows, notes)])


if __name__ == "__main__":
    command_line("structured_path", TITLE, cell, table)
