"""Files by path or URL, decompressed on the fly by the end of their name, and the lines of text files."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, TextIO, cast

#: endings of compressed files
ENDINGS = ("gz", "bz2", "xz", "zst")


def opened(name: str) -> IO[bytes]:
    """A file for reading. Names that end in .gz, .bz2, .xz or .zst are decompressed."""
    source: Any = name
    if "://" in name:
        from maxmargin.data import remote

        source = remote.opened(name)
    kind = name.rsplit(".", 1)[-1]
    if kind == "gz":
        import gzip

        return cast("IO[bytes]", gzip.open(source, "rb"))
    if kind == "bz2":
        import bz2

        return bz2.open(source, "rb")
    if kind == "xz":
        import lzma

        return lzma.open(source, "rb")
    if kind == "zst":
        try:
            import zstandard
        except ImportError as error:
            raise ImportError(
                f'{name} requires the package zstandard: pip install "maxmargin[zstd]".'
            ) from error
        return cast("IO[bytes]", zstandard.open(source, "rb"))
    return cast("IO[bytes]", source if source is not name else open(name, "rb"))


def plain_name(path: str) -> str:
    """A path in small letters, without the ending of a compressed file."""
    name, _, ending = path.lower().rpartition(".")
    return name if ending in ENDINGS else path.lower()


@contextmanager
def opened_text(path: str) -> Iterator[TextIO]:
    """A text file in UTF-8 for reading; ``-`` is standard input."""
    binary = sys.stdin.buffer if path == "-" else opened(path)
    text = io.TextIOWrapper(binary, encoding="utf-8-sig", newline=None)
    try:
        yield text
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: this is not UTF-8 text ({error.reason}).") from error
    finally:
        if path == "-":
            text.detach()
        else:
            text.close()


def blocks(path: str) -> Iterator[list[tuple[int, str]]]:
    """Runs of lines between empty lines, each line with its number."""
    block: list[tuple[int, str]] = []
    with opened_text(path) as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\n")
            if line.strip():
                block.append((number, line))
            elif block:
                yield block
                block = []
    if block:
        yield block
