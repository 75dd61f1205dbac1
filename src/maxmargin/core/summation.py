"""The one rule by which parts are summed, here and in every engine.

Floating-point addition is not associative, so "the same answer from one worker or sixty-four" needs
a fixed shape of the sum. Parts are numbered by shard; neighbours of equal size are added first, as
in a binary counter. The shape depends on the number of parts only, and at most log2(parts) partial
sums are held at any time.

Who holds the parts ``start .. stop-1`` can add up the subtrees that lie inside (:func:`fold`); the few
blocks that are left of each such range, in order, make the whole sum (:func:`join`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class AddsInPlace(Protocol):
    """A part that can take another one in."""

    def add_in_place(self, other: Any) -> Any:
        """The sum, in the memory of this part where that can be."""


class Block(NamedTuple):  # a tuple is pickled several times faster than a dataclass
    """The sum of the parts ``start .. start+size-1``: a node of the tree."""

    start: int
    size: int
    total: Any


def add_parts(a: Any, b: Any) -> Any:
    """Sum of two parts; tuples are added member by member."""
    if isinstance(a, tuple):
        return tuple(add_parts(x, y) for x, y in zip(a, b, strict=True))
    return a + b


def add_into(a: Any, b: Any) -> Any:
    """The same sum, in the memory of the first part where that can be: nobody else may hold it."""
    if isinstance(a, tuple):
        return tuple(add_into(x, y) for x, y in zip(a, b, strict=True))
    if type(a) is type(b) is np.ndarray:
        own = a.flags.owndata and a.flags.writeable  # not a view of what came from elsewhere
        if own and a.shape == b.shape and a.dtype == b.dtype:
            a += b
            return a
    elif isinstance(a, AddsInPlace):
        return a.add_in_place(b)
    return a + b


def _pair(left: Block, right: Block) -> Any:
    # a part is whose answer it was; a sum of parts is ours
    add = add_into if left.size > 1 else add_parts
    return add(left.total, right.total)


def fold(parts: Iterable[Any], start: int = 0) -> list[Block]:
    """The parts from number ``start`` on, added up as far as the tree allows without the others."""
    return merge(Block(start + k, 1, part) for k, part in enumerate(parts))


def merge(blocks: Iterable[Block]) -> list[Block]:
    """Neighbouring blocks, in order, added up as far as the tree allows without the others."""
    stack: list[Block] = []
    for block in blocks:
        while stack and stack[-1].size == block.size and stack[-1].start % (2 * block.size) == 0:
            left = stack.pop()
            block = Block(left.start, 2 * block.size, _pair(left, block))
        stack.append(block)
    return stack


class Tree:
    """Blocks that come in any order, from any thread, added up as soon as the tree allows."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], Block] = {}
        self._lock = threading.Lock()

    def put(self, block: Block) -> None:
        """Take a block in."""
        while True:
            with self._lock:
                other = self._held.pop((block.start ^ block.size, block.size), None)
                if other is None:
                    self._held[block.start, block.size] = block
                    return
            left, right = (other, block) if other.start < block.start else (block, other)
            block = Block(left.start, 2 * block.size, _pair(left, right))

    def blocks(self) -> list[Block]:
        """What is left, in order: what :func:`merge` would have made of the same blocks."""
        return sorted(self._held.values(), key=lambda block: block.start)


def join(blocks: Iterable[Block]) -> Any:
    """The sum over all parts, from blocks that together hold each of them once, in order."""
    stack = merge(blocks)
    if not stack:
        raise ValueError("a sum over no parts was asked for; the data has no shards")
    total = stack.pop().total
    while stack:
        total = add_parts(stack.pop().total, total)
    return total


def tree_sum(parts: Iterable[Any]) -> Any:
    """Sum of the parts, in order, by the fixed tree."""
    return join(fold(parts))
