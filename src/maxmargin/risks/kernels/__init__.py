"""Risks over functions of a kernel."""
