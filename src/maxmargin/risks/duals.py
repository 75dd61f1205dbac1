"""Which dual point serves which loss."""

from __future__ import annotations

from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.row_duals import RowDuals
from maxmargin.core.sweeps import Streaming
from maxmargin.data.design import CSRDesign, DenseDesign
from maxmargin.losses import (
    CrammerSinger,
    EpsilonInsensitive,
    Hinge,
    Logistic,
    OneClass,
    SquaredHinge,
)
from maxmargin.risks.coordinates import coordinates
from maxmargin.risks.free_coordinates import FreeCoordinates, serves
from maxmargin.risks.interior_point import InteriorPoint
from maxmargin.risks.rows import Rows
from maxmargin.risks.smooth_newton import SmoothNewton
from maxmargin.risks.streamed_rows import StreamedRows

METHODS = ("coordinate", "newton", "stream")

#: losses each method can train
COORDINATE = (CrammerSinger, EpsilonInsensitive, Hinge, OneClass, SquaredHinge)
NEWTON = (EpsilonInsensitive, Hinge, OneClass, SquaredHinge, Logistic)


def refusal(method: str, rows: Rows, regularizer: SquaredNorm) -> str | None:
    """Why this method cannot train this problem; None if it can."""
    if method not in METHODS:
        return f"it is for kernels, and {type(rows.design).__name__} has features"
    if method == "stream" and not hasattr(rows.design, "block"):
        return f"{type(rows.design).__name__} does not show its rows: it has no block(lo, hi)"
    if method != "stream" and not isinstance(rows.design, CSRDesign | DenseDesign):
        return f"{type(rows.design).__name__} does not show single rows in memory"
    if not isinstance(rows.loss, NEWTON if method == "newton" else COORDINATE):
        return f"it has no form for the loss {type(rows.loss).__name__}"
    signs = method == "coordinate" and not isinstance(rows.loss, CrammerSinger)
    if len(regularizer.nonnegative) and not signs:
        return "it does not keep weights from becoming negative"
    if method == "coordinate" and serves(rows, regularizer):
        return None
    if method != "newton" and len(regularizer.free):
        return "it penalises every coordinate, and an intercept that is not penalised is asked for"
    return None


def row_duals(
    method: str,
    rows: Rows,
    C: float,
    regularizer: SquaredNorm,
    streaming: Streaming | None = None,
) -> RowDuals:
    """A fresh dual point."""
    why = refusal(method, rows, regularizer)
    if why is not None:
        raise TypeError(f"cannot use the {method} method here: {why}. Use solver=CuttingPlane().")
    if method == "newton":
        return (SmoothNewton if rows.loss.smooth else InteriorPoint)(rows, C, regularizer)
    if method == "stream":
        return StreamedRows(rows, C, streaming or Streaming())
    if len(regularizer.free):
        return FreeCoordinates(rows, C, regularizer)
    return coordinates(rows)(rows, C, regularizer)
