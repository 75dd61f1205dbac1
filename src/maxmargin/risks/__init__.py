"""Risks: data with a loss, or data with a task, as convex functions whose evaluations return cuts."""

from maxmargin.risks.kernels.exact import KernelRisk
from maxmargin.risks.scores.risk import ScoreRisk
from maxmargin.risks.structured.latent import CompletedRisk
from maxmargin.risks.structured.risk import TaskRisk

__all__ = ["CompletedRisk", "KernelRisk", "ScoreRisk", "TaskRisk"]
