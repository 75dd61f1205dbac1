"""Deaths in fits on a cluster of four machines: what each adds, and whether the fit is certified.

``LinearSVC(solver=CuttingPlane())`` runs to a gap of 3e-3 on rows on disk, on four raylets, one worker each.
In a round drawn at random, a worker's process (SIGKILL) or its whole machine (the raylet and its processes)
is killed; then a worker is stopped (SIGSTOP), which only ``timeout=`` can notice. Between two deaths there is
a fit without one.

``tools/in_namespace python -m benchmarks.cluster_scaling --faults`` runs this.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, on_disk

# ruff: isort: split
import logging
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.ray_tools import family, machines_ray, pids_of_workers

TITLE = "Deaths in fits on a cluster of four machines"
MACHINES, FEATURES, TOL = 4, 10, 3e-3
ROWS, TIMES = 10_000_000, 10
QUICK_ROWS, QUICK_TIMES = 400_000, 2
BATCH = 500_000
#: Ray's defaults take up to half a minute to notice that a machine is gone
QUICK_CHECKS = {
    "health_check_initial_delay_ms": 0, "health_check_period_ms": 500,
    "health_check_timeout_ms": 2000, "health_check_failure_threshold": 4,
}  # fmt: skip


def batches(n: int) -> Iterator[tuple[Any, Any]]:
    """Normal features, and labels from a noisy linear rule."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal(FEATURES)
    for lo in range(0, n, BATCH):
        X = rng.standard_normal((min(BATCH, n - lo), FEATURES), dtype=np.float32)
        noisy = X @ w + 2.0 * rng.standard_normal(len(X))
        yield X, np.where(noisy > 0.0, 1, -1).astype(np.int8)


class Watch:
    """Times the rounds of an engine, kills in one of them, and reads the log."""

    def __init__(self, engine: Any) -> None:
        #: name, seconds, and when it ended
        self.rounds: list[tuple[str, float, float]] = []
        self.log: list[tuple[float, str]] = []
        self.kill: tuple[int, Any] | None = None
        self.killed = 0.0
        self._round = engine._round
        engine._round = self._timed
        handler = logging.Handler()
        handler.emit = lambda r: self.log.append((r.created, r.getMessage()))  # type: ignore[method-assign]
        logger = logging.getLogger("maxmargin.engines")
        logger.addHandler(handler)
        logger.setLevel("INFO")
        logger.propagate = False

    def clear(self) -> None:
        self.rounds, self.log, self.killed = [], [], 0.0

    def _timed(self, how: str, *args: Any) -> Any:
        name = str(args[0]) if args else how
        if self.kill is not None and len(self.rounds) == self.kill[0]:
            threading.Timer(0.02, self._strike, [self.kill[1]]).start()
            self.kill = None
        began = time.perf_counter()
        try:
            return self._round(how, *args)
        except Exception:
            name = "failed"
            raise
        finally:
            self.rounds.append((name, time.perf_counter() - began, time.time()))

    def _strike(self, act: Any) -> None:
        self.killed = time.time()
        act()


