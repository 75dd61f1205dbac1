"""Cuts of chains: the weighted sum of the differences between found and true labelings.

If few labels are wrong, a cut has few entries. Then it is built from the features of these tokens alone: to
clear and to search a vector of the length of w for every shard would take longer than inference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.compiled.chain import Chains, cut_range
from maxmargin.core.cut import Cut
from maxmargin.core.ragged import flat_ranges
from maxmargin.core.vectors import Array, IntArray, SparseVector, from_pairs, sparsify

#: sorting one entry takes about as long as clearing and searching this many coordinates
SORTING = 16


def chain_cut(
    chains: Chains, lo: int, hi: int, labels: npt.NDArray[Any], losses: Array, weights: Array
) -> Cut:
    """The cut of these labelings of the chains ``lo .. hi-1``, one label per token."""
    offset = float(np.sum(weights * losses))
    dim = chains.n_features * chains.cost.shape[0] + len(chains.penalty)
    first, last = int(chains.starts[lo]), int(chains.starts[hi])
    scales = np.repeat(weights, np.diff(chains.starts[lo : hi + 1]))
    wrong = np.flatnonzero((labels != chains.truth[first:last]) & (scales != 0.0))
    rows = first + wrong
    sizes = chains.indptr[rows + 1] - chains.indptr[rows]
    if 2 * SORTING * int(sizes.sum()) >= dim:
        plane = np.zeros(dim)
        cut_range(chains, lo, hi, labels, weights, plane)
        return Cut(offset, sparsify(plane))

    # each wrong token twice: plus its features at the label found, minus those at the true one
    found = np.column_stack([labels[wrong], chains.truth[rows]]).ravel()
    signed = np.column_stack([scales[wrong], -scales[wrong]]).ravel()
    rows, sizes = np.repeat(rows, 2), np.repeat(sizes, 2)
    held = flat_ranges(chains.indptr[rows], sizes)
    kind = np.int32 if dim <= np.iinfo(np.int32).max else np.int64
    columns: IntArray = chains.indices[held].astype(kind)
    columns *= chains.cost.shape[0]
    columns += np.repeat(found.astype(kind), sizes)
    body = from_pairs(columns, np.repeat(signed, sizes) * chains.data[held], dim)
    tail = _tail(chains, lo, hi, labels, weights)
    used = np.flatnonzero(tail)
    indices = np.concatenate([body.indices, (dim - len(tail) + used).astype(kind)])
    return Cut(offset, SparseVector(indices, np.concatenate([body.values, tail[used]]), dim))


def _tail(chains: Chains, lo: int, hi: int, labels: npt.NDArray[Any], weights: Array) -> Array:
    """The part of transitions, start and end: the cut of the same chains without features."""
    first, last = int(chains.starts[lo]), int(chains.starts[hi])
    bare = chains._replace(
        indptr=np.zeros(last - first + 1, dtype=np.int64),
        n_features=0,
        starts=chains.starts[lo : hi + 1] - first,
        truth=chains.truth[first:last],
    )
    tail = np.zeros(len(chains.penalty))
    cut_range(bare, 0, hi - lo, labels, weights, tail)
    return tail
