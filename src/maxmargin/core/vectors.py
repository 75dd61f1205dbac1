"""Vectors of the feature space, dense or sparse, and operations on them.

A plane is a dense ``float64`` array or a :class:`SparseVector`. All code that handles planes uses
the functions here, so that a sparse plane is never made dense by accident.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from maxmargin.compiled import vectors as compiled

Array: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]

#: above this fraction of nonzeros a sparse vector costs more than a dense one
DENSE_ABOVE = 0.5
#: from this number of entries on, compiled loops are used; below it, NumPy, which has nothing to load
COMPILED_FROM = 1024
#: a vector at least LONG with at most the fraction FEW of nonzeros is made sparse before it is sent
LONG, FEW = 1_000_000, 0.1


@dataclass(frozen=True, slots=True, eq=False)
class SparseVector:
    """Sorted, unique indices and their values in a space of dimension ``size``."""

    #: makes NumPy defer to __radd__ in ``array + SparseVector``
    __array_ufunc__ = None

    indices: npt.NDArray[Any]
    values: Array
    size: int

    def __post_init__(self) -> None:
        # only compiled loops trust the indices, and only long vectors get there
        if len(self.indices) < COMPILED_FROM:
            return
        if len(self.values) != len(self.indices):
            raise ValueError(f"{len(self.values)} values for {len(self.indices)} indices.")
        if self.indices.min() < 0 or self.indices.max() >= self.size:
            raise ValueError(
                f"indices from {self.indices.min()} to {self.indices.max()} in a vector of length "
                f"{self.size}: they must be at least 0 and smaller than the length."
            )

    def to_dense(self) -> Array:
        out = np.zeros(self.size)
        out[self.indices] = self.values
        return out

    def __add__(self, other: Vector) -> Vector:
        return add(self, other)

    def __radd__(self, other: Vector) -> Vector:
        return add(other, self)


Vector: TypeAlias = Array | SparseVector


def frozen(w: Array) -> Array:
    """A read-only float64 copy of ``w``, or ``w`` itself if it is one already."""
    if w.flags.writeable or w.base is not None or w.dtype != np.float64:
        w = np.array(w, dtype=np.float64)
        w.setflags(write=False)
    return w


class _Writable:
    """The same memory without the read-only flag."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface
        self._owner = array


