"""Writing and reading a checkpoint file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from maxmargin.files import codec, container


class CheckpointError(ValueError):
    """A file is no checkpoint, is damaged, or belongs to another problem; the text says which."""

    __module__ = "maxmargin.checkpoints"  # its public name


def write_file(path: Path, about: dict[str, Any], tree: Any) -> int:
    """Write a checkpoint; returns its size. ``about`` identifies the problem, ``tree`` is the state."""
    encoder = codec.Encoder()
    problem, state = (codec.dumps(encoder.encode(value)) for value in (about, tree))
    return container.write(path, "checkpoint", problem, state, encoder.finish())


def read_file(path: str | os.PathLike[str], shown: str | None = None) -> tuple[dict[str, Any], Any]:
    """``about`` and ``tree`` of a checkpoint, which errors call by its path or another name."""
    with container.refusing(shown or path, CheckpointError):
        stored, tree, arrays = container.read(path, "checkpoint")
        decoder = codec.Decoder(arrays)
        about = decoder.decode(stored, "the header")
        if not isinstance(about, dict):
            raise codec.FormatError("the file does not say what it is about")
        return about, decoder.decode(tree, "the tree")
