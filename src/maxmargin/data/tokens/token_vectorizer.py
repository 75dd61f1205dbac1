"""Sequences of tokens with named features as one sparse matrix.

A feature of a token becomes a column: ``{"length": 3}`` has the value 3 in the column ``length``, and
``{"word": "sun"}`` the value 1 in the column ``word=sun``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from maxmargin.core.checks import integer
from maxmargin.data.tokens.name_columns import (
    HashedNames,
    NameColumns,
    TokenRows,
    in_final_order,
    known_entries,
    known_names,
    new_names,
    token_matrix,
)


class TokenVectorizer:
    """Turn sequences of tokens with named features into one sparse matrix, with a row per token.

    A token is a dict of features, a list, tuple or set of strings, or a string. In a dict, a number is the
    value of the column ``name``, a string ``value`` means 1 in the column ``name=value``, a list of strings
    means 1 for each of them, and a nested dict has the columns ``name:inner``, as in python-crfsuite. Columns
    are sorted by name, as in scikit-learn's ``DictVectorizer``, which takes about twice as long.

    :class:`maxmargin.SequenceTagger` uses it for tokens with named features.

    Parameters
    ----------
    n_hashed : int, optional
        Number of columns. If it is given, names are hashed to columns. No vocabulary is stored then, so that
        memory is bounded and :meth:`fit` is not needed; different names may share a column. By default, every
        name that occurs in :meth:`fit` has its own column, and other names are ignored in :meth:`transform`.
    min_count : int, default 1
        Names that occur fewer times in :meth:`fit` have no column. Names that are hashed are not counted.

    Attributes
    ----------
    feature_names_ : list
        The names of the columns. Not available if names are hashed.
    vocabulary_ : dict
        The column of each name. Not available if names are hashed.

    Examples
    --------
    >>> from maxmargin.data import TokenVectorizer
    >>> X = [[{"word": "sun", "length": 3}, {"word": "shines", "length": 6}], [{"word": "sun", "length": 3}]]
    >>> vectorizer = TokenVectorizer()
    >>> vectorizer.fit_transform(X).toarray()
    array([[3., 0., 1.],
           [6., 1., 0.],
           [3., 0., 1.]])
    >>> vectorizer.feature_names_
    ['length', 'word=shines', 'word=sun']
    """

    vocabulary_: dict[Hashable, int]
    feature_names_: list[Any]

    def __init__(self, n_hashed: int | None = None, min_count: int = 1) -> None:
        self.n_hashed = n_hashed
        self.min_count = min_count
        self._columns: NameColumns | None = None  # not stored with the vectorizer

    def fit(self, X: Iterable[object], y: Any = None) -> Self:
        """Give every name that occurs ``min_count`` times in X a column.

        Parameters
        ----------
        X : iterable of sequences of tokens
        y : ignored

        Returns
        -------
        self
        """
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Iterable[object], y: Any = None) -> sp.csr_matrix:
        """Give every name that occurs ``min_count`` times in X a column, and transform X.

        Parameters
        ----------
        X : iterable of sequences of tokens
        y : ignored

        Returns
        -------
        csr_matrix of shape (n_tokens, n_columns)
        """
        self._check()
        if self.n_hashed is not None:
            return self.transform(X)
        found = new_names()
        columns, values, ends, lists = found.entries(X)
        names = found.in_order()
        counts = np.bincount(columns, minlength=len(names))
        try:
            known, place = in_final_order(names, counts, self.min_count)
        except TypeError as error:
            raise TypeError(
                "names of features must be strings, but X has names of different types, which cannot be "
                f"sorted: {error}."
            ) from error
        self.set_names(known)
        return token_matrix(*known_entries(place[columns], values, ends), len(known), lists)

    def transform(self, X: Iterable[object]) -> sp.csr_matrix:
        """Transform X.

        Parameters
        ----------
        X : iterable of sequences of tokens

        Returns
        -------
        csr_matrix of shape (n_tokens, n_columns)
        """
        return self._matrix(X)

    def _matrix(self, X: Iterable[object], first: int = 0) -> sp.csr_matrix:
        """Transform X, whose first sequence has this number in errors."""
        rows = self._rows(X, first)
        return rows.matrix() if isinstance(rows, TokenRows) else rows

    def _rows(self, X: Iterable[object], first: int = 0) -> sp.csr_matrix | TokenRows:
        """The same, without making a matrix if possible."""
        self._check()
        names = self._names()
        columns, values, ends, lists = names.entries(X, first)
        n_columns = self.n_hashed or len(self.feature_names_)
        if names.sorts:
            return TokenRows(ends, columns, values, (len(ends) - 1, n_columns))
        if self.n_hashed is None:
            columns, values, ends = known_entries(columns, values, ends)
        if self.n_hashed is not None:  # names that share a column add up
            lists = []
        return token_matrix(columns, values, ends, n_columns, lists)

    def set_names(self, names: Sequence[object]) -> Self:
        """Set the names of the columns, such as those of a stored vectorizer.

        Parameters
        ----------
        names : list
            One name per column.

        Returns
        -------
        self
        """
        self.feature_names_ = list(names)
        self.vocabulary_ = {name: k for k, name in enumerate(self.feature_names_)}
        self._columns = None
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_columns": None}

    def _names(self) -> NameColumns:
        if self._columns is None:
            if self.n_hashed is not None:
                self._columns = HashedNames(self.n_hashed)
            elif not hasattr(self, "vocabulary_"):
                raise ValueError("this TokenVectorizer is not fitted yet: call fit first.")
            else:
                self._columns = known_names(self.vocabulary_, self.feature_names_)
        return self._columns

    def _check(self) -> None:
        integer("min_count", self.min_count)
        if self.n_hashed is None:
            return
        if self.min_count > 1:
            raise ValueError(
                f"min_count={self.min_count} counts names, and n_hashed={self.n_hashed} stores none: leave "
                "out one of them."
            )
        if not isinstance(self.n_hashed, int | np.integer) or not 1 <= self.n_hashed < 2**31:
            raise ValueError(
                f"n_hashed={self.n_hashed!r}: give a number of columns from 1 to 2**31 - 1, or None."
            )
