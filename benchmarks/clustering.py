"""Clustering with learned scores of pairs: the letters of handwritten words, three kinds of argmax.

A set is the letters of one OCR word; letters of the same kind belong together. A pair of letters is described
by the share of pixels that differ in each of 8 bands of rows, the share over all pixels, and a constant. The
comparison is a threshold on the share of pixels that differ, chosen on the training words, with all pairs
below it linked.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu

# ruff: isort: split
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from benchmarks import datasets

TITLE = "Clustering of letters"
KINDS = ("exact", "greedy", "lp")
TRAIN, TEST, MOST = 80, 150, 8
TOL, C = 1e-2, 10.0


def features(letters: Any) -> Any:
    """Features of all pairs of letters of a word."""
    n = len(letters)
    bands = np.abs(letters[:, None] - letters[None]).reshape(n, n, 8, -1).mean(axis=3)
    whole = bands.mean(axis=2, keepdims=True)
    return np.concatenate([bands, whole, np.ones((n, n, 1))], axis=2)


def words(count: int, folds: tuple[int, ...]) -> tuple[list[Any], list[Any]]:
    """Sets with at least one letter that occurs twice."""
    X, Y, fold = datasets.ocr_letters()
    some = [
        i
        for i in range(len(X))
        if fold[i] in folds and 4 <= len(Y[i]) <= MOST and len(set(Y[i].tolist())) < len(Y[i])
    ]
    chosen = some[:: max(1, len(some) // count)][:count]
    return [features(X[i]) for i in chosen], [Y[i] for i in chosen]


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
    return connected_components(x[:, :, 8] < limit, directed=False)[1]


def cell(spec: Cell, bench: Bench) -> Cell:
    """One fit, or the threshold."""
    from maxmargin import StructuredSVM
    from maxmargin.tasks import Clustering

    count = (15, 15) if bench.quick else (TRAIN, TEST)
    X, Y = words(count[0], (0, 1, 2))
    X_test, Y_test = words(count[1], (3, 4, 5, 6, 7, 8, 9))
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
{TRAIN} training words and {TEST} test words of 4 to {MOST} letters, with at least one letter that occurs
twice; C = {C:g}, not tuned; tol = {TOL:g}. *oracle calls* are per word.
"""
    bench.save(TITLE, [("letters", "Three kinds of argmax", rows, notes)])


if __name__ == "__main__":
    command_line("clustering", TITLE, cell, table)
