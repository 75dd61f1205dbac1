"""Work that is done before its results are needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def read_ahead(work: Callable[[T], R], items: Sequence[T], depth: int) -> Iterator[R]:
    """``work(item)`` for every item in order, with ``depth`` of them running ahead."""
    if len(items) < 2:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(depth, thread_name_prefix="maxmargin-read") as pool:
        waiting = deque(pool.submit(work, item) for item in items[:depth])
        following = iter(items[depth:])
        try:
            while waiting:
                ready = waiting.popleft().result()
                for item in following:
                    waiting.append(pool.submit(work, item))
                    break
                yield ready
                del ready
        finally:
            for future in waiting:
                future.cancel()
