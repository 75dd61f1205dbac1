"""Sampled cuts for structures: time, kernel values, and memory of an iteration against the number of tokens.

    python -m benchmarks.sampled_structures

Chunking of CoNLL-2000 by a tagger with an RBF kernel, in linear and in constant time. A token is the words
and the part-of-speech tags at it and at its two neighbors, 0/1. Every fit runs in its own process with one
thread.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu, peak_memory_gb

# ruff: isort: split
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks import datasets

NAME = "sampled_structures"
#: tokens; the training set has 211,727
SIZES = (12_500, 25_000, 50_000, 100_000, 200_000)
#: C times the number of sentences
MEAN_C = 1_000.0
#: exponents are those from this number of tokens on
SLOPES_FROM = 50_000
#: sentences of a cut, and iterations of a fit
DRAWN, ITERATIONS = 100, 10
FORMS: dict[str, Cell] = {
    "linear time": {},
    "constant time": {"constant_time": True, "measure": False},
}


def sentences(n_tokens: int) -> tuple[list[Any], list[list[str]]]:
    """Sentences with about this many tokens, as sparse matrices, and their chunks."""
    chosen, count = [], 0
    for sentence in datasets.conll2000():
        if count >= n_tokens:
            break
        chosen.append(sentence)
        count += len(sentence)
    names: dict[str, int] = {}
    entries: list[int] = []
    for sentence in chosen:
        for t in range(len(sentence)):
            for step in (-1, 0, 1):
                inside = 0 <= t + step < len(sentence)
                word, tag = sentence[t + step][:2] if inside else ("", "")
                for name in (f"{step} {word.lower()}", f"{step} tag {tag}"):
                    entries.append(names.setdefault(name, len(names)))
    pointers = np.arange(count + 1) * 6
    rows = sp.csr_matrix((np.ones(len(entries)), entries, pointers), (count, len(names)))
    ends = np.cumsum([len(sentence) for sentence in chosen])
    X = [rows[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    return X, [[chunk for _, _, chunk in sentence] for sentence in chosen]


def cell(spec: Cell, bench: Bench) -> Cell:
    """A fit in this process."""
    from maxmargin import SequenceTagger
    from maxmargin.solvers import SampledCuts

    warnings.simplefilter("ignore")
    X, y = sentences(spec["tokens"])
    at: list[float] = []
    method = SampledCuts(size=DRAWN, **FORMS[spec["form"]])
    options = {"kernel": "rbf", "gamma": 0.1, "kernel_method": method, "tol": 1e-6}
    few = X[:20], y[:20]
    SequenceTagger(1.0, max_iter=2, **options).fit(*few)  # compile
    before, began = peak_memory_gb(), cpu()
    tagger = SequenceTagger(
        MEAN_C / len(X), max_iter=ITERATIONS, callbacks=[lambda record: at.append(cpu())], **options
    ).fit(X, y)
    return {
        "seconds": cpu() - began,
        "each": (at[-1] - at[0]) / (len(at) - 1),
        "first": at[0] - began,
        "values": tagger.kernel_values_ / tagger.n_iter_,
        "peak": peak_memory_gb(),
        "data": before,
        "tokens": sum(map(len, y)),
        "sentences": len(y),
    }


NOTES = f"""
r = {DRAWN} sentences, {ITERATIONS} iterations, C = {MEAN_C:.0f} / sentences, so that C on the mean is the
same. An iteration: the mean of all but the first. Before: the seconds until the first iteration has ended,
with all that is prepared once. Memory: the peak of the process, and what it was before the fit, with the
data. The fewer the sentences, the more of them are drawn again, and their kernel values are cached within
1 GiB. Constant time: without the pass that measures F.
"""


def report(bench: Bench) -> None:
    """The two tables."""
    rows: list[Row] = []
    slopes: list[Row] = []
    for form in FORMS:
        found = [
            bench.run(f"{form} {n}", {"form": form, "tokens": n})
            for n in (SIZES[:2] if bench.quick else SIZES)
        ]
        rows += [
            {
                "form": form,
                "tokens": one["tokens"],
                "sentences": one["sentences"],
                "s per iteration": one["each"],
                "kernel values per iteration": float(one["values"]),
                "s before": one["first"],
                "peak GB": one["peak"],
                "GB before": one["data"],
            }
            for one in found
        ]
        large = [one for one in found if bench.quick or one["tokens"] >= SLOPES_FROM]
        x = np.log([one["tokens"] for one in large])
        slopes.append(
            {"form": form}
            | {
                f"slope of {name}": float(np.polyfit(x, np.log([one[key] for one in large]), 1)[0])
                for name, key in (
                    ("seconds", "each"),
                    ("kernel values", "values"),
                    ("memory", "peak"),
                )
            }
        )
    bench.save(
        "Sampled cuts of structures",
        [
            ("tokens", "Cost of an iteration by the number of tokens", rows, NOTES),
            ("slopes", f"Exponents from {SLOPES_FROM:,} tokens on, by least squares", slopes, ""),
        ],
    )


if __name__ == "__main__":
    command_line(NAME, "Sampled cuts of structures", cell, report)
