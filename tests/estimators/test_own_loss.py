"""A loss of the user's own, in one file outside the package, is trained as itself by every method.

The file is that of the page "A loss of your own". The referee is clarabel on

    min 1/2 |w|^2 + C sum_i s_i (q_i^2 / (2 width) + r_i)    with q, r >= 0 and q_i + r_i >= 1 - y_i <w, x_i>

and shares no code with the library: q takes the part of a shortfall that is squared, r the rest.
"""

from __future__ import annotations

import pickle

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, check_cv
from tests.pages import DOCS, shown

import maxmargin
from maxmargin import LinearSVC, LinearSVCCV, minimize
from maxmargin.losses import CrammerSinger, DualTerms, Hinge, Logistic, ScoreLoss, SquaredHinge
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import CuttingPlane, DualCoordinate, Newton, RelativeGap
from maxmargin.testing import check_loss

HuberHinge = shown("huber_hinge").HuberHinge

WIDTH = 0.7
SOLVERS = ["auto", CuttingPlane(), DualCoordinate(), Newton()]


def problem(seed=0, n=150, d=6, noise=0.8):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X @ rng.normal(size=d) + noise * rng.normal(size=n) > 0.0, 1.0, -1.0)
    return X, y, rng.uniform(0.3, 2.0, n)


def objective(w, X, y, c, width):
    """F from the definition."""
    z = 1.0 - y * (X @ w)
    phi = np.where(z <= 0.0, 0.0, np.where(z <= width, z * z / (2.0 * width), z - width / 2.0))
    return 0.5 * w @ w + c @ phi


