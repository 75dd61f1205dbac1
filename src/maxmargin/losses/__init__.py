"""Losses of scores: anything of the form R(w) = L(Xw)."""

from maxmargin.losses.base import ScoreLoss
from maxmargin.losses.hinge import CrammerSinger, Hinge

__all__ = ["CrammerSinger", "Hinge", "ScoreLoss"]
