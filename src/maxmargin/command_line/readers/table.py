"""Tables of numbers with a label column: CSV and Parquet.

Both are read in batches of columns in the form of :func:`maxmargin.data.read_parquet`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from maxmargin.command_line.errors import CommandError
from maxmargin.command_line.readers.examples import (
    AnyArray,
    Read,
    ReaderOptions,
    Samples,
    whole_numbers,
)
from maxmargin.data.compressed import opened_text, plain_name

#: names of the label column that need no --label
USUAL_LABELS = ("label", "target", "class", "y")
#: lines that are converted to numbers at a time
LINES = 1_000
_ADVICE = (
    "Features must be numbers: encode categories as 0/1 columns, fill in what is missing, or leave columns "
    "out with --drop NAMES."
)
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


class _Roles(NamedTuple):
    """The roles of the columns of a table."""

    features: list[str]
    label: str | None
    weight: str | None
    group: str | None


def _columns(
    options: ReaderOptions, names: Sequence[str], path: str
) -> tuple[ReaderOptions, _Roles]:
    """The options with the label column that was found, and the roles of the columns."""
    options = options.without_missing(names)
    label = _label_column(options, names, path)
    special = (label, options.weight, options.group)
    columns, drop = (_listed(text) for text in (options.columns, options.drop))
    wanted = {"--weight": special[1:2], "--group": special[2:], "--columns": columns}
    if "drop" not in options.from_model:  # new data need not have what is left out
        wanted["--drop"] = drop
    for option, name in ((o, name) for o, several in wanted.items() for name in several):
        if name is not None and name not in names:
            raise _no_column(option, name, names, path)
    features = [n for n in columns or names if n not in special and n not in drop]
    if not features:
        raise CommandError(f"{path} has no column of features.")
    return replace(options, label=label or options.label), _Roles(features, *special)


def _listed(text: str | None) -> list[str]:
    return [] if text is None else [name.strip() for name in text.split(",")]


def _no_column(option: str, name: str, names: Sequence[str], path: str) -> CommandError:
    return CommandError(f"{option} {name}: {path} has no column {name!r}; {_shown(names)}.")


def _shown(names: Sequence[str]) -> str:
    return f"its columns are {', '.join(names[:20])}{' ...' if len(names) > 20 else ''}"


def _label_column(options: ReaderOptions, names: Sequence[str], path: str) -> str | None:
    """The name of the label column; None if the table has no labels."""
    given = options.label
    if given is not None:
        if given in names:
            return given
        if given.isdigit() and int(given) < len(names):
            return names[int(given)]
        if "label" in options.from_model:
            return None  # a table to predict need not have labels
        raise _no_column("--label", given, names, path)
    found = [name for name in names if name.lower() in USUAL_LABELS]
    if len(found) == 1:
        return found[0]
    raise CommandError(f"{path}: which column is the label? Use --label NAME; {_shown(names)}.")


def parquet_batches(path: str, options: ReaderOptions) -> tuple[ReaderOptions, Batches]:
    """The batches of a Parquet file or folder, and the options with what was found out."""
    try:
        import pyarrow.dataset as arrow
    except ImportError as error:
        raise CommandError(
            f'{path} requires the package pyarrow: pip install "maxmargin[arrow]".'
        ) from error
    names = arrow.dataset(path, format="parquet").schema.names
    options, roles = _columns(options, names, path)
    return options, _parquet_batches(path, roles)


def _parquet_batches(path: str, roles: _Roles) -> Batches:
    from maxmargin import data

    features, label, weight, group = roles
    try:
        yield from data.read_parquet(
            path, label=label, weight=weight, group=group, columns=features
        )
    except (TypeError, ValueError) as error:  # of strings, or of missing values
        raise CommandError(f"{path}: {error} {_ADVICE}") from error


def csv_batches(path: str, options: ReaderOptions) -> tuple[ReaderOptions, Batches]:
    """The batches of a CSV file, whose first line names the columns."""
    lines = _csv_lines(path, options)
    _, names = next(lines)
    options, roles = _columns(options, names, path)
    return options, _csv_batches(path, lines, names, roles)


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
    roles: _Roles,
) -> Batches:
    from maxmargin.data.parquet import Features

    inputs = [names.index(name) for name in roles.features]
    special = {"y": roles.label, "weight": roles.weight, "group": roles.group}
    while chunk := list(islice(lines, LINES)):
        numbers = [number for number, _ in chunk]
        columns = list(zip(*(line for _, line in chunk), strict=True))
        features = [_numbers(columns[k], numbers, names[k], path) for k in inputs]
        strings = {
            key: None if name is None else np.char.strip(columns[names.index(name)])
            for key, name in special.items()
        }
        yield {"X": Features(roles.features, features), **strings}


def _numbers(texts: Sequence[str], lines: Sequence[int], name: str, path: str) -> AnyArray:
    """A column of features."""
    try:
        return np.fromiter(map(float, texts), np.float64, len(texts))
    except ValueError:
        pairs = zip(lines, texts, strict=True)
        line, text = next(pair for pair in pairs if not _is_number(pair[1]))
    what = f"{text!r} is not a number" if text.strip() else "a value is missing"
    raise CommandError(f"{path}, line {line}, column {name!r}: {what}. {_ADVICE}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
