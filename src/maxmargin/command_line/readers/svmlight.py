"""svmlight and LIBSVM files: ``label [qid:number] index:value ... [# comment]``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from maxmargin.command_line.errors import CommandError
from maxmargin.command_line.readers.examples import (
    AnyArray,
    Read,
    ReaderOptions,
    Samples,
    as_sequences,
    whole_numbers,
)


def read(path: str, options: ReaderOptions) -> Read:
    """All samples of a file; the query ids become groups."""
    return Read(_samples(path, options), options)


def read_sequences(path: str, options: ReaderOptions) -> Read:
    """A file of SVM-hmm: the query id of a line is the number of its sequence."""
    return Read(as_sequences(_samples(path, options), path), options)


def _samples(path: str, options: ReaderOptions) -> Samples:
    from maxmargin import data

    name = "/dev/stdin" if path == "-" else path
    try:
        batches = list(data.read_svmlight(name, zero_based=bool(options.zero_based)))
    except ValueError as error:
        text = str(error).replace("set zero_based=True?", "use --zero-based?")
        raise CommandError(text) from error
    if not batches:
        raise CommandError(f"{path} holds no samples.")
    # later batches may have more features; the last one knows all of them
    width = batches[-1][0].shape[1]
    for batch in batches:
        batch[0].resize((batch[0].shape[0], width))
    X = batches[0][0] if len(batches) == 1 else sp.vstack([b[0] for b in batches], format="csr")
    y = np.concatenate([batch[1] for batch in batches])
    group = None if len(batches[0]) == 2 else np.concatenate([batch[3] for batch in batches])
    if options.group_sizes is not None:
        group = _group_of_sizes(options.group_sizes, len(y), path)
    return Samples(X, whole_numbers(y), None, group)


def _group_of_sizes(path: str, n_samples: int, data: str) -> AnyArray:
    """The query of each sample, from a file with the number of samples of each query."""
    try:
        sizes = np.array([int(word) for word in Path(path).read_text().split()], dtype=np.int64)
    except ValueError as error:
        raise CommandError(f"{path}: expected one whole number per line ({error}).") from error
    if (sizes < 0).any() or sizes.sum() != n_samples:
        raise CommandError(
            f"the sizes in {path} add up to {sizes.sum()}, but {data} has {n_samples} samples."
        )
    return np.repeat(np.arange(len(sizes)), sizes)
