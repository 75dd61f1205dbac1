"""Data sets in object stores, through fsspec: sections are fetched by byte ranges."""

from __future__ import annotations

import contextlib
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from maxmargin.data.manifest import DatasetError

AnyArray = npt.NDArray[Any]


class RemoteStorage:
    """A prefix of an object store. Objects appear whole when they are closed."""

    depth = 4

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        try:
            import fsspec
        except ImportError as error:
            raise ImportError(
                f'{url} needs the package fsspec: pip install "maxmargin[remote]".'
            ) from error
        try:
            self._files, self._prefix = fsspec.core.url_to_fs(url, **options)
        except ImportError as error:
            raise ImportError(f'{error} pip install "maxmargin[remote]".') from error
        self._url = url.rstrip("/")

    def describe(self, name: str = "") -> str:
        """See :class:`~maxmargin.data.storage.Storage`."""
        return f"{self._url}/{name}" if name else self._url

    def content(self, name: str) -> bytes:
        """See :class:`~maxmargin.data.storage.Storage`."""
        self._files.invalidate_cache()
        return bytes(self._files.cat_file(self._path(name)))

    def sizes(self) -> dict[str, int]:
        """See :class:`~maxmargin.data.storage.Storage`."""
        self._files.invalidate_cache()
        try:
            entries = self._files.ls(self._prefix, detail=True)
        except FileNotFoundError:
            return {}
        return {e["name"].rsplit("/", 1)[-1]: e["size"] for e in entries if e["type"] == "file"}

    def section(self, name: str, dtype: str, start: int, stop: int) -> AnyArray:
        """See :class:`~maxmargin.data.storage.Storage`."""
        kind = np.dtype(dtype)
        if stop <= start:
            return np.empty(0, dtype=kind)
        begin, end = start * kind.itemsize, stop * kind.itemsize
        try:
            content = self._files.cat_file(self._path(name), start=begin, end=end)
        except FileNotFoundError:
            raise DatasetError(f"{self.describe(name)}: this file is missing.") from None
        if len(content) != end - begin:
            raise DatasetError(
                f"{self.describe(name)}: the file ends before byte {end}: it was truncated."
            )
        return np.frombuffer(content, kind)

    def load(self, section: AnyArray) -> None:
        """See :class:`~maxmargin.data.storage.Storage`: sections are in memory already."""

    def create(self, name: str) -> IO[bytes]:
        """See :class:`~maxmargin.data.storage.Storage`."""
        file: IO[bytes] = self._files.open(self._path(name), "wb")
        return file

    def finish(self, file: IO[bytes]) -> None:
        """See :class:`~maxmargin.data.storage.Storage`."""
        file.close()

    def replace(self, name: str, content: bytes) -> None:
        """See :class:`~maxmargin.data.storage.Storage`."""
        self._files.pipe_file(self._path(name), content)

    def remove(self, name: str) -> None:
        """See :class:`~maxmargin.data.storage.Storage`."""
        with contextlib.suppress(FileNotFoundError):
            self._files.rm_file(self._path(name))

    def writing(self) -> contextlib.AbstractContextManager[None]:
        """See :class:`~maxmargin.data.storage.Storage`. Object stores have no locks: one writer at a
        time is up to the user."""
        return contextlib.nullcontext()

    def _path(self, name: str) -> str:
        return f"{self._prefix}/{name}"
