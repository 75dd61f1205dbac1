"""Streamed data: caches of two sizes compared to cutting planes, and data seen only once.

``LinearSVC(solver=DualCoordinate(...))`` on a design that provides blocks of rows only, at the C that is best
on held-out samples. Every row read counts, for any purpose: streamed blocks, products X w (checks, the
certificate, points of cutting planes) and X'a (planes, the recomputed dual). A pass is as many rows as there
are samples.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu

# ruff: isort: split
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from benchmarks import datasets

TITLE = "Streams of rows"
SETS = {
    "covtype": "covertype, class 2 one-vs-rest, 581,012 x 54, standardized, rows in the file's order",
    "worm": "worm splice sites, 5,000 strings of 398 letters, words of 1 to 4 letters at each position: "
    "134,000 features, computed on the fly",
}
CS = {"covtype": (1e-4, 1e-3, 1e-2, 1e-1, 1.0), "worm": (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)}
CACHE = {"covtype": (20_000, 2_000), "worm": (1_000, 250)}
TOL, LIMIT = 1e-3, 60.0
KEEP = (100, 1_000, 10_000)
Data: TypeAlias = tuple[Any, Any, Any, Any]


class Counting:
    """A design that provides blocks only and counts the rows read."""

    def __init__(self, design: Any) -> None:
        self._design, self.shape, self.nnz = design, design.shape, design.nnz
        self.blocks = self.products = self.transposed = 0

    def dot(self, W: Any, lo: int, hi: int) -> Any:
        self.products += hi - lo
        return self._design.dot(W, lo, hi)

    def accumulate(self, coef: Any, lo: int, hi: int, out: Any) -> None:
        self.transposed += hi - lo
        self._design.accumulate(coef, lo, hi, out)

    def block(self, lo: int, hi: int) -> Any:
        self.blocks += hi - lo
        return self._design.block(lo, hi)

    def passes(self) -> Cell:
        """Passes over all rows, by kind."""
        n = self.shape[0]
        parts = {"read": self.blocks / n, "X w": self.products / n, "X'a": self.transposed / n}
        return parts | {"passes": sum(parts.values())}


def load(name: str, quick: bool) -> Data:
    """Samples and labels for training and for choosing C."""
    from maxmargin.data import KmerDesign, as_design

    if name == "covtype":
        X, y = datasets.covtype(dense=True)
        y = np.where(y == 2, 1, -1)
        if quick:
            X, y = X[::100].copy(), y[::100]
        held = np.random.default_rng(0).random(len(y)) < 0.2
        return as_design(X), y, as_design(np.ascontiguousarray(X[held])), held
    n, m = (1000, 500) if quick else (5_000, 3_000)
    strings, y = datasets.worm_splice("train")
    design = KmerDesign(strings[: n + m], orders=4)
    return _Rows(design, 0, n), np.asarray(y[:n]), _Rows(design, n, n + m), np.asarray(y[n : n + m])


class _Rows:
    """A range of the rows of a design."""

    def __init__(self, design: Any, lo: int, hi: int) -> None:
        self._design, self._lo = design, lo
        self.shape = (hi - lo, design.shape[1])
        self.nnz = design.nnz * (hi - lo) // design.shape[0]

    def dot(self, W: Any, lo: int, hi: int) -> Any:
        return self._design.dot(W, self._lo + lo, self._lo + hi)

    def accumulate(self, coef: Any, lo: int, hi: int, out: Any) -> None:
        self._design.accumulate(coef, self._lo + lo, self._lo + hi, out)

    def block(self, lo: int, hi: int) -> Any:
        return self._design.block(self._lo + lo, self._lo + hi)


def choose(name: str, data: Data) -> Cell:
    """The best C on held-out samples, and its certified optimum."""
    from sklearn.metrics import accuracy_score, average_precision_score

    from maxmargin import LinearSVC
    from maxmargin.solvers import DualCoordinate

    design, y, other, held = data
    stream = DualCoordinate()
    scores = {}
    for C in CS[name]:
        if name == "covtype":
            rows = np.flatnonzero(~held)
            svc = LinearSVC(C=C, loss="hinge").fit(design.take(rows), y[rows])
            scores[C] = accuracy_score(y[held], svc.predict(other))
        else:
            svc = LinearSVC(C=C, tol=1e-2, solver=stream, loss="hinge").fit(design, y)
            scores[C] = average_precision_score(held, svc.decision_function(other))
    C = max(scores, key=lambda C: scores[C])
    solver = "auto" if name == "covtype" else stream
    best = LinearSVC(C=C, tol=1e-5 if name == "covtype" else 1e-4, solver=solver, loss="hinge").fit(
        design, y
    )
    return {
        "C": C,
        "scores": {f"{C:g}": s for C, s in scores.items()},
        "upper": best.objective_,
        "lower": best.lower_bound_,
    }


def fit(name: str, options: Any, C: float, data: Data, max_iter: int | None = None) -> Cell:
    """One method on one set."""
    from maxmargin import LinearSVC
    from maxmargin.solvers import CuttingPlane, DualCoordinate

    design, y, *_ = data
    solver: Any = CuttingPlane() if options is None else DualCoordinate(**options)
    LinearSVC(C=C, solver=solver, max_iter=60, loss="hinge").fit(
        _Rows(design, 0, 600), y[:600]
    )  # compile first
    counting = Counting(design)
    began = cpu()
    svc = LinearSVC(C=C, tol=TOL, solver=solver, max_seconds=LIMIT, max_iter=max_iter, loss="hinge")
    svc.fit(counting, y)
    return {
        "F": svc.objective_,
        "lower": svc.lower_bound_,
        "gap": svc.gap_,
        "stop": svc.stop_reason_,
        "support": svc.history_[-1]["n_active"],
        "cached": max(r["n_cuts"] for r in svc.history_),
        "seconds": cpu() - began,
        **counting.passes(),
    }


def once(keep: int, ordered: bool, C: float, data: Data) -> Cell:
    """partial_fit, then verify."""
    from maxmargin import LinearSVC

    design, y, *_ = data
    n = design.shape[0]
    order = np.arange(n) if ordered else np.random.default_rng(0).permutation(n)
    svc = LinearSVC(C=C, max_support=keep, loss="hinge")
    svc.partial_fit(design.take(order[:600]), y[order[:600]], classes=[-1, 1])
    svc = LinearSVC(C=C, max_support=keep, loss="hinge")
    began = cpu()
    for lo in range(0, n, 5000):
        rows = order[lo : lo + 5000]
        svc.partial_fit(design.take(rows), y[rows], classes=[-1, 1])
    seconds = cpu() - began
    svc.verify(design, y)
    folded = svc._streams[0].n_folded
    return {
        "lower": svc.lower_bound_, "F": svc.objective_, "gap": svc.gap_, "seconds": seconds,
        "kept": svc.n_support_, "folded": folded,
    }  # fmt: skip


def cell(spec: Cell, bench: Bench) -> Cell:
    """All methods on one data set, in one process."""
    name = spec["set"]
    data = load(name, bench.quick)
    best = bench.inline(f"{name} C", lambda: choose(name, data))
    for label, options in methods(name).items():
        bench.inline(f"{name} {label}", lambda o=options: fit(name, o, best["C"], data))
        if options is None:
            continue
        one = {**options, "schedule": "one_pass"}
        bench.inline(f"{name} one pass {label}", lambda o=one: fit(name, o, best["C"], data))
    for keep, ordered in product(KEEP, (False, True)) if name == "covtype" else ():
        key = f"once {keep} {ordered}"
        bench.inline(key, lambda k=keep, o=ordered: once(k, o, best["C"], data))
    return {}


def methods(name: str) -> dict[str, Any]:
    """Names in the table and parameters of the solver."""
    out: dict[str, Any] = {"cutting planes": None}
    large, little = CACHE[name]
    out[f"{large:,} cached"] = {"max_cached": large}
    out[f"{little:,} cached"] = {"max_cached": little}
    out["no epochs over the cache"] = {"max_epochs": 0, "max_cached": little}
    return out


def table(bench: Bench) -> None:
    """All data sets, one process each."""
    for name in SETS:
        bench.run(f"set {name}", {"set": name})
        report(bench)


def report(bench: Bench) -> None:
    """Tables from the finished cells."""
    sections = []
    for name, what in SETS.items():
        best = bench.get(f"{name} C")
        if best is None or "error" in best:
            continue
        rows = [_row(bench, name, label, best) for label in methods(name)]
        score = "held-out accuracy" if name == "covtype" else "held-out average precision"
        scores = ", ".join(f"{C}: {s:.4f}" for C, s in best["scores"].items())
        notes = f"""
