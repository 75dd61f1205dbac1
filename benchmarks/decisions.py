"""Predict, then optimize: SPO+ to a certified gap, beside PyEPO's gradient steps and least squares.

Data are made by PyEPO's own generators: shortest paths on a 5 x 5 grid, a knapsack of 10 items with three
capacities, and tours through 8 cities. Costs are polynomials of the features, of degree 1,
2, 4, and 6, times noise between 0.5 and 1.5; the predictor is linear with an intercept. All decisions are
enumerated, and both programs get the same solver, the smallest of all sums. Requires ``pip install pyepo``.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu

# ruff: isort: split
import itertools
from typing import Any

import numpy as np

TITLE = "Predict, then optimize"
PROBLEMS = ("shortest path", "knapsack", "tour")
DEGREES, SEEDS = (1, 2, 4, 6), (1, 2)
TRAIN, TEST, FEATURES, NOISE = 200, 1000, 5, 0.5
FOLDS, TOL = 3, 1e-2
CS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
#: PyEPO: a short run as in introductions, and the choices of the search: one more than there are values of C
SHORT = {"rate": 1e-2, "epochs": 10}
RATES, EPOCHS = (1e-2, 1e-1), (10, 30, 60)
METHODS = (
    "least squares",
    "PyEPO, 10 epochs",
    "PyEPO, searched",
    "maxmargin, C = 0.1",
    "maxmargin, C searched",
)


def paths(n: int = 5) -> Any:
    """All paths to the right and down, in the order of PyEPO's arcs: row by row, first right, then down."""
    number = {}
    for r in range(n):
        for c in range(n - 1):
            number[r, c, r, c + 1] = len(number)
        for c in range(n if r < n - 1 else 0):
            number[r, c, r + 1, c] = len(number)
    out = []
    for right in itertools.combinations(range(2 * n - 2), n - 1):
        y, r, c = np.zeros(len(number)), 0, 0
        for k in range(2 * n - 2):
            after = (r, c + 1) if k in right else (r + 1, c)
            y[number[r, c, *after]] = 1.0
            r, c = after
        out.append(y)
    return np.array(out)


def tours(n: int = 8) -> Any:
    """All tours, as 0/1 vectors over pairs i < j."""
    number = {pair: k for k, pair in enumerate(itertools.combinations(range(n), 2))}
    out = []
    for order in itertools.permutations(range(1, n)):
        if order[0] < order[-1]:
            y, nodes = np.zeros(len(number)), (0, *order, 0)
            for a, b in itertools.pairwise(nodes):
                y[number[min(a, b), max(a, b)]] = 1.0
            out.append(y)
    return np.array(out)


def data(problem: str, degree: int, seed: int, n: int) -> tuple[Any, Any, Any, str]:
    """(points, features, costs, sense)."""
    import pyepo

    given: dict[str, Any] = {"deg": degree, "noise_width": NOISE, "seed": seed}
    if problem == "shortest path":
        return paths(), *pyepo.data.shortestpath.genData(n, FEATURES, (5, 5), **given), "minimize"
    if problem == "tour":
        return tours(), *pyepo.data.tsp.genData(n, FEATURES, 8, **given), "minimize"
    weights, X, costs = pyepo.data.knapsack.genData(n, FEATURES, 10, dim=3, **given)
    points = np.array(list(itertools.product((0.0, 1.0), repeat=10)))
    return points[(points @ weights.T <= 20).all(axis=1)], X, costs, "maximize"


def optimization_model(points: Any, sense: str) -> Any:
    """PyEPO's interface to the same solver."""
    from pyepo import EPO
    from pyepo.model.opt import optModel

    class Enumerated(optModel):
        def __init__(self) -> None:
            self.modelSense = EPO.MAXIMIZE if sense == "maximize" else EPO.MINIMIZE
            super().__init__()

        def _getModel(self) -> Any:
            return None, list(range(points.shape[1]))

        def setObj(self, c: Any) -> None:
            self.c = np.asarray(c, dtype=np.float64)

        def solve(self) -> Any:
            values = points @ self.c
            best = int(values.argmax() if sense == "maximize" else values.argmin())
            return points[best], float(values[best])

    return Enumerated()


def by_steps(model: Any, X: Any, costs: Any, rate: float, epochs: tuple[int, ...]) -> list[Any]:
    """Weights, the intercept last, by PyEPO's SPO+ and Adam in batches of 32, after each of ``epochs``."""
    import torch
    from pyepo.data.dataset import optDataset
    from pyepo.func import SPOPlus

    torch.manual_seed(0)
    torch.set_num_threads(1)
    batches = torch.utils.data.DataLoader(optDataset(model, X, costs), batch_size=32, shuffle=True)
    predictor = torch.nn.Linear(X.shape[1], costs.shape[1])
    loss, adam = SPOPlus(model, processes=1), torch.optim.Adam(predictor.parameters(), lr=rate)
    out = []
    for epoch in range(1, max(epochs) + 1):
        for x, c, y, value in batches:
            adam.zero_grad()
            loss(predictor(x), c, y, value).backward()
            adam.step()
        if epoch in epochs:
            W, b = predictor.weight.detach().numpy(), predictor.bias.detach().numpy()
            out.append(np.column_stack([W, b]).astype(np.float64))
    return out


