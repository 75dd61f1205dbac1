"""The fixed order in which parts are summed, here and in every engine.

Floating-point addition is not associative, so bit-identical results for any number of workers require
a fixed summation tree. Parts are numbered by shard; neighbors of equal size are added first, as
in a binary counter. The tree depends on the number of parts only, and at most log2(parts) partial
sums are held at any time.

A holder of the parts ``start .. stop-1`` can sum the subtrees inside this range (:func:`fold`). The few
remaining blocks of all ranges, in order, give the whole sum (:func:`join`).
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


class Block(NamedTuple):  # a tuple is pickled several times faster than a dataclass
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


def _pair(left: Block, right: Block) -> Any:
    # a single part may still be in use by its shard; a sum of parts belongs to the tree
    add = add_into if left.size > 1 else add_parts
    return add(left.total, right.total)


def fold(parts: Iterable[Any], start: int = 0) -> list[Block]:
    """Sum the parts from number ``start`` on as far as the tree allows without the others."""
    return merge(Block(start + k, 1, part) for k, part in enumerate(parts))


def merge(blocks: Iterable[Block]) -> list[Block]:
    """Sum neighboring blocks, in order, as far as the tree allows without the others."""
    stack: list[Block] = []
    for block in blocks:
        while stack and stack[-1].size == block.size and stack[-1].start % (2 * block.size) == 0:
            left = stack.pop()
            block = Block(left.start, 2 * block.size, _pair(left, block))
        stack.append(block)
    return stack


class Tree:
    """Sums blocks that arrive in any order, from any thread, as soon as the tree allows."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], Block] = {}
        self._lock = threading.Lock()

    def put(self, block: Block) -> None:
        """Add a block."""
        while True:
            with self._lock:
                other = self._held.pop((block.start ^ block.size, block.size), None)
                if other is None:
                    self._held[block.start, block.size] = block
                    return
            left, right = (other, block) if other.start < block.start else (block, other)
            block = Block(left.start, 2 * block.size, _pair(left, right))

    def blocks(self) -> list[Block]:
        """The remaining blocks in order, as :func:`merge` of the same blocks returns them."""
        return sorted(self._held.values(), key=lambda block: block.start)


def join(blocks: Iterable[Block]) -> Any:
    """The sum of all parts, from ordered blocks that together contain each part once."""
    stack = merge(blocks)
    if not stack:
        raise ValueError("cannot sum over no parts; the data has no shards")
    total = stack.pop().total
    while stack:
        total = add_parts(stack.pop().total, total)
    return total


def tree_sum(parts: Iterable[Any]) -> Any:
    """The sum of the parts, in order, by the fixed tree."""
    return join(fold(parts))
