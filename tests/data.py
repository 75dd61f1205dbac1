"""Real data in tests: the loaders of :mod:`benchmarks.datasets`, and a skip where a set is absent.

from tests.data import datasets, require

@pytest.mark.data
def test_something():
    X, y = require(datasets.rcv1, "CCAT")
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from benchmarks import datasets

__all__ = ["datasets", "require"]

T = TypeVar("T")


def require(loader: Callable[..., T], *args: Any, **options: Any) -> T:
    """What the loader loads; the test is skipped if its file is not there."""
    try:
        return loader(*args, **options)
    except datasets.DatasetMissing as missing:
        pytest.skip(str(missing))
