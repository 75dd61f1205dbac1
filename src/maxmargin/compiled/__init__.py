"""The compiled leaves: functions over flat arrays and row ranges. NumPy and Numba only."""
