"""What a certificate says about predictions holds for the exact optimum, and a smaller ball would not."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from tests.nightly import first

from maxmargin import GaussianPrior, LinearSVC, LinearSVR, LogisticRegression, data, load
from maxmargin.estimators.linear.proven import LARGEST
from maxmargin.solvers import CuttingPlane, DualCoordinate, Newton, ProvenPredictions

#: 300 problems, the first 75 of them also outside of the nightly step
SEEDS = first(1, [range(75), range(75, 150), range(150, 225), range(225, 300)])
CLASSIFIERS = [
    {"loss": "hinge"},
    {"loss": "squared_hinge"},
    {"loss": "logistic"},
    {"multi_class": "crammer_singer"},
    {"loss": "logistic", "multi_class": "multinomial"},
]
REGRESSIONS = ["epsilon_insensitive", "squared_epsilon_insensitive", "quantile"]


def problem(seed):
    """An estimator with a random loss, C and way to learn, its training samples, and samples to predict."""
    rng = np.random.default_rng(seed)
    n, d, classes = rng.integers(10, 60), rng.integers(1, 12), rng.integers(2, 5)
    y = np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes)])
    centers, spread = rng.normal(size=(classes, d)), rng.choice([0.3, 1.5])
    X = 10.0 ** rng.uniform(-1, 1) * (centers[y] + spread * rng.normal(size=(n, d)))
    common = {
        "C": 10.0 ** rng.uniform(-3, 2.5),
        "tol": rng.choice([0.1, 1e-2, 1e-3]),
        "fit_intercept": bool(rng.random() < 0.7),
        "intercept_scaling": float(rng.choice([1.0, 10.0])),
        "solver": rng.choice([None, CuttingPlane(), DualCoordinate()]) or "auto",
    }
    if rng.random() < 0.2:
        common |= [
            {"nonnegative": [0]},
            {"nonpositive": [0]},
            {"fixed": {0: 0.5}},
            {"prior": GaussianPrior(mean=rng.normal(size=d), variance=rng.uniform(0.3, 3.0, d))},
            {"prior": GaussianPrior(covariance=np.cov(rng.normal(size=(d, 50))).reshape(d, d))},
        ][rng.integers(5)]
    weight = rng.uniform(0.1, 2.0, n) if rng.random() < 0.3 else None
    kind = int(rng.integers(8))
    if kind >= 5:
        target = X @ rng.normal(size=d) + rng.normal(size=n)
        loss = REGRESSIONS[kind - 5]
        own = (
            {"quantile": [0.2, 0.7]} if loss == "quantile" else {"epsilon": rng.choice([0.0, 0.3])}
        )
        model = LinearSVR(loss=loss, **own, **common)
        y = target
    else:
        own = CLASSIFIERS[kind]
        if own.get("loss") == "logistic" or rng.random() < 0.3:
            common["solver"] = "auto"
        if "multi_class" in own and classes == 2:
            common = {name: common[name] for name in ("C", "tol", "fit_intercept", "solver")}
        together = own.get("loss") == "logistic" and (classes == 2 or "multi_class" in own)
        plain = {"nonnegative", "nonpositive", "fixed", "prior"}.isdisjoint(common)
        if together and plain and rng.random() < 0.6:
            common |= {
                "penalize_intercept": False,
                "solver": rng.choice([CuttingPlane(), None]) or "auto",
            }
        model = LinearSVC(class_weight=rng.choice([None, "balanced"]), **own, **common)
    T = np.concatenate([X, 10.0 ** rng.uniform(-1, 1) * rng.normal(size=(60, d))])
    if rng.random() < 0.3:
        X = sp.csr_matrix(X)
    return model, X, y, weight, T


def fitted(model, X, y, weight, **params):
    out = type(model)(**(model.get_params() | params))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return out.fit(X, y, weight)


def scores(model, T):
    return model.decision_function(T) if hasattr(model, "classes_") else model.predict(T)


@pytest.fixture(scope="module", params=SEEDS, ids=str)
def compared(request):
    """For each problem: the model, the optimum, and samples."""
    out = []
    for seed in request.param:
        model, X, y, weight, T = problem(seed)
        exact = fitted(model, X, y, weight, tol=1e-10, solver="auto")
        if exact.gap_ <= 1e-8:
            out.append((seed, fitted(model, X, y, weight), exact, T))
    return out


def outside(model, exact, T):
    """How far the optimum's scores are outside of the model's intervals, beyond what is not known of them."""
    low, high = model.decision_interval(T)
    s, (below, above) = scores(exact, T), exact.decision_interval(T)
    return float(np.maximum(low - s - (above - s), s - high - (s - below)).max())


def test_enough_problems_have_an_optimum(compared):
    assert len(compared) >= 70


def test_the_scores_of_the_optimum_are_in_the_intervals(compared):
    assert [seed for seed, model, exact, T in compared if outside(model, exact, T) > 0.0] == []


def test_no_proof_is_wrong(compared):
    proofs = 0
    for seed, model, exact, T in compared:
        if not hasattr(model, "classes_"):
            continue
        proven = model.proven(T)
        certain = exact.proven(T)  # where the reference itself is not, nothing can be compared
        wrong = proven & certain & (model.predict(T) != exact.predict(T))
        assert not wrong.any(), seed
        proofs += proven.sum()
        if certain.all():
            y = np.random.default_rng(seed).choice(exact.classes_, len(T))
            low, high = model.accuracy_interval(T, y)
            assert low <= exact.score(T, y) <= high, seed
    assert proofs >= 2_000


def test_half_the_radius_would_be_too_small(compared):
    caught = 0
    for _, model, exact, T in compared:
        mutant = type(model)(**model.get_params())
        mutant.__dict__.update(model.__dict__)
        mutant._proof = model._proof._replace(radius=0.5 * model._proof.radius)
        caught += outside(mutant, exact, T) > 0.0
    assert caught >= 5


@pytest.mark.parametrize("classes", [2, 4])
def test_unpenalized_intercepts_of_logistic_losses_are_bounded(classes):
    caught = finite = 0
    for seed in range(15):
        rng = np.random.default_rng(seed)
        y = np.concatenate([np.arange(classes), rng.integers(0, classes, 60)])
        X = 3.0 + rng.normal(size=(classes, 4))[y] + rng.normal(size=(len(y), 4))
        T = np.concatenate([X, 3.0 * rng.normal(size=(60, 4))])
        weight = rng.uniform(0.1, 2.0, len(y))
        C = 10.0 ** rng.uniform(-2, 2)
        exact = LogisticRegression(C=C, tol=1e-11).fit(X, y, weight)
        for tol in (1e-2, 1e-3, 1e-5):
            model = LogisticRegression(C=C, tol=tol, solver=CuttingPlane()).fit(X, y, weight)
            assert outside(model, exact, T) <= 0.0, (seed, tol)
            proven = model.proven(T)
            assert (model.predict(T) == exact.predict(T))[proven].all(), (seed, tol)
            proof = model._proof
            finite += np.isfinite(proof.loose).all()
            # where nothing but the intercepts is uncertain; the bound is 4 to 100 times too large there
            middle = proof.middle.astype(float)[None]
            model._proof = proof._replace(loose=0.01 * proof.loose)
            caught += outside(model, exact, middle) > 0.0
    assert finite >= 15
    assert caught >= 6


def halves():
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    return X[:900], y[:900], X[900:], y[900:]


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"loss": "hinge"},
        {"multi_class": "crammer_singer"},
        {"loss": "logistic", "multi_class": "multinomial"},
    ],
    ids=str,
)
def test_the_fit_stops_when_the_share_is_proven(params):
    X, y, T, true = halves()
    svc = LinearSVC(C=0.1, tol=ProvenPredictions(T, share=0.97), **params).fit(X, y)
    proven = svc.proven(T)
    assert svc.converged_
    assert svc.stop_reason_ == "gap"
    assert proven.mean() >= 0.97
    assert svc.n_iter_ >= 1
    exact = LinearSVC(C=0.1, tol=1e-9, **params).fit(X, y)
    assert (svc.predict(T) == exact.predict(T))[proven].all()
    low, high = svc.accuracy_interval(T, true)
    assert low <= exact.score(T, true) <= high
    assert high - low <= 0.03 + 1e-12
    weight = np.where(true == 0, 5.0, 1.0)
    low, high = svc.accuracy_interval(T, true, weight)
    assert low <= exact.score(T, true, weight) <= high


def test_a_share_that_rounding_prevents_is_not_claimed():
    X, y, T, _ = halves()
    T = np.vstack([T, np.zeros(64)])  # without an intercept all scores of this sample are zero
    svc = LinearSVC(tol=ProvenPredictions(T, share=1.0), fit_intercept=False)
    with pytest.warns(ConvergenceWarning, match="rounding errors may exceed tol=ProvenPred"):
        svc.fit(X[:100], y[:100])
    assert not svc.converged_
    assert svc.gap_ < 1e-6
    assert not svc.proven(T)[-1]


def test_the_rule_is_refused_where_nothing_is_proven(tmp_path):
    X, y, T, _ = halves()
    rule = ProvenPredictions(T)
    with pytest.raises(TypeError, match="for the classifiers LinearSVC and LogisticRegression"):
        LinearSVR(tol=rule).fit(X, y)
    with pytest.raises(ValueError, match="writes no checkpoints"):
        LinearSVC(tol=rule, checkpoint=tmp_path / "file").fit(X, y)
    with pytest.raises(ValueError, match="must be above 0"):
        ProvenPredictions(T, share=1.5)


def test_what_proves_nothing_says_why(tmp_path):
    X, y, T, _ = halves()
    for loss, labels in (
        ("hinge", y[:99] > 4),
        ("logistic", y[:99]),
    ):  # one-vs-rest has many intercepts
        free = LinearSVC(penalize_intercept=False, loss=loss).fit(X[:99], labels)
        with pytest.raises(ValueError, match="its intercept is not penalized"):
            free.proven(T)
    svc = LinearSVC(loss="hinge").partial_fit(X, y > 4, classes=[False, True])
    with pytest.raises(ValueError, match="partial_fit has no bound"):
        svc.proven(T)
    svc.fit(X, y > 4)
    assert svc.proven(T).any()
    svc.partial_fit(X, y > 4)
    with pytest.raises(ValueError, match="partial_fit has no bound"):
        svc.decision_interval(T)
    svc.fit(X, y > 4)
    del svc._proof  # as in a file of an earlier version
    svc.save(tmp_path / "old")
    with pytest.raises(ValueError, match="Fit it again"):
        load(tmp_path / "old").proven(T)


@pytest.mark.parametrize("model", [LinearSVC(), LinearSVC(loss="hinge"), LinearSVR()], ids=str)
def test_files_and_pickles_keep_the_ball(model, tmp_path):
    X, y, T, _ = halves()
    model.fit(X, y)
    model.save(tmp_path / "model")
    for again in (load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.decision_interval(T), model.decision_interval(T))
    assert model._proof.difference.nbytes * 4 == model.coef_.nbytes
    assert np.abs(model._proof.difference).max() >= 0.99 * LARGEST


def test_a_data_set_on_disk_is_predicted_in_chunks(tmp_path):
    X, y, T, true = halves()
    data.write(tmp_path / "test", [(T, true)])
    stored, svc = data.open(tmp_path / "test"), LinearSVC().fit(X, y)
    np.testing.assert_array_equal(svc.proven(stored), svc.proven(T))
    np.testing.assert_array_equal(svc.decision_interval(stored), svc.decision_interval(T))
    assert svc.accuracy_interval(stored) == svc.accuracy_interval(T, true)
    written = svc.proven(T, out=tmp_path / "proven.npy")
    np.testing.assert_array_equal(written, svc.proven(T))


def test_other_methods_have_a_ball_too():
    X, y, T, _ = halves()
    exact = LinearSVC(loss="hinge", tol=1e-9).fit(X, y > 4)
    for solver in (
        Newton(),
        DualCoordinate(blocks=4),
        DualCoordinate(max_cached=300),
        CuttingPlane(space="rows"),
    ):
        svc = LinearSVC(loss="hinge", solver=solver).fit(X, y > 4)
        low, high = svc.decision_interval(T)
        s = exact.decision_function(T)
        assert ((low <= s) & (s <= high)).all(), solver
        # narrower than the ball around the weights alone
        alone = np.sqrt(2.0 * (svc.objective_ - svc.lower_bound_))
        assert svc._proof.radius[0] <= 0.72 * alone, solver


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_logistic_regression(fit_intercept, tmp_path):
    X, y, T, _ = halves()
    model = LogisticRegression(fit_intercept=fit_intercept, tol=1e-4).fit(X, y)
    exact = LogisticRegression(fit_intercept=fit_intercept, tol=1e-9).fit(X, y)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").proven(T), model.proven(T))
    proven = model.proven(T)
    assert proven.mean() > 0.8
    assert (model.predict(T) == exact.predict(T))[proven].all()
