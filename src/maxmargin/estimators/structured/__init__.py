"""Structured models: any task, sequences, graphs, trees."""
