"""What a reader returns: samples in memory, sequences in memory, or a data set on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import scipy.sparse as sp

    from maxmargin.data import Dataset

AnyArray: TypeAlias = npt.NDArray[Any]
Matrix: TypeAlias = "AnyArray | sp.csr_matrix"
#: the features of a token: names, or names with values
Token: TypeAlias = "list[str] | dict[str, float]"


@dataclass(frozen=True, slots=True)
class Rows:
    """Samples in memory, one row each.

    ``group`` is the query of each sample. ``names`` are the names of the features, if the file has names.
    """

    X: Matrix
    y: AnyArray | None
    weight: AnyArray | None = None
    group: AnyArray | None = None
    names: list[str] | None = None

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    def __len__(self) -> int:
        return int(self.X.shape[0])


@dataclass(frozen=True, slots=True)
class Sequences:
    """Sequences in memory: a list of tokens each, or one matrix with ``lengths``.

    ``y`` holds a list of labels for each sequence, also with ``lengths``.
    """

    X: list[list[Token]] | Matrix
    y: list[list[Any]] | None
    weight: AnyArray | None = None
    lengths: AnyArray | None = None

    @property
    def n_tokens(self) -> int:
        if self.lengths is not None:
            return int(self.lengths.sum())
        return sum(len(x) for x in self.X)

    def __len__(self) -> int:
        return len(self.X) if self.lengths is None else len(self.lengths)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Stored:
    """A data set on disk, which estimators read in parts."""

    data: Dataset

    def __len__(self) -> int:
        return len(self.data)


Examples: TypeAlias = Rows | Sequences | Stored


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """How to read a file. None means: find out."""

    format: str | None = None
    label: str | None = None
    group: str | None = None
    weight: str | None = None
    #: file with the number of consecutive samples of each query
    group_sizes: str | None = None
    #: names of the columns
    fields: str | None = None
    #: the text of the templates
    template: str | None = None
    delimiter: str | None = None
    no_header: bool | None = None
    zero_based: bool | None = None
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


_KEPT = ("format", "label", "group", "weight", "fields", "template", "delimiter", "no_header",
         "zero_based")  # fmt: skip
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


def run_lengths(group: AnyArray) -> AnyArray:
    """Lengths of the runs of equal numbers."""
    starts = (
        np.flatnonzero(np.r_[True, group[1:] != group[:-1]]) if len(group) else np.array([], int)
    )
    return np.diff(starts, append=len(group))


def as_sequences(rows: Rows, name: str) -> Sequences:
    """Samples with groups as sequences: consecutive samples of a group."""
    from maxmargin.command_line.errors import CommandError

    if rows.group is None:
        raise CommandError(
            f"{name} has no sequences: a line needs a qid (label qid:1 index:value ...) that numbers them."
        )
    lengths = run_lengths(rows.group)
    if len(lengths) != len(np.unique(rows.group)):
        raise CommandError(
            f"{name}: the lines of a sequence (the same qid) must follow each other."
        )
    y = (
        None
        if rows.y is None
        else [part.tolist() for part in np.split(rows.y, np.cumsum(lengths)[:-1])]
    )
    weight = None if rows.weight is None else rows.weight[np.cumsum(lengths) - lengths]
    return Sequences(rows.X, y, weight, lengths)
