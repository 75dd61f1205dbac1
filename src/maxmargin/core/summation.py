"""The one rule by which parts are summed, here and in every engine.

Floating-point addition is not associative, so "the same answer from one worker or sixty-four" needs
a fixed shape of the sum. Parts are numbered by shard; neighbours of equal size are added first, as
in a binary counter. The shape depends on the number of parts only, and at most log2(parts) partial
sums are held at any time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def add_parts(a: Any, b: Any) -> Any:
    """Sum of two parts; tuples are added member by member."""
    if isinstance(a, tuple):
        return tuple(add_parts(x, y) for x, y in zip(a, b, strict=True))
    return a + b


def tree_sum(parts: Iterable[Any]) -> Any:
    """Sum of the parts, in order, by the fixed tree."""
    stack: list[tuple[int, Any]] = []
    for part in parts:
        size, total = 1, part
        while stack and stack[-1][0] == size:
            left_size, left = stack.pop()
            size, total = size + left_size, add_parts(left, total)
        stack.append((size, total))
    if not stack:
        raise ValueError("a sum over no parts was asked for; the data has no shards")
    total = stack.pop()[1]
    while stack:
        total = add_parts(stack.pop()[1], total)
    return total
