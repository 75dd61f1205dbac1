"""Updates around last month's weights: passes over the data and time, compared to a fresh start.

Three months of 5000 samples with 100 features whose true weights drift by 2 % per month. Every month is
trained twice, with the plain norm and with the weights of the previous month as the center of the prior, to
the same relative gap of 1e-3.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu

# ruff: isort: split
from collections.abc import Iterator
from typing import Any

import numpy as np

TITLE = "Priors: updates around last month's weights"
NOISES = (0.1, 0.5)
CS = (0.1, 1.0)
METHODS = ("coordinates", "cutting planes")
NOTES = """
Sums over two updates. *noise* is the label noise: with 0.1 the data are nearly separable, with 0.5 many
samples violate any margin. *F* is the objective of the last month: it is smaller around a good center, so
that the same relative gap is a smaller absolute gap. A pass is one visit of all samples, or a product with
them.
"""


def months(count: int, n: int, noise: float, features: int = 100) -> Iterator[tuple[Any, Any]]:
    """Samples and labels, month by month."""
    rng = np.random.default_rng(0)
    true = rng.normal(size=features)
    mix = np.eye(features) + 0.3 * rng.normal(size=(features, features)) / np.sqrt(features)
    for _ in range(count):
        X = rng.normal(size=(n, features)) @ mix
        scores = X @ true / np.sqrt(features)
        yield X, np.where(scores + noise * rng.normal(size=n) > 0, 1, -1)
        true = true + 0.02 * rng.normal(size=features)


def cell(spec: Cell, bench: Bench) -> Cell:
    """Fits of one method, with the plain norm and around the last month."""
    from maxmargin import GaussianPrior, LinearSVC
    from maxmargin.solvers import CuttingPlane, DualCoordinate

    solvers = dict(zip(METHODS, (DualCoordinate(), CuttingPlane()), strict=True))
    params = {"C": spec["C"], "solver": solvers[spec["method"]]}
    n = 500 if bench.quick else 5000
    out = {"passes alone": 0.0, "passes around": 0.0, "seconds alone": 0.0, "seconds around": 0.0}
    last = None
    for X, y in months(3, n, spec["noise"]):
        if last is None:  # compile first
            last = LinearSVC(**params, loss="hinge").fit(X, y)
            LinearSVC(**params, prior=GaussianPrior.around(last), loss="hinge").fit(X, y)
            continue
        start = cpu()
        alone = LinearSVC(**params, loss="hinge").fit(X, y)
        middle = cpu()
        around = LinearSVC(**params, prior=GaussianPrior.around(last), loss="hinge").fit(X, y)
        out["seconds alone"] += middle - start
        out["seconds around"] += cpu() - middle
        for name, svc in (("alone", alone), ("around", around)):
            assert svc.converged_
            out[f"passes {name}"] += svc.history_[-1]["oracle_calls"]
            out[f"F {name}"] = svc.objective_
        last = alone
    return out


def table(bench: Bench) -> None:
    """All cells, then the table."""
    rows: list[Row] = []
    for noise in NOISES:
        for C in CS:
            for method in METHODS:
                spec = {"noise": noise, "C": C, "method": method}
                found = bench.run(f"{noise} {C} {method}", spec)
                bare = {k: v for k, v in found.items() if k not in ("key", "date", "sources")}
                rows.append(spec | bare)
    bench.save(TITLE, [("last_month", "Alone and around the last month", rows, NOTES)])


if __name__ == "__main__":
    command_line("priors", TITLE, cell, table)
