"""One rule for sums: however the parts are spread over workers and threads, the same bits."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxmargin.core.cut import Cut
from maxmargin.core.engine import share
from maxmargin.core.summation import (
    PartialSum,
    Tree,
    add_into,
    count_sums,
    fold,
    join,
    join_end,
    merge,
    tree_sum,
)


def parts(n, seed=0):
    rng = np.random.default_rng(seed)
    return list(rng.normal(size=n) * 10.0 ** rng.integers(-8, 9, n))


@given(n=st.integers(1, 70), workers=st.integers(1, 9), seed=st.integers(0, 5))
def test_ranges_fold_to_the_same_sum(n, workers, seed):
    numbers = parts(n, seed)
    ranges = [share(n, workers, k) for k in range(workers)]
    assert [i for r in ranges for i in r] == list(range(n))
    assert max(map(len, ranges)) <= 1.25 * -(-n // workers)
    assert n < workers or min(map(len, ranges)) >= 1
    folded = [join_end(fold(numbers[r.start : r.stop], r.start), n) for r in ranges]
    assert join([b for sums in folded for b in sums]) == tree_sum(numbers)
    assert [len(sums) for sums in folded] == [count_sums(r.start, r.stop, n) for r in ranges]


# 1,117 shards are 75 * 10^9 entries in fewer than 2^25 rows
@pytest.mark.parametrize("n", [32, 1024, 1117, 4096])
@pytest.mark.parametrize("workers", [1, 2, 3, 4, 6, 8, 12, 16, 100, 1000])
def test_a_worker_has_at_most_two_sums(n, workers):
    ranges = [share(n, workers, k) for k in range(workers)]
    assert [i for r in ranges for i in r] == list(range(n))
    sums = max(len(join_end(fold(np.zeros(len(r)), r.start), n)) for r in ranges)
    assert sums <= (2 if n & (n - 1) == 0 and workers < 1000 else 4)
    assert max(map(len, ranges)) <= 1.2 * -(-n // workers)
    assert n < workers or min(map(len, ranges)) >= 1


@given(n=st.integers(1, 70), start=st.integers(0, 40), data=st.data())
def test_blocks_in_any_order(n, start, data):
    numbers = parts(n)
    order = data.draw(st.permutations(range(n)))
    tree = Tree()
    for k in order:
        tree.put(PartialSum(start + k, 1, numbers[k]))
    expected = fold(numbers, start)
    found = tree.sums()
    assert [(b.start, b.size, b.total) for b in found] == [
        (b.start, b.size, b.total) for b in expected
    ]
    assert [b.size for b in merge(found)] == [b.size for b in expected]


def test_blocks_from_several_threads():
    numbers = parts(400)
    tree = Tree()

    def bring(first):
        for k in range(first, 400, 4):
            tree.put(PartialSum(k, 1, numbers[k]))

    threads = [threading.Thread(target=bring, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert join(tree.sums()) == tree_sum(numbers)


def test_no_parts():
    with pytest.raises(ValueError, match="no parts"):
        join([])


def test_sums_are_made_in_place_but_parts_stay_as_they_are():
    rng = np.random.default_rng(0)
    parts = [Cut(float(k), rng.normal(size=5)) for k in range(7)]
    before = [part.plane.copy() for part in parts]
    for start in range(8):
        blocks = [*fold(parts[:start]), *fold(parts[start:], start)]
        total = join(blocks)
        assert total.plane.tobytes() == tree_sum(before).tobytes()
        assert total.offset == 21.0
    for part, plane in zip(parts, before, strict=True):
        assert part.plane.tobytes() == plane.tobytes()


def test_memory_of_others_is_never_written_to():
    ours, lent = np.ones(3), np.ones(6)[:3]
    frozen = np.ones(3)
    frozen.setflags(write=False)
    assert add_into(ours, lent) is ours
    for part in (lent, frozen, np.ones(3, dtype=np.float32)):
        before = part.copy()
        assert (add_into(part, ours) == before + 2.0).all()
        assert (part == before).all()
