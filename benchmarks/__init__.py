"""Benchmarks, and the loaders of the real data sets they and the tests share."""
