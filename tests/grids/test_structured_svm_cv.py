"""Every cell of a search over structures is certified for its own fold, whatever the cells share."""

import numpy as np
import pytest
from tests.nightly import first

from maxmargin import StructuredSVM, StructuredSVMCV
from maxmargin.solvers import CuttingPlane
from maxmargin.tasks import Enumerable


@pytest.mark.parametrize("signs", first(2, [{}, {"nonpositive": [0, 2]}, {"nonnegative": [1]}]))
@pytest.mark.parametrize("scale", first(1, [1e3, 1.0]))
@pytest.mark.parametrize("solver", ["auto", CuttingPlane()])
def test_bounds_are_those_of_the_fold(solver, scale, signs):
    rng = np.random.default_rng(5)
    X = [scale * rng.normal(size=(3, 4)) * np.array([1.0, 10.0, 0.1, 1.0]) for _ in range(24)]
    y = [int(np.argmax(x[:, 0] + 0.5 * rng.normal(size=3))) for x in X]
    Cs, folds = [0.1, 10.0], np.arange(24) % 3
    cv = [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in range(3)]
    search = StructuredSVMCV(Enumerable(), Cs=Cs, cv=cv, solver=solver, tol=1e-4, **signs)
    search.fit(X, y)
    for k, (train, _) in enumerate(cv):
        for cell, C in enumerate(Cs):
            alone = StructuredSVM(Enumerable(), C=C, tol=1e-6, **signs)
            alone.fit([X[i] for i in train], [y[i] for i in train])
            lower = search.cv_results_[f"split{k}_lower_bound"][cell]
            upper = search.cv_results_[f"split{k}_objective"][cell]
            assert lower <= alone.objective_ * (1.0 + 1e-9)
            assert upper >= alone.lower_bound_ * (1.0 - 1e-9)
            assert (upper - lower) <= 1.001e-4 * upper
