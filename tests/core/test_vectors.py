"""Sparse and dense vectors agree, and sums have one shape."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxmargin.core import Cut, SparseVector, add_cuts, tree_sum
from maxmargin.core import vectors as v


def pair(seed, size=2000, density=0.05):
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random(size) < density, rng.normal(size=size), 0.0)
    return dense, v.sparsify(dense)


def test_sparsify_keeps_sparse_sparse_and_dense_dense():
    dense, sparse = pair(0)
    assert isinstance(sparse, SparseVector)
    assert np.array_equal(sparse.to_dense(), dense)
    assert isinstance(v.sparsify(np.ones(5000)), np.ndarray)


@given(seed=st.integers(0, 1000))
def test_operations_agree_with_dense(seed):
    (a, sa), (b, sb) = pair(seed), pair(seed + 1, density=0.01)
    for x in (a, sa):
        for y in (b, sb):
            assert v.dot(x, y) == pytest.approx(float(a @ b), abs=1e-12)
            total = v.add(x, y)
            total = total.to_dense() if isinstance(total, SparseVector) else total
            np.testing.assert_allclose(total, a + b)
    assert isinstance(v.add(sa, sb), SparseVector)
    out = np.zeros(len(a))
    v.add_scaled(out, 2.0, sa)
    np.testing.assert_array_equal(out, 2 * a)


@pytest.mark.parametrize("nonzeros", [v.COMPILED_FROM - 1, v.COMPILED_FROM, v.COMPILED_FROM + 1])
@pytest.mark.parametrize("frozen", [False, True])
def test_compiled_operations_agree_with_exact_ones(nonzeros, frozen):
    rng = np.random.default_rng(nonzeros)
    dense = np.zeros(5000)
    dense[rng.choice(5000, nonzeros, replace=False)] = rng.normal(size=nonzeros)
    sparse, w = v.sparsify(dense), rng.normal(size=5000)
    assert isinstance(sparse, SparseVector)
    for array in (sparse.indices, sparse.values, dense, w) if frozen else ():
        array.setflags(write=False)
    exact = math.fsum(float(x) for x in dense * w)
    assert v.dot(sparse, w) == pytest.approx(exact, abs=1e-12)
    assert v.dot(w, sparse) == v.dot(sparse, w)
    for vector in (dense, sparse):
        out = np.ones(5000)
        v.add_scaled(out, 0.5, vector)  # a product by a power of two is exact
        np.testing.assert_array_equal(out, 1.0 + 0.5 * dense)


@pytest.mark.parametrize("length", [v.COMPILED_FROM // 2, v.COMPILED_FROM])
def test_indices_and_lengths_that_do_not_fit_are_refused(length):
    values, size = np.ones(length), 2 * length
    sparse = SparseVector(np.arange(length, 2 * length), values, size)
    for wrong in (np.ones(size - 1), np.ones(length)):
        with pytest.raises((ValueError, IndexError)):
            v.dot(sparse, wrong)
        with pytest.raises((ValueError, IndexError)):
            v.add_scaled(wrong, 1.0, sparse)
        with pytest.raises(ValueError):
            v.add_scaled(wrong, 1.0, np.ones(size))
    if length >= v.COMPILED_FROM:
        for first in (-1, length + 1):
            with pytest.raises(ValueError, match="they must be at least 0"):
                SparseVector(np.arange(first, first + length), values, size)
        with pytest.raises(ValueError, match="values for"):
            SparseVector(np.arange(length), values[1:], size)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=70))
def test_tree_sum_depends_on_the_number_of_parts_only(parts):
    expected = tree_sum(parts)
    assert tree_sum(iter(parts)) == expected
    assert expected == pytest.approx(np.sum(parts), rel=1e-9, abs=1e-6)


def test_tree_sum_adds_neighbors_first():
    seen = tree_sum([_Term(str(k)) for k in range(5)])
    assert seen.text == "(((0+1)+(2+3))+4)"


class _Term:
    def __init__(self, text):
        self.text = text

    def __add__(self, other):
        return _Term(f"({self.text}+{other.text})")


def test_cuts_add():
    total = add_cuts([Cut(1.0, np.array([1.0, 0.0])), Cut(2.0, np.array([0.0, 3.0]))])
    assert total.offset == 3.0
    assert total.at(np.array([1.0, 1.0])) == 7.0


@given(st.integers(0, 10_000), st.integers(1, 9), st.sampled_from([0.0, 0.05, 0.09, 0.3]))
def test_cuts_that_travelled_add_up_to_the_same_bits(seed, n_parts, dense):
    rng = np.random.default_rng(seed)
    cuts = []
    for _ in range(n_parts):
        plane = rng.normal(size=2000) * (rng.random(2000) < rng.choice([0.0, 0.01, 0.05, dense]))
        # entries that cancel, and sums whose order matters
        plane[:40] = rng.choice([0.0, 1.0, -1.0, 0.1, -0.1], 40)
        cuts.append(Cut(float(rng.normal()), plane))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(v, "LONG", 1000)
        sent = [pickle.loads(pickle.dumps(cut)) for cut in cuts]
    here, there = tree_sum(cuts), tree_sum(sent)
    assert here.offset == there.offset
    total = there.plane.to_dense() if isinstance(there.plane, SparseVector) else there.plane
    assert np.array_equal(here.plane, total)
    if isinstance(there.plane, SparseVector):
        assert (np.diff(there.plane.indices) > 0).all()
        assert (there.plane.values != 0.0).all()
