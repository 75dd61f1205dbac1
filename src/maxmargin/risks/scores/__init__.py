"""R(w) = L(X w): a feature matrix and a loss of scores."""
