"""svmlight files: ``label [qid:number] index:value ...``, with indices from 1 on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TextIO

import numpy as np
import scipy.sparse as sp

from maxmargin.command_line.errors import CommandError
from maxmargin.command_line.readers.examples import (
    AnyArray,
    Examples,
    Rows,
    Sequences,
    Stored,
)

#: rows of a data set on disk that are loaded at a time
ROWS = 10_000


def write(examples: Examples, file: TextIO) -> int:
    """Write all samples; the groups of samples and the numbers of sequences become query ids."""
    written = 0
    for X, y, group in _blocks(examples):
        X = sp.csr_matrix(X)
        X.sort_indices()
        labels = _labels(y, X.shape[0])
        for k, label in enumerate(labels):
            lo, hi = X.indptr[k], X.indptr[k + 1]
            pairs = zip(X.indices[lo:hi].tolist(), X.data[lo:hi].tolist(), strict=True)
            query = "" if group is None else f" qid:{group[k]}"
            features = "".join(f" {index + 1}:{_short(value)}" for index, value in pairs if value)
            file.write(f"{label}{query}{features}\n")
        written += len(labels)
    return written


def _blocks(examples: Examples) -> Iterator[tuple[Any, AnyArray | None, AnyArray | None]]:
    """Matrices, labels, and query ids."""
    if isinstance(examples, Rows):
        yield examples.X, examples.y, _numbered(examples.group)
    elif isinstance(examples, Sequences):
        if examples.lengths is None:
            raise CommandError(
                "the features of these sequences are names; svmlight has numbers. Use --to crfsuite."
            )
        y = None if examples.y is None else np.array([v for part in examples.y for v in part])
        yield examples.X, y, np.repeat(np.arange(1, len(examples) + 1), examples.lengths)
    else:
        yield from _stored_blocks(examples)


def _stored_blocks(stored: Stored) -> Iterator[tuple[Any, AnyArray | None, AnyArray | None]]:
    data = stored.data
    for lo in range(0, len(data), ROWS):
        hi = min(lo + ROWS, len(data))
        if data.ragged:
            X, y = data.sequences(lo, hi)
            queries = np.repeat(np.arange(lo + 1, hi + 1), [x.shape[0] for x in X])
            stacked = sp.vstack([sp.csr_matrix(x) for x in X], format="csr")
            yield stacked, None if y is None else np.concatenate(y), queries
            continue
        part: Any = data.block(lo, hi)
        rows = (
            part.X
            if data.layout == "dense"
            else sp.csr_matrix((part.data, part.indices, part.indptr), shape=part.shape)
        )
        column = data.group
        group = None if column is None else _numbered(np.asarray(column[lo:hi]))
        yield rows, None if data.y is None else np.asarray(data.y[lo:hi]), group


def _labels(y: AnyArray | None, n: int) -> list[str]:
    if y is None:
        return ["0"] * n
    if y.dtype.kind not in "iufb":
        raise CommandError(
            f"labels must be numbers in svmlight files; the input has {str(y[0])!r}."
        )
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
