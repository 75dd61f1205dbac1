"""Designs side by side: the same numbers as their matrices side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin.data import CSRDesign, DenseDesign, KmerDesign, hstack
from maxmargin.data.design import as_matrix


def parts() -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(0)
    strings = ["".join(rng.choice(list("ACGTN"), 10)) for _ in range(20)]
    kmers = KmerDesign(strings, orders=2, normalize=True)
    dense = rng.normal(size=(20, 3))
    sparse = sp.random(20, 7, density=0.3, random_state=0, format="csr")
    counts = KmerDesign(strings, orders=(1, 3), kind="spectrum")
    explicit = [as_matrix(kmers.block(0, 20)).toarray(), dense, sparse.toarray()]
    explicit.append(as_matrix(counts.block(0, 20)).toarray())
    return [kmers, dense, sparse, counts], explicit


@pytest.mark.parametrize("nested", [False, True])
def test_a_stack_is_the_matrices_side_by_side(nested: bool) -> None:
    given, explicit = parts()
    scale = [2.0, 1.0, 0.5, 3.0]
    if nested:
        design = hstack([hstack(given[:2], scale=scale[:2]), hstack(given[2:], scale=scale[2:])])
    else:
        design = hstack(given, scale=scale)
    X = np.hstack([a * e for a, e in zip(scale, explicit, strict=True)])
    rng = np.random.default_rng(1)
    near = {"rtol": 1e-12, "atol": 1e-12}
    assert design.shape == X.shape
    for columns in [(), (4,)]:
        W = rng.normal(size=(X.shape[1], *columns))
        np.testing.assert_allclose(design.dot(W, 3, 17), X[3:17] @ W, **near)
        coef, out = rng.normal(size=(14, *columns)), np.ones((X.shape[1], *columns))
        design.accumulate(coef, 3, 17, out)
        np.testing.assert_allclose(out, 1.0 + X[3:17].T @ coef, **near)
    coef = rng.normal(size=(20, 2))
    np.testing.assert_allclose(design.kernel_dot(coef), X @ (X.T @ coef), **near)
    np.testing.assert_allclose(as_matrix(design.block(3, 17)).toarray(), X[3:17], **near)
    np.testing.assert_allclose(as_matrix(design.take([5, 5, 0])).toarray(), X[[5, 5, 0]], **near)


def test_a_stack_says_what_its_columns_are() -> None:
    (kmers, dense, sparse, counts), _ = parts()
    design = hstack([kmers, dense])
    assert design.describe(0) == "part 0: A at 0"
    assert design.describe(kmers.shape[1] + 2) == "part 1: column 2"
    assert design.starts.tolist() == [0, kmers.shape[1], kmers.shape[1] + 3]
    with pytest.raises(ValueError, match="must have the same number of rows"):
        hstack([kmers, np.zeros((3, 1))])
    with pytest.raises(ValueError, match="scale must be 2"):
        hstack([dense, sparse], scale=[1.0])
    with pytest.raises(ValueError, match="at least one"):
        hstack([])
    known = hstack([kmers, counts], scale=[2.0, 1.0])
    assert known.largest_square == pytest.approx(known.squared_norms.max())
    assert not hasattr(hstack([kmers, dense]), "largest_square")
    assert isinstance(hstack([dense]).parts[0], DenseDesign)
    assert isinstance(hstack([sparse]).parts[0], CSRDesign)
