"""Data sets in object stores, through fsspec. Sections are fetched as byte ranges.

Stores fail now and then, and a fit makes many thousands of requests. So a request that fails, is not answered
in time, or has a wrong checksum, is repeated a few times, after longer and longer pauses, and each failure is
logged (``maxmargin.data``).

A writer holds a lock: an object that it creates if there is none, and removes at the end.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import socket
import time
from collections.abc import Callable, Iterator
from typing import IO, Any, TypeVar
from urllib.parse import urlsplit

import numpy as np

from maxmargin.core.engine import pickles_stay_in_memory
from maxmargin.core.matrices import AnyArray
from maxmargin.data.manifest import (
    NAME,
    SECTION,
    DatasetError,
    SectionSums,
    Shard,
    require_unchanged,
)
from maxmargin.files.retries import PAUSES, SECONDS, tried

T = TypeVar("T")

LOG = logging.getLogger("maxmargin.data")
#: the object that a writer holds
LOCK = "writer.lock"


def filesystem(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    """The fsspec file system of a URL, and the path in it."""
    try:
        import fsspec
    except ImportError as error:
        raise ImportError(
            f'{url} requires the package fsspec: pip install "maxmargin[remote]".'
        ) from error
    if urlsplit(url).password is not None:
        raise ValueError(
            "the URL of a data set must not contain a password, because URLs are shown and pickled. Pass it "
            "in storage_options, or in the environment."
        )
    try:
        files, path = fsspec.core.url_to_fs(url, **options)
    except ImportError as error:  # a package for this store is missing, such as s3fs
        hint = ' (pip install "maxmargin[remote]")' if url.startswith("s3") else ""
        raise ImportError(f"{url}: {error}{hint}") from error
    return files, path


def require_no_keys(url: str, storage_options: dict[str, Any] | None) -> None:
    """Raise TypeError if options, which may contain keys, would be in pickled data that may reach a disk."""
    if storage_options and not pickles_stay_in_memory():
        raise TypeError(
            f"{url} was opened with storage_options. They may contain keys, so they are not pickled for "
            "other machines or files. Put them into the environment of every machine instead "
            f"(FSSPEC_{url.partition('://')[0].upper()}='{{...}}', the options as JSON, or what the tools of "
            "the store read there), and open the data set without storage_options."
        )


def opened(url: str) -> IO[bytes]:
    """Open a URL for reading."""
    files, path = filesystem(url, {})
    file: IO[bytes] = files.open(path, "rb")
    return file


def identity(url: str) -> tuple[int, str]:
    """The size of a file, and a mark that changes with its content, as far as the store tells."""
    files, path = filesystem(url, {})
    entry = files.info(path)
    marks = (entry.get(name) for name in ("ETag", "etag", "mtime", "LastModified", "updated"))
    return int(entry["size"]), str(next((mark for mark in marks if mark), ""))


class RemoteStorage:
    """A prefix of an object store. Objects become visible when they are closed.

    What is read of the files of ``shards`` is extended to whole sections, and compared with their checksums.
    """

    depth = 3

    def __init__(self, url: str, options: dict[str, Any], shards: tuple[Shard, ...] = ()) -> None:
        self._files, self._prefix = filesystem(url, options)
        self._url, self._options, self._shards = url.rstrip("/"), options, shards
        files = (file for shard in shards for file in shard.files.values())
        self._sums = {file.name: (bytes.fromhex(file.sections), file.bytes) for file in files}

    def __reduce__(self) -> Any:
        require_no_keys(self._url, self._options)
        return RemoteStorage, (self._url, self._options, self._shards)

    def verified(self, shards: tuple[Shard, ...]) -> RemoteStorage:
        """The same store, which knows the checksums of these shards."""
        return RemoteStorage(self._url, self._options, shards)

    def describe(self, name: str = "") -> str:
        """See :class:`~maxmargin.data.storage.Storage`."""
        return f"{self._url}/{name}" if name else self._url

    def content(self, name: str) -> bytes:
        """See :class:`~maxmargin.data.storage.Storage`."""
        with self._as_os_errors(name):
            self._files.invalidate_cache()
            return bytes(self._tried(name, lambda: self._files.cat_file(self._path(name))))

    def sizes(self) -> dict[str, int]:
        """See :class:`~maxmargin.data.storage.Storage`."""
        with self._as_os_errors():
            self._files.invalidate_cache()
            try:
                entries = self._tried("", lambda: self._files.ls(self._prefix, detail=True))
            except FileNotFoundError:
                return {}
        return {e["name"].rsplit("/", 1)[-1]: e["size"] for e in entries if e["type"] == "file"}

    def section(self, name: str, dtype: str, start: int, stop: int) -> AnyArray:
        """See :class:`~maxmargin.data.storage.Storage`."""
        kind = np.dtype(dtype)
        if stop <= start:
            return np.empty(0, dtype=kind)
        begin, end = lo, hi = start * kind.itemsize, stop * kind.itemsize
        sums, size = self._sums.get(name, (b"", 0))
        if sums:
            lo, hi = begin // SECTION * SECTION, min(-(-end // SECTION) * SECTION, size)

        def request() -> bytes:
            content: bytes = self._files.cat_file(self._path(name), start=lo, end=hi)
            if sums and len(content) == hi - lo:
                found = SectionSums()
                found.update(memoryview(content))
                first = lo // SECTION * 4
                if found.digest() != sums[first : first + len(found.digest())]:
                    raise DatasetError(
                        f"{self.describe(name)}: wrong checksum: the file was modified after it was written, "
                        f"or damaged on its way (bytes {lo} to {hi})."
                    )
            return content

        try:
            with self._as_os_errors(name):
                content = self._tried(name, request)
        except FileNotFoundError:
            raise DatasetError(f"{self.describe(name)} is missing.") from None
        if len(content) != hi - lo:
            raise DatasetError(f"{self.describe(name)} ends before byte {hi}: it was truncated.")
        return np.frombuffer(content, kind, stop - start, begin - lo)

    def is_near(self, name: str, offset: int) -> bool:
        """See :class:`~maxmargin.data.storage.Sections`."""
        return False

    def reader(self) -> contextlib.AbstractContextManager[RemoteStorage]:
        """See :class:`~maxmargin.data.storage.Storage`."""
        return contextlib.nullcontext(self)

    def load(self, section: AnyArray) -> None:
        """See :class:`~maxmargin.data.storage.Storage`; sections are always in memory."""

    def create(self, name: str) -> IO[bytes]:
        """See :class:`~maxmargin.data.storage.Storage`."""
        file: IO[bytes] = self._files.open(self._path(name), "wb")
        return file

    def finish(self, file: IO[bytes]) -> None:
        """See :class:`~maxmargin.data.storage.Storage`."""
        file.close()

    def replace(self, name: str, content: bytes) -> None:
        """See :class:`~maxmargin.data.storage.Storage`."""
        self._tried(name, lambda: self._files.pipe_file(self._path(name), content))

    def commit(self, content: bytes, before: bytes | None) -> None:
        """See :class:`~maxmargin.data.storage.Storage`. The lock of ``writing`` keeps other writers away."""
        require_unchanged(self, before)
        self.replace(NAME, content)

    def remove(self, name: str) -> None:
        """See :class:`~maxmargin.data.storage.Storage`."""
        with contextlib.suppress(FileNotFoundError):
            self._files.rm_file(self._path(name))

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """See :class:`~maxmargin.data.storage.Storage`. The lock is an object, which stays if the writer is
        killed."""
        now = time.strftime("%Y-%m-%d %H:%M:%S %Z")
        who = f"process {os.getpid()} on {socket.gethostname()}, {now}, {random.getrandbits(64):x}"
        try:
            self._tried(
                LOCK,
                lambda: self._files.pipe_file(self._path(LOCK), who.encode(), mode="create"),
            )
        except FileExistsError:
            holder = self._holder()
            if holder != who:  # not a request that succeeded and was repeated
                raise DatasetError(
                    f"{self._url}: another writer is at work ({holder}). Wait until it has finished. If "
                    f"it was killed, remove {self.describe(LOCK)}."
                ) from None
        except (NotImplementedError, TypeError) as error:
            raise DatasetError(
                f"{self._url}: this store cannot create an object only if it does not exist, so that two "
                "writers could destroy each other's data. Write to a local folder, and copy it."
            ) from error
        try:
            yield
        finally:
            self.remove(LOCK)

    def _holder(self) -> str:
        try:
            return self.content(LOCK).decode()
        except OSError:  # it has just finished
            return "it may have just finished"

    def _tried(self, name: str, request: Callable[[], T]) -> T:
        """The answer to a request, which is repeated if it fails."""
        return tried(request, self.describe(name), LOG, PAUSES, SECONDS)

    @contextlib.contextmanager
    def _as_os_errors(self, name: str = "") -> Iterator[None]:
        """Convert the errors of a store, which have many types, to OSErrors that name the file."""
        try:
            yield
        except (FileNotFoundError, DatasetError):
            raise
        except Exception as error:
            kind = type(error).__name__
            raise OSError(f"{self.describe(name)} cannot be read: {kind}: {error}") from error

    def _path(self, name: str) -> str:
        return f"{self._prefix}/{name}"
