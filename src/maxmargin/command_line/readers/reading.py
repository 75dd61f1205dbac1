"""The choice of the reader: by ``--format``, by the name of the file, or by its first lines."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace

from maxmargin.command_line.errors import CommandError
from maxmargin.command_line.readers.examples import OnDisk, Read, ReaderOptions, Sequences

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
    return _reader(chosen)(path, replace(options, format=chosen))


def find_format(path: str) -> str:
    """The format of a path: by its end, or by the first lines of the file."""
    if os.path.isdir(path):
        return _format_of_folder(path)
    from maxmargin.data.formats.compressed import plain_name

    name = plain_name(path)
    ending = name.rsplit(".", 1)[-1] if "." in os.path.basename(name) else ""
    for known, endings in _ENDINGS.items():
        if ending in endings:
            return known
    if "://" in path and not ending:
        return "folder"
    return _sniffed(path)


def _format_of_folder(path: str) -> str:
    names = os.listdir(path)
    if any(name.lower().endswith((".parquet", ".pq")) for name in names):
        return "parquet"
    return "folder"


def _sniffed(path: str) -> str:
    from maxmargin.data.formats.compressed import blocks

    if path == "-":
        raise CommandError("standard input needs --format.")
    if os.path.isfile(path) or "://" in path:
        for block in blocks(path):
            line = next((line for _, line in block if not line.startswith("#")), None)
            if line is None:
                continue
            if _SVMLIGHT.fullmatch(line.strip()):
                return "svmlight"
            break
    raise CommandError(
        f"{path}: what is its format? Use --format with one of {', '.join(FORMATS)}."
        if os.path.exists(path)
        else f"{path}: there is no such file."
    )


def _reader(name: str) -> Callable[[str, ReaderOptions], Read]:
    from maxmargin.command_line.readers import crfsuite, svmlight, table

    return {
        "svmlight": svmlight.read,
        "svm-hmm": svmlight.read_sequences,
        "columns": _read_columns,
        "conllu": _read_columns,
        "crfsuite": crfsuite.read,
        "csv": table.read,
        "parquet": table.read,
        "folder": _open_folder,
    }[name]


def _read_columns(path: str, options: ReaderOptions) -> Read:
    """The sequences of columns, and the options with the names and templates that were found out."""
    from maxmargin.data.tokens.conll import ColumnOptions, read_columns

    own = ColumnOptions(*(getattr(options, name) for name in ColumnOptions._fields))
    X, y, found = read_columns(path, own, conllu=options.format == "conllu")
    return Read(Sequences(X, y), replace(options, **found._asdict()))  # type: ignore[arg-type]


def _open_folder(path: str, options: ReaderOptions) -> Read:
    from maxmargin import data

    return Read(OnDisk(data.open(path, cache=options.cache)), options)
