"""Batches of sentences from an iterator, and a vocabulary that grows while they are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from maxmargin.core.matrices import canonical, checked, first_not_finite, is_finite, numbered
from maxmargin.core.vectors import IntArray
from maxmargin.data.tokens.name_columns import in_final_order, new_names, token_matrix
from maxmargin.data.tokens.token_features import cut
from maxmargin.data.tokens.token_vectorizer import TokenVectorizer

#: tokens, entries of matrices, and sequences after which a batch ends
BATCH_TOKENS, BATCH_ENTRIES, BATCH_SEQUENCES = 2**15, 2**20, 2**14


class Batch(NamedTuple):
    """Some sentences: lists of tokens, or CSR matrices."""

    first: int
    X: list[Any]
    lengths: list[int]
    y: list[Any] | None
    weight: list[float] | None

    def stacked(self, rows: Any) -> dict[str, Any]:
        """The batch for a writer, from the matrix of its tokens."""
        if not is_finite(rows.data):
            at = first_not_finite(rows.data)
            row = int(np.searchsorted(rows.indptr, at, side="right")) - 1
            k = int(np.searchsorted(np.cumsum(self.lengths), row, side="right"))
            token = row - sum(self.lengths[:k])
            raise ValueError(
                f"a feature of token {token} of sequence {self.first + k} is {rows.data[at]}: features must "
                "be finite numbers."
            )
        return {
            "X": rows,
            "y": None if self.y is None else np.array(self.y),
            "weight": self.weight,
            "lengths": np.array(self.lengths, dtype=np.int64),
        }

    def matrices(self) -> Any:
        """All matrices, stacked."""
        widths = {x.shape[1] for x in self.X if sp.issparse(x)}
        none = sp.csr_matrix((0, max(widths, default=0)))
        return sp.vstack([x if sp.issparse(x) else none for x in self.X], format="csr")


class Sentences:
    """Reads sentences with their labels and weights, one batch at a time."""

    def __init__(self, X: Iterable[object], y: Iterable[object] | None) -> None:
        self._items = self._pairs(X, y)
        #: whether sentences are matrices; None as long as all of them are empty
        self.are_matrices: bool | None = None
        #: whether all tokens so far are plain strings
        self.strings = True
        self._width: int | None = None

    def batches(self) -> Iterator[Batch]:
        """All sentences, in order."""
        batch, labeled, weighted = Batch(0, [], [], [], []), None, None
        n_tokens = n_entries = 0
        for i, (given, labels, weight) in enumerate(self._items):
            x = self._sentence(given, i)
            length = x.shape[0] if sp.issparse(x) else len(x)
            found = labels is not None, weight is not None
            labeled, weighted = (labeled, weighted) if i else found
            if found != (labeled, weighted):
                raise ValueError(
                    f"sequence {i} has {'labels' if found[0] else 'no labels'} and "
                    f"{'a weight' if found[1] else 'no weight'}, unlike the first one: pass labels, and a "
                    "weight, with every sequence or with none."
                )
            batch.X.append(x)
            batch.lengths.append(length)
            if batch.y is not None and labels is not None:
                batch.y.extend(_checked_labels(labels, length, i))
            if batch.weight is not None and weight is not None:
                batch.weight.append(weight)
            n_tokens, n_entries = n_tokens + length, n_entries + getattr(x, "nnz", 0)
            is_full = n_tokens >= BATCH_TOKENS or n_entries >= BATCH_ENTRIES
            if is_full or len(batch.X) >= BATCH_SEQUENCES:
                yield _finished(batch, labeled, weighted)
                batch, n_tokens, n_entries = Batch(i + 1, [], [], [], []), 0, 0
        if batch.X:
            yield _finished(batch, labeled, weighted)

    def _pairs(
        self, X: Iterable[object], y: Iterable[object] | None
    ) -> Iterator[tuple[Any, Any, Any]]:
        """(sentence, labels or None, weight or None)."""
        if y is not None:
            both, none = iter(y), object()
            for i, x in enumerate(X):
                labels = next(both, none)
                if labels is none:
                    raise ValueError(f"X has more than {i} sequences, but y has only {i}.")
                yield x, labels, None
            if next(both, none) is not none:
                raise ValueError("y has more label sequences than X has sequences.")
            return
        for i, pair in enumerate(X):
            if not isinstance(pair, tuple) or len(pair) not in (2, 3):
                raise TypeError(
                    f"entry {i} of X is {cut(pair)}, a {type(pair).__name__}: without y, X must yield pairs "
                    "(sequence, labels) or triples (sequence, labels, weight)."
                )
            yield pair[0], pair[1], pair[2] if len(pair) == 3 else None

    def _sentence(self, x: Any, i: int) -> Any:
        """A CSR matrix or a list of tokens."""
        if isinstance(x, str | bytes | Mapping) or not (
            hasattr(x, "__iter__") or hasattr(x, "__array__")
        ):
            raise TypeError(
                f"sequence {i} of X is {cut(x)}, which is one token or none: a sequence must be a list of "
                "tokens or a matrix with a row per token."
            )
        if not sp.issparse(x) and not isinstance(x, list | tuple) and hasattr(x, "__array__"):
            x = np.asarray(x)
        is_matrix = sp.issparse(x) or (isinstance(x, np.ndarray) and x.ndim == 2)
        if not is_matrix:
            x = x.tolist() if isinstance(x, np.ndarray) else list(x)
            self.strings = self.strings and all(isinstance(token, str) for token in x)
        if is_matrix or x:
            if self.are_matrices is not None and is_matrix != self.are_matrices:
                forms = "a list of tokens with named features", "a matrix"
                raise TypeError(
                    f"sequence {i} is {forms[is_matrix]}, but earlier ones are not: pass all of them in one "
                    "form."
                )
            self.are_matrices = is_matrix
        return self._checked(x, i) if is_matrix else x

    def _checked(self, x: Any, i: int) -> Any:
        if not sp.issparse(x) and x.dtype.kind not in "fiub":
            raise TypeError(f"sequence {i} is a matrix of type {x.dtype}: expected numbers.")
        name, token = f"sequence {i}", numbered("token")
        x = x if sp.issparse(x) else sp.csr_matrix(checked(x, name, token))
        rows = canonical(x, name, token)
        if self._width is not None and rows.shape[1] != self._width:
            raise ValueError(
                f"sequence {i} has {rows.shape[1]} features, but earlier ones have {self._width}."
            )
        self._width = rows.shape[1]
        return rows


def _finished(batch: Batch, labeled: bool | None, weighted: bool | None) -> Batch:
    return batch._replace(y=batch.y if labeled else None, weight=batch.weight if weighted else None)


def _checked_labels(labels: Any, length: int, i: int) -> list[Any]:
    if isinstance(labels, str | bytes) or not hasattr(labels, "__len__"):
        raise TypeError(
            f"the labels of sequence {i} are {cut(labels)}, not a list with a label per token."
        )
    found = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    if len(found) != length:
        raise ValueError(f"sequence {i} has {length} tokens but {len(found)} labels.")
    for t, label in enumerate(found):
        if label is None:
            raise ValueError(
                f"token {t} of sequence {i} has no label (None), which cannot be written. Leave out the "
                "sequence, or train in memory with partial='complete'."
            )
        if isinstance(label, str) != isinstance(found[0], str):
            raise TypeError(
                f"the labels of sequence {i} are strings and numbers: pass one kind of them."
            )
    return found


class GrowingVocabulary:
    """Columns of names in order of first occurrence, and how often each name occurs."""

    def __init__(self) -> None:
        self._found = new_names()
        self._counts: IntArray = np.zeros(0, dtype=np.int64)

    def rows(self, batch: Batch) -> sp.csr_matrix:
        """The tokens of a batch as rows; new names get new columns."""
        columns, values, ends, lists = self._found.entries(batch.X, batch.first)
        counts = np.bincount(columns, minlength=len(self._counts))
        counts[: len(self._counts)] += self._counts
        self._counts = counts
        return token_matrix(columns, values, ends, len(counts), lists)

    def sorted(self, min_count: int) -> tuple[TokenVectorizer, IntArray]:
        """The names that occur often enough, sorted, and the new column of each old one (-1: none)."""
        names = self._found.in_order()
        other = next((name for name in names if type(name) is not str), None)
        if other is not None:
            raise TypeError(
                f"names of features must be strings, but {cut(other)} is a {type(other).__name__}."
            )
        known, place = in_final_order(names, self._counts, min_count)
        return TokenVectorizer(None, min_count).set_names(known), place
