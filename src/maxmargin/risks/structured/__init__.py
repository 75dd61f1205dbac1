"""Structured risks: a task and its examples."""
