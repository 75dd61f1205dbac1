"""Estimators: the one that suits the examples, its parameters as options, its arguments, and model files."""

from __future__ import annotations

import argparse
import ast
import inspect
import os
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.command_line.examples import FileExamples, Read, as_sequences
from maxmargin.command_line.report import CommandError

NAMES = ("LinearSVC", "LinearSVR", "RankSVM", "SequenceTagger", "MeasureSVC", "KernelSVC")
#: more whole numbers than this as labels are probably not classes
MANY_CLASSES = 100
#: parameters that are objects, or options of their own
_NO_OPTIONS = frozenset(
    {"C", "callbacks", "verbose", "checkpoint", "prior", "warm_start", "keep_duals"}
)
#: shorter names of options
_SHORT = {"max_seconds": "--seconds", "random_state": "--seed"}
#: options without a value, and the parameters that they switch off
_FLAGS = {
    "fit_intercept": ("--no-intercept", "leave out the constant feature"),
    "penalize_intercept": ("--unpenalized-intercept", "leave the intercept out of the norm"),
}
_SOLVERS = {
    "cutting_plane": "CuttingPlane",
    "dual_coordinate": "DualCoordinate",
    "newton": "Newton",
}


def estimator_class(name: str) -> Any:
    """The class of this name, in small or capital letters."""
    import maxmargin

    known = {one.lower(): one for one in NAMES}
    if name.lower() not in known:
        raise CommandError(f"--estimator {name}: use one of {', '.join(NAMES)}.")
    return getattr(maxmargin, known[name.lower()])


def option_of(parameter: str) -> str:
    """The option that sets a parameter."""
    return _FLAGS.get(parameter, (_SHORT.get(parameter, f"--{parameter.replace('_', '-')}"),))[0]


def add_parameters(group: Any, names: Sequence[str]) -> None:
    """An option for each parameter of these estimators, with the first sentence of its documentation."""
    seen: set[str] = set()
    for cls in map(estimator_class, names):
        texts = _documented(cls)
        for name in inspect.signature(cls).parameters:
            if name in _NO_OPTIONS or name in seen:
                continue
            seen.add(name)
            long, about = f"--{name.replace('_', '-')}", texts.get(name, "").replace("%", "%%")
            if name in _FLAGS:
                flag, about = _FLAGS[name]
                group.add_argument(flag, dest=name, action="store_const", const="False", help=about)
                continue
            own = [long, _SHORT[name]] if name in _SHORT else [long]
            group.add_argument(*own, dest=name, metavar="VALUE", help=about)


def _documented(cls: Any) -> dict[str, str]:
    """The type and the first sentence of each parameter."""
    text = inspect.getdoc(cls) or ""
    section = text.partition("Parameters\n----------\n")[2].partition("\n\nAttributes\n")[0]
    out: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", section):
        head, _, about = entry.partition("\n")
        name, _, kind = head.partition(" : ")
        first = re.split(r"(?<=\.) ", " ".join(about.split()))[0].replace("``", "")
        out[name] = f"{kind}: {first}"
    return out


# -- the choice of the estimator -------------------------------------------------------------------


def default_name(examples: FileExamples, *, regression: bool = False) -> str:
    """The estimator for the kind of examples; with an option of regression, labels are numbers."""
    if examples.are_sequences:
        return "SequenceTagger"
    if examples.group is not None:
        return "RankSVM"
    y = examples.y
    classes = examples.X.classes if examples.on_disk else None if y is None else np.unique(y)
    whole = classes is not None and (
        classes.dtype.kind != "f" or (classes == np.rint(classes)).all()
    )
    if y is not None and (regression or not whole):
        return "LinearSVR"
    if classes is not None and classes.dtype.kind in "iuf" and len(classes) > MANY_CLASSES:
        warnings.warn(
            f"the labels are {len(classes):,} different whole numbers, which are trained as classes. Are "
            "they quantities? Then use regression: --estimator LinearSVR, or --epsilon.",
            stacklevel=2,
        )
    return "LinearSVC"


def suited(examples: FileExamples, name: str, path: str) -> FileExamples:
    """The examples in the form that the estimator takes."""
    if name != "SequenceTagger":
        if examples.are_sequences:
            text = f"{path} holds sequences, which {name} cannot learn: use SequenceTagger."
            raise CommandError(text)
        return examples
    if not examples.are_sequences:
        if examples.on_disk:
            raise CommandError(f"{path} holds no sequences, which a SequenceTagger needs.")
        return as_sequences(examples, path)
    return examples


