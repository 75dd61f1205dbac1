"""``maxmargin fit``: train a model, print its certificate, write it to a file."""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from importlib import import_module
from typing import Any

from maxmargin.command_line import report
from maxmargin.command_line.arguments import (
    add_estimator_options,
    add_input_options,
    add_subparser,
    reader_options,
)
from maxmargin.command_line.errors import CommandError
from maxmargin.command_line.readers.examples import Examples, OnDisk, Read, Samples

DESCRIPTION = """
Train a model. The fit ends with a certificate: a lower and an upper bound of the best value that
any weights can reach. The exit code says whether the bounds are as close as --tol asks for.
"""
EXAMPLES = """
# classes: a linear SVM
maxmargin fit train.svm --output model.safetensors
# for scripts: one JSON object
maxmargin fit train.svm.gz --C 0.1 --output model.safetensors --json
# fractional labels: regression
maxmargin fit prices.csv --label price --epsilon 0.1 --output prices.safetensors
# lines with qid: ranking, with C as in svm_rank_learn -c 20
maxmargin fit queries.dat --C 20/n --output ranker.safetensors
# columns of words and labels: sequence labeling
maxmargin fit chunks.conll --output chunks.safetensors
maxmargin fit en.conllu --label xpos --features "form[-1] form[0] form[0].suffix3"
# train for F1, or with a kernel
maxmargin fit train.svm --estimator MeasureSVC --measure f1
maxmargin fit train.svm --estimator KernelSVC --gamma 0.1
# a data set of maxmargin convert, larger than memory; at most ten minutes
maxmargin fit folder/ --n-jobs -1 --seconds 600 --output model.safetensors
# go on where an earlier run was killed
maxmargin fit s3://bucket/train --checkpoint fit.ckpt --resume -o model.safetensors
"""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand to the parser."""
    parser = add_subparser(subparsers, "fit", "train a model", "DATA", DESCRIPTION, EXAMPLES)
    parser.add_argument(
        "data", metavar="DATA", help="a file, a folder, a URL, or - for standard input"
    )
    parser.add_argument("--output", "-o", metavar="FILE", help="write the model to this file")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_input_options(parser)
    add_estimator_options(parser)
    group = parser.add_argument_group("checkpoints")
    group.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="write the state of the fit to this file or URL every minute",
    )
    group.add_argument(
        "--resume",
        action="store_true",
        help="continue from the file of --checkpoint if it exists (the same data and options)",
    )
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Read, fit, write, and print."""
    from maxmargin.command_line import estimator as estimators
    from maxmargin.command_line.readers.reading import read_examples

    if chosen.resume and chosen.checkpoint is None:
        raise CommandError("--resume needs --checkpoint FILE, the file to continue from.")
    check_output(chosen.output)
    if chosen.checkpoint == "":
        raise CommandError("--checkpoint is empty: name a file.")
    import_module("maxmargin.estimators")  # takes a second, which is not the time to read a file
    if estimators.shows_progress(chosen):
        print(f"reading {chosen.data}", file=sys.stderr)
    begin = time.perf_counter()
    read = read_examples(chosen.data, reader_options(chosen))
    name = estimators.chosen_name(chosen, read.examples)
    examples = estimators.suited(read.examples, name, chosen.data)
    read_seconds = time.perf_counter() - begin
    estimator = estimators.make(name, chosen, examples)
    begin = time.perf_counter()
    interrupted = _fit(estimator, examples, chosen)
    seconds = time.perf_counter() - begin
    if chosen.output is not None:
        write(estimator, chosen.output, Read(examples, read.options))
    _print(estimator, examples, chosen, read_seconds, seconds)
    return int(report.exit_code(estimator)) if not interrupted else 130


def check_output(path: str | None) -> None:
    """Refuse a file that could not be written, before the fit."""
    if path is not None:
        if not path:
            raise CommandError("--output is empty: name a file.")
        folder = os.path.dirname(os.path.abspath(path))
        if not os.path.isdir(folder):
            raise CommandError(f"--output {path}: there is no folder {folder}.")
        if os.path.isdir(path):
            raise CommandError(f"--output {path}: this is a folder.")


def _fit(estimator: Any, examples: Examples, chosen: argparse.Namespace) -> bool:
    """Fit the estimator. Returns whether Ctrl-C ended the fit, after which it holds what was found."""
    from sklearn.exceptions import ConvergenceWarning

    from maxmargin.checkpoints import exists
    from maxmargin.command_line import fitting

    options = fitting.training(estimator, examples)
    if chosen.resume and exists(chosen.checkpoint):
        options["resume_from"] = chosen.checkpoint
    try:
        with warnings.catch_warnings():  # the report says it in the words of the command
            warnings.simplefilter("ignore", ConvergenceWarning)
            estimator.fit(**options)
    except KeyboardInterrupt as error:
        if getattr(error, "estimator", None) is not estimator:
            raise
        return True
    return False


def write(estimator: Any, path: str, read: Read) -> None:
    """Write the model, with the options that read its training data."""
    from maxmargin.command_line.model_files import save

    names = read.examples.names if isinstance(read.examples, Samples) else None
    notes = {} if isinstance(read.examples, OnDisk) else read.options.notes()
    save(estimator, path, notes, names)


def _print(
    estimator: Any,
    examples: Examples,
    chosen: argparse.Namespace,
    read_seconds: float,
    seconds: float,
) -> None:
    found = report.sizes(estimator, examples)
    if chosen.json:
        report.print_json(
            {
                "estimator": type(estimator).__name__,
                "C": estimator.C,
                **found,
                **report.certificate(estimator),
                "seconds": round(seconds, 3),
                "read_seconds": round(read_seconds, 3),
                "output": chosen.output,
            }
        )
        return
    print(f"{type(estimator).__name__}, C={estimator.C:g}: {report.sizes_in_words(found)}")
    print(report.certificate_in_words(estimator))
    n_iter = f"{estimator.n_iter_} iteration{'s' * (estimator.n_iter_ != 1)}"
    print(f"{n_iter}, {seconds:.2f} s; {read_seconds:.2f} s to read the input")
    if chosen.output is not None:
        print(f"model written to {chosen.output}")
    else:
        print("the model was not written; use --output FILE", file=sys.stderr)
