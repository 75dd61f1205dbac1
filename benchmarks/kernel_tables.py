"""The tables and the plot of the kernel benchmark."""

from __future__ import annotations

from typing import Any


def report(runs: dict[tuple[str, int, str], dict[str, Any]]) -> None:
    """Write all that can be written."""
