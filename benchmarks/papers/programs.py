"""The authors' own programs for structures, SVM-multiclass, SVM-hmm and SVM-rank: one fit each.

They may not be redistributed, and run if MAXMARGIN_SVM_MULTICLASS, MAXMARGIN_SVM_HMM and MAXMARGIN_SVM_RANK
name them. All are SVM-struct with an oracle: ``-w 3`` is 1-slack, ``-w 4`` the same with a cache, ``-w 0``
n-slack with a QP after every 100 constraints. Their seconds do not include reading the file.
"""

from __future__ import annotations

from benchmarks.common import Bench, Cell, scratch

# ruff: isort: split
import functools
import os
import re
import resource
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers import structured
from benchmarks.papers.structured import LIMIT

#: task: the program's name, its environment variable, and its loss over ours
TASKS = {
    "multiclass": ("SVM-multiclass", "MAXMARGIN_SVM_MULTICLASS", 100.0),
    "tagging": ("SVM-hmm", "MAXMARGIN_SVM_HMM", 1.0),
    "ranking": ("SVM-rank", "MAXMARGIN_SVM_RANK", 1.0),
}
ALGORITHMS = {"1-slack": 3, "1-slack + cache": 4, "n-slack": 0}
#: sizes below those of the sweep, at which n-slack ends
SMALL = {"multiclass": (), "tagging": (50, 150)}
#: what the programs print
PATTERNS = {
    "seconds": r"Runtime in cpu-seconds: ([\d.]+)",
    "calls": r"Number of calls to 'find_most_violated_constraint': (\d+)",
    "dual": r"Dual objective value: dval=([-\d.]+)",
    "primal": r"Primal objective value: pval=([-\d.]+)",
    "qp %": r"\(([\d.]+)% for QP",
    # in every iteration, also of a fit that was stopped
    "iterations": r"Iter (\d+).*\(NumConst",
    "support": r"SV=(\d+),",
}


def path(task: str) -> str | None:
    """Where the program of a task is, if it is there."""
    return os.environ.get(TASKS[task][1])


def run(task: str, rows: Path, options: list[str]) -> tuple[dict[str, float], str]:
    """The numbers a program prints, and its model. Without "calls" if it was stopped."""
    found = path(task)
    assert found is not None
    model = rows.with_name("model")
    command = [found, *options, str(rows), str(model)]
    limit = functools.partial(resource.setrlimit, resource.RLIMIT_CPU, (int(LIMIT), int(LIMIT) + 1))
    with subprocess.Popen(command, stdout=subprocess.PIPE, preexec_fn=limit) as process:
        assert process.stdout is not None
        text = _until(process.stdout, b"Iter 1")
        reading = used(Path(f"/proc/{process.pid}"))
        text += process.stdout.read().decode(errors="replace")
    numbers = {k: m[-1] for k, p in PATTERNS.items() if (m := re.findall(p, text))}
    kept = {"seconds": LIMIT - reading} | {k: float(v) for k, v in numbers.items()}
    return kept, model.read_text(errors="replace") if "calls" in kept else ""


def _until(output: Any, mark: bytes) -> str:
    """What a program prints up to a mark, as soon as it has printed it."""
    text = b""
    while not text.endswith(mark) and (byte := output.read(1)):
        text += byte
    return text.decode(errors="replace")


def used(process: Path) -> float:
    """CPU seconds so far of a process or thread, by its folder in /proc; none on other systems."""
    if not process.exists():
        return 0.0
    ticks = (process / "stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / float(os.sysconf("SC_CLK_TCK"))


def sweep(task: str, bench: Bench) -> list[Cell]:
    """Every algorithm of the authors' program, if it is there, at growing n until it is stopped."""
    if task not in structured.TASKS or task not in TASKS or path(task) is None:
        return []
    setting = structured.TASKS[task]
    sizes = setting.quick if bench.quick else (*SMALL[task], *setting.sizes)
    return [
        cell
        for method in ALGORITHMS
        for cell in structured.growing(
            bench,
            sizes,
            f"program {structured.key(task, method)}",
            functools.partial(fit, task, method),
        )
    ]


def fit(task: str, method: str, n: int, *, epsilon: float | None = None) -> Cell:
    """The problem of :func:`structured.fit` at the same C and epsilon."""
    name, _, scale = TASKS[task]
    setting = structured.TASKS[task]
    # with losses and weights times s, F is s^2 times ours at C times s and epsilon times s
    C, epsilon = scale * setting.C_mean, scale * (epsilon or setting.epsilon)
    options = ["-w", str(ALGORITHMS[method]), "-c", repr(C), "-e", repr(epsilon)]
    with scratch() as folder:
        _WRITERS[task](n, folder / "rows")
        found, model = run(task, folder / "rows", options)
    # no sources of the library have a part in this fit
    out: Cell = {"task": task, "n": n, "method": f"{name}, {method}", "sources": ""}
    out |= {k: found.get(k) for k in ("seconds", "iterations", "support", "qp %")}
    out |= {"finished": "calls" in found, "seconds_to_end": found["seconds"], "score": None}
    if out["finished"]:
        out |= {"passes": found["calls"] / n, "lower_bound": found["dual"] / scale**2}
        out["score"] = _accuracy(n, model) if task == "multiclass" else None
    return out


def _write_multiclass(n: int, rows: Path) -> None:
    from sklearn.datasets import dump_svmlight_file

    data = structured.multiclass(n)
    dump_svmlight_file(data.X, data.y + 1, str(rows), zero_based=False)


def _accuracy(n: int, model: str) -> float:
    """On the test rows, from the weights: a block of features for each class, one line in all."""
    data = structured.multiclass(n)
    d = data.X.shape[1]
    w = np.zeros(data.K * d)
    for index, value in re.findall(r" (\d+):([-+.\de]+)", model.splitlines()[-1]):
        w[int(index) - 1] = float(value)
    scores = data.X_test @ w.reshape(data.K, d).T
    return float(np.mean(scores.argmax(axis=1) == data.y_test))


def _write_tagging(n: int, rows: Path) -> None:
    data = structured.sentences(n)
    X: Any = data.X.tocsr()
    X.sort_indices()
    codes = np.unique(data.y, return_inverse=True)[1] + 1
    sentence = np.repeat(np.arange(len(data.lengths)), data.lengths) + 1
    with rows.open("w") as file:
        for i, (code, group) in enumerate(zip(codes, sentence, strict=True)):
            entries = slice(X.indptr[i], X.indptr[i + 1])
            pairs = zip(X.indices[entries] + 1, X.data[entries], strict=True)
            file.write(f"{code} qid:{group} " + " ".join(f"{j}:{x:.9g}" for j, x in pairs) + "\n")


_WRITERS = {"multiclass": _write_multiclass, "tagging": _write_tagging}
