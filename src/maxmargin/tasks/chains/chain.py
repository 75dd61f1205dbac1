"""First-order chains: one label per token of a sequence (tagging, chunking, handwriting recognition).

    Psi(x, y)     =  sum_t x_t in column y_t  +  transitions y_{t-1} -> y_t  +  start y_0  +  stop y_{T-1}
    Delta(y, y^)  =  sum_t weight_t cost[y_t, y^_t]

An input is a sparse or dense matrix with one row of features per token. An output is an array of labels from
0 to K-1, or, for training, a :class:`WeightedLabels`. The weight vector holds the weights of features x
labels, then those of transitions [from, to], start and stop.

The methods of this file are the NumPy implementation, for one sequence at a time. ``pack`` returns the
compiled form that training uses; tests compare the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from maxmargin.compiled.chain_slack import slack_path
from maxmargin.core.checks import cost_matrix, integer, nonnegative
from maxmargin.core.matrices import checked, numbered
from maxmargin.core.vectors import Array, SparseVector, from_pairs
from maxmargin.tasks.base import Task
from maxmargin.tasks.chains.examples import ChainExamples, label_dtype, stack_rows
from maxmargin.tasks.slack_search import common_divisor

Labels = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

#: maximum number of cells (token, loss, label) of the table for slack rescaling, four bytes each
MOST_CELLS = 50_000_000


class WeightedLabels(NamedTuple):
    """Labels of a training sequence, with a multiplier of ``cost`` for each token.

    With weight 0, an error at that token costs nothing. Use it for tokens whose label is a guess.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.tasks import Chain, WeightedLabels
    >>> y = WeightedLabels(np.array([0, 1, 1]), np.array([1.0, 0.0, 2.0]))
    >>> Chain(n_labels=2).loss(y, np.array([1, 0, 0]))
    3.0
    """

    labels: Labels
    weight: Array


class Chain(Task):
    """Label every token of a sequence, with scores of tokens and of pairs of neighboring labels.

    Parameters
    ----------
    n_labels : int
        Number of labels K.
    n_features : int, optional
        Number of columns of the inputs. By default, ``setup`` takes it from the first input.
    cost : (K, K) array, optional
        ``cost[i, j]`` is the cost of predicting label j when the true label is i: nonnegative, zero on the
        diagonal. The default is 0/1.
    allowed : (K, K) bool array, optional
        ``allowed[a, b]`` says whether label b may follow label a. The default allows all transitions.
    allowed_start, allowed_stop : (K,) bool arrays, optional
        Labels that may start and end a sequence. The default allows all.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.tasks.chains.chain import Chain
    >>> task = Chain(n_labels=2)
    >>> task.setup([np.eye(3)], [np.array([0, 1, 1])])
    14
    >>> w = np.zeros(14)
    >>> w[[0, 3]] = 1.0         # feature 0 indicates label 0, feature 1 label 1
    >>> w[9] = 0.5              # label 1 often follows label 1
    >>> task.inference(np.eye(3), w)
    array([0, 1, 1], dtype=uint8)
    """

    def __init__(
        self,
        n_labels: int,
        n_features: int | None = None,
        cost: npt.ArrayLike | None = None,
        allowed: npt.ArrayLike | None = None,
        allowed_start: npt.ArrayLike | None = None,
        allowed_stop: npt.ArrayLike | None = None,
    ) -> None:
        self.n_labels: int = integer("n_labels", n_labels)
        K = self.n_labels
        self.n_features = n_features
        self.cost = cost_matrix("cost", 1.0 - np.eye(K) if cost is None else cost, K)
        self.allowed = _mask("allowed", allowed, (K, K))
        self.allowed_start = _mask("allowed_start", allowed_start, (K,))
        self.allowed_stop = _mask("allowed_stop", allowed_stop, (K,))
        every = np.concatenate([self.allowed.ravel(), self.allowed_start, self.allowed_stop])
        #: 0 for each allowed transition, start and stop, -inf for the others, in the order of the weights
        self.penalty: Array = np.where(every, 0.0, -np.inf)

    # -- the task ---------------------------------------------------------------------------------

    @property
    def dim(self) -> int:
        """Length of the weight vector."""
        if self.n_features is None:
            raise ValueError(
                "n_features is unknown: call setup(X, Y) first, or pass n_features to Chain"
            )
        return self.n_features * self.n_labels + len(self.penalty)

    def setup(self, X: Sequence[Any], Y: Sequence[Any]) -> int:
        if self.n_features is None:
            if len(X) == 0:
                raise ValueError(
                    "X is empty, so the number of features is unknown: pass n_features to Chain"
                )
            self.n_features = int(X[0].shape[1])
        for i, x in enumerate(X):
            checked(x, f"sequence {i}", numbered("token"))
        labels = [_labels(y) for y in Y]
        lengths = np.array([len(y) for y in labels], dtype=np.int64)
        self.check_labels(_concatenate(labels), lengths)
        return self.dim

    def joint_feature(self, x: Any, y: Any) -> SparseVector:
        return from_pairs(*self._features(x, _labels(y), 1.0), self.dim)

    def difference(self, x: Any, y_a: Any, y_b: Any) -> SparseVector:
        """Psi(x, y_a) - Psi(x, y_b)."""
        plus = self._features(x, _labels(y_a), 1.0)
        minus = self._features(x, _labels(y_b), -1.0)
        return from_pairs(
            np.concatenate([plus[0], minus[0]]), np.concatenate([plus[1], minus[1]]), self.dim
        )

    def same(self, y_a: Any, y_b: Any) -> bool:
        """Whether two labelings are equal, ignoring token weights."""
        return bool(np.array_equal(_labels(y_a), _labels(y_b)))

    def loss(self, y: Any, y_hat: Any) -> float:
        z = _labels(y_hat)
        losses = self._losses(y)
        return float(losses[np.arange(len(losses)), z].sum()) if len(losses) else 0.0

    def inference(self, x: Any, w: Array) -> Labels:
        return self._best_path(self._emissions(checked(x, "the sequence", numbered("token")), w), w)

    def loss_augmented_inference(self, x: Any, y: Any, w: Array) -> Labels:
        return self._best_path(self._emissions(x, w) + self._losses(y), w)

    def loss_step(self, x: Any, y: Any) -> float:
        """The largest common divisor of the costs, times token weights."""
        return common_divisor(self._losses(y).ravel().tolist())

    def slack_augmented_inference(self, x: Any, y: Any, w: Array) -> Any:
        """The labeling with the largest ``Delta (1 + <w, Psi(x, y^) - Psi(x, y)>)``.

        It is exact if costs (times token weights) are small integers: a dynamic program over the values of
        the loss (see :mod:`maxmargin.compiled.chain_slack`). Else it is the search of :class:`Task`.
        """
        truth, losses = _labels(y), self._losses(y)
        delta = losses.astype(np.int64)
        if len(truth) == 0:
            return truth
        most = int(delta.max(axis=1).sum())
        cells = len(truth) * (most + 1) * self.n_labels
        if cells > MOST_CELLS or not np.array_equal(delta, losses):
            return super().slack_augmented_inference(x, y, w)
        nodes = self._emissions(x, w)
        tail = w[w.size - len(self.penalty) :]
        path = truth.astype(label_dtype(self.n_labels))
        origin = np.empty((len(truth), most + 1, self.n_labels), dtype=np.int32)
        slack_path(nodes, delta, tail + self.penalty, self._score(nodes, tail, truth), origin, path)
        return path

    def complete(self, x: Any, y: Any, w: Array) -> Labels:
        """The labeling with the largest score among those that agree with ``y`` where ``y >= 0``."""
        nodes, given = self._emissions(x, w), np.asarray(y, dtype=np.int64)
        known = given >= 0
        other = known[:, None] & (np.arange(self.n_labels) != given[:, None])
        return self._best_path(np.where(other, -np.inf, nodes), w)

    def kernel_inputs(self, x: Any) -> Any:
        """The rows of the tokens. Transition, start and stop features do not depend on them."""
        return x

    def with_kernel_inputs(self, x: Any, rows: Any) -> Any:
        """The rows themselves, since a sequence is the matrix of its rows."""
        return rows

    def project_weights(self, w: Array, factor: Array) -> Array:
        """Multiply the weights of the features by ``factor``; only token scores depend on rows."""
        split = w.size - len(self.penalty)
        return np.concatenate([(factor @ w[:split].reshape(-1, self.n_labels)).ravel(), w[split:]])

    def pack(
        self, X: Sequence[Any], Y: Sequence[Any], token_weight: Sequence[Any] | None = None
    ) -> ChainExamples:
        """The examples in compiled form.

        Parameters
        ----------
        X, Y
            Sequences and their labels.
        token_weight : list of arrays, optional
            Multipliers of ``cost`` for each token. The default is 1, or the weights of a
            :class:`WeightedLabels`.
        """
        if token_weight is None and any(isinstance(y, WeightedLabels) for y in Y):
            token_weight = [_weight(y) for y in Y]
        Y = [_labels(y) for y in Y]
        lengths = np.array([len(y) for y in Y], dtype=np.int64)
        rows = np.array([x.shape[0] for x in X], dtype=np.int64)
        if not np.array_equal(rows, lengths):
            bad = (
                int(np.flatnonzero(rows != lengths)[0]) if len(X) == len(Y) else min(len(X), len(Y))
            )
            raise ValueError(
                f"X and Y differ in length at example {bad}: every token needs one label"
            )
        weight = None if token_weight is None else np.concatenate([*token_weight, np.empty(0)])
        stacked = stack_rows(X, self.n_features)
        return ChainExamples.from_stacked(self, stacked, lengths, _concatenate(Y), weight)

    # -- also used by the compiled form ------------------------------------------------------------

    def check_labels(self, y: Labels, lengths: npt.NDArray[np.int64]) -> None:
        """Raise a ValueError for labels outside 0 .. K-1 and for forbidden labelings.

        If the true labeling were forbidden, the risk could be negative and the certificate invalid.
        """
        if y.dtype.kind not in "iu" and y.size:
            raise ValueError(f"labels must be integers 0 .. {self.n_labels - 1}, got {y.dtype}")
        starts = np.concatenate([[0], np.cumsum(lengths)])

        def example(token: int) -> int:
            return int(np.searchsorted(starts, token, side="right")) - 1

        bad = np.flatnonzero((y < 0) | (y >= self.n_labels))
        if bad.size:
            raise ValueError(
                f"example {example(bad[0])} has label {y[bad[0]]}, but labels must be integers "
                f"0 .. {self.n_labels - 1}"
            )
        advice = "Correct the labels, drop the example, or change"
        firsts = starts[:-1][lengths > 0]
        lasts = starts[1:][lengths > 0] - 1
        for where, mask, word in (
            (firsts, self.allowed_start, "start"),
            (lasts, self.allowed_stop, "stop"),
        ):
            bad = where[~mask[y[where]]] if where.size else where
            if bad.size:
                raise ValueError(
                    f"example {example(bad[0])} has label {y[bad[0]]} at its {word}, which "
                    f"allowed_{word} forbids. {advice} allowed_{word}."
                )
        if y.size > 1 and not self.allowed.all():
            forbidden = ~self.allowed[y[:-1], y[1:]]
            forbidden[firsts[1:] - 1] = False  # from the end of one sequence to the next
            bad = np.flatnonzero(forbidden) + 1
            if bad.size:
                i = example(bad[0])
                raise ValueError(
                    f"example {i} goes from label {y[bad[0] - 1]} to label {y[bad[0]]} at token "
                    f"{bad[0] - starts[i]}, a transition that allowed forbids. {advice} allowed."
                )

    # -- NumPy implementation ---------------------------------------------------------------------

    def _features(self, x: Any, y: Labels, scale: float) -> tuple[npt.NDArray[np.int64], Array]:
        """Psi(x, y) as indices, which can repeat, and values."""
        rows, K = sp.coo_matrix(x), self.n_labels
        y = y.astype(np.int64)
        tail = self.dim - len(self.penalty)
        moves = tail + y[:-1] * K + y[1:]
        ends = np.array([tail + K * K + y[0], tail + K * K + K + y[-1]]) if len(y) else moves
        index = np.concatenate([rows.col.astype(np.int64) * K + y[rows.row], moves, ends])
        value = np.concatenate([rows.data, np.ones(len(index) - len(rows.data))])
        return index, scale * value.astype(np.float64)

    def _losses(self, y: Any) -> Array:
        """The loss of each label at each token."""
        return self.cost[_labels(y).astype(np.int64)] * _weight(y)[:, None]

    def _score(self, nodes: Array, tail: Array, y: Labels) -> float:
        """<w, Psi(x, y)> from token scores and the tail of w, for at least one token."""
        K, y = self.n_labels, y.astype(np.int64)
        moves = tail[: K * K].reshape(K, K)[y[:-1], y[1:]].sum()
        ends = tail[K * K + y[0]] + tail[K * K + K + y[-1]]
        return float(nodes[np.arange(len(y)), y].sum() + moves + ends)

    def _emissions(self, x: Any, w: Array) -> Array:
        W = w[: w.size - len(self.penalty)].reshape(-1, self.n_labels)
        return np.asarray(x @ W, dtype=np.float64)

    def _best_path(self, nodes: Array, w: Array) -> Labels:
        """The Viterbi algorithm; ties go to the smallest label."""
        K, T = self.n_labels, len(nodes)
        tail = w[w.size - len(self.penalty) :] + self.penalty
        moves, start, stop = tail[: K * K].reshape(K, K), tail[K * K : -K], tail[-K:]
        path = np.empty(T, dtype=label_dtype(K))
        if T == 0:
            return path
        best = nodes[0] + start
        origin = np.empty((T, K), dtype=np.int64)
        for t in range(1, T):
            totals = best[:, None] + moves
            origin[t] = totals.argmax(axis=0)
            best = totals.max(axis=0) + nodes[t]
        best = best + stop
        if best.max() == -np.inf:
            raise ValueError(
                f"the transition constraints allow no labeling of a sequence of length {T}. Relax allowed, "
                "allowed_start or allowed_stop."
            )
        path[-1] = best.argmax()
        for t in range(T - 1, 0, -1):
            path[t - 1] = origin[t, path[t]]
        return path


def _mask(name: str, mask: npt.ArrayLike | None, shape: tuple[int, ...]) -> Mask:
    out = np.ones(shape, dtype=bool) if mask is None else np.array(mask, dtype=bool)
    if out.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {out.shape}")
    return out


def _labels(y: Any) -> Labels:
    """The labels without weights."""
    return np.asarray(y.labels if isinstance(y, WeightedLabels) else y)


def _weight(y: Any) -> Array:
    """The weight of each token."""
    if not isinstance(y, WeightedLabels):
        return np.ones(len(y))
    return nonnegative(
        "the weight of WeightedLabels", y.weight, np.shape(y.labels), ", one per token"
    )


def _concatenate(Y: Sequence[Any]) -> Labels:
    parts = [np.asarray(y) for y in Y if len(y)]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
