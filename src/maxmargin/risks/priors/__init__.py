"""Risks composed with an affine map of their weights."""
