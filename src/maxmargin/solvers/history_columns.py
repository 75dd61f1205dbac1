"""The history of a fit in a checkpoint: one array for each field of the iteration records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from maxmargin.checkpoints import CONTRADICTIONS, CheckpointError, shown
from maxmargin.core.result import IterationRecord
from maxmargin.core.stored_values import entries, integers, number

#: fields that files of older versions lack
_SENT = ("rounds", "seconds_rounds", "bytes_sent", "bytes_received")
_TYPES = {field.name: str(field.type) for field in fields(IterationRecord)}


def history_columns(history: Sequence[IterationRecord]) -> dict[str, Any]:
    """One array for each field of the records; strings are stored as codes, None as NaN."""
    columns: dict[str, Any] = {}
    for name, kind in _TYPES.items():
        values = [getattr(record, name) for record in history]
        if kind == "str":
            names = sorted(set(values))
            codes = {value: k for k, value in enumerate(names)}
            columns[name] = (names, np.array([codes[v] for v in values], dtype=np.int64))
        else:
            columns[name] = np.array(values, dtype=np.int64 if kind == "int" else np.float64)
    return columns


def counted(kept: dict[str, Any]) -> tuple[list[IterationRecord], float, float, str | None]:
    """(history, passes, seconds so far, stop reason) of a checkpoint."""
    try:
        history, passes, elapsed, stop = entries(kept, "history", "passes", "elapsed", "stop")
        columns = {
            name: _column(history[name], kind)
            for name, kind in _TYPES.items()
            if name in history or name not in _SENT
        }
        rows = zip(*columns.values(), strict=True)
        records = [IterationRecord(**dict(zip(columns, row, strict=True))) for row in rows]
        if not isinstance(stop, str | None):
            raise ValueError("the stop reason is not a string")
        return records, number(passes, "the passes"), number(elapsed, "the time so far"), stop
    except CONTRADICTIONS as error:
        raise CheckpointError(
            f"the checkpoint does not fit this problem: {shown(error)}"
        ) from error


def _column(kept: Any, kind: str) -> list[Any]:
    """One field of all records."""
    if kind == "str":
        names, codes = kept
        return [names[k] for k in integers(codes, "codes of strings", (None,), below=len(names))]
    if kept.dtype.kind not in "if":
        raise ValueError("the history does not hold numbers")
    values: list[Any] = kept.tolist()
    return [None if v != v else v for v in values] if "None" in kind else values
