"""Compiled functions over flat arrays and row ranges. They depend on NumPy and Numba only."""
