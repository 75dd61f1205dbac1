"""Which predictions a certificate proves to be those of the exact optimum, on held-out halves.

    python -m benchmarks.proven

First at tol=1e-3: by the ball around the middle of w and u, and by the one around w alone. Then what it costs
to prove a given share with the stopping rule ProvenPredictions. Optima are fits at tol=1e-10. A minute.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.preprocessing import StandardScaler

from benchmarks.common import Bench, Cell, Row, command_line, cpu
from maxmargin import LinearSVC, LogisticRegression
from maxmargin.solvers import ProvenPredictions

TITLE = "Predictions that a certificate proves"
SETS = {"digits": load_digits, "breast cancer": load_breast_cancer, "wine": load_wine}
LOSSES: dict[str, dict[str, Any]] = {
    "logistic": {"loss": "logistic", "multi_class": "multinomial"},
    "logistic, unpenalized intercept": {"estimator": LogisticRegression},
    "squared hinge": {},
    "hinge": {"loss": "hinge"},
    "Crammer-Singer": {"multi_class": "crammer_singer"},
}
SHARES = (0.9, 0.99, 0.999)


def halves(name: str) -> tuple[Any, Any, Any, Any]:
    """Scaled training and test halves."""
    X, y = SETS[name](return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    one, other = np.array_split(order, 2)
    scaler = StandardScaler().fit(X[one])
    return scaler.transform(X[one]), y[one], scaler.transform(X[other]), y[other]


def distance(model: Any, exact: Any) -> float:
    """How far the optimum is from the center of the ball, at most, in units of the radius."""
    proof = model._proof
    moved = model.coef_ + proof.unit * proof.difference - exact.coef_
    bias = (model.intercept_ + proof.intercept - exact.intercept_)[:, None]
    off = np.linalg.norm(np.hstack([moved, bias]), axis=1)
    if len(proof.radius) < len(off):
        off = np.linalg.norm(off)[None]
    return float((off / proof.radius).max())


def share_around_w(model: Any, X: Any) -> float:
    """The share that the ball around w proves, with radius^2 = 2 (objective - lower bound)."""
    radius = np.sqrt(2.0 * (model.objective_ - model.lower_bound_))
    reach = radius * np.sqrt(np.square(X).sum(axis=1) + 1.0)
    s = model.decision_function(X)
    if s.ndim == 1:
        return float((np.abs(s) > reach).mean())
    s = np.sort(s, axis=1)
    return float((s[:, -1] - s[:, -2] > np.sqrt(2.0) * reach).mean())


def rounded(value: float | None, unit: float, digits: int) -> float | None:
    """A number for a table, if there is one."""
    return None if value is None else round(unit * value, digits)


def cell(spec: Cell, bench: Bench) -> Cell:
    """One set, loss and C."""
    X, y, T, true = halves(spec["set"])
    params = {"C": spec["C"], **LOSSES[spec["loss"]]}
    estimator = params.pop("estimator", LinearSVC)
    estimator(**params).fit(X, y)  # compiles
    began = cpu()
    model = estimator(**params).fit(X, y)
    seconds = cpu() - began
    exact = estimator(tol=1e-10, **params).fit(X, y)
    proven = model.proven(T)
    found: Cell = {
        "proven": float(proven.mean()),
        "around w": None if "unp" in spec["loss"] else share_around_w(model, T),
        "wrong": int((model.predict(T) != exact.predict(T))[proven].sum()),
        "changed": int((model.predict(T) != exact.predict(T)).sum()),
        "distance": None if "unp" in spec["loss"] else distance(model, exact),
        "accuracy": list(model.accuracy_interval(T, true)),
        "exact": float(exact.score(T, true)),
        "gap": float(model.gap_),
        "seconds": seconds,
    }
    for share in SHARES:
        rule = ProvenPredictions(T, share)
        began = cpu()
        model = estimator(tol=rule, **params).fit(X, y)
        found[str(share)] = {
            "seconds": cpu() - began,
            "gap": float(model.gap_),
            "reached": bool(model.converged_),
            "wrong": int((model.predict(T) != exact.predict(T))[model.proven(T)].sum()),
        }
    return found


def table(bench: Bench) -> None:
    """One row per fit in both tables."""
    first: list[Row] = []
    second: list[Row] = []
    for name in list(SETS)[: 1 if bench.quick else None]:
        for loss in list(LOSSES)[: 1 if bench.quick else None]:
            for C in (0.1, 1.0, 10.0):
                spec = {"set": name, "loss": loss, "C": C}
                key, work = f"{name}-{loss}-{C:g}", partial(cell, spec, bench)
                found = bench.inline(key, work)
                low, high = found["accuracy"]
                first.append(
                    {
                        **spec,
                        "proven %": round(100 * found["proven"], 1),
                        "by the ball around w %": rounded(found["around w"], 100, 1),
                        "wrong proofs": found["wrong"],
                        "predictions not of the optimum": found["changed"],
                        "distance / radius": rounded(found["distance"], 1, 2),
                        "accuracy of the optimum": f"{low:.3f} to {high:.3f}",
                        "it is": round(found["exact"], 3),
                        "gap": found["gap"],
                    }
                )
                costs: Row = {**spec, "tol=1e-3, ms": round(1e3 * found["seconds"], 1)}
                for share in SHARES:
                    own = found[str(share)]
                    costs[f"{share:.1%}: gap"] = own["gap"]
                    costs[f"{share:.1%}: ms"] = round(1e3 * own["seconds"], 1)
                costs["all reached"] = all(found[str(share)]["reached"] for share in SHARES)
                costs["wrong proofs"] = sum(found[str(share)]["wrong"] for share in SHARES)
                second.append(costs)
    notes = """
`LinearSVC(C=C, tol=1e-3)`, or `LogisticRegression` if the intercept is not penalized, on a half of the
samples, scaled; `proven` on the other half. The ball around w has radius^2 = 2 (objective - lower bound).
Proofs and accuracies are compared with a fit at `tol=1e-10`. "distance": of the optimum from the
center of the ball.
"""
    after = """
`tol=ProvenPredictions(test half, share)`: the certified gap at which the share was proven, and CPU time.
"""
    bench.save(
        TITLE,
        [
            ("shares", "Proven at tol=1e-3", first, notes),
            ("costs", "What a share costs", second, after),
        ],
    )


if __name__ == "__main__":
    command_line("proven", TITLE, cell, table)
