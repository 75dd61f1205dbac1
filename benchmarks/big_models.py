"""A dense w of 20 million features: two ways to store the planes, and the memory of the driver.

The data are generated rows on disk with 75 float32 entries each, uniform over the features, so that nearly
every feature occurs. Labels come from a noisy linear rule over all features. There are two Ray workers with
one thread each on this machine. Cutting planes run for a fixed time, with the planes stored in two ways:

- *features*: a bundle of 8 planes at the driver; older planes are aggregated
(``CuttingPlane(max_planes=8)``); - *rows*: planes as coefficients and scores of rows at the shards, and their
inner products at the driver
  (``CuttingPlane(space="rows")``).

The memory of the driver and the workers is sampled from /proc: *own* is anonymous memory, *files* are pages
of the data set and of programs, *shared* are pages of Ray's object store that the process has touched. The
peak (VmHWM) includes all three.

Requires a network namespace: ``tools/in_namespace python -m benchmarks.big_models``. The files go to
MAXMARGIN_SCRATCH (by default a temporary folder) and are removed at the end.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, scratch

# ruff: isort: split
import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.ray_tools import family, local_ray, memory, name_of, pids_of_workers

TITLE = "A dense w of 20 million features"
NONZEROS = 75
C = 10.0
#: rows, features, seconds of each fit, bytes of the object store
FULL = (1_000_000, 20_000_000, 300.0, 4_000_000_000)
QUICK = (20_000, 400_000, 15.0, 400_000_000)
WALL = (
    "Seconds are wall seconds, medians over iterations. On a shared machine they include waiting: Ray's "
    "workers run at a niceness of 15."
)
#: features per row at which the two ways are compared in one process, and the number of rows
RATIOS, RATIO_ROWS, RATIO_ITERATIONS = (0.5, 2.0, 8.0, 32.0), 20_000, 100
WAYS = {"features, 8 planes": {"max_planes": 8}, "rows": {"space": "rows"}}


def batches(n: int, d: int, size: int = 50_000) -> Iterator[tuple[Any, Any]]:
    """Rows of about unit norm, and labels."""
    truth = np.random.default_rng(0).standard_normal(d, dtype=np.float32)
    for lo in range(0, n, size):
        rng, rows = np.random.default_rng(lo + 1), min(size, n - lo)
        indices = np.sort(rng.integers(0, d, (rows, NONZEROS), dtype=np.int32), axis=1).ravel()
        data = rng.standard_normal(rows * NONZEROS, dtype=np.float32) / np.float32(NONZEROS**0.5)
        X = sp.csr_matrix(
            (data, indices, np.arange(0, rows * NONZEROS + 1, NONZEROS)), shape=(rows, d)
        )
        X.sum_duplicates()
        noise = 0.5 * rng.standard_normal(rows)
        yield X, np.where(X @ truth + noise > 0.0, 1, -1).astype(np.int8)


class Watch:
    """The largest memory of this process and of its workers while a block runs, in GB."""

    def __enter__(self) -> Watch:
        self.driver: dict[str, float] = {}
        self.workers: dict[str, float] = {}
        self.store = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
        self._look()

    def _run(self) -> None:
        while not self._over.wait(0.5):
            self._look()

    def _look(self) -> None:
        _raise(self.driver, memory())
        for pid in pids_of_workers():
            with contextlib.suppress(OSError):
                _raise(self.workers, memory(pid))
        self.store = max(self.store, _store())


def _raise(peaks: dict[str, float], now: dict[str, float]) -> None:
    for name, value in now.items():
        peaks[name] = max(peaks.get(name, 0.0), value)


def _store() -> float:
    """GB of the object store that were ever written to: the size of its file."""
    for pid in family():
        if "raylet" in name_of(pid).split(" ")[0]:
            for link in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if "plasma" in os.readlink(link):
                        return link.stat().st_blocks * 512 / 1e9
    return 0.0


def cell(spec: Cell, bench: Bench) -> Cell:
    """One process: the data, one fit, or communication of vectors."""
    if spec["what"] == "data":
        import maxmargin.data

        data = maxmargin.data.write(spec["path"], batches(spec["rows"], spec["features"]))
        used = np.zeros(spec["features"], dtype=bool)
        for lo in range(0, spec["rows"], 100_000):
            used[data.design.block(lo, min(spec["rows"], lo + 100_000)).indices] = True
        return {"share": float(used.mean()), "nnz": int(data.nnz)}
    if spec["what"] == "ratio":
        return ratio(spec)
    with local_ray(spec["store"]):
        return travel(spec) if spec["what"] == "travel" else fit(spec)


def fit(spec: Cell) -> Cell:
    """Cutting planes for a fixed time, and the certificate of the result."""
    import maxmargin.data
    from maxmargin import minimize
    from maxmargin.data.columns import StoredColumn
    from maxmargin.engines import RayEngine
    from maxmargin.losses import Hinge
    from maxmargin.risks import ScoreRisk
    from maxmargin.solvers import CuttingPlane

    data = maxmargin.data.open(spec["path"])
    engine = RayEngine(2, threads=1)
    risk = ScoreRisk(data.design, StoredColumn(data.y, np.float64), Hinge(), engine=engine)
    before = memory()
    began = time.perf_counter()
    with Watch() as watch:
        solver = CuttingPlane(**WAYS[spec["way"]])
        result = minimize(risk, C, solver=solver, max_seconds=spec["seconds"])
    seconds = time.perf_counter() - began
    engine.close()
    history = result.history[1:]
    parts = {
        name: float(np.median([getattr(r, f"seconds_{name}") for r in history]))
        for name in ("oracle", "plane", "line_search", "qp")
    }
    gaps = {
        f"gap after {share:.0%}": next(
            (r.gap for r in reversed(result.history) if r.elapsed <= share * spec["seconds"]), None
        )
        for share in (0.25, 0.5)
    }
    return {
        "shards": risk.n_blocks, "iterations": result.n_iter, "gap": result.gap, **gaps,
        "stop": result.stop_reason, "nonzero": float((result.w != 0.0).mean()), "wall": seconds,
        "per_iteration": float(np.median(np.diff([r.elapsed for r in result.history]))), **parts,
        "driver": watch.driver, "idle driver": before, "workers": watch.workers, "store": watch.store,
    }  # fmt: skip


def ratio(spec: Cell) -> Cell:
    """CPU seconds per iteration in this process with all planes kept; interleaved, the best of three."""
    from maxmargin import minimize
    from maxmargin.losses import Hinge
    from maxmargin.risks import ScoreRisk
    from maxmargin.solvers import CuttingPlane

    X, y = next(batches(spec["rows"], spec["features"]))
    out: Cell = {}
    for _ in range(3):
        for space in ("features", "rows"):
            risk = ScoreRisk(X, y.astype(np.float64), Hinge())
            solver = CuttingPlane(space=space, max_planes=1000)
            began = time.process_time()
            found = minimize(risk, C, solver=solver, max_iter=spec["iterations"])
            each = (time.process_time() - began) / found.n_iter
            out[space] = min(out.get(space, np.inf), each)
            out[f"{space}, gap"] = found.gap
    return out


class Long:
    """A shard that returns a long vector."""

    def __init__(self, size: int) -> None:
        self._vector = np.ones(size)

    def answer(self) -> Any:
        """The vector."""
        return self._vector

    def take(self, vector: Any) -> float:
        """An entry of a vector."""
        return float(vector[-1])


def travel(spec: Cell) -> Cell:
    """Send a vector of the length of w to the workers, and a sum of such vectors back."""
    from maxmargin.engines import RayEngine

    engine = RayEngine(2, threads=1).open(Long, [spec["features"]] * 2)
    out: dict[str, list[float]] = {"publish": [], "use": [], "reduce": []}
    vector = np.ones(spec["features"])
    for _ in range(7):
        times = [time.perf_counter()]
        handle = engine.publish(vector)
        times.append(time.perf_counter())
        engine.reduce(Long.take, handle)
        times.append(time.perf_counter())
        engine.reduce(Long.answer)
        times.append(time.perf_counter())
        for name, seconds in zip(out, np.diff(times), strict=True):
            out[name].append(float(seconds))
    engine.close()
    return {name: float(np.median(times[1:])) for name, times in out.items()}


def table(bench: Bench) -> None:
    """All cells and the tables."""
    rows, features, seconds, store = QUICK if bench.quick else FULL
    with scratch() as folder:
        shape = {"rows": rows, "features": features, "store": store, "path": str(folder / "rows")}
        todo = [way for way in WAYS if bench.get(way) is None]
        if todo or bench.get("data") is None:
            bench.path("data").unlink(missing_ok=True)
            bench.run("data", {"what": "data", **shape})
        cells = {
            way: bench.run(way, {"what": "fit", "way": way, "seconds": seconds, **shape})
            for way in WAYS
        }
        moved = bench.run("travel", {"what": "travel", **shape})
        n = RATIO_ROWS // 10 if bench.quick else RATIO_ROWS
        spec = {"what": "ratio", "rows": n, "iterations": RATIO_ITERATIONS}
        ratios = {r: bench.run(f"ratio {r}", {**spec, "features": int(r * n)}) for r in RATIOS}
    data = bench.get("data") or {}
    found = {way: c for way, c in cells.items() if "error" not in c}
    about = (
        f"{rows:,} rows x {NONZEROS} entries, {features:,} features of which "
        f"{data.get('share', 0):.1%} occur, C = {C}, {seconds:.0f} s of wall time, 2 workers."
    )
    _save(bench, found, cells, moved, [_ratio_row(r, c) for r, c in ratios.items()], about)


def _save(
    bench: Bench, found: Cell, cells: Cell, moved: Cell, ratios: list[Row], about: str
) -> None:
    fits = [_fit_row(way, c) for way, c in found.items()]
    memories = [
        {"planes": way, **{f"driver {k}": v for k, v in c["driver"].items() if k != "now"},
         "before the fit": c["idle driver"]["now"], "worker peak": c["workers"]["peak"],
         "worker own": c["workers"]["own"], "worker shared": c["workers"]["shared"],
         "object store": c["store"]}
        for way, c in found.items()
    ]  # fmt: skip
    failed = "; ".join(f"{way}: {c['error']}" for way, c in cells.items() if "error" in c)
    travels: list[Row] = [{k: v for k, v in moved.items() if k in ("publish", "use", "reduce")}]
    bench.save(
        TITLE,
        [
            ("fits", "Fits", fits, f"{about} {WALL} {failed}"),
            ("memory", "Memory, GB", memories,
             "Largest values seen. The peak counts shared pages and files."),
            ("transfer", "A vector of the length of w on its way, wall seconds", travels,
             "To the object store; from there to two workers; a sum of two back to the driver."),
            ("iteration_time", "Where rows are better: CPU seconds of an iteration in one process", ratios,
             f"{RATIO_ITERATIONS} iterations from zero, all planes kept."),
        ],
    )  # fmt: skip


def _ratio_row(ratio: float, c: Cell) -> Row:
    if "error" in c:
        return {"features per row": ratio, "features": None, "rows": None, "ratio": None}
    return {
        "features per row": ratio, "features": c["features"], "rows": c["rows"],
        "ratio": c["features"] / c["rows"],
    }  # fmt: skip


def _fit_row(way: str, c: Cell) -> Row:
    gaps = {name: value for name, value in c.items() if name.startswith("gap after")}
    return {
        "planes": way, "shards": c["shards"], "iterations": c["iterations"],
        "s per iteration": c["per_iteration"], **gaps, "gap": c["gap"], "stop": c["stop"],
        "evaluate": c["oracle"], "cut": c["plane"], "line": c["line_search"],
        "reduced problem": c["qp"], "nonzeros of w": c["nonzero"],
    }  # fmt: skip


if __name__ == "__main__":
    command_line("big_models", TITLE, cell, table)
