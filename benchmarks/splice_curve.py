"""Learning curve of worm splice sites: up to 200,000 strings with 34 million matrix-free features.

Both files of :mod:`benchmarks.splice` together. The last 10,000 windows of each file are held out; training
takes the first n windows of a random order of the others, with C = 3 (chosen there). The last fit takes all
200,000 windows, so there is nothing left to test it on.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu, peak_memory_gb

# ruff: isort: split
from typing import Any

import numpy as np

from benchmarks import splice

TITLE = "Worm splice sites: learning curve"
SIZES = (1000, 3000, 10_000, 30_000, 100_000, 180_000, 200_000)
C, HELD = 3.0, 10_000


def windows(quick: bool) -> tuple[Any, Any, Any]:
    """Letters, labels, and the rows that are held out."""
    first, second = (splice.strings(split, quick) for split in ("train", "test"))
    held = np.zeros(len(first[1]) + len(second[1]), dtype=bool)
    few = len(first[1]) * HELD // 100_000
    held[len(first[1]) - few : len(first[1])] = held[-few:] = True
    return np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1]]), held


def run_cell(spec: Cell, bench: Bench) -> Cell:
    """Train on n windows, and score those that are held out."""
    from maxmargin import LinearSVC
    from maxmargin.solvers import CuttingPlane

    letters, y, held = windows(bench.quick)
    rows = np.random.default_rng(0).permutation(np.flatnonzero(~held))
    everything = spec["n"] > len(rows)
    rows = np.arange(len(y)) if everything else np.sort(rows[: spec["n"]])
    few = splice.design(letters[:500], quick=True)  # loads compiled functions
    LinearSVC(solver=CuttingPlane(space="rows"), max_iter=5, loss="hinge").fit(few, y[:500])
    X = splice.design(letters[rows], bench.quick)
    began = cpu()
    svc = LinearSVC(C=C, solver=CuttingPlane(space="rows"), tol=1e-3, loss="hinge").fit(X, y[rows])
    cell: Cell = {
        "strings": len(rows),
        "iterations": svc.n_iter_,
        "seconds": cpu() - began,
        "peak GB": peak_memory_gb(),
        "objective": svc.objective_,
        "gap": svc.gap_,
    }
    if not everything:
        scores = svc.decision_function(splice.design(letters[held], bench.quick))
        cell |= splice.areas(y[held], scores)
    return cell


def table(bench: Bench) -> None:
    if not splice.has_data():
        return
    sizes = (500, 2000, 12_000) if bench.quick else SIZES
    cells = [bench.run(f"curve {n}", {"n": n}) for n in sizes]
    order = ("strings", "iterations", "seconds", "peak GB", "objective", "gap", "auROC", "auPRC")
    rows: list[Row] = [{name: cell.get(name) for name in order} for cell in cells]
    note = (
        f"C = {C:g} for the sum over strings, relative gap 1e-3, one thread. Held out: {2 * HELD:,} windows, "
        "the last ones of both files; the last row trains on them, too."
    )
    bench.save(TITLE, [("sizes", "Training on n strings", rows, note)])


if __name__ == "__main__":
    command_line("splice_curve", TITLE, run_cell, table)
