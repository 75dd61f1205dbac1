"""Tagging from Python strings to labels: SequenceTagger compared to python-crfsuite, all conversions counted.

Data: CoNLL-2000 chunks, with the features of :func:`datasets.token_features`, as lists of strings and as
dicts. Computing the features is not counted. All programs get the same objects in one process, in turns;
crfsuite is trained by its averaged perceptron (ap), its fastest algorithm. "Names in Python" is the tagger
without the module in C that looks up names, as in an installation without precompiled code.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu

# ruff: isort: split
import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import datasets

TITLE = "Tagging from strings: maxmargin against python-crfsuite"
FORMS = ("dicts", "lists")
PROGRAMS = ("maxmargin", "maxmargin, names in Python", "crfsuite ap, 10 iterations")
FITS, ROUNDS, ONE = 2, 7, 200
Predict = Callable[[Any], Any]


def _sentences(part: str, form: str, quick: bool) -> tuple[list[Any], list[list[str]]]:
    sentences = datasets.conll2000(part)[: 100 if quick else None]
    X: list[Any] = [datasets.token_features(sentence) for sentence in sentences]
    if form == "dicts":
        X = [[dict(_pair(name) for name in token) for token in x] for x in X]
    return X, [[token[-1] for token in sentence] for sentence in sentences]


def _pair(feature: str) -> tuple[str, Any]:
    name, equals, value = feature.partition("=")
    return (name, value) if equals else (name, 1.0)


def _ours(X: list[Any], y: list[Any], *, in_python: bool) -> tuple[Predict, float]:
    from maxmargin import SequenceTagger
    from maxmargin.data.tokens import token_vectorizer as module

    compiled = module.compiled_names
    if in_python:
        module.compiled_names = lambda: None
    elif compiled() is None:
        raise RuntimeError("there is no module in C: run tools/build_kernels.py")
    before = cpu()
    tagger = SequenceTagger().fit(X, y)
    seconds = cpu() - before
    tagger.predict(X[:20])  # decides who looks up names
    module.compiled_names = compiled
    return tagger.predict, seconds


def _crfsuite(X: list[Any], y: list[Any]) -> tuple[Predict, float]:
    import pycrfsuite

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        before = cpu()
        trainer = pycrfsuite.Trainer(algorithm="ap", verbose=False)
        for x, labels in zip(X, y, strict=True):
            trainer.append(x, labels)
        trainer.set_params({"max_iterations": 10})
        trainer.train(path)
        seconds = cpu() - before
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
    return lambda sentences: [tagger.tag(x) for x in sentences], seconds


def _fit(program: str, X: list[Any], y: list[Any]) -> tuple[Predict, float]:
    if program.startswith("crfsuite"):
        return _crfsuite(X, y)
    return _ours(X, y, in_python=program.endswith("Python"))


def cell(spec: Cell, bench: Bench) -> Cell:
    """Train and predict with all programs in turns: the least CPU time of each."""
    X, y = _sentences("train", spec["form"], bench.quick)
    predict: dict[str, Predict] = {}
    times: dict[str, dict[str, float]] = {name: {} for name in PROGRAMS}

    def note(program: str, what: str, seconds: float) -> None:
        times[program][what] = min(seconds, times[program].get(what, seconds))

    _fit(PROGRAMS[0], X[:20], y[:20])  # loads the compiled functions
    for _, program in itertools.product(range(FITS), PROGRAMS):
        predict[program], seconds = _fit(program, X, y)
        note(program, "train", seconds)
    X, y = _sentences("test", spec["form"], bench.quick)
    found = {program: predict[program](X) for program in PROGRAMS}
    if found[PROGRAMS[0]] != found[PROGRAMS[1]]:
        raise AssertionError("names in C and in Python give different labels")
    for _, program in itertools.product(range(ROUNDS), PROGRAMS):
        before = cpu()
        predict[program](X)
        note(program, "all", cpu() - before)
        before = cpu()
        for x in X[:ONE]:
            predict[program]([x])
        note(program, "one", (cpu() - before) / len(X[:ONE]))
    for program, labels in found.items():
        pairs = list(zip(itertools.chain(*labels), itertools.chain(*y), strict=True))
        times[program]["accuracy"] = sum(a == b for a, b in pairs) / len(pairs)
    return times


def table(bench: Bench) -> None:
    """One row per program and form of the features."""
    rows: list[Row] = []
    for form in FORMS:
        found = bench.run(form, {"form": form})
        for program in PROGRAMS:
            own, theirs = found[program], found[PROGRAMS[-1]]
            rows.append(
                {
                    "features": form,
                    "program": program,
                    "test accuracy %": f"{100 * own['accuracy']:.2f}",
                    "train s": own["train"],
                    "all sentences ms": 1e3 * own["all"],
                    "one sentence ms": 1e3 * own["one"],
                    "training speed": f"{theirs['train'] / own['train']:.2f}",
                    "speed of all": f"{theirs['all'] / own['all']:.2f}",
                    "speed of one": f"{theirs['one'] / own['one']:.2f}",
                }
            )
    notes = f"""
CoNLL-2000 chunks, 8,936 training and 2,012 test sentences; `SequenceTagger` with C=0.1, the default.
*train s* begins with Python lists or dicts and ends with a model. *all sentences* is one prediction of the
test sentences, *one sentence* the mean of {ONE} predictions of one sentence each. The least CPU time of
{FITS} fits and {ROUNDS} predictions, in turns in one process. Speeds are relative to crfsuite's; above 1 is
faster.
"""
    bench.save(TITLE, [("programs", "Training and prediction", rows, notes)])


if __name__ == "__main__":
    command_line("from_strings", TITLE, cell, table)
