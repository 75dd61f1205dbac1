"""Reader of svmlight (LIBSVM) files, a few megabytes at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from maxmargin.compiled import svmlight as compiled
from maxmargin.core.matrices import AnyArray
from maxmargin.data.formats.compressed import Span, lines_before, opened
from maxmargin.data.manifest import shown

#: bytes of text parsed at a time
TEXT_BYTES = 16 << 20


def read_svmlight(
    path: str | os.PathLike[str],
    n_features: int | None = None,
    *,
    zero_based: bool = False,
    dtype: npt.DTypeLike = np.float64,
    text_bytes: int = TEXT_BYTES,
    span: Span | None = None,
) -> Iterator[Any]:
    """Read batches from an svmlight file, for :func:`write`, with bounded memory.

    Lines have the form ``label [qid:number] index:value ... [# comment]`` with ascending indices. Files that
    end in ``.gz``, ``.bz2``, ``.xz`` or ``.zst`` are decompressed on the fly (``.zst`` requires ``pip install
    "maxmargin[zstd]"``).

    Parameters
    ----------
    path : str or path
        The path or URL of the file.
    n_features : int, default=None
        Number of features; a larger index is an error. By default it is inferred, and later batches may have
        more features than the first.
    zero_based : bool, default=False
        Whether indices begin at 0. Most files are one-based; an index 0 is then an error.
    dtype : float64 or float32
        Type of the features.
    text_bytes : int
        Bytes of text per batch.
    span : (int, int), default=None
        Read only the lines that begin in this range of bytes. Not for compressed files.

    Yields
    ------
    tuple
        ``(X, y)``, or ``(X, y, None, group)`` if the lines have query ids.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from maxmargin import data
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "small.txt").write_text("+1 1:0.5 4:2  # a comment\\n-1 2:25e-2\\n")
    >>> rows = data.write(folder / "rows", data.read_svmlight(folder / "small.txt"))
    >>> rows.load()[0].toarray()
    array([[0.5 , 0.  , 0.  , 2.  ],
           [0.  , 0.25, 0.  , 0.  ]])
    """
    name, lines, width = os.fspath(path), 1, n_features or 0
    if os.path.isdir(name):
        raise IsADirectoryError(
            f"{name} is a folder, and read_svmlight reads one file. If it is a data set, use "
            "maxmargin.data.open."
        )
    queries: bool | None = None
    with opened(name, span) as file:
        for text in _whole_lines(file, text_bytes):
            batch = _Parsed(text, not zero_based, name, lines, span)
            lines += int(np.count_nonzero(text == ord("\n")))
            if not batch.rows:
                continue
            if queries is not None and queries != batch.has_queries:
                raise ValueError(f"{name}: some lines have a qid and some do not.")
            queries = batch.has_queries
            if n_features is not None and batch.width > n_features:
                raise ValueError(
                    f"{name} has a feature {batch.width - 1 + (not zero_based)}, but n_features="
                    f"{n_features}."
                )
            width = max(width, batch.width)
            X = batch.matrix(width, np.dtype(dtype))
            yield (X, batch.labels, None, batch.queries) if queries else (X, batch.labels)


class _Parsed:
    """The parsed lines of a piece of text."""

    def __init__(
        self, text: AnyArray, one_based: bool, name: str, first_line: int, span: Span | None
    ) -> None:
        most_rows = int(np.count_nonzero(text == ord("\n"))) + 1
        most = int(np.count_nonzero(text == ord(":"))) + 1
        labels, queries = np.empty(most_rows), np.empty(most_rows, dtype=np.int64)
        indptr, indices = np.empty(most_rows + 1, dtype=np.int64), np.empty(most, dtype=np.int64)
        data, uncertain = np.empty(most), np.empty((most_rows + most, 3), dtype=np.int64)
        rows, entries, n_uncertain, wrong, where = compiled.parse(
            text, len(text), int(one_based), compiled.POWERS,
            labels, queries, indptr, indices, data, uncertain,
        )  # fmt: skip

        def line_of(position: int) -> str:
            number = first_line + int(np.count_nonzero(text[:position] == ord("\n")))
            return f"{name}, line {number + lines_before(name, span)}"

        if wrong != compiled.FINE:
            excerpt = bytes(text[where : where + 30]).decode(errors="replace").split("\n")[0]
            raise ValueError(f"{line_of(where)}: {_TEXTS[wrong]} (at {excerpt!r}).")
        for begin, end, entry in uncertain[:n_uncertain].tolist():
            try:
                value = float(bytes(text[begin:end]))
            except ValueError:
                token = shown(repr(bytes(text[begin:end]).decode(errors="replace")))
                raise ValueError(f"{line_of(begin)}: {token} is not a number.") from None
            if entry < 0:
                labels[-1 - entry] = value
            else:
                data[entry] = value
        self.rows, self.labels, self.queries = rows, labels[:rows], queries[:rows]
        self.has_queries = bool(rows) and bool(queries[0] >= 0)
        self.width = int(indices[:entries].max(initial=-1)) + 1
        self._arrays = data[:entries], indices[:entries], indptr[: rows + 1]

    def matrix(self, width: int, dtype: np.dtype[Any]) -> Any:
        data, indices, indptr = self._arrays
        small = np.int32 if max(width, len(data)) < 2**31 else np.int64
        return sp.csr_matrix(
            (data.astype(dtype, copy=False), indices.astype(small), indptr.astype(small)),
            shape=(self.rows, width),
        )


_TEXTS = {
    compiled.NO_COLON: "expected index:value",
    compiled.BAD_INDEX: (
        "a feature index is not a number, or is 0 although indices begin at 1 (set zero_based=True?)"
    ),
    compiled.ORDER: "the indices of a line must be ascending",
    compiled.MIXED_QID: "qid must be a number before the features, on every line or on none",
}


def _whole_lines(file: IO[bytes], size: int) -> Iterator[AnyArray]:
    """Pieces of about ``size`` bytes that end at the end of a line."""
    rest = b""
    while True:
        piece = file.read(size)
        if not piece:
            break
        cut = piece.rfind(b"\n") + 1
        if cut:
            yield np.frombuffer(rest + piece[:cut], dtype=np.uint8)
            rest = piece[cut:]
        else:
            rest += piece
    if rest:
        yield np.frombuffer(rest, dtype=np.uint8)
