"""Risks: data and a loss, or data and a task, as functions that answer with cuts."""

from maxmargin.risks.kernel import KernelRisk
from maxmargin.risks.latent import CompletedRisk
from maxmargin.risks.score import ScoreRisk
from maxmargin.risks.task import TaskRisk

__all__ = ["CompletedRisk", "KernelRisk", "ScoreRisk", "TaskRisk"]
