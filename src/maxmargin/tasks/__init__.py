"""Structured models: what is predicted, and the argmax that predicts it."""

from maxmargin.tasks.base import Bounded, Task
from maxmargin.tasks.chain import Chain

__all__ = ["Bounded", "Chain", "Task"]
