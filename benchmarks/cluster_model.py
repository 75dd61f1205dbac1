"""A cost model of a fit on a hundred machines, computed from measurements on this machine.

First the unit costs: nanoseconds per entry for both products, in one thread, by the number of features;
nanoseconds per feature for writing vectors to the object store, reading them and adding them; milliseconds of
an empty round, by the number of workers. Then a small model, whose assumptions are in the table, for 10^9
rows of 75 entries. It is an extrapolation: no fit ran on a hundred machines.

The costs of deaths come from the committed table of ``benchmarks.cluster_scaling``. The page "Cost models of
a cluster" includes the result (docs/_cluster_model.inc). Requires a network namespace: ``tools/in_namespace
python -m benchmarks.cluster_model``.
"""

from __future__ import annotations

from benchmarks.common import HERE, Bench, Cell, Row, command_line, show

# ruff: isort: split
import csv
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cluster_overhead import NONZEROS, sparse_rows
from benchmarks.ray_tools import local_ray

TITLE = "The cost model of a cluster"
#: rows for the products, by the number of features
UNITS = ((50_000, 400_000), (10_000_000, 100_000), (20_000_000, 100_000))
QUICK_UNITS = ((5_000, 10_000), (100_000, 5_000))
WORKERS = (1, 2, 4, 8)

ROWS, MACHINES = 1_000_000_000, 100
#: assumptions that were not measured
CORES, EFFICIENCY, BANDWIDTH, ITERATIONS, PLANES = 16, 0.5, 1.25e9, 60, 60
#: rounds per iteration with planes at the driver, and at the shards (from benchmarks.cluster_overhead)
ROUNDS, ROUNDS_AT_SHARDS = 6.1, 9.7
#: work that is repeated for every plane of a dead worker
AGAIN = ("products, s", "broadcast of w, s", "sum of planes, s")


class Empty:
    """An empty shard."""

    def __init__(self, spec: int) -> None:
        self.spec = spec

    def nothing(self) -> float:
        return 0.0


def least(
    work: Callable[[], Any], times: int = 7, clock: Callable[[], float] = time.process_time
) -> float:
    """The minimum time of several runs."""
    found = []
    for _ in range(times):
        began = clock()
        work()
        found.append(clock() - began)
    return min(found)


def products_of(features: int, rows: int) -> Cell:
    """CPU nanoseconds per entry and per feature, one thread."""
    from maxmargin.compiled import products

    X, _ = sparse_rows(rows, features)
    rng = np.random.default_rng(0)
    w, g, scores = rng.standard_normal(features), rng.standard_normal(rows), np.empty(rows)
    plane, other = np.zeros(features), np.ones(features)
    arrays = X.indptr, X.indices, X.data
    products.csr_dot(*arrays, w, 0, 1, scores)
    products.csr_accumulate(*arrays, g, 0, 1, plane)
    dot = least(lambda: products.csr_dot(*arrays, w, 0, rows, scores))
    back = least(lambda: products.csr_accumulate(*arrays, g, 0, rows, plane))
    zeros = least(lambda: np.zeros(features).fill(1.0))
    return {
        "features": features, "dot": 1e9 * dot / X.nnz, "accumulate": 1e9 * back / X.nnz,
        "zeros": 1e9 * zeros / features, "copy": 1e9 * least(lambda: np.array(w)) / features,
        "add": 1e9 * least(lambda: np.add(plane, other, out=plane)) / features,
    }  # fmt: skip


def rounds_of(features: int) -> Cell:
    """Wall milliseconds of empty rounds; nanoseconds per feature to write to the object store."""
    from maxmargin.engines import RayEngine

    with local_ray(8 * 8 * features + 200_000_000) as ray:
        empty = {}
        for n in WORKERS:
            engine = RayEngine(n_workers=n, threads=1).open(Empty, list(range(n)))
            engine.reduce(Empty.nothing)
            empty[n] = 1e3 * least(
                lambda engine=engine: engine.reduce(Empty.nothing), 200, time.perf_counter
            )
            engine.close()
        w = np.ones(features)
        put = least(lambda: ray.put(w), 9, time.perf_counter)
    return {"empty": empty, "put": 1e9 * put / features, "load": os.getloadavg()[0]}


