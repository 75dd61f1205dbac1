"""Files by path or URL, decompressed on the fly by the end of their name, and the lines of text files."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from typing import IO, Any, TextIO, TypeAlias, cast

#: a range of bytes: begin and end
Span: TypeAlias = tuple[int, int]

#: endings of compressed files
ENDINGS = ("gz", "bz2", "xz", "zst")


def opened(name: str, span: Span | None = None) -> IO[bytes]:
    """A file for reading. Names that end in .gz, .bz2, .xz or .zst are decompressed. Of others, ``span``
    selects the lines that begin in this range of bytes."""
    if span is not None:
        if is_compressed(name):
            raise ValueError(f"{name} is compressed: it has no span that could be read alone.")
        return cast("IO[bytes]", io.BufferedReader(_Lines(opened(name), *span), 1 << 20))
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


class _Lines(io.RawIOBase):
    """The lines of a file that begin in a range of bytes."""

    def __init__(self, file: IO[bytes], start: int, stop: int) -> None:
        self._file, end = file, _line_start(file, stop)
        begin = _line_start(file, start)
        file.seek(begin)
        self._left = end - begin

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._file.read(min(len(buffer), self._left))
        buffer[: len(piece)] = piece
        self._left -= len(piece)
        return len(piece)

    def close(self) -> None:
        self._file.close()
        super().close()


def _line_start(file: IO[bytes], offset: int) -> int:
    """The first line that begins at or after an offset."""
    if offset > 0:
        file.seek(offset - 1)
        file.readline()
        return file.tell()
    return 0


def lines_before(name: str, span: Span | None) -> int:
    """The number of lines before a span, for the message of an error: they are counted."""
    start, count = (0, 0) if span is None else (span[0], 0)
    with opened(name, (0, start)) if start > 0 else contextlib.nullcontext() as file:
        while file is not None and (piece := file.read(1 << 24)):
            count += piece.count(b"\n")
    return count


def is_compressed(path: str) -> bool:
    """Whether a file is decompressed when it is read."""
    return path.rsplit(".", 1)[-1] in ENDINGS


def plain_name(path: str) -> str:
    """A path in small letters, without the ending of a compressed file."""
    name, _, ending = path.lower().rpartition(".")
    return name if ending in ENDINGS else path.lower()


@contextlib.contextmanager
def opened_text(path: str, span: Span | None = None) -> Iterator[TextIO]:
    """A text file in UTF-8 for reading; ``-`` is standard input."""
    binary = sys.stdin.buffer if path == "-" else opened(path, span)
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
