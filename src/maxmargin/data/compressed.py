"""Files by path or URL, decompressed on the fly by the end of their name."""

from __future__ import annotations

from typing import IO, Any, cast

#: endings of compressed files
ENDINGS = ("gz", "bz2", "xz", "zst")


def opened(name: str) -> IO[bytes]:
    """A file for reading. Names that end in .gz, .bz2, .xz or .zst are decompressed."""
    source: Any = name
    if "://" in name:
        from maxmargin.data import remote

        source = remote.opened(name)
    kind = name.rsplit(".", 1)[-1]
    if kind == "gz":
        import gzip

        return cast("IO[bytes]", gzip.open(source, "rb"))
    if kind == "bz2":
        import bz2

        return bz2.open(source, "rb")
    if kind == "xz":
        import lzma

        return lzma.open(source, "rb")
    if kind == "zst":
        try:
            import zstandard
        except ImportError as error:
            raise ImportError(
                f'{name} requires the package zstandard: pip install "maxmargin[zstd]".'
            ) from error
        return cast("IO[bytes]", zstandard.open(source, "rb"))
    return cast("IO[bytes]", source if source is not name else open(name, "rb"))
