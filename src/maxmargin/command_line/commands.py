"""The subcommands that read examples: ``fit``, ``predict``, ``evaluate``, ``cv``, and ``convert``.

Each has a function that adds its arguments, and one that does the work and returns the exit code.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any, TextIO

import numpy as np

from maxmargin.command_line import models, report
from maxmargin.command_line.arguments import (
    add_estimator_options,
    add_input_options,
    add_subparser,
    reader_options,
)
from maxmargin.command_line.examples import FileExamples, Read, ReaderOptions
from maxmargin.command_line.reading import find_format, read_examples, shown_progress
from maxmargin.command_line.report import CommandError, ExitCode

#: samples of a data set on disk to predict at a time
ROWS = 2**14
TARGETS = ("folder", "svmlight", "crfsuite")


def _add_output(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--output", "-o", metavar="FILE", help=text)


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _read(chosen: argparse.Namespace, options: ReaderOptions) -> Read:
    with shown_progress(chosen.data, models.shows_progress(chosen)):
        return read_examples(chosen.data, options)


def check_output(path: str | None) -> None:
    """Refuse a file that could not be written, before the work."""
    if path is None:
        return
    if not path:
        raise CommandError("--output is empty: name a file.")
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise CommandError(f"--output {path}: there is no folder {folder}.")
    if os.path.isdir(path):
        raise CommandError(f"--output {path}: this is a folder.")


# -- fit -------------------------------------------------------------------------------------------

FIT = """
Train a model. The fit ends with a certificate: a lower and an upper bound of the best value that
any weights can reach. The exit code says whether the bounds are as close as --tol asks for.
"""
FIT_EXAMPLES = """
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


def add_fit(subparsers: Any, arguments: list[str]) -> None:
    """Train a model, print its certificate, write it to a file."""
    parser = add_subparser(subparsers, "fit", "train a model", "DATA", FIT, FIT_EXAMPLES)
    _add_output(parser, "write the model to this file")
    _add_json(parser)
    add_input_options(parser)
    add_estimator_options(parser, arguments)
    group = parser.add_argument_group("checkpoints")
    text = "write the state of the fit to this file or URL every minute"
    group.add_argument("--checkpoint", metavar="FILE", help=text)
    text = "continue from the file of --checkpoint if it exists (the same data and options)"
    group.add_argument("--resume", action="store_true", help=text)
    parser.set_defaults(run=fit)


def fit(chosen: argparse.Namespace) -> int:
    """Read, fit, write, and print."""
    if chosen.resume and chosen.checkpoint is None:
        raise CommandError("--resume needs --checkpoint FILE, the file to continue from.")
    check_output(chosen.output)
    if chosen.checkpoint == "":
        raise CommandError("--checkpoint is empty: name a file.")
    if chosen.output is None and not chosen.json:
        report.say("maxmargin fit: the model will not be written; use --output FILE")
    import_module("maxmargin.estimators")  # takes a second, which is not the time to read a file
    begin = time.perf_counter()
    read, name = _prepared(chosen)
    read_seconds = time.perf_counter() - begin
    estimator = models.make(name, chosen, read.examples)
    begin = time.perf_counter()
    interrupted = _fitted(estimator, read.examples, chosen)
    seconds = time.perf_counter() - begin
    if chosen.output is not None:
        models.save_model(estimator, chosen.output, read)
    sizes = _sizes(estimator, read.examples)
    if chosen.json:
        report.print_json(
            {
                "estimator": name,
                "C": estimator.C,
                **sizes,
                **report.certificate(estimator),
                "seconds": round(seconds, 3),
                "read_seconds": round(read_seconds, 3),
                "output": chosen.output,
            }
        )
    else:
        words = report.in_words((key.removeprefix("n_"), n) for key, n in sizes.items())
        print(f"{name}, C={estimator.C:g}: {words}")
        print(report.in_color(report.certificate_in_words(estimator), sys.stdout))
        n_iter = report.in_words([("iterations", int(estimator.n_iter_))])
        print(f"{n_iter}, {seconds:.2f} s; {read_seconds:.2f} s to read the input")
        if chosen.output is not None:
            print(f"model written to {chosen.output}")
    return int(ExitCode.INTERRUPTED if interrupted else report.exit_code(estimator))


def _prepared(chosen: argparse.Namespace) -> tuple[Read, str]:
    """The examples of the command, and the name of the estimator: that of --estimator, or the default."""
    if chosen.estimator is not None:
        models.estimator_class(chosen.estimator)
    examples, options = _read(chosen, reader_options(chosen))
    if chosen.estimator is None:
        name = models.default_name(examples, regression=chosen.epsilon is not None)
    else:
        name = models.estimator_class(chosen.estimator).__name__
    return Read(models.suited(examples, name, chosen.data), options), name


