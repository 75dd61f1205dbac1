"""``maxmargin cv``: choose C by cross-validation."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from maxmargin.command_line.arguments import (
    add_estimator_options,
    add_input_options,
    add_subparser,
    reader_options,
)
from maxmargin.command_line.errors import CommandError, ExitCode

if TYPE_CHECKING:
    from maxmargin.command_line.search import Setting

DESCRIPTION = """
Train for several values of C on all folds but one, and score on that one. The certificate of every
fit is checked. With --output, the best C is fitted to all examples. Samples of a query stay
together. Ctrl-C ends the search and prints the folds that are done.
"""
EXAMPLES = """
maxmargin cv train.svm --output best.safetensors
maxmargin cv train.svm --Cs 0.01,0.1,1,10 --folds 10 --scoring roc_auc
maxmargin cv chunks.conll --Cs 0.03,0.1,0.3 --json
"""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand to the parser."""
    parser = add_subparser(
        subparsers, "cv", "choose C by cross-validation", "DATA", DESCRIPTION, EXAMPLES
    )
    parser.add_argument("data", metavar="DATA", help="a file, a folder, a URL, or -")
    parser.add_argument(
        "--Cs", default="0.01,0.1,1,10", metavar="LIST", help="values of C (default 0.01,0.1,1,10)"
    )
    parser.add_argument("--folds", type=int, default=5, metavar="N", help="number of folds (5)")
    parser.add_argument(
        "--scoring",
        metavar="NAME",
        help="a scorer of scikit-learn, such as f1 or roc_auc",
    )
    parser.add_argument("--output", "-o", metavar="FILE", help="write the model of the best C")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_input_options(parser)
    add_estimator_options(parser, for_cv=True)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Read, search, print the table, and write the model of the best C."""
    from maxmargin.command_line import estimator as estimators
    from maxmargin.command_line import report, search
    from maxmargin.command_line.commands import fit
    from maxmargin.command_line.readers.examples import Read
    from maxmargin.command_line.readers.reading import read_examples

    fit.check_output(chosen.output)
    values = _values(chosen.Cs)
    if chosen.folds < 2:
        raise CommandError(f"--folds {chosen.folds}: at least 2.")
    read = read_examples(chosen.data, reader_options(chosen))
    name = estimators.chosen_name(chosen, read.examples)
    examples = estimators.suited(read.examples, name, chosen.data)
    template = estimators.make(name, chosen, examples)
    found = search.search(template, values, chosen.folds, chosen.scoring, examples)
    best = search.best_of(found)
    interrupted = any(setting.n_missing for setting in found)
    certified = all(setting.converged for setting in found)
    final: Any = None
    if chosen.output is not None and best is not None and not interrupted:
        final = search.refit(template, best.C, examples)
        fit.write(final, chosen.output, Read(examples, read.options))
        certified = certified and bool(final.converged_)
        interrupted = final.stop_reason_ == "interrupted"
    if chosen.json:
        out = {"estimator": name, "certified": certified, **_as_json(found, best)}
        if final is not None:
            out |= {"model": report.certificate(final), "output": chosen.output}
        report.print_json(out)
    else:
        print(search.in_words(found, template, chosen.scoring))
        if final is not None:
            print(report.certificate_in_words(final))
            print(f"model of C={final.C:g} written to {chosen.output}")
    if interrupted:
        left = "the model is the best one found" if final is not None else "no model was written"
        raise CommandError(f"interrupted; {left}.", ExitCode.INTERRUPTED)
    return int(ExitCode.DONE if certified else ExitCode.NOT_CERTIFIED)


def _values(text: str) -> list[float]:
    try:
        values = sorted({float(part) for part in text.replace(",", " ").split()})
    except ValueError:
        values = []
    if not values or not values[0] > 0.0:
        raise CommandError(f"--Cs {text}: give positive numbers, such as 0.01,0.1,1.")
    return values


def _as_json(found: list[Setting], best: Setting | None) -> dict[str, Any]:
    from maxmargin.command_line.report import finite

    table = [
        {
            "C": setting.C,
            "mean_score": finite(setting.mean),
            "std_score": finite(setting.std),
            "largest_gap": finite(setting.gap),
            "certified": setting.converged,
            "folds": setting.n_folds - setting.n_missing,
        }
        for setting in found
    ]
    chosen = (None, None) if best is None else (best.C, finite(best.mean))
    return {"best_C": chosen[0], "best_score": chosen[1], "table": table}
