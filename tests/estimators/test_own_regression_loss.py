"""A loss of targets of the user's own: Huber's loss outside of an interval, two-sided, bounded and curved.

The referee is clarabel on

    min 1/2 |w|^2 + C sum_i s_i (q_i^2 / (2 width) + r_i)
    with q, r >= 0 and q_i + r_i >= |y_i - <w, x_i>| - epsilon
"""

from __future__ import annotations

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from tests.pages import shown

import maxmargin
from maxmargin import LinearSVR
from maxmargin.losses import DualTerms, EpsilonInsensitive, Hinge, ScoreLoss
from maxmargin.solvers import CuttingPlane, DualCoordinate, Newton
from maxmargin.testing import check_loss

HuberHinge = shown("huber_hinge").HuberHinge


class HuberTube(ScoreLoss):
    """z^2 / (2 width) up to the width, then linear, of z = |y - s| - epsilon."""

    label_kind = "target"
    smooth = True

    def __init__(self, width=0.5, epsilon=0.1):
        self.width, self.epsilon = float(width), float(epsilon)

    def _parts(self, scores, y):
        off = scores - y
        short = np.maximum(0.0, np.abs(off) - self.epsilon)
        return np.sign(off), short, np.minimum(1.0, short / self.width)

    def cut(self, scores, y, weight):
        sign, _, slope = self._parts(scores, y)
        gradient = weight * slope * sign
        return self.value(scores, y, weight) - float(gradient @ scores), gradient

    def value(self, scores, y, weight):
        _, short, slope = self._parts(scores, y)
        return float(weight @ (slope * short - 0.5 * self.width * slope**2))

    def dual_terms(self, y):
        return DualTerms(y, self.epsilon, two_sided=True, curvature=self.width)