def _fitted(estimator: Any, examples: FileExamples, chosen: argparse.Namespace) -> bool:
    """Fit the estimator. Returns whether Ctrl-C ended the fit, after which it holds what was found."""
    from sklearn.exceptions import ConvergenceWarning

    from maxmargin.checkpoints import exists

    options = models.training(estimator, examples)
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


def _sizes(estimator: Any, examples: FileExamples) -> dict[str, int]:
    """The sizes of a training problem."""
    out = {**examples.sizes, "n_features": int(estimator.n_features_in_)}
    if hasattr(estimator, "n_queries_"):
        out["n_queries"] = int(estimator.n_queries_)
    if hasattr(estimator, "classes_"):
        out["n_classes"] = len(estimator.classes_)
    return out


# -- predict ---------------------------------------------------------------------------------------

PREDICT = """
Predict the labels of a file: one per line, and for sequences an empty line after each sequence. A
ranking or a regression has numbers. The input is read as the training data were, unless options
say otherwise. Labels in it are ignored, and so are features that training did not see.
"""
PREDICT_EXAMPLES = """
maxmargin predict model.safetensors test.svm --output labels.txt
# decision values; with several classes, a column per class
maxmargin predict model.safetensors test.svm --scores
# from standard input, which may lack the column of labels
cut -d' ' -f1,2 test.conll | maxmargin predict chunks.safetensors -
"""


def add_predict(subparsers: Any, arguments: list[str]) -> None:
    """Labels or scores, one line per sample or token."""
    parser = add_subparser(
        subparsers, "predict", "predict labels or scores with a model", "MODEL DATA", PREDICT,
        PREDICT_EXAMPLES,
    )  # fmt: skip
    _add_output(parser, "instead of standard output")
    parser.add_argument("--scores", action="store_true", help="decision values in place of labels")
    text = (
        "probabilities in place of labels, a column per class, after training with --loss logistic"
    )
    parser.add_argument("--probabilities", action="store_true", help=text)
    add_input_options(parser)
    parser.set_defaults(run=predict)


def predict(chosen: argparse.Namespace) -> int:
    """Load, read, predict, and write."""
    check_output(chosen.output)
    model = models.load_model(chosen.model)
    parts = _parts(model.inputs(_read_for(model, chosen)))
    with _output(chosen.output) as file:
        for k, part in enumerate(parts):
            lines = _lines(model.estimator, part, chosen)
            file.writelines(f"{line}\n" for line in lines if k == 0 or not line.startswith("# "))
    return 0


def _parts(X: Any) -> Iterator[Any]:
    """Samples on disk in chunks, so that memory does not grow with them; anything else as it is."""
    from maxmargin.data import Dataset

    if not isinstance(X, Dataset) or X.ragged:
        yield X
        return
    for lo in range(0, len(X), ROWS):
        yield X.block(lo, min(lo + ROWS, len(X)))


def _read_for(model: models.LoadedModel, chosen: argparse.Namespace) -> FileExamples:
    """The examples of the command for a model, read as its training data were."""
    options, path, trained = reader_options(chosen), chosen.data, model.notes.get("format")
    if options.format is None and path != "-":
        try:
            found = find_format(path)
        except ValueError:  # the name does not say it
            if trained is None or not (os.path.exists(path) or "://" in path):
                raise
            found = trained
        svm_hmm = (found, trained) == ("svmlight", "svm-hmm")
        options = replace(options, format=trained if svm_hmm else found)
    read = _read(chosen, options.after(model.notes))
    return models.suited(read.examples, model.name, path)


def _lines(estimator: Any, X: Any, chosen: argparse.Namespace) -> Iterable[str]:
    if chosen.probabilities:
        if not hasattr(estimator, "predict_proba"):
            raise CommandError(
                "--probabilities needs a classifier that was trained with --loss logistic. Use --scores for "
                "the decision values of others."
            )
        return _columns(estimator.classes_, estimator.predict_proba(X))
    if type(estimator).__name__ == "SequenceTagger":
        if chosen.scores:
            raise CommandError("--scores is for single labels; a tagger predicts sequences.")
        return _sequences(estimator.predict(X))
    if chosen.scores and hasattr(estimator, "decision_function"):
        values = np.asarray(estimator.decision_function(X))
        return (
            _columns(estimator.classes_, values) if values.ndim == 2 else map(repr, values.tolist())
        )
    predicted = np.asarray(estimator.predict(X))
    numbers = predicted.dtype.kind == "f" and not hasattr(estimator, "classes_")
    return map(repr if numbers else _label, predicted.tolist())


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


