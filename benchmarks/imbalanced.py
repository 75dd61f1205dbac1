"""Rare positives: MeasureSVC("f1") beside LinearSVC with a tuned threshold, on five data sets.

For both methods, C is chosen by the same stratified 3-fold cross-validation on the training samples, by the
mean F1. Then the method is fitted to all training samples and scored once on the test samples.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu

# ruff: isort: split
import warnings
from typing import Any

import numpy as np

TITLE = "F1 on imbalanced data"
SETS = {
    "made": "10,000 samples of make_classification, half for testing",
    "w8a": "w8a, 30 % for testing",
    "ijcnn1": "ijcnn1, its own test set",
    "money-fx": "Reuters-21578 money-fx, its own test set",
    "covtype 4": "covtype, class 4 against the rest, 100,000 samples, 30 % for testing",
}
METHODS = ("MeasureSVC", "LinearSVC, tuned threshold")
CS = (0.01, 0.1, 1.0, 10.0, 100.0)


def load(name: str, quick: bool) -> tuple[Any, Any, Any, Any]:
    """Training and test samples; labels are 0 and 1."""
    from sklearn.datasets import make_classification
    from sklearn.model_selection import train_test_split

    from benchmarks import datasets

    if name in ("ijcnn1", "money-fx"):
        read = datasets.ijcnn1 if name == "ijcnn1" else datasets.reuters
        (X, y), (Xt, yt) = read("train"), read("test")
    else:
        share = 0.3
        if name == "made":
            share = 0.5
            X, y = make_classification(
                10_000, 30, n_informative=8, weights=[0.97], flip_y=0.02, class_sep=0.7, random_state=3
            )  # fmt: skip
        elif name == "w8a":
            X, y = datasets.w8a()
        else:
            X, y = datasets.covtype(dense=True)
            rows = np.random.default_rng(0).permutation(len(y))[:100_000]
            X, y = X[rows], y[rows] == 4
        y = y > 0
        X, Xt, y, yt = train_test_split(X, y, test_size=share, stratify=y, random_state=0)
    rows = slice(0, 2000) if quick else slice(None)
    return X[rows], (y[rows] > 0).astype(int), Xt, (yt > 0).astype(int)


def estimator(method: str, C: float) -> Any:
    """A method with its usual parameters."""
    from sklearn.model_selection import TunedThresholdClassifierCV

    from maxmargin import LinearSVC, MeasureSVC

    if method == "MeasureSVC":
        return MeasureSVC("f1", C=C)
    return TunedThresholdClassifierCV(LinearSVC(C=C, loss="hinge"), scoring="f1")


def quality(name: str, method: str, quick: bool) -> Cell:
    """Choose C, fit, score the test samples once."""
    from sklearn.metrics import f1_score
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    warnings.simplefilter("ignore")  # of zero weights: the table shows them
    X, y, Xt, yt = load(name, quick)
    estimator(method, 0.1).fit(X[:500], y[:500])  # load the compiled functions
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    began = cpu()
    means = {
        C: float(np.mean(cross_val_score(estimator(method, C), X, y, cv=folds, scoring="f1")))
        for C in CS
    }
    C = max(means, key=means.__getitem__)
    searched, began = cpu() - began, cpu()
    model = estimator(method, C).fit(X, y)
    seconds = cpu() - began
    predicted = model.predict(Xt)
    rng = np.random.default_rng(0)
    draws = (rng.integers(0, len(yt), len(yt)) for _ in range(200))
    error = np.std([f1_score(yt[rows], predicted[rows]) for rows in draws])
    inner = getattr(model, "estimator_", model)
    return {
        "C": C, "validation": means[C], "test": f1_score(yt, predicted), "error": float(error),
        "seconds": seconds, "searched": searched, "n": len(y), "positive": float(np.mean(y)),
        "zero": not np.any(inner.coef_),
    }  # fmt: skip


def run_cell(spec: Cell, bench: Bench) -> Cell:
    """One cell."""
    return quality(spec["set"], spec["method"], bench.quick)


def table(bench: Bench) -> None:
    """Run missing cells and write the table."""
    rows: list[Row] = []
    for name in SETS:
        for method in METHODS:
            cell = bench.run(f"{name} {method}", {"set": name, "method": method})
            rows.append({
                "set": name, "samples": f"{cell['n']:,}", "positive": f"{100 * cell['positive']:.1f} %",
                "method": method, "C": cell["C"], "validation F1": f"{cell['validation']:.3f}",
                "test F1": f"{cell['test']:.3f} ± {cell['error']:.3f}",
                "fit s": round(cell["seconds"], 2), "search s": round(cell["searched"], 1),
                "zero weights": cell["zero"],
            })  # fmt: skip
    notes = (
        f"{'; '.join(SETS.values())}. C is one of {', '.join(f'{C:g}' for C in CS)}, by 3-fold "
        "cross-validation of F1 on the training samples. MeasureSVC predicts with its threshold_; the "
        "other method is TunedThresholdClassifierCV(LinearSVC(C), scoring='f1'), which fits six times. ± "
        "is the standard error of the test figure (200 bootstrap samples of the test samples)."
    )
    bench.save(TITLE, [("f1", "F1 on test samples", rows, notes)])


if __name__ == "__main__":
    command_line("imbalanced", TITLE, run_cell, table)
