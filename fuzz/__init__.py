"""Random problems for every estimator, and damaged files: ``python -m fuzz``."""
