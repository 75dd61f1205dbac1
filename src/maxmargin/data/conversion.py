"""Conversion of files to a data set, by any number of workers, and again after an interruption.

The files are divided into parts that do not depend on the workers: ranges of bytes of text, whole compressed
files, and row groups of Parquet. The name of a part is a hash of what it is made of, so that a part that was
written before is found again, and a file that has changed is read again.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from maxmargin.core.checks import integer, one_of
from maxmargin.data.dataset import Dataset
from maxmargin.data.formats.compressed import is_compressed, plain_name
from maxmargin.data.formats.parquet import arrow_dataset, read_parquet
from maxmargin.data.formats.svmlight import read_svmlight
from maxmargin.data.manifest import checksum
from maxmargin.data.parts import commit, is_complete, record_of, write_part
from maxmargin.data.storage import storage_for
from maxmargin.data.writer import Target

#: bytes of a file in a part
PART_BYTES = 128 << 20
READERS: dict[str, Callable[..., Iterator[Any]]] = {
    "svmlight": read_svmlight,
    "parquet": read_parquet,
}


class Part(NamedTuple):
    """What a part is made of, and the bytes that are read for it."""

    name: str
    format: str
    source: str
    options: dict[str, Any]
    size: int


def convert(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    dtype: Any = None,
    overwrite: bool = False,
    n_jobs: int | None = None,
    engine: Any = None,
    part_bytes: int = PART_BYTES,
    storage_options: dict[str, Any] | None = None,
    **options: Any,
) -> Dataset:
    """Convert files to a data set, with several workers if wanted.

    Files are read in parts. If the conversion is interrupted, complete parts stay in the folder, and the same
    call converts only the others. The data set and its fingerprint do not depend on the number of workers and
    on interruptions.

    Parameters
    ----------
    sources : str, path, or list of them
        Files in svmlight's format or Parquet, or folders of Parquet files. Text may be compressed
        (``.gz``, ``.bz2``, ``.xz``, ``.zst``), but a compressed file is read by one worker. Also URLs.
    path : str or path
        The folder or URL of the data set, as in :func:`write`.
    format : {"svmlight", "parquet"}, default=None
        By default, folders, ``.parquet``, and ``.pq`` are Parquet, and other files svmlight.
    dtype : float32 or float64, default=None
        Type of the stored features, as in :func:`write`.
    overwrite : bool, default=False
        Whether to replace an existing data set.
    n_jobs : int, default=None
        Number of workers; -1 means all cores.
    engine : {"processes", "threads", "ray"}, str or engine, default=None
        Where the workers run; by default in processes. On other machines, paths must have the same meaning.
    part_bytes : int
        Approximate number of bytes of a file that are read for a part. Other parts are other shards, so the
        fingerprint depends on it.
    storage_options : dict, default=None
        Options passed to fsspec for the data set, if it is a URL.
    **options
        Passed to :func:`read_svmlight` or :func:`read_parquet`, such as ``label="y"``.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from maxmargin import data
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for k in range(3):
    ...     _ = (folder / f"{k}.svm").write_text("+1 1:0.5 4:2\\n-1 2:0.25\\n")
    >>> data.convert(sorted(folder.glob("*.svm")), folder / "rows", zero_based=False)
    <Dataset of 6 rows and 4 features, float64, csr, 3 shards>
    """
    from maxmargin.engines import ProcessEngine, ThreadEngine, opened

    one = isinstance(sources, str | os.PathLike)
    files = [os.fspath(file) for file in ([sources] if one else sources)]  # type: ignore[arg-type, list-item, union-attr]
    integer("part_bytes", part_bytes)
    path = _absolute(os.fspath(path))
    storage = storage_for(path, storage_options)
    with storage.writing():  # what would prevent the commit is an error now
        Target(storage).new(overwrite)
    parts = [
        part for file in files for part in _parts(file, format, options, [part_bytes, str(dtype)])
    ]
    there = storage.sizes()
    left = [part for part in parts if record_of(part.name) not in there]
    with opened("processes" if engine is None else engine, n_jobs) as workers:
        n = len(left)
        if isinstance(workers, ProcessEngine | ThreadEngine):
            n = workers.n_workers
        if left:
            workers.open(partial(_PartWriter, path, storage_options, dtype), _shared(left, n))
            workers.gather(_PartWriter.run)
    names = [part.name for part in parts]
    return commit(path, names, overwrite=overwrite, storage_options=storage_options)


class _PartWriter:
    """Writes parts one after the other, except those that exist."""

    def __init__(self, path: Any, storage_options: Any, dtype: Any, parts: Sequence[Part]) -> None:
        self._path, self._storage_options, self._dtype = path, storage_options, dtype
        self._parts = parts

    def run(self) -> None:
        storage = storage_for(self._path, self._storage_options)
        for part in self._parts:
            # it is complete if another worker died, and the call is repeated
            if not is_complete(storage, part.name):
                batches = READERS[part.format](part.source, **part.options)
                write_part(
                    self._path, batches, part.name,
                    dtype=self._dtype, storage_options=self._storage_options,
                )  # fmt: skip


def _shared(parts: Sequence[Part], n: int) -> list[list[Part]]:
    """The parts of each worker: about the same number of bytes."""
    shares: list[list[Part]] = [[] for _ in range(min(n, len(parts)))]
    sizes = [0] * len(shares)
    for part in sorted(parts, key=lambda part: -part.size):
        least = sizes.index(min(sizes))
        shares[least].append(part)
        sizes[least] += part.size
    return shares


def _parts(
    source: str, format: str | None, options: dict[str, Any], key: list[Any]
) -> Iterator[Part]:
    """The parts of a file or folder."""
    kind = one_of("format", format or _format(source), READERS)
    try:
        inspect.signature(READERS[kind]).bind(source, **options)
    except TypeError as error:
        raise TypeError(f"{source} is read by {READERS[kind].__name__}: {error}.") from error
    divide = _row_groups if kind == "parquet" else _spans
    for file, mark, piece, size in divide(source, key[0]):
        content = json.dumps([kind, file, mark, piece, options, key], sort_keys=True, default=str)
        name = checksum(content.encode()).hexdigest()
        yield Part(name, kind, file, {**options, **piece}, size)


def _absolute(path: str) -> str:
    """A path for workers in other folders."""
    return path if "://" in path else os.path.abspath(path)


def _format(source: str) -> str:
    name = source.lower()
    if plain_name(name).endswith((".csv", ".tsv", ".tab")):
        raise ValueError(
            f"{source}: pass batches of a CSV file to data.write, for example those of pandas.read_csv with "
            "chunksize, or write it as Parquet."
        )
    return "parquet" if os.path.isdir(source) or name.endswith((".parquet", ".pq")) else "svmlight"


#: a file, what changes with its content, what to read of it, and the bytes of this
Piece = tuple[str, Any, dict[str, Any], int]


def _spans(file: str, part_bytes: int) -> Iterator[Piece]:
    """The ranges of bytes of a text file."""
    mark: tuple[int, Any]
    if "://" in file:
        from maxmargin.data.remote import identity

        mark = identity(file)
    else:
        file = _absolute(file)
        found = os.stat(file)
        mark = found.st_size, found.st_mtime_ns
    size = mark[0]
    n = 1 if is_compressed(file) else max(1, -(-size // part_bytes))
    for k in range(n):
        span = size * k // n, size * (k + 1) // n
        yield file, mark, {} if n == 1 else {"span": span}, span[1] - span[0]


def _row_groups(source: str, part_bytes: int) -> Iterator[Piece]:
    """The row groups of Parquet files, several in a part if they are small."""
    table = arrow_dataset(source := _absolute(source))
    scheme = f"{source.split('://')[0]}://" if "://" in source else ""
    for fragment in table.get_fragments():
        info = table.filesystem.get_file_info(fragment.path)
        groups, size = list[int](), 0
        for group in fragment.row_groups:
            groups.append(group.id)
            size += group.total_byte_size
            if size >= part_bytes or group.id == fragment.row_groups[-1].id:
                mark = [info.size, info.mtime_ns]
                yield scheme + fragment.path, mark, {"row_groups": groups}, size
                groups, size = [], 0
