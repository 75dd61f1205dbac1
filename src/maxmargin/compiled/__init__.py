"""The compiled leaves: module-level functions over flat arrays and row ranges. Imports NumPy and Numba only."""
