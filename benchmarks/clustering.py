"""Clustering with learned scores of pairs: sets of handwritten digits, three kinds of argmax.

A set has 8 MNIST digits of 3 kinds, and digits of the same kind belong together. A pair is described by the
differences of gray values in 49 blocks of pixels, and a constant. The comparison is a threshold on the mean
difference, chosen on the training sets, with all pairs below it linked. The task is that of
``examples/structures/plot_clustering.py``.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu

# ruff: isort: split
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import squareform

from benchmarks import datasets
from benchmarks.examples import definitions

TITLE = "Clustering of digits"
KINDS = ("exact", "greedy", "relaxed")
TRAIN, TEST, ITEMS, DIGITS = 60, 100, 8, 3
TOL, C = 1e-2, 0.1


def features(images: Any) -> Any:
    """Features of the pairs of images of a set."""
    n = len(images)
    blocks = images.reshape(n, 7, 4, 7, 4).mean(axis=(2, 4)).reshape(n, 49)
    i, j = np.triu_indices(n, 1)
    return np.column_stack([np.abs(blocks[i] - blocks[j]), np.ones(len(i))])


def sets(count: int, seed: int) -> tuple[list[Any], list[Any]]:
    """Random sets; even and odd seeds draw from different halves of the images."""
    images, digits = datasets.mnist("test")
    rng, X, Y = np.random.default_rng(seed), [], []
    half = np.arange(seed % 2, len(digits), 2)
    for _ in range(count):
        kinds = rng.choice(10, DIGITS, replace=False)
        chosen = rng.choice(half[np.isin(digits[half], kinds)], ITEMS, replace=False)
        X.append(features(images[chosen]))
        Y.append(together(digits[chosen]))
    return X, Y


def together(labels: Any) -> Any:
    """Which pairs i < j share a cluster."""
    i, j = np.triu_indices(len(labels), 1)
    return (labels[i] == labels[j]).astype(float)


def scores(Y: list[Any], guesses: list[Any]) -> Cell:
    """The share of wrong pairs, and F1 of pairs that belong together; halves of relaxed outputs count so."""
    truth, guess = np.concatenate(Y), np.concatenate(guesses)
    both = float(truth @ guess)
    return {
        "wrong": float(np.abs(truth - guess).mean()),
        "F1": 2 * both / float(truth.sum() + guess.sum()),
    }


def linked(x: Any, limit: float) -> Any:
    """Clusters of pairs below a limit."""
    return together(connected_components(squareform(x[:, :-1].mean(axis=1) < limit))[1])


def cell(spec: Cell, bench: Bench) -> Cell:
    """One fit, or the threshold."""
    from maxmargin import StructuredSVM

    count = (15, 15) if bench.quick else (TRAIN, TEST)
    X, Y = sets(count[0], 0)
    X_test, Y_test = sets(count[1], 1)
    if spec["kind"] == "threshold":
        limits = np.linspace(0.02, 0.4, 39)
        wrong = [scores(Y, [linked(x, limit) for x in X])["wrong"] for limit in limits]
        limit = float(limits[int(np.argmin(wrong))])
        return scores(Y_test, [linked(x, limit) for x in X_test])
    task = definitions("plot_clustering").Clustering(spec["kind"])
    StructuredSVM(task, C, tol=0.5).fit(X[:5], Y[:5])
    svm = StructuredSVM(task, C, tol=TOL, max_seconds=60)
    began = cpu()
    svm.fit(X, Y)
    seconds = cpu() - began
    return {
        "seconds": seconds,
        "gap": svm.gap_,
        "passes": svm.history_[-1]["oracle_calls"],
        "certificate": svm.certificate_,
        "stop": svm.stop_reason_,
        "objective": svm.objective_,
        "lower bound": svm.lower_bound_,
        **scores(Y_test, svm.predict(X_test)),
    }


def table(bench: Bench) -> None:
    """All fits."""
    rows: list[Row] = []
    for kind in ("threshold", *KINDS):
        c = bench.inline(kind, lambda kind=kind: cell({"kind": kind}, bench))
        rows.append(
            {
                "method": kind if kind == "threshold" else f'Clustering("{kind}")',
                "certificate": c.get("certificate"),
                "stop": c.get("stop"),
                "objective": c.get("objective"),
                "lower bound": c.get("lower bound"),
                "oracle calls": c.get("passes"),
                "CPU s": c.get("seconds"),
                "test pairs wrong %": f"{100 * c['wrong']:.2f}",
                "test F1 of pairs %": f"{100 * c['F1']:.1f}",
            }
        )
    notes = f"""
{TRAIN} training sets and {TEST} test sets of {ITEMS} digits of {DIGITS} kinds; C = {C:g}, not tuned;
tol = {TOL:g}. *oracle calls* are per set. With a greedy argmax the fit proves a lower bound only; with the
linear program the objective is that of the relaxed problem.
"""
    bench.save(TITLE, [("digits", "Three kinds of argmax", rows, notes)])


if __name__ == "__main__":
    command_line("clustering", TITLE, cell, table)
