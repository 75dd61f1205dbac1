"""Storage of the files of a data set: a local folder here, an object store in ``remote``.

Both have the same interface. Files are read in sections (contiguous elements of one file). Reading keeps no
state, so any number of threads may read. A local section is memory-mapped, not copied: its pages belong to
the page cache and are released with the last reference to the section, so a pass over a file of any size
holds only the sections in use.

These choices were measured on 1.6 GB of float32 against mapping the whole file. Mapping costs one page fault
per contiguous run in the page cache: 1 MB and more after a file was written in large pieces, 64 KB after it
was read through short-lived descriptors, and several times that if the descriptor stays open, because the
kernel then reads further ahead. Hence :class:`_OpenFiles`. A second thread that maps the next section and
touches its pages (``load``) reads at the speed of the disk. If the file is already in the page cache, this
thread only adds overhead, up to a third of a product, so ``is_near`` checks first. ``MADV_POPULATE_READ`` is
not faster, ``MADV_WILLNEED`` costs more and leaves the smallest runs, and copies by ``pread`` cost half as
much again as the product.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import random
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from maxmargin.core.matrices import AnyArray
from maxmargin.data.manifest import LARGEST, NAME, DatasetError, content_of, require_unchanged
from maxmargin.files.writers import described, remove_partial, take_over, this_process

_PAGE = 4096
#: maximum number of open files: the columns of two shards
_FILES = 8
#: a file that exists while a manifest is replaced, and how often to try to create it, ten times a second
LOCK = "manifest.lock"
LOCK_ATTEMPTS = 30


class Sections(Protocol):
    """Interface for reading sections of files."""

    def section(self, name: str, dtype: str, start: int, stop: int) -> AnyArray:
        """Elements ``start .. stop-1`` of a file, read-only."""

    def is_near(self, name: str, offset: int) -> bool:
        """Whether this byte of a file is already in memory. False if unknown."""


class Source(Sections, Protocol):
    """Interface for reading named files."""

    #: number of sections to fetch concurrently
    depth: int

    def describe(self, name: str = "") -> str:
        """The full name, for error messages."""

    def reader(self) -> contextlib.AbstractContextManager[Sections]:
        """Context for reading many sections, by one thread at a time if ``depth`` is 1."""

    def load(self, section: AnyArray) -> None:
        """Wait until a section is in memory."""


class Storage(Source, Protocol):
    """Interface for reading and writing named files."""

    def content(self, name: str) -> bytes:
        """Content of a small file. Raises FileNotFoundError if it does not exist."""

    def sizes(self) -> dict[str, int]:
        """All files with their sizes."""

    def create(self, name: str) -> IO[bytes]:
        """Create a file and open it for writing."""

    def finish(self, file: IO[bytes]) -> None:
        """Close a written file; from then on it survives a crash."""

    def replace(self, name: str, content: bytes) -> None:
        """Write or replace a small file atomically."""

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""

    def writing(self) -> contextlib.AbstractContextManager[None]:
        """Lock held by a writer, where storage needs one."""

    def commit(self, content: bytes, before: bytes | None) -> None:
        """Replace the manifest, unless it differs from ``before`` (None: there was none). Of several writers
        that began with the same manifest, one succeeds."""


class LocalStorage(Storage):
    """A local folder."""

    depth = 1

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def describe(self, name: str = "") -> str:
        return str(self.folder / name)

    def content(self, name: str) -> bytes:
        path = self.folder / name
        if path.exists() and not path.is_file():  # reading a pipe or a device could block forever
            raise DatasetError(f"{path} is not a file.")
        try:
            size = path.stat().st_size
        except OSError as error:
            if error.errno == errno.ELOOP:  # a link to itself
                raise FileNotFoundError(error.errno, error.strerror, str(path)) from error
            raise
        if size > LARGEST:
            raise DatasetError(f"{path} has {size} bytes, too many for a manifest.")
        return path.read_bytes()

    def sizes(self) -> dict[str, int]:
        if not self.folder.exists():
            return {}
        sizes = dict[str, int]()
        with os.scandir(self.folder) as entries:
            for entry in filter(_is_file, entries):
                with contextlib.suppress(FileNotFoundError):  # another writer has just removed it
                    sizes[entry.name] = entry.stat().st_size
        return sizes

    def section(self, name: str, dtype: str, start: int, stop: int) -> AnyArray:
        with self.reader() as files:
            return files.section(name, dtype, start, stop)

    def is_near(self, name: str, offset: int) -> bool:
        with self.reader() as files:
            return files.is_near(name, offset)

    @contextlib.contextmanager
    def reader(self) -> Iterator[Sections]:
        files = _OpenFiles(self.folder)
        try:
            yield files
        finally:
            files.close()

    def load(self, section: AnyArray) -> None:
        """See :class:`Storage`. Touches every page, without the interpreter's lock."""
        np.add.reduce(section.reshape(-1).view(np.uint8)[::_PAGE], dtype=np.uint64)

    def create(self, name: str) -> IO[bytes]:
        self.folder.mkdir(parents=True, exist_ok=True)
        return open(self.folder / name, "wb", buffering=1 << 20)

    def finish(self, file: IO[bytes]) -> None:
        file.flush()
        os.fsync(file.fileno())
        file.close()

    def replace(self, name: str, content: bytes) -> None:
        """See :class:`Storage`. Written under another name in the same folder, then moved."""
        self._replace(name, content, contextlib.nullcontext())

    def commit(self, content: bytes, before: bytes | None) -> None:
        self._replace(NAME, content, self._unchanged(before))

    def _replace(
        self, name: str, content: bytes, condition: contextlib.AbstractContextManager[None]
    ) -> None:
        temporary = f".{name}.{os.getpid()}-{random.getrandbits(64):x}"
        try:
            file = self.create(temporary)
            with file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            with condition:
                os.replace(self.folder / temporary, self.folder / name)
        finally:
            self.remove(temporary)
        remove_partial(self.folder, f".{name}.*-*")
        with contextlib.suppress(OSError):  # some systems cannot open folders
            folder = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    @contextlib.contextmanager
    def _unchanged(self, before: bytes | None) -> Iterator[None]:
        """A moment in which no other process replaces the manifest, which is still that of ``before``. A file
        that one process can create is the lock: locks of the kernel do not work on all shared volumes."""
        lock = self.folder / LOCK
        for _ in range(LOCK_ATTEMPTS):
            try:
                with open(lock, "x") as file:
                    file.write(this_process())
                break
            except FileExistsError:
                if take_over(lock):
                    break
                time.sleep(0.1)
        else:
            holder = (content_of(self, LOCK) or b"").decode("ascii", "replace")
            raise DatasetError(
                f"{lock} is held by {described(holder)}, although a writer needs it for a moment only. If "
                "that writer was killed, remove the file."
            )
        try:
            require_unchanged(self, before)
            yield
        finally:
            self.remove(LOCK)

    def remove(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)

    def writing(self) -> contextlib.AbstractContextManager[None]:
        """See :class:`Storage`. Not needed: names of files are unique, and ``commit`` refuses the second
        of two writers."""
        return contextlib.nullcontext()


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Whether a folder entry is a file or a link to a file."""
    try:
        return entry.is_file()
    except OSError:  # a link that points to itself
        return False


class _OpenFiles:
    """The most recently used files, kept open."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._files = folder, dict[str, int]()

    def section(self, name: str, dtype: str, start: int, stop: int) -> AnyArray:
        """Map a section. Pages shared by several sections are mapped several times."""
        kind = np.dtype(dtype)
        if stop <= start:
            return np.empty(0, dtype=kind)
        begin, end = start * kind.itemsize, stop * kind.itemsize
        origin = begin // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        file = self._file(name)
        try:
            mapping = mmap.mmap(file, end - origin, access=mmap.ACCESS_READ, offset=origin)
        except (ValueError, OSError) as error:
            raise DatasetError(
                f"{self._folder / name} ends before byte {end}: it was truncated."
            ) from error
        return np.frombuffer(mapping, kind, stop - start, begin - origin)

    def is_near(self, name: str, offset: int) -> bool:
        """See :class:`Sections`; tries a read that does not block."""
        try:
            return os.preadv(self._file(name), [bytearray(1)], offset, os.RWF_NOWAIT) == 1
        except (OSError, AttributeError):  # the read would block, or is not supported
            return False

    def _file(self, name: str) -> int:
        if name not in self._files:
            if len(self._files) == _FILES:
                os.close(self._files.pop(next(iter(self._files))))
            try:
                # Do not block if a pipe is in place of the file; mapping it fails.
                flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
                file = os.open(self._folder / name, flags)
            except FileNotFoundError:
                raise DatasetError(
                    f"{self._folder / name} is missing. If the data set was overwritten after it was opened, "
                    "open it again."
                ) from None
            if not stat.S_ISREG(os.fstat(file).st_mode):
                os.close(file)
                raise DatasetError(f"{self._folder / name} is not a file.")
            self._files[name] = file
        return self._files[name]

    def close(self) -> None:
        while self._files:
            os.close(self._files.popitem()[1])


def storage_for(
    path: str | os.PathLike[str], storage_options: dict[str, Any] | None = None
) -> Storage:
    """A local folder, or an object store if the path is a URL."""
    text = os.fspath(path)
    if "://" in text:
        from maxmargin.data.remote import RemoteStorage

        return RemoteStorage(text, storage_options or {})
    if storage_options:
        raise ValueError(f"storage_options are for URLs such as s3://...; {text} is a local path.")
    return LocalStorage(text)
