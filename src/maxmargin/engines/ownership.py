"""Engines with workers belong to the process that created them."""

from __future__ import annotations

import os


class Owner:
    """The process in which this object was created."""

    def __init__(self) -> None:
        self._process = os.getpid()

    @property
    def here(self) -> bool:
        """Whether this is that process, and not one forked from it."""
        return os.getpid() == self._process

    def require_here(self, engine: str) -> None:
        """Raise an error in a forked process: two processes cannot talk to the same workers."""
        if not self.here:
            raise RuntimeError(
                f"this {engine} was created in process {self._process}, whose workers the forked process "
                f"{os.getpid()} cannot use: create another {engine} here, or pass the engine by name."
            )
