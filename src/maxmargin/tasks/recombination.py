"""New solutions of a program from known ones, without a solve.

Let y and z be feasible and d = z - y. Two entries of d hang together if a constraint holds both variables;
let d_1, d_2, ... be the parts that hang together. A constraint then sees the entries of one part only, so

    y + (any of the d_k)

is feasible: in each constraint it has the value that y or z has. Parts can be judged one by one: those of
negative cost are taken. A few solutions of a large program, whose regions hardly know of each other,
contain exponentially many others; the best of them often is as far ahead as the next solve would be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from maxmargin.core.vectors import Array, IntArray

#: rounds over all known solutions
ROUNDS = 3


def recombine(
    columns: sp.csc_array | None, costs: Array, start: Array, known: Sequence[Array]
) -> Array:
    """A feasible solution that costs no more than ``start``, by taking over parts of known ones.

    Parameters
    ----------
    columns : sparse matrix or None
        The constraints' matrix.
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
    >>> A = sp.csc_array([[1, 1, 0, 0], [0, 0, 1, 1]])      # one of the first two, one of the last two
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
    """The variables of ``moved``, in groups that share no constraint."""
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
