"""``maxmargin convert``: data in other formats."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from typing import Any

from maxmargin.command_line.arguments import add_input_options, add_subparser, reader_options
from maxmargin.command_line.errors import CommandError
from maxmargin.command_line.readers.examples import (
    Examples,
    OnDisk,
    ReaderOptions,
    Samples,
)

#: formats that several workers can read
_IN_PARTS = ("svmlight", "parquet")
TARGETS = ("folder", "svmlight", "crfsuite")

DESCRIPTION = """
Convert a data file.

The result is a folder that fits read in parts, so that it may be larger than memory (also at
s3://), an svmlight file, or, for sequences with named features, a file of crfsuite.

If the conversion to a folder is interrupted, the same command goes on where it ended.
"""
EXAMPLES = """
# a folder, written with little memory
maxmargin convert big.svm big/ --n-jobs -1
maxmargin convert table.csv table.svm --label price
# templates applied, for crfsuite learn
maxmargin convert train.conll train.crfsuite
"""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand to the parser."""
    parser = add_subparser(subparsers, "convert", "convert data", "FROM TO", DESCRIPTION, EXAMPLES)
    parser.add_argument("source", metavar="FROM", help="a file, a folder, a URL, or -")
    parser.add_argument("target", metavar="TO", help="a file, a folder, or s3://...")
    parser.add_argument(
        "--to",
        choices=TARGETS,
        help="format of the result (default: by its name: .svm, .crfsuite, or a folder)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing data set")
    add_input_options(parser)
    group = parser.add_argument_group("workers (svmlight and Parquet to a folder)")
    group.add_argument("--n-jobs", type=int, metavar="N", help="number of workers; -1: all cores")
    group.add_argument(
        "--engine", metavar="NAME", help="processes (default), threads, ray, ray://host:port"
    )
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Read and write."""
    from maxmargin.command_line.readers.reading import find_format, read_examples
    from maxmargin.command_line.writers import crfsuite, svmlight
    from maxmargin.command_line.writers.text import opened_for_writing

    options = reader_options(chosen)
    kind = chosen.to or _target_format(chosen.target)
    options = replace(options, format=options.format or find_format(chosen.source))
    if kind == "folder":
        print(f"{repr(_write_folder(chosen, options)).strip('<>')} written to {chosen.target}")
        return 0
    examples = read_examples(chosen.source, options).examples
    with opened_for_writing(chosen.target) as file:
        n = (svmlight if kind == "svmlight" else crfsuite).write(examples, file)
    if chosen.target != "-":
        print(f"{n:,} {'lines' if kind == 'svmlight' else 'sequences'} written to {chosen.target}")
    return 0


def _target_format(path: str) -> str:
    from maxmargin.command_line.readers.reading import find_format

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
    from maxmargin.command_line.readers import table
    from maxmargin.command_line.readers.reading import read_examples

    source, arguments = chosen.source, dict[str, Any]()
    if options.format == "csv" and options.group_sizes is None:
        batches = table.csv_batches(source, options)[1]
        return data.write(chosen.target, batches, overwrite=chosen.overwrite)
    if source == "-" or options.format not in _IN_PARTS or options.group_sizes is not None:
        batch = _batch(read_examples(source, options).examples, source)
        return data.write(chosen.target, [batch], overwrite=chosen.overwrite)
    if options.format == "svmlight":
        arguments = {"zero_based": bool(options.zero_based)}
    else:
        arguments = table.parquet_arguments(source, options)[1]
    try:
        return data.convert(
            source, chosen.target, format=options.format, overwrite=chosen.overwrite,
            n_jobs=chosen.n_jobs, engine=chosen.engine, **arguments,
        )  # fmt: skip
    except (TypeError, ValueError) as error:
        if options.format == "svmlight":
            raise
        raise table.advised(source, error) from error


def _batch(examples: Examples, path: str) -> dict[str, Any]:
    """One batch with all examples, for :func:`maxmargin.data.write`."""
    import numpy as np

    from maxmargin.data.formats.parquet import Features

    if isinstance(examples, OnDisk):
        raise CommandError(f"{path} is such a folder already.")
    if isinstance(examples, Samples):
        X: Any = examples.X
        if examples.names is not None:
            X = Features(examples.names, list(np.asarray(X).T))
        group = examples.group
        if group is not None and group.dtype.kind not in "iu":
            group = np.unique(group, return_inverse=True)[1]
        return {"X": X, "y": examples.y, "weight": examples.weight, "group": group}
    if examples.named:
        raise CommandError(
            f"{path}: the features of its tokens are names, and a folder holds numbers. fit reads the file "
            "itself; --to crfsuite writes its features as text."
        )
    y = None if examples.y is None else [np.array(labels) for labels in examples.y]
    return {"X": examples.X, "y": y, "weight": examples.weight}
