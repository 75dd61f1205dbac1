"""Matrix-free hashed n-gram features of documents."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from maxmargin.compiled import ngrams
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.implicit import ImplicitDesign
from maxmargin.data.kmer_layouts import empty_rows

#: words of two or more letters, as in scikit-learn's vectorizers
WORD = re.compile(r"(?u)\b\w\w+\b")
#: maximum occurrences of a column that are examined to describe it
LOOKED_AT = 10_000


class HashedNgrams(ImplicitDesign):
    """Hashed n-gram counts of documents, computed on the fly in every product.

    Tokens are hashed once, to 4 bytes each. Only these and the list of distinct tokens are stored. Compiled
    code combines and hashes n-grams in every product, so more n-grams cost time but no memory. Use it in
    place of X with the estimators and risks of this package.

    This is the matrix-free version of :class:`sklearn.feature_extraction.text.HashingVectorizer` with another
    hash function: tokens, n-grams and norms are the same, columns and signs differ. The hash depends only on
    the tokens: it is the same in every process and on every machine.

    Parameters
    ----------
    documents : iterable of str
        The documents.
    n_features : int, default 2**20
        Number of columns, up to 2**32. Different n-grams may share a column.
    ngram_range : (int, int), default (1, 2)
        Shortest and longest n-gram.
    analyzer : {"word", "char"} or callable, default "word"
        ``"word"``: words of two or more letters; ``"char"``: characters; both in lower case. A callable
        returns a list of tokens (str) for a document.
    signed : bool, default True
        Give half of the n-grams a negative sign, so that collisions cancel on average.
    norm : {"l2", None}, default "l2"
        Scale rows to unit norm, or keep counts.

    Attributes
    ----------
    shape : (int, int)
        Number of documents and features.
    nnz : int
        Number of entries of the explicit matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.data import HashedNgrams
    >>> X = HashedNgrams(["to be or not to be", "to be is to do"], norm=None, signed=False)
    >>> X.shape, X.nnz
    ((2, 1048576), 16)
    >>> X.dot(np.ones(X.shape[1]), 0, 2)
    array([11.,  9.])
    >>> X.describe(X.column("to be"))
    "'to be'"
    """

    def __init__(
        self,
        documents: Iterable[str],
        *,
        n_features: int = 2**20,
        ngram_range: tuple[int, int] = (1, 2),
        analyzer: Literal["word", "char"] | Callable[[str], Sequence[str]] = "word",
        signed: bool = True,
        norm: Literal["l2"] | None = "l2",
    ) -> None:
        first, last = map(int, ngram_range)
        if not 1 <= first <= last:
            raise ValueError(
                f"ngram_range must be (shortest, longest), from 1; got {ngram_range!r}."
            )
        if not 1 <= n_features <= 2**32:
            raise ValueError(f"n_features must be an integer from 1 to 2**32; got {n_features!r}.")
        if norm not in ("l2", None):
            raise ValueError(f"norm={norm!r}: use 'l2' or None.")
        if analyzer not in ("word", "char") and not callable(analyzer):
            raise ValueError(f"analyzer={analyzer!r}: use 'word', 'char' or a callable.")
        self.n_features, self.ngram_range = int(n_features), (first, last)
        self.analyzer: Any = analyzer
        self.signed, self.norm = bool(signed), norm
        self._names: dict[int, str] = {}
        self.tokens, self.indptr = self._read(documents)
        self.shape: tuple[int, int] = (len(self.indptr) - 1, self.n_features)
        self._packed = (self.tokens, self.indptr, first, last, self.n_features)
        entries, squares = np.zeros(self.shape[0], np.int64), np.zeros(self.shape[0])
        ngrams.ngrams_norms(*self._packed, self.signed, entries, squares)
        self._describe_rows(entries, squares, norm == "l2")

    def like(self, documents: Iterable[str]) -> Self:
        """The same features for other documents, for prediction."""
        return type(self)(
            documents,
            n_features=self.n_features,
            ngram_range=self.ngram_range,
            analyzer=self.analyzer,
            signed=self.signed,
            norm=self.norm,  # type: ignore[arg-type]
        )

    def _split(self, text: Any) -> Sequence[str]:
        if callable(self.analyzer):
            return self.analyzer(text)
        if not isinstance(text, str):
            raise TypeError(
                f"a document is a {type(text).__name__}, not a str. Decode bytes first; for other types pass "
                "an analyzer that returns tokens."
            )
        text = text.lower()
        return text if self.analyzer == "char" else WORD.findall(text)

    def _read(self, documents: Iterable[Any]) -> tuple[npt.NDArray[np.uint32], IntArray]:
        if isinstance(documents, str):
            raise TypeError("documents must be a list of strings, not a single string.")
        known: dict[str, int] = {}
        parts: list[npt.NDArray[np.uint32]] = []
        for document in documents:
            split = self._split(document)
            for token in set(split).difference(known):
                known[token] = _hash(token)
            parts.append(np.fromiter(map(known.__getitem__, split), np.uint32, len(split)))
        self._names = {h: token for token, h in known.items()}
        lengths = [len(part) for part in parts]
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return np.concatenate([np.empty(0, np.uint32), *parts]), indptr

    def _dot(self, w: Array, columns: int, lo: int, hi: int) -> Array:
        out = np.zeros((columns, hi - lo))
        ngrams.ngrams_dot(*self._packed, self.signed, w, columns, lo, hi, out)
        return out

    def _accumulate(self, coef: Array, columns: int, lo: int, hi: int, out: Array) -> None:
        ngrams.ngrams_accumulate(*self._packed, self.signed, coef, columns, lo, hi, out)

    def _rows(self, rows: IntArray, capacity: int) -> tuple[Any, Any, Array]:
        found = empty_rows(len(rows), capacity, self.n_features)
        ngrams.ngrams_rows(*self._packed, self.signed, rows, *found)
        return found

    def _keep(self, lo: int, hi: int) -> None:
        first, last = int(self.indptr[lo]), int(self.indptr[hi])
        self.tokens, self.indptr = self.tokens[first:last], self.indptr[lo : hi + 1] - first
        self._packed = (self.tokens, self.indptr, *self._packed[2:])
        # Products need neither names nor the analyzer, which may be a function that cannot be pickled.
        self._names = {}
        self.analyzer = None if callable(self.analyzer) else self.analyzer

    def describe(self, j: int) -> str:
        """The n-grams of these documents that share column j, most frequent first; a minus sign marks a
        negative sign."""
        at, order = np.empty(LOOKED_AT, np.int64), np.empty(LOOKED_AT, np.int64)
        n = ngrams.ngrams_find(*self._packed, self.signed, self._has(j), at, order)
        counts: dict[str, int] = {}
        join = "" if self.analyzer == "char" else " "
        for start, length in zip(at[:n], order[:n], strict=True):
            words = [
                self._names.get(int(h), f"#{h}") for h in self.tokens[start : start + abs(length)]
            ]
            text = ("-" if length < 0 else "") + repr(join.join(words))
            counts[text] = counts.get(text, 0) + 1
        return ", ".join(sorted(counts, key=lambda text: (-counts[text], text))) or "nothing"

    def column(self, ngram: str) -> int:
        """The column of an n-gram: words separated by blanks, or characters."""
        tokens = list(ngram) if self.analyzer == "char" else ngram.split(" ")
        if not self.ngram_range[0] <= len(tokens) <= self.ngram_range[1]:
            raise ValueError(f"{ngram!r} has {len(tokens)} tokens; ngram_range={self.ngram_range}.")
        hashes = np.array([_hash(token) for token in tokens], np.uint32)
        ends = np.array([0, len(tokens)])
        found = empty_rows(1, 1, self.n_features)
        n = len(tokens)
        ngrams.ngrams_rows(
            hashes, ends, n, n, self.n_features, False, np.zeros(1, np.int64), *found
        )
        return int(found[1][0])


def _hash(token: str) -> int:
    """32-bit hash of a token, the same on every machine."""
    return int.from_bytes(blake2b(token.encode(), digest_size=4).digest(), "little")
