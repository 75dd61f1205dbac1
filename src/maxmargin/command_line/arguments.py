"""The arguments that several subcommands share."""

from __future__ import annotations

import argparse
import dataclasses
import textwrap
from pathlib import Path
from typing import Any

from maxmargin.command_line.examples import ReaderOptions
from maxmargin.command_line.reading import FORMATS
from maxmargin.command_line.report import CommandError

EXIT_CODES = """\
exit codes:
  0    done; a fit is certified: its bounds prove that --tol was reached
  2    wrong arguments or wrong input; one line on standard error says what
  3    the fit ended before --tol was reached; the model is written
  130  Ctrl-C; what was found until then is written
"""
PARAMETERS = """\
parameters of the estimator:
  Every parameter is an option, such as --loss hinge, --tol 1e-4, --max-iter 100,
  --seconds 600, --class-weight "1:2,-1:1" (or balanced), --multi-class
  crammer_singer, --solver newton, --n-jobs -1, --seed 1, --kernel rbf, --gamma 0.1,
  --epsilon 0.1, --no-intercept, --unpenalized-intercept.
  "maxmargin fit --estimator NAME --help" lists those of an estimator.
"""


def add_subparser(
    subparsers: Any, name: str, summary: str, usage: str, description: str, examples: str
) -> argparse.ArgumentParser:
    """A subcommand whose help shows examples first."""
    paragraphs = (textwrap.fill(part, 79) for part in description.strip().split("\n\n"))
    shown = textwrap.indent(examples.strip(), "  ")
    formats = "\n".join(f"  {name:10} {text}" for name, text in FORMATS.items())
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name,
        help=summary,
        usage=f"maxmargin {name} {usage} [options]",
        description="\n\n".join(paragraphs) + "\n\nexamples:\n" + shown,
        epilog=f"formats of the input (plain, .gz, .bz2, .xz, .zst):\n{formats}\n\n{EXIT_CODES}",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for argument in usage.split():
        parser.add_argument(argument.lower(), metavar=argument, help=_POSITIONAL[argument])
    parser.add_argument("--traceback", action="store_true", help="show where an error occurred")
    progress = parser.add_mutually_exclusive_group()
    progress.add_argument("--quiet", action="store_true", help="no progress on standard error")
    progress.add_argument(
        "--verbose", action="store_true", help="progress also where standard error is no terminal"
    )
    return parser


_POSITIONAL = {
    "DATA": "a file, a folder, a URL, or - for standard input",
    "MODEL": "a file that fit or cv wrote",
    "FROM": "a file, a folder, a URL, or -",
    "TO": "a file, a folder, or s3://...",
}


def add_input_options(parser: argparse.ArgumentParser) -> None:
    """How to read examples: an option for each field of :class:`ReaderOptions`."""
    group = parser.add_argument_group("reading the input")
    for one in dataclasses.fields(ReaderOptions):
        if not one.metadata:
            continue
        flag, metavar, text = (
            f"--{one.name.replace('_', '-')}",
            one.metadata["metavar"],
            one.metadata["help"],
        )
        if metavar:
            choices = list(FORMATS) if one.name == "format" else None
            group.add_argument(flag, metavar=metavar, choices=choices, help=text)
        else:
            group.add_argument(flag, action="store_true", default=None, help=text)
        if one.name == "template":
            text = 'the same as text, such as "w[-1] w[0] w[0].suffix3"'
            group.add_argument("--features", metavar="TEMPLATES", help=text)


def reader_options(chosen: argparse.Namespace) -> ReaderOptions:
    """The options of :func:`add_input_options`."""
    if chosen.template is not None and chosen.features is not None:
        raise CommandError("give --template or --features, not both.")
    names = {one.name for one in dataclasses.fields(ReaderOptions)}
    given = {name: value for name, value in vars(chosen).items() if name in names}
    given["template"] = chosen.features
    if chosen.template is not None:
        given["template"] = Path(chosen.template).read_text(encoding="utf-8")
    if chosen.fields is not None:
        given["fields"] = " ".join(chosen.fields.replace(",", " ").split())
    return ReaderOptions(**given)


def add_estimator_options(
    parser: argparse.ArgumentParser, arguments: list[str], *, for_cv: bool = False
) -> None:
    """The estimator and its parameters. The help lists those of ``--estimator``, if it is given: to list
    them takes an import of a second."""
    group = parser.add_argument_group("the model")
    group.add_argument(
        "--estimator",
        metavar="NAME",
        help="LinearSVC (default for classes), LinearSVR (default for fractional labels and with --epsilon), "
        "RankSVM (default for files with qid), SequenceTagger (default for sequences), MeasureSVC, KernelSVC",
    )
    if not for_cv:
        group.add_argument(
            "--C",
            metavar="NUMBER[/n]",
            help="weight of the sum of losses (default 1, for sequences 0.1); 20/n divides by the number n "
            "of samples, queries or sequences",
        )
    if arguments[:1] != parser.prog.split()[-1:]:
        return  # another subcommand is chosen
    helping = not {"-h", "--help"}.isdisjoint(arguments)
    if helping and "--estimator" not in arguments[:-1]:
        parser.epilog = f"{PARAMETERS}\n{parser.epilog}"
        return
    from maxmargin.command_line.models import NAMES, add_parameters

    name = arguments[arguments.index("--estimator") + 1] if helping else None
    group = parser.add_argument_group(f"the parameters of {name}" if name else "the parameters")
    try:
        add_parameters(group, NAMES if name is None else [name])
    except CommandError as error:  # there is no such estimator
        parser.error(str(error))
