"""Every estimator documents what it takes and what it leaves behind."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from tests.latent_tasks import Bags

import maxmargin
from maxmargin.tasks import Chain

ESTIMATORS = [
    name
    for name in maxmargin.__all__
    if isinstance(getattr(maxmargin, name), type)
    and issubclass(getattr(maxmargin, name), BaseEstimator)
]

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(40, 2))
BINARY = np.where(ROWS[:, 0] + 0.3 * RNG.normal(size=40) > 0, "yes", "no")
SEQUENCES = [RNG.normal(size=(3, 2)) for _ in range(6)]
TAGS = [(x[:, 0] > 0).astype(int) for x in SEQUENCES]
TREES = [
    "(S (NP (DT the) (NN cat)) (VP (VBD sat)))",
    "(S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (DT the) (NN cat))))",
]
BAGS = [np.array([[3.0, 1.0], [0.0, 1.0]]), np.array([[0.0, -1.0], [0.5, 1.0]])]
RING = (RNG.normal(size=(4, 1)), [[i, (i + 1) % 4] for i in range(4)])


def named_columns():
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(ROWS, columns=["a", "b"])


#: small fits that between them set every attribute: name, parameters, what ``fit`` is given
FITS = [
    ("LinearSVC", {}, lambda: (named_columns(), BINARY)),
    ("LinearSVR", {}, lambda: (named_columns(), ROWS[:, 0])),
    ("LogisticRegression", {}, lambda: (named_columns(), BINARY)),
    ("MeasureSVC", {}, lambda: (named_columns(), BINARY)),
    ("RankSVM", {}, lambda: (named_columns(), BINARY == "yes")),
    ("KernelSVC", {"kernel": "linear"}, lambda: (named_columns(), BINARY)),
    ("KernelSVC", {"method": "nystrom"}, lambda: (ROWS, BINARY)),
    ("KernelSVC", {"method": "sampled"}, lambda: (ROWS, BINARY)),
    ("KernelSVC", {"method": "map"}, lambda: (ROWS, BINARY)),
    ("KernelSVR", {"kernel": "linear"}, lambda: (named_columns(), ROWS[:, 0])),
    ("KernelSVR", {"method": "nystrom"}, lambda: (ROWS, ROWS[:, 0])),
    ("OneClassSVM", {}, lambda: (named_columns(),)),
    ("OneClassSVM", {"kernel": "linear"}, lambda: (ROWS + 3.0,)),
    ("OrdinalSVC", {}, lambda: (named_columns(), BINARY)),
    ("LinearSVCCV", {"Cs": [0.1, 1.0], "cv": 2}, lambda: (named_columns(), BINARY)),
    ("SequenceTagger", {}, lambda: (SEQUENCES, TAGS)),
    ("SequenceTagger", {"kernel": "rbf", "kernel_method": "nystrom"}, lambda: (SEQUENCES, TAGS)),
    ("SequenceTagger", {"kernel": "rbf", "kernel_method": "sampled"}, lambda: (SEQUENCES, TAGS)),
    ("GraphLabeler", {}, lambda: ([RING], [["up", "up", "down", "down"]])),
    ("GrammarParser", {"min_count": 1}, lambda: (None, TREES)),
    ("StructuredSVM", {"task": Chain(2)}, lambda: (SEQUENCES, TAGS)),
    (
        "StructuredSVM",
        {"task": Chain(2), "kernel": "rbf", "kernel_method": "nystrom"},
        lambda: (SEQUENCES, TAGS),
    ),
    (
        "StructuredSVM",
        {"task": Chain(2), "kernel": "rbf", "kernel_method": "sampled"},
        lambda: (SEQUENCES, TAGS),
    ),
    ("SequenceTaggerCV", {"Cs": [0.1, 1.0], "cv": 2}, lambda: (SEQUENCES * 2, TAGS * 2)),
    (
        "StructuredSVMCV",
        {"task": Chain(2), "Cs": [0.1, 1.0], "cv": 2},
        lambda: (SEQUENCES, TAGS),
    ),
    ("LatentStructuredSVM", {"task": Bags()}, lambda: (BAGS, ["cat", "a"])),
]


def section(docstring, title):
    """The names that a section of a docstring describes."""
    text = inspect.cleandoc(docstring)
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        return []
    heads = [line for line in found[1].splitlines() if line and not line.startswith(" ")]
    return [name.strip("* ") for head in heads for name in head.split(" : ")[0].split(",")]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_parameter_of_the_constructor_is_documented_once(name):
    described = getattr(maxmargin, name)
    documented_names = section(described.__doc__, "Parameters")
    assert sorted(documented_names) == sorted(inspect.signature(described).parameters)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_parameter_of_a_public_method_is_documented(name):
    cls = getattr(maxmargin, name)
    for method_name in dir(cls):
        method = inspect.getattr_static(cls, method_name)
        method = getattr(method, "fn", method)  # of available_if
        if method_name.startswith("_") or not inspect.isfunction(method):
            continue
        if not method.__module__.startswith("maxmargin"):
            continue
        taken = [p for p in inspect.signature(method).parameters if p != "self"]
        missing = set(taken) - set(section(method.__doc__, "Parameters"))
        assert not missing, (method_name, missing)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_documented_defaults_are_those_of_the_signature(name):
    cls = getattr(maxmargin, name)
    for line in cls.__doc__.splitlines():
        found = re.match(r"^    (\w+) : .*, default (\S+)$", line)
        if found is not None:
            default = inspect.signature(cls).parameters[found[1]].default
            assert eval(found[2]) == default, line


#: parameters that take objects of any class with some methods
UNTYPED = {
    "Cs",
    "callbacks",
    "class_weights",
    "cv",
    "forbidden_transitions",
    "kernel_method",
    "measure",
}
UNTYPED |= {"method", "scoring"}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_parameters_have_types(name):
    parameters = inspect.signature(getattr(maxmargin, name)).parameters.values()
    assert {p.name for p in parameters if p.annotation == "Any"} <= UNTYPED
    assert all(p.annotation is not p.empty for p in parameters)


def test_what_is_learned_and_C_are_positional_and_all_else_is_named():
    for name in ESTIMATORS:
        parameters = inspect.signature(getattr(maxmargin, name)).parameters.values()
        positional = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
        if name in ("LinearSVC", "LogisticRegression"):  # as in scikit-learn
            assert positional in (["penalty", "loss"], ["penalty"])
            continue
        assert positional[-1] in ("C", "Cs", "nu"), name
        assert positional[:-1] in ([], ["task"], ["measure"]), name


@pytest.mark.parametrize(
    ("name", "params", "data"), FITS, ids=[f"{k}-{fit[0]}" for k, fit in enumerate(FITS)]
)
def test_every_public_fitted_attribute_is_documented(name, params, data):
    estimator = getattr(maxmargin, name)(**params)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(*data())
    left = {key for key in vars(estimator) if key.endswith("_") and not key.startswith("_")}
    left |= {
        key
        for key, member in inspect.getmembers_static(type(estimator))
        if isinstance(member, property) and key.endswith("_") and not key.startswith("_")
    }
    named = set(section(type(estimator).__doc__, "Attributes"))
    assert left - named == set()


def first_sentences(described):
    """By parameter: the first sentence of its description."""
    text = inspect.cleandoc(described.__doc__)
    found = re.search(r"^Parameters\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", text, re.MULTILINE | re.DOTALL)
    entries = re.split(r"^(?=\S)", found[1], flags=re.MULTILINE)[1:]
    heads = [entry.partition("\n") for entry in entries]
    sentences = [re.split(r"(?<=[.])\s", " ".join(body.split()))[0] for _, _, body in heads]
    return {head.split(" : ")[0]: said for (head, _, _), said in zip(heads, sentences, strict=True)}


#: parameters that mean something else in some class, so that their descriptions differ
OWN_WORDS = {
    "callbacks",
    "cost",
    "dual",
    "intercept_scaling",
    "k",
    "loss",
    "max_iter",
    "max_seconds",
    "memory",
    "method",
    "min_count",
    "multi_class",
    "n_jobs",
    "rescaling",
    "scoring",
    "task",
    "tol",
}


def test_shared_parameters_are_described_in_the_same_words():
    """Docstrings are written out in every class. This test keeps them from drifting apart."""
    said = {}
    for name in ESTIMATORS:
        for key, sentence in first_sentences(getattr(maxmargin, name)).items():
            said.setdefault(key, {}).setdefault(sentence, []).append(name)
    different = {key: by for key, by in said.items() if len(by) > 1 and key not in OWN_WORDS}
    assert not different
    assert all(len(said[key]) > 1 for key in OWN_WORDS), "no longer different: take it out"


@pytest.mark.nightly
def test_docstrings_may_be_stripped():
    code = "from maxmargin import LinearSVC; assert LinearSVC.__doc__ is None; LinearSVC()"
    subprocess.run([sys.executable, "-OO", "-c", code], check=True)
