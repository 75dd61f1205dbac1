"""``maxmargin plan``: what a fit on a cluster would cost."""

from __future__ import annotations

import argparse
import os
from typing import Any

from maxmargin.command_line.arguments import add_subparser
from maxmargin.command_line.errors import CommandError

DESCRIPTION = """
Print the memory, bytes, and seconds per round of a fit with LinearSVC(solver=CuttingPlane()) on a Ray
cluster, before you pay for it. DATA is a folder or a URL that convert wrote.

The manifest of the data has the sizes. The calls of one shard are timed on this machine, for a few seconds;
the machines of the cluster are assumed to be as fast. --bandwidth is assumed, too.
"""
EXAMPLES = """
maxmargin plan s3://bucket/train --machines 100 --cpus 16
maxmargin plan train/ --machines 4 --rounds 400
"""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand to the parser."""
    parser = add_subparser(
        subparsers, "plan", "print what a fit on a cluster would cost", "DATA --machines N",
        DESCRIPTION, EXAMPLES,
    )  # fmt: skip
    parser.add_argument("data", metavar="DATA", help="a data set on disk or in an object store")
    parser.add_argument("--machines", type=int, required=True, metavar="N")
    parser.add_argument(
        "--cpus", type=float, default=os.cpu_count(), metavar="C", help="of a machine (as here)"
    )
    parser.add_argument(
        "--bandwidth", type=float, default=10.0, metavar="G", help="Gbit/s of a machine (10)"
    )
    parser.add_argument("--rounds", type=int, metavar="R", help="print the time of R rounds, too")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Measure and print."""
    from maxmargin import data
    from maxmargin.command_line.planning import plan
    from maxmargin.command_line.tables import table

    for name in ("machines", "cpus", "bandwidth", "rounds"):
        number = getattr(chosen, name)
        if number is not None and not number > 0:
            raise CommandError(f"--{name} {number}: it must be positive.")
    rows = data.open(chosen.data)
    if rows.ragged:
        raise CommandError(f"{chosen.data} has sequences; plan is for samples.")
    found = plan(rows, chosen.machines, chosen.cpus, chosen.bandwidth * 1e9 / 8)
    n, d = rows.shape
    print(f"data: {n:,} samples, {d:,} features, {rows.nnz:,} entries, {found.n_shards} shards")
    print(
        f"cluster: {chosen.machines} machines, {chosen.cpus:g} CPUs and {chosen.bandwidth:g} Gbit/s each\n"
    )
    memory = [
        ("memory of a worker", found.worker),
        ("its temporary files", found.scratch),
        ("its part of the data, in the page cache", found.page_cache),
        ("memory of the driver", found.driver),
    ]
    print(table([["", "GB"], *([what, f"{size / 1e9:.2f}"] for what, size in memory)]))
    cells = [["round", "per iteration", "seconds", "bytes to a machine", "from it"]]
    for r in found.rounds:
        cells.append(
            [
                r.what,
                f"{r.per_iteration:g}",
                f"{r.seconds:.3g}",
                f"{r.to_machine:,.0f}",
                f"{r.from_machine:,.0f}",
            ]
        )
    print("\n" + table(cells))
    mean = found.seconds / found.n_rounds
    print(f"\nan iteration: {found.seconds:.3g} s; a round: {mean:.3g} s on average")
    if chosen.rounds is not None:
        print(f"{chosen.rounds} rounds: {chosen.rounds * mean / 60:.1f} minutes")
    return 0