def referee(X, y, c, width, free=False):
    """(F*, w*) by clarabel; ``free``: the last column is not penalized."""
    n, d = X.shape
    norm = np.ones(d)
    norm[-1] = 0.0 if free else 1.0
    P = sp.diags(np.concatenate([norm, c / width, np.zeros(n)])).tocsc()
    q = np.concatenate([np.zeros(d + n), c])
    eye = sp.identity(n)
    A = sp.vstack(
        [
            sp.hstack([sp.csc_matrix(-y[:, None] * X), -eye, -eye]),
            sp.hstack([sp.csc_matrix((2 * n, d)), -sp.identity(2 * n)]),
        ]
    ).tocsc()
    b = np.concatenate([-np.ones(n), np.zeros(2 * n)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_rel = settings.tol_gap_abs = settings.tol_feas = 1e-12
    cones = [clarabel.NonnegativeConeT(3 * n)]
    solution = clarabel.DefaultSolver(sp.triu(P, format="csc"), q, A, b, cones, settings).solve()
    w = np.array(solution.x)[:d]
    return objective(w, X, y, c, width) - 0.5 * (w[-1] ** 2 if free else 0.0), w


def with_constant(X):
    return np.column_stack([X, np.ones(len(X))])


def require_true(svc, best, tol):
    """Bounds that enclose the referee's optimum, as near as was asked."""
    assert svc.lower_bound_ <= best * (1.0 + 1e-9)
    assert svc.objective_ >= best * (1.0 - 1e-9)
    assert svc.converged_
    assert svc.objective_ <= best * (1.0 + 2.0 * tol)


def test_the_file_is_short_and_outside_the_package():
    text = (DOCS / "huber_hinge.py").read_text()
    assert len(text.splitlines()) <= 60
    check_loss(HuberHinge(WIDTH), np.array([1.0, -1.0, 1.0, -1.0]))


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
@pytest.mark.parametrize("C", [0.02, 1.0, 50.0])
@pytest.mark.parametrize("width", [0.05, WIDTH, 3.0])
def test_every_solver_reaches_the_referees_optimum(solver, C, width):
    X, y, s = problem()
    svc = LinearSVC(C=C, loss=HuberHinge(width), solver=solver, tol=1e-6).fit(X, y, s)
    best, _ = referee(with_constant(X), y, C * s, width)
    require_true(svc, best, 1e-6)
    if solver != "auto":
        methods = {CuttingPlane: "cutting planes", DualCoordinate: "coordinate", Newton: "newton"}
        assert {record["method"] for record in svc.history_} == {methods[type(solver)]}
    w = np.append(svc.coef_, svc.intercept_)
    assert svc.objective_ == pytest.approx(
        objective(w, with_constant(X), y, C * s, width), rel=1e-9
    )


@pytest.mark.parametrize("solver", ["auto", CuttingPlane(), Newton()], ids=str)
def test_an_intercept_that_is_not_penalized(solver):
    X, y, s = problem(1)
    svc = LinearSVC(
        C=2.0, loss=HuberHinge(WIDTH), solver=solver, tol=1e-6, penalize_intercept=False
    ).fit(X, y, s)
    best, _ = referee(with_constant(X), y, 2.0 * s, WIDTH, free=True)
    require_true(svc, best, 1e-6)


def test_weights_that_keep_a_sign():
    X, y, s = problem(3)
    fits = [
        LinearSVC(loss=HuberHinge(WIDTH), solver=solver, tol=1e-6, nonnegative=[0, 3]).fit(X, y, s)
        for solver in (DualCoordinate(), CuttingPlane())
    ]
    assert fits[0].objective_ == pytest.approx(fits[1].objective_, rel=3e-6)
    assert all((svc.coef_[0, [0, 3]] >= 0.0).all() and svc.converged_ for svc in fits)


def test_class_weights_and_other_steepest_slopes():
    class Steep(HuberHinge):
        """Twice the loss, declared by its slope instead of a weight."""

        def cut(self, scores, y, weight):
            return super().cut(scores, y, 2.0 * weight)

        def value(self, scores, y, weight):
            return super().value(scores, y, 2.0 * weight)

        def dual_terms(self, y):
            return DualTerms(y, steepest=2.0, curvature=0.5 * self.width)

    X, y, s = problem(5)
    check_loss(Steep(WIDTH), y[:6])
    weights = np.where(y > 0.0, 3.0, 1.0) * s
    best, _ = referee(with_constant(X), y, 2.0 * weights, WIDTH)
    for solver in SOLVERS:
        svc = LinearSVC(loss=Steep(WIDTH), solver=solver, tol=1e-6, class_weight={1.0: 3.0})
        require_true(svc.fit(X, y, s), best, 1e-6)
    stream = LinearSVC(loss=Steep(WIDTH), max_support=30)
    for k in range(5):
        stream.partial_fit(X[k::5], y[k::5], classes=[-1.0, 1.0], sample_weight=weights[k::5])
    assert 0.0 < stream.lower_bound_ <= best * (1.0 + 1e-9)


def test_cells_of_a_grid_have_true_bounds():
    X, y, _ = problem(7)
    Cs = [0.1, 3.0]
    search = LinearSVCCV(Cs=Cs, loss=HuberHinge(WIDTH), cv=3, tol=1e-5).fit(X, y)
    for k, (train, _) in enumerate(check_cv(3, y, classifier=True).split(X, y)):
        found = {
            name: search.cv_results_[f"split{k}_{name}"] for name in ("lower_bound", "objective")
        }
        for j, C in enumerate(Cs):
            best, _ = referee(with_constant(X[train]), y[train], np.full(len(train), C), WIDTH)
            assert best * (1.0 - 2e-5) <= found["lower_bound"][j] <= best * (1.0 + 1e-9)
            assert best * (1.0 - 1e-9) <= found["objective"][j] <= best * (1.0 + 2e-5)


def test_the_width_can_be_searched_for():
    X, y, _ = problem(8)
    search = GridSearchCV(LinearSVC(loss=HuberHinge()), {"loss__width": [0.1, 2.0]}, cv=3)
    search.fit(X, y)
    assert search.best_estimator_.loss.width in (0.1, 2.0)
    svc = LinearSVC(loss=HuberHinge(0.3))
    assert clone(svc).loss.width == 0.3
    assert clone(svc).loss is not svc.loss
    assert "HuberHinge(width=0.3)" in repr(svc)
    assert svc.get_params()["loss__width"] == 0.3


@pytest.mark.parametrize("solver", ["auto", DualCoordinate(), CuttingPlane()], ids=str)
def test_data_on_disk(tmp_path, solver):
    X, y, s = problem(9, n=600)
    rows = maxmargin.data.write(tmp_path / "rows", [(X, y, s)])
    svc = LinearSVC(C=0.5, loss=HuberHinge(WIDTH), solver=solver, tol=1e-5).fit(rows)
    if isinstance(solver, DualCoordinate):
        assert {record["method"] for record in svc.history_} == {"stream"}
    best, _ = referee(with_constant(X), y, 0.5 * s, WIDTH)
    require_true(svc, best, 1e-5)


@pytest.mark.parametrize("max_support", [10_000, 40])
def test_streams_have_true_bounds(max_support):
    X, y, s = problem(10, n=800)
    svc, seen = LinearSVC(C=0.3, loss=HuberHinge(WIDTH), max_support=max_support), []
    for k in range(8):
        part = slice(100 * k, 100 * (k + 1))
        svc.partial_fit(X[part], y[part], classes=[-1.0, 1.0], sample_weight=s[part])
        seen.append((X[part], y[part], s[part]))
        rows = slice(0, 100 * (k + 1))
        best, _ = referee(with_constant(X[rows]), y[rows], 0.3 * s[rows], WIDTH)
        assert 0.5 * best < svc.lower_bound_ <= best * (1.0 + 1e-9)
    svc.verify(seen)
    w = np.append(svc.coef_, svc.intercept_)
    true = objective(w, with_constant(X), y, 0.3 * s, WIDTH)
    assert svc.objective_ == pytest.approx(true, rel=1e-9)
    assert svc.gap_ < 0.1


def test_a_stream_notices_that_its_loss_was_changed_in_place():
    X, y, _ = problem(11)
    svc = LinearSVC(loss=HuberHinge(0.5)).partial_fit(X, y, classes=[-1.0, 1.0])
    svc.set_params(loss__width=2.0)
    with pytest.raises(ValueError, match="the loss"):
        svc.partial_fit(X, y)


def test_save_and_load(tmp_path):
    X, y, _ = problem(12)
    svc = LinearSVC(loss=HuberHinge(WIDTH)).fit(X, y)
    svc.save(tmp_path / "model")
    again = maxmargin.load(tmp_path / "model", loss=HuberHinge)
    assert type(again.loss) is HuberHinge
    assert again.loss.width == WIDTH
    assert np.array_equal(again.coef_, svc.coef_)
    assert clone(again).fit(X, y).objective_ == svc.objective_
    assert pickle.loads(pickle.dumps(svc)).loss.width == WIDTH


def test_load_says_which_class_it_needs(tmp_path):
    X, y, _ = problem(14)
    LinearSVC(loss=HuberHinge(WIDTH)).fit(X, y).save(tmp_path / "own")
    LinearSVC(loss="hinge").fit(X, y).save(tmp_path / "hinge")
    with pytest.raises(ValueError, match=r"load\(path, loss=HuberHinge\)"):
        maxmargin.load(tmp_path / "own")
    with pytest.raises(TypeError, match="class"):
        maxmargin.load(tmp_path / "own", loss=HuberHinge())
    with pytest.raises(ValueError, match="HuberHinge"):
        maxmargin.load(tmp_path / "own", loss=SquaredHinge)
    with pytest.raises(ValueError, match="loss="):
        maxmargin.load(tmp_path / "hinge", loss=HuberHinge)


@pytest.mark.parametrize("loss", [Hinge(), Hinge(2.0), SquaredHinge(0.5), Logistic()], ids=repr)
def test_losses_of_the_library_as_objects(loss, tmp_path):
    X, y, _ = problem(15)
    svc = LinearSVC(loss=loss, tol=1e-6).fit(X, y)
    assert svc.converged_
    svc.save(tmp_path / "model")
    again = maxmargin.load(tmp_path / "model")
    assert repr(again.loss) == repr(loss)
    if not isinstance(loss, Logistic):
        half = LinearSVC(loss=loss).partial_fit(X[:75], y[:75], classes=[-1.0, 1.0])
        half.save(tmp_path / "stream")
        again = maxmargin.load(tmp_path / "stream")
        one, two = (svc.partial_fit(X[75:], y[75:]).lower_bound_ for svc in (half, again))
        assert one == two <= svc.objective_


class OnlyCut(ScoreLoss):
    """The Huberized hinge that declares nothing."""

    label_kind = "sign"

    def cut(self, scores, y, weight):
        return HuberHinge(WIDTH).cut(scores, y, weight)


class Doubled(SquaredHinge):
    """Another loss than its parent, which says so in its cut only."""

    def cut(self, scores, y, weight):
        return super().cut(scores, y, 2.0 * weight)


class Shifted(Hinge):
    """Another loss than its parent, which says so in its value only."""

    def value(self, scores, y, weight):
        return super().value(scores, y, weight) + float(weight.sum())


def test_a_loss_of_one_method_is_trained_by_cutting_planes():
    X, y, s = problem(16)
    best, _ = referee(with_constant(X), y, s, WIDTH)
    require_true(LinearSVC(loss=OnlyCut(), tol=1e-6).fit(X, y, s), best, 1e-6)
    search = LinearSVCCV(Cs=[0.1, 1.0], loss=OnlyCut(), cv=3).fit(X, y)
    assert search.cv_results_["split0_converged"].all()


@pytest.mark.parametrize("loss", [OnlyCut(), Doubled(), Shifted()], ids=repr)
def test_what_a_loss_does_not_offer_is_refused(loss):
    X, y, _ = problem(17)
    for solver in (DualCoordinate(), Newton()):
        with pytest.raises(TypeError, match=f"{type(loss).__name__} offers n"):
            LinearSVC(loss=loss, solver=solver).fit(X, y)
    with pytest.raises(TypeError, match=r"implement dual_terms\(y\)"):
        LinearSVC(loss=loss).partial_fit(X, y, classes=[-1.0, 1.0])
    with pytest.raises(ValueError, match=r"implement dual_terms\(y\)"):
        LinearSVC(loss=loss, penalize_intercept=False).fit(X, y)


def test_a_subclass_that_is_another_loss_is_not_trained_as_its_parent():
    X, y, s = problem(18)
    svc = LinearSVC(loss=Doubled(), tol=1e-6).fit(X, y, s)
    parent = LinearSVC(C=2.0, loss=SquaredHinge(), tol=1e-6).fit(X, y, s)
    assert svc.objective_ == pytest.approx(parent.objective_, rel=2e-6)
    assert {record["method"] for record in svc.history_} == {"cutting planes"}


@pytest.mark.parametrize(
    ("loss", "error", "words"),
    [
        (HuberHinge, TypeError, "is a class, not an object"),
        ("huber", ValueError, "ScoreLoss"),
        (3.0, ValueError, "ScoreLoss"),
        (CrammerSinger(1.0 - np.eye(3)), ValueError, "3 scores per sample"),
        (maxmargin.losses.EpsilonInsensitive(), ValueError, 'label_kind = "sign"'),
        (maxmargin.losses.RocAuc(), ValueError, "MeasureSVC"),
    ],
    ids=str,
)
def test_what_is_no_loss_of_signs_is_refused(loss, error, words):
    X, y, _ = problem(20)
    with pytest.raises(error, match=words):
        LinearSVC(loss=loss).fit(X, y)


def test_joint_training_of_classes_is_not_for_other_losses():
    rng = np.random.default_rng(21)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 3, 60)
    with pytest.raises(ValueError, match="multi_class='ovr'"):
        LinearSVC(loss=HuberHinge(), multi_class="crammer_singer").fit(X, y)
    with pytest.raises(ValueError, match="cost requires"):
        LinearSVC(loss=HuberHinge(), cost=1.0 - np.eye(3)).fit(X, y)


def test_derivatives_in_plain_python_are_enough_for_newtons_method():
    from maxmargin.losses import NewtonTerms, SmoothMargin

    class Softplus(SmoothMargin):
        def derivatives(self, m):
            p = np.exp(-np.logaddexp(0.0, m))
            return np.logaddexp(0.0, -m), -p, p * (1.0 - p)

        def dual(self, p):
            q = np.clip(p, 1e-300, 1.0)
            r = np.clip(1.0 - p, 1e-300, 1.0)
            return -q * np.log(q) - r * np.log(r)

    class Mine(Logistic):
        def cut(self, scores, y, weight):
            return Logistic().cut(scores, y, weight)

        def newton_terms(self, y):
            return NewtonTerms(y, Softplus())

    X, y, s = problem(22)
    results = [
        minimize(
            ScoreRisk(X, y, loss, sample_weight=s), 1.0, solver=Newton(), stopping=RelativeGap(1e-8)
        )
        for loss in (Mine(), Logistic())
    ]
    assert all(result.converged for result in results)
    assert results[0].objective == pytest.approx(results[1].objective, rel=1e-8)
