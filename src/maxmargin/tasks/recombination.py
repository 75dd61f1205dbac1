"""Combine known solutions of an integer program into new ones, without a solve.

Let y and z be feasible and d = z - y. Two entries of d are connected if some constraint contains both
variables. Let d_1, d_2, ... be the connected components. Each constraint contains entries of one component
only, so

    y + (any subset of the d_k)

is feasible: each constraint has the same value as for y or for z. Components can be chosen independently:
take those with negative cost. If the parts of a large program are weakly coupled, a few solutions contain
exponentially many others, and the best of them is often as good as the result of the next solve.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from maxmargin.core.vectors import Array, IntArray

#: maximum number of rounds over all known solutions
ROUNDS = 3


def recombine(
    columns: sp.csc_array | None, costs: Array, start: Array, known: Sequence[Array]
) -> Array:
    """Improve the feasible solution ``start`` with components of known solutions.

    Parameters
    ----------
    columns : sparse matrix or None
        The constraint matrix.
    costs : array
        Costs of the variables.
    start : array
        A feasible solution.
    known : sequence of arrays
        Feasible solutions.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from maxmargin.tasks.recombination import recombine
    >>> A = sp.csc_array([[1, 1, 0, 0], [0, 0, 1, 1]])  # constraints on y0 + y1 and on y2 + y3
    >>> y, z = np.array([1.0, 0, 1, 0]), np.array([0.0, 1, 0, 1])
    >>> recombine(A, np.array([0.0, 1, 0, -1]), y, [z])
    array([1., 0., 0., 1.])
    """
    y = start.copy()
    for _ in range(ROUNDS):
        improved = False
        for other in known:
            change = other - y
            for part in _parts(columns, np.flatnonzero(change)):
                if costs[part] @ change[part] < 0.0:
                    y[part] = other[part]
                    improved = True
        if not improved:
            break
    return y


def _parts(columns: sp.csc_array | None, moved: IntArray) -> Iterator[IntArray]:
    """Split the variables ``moved`` into groups that share no constraint."""
    if len(moved) == 0:
        return
    if columns is None:
        yield from moved[:, None]
        return
    touched = columns[:, moved]
    touched.data = np.ones_like(touched.data)
    number, part = connected_components(touched.T @ touched, directed=False)
    order = np.argsort(part, kind="stable")
    yield from np.split(moved[order], np.cumsum(np.bincount(part, minlength=number))[:-1])
