"""Alignment on real proteins: scores learned from CB513's alignments against the usual fixed ones.

A pair is the first 60 positions of a CB513 protein and of one of its relatives, as its multiple alignment
pairs them; train and test pairs come from different proteins. Accuracy is the share of the true pairs of
positions that are found, averaged over pairs of sequences, and F1 counts wrong ones too. The fixed scores are
+1 for equal symbols, -1 for others, and -1 per gap.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu

# ruff: isort: split
import json
import lzma
from typing import Any

import numpy as np

from benchmarks import datasets

TITLE = "Alignment of proteins"
POSITIONS, TRAIN, TEST = 60, 150, 100
SOLVERS = {
    "default": "DualCoordinate()",
    "1-slack + cache": "CuttingPlane(line_search=False, mu=1.0)",
    "OCA + cache": "CuttingPlane()",
}
TOL, C = 1e-2, 0.03


def pairs(count: int, start: int) -> list[tuple[Any, Any]]:
    """Pairs of sequences with their alignment, one per protein, from this protein on."""
    from maxmargin.tasks import Alignment

    out: list[tuple[Any, Any]] = []
    with lzma.open(datasets.find("bio/cb513.jsonl.xz"), "rt") as file:
        proteins = [json.loads(line) for line in file]
    for protein in proteins[start:]:
        rows = [row[:POSITIONS].replace(".", "-") for row in protein["align"][:6]]
        # the relative with the most gaps: without any, there is nothing to align
        gaps = [row.count("-") if row.count("-") < POSITIONS // 2 else -1 for row in rows[1:]]
        if gaps and max(gaps) > 0:
            out.append(Alignment.from_rows(rows[0], rows[1 + int(np.argmax(gaps))]))
        if len(out) == count:
            return out
    return out


def found(truth: Any, guess: Any) -> tuple[float, float]:
    """Recall and F1 of pairs of positions."""
    right = len({tuple(p) for p in truth.tolist()} & {tuple(p) for p in guess.tolist()})
    return right / max(1, len(truth)), 2 * right / max(1, len(truth) + len(guess))


def cell(spec: Cell, bench: Bench) -> Cell:
    """One fit, or the fixed scores."""
    from maxmargin import StructuredSVM
    from maxmargin.solvers import CuttingPlane, DualCoordinate
    from maxmargin.tasks import Alignment

    solvers = {
        "default": DualCoordinate(),
        "1-slack + cache": CuttingPlane(line_search=False, mu=1.0),
        "OCA + cache": CuttingPlane(),
    }
    count = (15, 10) if bench.quick else (TRAIN, TEST)
    train, test = pairs(count[0], 0), pairs(count[1], 300)
    symbols = sorted({s for (a, b), _ in train + test for s in a + b})
    task = Alignment(affine=spec["affine"], symbols=symbols)
    if spec["solver"] == "fixed":
        w = np.array([_fixed(name) for name in task.feature_names], dtype=float)
        guesses = [task.inference(x, w) for x, _ in test]
        return {"recall": _mean(test, guesses, 0), "F1": _mean(test, guesses, 1)}
    X, Y = map(list, zip(*train, strict=True))
    svm = StructuredSVM(task, C, tol=TOL, solver=solvers[spec["solver"]], max_seconds=300)
    StructuredSVM(task, C, tol=0.5, solver=solvers[spec["solver"]]).fit(X[:5], Y[:5])
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


def _fixed(name: Any) -> float:
    """The score of a feature by name: equal symbols +1, others and gaps -1, opening a gap nothing."""
    if isinstance(name, tuple):
        return 1.0 if name[0] == name[1] else -1.0
    return -1.0 if name == "gap" else 0.0


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
