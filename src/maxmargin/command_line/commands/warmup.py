"""``maxmargin warmup``: compile before the first fit."""

from __future__ import annotations

from typing import Any

from maxmargin.command_line.common_estimators import COMMON


def add_parser(subparsers: Any) -> None:
    """Add the subcommand to the parser."""
    parser = subparsers.add_parser(
        "warmup",
        help="compile for this machine, so that first fits do not",
        description="Fit each estimator to tiny data, so that its compiled code is in the cache.",
    )
    parser.add_argument(
        "estimators",
        nargs="*",
        metavar="ESTIMATOR",
        help=f"names of estimators (default: {', '.join(COMMON)})",
    )
    parser.add_argument("--all", action="store_true", help="warm up all estimators")
    parser.set_defaults(run=run)


def run(arguments: Any) -> int:
    """Warm up and print the seconds of each estimator."""
    from maxmargin.command_line.commands.versions import compiled_code
    from maxmargin.command_line.warm_up import warm_up

    chosen = "all" if arguments.all else arguments.estimators or None
    for name, value in warm_up(chosen).items():
        print(f"{name:20} {value:6.1f} s")
    print(f"compiled code: {compiled_code()}")
    return 0
