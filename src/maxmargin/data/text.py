"""Lines of text files, plain or compressed, here or elsewhere."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from maxmargin.data.compressed import ENDINGS, opened


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
