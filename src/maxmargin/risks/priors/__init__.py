"""Risks seen through a map of their weights."""
