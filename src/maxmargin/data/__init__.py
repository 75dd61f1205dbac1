"""Data as training needs it: designs, and data sets on disk."""

from maxmargin.data.columns import LazyColumn
from maxmargin.data.dataset import Dataset, open, write
from maxmargin.data.design import CSRDesign, DenseDesign, Design, as_design, is_design, shard_bounds
from maxmargin.data.manifest import DatasetError
from maxmargin.data.sharded import ShardedDesign

__all__ = [
    "CSRDesign",
    "Dataset",
    "DatasetError",
    "DenseDesign",
    "Design",
    "LazyColumn",
    "ShardedDesign",
    "as_design",
    "is_design",
    "open",
    "shard_bounds",
    "write",
]
