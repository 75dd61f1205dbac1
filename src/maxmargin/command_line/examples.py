"""What a reader returns, samples, sequences or a data set on disk, and the options that it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from maxmargin.command_line.report import CommandError

AnyArray: TypeAlias = npt.NDArray[Any]
#: the features of a token: names, or names with values
Token: TypeAlias = "list[str] | dict[str, float]"


@dataclass(frozen=True, slots=True)
class FileExamples:
    """Samples, sequences, or a data set on disk, which estimators read in parts.

    ``X`` is a matrix with a row per sample, a list with a matrix or a list of named features for each token
    of a sequence, or a :class:`maxmargin.data.Dataset`. ``group`` is the query of each sample; ``names``
    are those of the features, if the file has names.
    """

    X: Any
    y: Any = None
    weight: AnyArray | None = None
    group: Any = None
    names: list[str] | None = None

    @property
    def on_disk(self) -> bool:
        return hasattr(self.X, "fingerprint")

    @property
    def are_sequences(self) -> bool:
        """Whether an example has a label for each of its tokens."""
        return self.X.ragged if self.on_disk else isinstance(self.X, list)

    @property
    def named(self) -> bool:
        """Whether the features of sequences are names."""
        return isinstance(self.X, list) and isinstance(self.X[0], list)

    @property
    def sizes(self) -> dict[str, int]:
        """The numbers of samples, or of sequences and their tokens."""
        if not self.are_sequences:
            return {"n_samples": len(self)}
        if self.on_disk:
            return {"n_sequences": len(self), "n_tokens": self.X.shape[0]}
        tokens = sum(len(x) if isinstance(x, list) else x.shape[0] for x in self.X)
        return {"n_sequences": len(self), "n_tokens": tokens}

    def part(self, lo: int, hi: int) -> FileExamples:
        """The samples or sequences ``lo .. hi-1`` of a data set on disk, in memory."""
        from maxmargin.data.design import as_matrix

        data = self.X
        weight, y, group = (
            None if column is None else np.asarray(column[lo:hi])
            for column in (data.weight, None if data.ragged else data.y, data.group)
        )
        if data.ragged:
            X, labels = data.sequences(lo, hi)
            return FileExamples(X, None if labels is None else [y.tolist() for y in labels], weight)
        return FileExamples(as_matrix(data.block(lo, hi)), y, weight, group, data.feature_names)

    def loaded(self) -> FileExamples:
        """The examples in memory."""
        return self.part(0, len(self)) if self.on_disk else self

    def __len__(self) -> int:
        return len(self.X) if self.on_disk or self.are_sequences else int(self.X.shape[0])


def _option(metavar: str, text: str, *, kept: bool = True) -> Any:
    """An option of the command: the name of its value, and its help. A model file keeps it if ``kept``."""
    return field(default=None, metadata={"metavar": metavar, "help": text, "kept": kept})


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """How to read a file. None means: find out. Each field is an option of the command."""

    format: str | None = _option(
        "FORMAT",
        "see the list below; by default found by the name of the file (.svm, .conll, .csv, ...) or by its "
        "first line",
    )
    label: str | None = _option("NAME", "the column of labels (tables and columns)")
    group: str | None = _option("NAME", "the column of query ids (tables)")
    weight: str | None = _option("NAME", "the column of sample weights (tables)")
    columns: str | None = _option("NAMES", 'the feature columns, such as "age,income" (tables)')
    drop: str | None = _option("NAMES", "columns to leave out (tables)")
    group_sizes: str | None = _option(
        "FILE", "file with the number of consecutive samples of each query (svmlight)", kept=False
    )
    fields: str | None = _option(
        "NAMES", 'names of the columns, such as "w pos y" (columns; default: w c1 c2 ... y)'
    )
    template: str | None = _option(
        "FILE",
        "feature templates in the style of CRFsuite's scripts (w[-1]|w[0]) or of CRF++ "
        "(U01:%%x[-1,0]/%%x[0,0]); by default words, neighbors, ends of words",
    )
    delimiter: str | None = _option("CHAR", "between columns (CSV and columns)")
    no_header: bool | None = _option("", "the CSV file has no names: f0, f1, ...")
    zero_based: bool | None = _option("", "svmlight indices begin at 0")
    cache: str | None = _option(
        "FOLDER", "keep copies of a data set at s3://... in this folder", kept=False
    )
    #: options that a model file gave: columns of these names may be missing where they are not needed
    from_model: tuple[str, ...] = ()

    def notes(self) -> dict[str, str]:
        """What a model file keeps, so that ``predict`` reads its input in the same way."""
        kept = {name: getattr(self, name) for name in _KEPT}
        return {name: str(value) for name, value in kept.items() if value is not None}

    def after(self, notes: Mapping[str, str]) -> ReaderOptions:
        """These options, and those of a model file where these leave something open."""
        missing: dict[str, Any] = {
            name: notes[name] == "True" if name in ("no_header", "zero_based") else notes[name]
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


_KEPT = [one.name for one in fields(ReaderOptions) if one.metadata.get("kept")]


class Read(NamedTuple):
    """The examples of a file, and the options that read it, with what was found out."""

    examples: FileExamples
    options: ReaderOptions


def whole_numbers(values: AnyArray) -> AnyArray:
    """Labels as integers where all of them are: they are written as ``1`` and not ``1.0``."""
    if values.dtype.kind != "f" or not np.isfinite(values).all():
        return values
    rounded = np.rint(values)
    if (rounded != values).any() or (np.abs(values) >= 2.0**53).any():
        return values
    return rounded.astype(np.int64)


def as_sequences(samples: FileExamples, path: str) -> FileExamples:
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
    return FileExamples([samples.X[a:b] for a, b in spans], y, weight)
