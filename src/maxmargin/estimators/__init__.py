"""Estimators with the interface of scikit-learn; ``maxmargin`` imports each of them on demand."""
