"""Data sets of sentences: tokens with named features, or matrices, in bounded memory.

Columns are sorted by name, as in :class:`maxmargin.data.TokenVectorizer`, but the names are known only at the
end of the only pass over the sentences. Until then, rows are written to a temporary folder with columns in
order of first occurrence. They are read from there to get their final columns, without names that occur too
rarely. All rows are in one shard, so that each column of the data set is one file that can be mapped.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.core.vectors import IntArray
from maxmargin.data.dataset import Dataset
from maxmargin.data.manifest import Manifest, Tokens
from maxmargin.data.storage import LocalStorage, Storage, storage_for
from maxmargin.data.tokens.name_columns import known_entries, token_matrix
from maxmargin.data.tokens.sentences import BATCH_ENTRIES, Batch, GrowingVocabulary, Sentences
from maxmargin.data.tokens.token_vectorizer import TokenVectorizer
from maxmargin.data.writer import SHARD_BYTES, Target, Writer

#: the temporary folder, in that of the data set
TEMPORARY = ".unsorted"
_ONE_SHARD = 2**61


def write_sequences(
    path: str | os.PathLike[str],
    X: Iterable[Any],
    y: Iterable[Any] | None = None,
    *,
    n_hashed: int | None = None,
    min_count: int = 1,
    vectorizer: TokenVectorizer | None = None,
    dtype: Any = None,
    overwrite: bool = False,
    storage_options: dict[str, Any] | None = None,
) -> Dataset:
    """Write sequences of tokens in one pass, with memory for a few thousand of them and the vocabulary.

    :class:`maxmargin.SequenceTagger` trains on the data set without loading it, and then predicts for tokens
    of the same form. The data set contains the vocabulary.

    Parameters
    ----------
    path : str or path
        A folder, created if necessary, or the URL of an object store, such as ``s3://bucket/name``.
    X : iterable of sequences
        A sequence is a list of tokens, each of which is a dict ``{name: value}``, a list of strings or a
        string, or a matrix with a row per token (dense or sparse; stored as sparse). Without ``y``, pairs
        ``(sequence, labels)`` or triples ``(sequence, labels, weight)``.
    y : iterable of label sequences, optional
        One label per token: strings or numbers.
    n_hashed : int, optional
        Number of columns to which names are hashed, so that no vocabulary is stored. By default, every name
        has its own column.
    min_count : int, default 1
        Names that occur fewer times are left out.
    vectorizer : TokenVectorizer, optional
        The columns of names, such as ``tagger.vectorizer_`` to write data for which a fitted tagger predicts.
        Names without a column are ignored. It replaces ``n_hashed`` and ``min_count``.
    dtype : float32 or float64, optional
        Type of the stored values. float32 takes two thirds of the space.
    overwrite : bool, default False
        Whether to replace an existing data set.
    storage_options : dict, optional
        Options passed to fsspec; for URLs only.

    Returns
    -------
    Dataset

    Notes
    -----
    While it is written, a data set with a vocabulary takes twice its space on disk.

    Examples
    --------
    >>> import tempfile
    >>> import maxmargin
    >>> def sentences():                        # read from a file, for example
    ...     yield [["w=the"], ["w=cat"], ["w=sat"]], ["DET", "NOUN", "VERB"]
    ...     yield [["w=a"], ["w=dog"], ["w=ran"]], ["DET", "NOUN", "VERB"]
    >>> folder = tempfile.mkdtemp()
    >>> maxmargin.data.write_sequences(folder, sentences())
    <Dataset of 2 sequences, 6 rows and 6 features, float64, csr, 1 shard>
    >>> tagger = maxmargin.SequenceTagger().fit(maxmargin.data.open(folder))
    >>> tagger.predict([[["w=the"], ["w=dog"], ["w=sat"]]])
    [['DET', 'NOUN', 'VERB']]
    """
    given = vectorizer or TokenVectorizer(n_hashed, min_count)
    given._check()
    if vectorizer is not None and (n_hashed, min_count) != (None, 1):
        raise ValueError("vectorizer replaces n_hashed and min_count: leave them out.")
    sentences = Sentences(X, y)
    storage = storage_for(path, storage_options)
    with storage.writing():
        target = Target(storage).new(overwrite)
        writer = Writer(storage, None, target.generation(), _ONE_SHARD)
        commit = partial(target.commit, keep_parts=not overwrite)
        batches = sentences.batches()
        first = next(batches, None)
        if first is None:
            raise ValueError("X is empty: there are no sequences to write.")
        batches = chain([first], batches)

        def finish(manifest: Manifest) -> Manifest:
            tokens = Tokens(given.n_hashed, given.min_count, sentences.strings)
            names = None if given.n_hashed is not None else tuple(given.feature_names_)
            return replace(manifest, feature_names=names, tokens=tokens)

        if sentences.are_matrices:
            if vectorizer is not None or (n_hashed, min_count) != (None, 1):
                raise ValueError(
                    "n_hashed, min_count and vectorizer are for tokens that are dicts or strings, but X has "
                    "matrices: leave them out."
                )
            manifest = writer.run((b.stacked(b.matrices()) for b in batches), dtype, commit)
        elif vectorizer is not None or n_hashed is not None:
            rows = (batch.stacked(given._matrix(batch.X, batch.first)) for batch in batches)
            manifest = writer.run(rows, dtype, commit, finish)
        else:
            with _temporary(storage) as folder:
                unsorted, given, place = _unsorted(folder, batches, min_count, dtype)
                renamed = _renamed(unsorted, place, len(given.feature_names_))
                manifest = writer.run(renamed, None, commit, finish)
    return Dataset(path, storage_options, manifest)


@contextlib.contextmanager
def _temporary(storage: Storage) -> Iterator[Path]:
    """A folder for the rows with unsorted columns. One that a killed writer left is removed."""
    if not isinstance(storage, LocalStorage):
        with tempfile.TemporaryDirectory() as name:
            yield Path(name)
        return
    folder = storage.folder / TEMPORARY
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unsorted(
    folder: Path, batches: Iterable[Batch], min_count: int, dtype: Any
) -> tuple[Dataset, TokenVectorizer, IntArray]:
    """The rows with columns in order of first occurrence, the vocabulary, and the new columns."""
    vocabulary = GrowingVocabulary()
    rows = (batch.stacked(vocabulary.rows(batch)) for batch in batches)
    manifest = Writer(LocalStorage(folder), None, 1, SHARD_BYTES).run(rows, dtype)
    return Dataset(folder, manifest=manifest), *vocabulary.sorted(min_count)


def _renamed(data: Dataset, place: IntArray, n_columns: int) -> Iterator[dict[str, Any]]:
    """The sequences of a data set with other columns, in batches."""
    step = max(1, len(data) * BATCH_ENTRIES // max(1, data.nnz))
    for lo in range(0, len(data), step):
        hi = min(len(data), lo + step)
        X, lengths, y = data.stacked(lo, hi)
        entries = known_entries(place[X.indices], X.data, X.indptr)
        rows = token_matrix(*entries, n_columns, [])
        weight = None if data.weight is None else np.asarray(data.weight[lo:hi])
        yield {"X": rows, "y": y, "weight": weight, "lengths": lengths}
