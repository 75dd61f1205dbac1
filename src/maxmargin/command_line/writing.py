"""Examples in text files: svmlight, and CRFsuite's format."""

from __future__ import annotations

import bz2
import gzip
import lzma
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

import numpy as np
import scipy.sparse as sp

from maxmargin.command_line.examples import AnyArray, FileExamples, Token
from maxmargin.command_line.report import CommandError
from maxmargin.core.matrices import checked_csr, in_order

#: samples or sequences of a data set on disk that are loaded at a time
ROWS = 10_000


@contextmanager
def opened_for_writing(path: str) -> Iterator[TextIO]:
    """A text file; names that end in .gz, .bz2 or .xz are compressed, and ``-`` is standard output."""
    if path == "-":
        yield sys.stdout
        return
    if path.endswith(".zst"):
        raise CommandError(f"{path}: use .gz, .bz2 or .xz; .zst can only be read.")
    kinds = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    opener = next((make for ending, make in kinds.items() if path.endswith(ending)), open)
    with opener(path, "wt", encoding="utf-8", newline="\n") as file:  # type: ignore[operator]
        yield cast("TextIO", file)


def write_crfsuite(examples: FileExamples, file: TextIO) -> int:
    """Write all sequences with named features: ``label<TAB>attribute[:value]<TAB>...``."""
    if not examples.named:
        raise CommandError("crfsuite's format holds sequences with named features.")
    for k, sequence in enumerate(examples.X):
        labels = [""] * len(sequence) if examples.y is None else examples.y[k]
        if examples.weight is not None:
            file.write(f"@weight:{float(examples.weight[k])!r}\n")
        for label, token in zip(labels, sequence, strict=True):
            file.write("\t".join([str(label), *_attributes(token)]) + "\n")
        file.write("\n")
    return len(examples)


def _attributes(token: Token) -> list[str]:
    if isinstance(token, dict):
        return [f"{_escaped(name)}:{value!r}" for name, value in token.items()]
    return [_escaped(name) for name in token]


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace(":", "\\:").replace("\t", " ")


def write_svmlight(examples: FileExamples, file: TextIO) -> int:
    """Write all samples, with indices from 1 on; the groups of samples and the numbers of sequences become
    query ids."""
    written = 0
    for lo in range(0, len(examples), ROWS if examples.on_disk else max(1, len(examples))):
        part = examples
        if examples.on_disk:
            part = examples.part(lo, min(lo + ROWS, len(examples)))
        X, y, group = _rows(part, lo)
        X = in_order(checked_csr(X))
        labels = _labels(y, X.shape[0])
        for k, label in enumerate(labels):
            pairs = slice(X.indptr[k], X.indptr[k + 1])
            values = zip(X.indices[pairs].tolist(), X.data[pairs].tolist(), strict=True)
            query = "" if group is None else f" qid:{group[k]}"
            features = "".join(f" {index + 1}:{_short(value)}" for index, value in values if value)
            file.write(f"{label}{query}{features}\n")
        written += len(labels)
    return written


def _rows(part: FileExamples, begun: int) -> tuple[Any, AnyArray | None, AnyArray | None]:
    """A matrix, labels, and query ids; ``begun`` sequences were written before."""
    if not part.are_sequences:
        return sp.csr_matrix(part.X), part.y, _numbered(part.group)
    if part.named:
        raise CommandError(
            "the features of these sequences are names; svmlight has numbers. Use --to crfsuite."
        )
    y = None if part.y is None else np.concatenate(part.y)
    queries = np.arange(begun, begun + len(part)) + 1
    X = sp.vstack([sp.csr_matrix(x) for x in part.X], format="csr")
    return X, y, np.repeat(queries, [x.shape[0] for x in part.X])


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
    if group is None or group.dtype.kind in "iu":
        return group
    if group.dtype.kind == "f" and (group == np.rint(group)).all():
        return group.astype(np.int64)
    return np.unique(group, return_inverse=True)[1] + 1


def _short(value: float) -> str:
    """The shortest text that gives the same number."""
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(float(value))
