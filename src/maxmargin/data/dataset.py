"""Data sets on disk, written in one pass and read by row ranges."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from itertools import accumulate as running
from itertools import pairwise
from typing import Any

import numpy as np

from maxmargin.core.matrices import AnyArray
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.cached import CachedStorage
from maxmargin.data.checks import ColumnCheck, check_content, check_sizes, read_manifest
from maxmargin.data.design import CSRDesign, DenseDesign, as_matrix
from maxmargin.data.in_place import InPlace, array_manifest, is_array_file, split
from maxmargin.data.manifest import DatasetError, Manifest
from maxmargin.data.remote import RemoteStorage, require_no_keys
from maxmargin.data.shard_columns import ShardColumn, pieces
from maxmargin.data.sharded import InMemory, ShardedDesign, ascends
from maxmargin.data.storage import LocalStorage, Source, storage_for
from maxmargin.data.tokens.token_vectorizer import TokenVectorizer
from maxmargin.data.typed_design import TypedDesign
from maxmargin.data.typed_rows import as_array
from maxmargin.data.writer import SHARD_BYTES, Target, Writer


def open(
    path: str | os.PathLike[str],
    *,
    y: Any = None,
    scale: Any = None,
    offset: Any = None,
    storage_options: dict[str, Any] | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> Dataset:
    """Open a data set, or a matrix in a file of NumPy. Only the manifest is loaded.

    The manifest and the size of every file are checked; :meth:`Dataset.verify` checks all content.

    The rows of a ``.npy`` or ``.npz`` file stay where they are, in their type (float64, float32, float16,
    bfloat16 of ml_dtypes, int8, or uint8). One pass finds the longest row, and checks that all are finite. An
    ``.npz`` file must not be compressed; its arrays ``X``, ``y``, ``weight``, ``group``, ``scale``, and
    ``offset`` are used.

    Parameters
    ----------
    path : str or path
        The path passed to :func:`write`, or a ``.npy`` or ``.npz`` file.
    y : array or path, default=None
        For files of NumPy only: the labels, or the ``.npy`` file that holds them.
    scale, offset : float or array of shape (n_features,), default=None
        For files of NumPy only: integers stand for ``scale * code + offset``; see :class:`Quantized`.
    storage_options : dict, default=None
        Options passed to fsspec; for URLs only. They may contain keys, so they are not pickled: see
        :ref:`credentials`.
    cache : str or path, default=None
        A folder on a local disk for copies of the files of a URL, created if necessary. A file is downloaded
        and compared with its checksum when it is first read, once per machine: several data sets and
        processes may use the same folder. Copies are never deleted. By default nothing is kept, and every
        pass downloads the files again.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import maxmargin
    >>> folder = tempfile.mkdtemp()
    >>> _ = maxmargin.data.write(folder, [(np.eye(4, dtype=np.float32), [1, 1, -1, -1])])
    >>> data = maxmargin.data.open(folder)
    >>> data.shape, data.y[1:3].tolist()
    ((4, 4), [1, -1])
    """
    given = {"y": y, "scale": scale, "offset": offset}
    own = {name: value for name, value in given.items() if value is not None}
    if is_array_file(path):
        return ArrayDataset(path, storage_options, cache=cache, given=own)
    if own:
        raise ValueError(
            f"{', '.join(own)}: for .npy and .npz files only, and {os.fspath(path)} is a data set."
        )
    return Dataset(path, storage_options, cache=cache)


class Dataset:
    """Samples on disk with labels and optional weights and groups. Created by :func:`open` and :func:`write`.

    A data set implements :class:`Design`, so estimators accept it in place of X.

    A data set is pickled as its path and manifest. Unpickling opens it again, with the same rows, even if
    rows were appended in the meantime, and makes no request to an object store.

    Attributes
    ----------
    shape : (rows, features)
    nnz : int
        Number of stored entries.
    dtype : dtype
        Type of the stored features; uint16 for the bits of bfloat16.
    design : ShardedDesign
        Products with row ranges, used by solvers.
    y, weight, group : LazyColumn or None
        Read on demand: ``data.y[lo:hi]`` is an array.
    codes : LazyColumn or None
        Labels as indices into ``classes``.
    classes, class_counts : ndarray or None
        Sorted distinct labels and their counts; None for more than 10,000 distinct numbers.
    feature_names : list of str or None
    vectorizer : TokenVectorizer or None
        How tokens with named features became rows; see :func:`write_sequences`.
    largest_square : float
        The largest \\|x\\|² over all rows.
    fingerprint : list of str
        One checksum per shard.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        storage_options: dict[str, Any] | None = None,
        manifest: Manifest | None = None,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        self.path, self.storage_options = os.fspath(path), storage_options
        self.cache = None if cache is None else os.path.abspath(cache)
        self._storage = storage_for(path, storage_options)
        if manifest is not None:  # checked before, where it was opened
            self._set(manifest)
            return
        self._set(read_manifest(self._storage))
        check_sizes(self._storage, self._manifest)

    def _set(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._source = self._source_for(manifest)
        for name in (
            "design",
            "y",
            "codes",
            "weight",
            "group",
            "classes",
            "class_counts",
            "vectorizer",
        ):
            self.__dict__.pop(name, None)
        self._row_starts = list(running((s.rows for s in manifest.shards), initial=0))
        self._unit_starts = self._row_starts
        if manifest.ragged:
            self._unit_starts = list(running((s.sequences for s in manifest.shards), initial=0))

    def _source_for(self, manifest: Manifest) -> Source:
        if isinstance(self._storage, RemoteStorage):
            remote = self._storage.verified(manifest.shards)
            return (
                remote if self.cache is None else CachedStorage(remote, self.cache, manifest.shards)
            )
        if self.cache is not None:
            raise ValueError(f"cache is for URLs such as s3://...; {self.path} is a local path.")
        return self._storage

    def __reduce__(self) -> Any:
        require_no_keys(self.path, self.storage_options)
        return Dataset, (self.path, self.storage_options, self._manifest, self.cache)

    def __repr__(self) -> str:
        m = self._manifest
        rows = f"{m.sequences} sequences, {m.rows} rows" if m.ragged else f"{m.rows} rows"
        shards = f"{len(m.shards)} shard{'s' * (len(m.shards) != 1)}"
        return (
            f"<Dataset of {rows} and {m.n_features} features, {m.type_name}, {m.layout}, {shards}>"
        )

    def __array__(self, *args: object, **options: Any) -> AnyArray:
        """Refuse to become an array, as the cross-validation of scikit-learn would make it."""
        raise TypeError(
            "a data set on disk is not an array, and scikit-learn cannot split it. Pass it to fit or "
            "LinearSVCCV, or load it if it fits into memory: X, y, sample_weight = dataset.load()."
        )

    def __len__(self) -> int:
        """Number of examples: rows, or sequences if the data set holds sequences."""
        return self._unit_starts[-1]

    @property
    def shape(self) -> tuple[int, int]:
        return self._manifest.rows, self._manifest.n_features

    @property
    def nnz(self) -> int:
        return self._manifest.stored

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self._manifest.stored_dtype)

    @property
    def layout(self) -> str:
        """ "dense" or "csr"."""
        return self._manifest.layout

    @property
    def ragged(self) -> bool:
        """Whether the data set holds sequences."""
        return self._manifest.ragged

    @property
    def feature_names(self) -> list[str] | None:
        names = self._manifest.feature_names
        return None if names is None else list(names)

    @cached_property
    def vectorizer(self) -> TokenVectorizer | None:
        tokens, names = self._manifest.tokens, self._manifest.feature_names
        if tokens is None:
            return None
        made = TokenVectorizer(tokens.n_hashed, tokens.min_count)
        return made if names is None else made.set_names(names)

    @property
    def string_tokens(self) -> bool:
        """Whether all tokens were plain strings."""
        tokens = self._manifest.tokens
        return tokens is not None and tokens.strings

    @property
    def largest_square(self) -> float:
        return self._manifest.largest_square

    @cached_property
    def design(self) -> ShardedDesign:
        return ShardedDesign(self._source, self._manifest)

    def dot(self, W: Array, lo: int, hi: int) -> Array:
        """``X[lo:hi] @ W`` for W of shape (features,) or (features, K)."""
        return self.design.dot(W, lo, hi)

    def accumulate(self, coef: Array, lo: int, hi: int, out: Array) -> None:
        """``out += X[lo:hi].T @ coef``."""
        self.design.accumulate(coef, lo, hi, out)

    def block(self, lo: int, hi: int) -> DenseDesign | CSRDesign:
        """A copy of the rows ``lo .. hi-1`` in memory."""
        return self.design.block(lo, hi)

    @property
    def far(self) -> bool:
        """Whether the rows are read over a network."""
        return self.design.far

    def blocks(self, ranges: Sequence[tuple[int, int]]) -> list[DenseDesign | CSRDesign]:
        """The rows of several ranges in memory; see :meth:`block`."""
        return self.design.blocks(ranges)

    def take(self, rows: IntArray) -> InMemory:
        """A copy of these rows in memory, in this order."""
        return self.design.take(rows)

    def rows_at(self, entries: Sequence[int]) -> list[int]:
        """For each number of entries, the first row that has so many before it."""
        return self.design.rows_at(entries)

    @cached_property
    def y(self) -> ShardColumn | None:
        if self._manifest.labels.kind != "text":
            return self._column("label", None)
        return self._column("label", partial(_taken, self._stored_classes))

    @cached_property
    def codes(self) -> ShardColumn | None:
        classes = self.classes
        if classes is None:
            return None
        if self._manifest.labels.kind == "text":
            rank = np.searchsorted(classes, self._stored_classes)
            return self._column("label", partial(_taken, rank))
        return self._column("label", partial(_positions, classes))

    @cached_property
    def weight(self) -> ShardColumn | None:
        return self._column("weight", None)

    @cached_property
    def group(self) -> ShardColumn | None:
        return self._column("group", None)

    @cached_property
    def classes(self) -> AnyArray | None:
        return None if self._manifest.labels.values is None else np.sort(self._stored_classes)

    @cached_property
    def class_counts(self) -> AnyArray | None:
        counts = self._manifest.labels.counts
        return None if counts is None else np.array(counts)[np.argsort(self._stored_classes)]

    @property
    def stores_signs(self) -> bool:
        """Whether the labels are -1 and +1, one byte each, in local files."""
        if not isinstance(self._storage, LocalStorage) or self.y is None or self.classes is None:
            return False
        return self.y.dtype == np.int8 and self.classes.tolist() == [-1, 1]

    @property
    def fingerprint(self) -> list[str]:
        return [shard.checksum for shard in self._manifest.shards]

    def extends(self, fingerprint: list[str]) -> bool:
        """Whether this data set had this fingerprint, possibly before rows were appended."""
        return self.fingerprint[: len(fingerprint)] == list(fingerprint)

    def append(
        self, batches: Iterable[object], *, dtype: Any = None, shard_bytes: int = SHARD_BYTES
    ) -> Dataset:
        """Append rows, in one pass over batches as in :func:`write`. Existing files are not changed.

        New rows must have the same features and type (``dtype`` casts them); sparse rows may add features. If
        the writer is killed, nothing is appended.

        Returns
        -------
        Dataset
            This data set, including the new rows.
        """
        if self._manifest.tokens is not None:
            raise ValueError(
                f"{self.path}: nothing can be appended to tokens with named features, because new names "
                "would have no columns. Write all sequences again with maxmargin.data.write_sequences."
            )
        with self._storage.writing():
            target = Target(self._storage)
            base = target.base()
            if [shard.checksum for shard in base.shards] != self.fingerprint:
                raise DatasetError(
                    f"{self.path}: the data set has changed since it was opened. Open it again, then append."
                )
            writer = Writer(self._storage, base, target.generation(base), shard_bytes)
            manifest = writer.run(batches, dtype, partial(target.commit, keep_parts=True))
        self._set(manifest)
        return self

    def verify(self) -> None:
        """Read all files and compare them with the checksums in the manifest; an error names the damaged
        file.

        Also check that pointers, column indices and label codes are in range.
        """
        check_sizes(self._storage, self._manifest)
        for shard in self._manifest.shards:
            check_content(self._storage, self._manifest, shard)

    def load(self) -> tuple[Any, Any, AnyArray | None]:
        """``(X, y, weight)`` in memory, X in its type; X and y are lists if the data set holds sequences."""
        weight = None if self.weight is None else np.asarray(self.weight)
        if self.ragged:
            return *self.sequences(0, len(self)), weight
        y = None if self.y is None else np.asarray(self.y)
        rows = self.design.stored(0, self.shape[0])
        return as_array(rows.rows) if isinstance(rows, TypedDesign) else as_matrix(rows), y, weight

    def sequences(self, lo: int, hi: int) -> tuple[list[Any], list[AnyArray] | None]:
        """Sequences ``lo .. hi-1`` in memory: a list of matrices and a list of label arrays."""
        X, lengths, y = self.stacked(lo, hi)
        spans = list(pairwise([0, *np.cumsum(lengths).tolist()]))
        return [X[a:b] for a, b in spans], None if y is None else [y[a:b] for a, b in spans]

    def stacked(self, lo: int, hi: int) -> tuple[Any, IntArray, AnyArray | None]:
        """Sequences ``lo .. hi-1`` in memory: one matrix, the length of each sequence, and all labels."""
        begin, lengths = self.lengths(lo, hi)
        end = begin + int(lengths.sum())
        y = None if self.y is None else np.array(self.y[begin:end])
        return as_matrix(self.design.block(begin, end)), lengths, y

    def lengths(self, lo: int, hi: int) -> tuple[int, IntArray]:
        """The first row of the sequences ``lo .. hi-1``, and the length of each of them."""
        if not self.ragged:
            raise ValueError("the data set does not hold sequences: use design.block(lo, hi).")
        if not 0 <= lo <= hi <= len(self):
            raise IndexError(f"sequences {lo} .. {hi} are out of range: there are {len(self)}.")
        begin: int | None = None
        parts: list[AnyArray] = [np.empty(0, dtype=np.int64)]
        for k, first, last in pieces(self._unit_starts, lo, hi):
            file, rows = self._manifest.shards[k].files["sequence"], self._manifest.shards[k].rows
            pointers = self._source.section(file.name, file.dtype, first, last + 1)
            whole = last < self._manifest.shards[k].sequences or pointers[-1] == rows
            if not (whole and ascends(pointers, first, rows)):
                raise DatasetError(
                    f"{self._storage.describe(file.name)} (shard {k}): the bounds of its sequences are "
                    "out of range. The file was modified after it was written."
                )
            begin = self._row_starts[k] + int(pointers[0]) if begin is None else begin
            parts.append(np.diff(pointers).astype(np.int64, copy=False))
        return begin or 0, np.concatenate(parts)

    @cached_property
    def _stored_classes(self) -> AnyArray:
        """Classes in the order of the manifest; for strings this is the order of the codes."""
        return self._manifest.labels.array()

    def _column(self, name: str, decode: Any) -> ShardColumn | None:
        if not any(name in shard.files for shard in self._manifest.shards):
            return None
        starts = self._row_starts if name == "label" else self._unit_starts
        return ShardColumn(
            self._source, self._manifest.shards, starts, name, decode, self._check_of(name)
        )

    def _check_of(self, name: str) -> ColumnCheck:
        labels = self._manifest.labels
        if name != "label":
            return ColumnCheck(signed=name != "weight")
        if labels.kind == "text":
            return ColumnCheck(n_codes=len(labels.values or ()))
        return ColumnCheck(classes=self.classes)


