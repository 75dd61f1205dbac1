"""LinearSVCCV compared to GridSearchCV over scikit-learn's LinearSVC, at equal precision.

Ours is one call with ``refit=False``; every cell is certified to 1e-3. Theirs is a loop of fits: for each
cell, the loosest tol from 1e-1 to 1e-6 whose F, recomputed from the weights, is within 1e-3 of our certified
lower bound. Only the time of that fit counts; tuning time is not counted. Theirs runs on the first fold only,
and the time is multiplied by the number of folds. A fit is stopped at a limit of CPU seconds, which then
counts as its time: the ratio is a lower bound.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu, peak_memory_gb

# ruff: isort: split
import contextlib
import gc
import multiprocessing
import os
import resource
import signal
import warnings
from pathlib import Path
from typing import Any

import numpy as np

TITLE = "A whole grid against a loop of fits"
TOLS = tuple(10.0**-k for k in range(1, 7))
EPS = 1e-3
#: nine values of C, the factor of a sum over samples
CS = tuple(float(C) for C in np.geomspace(3e-4, 32.0, 9))
WEIGHTS = [(a, b) for a in (0.1, 1.0, 10.0) for b in (0.1, 1.0, 10.0)]

GRIDS: dict[str, dict[str, Any]] = {
    "covtype": {"folds": 5, "Cs": CS, "weights": [None], "loss": "hinge", "limit": 60.0},
    "ccat-like": {"folds": 5, "Cs": CS, "weights": [None], "loss": "hinge", "limit": 60.0},
    "psm": {
        "folds": 3, "Cs": (1.0,), "weights": WEIGHTS, "loss": "hinge", "limit": 300.0,
        "most": 1,  # run theirs only at (1, 1): each fit takes the whole limit
    },
    "psm squared": {
        "folds": 3, "Cs": (1.0,), "weights": WEIGHTS, "loss": "squared_hinge", "limit": 300.0,
    },
}  # fmt: skip
#: what the grids are
SETS = {
    "covtype": "covertype, class 2 one-vs-rest, 581,012 x 54, standardized, CSR; 5 folds x 9 C",
    "ccat-like": "generated text, 800,000 x 47,236, CSR; 5 folds x 9 C",
    "psm": "generated, 1,000,000 x 40 dense float64, correlated and heavy-tailed, half of the positives "
    "indistinguishable from negatives, as in peptide-spectrum matches; 3 folds x 9 class weights, C 1",
    "psm squared": "the same with the squared hinge; theirs is LinearSVC(dual=False)",
}


def psm(n: int, d: int = 40, seed: int = 0) -> tuple[Any, Any]:
    """Samples like peptide-spectrum matches: targets, half of them wrong, and decoys."""
    rng = np.random.default_rng(seed)
    target = rng.random(n) < 0.5
    right = target & (rng.random(n) < 0.5)
    latent = rng.standard_t(4, size=(n, 8))
    latent[:, :3] += np.where(right, 1.8, 0.0)[:, None] * np.array([1.0, 0.7, 0.4])
    mix = rng.normal(size=(8, d)) * 10.0 ** -rng.uniform(0, 1.5, size=(8, 1))
    X = latent @ mix
    X += 0.3 * rng.normal(size=(n, d)) * 10.0 ** -rng.uniform(0, 1.5, size=d)
    X[:, -6:] = X[:, -6:] > np.quantile(X[:, -6:], 0.7, axis=0)
    X -= X.mean(axis=0)
    X /= X.std(axis=0)
    return X, np.where(target, 1, -1)


def load(name: str, quick: bool) -> tuple[Any, Any]:
    """Samples and labels of a grid."""
    if name.startswith("psm"):
        return psm(2_000 if quick else 1_000_000)
    from benchmarks.problems import load as load_problem

    X, y, _ = load_problem({"covtype": "covtype-2"}.get(name, name), quick)
    return X, y


def class_weight(pair: Any) -> Any:
    """A pair (negative, positive) in scikit-learn's form."""
    return None if pair is None else {-1: pair[0], 1: pair[1]}


def objective(X: Any, y: Any, coef: Any, b: float, C: float, pair: Any, loss: str) -> float:
    """F of weights; for the hinge by :mod:`maxmargin.testing`."""
    from maxmargin.testing import binary_objective

    weight = np.ones(len(y)) if pair is None else np.where(y > 0, pair[1], pair[0])
    if loss == "hinge":
        return binary_objective(coef, b, X, y, C, weight)
    margin = np.maximum(0.0, 1.0 - y * (X @ np.ravel(coef) + b))
    return 0.5 * float(np.sum(np.square(coef)) + b * b) + C * float(weight @ margin**2)


