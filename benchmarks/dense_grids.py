"""LinearSVCCV on dense data of several classes compared to GridSearchCV; a table of ``benchmarks.dense``.

Five folds and six values of C, one thread, without a refit. Ours certifies 1e-3 in each cell. The first peer
is scikit-learn's ``GridSearchCV`` over single fits of our ``LinearSVC``, the second one over scikit-learn's
own class with its default tolerance and ``max_iter=10_000``.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks.common import Bench, Cell, Row, cpu
from benchmarks.dense import PEERS, load, ours

SETS = ("digits", "embeddings")
CS = tuple(float(C) for C in np.geomspace(1e-3, 1.0, 6))
FOLDS, REPEATS = 5, 2


def searches(loss: str) -> dict[str, Any]:
    """Ours, and two of scikit-learn's over the same folds and values of C."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import LinearSVC

    from maxmargin import LinearSVCCV

    own = ours(loss, 1.0)
    if loss == "logistic":
        theirs: Any = LogisticRegression(max_iter=10_000)
    elif loss == "squared hinge":
        theirs = LinearSVC(max_iter=10_000, random_state=0)
    else:
        theirs = LinearSVC(multi_class="crammer_singer", max_iter=10_000, random_state=0)
    grid: dict[str, Any] = {"param_grid": {"C": list(CS)}, "cv": FOLDS, "refit": False}
    return {
        "LinearSVCCV": LinearSVCCV(
            Cs=CS, cv=FOLDS, refit=False, loss=own.loss, multi_class=own.multi_class, tol=own.tol
        ),
        "GridSearchCV of ours": GridSearchCV(own, **grid),
        "GridSearchCV of scikit-learn's": GridSearchCV(theirs, **grid),
    }


def cell(name: str, loss: str, bench: Bench) -> Cell:
    """CPU seconds of the three, interleaved, the best of two."""
    warnings.simplefilter("ignore")
    X, y = load(name)
    if bench.quick:
        X, y = X[:300], y[:300]
    took: dict[str, list[float]] = {}
    for _ in range(REPEATS):
        for method, search in searches(loss).items():
            began = cpu()
            search.fit(X, y)
            took.setdefault(method, []).append(cpu() - began)
    return {"seconds": {method: min(many) for method, many in took.items()}}


def rows(bench: Bench) -> list[Row]:
    """A row for each set and loss."""
    out: list[Row] = []
    for name in SETS[:1] if bench.quick else SETS:
        for loss in PEERS:
            key = f"grid {name} {loss}"
            found = None if bench.flags == {"again"} else bench.get(key)
            if found is None and "finished" in bench.flags:
                continue
            found = found or bench.put(key, cell(name, loss, bench))
            mine, single, theirs = found["seconds"].values()
            out.append(
                {
                    "set": name,
                    "loss": loss,
                    "LinearSVCCV s": round(mine, 3),
                    "GridSearchCV of ours s": round(single, 3),
                    "scikit-learn s": round(theirs, 3),
                    "share of single fits": round(mine / single, 2),
                    "ratio": round(theirs / mine, 2),
                }
            )
    return out
