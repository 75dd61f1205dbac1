"""Tagging from Python strings to labels: SequenceTagger compared to python-crfsuite, all conversions counted.

Data: CoNLL-2000 chunks, with the features of :func:`datasets.token_features`, as lists of strings and as
dicts. Computing the features is not counted. Both programs get the same objects; crfsuite is trained by its
averaged perceptron (ap), its fastest algorithm.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu

# ruff: isort: split
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import datasets

TITLE = "Tagging from strings: maxmargin against python-crfsuite"
FORMS = ("lists", "dicts")
#: (program, setting): C for ours, iterations of ap for crfsuite
PROGRAMS = (("maxmargin", 0.1), ("maxmargin", 1.0), ("crfsuite", 10))
REPEATS = 3
ONE, MANY = 200, 500


def _sentences(part: str, form: str, quick: bool) -> tuple[list[Any], list[list[str]]]:
    sentences = datasets.conll2000(part)[: 100 if quick else None]
    X: list[Any] = [datasets.token_features(sentence) for sentence in sentences]
    if form == "dicts":
        X = [[dict(_pair(name) for name in token) for token in x] for x in X]
    return X, [[token[-1] for token in sentence] for sentence in sentences]


def _pair(feature: str) -> tuple[str, Any]:
    name, equals, value = feature.partition("=")
    return (name, value) if equals else (name, 1.0)


def _ours(X: list[Any], y: list[Any], setting: float) -> tuple[Callable[[Any], Any], float]:
    from maxmargin import SequenceTagger

    SequenceTagger(C=setting).fit(X[:20], y[:20]).predict(X[:20])  # loads the compiled functions
    before = cpu()
    tagger = SequenceTagger(C=setting).fit(X, y)
    seconds = cpu() - before
    return tagger.predict, seconds


def _crfsuite(X: list[Any], y: list[Any], setting: float) -> tuple[Callable[[Any], Any], float]:
    import pycrfsuite

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        before = cpu()
        trainer = pycrfsuite.Trainer(algorithm="ap", verbose=False)
        for x, labels in zip(X, y, strict=True):
            trainer.append(x, labels)
        trainer.set_params({"max_iterations": int(setting)})
        trainer.train(path)
        seconds = cpu() - before
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
    return lambda sentences: [tagger.tag(x) for x in sentences], seconds


def cell(spec: Cell, bench: Bench) -> Cell:
    """Train, score and time predictions in one process."""
    X, y = _sentences("train", spec["form"], bench.quick)
    train = _ours if spec["program"] == "maxmargin" else _crfsuite
    predict, seconds = train(X, y, spec["setting"])
    del X
    X, y = _sentences("test", spec["form"], bench.quick)
    found = predict(X)
    pairs = list(zip(itertools.chain(*found), itertools.chain(*y), strict=True))
    one = []
    for x in X[:ONE]:
        began = time.perf_counter()
        predict([x])
        one.append(time.perf_counter() - began)
    many = []
    for _ in range(5):
        before = cpu()
        predict(X[:MANY])
        many.append(cpu() - before)
    return {
        "train": seconds,
        "accuracy": sum(a == b for a, b in pairs) / len(pairs),
        "one": statistics.median(one),
        "many": min(many),
    }


def table(bench: Bench) -> None:
    """One row per program and form of the features: medians of interleaved repetitions."""
    cells: dict[Any, list[Cell]] = {}
    for repeat in range(1 if bench.quick else REPEATS):
        for form in FORMS:
            for program, setting in PROGRAMS:
                key = f"{program} {setting:g} {form} {repeat}"
                spec = {"program": program, "setting": setting, "form": form}
                cells.setdefault((form, program, setting), []).append(bench.run(key, spec))
    rows: list[Row] = []
    for (form, program, setting), found in cells.items():
        name = f"C={setting:g}" if program == "maxmargin" else f"ap, {setting:g} iterations"
        rows.append(
            {
                "features": form,
                "program": f"{program} {name}",
                "train s": statistics.median(c["train"] for c in found),
                "test accuracy %": f"{100 * found[0]['accuracy']:.2f}",
                "one sentence ms": 1e3 * statistics.median(c["one"] for c in found),
                "500 sentences ms": 1e3 * statistics.median(c["many"] for c in found),
            }
        )
    notes = f"""
CoNLL-2000 chunks, 8,936 training and 2,012 test sentences. *train s* begins with Python lists or dicts and
ends with a model. *one sentence* is the median wall time of {ONE} predictions of one sentence each, *500
sentences* the minimum CPU time of 5 predictions. Medians of {REPEATS} processes, interleaved.
"""
    bench.save(TITLE, [("programs", "Training and prediction", rows, notes)])


if __name__ == "__main__":
    command_line("from_strings", TITLE, cell, table)
