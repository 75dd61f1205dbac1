"""scikit-learn's face: the only room that knows it."""

from maxmargin.estimators.linear_svc import LinearSVC

__all__ = ["LinearSVC"]
