"""MeasureSVC: cost of a cut, benefit for F1 and ROC AUC, number of slopes per line search.

Quality: for every method, C is chosen by the same stratified 3-fold cross-validation on the training samples,
by the mean of the reported metric (if a threshold is tuned, then on the training samples of the fold). Then
the method is fitted to all training samples and scored once on the test samples.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu

# ruff: isort: split
from typing import Any

import numpy as np

TITLE = "Joint measures"
#: the data sets and the values of C
SETS = {"a9a": (1e-3, 1e-2, 1e-1, 1.0, 10.0), "w8a": (1e-2, 1e-1, 1.0, 10.0, 100.0)}
#: reported metric, method, trained by
METHODS = (
    ("F1", "LinearSVC"),
    ("F1", "LinearSVC, threshold tuned"),
    ("F1", "LinearSVC, balanced classes"),
    ("F1", "MeasureSVC(f1)"),
    ("ROC area", "LinearSVC"),
    ("ROC area", "MeasureSVC(roc_auc)"),
)


# -- a cut -----------------------------------------------------------------------------------------


def time_cuts(quick: bool) -> Cell:
    """CPU seconds of one cut from given scores, best of three, and of the products around it."""
    from maxmargin.data.design import as_design
    from maxmargin.losses import (
        AtK,
        BalancedError,
        FBeta,
        Hinge,
        QMeasure,
        QuantificationLoss,
        RocAuc,
    )

    n, d = (10_000 if quick else 1_000_000), 50
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    losses = {
        "error (hinge)": Hinge(),
        "balanced_error": BalancedError(),
        "f1": FBeta(),
        "fbeta, beta 0.5": FBeta(0.5),
        "prbep": AtK(),
        "precision_at_k": AtK("precision", n // 100),
        "roc_auc": RocAuc(),
        "ae": QuantificationLoss("ae"),
        "kld": QuantificationLoss("kld"),
        "q": QMeasure(),
    }
    out: Cell = {}
    for share in (0.5, 0.03):
        y = np.where(rng.random(n) < share, 1.0, -1.0)
        scores, weight = rng.normal(size=n) + 0.5 * y, np.ones(n)
        for name, loss in losses.items():
            small = slice(0, 1000)
            if not (isinstance(loss, AtK) and loss.k):
                loss.cut(scores[small], y[small], weight[small])
            times = []
            for _ in range(3):
                began = cpu()
                _, g = loss.cut(scores, y, weight)
                times.append(cpu() - began)
            out[f"{name} {share}"] = min(times)
        design, w = as_design(X), np.ones(d)
        times = []
        for _ in range(3):
            began = cpu()
            design.dot(w, 0, n)
            design.accumulate(g, 0, n, np.zeros(d))
            times.append(cpu() - began)
        out[f"the two products with X {share}"] = min(times)
    return {"n": n, "seconds": out}


# -- quality ---------------------------------------------------------------------------------------


def load(name: str, quick: bool) -> tuple[Any, Any, Any, Any]:
    """Training and test rows."""
    from sklearn.model_selection import train_test_split

    from benchmarks import datasets

    if name == "a9a":
        (X, y), (Xt, yt) = datasets.a9a("train"), datasets.a9a("test")
    else:
        X, y = datasets.w8a()
        X, Xt, y, yt = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
    rows = slice(0, 2000) if quick else slice(None)
    return X[rows], np.where(y[rows] > 0, 1, -1), Xt, np.where(yt > 0, 1, -1)


def tuned(scores: Any, y: Any) -> float:
    """The threshold with the largest F1 on these samples, halfway to the next score."""
    order = np.argsort(-scores)
    tp = np.cumsum(y[order] > 0)
    f1 = 2.0 * tp / (np.arange(1, len(y) + 1) + np.sum(y > 0))
    s = scores[order]
    f1[:-1][s[:-1] == s[1:]] = -1.0  # no threshold lies between equal scores
    k = int(np.argmax(f1))
    return float(0.5 * (s[k] + s[min(k + 1, len(s) - 1)]))


def fitted_scorer(method: str, C: float, X: Any, y: Any) -> tuple[Any, float, Any]:
    """The fitted estimator and its threshold."""
    from maxmargin import LinearSVC, MeasureSVC

    if method.startswith("LinearSVC"):
        est = LinearSVC(
            C=C, class_weight="balanced" if "balanced" in method else None, loss="hinge"
        )
    else:
        est = MeasureSVC(method[method.index("(") + 1 : method.index(")")], C=C)
    est.fit(X, y)
    return est, (tuned(est.decision_function(X), y) if "tuned" in method else 0.0), est


def score(what: str, est: Any, bar: float, X: Any, y: Any) -> float:
    """F1 or ROC AUC in percent."""
    from sklearn.metrics import f1_score, roc_auc_score

    scores = est.decision_function(X)
    return 100.0 * float(
        f1_score(y, np.where(scores > bar, 1, -1)) if what == "F1" else roc_auc_score(y, scores)
    )


def quality(name: str, what: str, method: str, quick: bool) -> Cell:
    """Choose C by cross-validation, fit, score the test samples once."""
    from sklearn.model_selection import StratifiedKFold

    X, y, Xt, yt = load(name, quick)
    folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))
    began = cpu()
    means = {}
    for C in SETS[name]:
        parts = []
        for train, held_out in folds:
            est, bar, _ = fitted_scorer(method, C, X[train], y[train])
            parts.append(score(what, est, bar, X[held_out], y[held_out]))
        means[C] = float(np.mean(parts))
    searched = cpu() - began
    C = max(means, key=means.__getitem__)
    began = cpu()
    est, bar, _ = fitted_scorer(method, C, X, y)
    seconds = cpu() - began
    rng = np.random.default_rng(0)
    draws = (rng.integers(0, len(yt), len(yt)) for _ in range(200))
    error = float(np.std([score(what, est, bar, Xt[rows], yt[rows]) for rows in draws]))
    return {
        "error": error,
        "C": C, "validation": means[C], "test": score(what, est, bar, Xt, yt), "seconds": seconds,
        "searched": searched, "iterations": est.n_iter_, "gap": est.gap_, "n": len(y),
        "positive": float(np.mean(y > 0)), "grid": {str(C): m for C, m in means.items()},
    }  # fmt: skip


# -- lines -----------------------------------------------------------------------------------------


def lines(name: str, measure: str, expensive: bool, quick: bool) -> Cell:
    """A fit with few slopes per line search, and one with rounds of eight as for cheap losses."""
    from benchmarks import datasets
    from maxmargin import minimize
    from maxmargin.losses import FBeta, RocAuc
    from maxmargin.risks import ScoreRisk

    base: Any = {"f1": FBeta, "roc_auc": RocAuc}[measure]
    counted = [0]

    class Counting(base):  # type: ignore[misc]
        def slopes(self, scores: Any, other: Any, y: Any, weight: Any, ts: Any) -> Any:
            counted[0] += len(ts)
            return super().slopes(scores, other, y, weight, ts)

    Counting.expensive_slopes = expensive
    if name == "covtype":
        X, y = datasets.covtype(dense=True)
        y = np.where(y == 3, 1, -1)
    else:
        X, y = {"a9a": datasets.a9a, "w8a": datasets.w8a}[name]()
    rows = np.random.default_rng(0).permutation(len(y))[: 2000 if quick else 200_000]
    X, y = X[rows], np.where(y[rows] > 0, 1.0, -1.0)
    minimize(ScoreRisk(X[:1000], y[:1000], Counting()), 0.1)  # load the compiled functions
    counted[0] = 0
    began = cpu()
    result = minimize(ScoreRisk(X, y, Counting(), intercept=float(measure == "f1")), 1.0)
    return {
        "seconds": cpu() - began,
        "iterations": result.n_iter,
        "slopes": counted[0],
        "gap": result.gap,
    }


# -- tables ----------------------------------------------------------------------------------------


def run_cell(spec: Cell, bench: Bench) -> Cell:
    """One cell."""
    kind = spec["kind"]
    if kind == "cuts":
        return time_cuts(bench.quick)
    if kind == "quality":
        return quality(spec["set"], spec["measure"], spec["method"], bench.quick)
    return lines(spec["set"], spec["measure"], spec["expensive"], bench.quick)


def cut_rows(cell: Cell) -> list[Row]:
    seconds = cell["seconds"]
    names = list(dict.fromkeys(key.rsplit(" ", 1)[0] for key in seconds))
    columns = {"half positive, s": 0.5, "3 % positive, s": 0.03}
    return [
        {"measure": name} | {title: seconds[f"{name} {share}"] for title, share in columns.items()}
        for name in names
    ]


def table(bench: Bench) -> None:
    """Run missing cells and write the tables."""
    cuts = bench.run("cuts", {"kind": "cuts"})
    rows: list[Row] = []
    for name in SETS:
        for what, method in METHODS:
            spec = {"kind": "quality", "set": name, "measure": what, "method": method}
            cell = bench.run(f"{name} {what} {method}", spec)
            rows.append({
                "set": name, "positive": f"{100 * cell['positive']:.1f} %", "measure": what,
                "method": method,
                "C": cell["C"], "validation %": round(cell["validation"], 2),
                "test %": f"{cell['test']:.2f} ± {cell['error']:.2f}",
                "fit s": round(cell["seconds"], 2), "search s": round(cell["searched"], 1),
                "iterations": cell["iterations"], "gap": cell["gap"],
            })  # fmt: skip
    line_rows: list[Row] = []
    for name in ("a9a", "w8a", "covtype"):
        for measure in ("f1", "roc_auc"):
            for expensive in (False, True):
                spec = {"kind": "lines", "set": name, "measure": measure, "expensive": expensive}
                cell = bench.run(f"{name} {measure} {'few' if expensive else 'rounds'}", spec)
                line_rows.append({
                    "set": name, "measure": measure, "slopes": "one by one" if expensive else "rounds of 8",
                    "iterations": cell["iterations"],
                    "slopes per iteration": cell["slopes"] / cell["iterations"],
                    "s": round(cell["seconds"], 2),
                })  # fmt: skip
    bench.save(
        TITLE,
        [
            (
                "cuts",
                f"One cut from given scores, {cuts['n']:,} rows",
                cut_rows(cuts),
                "The last row is one product with X and one with its transpose, 50 dense float64 columns.",
            ),
            (
                "test_scores",
                "F1 and ROC area on test rows",
                rows,
                "a9a with its own test set; w8a split 70 : 30. Five values of C, 1e-3 to 10 (a9a), 1e-2 to "
                "100 (w8a), by 3-fold cross-validation on the training rows. Every fit is certified to 1e-3. "
                "Test sets have 16,281 and 14,925 rows; ± is the standard error of the test figure (200 "
                "bootstrap samples of the test rows).",
            ),
            (
                "line_search",
                "Slopes asked by the line search, C 1, certified to 1e-3",
                line_rows,
                "A slope of a non-decomposable metric costs a sort. Both searches reach the same "
                "certified optimum.",
            ),
        ],
    )


if __name__ == "__main__":
    command_line("measures", TITLE, run_cell, table)
