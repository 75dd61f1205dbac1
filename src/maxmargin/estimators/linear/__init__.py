"""Linear models: classification, regression, non-decomposable metrics, ranking, cross-validation."""