class ArrayDataset(Dataset):
    """A matrix in a file of NumPy."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        storage_options: dict[str, Any] | None = None,
        manifest: Manifest | None = None,
        cache: str | os.PathLike[str] | None = None,
        given: dict[str, Any] | None = None,
        found: tuple[int, dict[str, AnyArray]] | None = None,
    ) -> None:
        if cache is not None:
            raise ValueError(
                "cache is for data sets; copy a file of NumPy to a local disk instead."
            )
        if storage_options:
            raise ValueError(
                "storage_options are for data sets. For a file of NumPy at a URL, set the options of fsspec "
                "in the environment."
            )
        self.path, self.storage_options, self.cache = os.fspath(path), None, None
        self._storage = storage_for(split(self.path)[0], storage_options)
        if manifest is None or found is None:
            manifest, start, held = array_manifest(self.path, self._storage, given or {})
            found = start, held
        self._found = found
        self._set(manifest)

    def _source_for(self, manifest: Manifest) -> Source:
        return InPlace(self._storage, split(self.path)[1], *self._found)

    def __reduce__(self) -> Any:
        require_no_keys(self.path, self.storage_options)
        kept = (self.path, self.storage_options, self._manifest, None, None, self._found)
        return ArrayDataset, kept

    def append(self, batches: Iterable[Any], **options: Any) -> Dataset:
        """Refused: a file of NumPy is not changed."""
        raise ValueError(f"{self.path} is not changed: write a data set, and append to that.")

    def verify(self) -> None:
        """Read the rows anew; an error names the row that is not finite."""
        array_manifest(self.path, self._storage, {})


def _taken(values: AnyArray, codes: AnyArray) -> AnyArray:
    """Strings of these codes. A damaged file may hold invalid codes."""
    if len(codes) and not 0 <= codes.min() <= codes.max() < len(values):
        raise DatasetError("a label is not one of the classes: the data set was modified.")
    return values.take(codes)


def _positions(classes: AnyArray, labels: AnyArray) -> AnyArray:
    """Codes of numeric labels."""
    codes = classes.searchsorted(labels)
    if len(codes) and (codes.max() == len(classes) or (classes[codes] != labels).any()):
        raise DatasetError("a label is not one of the classes: the data set was modified.")
    return codes
