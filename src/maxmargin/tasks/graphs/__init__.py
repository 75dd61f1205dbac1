"""Graph labeling: one label per node of a graph."""
