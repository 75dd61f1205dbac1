"""Expensive oracles: number of argmax calls to a certified gap, streaming and in expensive mode.

SequenceTagger on 2,000 sentences of UD English EWT (parts of speech, C = 0.1) and on fold 0 of the OCR
letters (C = 0.01), to certified gaps of 1e-1, 1e-2 and 1e-3. The argmax of a chain is cheap; here it
represents an expensive one, so passes are the relevant measure, and CPU seconds show the cost of the working
sets.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu

# ruff: isort: split
from typing import Any

from benchmarks import datasets

TITLE = "Expensive oracles"
PROBLEMS = {"EWT": 0.1, "OCR": 0.01}
TOLS = (1e-1, 1e-2, 1e-3)
METHODS: dict[str, dict[str, Any]] = {
    "cheap (the default)": {},
    "cheap, batches of 16": {"batch_size": 16},
    "n-slack": {"batch_size": "all"},
    "expensive, one at a time": {"oracle": "expensive", "batch_size": 1},
    "expensive, batches of 4": {"oracle": "expensive"},
    "expensive, batches of 16": {"oracle": "expensive", "batch_size": 16},
    "expensive, batches of 64": {"oracle": "expensive", "batch_size": 64},
}


def load(name: str, quick: bool) -> tuple[list[Any], list[Any]]:
    """Inputs and label sequences."""
    if name == "EWT":
        sentences = datasets.ud_ewt("train")[: 100 if quick else 2000]
        X = [datasets.token_features(s, pos=False) for s in sentences]
        return X, [[token[1] for token in s] for s in sentences]
    X, Y, folds = datasets.ocr_letters()
    some = [i for i in range(len(X)) if folds[i] == 0][: 100 if quick else None]
    return [X[i] for i in some], [Y[i] for i in some]


def cell(spec: Cell, bench: Bench) -> Cell:
    """The fits of one method on one problem, one per tolerance."""
    from maxmargin import SequenceTagger
    from maxmargin.solvers import DualCoordinate

    X, y = load(spec["set"], bench.quick)
    solver = DualCoordinate(**METHODS[spec["method"]])
    SequenceTagger(C=0.1, tol=0.1, solver=solver, max_iter=10).fit(X[:20], y[:20])
    out = []
    for tol in TOLS:
        tagger = SequenceTagger(C=PROBLEMS[spec["set"]], tol=tol, solver=solver, max_iter=150)
        began = cpu()
        tagger.fit(X, y)
        last = tagger.history_[-1]
        out.append(
            {
                "passes": last["oracle_calls"] if tagger.converged_ else None,
                "seconds": cpu() - began,
                "sets": sum(r["seconds_qp"] for r in tagger.history_),
                "gap": tagger.gap_,
            }
        )
    return {"fits": out}


def table(bench: Bench) -> None:
    """All fits, those with the most concurrent calls first: they are the cheapest here."""
    for method in reversed(METHODS):
        for name in reversed(PROBLEMS):
            bench.run(f"{name} {method}", {"set": name, "method": method})
            report(bench)


def report(bench: Bench) -> None:
    """Table from the finished cells."""
    rows: list[Row] = []
    for name in PROBLEMS:
        for method in METHODS:
            c = bench.get(f"{name} {method}")
            if c is None:
                continue
            row: Row = {"problem": name, "method": method}
            for tol, fit in zip(TOLS, c["fits"], strict=True):
                row[f"passes to {tol:g}"] = fit["passes"]
                row[f"CPU s to {tol:g}"] = fit["seconds"]
            rows.append(row)
    notes = """
*passes* are calls of the argmax per example, including confirming passes; – means not reached within 150
iterations. The last evaluation of a fit is not counted; with `oracle="expensive"` there is none, because all
examples were just evaluated at the returned point. *at a time*: calls with the same weights, which that many
workers can make concurrently. CPU seconds include reading the features, about a second on EWT. Missing rows
were not measured. The savings are modest if streaming needs few passes already.
"""
    bench.save(TITLE, [("passes", "Passes to a certified gap", rows, notes)])


if __name__ == "__main__":
    command_line("expensive_oracles", TITLE, cell, table)
