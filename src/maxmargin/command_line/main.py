"""The choice of the subcommand, and what happens with errors."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

from maxmargin._version import __version__
from maxmargin.command_line import commands, versions
from maxmargin.command_line.arguments import EXIT_CODES
from maxmargin.command_line.report import CommandError, ExitCode, say

DESCRIPTION = """\
Support vector machines that prove how close to the optimum they are.

examples:
  maxmargin fit train.svm --C 0.1 --output model.safetensors
  maxmargin evaluate model.safetensors test.svm
  maxmargin predict model.safetensors test.svm --output labels.txt
  maxmargin cv train.svm --output best.safetensors
  maxmargin fit --help          more examples, and all options
"""


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
    has_output = sys.stdout is not None
    for name in (
        "stdin",
        "stdout",
        "stderr",
    ):  # closed by whoever started us: no file takes its place
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser, subcommands = _parser(given)
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        chosen, rest = parser.parse_known_args(given)
        if rest:
            known = subcommands[chosen.subcommand].format_help()
            return _failed(chosen, _unknown(rest[0], known), ExitCode.USAGE)
        if not has_output:
            text = "standard output is closed: redirect it to a file or to /dev/null."
            return _failed(chosen, text, ExitCode.USAGE)
        return _run(chosen.run, chosen)


def _parser(
    given: list[str],
) -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """The parser of these arguments, and those of the subcommands."""
    parser = argparse.ArgumentParser(
        prog="maxmargin",
        description=DESCRIPTION,
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"maxmargin {__version__}")
    subparsers = parser.add_subparsers(dest="subcommand", required=True, metavar="subcommand")
    for add in (
        commands.add_fit, commands.add_predict, commands.add_evaluate, commands.add_cv,
        commands.add_convert, versions.add_warmup, versions.add_versions,
    ):  # fmt: skip
        add(subparsers, given)
    return parser, subparsers.choices


def _unknown(argument: str, known: str) -> str:
    """What is wrong with an argument, and the option of the help that is meant."""
    near = difflib.get_close_matches(argument, re.findall(r"--[\w-]+", known), 1)
    meant = f" Did you mean {near[0]}?" if near else ""
    return f"unknown argument {argument}.{meant} --help lists the options."


def _run(run: Callable[[argparse.Namespace], int], chosen: argparse.Namespace) -> int:
    """Run a subcommand. An error is one line on standard error and an exit code."""
    try:
        code = int(run(chosen))
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # for example: maxmargin predict ... | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.PIPE
    except KeyboardInterrupt:
        return _failed(chosen, "interrupted; nothing was written", ExitCode.INTERRUPTED)
    except CommandError as error:
        return _failed(chosen, str(error), error.code)
    except MemoryError as error:
        text = f"not enough memory: {error}. Does the input have that many features, or is an index wrong?"
        return _failed(chosen, text, ExitCode.USAGE)
    except (ValueError, TypeError, OSError, ImportError, NotImplementedError) as error:
        return _failed(chosen, str(error) or type(error).__name__, ExitCode.USAGE)
    except Exception as error:
        text = f"{type(error).__name__}: {error} (an error of maxmargin; --traceback shows where)"
        return _failed(chosen, text, ExitCode.BUG)


def _failed(chosen: argparse.Namespace, text: str, code: ExitCode) -> int:
    if getattr(chosen, "traceback", False):
        with contextlib.suppress(BrokenPipeError):
            traceback.print_exc()
    say(f"maxmargin {chosen.subcommand}: {text}")
    return int(code)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    say(f"maxmargin: warning: {message}")