def forget_peak() -> float:
    """Current memory in GB; resets the peak if the system allows it."""
    gc.collect()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak_memory_gb()


def ours(spec: Cell, bench: Bench) -> Cell:
    """The whole grid, in a process of its own."""
    from maxmargin import LinearSVC, LinearSVCCV
    from maxmargin.solvers import CuttingPlane

    grid = GRIDS[spec["grid"]]
    X, y = load(spec["grid"], bench.quick)
    some = np.arange(0, len(y), max(1, len(y) // 2000))
    weights = [class_weight(pair) for pair in grid["weights"]]
    given = {"cv": grid["folds"], "class_weights": weights, "loss": grid["loss"], "refit": False}
    # load the compiled functions
    LinearSVCCV(grid["Cs"][:2], max_iter=20, **given).fit(X[some], y[some])
    LinearSVC(solver=CuttingPlane(), loss=grid["loss"], max_iter=20).fit(X[some], y[some])
    before, began = forget_peak(), cpu()
    search = LinearSVCCV(grid["Cs"], n_jobs=1, **given).fit(X, y)
    seconds = cpu() - began
    memory = peak_memory_gb() - before
    found = search.cv_results_
    began = cpu()
    hardest = LinearSVC(C=max(grid["Cs"]), loss=grid["loss"]).fit(X, y)
    return {
        "seconds": seconds,
        "memory_gb": memory,
        "data_gb": (X.nbytes if isinstance(X, np.ndarray) else 12 * X.nnz) / 1e9,
        "cold": cpu() - began,
        "cold_gap": hardest.gap_,
        "gap": max(float(np.max(found[f"split{k}_gap"])) for k in range(grid["folds"])),
        "lower": found["split0_lower_bound"].tolist(),
        "objective": found["split0_objective"].tolist(),
        "score": found["split0_test_score"].tolist(),
        "mean_score": found["mean_test_score"].tolist(),
        "times": found["mean_fit_time"].tolist(),
    }


def _child(
    X: Any, y: Any, C: float, pair: Any, loss: str, tol: float, limit: float, pipe: Any
) -> None:
    from sklearn.svm import LinearSVC

    resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 1, int(limit) + 1))
    warnings.simplefilter("ignore")
    theirs = LinearSVC(
        loss=loss, dual=loss == "hinge", C=C, class_weight=class_weight(pair), tol=tol,
        max_iter=10**8, random_state=0,
    )  # fmt: skip
    began = cpu()
    theirs.fit(X, y)
    pipe.send((cpu() - began, theirs.coef_, float(theirs.intercept_[0])))
    pipe.close()
    os._exit(0)


