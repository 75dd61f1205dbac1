"""Selection of the dual method for a loss."""

from __future__ import annotations

from maxmargin.core.contract.row_duals import AT_SHARDS, RowDuals, refused
from maxmargin.core.contract.sweeps import Blocks, Streaming
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.data.design import BlockDesign, CSRDesign, DenseDesign, DenseRows
from maxmargin.duals.coordinates import coordinates
from maxmargin.duals.free_intercept import FreeCoordinates, serves
from maxmargin.duals.interior_point import InteriorPoint
from maxmargin.duals.out_of_core import StreamedRows
from maxmargin.duals.quasi_newton import QuasiNewton, too_wide
from maxmargin.duals.row_blocks import BlockCoordinates, Run, in_order
from maxmargin.duals.rows import Rows
from maxmargin.duals.sample import sample_refusal
from maxmargin.duals.smooth_newton import SmoothNewton
from maxmargin.duals.terms import require_true_terms
from maxmargin.losses.dual_terms import ClassTerms, DualTerms

METHODS = (
    "coordinate",
    "block coordinate",
    AT_SHARDS,
    "newton",
    "quasi-newton",
    "stream",
    "sample",
)
#: methods over rows that are loaded in parts
IN_PARTS = ("stream", AT_SHARDS)
#: methods over several blocks of rows at the same time
IN_BLOCKS = ("block coordinate", AT_SHARDS)


def refusal(method: str, rows: Rows, regularizer: SquaredNorm) -> str | None:
    """The reason why this method cannot solve this problem; None if it can."""
    if method not in METHODS:
        return f"there is no such method, only {', '.join(METHODS)}"
    if method == "sample":
        return sample_refusal(rows, regularizer)
    if method == "quasi-newton":
        return _not_by_gradients(rows, regularizer)
    in_memory = isinstance(rows.design, CSRDesign | DenseDesign)
    if method in IN_PARTS and not (in_memory or isinstance(rows.design, BlockDesign)):
        return f"{type(rows.design).__name__} has no block(lo, hi) method"
    if method not in IN_PARTS and not in_memory:
        why = f"{type(rows.design).__name__} does not give access to single rows in memory"
        return f"{why}; use dealing='shards'" if method == "block coordinate" else why
    terms = rows.first_terms
    if method == "newton" and not isinstance(terms, DualTerms):
        if rows.loss.newton_terms(rows.y[:1]) is None:
            return (
                f"the loss {type(rows.loss).__name__} offers neither dual_terms (of one score per row) nor "
                "newton_terms"
            )
    elif terms is None:
        return f"the loss {type(rows.loss).__name__} offers no dual_terms"
    by_coordinates = method in ("coordinate", *IN_BLOCKS)
    if method in IN_BLOCKS and isinstance(terms, ClassTerms):
        return (
            f"blocks are for losses with one score per sample, and {type(rows.loss).__name__} has one per "
            "class; leave out blocks=, or let LinearSVC fit one problem per class with multi_class='ovr'"
        )
    if method in IN_BLOCKS and not (isinstance(terms, DualTerms) and terms.coordinates is None):
        return (
            f"blocks are for losses with one score per sample and the duals of DualTerms, and "
            f"{type(rows.loss).__name__} has others; leave out blocks="
        )
    signs = by_coordinates and terms is not None and terms.keeps_signs
    if len(regularizer.nonnegative) and not signs:
        return "it cannot constrain weights to be nonnegative"
    if method == "coordinate" and serves(rows, regularizer):
        return None
    if method != "newton" and len(regularizer.free):
        return "it penalizes every coordinate, so it cannot fit an unpenalized intercept"
    return None


def _not_by_gradients(rows: Rows, regularizer: SquaredNorm) -> str | None:
    """The reason why the quasi-Newton method cannot solve this problem; None if it can."""
    if rows.loss.column_terms() is None:
        return f"the loss {type(rows.loss).__name__} offers no column_terms"
    if not isinstance(rows.design, DenseRows):
        return "it needs dense rows"
    if too_wide(rows):
        return "there are too many features for an eigenvalue decomposition"
    if len(regularizer.nonnegative):
        return "it cannot constrain weights to be nonnegative"
    return None


def row_duals(
    method: str,
    rows: Rows,
    C: float,
    regularizer: SquaredNorm,
    streaming: Streaming | None = None,
    blocks: Blocks | None = None,
    run: Run = in_order,
) -> RowDuals:
    """A new dual point, optimized by this method; ``run`` may call functions at the same time."""
    why = refusal(method, rows, regularizer)
    if why is not None:
        raise TypeError(refused(method, why))
    require_true_terms(rows.loss, rows.y)
    if method == "newton":
        terms = rows.first_terms
        by_points = isinstance(terms, DualTerms) and terms.capped
        return (InteriorPoint if by_points else SmoothNewton)(rows, C, regularizer)
    if method == "quasi-newton":
        return QuasiNewton(rows, C, regularizer, run)
    if method == "stream":
        return StreamedRows(rows, C, streaming or Streaming())
    if method == "block coordinate":
        return BlockCoordinates(rows, C, regularizer, blocks=blocks, run=run)
    if len(regularizer.free):
        return FreeCoordinates(rows, C, regularizer)
    duals: RowDuals = coordinates(rows)(rows, C, regularizer)
    return duals
