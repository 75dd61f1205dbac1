"""The fixed order in which parts are summed, here and in every engine.

Floating-point addition is not associative, so bit-identical results for any number of workers require
a fixed summation tree. Parts are numbered by shard; neighbors of equal size are added first, as
in a binary counter. The tree depends on the number of parts only, and at most log2(parts) partial
sums are held at any time.

A holder of the parts ``start .. stop-1`` can sum the subtrees inside this range (:func:`fold`, and
:func:`join_end` for the last parts). The few remaining sums of all ranges, in order, give the whole sum
(:func:`join`).
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np


class AddsInPlace(ABC):
    """A part that can be added to in place."""

    __slots__ = ()

    @abstractmethod
    def add_in_place(self, other: Any) -> Any:
        """The sum, computed in the memory of this part if possible."""


class PartialSum(NamedTuple):  # a tuple is pickled several times faster than a dataclass
    """The sum of the parts ``start .. start+size-1``: a node of the tree."""

    start: int
    size: int
    total: Any


def add_parts(a: Any, b: Any) -> Any:
    """The sum of two parts; tuples are added elementwise."""
    if isinstance(a, tuple):
        return tuple(add_parts(x, y) for x, y in zip(a, b, strict=True))
    return a + b


def add_into(a: Any, b: Any) -> Any:
    """The same sum, in the memory of the first part if possible. Nothing else may refer to that part."""
    if isinstance(a, tuple):
        return tuple(add_into(x, y) for x, y in zip(a, b, strict=True))
    if type(a) is type(b) is np.ndarray:
        own = a.flags.owndata and a.flags.writeable  # not a view of memory owned elsewhere
        if own and a.shape == b.shape and a.dtype == b.dtype:
            a += b
            return a
    elif isinstance(a, AddsInPlace):
        return a.add_in_place(b)
    return a + b


def _pair(left: PartialSum, right: PartialSum) -> Any:
    # a single part may still be in use by its shard; a sum of parts belongs to the tree
    add = add_into if left.size > 1 else add_parts
    return add(left.total, right.total)


def fold(parts: Iterable[object], start: int = 0) -> list[PartialSum]:
    """Sum the parts from number ``start`` on as far as the tree allows without the others."""
    return merge(PartialSum(start + k, 1, part) for k, part in enumerate(parts))


def in_order(sums: Iterable[PartialSum]) -> list[PartialSum]:
    """Sums of several holders by the number of their first part."""
    return sorted(sums, key=lambda node: node.start)


def merge(sums: Iterable[PartialSum]) -> list[PartialSum]:
    """Add neighboring sums, in order, as far as the tree allows without the others (there may be gaps)."""
    stack: list[PartialSum] = []
    for node in sums:
        while stack and (stack[-1].start, stack[-1].size) == (node.start ^ node.size, node.size):
            left = stack.pop()
            node = PartialSum(left.start, 2 * node.size, _pair(left, node))
        stack.append(node)
    return stack


def join_end(sums: list[PartialSum], n_parts: int) -> list[PartialSum]:
    """Add up those of ordered sums that :func:`join` adds from the right: if the number of parts is not a
    power of two, the last nodes have no neighbors of equal size."""
    while len(sums) > 1 and sums[-1].start + sums[-1].size == n_parts:
        (start, size, total), last = sums[-2:]
        if start + size != last.start or start % (2 * size) or start + 2 * size <= n_parts:
            break
        both = PartialSum(start, size + last.size, add_parts(total, last.total))
        sums = [*sums[:-2], both]
    return sums


def count_sums(start: int, stop: int, n_parts: int) -> int:
    """How many sums :func:`fold` and :func:`join_end` leave of the parts ``start .. stop-1``."""
    whole = 1 << n_parts.bit_length()
    limit = whole if stop == n_parts else stop
    count = 0
    while start < stop:
        size = start & -start or whole
        while start + size > limit:
            size //= 2
        count, start = count + 1, start + size
    return count


class Tree:
    """Adds up sums that arrive in any order, from any thread, as soon as the tree allows."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], PartialSum] = {}
        self._lock = threading.Lock()

    def put(self, node: PartialSum) -> None:
        """Add a node."""
        while True:
            with self._lock:
                other = self._held.pop((node.start ^ node.size, node.size), None)
                if other is None:
                    self._held[node.start, node.size] = node
                    return
            left, right = (other, node) if other.start < node.start else (node, other)
            node = PartialSum(left.start, 2 * node.size, _pair(left, right))

    def sums(self) -> list[PartialSum]:
        """The remaining sums in order, as :func:`merge` of the same sums returns them."""
        return in_order(self._held.values())


def join(sums: Iterable[PartialSum]) -> Any:
    """The sum of all parts, from ordered sums that together contain each part once."""
    stack = merge(sums)
    if not stack:
        raise ValueError("cannot sum over no parts; the data has no shards")
    total = stack.pop().total
    while stack:
        total = add_parts(stack.pop().total, total)
    return total


def tree_sum(parts: Iterable[object]) -> Any:
    """The sum of the parts, in order, by the fixed tree."""
    return join(fold(parts))
