"""The cost model of a cluster for blocks that stay with their workers, beside cutting planes.

Computed from committed tables, without measuring anything: unit costs, latencies, and simulated iterations of
``benchmarks.cluster_sim``, and rounds and calls of ``benchmarks.shard_blocks``. For 10^9 rows of 75 entries,
10 to 1,000 machines, and one block for each core that pays, it gives the number of rounds at which blocks
take as long as cutting planes. The page "Cost models of a cluster" includes it (docs/_cluster_blocks.inc).
"""

from __future__ import annotations

from benchmarks.common import HERE, Bench, Cell, Row, command_line

# ruff: isort: split
import csv
import math

import numpy as np

from benchmarks.cluster_overhead import NONZEROS
from benchmarks.cluster_sim import CORES, MACHINES, ROWS, rst_table

TITLE = "The cost model of a cluster: blocks at the workers"
FEATURES = ("50,000", "20,000,000")
#: iterations of cutting planes
ITERATIONS = 60
#: epochs over all rows that a fit takes at least, and more for each round, including exact checks: a rough
#: rule for what was seen with 2 and 8 blocks (5 rounds: 6 epochs; 13: 8 to 10; 87: 67; 97: 54; 123: 69)
EPOCHS, MORE = 4.0, 0.5
#: vectors of a block that a round reads or writes: w, damping, the private copies, the change, its squares
VECTORS = 8


def committed(name: str) -> list[dict[str, str]]:
    """The rows of a committed table."""
    with (HERE / "results" / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def units() -> tuple[dict[str, Cell], dict[int, float]]:
    """Unit costs by the number of features, and latencies of rounds."""
    names = {
        "dot": "X w, ns an entry",
        "accumulate": "X' g, ns an entry",
        "copy": "copy",
        "add": "add",
    }
    found = {
        row["features"]: {own: float(row[name]) for own, name in names.items()}
        for row in committed("cluster_sim_units")
    }
    empty = {
        int(row["workers"]): float(row["empty round, ms"])
        for row in committed("cluster_sim_rounds")
    }
    return found, empty


def iteration(features: str, machines: int) -> dict[str, float]:
    """The simulated iteration of cutting planes."""
    for row in committed("cluster_sim_iterations"):
        if (row["features"], int(row["machines"])) == (features, machines):
            return {name: float(value) for name, value in row.items() if name != "features"}
    raise SystemExit("run benchmarks.cluster_sim first")


def calls_per_round() -> float:
    """Calls of the engine for each round of two blocks, measured: geometric mean."""
    ratios = [
        float(row["calls, 2 blocks"]) / float(row["rounds, 2 blocks"])
        for row in committed("shard_blocks_rounds")
        if ">" not in row["calls, 2 blocks"]
    ]
    return float(np.exp(np.mean(np.log(ratios))))


def compared(features: str, machines: int, calls: float) -> Row:
    """Seconds of both methods, and the rounds at which they are equal."""
    found, empty = units()
    unit, N = found[features], int(features.replace(",", ""))
    planes, cores = iteration(features, machines), CORES
    entries = ROWS * NONZEROS / machines
    # a visit computes a score, for samples that move also their damped norm, and changes w
    visit = 2.0 * unit["dot"] + unit["accumulate"]
    epoch = entries * visit * 1e-9 / cores
    slope, base = np.polyfit(list(empty), list(empty.values()), 1)
    latency = calls * (base + slope * machines) * 1e-3
    # two vectors there and two back; the copies of all blocks of a machine share its memory
    sent = 2.0 * (planes["broadcast of w, s"] + planes["sum of planes, s"])
    copies = cores * VECTORS * N * unit["copy"] * 1e-9 / (cores / 4)
    driver = 2 * VECTORS * N * unit["add"] * 1e-9
    a_round = MORE * epoch + latency + sent + copies + driver
    whole = ITERATIONS * planes["an iteration, s"]
    levels = math.ceil(math.log2(machines))
    equal = (whole - EPOCHS * epoch) / a_round
    return {
        "features": features,
        "machines": machines,
        "blocks": int(cores * machines),
        "planes: an iteration, s": planes["an iteration, s"],
        f"planes: {ITERATIONS} iterations, s": whole,
        "blocks: an epoch, s": epoch,
        "blocks: a round, s": a_round,
        "blocks win below so many rounds": max(0, math.floor(equal)),
        "network, GB: an iteration": (2 + levels) * 8 * N / 1e9,
        "network, GB: a round": 2 * (2 + levels) * 8 * N / 1e9,
    }


def measured_rounds() -> str:
    """The measured rounds, in words."""
    parts = []
    for row in committed("shard_blocks_rounds"):
        counts = [row[f"rounds, {solver}"] for solver in ("planes", "2 blocks", "8 blocks")]
        parts.append(f"{row['set']} at {row['C_mean']}: {', '.join(counts)}")
    return "; ".join(parts)


def cell(spec: Cell, bench: Bench) -> Cell:
    """Nothing is measured."""
    raise NotImplementedError


def table(bench: Bench) -> None:
    """The table, and the part of the page."""
    calls = calls_per_round()
    rows = [compared(features, machines, calls) for features in FEATURES for machines in MACHINES]
    assumed = ASSUMED.format(calls=calls, measured=measured_rounds())
    title = f"Extrapolated: {ROWS:,} rows of {NONZEROS} entries"
    bench.save(TITLE, [("extrapolated", title, rows, assumed)])
    lines = [".. made by python -m benchmarks.cluster_blocks; do not edit", "", PAGE]
    lines += rst_table("Blocks at the workers beside cutting planes (nobody ran this)", rows)
    lines += ["", assumed.strip().replace("*", "``")]
    if not bench.quick:
        (HERE.parent / "docs" / "_cluster_blocks.inc").write_text("\n".join(lines) + "\n")


PAGE = """
For blocks that stay with their workers (``DualCoordinate(dealing="shards")``), the same unit costs give, with
one block for each core that pays, the number of rounds at which they take as long as cutting planes:
"""
ASSUMED = f"""
So on 10 machines blocks may need somewhat more rounds than planes need iterations. On 100 machines and more
they must need fewer, with 20 million features about half as many, because a round sends four vectors and an
iteration two. A round has {{calls:.2g}} calls.

Assumed beside the assumptions for cutting planes: a fit takes {EPOCHS:g} epochs over all rows and {MORE:g}
more for each round, which includes exact checks; a visit costs two scores and one change of w. Rounds that
were measured (data and C n: cutting planes, 2 blocks, 8 blocks): {{measured}}. Rounds of more than 8 blocks
were not measured. They grow with the number of blocks, so the more machines, the more the choice depends on
the data. Where two blocks already need more rounds than planes (a large C, similar samples), so do more.
"""

if __name__ == "__main__":
    command_line("cluster_blocks", TITLE, cell, table)
