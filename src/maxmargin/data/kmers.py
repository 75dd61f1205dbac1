"""Matrix-free k-mer features of strings."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np

from maxmargin.core.checks import nonnegative, one_of
from maxmargin.core.vectors import Array, IntArray, with_writable_arrays, writable
from maxmargin.data.design import CSRDesign
from maxmargin.data.kmer_layout import Bytes, KmerWords, Layout, by_position

Kind = Literal["weighted_degree", "spectrum"]
KINDS = ("weighted_degree", "spectrum")


class KmerDesign:
    """K-mer features of strings, computed on the fly in every product.

    ``kind="weighted_degree"``: one feature for every word of ``orders`` letters at every position, the
    features of the weighted degree kernel; all strings have the same length. ``kind="spectrum"``: one feature
    for every word, its count in the string; lengths may differ. Use it in place of X with the estimators and
    risks of this package. It stores one byte per letter.

    A feature of order k has the value ``sqrt(beta_k)`` (times the count), so that the inner product of two
    rows is the kernel with weights ``beta_k``. A product costs about *one* memory access per letter, for any
    orders; see :mod:`maxmargin.compiled.kmers`.

    Parameters
    ----------
    strings : list of str or bytes, or array of shape (n, length) of uint8
        The strings; an array holds character codes, one row per string.
    orders : (int, int) or int, default (1, 8)
        Lengths of the shortest and longest word. An int is the longest; the shortest is then 1.
    kind : {"weighted_degree", "spectrum"}, default "weighted_degree"
        Words at positions, or counts of words.
    positions : (int, int), optional
        Range of positions to use, ``start <= position < stop``; all by default.
    weighting : {"degree", "flat"} or array, optional
        The beta_k. ``"degree"``: ``2 (K - k + 1) / (K (K + 1))`` with K the longest order, the usual weights
        of the weighted degree kernel and its default. ``"flat"``: all 1, the default for the spectrum kernel.
        An array has one weight per order.
    alphabet : str, default "ACGT"
        The letters. Words with any other letter (such as N) are ignored. Case is ignored unless the alphabet
        has both upper and lower case letters.
    normalize : bool, default False
        Scale every row to unit norm, so that the kernel is ``k(x, x') / sqrt(k(x, x) k(x', x'))``.

    Attributes
    ----------
    shape : (int, int)
        Number of strings and features.
    nnz : int
        Number of entries of the explicit matrix.

    Examples
    --------
    >>> from maxmargin import LinearSVC
    >>> from maxmargin.data import KmerDesign
    >>> strings = ["ACGTAC", "ACCTTT", "TTGTAC", "TTCTTT"]
    >>> X = KmerDesign(strings, orders=(1, 3))
    >>> X.shape, X.describe(X.column("GT", 2))
    ((4, 360), 'GT at 2')
    >>> svc = LinearSVC().fit(X, [1, 0, 1, 0])
    >>> svc.predict(X.like(["ACGTAA", "TTCTTA"]))
    array([1, 0])
    """

    def __init__(
        self,
        strings: object,
        *,
        orders: Any = (1, 8),
        kind: Kind = "weighted_degree",
        positions: tuple[int, int] | None = None,
        weighting: Any = None,
        alphabet: str = "ACGT",
        normalize: bool = False,
    ) -> None:
        one_of("kind", kind, KINDS)
        self.kind, self.positions, self.weighting = kind, positions, weighting
        self.alphabet, self.normalize = alphabet, normalize
        self.orders = first, last = _orders(orders, alphabet)
        words = KmerWords(alphabet, first, last, np.sqrt(_weights(weighting, kind, first, last)))
        self._layout = _layout(words, strings, kind, positions)
        if self._layout.n_features * 8 > 2**40:
            raise ValueError(
                f"orders={orders} give {self._layout.n_features:.1e} features: the weight vector does not "
                "fit in memory. Use lower orders."
            )
        self.shape: tuple[int, int] = (self._layout.n_rows, self._layout.n_features)
        #: number of entries and squared norm of every row, and the factor of each, if rows are scaled
        self._entries, self.squared_norms = self._layout.norms()
        self.nnz, self._scale = int(self._entries.sum()), _scale(self.squared_norms, normalize)
        if normalize:
            self.squared_norms = np.where(self.squared_norms > 0.0, 1.0, 0.0)

    def like(self, strings: object) -> Self:
        """The same features for other strings, for prediction."""
        return type(self)(
            strings,
            orders=self.orders,
            kind=self.kind,
            positions=self.positions,
            weighting=self.weighting,
            alphabet=self.alphabet,
            normalize=self.normalize,
        )._checked(self)

    def _checked(self, other: KmerDesign) -> Self:
        if self.shape[1] != other.shape[1]:
            raise ValueError(
                "the strings must have the same length as the training strings: features are words at "
                "positions."
            )
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(with_writable_arrays(state))

    def part(self, lo: int, hi: int) -> Self:
        """The rows ``lo .. hi-1`` alone, to send to a worker."""
        other = copy.copy(self)
        other._entries, other.squared_norms = self._entries[lo:hi], self.squared_norms[lo:hi]
        other._scale = None if self._scale is None else self._scale[lo:hi]
        other.shape, other.nnz = (hi - lo, self.shape[1]), int(other._entries.sum())
        other._layout = self._layout.part(lo, hi)
        return other

    @property
    def largest_square(self) -> float:
        """The largest squared norm of a row."""
        return float(self.squared_norms.max(initial=0.0))

    def dot(self, W: Array, lo: int, hi: int) -> Array:
        """See :class:`maxmargin.data.Design`."""
        self._fits(W, "W", self.shape[1])
        columns = 1 if W.ndim == 1 else W.shape[1]
        flat = writable(np.ascontiguousarray(W)).reshape(-1)
        scores = self._layout.dot(flat, columns, lo, hi)
        if self._scale is not None:
            scores *= self._scale[lo:hi]
        return scores[0] if W.ndim == 1 else np.ascontiguousarray(scores.T)

    def accumulate(self, coef: Array, lo: int, hi: int, out: Array) -> None:
        """See :class:`maxmargin.data.Design`."""
        self._fits(coef, "coef", hi - lo)
        self._fits(out, "out", self.shape[1])
        columns = 1 if coef.ndim == 1 else coef.shape[1]
        by_column = np.ascontiguousarray(coef.reshape(hi - lo, columns).T, dtype=np.float64)
        if self._scale is not None:
            by_column = by_column * self._scale[lo:hi]
        target = out if out.flags.c_contiguous else np.zeros(out.shape)
        self._layout.accumulate(writable(by_column), columns, lo, hi, target.reshape(-1))
        if target is not out:
            out += target

    def kernel_dot(self, coef: Array) -> Array:
        """``X X' coef`` for all rows: the product with the kernel matrix."""
        n = self.shape[0]
        self._fits(coef, "coef", n)
        columns = 1 if coef.ndim == 1 else coef.shape[1]
        by_column = np.ascontiguousarray(coef.reshape(n, columns).T, dtype=np.float64)
        if self._scale is not None:
            by_column = by_column * self._scale
        scores = self._layout.kernel_dot(writable(by_column), columns)
        if scores is None:  # use a weight vector
            w = np.zeros((self.shape[1], *coef.shape[1:]))
            self.accumulate(coef, 0, n, w)
            return self.dot(w, 0, n)
        if self._scale is not None:
            scores *= self._scale
        return scores[0] if coef.ndim == 1 else np.ascontiguousarray(scores.T)

    def _fits(self, array: Array, name: str, length: int) -> None:
        # Compiled code does not check bounds.
        if array.shape[:1] != (length,) or array.ndim > 2:
            raise ValueError(f"{name} has shape {array.shape}; its first axis must be {length}.")

    def block(self, lo: int, hi: int) -> CSRDesign:
        """The rows ``lo .. hi-1`` in memory."""
        return self.take(np.arange(lo, hi))

    def take(self, rows: Any) -> CSRDesign:
        """These rows, in this order, in memory."""
        rows = np.asarray(rows, dtype=np.int64)
        if rows.size and not (rows.min() >= 0 and rows.max() < self.shape[0]):
            raise IndexError(
                f"rows {rows.min()} to {rows.max()} are out of range: X has {self.shape[0]} rows."
            )
        capacity = int(self._entries[rows].sum())
        indptr, indices, data = self._layout.rows(rows, capacity)
        if self._scale is not None:
            data *= np.repeat(self._scale[rows], np.diff(indptr))
        return CSRDesign.of(indptr, indices, data, (len(rows), self.shape[1]))

    def describe(self, j: int) -> str:
        """The word (and its position, from 0) of column j."""
        if not 0 <= j < self.shape[1]:
            raise IndexError(f"column {j} is out of range: X has {self.shape[1]} columns.")
        return self._layout.describe(int(j))

    def column(self, word: str, position: int | None = None) -> int:
        """The column of a word (at a position); the inverse of :meth:`describe`."""
        return self._layout.column(word, position)


def _scale(squares: Array, normalize: bool) -> Array | None:
    if not normalize:
        return None
    scale: Array = np.where(squares > 0.0, squares, 1.0) ** -0.5
    return scale


def _orders(orders: Any, alphabet: str) -> tuple[int, int]:
    first, last = (1, int(orders)) if isinstance(orders, int | np.integer) else map(int, orders)
    if not 1 <= first <= last:
        raise ValueError(f"orders must be (shortest, longest) with 1 <= shortest; got {orders!r}.")
    if (
        len(set(alphabet)) != len(alphabet)
        or len(alphabet) < 2
        or not alphabet.isascii()
        or "?" in alphabet
    ):
        raise ValueError(
            f"alphabet must have at least two different ASCII letters (not ?); got {alphabet!r}."
        )
    if len(alphabet) ** last >= 2**31:
        raise ValueError(
            f"there are more than 2^31 words of {last} letters over {alphabet!r}. Use shorter words, or the "
            "sparse matrix of sklearn.feature_extraction.text.HashingVectorizer(analyzer='char')."
        )
    return first, last


def _weights(weighting: Any, kind: str, first: int, last: int) -> Array:
    if weighting is None:
        weighting = "degree" if kind == "weighted_degree" else "flat"
    k = np.arange(first, last + 1, dtype=np.float64)
    if isinstance(weighting, str):
        one_of("weighting", weighting, ("degree", "flat"))
        return 2.0 * (last - k + 1.0) / (last * (last + 1.0)) if weighting == "degree" else k**0.0
    return nonnegative("weighting", weighting, k.shape, ", one per order")


def _layout(words: KmerWords, strings: object, kind: str, positions: Any) -> Layout:
    table = np.full(256, 255, dtype=np.uint8)
    either = words.alphabet in (words.alphabet.upper(), words.alphabet.lower())
    for number, letter in enumerate(words.alphabet):
        for character in {letter, letter.upper(), letter.lower()} if either else {letter}:
            table[ord(character)] = number
    start, stop = (0, None) if positions is None else map(int, positions)
    if start < 0 or (stop is not None and stop <= start):
        raise ValueError(f"positions must be (start, stop), 0 <= start < stop; got {positions!r}.")
    flat, lengths = _flat(strings, start, stop)
    if kind == "weighted_degree":
        if len(set(lengths.tolist())) != 1:
            raise ValueError(
                "the strings have different lengths (or there are none): words at positions require strings "
                "of equal length. Crop them, or use kind='spectrum'."
            )
        if lengths[0] < words.first:
            raise ValueError(
                f"the strings have {lengths[0]} letters: too few for words of {words.first}."
            )
    letters = by_position(table[flat], lengths)
    return Layout(words, letters, lengths, kind == "spectrum", start)


def _flat(strings: Any, start: int, stop: int | None) -> tuple[Bytes, IntArray]:
    """The letters of all strings one after another, and their lengths."""
    if isinstance(strings, np.ndarray) and strings.dtype == np.uint8 and strings.ndim == 2:
        square: Bytes = strings[:, start:stop]
        return square.reshape(-1), np.full(len(square), square.shape[1], np.int64)
    cut = [s[start:stop] for s in _as_bytes(strings)]
    lengths = np.array([len(s) for s in cut], dtype=np.int64)
    return np.frombuffer(b"".join(cut), dtype=np.uint8), lengths


def _as_bytes(strings: Sequence[object]) -> list[bytes]:
    """Every string as one byte per character; characters outside ASCII become invalid letters."""
    if isinstance(strings, str | bytes):
        raise TypeError("strings must be a list of strings, not a single string.")
    out: list[bytes] = []
    for i, s in enumerate(strings):
        if isinstance(s, bytes):
            out.append(s)
        elif isinstance(s, str):
            out.append(s.encode("ascii", "replace"))
        else:
            raise TypeError(f"strings[{i}] is a {type(s).__name__}, not a str or bytes.")
    return out
