"""Tables of numbers with a label column: CSV and Parquet.

Both are read in batches by pyarrow and :mod:`maxmargin.data`; here, columns get their roles.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from maxmargin.command_line.examples import (
    AnyArray,
    FileExamples,
    Read,
    ReaderOptions,
    whole_numbers,
)
from maxmargin.command_line.report import CommandError

#: bytes of a CSV file in a batch
BLOCK = 1 << 22
#: names of the label column that need no --label
USUAL_LABELS = ("label", "target", "class", "y")
ADVICE = (
    "Features must be numbers: encode categories as 0/1 columns, fill in what is missing, or leave columns "
    "out with --drop NAMES."
)


class Batches(NamedTuple):
    """The batches of a table, with what was found out about its columns, and the arguments that read it."""

    batches: Iterator[dict[str, Any]]
    options: ReaderOptions
    roles: dict[str, Any]


def read(path: str, options: ReaderOptions) -> Read:
    """All samples of a CSV file, of a Parquet file, or of a folder of Parquet files."""
    import scipy.sparse as sp

    batches, options, _ = batches_of(path, options)
    found = list(batches)
    if not found:
        raise CommandError(f"{path} holds no samples.")
    y, weight, group = (_joined(found, name) for name in ("y", "weight", "group"))
    if weight is not None and weight.dtype.kind not in "iufb":
        raise CommandError(f"{path}: the weights must be numbers.")
    y = None if y is None else whole_numbers(y)
    parts = [batch["X"] for batch in found]
    if sp.issparse(parts[0]):
        width = max(part.shape[1] for part in parts)
        for part in parts:
            part.resize((part.shape[0], width))
        return Read(FileExamples(sp.vstack(parts, format="csr"), y, weight, group), options)
    X = np.concatenate([part.to_numpy() for part in parts])
    return Read(FileExamples(X, y, weight, group, list(parts[0].columns)), options)


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


def batches_of(path: str, options: ReaderOptions) -> Batches:
    """The batches of a table, whose errors, of strings or of missing values, say what to do."""
    from maxmargin import data

    if options.format == "parquet":
        options, roles = parquet_roles(path, options)
        return Batches(_advised(path, data.read_parquet(path, **roles)), options, roles)
    rows = _csv_rows(path, options)
    options, roles = _roles(options, rows.schema.names, path)
    return Batches(_advised(path, data.read_arrow(rows, **roles)), options, roles)


def parquet_roles(path: str, options: ReaderOptions) -> tuple[ReaderOptions, dict[str, Any]]:
    """The arguments of :func:`maxmargin.data.read_parquet`, and the options with what was found out."""
    from maxmargin.data.formats.parquet import arrow_dataset

    try:
        names = arrow_dataset(path).schema.names
    except ImportError as error:
        raise CommandError(f"{path}: {error}") from error
    return _roles(options, names, path)


def _csv_rows(path: str, options: ReaderOptions) -> Any:
    """The record batches of a file. The first of them decides about types."""
    from maxmargin.data.formats.compressed import opened, plain_name

    try:
        from pyarrow import csv
    except ImportError as error:
        raise CommandError(
            f'{path}: CSV files require the package pyarrow: pip install "maxmargin[arrow]".'
        ) from error
    usual = "\t" if plain_name(path).endswith((".tsv", ".tab")) else ","
    try:
        return csv.open_csv(
            sys.stdin.buffer if path == "-" else opened(path),
            csv.ReadOptions(block_size=BLOCK, autogenerate_column_names=bool(options.no_header)),
            csv.ParseOptions(delimiter=options.delimiter or usual, newlines_in_values=True),
            csv.ConvertOptions(null_values=[""]),
        )
    except ValueError as error:
        raise CommandError(f"{path}: {error}.") from error


def _advised(path: str, batches: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    try:
        yield from batches
    except (TypeError, ValueError) as error:
        raise advised(path, error) from error


def advised(path: str, error: Exception) -> CommandError:
    """An error of a table, and what to do."""
    text = str(error)
    return CommandError(f"{text if path in text else f'{path}: {text}'} {ADVICE}")


# -- the roles of the columns ----------------------------------------------------------------------


def _roles(
    options: ReaderOptions, names: Sequence[str], path: str
) -> tuple[ReaderOptions, dict[str, Any]]:
    """The options with the label column that was found, and the columns as arguments of a reader."""
    options = options.without_missing(names)
    label = _label_column(options, names, path)
    special = {"label": label, "weight": options.weight, "group": options.group}
    columns, drop = (_listed(text) for text in (options.columns, options.drop))
    wanted = {"--weight": [options.weight], "--group": [options.group], "--columns": columns}
    if "drop" not in options.from_model:  # new data need not have what is left out
        wanted["--drop"] = drop
    for option, name in ((o, name) for o, several in wanted.items() for name in several):
        if name is not None and name not in names:
            raise _no_column(option, name, names, path)
    features = [n for n in columns or names if n not in special.values() and n not in drop]
    if not features:
        raise CommandError(f"{path} has no column of features.")
    return replace(options, label=label or options.label), {"columns": features, **special}


def _listed(text: str | None) -> list[str | None]:
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
