"""Encoding and counting of labels while a data set is written. String labels are stored as codes."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.core.matrices import AnyArray
from maxmargin.data.manifest import Labels

#: maximum number of distinct numbers that are counted; beyond this labels are not treated as classes
MOST_VALUES = 10_000


class LabelBook:
    """Codes and counts of labels. ``start`` holds those of an existing data set to append to."""

    def __init__(self, start: Labels | None = None) -> None:
        self.kind = start.kind if start else ""
        self.dtype = np.dtype(start.dtype) if start and start.kind != "none" else None
        self._counts: dict[Any, int] | None = {}
        if start and start.kind != "none":
            self._counts = (
                None
                if start.values is None or start.counts is None
                else dict(zip(start.values, start.counts, strict=True))
            )
        self._codes = {text: code for code, text in enumerate(self._counts or {})}

    def encode(self, y: AnyArray | None) -> AnyArray | None:
        """Encode labels for storage and count them. None if there are no labels to infer their kind from."""
        if y is not None and not len(y):
            return None
        kind = "none" if y is None else "text" if y.dtype.kind == "U" else "number"
        if self.kind and kind != self.kind:
            raise ValueError(f"labels are of kind {kind}, but previous batches have {self.kind}.")
        self.kind = kind
        if y is None:
            return None
        if kind == "text":
            return self._encode_texts(y)
        self.dtype = y.dtype if self.dtype is None else self.dtype
        stored = y.astype(self.dtype, copy=False)
        if not np.array_equal(stored, y):
            raise ValueError(
                f"labels of type {y.dtype} do not fit into {self.dtype}, the type of the first batch: "
                "use one type for all batches."
            )
        self._count(*np.unique(stored, return_counts=True))
        return stored

    def new_classes(self, known: int) -> tuple[str, ...]:
        """Strings beyond the first ``known``, in the order of their codes."""
        return tuple(list(self._codes)[known:]) if self.kind == "text" else ()

    def __len__(self) -> int:
        return len(self._codes)

    def summary(self) -> Labels:
        """The summary of labels in the manifest."""
        counts, kind = self._counts, self.kind or "none"
        if counts is not None and kind == "number":
            counts = dict(sorted(counts.items()))  # strings stay in the order of their codes
        return Labels(
            kind,
            "" if self.dtype is None else self.dtype.newbyteorder("<").str,
            None if counts is None or kind == "none" else tuple(counts),
            None if counts is None or kind == "none" else tuple(counts.values()),
        )

    def _encode_texts(self, y: AnyArray) -> AnyArray:
        self.dtype = np.dtype("<i4")
        texts, first, inverse, counts = np.unique(
            y, return_index=True, return_inverse=True, return_counts=True
        )
        assert self._counts is not None  # strings are always counted
        for k in np.argsort(
            first
        ):  # codes follow the order of appearance, independent of the batches
            text = str(texts[k])
            self._codes.setdefault(text, len(self._codes))
            self._counts[text] = self._counts.get(text, 0) + int(counts[k])
        codes = np.array([self._codes[str(text)] for text in texts], dtype="<i4")
        return codes[inverse.reshape(-1)]

    def _count(self, values: AnyArray, counts: AnyArray) -> None:
        if self._counts is None or len(values) > MOST_VALUES:
            self._counts = None
            return
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            self._counts[value] = self._counts.get(value, 0) + count
        if len(self._counts) > MOST_VALUES:
            self._counts = None
