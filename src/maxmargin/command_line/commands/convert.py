"""``maxmargin convert``: data and models in other formats."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from typing import Any

from maxmargin.command_line.arguments import add_input_options, add_subparser, reader_options
from maxmargin.command_line.errors import CommandError

MODELS = ("maxmargin", "liblinear", "svm-light")
DATA = ("folder", "svmlight", "crfsuite")

DESCRIPTION = """
Convert a data file or a model.

Data become a folder that fits read in parts, so that it may be larger than memory (also at s3://),
an svmlight file, or, for sequences with named features, a file of crfsuite. Linear models are read
and written in the formats of LIBLINEAR (train, predict) and of SVM-light (svm_learn, svm_classify,
svm_perf_classify, svm_rank_classify).
"""
EXAMPLES = """
# a folder, written with little memory
maxmargin convert big.svm.gz big/
maxmargin convert table.csv table.svm --label price
# templates applied, for crfsuite learn
maxmargin convert train.conll train.crfsuite
maxmargin convert model.safetensors model.txt --to liblinear
maxmargin convert svm_light.model model.safetensors
"""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand to the parser."""
    parser = add_subparser(
        subparsers, "convert", "convert data and models", "FROM TO", DESCRIPTION, EXAMPLES
    )
    parser.add_argument("source", metavar="FROM", help="data or a model")
    parser.add_argument("target", metavar="TO", help="a file, a folder, or s3://...")
    parser.add_argument(
        "--to",
        choices=[*DATA, *MODELS],
        help="format of the result (default: by its name: .safetensors, .svm, .crfsuite, or a folder)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing data set")
    add_input_options(parser)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Convert a model or data."""
    from maxmargin.command_line.model_files import find_format

    if find_format(chosen.source) is not None:
        return _convert_model(chosen)
    return _convert_data(chosen)


def _convert_model(chosen: argparse.Namespace) -> int:
    from maxmargin.command_line.model_files import load_model, write_model

    kind = chosen.to or ("maxmargin" if chosen.target.endswith(".safetensors") else None)
    if kind not in MODELS:
        raise CommandError(f"{chosen.source} is a model: use --to with one of {', '.join(MODELS)}.")
    model = load_model(chosen.source)
    write_model(model, chosen.target, kind)
    print(f"{model.name} with {model.n_features:,} features written to {chosen.target} ({kind})")
    return 0


def _convert_data(chosen: argparse.Namespace) -> int:
    from maxmargin.command_line.readers.reading import find_format

    options = reader_options(chosen)
    kind = chosen.to or _target_format(chosen.target)
    if kind not in DATA:
        raise CommandError(f"{chosen.source} is no model: use --to with one of {', '.join(DATA)}.")
    source = options.format or find_format(chosen.source)
    options = replace(options, format=source)
    if kind == "folder":
        print(f"{repr(_write_folder(chosen, options)).strip('<>')} written to {chosen.target}")
        return 0
    from maxmargin.command_line.readers.reading import read_examples
    from maxmargin.command_line.writers import crfsuite, svmlight
    from maxmargin.command_line.writers.text import opened_for_writing

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
    if "." not in os.path.basename(path.rstrip("/")):
        return "folder"
    if path.endswith(".safetensors"):
        raise CommandError(f"{path} is the name of a model, but the input is not a model.")
    if os.path.isdir(path):
        return "folder"
    try:
        found = find_format(path)
    except CommandError:
        found = ""
    if found not in DATA:
        raise CommandError(f"{path}: which format? Use --to with one of {', '.join(DATA)}.")
    return found


def _write_folder(chosen: argparse.Namespace, options: Any) -> Any:
    """Write a data set; svmlight and Parquet in parts, other formats from memory."""
    from maxmargin import data
    from maxmargin.command_line.readers.examples import Rows, Sequences
    from maxmargin.command_line.readers.reading import read_examples
    from maxmargin.command_line.readers.table import label_column, parquet_names

    batches: Any
    if options.format == "svmlight" and options.group_sizes is None and chosen.source != "-":
        batches = data.read_svmlight(chosen.source, zero_based=bool(options.zero_based))
    elif options.format == "parquet":
        label = label_column(options.label, parquet_names(chosen.source), chosen.source)
        batches = data.read_parquet(
            chosen.source, label=label, weight=options.weight, group=options.group
        )
    else:
        examples = read_examples(chosen.source, options).examples
        if isinstance(examples, Sequences) and examples.lengths is None:
            raise CommandError(
                f"{chosen.source}: the features of its tokens are names, and a folder holds numbers. fit "
                "reads the file itself; --to crfsuite writes its features as text."
            )
        if not isinstance(examples, Rows | Sequences):
            raise CommandError(f"{chosen.source} is such a folder already.")
        batches = [_batch(examples)]
    return data.write(chosen.target, batches, overwrite=chosen.overwrite)


def _batch(examples: Any) -> dict[str, Any]:
    """One batch with all examples, for :func:`maxmargin.data.write`."""
    import numpy as np

    from maxmargin.command_line.readers.examples import Rows
    from maxmargin.data.parquet import Features

    if isinstance(examples, Rows):
        X: Any = examples.X
        if examples.names is not None:
            X = Features(examples.names, list(np.asarray(X).T))
        group = examples.group
        if group is not None and group.dtype.kind not in "iu":
            group = np.unique(group, return_inverse=True)[1]
        return {"X": X, "y": examples.y, "weight": examples.weight, "group": group}
    ends = np.cumsum(examples.lengths).tolist()
    spans = [(end - n, end) for n, end in zip(examples.lengths.tolist(), ends, strict=True)]
    y = None if examples.y is None else [np.array(labels) for labels in examples.y]
    return {"X": [examples.X[a:b] for a, b in spans], "y": y, "weight": examples.weight}
