"""Labels while a data set is written: texts become codes, distinct values are counted while they are few."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.data.manifest import Labels

AnyArray = npt.NDArray[Any]

#: distinct numbers that are counted; more of them are no classes
MOST_VALUES = 10_000


class LabelBook:
    """Codes and counts. ``start`` is what the data set knew before, when it is appended to."""

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
        """Labels as they are stored; counts them. None where there are none (to tell their kind by)."""
        if y is not None and not len(y):
            return None
        kind = "none" if y is None else "text" if y.dtype.kind == "U" else "number"
        if self.kind and kind != self.kind:
            raise ValueError(f"labels are of kind {kind}, but so far {self.kind}: keep to one.")
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
                "give all batches one type."
            )
        self._count(*np.unique(stored, return_counts=True))
        return stored

    def new_classes(self, known: int) -> tuple[str, ...]:
        """Texts beyond the first ``known``, in the order of their codes."""
        return tuple(list(self._codes)[known:]) if self.kind == "text" else ()

    def __len__(self) -> int:
        return len(self._codes)

    def summary(self) -> Labels:
        """What the manifest says."""
        counts = self._counts
        if counts is not None and self.kind == "number":
            counts = dict(sorted(counts.items()))  # texts stay in the order of their codes
        return Labels(
            self.kind or "none",
            "" if self.dtype is None else self.dtype.newbyteorder("<").str,
            None if counts is None or self.kind == "none" else tuple(counts),
            None if counts is None or self.kind == "none" else tuple(counts.values()),
        )

    def _encode_texts(self, y: AnyArray) -> AnyArray:
        self.dtype = np.dtype("<i4")
        texts, first, inverse, counts = np.unique(
            y, return_index=True, return_inverse=True, return_counts=True
        )
        assert self._counts is not None  # texts are counted, however many
        for k in np.argsort(
            first
        ):  # codes in the order in which texts appear, whatever the batches
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
