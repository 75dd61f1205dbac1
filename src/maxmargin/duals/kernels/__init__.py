"""Dual points of kernel machines: blocks of multipliers, and the kernel values that they need."""
