"""The columns of named features, and the entries of the matrix of a sequence of tokens.

Building the string ``word=sun`` and looking it up costs more than everything else. Code in C does so without
Python objects (``compiled/_names.c``). Where there is none, and for hashed names, a column is found in a
table of tables, ``codes["word"]["sun"]``, which is filled when a feature first occurs.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from maxmargin.compiled.precompiled import compiled_names
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.tokens.token_features import PLAIN, cut, features_of

#: number of features whose hashed columns are remembered
REMEMBERED = 1_000_000
#: number of features other than strings and 1 whose codes are remembered
NUMBERS = 1_000
#: columns (-1: none) and values of features, where those of each token end, and which tokens are lists
Entries = tuple[npt.NDArray[Any], Array, IntArray, list[int]]


class TokenRows(NamedTuple):
    """Tokens as the arrays of a CSR matrix, sorted by column. For one sentence, to make the matrix would take
    longer than to label its tokens."""

    indptr: IntArray
    indices: npt.NDArray[Any]
    data: Array
    shape: tuple[int, int]

    def matrix(self) -> sp.csr_matrix:
        """The matrix."""
        kind = np.int32 if len(self.indices) < 2**31 else np.int64
        parts = (self.data, self.indices.astype(kind, copy=False), self.indptr.astype(kind))
        return sp.csr_matrix(parts, shape=self.shape)


class NameColumns:
    """The columns of names, and codes of features.

    ``names`` has the columns of names that are known so far. The code of a feature is its column if its value
    is a string or 1, -1 if its name has no column, and -2 - k if column and value are row k of ``table``.
    ``codes[name][value]`` remembers the codes of strings and of the first few numbers. These are plain dicts:
    a look-up in a subclass with ``__missing__`` takes several times as long.

    Several threads may use one object: a row of the table is reserved in one step, and filled before its code
    is remembered.
    """

    #: whether entries are sorted by column, each column once
    sorts = False

    def __init__(self, names: dict[Any, int], room: float = float("inf")) -> None:
        self.names, self.room = names, room
        self.codes: dict[Any, dict[Any, int]] = {}
        self.table: Array = np.zeros((NUMBERS, 2))
        self._rows = itertools.count()

    def of(self, name: object) -> int:
        """The column of a name, -1 if there is none."""
        raise NotImplementedError

    def in_order(self) -> list[Any]:
        """All names, by column."""
        return list(self.names)

    def entries(self, X: Iterable[object], first: int = 0) -> Entries:
        """All features of all tokens. In errors, the first sequence has the number ``first``."""
        codes, ends = array("i"), array("q", [0])
        more: list[tuple[int, float]] = []
        lists: list[int] = []
        for i, sequence in enumerate(X, first):
            for t, token in enumerate(_tokens(sequence, i)):
                if type(token) is list:
                    lists.append(len(ends) - 1)
                    codes.fromlist(self.of_list(token, i, t))
                else:
                    codes.fromlist(self.of_dict(token, i, t, more))
                ends.append(len(codes))
        return *_decoded(np.array(codes, dtype=np.int64), self, more), np.array(ends), lists

    def of_list(self, token: list[Any], i: int, t: int) -> list[int]:
        """The columns of a list of names, token t of sequence i."""
        get = self.names.get
        found = [get(name, -1) for name in token]
        if -1 in found:
            for k, name in enumerate(token):
                if found[k] < 0:
                    if type(name) is not str:
                        features_of(token, i, t)  # raises an error unless these are strings
                    found[k] = self.of(name)
        return found

    def of_dict(
        self, token: Mapping[Any, Any], i: int, t: int, more: list[tuple[int, float]]
    ) -> list[int]:
        """The codes of a dict of features, token t of sequence i."""
        codes = self.codes
        try:
            found: list[Any] = [codes[name].get(value) for name, value in token.items()]
        except (KeyError, TypeError, AttributeError):
            # a new name, a value that is not plain, or a token that is no dict
            return self._of_features(features_of(token, i, t), more)
        if None in found:  # values that are not remembered
            for k, (name, value) in enumerate(token.items()):
                if found[k] is None:
                    if type(value) not in PLAIN:
                        return self._of_features(features_of(token, i, t), more)
                    found[k] = self.code(name, value, more)
        return found

    def _of_features(self, token: Mapping[Any, Any], more: list[tuple[int, float]]) -> list[int]:
        """The codes of features whose values are numbers, strings or lists of strings."""
        return [
            self.code(name, inner, more)
            for name, value in token.items()
            for inner in (value if type(value) is list else (value,))
        ]

    def code(self, name: object, value: Any, more: list[tuple[int, float]]) -> int:
        """The code of a feature. ``more`` continues ``table`` with numbers that are not remembered."""
        if isinstance(value, str):
            column = self.of(f"{name}={value}")
            return self._remember(name, value, column)
        column = self.of(name)
        if value == 1 or column < 0:
            return self._remember(name, value, column)
        try:
            other = column, float(value)
        except OverflowError as error:
            raise ValueError(
                f"the feature {cut(name)} has too large a value: scale it, or leave it out."
            ) from error
        if self.room > 0 and value == value and (row := next(self._rows)) < NUMBERS:
            self.table[row] = other
            return self._remember(name, value, -2 - row)
        more.append(other)
        return -1 - NUMBERS - len(more)

    def _remember(self, name: object, value: object, code: int) -> int:
        if code != -1 and self.room > 0:  # names without a column would need more and more memory
            self.room -= 1
            self.codes.setdefault(name, {})[value] = code
        return code


class NewNames(NameColumns):
    """Columns in order of first occurrence."""

    def __init__(self) -> None:
        super().__init__({})

    def of(self, name: object) -> int:
        return self.names.setdefault(name, len(self.names))


class KnownNames(NameColumns):
    """The columns of a vocabulary."""

    def __init__(self, vocabulary: dict[Any, int]) -> None:
        super().__init__(vocabulary)

    def of(self, name: object) -> int:
        return self.names.get(name, -1)


class HashedNames(NameColumns):
    """The columns of hashed names."""

    def __init__(self, n_columns: int) -> None:
        super().__init__({}, REMEMBERED)
        self.n_columns = n_columns

    def of_list(self, token: list[Any], i: int, t: int) -> list[int]:
        return super().of_list(list(features_of(token, i, t)), i, t)

    def of(self, name: object) -> int:
        column = crc32(str(name).encode("utf-8", "surrogatepass")) % self.n_columns
        if len(self.names) < REMEMBERED and type(name) is str:
            self.names[name] = column
        return column


class CompiledNames(NameColumns):
    """The columns of a vocabulary, or columns in order of first occurrence, found by code in C.

    What that code does not read, tokens and names of unusual types, is left to the base class: ``names`` is
    the vocabulary, or has the new names of unusual types.
    """

    def __init__(
        self, vocabulary: dict[Any, int] | None = None, names: Sequence[object] = ()
    ) -> None:
        super().__init__({} if vocabulary is None else vocabulary, room=0)
        self.adds, self.compiled = vocabulary is None, compiled_names()(names)
        self.sorts = not self.adds

    def of(self, name: object) -> int:
        if self.adds and isinstance(name, str):
            plain, found = str(name), bytearray()
            equal = name == plain and hash(name) == hash(plain)
            if equal and self.compiled.read([plain], 0, found, bytearray(), bytearray(), True):
                return array("i", found)[0]
        if self.adds and name not in self.names:
            self.names[name] = self.compiled.append(name)
        return self.names.get(name, -1)

    def in_order(self) -> list[Any]:
        found: list[Any] = self.compiled.names
        return found

    def entries(self, X: Iterable[object], first: int = 0) -> Entries:
        read, columns, values, ends = self.compiled.read, bytearray(), bytearray(), bytearray(8)
        lists: list[int] = []
        for i, sequence in enumerate(X, first):
            tokens, t, row = _tokens(sequence, i), 0, len(ends) // 8 - 1
            lists += [row + k for k, token in enumerate(tokens) if type(token) is list]
            while (t := read(tokens, t, columns, values, ends, self.adds)) < len(tokens):
                found = self._unusual(tokens[t], i, t)
                columns += array("i", [column for column, _ in found])
                values += array("d", [value for _, value in found])
                ends += array("q", [len(values) // 8])
                t += 1
        packed = (
            np.frombuffer(columns, np.int32),
            np.frombuffer(values),
            np.frombuffer(ends, np.int64),
        )
        return *packed, lists

    def _unusual(self, token: Any, i: int, t: int) -> list[tuple[int, float]]:
        more: list[tuple[int, float]] = []
        codes = (
            self.of_list(token, i, t) if type(token) is list else self.of_dict(token, i, t, more)
        )
        numbers = iter(more)
        found = [(code, 1.0) if code >= -1 else next(numbers) for code in codes]
        return found if self.adds else _joined(found, type(token) is list)


def _joined(entries: Iterable[tuple[int, float]], is_list: bool) -> list[tuple[int, float]]:
    """The entries of a token that have a column, sorted, each column once; as in ``_names.c``."""
    total: dict[int, float] = {}
    for column, value in entries:
        if column >= 0:
            total[column] = value if is_list else total.get(column, 0.0) + value
    return sorted(total.items())


def new_names() -> NameColumns:
    """Columns of names in order of first occurrence."""
    return CompiledNames() if compiled_names() else NewNames()


def known_names(vocabulary: dict[Any, int], names: Sequence[object]) -> NameColumns:
    """The columns of a vocabulary, whose names are given in order."""
    return CompiledNames(vocabulary, names) if compiled_names() else KnownNames(vocabulary)


def in_final_order(
    names: Sequence[Any], counts: IntArray, min_count: int
) -> tuple[list[Any], IntArray]:
    """The names that occur often enough, sorted, and the place of each old column among them (-1: none)."""
    order = sorted(np.flatnonzero(counts >= min_count).tolist(), key=names.__getitem__)
    place = np.full(len(names), -1)
    place[order] = np.arange(len(order))
    return [names[k] for k in order], place


# -- entries of the matrix -------------------------------------------------------------------------


def _tokens(sequence: Any, i: int) -> list[Any]:
    """The tokens of sequence i."""
    if isinstance(sequence, str | bytes | Mapping):
        raise TypeError(
            f"sequence {i} of X is {cut(sequence)}, which is one token: X must be a list of sequences of "
            "tokens. For one sequence, pass [X]."
        )
    return sequence if type(sequence) is list else list(sequence)


def _decoded(
    codes: IntArray, names: NameColumns, more: list[tuple[int, float]]
) -> tuple[IntArray, Array]:
    """Columns and values of codes."""
    columns, values = codes.copy(), np.ones(len(codes))
    places = np.flatnonzero(codes < -1)
    if len(places):
        table = names.table
        if more:
            table = np.concatenate([table, more])
        found = table[-2 - codes[places]]
        columns[places], values[places] = found[:, 0].astype(np.int64), found[:, 1]
    return columns, values


def known_entries(
    columns: IntArray, values: Array, ends: IntArray
) -> tuple[IntArray, Array, IntArray]:
    """The entries of names that have a column."""
    if not len(columns) or columns.min() >= 0:
        return columns, values, ends
    is_known = columns >= 0
    ends = np.concatenate([[0], np.cumsum(is_known)])[ends]
    return columns[is_known], values[is_known], ends


def token_matrix(
    columns: IntArray, values: Array, ends: IntArray, n_columns: int, lists: list[int]
) -> sp.csr_matrix:
    kind = np.int32 if len(columns) < 2**31 else np.int64
    parts = (values, columns.astype(kind, copy=False), ends.astype(kind))
    matrix = sp.csr_matrix(parts, shape=(len(ends) - 1, n_columns))
    matrix.sum_duplicates()  # also sorts
    if matrix.nnz < len(columns) and lists:  # in a list, a name that is repeated still means 1
        sizes = np.diff(matrix.indptr)
        is_list = np.zeros(len(sizes), dtype=bool)
        is_list[lists] = True
        matrix.data[np.repeat(is_list, sizes)] = 1.0
    return matrix
