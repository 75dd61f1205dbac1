"""Several classes and dense data: CPU time against scikit-learn at equal objective precision, one thread.

Three problems of several classes with a penalized intercept: the multinomial logistic loss, the squared hinge
loss one-vs-rest, and the hinge loss of Crammer and Singer. Ours certifies a relative gap of 1e-3. A method of
scikit-learn gets the loosest tolerance of a ladder for which F, recomputed from its coefficients in double
precision, is within 1e-3 of the best F known. Fits are interleaved, and the best of several counts.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu

# ruff: isort: split
import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from benchmarks import datasets
from benchmarks.linear_fits import in_a_fork

TITLE = "Several classes on dense data against scikit-learn at equal precision"
PRECISION = 1e-3
#: CPU seconds of all repeats of one method, if it is fast, and of one fit, after which it is given up
ENOUGH, LIMIT = 0.3, 100.0
REPEATS = (3, 30)
SETS = {
    "digits": "scikit-learn's digits / 16, 1,797 x 64 float64, 10 classes",
    "digits[:1000]": "the first 1,000 of them",
    "iris": "150 x 4, standardized, 3 classes",
    "wine": "178 x 13, standardized, 3 classes",
    "embeddings": "20 newsgroups: tf-idf, SVD to 384 dimensions, unit rows, 11,314 rows float32, 20 classes",
    "mnist": "the first 20,000 of MNIST in [0, 1], 784 columns float32, 10 classes",
}
LARGE = ("embeddings", "mnist")
CS = (0.01, 0.1, 1.0, 10.0, 100.0)
#: values of C that take scikit-learn minutes are left out
MOST_C = {"mnist": 1.0, "embeddings": 10.0}
#: weights of all classes up to which newton-cholesky is tried; beyond, it takes 14 s and more for what
#: lbfgs does in less than 1 s
MOST_WEIGHTS = 5000
LADDER = tuple(10.0 ** (-k / 2) for k in range(15))
#: methods of scikit-learn for each loss
PEERS = {
    "logistic": ("lbfgs", "newton-cholesky"),
    "squared hinge": ("LIBLINEAR", "LIBLINEAR dual"),
    "crammer-singer": ("LIBLINEAR",),
}


@cache
def load(name: str) -> tuple[Any, Any]:
    """Samples and classes 0, 1, ...; compute them once."""
    from sklearn.datasets import load_digits, load_iris, load_wine
    from sklearn.decomposition import TruncatedSVD
    from sklearn.preprocessing import StandardScaler, normalize

    if name.startswith("digits"):
        X, y = load_digits(return_X_y=True)
        n = 1000 if name.endswith("]") else len(y)
        return X[:n] / 16.0, y[:n]
    if name in ("iris", "wine"):
        X, y = (load_iris if name == "iris" else load_wine)(return_X_y=True)
        return StandardScaler().fit_transform(X), y
    if name == "mnist":
        X, y = datasets.mnist()
        return X[:20_000].astype(np.float32), y[:20_000]
    X, y = datasets.newsgroups20()
    X = normalize(TruncatedSVD(384, random_state=0).fit_transform(X))
    return X.astype(np.float32), np.unique(y, return_inverse=True)[1]


def ours(loss: str, C: float, tol: float = PRECISION) -> Any:
    """Our estimator."""
    from maxmargin import LinearSVC

    kinds = {"logistic": ("logistic", "multinomial"), "squared hinge": ("squared_hinge", "ovr")}
    name, together = kinds.get(loss, ("hinge", "crammer_singer"))
    return LinearSVC(C=C, loss=name, multi_class=together, tol=tol)


def theirs(method: str, loss: str, C: float, tol: float) -> Any:
    """scikit-learn's estimator; its logistic regression penalizes the weight of a constant column."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    many = 10**6
    if loss == "logistic":
        return LogisticRegression(
            C=C, tol=tol, solver=method, max_iter=many if method == "lbfgs" else 1000, fit_intercept=False
        )  # fmt: skip
    if loss == "squared hinge":
        return LinearSVC(C=C, tol=tol, dual=method.endswith("dual"), max_iter=many, random_state=0)
    return LinearSVC(C=C, tol=tol, multi_class="crammer_singer", max_iter=many, random_state=0)


