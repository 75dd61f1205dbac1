"""Where a task keeps the weights of rows: the positions in w that belong to each column of the inputs.

    Psi(x, y) = sum_r row_r (x) e_r(y) + rest(y)          the contract of ``Task.kernel_inputs``

With M columns, w has q weights for each column, one for each entry of e, and others that do not depend on
rows. Nothing says in which order. It is read off vectors in which the weight of column j and entry k is d_j
times g_k, with known d and all g different: from ``project_weights`` if the task has it, otherwise from joint
features of a few examples whose rows are multiples of d.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin.core.vectors import Array, IntArray
from maxmargin.tasks.base import Bounded, Task

#: decimals to which the g_k differ
DECIMALS = 9


class RowLayout:
    """The positions of weights of a task, for any number of columns.

    Parameters
    ----------
    task : Task
        A task that defines ``kernel_inputs``. It is not changed.
    X, Y : sequences
        Inputs and labeled outputs.
    counts : array of int
        The number of rows of each input.
    """

    def __init__(self, task: Task, X: Sequence[Any], Y: Sequence[Any], counts: IntArray) -> None:
        self._task, self._X, self._Y, self._counts = copy.deepcopy(task), X, Y, counts
        self._one, dim = self._set_up(1)
        #: number of weights of a column, and of those that do not depend on rows
        self.n_outputs = self._set_up(2)[1] - dim
        self.n_rest = dim - self.n_outputs
        self._marks: Array = np.random.default_rng(0).uniform(1.0, 2.0, dim)
        self._probes: list[tuple[int, Any, Array]] = []
        if self._one.project_weights(self._marks, np.ones((1, 1))) is None:
            self._probe(dim)

    def at(self, width: int) -> tuple[Task, int, IntArray, IntArray]:
        """The task set up for inputs with this many columns, the dimension of w, and the positions of the
        weights: by column and entry, and those that do not depend on rows."""
        task, dim = self._set_up(width)
        factors: Array = np.arange(2.0, width + 2.0)
        plain, scaled = self._marked(task, np.ones(width)), self._marked(task, factors)
        there = np.flatnonzero(plain != scaled)
        column = np.rint(scaled[there] / plain[there])
        if len(there) != width * self.n_outputs or dim != len(there) + self.n_rest:
            raise self._unknown()
        order = np.lexsort((plain[there].round(DECIMALS), column))
        rest = np.setdiff1d(np.arange(dim), there)
        return task, dim, there[order].reshape(width, self.n_outputs), rest

    def _set_up(self, width: int) -> tuple[Task, int]:
        task, none = copy.deepcopy(self._task), np.zeros(width)
        empty = [
            task.with_kernel_inputs(x, np.broadcast_to(none, (int(n), width)))
            for x, n in zip(self._X, self._counts, strict=True)
        ]
        return task, int(task.setup(empty, self._Y))

    def _marked(self, task: Task, factors: Array) -> Array:
        """A vector in which the weight of column j and entry k is ``factors[j]`` times g_k."""
        if not self._probes:
            out = self._one.project_weights(self._marks, factors[:, None])
            return np.asarray(out, dtype=np.float64)
        return self._psi(task, self._probes, factors)

    def _psi(self, task: Task, probes: list[tuple[int, Any, Array]], factors: Array) -> Array:
        out: Any = 0.0
        for i, y, rows in probes:
            x = task.with_kernel_inputs(self._X[i], np.outer(rows, factors))
            psi = task.joint_feature(x, y)
            out = out + (psi if isinstance(psi, np.ndarray) else psi.to_dense())
        return np.asarray(out, dtype=np.float64)

    def _probe(self, dim: int) -> None:
        """Find outputs whose joint features have all entries of e."""
        rng, one, seen = np.random.default_rng(0), self._one, np.zeros(dim, dtype=bool)
        for i, (x, y) in enumerate(zip(self._X, self._Y, strict=True)):
            n = int(self._counts[i])
            empty = one.with_kernel_inputs(x, np.zeros((n, 1)))
            found = one.loss_augmented_inference(empty, y, np.zeros(dim))
            for output in (y, found.y if isinstance(found, Bounded) else found):
                probe = (i, output, rng.uniform(1.0, 2.0, n))
                own, none = (self._psi(one, [probe], np.array([d])) for d in (1.0, 0.0))
                if (there := (own != none) & ~seen).any():
                    self._probes.append(probe)
                    seen |= there
            if seen.sum() == self.n_outputs:
                break
        if not self._probes or len(set(self._marked(one, np.ones(1))[seen].round(DECIMALS))) != (
            self.n_outputs
        ):
            raise self._unknown()

    def _unknown(self) -> NotImplementedError:
        return NotImplementedError(
            f"{type(self._task).__name__} must define project_weights(w, factor) to use sampled cuts "
            "with a kernel: the joint features of the examples do not show which of its weights belong to "
            "which column of the rows."
        )
