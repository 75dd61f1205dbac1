"""Structured models: what is predicted, and the argmax that predicts it."""

from maxmargin.tasks.alignment import Alignment
from maxmargin.tasks.base import Bounded, Task
from maxmargin.tasks.chain import Chain, WeightedLabels
from maxmargin.tasks.clustering import Clustering
from maxmargin.tasks.enumerable import Choice, Enumerable
from maxmargin.tasks.graph import GraphLabeling
from maxmargin.tasks.graph_input import Graph
from maxmargin.tasks.graph_makers import chow_liu_tree, grid_graph, multilabel_graphs
from maxmargin.tasks.graph_programs import Relaxed
from maxmargin.tasks.integer_program import IntegerProgram, WeightedSolution
from maxmargin.tasks.latent import LatentBinary, LatentTask
from maxmargin.tasks.multiple_instance import MultipleInstance
from maxmargin.tasks.parsing import Parsing
from maxmargin.tasks.parts import Part, PartsDetector

__all__ = [
    "Alignment",
    "Bounded",
    "Chain",
    "Choice",
    "Clustering",
    "Enumerable",
    "Graph",
    "GraphLabeling",
    "IntegerProgram",
    "LatentBinary",
    "LatentTask",
    "MultipleInstance",
    "Parsing",
    "Part",
    "PartsDetector",
    "Relaxed",
    "Task",
    "WeightedLabels",
    "WeightedSolution",
    "chow_liu_tree",
    "grid_graph",
    "multilabel_graphs",
]
