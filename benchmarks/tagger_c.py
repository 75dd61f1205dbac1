"""The choice of C for SequenceTagger on four corpora: quality and time over a grid.

Data: CoNLL-2000 chunks, CoNLL-2002 named entities in Spanish and Dutch, and parts of speech of UD English
EWT. Features: :func:`datasets.token_features`. Training uses at most 5,000 sentences, and all defaults but C.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu

# ruff: isort: split
import itertools
from typing import Any

from benchmarks import datasets

TITLE = "C of SequenceTagger"
SETS = ("CoNLL-2000 chunks", "Spanish entities", "Dutch entities", "EWT parts of speech")
GRID = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
TRAIN, TEST = 5000, 2000


def _load(name: str) -> tuple[list[Any], list[Any]]:
    if name == "CoNLL-2000 chunks":
        return datasets.conll2000("train"), datasets.conll2000("test")
    if name == "EWT parts of speech":
        words = {split: datasets.ud_ewt(split) for split in ("train", "dev")}
        pairs = {k: [[token[:2] for token in s] for s in found] for k, found in words.items()}
        return pairs["train"], pairs["dev"]
    language: Any = "esp" if name.startswith("Spanish") else "ned"
    return datasets.conll2002(language, "train"), datasets.conll2002(language, "testa")


def _spans(labels: Any) -> set[tuple[int, int, str]]:
    """(first token, end, kind) of the chunks of BIO labels."""
    spans, start, kind = set(), 0, "O"
    for t, label in enumerate([*labels, "O"]):
        if kind != "O" and label != f"I-{kind}":
            spans.add((start, t, kind))
            kind = "O"
        if kind == "O" and label != "O":
            start, kind = t, label.partition("-")[2]
    return spans


def _f1(found: list[Any], expected: list[Any]) -> float:
    pairs = [(_spans(a), _spans(b)) for a, b in zip(found, expected, strict=True)]
    right = sum(len(a & b) for a, b in pairs)
    return 2.0 * right / sum(len(a) + len(b) for a, b in pairs)


def cell(spec: Cell, bench: Bench) -> Cell:
    """One fit."""
    from maxmargin import SequenceTagger

    train, test = _load(spec["set"])
    n = 100 if bench.quick else TRAIN
    X, X_test = ([datasets.token_features(s) for s in part] for part in (train[:n], test[:TEST]))
    y, y_test = ([[token[-1] for token in s] for s in part] for part in (train[:n], test[:TEST]))
    SequenceTagger().fit(X[:20], y[:20]).predict(X[:20])  # loads the compiled functions
    before = cpu()
    tagger = SequenceTagger(C=spec["C"]).fit(X, y)
    seconds = cpu() - before
    found = tagger.predict(X_test)
    pairs = list(zip(itertools.chain(*found), itertools.chain(*y_test), strict=True))
    entities = spec["set"] != "EWT parts of speech"
    return {
        "seconds": seconds,
        "accuracy": sum(a == b for a, b in pairs) / len(pairs),
        "f1": _f1(found, y_test) if entities else None,
        "gap": tagger.gap_,
    }


def table(bench: Bench) -> None:
    """One row per set and C."""
    rows: list[Row] = []
    for name in SETS:
        cells = {C: bench.run(f"{name} {C:g}", {"set": name, "C": C}) for C in GRID}
        best = max(c["f1"] or c["accuracy"] for c in cells.values())
        for C, c in cells.items():
            rows.append(
                {
                    "set": name,
                    "C": C,
                    "accuracy %": f"{100 * c['accuracy']:.2f}",
                    "F1 of chunks %": None if c["f1"] is None else f"{100 * c['f1']:.2f}",
                    "below the best, points": f"{100 * (best - (c['f1'] or c['accuracy'])):.2f}",
                    "train s": c["seconds"],
                    "certified gap": c["gap"],
                }
            )
    notes = f"""
At most {TRAIN:,} training sentences, {TEST:,} test sentences. *below the best* compares F1 where there are
chunks, else accuracy. One split and one seed: differences of a few tenths of a point are noise.
"""
    bench.save(TITLE, [("grid", "Quality and time by C", rows, notes)])


if __name__ == "__main__":
    command_line("tagger_c", TITLE, cell, table)