C = {best["C"]:g}, the best of {{{scores}}} ({score}). The optimum is certified: {best["lower"]:.6g} <= F* <=
{best["upper"]:.6g}. *one pass*: F after one pass of the stream, divided by F*. *support*: samples with a
nonzero dual variable (cutting planes: planes). *passes*: rows read divided by the number of rows, *read* in
blocks, *X w* and *X'a* in products, including those of the certificate.
"""
        sections.append(
            (name, f"To a certified gap of 1e-3: {what}", [r for r in rows if r], notes)
        )
    sections.append(
        ("partial_fit", "partial_fit, then verify: covertype, batches of 5,000", _once(bench), ONCE)
    )
    bench.save(TITLE, [section for section in sections if section[2]])


ONCE = """
*bound* and *F* divided by the certified optimum. The rows of the file are sorted by place: a stream that is
seen once then fits the last places best. Its bound is weaker, but valid.
"""


def _row(bench: Bench, name: str, label: str, best: Cell) -> Row | None:
    got, one = bench.get(f"{name} {label}"), bench.get(f"{name} one pass {label}")
    if got is None or "error" in got:
        return None
    single = one["F"] / best["lower"] if one else None
    return {
        "method": label,
        "one pass F / F*": single,
        "gap": got["gap"],
        "support": got["support"],
        "cached": got["cached"] if label != "cutting planes" else None,
        "read": got["read"],
        "X w": got["X w"],
        "X'a": got["X'a"],
        "passes": got["passes"],
        "CPU s": got["seconds"],
        "converged": got["stop"] == "gap",
    }


def _once(bench: Bench) -> list[Row]:
    best, rows = bench.get("covtype C"), []
    for keep, ordered in product(KEEP, (False, True)):
        got = bench.get(f"once {keep} {ordered}")
        if got is None or best is None:
            continue
        row: Row = {"order": "the file's" if ordered else "random", "max_support": keep}
        row |= {"bound / F*": got["lower"] / best["lower"], "F / F*": got["F"] / best["lower"]}
        row |= {"gap": got["gap"], "kept": got["kept"], "folded": got["folded"]}
        rows.append(row | {"CPU s": got["seconds"]})
    return rows


if __name__ == "__main__":
    command_line("stream", TITLE, cell, table)
