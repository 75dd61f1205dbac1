"""The authors' own programs for structures, SVM-multiclass, SVM-hmm and SVM-rank: one fit each.

They may not be redistributed, and run if MAXMARGIN_SVM_MULTICLASS, MAXMARGIN_SVM_HMM and MAXMARGIN_SVM_RANK
name them. All are SVM-struct with an oracle: ``-w 4`` is 1-slack with a cache, ``-w 0`` n-slack with a QP
after every 100 constraints. Their seconds are those they print, which do not include reading the file.
"""

from __future__ import annotations

from benchmarks.common import Cell, scratch

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

#: task: the program's name, its environment variable, and its loss over ours
TASKS = {
    "multiclass": ("SVM-multiclass", "MAXMARGIN_SVM_MULTICLASS", 100.0),
    "tagging": ("SVM-hmm", "MAXMARGIN_SVM_HMM", 1.0),
    "ranking": ("SVM-rank", "MAXMARGIN_SVM_RANK", 1.0),
}
ALGORITHMS = {"1-slack + cache": 4, "n-slack": 0}
#: CPU seconds after which a program is stopped
LIMIT = 20.0
#: what the programs print
PATTERNS = {
    "seconds": r"Runtime in cpu-seconds: ([\d.]+)",
    "iterations": r"Number of iterations: (\d+)",
    "calls": r"Number of calls to 'find_most_violated_constraint': (\d+)",
    "support": r"Number of SV: (\d+)",
    "dual": r"Dual objective value: dval=([-\d.]+)",
    "primal": r"Primal objective value: pval=([-\d.]+)",
    "qp %": r"\(([\d.]+)% for QP",
}


def path(task: str) -> str | None:
    """Where the program of a task is, if it is there."""
    return os.environ.get(TASKS[task][1])


def run(task: str, rows: Path, options: list[str]) -> tuple[dict[str, float], str]:
    """The numbers a program prints, and its model. Without "seconds" if it was stopped."""
    found = path(task)
    assert found is not None
    limit = functools.partial(resource.setrlimit, resource.RLIMIT_CPU, (int(LIMIT), int(LIMIT) + 1))
    model = rows.with_name("model")
    command = [found, *options, str(rows), str(model)]
    done = subprocess.run(command, capture_output=True, preexec_fn=limit)
    text = done.stdout.decode(errors="replace")
    numbers = {k: m[-1] for k, p in PATTERNS.items() if (m := re.findall(p, text))}
    kept = {k: float(v) for k, v in numbers.items()}
    return kept, model.read_text(errors="replace") if "seconds" in kept else ""


def fit(task: str, n: int, method: str) -> Cell:
    """The problem of :func:`structured.fit` at the same C and epsilon."""
    name, _, scale = TASKS[task]
    setting = structured.TASKS[task]
    # with losses and weights times s, F is s^2 times ours at C times s and epsilon times s
    C, epsilon = scale * setting.C_mean, scale * setting.epsilon
    options = ["-w", str(ALGORITHMS[method]), "-c", repr(C), "-e", repr(epsilon)]
    with scratch() as folder:
        _WRITERS[task](n, folder / "rows")
        found, model = run(task, folder / "rows", options)
    out: Cell = {"task": task, "n": n, "method": f"{name}, {method}", "score": None}
    if "seconds" not in found:
        return {**out, "seconds": LIMIT, "seconds_to_end": LIMIT, "finished": False}
    return {
        **out,
        "seconds": found["seconds"],
        "seconds_to_end": found["seconds"],
        "iterations": int(found["iterations"]),
        "passes": found["calls"] / n,
        "support": int(found["support"]),
        "lower_bound": found["dual"] / scale**2,
        "qp %": found.get("qp %"),
        "score": _accuracy(n, model) if task == "multiclass" else None,
        "finished": True,
    }


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
