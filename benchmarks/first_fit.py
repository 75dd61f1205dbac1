"""Cost of the first fit of a process, and of the first prediction of a stored model.

With the platform wheel functions are compiled already; the pure wheel compiles them, or loads them from a
cache. The cost is the CPU time of the first fit minus that of the second. CPU seconds vary twofold with the
load of a machine, so they are divided by the time of a fixed loop of Python in the same process.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu, scratch

# ruff: isort: split
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

TITLE = "First fits"
#: CPU seconds that the loop of `calibration` takes on a quiet machine
LOOP = 0.1


class Work(NamedTuple):
    """An estimator and data for it."""

    estimator: Any
    arguments: tuple[Any, ...]
    X: Any
    named: dict[str, Any] = {}  # noqa: RUF012 - never changed

    def __call__(self) -> Any:
        """Fit and predict."""
        fitted = self.estimator.fit(*self.arguments, **self.named)
        fitted.predict(self.X)
        return getattr(fitted, "best_estimator_", fitted)


def _linear(target: str, **params: Any) -> Work:
    from sklearn.datasets import load_breast_cancer, load_digits

    from maxmargin import LinearSVC

    load = load_breast_cancer if target == "binary" else load_digits
    X, y = load(return_X_y=True)
    return Work(LinearSVC(**params), (X / X.max(), y), X)


def _on_breast_cancer(make: Callable[[], Any]) -> Work:
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return Work(make(), (X / X.max(axis=0), y), X)


def _kernel() -> Work:
    from maxmargin import KernelSVC

    return _on_breast_cancer(KernelSVC)


def _grid() -> Work:
    from maxmargin import LinearSVCCV

    return _on_breast_cancer(lambda: LinearSVCCV(5, loss="hinge"))


def _measure() -> Work:
    from maxmargin import MeasureSVC

    return _on_breast_cancer(lambda: MeasureSVC("f1"))


def _regression() -> Work:
    from sklearn.datasets import load_diabetes

    from maxmargin import LinearSVR

    X, y = load_diabetes(return_X_y=True)
    return Work(LinearSVR(), (X, y), X)


def _ranking() -> Work:
    from maxmargin import RankSVM

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 10))
    y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=200), [-1.0, 0.0, 1.0])
    return Work(RankSVM(), (X, y), X, {"groups": np.arange(200) // 10})


def _tagger() -> Work:
    from maxmargin import SequenceTagger

    rng = np.random.default_rng(0)
    codes = [rng.integers(0, 5, size=8) for _ in range(40)]
    X = [
        [{"word": f"w{c}", "length": float(c), "first": k == 0} for k, c in enumerate(s)]
        for s in codes
    ]
    return Work(SequenceTagger(), (X, [[f"t{c % 3}" for c in s] for s in codes]), X)


def _graphs() -> Work:
    from maxmargin import GraphLabeler

    rng = np.random.default_rng(0)
    edges = [[i, i + 1] for i in range(7)] + [[7, 0]]
    graphs = [(rng.normal(size=(8, 4)), edges) for _ in range(20)]
    y = [x[:, :3].argmax(axis=1) for x, _ in graphs]
    return Work(GraphLabeler(), (graphs, y), graphs)


def _parser() -> Work:
    from maxmargin import GrammarParser

    trees = [
        "(S (NP (DT the) (NN cat)) (VP (VBD sat)))",
        "(S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (DT the) (NN cat))))",
    ]
    return Work(GrammarParser(min_count=1), (None, trees), [["the", "cat", "sat"]])


#: the first fits that are measured
FITS: dict[str, Callable[[], Work]] = {
    "LinearSVC, two classes": lambda: _linear("binary", loss="hinge"),
    "LinearSVC, ten classes": lambda: _linear("digits", multi_class="crammer_singer"),
    'LinearSVC, "squared_hinge"': lambda: _linear("binary", loss="squared_hinge"),
    "LinearSVCCV": _grid,
    "LinearSVR": _regression,
    "KernelSVC": _kernel,
    "MeasureSVC": _measure,
    "RankSVM": _ranking,
    "SequenceTagger, dicts": _tagger,
    "GraphLabeler": _graphs,
    "GrammarParser": _parser,
}


def calibration() -> float:
    """CPU seconds of a fixed loop, as a multiple of what it takes on a quiet machine."""
    best = np.inf
    for _ in range(3):
        began, total = cpu(), 0
        for k in range(1_600_000):
            total += k
        best = min(best, cpu() - began)
    return best / LOOP


def one(fit: str, model: str) -> Cell:
    """What the first fit takes longer than the second; stores the model."""
    warnings.simplefilter("ignore")
    work = FITS[fit]()
    first, second = _cpu(work), min(_cpu(work) for _ in range(3))
    numba = "numba" in sys.modules
    work().save(model)
    return {"extra": (first - second) / calibration(), "numba": numba}


def prediction(fit: str, model: str) -> Cell:
    """What loading and predicting takes longer for the first time than for the second."""
    import maxmargin

    warnings.simplefilter("ignore")
    X = FITS[fit]().X

    def work() -> None:
        maxmargin.load(model).predict(X)

    first, second = _cpu(work), min(_cpu(work) for _ in range(3))
    return {"extra": (first - second) / calibration(), "numba": "numba" in sys.modules}


def _cpu(work: Callable[[], object]) -> float:
    began = cpu()
    work()
    return cpu() - began


def cell(spec: Cell, bench: Bench) -> Cell:
    """New processes: with precompiled code, with Numba and an empty cache, and with the cache of that."""
    with scratch() as folder:
        model = str(folder / "model")
        numba = {"NUMBA_CACHE_DIR": str(folder / "cache"), "MAXMARGIN_JIT": "1"}
        return {
            "ready": _elsewhere("--one", spec["fit"], model, {"HOME": "/proc/nowhere"}),
            "loaded": _elsewhere("--predict", spec["fit"], model, {"HOME": "/proc/nowhere"}),
            "cold": _elsewhere("--one", spec["fit"], model, numba),
            "warm": _elsewhere("--one", spec["fit"], model, numba),
        }


def _elsewhere(what: str, fit: str, model: str, environment: dict[str, str]) -> Cell:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.first_fit", what, fit, model],
        env={**os.environ, "MAXMARGIN_QUIET": "1", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    found: Cell = json.loads(done.stdout.splitlines()[-1])
    return found


def table(bench: Bench) -> None:
    """One row per fit."""
    from maxmargin.compiled.precompiled import precompiled

    if not precompiled().functions:
        raise SystemExit(
            f"needs the platform wheel, or tools/build_kernels.py: {precompiled().reason}"
        )
    rows: list[Row] = []
    for name in list(FITS)[: 1 if bench.quick else None]:
        found = bench.run(name, {"fit": name})
        rows.append(
            {
                "fit": name,
                "platform wheel": round(found["ready"]["extra"], 3),
                "platform wheel: load and predict": round(found["loaded"]["extra"], 3),
                "imports Numba": found["ready"]["numba"] or found["loaded"]["numba"],
                "pure wheel, empty cache": round(found["cold"]["extra"], 1),
                "pure wheel, warm cache": round(found["warm"]["extra"], 2),
            }
        )
    notes = """
CPU seconds of the first fit and prediction of a process minus those of the second, divided by the CPU time
of a fixed Python loop in the same process (0.1 s on a quiet machine). The home folder is not writable for the
platform wheel. Importing maxmargin is not counted.
"""
    bench.save(TITLE, [("fits", "First fit of a process", rows, notes)])


if __name__ == "__main__":
    if sys.argv[1:2] in (["--one"], ["--predict"]):
        run = one if sys.argv[1] == "--one" else prediction
        print(json.dumps(run(*sys.argv[2:4])))
    else:
        command_line("first_fit", TITLE, cell, table)
