"""path(Cs): every fit is certified like a single one, and continues from the one before."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from maxmargin import LinearSVC, LinearSVR, RankSVM
from maxmargin.solvers import CuttingPlane, DualCoordinate

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 6))
TARGET = X @ RNG.normal(size=6) + RNG.standard_t(3, size=300)
WEIGHT = RNG.uniform(0.2, 2.0, 300)
QUERIES = RNG.integers(0, 20, 300)
CS = [3.0, 0.01, 0.3]


@pytest.mark.parametrize(
    ("estimator", "y", "data"),
    [
        (LinearSVR(epsilon=0.1), TARGET, {"sample_weight": WEIGHT}),
        (LinearSVR(solver=DualCoordinate()), TARGET, {"sample_epsilon": WEIGHT}),
        (LinearSVR(loss="quantile", quantile=[0.1, 0.9]), TARGET, {}),
        (LinearSVR(loss="quantile", quantile=0.2, penalize_intercept=False), TARGET, {}),
        (LinearSVC(loss="hinge"), TARGET > 0.0, {"sample_weight": WEIGHT}),
        (RankSVM(), np.rint(TARGET), {"qid": QUERIES, "sample_weight": WEIGHT}),
        (RankSVM(loss="ndcg"), np.maximum(0.0, np.rint(TARGET)), {"groups": QUERIES}),
    ],
)
def test_every_fit_is_certified(estimator, y, data):
    path = estimator.set_params(tol=1e-4).path(X, y, CS, **data)
    assert [fit.C for fit in path] == CS
    for fit in path:
        single = type(estimator)(**{**estimator.get_params(), "C": fit.C}).fit(X, y, **data)
        assert fit.converged_
        assert fit.lower_bound_ <= single.objective_ * (1.0 + 1e-12)
        assert single.lower_bound_ <= fit.objective_ * (1.0 + 1e-12)
        assert fit.coef_.shape == single.coef_.shape
    assert not hasattr(estimator, "coef_")


def test_a_path_takes_fewer_iterations_than_its_fits():
    Cs = [1e-4, 1e-3, 1e-2, 1e-1]
    ranker = RankSVM(tol=1e-4)
    path = ranker.path(X, np.rint(TARGET), Cs, qid=QUERIES)
    single = [RankSVM(C, tol=1e-4).fit(X, np.rint(TARGET), qid=QUERIES) for C in Cs]
    assert sum(fit.n_iter_ for fit in path) < sum(fit.n_iter_ for fit in single)
    svr = LinearSVR(epsilon=0.1, solver=CuttingPlane(), tol=1e-4)
    path = svr.path(X, TARGET, Cs)
    single = [svr.set_params(C=C).fit(X, TARGET).n_iter_ for C in Cs]
    assert sum(fit.n_iter_ for fit in path) < sum(single)


def test_one_warning_and_clear_errors():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        LinearSVR(max_iter=1, tol=1e-9, epsilon=0.1).path(X, TARGET, CS)
    said = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
    assert len(said) == 1
    assert "LinearSVR.path: 3 of 3 fits" in str(said[0].message)
    with pytest.raises(TypeError, match=r"RankSVM\.path needs values of C"):
        RankSVM().path(X, TARGET)
    with pytest.raises(ValueError, match=r"LinearSVR\.path: Cs="):
        LinearSVR().path(X, TARGET, Cs=[0.0])
    with pytest.raises(ValueError, match="checkpoint= is for one fit"):
        LinearSVR(checkpoint="fit.checkpoint").path(X, TARGET, CS)
