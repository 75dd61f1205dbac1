"""``python -m benchmarks.papers``: measure rows, judge them again by new rules, or list the old ones."""

from __future__ import annotations

from benchmarks.common import cpu

# ruff: isort: split
import argparse
import json
import warnings
from typing import Any

from benchmarks.papers import jfy, table_1, table_3, theorems
from benchmarks.papers.record import Recording, Row, folder, judge_again, row_names, run, stale


def all_rows() -> dict[str, Row]:
    """The rows by id, in the order of the claims."""
    modules: tuple[Any, ...] = (table_1, jfy, theorems, table_3)
    found = {row.id: row for module in modules for row in module.rows()}
    order = row_names()
    unknown = set(found) - set(order)
    if unknown:
        raise ValueError(f"claims.csv has no claim for the rows {sorted(unknown)}")
    return {name: found[name] for name in order if name in found}


def main(arguments: list[str] | None = None) -> None:
    """Run the rows and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.papers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny data, for counts only")
    parser.add_argument("--fresh", action="store_true", help="forget finished fits")
    parser.add_argument("--only", help="ids of rows, separated by commas")
    parser.add_argument(
        "--judge",
        action="store_true",
        help="apply the rules to the stored figures, measure nothing",
    )
    parser.add_argument(
        "--stale", action="store_true", help="list rows older than the sources that they measure"
    )
    options = parser.parse_args(arguments)
    rows = all_rows()
    wanted = options.only.split(",") if options.only else list(rows)
    missing = [name for name in wanted if name not in rows]
    if missing:
        parser.error(f"no row is called {', '.join(missing)}; there are {', '.join(rows)}")
    bench = Recording("papers", quick=options.quick, fresh=options.fresh)
    if options.judge or options.stale:
        for name in wanted:
            path = folder(bench) / f"{name}.json"
            if options.judge:
                found = judge_again(rows[name], bench)
                print(f"{name}: {found['verdict'] if found else 'not run yet'}")
            elif not path.exists() or stale(json.loads(path.read_text(encoding="utf-8"))):
                print(name)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fits that are cut off
        for name in wanted:
            kept = run(rows[name], bench)
            print(f"{name}: {kept['verdict']}. {kept['figure']}. {kept['why']}", flush=True)
    print(f"{cpu():.0f} CPU seconds")


if __name__ == "__main__":
    main()
