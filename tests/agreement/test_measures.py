"""Non-decomposable metrics: other methods find the certified optimum, too."""

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize
from sklearn.datasets import make_classification

from maxmargin import LinearSVC, MeasureSVC, minimize
from maxmargin.losses import RocAuc
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import CuttingPlane, RelativeGap


def data(seed=0, n=120, weights=(0.7,)):
    return make_classification(
        n, 5, weights=list(weights), class_sep=0.6, flip_y=0.1, random_state=seed
    )


@pytest.mark.parametrize("C", [0.01, 1.0, 30.0])
def test_error_is_linear_svc(C):
    X, y = data()
    plain = LinearSVC(C=C, tol=1e-6, loss="hinge").fit(X, y)
    same = MeasureSVC("error", C=C, tol=1e-6).fit(X, y)
    np.testing.assert_array_equal(same.coef_, plain.coef_)
    np.testing.assert_array_equal(same.intercept_, plain.intercept_)
    assert same.objective_ == plain.objective_
    # and as a function of the confusion matrix, by enumerating all of them
    joint = MeasureSVC(
        lambda tp, fp, fn, tn: (fp + fn) / (tp + fp + fn + tn), C=C, tol=1e-6, intercept_scaling=1.0
    ).fit(X, y)
    assert joint.objective_ == pytest.approx(plain.objective_, rel=2e-6)
    assert joint.lower_bound_ <= plain.objective_ * (1 + 1e-9)


def test_balanced_error_with_equal_classes_is_error():
    X, y = data(weights=(0.5,))
    y = np.arange(len(y)) % 2
    balanced = MeasureSVC("balanced_error", tol=1e-6).fit(X, y)
    assert balanced.objective_ == pytest.approx(
        LinearSVC(tol=1e-6, loss="hinge").fit(X, y).objective_, rel=2e-6
    )


NAMED = {
    "f1": lambda tp, fp, fn, tn: 1 - 2 * tp / (2 * tp + fp + fn),
    "balanced_error": lambda tp, fp, fn, tn: (fn / (tp + fn) + fp / (fp + tn)) / 2,
    "ae": lambda tp, fp, fn, tn: abs(fp - fn) / (tp + fp + fn + tn),
    "rae": lambda tp, fp, fn, tn: abs(fp - fn) * (1 / (tp + fn + 0.5) + 1 / (fp + tn + 0.5)) / 2,
}


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("rescaling", ["margin", "slack"])
def test_a_named_measure_and_its_formula(name, rescaling):
    X, y = data()
    named = MeasureSVC(name, rescaling=rescaling, tol=1e-5).fit(X, y)
    formula = MeasureSVC(NAMED[name], rescaling=rescaling, tol=1e-5).fit(X, y)
    assert named.converged_
    assert formula.converged_
    assert named.lower_bound_ <= formula.objective_ * (1 + 1e-9)
    assert formula.lower_bound_ <= named.objective_ * (1 + 1e-9)


def test_roc_auc_is_the_hinge_loss_of_all_pairs():
    X, y = data(n=40)
    sign = 2.0 * y - 1
    i, j = np.flatnonzero(sign > 0), np.flatnonzero(sign < 0)
    pairs = (X[i][:, None, :] - X[j][None, :, :]).reshape(-1, X.shape[1])
    scale = len(y) / (len(i) * len(j))
    ours = MeasureSVC("roc_auc", C=0.3, tol=1e-6).fit(X, y)
    hinge = LinearSVC(C=0.3 * scale, fit_intercept=False, tol=1e-6, loss="hinge").fit(
        np.concatenate([pairs, -pairs[:1]]),
        np.append(np.ones(len(pairs)), 0),
        sample_weight=np.append(np.ones(len(pairs)), 1e-12),
    )
    assert ours.objective_ == pytest.approx(hinge.objective_, rel=3e-6)


@pytest.mark.parametrize("measure", ["f1", "kld", "prbep", "q", "roc_auc"])
def test_no_point_nearby_is_better(measure):
    """F at the returned weights, recomputed naively, compared with a derivative-free search from there."""
    X, y = data(n=60)
    svc = MeasureSVC(measure, tol=1e-6, fit_intercept=False).fit(X, y)
    sign = 2.0 * y - 1
    F = objective(measure, X, sign)
    assert F(svc.coef_[0]) == pytest.approx(svc.objective_, rel=1e-9)
    nearby = scipy_minimize(F, svc.coef_[0], method="Nelder-Mead", options={"maxfev": 200})
    assert nearby.fun >= svc.lower_bound_ * (1 - 1e-9)
    assert F(np.zeros(X.shape[1])) >= svc.objective_


def objective(measure, X, sign):
    low_to_high = {
        "f1": lambda tp, fp, fn, tn: 1 - 2 * tp / (2 * tp + fp + fn),
        "prbep": lambda tp, fp, fn, tn: 1 - tp / (tp + fn) if fp == fn else None,
        "kld": kld,
        "q": q,
    }
    n, P = len(sign), int(np.sum(sign > 0))

    def F(w):
        s = X @ w
        low, high = np.sort(s[sign > 0]), -np.sort(-s[sign < 0])
        if measure == "roc_auc":
            hinge = np.maximum(0.0, 1.0 - (low[:, None] - high[None, :])).mean()
            return 0.5 * w @ w + n * hinge
        best = 0.0
        for fn in range(P + 1):
            for fp in range(n - P + 1):
                loss = low_to_high[measure](P - fn, fp, fn, n - P - fp)
                if loss is not None:
                    best = max(best, n * loss - low[:fn].sum() + high[:fp].sum())
        return 0.5 * w @ w + best

    return F


def kld(tp, fp, fn, tn):
    n = tp + fp + fn + tn
    p, q = (tp + fn + 0.5) / (n + 1), (tp + fp + 0.5) / (n + 1)
    return p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))


def q(tp, fp, fn, tn):
    count, recall = 1 - abs(fp - fn) / max(tp + fn, fp + tn), tp / (tp + fn)
    return 1 - 2 * count * recall / (count + recall) if count * recall > 0 else 1.0


def test_plain_and_optimized_cutting_planes_agree():
    X, y = data()
    risk = ScoreRisk(X, 2.0 * y - 1, RocAuc())
    results = [
        minimize(risk, 0.1, solver=solver, stopping=RelativeGap(1e-5))
        for solver in (CuttingPlane(), CuttingPlane(line_search=False), CuttingPlane(mu=1.0))
    ]
    assert max(r.lower_bound for r in results) <= min(r.objective for r in results) * (1 + 1e-9)
