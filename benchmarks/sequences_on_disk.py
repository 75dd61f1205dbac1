"""Sequences on disk: memory of writing and training, time of a pass, and bit-identical weights.

Generated sentences of 10 tokens with 10 named features each and 10 labels are written by
``data.write_sequences`` from an iterator of lists of strings, and a ``SequenceTagger`` is trained on the data
set. Peak anonymous memory is sampled from /proc; it does not include pages of the files, which belong to the
page cache. A pass is one sweep of the dual coordinate solver over all sentences in random order, over mapped
files and over copies of them in memory in turn, each with working sets of its own.

The files go to MAXMARGIN_SCRATCH (by default a temporary folder) and are removed at the end.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, Row, command_line, cpu, scratch

# ruff: isort: split
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.out_of_core import Anonymous

TITLE = "Sequences on disk"
LABELS, WORDS, LENGTH = 10, 20_000, 10
SHIFTS = (-2, -1, 0, 1, 2)
N, SMALL, PASSES, ITERATIONS = 1_000_000, 100_000, 3, 10
LIMIT = 1.5e9


def sentences(n: int) -> Iterator[tuple[list[list[str]], list[str]]]:
    """Labels from a Markov chain, words that depend on them, and features of five neighboring words."""
    rng = np.random.default_rng(0)
    moves = rng.dirichlet(np.full(LABELS, 0.3), LABELS).cumsum(axis=1)
    names = [[f"w[{s}]={k}" for k in range(WORDS)] for s in SHIFTS]
    coarse = [[f"c[{s}]={k % 1000}" for k in range(WORDS)] for s in SHIFTS]
    tables = names + coarse
    for lo in range(0, n, 10_000):
        size = min(10_000, n - lo)
        y = np.zeros((size, LENGTH), dtype=np.int64)
        for t in range(1, LENGTH):
            y[:, t] = (
                (rng.random(size)[:, None] > moves[y[:, t - 1]]).sum(axis=1).clip(0, LABELS - 1)
            )
        rank = np.minimum(rng.zipf(1.3, y.shape), WORDS // LABELS) - 1
        words = rank * LABELS + np.where(
            rng.random(y.shape) < 0.7, y, rng.integers(0, LABELS, y.shape)
        )
        around = [np.roll(words, -s, axis=1) for s in SHIFTS] * 2
        columns = np.stack(around, axis=-1).tolist()
        for rows, labels in zip(columns, y.tolist(), strict=True):
            x = [[table[k] for table, k in zip(tables, row, strict=True)] for row in rows]
            yield x, [f"L{label}" for label in labels]


def write(path: Path, n: int) -> Cell:
    """Write n sentences."""
    import maxmargin.data

    before = Anonymous.now()
    with Anonymous() as memory:
        began = cpu()
        data = maxmargin.data.write_sequences(path, sentences(n))
        seconds = cpu() - began
    began = cpu()
    for _ in sentences(min(n, 100_000)):
        pass
    making = (cpu() - began) * n / min(n, 100_000)
    size = sum(file.stat().st_size for file in path.iterdir())
    return {
        "n": n, "seconds": seconds, "making": making, "before": before, "peak": memory.peak,
        "bytes": size, "features": data.shape[1], "entries": data.nnz,
    }  # fmt: skip


def fit(path: Path, n: int, iterations: int) -> Cell:
    """Train on the data set."""
    import maxmargin.data
    from maxmargin import SequenceTagger

    before = Anonymous.now()
    tagger = SequenceTagger(max_iter=iterations)
    with Anonymous() as memory:
        began = cpu()
        tagger.fit(maxmargin.data.open(path))
        seconds = cpu() - began
    return {
        "n": n, "seconds": seconds, "before": before, "peak": memory.peak, "gap": tagger.gap_,
        "iterations": tagger.n_iter_, "planes": tagger.history_[-1].get("n_cuts"),
    }  # fmt: skip


def passes(path: Path, n: int) -> Cell:
    """CPU seconds of passes over mapped files and over copies in memory, in turn."""
    import maxmargin.data
    from maxmargin.data.mapped import mapped_rows
    from maxmargin.tasks.chains.chain import Chain
    from maxmargin.tasks.chains.examples import ChainExamples

    data = maxmargin.data.open(path)
    rows = mapped_rows(data)
    assert rows is not None
    assert data.codes is not None
    task = Chain(n_labels=LABELS, n_features=rows.shape[1])
    codes = np.asarray(data.codes)
    mapped = ChainExamples.from_stacked(task, rows, data.lengths(0, n)[1], codes)
    c = mapped.chains
    copied = ChainExamples(
        task, c._replace(indptr=c.indptr.copy(), indices=c.indices.copy(), data=c.data.copy())
    )
    caps = np.full(n, 0.1)
    sets = {"disk": mapped.working_sets(caps), "memory": copied.working_sets(caps)}
    out: Cell = {"n": n, "disk": [], "memory": []}
    for k in range(PASSES):
        order = np.random.default_rng(k).permutation(n)
        for name in ("disk", "memory") if k % 2 else ("memory", "disk"):
            began = cpu()
            sets[name].stream(order, 0.0)
            out[name].append(cpu() - began)
    out["same"] = bool(np.array_equal(sets["disk"].w, sets["memory"].w))
    return out


def same(path: Path, n: int) -> Cell:
    """Whole fits from lists of strings and from disk."""
    import maxmargin.data
    from maxmargin import SequenceTagger

    pairs = list(sentences(n))
    X, y = [x for x, _ in pairs], [labels for _, labels in pairs]
    taggers: dict[str, Any] = {}
    out: Cell = {"n": n}
    for name, given in (("disk", (maxmargin.data.open(path),)), ("memory", (X, y))):
        began = cpu()
        taggers[name] = SequenceTagger().fit(*given)
        out[name] = cpu() - began
    disk, memory = taggers["disk"], taggers["memory"]
    return {
        **out,
        "weights": bool(disk.weights_.tobytes() == memory.weights_.tobytes()),
        "names": disk.vectorizer_.feature_names_ == memory.vectorizer_.feature_names_,
        "predictions": disk.predict(X[:1000]) == memory.predict(X[:1000]),
        "gap": disk.gap_, "iterations": disk.n_iter_,
    }  # fmt: skip


def cell(spec: Cell, bench: Bench) -> Cell:
    """One process."""
    path, n = Path(spec["path"]), spec["n"]
    if spec["kind"] == "fit":
        return fit(path, n, spec["iterations"])
    return {"write": write, "passes": passes, "same": same}[spec["kind"]](path, n)


def table(bench: Bench) -> None:
    """Run missing cells and save the tables."""
    n, small = (20_000, 5_000) if bench.quick else (N, SMALL)
    c: dict[str, Cell] = {}
    with scratch() as folder:
        runs = [
            ("write", small),
            ("same", small),
            ("fit", small),
            ("write", n),
            ("passes", n),
            ("fit", n),
        ]
        for kind, size in runs:
            others = [k for k, s in runs if s == size and bench.get(f"{k} {size}") is None]
            if kind == "write" and others:  # they need the files
                bench.path(f"write {size}").unlink(missing_ok=True)
            spec = {
                "kind": kind,
                "n": size,
                "path": str(folder / str(size)),
                "iterations": ITERATIONS,
            }
            c[f"{kind} {size}"] = bench.run(f"{kind} {size}", spec)
    written: list[Row] = []
    fitted: list[Row] = []
    for size in (small, n):
        w, f = c[f"write {size}"], c[f"fit {size}"]
        written.append({
            "sentences": f"{size:,}", "features": f"{w['features']:,}", "on disk, GB": w["bytes"] / 1e9,
            "writing, s": w["seconds"] - w["making"], "making the sentences, s": w["making"],
            "peak anonymous, MB": round(w["peak"] / 1e6), "at the start, MB": round(w["before"] / 1e6),
            "below 1.5 GB": w["peak"] < LIMIT,
        })  # fmt: skip
        fitted.append({
            "sentences": f"{size:,}", "iterations": f["iterations"], "gap": f["gap"], "fit, s": f["seconds"],
            "peak anonymous, MB": round(f["peak"] / 1e6), "at the start, MB": round(f["before"] / 1e6),
            "bytes per sentence": round((f["peak"] - f["before"]) / size),
            "below 1.5 GB": f["peak"] < LIMIT,
        })  # fmt: skip
    p, s = c[f"passes {n}"], c[f"same {small}"]
    passed: list[Row] = [
        {"pass": k + 1, "disk, s": a, "memory, s": b, "ratio": a / b}
        for k, (a, b) in enumerate(zip(p["disk"], p["memory"], strict=True))
    ]
    bits: list[Row] = [{
        "sentences": f"{small:,}", "bit-identical weights": s["weights"], "same names": s["names"],
        "same predictions": s["predictions"], "iterations": s["iterations"], "gap": s["gap"],
        "fit from disk, s": s["disk"], "fit from strings, s": s["memory"],
    }]  # fmt: skip
    bench.save(
        TITLE,
        [
            ("writing", "Writing", written, "From an iterator of lists of strings, with a vocabulary."),
            ("training", "Training", fitted,
             f"`SequenceTagger(max_iter={ITERATIONS}).fit(data.open(path))`. Labelings of working sets are "
             "in temporary files from 16 MB on, and their pages are not anonymous."),
            ("passes", f"Passes over {n:,} sentences", passed,
             f"The files are in the page cache. Weights after the passes are "
             f"{'bit-identical' if p['same'] else 'different'}."),
            ("same", "From disk and from memory", bits, "`SequenceTagger()`, to its default tolerance."),
        ],
    )  # fmt: skip


if __name__ == "__main__":
    command_line("sequences_on_disk", TITLE, cell, table)
