"""How strings and their k-mer features are laid out, for words at positions and for counted words.

Products work with flat weights, ``columns`` numbers per feature, and return one row of scores per column.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.compiled import kmers
from maxmargin.core.matrices import AnyArray
from maxmargin.core.vectors import Array, IntArray, with_writable_arrays

Bytes = npt.NDArray[np.uint8]
#: looking up one word costs about as much as filling this many entries of a table of sums (measured: for
#: words of up to 8 letters, tables are as fast from 1,300 strings on)
WORTH_FILLING = 9.0
#: strings that are read at a time
CHUNK = 512


class KmerWords:
    """All words of ``first .. last`` letters over an alphabet, ordered by length, then by their last
    letters."""

    def __init__(self, alphabet: str, first: int, last: int, value: Array) -> None:
        self.alphabet, self.first, self.last = alphabet, first, last
        self.value = np.concatenate([np.zeros(first), value])
        self.size: IntArray = len(alphabet) ** np.arange(last + 1, dtype=np.int64)
        #: arguments of the compiled functions
        self.packed = (first, last, self.value, self.size)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(with_writable_arrays(state))

    def count(self, longest: int) -> int:
        """Number of words of up to ``longest`` letters."""
        return int(self.size[self.first : longest + 1].sum())

    def spell(self, j: int) -> str:
        """The j-th word."""
        k = self.first
        while j >= self.size[k]:
            j -= int(self.size[k])
            k += 1
        letters = []
        for _ in range(k):
            j, letter = divmod(j, len(self.alphabet))
            letters.append(self.alphabet[letter])
        return "".join(letters)

    def number(self, word: str) -> int:
        """Index of a word."""
        if not self.first <= len(word) <= self.last or not set(word) <= set(self.alphabet):
            raise ValueError(
                f"{word!r} is not a word of {self.first} to {self.last} letters over {self.alphabet!r}."
            )
        code = 0
        for letter in reversed(word):
            code = code * len(self.alphabet) + self.alphabet.index(letter)
        return self.count(len(word) - 1) + code


class Layout:
    """Strings stored by position, and the columns of their words.

    ``ranks`` number the strings by decreasing length, so that the letters of a position are contiguous for
    strings of any lengths; see :mod:`maxmargin.compiled.kmers`. Strings of equal length keep their order.
    """

    def __init__(
        self, words: KmerWords, letters: Bytes, lengths: IntArray, counted: bool, shift: int
    ) -> None:
        self.words, self.letters, self.lengths = words, letters, lengths
        self.counted, self.shift, self.n_rows = counted, shift, len(lengths)
        by_rank, self.begin = positions(lengths)
        self.ranks: IntArray = np.argsort(by_rank)
        length = len(self.begin) - 1
        sizes = [0 if counted else words.count(min(words.last, length - p)) for p in range(length)]
        self.offset: IntArray = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.n_features = words.count(words.last) if counted else int(self.offset[-1])

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(with_writable_arrays(state))

    def part(self, lo: int, hi: int) -> Layout:
        """The rows ``lo .. hi-1`` alone."""
        ranks = np.sort(self.ranks[lo:hi])
        kept = [
            self.letters[a:b][ranks[: np.searchsorted(ranks, b - a)]]
            for a, b in pairwise(self.begin)
        ]
        letters = np.concatenate([*kept, np.empty(0, np.uint8)])
        return Layout(self.words, letters, self.lengths[lo:hi], self.counted, self.shift)

    @property
    def _packed(self) -> tuple[Any, ...]:
        return (self.letters, self.begin, self.offset, *self.words.packed)

    def _by_table(self, rows: Any) -> bool:
        """Whether tables of sums pay off for these rows: they replace the lookups of all orders but one."""
        words = self.words
        visits = int(self.lengths[rows].sum()) * (words.last - words.first)
        return WORTH_FILLING * visits > self.n_features

    def dot(self, w: Array, columns: int, lo: int, hi: int) -> Array:
        kernel = kmers.dot_tables if self._by_table(slice(lo, hi)) else kmers.dot_words
        order = np.argsort(self.ranks[lo:hi])
        found, out = np.zeros((columns, hi - lo)), np.empty((columns, hi - lo))
        kernel(*self._packed, w, columns, self.ranks[lo:hi][order], found)
        out[:, order] = found
        return out

    def accumulate(self, coef: Array, columns: int, lo: int, hi: int, out: Array) -> None:
        active = np.flatnonzero(coef.any(axis=0))
        active = active[np.argsort(self.ranks[lo + active])]
        kernel = kmers.accumulate_tables if self._by_table(lo + active) else kmers.accumulate_words
        part = np.ascontiguousarray(coef[:, active])
        kernel(*self._packed, part, columns, self.ranks[lo + active], out)

    def kernel_dot(self, coef: Array, columns: int) -> Array | None:
        """``X X' coef`` for all rows; None for counted words, whose weight vector is small. Tables of sums
        always pay off: filling them costs less than filling a weight vector."""
        if self.counted:
            return None
        out = np.zeros((columns, self.n_rows))
        kmers.kernel_dot(*self._packed, coef, columns, self.ranks, out)
        return out

    def rows(self, rows: IntArray, capacity: int) -> tuple[AnyArray, AnyArray, Array]:
        """indptr, indices and data of these rows; indices have 32 bits if possible."""
        kind: Any = np.int32 if max(capacity, self.n_features) < 2**31 else np.int64
        found = np.zeros(len(rows) + 1, kind), np.empty(capacity, kind), np.empty(capacity)
        place = np.zeros(self.n_features if self.counted else 0, np.int64)
        kmers.csr_rows(*self._packed, self.ranks[rows], place, *found)
        return found

    def norms(self) -> tuple[IntArray, Array]:
        """Number of entries and squared norm of each row."""
        entries, squares = np.zeros(self.n_rows, np.int64), np.zeros(self.n_rows)
        words = self.words
        if self.counted:
            orders = words.last - words.first + 1
            for lo in range(0, self.n_rows, CHUNK):
                rows = np.arange(lo, min(lo + CHUNK, self.n_rows))
                indptr, _, data = self.rows(rows, int(self.lengths[rows].sum()) * orders)
                entries[rows] = np.diff(indptr)
                some = entries[rows] > 0
                sums = np.add.reduceat(np.square(data[: indptr[-1]]), indptr[:-1][some])
                squares[rows[some]] = sums
            return entries, squares
        # Words at positions occur once: the order of the longest word determines both.
        count = np.arange(words.last + 1).clip(words.first - 1) - words.first + 1
        square, order = np.cumsum(words.value**2), np.zeros(self.n_rows, np.int64)
        for p in range(len(self.begin) - 2, -1, -1):
            valid = self.letters[self.begin[p] : self.begin[p + 1]] < words.size[1]
            order = np.where(valid, np.minimum(order + 1, words.last), 0)
            entries += count[order]
            squares += square[order]
        return entries, squares

    def describe(self, j: int) -> str:
        if self.counted:
            return self.words.spell(j)
        p = int(np.searchsorted(self.offset, j, side="right")) - 1
        return f"{self.words.spell(j - int(self.offset[p]))} at {p + self.shift}"

    def column(self, word: str, position: int | None) -> int:
        j = self.words.number(word)
        if self.counted:
            if position is not None:
                raise ValueError("counted words have no position.")
            return j
        if position is None:
            raise ValueError("position is required: features are words at positions.")
        p = position - self.shift
        if not 0 <= p <= len(self.begin) - 1 - len(word):
            raise ValueError(f"{word!r} at {position} is outside the positions of the strings.")
        return int(self.offset[p]) + j


def positions(lengths: IntArray) -> tuple[IntArray, IntArray]:
    """The strings by decreasing length, and where the letters of each position begin."""
    by_rank = np.argsort(-lengths, kind="stable")
    counts = np.searchsorted(-lengths[by_rank], -np.arange(lengths.max(initial=0)))
    return by_rank, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def by_position(strings: Bytes, lengths: IntArray) -> Bytes:
    """Concatenated strings in the order of :class:`Layout`: by position, then by rank."""
    by_rank, begin = positions(lengths)
    first = (np.cumsum(lengths) - lengths)[by_rank]
    letters = np.empty_like(strings)
    for lo in range(0, len(lengths), CHUNK):  # a few strings at a time stay in the cache
        for p, (a, b) in enumerate(pairwise(begin)):
            here = first[lo : min(lo + CHUNK, int(b - a))]
            if len(here) == 0:
                break
            letters[a + lo : a + lo + len(here)] = strings[here + p]
    return letters
