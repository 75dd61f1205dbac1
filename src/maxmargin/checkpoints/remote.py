"""Checkpoints in object stores, through fsspec: a prefix with several files.

``state`` is a checkpoint file as on disk, and replaced as a whole. Shards write their own parts, which it
refers to, from where they are; the parts of a file that was replaced are removed. So the checkpoint at a URL
is always the previous one or the new one, and complete.
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from maxmargin.checkpoints.format import read_file, write_file
from maxmargin.files.retries import FINAL, PAUSES, SECONDS, WHOLE_FILE, tried

T = TypeVar("T")

LOG = logging.getLogger("maxmargin.checkpoints")
STATE = "state"


def is_url(path: str | PathLike[str]) -> bool:
    """Whether a checkpoint is in an object store."""
    return isinstance(path, str) and "://" in path


class CheckpointFolder:
    """A prefix of an object store.

    Parameters
    ----------
    url : str
        Its URL.
    """

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ImportError as error:
            raise ImportError(
                f'{url} requires the package fsspec: pip install "maxmargin[remote]".'
            ) from error
        self.url = url.rstrip("/")
        self._files, self._prefix = fsspec.core.url_to_fs(self.url)
        if "file" in self._files.protocol:
            raise ValueError(f"checkpoint={url!r}: for a file on this machine, give a plain path.")

    def exists(self) -> bool:
        """Whether a checkpoint was written."""
        return bool(self._asked(STATE, lambda: self._files.exists(self._path(STATE))))

    def write(self, about: dict[str, Any], tree: Any, name: str = STATE) -> None:
        """Write a file, which appears complete or not at all."""
        with tempfile.TemporaryDirectory() as folder:
            local = Path(folder) / "file"
            write_file(local, about, tree)
            self._asked(
                name, lambda: self._files.put_file(os.fspath(local), self._path(name)), WHOLE_FILE
            )

    def read(self, name: str = STATE) -> tuple[dict[str, Any], Any]:
        """``about`` and ``tree`` of a file."""
        with tempfile.TemporaryDirectory() as folder:
            local = Path(folder) / "file"
            self._asked(
                name, lambda: self._files.get_file(self._path(name), os.fspath(local)), WHOLE_FILE
            )
            return read_file(local, f"{self.url}/{name}")

    def keep(self, parts: Iterable[str]) -> None:
        """Remove all parts of shards but those whose names begin like this."""
        kept = tuple(parts)
        with contextlib.suppress(OSError):  # the next checkpoint tries again
            self._files.invalidate_cache()
            paths: list[str] = self._asked("", partial(self._files.ls, self._prefix, detail=False))
            for path in paths:
                name = path.rsplit("/", 1)[-1]
                if name.startswith("part-") and not name.startswith(kept):
                    self._asked(name, partial(self._files.rm_file, path))

    def _asked(self, name: str, request: Callable[[], T], limit: float = SECONDS) -> T:
        with self._as_os_errors(name):
            return tried(request, f"{self.url}/{name}", LOG, PAUSES, limit)

    @contextlib.contextmanager
    def _as_os_errors(self, name: str) -> Iterator[None]:
        try:
            yield
        except FINAL:
            raise
        except Exception as error:  # the errors of stores have many types
            raise OSError(f"{self.url}/{name}: {type(error).__name__}: {error}") from error

    def _path(self, name: str) -> str:
        return f"{self._prefix}/{name}"
