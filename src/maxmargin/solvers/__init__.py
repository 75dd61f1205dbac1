"""Solvers: one file per method. They see risks, cuts and bounds, never data."""

from maxmargin.core.stopping import AbsoluteGap, RelativeGap, RiskEpsilon
from maxmargin.solvers.cutting_plane import CuttingPlane
from maxmargin.solvers.driver import certify, minimize

__all__ = ["AbsoluteGap", "CuttingPlane", "RelativeGap", "RiskEpsilon", "certify", "minimize"]
