"""Tables of numbers with a label column: CSV and Parquet.

Both are read in batches of columns in the form of :func:`maxmargin.data.read_parquet`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from maxmargin.command_line.errors import CommandError
from maxmargin.command_line.readers.examples import (
    AnyArray,
    Read,
    ReaderOptions,
    Samples,
    whole_numbers,
)
from maxmargin.command_line.readers.text import opened_text, plain_name

#: names of the label column that need no --label
USUAL_LABELS = ("label", "target", "class", "y")
#: lines that are converted to numbers at a time
LINES = 1_000
#: a batch: the keys X, y, weight and group
Batches = Iterator[dict[str, Any]]


def read(path: str, options: ReaderOptions) -> Read:
    """All samples of a CSV file, of a Parquet file, or of a folder of Parquet files."""
    batches_of = parquet_batches if options.format == "parquet" else csv_batches
    options, batches = batches_of(path, options)
    found = list(batches)
    if not found:
        raise CommandError(f"{path} holds no samples.")
    y, weight, group = (_joined(found, name) for name in ("y", "weight", "group"))
    if weight is not None and weight.dtype.kind not in "iufb":
        raise CommandError(f"{path}: the weights must be numbers.")
    X = np.concatenate([batch["X"].to_numpy() for batch in found])
    y = None if y is None else whole_numbers(y)
    return Read(Samples(X, y, weight, group, list(found[0]["X"].columns)), options)


def _joined(batches: Sequence[dict[str, Any]], name: str) -> AnyArray | None:
    """A column of all batches: numbers where all of its values are numbers, else strings."""
    if batches[0][name] is None:
        return None
    values: AnyArray = np.concatenate([batch[name] for batch in batches])
    if values.dtype.kind not in "OU":
        return values
    try:
        return values.astype(np.float64)
    except ValueError:
        return values.astype(np.str_)


def _columns(
    options: ReaderOptions, names: Sequence[str], path: str
) -> tuple[ReaderOptions, dict[str, str | None]]:
    """The options with the label column that was found, and the columns that are not features."""
    options = options.without_missing(names)
    label = _label_column(options.label, names, path)
    special = {"label": label, "weight": options.weight, "group": options.group}
    for name in special.values():
        if name is not None and name not in names:
            raise CommandError(f"{path} has no column {name!r}; it has {', '.join(names[:20])}.")
    if set(names) <= set(special.values()):
        raise CommandError(f"{path} has no column of features.")
    return replace(options, label=label or options.label), special


def _label_column(given: str | None, names: Sequence[str], path: str) -> str | None:
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


def parquet_batches(path: str, options: ReaderOptions) -> tuple[ReaderOptions, Batches]:
    """The batches of a Parquet file or folder, and the options with what was found out."""
    from maxmargin import data

    try:
        import pyarrow.dataset as arrow
    except ImportError as error:
        raise CommandError(
            f'{path} requires the package pyarrow: pip install "maxmargin[arrow]".'
        ) from error
    names = arrow.dataset(path, format="parquet").schema.names
    options, special = _columns(options, names, path)
    batches = data.read_parquet(
        path, label=special["label"], weight=special["weight"], group=special["group"]
    )
    return options, batches


def csv_batches(path: str, options: ReaderOptions) -> tuple[ReaderOptions, Batches]:
    """The batches of a CSV file, whose first line names the columns."""
    lines = _csv_lines(path, options)
    _, names = next(lines)
    options, special = _columns(options, names, path)
    return options, _csv_batches(path, lines, names, special)


def _csv_lines(path: str, options: ReaderOptions) -> Iterator[tuple[int, list[str]]]:
    """The names of the columns, then the lines with their numbers; empty lines are left out."""
    tabs = plain_name(path).endswith((".tsv", ".tab"))
    with opened_text(path) as file:
        lines = csv.reader(file, delimiter=options.delimiter or ("\t" if tabs else ","))
        first = next(lines, None)
        if not first:
            raise CommandError(f"{path} is empty.")
        if options.no_header:
            yield 0, [f"c{k}" for k in range(len(first))]
            yield 1, first
        else:
            yield 1, [name.strip() for name in first]
        for line in lines:
            if line and len(line) != len(first):
                raise CommandError(
                    f"{path}, line {lines.line_num}: {len(line)} values for {len(first)} columns."
                )
            if line:
                yield lines.line_num, line


def _csv_batches(
    path: str,
    lines: Iterator[tuple[int, list[str]]],
    names: list[str],
    special: dict[str, str | None],
) -> Batches:
    from maxmargin.data.parquet import Features

    inputs = [k for k, name in enumerate(names) if name not in special.values()]
    while chunk := list(islice(lines, LINES)):
        numbers = [number for number, _ in chunk]
        columns = list(zip(*(line for _, line in chunk), strict=True))
        features = [_numbers(columns[k], numbers, names[k], path) for k in inputs]
        strings = {
            key: None if name is None else np.char.strip(columns[names.index(name)])
            for key, name in special.items()
        }
        X = Features([names[k] for k in inputs], features)
        yield {"X": X, "y": strings.pop("label"), **strings}


def _numbers(texts: Sequence[str], lines: Sequence[int], name: str, path: str) -> AnyArray:
    """A column of features."""
    try:
        return np.fromiter(map(float, texts), np.float64, len(texts))
    except ValueError:
        pairs = zip(lines, texts, strict=True)
        line, text = next(pair for pair in pairs if not _is_number(pair[1]))
    what = f"{text!r} is not a number" if text.strip() else "a value is missing"
    raise CommandError(
        f"{path}, line {line}, column {name!r}: {what}. Features must be numbers: encode categories as 0/1 "
        "columns, and fill in what is missing."
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