def make(name: str, chosen: argparse.Namespace, examples: FileExamples) -> Any:
    """The estimator with the parameters of the command."""
    known = {one: inspect.signature(estimator_class(one)).parameters for one in NAMES}
    every = set().union(*known.values()) - {"verbose"}
    given = {k: v for k, v in vars(chosen).items() if k in every and v is not None}
    params = {k: _converted(k, v, examples) for k, v in given.items() if k != "C"}
    for parameter in params:
        if parameter not in known[name]:
            others = [other for other, its in known.items() if parameter in its]
            raise CommandError(
                f"{option_of(parameter)} is for {', '.join(others)} (--estimator), not for {name}."
            )
    if "C" in given:
        params["C"] = number_of_C(given["C"], name, examples)
    if shows_progress(chosen):
        from maxmargin.callbacks import Progress

        params["callbacks"] = [Progress(final=False)]
    return estimator_class(name)(**params)


def number_of_C(text: str, name: str, examples: FileExamples) -> float:
    """C of a text such as ``0.1`` or ``20/n``, where n is the number of samples, queries or sequences."""
    number, slash, rest = str(text).partition("/")
    try:
        value = float(number)
    except ValueError:
        value = float("nan")
    if not value > 0.0 or (slash and rest.strip() != "n"):
        raise CommandError(f"--C {text}: give a positive number, or a number over n, such as 20/n.")
    n = len(examples)
    if name == "RankSVM":
        n = 1 if examples.group is None else len(np.unique(examples.group[:]))
    return value / n if slash else value


def literal(text: str) -> Any:
    """A Python value where the text is one (numbers, True, None, lists), else the text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _converted(parameter: str, value: str, examples: FileExamples) -> Any:
    if parameter == "solver" and value != "auto":
        from maxmargin import solvers

        if value not in _SOLVERS:
            raise CommandError(f"--solver {value}: use one of auto, {', '.join(_SOLVERS)}.")
        return getattr(solvers, _SOLVERS[value])()
    if parameter == "class_weight" and value != "balanced":
        return _class_weight(value, examples)
    return value if parameter == "checkpoint" else literal(value)


def _class_weight(text: str, examples: FileExamples) -> dict[Any, float]:
    """Multipliers by class. Labels may be numbers or strings, as in the data."""
    strings = examples.y is not None and np.asarray(examples.y[:1]).dtype.kind in "US"
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


# -- the arguments of its methods ------------------------------------------------------------------


def training(estimator: Any, examples: FileExamples) -> dict[str, Any]:
    """The arguments of ``fit``. Only rankings have queries."""
    if examples.on_disk:
        return {"X": examples.X}
    if examples.y is None:
        raise CommandError("the input has no labels. Name their column with --label.")
    out: dict[str, Any] = {"X": examples.X, "y": examples.y}
    if type(estimator).__name__ == "RankSVM":
        out["groups"] = examples.group
    if examples.weight is not None:
        out["sample_weight"] = examples.weight
    return out


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """An estimator that can predict, the options that read its training data, and its features' names."""

    estimator: Any
    notes: Mapping[str, str]
    feature_names: list[str] | None = None

    @property
    def name(self) -> str:
        return type(self.estimator).__name__

    def inputs(self, examples: FileExamples) -> Any:
        """The argument of ``predict``: what the model knows of the examples."""
        if examples.on_disk or examples.named:
            return examples.X
        if examples.are_sequences:
            return [self._same_width(x) for x in examples.X]
        if self.feature_names is None or examples.names is None:
            return self._same_width(examples.X)
        place = {name: k for k, name in enumerate(examples.names)}
        for name in self.feature_names:
            if name not in place:
                raise CommandError(f"the input has no column {name!r}, which the model uses.")
        return examples.X[:, [place[name] for name in self.feature_names]]

    def _same_width(self, X: Any) -> Any:
        """X with as many columns: later ones are features that training did not see, without weights."""
        import scipy.sparse as sp

        width = int(self.estimator.n_features_in_)
        if X.shape[1] == width:
            return X
        if not sp.issparse(X):
            raise CommandError(f"the input has {X.shape[1]} features, but the model has {width}.")
        X = X.copy()
        X.resize((X.shape[0], width))
        return X


def load_model(path: str) -> LoadedModel:
    """The model of a file that :func:`save_model` or an estimator wrote."""
    from maxmargin.persistence import load, read_notes

    if not os.path.exists(path):
        raise CommandError(f"{path}: there is no such file.")
    estimator = load(path)
    # the matrices of our readers have no names, of which scikit-learn would warn
    names = estimator.__dict__.pop("feature_names_in_", None)
    found = None if names is None else [str(name) for name in names]
    return LoadedModel(estimator, read_notes(path), found)


def save_model(estimator: Any, path: str, read: Read) -> None:
    """Write the model, with the names of the features and the options that read its training data."""
    from maxmargin.persistence import save

    if read.examples.names is not None:
        estimator.feature_names_in_ = np.array(read.examples.names, dtype=object)
    save(estimator, path, {} if read.examples.on_disk else read.options.notes())
