"""Rows in one order for many problems: the training rows of every split are a few runs of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.design import Design
from maxmargin.losses.base import Labels, ScoreLoss


@dataclass(frozen=True, slots=True, eq=False)
class RowRun:
    """Neighbouring rows of one class that belong to the same splits."""

    lo: int
    hi: int
    part: int
    """The class."""
    splits: frozenset[int]


@dataclass(frozen=True, slots=True, eq=False)
class SharedRows:
    """The rows of all problems; ``y``, ``weight`` and the runs are in the order of the design."""

    design: Design
    y: Labels
    weight: Array
    loss: ScoreLoss
    intercept: float
    runs: tuple[RowRun, ...]

    @property
    def dim(self) -> int:
        """Length of w."""
        return self.design.shape[1] + int(self.intercept != 0.0)

    @property
    def n_parts(self) -> int:
        """Number of classes."""
        return 1 + max(run.part for run in self.runs)


def order_rows(
    parts: IntArray, trains: Sequence[Any], n: int
) -> tuple[IntArray, list[tuple[int, int, int, frozenset[int]]]]:
    """The order of rows in which every split is a few runs, and the runs (lo, hi, part, splits).

    ``trains`` holds one array of row numbers per split. Rows that no split trains on come last in
    their class. The order is stable: rows that are in order already are not moved.
    """
    member = np.zeros((n, len(trains)), dtype=bool)
    for k, rows in enumerate(trains):
        member[rows, k] = True
    if len(trains) < 63:
        _, first, code = np.unique(
            member @ (1 << np.arange(len(trains))), return_index=True, return_inverse=True
        )
        signatures = member[first]
    else:
        signatures, code = np.unique(member, axis=0, return_inverse=True)
    key = parts * len(signatures) + code.ravel()
    order = np.argsort(key, kind="stable")
    ends = np.flatnonzero(np.diff(key[order])) + 1
    runs = []
    for lo, hi in itertools.pairwise([0, *ends.tolist(), n]):
        part, signature = divmod(int(key[order[lo]]), len(signatures))
        runs.append((lo, hi, part, frozenset(np.flatnonzero(signatures[signature]).tolist())))
    return order, runs
