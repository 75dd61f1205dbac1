"""Compare two source trees, or two ways to run one, by the CPU time of the same fits.

    git worktree add ../before main~5
    python -m benchmarks.compare_trees ../before/src src
    python -m benchmarks.compare_trees "src MAXMARGIN_JIT=1" src --only small

Each tree runs in a process of its own, and both take turns: a fit in one, then in the other, several times.
The best time of each counts, so that the load of the machine matters less. Ratios below 1 mean that the
second one is faster. Every fit certifies its default tolerance; objectives that differ by more are reported.
"""

from __future__ import annotations

from benchmarks.common import Row, cpu, markdown

# ruff: isort: split
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

Fit = Callable[[], Any]
#: CPU seconds that a measurement takes at least: short fits are repeated
ENOUGH = 0.05


def small_fits() -> dict[str, Fit]:
    """The fits of ``benchmarks.guard``."""
    from benchmarks import guard

    return guard.fits()


def linear_fits() -> dict[str, Callable[[], Fit]]:
    """Two classes and ten, dense and sparse, small and large C."""
    import maxmargin as mm
    from benchmarks import datasets

    def of(load: Callable[[], Any], C_mean: float) -> Callable[[], Fit]:
        def make() -> Fit:
            X, y = load()
            joint = {"multi_class": "crammer_singer"} if len(set(y.tolist())) > 2 else {}
            svc = mm.LinearSVC(C=C_mean / X.shape[0], loss="hinge", **joint)
            return lambda: svc.fit(X, y)

        return make

    def covtype() -> tuple[Any, Any]:
        X, y = datasets.covtype(dense=True)
        return X, y == 2

    return {
        "covtype 1e3": of(covtype, 1e3),
        "covtype 1e5": of(covtype, 1e5),
        "a9a 1e4": of(datasets.a9a, 1e4),
        "RCV1 1e4": of(datasets.rcv1, 1e4),
        "IMDB 1e4": of(datasets.imdb, 1e4),
        "MNIST, ten classes, 1e3": of(datasets.mnist, 1e3),
    }


def sequence_fits() -> dict[str, Callable[[], Fit]]:
    """Chunking of 2,000 sentences, from strings and as a matrix, and by cutting planes."""
    import maxmargin as mm
    from benchmarks import datasets

    def of(**params: Any) -> Callable[[], Fit]:
        def make() -> Fit:
            sentences = datasets.conll2000()[:2000]
            X = [datasets.token_features(s) for s in sentences]
            y = [[token[-1] for token in s] for s in sentences]
            return lambda: mm.SequenceTagger(0.1, **params).fit(X, y)

        return make

    return {
        "chunking, strings": of(),
        "chunking, planes": of(solver=mm.solvers.CuttingPlane(), tol=0.2),
    }


def kernel_fits() -> dict[str, Callable[[], Fit]]:
    """Exact kernel machines, and landmarks."""
    import maxmargin as mm
    from benchmarks import datasets

    def of(load: Callable[[], Any], n: int, **params: Any) -> Callable[[], Fit]:
        def make() -> Fit:
            X, y = load()
            return lambda: mm.KernelSVC(**params).fit(X[:n], y[:n])

        return make

    return {
        "ijcnn1 20k": of(datasets.ijcnn1, 20_000, gamma=1.0, C=10.0),
        "a9a 10k": of(datasets.a9a, 10_000, gamma=0.05),
        "a9a 30k, landmarks": of(
            datasets.a9a, 30_000, gamma=0.05, method="nystrom", random_state=0
        ),
    }


def engine_fits() -> dict[str, Callable[[], Fit]]:
    """Cutting planes whose shards are on threads and in processes."""
    import maxmargin as mm
    from benchmarks.ray_tools import sparse_rows

    def of(**params: Any) -> Callable[[], Fit]:
        def make() -> Fit:
            X, y = sparse_rows(100_000, 20_000)
            solver = mm.solvers.CuttingPlane()
            svc = mm.LinearSVC(C=0.1, loss="hinge", solver=solver, tol=0.05, **params)
            return lambda: svc.fit(X, y)

        return make

    return {
        "planes, two threads": of(n_jobs=2),
        "planes, two processes": of(n_jobs=2, engine="processes"),
    }


