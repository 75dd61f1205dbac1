"""Data as training needs it: designs and shards."""

from maxmargin.data.columns import LazyColumn
from maxmargin.data.design import CSRDesign, DenseDesign, Design, as_design, is_design, shard_bounds

__all__ = [
    "CSRDesign",
    "DenseDesign",
    "Design",
    "LazyColumn",
    "as_design",
    "is_design",
    "shard_bounds",
]
