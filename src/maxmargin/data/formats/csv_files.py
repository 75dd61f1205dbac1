"""Reader of CSV files: tables of numbers with a column of labels, a thousand lines at a time."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, TextIO

import numpy as np

from maxmargin.core.matrices import AnyArray
from maxmargin.data.formats.compressed import Span, lines_before, opened_text, plain_name
from maxmargin.data.formats.parquet import Features
from maxmargin.data.manifest import checksum

#: lines that are converted to numbers at a time
LINES = 1_000


class TextLabelError(ValueError):
    """A label is not a number."""


def read_csv(
    path: str | os.PathLike[str],
    *,
    label: str | None,
    weight: str | None = None,
    group: str | None = None,
    columns: Sequence[str] | None = None,
    delimiter: str | None = None,
    header: bool = True,
    text_labels: bool = False,
    span: Span | None = None,
) -> Iterator[Any]:
    """Read batches from a CSV file, for :func:`write`. The column names become the feature names.

    Parameters
    ----------
    path : str or path
        The path or URL of the file, which may be compressed as for :func:`read_svmlight`.
    label : str or None
        The column of labels. None if there are no labels.
    weight, group : str, default=None
        Columns of weights and group ids. A group id that is not an integer is replaced by a hash of 62 bits.
    columns : list of str, default=None
        Feature columns, in this order. By default all other columns.
    delimiter : str, default=None
        Between columns: a comma by default, and a tab if the name ends in ``.tsv`` or ``.tab``.
    header : bool, default=True
        Whether the first line has the names of the columns. Otherwise, they are ``c0``, ``c1``, ...
    text_labels : bool, default=False
        Whether labels are strings rather than numbers.
    span : (int, int), default=None
        Read only the lines that begin in this range of bytes. Not for compressed files.

    Yields
    ------
    dict
        With the keys ``X`` (column names and values), ``y``, ``weight`` and ``group``.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from maxmargin import data
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "small.csv").write_text("a,b,y\\n1,0.5,0\\n2,0.25,1\\n")
    >>> rows = data.write(folder / "rows", data.read_csv(folder / "small.csv", label="y"))
    >>> rows.feature_names, rows.load()[0].tolist(), rows.y[:].tolist()
    (['a', 'b'], [[1.0, 0.5], [2.0, 0.25]], [0.0, 1.0])
    """
    table = CsvFile(os.fspath(path), delimiter, header, span)
    special = [name for name in (label, weight, group) if name is not None]
    names = [n for n in table.names if n not in special] if columns is None else list(columns)
    for name in (*names, *special):
        if name not in table.names:
            raise ValueError(f"{table.path} has no column {name!r}; it has {table.names}.")
    yield from table.batches(names, label, weight, group, text_labels=text_labels)


class CsvFile:
    """A CSV file that is read once. ``names`` are those of its columns."""

    def __init__(
        self, path: str, delimiter: str | None, header: bool, span: Span | None = None
    ) -> None:
        self.path, self._span = path, span
        tabs = plain_name(path).endswith((".tsv", ".tab"))
        self._delimiter = delimiter or ("\t" if tabs else ",")
        self._rows = self._read(span)
        _, first = next(iter(self._read(None)) if span else self._rows, (0, []))
        if not first:
            raise ValueError(f"{path} is empty.")
        self.names = (
            [name.strip() for name in first] if header else [f"c{k}" for k in range(len(first))]
        )
        if header and span and span[0] == 0:
            next(self._rows, None)
        self._first = [] if header or span else [(1, first)]

    def batches(
        self,
        columns: Sequence[str],
        label: str | None,
        weight: str | None,
        group: str | None,
        *,
        text_labels: bool,
    ) -> Iterator[dict[str, Any]]:
        """The rows as batches of these columns."""
        rows = self._checked()
        while chunk := list(islice(rows, LINES)):
            numbers = [number for number, _ in chunk]
            values = list(zip(*(row for _, row in chunk), strict=True))
            cells = dict(zip(self.names, values, strict=True))
            X = Features(list(columns), [self._numbers(cells, name, numbers) for name in columns])
            y: Any = None
            if label is not None:
                y = np.char.strip(cells[label])
                y = y if text_labels else self._numbers(cells, label, numbers, is_label=True)
            yield {
                "X": X,
                "y": y,
                "weight": None if weight is None else self._numbers(cells, weight, numbers),
                "group": None if group is None else _group_ids(cells[group]),
            }

    def _checked(self) -> Iterator[tuple[int, list[str]]]:
        """The rows with their lines; empty lines are left out."""
        for rows in (self._first, self._rows):
            for number, row in rows:
                if row and len(row) != len(self.names):
                    where = self._where(number)
                    raise ValueError(f"{where}: {len(row)} values for {len(self.names)} columns.")
                if row:
                    yield number, row

    def _read(self, span: Span | None) -> Iterator[tuple[int, list[str]]]:
        quotes = 0

        def counted(file: TextIO) -> Iterator[str]:
            nonlocal quotes
            for line in file:
                quotes += line.count('"')
                yield line

        with opened_text(self.path, span) as file:
            lines = csv.reader(counted(file), delimiter=self._delimiter)
            for row in lines:
                yield lines.line_num, row
        if span is not None and quotes % 2:
            raise ValueError(
                f"{self.path}: the file cannot be divided near byte {span[1]}, which seems to be within "
                "quotes. Convert it with part_bytes of at least its size."
            )

    def _numbers(
        self, cells: dict[str, Any], name: str, lines: Sequence[int], *, is_label: bool = False
    ) -> AnyArray:
        texts = cells[name]
        try:
            return np.fromiter(map(float, texts), np.float64, len(texts))
        except ValueError:
            pairs = zip(lines, texts, strict=True)
            line, text = next(pair for pair in pairs if not _is_number(pair[1]))
        what = f"{text!r} is not a number" if text.strip() else "a value is missing"
        text = f"{self._where(line)}, column {name!r}: {what}."
        if is_label:
            raise TextLabelError(f"{text} Pass text_labels=True if labels are strings.")
        raise ValueError(text)

    def _where(self, line: int) -> str:
        return f"{self.path}, line {line + lines_before(self.path, self._span)}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _group_ids(texts: Sequence[str]) -> AnyArray:
    """Integers as they are, others as hashes, so that ids do not depend on other rows."""
    names, inverse = np.unique(np.char.strip(texts), return_inverse=True)
    return np.array([_group_id(str(name)) for name in names], dtype=np.int64)[inverse]


def _group_id(name: str) -> int:
    for kind in (int, float):
        try:
            number = kind(name)
            if number == int(number) and abs(number) < (2**62 if kind is int else 2**53):
                return int(number)
        except (ValueError, OverflowError):  # not a number, or infinite
            pass
    return int.from_bytes(checksum(name.encode()).digest()[:8], "little") >> 2