def problem(seed, n=150, d=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = X @ rng.normal(size=d) + 3.0 + rng.standard_t(2, n)
    return X, y, rng.uniform(0.3, 2.0, n)


def objective(w, Z, y, c, loss):
    z = np.abs(y - Z @ w) - loss.epsilon
    d = loss.width
    phi = np.where(z <= 0.0, 0.0, np.where(z <= d, z * z / (2.0 * d), z - d / 2.0))
    return 0.5 * w @ w + c @ phi


def referee(X, y, c, loss, free=False):
    Z = np.column_stack([X, np.ones(len(X))])
    n, d = Z.shape
    norm = np.ones(d)
    norm[-1] = 0.0 if free else 1.0
    P = sp.diags(np.concatenate([norm, c / loss.width, np.zeros(n)])).tocsc()
    eye = sp.identity(n)
    rows = [sp.hstack([sp.csc_matrix(sign * Z), -eye, -eye]) for sign in (-1.0, 1.0)]
    rows.append(sp.hstack([sp.csc_matrix((2 * n, d)), -sp.identity(2 * n)]))
    b = np.concatenate([loss.epsilon - y, loss.epsilon + y, np.zeros(2 * n)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_rel = settings.tol_gap_abs = settings.tol_feas = 1e-12
    q = np.concatenate([np.zeros(d + n), c])
    solver = clarabel.DefaultSolver(
        P, q, sp.vstack(rows).tocsc(), b, [clarabel.NonnegativeConeT(4 * n)], settings
    )
    w = np.array(solver.solve().x)[:d]
    return objective(w, Z, y, c, loss) - (0.5 * w[-1] ** 2 if free else 0.0)


def require_true(svr, best, tol):
    assert svr.converged_
    assert svr.lower_bound_ <= best * (1.0 + 1e-9)
    assert best * (1.0 - 1e-9) <= svr.objective_ <= best * (1.0 + 2.0 * tol)


def test_the_loss_is_right():
    check_loss(HuberTube(), np.array([0.3, -1.0, 2.0]))


@pytest.mark.parametrize("solver", ["auto", CuttingPlane(), DualCoordinate(), Newton()], ids=str)
@pytest.mark.parametrize("loss", [HuberTube(), HuberTube(0.05, 0.0), HuberTube(4.0, 1.0)], ids=repr)
@pytest.mark.parametrize("C", [0.05, 3.0])
def test_every_solver_reaches_the_referees_optimum(solver, loss, C):
    X, y, s = problem(0)
    svr = LinearSVR(C=C, loss=loss, solver=solver, tol=1e-6).fit(X, y, s)
    require_true(svr, referee(X, y, C * s, loss), 1e-6)


def test_an_intercept_that_is_not_penalized():
    X, y, s = problem(1)
    svr = LinearSVR(loss=HuberTube(), tol=1e-6, penalize_intercept=False).fit(X, y, s)
    require_true(svr, referee(X, y, s, HuberTube(), free=True), 1e-6)


def test_rows_on_disk_and_streams(tmp_path):
    X, y, s = problem(2, n=300)
    best = referee(X, y, s, HuberTube())
    rows = maxmargin.data.write(tmp_path / "rows", [(X, y, s)])
    for solver in (DualCoordinate(), CuttingPlane()):
        require_true(LinearSVR(loss=HuberTube(), solver=solver).fit(rows), best, 1e-3)
    svr = LinearSVR(loss=HuberTube(), max_support=60)
    for k in range(5):
        svr.partial_fit(X[k::5], y[k::5], sample_weight=s[k::5])
    assert 0.3 * best < svr.lower_bound_ <= best * (1.0 + 1e-9)
    svr.save(tmp_path / "model")
    again = maxmargin.load(tmp_path / "model", loss=HuberTube)
    one, two = (each.partial_fit(X, y).lower_bound_ for each in (svr, again))
    assert one == two


def test_objects_of_the_library_are_what_their_names_are(tmp_path):
    X, y, _ = problem(3)
    one = LinearSVR(epsilon=0.2).fit(X, y)
    two = LinearSVR(loss=EpsilonInsensitive(0.2)).fit(X, y)
    assert np.array_equal(one.coef_, two.coef_)
    two.save(tmp_path / "model")
    assert maxmargin.load(tmp_path / "model").loss.epsilon == 0.2


class OnlyCut(HuberTube):
    def cut(self, scores, y, weight):
        return super().cut(scores, y, weight)


def test_refusals():
    X, y, s = problem(4)
    with pytest.raises(ValueError, match="two_sided=True"):
        LinearSVR(loss=OnlyCut(), penalize_intercept=False).fit(X, y)
    with pytest.raises(TypeError, match=r"implement dual_terms\(y\)"):
        LinearSVR(loss=OnlyCut()).partial_fit(X, y)
    with pytest.raises(ValueError, match='label_kind = "target"'):
        LinearSVR(loss=Hinge()).fit(X, y)
    with pytest.raises(TypeError, match="is a class"):
        LinearSVR(loss=HuberTube).fit(X, y)
    with pytest.raises(TypeError, match="sample_epsilon"):
        LinearSVR(loss=HuberTube()).fit(X, y, sample_epsilon=s)


class Lying(HuberHinge):
    """Declares the dual of the plain hinge."""

    def dual_terms(self, y):
        return DualTerms(y)


def test_dual_terms_of_another_loss_are_refused():
    X, y, _ = problem(5)
    y = np.where(y > 3.0, 1, -1)
    for solver in (DualCoordinate(), Newton()):
        with pytest.raises(ValueError, match="those of another loss"):
            maxmargin.LinearSVC(loss=Lying(), solver=solver).fit(X, y)
    with pytest.raises(ValueError, match="those of another loss"):
        maxmargin.LinearSVC(loss=Lying()).partial_fit(X, y, classes=[-1, 1])
    with pytest.raises(AssertionError, match="dual_terms"):
        check_loss(Lying(), np.array([1.0, -1.0, 1.0]))
