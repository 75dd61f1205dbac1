"""``maxmargin evaluate``: how well a model predicts the labels of a file."""

from __future__ import annotations

import argparse
from typing import Any

from maxmargin.command_line.arguments import add_input_options, add_model_and_data, add_subparser
from maxmargin.command_line.commands.predict import read_for

DESCRIPTION = """
Compare the predictions of a model with the labels of a file.

Classes: accuracy, precision, recall, F1, ROC AUC. Regression: mean squared error, mean absolute
error, R2. Rankings: pairs in the right order, NDCG@10. Sequences: accuracy, and for labels such as
B-NP and I-NP precision, recall and F1 of whole spans.
"""
EXAMPLES = """
maxmargin evaluate model.safetensors test.svm
maxmargin evaluate chunks.safetensors test.conll --json
"""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand to the parser."""
    parser = add_subparser(
        subparsers, "evaluate", "compare predictions with the labels of a file", "MODEL DATA",
        DESCRIPTION, EXAMPLES,
    )  # fmt: skip
    add_model_and_data(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_input_options(parser)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Load, read, predict, and print the metrics."""
    from maxmargin.command_line import fitting, metrics, report
    from maxmargin.command_line.model_files import load_model
    from maxmargin.command_line.tables import table

    model = load_model(chosen.model)
    examples = read_for(model, chosen)
    found = metrics.evaluate(model.estimator, fitting.inputs(model, examples), examples)
    if chosen.json:
        values = {name: report.finite(value) for name, value in found.items()}
        report.print_json({"estimator": model.name, "n_examples": len(examples), **values})
    else:
        print(table([[name, report.figure(value)] for name, value in found.items()]))
    return 0
