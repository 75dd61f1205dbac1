"""KernelSVC compared to LIBSVM (scikit-learn's SVC) and oneDAL: certified fits, landmarks, two threads.

    python -m benchmarks.kernels                                   all missing cells
    python -m benchmarks.kernels --cell a9a,covtype-20k --methods svc,exact
    python -m benchmarks.kernels --forget exact,auto --jobs 2      measure these again, two cells at a time
    python -m benchmarks.kernels --report                          only the tables
    python -m benchmarks.kernels --cell main --two-threads         "exact" and oneDAL with one and two threads

Every (cell, seed, method) runs in its own process with one thread, unless the method says "2 threads". Within
a cell the methods alternate, seed by seed, so that adjacent entries of a table row ran at nearly the same
time. Each run is a line of ``results/kernels_runs.csv``; existing runs are not repeated. oneDAL is the SVC of
scikit-learn-intelex, if that is installed. gamma and C are close to the best values of a small search on
held-out samples with LIBSVM, and the same for all methods. Data are dense and in double precision: LIBSVM is
up to three times slower on the same data stored sparse.
"""

from __future__ import annotations

from benchmarks.common import HERE, Cell, Row, cpu, machine, markdown, peak_memory_gb, source_mark

# ruff: isort: split
import argparse
import csv
import datetime
import fcntl
import importlib.util
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import datasets

#: CPU seconds after which LIBSVM or oneDAL is killed and ours is stopped
LIMIT = 600
#: rows whose prediction is timed, the same for all
TIMED_ROWS = 5_000
#: CPU seconds that the test error may take
ERROR_SECONDS = 600
#: megabytes of LIBSVM's and oneDAL's cache
CACHE = 1_000
#: the methods that are not ours: scikit-learn's SVC (LIBSVM), and that of scikit-learn-intelex (oneDAL)
PEERS = ("svc", "onedal", "onedal (2 threads)")
#: rows of the fit that loads the compiled functions
WARM = 400


@dataclass(frozen=True)
class Problem:
    """A data set with its kernel's gamma, and C."""

    gamma: float
    C: float


PROBLEMS = {
    "a9a": Problem(0.05, 1.0),
    "ijcnn1": Problem(2.0, 32.0),
    "covtype": Problem(0.2, 10.0),
    "mnist": Problem(0.02, 10.0),
    "checkerboard": Problem(10.0, 10.0),
    "mnist10": Problem(0.02, 10.0),
}
#: data set and rows of the main table, by name
MAIN = {
    "a9a": ("a9a", 32_561),
    "ijcnn1": ("ijcnn1", 49_990),
    "covtype-20k": ("covtype", 20_000),
    "covtype-50k": ("covtype", 50_000),
    "covtype-100k": ("covtype", 100_000),
    "covtype-all": ("covtype", 522_910),
    "mnist-20k": ("mnist", 20_000),
    "mnist-60k": ("mnist", 60_000),
    "checkerboard-50k": ("checkerboard", 50_000),
    "checkerboard-200k": ("checkerboard", 200_000),
    "checkerboard-1m": ("checkerboard", 1_000_000),
    "mnist-10": ("mnist10", 60_000),
}
CELLS = MAIN


def seeds(cell: str) -> range:
    """Three seeds up to 50,000 samples, one above."""
    return range(3 if CELLS[cell][1] <= 50_000 else 1)


