"""Random problems for every estimator, checked by a referee that shares no code with the library.

    python -m fuzz --minutes 10 --seed 1
    python -m fuzz --only LinearSVR --problems 500
    python -m fuzz --only LinearSVR --replay 1000017

The exit code is 1 if anything was found; each finding is printed as a few lines of Python that reproduce it.
"""

from __future__ import annotations

import argparse
import sys

from fuzz.runner import Settings, replay, work
from fuzz.supervisor import supervise


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, help="how long to go on (default: 1)")
    parser.add_argument("--seed", type=int, default=0, help="other seeds are other problems")
    parser.add_argument(
        "--only", default="", metavar="NAME", help="families with this in their name"
    )
    parser.add_argument("--problems", type=int, help="how many problems, over all families")
    parser.add_argument(
        "--limit", type=float, default=60.0, help="seconds that one problem may take"
    )
    parser.add_argument(
        "--shrink", type=float, default=20.0, help="seconds to shrink a failing problem"
    )
    parser.add_argument(
        "--without", default="", help="checks that do not count, separated by commas"
    )
    parser.add_argument("--stop-after", type=int, default=50, help="findings after which to stop")
    parser.add_argument(
        "--replay", type=int, metavar="N", help="problem N of the families --only, and stop"
    )
    parser.add_argument(
        "--start", type=float, default=60.0, help="more seconds for the first problem of a child"
    )
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main() -> int:
    """Run the fuzzer; return 1 if anything was found."""
    args = parse()
    minutes = args.minutes
    if minutes is None:
        minutes = 1.0 if args.problems is None else float("inf")
    settings = Settings(
        seed=args.seed,
        only=args.only,
        seconds=60.0 * minutes,
        problems=args.problems,
        first=args.first,
        limit=args.limit,
        start=args.start,
        shrink=args.shrink,
        without=frozenset(filter(None, args.without.split(","))),
        stop_after=args.stop_after,
    )
    if args.replay is not None:
        return replay(settings, args.replay)
    if args.child:
        work(settings)
        return 0
    report = supervise(settings)
    report.show()
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
