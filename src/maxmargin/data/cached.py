"""Local copies of the files of a data set in an object store, made when a file is first read.

A copy is named by the checksum of its content, so it is never outdated, and data sets with equal files share
it. It gets this name after its content was compared with the checksum: whatever a killed process leaves has
another name and is overwritten. Processes of one machine that need the same file wait for the first of them,
which holds a lock that the system frees when it dies.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from threading import get_ident
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from maxmargin.data.manifest import ColumnFile, DatasetError, Shard, checksum
from maxmargin.data.reading_ahead import read_ahead
from maxmargin.data.remote import LOG, RemoteStorage
from maxmargin.data.storage import LocalStorage, Sections

#: bytes of a request, and how many are sent at a time
REQUEST_BYTES, REQUESTS = 2**24, 4


class CachedStorage(LocalStorage):
    """Files of an object store, read from copies in a local folder.

    Parameters
    ----------
    remote : RemoteStorage
        Where the files are.
    folder : str
        Where the copies are. Several data sets and processes of one machine may use the same folder.
    shards : tuple of Shard
        The files, with their checksums.
    """

    def __init__(self, remote: RemoteStorage, folder: str, shards: tuple[Shard, ...]) -> None:
        super().__init__(folder)
        self._remote, self._shards = remote, shards
        self._files = {file.name: file for shard in shards for file in shard.files.values()}
        self._found = dict[str, str]()

    def __reduce__(self) -> Any:
        return CachedStorage, (self._remote, os.fspath(self.folder), self._shards)

    def describe(self, name: str = "") -> str:
        return self._remote.describe(name)

    @contextlib.contextmanager
    def reader(self) -> Iterator[Sections]:
        with super().reader() as files:
            yield _Copies(self, files)

    def find(self, name: str) -> str | None:
        """The name of the copy of a file; None if there is none."""
        if name not in self._found:
            file, copy = self._files[name], self._copy(name)
            try:
                there = copy.stat().st_size == file.bytes
            except FileNotFoundError:
                there = False
            if not there:
                return None
            self._found[name] = copy.name
        return self._found[name]

    def copied(self, name: str) -> str:
        """The same; the copy is made if there is none."""
        found = self.find(name)
        if found is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            copy = self._copy(name)
            with _locked(self.folder / f".{copy.name[:2]}.lock"):
                if self.find(name) is None:  # no other process has made it in the meantime
                    self._download(self._files[name], copy)
            return copy.name
        return found

    def _copy(self, name: str) -> Path:
        file = self._files[name]
        if not re.fullmatch("[0-9a-f]{32}", file.checksum):
            raise DatasetError(f"{self.describe(name)}: the manifest has no checksum for it.")
        return self.folder / f"{file.checksum}.bin"

    def _download(self, file: ColumnFile, copy: Path) -> None:
        # Locks of threads and processes exclude each other, except where the system has no such locks.
        part = copy.with_suffix(".part" if _LOCKS else f".{os.getpid()}-{get_ident()}.part")
        LOG.info("%s (%d bytes) is copied to %s", self.describe(file.name), file.bytes, copy)
        try:
            with open(part, "wb") as target:
                self._write(file, target)
                target.flush()
                os.fsync(target.fileno())
            os.replace(part, copy)
        except OSError as error:
            error.add_note(f"raised while {self.describe(file.name)} was copied to {copy}")
            raise
        finally:
            part.unlink(missing_ok=True)

    def _write(self, file: ColumnFile, target: IO[bytes]) -> None:
        """Copy the content, and compare it with its checksum."""
        digest, bounds = checksum(), [*range(0, file.bytes, REQUEST_BYTES), file.bytes]

        def fetch(span: tuple[int, int]) -> npt.NDArray[np.uint8]:
            return self._remote.section(file.name, "u1", *span)

        for content in read_ahead(fetch, list(pairwise(bounds)), REQUESTS):
            target.write(content.data)
            digest.update(content.data)
        if digest.hexdigest() != file.checksum:
            raise DatasetError(
                f"{self.describe(file.name)}: wrong checksum: the file was modified after it was written."
            )


class _Copies(Sections):
    """Sections of the copies, through files that stay open."""

    def __init__(self, owner: CachedStorage, files: Sections) -> None:
        self._owner, self._files = owner, files

    def section(self, name: str, dtype: str, start: int, stop: int) -> npt.NDArray[Any]:
        if stop <= start:
            return np.empty(0, dtype=dtype)
        return self._files.section(self._owner.copied(name), dtype, start, stop)

    def is_near(self, name: str, offset: int) -> bool:
        """See :class:`~maxmargin.data.storage.Sections`. Files without a copy are not copied for this."""
        copy = self._owner.find(name)
        return copy is not None and self._files.is_near(copy, offset)


try:
    import fcntl

    _LOCKS = True
except ImportError:  # Windows: processes may copy the same file twice
    _LOCKS = False


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Wait until no other thread or process holds the lock of this file, and hold it."""
    with open(path, "wb") as file:
        if _LOCKS:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