def writable(w: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """``w`` without the read-only flag. To Numba a read-only array is another type, so all functions that
    take published arrays would be compiled twice. No compiled code writes to it."""
    if w.flags.writeable:
        return w
    return np.asarray(_Writable(w)) if w.size else w.copy()


def all_writable(members: Iterable[object]) -> tuple[Any, ...]:
    """The same members, with arrays made :func:`writable`."""
    return tuple(writable(m) if isinstance(m, np.ndarray) else m for m in members)


def with_writable_arrays(state: dict[str, Any]) -> dict[str, Any]:
    """An unpickled state with writable arrays, including those in tuples: arrays in shared memory arrive
    read-only."""
    return {
        name: all_writable(value) if type(value) is tuple else all_writable([value])[0]
        for name, value in state.items()
    }


def _surely_above(share: float, dense: Array) -> bool:
    """Whether clearly more than this fraction of a long vector is nonzero, estimated from a sample: counting
    takes as long as summing the vector."""
    if dense.size < LONG:
        return False
    some = dense[np.random.default_rng(0).integers(dense.size, size=4096)]
    return bool(np.count_nonzero(some) > 1.2 * share * len(some))


def sparsify(dense: Array) -> Vector:
    """The same vector, sparse if that saves memory."""
    if dense.size < 1024 or _surely_above(DENSE_ABOVE, dense):
        return dense
    there = dense != 0.0  # flatnonzero is several times faster on booleans than on floats
    if np.count_nonzero(there) > DENSE_ABOVE * dense.size:
        return dense
    indices = np.flatnonzero(there)
    if dense.size <= np.iinfo(np.int32).max:
        indices = indices.astype(np.int32)
    return SparseVector(indices, dense[indices], dense.size)


def from_pairs(indices: npt.NDArray[Any], values: Array, size: int) -> SparseVector:
    """A sparse vector from unsorted indices that may repeat (duplicates are summed, zeros dropped)."""
    unique, inverse = np.unique(np.asarray(indices), return_inverse=True)
    summed = np.bincount(inverse, weights=values, minlength=len(unique))
    keep = summed != 0.0
    return SparseVector(unique[keep], np.asarray(summed[keep], dtype=np.float64), size)


def dot(a: Vector, b: Vector) -> float:
    """Inner product of any two vectors."""
    if isinstance(a, SparseVector):
        if isinstance(b, SparseVector):
            if len(b.indices) < len(a.indices):
                a, b = b, a
            if len(a.indices) == 0 or len(b.indices) == 0:
                return 0.0
            place = np.minimum(np.searchsorted(b.indices, a.indices), len(b.indices) - 1)
            match = b.indices[place] == a.indices
            return float(a.values[match] @ b.values[place[match]])
        if len(a.indices) >= COMPILED_FROM:
            _require_length(b, a.size)
            return float(compiled.dot(writable(a.indices), writable(a.values), writable(b)))
        return float(a.values @ b[a.indices])
    if isinstance(b, SparseVector):
        return dot(b, a)
    return float(a @ b)


def _require_length(dense: Array, size: int) -> None:
    """Check what compiled loops do not."""
    if len(dense) != size:
        raise ValueError(f"a vector of length {len(dense)} does not fit to one of length {size}.")


def add(a: Vector, b: Vector) -> Vector:
    """Sum of any two vectors; the sum of two sparse ones is sparse unless it has many nonzeros."""
    if isinstance(a, SparseVector) and isinstance(b, SparseVector):
        total = _merged(a, b)
        return total.to_dense() if len(total.indices) > DENSE_ABOVE * a.size else total
    if isinstance(a, SparseVector):
        return add(b, a)
    if isinstance(b, SparseVector):
        out = a.copy()
        out[b.indices] += b.values
        return out
    return a + b


def _merged(a: SparseVector, b: SparseVector) -> SparseVector:
    """The sum of two sparse vectors; entries that cancel are dropped."""
    indices = np.concatenate([a.indices, b.indices])
    order = np.argsort(indices, kind="stable")  # linear for two sorted lists
    indices, values = indices[order], np.concatenate([a.values, b.values])[order]
    twice = np.flatnonzero(indices[1:] == indices[:-1])
    values[twice] += values[twice + 1]
    values[twice + 1] = 0.0
    keep = values != 0.0
    return SparseVector(indices[keep], values[keep], a.size)


def for_pickling(v: Vector) -> Vector:
    """The vector in the form in which it is pickled: sparse if it is long and has few nonzeros."""
    if isinstance(v, SparseVector) or v.size < LONG or _surely_above(FEW, v):
        return v
    return sparsify(v) if np.count_nonzero(v != 0.0) <= FEW * v.size else v


def add_scaled(out: Array, scale: float, v: Vector) -> None:
    """``out += scale * v`` in place."""
    if isinstance(v, SparseVector):
        if len(v.indices) >= COMPILED_FROM:
            _require_length(out, v.size)
            compiled.add_scaled(out, scale, writable(v.indices), writable(v.values))
        else:
            out[v.indices] += scale * v.values
    elif len(v) >= COMPILED_FROM:
        _require_length(out, len(v))
        compiled.add_scaled_dense(out, scale, writable(v))
    else:
        out += scale * v


def combine(weights: Iterable[float], vectors: Iterable[Vector], size: int) -> Array:
    """The dense sum of ``weights[j] * vectors[j]``."""
    out = np.zeros(size)
    for weight, vector in zip(weights, vectors, strict=True):
        if weight != 0.0:
            add_scaled(out, weight, vector)
    return out


def entries(v: Vector, where: IntArray) -> Array:
    """The entries of a vector at these indices."""
    if not isinstance(v, SparseVector):
        return v[where]
    out = np.zeros(len(where))
    if len(v.indices):
        place = np.minimum(np.searchsorted(v.indices, where), len(v.indices) - 1)
        held = v.indices[place] == where
        out[held] = v.values[place[held]]
    return out


def norm(v: Vector) -> float:
    """The Euclidean norm."""
    return float(np.linalg.norm(v.values if isinstance(v, SparseVector) else v))


def n_bytes(v: Vector) -> int:
    """Memory in bytes used by one vector."""
    if isinstance(v, SparseVector):
        return int(v.indices.nbytes + v.values.nbytes)
    return int(v.nbytes)
