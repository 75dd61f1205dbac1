"""Risks whose scores are linear in w: evaluations with free lines."""