def searched(model: Any, points: Any, sense: str, X: Any, costs: Any, folds: Any) -> Any:
    """The rate and number of epochs with the smallest regret on held-out folds, then a fit to all data."""
    total = dict.fromkeys(itertools.product(RATES, EPOCHS), 0.0)
    for train, held in folds:
        for rate in RATES:
            found = by_steps(model, X[train], costs[train], rate, EPOCHS)
            for epochs, W in zip(EPOCHS, found, strict=True):
                total[rate, epochs] += scores(points, sense, X[held], costs[held], W)["regret"]
    rate, epochs = min(total, key=total.get)  # type: ignore[arg-type]
    return by_steps(model, X, costs, rate, (epochs,))[0], f"rate {rate:g}, {epochs} epochs"


def scores(points: Any, sense: str, X: Any, costs: Any, W: Any) -> Cell:
    """Normalized regret, and the mean SPO+ loss."""
    sign = 1.0 if sense == "minimize" else -1.0
    c, guess = sign * costs, sign * (X @ W[:, :-1].T + W[:, -1])
    best, chosen = (points[np.argmin(v @ points.T, axis=1)] for v in (c, guess))
    optimal = np.sum(c * best, axis=1)
    worst = ((c - 2 * guess) @ points.T).max(axis=1)
    return {
        "regret": float((np.sum(c * chosen, axis=1) - optimal).sum() / np.abs(optimal).sum()),
        "spo": float(np.mean(worst + 2 * np.sum(guess * best, axis=1) - optimal)),
    }


def cell(spec: Cell, bench: Bench) -> Cell:
    """All methods on one data set, one after the other."""
    from sklearn.linear_model import LinearRegression
    from sklearn.model_selection import KFold

    from maxmargin import StructuredSVM, StructuredSVMCV
    from maxmargin.tasks import LinearObjective

    n = 60 if bench.quick else TRAIN
    points, X, costs, sense = data(spec["problem"], spec["degree"], spec["seed"], n + TEST)
    costs = costs.astype(np.float64)
    test, X, costs = (X[n:], costs[n:]), X[:n], costs[:n]
    ones = np.column_stack([X, np.ones(n)])
    folds = list(KFold(FOLDS, shuffle=True, random_state=0).split(X))
    task: Any = LinearObjective(points, sense=sense)  # type: ignore[arg-type]
    model = optimization_model(points, sense)
    StructuredSVM(task, 1e-3).fit(ones[:5], task.labels(ones[:5], costs[:5]))  # warm up
    by_steps(model, X[:5], costs[:5], 1e-2, (1,))
    out: Cell = {}
    for method in METHODS:
        began, more = cpu(), ""
        if method == "least squares":
            fit = LinearRegression().fit(X, costs)
            W = np.column_stack([fit.coef_, fit.intercept_])
        elif method == "PyEPO, 10 epochs":
            W = by_steps(model, X, costs, SHORT["rate"], (int(SHORT["epochs"]),))[0]
        elif method == "PyEPO, searched":
            W, more = searched(model, points, sense, X, costs, folds)
        elif method == "maxmargin, C = 0.1":
            svm = StructuredSVM(task, 0.1, tol=TOL).fit(ones, task.labels(ones, costs))
            W, more = svm.coef_.reshape(costs.shape[1], -1), f"gap {svm.gap_:.1e}"
        else:
            search = StructuredSVMCV(task, CS, cv=folds, tol=TOL)
            search.fit(ones, task.labels(ones, costs))
            W = search.coef_.reshape(costs.shape[1], -1)
            more = f"C = {search.best_params_['C']:g}"
        seconds = cpu() - began
        train = scores(points, sense, X, costs, W)
        out[method] = {
            **scores(points, sense, *test, W),
            "train spo": train["spo"],
            "seconds": seconds,
            "more": more,
        }
    return out


def table(bench: Bench) -> None:
    """Means over the seeds."""
    rows: list[Row] = []
    for problem, degree in itertools.product(PROBLEMS, DEGREES):
        cells = []
        for seed in SEEDS[:1] if bench.quick else SEEDS:
            spec = {"problem": problem, "degree": degree, "seed": seed}
            c = bench.run(f"{problem} {degree} {seed}", spec)
            if "error" not in c:
                cells.append(c)
        for method in METHODS if cells else ():
            found = [c[method] for c in cells]
            rows.append(
                {
                    "problem": problem,
                    "degree": degree,
                    "method": method,
                    "test regret %": f"{100 * np.mean([f['regret'] for f in found]):.2f}",
                    "training SPO+": float(np.mean([f["train spo"] for f in found])),
                    "CPU s": float(np.mean([f["seconds"] for f in found])),
                    "chosen": "; ".join(f["more"] for f in found if f["more"]) or None,
                }
            )
    notes = f"""
{TRAIN} training and {TEST} test examples, {FEATURES} features and an intercept; means over {len(SEEDS)} data
sets. *test regret* is the sum of the regrets over the sum of the absolute optimal costs; *training SPO+* is
the mean loss per example. Both searches use the same {FOLDS} folds and score by regret: {len(CS)} values of
C from {CS[0]:g} to {CS[-1]:g}, or {len(RATES)} learning rates times {len(EPOCHS)} numbers of epochs for
PyEPO, which takes all numbers of epochs from one run. CPU seconds include the search. PyEPO runs Adam with
batches of 32; without a search, with rate {SHORT["rate"]:g}. tol = {TOL:g}. In
`maxmargin` the intercept is a feature that is 1, and penalized as any other; that of PyEPO is a bias.
"""
    bench.save(TITLE, [("regret", "Regret at equal data, folds, and solver", rows, notes)])


if __name__ == "__main__":
    command_line("decisions", TITLE, cell, table)
