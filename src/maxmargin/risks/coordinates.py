"""The compiled epochs of coordinate ascent that serve a loss."""

from __future__ import annotations

from maxmargin.losses import CrammerSinger
from maxmargin.risks.binary_coordinates import BinaryCoordinates
from maxmargin.risks.class_coordinates import ClassCoordinates
from maxmargin.risks.rows import Rows

Coordinates = BinaryCoordinates | ClassCoordinates


def coordinates(rows: Rows) -> type[Coordinates]:
    """The dual points for the loss of these rows."""
    return ClassCoordinates if isinstance(rows.loss, CrammerSinger) else BinaryCoordinates
