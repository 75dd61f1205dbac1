"""The interface between solvers and risks: one file for each capability, with its mathematics."""
