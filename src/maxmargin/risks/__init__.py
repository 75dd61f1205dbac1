"""Risks: data and a loss, or data and a task, as functions that answer with cuts."""

from maxmargin.risks.kernels.exact import KernelRisk
from maxmargin.risks.scores.risk import ScoreRisk
from maxmargin.risks.structured.latent import CompletedRisk
from maxmargin.risks.structured.risk import TaskRisk

__all__ = ["CompletedRisk", "KernelRisk", "ScoreRisk", "TaskRisk"]
