"""``maxmargin verify``: check files, and the objective of a model."""

from __future__ import annotations

import argparse
import os
from typing import Any

import numpy as np

from maxmargin.command_line.arguments import add_input_options, add_subparser
from maxmargin.command_line.errors import CommandError, ExitCode

DESCRIPTION = """
Check models, checkpoints and data sets: every byte is compared with the checksums, and every entry
is checked.

With --data, the objective of a linear model or of a tagger is computed again from its weights and
the training data, by plain code that shares nothing with the solvers, and compared with the
certificate.
"""
EXAMPLES = """
maxmargin verify model.safetensors fit.ckpt folder/
maxmargin verify model.safetensors --data train.svm
"""
#: the largest relative difference of two evaluations of an objective
TOLERANCE = 1e-6


def add_parser(subparsers: Any) -> None:
    """Add the subcommand to the parser."""
    parser = add_subparser(
        subparsers,
        "verify",
        "check models, checkpoints and data sets",
        "PATH...",
        DESCRIPTION,
        EXAMPLES,
    )
    parser.add_argument("paths", metavar="PATH", nargs="+", help="models, checkpoints, data sets")
    parser.add_argument("--data", metavar="DATA", help="the training data of the model")
    add_input_options(parser)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Check all paths; the exit code is 4 if something is wrong with one of them."""
    failed = False
    for path in chosen.paths:
        if "://" not in path and not os.path.exists(path):
            raise CommandError(f"{path}: there is no such file.")
        try:
            print(f"{path}: {_verified(path, chosen)}")
        except (ValueError, OSError) as error:
            failed = True
            print(f"WRONG {error}" if path in str(error) else f"WRONG {path}: {error}")
    return int(ExitCode.NOT_VERIFIED if failed else ExitCode.DONE)


def _verified(path: str, chosen: argparse.Namespace) -> str:
    from maxmargin.command_line.commands.inspect import is_checkpoint
    from maxmargin.command_line.model_files import find_format, load_model

    if os.path.isdir(path) or "://" in path:
        from maxmargin import data

        found = data.open(path)
        found.verify()
        return f"{repr(found).strip('<>')}, all checksums match"
    if is_checkpoint(path):
        from maxmargin.checkpoints import read_file

        read_file(path)
        return "checkpoint, the checksum matches"
    if find_format(path) is None:
        raise CommandError(f"{path} is no model, no checkpoint and no data set.")
    model = load_model(path)
    text = f"{model.name}, the checksum matches" if model.format == "maxmargin" else model.name
    return text if chosen.data is None else f"{text}; {_objective_verified(model, chosen)}"


def _objective_verified(model: Any, chosen: argparse.Namespace) -> str:
    from maxmargin.command_line import fitting, objectives
    from maxmargin.command_line.commands.predict import read_for
    from maxmargin.command_line.search import in_memory

    if model.format != "maxmargin":
        raise CommandError(f"a model of {model.format} has no certificate.")
    examples = in_memory(read_for(model, chosen))
    options = fitting.training(examples)
    options["X"] = fitting.inputs(model, examples)["X"]
    value = objectives.objective(model.estimator, options)
    stored, lower = model.estimator.objective_, model.estimator.lower_bound_
    if not abs(value - stored) <= TOLERANCE * max(1.0, abs(stored)):
        raise ValueError(
            f"the objective is {value:.9g} on {chosen.data}, but the certificate says {stored:.9g}: these "
            "are other data, or other options for reading them"
        )
    if not np.isfinite(lower):
        return f"the objective {value:.9g} matches; there is no lower bound"
    return f"the objective {value:.9g} matches, and is not below the lower bound {lower:.9g}"
