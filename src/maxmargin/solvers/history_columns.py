"""The history of a fit in a checkpoint: one array for each field of the iteration records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import Any

import numpy as np

from maxmargin.checkpoints import CheckpointError
from maxmargin.core.result import IterationRecord
from maxmargin.core.stored_values import entries, integers, number


def history_columns(history: Sequence[IterationRecord]) -> dict[str, Any]:
    """One array for each field of the records; strings are stored as codes, None as NaN."""
    columns: dict[str, Any] = {}
    for field in fields(IterationRecord):
        values = [getattr(record, field.name) for record in history]
        if field.type == "str":
            names = sorted(set(values))
            number = {name: k for k, name in enumerate(names)}
            columns[field.name] = (names, np.array([number[v] for v in values], dtype=np.int64))
        elif field.type == "int":
            columns[field.name] = np.array(values, dtype=np.int64)
        else:
            columns[field.name] = np.array(values, dtype=np.float64)
    return columns


def counted(kept: dict[str, Any]) -> tuple[list[IterationRecord], float, float, str | None]:
    """(history, passes, seconds so far, stop reason) of a checkpoint."""
    try:
        history, passes, elapsed, stop = entries(kept, "history", "passes", "elapsed", "stop")
        passes = number(passes, "the number of passes", 0.0)
        elapsed = number(elapsed, "the time so far", 0.0)
        if stop is not None and type(stop) is not str:
            raise ValueError("the stop reason is not a string")
    except ValueError as error:
        raise CheckpointError(f"the checkpoint does not fit this problem: {error}") from error
    return read_history(history), passes, elapsed, stop


def read_history(columns: Any) -> list[IterationRecord]:
    """Rebuild the records."""
    if not isinstance(columns, dict):
        raise CheckpointError("the checkpoint has no history")
    read: dict[str, list[Any]] = {}
    length: int | None = None
    for field in fields(IterationRecord):
        kept = columns.get(field.name)
        if kept is None:
            if field.default is MISSING:
                raise CheckpointError(f"the checkpoint's history has no {field.name}")
            continue
        try:
            read[field.name] = _column(kept, str(field.type), length)
        except ValueError as error:
            raise CheckpointError(f"the checkpoint's history: {field.name}: {error}") from error
        length = len(read[field.name])
    return [
        IterationRecord(**dict(zip(read, row, strict=True)))
        for row in zip(*read.values(), strict=True)
    ]


def _column(kept: Any, kind: str, length: int | None) -> list[Any]:
    """One field of all records."""
    if kind == "str":
        if not isinstance(kept, tuple) or len(kept) != 2 or type(kept[0]) is not list:
            raise ValueError("they are not strings")
        names, codes = kept
        if not all(type(name) is str for name in names):
            raise ValueError("they are not strings")
        numbers = integers(codes, "their codes", (length,), below=len(names))
        return [names[k] for k in numbers.tolist()]
    if kind == "int":
        whole: list[Any] = integers(kept, "they", (length,)).tolist()
        return whole
    if type(kept) is not np.ndarray or kept.dtype != np.float64 or kept.ndim != 1:
        raise ValueError("they are not numbers")
    if length is not None and len(kept) != length:
        raise ValueError(f"there are {len(kept)} of them, not {length}")
    values: list[Any] = kept.tolist()
    return [None if v != v else v for v in values] if "None" in kind else values