def cell(spec: Cell, bench: Bench) -> Cell:
    """One process."""
    if spec["kind"] == "rounds":
        return rounds_of(spec["features"])
    return products_of(spec["features"], spec["rows"])


def deaths() -> dict[str, float]:
    """Seconds that a death added, from the committed table."""
    path = HERE / "results" / "cluster_scaling_deaths.csv"
    found: dict[str, list[float]] = {}
    if path.exists():
        with path.open() as file:
            for row in csv.DictReader(file):
                # compare rounds: on a busy machine whole fits differ by more than that
                added = float(row["the round it fell into, s"]) - float(row["usual, s"])
                found.setdefault(row["killed"], []).append(added)
    return {what: max(added) for what, added in found.items()}


def model(unit: Cell, rounds: Cell, features: int, machines: int = MACHINES) -> Row:
    """Costs of an iteration and of a fit on all machines."""
    entries = ROWS * NONZEROS / machines
    cores = CORES * EFFICIENCY
    work = ROWS * NONZEROS
    shards = max(1, min(max(32, work // 2**26), work // (4 * features))) / machines
    passes = entries * (unit["dot"] + unit["accumulate"]) * 1e-9 / cores
    # one plane per shard is computed and added; threads share memory bandwidth: a quarter of the cores
    planes = math.ceil(shards) * features * (unit["zeros"] + unit["add"]) * 1e-9 / (cores / 4)
    size, levels = 8 * features, math.ceil(math.log2(machines))
    hop = size / BANDWIDTH + features * (rounds["put"] + unit["copy"]) * 1e-9
    broadcast, reduce = levels * hop, levels * (hop + features * unit["add"] * 1e-9)
    slope, base = np.polyfit([int(n) for n in rounds["empty"]], list(rounds["empty"].values()), 1)
    in_rows = features > 1_000_000
    latency = (ROUNDS_AT_SHARDS if in_rows else ROUNDS) * (base + slope * machines) * 1e-3
    driver = 0.01 if in_rows else 2 * PLANES * features * (unit["add"] + unit["copy"]) * 1e-9
    total = passes + planes + broadcast + reduce + latency + driver
    scores = ROWS / machines * (16 + 1 + (16 * PLANES if in_rows else 0)) / 1e9
    return {
        "features": f"{features:,}", "planes": "at the shards" if in_rows else "at the driver",
        "products, s": passes, "planes of shards, s": planes, "broadcast of w, s": broadcast,
        "sum of planes, s": reduce,
        f"latency of {ROUNDS:g} or {ROUNDS_AT_SHARDS:g} rounds, s": latency, "driver, s": driver,
        "an iteration, s": total, f"{ITERATIONS} iterations, min": ITERATIONS * total / 60,
        "network of a machine, GB an iteration": (2 + levels) * size / 1e9,
        "scores and planes of a machine, GB": scores, "vectors, GB": (CORES + levels + 3) * size / 1e9,
        "files in its page cache, GB": 8 * entries / 1e9,
        "driver, GB": (10 if in_rows else 10 + PLANES) * size / 1e9,
    }  # fmt: skip


def table(bench: Bench) -> None:
    """Run missing cells, and write the tables and the part of the page."""
    sizes = QUICK_UNITS if bench.quick else UNITS
    units = [
        bench.run(f"{d} features", {"kind": "products", "features": d, "rows": rows})
        for d, rows in sizes
    ]
    rounds = bench.run("rounds", {"kind": "rounds", "features": sizes[-1][0]})
    measured: list[Row] = [
        {
            "features": f"{u['features']:,}", "X w, ns an entry": u["dot"],
            "X' g, ns an entry": u["accumulate"],
            "zeros, ns a feature": u["zeros"], "copy": u["copy"], "add": u["add"],
        }
        for u in units
    ]  # fmt: skip
    empty: list[Row] = [{"workers": n, "empty round, ms": ms} for n, ms in rounds["empty"].items()]
    found = [model(u, rounds, u["features"]) for u in (units[0], units[-1])]
    lost = deaths()
    heads = [f"{row['features']} features" for row in found]
    columns: list[Row] = [
        {"cost": name, **{head: row[name] for head, row in zip(heads, found, strict=True)}}
        for name in found[0]
        if name != "features"
    ]
    for what, seconds in lost.items():
        # planes stored at the shards are recomputed by all workers
        again = [0.0, ITERATIONS * sum(found[1][name] for name in AGAIN)]
        both = zip(heads, again, strict=True)
        columns.append({
            "cost": f"a {what} dies in the last iteration: adds, s",
            **{head: seconds + more for head, more in both},
        })  # fmt: skip
    note = f"A vector goes into the object store at {rounds['put']:.2f} ns a feature."
    bench.save(
        TITLE,
        [("units", "Units, one thread", measured, note), ("rounds", "Rounds", empty, ""),
         ("extrapolated", f"Extrapolated: {ROWS:,} rows of {NONZEROS} entries, {MACHINES} machines", columns,
          ASSUMED)],
    )  # fmt: skip
    if not bench.quick:
        write_page(HERE.parent / "docs" / "_cluster_model.inc", measured, columns, rounds)


def write_page(path: Path, measured: list[Row], columns: list[Row], rounds: Cell) -> None:
    """Write the tables that the page includes."""
    lines = [".. made by python -m benchmarks.cluster_model; do not edit", "", PAGE_UNITS, ""]
    lines += rst_table("Measured, one thread", measured)
    times = ", ".join(f"{ms:.2g} with {n}" for n, ms in rounds["empty"].items())
    lines += [
        "",
        f"A round with nothing to do takes, in milliseconds by the number of workers: {times}.",
    ]
    lines += ["", PAGE_MODEL, ""]
    lines += rst_table(f"Extrapolated, {MACHINES} machines (nobody ran this)", columns)
    lines += ["", PAGE_ASSUMED]
    path.write_text("\n".join(lines) + "\n")


def rst_table(title: str, rows: list[Row]) -> list[str]:
    """A list-table."""
    names = list(rows[0])
    out = [f".. list-table:: {title}", "   :header-rows: 1", ""]
    for row in [dict(zip(names, names, strict=True)), *rows]:
        for k, name in enumerate(names):
            value = row[name]
            text = f"{float(f'{value:.2g}'):g}" if isinstance(value, float) else show(value)
            out.append(("   * - " if k == 0 else "     - ") + text)
    return out


ASSUMED = f"""
Assumed, not measured: {CORES} cores a machine of which half pay ({EFFICIENCY:g}); a quarter of these for
what only moves memory; {BANDWIDTH / 1e9:g} GB/s of network (10 Gbit/s) for each machine, transfers in a
tree of {math.ceil(math.log2(MACHINES))} levels, one after the other; every row active; files in the page
cache; {ITERATIONS} iterations and {PLANES} planes; latency of a round linear in the number of workers, from
1 to 8 workers on two cores (so it holds the workers' own time too: too much rather than too little). A
death is noticed and its process replaced in the seconds that were measured with 10^7 rows on two workers,
half the rows that a machine has here.
"""
PAGE_UNITS = """
These are computed by ``python -m benchmarks.cluster_model`` from measurements on a machine with two cores;
the tables of ``benchmarks.cluster_overhead`` and ``benchmarks.cluster_scaling`` beside it have overheads
and growth.
"""
PAGE_MODEL = """
Entries are cheap while w fits in the processor's cache and several times more expensive when it does not:
that is the step from 50 thousand to millions of features. From them, for a thousand million rows of 75
entries:
"""
PAGE_ASSUMED = (
    "**Assumptions.**"
    + ASSUMED.replace("\nAssumed, not measured:", " Not measured are:")
    + """
Measured with rows on disk and two workers (``benchmarks.cluster_scaling``): the time of a pass grows
linearly from one to twenty million rows; at thirty million, more than the page cache of that machine held,
an entry costs 2.3 times as much. What the model leaves out: other tenants, stragglers (a round waits for
the slowest machine), reading from a disk that is slower than the products, TLS. The number of iterations
does not grow with the rows (``python -m benchmarks.iterations``), but with C and the tolerance.
"""
)


if __name__ == "__main__":
    command_line("cluster_model", TITLE, cell, table)
