"""Structured outputs: any argmax, sequences, graphs, trees."""
