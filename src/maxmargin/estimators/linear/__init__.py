"""Linear models: classification, regression, measures, ranking, and grids of them."""