# -- evaluate --------------------------------------------------------------------------------------

EVALUATE = """
Compare the predictions of a model with the labels of a file.

Classes: accuracy, precision, recall, F1, ROC AUC, and, up to 20 classes, the confusion matrix.
Regression: mean squared error, mean absolute error, R2. Rankings: pairs in the right order,
NDCG@10. Sequences: accuracy, and for labels such as B-NP and I-NP precision, recall and F1 of whole
spans.
"""
EVALUATE_EXAMPLES = """
maxmargin evaluate model.safetensors test.svm
maxmargin evaluate chunks.safetensors test.conll --json
"""


def add_evaluate(subparsers: Any, arguments: list[str]) -> None:
    """How well a model predicts the labels of a file."""
    parser = add_subparser(
        subparsers, "evaluate", "compare predictions with the labels of a file", "MODEL DATA",
        EVALUATE, EVALUATE_EXAMPLES,
    )  # fmt: skip
    _add_json(parser)
    add_input_options(parser)
    parser.set_defaults(run=evaluate)


def evaluate(chosen: argparse.Namespace) -> int:
    """Load, read, predict, and print the scores."""
    from maxmargin.command_line import scores

    model = models.load_model(chosen.model)
    examples = _read_for(model, chosen)
    found = scores.scores_of(model.estimator, model.inputs(examples), examples)
    if chosen.json:
        values = {name: report.finite(value) for name, value in found.items()}
        report.print_json({"estimator": model.name, "n_examples": len(examples), **values})
    else:
        print(scores.in_words(found))
    return 0


# -- cv --------------------------------------------------------------------------------------------

CV = """
Train for several values of C on all folds but one, and score on that one. The certificate of every
fit is checked. With --output, the best C is fitted to all examples. Samples of a query stay
together. Ctrl-C ends the search and prints the folds that are done.
"""
CV_EXAMPLES = """
maxmargin cv train.svm --output best.safetensors
maxmargin cv train.svm --Cs 0.01,0.1,1,10 --folds 10 --scoring roc_auc
maxmargin cv chunks.conll --Cs 0.03,0.1,0.3 --json
"""


def add_cv(subparsers: Any, arguments: list[str]) -> None:
    """Choose C by cross-validation."""
    parser = add_subparser(
        subparsers, "cv", "choose C by cross-validation", "DATA", CV, CV_EXAMPLES
    )
    parser.add_argument(
        "--Cs", default="0.01,0.1,1,10", metavar="LIST", help="values of C (default 0.01,0.1,1,10)"
    )
    parser.add_argument("--folds", type=int, default=5, metavar="N", help="number of folds (5)")
    text = "a scorer of scikit-learn, such as f1 or roc_auc"
    parser.add_argument("--scoring", metavar="NAME", help=text)
    _add_output(parser, "write the model of the best C")
    _add_json(parser)
    add_input_options(parser)
    add_estimator_options(parser, arguments, for_cv=True)
    parser.set_defaults(run=cv)


def cv(chosen: argparse.Namespace) -> int:
    """Read, search, print the table, and write the model of the best C."""
    from maxmargin.command_line import search

    check_output(chosen.output)
    values = search.values_of_C(chosen.Cs)
    if chosen.folds < 2:
        raise CommandError(f"--folds {chosen.folds}: at least 2.")
    read, name = _prepared(chosen)
    template = models.make(name, chosen, read.examples)
    found = search.search(template, values, chosen.folds, chosen.scoring, read.examples)
    best = search.best_of(found)
    interrupted = any(setting.n_missing for setting in found)
    certified = all(setting.converged for setting in found)
    final: Any = None
    if chosen.output is not None and best is not None and not interrupted:
        final = search.refit(template, best.C, read.examples)
        models.save_model(final, chosen.output, read)
        certified = certified and bool(final.converged_)
        interrupted = final.stop_reason_ == "interrupted"
    if chosen.json:
        out = {"estimator": name, "certified": certified, **search.as_json(found)}
        if final is not None:
            out |= {"model": report.certificate(final), "output": chosen.output}
        report.print_json(out)
    else:
        print(report.in_color(search.in_words(found, template, chosen.scoring), sys.stdout))
        if final is not None:
            print(report.in_color(report.certificate_in_words(final), sys.stdout))
            print(f"model of C={final.C:g} written to {chosen.output}")
    if interrupted:
        left = "the model is the best one found" if final is not None else "no model was written"
        raise CommandError(f"interrupted; {left}.", ExitCode.INTERRUPTED)
    return int(ExitCode.DONE if certified else ExitCode.NOT_CERTIFIED)


# -- convert ---------------------------------------------------------------------------------------