def objective(loss: str, C: float, X: Any, y: Any, coef: Any, intercept: Any) -> float:
    """F in double precision."""
    W = np.asarray(coef, dtype=np.float64)
    b = np.asarray(intercept, dtype=np.float64)
    S = X.astype(np.float64) @ W.T + b
    rows = np.arange(len(y))
    own = S[rows, y][:, None]
    if loss == "logistic":
        total = float(np.logaddexp.reduce(S - own, axis=1).sum())
    elif loss == "squared hinge":
        signs = np.where(y[:, None] == np.arange(S.shape[1]), 1.0, -1.0)
        total = float((np.maximum(0.0, 1.0 - signs * S) ** 2).sum())
    else:
        short = 1.0 + S - own
        short[rows, y] = 0.0
        total = float(short.max(axis=1).sum())
    return 0.5 * float((W**2).sum() + (b**2).sum()) + C * total


def _fitted(loss: str, method: str, X: Any, y: Any, C: float, tol: float) -> tuple[Any, Any]:
    """Coefficients and intercepts."""
    if method == "ours":
        model = ours(loss, C, tol).fit(X, y)
        return model.coef_, model.intercept_
    model = theirs(method, loss, C, tol).fit(X, y)
    if loss == "logistic":
        return model.coef_[:, :-1], model.coef_[:, -1]
    return model.coef_, model.intercept_


def _search(loss: str, method: str, data: Any, C: float, best: float) -> Cell:
    """The loosest tolerance with which a method reaches the precision, and the last one tried."""
    X, y, with_ones = data
    if method == "newton-cholesky" and (int(y.max()) + 1) * X.shape[1] > MOST_WEIGHTS:
        return {"tol": None, "precision": None, "why": f"more than {MOST_WEIGHTS} weights"}
    found: Cell = {"tol": None, "precision": None}
    for tol in LADDER:
        used = with_ones if loss == "logistic" else X
        answer = in_a_fork(partial(_fitted, loss, method, used, y, C, tol), LIMIT)
        if answer is None:
            return {"tol": None, "precision": None, "why": f"more than {LIMIT:.0f} s"}
        off = objective(loss, C, X, y, *answer) / best - 1.0
        found = {"tol": tol if off <= PRECISION else None, "precision": off}
        if off <= PRECISION:
            break
    return found