class Rows(NamedTuple):
    """Training and test rows."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any


def load(cell: str, seed: int) -> Rows:
    """The samples of a cell. The seed draws and orders the training samples. The test samples are always the
    same, except for covtype, which has no split: 20,000 of those that were not drawn."""
    name, n = CELLS[cell]
    rng = np.random.default_rng(seed)
    if name == "checkerboard":
        return Rows(
            *datasets.checkerboard(n, seed=seed), *datasets.checkerboard(20_000, seed=1_000)
        )
    if name == "covtype":
        X, y = datasets.covtype(dense=True)
        y = np.where(y == 2, 1, -1)
        order = rng.permutation(len(y))
        train, test = order[:n], order[-20_000:]
        return Rows(X[train], y[train], X[test], y[test])
    loader = datasets.mnist if name.startswith("mnist") else getattr(datasets, name)
    (X, y), (X_test, y_test) = loader("train"), loader("test")
    if name == "mnist":
        y, y_test = np.where(y < 5, 1, -1), np.where(y_test < 5, 1, -1)
    train = rng.permutation(len(y))[:n]
    return Rows(_dense(X[train]), y[train], _dense(X_test), y_test)


def _dense(X: Any) -> Any:
    return np.ascontiguousarray(X.toarray() if hasattr(X, "toarray") else X)


# -- one fit ---------------------------------------------------------------------------------------


def model(cell: str, method: str) -> Any:
    """The estimator."""
    from sklearn.svm import SVC

    problem = PROBLEMS[CELLS[cell][0]]
    if method == "svc":
        return SVC(C=problem.C, gamma=problem.gamma, cache_size=CACHE)
    method, _, several = method.partition(" (")
    threads = int(several[0]) if several else 1
    if method == "onedal":
        import daal4py
        import sklearnex.svm

        daal4py.daalinit(threads)
        return sklearnex.svm.SVC(C=problem.C, gamma=problem.gamma, cache_size=CACHE)
    from maxmargin import KernelSVC

    return KernelSVC(
        problem.C, gamma=problem.gamma, method=method, max_seconds=LIMIT, n_jobs=threads
    )


def cache_misses() -> int:
    """Number of functions that this process had to compile because they were not cached."""
    return sum(
        sum(thing.stats.cache_misses.values())
        for name, module in list(sys.modules.items())
        if name.startswith("maxmargin")
        for thing in vars(module).values()
        if hasattr(thing, "overloads") and hasattr(thing, "stats")
    )


def run(cell: str, seed: int, method: str) -> Cell:
    """One fit and its predictions, in this process: CPU seconds, and the reported bounds."""
    warnings.simplefilter("ignore")
    rows = load(cell, seed)
    warm = _some(rows)
    model(cell, method).fit(*warm).predict(warm[0])
    held, compiled = peak_memory_gb(), cache_misses()
    svc = model(cell, method)
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if method in PEERS:  # they cannot be stopped in any other way
        limit = int(np.ceil(cpu() + LIMIT)) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))
    began, clock = cpu(), time.perf_counter()
    svc.fit(rows.X, rows.y)
    seconds, wall = cpu() - began, time.perf_counter() - clock
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
    memory, compiled = peak_memory_gb(), cache_misses() - compiled
    out = {"seconds": seconds, "wall": wall, "memory": memory, "held": held, "compiled": compiled}
    return {**out, "SVs": len(svc.support_), **_certificate(svc), **_predictions(svc, rows)}


def _some(rows: Rows) -> tuple[Any, Any]:
    """A few rows of every class."""
    classes = np.unique(rows.y)
    few = [np.flatnonzero(rows.y == c)[: WARM // len(classes)] for c in classes]
    which = np.concatenate(few)
    return rows.X[which], rows.y[which]


def _certificate(svc: Any) -> Cell:
    if not hasattr(svc, "certificate_"):
        return {}
    names = ("objective", "lower_bound", "gap", "certificate", "stop_reason", "n_iter")
    names += ("restricted_gap", "kernel_values")
    out = {name: getattr(svc, name + "_", None) for name in names}
    said = svc.method_
    out["method_said"] = said if isinstance(said, str) else said[0]
    return out


def _predictions(svc: Any, rows: Rows) -> Cell:
    """Seconds for the first samples, and the error on all samples, or on as many as time allows."""
    head = min(TIMED_ROWS, len(rows.y_test))
    wrong = svc.predict(rows.X_test[:200]) != rows.y_test[:200]  # touches all of the model once
    began = cpu()
    wrong = svc.predict(rows.X_test[:head]) != rows.y_test[:head]
    seconds = cpu() - began
    some = min(len(rows.y_test) - head, int(head * ERROR_SECONDS / max(seconds, 1e-9)))
    if some:
        more = slice(head, head + some)
        wrong = np.r_[wrong, svc.predict(rows.X_test[more]) != rows.y_test[more]]
    out = {"error": float(wrong.mean()), "test_rows": len(wrong)}
    return {**out, "predict_seconds": seconds, "predict_rows": head}


# -- stored runs ----

RUNS = HERE / "results" / "kernels_runs.csv"
FIELDS = (
    *(
        "cell",
        "seed",
        "method",
        "n",
        "date",
        "sources",
        "status",
        "seconds",
        "wall",
        "memory",
        "held",
    ),
    *("SVs", "error", "test_rows", "predict_seconds", "predict_rows", "objective", "lower_bound"),
    *("gap", "certificate", "stop_reason", "n_iter", "restricted_gap", "kernel_values"),
    "method_said",
)
#: oneDAL where it is installed, next to the method it is compared with
_ONEDAL = ("onedal",) if importlib.util.find_spec("sklearnex") else ()
MAIN_METHODS = ("svc", "exact", *_ONEDAL, "nystrom", "auto")
#: compared by wall time, one after the other
TWO_THREADS = (
    "exact (1 thread)",
    "exact (2 threads)",
    *(f"{method} (2 threads)" for method in _ONEDAL),
)
Key = tuple[str, int, str]


def read() -> dict[Key, Cell]:
    """All runs so far."""
    if not RUNS.exists():
        return {}
    with RUNS.open(newline="") as file:
        return {(r["cell"], int(r["seed"]), r["method"]): r for r in csv.DictReader(file)}


def write(change: dict[Key, Cell | None]) -> None:
    """Add runs, or remove those that are None. Safe for concurrent processes."""
    RUNS.parent.mkdir(exist_ok=True)
    with (RUNS.parent / ".kernels_runs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        runs = {key: run for key, run in {**read(), **change}.items() if run is not None}
        order = {name: k for k, name in enumerate(CELLS)}
        part = RUNS.with_suffix(".part")
        with part.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, restval="", lineterminator="\n")
            writer.writeheader()
            for key in sorted(runs, key=lambda k: (order.get(k[0], -1), k[1], k[2])):
                writer.writerow({name: runs[key].get(name, "") for name in FIELDS})
        part.rename(RUNS)


# -- running ---------------------------------------------------------------------------------------


def measure(cell: str, seed: int, method: str) -> None:
    """One run in its own process, or a line that says how it failed."""
    command = [sys.executable, "-m", "benchmarks.kernels", "--run", f"{cell},{seed},{method}"]
    began = time.time()
    # oneDAL has as many threads as OpenMP when it is loaded; ours sets its own
    threads = "2" if method.startswith("onedal (2") else "1"
    env = {**os.environ, "BENCHMARK_THREADS": threads}
    for _ in range(3):
        done = subprocess.run(
            command, cwd=HERE.parent, stdout=subprocess.PIPE, check=False, env=env
        )
        found: Cell = {}
        if done.returncode == 0:
            found = {"status": "done", **json.loads(done.stdout.splitlines()[-1])}
            if found["compiled"]:  # exclude compile time; the functions are cached now
                continue
        elif done.returncode == -signal.SIGXCPU:
            found = {"status": "limit", "seconds": LIMIT}
        else:
            found = {"status": f"failed {done.returncode}"}
        break
    found |= {"cell": cell, "seed": seed, "method": method, "n": CELLS[cell][1]}
    found = {"date": datetime.date.today().isoformat(), "sources": "", **found}
    write({(cell, seed, method): {k: _short(v) for k, v in found.items()}})
    line = {k: _short(found.get(k)) for k in ("status", "seconds", "error", "SVs", "gap")}
    print(
        f"{cell} {seed} {method}: {time.time() - began:.0f} s {line}", file=sys.stderr, flush=True
    )


def _short(value: object) -> object:
    return float(f"{value:.10g}") if isinstance(value, float) else value


def work(cell: str, methods: Iterable[str], most: int) -> None:
    """All missing runs of a cell, with at most ``most`` seeds."""
    for seed in seeds(cell)[:most]:
        for method in methods:
            known = read().get((cell, seed, method))
            if known is None or known["status"].startswith("failed"):
                measure(cell, seed, method)


# -- report ----

Runs = dict[tuple[str, int, str], Cell]
FOLDER = HERE / "results"
#: "exact" guarantees a gap of at most this
TOL = 1e-3


class Found:
    """The runs of one method in one cell: medians over the seeds."""

    def __init__(self, runs: Runs, cell: str, method: str) -> None:
        self.all = [run for (c, _, m), run in sorted(runs.items()) if (c, m) == (cell, method)]
        self.done = [run for run in self.all if run["status"] == "done"]
        self.late = any(run["status"] == "limit" for run in self.all)
        self.failed = any(run["status"].startswith("failed") for run in self.all)

    def __bool__(self) -> bool:
        return bool(self.done or self.late)

    def get(self, name: str) -> float | None:
        """The median of a column."""
        values = [float(run[name]) for run in self.done if run.get(name, "") not in ("", None)]
        return statistics.median(values) if values else None

    def worst(self, name: str) -> float | None:
        """The largest of a column."""
        values = [float(run[name]) for run in self.done if run.get(name, "") not in ("", None)]
        return max(values, default=None)

    def seconds(self) -> float | None:
        """CPU s of the fit; the limit, where it was reached."""
        return float(LIMIT) if self.late else self.get("seconds")

    def certified(self) -> bool:
        """Whether every seed reached the requested gap."""
        gap = self.worst("gap")
        return not self.late and gap is not None and gap <= TOL * (1 + 1e-6)


def report(runs: Runs) -> None:
    """Write all tables for which there are runs."""
    sections = [
        ("fits", "Fits", fits(runs), FITS),
        ("two_threads", "Two threads", two_threads(runs), TWO_THREADS),
    ]
    dates = sorted({run["date"] for run in runs.values()})
    marks = sorted({run["sources"] for run in runs.values() if run["method"] not in PEERS} - {""})

    def methods_on(date: str) -> str:
        return ", ".join(sorted({run["method"] for run in runs.values() if run["date"] == date}))

    lines = [
        "# Kernel machines against LIBSVM and oneDAL",
        "",
        f"Measured {' to '.join(dict.fromkeys([dates[0], dates[-1]])) if dates else '–'}. {machine()}.",
        f"Fits were measured with library sources {', '.join(marks)}." if marks else "",
        "Methods by date: " + "; ".join(f"{date} {methods_on(date)}" for date in dates) + ".",
        "Made by `python -m benchmarks.kernels`; all runs are in `kernels_runs.csv`. " + HEAD,
    ]
    for slug, heading, rows, notes in sections:
        lines += ["", f"## {heading}", ""]
        if rows:
            lines += markdown(rows) + ([""] if notes else [])
            _write(FOLDER / f"kernels_{slug}.csv", rows)
        lines += [notes.strip()] if notes else []
    (FOLDER / "kernels.md").write_text("\n".join(lines).rstrip() + "\n")


HEAD = (
    "Seconds are CPU seconds of one thread, after a small fit has loaded the compiled functions; medians of "
    "three seeds up to 50,000 samples, one above; of SVC one seed in the main table. SVC and oneDAL have a "
    "cache of 1 GB and are killed after "
    f"{LIMIT} CPU seconds. RBF kernel, unpenalized intercept, dense double-precision data for all: "
    + "; ".join(f"{name} gamma {p.gamma:g}, C {p.C:g}" for name, p in PROBLEMS.items())
    + ". covtype is class 2 one-vs-rest, standardized; mnist 0–4 against 5–9; mnist10 all digits, "
    "one-vs-one; checkerboard 4 x 4 with 2 % of the labels flipped."
)
FITS = f"""
- **ratio** is SVC's time divided by ours, **oneDAL ratio** that of oneDAL; `>` means that it was killed.
  **exact** has a target gap of {TOL:g} for the full problem; the gap shown is the largest over the seeds. A
  larger gap means that it did not finish within {LIMIT} s.
