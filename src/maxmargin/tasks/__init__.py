"""Structured models: what is predicted, and the argmax that predicts it."""

from maxmargin.tasks.base import Bounded, Task

__all__ = ["Bounded", "Task"]
