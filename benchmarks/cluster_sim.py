"""Rounds of the Ray engine on up to 1,000 machines, simulated with measured unit costs.

The real engine (``maxmargin.engines.ray``) runs against :mod:`benchmarks.simulated_cluster`: a virtual clock,
simulated machines, and a count of the bytes between them. Measured are: nanoseconds per entry of both
products and per feature of vectors, in one thread; the rounds of the real engine on real Ray, with 1 to 8
workers on this machine, which the simulation of one machine must reproduce within 25 percent.

Simulated are 10^9 rows of 75 entries: what a worker sends and the driver receives, w sent to all machines in
waves and at once, an iteration of cutting planes, the death of a machine, and machines that are three times
slower than others. No fit ran on a hundred machines. The page "Cost models of a cluster" includes the tables
(docs/notes/_cluster_sim.inc).

Requires a network namespace: ``tools/in_namespace python -m benchmarks.cluster_sim``.
"""

from __future__ import annotations

from benchmarks.common import HERE, Bench, Cell, Row, command_line, show

# ruff: isort: split
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.ray_tools import NONZEROS, local_ray, sparse_rows
from benchmarks.simulated_cluster import Costs, SimulatedCluster, Sized, spend

TITLE = "Rounds on a simulated cluster"
#: features, rows of the measured products, and of the measured rounds
UNITS = ((50_000, 400_000), (2_000_000, 100_000), (20_000_000, 100_000))
QUICK_UNITS = ((5_000, 10_000), (100_000, 5_000), (200_000, 5_000))
WORKERS, SHARDS, REPEATS = (1, 2, 4, 8), 32, 20
LIMIT = 0.25

ROWS, ALL_SHARDS, MACHINES = 1_000_000_000, 1024, (10, 100, 1000)
#: assumptions that were not measured: cores of a machine that pay; seconds to read a shard of a dead worker
CORES, READ = 8, 1.0
#: rounds of an iteration that send no vectors, counted in fits on Ray
SMALL_ROUNDS = 4
#: nanoseconds for each row in such a round
ROW = 5e-9


class Real:
    """Rows of a CSR matrix, as in a fit."""

    def __init__(self, spec: tuple[int, int, int]) -> None:
        rows, features, seed = spec
        X, _ = sparse_rows(rows, features, seed)
        self.X, self.n, self.features = (X.indptr, X.indices, X.data), rows, features
        self.scores, self.g = np.empty(rows), np.ones(rows)

    def empty(self) -> float:
        return 0.0

    def evaluate(self, w: Any) -> float:
        from maxmargin.compiled import products

        products.csr_dot(*self.X, w, 0, self.n, self.scores)
        return 0.0

    def vector(self) -> Any:
        return np.ones(self.features)

    def cut(self) -> Any:
        from maxmargin.compiled import products

        plane = np.zeros(self.features)
        products.csr_accumulate(*self.X, self.g, 0, self.n, plane)
        return plane


@dataclass(frozen=True, slots=True)
class Work:
    """What the calls of a simulated shard cost: rows, features, and seconds a unit."""

    rows: float
    features: int
    unit: Cell
    load: float = 0.0


class Simulated:
    """A shard that only notes what its work would cost."""

    def __init__(self, work: Work) -> None:
        self.work = work
        spend(work.load, new=True)

    def empty(self) -> float:
        return 0.0

    def small(self) -> float:
        spend(ROW * self.work.rows, new=True)
        return 0.0

    def evaluate(self, w: Any) -> float:
        spend(1e-9 * self.work.rows * NONZEROS * self.work.unit["dot"], new=True)
        return 0.0

    def cut(self) -> Sized:
        unit, work = self.work.unit, self.work
        seconds = work.rows * NONZEROS * unit["accumulate"] + work.features * unit["zeros"]
        spend(1e-9 * seconds, new=True)
        return Sized(8 * work.features, 1e-9 * unit["add"] / 8)


# -- measurements ----------------------------------------------------------------------------------


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


