"""Reader of Parquet files, one record batch at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

AnyArray = npt.NDArray[Any]

#: rows read at a time
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
    """Read batches from a Parquet file or a folder of Parquet files, for :func:`write`.

    Requires pyarrow: ``pip install "maxmargin[arrow]"``. The column names become the feature names.

    Parameters
    ----------
    path : str or path
        A file, a folder of files, or a URL that pyarrow supports.
    label : str or None
        The column of labels: numbers or strings. None if there are no labels.
    weight, group : str, default=None
        Columns of weights and group ids.
    columns : list of str, default=None
        Feature columns, in this order. By default all other columns.
    rows : int
        Maximum rows per batch.

    Yields
    ------
    dict
        With the keys ``X`` (column names and values), ``y``, ``weight`` and ``group``.
    """
    try:
        import pyarrow.dataset as arrow
    except ImportError as error:
        raise ImportError(
            'read_parquet requires the package pyarrow: pip install "maxmargin[arrow]".'
        ) from error
    table = arrow.dataset(os.fspath(path), format="parquet")
    special = [name for name in (label, weight, group) if name is not None]
    known = table.schema.names
    names = [name for name in known if name not in special] if columns is None else list(columns)
    for name in (*names, *special):
        if name not in known:
            raise ValueError(f"{os.fspath(path)} has no column {name!r}; it has {known}.")
    # A short readahead suffices: the default holds several hundred megabytes.
    for batch in table.to_batches(
        columns=[*names, *special], batch_size=rows, batch_readahead=2, fragment_readahead=1
    ):
        if batch.num_rows:
            yield {
                "X": Features(names, [_numbers(batch, name) for name in names]),
                "y": None if label is None else _labels(batch, label),
                "weight": None if weight is None else _numbers(batch, weight),
                "group": None if group is None else _numbers(batch, group),
            }


class Features:
    """The part of a data frame that :func:`write` uses: names and values."""

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
        raise ValueError(f"column {name!r} has missing values. Impute them or drop the rows.")
    values: AnyArray = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "fiub":
        raise TypeError(f"column {name!r} has type {column.type}: expected numbers.")
    return values


def _labels(batch: Any, name: str) -> AnyArray:
    column = batch.column(name)
    if column.null_count:
        raise ValueError(f"the label column {name!r} has missing values.")
    if hasattr(column, "dictionary_decode"):
        column = column.dictionary_decode()
    values: AnyArray = column.to_numpy(zero_copy_only=False)
    return values
