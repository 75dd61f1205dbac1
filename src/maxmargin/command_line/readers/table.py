"""Tables of numbers with a label column: CSV and Parquet."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NoReturn

import numpy as np

from maxmargin.command_line.errors import CommandError
from maxmargin.command_line.readers.examples import (
    AnyArray,
    Read,
    ReaderOptions,
    Rows,
    whole_numbers,
)
from maxmargin.command_line.readers.text import opened_text

#: names of the label column that need no --label
USUAL_LABELS = ("label", "target", "class", "y")
#: lines that are converted to numbers at a time
LINES = 10_000


def read_csv(path: str, options: ReaderOptions) -> Read:
    """All samples of a CSV file, with the names of its first line."""
    plain = (
        path.lower().rsplit(".", 1)[0]
        if path.lower().endswith((".gz", ".bz2", ".xz", ".zst"))
        else path
    )
    delimiter = options.delimiter or ("\t" if plain.lower().endswith((".tsv", ".tab")) else ",")
    with opened_text(path) as file:
        lines = csv.reader(file, delimiter=delimiter)
        first = next(lines, None)
        if not first:
            raise CommandError(f"{path} is empty.")
        names = [f"c{k}" for k in range(len(first))] if options.no_header else first
        names = [name.strip() for name in names]
        label = label_column(options.label, names, path)
        options = options.without_missing(names)
        special = [label, options.group, options.weight]
        inputs = [k for k, name in enumerate(names) if name not in special]
        columns = _Columns(path, names, inputs, [_index(s, names, path) for s in special])
        start = 1 if options.no_header else 2
        for chunk in _chunks(lines, [first] if options.no_header else []):
            columns.add(chunk, start)
            start += len(chunk)
    return Read(columns.rows(), replace(options, label=label or options.label))


def read_parquet(path: str, options: ReaderOptions) -> Read:
    """All samples of a Parquet file or of a folder of them."""
    from maxmargin import data

    names = parquet_names(path)
    label = label_column(options.label, names, path)
    options = options.without_missing(names)
    batches = list(data.read_parquet(path, label=label, weight=options.weight, group=options.group))
    if not batches:
        raise CommandError(f"{path} holds no samples.")
    X = np.concatenate([batch["X"].to_numpy() for batch in batches])

    def joined(name: str) -> AnyArray | None:
        return None if batches[0][name] is None else np.concatenate([b[name] for b in batches])

    y = joined("y")
    y = None if y is None else whole_numbers(_strings(y))
    rows = Rows(X, y, joined("weight"), joined("group"), list(batches[0]["X"].columns))
    return Read(rows, replace(options, label=label or options.label))


def parquet_names(path: str) -> list[str]:
    """The names of the columns of a Parquet file or folder."""
    try:
        import pyarrow.dataset as arrow
    except ImportError as error:
        raise CommandError(
            f'{path} requires the package pyarrow: pip install "maxmargin[arrow]".'
        ) from error
    return list(arrow.dataset(path, format="parquet").schema.names)


def label_column(given: str | None, names: Sequence[str], path: str) -> str | None:
    """The name of the label column; None if the table has no labels."""
    if given is not None:
        if given in names:
            return given
        if given.isdigit() and int(given) < len(names):
            return names[int(given)]
        return None  # a table to predict has no labels; a fit refuses it
    found = [name for name in names if name.lower() in USUAL_LABELS]
    if len(found) == 1:
        return found[0]
    raise CommandError(
        f"{path}: which column is the label? Name it with --label; the columns are "
        f"{', '.join(names[:20])}{' ...' if len(names) > 20 else ''}."
    )


def _index(name: str | None, names: Sequence[str], path: str) -> int | None:
    if name is None:
        return None
    if name not in names:
        raise CommandError(f"{path} has no column {name!r}; it has {', '.join(names[:20])}.")
    return names.index(name)


def _chunks(lines: Iterator[list[str]], first: list[list[str]]) -> Iterator[list[list[str]]]:
    chunk = first
    for line in lines:
        chunk.append(line)
        if len(chunk) == LINES:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


class _Columns:
    """The values of a table, collected in chunks."""

    def __init__(
        self, path: str, names: list[str], inputs: list[int], special: list[int | None]
    ) -> None:
        self._path, self._names, self._inputs = path, names, inputs
        self._label, self._group, self._weight = special
        self._X: list[AnyArray] = []
        self._special: dict[int, list[str]] = {k: [] for k in special if k is not None}

    def add(self, chunk: list[list[str]], start: int) -> None:
        """Add lines; ``start`` is the number of the first one."""
        width = len(self._names)
        for number, line in enumerate(chunk, start):
            if line and len(line) != width:
                raise CommandError(
                    f"{self._path}, line {number}: {len(line)} values for {width} columns."
                )
        chunk = [line for line in chunk if line]
        try:
            X = np.array([[line[k] for k in self._inputs] for line in chunk], dtype=np.float64)
        except ValueError:
            self._refuse(chunk, start)
        self._X.append(X.reshape(len(chunk), len(self._inputs)))
        for k, values in self._special.items():
            values.extend(line[k].strip() for line in chunk)

    def rows(self) -> Rows:
        if not sum(map(len, self._X)):
            raise CommandError(f"{self._path} holds no samples.")
        names = [self._names[k] for k in self._inputs]
        y = None if self._label is None else whole_numbers(_numbers(self._special[self._label]))
        group = None if self._group is None else _numbers(self._special[self._group])
        weight = None if self._weight is None else _numbers(self._special[self._weight])
        if weight is not None and weight.dtype.kind != "f":
            raise CommandError(f"{self._path}: the weights must be numbers.")
        return Rows(np.concatenate(self._X), y, weight, group, names)

    def _refuse(self, chunk: list[list[str]], start: int) -> NoReturn:
        for number, line in enumerate(chunk, start):
            for k in self._inputs:
                try:
                    float(line[k])
                except ValueError:
                    what = (
                        f"{line[k]!r} is not a number" if line[k].strip() else "a value is missing"
                    )
                    raise CommandError(
                        f"{self._path}, line {number}, column {self._names[k]!r}: {what}. Features must be "
                        "numbers: encode categories as 0/1 columns, and fill in what is missing."
                    ) from None
        raise CommandError(f"{self._path}: not all features are numbers.")


def _numbers(texts: list[str]) -> AnyArray:
    """Numbers where all texts are numbers, else strings."""
    try:
        return np.array(texts, dtype=np.float64)
    except ValueError:
        return np.array(texts, dtype=np.str_)


def _strings(values: AnyArray) -> AnyArray:
    return values.astype(np.str_) if values.dtype.kind == "O" else values
