"""``maxmargin inspect``: what a model, a data set, a checkpoint or a data file holds."""

from __future__ import annotations

import argparse
import os
import re
from typing import Any

import numpy as np

from maxmargin.command_line.arguments import add_input_options, add_subparser, reader_options
from maxmargin.command_line.errors import CommandError

DESCRIPTION = """
Show what a file holds. A model: parameters, sizes, certificate, and the largest weights. Data:
sizes and labels.
"""
EXAMPLES = """
maxmargin inspect model.safetensors
maxmargin inspect model.safetensors --top 20
maxmargin inspect train.svm --json
maxmargin inspect folder/
"""


def add_parser(subparsers: Any) -> None:
    """Add the subcommand to the parser."""
    parser = add_subparser(
        subparsers,
        "inspect",
        "show what a model or a data file holds",
        "PATH",
        DESCRIPTION,
        EXAMPLES,
    )
    parser.add_argument("path", metavar="PATH", help="a model, a checkpoint, or data")
    parser.add_argument("--top", type=int, default=5, metavar="N", help="number of weights (5)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_input_options(parser)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Find out what the path is, and print it."""
    from maxmargin.command_line import model_files, report

    if chosen.path != "-" and "://" not in chosen.path and not os.path.exists(chosen.path):
        raise CommandError(f"{chosen.path}: there is no such file.")
    if is_checkpoint(chosen.path):
        found = _of_checkpoint(chosen.path)
    elif model_files.find_format(chosen.path) is not None:
        model = model_files.load_model(chosen.path)
        if not chosen.json:
            print(_model_in_words(model, chosen.top))
            return 0
        found = _of_model(model)
    else:
        found = _of_data(chosen)
    if chosen.json:
        report.print_json(found)
    else:
        shown = {name.removeprefix("n_"): _shown(value) for name, value in found.items()}
        width = max(map(len, shown))
        for name, text in shown.items():
            print(f"{name:{width}}  {text}")
    return 0


def is_checkpoint(path: str) -> bool:
    """Whether the header of a file says that it is a checkpoint."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return b'"format":"maxmargin checkpoint' in file.read(400)


def _of_model(model: Any) -> dict[str, Any]:
    from maxmargin.command_line import report

    estimator = model.estimator
    out: dict[str, Any] = {
        "model": model.name,
        "format": model.format,
        "n_features": model.n_features,
        "params": _changed(estimator),
        **report.certificate(estimator),
    }
    if hasattr(estimator, "classes_"):
        out["classes"] = [_plain(label) for label in list(estimator.classes_)]
    if model.notes:
        out["input"] = dict(model.notes)
    return out


def _model_in_words(model: Any, top: int) -> str:
    from maxmargin.command_line import report

    estimator = model.estimator
    params = ", ".join(f"{name}={value!r}" for name, value in _changed(estimator).items())
    lines = [f"{model.name}({params})"]
    if model.format == "maxmargin":
        lines.append(report.certificate_in_words(estimator))
    else:
        lines.append(f"a model of {model.format}: no certificate")
    lines.append(f"{model.n_features:,} features")
    if hasattr(estimator, "classes_"):
        classes = list(map(str, estimator.classes_))
        more = f", ... ({len(classes)} labels)" if len(classes) > 12 else ""
        lines.append(f"labels {', '.join(classes[:12])}{more}")
    if "template" in model.notes:
        lines.append("templates " + " ".join(model.notes["template"].split()))
    if top > 0:
        lines += _weights(estimator, top, model.feature_names)
    return "\n".join(lines)


def _weights(estimator: Any, top: int, names: list[str] | None) -> list[str]:
    """The largest weights; nothing for models without weights of features."""
    if type(estimator).__name__ == "SequenceTagger":
        return [] if estimator.expansion_ is not None else [str(estimator.explain(top))]
    if not hasattr(estimator, "coef_"):
        return []
    coef = np.atleast_2d(estimator.coef_)
    classes = list(getattr(estimator, "classes_", [""]))
    rows = classes if len(classes) == len(coef) else [classes[-1]]
    intercepts = np.atleast_1d(getattr(estimator, "intercept_", np.zeros(len(coef))))
    lines = []
    for label, weights, intercept in zip(rows, coef, intercepts, strict=True):
        order = np.argsort(-np.abs(weights), kind="stable")[:top]
        largest = [
            f"{names[k] if names else k + 1}: {weights[k]:+.4g}" for k in order if weights[k]
        ]
        head = f"largest weights of {label}" if len(classes) > 1 else "largest weights"
        lines.append(f"{head}: {', '.join(largest)}; intercept {intercept:+.4g}")
    return lines


def _changed(estimator: Any) -> dict[str, Any]:
    """Parameters that differ from their defaults, and C."""
    default = type(estimator)().get_params(deep=False)
    return {
        name: value
        for name, value in estimator.get_params(deep=False).items()
        if name == "C" or repr(value) != repr(default[name])
    }


def _of_checkpoint(path: str) -> dict[str, Any]:
    from maxmargin.checkpoints import read_file

    about, _ = read_file(path)
    plain = {
        name: value
        for name, value in about.items()
        if isinstance(value, bool | str | int | float) and not _is_hash(value)
    }
    return {"checkpoint": path, "bytes": os.path.getsize(path), **plain}


def _is_hash(value: Any) -> bool:
    """Whether a value only identifies data."""
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{32,}", value) is not None


def _of_data(chosen: argparse.Namespace) -> dict[str, Any]:
    from maxmargin.command_line.readers.examples import Sequences, Stored
    from maxmargin.command_line.readers.reading import read_examples

    read = read_examples(chosen.path, reader_options(chosen))
    examples = read.examples
    out: dict[str, Any] = {"data": chosen.path, "format": read.options.format}
    if isinstance(examples, Sequences):
        out |= {"n_sequences": len(examples), "n_tokens": examples.n_tokens}
        if examples.y is not None:
            out |= _of_labels(np.array([label for labels in examples.y for label in labels]))
        if read.options.fields is not None:
            out["fields"] = read.options.fields
        return out
    data = examples.data if isinstance(examples, Stored) else examples
    if isinstance(examples, Stored):
        shape, stored = examples.data.shape, examples.data.nnz
    else:
        shape, stored = examples.X.shape, _nonzero(examples.X)
    out |= {"n_samples": shape[0], "n_features": shape[1], "n_nonzero": int(stored)}
    if data.group is not None:
        out["n_queries"] = len(np.unique(np.asarray(data.group[:])))
    if data.y is not None:
        out |= _of_labels(np.asarray(data.y[:]))
    return out


def _nonzero(X: Any) -> int:
    return int(X.nnz if hasattr(X, "nnz") else np.count_nonzero(X))


def _of_labels(y: Any) -> dict[str, Any]:
    """The counts of labels, or the range of many numbers."""
    from maxmargin.command_line.readers.examples import whole_numbers

    values, counts = np.unique(whole_numbers(y), return_counts=True)
    if len(values) > 100 and y.dtype.kind in "iuf":
        return {"labels": f"{float(values[0]):g} to {float(values[-1]):g}"}
    return {"labels": {str(_plain(v)): int(n) for v, n in zip(values, counts, strict=True)}}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(
            f"{key} ({n:,})" if isinstance(n, int) else f"{key}={n}" for key, n in value.items()
        )
    return f"{value:,}" if isinstance(value, int) else str(value)
