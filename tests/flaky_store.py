"""A store ``flaky://`` over a local folder: requests take time, some fail, and all are counted."""

from __future__ import annotations

import os
import time
from typing import Any, ClassVar

import pytest

fsspec = pytest.importorskip("fsspec")

from fsspec.implementations.local import LocalFileSystem  # noqa: E402


class FlakyFileSystem(LocalFileSystem):
    """``flaky:///folder/name`` is ``/folder/name``. Of every so many reads one fails."""

    protocol = "flaky"
    #: seconds of a read; one of how many reads fails (0 for none); a file for the names of what is read
    latency: ClassVar[float] = float(os.environ.get("FLAKY_LATENCY", "0"))
    every: ClassVar[int] = 0
    log: ClassVar[str] = os.environ.get("FLAKY_LOG", "")

    gets: ClassVar[list[tuple[str, int]]] = []
    failures: ClassVar[int] = 0
    lists: ClassVar[int] = 0

    @classmethod
    def reset(cls) -> None:
        """Set the counters to zero."""
        cls.gets.clear()
        cls.failures = cls.lists = 0

    @classmethod
    def _strip_protocol(cls, path: Any) -> str:
        return str(super()._strip_protocol(str(path).removeprefix("flaky://")))

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kw: Any
    ) -> bytes:
        kind = type(self)
        name = path.rsplit("/", 1)[-1]
        kind.gets.append((name, (end or 0) - (start or 0)))
        number = len(kind.gets)
        if self.log:
            with open(self.log, "a") as file:
                file.write(f"{name} {start} {end}\n")
        time.sleep(self.latency)
        if self.every and number % self.every == 0:
            kind.failures += 1
            raise ConnectionError("the connection was reset")
        return bytes(super().cat_file(path, start, end, **kw))

    def ls(self, path: str, detail: bool = False, **kw: Any) -> Any:
        type(self).lists += 1
        return super().ls(path, detail, **kw)


fsspec.register_implementation("flaky", FlakyFileSystem, clobber=True)
