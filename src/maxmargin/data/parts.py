"""Writing of data sets, at once or in parts that any processes write and that become visible in one step.

A part is a data set in the folder of its data set: columns with unique names, and its own manifest in a file
``part-NAME.json``, which is written last. :func:`commit` joins the manifests. What differs from part to part
is written again: the codes of labels that are strings, and indices of 32 bits before and after wider ones.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np

from maxmargin.core.matrices import AnyArray
from maxmargin.data.checks import check_sizes
from maxmargin.data.dataset import Dataset
from maxmargin.data.labels import MOST_VALUES
from maxmargin.data.manifest import ColumnFile, Labels, Manifest, Shard, content_of, decode
from maxmargin.data.storage import Storage, storage_for
from maxmargin.data.writer import PARTS, RECORD, SHARD_BYTES, ColumnWriter, Target, Writer, token

#: numbers that are changed at a time, when a column is written again
_STEP = 1 << 21


def write(
    path: str | os.PathLike[str],
    batches: Iterable[object],
    *,
    dtype: Any = None,
    overwrite: bool = False,
    shard_bytes: int = SHARD_BYTES,
    storage_options: dict[str, Any] | None = None,
) -> Dataset:
    """Write a data set in one pass over batches of rows, with memory for one batch.

    Writing is atomic: the manifest is written last, in one step. If the writer is killed, the path still
    holds the previous data set, or none.

    Parameters
    ----------
    path : str or path
        A folder, created if necessary, or the URL of an object store, such as ``s3://bucket/name``.
    batches : iterable
        ``(X, y)``, ``(X, y, weight)``, ``(X, y, weight, group)``, or mappings with these keys. ``X`` is a
        NumPy array, a SciPy sparse matrix or a data frame; ``y`` holds numbers or strings, ``weight``
        nonnegative numbers, ``group`` integers. For sequences ``X`` is a list of matrices and ``y`` a list of
        label sequences; there is then one weight and one group per sequence. A mapping with ``lengths`` holds
        sequences as one stacked matrix and one array of labels. See also :func:`write_sequences`.
    dtype : float64, float32, float16 or bfloat16, default=None
        Type to which features are cast. By default float32, float16, int8, uint8, bfloat16 (of ml_dtypes),
        and the codes of :class:`Quantized` are kept, and any other type is stored as float64. Sparse matrices
        and sequences are float32 or float64.
    overwrite : bool, default=False
        Whether to replace an existing data set.
    shard_bytes : int
        Bytes of features after which a new shard begins.
    storage_options : dict, default=None
        Options passed to fsspec; for URLs only.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import maxmargin
    >>> folder = tempfile.mkdtemp()
    >>> rng = np.random.default_rng(0)
    >>> batches = ((rng.normal(size=(100, 3)), rng.choice(["no", "yes"], 100)) for _ in range(5))
    >>> data = maxmargin.data.write(folder, batches)
    >>> data
    <Dataset of 500 rows and 3 features, float64, dense, 1 shard>
    >>> data.classes.tolist(), data.class_counts.tolist()
    (['no', 'yes'], [232, 268])
    """
    storage = storage_for(path, storage_options)
    with storage.writing():
        target = Target(storage).new(overwrite)
        writer = Writer(storage, None, target.generation(), shard_bytes)
        manifest = writer.run(batches, dtype, partial(target.commit, keep_parts=not overwrite))
    return Dataset(path, storage_options, manifest)


def write_part(
    path: str | os.PathLike[str],
    batches: Iterable[object],
    name: str | None = None,
    *,
    dtype: Any = None,
    shard_bytes: int = SHARD_BYTES,
    storage_options: dict[str, Any] | None = None,
) -> str:
    """Write a part of a data set, which becomes visible with :func:`commit`.

    Any number of processes, on any machines, may write parts of one data set at the same time. A part is
    complete when this function returns, and stays if other parts fail.

    Parameters
    ----------
    path : str or path
        The folder or URL of the data set.
    batches : iterable
        As in :func:`write`. There may be no rows.
    name : str, default=None
        Letters, digits, ``_``, ``-``, and ``.``; by default a random one. If a part of this name exists, it
        is replaced, so that a task may be repeated.
    dtype, shard_bytes, storage_options
        As in :func:`write`.

    Returns
    -------
    str
        The name.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from maxmargin import data
    >>> folder = tempfile.mkdtemp()
    >>> names = [data.write_part(folder, [(np.full((2, 3), k), ["a", "b"])]) for k in range(4)]
    >>> data.commit(folder, names)
    <Dataset of 8 rows and 3 features, float64, dense, 4 shards>
    """
    name = uuid4().hex if name is None else name
    record = record_of(name)
    storage = storage_for(path, storage_options)
    Writer(storage, None, PARTS, shard_bytes).run_part(batches, dtype, record)
    return name


def commit(
    path: str | os.PathLike[str],
    parts: Sequence[str],
    *,
    append: bool = False,
    overwrite: bool = False,
    storage_options: dict[str, Any] | None = None,
) -> Dataset:
    """Make a data set of parts that :func:`write_part` wrote, in one step.

    Parts that are not in the list are removed. So are the files of parts that were replaced or not completed.

    Parameters
    ----------
    path : str or path
        The folder or URL.
    parts : list of str
        The names of the parts, in the order of their rows.
    append : bool, default=False
        Whether to append the parts to the data set that is there.
    overwrite : bool, default=False
        Whether to replace a data set that is there.
    storage_options : dict, default=None
        Options passed to fsspec; for URLs only.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from maxmargin import data
    >>> folder = tempfile.mkdtemp()
    >>> for name in ("monday", "tuesday"):            # in processes, or on machines
    ...     _ = data.write_part(folder, [(np.eye(3), ["a", "b", "a"])], name)
    >>> data.commit(folder, ["monday", "tuesday"])
    <Dataset of 6 rows and 3 features, float64, dense, 2 shards>
    """
    storage = storage_for(path, storage_options)
    if twice := [name for name, count in Counter(parts).items() if count > 1]:
        raise ValueError(f"part {twice[0]!r} is in the list twice.")
    with storage.writing():
        target = Target(storage).new(overwrite or append)
        base = target.base() if append else None
        with ThreadPoolExecutor(8) as pool:  # requests to a store take time
            found = list(pool.map(lambda name: _read(storage, name), parts))
        named = [(f"part {name!r}", m) for name, m in zip(parts, found, strict=True) if m]
        if base is not None:
            named.insert(0, (f"{storage.describe()}", base))
        if not named:
            raise ValueError("the parts hold no rows.")
        _require_alike(named)
        manifest = _joined(storage, [m for _, m in named], target.generation(base))
        check_sizes(storage, manifest)
        target.commit(manifest, keep_parts=False)
    return Dataset(path, storage_options, manifest)


def record_of(name: str) -> str:
    """The name of the file of a complete part."""
    record = f"part-{name}.json"
    if not RECORD.fullmatch(record):
        raise ValueError(
            f"name={name!r}: a part is named by up to 150 letters, digits, '_', '-', and '.'."
        )
    return record


def is_complete(storage: Storage, name: str) -> bool:
    """Whether a part was written."""
    return content_of(storage, record_of(name)) is not None


def _read(storage: Storage, name: str) -> Manifest | None:
    """The manifest of a part; None if it has no rows."""
    content = content_of(storage, record_of(name))
    if content is None:
        raise FileNotFoundError(
            f"{storage.describe()} has no part {name!r}: it was not written, or another commit removed it."
        )
    return None if content == b"null" else decode(content, storage.describe(record_of(name)))


def _require_alike(named: Sequence[tuple[str, Manifest]]) -> None:
    """Raise an error unless these can be parts of one data set."""
    expected: dict[str, tuple[str, Any]] = {}
    for who, part in named:
        for what, value in _traits(part).items():
            other, theirs = expected.setdefault(what, (who, value))
            if value != theirs:
                raise ValueError(
                    f"{who} and {other} cannot be parts of one data set: they differ in {what} ({value} and "
                    f"{theirs})."
                )


def _traits(part: Manifest) -> dict[str, Any]:
    out: dict[str, Any] = {
        "layout": part.layout,
        "the type of features": part.dtype,
        "the scale of codes": part.codes,
        "feature names": part.feature_names,
        "whether there are sequences": part.ragged,
        "tokens with named features": part.tokens,
    }
    if part.layout == "dense":
        out["the number of features"] = part.n_features
    if part.rows:
        out["the kind of labels"] = part.labels.kind
        out["the type of labels"] = part.labels.dtype
    for column in ("weight", "group"):
        out[f"whether there is a {column}"] = column in part.shards[0].files
    return out


def _joined(storage: Storage, parts: Sequence[Manifest], generation: int) -> Manifest:
    shards = tuple(_coded(storage, _widened(storage, parts)))
    labels = next((part.labels for part in parts if part.rows), parts[0].labels)
    return replace(
        parts[0],
        rows=sum(shard.rows for shard in shards),
        sequences=sum(shard.sequences for shard in shards),
        stored=sum(shard.stored for shard in shards),
        n_features=max(part.n_features for part in parts),
        largest_square=max(part.largest_square for part in parts),
        labels=_counted(labels, [part.labels for part in parts]),
        generation=generation,
        shards=shards,
    )


def _counted(kind: Labels, parts: Sequence[Labels]) -> Labels:
    """The labels of all parts, with their counts."""
    if kind.kind == "none":
        return kind
    counts: dict[Any, int] | None = {}
    for part in parts:
        if part.kind != "none" and (part.values is None or part.counts is None):
            counts = None
        if counts is not None:
            for value, count in zip(part.values or (), part.counts or (), strict=True):
                counts[value] = counts.get(value, 0) + count
    if kind.kind == "number" and counts is not None:
        counts = None if len(counts) > MOST_VALUES else dict(sorted(counts.items()))
    if counts is None:
        return replace(kind, values=None, counts=None)
    return replace(kind, values=tuple(counts), counts=tuple(counts.values()))


def _widened(storage: Storage, parts: Sequence[Manifest]) -> Iterator[tuple[Labels, Shard]]:
    """The shards with the labels of their parts. Column indices have 64 bits from the first part on that
    needs them, as if one writer had written all."""
    wide = False
    for part in parts:
        wide = wide or (part.layout == "csr" and part.n_features >= 2**31)
        for shard in part.shards:
            if wide and shard.files["indices"].dtype == "<i4":
                shard = _changed(storage, shard, "indices", "<i8", lambda values: values)
            yield part.labels, shard


def _coded(storage: Storage, shards: Iterable[tuple[Labels, Shard]]) -> Iterator[Shard]:
    """The shards with codes of strings that are the same everywhere, in the order in which strings occur."""
    known: dict[str, int] = {}
    for labels, shard in shards:
        new = tuple(text for text in shard.new_classes if text not in known)
        known.update({text: len(known) + k for k, text in enumerate(new)})
        if labels.kind == "text" and "label" in shard.files:
            place = np.array([known.get(text, -1) for text in labels.values or ()], dtype="<i4")
            if (place != np.arange(len(place)))[place >= 0].any():
                shard = _changed(storage, shard, "label", "<i4", place.take)
        yield replace(shard, new_classes=new).with_checksum()


def _changed(
    storage: Storage, shard: Shard, column: str, dtype: str, change: Callable[[AnyArray], AnyArray]
) -> Shard:
    """The shard with a column that is written again."""
    old = shard.files[column]
    name = f"{PARTS:04d}-{token()}00000.{column}.bin"
    writer = ColumnWriter(name, np.dtype(dtype), (), storage.create(name))
    for start in range(0, old.shape[0], _STEP):
        stop = min(old.shape[0], start + _STEP)
        writer.add(change(storage.section(old.name, old.dtype, start, stop)))
    storage.finish(writer.file)
    files: dict[str, ColumnFile] = {**shard.files, column: writer.entry()}
    return replace(shard, files=files)
