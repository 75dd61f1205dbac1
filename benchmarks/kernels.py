"""KernelSVC compared to LIBSVM (scikit-learn's SVC) and oneDAL: certified fits, prediction, crossovers, auto.

    python -m benchmarks.kernels                                   all missing cells
    python -m benchmarks.kernels --cell a9a,covtype-20k --methods svc,exact
    python -m benchmarks.kernels --forget exact,auto --jobs 2      measure these again, two cells at a time
    python -m benchmarks.kernels --report                          only the tables and the plot

    python -m benchmarks.kernels --cell main --two-threads         "exact" and oneDAL with one and two threads

Every (cell, seed, method) runs in its own process with one thread, unless the method says "2 threads". Within
a cell the methods alternate, seed by seed, so that adjacent entries of a table row ran at nearly the same
time. Each run is a line of ``results/kernels_runs.csv``; existing runs are not repeated. oneDAL is the SVC of
scikit-learn-intelex, if that is installed. Files: ``kernel_cells.py`` (the problems and one fit),
``kernel_tables.py`` (the tables and the plot).
"""

from __future__ import annotations

from benchmarks.common import HERE, Cell, source_mark

# ruff: isort: split
import argparse
import csv
import datetime
import fcntl
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from benchmarks.kernel_cells import CELLS, LIMIT, MAIN, SMALL, run, seeds

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


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels", description=__doc__)
    parser.add_argument("--cell", help="some cells: names with commas, 'main' or 'small'")
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
    from benchmarks.kernel_tables import report

    cells = _cells(options.cell)
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


def _cells(named: str | None) -> list[str]:
    if named is None:
        return list(CELLS)
    groups = {"main": list(MAIN), "small": list(SMALL)}
    out = [c for name in named.split(",") for c in groups.get(name, [name])]
    unknown = sorted(set(out) - set(CELLS))
    if unknown:
        raise SystemExit(f"no such cell: {', '.join(unknown)}; there are {', '.join(CELLS)}")
    return out


if __name__ == "__main__":
    main()
