"""Arguments that several subcommands share."""

from __future__ import annotations

import argparse
import dataclasses
import re
import textwrap
from pathlib import Path
from typing import Any

from maxmargin.command_line.errors import CommandError
from maxmargin.command_line.readers.examples import ReaderOptions
from maxmargin.command_line.readers.reading import FORMATS

EXIT_CODES = """\
exit codes:
  0    done; a fit is certified: its bounds prove that --tol was reached
  2    wrong arguments or wrong input; one line on standard error says what
  3    the fit ended before --tol was reached; the model is written
  130  Ctrl-C; what was found until then is written
"""


def add_subparser(
    subparsers: Any, name: str, summary: str, usage: str, description: str, examples: str
) -> argparse.ArgumentParser:
    """A subcommand whose help shows examples first."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name,
        help=summary,
        usage=f"maxmargin {name} {usage} [options]",
        description=_filled(description)
        + "\n\nexamples:\n"
        + textwrap.indent(examples.strip(), "  "),
        epilog=f"{_formats()}\n{EXIT_CODES}",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--traceback", action="store_true", help="show where an error occurred")
    return parser


def _formats() -> str:
    lines = ["formats of the input (plain, .gz, .bz2, .xz, .zst):"]
    lines += [f"  {name:10} {text}" for name, text in FORMATS.items()]
    return "\n".join(lines) + "\n"


def _filled(text: str) -> str:
    """Paragraphs of a text in lines that fit a terminal."""
    return "\n\n".join(textwrap.fill(part, 79) for part in text.strip().split("\n\n"))


def add_model_and_data(parser: argparse.ArgumentParser) -> None:
    """A model, and examples for it."""
    parser.add_argument("model", metavar="MODEL", help="a file that fit or cv wrote")
    parser.add_argument("data", metavar="DATA", help="a file, a folder, a URL, or -")


_INPUT = """
--label NAME          the column of labels (tables and columns)
--group NAME          the column of query ids (tables)
--weight NAME         the column of sample weights (tables)
--columns NAMES       the feature columns, such as "age,income" (tables)
--drop NAMES          columns to leave out (tables)
--group-sizes FILE    file with the number of consecutive samples of each query (svmlight)
--fields NAMES        names of the columns, such as "w pos y" (columns; default: w c1 c2 ... y)
--template FILE       feature templates in the style of CRFsuite's scripts (w[-1]|w[0]) or of CRF++
                      (U01:%%x[-1,0]/%%x[0,0]); by default words, neighbors, ends of words
--features TEMPLATES  the same as text, such as "w[-1] w[0] w[0].suffix3"
--delimiter CHAR      between columns (CSV and columns)
--no-header           the CSV file has no names: f0, f1, ...
--zero-based          svmlight indices begin at 0
--cache FOLDER        keep copies of a data set at s3://... in this folder
"""
_MODEL = """
--loss LOSS                 such as hinge, squared_hinge, logistic, pairs, map, ndcg
--measure MEASURE           of MeasureSVC: f1, roc_auc, prbep, error, ...
--epsilon EPSILON:float     of LinearSVR: errors below it cost nothing
--kernel KERNEL             of KernelSVC: rbf, poly, sigmoid, linear
--gamma GAMMA               of the kernel: a number, scale or auto
--class-weight WEIGHTS      multipliers of C by class: balanced, or such as "1:2,-1:1"
--multi-class MULTI_CLASS   ovr (one-vs-rest), crammer_singer or multinomial
--order ORDER:int           of SequenceTagger: 1 or 2 labels of history
--no-intercept              leave out the constant feature
--unpenalized-intercept     leave the intercept out of the norm
"""
_RUN = """
--tol TOL:float    relative gap of the bounds at which the fit stops
--seconds S:float  time limit
--max-iter N:int   limit of iterations
--solver NAME      auto, cutting_plane, dual_coordinate, newton
--n-jobs N:int     number of workers; -1: all cores
--engine NAME      threads, processes, ray, ray://host:port
--seed N:int       seed of the random numbers (default 0)
"""
_TYPES = {"int": int, "float": float, "": str}


def _add_options(group: Any, text: str) -> None:
    """The options of a table: the name of the value, perhaps with its type, and the help. An option without a
    value is True or None."""
    for option in re.split(r"\n(?=--)", text.strip()):
        head, about = re.split("  +", option, maxsplit=1)
        flag, _, value = head.partition(" ")
        name, _, kind = value.partition(":")
        own = {"metavar": name, "type": _TYPES[kind]} if value else {"action": "store_true"}
        group.add_argument(flag, default=None, help=" ".join(about.split()), **own)


def add_input_options(parser: argparse.ArgumentParser) -> None:
    """How to read examples."""
    group = parser.add_argument_group("reading the input")
    group.add_argument(
        "--format",
        choices=list(FORMATS),
        metavar="FORMAT",
        help="see the list below; by default found by the name of the file (.svm, .conll, .csv, ...) or by "
        "its first line",
    )
    _add_options(group, _INPUT)


def reader_options(chosen: argparse.Namespace) -> ReaderOptions:
    """The options of :func:`add_input_options`."""
    if chosen.template is not None and chosen.features is not None:
        raise CommandError("give --template or --features, not both.")
    names = {field.name for field in dataclasses.fields(ReaderOptions)}
    given = {name: value for name, value in vars(chosen).items() if name in names}
    given["template"] = chosen.features
    if chosen.template is not None:
        given["template"] = Path(chosen.template).read_text(encoding="utf-8")
    if chosen.fields is not None:
        given["fields"] = " ".join(chosen.fields.replace(",", " ").split())
    return ReaderOptions(**given)


def add_estimator_options(parser: argparse.ArgumentParser, *, for_cv: bool = False) -> None:
    """The estimator and its parameters."""
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
    _add_options(group, _MODEL)
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any other parameter of the estimator; may be repeated",
    )
    group = parser.add_argument_group("the fit")
    _add_options(group, _RUN)
    progress = group.add_mutually_exclusive_group()
    progress.add_argument("--quiet", action="store_true", help="no progress on standard error")
    progress.add_argument(
        "--verbose", action="store_true", help="progress also where standard error is no terminal"
    )
