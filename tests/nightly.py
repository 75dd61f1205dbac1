"""Parameters of tests that CI runs in a short form, and the nightly step in full."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first(n: int, values: Iterable[Any]) -> list[Any]:
    """The values as parameters of a test, all but the first ``n`` of them for the nightly step only."""
    marked = list(values)[:n]
    for value in list(values)[n:]:
        parts = value if isinstance(value, tuple) else (value,)
        marked.append(pytest.param(*parts, marks=pytest.mark.nightly))
    return marked
