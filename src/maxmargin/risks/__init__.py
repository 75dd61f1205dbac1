"""Risks: data and a loss, or data and a task, as functions that answer with cuts."""

from maxmargin.risks.score import ScoreRisk
from maxmargin.risks.task import TaskRisk

__all__ = ["ScoreRisk", "TaskRisk"]
