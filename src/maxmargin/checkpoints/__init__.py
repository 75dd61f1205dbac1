"""Checkpoints: the state of a fit in one file, from which the fit can resume after its process was killed.

The file is described in :mod:`maxmargin.files`. While a new one is written, the previous one stays in place.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from maxmargin.checkpoints._settings import Checkpoint, CheckpointError, as_checkpoint
from maxmargin.files import codec, container
from maxmargin.files.codec import UNKNOWN, NotPlainError, Outputs, shown
from maxmargin.files.container import remove_leftovers

__all__ = [
    "UNKNOWN",
    "Checkpoint",
    "CheckpointError",
    "NotPlainError",
    "Outputs",
    "as_checkpoint",
    "read_file",
    "remove_leftovers",
    "shown",
    "write_file",
]


def write_file(path: Path, about: dict[str, Any], tree: Any) -> int:
    """Write a checkpoint; returns its size. ``about`` identifies the problem, ``tree`` is the state."""
    encoder = codec.Encoder()
    encoded = encoder.encode(about), encoder.encode(tree)
    return container.write(path, "checkpoint", *encoded, encoder.finish())


def read_file(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Any]:
    """``about`` and ``tree`` of a checkpoint."""
    with container.refusing(path, CheckpointError):
        stored, tree, arrays = container.read(path, "checkpoint")
        decoder = codec.Decoder(arrays)
        about = decoder.decode(stored)
        if not isinstance(about, dict):
            raise codec.FormatError("the file does not say what it is about")
        return about, decoder.decode(tree)
