"""The arguments of the command and the choice of the subcommand."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from maxmargin.command_line import versions, warmup

SUBCOMMANDS = (warmup, versions)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command ``maxmargin``.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments, by default those of the process.

    Returns
    -------
    int
        The exit code: 0 on success.

    Examples
    --------
    >>> from maxmargin.command_line import main
    >>> main(["versions"])  # doctest: +ELLIPSIS
    maxmargin ...
    0
    """
    parser = argparse.ArgumentParser(
        prog="maxmargin", description="Large-margin learning with a certificate."
    )
    subparsers = parser.add_subparsers(dest="subcommand", required=True, metavar="subcommand")
    for module in SUBCOMMANDS:
        module.add_parser(subparsers)
    chosen = parser.parse_args(arguments)
    return int(chosen.run(chosen))