CONVERT = """
Convert a data file.

The result is a folder that fits read in parts, so that it may be larger than memory (also at
s3://), an svmlight file, or, for sequences with named features, a file of crfsuite.

If the conversion to a folder is interrupted, the same command goes on where it ended.
"""
CONVERT_EXAMPLES = """
# a folder, written with little memory
maxmargin convert big.svm big/ --n-jobs -1
maxmargin convert table.csv table.svm --label price
# templates applied, for crfsuite learn
maxmargin convert train.conll train.crfsuite
"""


def add_convert(subparsers: Any, arguments: list[str]) -> None:
    """Data in other formats."""
    parser = add_subparser(
        subparsers, "convert", "convert data", "FROM TO", CONVERT, CONVERT_EXAMPLES
    )
    text = "format of the result (default: by its name: .svm, .crfsuite, or a folder)"
    parser.add_argument("--to", dest="to_format", choices=TARGETS, help=text)
    parser.add_argument("--overwrite", action="store_true", help="replace an existing data set")
    add_input_options(parser)
    group = parser.add_argument_group("workers (svmlight and Parquet to a folder)")
    group.add_argument("--n-jobs", type=int, metavar="N", help="number of workers; -1: all cores")
    text = "processes (default), threads, ray, ray://host:port"
    group.add_argument("--engine", metavar="NAME", help=text)
    parser.set_defaults(run=convert)


def convert(chosen: argparse.Namespace) -> int:
    """Read and write."""
    from maxmargin.command_line import writing

    chosen.data, target = getattr(chosen, "from"), chosen.to
    options = reader_options(chosen)
    kind = chosen.to_format or _target_format(target)
    options = replace(options, format=options.format or find_format(chosen.data))
    if kind == "folder":
        print(f"{repr(_write_folder(chosen, options)).strip('<>')} written to {target}")
        return 0
    examples = _read(chosen, options).examples
    write = writing.write_svmlight if kind == "svmlight" else writing.write_crfsuite
    with writing.opened_for_writing(target) as file:
        n = write(examples, file)
    if target != "-":
        print(f"{n:,} {'lines' if kind == 'svmlight' else 'sequences'} written to {target}")
    return 0


def _target_format(path: str) -> str:
    if path == "-":
        return "svmlight"
    if os.path.isdir(path) or "." not in os.path.basename(path.rstrip("/")):
        return "folder"
    try:
        found = find_format(path)
    except ValueError:
        found = ""
    if found not in TARGETS:
        raise CommandError(f"{path}: which format? Use --to with one of {', '.join(TARGETS)}.")
    return found


def _write_folder(chosen: argparse.Namespace, options: ReaderOptions) -> Any:
    """Write a data set; svmlight and Parquet in parts, CSV in batches, other formats from memory."""
    from maxmargin import data
    from maxmargin.command_line import tables

    source, arguments = chosen.data, dict[str, Any]()
    if options.format == "csv" and options.group_sizes is None:
        batches: Iterable[Any] = tables.batches_of(source, options).batches
        return data.write(chosen.to, batches, overwrite=chosen.overwrite)
    parts = options.format in ("svmlight", "parquet")  # several workers can read them
    if source == "-" or not parts or options.group_sizes is not None:
        batch = _batch(_read(chosen, options).examples, source)
        return data.write(chosen.to, [batch], overwrite=chosen.overwrite)
    if options.format == "svmlight":
        arguments = {"zero_based": bool(options.zero_based)}
    else:
        arguments = tables.parquet_roles(source, options)[1]
    try:
        return data.convert(
            source, chosen.to, format=options.format, overwrite=chosen.overwrite,
            n_jobs=chosen.n_jobs, engine=chosen.engine, **arguments,
        )  # fmt: skip
    except (TypeError, ValueError) as error:
        if options.format == "svmlight":
            raise
        raise tables.advised(source, error) from error


def _batch(examples: FileExamples, path: str) -> dict[str, Any]:
    """One batch with all examples, for :func:`maxmargin.data.write`."""
    from maxmargin.data.formats.parquet import Features

    if examples.on_disk:
        raise CommandError(f"{path} is such a folder already.")
    if examples.named:
        raise CommandError(
            f"{path}: the features of its tokens are names, and a folder holds numbers. fit reads the file "
            "itself; --to crfsuite writes its features as text."
        )
    X, y, group = examples.X, examples.y, examples.group
    if examples.are_sequences:
        y = None if y is None else [np.array(labels) for labels in y]
    elif examples.names is not None:
        X = Features(examples.names, list(np.asarray(X).T))
    if group is not None and group.dtype.kind not in "iu":
        group = np.unique(group, return_inverse=True)[1]
    return {"X": X, "y": y, "weight": examples.weight, "group": group}
