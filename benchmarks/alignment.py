"""Alignment on real proteins: scores learned from CB513's alignments against the usual fixed ones.

A pair is the first 60 positions of a CB513 protein and of one of its relatives, as its multiple alignment
pairs them; train and test pairs come from different proteins. Accuracy is the share of the true pairs of
positions that are found, averaged over pairs of sequences, and F1 counts wrong ones too. The fixed scores are
+1 for equal symbols, -1 for others, and -1 per gap. The task is that of
``examples/structures/plot_alignment.py``;
linear gaps fix the score of a run of gaps to zero.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu

# ruff: isort: split
import json
import lzma
from typing import Any

import numpy as np

from benchmarks import datasets
from benchmarks.examples import definitions

TITLE = "Alignment of proteins"
POSITIONS, TRAIN, TEST = 60, 150, 100
SOLVERS = {
    "default": "DualCoordinate()",
    "1-slack + cache": "CuttingPlane(use_cache=True, line_search=False, mu=1.0)",
    "OCA + cache": "CuttingPlane()",
}
TOL, C = 1e-2, 0.03


def pairs(count: int, start: int) -> list[tuple[Any, Any]]:
    """Pairs of sequences with their alignment, one per protein, from this protein on."""
    out: list[tuple[Any, Any]] = []
    with lzma.open(datasets.find("bio/cb513.jsonl.xz"), "rt") as file:
        proteins = [json.loads(line) for line in file]
    for protein in proteins[start:]:
        rows = [row[:POSITIONS].replace(".", "-") for row in protein["align"][:6]]
        # the relative with the most gaps: without any, there is nothing to align
        gaps = [row.count("-") if row.count("-") < POSITIONS // 2 else -1 for row in rows[1:]]
        if gaps and max(gaps) > 0:
            out.append(_aligned(rows[0], rows[1 + int(np.argmax(gaps))]))
        if len(out) == count:
            return out
    return out


def _aligned(top: str, bottom: str) -> tuple[Any, Any]:
    """Two sequences, and their pairs of positions, from two rows with gaps."""
    upper, lower = (np.array([s != "-" for s in row]) for row in (top, bottom))
    pairs = np.column_stack([np.cumsum(upper) - 1, np.cumsum(lower) - 1])[upper & lower]
    return (top.replace("-", ""), bottom.replace("-", "")), pairs


def found(truth: Any, guess: Any) -> tuple[float, float]:
    """Recall and F1 of pairs of positions."""
    right = len({tuple(p) for p in truth.tolist()} & {tuple(p) for p in guess.tolist()})
    return right / max(1, len(truth)), 2 * right / max(1, len(truth) + len(guess))


def cell(spec: Cell, bench: Bench) -> Cell:
    """One fit, or the fixed scores."""
    from maxmargin import StructuredSVM
    from maxmargin.solvers import CuttingPlane, DualCoordinate

    solvers = {
        "default": DualCoordinate(),
        "1-slack + cache": CuttingPlane(use_cache=True, line_search=False, mu=1.0),
        "OCA + cache": CuttingPlane(),
    }
    count = (15, 10) if bench.quick else (TRAIN, TEST)
    train, test = pairs(count[0], 0), pairs(count[1], 300)
    symbols = sorted({s for (a, b), _ in train + test for s in a + b})
    task = definitions("plot_alignment").Alignment(symbols)
    fixed = None if spec["affine"] else {task.dim - 1: 0.0}
    if spec["solver"] == "fixed":
        w = np.full(task.dim, -1.0)
        w[np.diag(task.index)], w[-1] = 1.0, 0.0
        guesses = [task.inference(x, w) for x, _ in test]
        return {"recall": _mean(test, guesses, 0), "F1": _mean(test, guesses, 1)}
    X, Y = map(list, zip(*train, strict=True))
    options = {"solver": solvers[spec["solver"]], "fixed": fixed}
    svm = StructuredSVM(task, C, tol=TOL, max_seconds=300, **options)
    StructuredSVM(task, C, tol=0.5, **options).fit(X[:5], Y[:5])
    began = cpu()
    svm.fit(X, Y)
    guesses = svm.predict([x for x, _ in test])
    return {
        "seconds": cpu() - began,
        "gap": svm.gap_,
        "passes": svm.history_[-1]["oracle_calls"],
        "support": svm.history_[-1]["n_active"],
        "certificate": svm.certificate_,
        "recall": _mean(test, guesses, 0),
        "F1": _mean(test, guesses, 1),
    }


def _mean(test: list[tuple[Any, Any]], guesses: list[Any], which: int) -> float:
    return float(np.mean([found(y, g)[which] for (_, y), g in zip(test, guesses, strict=True)]))


def table(bench: Bench) -> None:
    """All fits."""
    rows: list[Row] = []
    for affine in (False, True):
        for name in ("fixed", *SOLVERS):
            if affine and name == "fixed":
                continue
            spec = {"solver": name, "affine": affine}
            c = bench.inline(f"{name} affine {affine}", lambda spec=spec: cell(spec, bench))
            rows.append(
                {
                    "scores": "fixed" if name == "fixed" else f"learned, {name}",
                    "affine gaps": affine,
                    "gap": c.get("gap"),
                    "oracle calls": c.get("passes"),
                    "support vectors": c.get("support"),
                    "CPU s": c.get("seconds"),
                    "test recall %": f"{100 * c['recall']:.1f}",
                    "test F1 %": f"{100 * c['F1']:.1f}",
                }
            )
    called = "\n".join(f"- **{name}**: `{code}`" for name, code in SOLVERS.items())
    notes = f"""
{TRAIN} training pairs and {TEST} test pairs of at most {POSITIONS} positions; C = {C:g}, not tuned; to a
certified gap of {TOL:g}. *oracle calls* are per pair of sequences. The true alignments are those
of the data set, which a program computed.

{called}
"""
    bench.save(TITLE, [("proteins", "Learned against fixed scores", rows, notes)])


if __name__ == "__main__":
    command_line("alignment", TITLE, cell, table)
