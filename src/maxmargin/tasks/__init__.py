"""Structured models: what is predicted, and the argmax that predicts it."""

from maxmargin.tasks.base import Bounded, Task
from maxmargin.tasks.chain import Chain, WeightedLabels
from maxmargin.tasks.enumerable import Choice, Enumerable
from maxmargin.tasks.integer_program import IntegerProgram, WeightedSolution

__all__ = [
    "Bounded",
    "Chain",
    "Choice",
    "Enumerable",
    "IntegerProgram",
    "Task",
    "WeightedLabels",
    "WeightedSolution",
]
