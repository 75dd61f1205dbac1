"""Reader of Parquet files and tables of Arrow, one record batch at a time."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from maxmargin.core.matrices import AnyArray
from maxmargin.data.typed_rows import KINDS

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
    storage_options: dict[str, Any] | None = None,
) -> Iterator[Any]:
    """Read batches from a Parquet file or a folder of Parquet files, for :func:`write`.

    Requires pyarrow: ``pip install "maxmargin[arrow]"``. The column names become the feature names.

    Vectors are columns of lists of equal length, also of a fixed size: ``list<float>``,
    ``fixed_size_list<halffloat>[768]``. Several of them, and columns of numbers, are put side by side. If all
    have one type of float32, float16, int8, and uint8, it is kept.

    Rows are sparse if there are two feature columns of lists of any length: integers, which are the columns
    of features, counted from 0, and their values.

    Parameters
    ----------
    path : str or path
        A file, a folder of files, or a URL that fsspec supports.
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
    storage_options : dict, default=None
        Options passed to fsspec; for URLs only.

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
    table = arrow_dataset(path, storage_options)
    special = [name for name in (label, weight, group) if name is not None]
    known = table.schema.names
    names = [name for name in known if name not in special] if columns is None else list(columns)
    for name in (*names, *special):
        if name not in known:
            raise ValueError(f"{os.fspath(path)} has no column {name!r}; it has {known}.")
    reader = BatchReader(label, weight, group)
    # A short readahead suffices: the default holds several hundred megabytes.
    if row_groups is not None:
        [fragment] = table.get_fragments()
        table = fragment.subset(row_group_ids=list(row_groups))
    for batch in table.to_batches(
        columns=[*names, *special], batch_size=rows, batch_readahead=2, fragment_readahead=1
    ):
        if batch.num_rows:
            yield reader.batch_of(batch, names)


