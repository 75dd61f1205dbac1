"""Readers of the input formats: one file per format, each with a function ``read(path, options)``."""
