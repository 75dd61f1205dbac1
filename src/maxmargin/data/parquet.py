"""Parquet files, read a record batch at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

AnyArray = npt.NDArray[Any]

#: rows that are read at a time
ROWS = 1 << 16


def read_parquet(
    path: str | os.PathLike[str],
    *,
    label: str | None,
    weight: str | None = None,
    group: str | None = None,
    columns: Sequence[str] | None = None,
    rows: int = ROWS,
) -> Iterator[Any]:
    """Batches of a Parquet file or of a folder of such files, for :func:`write`.

    Needs pyarrow: ``pip install "maxmargin[arrow]"``. The names of the columns become the names of the
    features.

    Parameters
    ----------
    path : str or path
        A file, or a folder of them; also a URL that pyarrow knows.
    label : str or None
        The column of labels: numbers or texts. None for rows without labels.
    weight, group : str, default=None
        Columns of weights and of group ids.
    columns : list of str, default=None
        The columns that are features, in this order. By default all others.
    rows : int
        Most rows per batch.

    Yields
    ------
    dict
        With the keys ``X`` (a data frame's columns and their names), ``y``, ``weight`` and ``group``.
    """
    try:
        import pyarrow.dataset as arrow
    except ImportError as error:
        raise ImportError(
            'read_parquet needs the package pyarrow: pip install "maxmargin[arrow]".'
        ) from error
    table = arrow.dataset(os.fspath(path), format="parquet")
    special = [name for name in (label, weight, group) if name is not None]
    known = table.schema.names
    names = [name for name in known if name not in special] if columns is None else list(columns)
    for name in (*names, *special):
        if name not in known:
            raise ValueError(f"{os.fspath(path)} has no column {name!r}; it has {known}.")
    # a few batches ahead are enough: the default holds several hundred megabytes
    for batch in table.to_batches(
        columns=[*names, *special], batch_size=rows, batch_readahead=2, fragment_readahead=1
    ):
        if batch.num_rows:
            yield {
                "X": _Features(names, [_numbers(batch, name) for name in names]),
                "y": None if label is None else _labels(batch, label),
                "weight": None if weight is None else _numbers(batch, weight),
                "group": None if group is None else _numbers(batch, group),
            }


class _Features:
    """What :func:`write` asks of a data frame: names and values."""

    def __init__(self, names: list[str], values: list[AnyArray]) -> None:
        self.columns, self._values = names, values

    def to_numpy(self) -> AnyArray:
        kinds = {values.dtype for values in self._values}
        kind = np.float32 if kinds == {np.dtype(np.float32)} else np.float64
        out = np.empty((len(self._values[0]), len(self._values)), dtype=kind)
        for k, values in enumerate(self._values):
            out[:, k] = values
        return out


def _numbers(batch: Any, name: str) -> AnyArray:
    column = batch.column(name)
    if column.null_count:
        raise ValueError(f"column {name!r} has missing values. Fill in or leave out.")
    values: AnyArray = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "fiub":
        raise TypeError(f"column {name!r} has type {column.type}: expected numbers.")
    return values


def _labels(batch: Any, name: str) -> AnyArray:
    column = batch.column(name)
    if column.null_count:
        raise ValueError(f"the label {name!r} is missing in some rows.")
    if hasattr(column, "dictionary_decode"):
        column = column.dictionary_decode()
    values: AnyArray = column.to_numpy(zero_copy_only=False)
    return values