def read_arrow(
    source: Any,
    *,
    label: str | None,
    weight: str | None = None,
    group: str | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[Any]:
    """Read batches from tables of Arrow, for :func:`write`.

    Requires pyarrow: ``pip install "maxmargin[arrow]"``. Columns are used as in :func:`read_parquet`.

    Parameters
    ----------
    source : table, reader, or iterable of them
        A table, a data set, or a reader of pyarrow; a data set of Lance or Hugging Face; a frame of polars,
        or anything else with ``__arrow_c_stream__``; or an iterable of tables.
    label : str or None
        The column of labels: numbers or strings. None if there are no labels.
    weight, group : str, default=None
        Columns of weights and group ids.
    columns : list of str, default=None
        Feature columns, in this order. By default all other columns.

    Yields
    ------
    dict
        With the keys ``X``, ``y``, ``weight`` and ``group``.

    Examples
    --------
    >>> import tempfile
    >>> import maxmargin
    >>> import numpy as np
    >>> import pyarrow as pa
    >>> vectors = np.array([[1, 2], [3, 4], [5, 6]], dtype=np.int8)
    >>> lists = pa.FixedSizeListArray.from_arrays(vectors.ravel(), 2)
    >>> batches = maxmargin.data.read_arrow(pa.table({"vector": lists, "y": [0, 1, 1]}), label="y")
    >>> maxmargin.data.write(tempfile.mkdtemp(), batches)
    <Dataset of 3 rows and 2 features, int8, dense, 1 shard>
    """
    reader, special = BatchReader(label, weight, group), {label, weight, group}
    for batch in _record_batches(source):
        names = [n for n in batch.schema.names if n not in special] if columns is None else columns
        for name in (*names, *special - {None}):
            if name not in batch.schema.names:
                raise ValueError(f"there is no column {name!r}, only {batch.schema.names}.")
        if batch.num_rows:
            yield reader.batch_of(batch, list(names))


def _record_batches(source: Any) -> Iterator[Any]:
    import pyarrow as pa

    if isinstance(source, pa.RecordBatch):
        yield source
    elif hasattr(source, "to_batches"):
        yield from source.to_batches()
    elif hasattr(source, "__arrow_c_stream__"):
        yield from pa.RecordBatchReader.from_stream(source)
    elif hasattr(source, "with_format"):  # of Hugging Face
        yield from _record_batches(source.with_format("arrow").iter(ROWS))
    elif isinstance(source, str | Mapping) or not isinstance(source, Iterable):
        raise TypeError(
            f"read_arrow needs tables of Arrow, and found {type(source).__name__}. Pass a table, a reader, a "
            "data set of Lance or Hugging Face, a frame of polars, or an iterable of tables."
        )
    else:
        for part in source:
            yield from _record_batches(part)


class BatchReader:
    """Makes batches for :func:`write` of record batches of pyarrow; errors name the row."""

    def __init__(self, label: str | None, weight: str | None, group: str | None) -> None:
        self._label, self._weight, self._group = label, weight, group
        self._row, self._widths = 0, dict[str, int]()

    def batch_of(self, batch: Any, names: list[str]) -> dict[str, Any]:
        """The next batch."""
        special = [self._label, self._weight, self._group]
        y, weight, group = (None if name is None else self._column(batch, name) for name in special)
        out = {"X": self._features(batch, names), "y": y, "weight": weight, "group": group}
        self._row += batch.num_rows
        return out

    def _features(self, batch: Any, names: list[str]) -> Any:
        """Columns of numbers and of lists side by side, or a sparse matrix of two columns of lists."""
        columns = [self._column(batch, name, lists=True) for name in names]
        varying = [c for c in columns if isinstance(c, Lists) and not c.fixed]
        if len(varying) == len(columns) == 2 and any(c.values.dtype.kind in "iu" for c in varying):
            if varying[0].values.dtype.kind == "f":
                varying.reverse()
            return self._sparse(names, *varying)
        parts = [
            self._vectors(name, column) if isinstance(column, Lists) else column
            for name, column in zip(names, columns, strict=True)
        ]
        if len(parts) == 1 and parts[0].ndim == 2:
            return parts[0]
        titles = [
            title
            for name, part in zip(names, parts, strict=True)
            for title in (
                [name] if part.ndim == 1 else [f"{name}_{k}" for k in range(part.shape[1])]
            )
        ]
        return Features(titles, parts)

    def _sparse(self, names: list[str], places: Lists, values: Lists) -> sp.csr_matrix:
        differ = places.lengths != values.lengths
        if differ.any():
            row = self._row + int(np.argmax(differ))
            raise ValueError(
                f"the lists of {names[0]!r} and {names[1]!r} differ in length in row {row}."
            )
        if places.values.min(initial=0) < 0:
            raise ValueError(
                f"the columns {names} have a negative index: indices are counted from 0."
            )
        indptr = np.append(0, np.cumsum(places.lengths, dtype=np.int64))
        shape = (len(indptr) - 1, int(places.values.max(initial=-1)) + 1)
        return sp.csr_matrix((values.values, places.values.astype(np.int64), indptr), shape=shape)

    def _vectors(self, name: str, lists: Lists) -> AnyArray:
        """Lists of equal length as the rows of a matrix."""
        width = self._widths.setdefault(name, int(lists.lengths[0]))
        other = lists.lengths != width
        if other.any():
            at = int(np.argmax(other))
            raise ValueError(
                f"column {name!r} has a list of {lists.lengths[at]} numbers in row {self._row + at}, and of "
                f"{width} in rows before. Vectors must have the same length in all rows."
            )
        return lists.values.reshape(-1, width)

    def _column(self, batch: Any, name: str, *, lists: bool = False) -> Any:
        """A column of numbers or strings, or of lists of numbers."""
        column = batch.column(name)
        column = getattr(column, "storage", column)  # of a tensor
        self._require_all(column, name)
        if hasattr(column, "dictionary_decode"):
            column = column.dictionary_decode()
        if lists and hasattr(column, "flatten") and hasattr(column.type, "value_type"):
            lengths = column.value_lengths().to_numpy(zero_copy_only=False)
            inner = column.flatten()
            self._require_all(inner, name, lengths)
            return Lists(lengths, _numbers(inner, name), hasattr(column.type, "list_size"))
        if lists or name == self._weight:
            return _numbers(column, name)
        return column.to_numpy(zero_copy_only=False)

    def _require_all(self, column: Any, name: str, lengths: AnyArray | None = None) -> None:
        if column.null_count:
            what = "lists" if hasattr(column, "flatten") and lengths is None else "values"
            at = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            if lengths is not None:
                at = int(np.searchsorted(np.cumsum(lengths), at, side="right"))
            raise ValueError(
                f"column {name!r} has missing {what}, the first in row {self._row + at}. Impute them or drop "
                "the rows."
            )


class Lists(NamedTuple):
    """A column of lists: their lengths, all values, and whether the type says how long they are."""

    lengths: AnyArray
    values: AnyArray
    fixed: bool


def arrow_dataset(
    path: str | os.PathLike[str], storage_options: dict[str, Any] | None = None
) -> Any:
    """The table of a Parquet file or of a folder of them."""
    try:
        import pyarrow.dataset as arrow
    except ImportError as error:
        raise ImportError(
            'read_parquet requires the package pyarrow: pip install "maxmargin[arrow]".'
        ) from error
    name, files = os.fspath(path), None
    if "://" in name:
        from maxmargin.data.remote import filesystem

        files, name = filesystem(name, storage_options or {})
    return arrow.dataset(name, format="parquet", filesystem=files)


class Features:
    """The part of a data frame that :func:`write` uses: names, and values of one or several columns."""

    def __init__(self, names: list[str], values: list[AnyArray]) -> None:
        self.columns, self._values = names, values

    def to_numpy(self) -> AnyArray:
        """The columns side by side, in their type if all have the same, which is stored."""
        kinds = {values.dtype for values in self._values}
        keep = len(kinds) == 1 and next(iter(kinds)).name in (*KINDS, "float32")
        kind = next(iter(kinds)) if keep else np.dtype(np.float64)
        n = len(self._values[0])
        return np.concatenate(
            [v.astype(kind, copy=False).reshape(n, -1) for v in self._values], axis=1
        )


def _numbers(column: Any, name: str) -> AnyArray:
    values: AnyArray = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "fiub":
        raise TypeError(f"column {name!r} has type {column.type}: expected numbers.")
    return values
