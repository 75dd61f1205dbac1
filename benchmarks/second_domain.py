"""Taggers that go on learning: sentences of a second domain, and a stream that is seen once.

Second domain: parts of speech of UD English EWT. The first domain is its weblogs and newsgroups, the second
one its reviews. Accuracies are those of the reviews in the development and test sets. Stream: CoNLL-2000
chunks in batches of 500 sentences, compared to fits of all sentences and to the averaged perceptron of
python-crfsuite. Features are lists of strings (:func:`datasets.token_features`); the time to compute them is
not counted.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu

# ruff: isort: split
import lzma
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import datasets

TITLE = "Taggers that go on learning: a second domain, and streams"
FIRST, SECOND = ("weblog", "newsgroup"), ("reviews",)
SIZES = (100, 200, 400, 800, 1600, 2725)
METHODS = {
    "scratch": "fit on the second domain",
    "around": "the same with GaussianPrior.around(first)",
    "started": "the same with start_from=first, one pass",
    "unstarted": "one pass without start_from",
    "stream": "partial_fit on the first, then on the second domain",
    "both": "fit on both domains",
}
STREAMS = ("stream 1000", "stream 10000", "fit 0.1", "fit 0.05", "crfsuite 1", "crfsuite 10")
BATCH = 500
SECOND_NOTES = """
Test accuracy in % after so many sentences of the second domain (reviews), in random order; 0 is the model of
the first domain (weblogs and newsgroups) alone. C is 0.1. *one pass* is max_iter=1; to the end,
start_from changes nothing but the number of passes.
"""
STREAM_NOTES = f"""
CoNLL-2000 chunks, 8,936 training and 2,012 test sentences, C = 0.1. *partial_fit* gets batches of {BATCH}
sentences in the order of the corpus. *objective* and *lower bound* are over all training sentences; those of
partial_fit are completed by verify, whose time is not counted.
"""


def genre_sentences(split: str, genres: tuple[str, ...]) -> list[list[tuple[str, str]]]:
    """(word, part of speech) of the sentences of some genres."""
    path = datasets.find(f"nlp/ud_english_ewt/en_ewt-ud-{split}.conllu.xz")
    out = []
    with lzma.open(path, "rt", encoding="utf8") as file:
        blocks = file.read().strip().split("\n\n")
    for block in blocks:
        name = block.split("sent_id = ")[1].split("-")[0]
        rows = [line.split("\t") for line in block.splitlines() if line[:1].isdigit()]
        if name in genres:
            out.append([(row[1], row[3]) for row in rows if row[0].isdigit()])
    return out


def inputs(sentences: list[Any]) -> tuple[list[Any], list[list[str]]]:
    """Features and labels."""
    X = [datasets.token_features(sentence) for sentence in sentences]
    return X, [[token[-1] for token in sentence] for sentence in sentences]


def second(method: str, quick: bool) -> Cell:
    """Test accuracies of one method, by the number of sentences of the second domain."""
    from maxmargin import GaussianPrior, SequenceTagger

    old_X, old_y = inputs(genre_sentences("train", FIRST)[: 60 if quick else None])
    X, y = inputs(genre_sentences("train", SECOND))
    test = inputs(genre_sentences("dev", SECOND) + genre_sentences("test", SECOND))
    order = np.random.default_rng(0).permutation(len(X))
    X, y = [X[i] for i in order], [y[i] for i in order]
    labels = sorted({label for part in (old_y, y) for labels in part for label in labels})
    first = SequenceTagger().fit(old_X, old_y)
    stream, out, last = SequenceTagger(), {"0": first.score(*test)}, 0
    if method == "stream":
        for lo in range(0, len(old_X), BATCH):
            stream.partial_fit(old_X[lo : lo + BATCH], old_y[lo : lo + BATCH], labels)
        out["0"] = stream.score(*test)
    for n in SIZES[: 2 if quick else None]:
        if method == "stream":
            tagger = stream.partial_fit(X[last:n], y[last:n])
        elif method == "both":
            tagger = SequenceTagger().fit(old_X + X[:n], old_y + y[:n])
        elif method == "around":
            prior = GaussianPrior.around(first)
            tagger = SequenceTagger(prior=prior).fit(X[:n], y[:n])
        elif method == "started":
            tagger = SequenceTagger(max_iter=1).fit(X[:n], y[:n], start_from=first)
        else:
            limit = 1 if method == "unstarted" else None
            tagger = SequenceTagger(max_iter=limit).fit(X[:n], y[:n])
        out[str(n)], last = tagger.score(*test), n
    return out


def streamed(name: str, quick: bool) -> Cell:
    """One way to learn from CoNLL-2000."""
    from maxmargin import SequenceTagger

    X, y = inputs(datasets.conll2000("train")[: 600 if quick else None])
    test = inputs(datasets.conll2000("test")[: 100 if quick else None])
    kind, setting = name.split()
    if kind == "crfsuite":
        return crfsuite(X, y, test, int(setting))
    if kind == "fit":
        SequenceTagger().fit(X[:20], y[:20])  # loads the compiled functions
        before = cpu()
        tagger = SequenceTagger(tol=float(setting)).fit(X, y)
        seconds = cpu() - before
    else:
        labels = sorted({label for part in y for label in part})
        SequenceTagger().partial_fit(X[:20], y[:20], labels)
        tagger, before = SequenceTagger(max_support=int(setting)), cpu()
        for lo in range(0, len(X), BATCH):
            tagger.partial_fit(X[lo : lo + BATCH], y[lo : lo + BATCH], labels)
        seconds = cpu() - before
        tagger.verify(X, y)
    return {
        "seconds": seconds,
        "accuracy": tagger.score(*test),
        "objective": tagger.objective_,
        "lower": tagger.lower_bound_,
        "gap": tagger.gap_,
    }


def crfsuite(X: list[Any], y: list[Any], test: tuple[Any, Any], iterations: int) -> Cell:
    """The averaged perceptron."""
    import pycrfsuite

    with tempfile.TemporaryDirectory() as folder:
        path, before = str(Path(folder) / "model"), cpu()
        trainer = pycrfsuite.Trainer(algorithm="ap", verbose=False)
        for x, labels in zip(X, y, strict=True):
            trainer.append(x, labels)
        trainer.set_params({"max_iterations": iterations})
        trainer.train(path)
        seconds = cpu() - before
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        pairs = [
            (a, b)
            for x, own in zip(*test, strict=True)
            for a, b in zip(tagger.tag(x), own, strict=True)
        ]
    return {"seconds": seconds, "accuracy": float(np.mean([a == b for a, b in pairs]))}


def cell(spec: Cell, bench: Bench) -> Cell:
    """One method."""
    work = second if spec["table"] == "second" else streamed
    return work(spec["name"], bench.quick)


def table(bench: Bench) -> None:
    """All cells, then both tables."""
    rows: list[Row] = []
    for name, words in METHODS.items():
        found = bench.run(f"second {name}", {"table": "second", "name": name})
        sizes = ("0", *map(str, SIZES))
        percent = {n: f"{100 * found[n]:.2f}" if n in found else None for n in sizes}
        if name in ("scratch", "unstarted"):
            percent["0"] = None
        rows.append({"training": words, **percent})
    others: list[Row] = []
    for name in STREAMS:
        found = bench.run(name, {"table": "stream", "name": name})
        kind, setting = name.split()
        words = {
            "stream": f"partial_fit, max_support={setting}",
            "fit": f"fit, tol={setting}",
            "crfsuite": f"crfsuite ap, max_iterations={setting}",
        }[kind]
        others.append(
            {
                "training": words,
                "seconds": found.get("seconds"),
                "test accuracy %": f"{100 * found['accuracy']:.2f}",
                "objective": found.get("objective"),
                "lower bound": found.get("lower"),
                "gap": found.get("gap"),
            }
        )
    bench.save(
        TITLE,
        [
            ("sentences", "Sentences of a second domain", rows, SECOND_NOTES),
            ("stream", "A stream that is seen once", others, STREAM_NOTES),
        ],
    )


if __name__ == "__main__":
    command_line("second_domain", TITLE, cell, table)
