"""Arguments that several subcommands share."""

from __future__ import annotations

import argparse
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
    group.add_argument("--label", metavar="NAME", help="the column of labels (tables and columns)")
    group.add_argument("--group", metavar="NAME", help="the column of query ids (tables)")
    group.add_argument("--weight", metavar="NAME", help="the column of sample weights (tables)")
    group.add_argument(
        "--columns", metavar="NAMES", help='the feature columns, such as "age,income" (tables)'
    )
    group.add_argument("--drop", metavar="NAMES", help="columns to leave out (tables)")
    group.add_argument(
        "--group-sizes",
        metavar="FILE",
        help="file with the number of consecutive samples of each query (svmlight)",
    )
    group.add_argument(
        "--fields",
        metavar="NAMES",
        help='names of the columns, such as "w pos y" (columns; default: w c1 c2 ... y)',
    )
    group.add_argument(
        "--template",
        metavar="FILE",
        help="feature templates in the style of CRFsuite's scripts (w[-1]|w[0]) or of CRF++ "
        "(U01:%%x[-1,0]/%%x[0,0]); by default words, neighbors, ends of words",
    )
    group.add_argument(
        "--features",
        metavar="TEMPLATES",
        help='the same as text, such as "w[-1] w[0] w[0].suffix3"',
    )
    group.add_argument("--delimiter", metavar="CHAR", help="between columns (CSV and columns)")
    group.add_argument(
        "--no-header",
        action="store_true",
        default=None,
        help="the CSV file has no names: c0, c1, ...",
    )
    group.add_argument(
        "--zero-based", action="store_true", default=None, help="svmlight indices begin at 0"
    )
    group.add_argument(
        "--cache", metavar="FOLDER", help="keep copies of a data set at s3://... in this folder"
    )


def reader_options(chosen: argparse.Namespace) -> ReaderOptions:
    """The options of :func:`add_input_options`."""
    if chosen.template is not None and chosen.features is not None:
        raise CommandError("give --template or --features, not both.")
    template: str | None = chosen.features
    if chosen.template is not None:
        template = Path(chosen.template).read_text(encoding="utf-8")
    fields = None if chosen.fields is None else " ".join(chosen.fields.replace(",", " ").split())
    return ReaderOptions(
        format=chosen.format,
        label=chosen.label,
        group=chosen.group,
        weight=chosen.weight,
        columns=chosen.columns,
        drop=chosen.drop,
        group_sizes=chosen.group_sizes,
        fields=fields,
        template=template,
        delimiter=chosen.delimiter,
        no_header=chosen.no_header,
        zero_based=chosen.zero_based,
        cache=chosen.cache,
    )


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
    group.add_argument("--loss", help="such as hinge, squared_hinge, logistic, pairs, map, ndcg")
    group.add_argument("--measure", help="of MeasureSVC: f1, roc_auc, prbep, error, ...")
    group.add_argument("--epsilon", type=float, help="of LinearSVR: errors below it cost nothing")
    group.add_argument("--kernel", help="of KernelSVC: rbf, poly, sigmoid, linear")
    group.add_argument("--gamma", help="of the kernel: a number, scale or auto")
    group.add_argument(
        "--class-weight",
        metavar="WEIGHTS",
        help='multipliers of C by class: balanced, or such as "1:2,-1:1"',
    )
    group.add_argument("--multi-class", help="crammer_singer or ovr (one-vs-rest)")
    group.add_argument("--order", type=int, help="of SequenceTagger: 1 or 2 labels of history")
    group.add_argument("--no-intercept", action="store_true", help="leave out the constant feature")
    group.add_argument(
        "--unpenalized-intercept", action="store_true", help="leave the intercept out of the norm"
    )
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any other parameter of the estimator; may be repeated",
    )
    _add_run_options(parser)


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the fit")
    group.add_argument(
        "--tol", type=float, help="relative gap of the bounds at which the fit stops"
    )
    group.add_argument("--seconds", type=float, metavar="S", help="time limit")
    group.add_argument("--max-iter", type=int, metavar="N", help="limit of iterations")
    group.add_argument(
        "--solver", metavar="NAME", help="auto, cutting_plane, dual_coordinate, newton"
    )
    group.add_argument("--n-jobs", type=int, metavar="N", help="number of workers; -1: all cores")
    group.add_argument("--engine", metavar="NAME", help="threads, processes, ray, ray://host:port")
    group.add_argument(
        "--seed", type=int, metavar="N", help="seed of the random numbers (default 0)"
    )
    progress = group.add_mutually_exclusive_group()
    progress.add_argument("--quiet", action="store_true", help="no progress on standard error")
    progress.add_argument(
        "--verbose", action="store_true", help="progress also where standard error is no terminal"
    )
