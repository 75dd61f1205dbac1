"""Solvers: one file per method. They see risks, cuts and bounds, never data."""

from maxmargin.core.stopping import AbsoluteGap, RelativeGap, RiskEpsilon
from maxmargin.solvers.cutting_plane import CuttingPlane
from maxmargin.solvers.driver import certify, minimize
from maxmargin.solvers.dual_coordinate import DualCoordinate

__all__ = [
    "AbsoluteGap",
    "CuttingPlane",
    "DualCoordinate",
    "RelativeGap",
    "RiskEpsilon",
    "certify",
    "minimize",
]
