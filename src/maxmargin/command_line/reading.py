"""The choice of the reader: by ``--format``, by the name of the file, or by its first lines."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from maxmargin.command_line import tables
from maxmargin.command_line.examples import (
    AnyArray,
    FileExamples,
    Read,
    ReaderOptions,
    Token,
    as_sequences,
    whole_numbers,
)
from maxmargin.command_line.report import CommandError

#: names of formats, with a line for the help
FORMATS = {
    "svmlight": "label [qid:number] index:value ... (SVM-light, LIBSVM, SVM-rank)",
    "svm-hmm": "the same, where the qid is the number of the sequence",
    "columns": "a token per line, columns separated by spaces or tabs (CoNLL, CRF++)",
    "conllu": "CoNLL-U",
    "crfsuite": "label<TAB>attribute<TAB>attribute:value ... (crfsuite learn)",
    "csv": "a table of numbers with names in the first line; .tsv for tabs",
    "parquet": "a table of numbers; a file or a folder of files",
    "folder": "a data set written by maxmargin convert; also s3://...",
}
_ENDINGS = {
    "svmlight": ("svm", "svmlight", "libsvm", "dat", "trn", "tst", "t", "scale"),
    "columns": ("conll", "iob", "iob2", "bio", "crfpp"),
    "conllu": ("conllu",),
    "crfsuite": ("crfsuite", "crf"),
    "csv": ("csv", "tsv", "tab"),
    "parquet": ("parquet", "pq"),
}
_SVMLIGHT = re.compile(r"[+-]?[\d.]+(e[+-]?\d+)?(\s+qid:\d+)?(\s+\d+:\S+)+\s*(#.*)?", re.IGNORECASE)


def read_examples(path: str, options: ReaderOptions) -> Read:
    """The examples of a file, a folder or a URL, and the options with what was found out."""
    chosen = options.format or find_format(path)
    if "://" not in path and path != "-" and not os.path.exists(path):
        raise CommandError(f"{path}: there is no such file.")
    if os.path.isdir(path) and chosen not in ("folder", "parquet"):
        raise CommandError(f"{path} is a folder: its format is folder or parquet, not {chosen}.")
    readers: dict[str, Callable[[str, ReaderOptions], Read]] = {
        "svmlight": _read_svmlight,
        "svm-hmm": _read_svmlight,
        "columns": _read_columns,
        "conllu": _read_columns,
        "crfsuite": read_crfsuite,
        "csv": tables.read,
        "parquet": tables.read,
        "folder": _open_folder,
    }
    return readers[chosen](path, replace(options, format=chosen))


def find_format(path: str) -> str:
    """The format of a path: by its end, or by the first lines of the file."""
    if os.path.isdir(path):
        parquet = any(name.lower().endswith((".parquet", ".pq")) for name in os.listdir(path))
        return "parquet" if parquet else "folder"
    from maxmargin.data.formats.compressed import blocks, plain_name

    name = plain_name(path)
    ending = name.rsplit(".", 1)[-1] if "." in os.path.basename(name) else ""
    for known, endings in _ENDINGS.items():
        if ending in endings:
            return known
    if "://" in path and not ending:
        return "folder"
    if path == "-":
        raise CommandError("standard input needs --format.")
    if not os.path.exists(path) and "://" not in path:
        raise CommandError(f"{path}: there is no such file.")
    if os.path.isfile(path) or "://" in path:  # what is read from a pipe is gone
        lines = (line for block in blocks(path) for _, line in block if not line.startswith("#"))
        if _SVMLIGHT.fullmatch(next(lines, "").strip()):
            return "svmlight"
    raise CommandError(
        f"{path}: what is its format? Use --format with one of {', '.join(FORMATS)}."
    )


def _read_columns(path: str, options: ReaderOptions) -> Read:
    """The sequences of columns, and the options with the names and templates that were found out."""
    from maxmargin.data.tokens.conll import ColumnOptions, read_columns

    own = ColumnOptions(*(getattr(options, name) for name in ColumnOptions._fields))
    X, y, found = read_columns(path, own, conllu=options.format == "conllu")
    return Read(FileExamples(X, y), replace(options, **found._asdict()))


def _open_folder(path: str, options: ReaderOptions) -> Read:
    from maxmargin import data

    found = data.open(path, cache=options.cache)  # its columns are read when they are needed
    return Read(FileExamples(found, None if found.ragged else found.y, group=found.group), options)


# -- svmlight --------------------------------------------------------------------------------------


def _read_svmlight(path: str, options: ReaderOptions) -> Read:
    """All samples of a file; the query ids become groups, or the numbers of sequences."""
    import scipy.sparse as sp

    from maxmargin import data

    name = "/dev/stdin" if path == "-" else path
    try:
        batches = list(data.read_svmlight(name, zero_based=bool(options.zero_based)))
    except ValueError as error:
        text = str(error).replace("set zero_based=True?", "use --zero-based?")
        raise CommandError(text) from error
    if not batches:
        raise CommandError(f"{path} holds no samples.")
    # later batches may have more features; the last one knows all of them
    width = batches[-1][0].shape[1]
    for batch in batches:
        batch[0].resize((batch[0].shape[0], width))
    X = batches[0][0] if len(batches) == 1 else sp.vstack([b[0] for b in batches], format="csr")
    y = np.concatenate([batch[1] for batch in batches])
    group = None if len(batches[0]) == 2 else np.concatenate([batch[3] for batch in batches])
    if options.group_sizes is not None:
        group = _group_of_sizes(options.group_sizes, len(y), path)
    samples = FileExamples(X, whole_numbers(y), None, group)
    return Read(as_sequences(samples, path) if options.format == "svm-hmm" else samples, options)


def _group_of_sizes(path: str, n_samples: int, data: str) -> AnyArray:
    """The query of each sample, from a file with the number of samples of each query."""
    try:
        sizes = np.array([int(word) for word in Path(path).read_text().split()], dtype=np.int64)
    except ValueError as error:
        raise CommandError(f"{path}: expected one whole number per line ({error}).") from error
    if (sizes < 0).any() or sizes.sum() != n_samples:
        raise CommandError(
            f"the sizes in {path} add up to {sizes.sum()}, but {data} has {n_samples} samples."
        )
    return np.repeat(np.arange(len(sizes)), sizes)


# -- CRFsuite --------------------------------------------------------------------------------------


def read_crfsuite(path: str, options: ReaderOptions) -> Read:
    """All sequences of a file of CRFsuite: ``label<TAB>attribute[:value]<TAB>...``, an empty line after each.

    ``\\:`` and ``\\\\`` in a name stand for a colon and a backslash. A line ``@weight:2`` is the weight of
    its sequence. Tokens are dicts of values, or lists of names where all values are 1.
    """
    from maxmargin.data.formats.compressed import blocks

    X: list[list[Token]] = []
    y: list[list[str]] = []
    weights: list[float] = []
    for block in blocks(path):
        tokens: list[Token] = []
        labels: list[str] = []
        weight = 1.0
        for number, line in block:
            where = f"{path}, line {number}"
            label, *attributes = line.split("\t")
            if label.startswith("@"):
                name, _, value = label.partition(":")
                if name != "@weight":
                    raise CommandError(
                        f"{where}: unknown declaration {name!r}; only @weight is known."
                    )
                weight = _number(value, where)
                continue
            labels.append(label)
            tokens.append(_token(attributes, where))
        if tokens:
            X.append(tokens)
            y.append(labels)
            weights.append(weight)
    if not X:
        raise CommandError(f"{path} holds no sequences.")
    weight_array = None if set(weights) == {1.0} else np.array(weights)
    return Read(FileExamples(X, y, weight_array), options)


def _token(attributes: list[str], where: str) -> Token:
    pairs = [_attribute(text, where) for text in attributes if text]
    names = [name for name, _ in pairs]
    if all(value == 1.0 for _, value in pairs) and len(set(names)) == len(names):
        return names
    token: dict[str, float] = {}
    for name, value in pairs:  # CRFsuite adds the values of a name that is repeated
        token[name] = token.get(name, 0.0) + value
    return token


def _attribute(text: str, where: str) -> tuple[str, float]:
    """The name, in which a backslash makes the next character a part of it, and the value."""
    if "\\" not in text:
        name, colon, value = text.partition(":")
        return name, _number(value, where) if colon else 1.0
    found = re.match(r"((?:\\.|[^:\\]|\\$)*)(:?)(.*)", text, re.DOTALL)
    assert found is not None  # it matches any text
    name = re.sub(r"\\(.)", r"\1", found[1], flags=re.DOTALL)
    return name, _number(found[3], where) if found[2] else 1.0


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        raise CommandError(
            f"{where}: {text!r} is not a number. (Write a colon within a name as \\:)"
        )
    return value


# -- progress --------------------------------------------------------------------------------------


@contextmanager
def shown_progress(path: str, shown: bool) -> Iterator[None]:
    """Show on standard error how far a file is read: its part, where Linux tells, and the time."""
    if not shown:
        yield
        return
    ended, begin, terminal = threading.Event(), time.monotonic(), sys.stderr.isatty()

    def show() -> None:
        while not ended.wait(1.0 if terminal else 10.0):
            text = f"reading {path}: {_part_read(path)}{time.monotonic() - begin:.0f} s"
            sys.stderr.write(f"\r{text} " if terminal else f"{text}\n")
            sys.stderr.flush()

    sys.stderr.write(f"reading {path}" + "\n" * (not terminal))
    sys.stderr.flush()
    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        if terminal:  # the report, or an error, takes the place of the line
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _part_read(path: str) -> str:
    """The part of a file before the position of this process in it, such as ``40 %, ``; empty if unknown."""
    try:
        size = os.path.getsize(path)
        for one in Path("/proc/self/fd").iterdir():
            if one.exists() and os.path.samefile(one, path):
                position = Path(f"/proc/self/fdinfo/{one.name}").read_text().split()[1]
                return f"{100 * int(position) / max(1, size):.0f} %, "
    except OSError:
        pass
    return ""
