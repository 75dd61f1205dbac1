"""Losses of scores: anything of the form R(w) = L(Xw)."""

from maxmargin.losses.base import ScoreLoss
from maxmargin.losses.hinge import CrammerSinger, Hinge
from maxmargin.losses.logistic import Logistic
from maxmargin.losses.one_class import OneClass
from maxmargin.losses.squared_hinge import SquaredHinge

__all__ = ["CrammerSinger", "Hinge", "Logistic", "OneClass", "ScoreLoss", "SquaredHinge"]
