"""Cost of the first fit on a machine: compilation by estimator and by function."""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu, scratch

# ruff: isort: split
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

TITLE = "First fits"
#: how many functions of each fit are listed
FUNCTIONS = 6


def _linear(target: str, **params: Any) -> Callable[[], object]:
    from sklearn.datasets import load_breast_cancer, load_digits

    from maxmargin import LinearSVC

    load = load_breast_cancer if target == "binary" else load_digits
    X, y = load(return_X_y=True)
    return lambda: LinearSVC(**params).fit(X / X.max(), y).predict(X)


def _regression() -> Callable[[], object]:
    from sklearn.datasets import load_diabetes

    from maxmargin import LinearSVR

    X, y = load_diabetes(return_X_y=True)
    return lambda: LinearSVR().fit(X, y).predict(X)


def _kernel() -> Callable[[], object]:
    from sklearn.datasets import load_breast_cancer

    from maxmargin import KernelSVC

    X, y = load_breast_cancer(return_X_y=True)
    return lambda: KernelSVC().fit(X / X.max(axis=0), y).predict(X)


def _grid() -> Callable[[], object]:
    from sklearn.datasets import load_breast_cancer

    from maxmargin import LinearSVCCV

    X, y = load_breast_cancer(return_X_y=True)
    return lambda: LinearSVCCV(5).fit(X / X.max(axis=0), y).predict(X)


def _measure() -> Callable[[], object]:
    from sklearn.datasets import load_breast_cancer

    from maxmargin import MeasureSVC

    X, y = load_breast_cancer(return_X_y=True)
    return lambda: MeasureSVC("f1").fit(X / X.max(axis=0), y).predict(X)


def _ranking() -> Callable[[], object]:
    from maxmargin import RankSVM

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 10))
    y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=200), [-1.0, 0.0, 1.0])
    return lambda: RankSVM().fit(X, y, groups=np.arange(200) // 10).predict(X)


def _sentences() -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, 5, size=8) for _ in range(40)]
    X = [
        [{"word": f"w{c}", "length": float(c), "first": k == 0} for k, c in enumerate(s)]
        for s in codes
    ]
    return X, [[f"t{c % 3}" for c in s] for s in codes]


def _tagger() -> Callable[[], object]:
    from maxmargin import SequenceTagger

    X, y = _sentences()
    return lambda: SequenceTagger().fit(X, y).predict(X)


def _graphs() -> Callable[[], object]:
    from maxmargin import GraphLabeler

    rng = np.random.default_rng(0)
    edges = [[i, i + 1] for i in range(7)] + [[7, 0]]
    graphs = [(rng.normal(size=(8, 4)), edges) for _ in range(20)]
    y = [x[:, :3].argmax(axis=1) for x, _ in graphs]
    return lambda: GraphLabeler().fit(graphs, y).predict(graphs)


def _parser() -> Callable[[], object]:
    from maxmargin import GrammarParser

    trees = [
        "(S (NP (DT the) (NN cat)) (VP (VBD sat)))",
        "(S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (DT the) (NN cat))))",
    ]
    return lambda: GrammarParser(min_count=1).fit(None, trees).predict([["the", "cat", "sat"]])


def _numba_alone() -> Callable[[], object]:
    """What any first call of a compiled function costs."""
    from numba import njit

    import maxmargin

    plus_one = njit(cache=True)(_plus_one)
    return lambda: (maxmargin.__version__, plus_one(1.0))


def _plus_one(x: float) -> float:
    return x + 1.0


#: the first fits that are measured; the issue's five come first
FITS: dict[str, Callable[[], Callable[[], object]]] = {
    "LinearSVC, two classes": lambda: _linear("binary"),
    "LinearSVC, ten classes": lambda: _linear("digits"),
    "MeasureSVC": _measure,
    "RankSVM": _ranking,
    "SequenceTagger, dicts": _tagger,
    'LinearSVC, "squared_hinge"': lambda: _linear("binary", loss="squared_hinge"),
    "LinearSVR": _regression,
    "KernelSVC": _kernel,
    "LinearSVCCV": _grid,
    "GraphLabeler": _graphs,
    "GrammarParser": _parser,
    "no fit: x + 1, compiled by Numba": _numba_alone,
}


class Compilations:
    """CPU seconds of compilation by function, without those of the functions it calls."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._open: list[list[Any]] = []

    def on_start(self, event: Any) -> None:
        """A function begins to compile."""
        function = event.data["dispatcher"].py_func
        name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        self._open.append([name, cpu(), 0.0])

    def on_end(self, event: Any) -> None:
        """A function is compiled."""
        name, began, inner = self._open.pop()
        whole = cpu() - began
        self.seconds[name] = self.seconds.get(name, 0.0) + whole - inner
        if self._open:
            self._open[-1][2] += whole

    def notify(self, event: Any) -> None:
        """Called by Numba."""
        (self.on_start if event.is_start else self.on_end)(event)


def cell(spec: Cell, bench: Bench) -> Cell:
    """The fit in a new process with an empty cache, and in another one with the cache of the first."""
    with scratch() as folder:
        found = [_elsewhere(spec["fit"], str(folder)) for _ in range(2)]
    cold, warm = found
    return {"cold": cold["seconds"], "warm": warm["seconds"], "functions": cold["functions"]}


def _elsewhere(fit: str, cache: str) -> Cell:
    import json

    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.first_fit", "--one", fit],
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    found: Cell = json.loads(done.stdout.splitlines()[-1])
    return found


def one(fit: str) -> Cell:
    """CPU seconds of this fit in this process, and of what it compiled."""
    import warnings

    from numba.core import event

    warnings.simplefilter("ignore")
    work = FITS[fit]()
    listener: Any = type("Listener", (Compilations, event.Listener), {})()
    began = cpu()
    with event.install_listener("numba:compile", listener):
        work()
    return {"seconds": cpu() - began, "functions": listener.seconds}


def table(bench: Bench) -> None:
    """One row per fit, and its slowest functions."""
    rows: list[Row] = []
    functions: list[Row] = []
    for name in list(FITS)[: 1 if bench.quick else None]:
        found = bench.run(name, {"fit": name})
        compiled = sorted(found["functions"].items(), key=lambda item: -item[1])
        rows.append(
            {
                "fit": name,
                "empty cache": round(found["cold"], 2),
                "warm cache": round(found["warm"], 2),
                "functions compiled": len(compiled),
            }
        )
        functions += [
            {"fit": name, "function": function, "seconds": round(seconds, 2)}
            for function, seconds in compiled[:FUNCTIONS]
        ]
    notes = """
Small data, so that nearly all time is compilation (empty cache) or loading of compiled code (warm cache).
Every fit is the first one of a new process; importing maxmargin is not counted. The last row is no fit but
one function, x + 1: with a warm cache most of a first fit is what Numba needs to start.
"""
    slow = "Compilation of a function, without the functions that it calls."
    bench.save(
        TITLE,
        [
            ("fits", "First fit of a process", rows, notes),
            ("functions", "Slowest functions", functions, slow),
        ],
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        import json

        print(json.dumps(one(sys.argv[2])))
    else:
        command_line("first_fit", TITLE, cell, table)
