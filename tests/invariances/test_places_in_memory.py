"""Bits do not depend on where arrays happen to lie."""

import numpy as np
import pytest

from maxmargin.compiled import epsilon_insensitive, hinge, products, squared_hinge

GAPS = (0, 1, 2, 3, 5, 8, 13, 32, 512)
SIZES = (*range(1, 70), 1023, 1024, 1031)


def neighbors(read, gap):
    """An array with these numbers, and an empty one so many places after it."""
    n = len(read)
    memory = np.empty(2 * n + gap)
    memory[:n] = read
    return memory[:n], memory[n + gap :]


def hinge_cut(scores, y, weight, out):
    return hinge.cut(scores, y, weight, 1.0, out)


def squared_cut(scores, y, weight, out):
    return squared_hinge.cut(scores, y, weight, 1.0, out)


def tube_cut(scores, y, weight, out):
    return epsilon_insensitive.cut(scores, y, np.full(len(y), 0.1), weight, False, out)


def blend(scores, y, weight, out):
    return products.blend(scores, weight, 0.37, out)


@pytest.mark.parametrize("kind", [np.float64, np.int8])
@pytest.mark.parametrize("kernel", [hinge_cut, squared_cut, tube_cut, blend])
def test_neighbors_in_memory(kernel, kind):
    rng = np.random.default_rng(0)
    for n in SIZES:
        scores, weight = rng.normal(size=n), rng.random(n)
        y = np.where(rng.normal(size=n) > 0.0, 1, -1).astype(
            kind if kernel is not tube_cut else float
        )
        seen = set()
        for gap in GAPS:
            for which in range(2):  # whose neighbor is written
                read, out = neighbors((scores, weight)[which], gap)
                args = (read, y, weight) if which == 0 else (scores, y, read)
                answer = kernel(*args, out)
                seen.add((answer, out.tobytes()))
        assert len(seen) == 1, n


def test_moves_in_place():
    rng = np.random.default_rng(0)
    for n in SIZES:
        a, b = rng.normal(size=n), rng.normal(size=n)
        apart, place = np.empty(n), a.copy()
        products.blend(a, b, 0.37, apart)
        products.blend(place, b, 0.37, place)
        assert apart.tobytes() == place.tobytes()


@pytest.mark.parametrize("d", [1, 2, 3, 7, 9, 17])
def test_sums_of_rows(d):
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 20):
        X, coef = rng.normal(size=(n, d)), rng.normal(size=n)
        seen = set()
        for gap in GAPS:
            read, out = neighbors(X.ravel(), gap)
            out[:d] = 0.0
            products.dense_accumulate(read.reshape(n, d), coef, 0, n, out[:d])
            seen.add(out[:d].tobytes())
        assert len(seen) == 1, n
