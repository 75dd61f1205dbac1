"""Clustering with learned scores of pairs: sets of handwritten digits, three kinds of argmax.

A set has 8 MNIST digits of 3 kinds, and digits of the same kind belong together. A pair is described by the
differences of gray values in 49 blocks of pixels, and a constant. The comparison is a threshold on the mean
difference, chosen on the training sets, with all pairs below it linked.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu

# ruff: isort: split
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from benchmarks import datasets

TITLE = "Clustering of digits"
KINDS = ("exact", "greedy", "lp")
TRAIN, TEST, ITEMS, DIGITS = 60, 100, 8, 3
TOL, C = 1e-2, 0.1


def features(images: Any) -> Any:
    """Features of all pairs of images of a set."""
    n = len(images)
    blocks = images.reshape(n, 7, 4, 7, 4).mean(axis=(2, 4)).reshape(n, 49)
    apart = np.abs(blocks[:, None] - blocks[None])
    return np.concatenate([apart, np.ones((n, n, 1))], axis=2)


def sets(count: int, seed: int) -> tuple[list[Any], list[Any]]:
    """Random sets; even and odd seeds draw from different halves of the images."""
    images, digits = datasets.mnist("test")
    rng, X, Y = np.random.default_rng(seed), [], []
    half = np.arange(seed % 2, len(digits), 2)
    for _ in range(count):
        kinds = rng.choice(10, DIGITS, replace=False)
        chosen = rng.choice(half[np.isin(digits[half], kinds)], ITEMS, replace=False)
        X.append(features(images[chosen]))
        Y.append(digits[chosen].astype(np.int64))
    return X, Y


def together(y: Any) -> Any:
    """Which pairs i < j share a cluster."""
    y = np.asarray(y)
    Z = y if y.ndim == 2 else (y[:, None] == y[None]).astype(float)
    return Z[np.triu_indices(len(y), 1)]


def scores(Y: list[Any], guesses: list[Any]) -> Cell:
    """The share of wrong pairs, and F1 of pairs that belong together; halves of relaxed outputs count so."""
    truth = np.concatenate([together(y) for y in Y])
    guess = np.concatenate([together(g) for g in guesses])
    both = float(truth @ guess)
    return {
        "wrong": float(np.abs(truth - guess).mean()),
        "F1": 2 * both / float(truth.sum() + guess.sum()),
    }


def linked(x: Any, limit: float) -> Any:
    """Clusters of pairs below a limit."""
    return connected_components(x[:, :, :-1].mean(axis=2) < limit, directed=False)[1]


def cell(spec: Cell, bench: Bench) -> Cell:
    """One fit, or the threshold."""
    from maxmargin import StructuredSVM
    from maxmargin.tasks import Clustering

    count = (15, 15) if bench.quick else (TRAIN, TEST)
    X, Y = sets(count[0], 0)
    X_test, Y_test = sets(count[1], 1)
    if spec["kind"] == "threshold":
        limits = np.linspace(0.02, 0.4, 39)
        wrong = [scores(Y, [linked(x, limit) for x in X])["wrong"] for limit in limits]
        limit = float(limits[int(np.argmin(wrong))])
        return scores(Y_test, [linked(x, limit) for x in X_test])
    StructuredSVM(Clustering(spec["kind"]), C, tol=0.5).fit(X[:5], Y[:5])
    svm = StructuredSVM(Clustering(spec["kind"]), C, tol=TOL, max_seconds=60)
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