def fit_theirs(*given: Any) -> tuple[float, Any, float] | None:
    """(CPU s, weights, intercept) of one fit in a process that the CPU limit may end."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(*given, send))
    child.start()
    send.close()
    try:
        answer: tuple[float, Any, float] = receive.recv()
    except EOFError:
        child.join()
        if child.exitcode in (-signal.SIGXCPU, -signal.SIGKILL):
            return None
        raise RuntimeError(f"scikit-learn's fit failed with status {child.exitcode}") from None
    child.join()
    return answer


def theirs(spec: Cell, bench: Bench) -> Cell:
    """All settings on the first fold, each its own stored cell."""
    from sklearn.model_selection import StratifiedKFold

    grid = GRIDS[spec["grid"]]
    X, y = load(spec["grid"], bench.quick)
    train, test = next(StratifiedKFold(grid["folds"]).split(np.zeros(len(y)), y))
    held_out, labels = X[test], y[test]
    X, y = X[train], y[train]
    mine = bench.get(f"{spec['grid']} ours")
    limit = 3.0 if bench.quick else grid["limit"]

    def one(C: float, pair: Any, lower: float) -> Cell:
        for tol in TOLS:
            found = fit_theirs(X, y, C, pair, grid["loss"], tol, limit)
            if found is None:
                break
            seconds, coef, b = found
            F = objective(X, y, coef, b, C, pair, grid["loss"])
            if lower >= F * (1.0 - EPS):
                right = np.where(held_out @ coef[0] + b > 0, 1, -1) == labels
                return {"seconds": seconds, "tol": tol, "F": F, "score": float(right.mean())}
        return {"seconds": limit, "tol": None, "F": None, "score": None}

    settings = [(C, pair) for pair in grid["weights"] for C in grid["Cs"]]
    order = sorted(range(len(settings)), key=lambda k: settings[k][1] not in (None, (1.0, 1.0)))
    for k in order[: spec.get("most", len(order))]:
        C, pair = settings[k]
        lower = mine["lower"][k] if mine else -np.inf
        bench.inline(_key(spec["grid"], C, pair), lambda: one(C, pair, lower))  # noqa: B023
    return {}


def _key(name: str, C: float, pair: Any) -> str:
    return f"{name} theirs {C:.3g} {'' if pair is None else f'{pair[0]:g}-{pair[1]:g}'}"


def cell(spec: Cell, bench: Bench) -> Cell:
    """One side of one grid."""
    return ours(spec, bench) if spec["side"] == "ours" else theirs(spec, bench)


def table(bench: Bench) -> None:
    """All grids; ours first, because its lower bounds determine the precision of theirs."""
    for name in GRIDS:
        bench.run(f"{name} ours", {"grid": name, "side": "ours"})
        theirs = {"grid": name, "side": "theirs"}
        if "most" in GRIDS[name]:
            theirs["most"] = GRIDS[name]["most"]
        bench.run(f"{name} theirs", theirs)
        report(bench)


def report(bench: Bench) -> None:
    """The table from the cells there are."""
    rows, cells = [], []
    for name, grid in GRIDS.items():
        mine = bench.get(f"{name} ours")
        if not mine or "seconds" not in mine:
            continue
        settings = [(C, pair) for pair in grid["weights"] for C in grid["Cs"]]
        fits = [bench.get(_key(name, *setting)) for setting in settings]
        known = [fit for fit in fits if fit]
        loop = grid["folds"] * sum(fit["seconds"] for fit in known)
        late = any(fit["tol"] is None for fit in known)
        mark = ("≥" if late else "") if len(known) == len(fits) else "≥"
        one = bench.get(_key(name, 1.0, (1.0, 1.0))) if name.startswith("psm") else None
        single = None if one is None else f"{'>' if one['tol'] is None else ''}{one['seconds']:.0f}"
        rows.append({
            "grid": name, "cells": len(fits) * grid["folds"],
            "ours s": mine["seconds"], "largest gap": mine["gap"],
            "their fits": f"{len(known)} of {len(fits)}",
            "loop s": f"{mark}{loop:.0f}", "ratio": f"{mark}{loop / mine['seconds']:.1f}",
            "cold fit s": mine["cold"], "grid / cold": mine["seconds"] / mine["cold"],
            "one LinearSVC s": single,
            "extra memory / data": mine["memory_gb"] / mine["data_gb"],
        })  # fmt: skip
        for k, (setting, fit) in enumerate(zip(settings, fits, strict=True)):
            cells.append(_cell_row(name, setting, k, mine, fit))
    described = "\n".join(f"- **{name}**: {text}" for name, text in SETS.items())
    notes = f"""
*loop s* is the sum of scikit-learn's fits on the first fold times the number of folds; “≥” if a fit hit its
limit or was not run. *cold fit* is one `LinearSVC` of ours on all samples at the largest C. *one LinearSVC*
is scikit-learn's fit with class weights (1, 1) to 1e-3 on the first fold. *extra memory* is the growth of the
peak memory of the process while the grid is trained. *score* is the accuracy on the first fold.

{described}
"""
    bench.save(
        TITLE,
        [("grids", "Grids", rows, notes), ("first_fold", "Cells of the first fold", cells, "")],
    )


def _cell_row(name: str, setting: Any, k: int, mine: Cell, fit: Cell | None) -> Row:
    C, pair = setting
    return {
        "grid": name, "C": f"{C:.3g}", "weights": "–" if pair is None else f"{pair[0]:g}, {pair[1]:g}",
        "lower bound": f"{mine['lower'][k]:.7g}", "F ours": f"{mine['objective'][k]:.7g}",
        "F theirs": f"{fit['F']:.7g}" if fit and fit["F"] else None,
        "s ours": mine["times"][k], "s theirs": fit["seconds"] if fit else None,
        "tol theirs": fit["tol"] if fit else None,
        "score ours": mine["score"][k], "score theirs": fit["score"] if fit else None,
    }  # fmt: skip


if __name__ == "__main__":
    command_line("grid", TITLE, cell, table)
