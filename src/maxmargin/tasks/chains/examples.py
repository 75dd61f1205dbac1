"""Sequences packed for compiled inference: all tokens of all sequences in one sparse matrix.

A CSR matrix with floating-point data is used without a copy, and so are memory-mapped rows of a data set,
which are sent to other processes as names of files. Labels take one byte per token if K <= 256.
All sums are in float64, whatever the type of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from maxmargin.compiled.chain import Chains, oracle_range, predict_range
from maxmargin.core.checks import nonnegative
from maxmargin.core.contract.answers import Answers
from maxmargin.core.cut import Cut
from maxmargin.core.matrices import canonical, place_in, stacked
from maxmargin.core.vectors import Array, all_writable, writable
from maxmargin.data.mapped import MappedRows
from maxmargin.data.tokens.name_columns import TokenRows
from maxmargin.tasks.chains.cache import ChainCache
from maxmargin.tasks.chains.cuts import chain_cut
from maxmargin.tasks.chains.working_sets import ChainWorkingSets

Labels = npt.NDArray[Any]


class ChainTask(Protocol):
    """The part of a chain model that its examples use; see :class:`maxmargin.tasks.Chain`."""

    n_labels: int
    cost: Array
    penalty: Array

    @property
    def dim(self) -> int:
        """Length of the weight vector."""

    def check_labels(self, y: Labels, lengths: npt.NDArray[np.int64]) -> None:
        """Raise a ValueError for labels outside 0 .. K-1 and for forbidden labelings."""


class ChainExamples:
    """Sequences and their labels in flat arrays (implements ``core.Examples``).

    Use :meth:`from_stacked`, or ``Chain.pack`` for lists of sequences.
    """

    def __init__(self, task: ChainTask, chains: Chains, mapped: MappedRows | None = None) -> None:
        self.task = task
        self.chains = chains
        #: the rows of ``chains``, if they are memory-mapped
        self._mapped = mapped

    def __getstate__(self) -> dict[str, Any]:
        if self._mapped is None:
            return {"task": self.task, "chains": self.chains}
        none = np.empty(0, dtype=np.int64)
        chains = self.chains._replace(indptr=none, indices=none, data=none)
        return {"task": self.task, "chains": chains, "mapped": self._mapped}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.task, self.chains = state["task"], Chains(*all_writable(state["chains"]))
        self._mapped = rows = state.get("mapped")
        if rows is not None:
            self.chains = self.chains._replace(
                indptr=rows.indptr, indices=rows.indices, data=rows.data
            )

    @classmethod
    def from_stacked(
        cls,
        task: ChainTask,
        X: Any,
        lengths: npt.ArrayLike,
        y: npt.ArrayLike,
        token_weight: npt.ArrayLike | None = None,
    ) -> ChainExamples:
        """Pack sequences that are already stacked in one matrix.

        Parameters
        ----------
        task : Chain
            The number of labels, the costs and the transition constraints.
        X : CSR matrix, dense array or MappedRows, (tokens, n_features)
            Features of all tokens. CSR data of type float32 or float64 is used without a copy.
        lengths : (n,) ints
            Number of tokens of each sequence.
        y : (tokens,) ints
            Labels of all tokens.
        token_weight : (tokens,) array, optional
            A nonnegative multiplier of the cost of an error at each token. The default is 1.

        Examples
        --------
        >>> import numpy as np
        >>> from maxmargin.tasks.chains.chain import Chain
        >>> from maxmargin.tasks.chains.examples import ChainExamples
        >>> examples = ChainExamples.from_stacked(Chain(2, 3), np.eye(3), [1, 2], [0, 1, 1])
        >>> len(examples), examples.oracle(np.zeros(14), 0, 2).losses
        (2, array([1., 2.]))
        """
        labels = np.asarray(y)
        counts = np.asarray(lengths, dtype=np.int64)
        if labels.shape != (int(counts.sum()),):
            raise ValueError(
                f"lengths sum to {counts.sum()} tokens, but y has shape {labels.shape}"
            )
        task.check_labels(labels, counts)
        weight = np.ones(labels.size)
        if token_weight is not None:
            weight = nonnegative("token_weight", token_weight, labels.shape, ", one per token")
        mapped = X if isinstance(X, MappedRows) else None
        return cls(task, _chains(task, X, counts, labels, weight), mapped)

    @property
    def dim(self) -> int:
        return self.task.dim

    def __len__(self) -> int:
        return len(self.chains.starts) - 1

    def part(self, lo: int, hi: int) -> ChainExamples:
        """The sequences ``lo .. hi-1``, as views of the same arrays."""
        c = self.chains
        first, last = int(c.starts[lo]), int(c.starts[hi])
        entries = slice(int(c.indptr[first]), int(c.indptr[last]))
        own = c._replace(
            indptr=c.indptr[first : last + 1] - c.indptr[first],
            indices=c.indices[entries],
            data=c.data[entries],
            starts=c.starts[lo : hi + 1] - first,
            truth=c.truth[first:last],
            weight=c.weight[first:last],
        )
        mapped = None if self._mapped is None else self._mapped.part(first, last)
        return type(self)(self.task, own, mapped)

    def n_tokens(self, lo: int, hi: int) -> int:
        """Number of tokens of the sequences ``lo .. hi-1``."""
        return int(self.chains.starts[hi] - self.chains.starts[lo])

    def oracle(self, w: Array, lo: int, hi: int) -> Answers:
        """Loss-augmented Viterbi algorithm; ``labelings`` is flat, with one label per token of the range."""
        w = writable(w)
        labels = np.empty(self.n_tokens(lo, hi), dtype=self.chains.truth.dtype)
        losses, values = np.empty(hi - lo), np.empty(hi - lo)
        oracle_range(self.chains, w, lo, hi, labels, losses, values)
        return Answers(lo, hi, labels, losses, values, values)

    def cut(self, answers: Answers, weights: Array) -> Cut:
        losses = answers.losses
        return chain_cut(self.chains, answers.lo, answers.hi, answers.labelings, losses, weights)

    def cache(self, lo: int, hi: int, size: int) -> ChainCache:
        return ChainCache(self.chains, lo, hi, size)

    def working_sets(self, caps: Array) -> ChainWorkingSets:
        return ChainWorkingSets(self.chains, caps, self._mapped is not None)

    def predict(self, w: Array, lo: int, hi: int) -> list[Labels]:
        if lo == hi:
            return []
        labels = _predict(self.chains, w, lo, hi)
        return np.split(labels, (self.chains.starts[lo + 1 : hi] - self.chains.starts[lo]))


def predict_stacked(
    task: ChainTask, w: Array, X: Any, lengths: npt.ArrayLike, *, checked: bool = False
) -> Labels:
    """Predict the labels of all tokens of the sequences stacked in ``X``, as one flat array.

    ``checked``: X has been validated already.
    """
    chains = unlabeled(task, X, lengths, checked=checked)
    return _predict(chains, w, 0, len(chains.starts) - 1)


def unlabeled(task: ChainTask, X: Any, lengths: npt.ArrayLike, *, checked: bool = False) -> Chains:
    """Stacked sequences without labels (all labels are set to 0)."""
    counts = np.asarray(lengths, dtype=np.int64)
    n_tokens = int(counts.sum())
    nothing = np.zeros(n_tokens, dtype=label_dtype(task.n_labels))
    return _chains(task, X, counts, nothing, np.ones(n_tokens), checked=checked)


def label_dtype(n_labels: int) -> type[np.unsignedinteger[Any]]:
    """The smallest integer type for the labels 0 .. n_labels-1."""
    if n_labels <= 2**8:
        return np.uint8
    return np.uint16 if n_labels <= 2**16 else np.uint32


def stack_rows(X: Sequence[Any], n_features: int | None) -> Any:
    """Stack all sequences in one CSR matrix."""
    if len(X) == 0:
        return sp.csr_matrix((0, n_features or 0))
    return stacked(X, row="token")


def _chains(
    task: ChainTask,
    X: Any,
    lengths: npt.NDArray[np.int64],
    labels: Labels,
    weight: Array,
    *,
    checked: bool = False,
) -> Chains:
    is_packed = isinstance(X, MappedRows | TokenRows)  # these were checked
    matrix = X if is_packed or sp.issparse(X) else sp.csr_matrix(X)
    if not is_packed and not (checked and matrix.format == "csr"):
        matrix = canonical(matrix, row=place_in(np.cumsum(lengths), "sequence", "token"))
    n_features = task.dim // task.n_labels - task.n_labels - 2
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    if matrix.shape != (int(starts[-1]), n_features):
        raise ValueError(
            f"X has shape {matrix.shape}, but lengths sum to {starts[-1]} tokens and the task "
            f"has {n_features} features"
        )
    data = matrix.data
    if data.dtype not in (np.float32, np.float64):
        data = data.astype(np.float64)
    return Chains(
        indptr=matrix.indptr if is_packed else matrix.indptr.astype(np.int64),
        indices=matrix.indices,
        data=data,
        n_features=n_features,
        starts=starts,
        truth=np.ascontiguousarray(labels, dtype=label_dtype(task.n_labels)),
        weight=weight,
        cost=task.cost,
        penalty=task.penalty,
    )


def _predict(chains: Chains, w: Array, lo: int, hi: int) -> Labels:
    labels = np.empty(chains.starts[hi] - chains.starts[lo], dtype=chains.truth.dtype)
    stuck = predict_range(chains, writable(w), lo, hi, labels)
    if stuck >= 0:
        raise no_labeling(chains, stuck)
    return labels


class NoLabeling(ValueError):
    """The transition constraints allow no labeling of a sequence."""

    def __init__(self, sequence: int, length: int) -> None:
        super().__init__(
            f"the transition constraints allow no labeling of sequence {sequence}, of length {length}. Relax "
            "allowed, allowed_start or allowed_stop."
        )
        self.sequence, self.length = sequence, length

    def __reduce__(self) -> Any:
        return type(self), (self.sequence, self.length)


def no_labeling(chains: Chains, i: int) -> NoLabeling:
    """The error for a sequence that has no allowed labeling."""
    return NoLabeling(i, int(chains.starts[i + 1] - chains.starts[i]))
