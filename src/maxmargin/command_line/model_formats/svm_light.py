"""Models of SVM-light, SVM-perf and SVM-rank with a linear kernel.

Eleven lines of numbers with comments, then a line per support vector, ``alpha*y index:value ... #``. The
score of x is the sum of ``alpha*y <x_i, x>`` minus the threshold. The newer programs write one vector,
the weights, with alpha 1.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from maxmargin.command_line.errors import CommandError
from maxmargin.command_line.model_formats.linear_model import LinearModel

_HEADER = 11


def read(path: str) -> LinearModel:
    """Read a model with a linear kernel."""
    lines = Path(path).read_text(encoding="ascii", errors="replace").split("\n")
    values = [line.split("#")[0].strip() for line in lines[:_HEADER]]
    try:
        kernel, n_features, n_vectors = int(values[1]), int(values[7]), int(values[9]) - 1
        threshold = float(values[10])
    except (IndexError, ValueError) as error:
        raise CommandError(
            f"{path}: the header of the SVM-light model is damaged ({error})."
        ) from error
    if kernel != 0:
        raise CommandError(
            f"{path}: only models with a linear kernel (-t 0) can be read; this one has kernel {kernel}."
        )
    vectors = lines[_HEADER : _HEADER + n_vectors]
    if len(vectors) != n_vectors or not all(vectors):
        raise CommandError(f"{path}: the file ends before the last of {n_vectors} support vectors.")
    w = np.zeros(n_features)
    for number, line in enumerate(vectors, _HEADER + 1):
        try:
            alpha, *pairs = line.split("#")[0].split()
            for pair in pairs:
                index, _, value = pair.partition(":")
                if index == "qid":
                    continue
                if not 1 <= int(index) <= n_features:
                    raise ValueError(f"index {index} is not between 1 and {n_features}")
                w[int(index) - 1] += float(alpha) * float(value)
        except ValueError as error:
            raise CommandError(f"{path}, line {number}: no support vector ({error}).") from error
    return LinearModel("classes", w[None, :], np.array([-threshold]), [-1, 1])


def write(model: LinearModel, path: str) -> None:
    """Write a model that ``svm_classify`` reads: one support vector, the weights."""
    if model.classes is not None and model.classes != [-1, 1]:
        raise CommandError(
            f"SVM-light has the classes -1 and 1; the model has {model.classes}. (LIBLINEAR's format holds "
            "any whole numbers.)"
        )
    w = model.coef[0]
    pairs = " ".join(f"{k + 1}:{w[k]:.17g}" for k in np.flatnonzero(w))
    lines = [
        "SVM-light Version V6.02",
        "0 # kernel type",
        "3 # kernel parameter -d ",
        "1 # kernel parameter -g ",
        "1 # kernel parameter -s ",
        "1 # kernel parameter -r ",
        "empty# kernel parameter -u ",
        f"{len(w)} # highest feature index ",
        "1 # number of training documents ",
        "2 # number of support vectors plus 1 ",
        f"{-model.intercept[0]:.17g} # threshold b, each following line is a SV (starting with alpha*y)",
        f"1 {pairs} #",
    ]
    Path(path).write_text("\n".join(lines) + "\n", encoding="ascii", newline="\n")
