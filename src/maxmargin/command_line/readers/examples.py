"""What a reader returns: samples in memory, sequences in memory, or a data set on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from maxmargin.command_line.errors import CommandError

if TYPE_CHECKING:
    import scipy.sparse as sp

    from maxmargin.data import Dataset

AnyArray: TypeAlias = npt.NDArray[Any]
Matrix: TypeAlias = "AnyArray | sp.csr_matrix"
#: the features of a token: names, or names with values
Token: TypeAlias = "list[str] | dict[str, float]"


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples in memory, one row each.

    ``group`` is the query of each sample. ``names`` are the names of the features, if the file has names.
    """

    X: Matrix
    y: AnyArray | None
    weight: AnyArray | None = None
    group: AnyArray | None = None
    names: list[str] | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])


@dataclass(frozen=True, slots=True)
class Sequences:
    """Sequences in memory: each is a list of tokens with named features, or a matrix with a row per token."""

    X: list[list[Token]] | list[Matrix]
    #: a list of labels for each sequence
    y: list[list[Any]] | None
    weight: AnyArray | None = None

    @property
    def named(self) -> bool:
        """Whether the features are names."""
        return isinstance(self.X[0], list)

    @property
    def n_tokens(self) -> int:
        return sum(len(x) if isinstance(x, list) else x.shape[0] for x in self.X)

    def __len__(self) -> int:
        return len(self.X)


@dataclass(frozen=True, slots=True)
class OnDisk:
    """A data set on disk, which estimators read in parts. Its labels and queries are read when needed."""

    data: Dataset

    @property
    def y(self) -> AnyArray | list[list[Any]] | None:
        if self.data.ragged:
            return self.part(0, len(self)).y
        return None if self.data.y is None else np.asarray(self.data.y[:])

    @property
    def group(self) -> AnyArray | None:
        return None if self.data.group is None else np.asarray(self.data.group[:])

    def part(self, lo: int, hi: int) -> Samples | Sequences:
        """The samples or sequences ``lo .. hi-1`` in memory."""
        from maxmargin.data.design import as_matrix

        data = self.data
        weight = None if data.weight is None else np.asarray(data.weight[lo:hi])
        if data.ragged:
            X, labels = data.sequences(lo, hi)
            return Sequences(X, None if labels is None else [y.tolist() for y in labels], weight)
        y = None if data.y is None else np.asarray(data.y[lo:hi])
        group = None if data.group is None else np.asarray(data.group[lo:hi])
        return Samples(as_matrix(data.block(lo, hi)), y, weight, group, data.feature_names)

    def __len__(self) -> int:
        return len(self.data)


Examples: TypeAlias = Samples | Sequences | OnDisk


def are_sequences(examples: Examples) -> bool:
    """Whether an example has a label for each of its tokens."""
    return examples.data.ragged if isinstance(examples, OnDisk) else isinstance(examples, Sequences)


def in_memory(examples: Examples) -> Samples | Sequences:
    """Examples whose parts can be taken: a data set on disk is loaded."""
    return examples.part(0, len(examples)) if isinstance(examples, OnDisk) else examples


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """How to read a file. None means: find out."""

    format: str | None = None
    label: str | None = None
    group: str | None = None
    weight: str | None = None
    #: feature columns of a table, and columns to leave out: names with commas between them
    columns: str | None = None
    drop: str | None = None
    #: file with the number of consecutive samples of each query
    group_sizes: str | None = None
    #: names of the columns
    fields: str | None = None
    #: the text of the templates
    template: str | None = None
    delimiter: str | None = None
    no_header: bool | None = None
    zero_based: bool | None = None
    #: a folder for copies of a data set at a URL
    cache: str | None = None
    #: options that a model file gave: columns of these names may be missing where they are not needed
    from_model: tuple[str, ...] = ()

    def notes(self) -> dict[str, str]:
        """What a model file keeps, so that ``predict`` reads its input in the same way."""
        kept = {name: getattr(self, name) for name in _KEPT}
        return {name: str(value) for name, value in kept.items() if value is not None}

    def after(self, notes: Mapping[str, str]) -> ReaderOptions:
        """These options, and those of a model file where these leave something open."""
        missing: dict[str, Any] = {
            name: notes[name] == "True" if name in _FLAGS else notes[name]
            for name in _KEPT
            if name in notes and getattr(self, name) is None
        }
        if self.format not in (None, notes.get("format")):  # a file of another kind
            return self
        return replace(self, **missing, from_model=tuple(missing))

    def without_missing(self, names: Sequence[str]) -> ReaderOptions:
        """These options for a table that need not have all columns of the training data."""
        drop: dict[str, Any] = {
            name: None
            for name in ("group", "weight")
            if name in self.from_model and getattr(self, name) not in names
        }
        return replace(self, **drop)


_KEPT = ("format", "label", "group", "weight", "columns", "drop", "fields", "template", "delimiter",
         "no_header", "zero_based")  # fmt: skip
_FLAGS = ("no_header", "zero_based")


class Read(NamedTuple):
    """The examples of a file, and the options that read it, with what was found out."""

    examples: Examples
    options: ReaderOptions


def whole_numbers(values: AnyArray) -> AnyArray:
    """Labels as integers where all of them are: they are written as ``1`` and not ``1.0``."""
    if values.dtype.kind != "f" or not np.isfinite(values).all():
        return values
    rounded = np.rint(values)
    if (rounded != values).any() or (np.abs(values) >= 2.0**53).any():
        return values
    return rounded.astype(np.int64)


def as_sequences(samples: Samples, path: str) -> Sequences:
    """Samples with groups as sequences: consecutive samples of a group."""
    group = samples.group
    if group is None:
        raise CommandError(
            f"{path} has no sequences: a line needs a qid (label qid:1 index:value ...) that numbers them."
        )
    starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    if len(starts) != len(np.unique(group)):
        raise CommandError(
            f"{path}: the lines of a sequence (the same qid) must follow each other."
        )
    spans = list(pairwise([*starts.tolist(), len(group)]))
    y = None if samples.y is None else [samples.y[a:b].tolist() for a, b in spans]
    weight = None if samples.weight is None else samples.weight[starts]
    return Sequences([samples.X[a:b] for a, b in spans], y, weight)