GROUPS: dict[str, Callable[[], dict[str, Any]]] = {
    "small": lambda: {name: lambda fit=fit: fit for name, fit in small_fits().items()},
    "linear": linear_fits,
    "sequence": sequence_fits,
    "kernels": kernel_fits,
    "engines": engine_fits,
}


# -- one tree --------------------------------------------------------------------------------------


def serve() -> None:
    """Fit what standard input names, and print the CPU seconds and the objective."""
    warnings.simplefilter("ignore")
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what fits print is not an answer
    made: tuple[str, str] | None = None
    work: Fit = lambda: None  # noqa: E731
    for line in sys.stdin:
        group, name = json.loads(line)
        if made != (group, name):
            made, work = (group, name), GROUPS[group]()[name]()
            work()  # compiles, and fills caches
        count, began, elapsed = 0, _family(), 0.0
        while elapsed < ENOUGH:
            fitted = work()
            count, elapsed = count + 1, _family() - began
        answer = elapsed / count, float(getattr(fitted, "objective_", math.nan))
        print(json.dumps(answer), file=out, flush=True)


def _family() -> float:
    """CPU seconds of this process and of those that it has waited for."""
    times = os.times()
    return cpu() + times.children_user + times.children_system


class Tree(NamedTuple):
    """A source tree and its process."""

    process: subprocess.Popen[str]

    @classmethod
    def start(cls, text: str, cache: str) -> Tree:
        """``text`` is a folder and assignments of environment variables."""
        folder, *assignments = text.split()
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(Path(folder).resolve()), os.getcwd()]),
            "NUMBA_CACHE_DIR": cache,
            "MAXMARGIN_QUIET": "1",
            **dict(a.split("=", 1) for a in assignments),
        }
        command = [sys.executable, "-m", "benchmarks.compare_trees", "--serve"]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        return cls(subprocess.Popen(command, env=environment, text=True, **pipes))

    def ask(self, group: str, name: str) -> tuple[float, float]:
        """CPU seconds and objective of a fit."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps([group, name]), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the process ended in {group}: {name}")
        seconds, objective = json.loads(line)
        return float(seconds), float(objective)


# -- both ------------------------------------------------------------------------------------------


def compare(before: str, after: str, only: list[str], repeats: int) -> Iterator[Row]:
    """Rows with the best times of both."""
    with tempfile.TemporaryDirectory() as cache:
        trees = [Tree.start(text, f"{cache}/{k}") for k, text in enumerate((before, after))]
        for group in only:
            for name in GROUPS[group]():
                found: list[list[tuple[float, float]]] = [[], []]
                for turn in range(repeats):
                    for k in (0, 1) if turn % 2 == 0 else (1, 0):
                        found[k].append(trees[k].ask(group, name))
                old, new = (min(seconds for seconds, _ in one) for one in found)
                values = [one[0][1] for one in found]
                same = not abs(values[0] - values[1]) > 1e-2 * abs(values[0])
                row = {"group": group, "fit": name, "before": old, "after": new}
                yield {**row, "after / before": new / old, "same objective": same}
        for tree in trees:
            tree.process.communicate()


def main() -> None:
    """Print a table, and the geometric means."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compare_trees",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("before", nargs="?", help='a folder, or "FOLDER NAME=VALUE ..."')
    parser.add_argument("after", nargs="?")
    parser.add_argument("--only", nargs="+", default=list(GROUPS), choices=list(GROUPS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    rows = []
    for row in compare(options.before, options.after, options.only, options.repeats):
        rows.append(row)
        print(f"{row['group']}: {row['fit']}: {row['after / before']:.2f}", file=sys.stderr)
    print("\n".join(markdown(rows)))
    for group in options.only:
        ratios = [row["after / before"] for row in rows if row["group"] == group]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{group}: {mean:.3f} of before in geometric mean, {max(ratios):.2f} at most")


if __name__ == "__main__":
    main()
