"""Selection of the coordinate-ascent implementation for a loss, by the form of its dual."""

from __future__ import annotations

from typing import Any

from maxmargin.duals.crammer_singer import ClassCoordinates
from maxmargin.duals.one_score import BinaryCoordinates
from maxmargin.duals.rows import Rows
from maxmargin.duals.terms import row_terms
from maxmargin.losses.dual_terms import ClassTerms, DualTerms

Coordinates = BinaryCoordinates | ClassCoordinates

_EPOCHS: dict[type, type[Coordinates]] = {
    DualTerms: BinaryCoordinates,
    ClassTerms: ClassCoordinates,
}


def coordinates(rows: Rows) -> Any:
    """The class of dual points for the loss of these rows."""
    terms = row_terms(rows)
    own = terms.coordinates or _EPOCHS.get(type(terms))
    if own is None:
        raise TypeError(
            f"{type(terms).__name__}, the dual terms of {type(rows.loss).__name__}, have no epochs: set "
            "the attribute coordinates to a class like maxmargin.duals.one_score.BinaryCoordinates."
        )
    return own