def faults(spec: Cell) -> Cell:
    """Fits with and without deaths, on one cluster."""
    import maxmargin.data
    from maxmargin import LinearSVC
    from maxmargin.engines import RayEngine
    from maxmargin.solvers import CuttingPlane

    data = maxmargin.data.open(spec["path"])
    draw, n = random.Random(1), data.shape[0]
    with machines_ray(MACHINES, 150_000_000, QUICK_CHECKS) as ray:
        cluster, nodes = ray.benchmark_cluster
        engine = RayEngine(n_workers=MACHINES, threads=1)
        watch = Watch(engine)

        def fit() -> tuple[Any, float]:
            watch.clear()
            svc = LinearSVC(C=10.0 / n, solver=CuttingPlane(), tol=TOL, engine=engine, loss="hinge")
            began = time.perf_counter()
            return svc.fit(data), time.perf_counter() - began

        def kill(what: str) -> tuple[Any, Any]:
            """What to do, and the machine that is gone then."""
            victim = draw.choice(pids_of_workers())
            if what != "machine":
                number = signal.SIGKILL if what == "worker" else signal.SIGSTOP
                return lambda: os.kill(victim, number), None
            raylets = {k: k.all_processes["raylet"][0].process.pid for k in nodes}
            node = next(k for k in nodes if victim in family(raylets[k]))
            pids = family(raylets[node])
            return lambda: [os.kill(pid, signal.SIGKILL) for pid in pids], node

        fit()  # starts workers, and loads compiled code
        deaths: list[Cell] = []
        usual: dict[str, list[float]] = {}
        clean_walls = []
        for k in range(spec["times"] + 1):
            clean, wall = fit()
            clean_walls.append(wall)
            for name, seconds, _ in watch.rounds:
                usual.setdefault(name, []).append(seconds)
            what = "worker hangs" if k == spec["times"] else ("worker", "machine")[k % 2]
            engine.timeout = 5.0 if what == "worker hangs" else None
            at = draw.randrange(1, max(2, len(watch.rounds) * 3 // 4))  # not in the last rounds
            act, node = kill(what)
            watch.kill = at, act
            svc, wall = fit()
            lost = [when for when, text in watch.log if "was lost" in text]
            # the round in which the death was noticed; those that failed miss scores, and are repeated
            name, seconds, _ = next(r for r in watch.rounds if not lost or r[2] >= lost[0])
            lost_scores = [r for r in watch.rounds if r[0] in ("failed", "line_restore")]
            later = [s for other, s, ended in lost_scores if not lost or ended > lost[0]]
            later = later[1:] if name == "failed" else later
            deaths.append({
                "what": what, "round": at, "call": name, "seconds": seconds, "after": sum(later),
                "detected": lost[0] - watch.killed if lost else None, "logged": len(lost),
                "certified": bool(svc.converged_) and svc.lower_bound_ <= clean.objective_
                and clean.lower_bound_ <= svc.objective_,
                "wall": wall, "clean": clean_walls[-1],
            })  # fmt: skip
            if node is not None:
                nodes.remove(node)
                cluster.remove_node(node, allow_graceful=False)
                nodes.append(cluster.add_node(num_cpus=2, object_store_memory=150_000_000))
        engine.close()
    return {
        "rows": n, "deaths": deaths, "usual": {k: float(np.median(s)) for k, s in usual.items()},
        "walls": clean_walls,
        "load": os.getloadavg()[0],
    }  # fmt: skip


def cell(spec: Cell, bench: Bench) -> Cell:
    """One process."""
    return faults(spec)


def table(bench: Bench) -> None:
    """Run, and save the tables."""
    n, times = (QUICK_ROWS, QUICK_TIMES) if bench.quick else (ROWS, TIMES)
    c = bench.get("faults")
    if c is None:
        with on_disk(batches(n)) as path:
            c = bench.run("faults", {"path": str(path), "times": times})
    product = c["usual"]["line_evaluate"]
    rows: list[Row] = []
    for d in c["deaths"]:
        added = d["seconds"] - c["usual"].get(d["call"], 0.0) + d["after"]
        found = d["detected"] or 0.0
        limit = found + c["usual"]["built"] + 1.3 * product
        rows.append({
            "dies": d["what"], "round": d["round"], "call": d["call"], "certified": d["certified"],
            "in the log": d["logged"], "noticed after, s": found, "added, s": added,
            "added after that, s": added - found,
            "allowed, s": limit, "kept": added <= limit,
            "fit, s": d["wall"], "fit without, s": d["clean"],
        })  # fmt: skip
    note = NOTE.format(**{k.replace(" ", "_"): v for k, v in c.items()}, product=product,
                       built=c["usual"]["built"])  # fmt: skip
    bench.save(
        TITLE,
        [
            ("deaths", f"Deaths, {c['rows']:,} rows", rows, note),
        ],
    )


NOTE = """
Added: by how much the round with the death was longer than usual, and the rounds that restored lost scores.
Allowed: until it was noticed, the time to build shards ({built:.3g} s), and 1.3 times a product with all rows
({product:.3g} s). Ray was set to notice within seconds that a machine is gone; its default is up to half a
minute. The machine had other work at the same time (load {load:.0f} on two cores).
"""


if __name__ == "__main__":
    command_line("cluster_faults", TITLE, cell, table)
