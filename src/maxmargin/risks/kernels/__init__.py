"""Risks of functions of a kernel."""
