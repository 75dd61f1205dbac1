"""Sequence alignment: learn substitution and gap scores.

x          (a, b), two sequences of symbols (strings, or lists of hashable objects)
y          the aligned pairs of positions (i, j), increasing in both
Psi        counts of aligned pairs of symbols, of unpaired symbols, and of runs of unpaired symbols
Delta      number of pairs that are in one alignment only
           = |y| + sum over pairs of y^ of (-1 if the pair is in y, else +1)
argmax     a dynamic program (:mod:`maxmargin.compiled.alignment`). Delta is a sum over pairs, so
           loss-augmented inference runs the same program with other pair scores.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.compiled.alignment import align
from maxmargin.core.vectors import Array, IntArray
from maxmargin.tasks.base import Task

Pairs = npt.NDArray[np.int64]


class Alignment(Task):
    """Align pairs of sequences with learned substitution and gap scores.

    Inputs are pairs of sequences (a, b). Outputs are arrays of shape (k, 2) with the aligned positions,
    increasing in both columns; for training, lists of pairs are also accepted. The loss is the number of
    pairs that are in one of the two alignments only.

    Parameters
    ----------
    symmetric : bool, default True
        Whether the score of aligning p with q equals that of aligning q with p. If False, the two sequences
        can have different sets of symbols.
    affine : bool, default False
        Whether each run of gaps has a score, in addition to the score of each unpaired symbol (affine gap
        costs).
    symbols : sequence, optional
        The set of symbols. The default is the symbols that occur in the training data.

    Attributes
    ----------
    symbols_ : list
        The symbols, sorted, in the order of the weights.
    feature_names : list
        Names of the weights: (p, q) for pairs of symbols, "gap", and "open" if ``affine``.

    Examples
    --------
    >>> from maxmargin import StructuredSVM
    >>> from maxmargin.tasks import Alignment
    >>> pair = Alignment.from_rows("ACGT-A", "A-GTTA")
    >>> pair
    (('ACGTA', 'AGTTA'), array([[0, 0],
           [2, 1],
           [3, 2],
           [4, 4]]))
    >>> svm = StructuredSVM(Alignment()).fit([pair[0]], [pair[1]])
    >>> x = ("GATTA", "GTTA")
    >>> Alignment.to_rows(x, svm.predict([x])[0])
    ('GATTA', 'G-TTA')
    """

    def __init__(
        self, symmetric: bool = True, affine: bool = False, symbols: Sequence[Any] | None = None
    ) -> None:
        self.symmetric = symmetric
        self.affine = affine
        self.symbols = symbols
        if symbols is not None:
            self._learn(symbols)

    # -- the task ---------------------------------------------------------------------------------

    def setup(self, X: Sequence[Any], Y: Sequence[Any]) -> int:
        if self.symbols is None:
            self._learn(symbol for a, b in X for sequence in (a, b) for symbol in sequence)
        for i, (x, y) in enumerate(zip(X, Y, strict=True)):
            try:
                self._encode(x)
                _check(x, _pairs(y))
            except ValueError as error:
                raise ValueError(f"example {i}: {error}") from None
        return self.dim

    def _learn(self, symbols: Iterable[Hashable]) -> None:
        seen: set[Any] = set(symbols)
        if any(isinstance(symbol, float) and symbol != symbol for symbol in seen):
            raise ValueError("symbols must not be NaN. Remove it, or replace it by another symbol.")
        try:
            self.symbols_: list[Any] = sorted(seen)
        except TypeError:  # symbols of different types cannot be compared: sort by repr
            self.symbols_ = sorted(seen, key=repr)
        self._number = {symbol: k for k, symbol in enumerate(self.symbols_)}

    @property
    def dim(self) -> int:
        """Number of weights: pairs of symbols, gap and, if ``affine``, gap opening."""
        K = len(self.symbols_)
        return (K * (K + 1) // 2 if self.symmetric else K * K) + 1 + int(self.affine)

    @property
    def feature_names(self) -> list[Any]:
        """Names of the weights, in their order."""
        symbols = self.symbols_
        names: list[Any] = [
            (p, q)
            for i, p in enumerate(symbols)
            for q in (symbols[: i + 1] if self.symmetric else symbols)
        ]
        return names + ["gap"] + (["open"] if self.affine else [])

    def joint_feature(self, x: Any, y: Any) -> Array:
        a, b = self._encode(x)
        y = _pairs(y)
        psi: Array = np.zeros(self.dim)
        np.add.at(psi, self._place(a[y[:, 0]], b[y[:, 1]]), 1.0)
        tail = self.dim - 1 - int(self.affine)
        psi[tail] = len(a) + len(b) - 2 * len(y)
        if self.affine:
            ends = np.concatenate([[[-1, -1]], y, [[len(a), len(b)]]])
            psi[tail + 1] = np.count_nonzero(np.diff(ends, axis=0) > 1)
        return psi

    def loss(self, y: Any, y_hat: Any) -> float:
        truth, found = _as_set(y), _as_set(y_hat)
        return float(len(truth ^ found))

    def same(self, y_a: Any, y_b: Any) -> bool:
        return bool(np.array_equal(_pairs(y_a), _pairs(y_b)))

    def inference(self, x: Any, w: Array) -> Pairs:
        return self._best(self._scores(x, w), w)

    def loss_augmented_inference(self, x: Any, y: Any, w: Array) -> Pairs:
        scores, y = self._scores(x, w) + 1.0, _pairs(y)
        scores[y[:, 0], y[:, 1]] -= 2.0
        return self._best(scores, w)

    # -- scores -----------------------------------------------------------------------------------

    def substitutions(self, w: Array) -> Array:
        """The substitution scores as a matrix, in the order of ``symbols_``."""
        every = np.arange(len(self.symbols_))
        return w[self._place(every[:, None], every)]

    def _place(self, p: IntArray, q: IntArray) -> IntArray:
        """Index of the weight of a pair of symbols."""
        if not self.symmetric:
            return p * len(self.symbols_) + q
        low, high = np.minimum(p, q), np.maximum(p, q)
        return high * (high + 1) // 2 + low

    def _scores(self, x: Any, w: Array) -> Array:
        a, b = self._encode(x)
        return w[self._place(a[:, None], b)]

    def _best(self, scores: Array, w: Array) -> Pairs:
        tail = self.dim - 1 - int(self.affine)
        opening = float(w[tail + 1]) if self.affine else 0.0
        pairs = np.empty((min(scores.shape), 2), dtype=np.int64)
        _, count = align(np.ascontiguousarray(scores), float(w[tail]), opening, pairs)
        return pairs[:count][::-1].copy()

    def _encode(self, x: Any) -> tuple[IntArray, IntArray]:
        try:
            a, b = (np.array([self._number[s] for s in part], dtype=np.int64) for part in x)
        except KeyError as error:
            raise ValueError(
                f"the symbol {error.args[0]!r} is unknown: it is neither in the training data nor in symbols."
            ) from None
        return a, b

    # -- conversion from and to strings -----------------------------------------------------------

    @staticmethod
    def from_rows(top: Sequence[Any], bottom: Sequence[Any], gap: Any = "-") -> tuple[Any, Pairs]:
        """Make (x, y) from two rows of equal length, padded with ``gap`` where a symbol is unpaired."""
        if len(top) != len(bottom):
            raise ValueError(
                f"the two rows must have equal lengths, got {len(top)} and {len(bottom)}."
            )
        upper, lower = ([s != gap for s in row] for row in (top, bottom))
        if any(not (p or q) for p, q in zip(upper, lower, strict=True)):
            raise ValueError("both rows have a gap in the same column. Remove that column.")
        i, j = np.cumsum(upper) - 1, np.cumsum(lower) - 1
        both = np.array(upper, dtype=bool) & np.array(lower, dtype=bool)
        parts = [[s for s in row if s != gap] for row in (top, bottom)]
        texts = isinstance(top, str) and isinstance(bottom, str)
        a, b = ("".join(part) if texts else part for part in parts)
        return (a, b), np.column_stack([i[both], j[both]]).astype(np.int64)

    @staticmethod
    def to_rows(x: Any, y: Any, gap: str = "-") -> tuple[str, str]:
        """Write an alignment as two strings, with ``gap`` opposite each unpaired symbol."""
        a, b = x
        top, bottom = [], []
        i = j = 0
        for p, q in [*_pairs(y).tolist(), [len(a), len(b)]]:
            top += [*map(str, a[i:p]), *[gap] * (q - j)]
            bottom += [*[gap] * (p - i), *map(str, b[j:q])]
            if p < len(a) and q < len(b):
                top.append(str(a[p]))
                bottom.append(str(b[q]))
            i, j = p + 1, q + 1
        return "".join(top), "".join(bottom)


def _pairs(y: Any) -> Pairs:
    return np.asarray(y, dtype=np.int64).reshape(-1, 2)


def _as_set(y: Any) -> set[tuple[int, int]]:
    return {(i, j) for i, j in _pairs(y).tolist()}


def _check(x: Any, y: Pairs) -> None:
    a, b = x
    if len(y) and (y.min() < 0 or y[:, 0].max() >= len(a) or y[:, 1].max() >= len(b)):
        raise ValueError(
            f"an aligned pair is outside the sequences, whose lengths are {len(a)} and {len(b)}."
        )
    if (np.diff(y, axis=0) < 1).any():
        raise ValueError("the aligned pairs must be strictly increasing in both positions.")
