"""Solvers: one file per method. They use risks, cuts and bounds, never data."""

from maxmargin.core.stopping import AbsoluteGap, ProvenPredictions, RelativeGap, RiskEpsilon
from maxmargin.solvers.auto import Auto, AutoStructured
from maxmargin.solvers.cccp import minimize_latent
from maxmargin.solvers.certificate import certify
from maxmargin.solvers.cutting_plane import CuttingPlane
from maxmargin.solvers.dual_coordinate import DualCoordinate
from maxmargin.solvers.kernel_blocks import KernelBlocks
from maxmargin.solvers.latent_result import LatentResult
from maxmargin.solvers.minimization import minimize
from maxmargin.solvers.newton import Newton
from maxmargin.solvers.requirements import Needs
from maxmargin.solvers.sampled import SampledCuts
from maxmargin.solvers.sampled_newton import SampledNewton
from maxmargin.solvers.session import Session

__all__ = [
    "AbsoluteGap",
    "Auto",
    "AutoStructured",
    "CuttingPlane",
    "DualCoordinate",
    "KernelBlocks",
    "LatentResult",
    "Needs",
    "Newton",
    "ProvenPredictions",
    "RelativeGap",
    "RiskEpsilon",
    "SampledCuts",
    "SampledNewton",
    "Session",
    "certify",
    "minimize",
    "minimize_latent",
]
