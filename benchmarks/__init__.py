"""Benchmarks, and loaders of the real data sets that benchmarks and tests share."""
