"""Reader of Parquet files, one record batch at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.core.matrices import AnyArray

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
    row_groups: Sequence[int] | None = None,
) -> Iterator[Any]:
    """Read batches from a Parquet file or a folder of Parquet files, for :func:`write`.

    Requires pyarrow: ``pip install "maxmargin[arrow]"``. The column names become the feature names.

    Rows are sparse if there are two feature columns of lists: column indices, counted from 0, and their
    values.

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
    row_groups : list of int, default=None
        Read only these row groups; for a single file.

    Yields
    ------
    dict
        With the keys ``X`` (column names and values, or a sparse matrix), ``y``, ``weight`` and ``group``.

    Examples
    --------
    >>> import tempfile
    >>> import maxmargin
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> folder = tempfile.mkdtemp()
    >>> pq.write_table(
    ...     pa.table({"columns": [[0, 3], [1]], "values": [[0.5, 2.0], [0.25]], "y": ["a", "b"]}),
    ...     f"{folder}/sparse.parquet",
    ... )
    >>> batches = maxmargin.data.read_parquet(f"{folder}/sparse.parquet", label="y")
    >>> maxmargin.data.write(f"{folder}/rows", batches).load()[0].toarray()
    array([[0.5 , 0.  , 0.  , 2.  ],
           [0.  , 0.25, 0.  , 0.  ]])
    """
    table = arrow_dataset(path)
    special = [name for name in (label, weight, group) if name is not None]
    known = table.schema.names
    names = [name for name in known if name not in special] if columns is None else list(columns)
    for name in (*names, *special):
        if name not in known:
            raise ValueError(f"{os.fspath(path)} has no column {name!r}; it has {known}.")
    # A short readahead suffices: the default holds several hundred megabytes.
    if row_groups is not None:
        [fragment] = table.get_fragments()
        table = fragment.subset(row_group_ids=list(row_groups))
    for batch in table.to_batches(
        columns=[*names, *special], batch_size=rows, batch_readahead=2, fragment_readahead=1
    ):
        if batch.num_rows:
            yield batch_of(batch, names, label, weight, group)


def batch_of(
    batch: Any, names: list[str], label: str | None, weight: str | None, group: str | None
) -> dict[str, Any]:
    """A batch for :func:`write` from columns of a record batch of pyarrow."""
    return {
        "X": _features(batch, names),
        "y": None if label is None else _values(batch, label),
        "weight": None if weight is None else _numbers(batch, weight),
        "group": None if group is None else _values(batch, group),
    }


def arrow_dataset(path: str | os.PathLike[str]) -> Any:
    """The table of a Parquet file or of a folder of them."""
    try:
        import pyarrow.dataset as arrow
    except ImportError as error:
        raise ImportError(
            'read_parquet requires the package pyarrow: pip install "maxmargin[arrow]".'
        ) from error
    return arrow.dataset(os.fspath(path), format="parquet")


def _features(batch: Any, names: list[str]) -> Features | sp.csr_matrix:
    """Columns of numbers, or a sparse matrix of two columns of lists."""
    kinds = [batch.schema.field(name).type for name in names]
    if not any(hasattr(kind, "value_type") and not hasattr(kind, "index_type") for kind in kinds):
        return Features(names, [_numbers(batch, name) for name in names])
    lists = [_lists(batch, name) for name in names]
    if len(lists) == 2 and lists[0][1].dtype.kind == "f":
        lists.reverse()
    if len(lists) != 2 or lists[0][1].dtype.kind not in "iu":
        raise TypeError(
            f"the columns {names} have the types {[str(kind) for kind in kinds]}: sparse rows are two "
            "columns of lists, integers (the indices of features) and numbers. Select them with columns=."
        )
    (indptr, indices), (ends, values) = lists
    if not np.array_equal(indptr, ends):
        raise ValueError(
            f"the lists of {names[0]!r} and {names[1]!r} differ in length in some row."
        )
    if indices.min(initial=0) < 0:
        raise ValueError(f"the columns {names} have a negative index: indices are counted from 0.")
    width = int(indices.max(initial=-1)) + 1
    return sp.csr_matrix((values, indices.astype(np.int64), indptr), shape=(len(indptr) - 1, width))


def _lists(batch: Any, name: str) -> tuple[AnyArray, AnyArray]:
    """Where each list of a column begins, and their values."""
    import pyarrow as pa

    column = batch.column(name)
    if not hasattr(column, "flatten") or not hasattr(column.type, "value_type"):
        raise TypeError(f"column {name!r} has type {column.type}, and others have lists.")
    lengths = column.value_lengths()
    values = pa.record_batch([column.flatten()], names=[f"{name} (in lists)"])
    if lengths.null_count:
        raise ValueError(f"column {name!r} has missing lists. Drop the rows.")
    indptr = np.append(0, np.cumsum(lengths.to_numpy(zero_copy_only=False), dtype=np.int64))
    return indptr, _numbers(values, values.schema.names[0])


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


def _values(batch: Any, name: str) -> AnyArray:
    """A column of labels or group ids: numbers or strings."""
    column = batch.column(name)
    if column.null_count:
        raise ValueError(f"column {name!r} has missing values. Drop the rows.")
    if hasattr(column, "dictionary_decode"):
        column = column.dictionary_decode()
    values: AnyArray = column.to_numpy(zero_copy_only=False)
    return values
