"""``maxmargin predict``: labels or scores, one line per sample or token."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TextIO

import numpy as np

from maxmargin.command_line.arguments import (
    add_input_options,
    add_model_and_data,
    add_subparser,
    reader_options,
)
from maxmargin.command_line.errors import CommandError
from maxmargin.command_line.readers.examples import Examples

DESCRIPTION = """
Predict the labels of a file: one per line, and for sequences an empty line after each sequence. A
ranking or a regression has numbers. The input is read as the training data were, unless options
say otherwise. Labels in it are ignored, and so are features that training did not see.
"""
#: samples of a data set on disk to predict at a time
ROWS = 2**14

EXAMPLES = """
maxmargin predict model.safetensors test.svm --output labels.txt
# decision values; with several classes, a column per class
maxmargin predict model.safetensors test.svm --scores
# from standard input, which may lack the column of labels
cut -d' ' -f1,2 test.conll | maxmargin predict chunks.safetensors -
"""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand to the parser."""
    parser = add_subparser(
        subparsers, "predict", "predict labels or scores with a model", "MODEL DATA", DESCRIPTION,
        EXAMPLES,
    )  # fmt: skip
    add_model_and_data(parser)
    parser.add_argument("--output", "-o", metavar="FILE", help="instead of standard output")
    parser.add_argument("--scores", action="store_true", help="decision values in place of labels")
    text = (
        "probabilities in place of labels, a column per class, after training with --loss logistic"
    )
    parser.add_argument("--probabilities", action="store_true", help=text)
    add_input_options(parser)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Load, read, predict, and write."""
    from maxmargin.command_line import fitting
    from maxmargin.command_line.commands.fit import check_output
    from maxmargin.command_line.model_files import load_model

    check_output(chosen.output)
    model = load_model(chosen.model)
    X = fitting.inputs(model, read_for(model, chosen))
    with _output(chosen.output) as file:
        for k, part in enumerate(_parts(X)):
            if chosen.probabilities:
                lines = _probabilities(model.estimator, part)
            else:
                lines = _lines(model.estimator, part, scores=chosen.scores)
            lines = (line for line in lines if k == 0 or not line.startswith("# "))
            file.writelines(f"{line}\n" for line in lines)
    return 0


def _parts(X: Any) -> Iterator[Any]:
    """Samples on disk in chunks, so that memory does not grow with them; anything else as it is."""
    from maxmargin.data import Dataset
    from maxmargin.data.columns import chunks

    if not isinstance(X, Dataset) or X.ragged:
        yield X
        return
    for lo, hi in chunks(len(X), ROWS):
        yield X.block(lo, hi)


def read_for(model: Any, chosen: argparse.Namespace) -> Examples:
    """The examples of the command for a model, read as its training data were."""
    from maxmargin.command_line.estimator import suited
    from maxmargin.command_line.readers.reading import read_examples

    options = reader_options(chosen)
    if options.format is None and chosen.data != "-":
        options = replace(options, format=_format(chosen.data, model.notes.get("format")))
    read = read_examples(chosen.data, options.after(model.notes))
    return suited(read.examples, model.name, chosen.data)


def _format(path: str, trained: str | None) -> str:
    """The format of a file: that of the training data, unless the name of the file says otherwise."""
    from maxmargin.command_line.readers.reading import find_format

    try:
        found = find_format(path)
    except ValueError:
        if trained is None or not (os.path.exists(path) or "://" in path):
            raise
        return trained
    return "svm-hmm" if (found, trained) == ("svmlight", "svm-hmm") else found


def _lines(estimator: Any, X: Any, *, scores: bool) -> Iterable[str]:
    if type(estimator).__name__ == "SequenceTagger":
        if scores:
            raise CommandError("--scores is for single labels; a tagger predicts sequences.")
        return _sequences(estimator.predict(X))
    if scores and hasattr(estimator, "decision_function"):
        values = np.asarray(estimator.decision_function(X))
        if values.ndim == 2:
            return _columns(estimator.classes_, values)
        return map(repr, values.tolist())
    predicted = np.asarray(estimator.predict(X))
    if predicted.dtype.kind == "f" and not hasattr(estimator, "classes_"):
        return map(repr, predicted.tolist())
    return map(_label, predicted.tolist())


def _probabilities(estimator: Any, X: Any) -> Iterable[str]:
    if not hasattr(estimator, "predict_proba"):
        raise CommandError(
            "--probabilities needs a classifier that was trained with --loss logistic. Use --scores for the "
            "decision values of others."
        )
    return _columns(estimator.classes_, estimator.predict_proba(X))


def _columns(classes: Any, values: Any) -> Iterable[str]:
    """The classes, and a line per sample with a number for each of them."""
    head = "# " + " ".join(map(str, classes))
    return (head, *(" ".join(map(repr, row)) for row in values.tolist()))


def _sequences(predicted: Iterable[Iterable[object]]) -> Iterator[str]:
    for labels in predicted:
        yield from map(_label, labels)
        yield ""


def _label(label: object) -> str:
    """A label as it was in the file: 1 and not 1.0."""
    return f"{label:g}" if isinstance(label, float) and label == int(label) else str(label)


@contextmanager
def _output(path: str | None) -> Iterator[TextIO]:
    if path is None or path == "-":
        yield sys.stdout
        return
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        yield file
