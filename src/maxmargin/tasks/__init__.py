"""Structured prediction tasks: joint features, loss and inference of a model."""

from maxmargin.tasks.base import Bounded, Task
from maxmargin.tasks.chains.chain import Chain, WeightedLabels
from maxmargin.tasks.enumerable import Choice, Enumerable
from maxmargin.tasks.graphs.builders import chow_liu_tree, grid_graph, multilabel_graphs
from maxmargin.tasks.graphs.inputs import Graph
from maxmargin.tasks.graphs.labeling import GraphLabeling
from maxmargin.tasks.graphs.programs import Relaxed
from maxmargin.tasks.integer_program import IntegerProgram, WeightedSolution
from maxmargin.tasks.latent import LatentBinary, LatentTask
from maxmargin.tasks.linear_objective import LinearObjective, TrueCosts
from maxmargin.tasks.parsing.parsing import Parsing

__all__ = [
    "Bounded",
    "Chain",
    "Choice",
    "Enumerable",
    "Graph",
    "GraphLabeling",
    "IntegerProgram",
    "LatentBinary",
    "LatentTask",
    "LinearObjective",
    "Parsing",
    "Relaxed",
    "Task",
    "TrueCosts",
    "WeightedLabels",
    "WeightedSolution",
    "chow_liu_tree",
    "grid_graph",
    "multilabel_graphs",
]
