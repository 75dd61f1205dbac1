"""Risks whose scores are linear in w: line searches without a pass over the data."""
