"""Tables of numbers with a label column: CSV and Parquet.

Both are read in batches by pyarrow; here, columns get their roles.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from maxmargin.command_line.errors import CommandError
from maxmargin.command_line.readers.examples import (
    AnyArray,
    Read,
    ReaderOptions,
    Samples,
    whole_numbers,
)

#: bytes of a CSV file in a batch
BLOCK = 1 << 22
#: names of the label column that need no --label
USUAL_LABELS = ("label", "target", "class", "y")
ADVICE = (
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
    y = None if y is None else whole_numbers(y)
    if sp.issparse(found[0]["X"]):
        width = max(batch["X"].shape[1] for batch in found)
        for batch in found:
            batch["X"].resize((batch["X"].shape[0], width))
        X = sp.vstack([batch["X"] for batch in found], format="csr")
        return Read(Samples(X, y, weight, group), options)
    X = np.concatenate([batch["X"].to_numpy() for batch in found])
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

    def arguments(self) -> dict[str, Any]:
        """As keyword arguments of a reader."""
        return {"columns": self.features, **{k: getattr(self, k) for k in self._fields[1:]}}


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
    from maxmargin import data

    options, arguments = parquet_arguments(path, options)
    return options, _advised(path, data.read_parquet(path, **arguments))


def parquet_arguments(path: str, options: ReaderOptions) -> tuple[ReaderOptions, dict[str, Any]]:
    """The arguments of :func:`maxmargin.data.read_parquet`, and the options with what was found out."""
    from maxmargin.data.formats.parquet import arrow_dataset

    try:
        names = arrow_dataset(path).schema.names
    except ImportError as error:
        raise CommandError(f"{path}: {error}") from error
    options, roles = _columns(options, names, path)
    return options, roles.arguments()


def csv_batches(path: str, options: ReaderOptions) -> tuple[ReaderOptions, Batches]:
    """The batches of a CSV file, and the options with what was found out."""
    from maxmargin.data.formats.parquet import BatchReader

    names, table = _csv_file(path, options)
    options, roles = _columns(options, names, path)
    features, *special = roles
    reader = BatchReader(*special)
    batches = (reader.batch_of(batch, features) for batch in table if batch.num_rows)
    return options, _advised(path, batches)


def _csv_file(path: str, options: ReaderOptions) -> tuple[list[str], Iterator[Any]]:
    """The names of the columns, and the record batches. The first of them decides about types."""
    from maxmargin.data.formats.compressed import opened, plain_name

    try:
        from pyarrow import csv
    except ImportError as error:
        raise CommandError(
            f'{path}: CSV files require the package pyarrow: pip install "maxmargin[arrow]".'
        ) from error
    tabs = plain_name(path).endswith((".tsv", ".tab"))
    try:
        table = csv.open_csv(
            sys.stdin.buffer if path == "-" else opened(path),
            csv.ReadOptions(block_size=BLOCK, autogenerate_column_names=bool(options.no_header)),
            csv.ParseOptions(
                delimiter=options.delimiter or ("\t" if tabs else ","), newlines_in_values=True
            ),
            csv.ConvertOptions(null_values=[""]),
        )
    except ValueError as error:
        raise CommandError(f"{path}: {error}.") from error
    return table.schema.names, iter(table)


def _advised(path: str, batches: Batches) -> Batches:
    """Batches whose errors, of strings or of missing values, say what to do."""
    try:
        yield from batches
    except (TypeError, ValueError) as error:
        raise advised(path, error) from error


def advised(path: str, error: Exception) -> CommandError:
    """An error of a table, and what to do."""
    text = str(error)
    return CommandError(f"{text if path in text else f'{path}: {text}'} {ADVICE}")
