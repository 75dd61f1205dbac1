"""What a fit with cutting planes on a cluster would cost, from the manifest of the data and a measurement.

One shard is built from the first rows of the data, and each of its calls is timed here, in one thread. A
machine makes the calls of its shards, as many at a time as it has CPUs. What is not measured is assumed: the
network, and how long Ray takes for a round with nothing to do.
"""

from __future__ import annotations

import math
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.core.engine import share
from maxmargin.core.line_search import LIMIT
from maxmargin.data import Dataset, as_design, shard_bounds
from maxmargin.duals.rows import Rows
from maxmargin.engines.ray import FEW
from maxmargin.files.scratch import FROM_ROWS
from maxmargin.losses import Hinge
from maxmargin.risks.scores.shard import ScoreShard

#: most stored entries that are read for the measurement
ENTRIES = 2**24
#: calls per iteration (benchmarks.cluster_scaling), the method, and whether a vector is sent or returned
CALLS = (
    ("products and losses", 1.3, "line_evaluate"),
    ("planes", 1.2, "line_cut"),
    ("slopes", 2.0, "line_slopes"),
    ("kinks", 2.0, "line_kinks"),
    ("values on lines", 1.0, "line_value_toward"),
    ("moves on lines", 0.8, "line_toward"),
)
#: seconds of a round with nothing to do, and more for each worker (benchmarks.cluster_sim)
ROUND, PER_WORKER = 1.5e-3, 0.15e-3
#: anonymous memory of a worker before it has shards, and of the driver (benchmarks.cluster_scaling)
WORKER, DRIVER = 0.10e9, 0.25e9
#: planes that the driver has at the end of a fit
PLANES = 60
#: bytes of scores per row: two points
SCORES = 16
#: all workers together return about this many kinks in a round for n samples, times the square root of n (and
#: no more than :data:`maxmargin.core.line_search.LIMIT`); bytes of a kink (benchmarks.cluster_faults)
KINKS, KINK_BYTES = 16, 16


@dataclass(frozen=True, slots=True)
class PlannedRound:
    """One kind of round."""

    what: str
    per_iteration: float
    seconds: float
    to_machine: float
    from_machine: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Bytes, and rounds."""

    n_shards: int
    worker: float
    page_cache: float
    scratch: float
    driver: float
    rounds: list[PlannedRound]

    @property
    def seconds(self) -> float:
        """Seconds of an iteration, without the driver's own work."""
        return sum(r.per_iteration * r.seconds for r in self.rounds)

    @property
    def n_rounds(self) -> float:
        """Rounds of an iteration."""
        return sum(r.per_iteration for r in self.rounds)


def measured(data: Dataset, n_rows: int) -> tuple[dict[str, float], float]:
    """Seconds of the calls of a shard with so many rows, by method, and the bytes that it needs meanwhile."""
    n = max(1, min(n_rows, data.shape[0], ENTRIES * data.shape[0] // max(1, data.nnz)))
    X = data.block(0, n)
    rng = np.random.default_rng(0)
    y = rng.choice(np.array([-1, 1], dtype=np.int8), n)
    rows = Rows(as_design(X), y, np.ones(n), Hinge(), 1.0, ((0, n),), None)
    shard = ScoreShard(rows, 0, n)
    w = rng.normal(size=rows.dim) / max(1.0, math.sqrt(data.nnz / max(1, data.shape[0])))
    ts, live = np.linspace(0.1, 0.9, 5), frozenset([0, 1])
    calls: dict[str, Callable[[], Any]] = {
        "line_evaluate": lambda: shard.line_evaluate(1, w, live),
        "line_cut": lambda: shard.line_cut(1),
        "line_slopes": lambda: shard.line_slopes(0, 1, ts),
        "line_kinks": lambda: shard.line_kinks(0, 1, 0.4, 0.5, 100_000),
        "line_value_toward": lambda: shard.line_value_toward(0, 1, 0.5),
        "line_toward": lambda: shard.line_toward(0, 1, 0.5, 2, live),
    }
    shard.line_evaluate(0, np.zeros(rows.dim), live)
    found, scale = {}, n_rows / n
    for method, call in calls.items():
        call()  # loads compiled code
        seconds = []
        for _ in range(3):
            if method == "line_evaluate":
                shard.line_toward(0, 0, 0.0, 0, frozenset([0]))  # forget the scores of 1
            elif method == "line_toward":
                shard.line_toward(0, 1, 0.0, 1, live)  # of 2
            began = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - began)
        found[method] = scale * min(seconds)
    tracemalloc.start()
    calls["line_cut"]()
    calls["line_value_toward"]()
    temporary = tracemalloc.get_traced_memory()[1] - 8.0 * rows.dim
    tracemalloc.stop()
    return found, scale * max(0.0, temporary)


def plan(data: Dataset, machines: int, cpus: float, bandwidth: float) -> Plan:
    """The costs on so many machines, with CPUs and bytes per second of network each."""
    n, dim = data.shape[0], data.shape[1] + 1
    n_shards = len(shard_bounds(n, data.nnz, dim)) - 1
    workers = min(machines, n_shards)
    own = max(len(share(n_shards, workers, k)) for k in range(workers))
    rows, threads = n * own / n_shards, max(1, min(own, int(cpus)))
    seconds_of, temporary = measured(data, -(-n // n_shards))
    turns = own / cpus if cpus < 1 else math.ceil(own / int(cpus))
    vector, levels = 8.0 * dim, max(1, math.ceil(math.log2(workers + 1)))
    rounds = []
    for what, per_iteration, method in CALLS:
        sent = 200.0 + (vector if method == "line_evaluate" else 0.0)
        received = min(2, own) * vector if method == "line_cut" else 8.0
        if method == "line_kinks":
            received = KINK_BYTES * min(KINKS * math.sqrt(n), LIMIT) / workers
        large = levels * vector if method in ("line_evaluate", "line_cut") else 0.0
        # sums of more machines are merged by the workers
        senders = min(workers, FEW) if method == "line_cut" else workers
        seconds = turns * seconds_of[method] + (large + received * senders) / bandwidth
        seconds += ROUND + PER_WORKER * workers
        rounds.append(PlannedRound(what, per_iteration, seconds, sent, received))
    on_disk = n // n_shards >= FROM_ROWS
    return Plan(
        n_shards=n_shards,
        worker=WORKER + threads * (temporary + 3 * vector) + (0 if on_disk else SCORES * rows),
        page_cache=_bytes(data) * own / n_shards,
        scratch=SCORES * rows if on_disk else 0.0,
        driver=DRIVER + (10 + PLANES) * vector,
        rounds=rounds,
    )


def _bytes(data: Dataset) -> float:
    """Bytes of the features."""
    item = data.dtype.itemsize
    return float(data.nnz * (item if data.layout == "dense" else item + 4))
