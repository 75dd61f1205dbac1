"""Layouts of k-mer features: one table per position, or one table for all positions.

Both layouts work with flat weights, ``columns`` numbers per feature, and return one row of scores per column.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.compiled import kmer_counts, kmers
from maxmargin.core.vectors import Array, IntArray, thawed

Bytes = npt.NDArray[np.uint8]
Rows = tuple[npt.NDArray[Any], npt.NDArray[Any], Array]

#: looking up one word costs about as much as filling this many entries of a table of sums (measured: for
#: words of up to 8 letters, tables are as fast from 1,300 strings on)
WORTH_FILLING = 9.0


class Words:
    """All words of ``first .. last`` letters over an alphabet, ordered by length, then by their last
    letters."""

    def __init__(self, alphabet: str, first: int, last: int, value: Array) -> None:
        self.alphabet, self.first, self.last = alphabet, first, last
        self.value = np.concatenate([np.zeros(first), value])
        self.size: IntArray = len(alphabet) ** np.arange(last + 1, dtype=np.int64)
        self.start: IntArray = np.concatenate(
            [np.zeros(first, np.int64), self.size[first:].cumsum()]
        )
        #: arguments of the compiled functions
        self.packed = (first, last, self.value, self.size)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(thawed(state))

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


class Positional:
    """One table per position, for strings of equal length, stored as (position, row)."""

    def __init__(self, words: Words, letters: Bytes, shift: int) -> None:
        self.words, self.letters, self.shift = words, letters, shift
        length, self.n_rows = letters.shape
        sizes = [words.count(min(words.last, length - p)) for p in range(length - words.first + 1)]
        self.offset: IntArray = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.n_features = int(self.offset[-1])
        #: whether all letters of a row are in the alphabet; tables of sums are valid only then
        self.clean = np.empty(self.n_rows, dtype=bool)
        for lo in range(0, self.n_rows, 4096):
            self.clean[lo : lo + 4096] = letters[:, lo : lo + 4096].max(axis=0) < words.size[1]
        self.all_clean = bool(self.clean.all())

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(thawed(state))

    def part(self, lo: int, hi: int) -> Positional:
        """The rows ``lo .. hi-1`` alone."""
        return Positional(self.words, np.ascontiguousarray(self.letters[:, lo:hi]), self.shift)

    def norms(self) -> tuple[IntArray, Array]:
        """Number of distinct words in each row, and the squared norm of each row."""
        counts, squares = np.zeros(self.n_rows, np.int64), np.zeros(self.n_rows)
        rows = np.arange(self.n_rows)
        if self.all_clean:  # all rows have the same values
            rows = rows[:1]
        kmers.positional_norms(self.letters, *self.words.packed, rows, counts, squares)
        if self.all_clean:
            counts[:], squares[:] = counts[:1], squares[:1]
        return counts, squares

    def _groups(self, rows: IntArray) -> list[tuple[bool, IntArray]]:
        """(whether to use tables of sums, indices of the rows)."""
        clean = np.arange(len(rows)) if self.all_clean else np.flatnonzero(self.clean[rows])
        if not _by_table(self.words, len(clean), self.offset[1]):
            return [(False, np.arange(len(rows)))]
        if len(clean) == len(rows):
            return [(True, clean)]
        return [(True, clean), (False, np.flatnonzero(~self.clean[rows]))]

    def dot(self, w: Array, columns: int, lo: int, hi: int) -> Array:
        out = np.zeros((columns, hi - lo))
        for tables, which in self._groups(np.arange(lo, hi)):
            kernel = kmers.positional_dot_tables if tables else kmers.positional_dot_words
            part = out if len(which) == hi - lo else np.zeros((columns, len(which)))
            kernel(self.letters, self.offset, *self.words.packed, w, columns, lo + which, part)
            if part is not out:
                out[:, which] = part
        return out

    def accumulate(self, coef: Array, columns: int, lo: int, hi: int, out: Array) -> None:
        active = np.flatnonzero(coef.any(axis=0))
        for tables, which in self._groups(lo + active):
            kernel = (
                kmers.positional_accumulate_tables if tables else kmers.positional_accumulate_words
            )
            rows = active[which]
            part = np.ascontiguousarray(coef[:, rows])
            kernel(self.letters, self.offset, *self.words.packed, part, columns, lo + rows, out)

    def kernel_dot(self, coef: Array, columns: int) -> Array | None:
        """``X X' coef`` for all rows; None if tables of sums are not valid for all rows. They always pay off:
        filling them costs less than filling a weight vector."""
        if not self.all_clean:
            return None
        out, rows = np.zeros((columns, self.n_rows)), np.arange(self.n_rows)
        kmers.positional_kernel_dot(
            self.letters, self.offset, *self.words.packed, coef, columns, rows, out
        )
        return out

    def rows(self, rows: IntArray, capacity: int) -> Rows:
        found = empty_rows(len(rows), capacity, self.n_features)
        strings = np.ascontiguousarray(self.letters[:, rows].T)
        kmers.positional_rows(strings, self.offset, *self.words.packed, *found)
        return found

    def describe(self, j: int) -> str:
        p = int(np.searchsorted(self.offset, j, side="right")) - 1
        return f"{self.words.spell(j - int(self.offset[p]))} at {p + self.shift}"

    def column(self, word: str, position: int | None) -> int:
        if position is None:
            raise ValueError("position is required: features are words at positions.")
        p, j = position - self.shift, self.words.number(word)
        if not 0 <= p <= len(self.letters) - len(word):
            raise ValueError(f"{word!r} at {position} is outside the positions of the strings.")
        return int(self.offset[p]) + j


class Counted:
    """One table for all positions, for concatenated strings of any lengths."""

    def __init__(self, words: Words, letters: Bytes, indptr: IntArray) -> None:
        self.words, self.letters, self.indptr = words, letters, indptr
        self.n_rows = len(indptr) - 1
        self.n_features = words.count(words.last)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(thawed(state))

    def part(self, lo: int, hi: int) -> Counted:
        """The rows ``lo .. hi-1`` alone."""
        first, last = int(self.indptr[lo]), int(self.indptr[hi])
        return Counted(self.words, self.letters[first:last], self.indptr[lo : hi + 1] - first)

    def norms(self) -> tuple[IntArray, Array]:
        """Number of distinct words in each row, and the squared norm of each row."""
        counts, squares = np.zeros(self.n_rows, np.int64), np.zeros(self.n_rows)
        rows = np.arange(self.n_rows)
        kmer_counts.counts_norms(
            self.letters, self.indptr, *self.words.packed, rows, counts, squares
        )
        return counts, squares

    def dot(self, w: Array, columns: int, lo: int, hi: int) -> Array:
        out = np.empty((columns, hi - lo))
        by_table = _by_table(self.words, self.indptr[hi] - self.indptr[lo], self.n_features)
        kernel = kmer_counts.counts_dot_table if by_table else kmer_counts.counts_dot_words
        kernel(self.letters, self.indptr, *self.words.packed, w, columns, lo, hi, out)
        return out

    def accumulate(self, coef: Array, columns: int, lo: int, hi: int, out: Array) -> None:
        by_table = _by_table(self.words, self.indptr[hi] - self.indptr[lo], self.n_features)
        kernel = (
            kmer_counts.counts_accumulate_table if by_table else kmer_counts.counts_accumulate_words
        )
        kernel(self.letters, self.indptr, *self.words.packed, coef, columns, lo, hi, out)

    def rows(self, rows: IntArray, capacity: int) -> Rows:
        found = empty_rows(len(rows), capacity, self.n_features)
        kmer_counts.counts_rows(self.letters, self.indptr, *self.words.packed, rows, *found)
        return found

    def describe(self, j: int) -> str:
        return self.words.spell(j)

    def column(self, word: str, position: int | None) -> int:
        if position is not None:
            raise ValueError("counted words have no position.")
        return self.words.number(word)


def _by_table(words: Words, visits: int, size: int) -> bool:
    """Whether a table of sums pays off for this number of lookups: it replaces the lookups of all orders but
    one."""
    return WORTH_FILLING * visits * (words.last - words.first) > size


def empty_rows(n: int, capacity: int, n_features: int) -> Rows:
    """Allocate n rows: indptr, indices and data; indices have 32 bits if possible."""
    kind: Any = np.int32 if max(capacity, n_features) < 2**31 else np.int64
    return np.zeros(n + 1, dtype=kind), np.empty(capacity, dtype=kind), np.empty(capacity)
