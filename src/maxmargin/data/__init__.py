"""Data as training needs it: designs and shards."""

from maxmargin.data.design import CSRDesign, DenseDesign, Design, as_design, shard_bounds

__all__ = ["CSRDesign", "DenseDesign", "Design", "as_design", "shard_bounds"]
