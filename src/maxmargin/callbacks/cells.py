"""The record of a cross-validation: one per trained cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CellRecord:
    """One cell of a cross-validation: a setting that was trained on a fold.

    Callbacks of searches, such as :class:`maxmargin.LinearSVCCV`, receive it.

    Attributes
    ----------
    cell, n_cells : int
        The number of this cell, counted from 1 in the order of training, and the number of all cells.
    params : dict
        The setting.
    fold : int
        The fold, counted from 0.
    objective, lower_bound, gap : float
        The bounds of the cell.
    converged : bool
        Whether the bounds prove that ``tol`` was reached.
    seconds, elapsed : float
        Time for this cell, and time since the cross-validation began.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import LinearSVCCV
    >>> cells = []
    >>> search = LinearSVCCV([0.1, 1.0], cv=2, callbacks=[cells.append]).fit(*load_iris(return_X_y=True))
    >>> [(record.cell, record.n_cells, record.fold) for record in cells]
    [(1, 4, 0), (2, 4, 0), (3, 4, 1), (4, 4, 1)]
    """

    cell: int
    n_cells: int
    params: dict[str, Any]
    fold: int
    objective: float
    lower_bound: float
    gap: float
    converged: bool
    seconds: float
    elapsed: float
