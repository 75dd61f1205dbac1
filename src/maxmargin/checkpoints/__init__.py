"""Checkpoints: the state of a fit in one file, from which it can go on after its process was killed.

A file holds arrays and plain values, no code, and a checksum of all its bytes. It appears complete or not at
all; until it is complete the one before it stays in its place.
"""

from maxmargin.checkpoints._file import read_file, remove_leftovers, write_file
from maxmargin.checkpoints._plain import UNKNOWN, NotPlainError, Outputs, shown
from maxmargin.checkpoints._settings import Checkpoint, CheckpointError, as_checkpoint

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
