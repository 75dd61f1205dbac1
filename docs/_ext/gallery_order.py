"""The order of the examples of a topic: what to read first, then by the name of the file."""

from __future__ import annotations

FIRST = ("plot_certificate", "plot_measures", "plot_tagger", "plot_own_argmax", "plot_stream")


class ReadFirst:
    """A sort key of sphinx-gallery, made once for each folder."""

    def __init__(self, src_dir: str) -> None:
        self.src_dir = src_dir

    def __call__(self, filename: str) -> tuple[bool, str]:
        return not filename.startswith(FIRST), filename

    def __repr__(self) -> str:
        return "<ReadFirst>"
