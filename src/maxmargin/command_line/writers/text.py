"""Text files for writing, plain or compressed."""

from __future__ import annotations

import bz2
import gzip
import lzma
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO, cast

from maxmargin.command_line.errors import CommandError


@contextmanager
def opened_for_writing(path: str) -> Iterator[TextIO]:
    """A text file; names that end in .gz, .bz2 or .xz are compressed, and ``-`` is standard output."""
    if path == "-":
        yield sys.stdout
        return
    if path.endswith(".zst"):
        raise CommandError(f"{path}: use .gz, .bz2 or .xz; .zst can only be read.")
    kinds = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    opener = next((make for ending, make in kinds.items() if path.endswith(ending)), open)
    with opener(path, "wt", encoding="utf-8", newline="\n") as file:  # type: ignore[operator]
        yield cast("TextIO", file)