- SVC and oneDAL use the same stopping rule (violations of optimality below 1e-3) and give no bound.
- **nystrom** solves a restricted problem with at most 1,000 landmarks: the gap is that of this problem, and
  there is no lower bound for the full one. **SVs** are samples with a nonzero coefficient, **values**
  computed kernel values, **GB** the peak resident memory of the process, including data.
"""
TWO_THREADS = """
Wall seconds of one seed. **times faster** compares two threads of ours with one, **oneDAL ratio** is the time
of two threads of oneDAL divided by that of two of ours. Our weights do not depend on the number of threads.
"""


# -- tables ----------------------------------------------------------------------------------------


def fits(runs: Runs) -> list[Row]:
    """The main table."""
    rows: list[Row] = []
    for cell, (_, n) in MAIN.items():
        svc, exact, low = (Found(runs, cell, m) for m in ("svc", "exact", "nystrom"))
        if not (svc or exact or low):
            continue
        onedal = Found(runs, cell, "onedal")
        late, slow = (">" if peer.late else "" for peer in (svc, onedal))
        rows.append(
            {
                "cell": cell,
                "rows": n,
                "SVC s": _late(svc),
                "exact s": _figure(exact.seconds()),
                "ratio": late + _figure(_ratio(svc.seconds(), exact.seconds())),
                "oneDAL s": _late(onedal),
                "oneDAL ratio": slow + _figure(_ratio(onedal.seconds(), exact.seconds())),
                "exact gap": exact.worst("gap"),
                "SVC err %": _percent(svc),
                "exact err %": _percent(exact),
                "SVC SVs": _count(svc.get("SVs")),
                "exact SVs": _count(exact.get("SVs")),
                "exact values": _figure(exact.get("kernel_values")),
                "exact GB": _figure(exact.get("memory")),
                "nystrom s": _figure(low.seconds()),
                "nystrom err %": _percent(low),
                "restricted gap": low.worst("restricted_gap"),
                "nystrom GB": _figure(low.get("memory")),
            }
        )
    return rows


def two_threads(runs: Runs) -> list[Row]:
    """Wall times of one and two threads."""
    rows: list[Row] = []
    for cell in MAIN:
        names = ("exact (1 thread)", "exact (2 threads)", "onedal (2 threads)")
        keys = [(cell, 0, name) for name in names]
        if keys[1] not in runs:
            continue
        one, two, theirs = (_wall(runs.get(key)) for key in keys)
        late = keys[2] in runs and runs[keys[2]]["status"] == "limit"
        rows.append(
            {
                "cell": cell,
                "exact, 1 thread": _figure(one),
                "exact, 2 threads": _figure(two),
                "times faster": _figure(_ratio(one, two)),
                "oneDAL, 2 threads": f"> {LIMIT} CPU s" if late else _figure(theirs),
                "oneDAL ratio": _figure(_ratio(theirs, two)),
            }
        )
    return rows


def _wall(run: Cell | None) -> float | None:
    return float(run["wall"]) if run and run.get("wall") not in ("", None) else None


# -- small parts -----------------------------------------------------------------------------------


def _ratio(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a / b


def _late(found: Found) -> str:
    return f"> {LIMIT}" if found.late else _figure(found.seconds())


def _percent(found: Found) -> str:
    return _text(found.get("error"), lambda v: f"{100 * v:.2f}")


def _count(value: float | None) -> str:
    return _text(value, lambda v: f"{v:,.0f}")


def _figure(value: float | None) -> str:
    return _text(
        value, lambda v: f"{v:.1e}" if v >= 1e6 else f"{v:.0f}" if v >= 100 else f"{v:.2g}"
    )


def _text(value: float | None, how: Callable[[float], str]) -> str:
    return "–" if value is None else how(value)


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


# -- the command ----


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels", description=__doc__)
    parser.add_argument("--cell", help="some cells: names with commas")
    parser.add_argument(
        "--methods", help="some methods: svc, onedal, exact, nystrom, auto, sampled, ..."
    )
    parser.add_argument("--forget", help="methods whose runs (of these cells) are measured anew")
    parser.add_argument("--seeds", type=int, default=3, help="at most so many seeds")
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time")
    parser.add_argument(
        "--two-threads", action="store_true", help="one seed with one and with two threads"
    )
    parser.add_argument("--report", action="store_true", help="write the tables only")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        cell, seed, method = options.run.split(",")
        mark = source_mark()  # before the fit: the files may change during a long one
        print(json.dumps({**run(cell, int(seed), method), "sources": mark}, default=float))
        return
    cells = _named_cells(options.cell)
    if not options.report:
        if options.forget:
            forget = options.forget.split(",")
            write({key: None for key in read() if key[0] in cells and key[2] in forget})
        some = options.methods.split(",") if options.methods else MAIN_METHODS
        if options.two_threads:
            some, options.seeds, options.jobs = TWO_THREADS, 1, 1
        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(lambda c: work(c, some, options.seeds), cells))
    report(read())


def _named_cells(named: str | None) -> list[str]:
    if named is None:
        return list(CELLS)
    out = list(MAIN) if named == "main" else named.split(",")
    unknown = sorted(set(out) - set(CELLS))
    if unknown:
        raise SystemExit(f"no such cell: {', '.join(unknown)}; there are {', '.join(CELLS)}")
    return out


if __name__ == "__main__":
    main()