def times(fits: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """CPU seconds of single fits, interleaved."""
    took = {}
    for name, fit in fits.items():
        fit()
        began = cpu()
        fit()
        took[name] = cpu() - began
    out: dict[str, list[float]] = {name: [seconds] for name, seconds in took.items()}
    least, most = REPEATS
    counts = {name: min(most, max(least, int(ENOUGH / max(s, 1e-4)))) for name, s in took.items()}
    for k in range(max(counts.values())):
        for name, fit in fits.items():
            if k < counts[name]:
                began = cpu()
                fit()
                out[name].append(cpu() - began)
    return out


def cell(spec: Cell, bench: Bench) -> Cell:
    """One set, loss and C: ours and all methods of scikit-learn."""
    warnings.simplefilter("ignore")
    X, y = load(spec["set"])
    if bench.quick:
        X, y = X[:300], y[:300]
    loss, C = spec["loss"], spec["C"]
    data = X, y, np.hstack([X, np.ones((len(X), 1), X.dtype)])
    model = ours(loss, C).fit(X, y)
    precise = ours(loss, C, 1e-6).set_params(max_seconds=100.0).fit(X, y)
    best = min(objective(loss, C, X, y, m.coef_, m.intercept_) for m in (model, precise))
    found = {method: _search(loss, method, data, C, best) for method in PEERS[loss]}
    fits: dict[str, Callable[[], Any]] = {
        "ours": partial(_fitted, loss, "ours", X, y, C, PRECISION)
    }
    used = data[2] if loss == "logistic" else X
    for method, state in found.items():
        if state["tol"] is not None:
            fits[method] = partial(_fitted, loss, method, used, y, C, state["tol"])
    seconds = {name: min(many) for name, many in times(fits).items()}
    return {
        **spec,
        "seconds": seconds,
        "peers": found,
        "gap": model.gap_,
        "iterations": model.n_iter_,
        "methods": " > ".join(dict.fromkeys(record["method"] for record in model.history_)),
        "off": objective(loss, C, X, y, model.coef_, model.intercept_) / best - 1.0,
    }


def again(spec: Cell, found: Cell) -> Cell:
    """The times of a finished cell, with the tolerances of scikit-learn that it found; methods that took ten
    times as long as its fastest are not fitted again."""
    warnings.simplefilter("ignore")
    X, y = load(spec["set"])
    loss, C, peers = spec["loss"], spec["C"], found["peers"]
    used = np.hstack([X, np.ones((len(X), 1), X.dtype)]) if loss == "logistic" else X
    model = ours(loss, C).fit(X, y)
    fits: dict[str, Callable[[], Any]] = {
        "ours": partial(_fitted, loss, "ours", X, y, C, PRECISION)
    }
    before = {name: s for name, s in found["seconds"].items() if name != "ours"}
    for name, s in before.items():
        if s <= 10.0 * min(before.values()):
            fits[name] = partial(_fitted, loss, name, used, y, C, peers[name]["tol"])
    seconds = {name: min(many) for name, many in times(fits).items()}
    methods = " > ".join(dict.fromkeys(record["method"] for record in model.history_))
    new = {"gap": model.gap_, "iterations": model.n_iter_, "methods": methods}
    return {**found, **new, "seconds": before | seconds}


def _mean(ratios: list[float]) -> float:
    return float(np.exp(np.mean(np.log(ratios)))) if ratios else float("nan")


def table(bench: Bench) -> None:
    """All sets, losses and values of C, and the grids."""
    from benchmarks import dense_grids

    rows: list[Row] = []
    names = [n for n in SETS if n not in LARGE] if "small" in bench.flags else list(SETS)
    asked = [loss for loss in PEERS if loss.replace(" ", "-") in bench.flags] or list(PEERS)
    for name in ("iris", "digits[:1000]") if bench.quick else names:
        for loss in asked:
            for C in CS[1:4:2] if bench.quick else CS:
                if (MOST_C.get(name, np.inf) < C and loss != "logistic") or 10 * MOST_C.get(
                    name, np.inf
                ) < C:
                    continue
                spec = {"set": name, "loss": loss, "C": C}
                if "finished" in bench.flags and bench.get(f"{name} {loss} {C:g}") is None:
                    continue
                key = f"{name} {loss} {C:g}"
                stored = bench.get(key) if "again" in bench.flags else None
                if stored is None:
                    found = bench.inline(key, partial(cell, spec, bench))
                else:
                    stored = {k: v for k, v in stored.items() if k not in ("date", "sources")}
                    found = bench.put(key, again(spec, stored))
                seconds = dict(found["seconds"])
                mine = seconds.pop("ours")
                best = min(seconds, key=lambda m: seconds[m], default=None)
                rows.append(
                    {
                        "set": name,
                        "loss": loss,
                        "C": C,
                        "ours ms": round(1e3 * mine, 2),
                        "method": found["methods"],
                        "iterations": found["iterations"],
                        "certified gap": found["gap"],
                        "best of scikit-learn": best or "none reaches it",
                        "theirs ms": round(1e3 * seconds[best], 2) if best else None,
                        "ratio": round(seconds[best] / mine, 2) if best else None,
                    }
                )
    groups: list[Row] = []
    for loss in PEERS:
        for label, group in (("small", set(SETS) - set(LARGE)), ("large", set(LARGE))):
            ratios = [
                r["ratio"] for r in rows if r["loss"] == loss and r["set"] in group and r["ratio"]
            ]
            if ratios:
                mean, worst = round(_mean(ratios), 2), min(ratios)
                groups.append(
                    {
                        "sets": label,
                        "loss": loss,
                        "cells": len(ratios),
                        "geometric mean": mean,
                        "worst": worst,
                    }
                )
    slower = sum(row["ratio"] is not None and row["ratio"] < 1.0 for row in rows)
    about = "\n".join(f"- **{name}**: {what}" for name, what in SETS.items())
    notes = f"""
*ratio* is theirs / ours in CPU time: above 1 ours is faster. **Ours is slower in {slower} of {len(rows)}
rows.** Theirs is the fastest method of scikit-learn that reaches a precision of {PRECISION:g}: lbfgs and
newton-cholesky (which solves the same problem on a copy of X with a column of ones), LIBLINEAR primal and
dual, LIBLINEAR's Crammer-Singer. It does not know its precision; ours certifies it.

{about}
"""
    grids = [] if "small" in bench.flags else dense_grids.rows(bench)
    note = """
5 folds x 6 values of C from 1e-3 to 1, without a refit. *share of single fits* is LinearSVCCV / GridSearchCV
over our LinearSVC; *ratio* is GridSearchCV over scikit-learn's class, with its own tolerance, / LinearSVCCV.
"""
    tables = [("groups", "Summary", groups, ""), ("fits", "Fits", rows, notes)]
    bench.save(TITLE, [*tables, ("grids", "Grids", grids, note)])


if __name__ == "__main__":
    flags = {loss.replace(" ", "-"): f"only the fits of this loss ({loss})" for loss in PEERS}
    command_line(
        "dense",
        TITLE,
        cell,
        table,
        {
            **flags,
            "small": "only the small sets",
            "finished": "run nothing, show the finished fits",
            "again": "measure the times of finished fits anew, with the tolerances that were found",
        },
    )