def rounds_of(sizes: list[tuple[int, int]]) -> Cell:
    """Wall seconds of the rounds of the real engine: empty, a product, and a sum of planes."""
    from maxmargin.engines import RayEngine

    found = []
    with local_ray(40 * 8 * sizes[-1][0] + 500_000_000) as ray:
        w = np.ones(sizes[-1][0])
        put = least(lambda: ray.put(w), 9, time.perf_counter) / w.nbytes
        back = returned(sizes[-1][0])
        for features, rows in sizes:
            unit = products_of(features, rows // SHARDS)
            for n in WORKERS:
                specs = [(rows // SHARDS, features, k) for k in range(SHARDS)]
                engine = RayEngine(n_workers=n, threads=1).open(Real, specs)
                handle = engine.publish(np.ones(features))
                calls: dict[str, Callable[[], Any]] = {
                    "empty": lambda engine=engine: engine.reduce(Real.empty),
                    "evaluate": lambda engine=engine, w=handle: engine.reduce(Real.evaluate, w),
                    "cut": lambda engine=engine: engine.reduce(Real.cut),
                }
                for name, call in calls.items():
                    call()
                    seconds = least(call, REPEATS, time.perf_counter)
                    found.append({
                        "features": features, "rows": rows, "workers": n, "round": name, "seconds": seconds,
                        "unit": unit,
                    })  # fmt: skip
                engine.close()
    return {
        "rounds": found,
        "put": put,
        "back": back,
        "load": os.getloadavg()[0],
        "cores": os.cpu_count(),
    }


def returned(features: int) -> float:
    """Seconds a byte to return a vector to the driver, of a worker on the same machine."""
    from maxmargin.engines import RayEngine

    engine = RayEngine(n_workers=1, threads=1).open(Real, [(1, features, 0)])
    seconds = [
        least(lambda call=call: engine.reduce(call), REPEATS, time.perf_counter)
        for call in (Real.empty, Real.vector)
    ]
    engine.close()
    made = least(lambda: np.ones(features), REPEATS, time.perf_counter)
    return (seconds[1] - seconds[0] - made) / (8 * features)


def cell(spec: Cell, bench: Bench) -> Cell:
    """One process."""
    if spec["kind"] == "rounds":
        return rounds_of(spec["sizes"])
    return products_of(spec["features"], spec["rows"])


# -- the simulation --------------------------------------------------------------------------------


def costs_of(rounds: Cell, copy: float) -> Costs:
    """Unit costs of messages, from the measured rounds without work."""
    empty = [r for r in rounds["rounds"] if r["round"] == "empty"]
    slope, base = np.polyfit([r["workers"] for r in empty], [r["seconds"] for r in empty], 1)
    call, latency = max(slope, 1e-5), max(base - slope, 1e-5) / 2
    return Costs(call, latency, rounds["put"], 1e-9 * copy / 8, rounds["back"])


class Driver:
    """The real engine on a simulated cluster.

    Parameters
    ----------
    cluster : SimulatedCluster
        The machines.
    workers, threads : int
        Workers of the engine, and threads of each.
    work : list of Work
        The shards.
    """

    def __init__(
        self, cluster: SimulatedCluster, workers: int, threads: int, work: list[Work]
    ) -> None:
        from maxmargin.engines import RayEngine

        self.cluster = cluster
        self.engine: Any = RayEngine(n_workers=workers, threads=threads)
        self.engine._cluster = cluster
        self.engine.open(Simulated, work)
        self.features = work[0].features

    def timed(self, method: Any, *args: Any) -> float:
        """Virtual seconds of a round."""
        began = self.cluster.charge_driver()
        self.engine.reduce(method, *args)
        return self.cluster.charge_driver() - began

    def publish(self) -> Any:
        return self.engine.publish(np.broadcast_to(np.zeros(1), self.features))

    def iteration(self) -> dict[str, float]:
        """Seconds of the parts of an iteration of cutting planes."""
        began = self.cluster.charge_driver()
        w = self.publish()
        published = self.cluster.charge_driver() - began
        return {
            "w and product": published + self.timed(Simulated.evaluate, w),
            "small rounds": sum(self.timed(Simulated.small) for _ in range(SMALL_ROUNDS)),
            "plane": self.timed(Simulated.cut),
        }


def checked(rounds: Cell, copy: float) -> list[Row]:
    """Measured and simulated rounds on this machine."""
    costs, out = costs_of(rounds, copy), []
    for r in rounds["rounds"]:
        cluster = SimulatedCluster(costs, 1, rounds["cores"], local=True)
        work = [Work(r["rows"] // SHARDS, r["features"], r["unit"])] * SHARDS
        driver = Driver(cluster, r["workers"], 1, work)
        args = (driver.publish(),) if r["round"] == "evaluate" else ()
        method = getattr(Simulated, r["round"])
        driver.timed(method, *args)
        seconds = driver.timed(method, *args)
        out.append({
            "features": f"{r['features']:,}", "workers": r["workers"], "round": r["round"],
            "measured, ms": 1e3 * r["seconds"], "simulated, ms": 1e3 * seconds,
            "ratio": seconds / r["seconds"], "within 25 %": abs(seconds / r["seconds"] - 1) <= LIMIT,
        })  # fmt: skip
    return out


def large(costs: Costs, machines: int, features: int, unit: Cell) -> Driver:
    """10^9 rows on many machines."""
    cluster = SimulatedCluster(costs, machines, CORES)
    work = [Work(ROWS / ALL_SHARDS, features, unit, READ)] * ALL_SHARDS
    return Driver(cluster, machines, CORES, work)


def messages(costs: Costs, machines: int, features: int, unit: Cell) -> Row:
    """Vectors and seconds of one product and one plane."""
    from maxmargin.engines import ray

    driver = large(costs, machines, features, unit)
    cluster = driver.cluster

    def sent() -> float:
        cluster.vectors.clear()
        return driver.timed(Simulated.evaluate, driver.publish())

    waves = sent()
    copies = sum(n for (a, _), n in cluster.vectors.items() if a == "driver")
    cluster.vectors.clear()
    plane = driver.timed(Simulated.cut)
    into = sum(n for (_, b), n in cluster.vectors.items() if b == "driver")
    fetches, ray.FETCHES = ray.FETCHES, 10**9
    at_once = sent()
    ray.FETCHES = fetches
    return {
        "machines": machines, "features": f"{features:,}",
        "vectors of a plane from a worker": max(cluster.results.values()),
        "into the driver": into, "copies of w from the driver": copies,
        "w in waves, and the product, s": waves, "w at once, and the product, s": at_once, "plane, s": plane,
    }  # fmt: skip


def one_dies(driver: Driver) -> Row:
    """Iterations before, during, and after the death of a machine."""
    before = sum(driver.iteration().values())
    host = driver.cluster.hosts["machine 0050"]
    host.dies = driver.cluster.now + before / 3
    during = sum(driver.iteration().values())
    after = sum(driver.iteration().values())
    return {
        "event": f"1 of {len(driver.cluster.hosts) - 1} machines dies", "before, s": before,
        "iteration with the event, s": during, "later iterations, s": after, "ratio": after / before,
        "limit": 1.15,
    }  # fmt: skip


def some_slow(driver: Driver, slowness: float = 3.0) -> Row:
    """Iterations before and after one of 20 machines becomes slow."""
    before = sum(driver.iteration().values())
    for name in sorted(driver.cluster.hosts)[1::20]:
        driver.cluster.hosts[name].slowness = slowness
    during, *_, after = [sum(driver.iteration().values()) for _ in range(6)]
    return {
        "event": f"5 % of machines become {slowness:g}× slow", "before, s": before,
        "iteration with the event, s": during, "later iterations, s": after, "ratio": after / before,
        "limit": 1.25,
    }  # fmt: skip


def table(bench: Bench) -> None:
    """Run missing cells, simulate, and write the tables and the part of the page."""
    sizes = QUICK_UNITS if bench.quick else UNITS
    units = [
        bench.run(f"{d} features", {"kind": "products", "features": d, "rows": rows})
        for d, rows in sizes
    ]
    rounds = bench.run("rounds", {"kind": "rounds", "sizes": sizes[:2]})
    costs = costs_of(rounds, units[-1]["copy"])
    measured: list[Row] = [
        {
            "features": f"{u['features']:,}", "X w, ns an entry": u["dot"],
            "X' g, ns an entry": u["accumulate"],
            "zeros, ns a feature": u["zeros"], "copy": u["copy"], "add": u["add"],
        }
        for u in units
    ]  # fmt: skip
    empty: list[Row] = [
        {"workers": r["workers"], "empty round, ms": 1e3 * r["seconds"]}
        for r in rounds["rounds"]
        if r["round"] == "empty" and r["features"] == sizes[0][0]
    ]
    both = units[0], units[-1]
    sent = [
        messages(costs, machines, unit["features"], unit)
        for unit in both
        for machines in (2, 100, 1000)
    ]
    parts: list[Row] = []
    events: list[Row] = []
    for unit in both:
        for machines in MACHINES:
            found = large(costs, machines, unit["features"], unit).iteration()
            free = {**unit, "dot": 0.0, "accumulate": 0.0, "zeros": 0.0}
            only = large(costs, machines, unit["features"], free).iteration()
            parts.append({
                "machines": machines, "features": f"{unit['features']:,}",
                **{f"{name}, s": seconds for name, seconds in found.items()},
                "an iteration, s": sum(found.values()),
                "broadcast of w, s": only["w and product"], "sum of planes, s": only["plane"],
            })  # fmt: skip
        for event in (one_dies, some_slow):
            driver = large(costs, 100, unit["features"], unit)
            events.append({"features": f"{unit['features']:,}", **event(driver)})
    here = checked(rounds, units[-1]["copy"])
    note = f"A vector goes into the object store at {8e9 * rounds['put']:.2f} ns a feature."
    what = f"{ROWS:,} rows of {NONZEROS} entries, {ALL_SHARDS:,} shards"
    tables = [
        ("units", "Units, one thread", measured, note),
        ("rounds", "Rounds without work", empty, ""),
        (
            "check",
            "Rounds of the engine on Ray on this machine, and simulated",
            here,
            CHECK.format(rounds["load"]),
        ),
        ("messages", f"Messages: {what}", sent, SENT),
        ("iterations", f"An iteration of cutting planes: {what}", parts, ALONE),
        ("events", f"Deaths and slow machines: {what}, 100 machines", events, EVENTS),
    ]
    bench.save(TITLE, tables)
    if not bench.quick:
        lines = [".. made by python -m benchmarks.cluster_sim; do not edit", "", PAGE, ""]
        for _, title, rows, text in tables:
            if title != "Rounds without work":
                lines += [*rst_table(title, rows), "", text.strip(), ""]
        (HERE.parent / "docs" / "notes" / "_cluster_sim.inc").write_text("\n".join(lines))


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


CHECKED = "Rounds of the engine on Ray on this machine, and simulated"
CHECK = """
Wall milliseconds, the minimum of several rounds. The simulated machine has the cores of this one; its unit
costs are those of the shards of these rounds. The load of the machine was {:.0f}: with other work on its two
cores, rounds of several workers take longer than simulated, and the comparison says little.
"""
SENT = """
Vectors of a plane that a worker sends to others at the beginning, and that arrive at the driver in the end.
"""
ALONE = """
The last two columns are rounds in which only messages and sums take time.
"""
EVENTS = f"""
Simulated machines have {CORES} cores that pay, a network of 10 Gbit/s, and one worker each. A death is
noticed after 10 s, another worker needs {READ:g} s to read a shard. Shards do not move away from machines
that are slow: that would make the iterates depend on timing. So a round waits for the slowest machine.
"""
PAGE = f"""
The tables are made by ``python -m benchmarks.cluster_sim``: the real engine runs on simulated machines, with
a virtual clock and unit costs that were measured on a machine with two cores. Assumed, not measured, are
{CORES} cores a machine that pay and a network of 10 Gbit/s for each. What is left out: other jobs, reading
from a disk that is slower than the products, TLS, and the driver's own work between rounds.
"""


if __name__ == "__main__":
    command_line("cluster_sim", TITLE, cell, table)
