"""svmlight files: ``label [qid:number] index:value ...``, with indices from 1 on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

import numpy as np
import scipy.sparse as sp

from maxmargin.command_line.errors import CommandError
from maxmargin.command_line.readers.examples import (
    AnyArray,
    Examples,
    OnDisk,
    Samples,
    Sequences,
)
from maxmargin.core.matrices import checked_csr, in_order

#: samples or sequences of a data set on disk that are loaded at a time
ROWS = 10_000


def write(examples: Examples, file: TextIO) -> int:
    """Write all samples; the groups of samples and the numbers of sequences become query ids."""
    written = begun = 0
    for part in _parts(examples):
        X, y, group = _rows(part, begun)
        X = in_order(checked_csr(X))
        labels = _labels(y, X.shape[0])
        for k, label in enumerate(labels):
            lo, hi = X.indptr[k], X.indptr[k + 1]
            pairs = zip(X.indices[lo:hi].tolist(), X.data[lo:hi].tolist(), strict=True)
            query = "" if group is None else f" qid:{group[k]}"
            features = "".join(f" {index + 1}:{_short(value)}" for index, value in pairs if value)
            file.write(f"{label}{query}{features}\n")
        written += len(labels)
        begun += len(part)
    return written


def _parts(examples: Examples) -> Iterator[Samples | Sequences]:
    if not isinstance(examples, OnDisk):
        yield examples
        return
    for lo in range(0, len(examples), ROWS):
        yield examples.part(lo, min(lo + ROWS, len(examples)))


def _rows(
    part: Samples | Sequences, begun: int
) -> tuple[sp.csr_matrix, AnyArray | None, AnyArray | None]:
    """A matrix, labels, and query ids; ``begun`` sequences were written before."""
    if isinstance(part, Samples):
        return sp.csr_matrix(part.X), part.y, _numbered(part.group)
    if part.named:
        raise CommandError(
            "the features of these sequences are names; svmlight has numbers. Use --to crfsuite."
        )
    X = [sp.csr_matrix(x) for x in part.X]
    y = None if part.y is None else np.concatenate(part.y)
    queries = np.repeat(np.arange(begun, begun + len(X)) + 1, [x.shape[0] for x in X])
    return sp.vstack(X, format="csr"), y, queries


def _labels(y: AnyArray | None, n: int) -> list[str]:
    if y is None:
        return ["0"] * n
    if y.dtype.kind not in "iufb":
        raise CommandError(
            f"labels must be numbers in svmlight files; the input has {str(y[0])!r}."
        )
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise CommandError(f"the label of row {int(np.argmin(np.isfinite(y)))} is not finite.")
    return [_short(value) for value in y.tolist()]


def _numbered(group: AnyArray | None) -> AnyArray | None:
    """Query ids as whole numbers, which svmlight needs."""
    if group is None:
        return None
    if group.dtype.kind in "iu":
        return group
    if group.dtype.kind == "f" and (group == np.rint(group)).all():
        return group.astype(np.int64)
    return np.unique(group, return_inverse=True)[1] + 1


def _short(value: float) -> str:
    """The shortest text that gives the same number."""
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(float(value))
