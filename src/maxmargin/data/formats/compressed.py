"""Files by path or URL, decompressed on the fly by the end of their name, and the lines of text files."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from importlib import import_module
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
    if is_compressed(name):
        return cast(
            "IO[bytes]",
            io.BufferedReader(_Decompressed(name, _decompressor(name, source)), 1 << 20),
        )
    return cast("IO[bytes]", source if source is not name else open(name, "rb"))


def _decompressor(name: str, source: Any) -> IO[bytes]:
    """The decompressed bytes of a path or a file, as a package reads them."""
    kind = name.rsplit(".", 1)[-1]
    if kind != "zst":
        module: Any = import_module({"gz": "gzip", "bz2": "bz2", "xz": "lzma"}[kind])
        return cast("IO[bytes]", module.open(source, "rb"))
    try:
        import zstandard
    except ImportError as error:
        raise ImportError(
            f'{name} requires the package zstandard: pip install "maxmargin[zstd]".'
        ) from error
    file = source if source is not name else open(name, "rb")  # noqa: SIM115
    return cast("IO[bytes]", io.BufferedReader(_Zstandard(file, zstandard.ZstdDecompressor())))


class _Decompressed(io.RawIOBase):
    """A compressed file for reading. What is damaged or incomplete is an error that has the file's name."""

    def __init__(self, name: str, file: Any) -> None:
        self._name, self._file = name, file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            return int(self._file.readinto(buffer))
        except Exception as error:  # each package has its own; those of the storage have a number
            if isinstance(error, MemoryError) or getattr(error, "errno", None) is not None:
                raise
            raise ValueError(
                f"{self._name}: this compressed file is damaged or incomplete ({error})."
            ) from error

    def close(self) -> None:
        self._file.close()
        super().close()


class _Zstandard(io.RawIOBase):
    """All frames of a file. The package's own reader stops without a word where the file ends within one."""

    def __init__(self, file: IO[bytes], package: Any) -> None:
        self._file, self._text, self._pieces = file, b"", self._decompressed(package)

    def _decompressed(self, package: Any) -> Iterator[bytes]:
        frame = None
        while piece := self._file.read(1 << 14):
            while piece:
                frame = frame or package.decompressobj()
                yield frame.decompress(piece)
                piece, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
        if frame is not None:
            raise EOFError("its last frame has no end")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._text and (piece := next(self._pieces, None)) is not None:
            self._text = piece
        n = min(len(buffer), len(self._text))
        buffer[:n], self._text = self._text[:n], self._text[n:]
        return n

    def close(self) -> None:
        self._file.close()
        super().close()


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
