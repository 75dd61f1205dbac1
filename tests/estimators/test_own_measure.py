"""A measure of the user's own, in one file outside the package, is trained as itself, on many rows too.

The file is that of the page "A measure of your own". Referees share no code with the library: clarabel over
all 2^n labelings of small data, and the maximum over all confusion matrices at given weights of large data.
"""

from __future__ import annotations

import itertools

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics import jaccard_score
from tests.pages import DOCS, shown

import maxmargin
from maxmargin import MeasureSVC
from maxmargin.losses import ConfusionMatrixLoss, EpsilonInsensitive, FBeta, RocAuc
from maxmargin.testing import check_loss

Jaccard = shown("jaccard").Jaccard


def problem(seed, n, d, rare=0.3, noise=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    scores = X @ rng.normal(size=d) + noise * rng.normal(size=n)
    return X, np.where(scores > np.quantile(scores, 1.0 - rare), 1, -1)


def jaccard_loss(tp, fp, fn):
    return 1.0 - tp / (tp + fp + fn)


def risk(scores, y):
    """The maximum over all confusion matrices, one number of misses at a time."""
    low, high = np.sort(scores[y > 0]), np.sort(scores[y < 0])[::-1]
    missed = np.concatenate([[0.0], -np.cumsum(low)])
    taken = np.concatenate([[0.0], np.cumsum(high)])
    alarms, P = np.arange(len(high) + 1), len(low)
    return max(
        float(np.max(len(y) * jaccard_loss(P - fn, alarms, fn) + missed[fn] + taken))
        for fn in range(P + 1)
    )


def referee(X, y, C):
    """F* with a constant feature, by clarabel over all labelings."""
    Z = np.column_stack([X, np.ones(len(X))])
    n, d = Z.shape
    P = int(np.sum(y > 0))
    planes, offsets = [], []
    for v in itertools.product([-1.0, 1.0], repeat=n):
        v = np.array(v)
        fp, fn = int(np.sum((v > 0) & (y < 0))), int(np.sum((v < 0) & (y > 0)))
        planes.append(0.5 * (v - y) @ Z)
        offsets.append(n * jaccard_loss(P - fn, fp, fn))
    A = sp.csc_matrix(np.column_stack([planes, -np.ones(len(planes))]))
    H = sp.diags(np.append(np.ones(d), 0.0)).tocsc()
    q = np.append(np.zeros(d), C)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_rel = settings.tol_gap_abs = settings.tol_feas = 1e-12
    cones = [clarabel.NonnegativeConeT(len(planes))]
    x = clarabel.DefaultSolver(H, q, A, -np.array(offsets), cones, settings).solve().x
    w = np.array(x)[:d]
    return 0.5 * w @ w + C * risk(Z @ w, y)


def test_the_file_is_short_and_right():
    assert len((DOCS / "jaccard.py").read_text().splitlines()) <= 60
    check_loss(Jaccard(), np.array([1.0, -1.0, -1.0, 1.0, -1.0, -1.0]))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("C", [0.05, 1.0])
def test_bounds_enclose_the_optimum_over_all_labelings(seed, C):
    X, y = problem(seed, 9, 2)
    svc = MeasureSVC(Jaccard(), C=C, tol=1e-6).fit(X, y)
    best = referee(X, y, C)
    assert svc.converged_
    assert svc.lower_bound_ <= best * (1.0 + 1e-9)
    assert best * (1.0 - 1e-9) <= svc.objective_ <= best * (1.0 + 2e-6)


def test_a_hundred_thousand_rows():
    X, y = problem(5, 100_000, 4, rare=0.02, noise=0.1)
    svc = MeasureSVC(Jaccard(), C=1e-3).fit(X, y)
    assert svc.converged_
    assert svc.score(X, y) > 0.3
    w = np.append(svc.coef_, svc.intercept_)
    true = 0.5 * w @ w + 1e-3 * risk(X @ w[:-1] + w[-1], y)
    assert svc.objective_ == pytest.approx(true, rel=1e-9)
    v = 0.9 * w  # no point is below the bound
    assert svc.lower_bound_ <= 0.5 * v @ v + 1e-3 * risk(X @ v[:-1] + v[-1], y)
    called = np.where(X @ w[:-1] + w[-1] > svc.threshold_, 1, -1)
    assert svc.score(X, y) == pytest.approx(jaccard_score(y, called), abs=1e-12)


def test_an_object_and_a_function_train_the_same():
    X, y = problem(6, 200, 3)
    own = MeasureSVC(Jaccard(), tol=1e-6).fit(X, y)
    function = MeasureSVC(lambda tp, fp, fn, tn: jaccard_loss(tp, fp, fn), tol=1e-6).fit(X, y)
    assert own.objective_ == pytest.approx(function.objective_, rel=2e-6)
    slack = MeasureSVC(Jaccard(), rescaling="slack", C=0.01).fit(X, y)
    other = MeasureSVC(
        lambda tp, fp, fn, tn: jaccard_loss(tp, fp, fn), rescaling="slack", C=0.01
    ).fit(X, y)
    assert slack.objective_ == other.objective_


@pytest.mark.parametrize(
    ("name", "loss", "params"),
    [("f1", FBeta(), {}), ("fbeta", FBeta(2.0), {"beta": 2.0}), ("roc_auc", RocAuc(), {})],
)
def test_objects_of_the_library_are_what_their_names_are(name, loss, params, tmp_path):
    X, y = problem(7, 120, 3)
    one, two = MeasureSVC(name, **params).fit(X, y), MeasureSVC(loss).fit(X, y)
    assert np.array_equal(one.coef_, two.coef_)
    assert np.array_equal(one.intercept_, two.intercept_)
    assert one.objective_ == two.objective_
    two.save(tmp_path / "model")
    assert repr(maxmargin.load(tmp_path / "model").measure) == repr(loss)


def test_weights_are_copies():
    X, y = problem(8, 60, 2)
    copies = np.random.default_rng(0).integers(1, 3, 60)
    weighted = MeasureSVC(Jaccard()).fit(X, y, copies)
    again = np.repeat(np.arange(60), copies)
    assert weighted.objective_ == pytest.approx(
        MeasureSVC(Jaccard()).fit(X[again], y[again]).objective_
    )
    with pytest.raises(ValueError, match="whole numbers"):
        MeasureSVC(Jaccard()).fit(X, y, 0.5 * copies)


def test_clone_save_and_load(tmp_path):
    X, y = problem(9, 60, 2)
    svc = MeasureSVC(Jaccard()).fit(X, y)
    assert isinstance(clone(svc).measure, Jaccard)
    svc.save(tmp_path / "model")
    again = maxmargin.load(tmp_path / "model", measure=Jaccard)
    assert np.array_equal(again.coef_, svc.coef_)
    assert again.score(X, y) == svc.score(X, y)
    with pytest.raises(ValueError, match=r"load\(path, measure=Jaccard\)"):
        maxmargin.load(tmp_path / "model")
    with pytest.raises(TypeError, match="class of the measure"):
        maxmargin.load(tmp_path / "model", measure=Jaccard())


class Convex(ConfusionMatrixLoss):
    """Declares what is not true."""

    concave_in = "fp"

    def loss(self, tp, fp, fn, tn):
        return ((fp + fn) / (tp + fp + fn + tn)) ** 2


class Undeclared(ConfusionMatrixLoss):
    def loss(self, tp, fp, fn, tn):
        return 1.0 - tp / (tp + fp + fn)


class ByMisses(ConfusionMatrixLoss):
    """The root of the share of misses, and the share of alarms: concave in the number of misses."""

    concave_in = "fn"

    def loss(self, tp, fp, fn, tn):
        return 0.5 * np.sqrt(fn / (tp + fn)) + 0.5 * (fp / (fp + tn)) ** 2


def test_a_declaration_that_is_not_true_is_refused():
    X, y = problem(10, 60, 2)
    with pytest.raises(ValueError, match="concave in the number of fp"):
        MeasureSVC(Convex()).fit(X, y)


def test_a_measure_that_declares_nothing_tries_all_tables():
    X, y = problem(11, 100, 2)
    one, two = (
        MeasureSVC(Undeclared(), tol=1e-6).fit(X, y),
        MeasureSVC(Jaccard(), tol=1e-6).fit(X, y),
    )
    assert one.objective_ == pytest.approx(two.objective_, rel=2e-6)
    X, y = problem(12, 6_000, 2, rare=0.5)
    with pytest.raises(ValueError, match="concave_in"):
        MeasureSVC(Undeclared()).fit(X, y)


def test_concave_in_misses():
    check_loss(ByMisses(), np.array([1.0, -1.0, 1.0, 1.0, -1.0]))
    X, y = problem(13, 150, 3)
    own = MeasureSVC(ByMisses(), tol=1e-6).fit(X, y)
    function = MeasureSVC(lambda *table: float(ByMisses().loss(*table)), tol=1e-6).fit(X, y)
    assert own.objective_ == pytest.approx(function.objective_, rel=2e-6)


@pytest.mark.parametrize(
    ("measure", "error", "words"),
    [
        (Jaccard, TypeError, "is a class, not an object"),
        (EpsilonInsensitive(), ValueError, 'label_kind = "sign"'),
        ("jaccard", ValueError, "ConfusionMatrixLoss"),
    ],
)
def test_what_is_no_measure_is_refused(measure, error, words):
    X, y = problem(14, 40, 2)
    with pytest.raises(error, match=words):
        MeasureSVC(measure).fit(X, y)
