"""The estimator of a command: its class, and its parameters from the options."""

from __future__ import annotations

import argparse
import ast
import sys
import warnings
from typing import Any

import numpy as np

from maxmargin.command_line.errors import CommandError
from maxmargin.command_line.readers.examples import (
    Examples,
    OnDisk,
    Samples,
    Sequences,
    are_sequences,
    as_sequences,
)

NAMES = ("LinearSVC", "LinearSVR", "RankSVM", "SequenceTagger", "MeasureSVC", "KernelSVC")

#: more whole numbers than this as labels are probably not classes
MANY_CLASSES = 100
#: options whose value is a parameter of the same meaning
_SAME = ("tol", "loss", "measure", "epsilon", "kernel", "gamma", "class_weight", "multi_class",
         "order", "solver", "n_jobs", "engine", "max_iter", "checkpoint")  # fmt: skip
_PARAMETERS = dict(zip(_SAME, _SAME, strict=True)) | {
    "seconds": "max_seconds",
    "seed": "random_state",
}
_SOLVERS = {
    "cutting_plane": "CuttingPlane",
    "dual_coordinate": "DualCoordinate",
    "newton": "Newton",
}


def chosen_name(chosen: argparse.Namespace, examples: Examples) -> str:
    """The name of the estimator: the one of --estimator, or the default for these examples."""
    name: str | None = chosen.estimator
    if name is None:
        return default_name(examples, regression=getattr(chosen, "epsilon", None) is not None)
    known = {known.lower(): known for known in NAMES}
    if name.lower() not in known:
        raise CommandError(f"--estimator {name}: use one of {', '.join(NAMES)}.")
    return known[name.lower()]


def default_name(examples: Examples, *, regression: bool = False) -> str:
    """The estimator for the kind of examples; with an option of regression, labels are numbers."""
    if are_sequences(examples) or isinstance(examples, Sequences):
        return "SequenceTagger"
    if examples.group is not None:
        return "RankSVM"
    if isinstance(examples, Samples):
        y, classes = examples.y, None if examples.y is None else np.unique(examples.y)
    else:
        y, classes = examples.data.y, examples.data.classes  # type: ignore[assignment]
    fractional = classes is None or (
        classes.dtype.kind == "f" and (classes != np.rint(classes)).any()
    )
    if y is not None and (regression or fractional):
        return "LinearSVR"
    if classes is not None and classes.dtype.kind in "iuf" and len(classes) > MANY_CLASSES:
        warnings.warn(
            f"the labels are {len(classes):,} different whole numbers, which are trained as classes. Are "
            "they quantities? Then use regression: --estimator LinearSVR, or --epsilon.",
            stacklevel=2,
        )
    return "LinearSVC"


def suited(examples: Examples, name: str, path: str) -> Examples:
    """The examples in the form that the estimator takes."""
    if isinstance(examples, Samples) and name == "SequenceTagger":
        return as_sequences(examples, path)
    if name == "SequenceTagger" and not are_sequences(examples):
        raise CommandError(f"{path} holds no sequences, which a SequenceTagger needs.")
    if are_sequences(examples) and name != "SequenceTagger":
        raise CommandError(
            f"{path} holds sequences, which {name} cannot learn: use SequenceTagger."
        )
    return examples


def make(name: str, chosen: argparse.Namespace, examples: Examples) -> Any:
    """The estimator with the parameters of the command."""
    import maxmargin

    cls = getattr(maxmargin, name)
    known = cls().get_params(deep=False)
    params: dict[str, Any] = {}
    for option, parameter in _PARAMETERS.items():
        value = getattr(chosen, option, None)
        if value is not None:
            _require(parameter, known, name, f"--{option.replace('_', '-')}")
            params[parameter] = _converted(option, value, examples)
    if getattr(chosen, "C", None) is not None:
        params["C"] = number_of_C(chosen.C, name, examples)
    if chosen.no_intercept:
        _require("fit_intercept", known, name, "--no-intercept")
        params["fit_intercept"] = False
    if chosen.unpenalized_intercept:
        _require("penalize_intercept", known, name, "--unpenalized-intercept")
        params["penalize_intercept"] = False
    for text in chosen.set:
        parameter, equals, value = text.partition("=")
        if not equals:
            raise CommandError(f"--set {text}: write --set name=value.")
        _require(parameter, known, name, f"--set {parameter}")
        params[parameter] = literal(value)
    if shows_progress(chosen):
        from maxmargin.command_line.progress import CommandLine

        params["callbacks"] = [CommandLine()]
    return cls(**params)


def number_of_C(text: str, name: str, examples: Examples) -> float:
    """C of a text such as ``0.1`` or ``20/n``."""
    number, slash, rest = str(text).partition("/")
    try:
        value = float(number)
    except ValueError:
        value = float("nan")
    if not value > 0.0 or (slash and rest.strip() != "n"):
        raise CommandError(f"--C {text}: give a positive number, or a number over n, such as 20/n.")
    return value / n_examples(name, examples) if slash else value


def n_examples(name: str, examples: Examples) -> int:
    """The number of samples, of queries of a ranking, or of sequences."""
    if name != "RankSVM" or isinstance(examples, Sequences):
        return len(examples)
    return 1 if examples.group is None else len(np.unique(examples.group))


def literal(text: str) -> Any:
    """A Python value where the text is one (numbers, True, None, lists), else the text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _require(parameter: str, known: dict[str, Any], name: str, option: str) -> None:
    if parameter not in known:
        import maxmargin

        having = [n for n in NAMES if parameter in getattr(maxmargin, n)().get_params(deep=False)]
        if having:
            raise CommandError(
                f"{option} is for {', '.join(having)} (--estimator), not for {name}."
            )
        others = ", ".join(sorted(set(known) - {"callbacks", "verbose"}))
        raise CommandError(f"{option}: {name} has no parameter {parameter}; it has {others}.")


def _converted(option: str, value: Any, examples: Examples) -> Any:
    if option == "solver" and value != "auto":
        from maxmargin import solvers

        if value not in _SOLVERS:
            raise CommandError(f"--solver {value}: use auto, {', '.join(_SOLVERS)}.")
        return getattr(solvers, _SOLVERS[value])()
    if option == "gamma":
        return literal(value)
    if option == "class_weight" and value != "balanced":
        return _class_weight(value, examples)
    return value


def _class_weight(text: str, examples: Examples) -> dict[Any, float]:
    """Multipliers by class. Labels may be numbers or strings, as in the data."""
    data = examples.data if isinstance(examples, OnDisk) else examples
    strings = data.y is not None and np.asarray(data.y[:1]).dtype.kind in "US"
    out: dict[Any, float] = {}
    for part in text.split(","):
        label, colon, weight = part.rpartition(":")
        try:
            out[label if strings else literal(label.lstrip("+"))] = float(weight)
        except ValueError:
            colon = ""
        if not colon:
            raise CommandError(f'--class-weight {text}: write balanced, or such as "1:2,-1:1".')
    return out


def shows_progress(chosen: argparse.Namespace) -> bool:
    """Whether to write progress to standard error."""
    return chosen.verbose or (not chosen.quiet and sys.stderr.isatty())
