"""The latent objective never increases, and the bounds of the convex steps are valid."""

from itertools import pairwise

import numpy as np
import pytest
from tests.latent_tasks import Bags, Rows, WrongRows, bags_problem, rows_problem
from tests.nightly import first

from maxmargin import LatentStructuredSVM
from maxmargin.risks import CompletedRisk
from maxmargin.solvers import CuttingPlane, DualCoordinate, minimize
from maxmargin.solvers.cccp import ConvexStepRule, minimize_latent
from maxmargin.testing import latent_objective

SOLVERS = [
    DualCoordinate(),
    DualCoordinate(batch_size="all"),
    DualCoordinate(oracle="expensive"),
    CuttingPlane(),
]


def followed(task, X, Y, C, weight=None, **options):
    """A fit, with the latent objective after every convex step computed independently."""
    seen = []
    own = type(task)(*getattr(task, "arguments", ()))
    dim = own.setup(X, Y)
    zero = np.zeros(dim)
    first = [
        own.complete(x, y, zero) if own.initial(x, y) is None else own.initial(x, y)
        for x, y in zip(X, Y, strict=True)
    ]
    risk = CompletedRisk(own, X, Y, first, dim, sample_weight=weight)

    def watch(record, w):
        seen.append((record, latent_objective(own, X, Y, w, C, weight, outputs=own.outputs)))

    return minimize_latent(risk, C, observer=watch, **options), seen, own


@pytest.mark.parametrize("seed", first(12, range(24)))  # every task with every solver
def test_the_objective_never_rises(seed):
    rng = np.random.default_rng(seed)
    task = [Rows(), WrongRows(), Bags()][seed % 3]
    X, Y = bags_problem(seed) if seed % 3 == 2 else rows_problem(seed)
    C = float(10 ** rng.uniform(-2, 1))
    weight = rng.uniform(0.0, 2.0, size=len(Y)) if seed % 2 else None
    result, seen, own = followed(
        task, X, Y, C, weight, solver=SOLVERS[seed % 4], tol=1e-3, random_state=seed
    )
    values = [value for _, value in seen]
    assert result.stop_reason == "cccp"
    for record, value in seen:  # the recorded objective is correct
        assert record.objective == pytest.approx(value, rel=1e-9)
        assert record.lower_bound == -np.inf
        assert record.convex_lower_bound <= record.convex_objective * (1 + 1e-9)
    for before, after in pairwise(values):
        assert after <= before * (1 + 1e-12)
    assert result.objective == pytest.approx(values[-1], rel=1e-9)
    assert result.objective <= min(values) * (1 + 1e-12)
    for x, y, h in zip(X, Y, result.latent, strict=True):  # the completions are optimal
        if y == -1:
            assert h is None
        else:
            scores = [
                own.joint_feature(x, y, k) @ result.w for k in (h, own.complete(x, y, result.w))
            ]
            assert scores[0] == pytest.approx(scores[1], abs=1e-8)


@pytest.mark.parametrize("make", [Rows, WrongRows])
@pytest.mark.parametrize("seed", range(4))
def test_the_end_is_a_fixed_point(make, seed):
    """No convex step from the completions of the result gains more than tol."""
    X, Y = rows_problem(seed)
    tol = 1e-2
    svm = LatentStructuredSVM(make(), 0.5, tol=tol).fit(X, Y)
    assert svm.stop_reason_ == "cccp"
    latent = [svm.task_.complete(x, y, svm.coef_) for x, y in zip(X, Y, strict=True)]
    risk = CompletedRisk(svm.task_, X, Y, latent, len(svm.coef_))
    best = minimize(risk, 0.5, solver=DualCoordinate()).lower_bound
    # the step that proved it started before the last completion
    assert svm.objective_ - best <= 2.0 * tol * svm.objective_
    assert svm.convex_gap_ <= tol


def test_a_majorant_of_wrong_outputs_is_the_tighter_one():
    X, Y = rows_problem(5)
    rng = np.random.default_rng(0)
    task = Rows()
    dim = task.setup(X, Y)
    for _ in range(20):
        at, w = rng.normal(size=(2, dim))
        latent = [task.complete(x, y, at) for x, y in zip(X, Y, strict=True)]
        tight = WrongRows()
        tight.setup(X, Y)
        all_of_them = CompletedRisk(task, X, Y, latent, dim).evaluate(w).value
        wrong_ones = CompletedRisk(tight, X, Y, latent, dim).evaluate(w).value
        true = latent_objective(task, X, Y, w, 1.0, outputs=task.outputs) - 0.5 * w @ w
        assert true <= wrong_ones + 1e-9
        assert wrong_ones <= all_of_them + 1e-9
        here = CompletedRisk(tight, X, Y, latent, dim).evaluate(at).value
        assert here == pytest.approx(
            latent_objective(task, X, Y, at, 1.0, outputs=task.outputs) - 0.5 * at @ at, rel=1e-9
        )


def test_what_is_not_known_is_not_claimed():
    X, Y = rows_problem(0)
    svm = LatentStructuredSVM(WrongRows(), tol=1e-2).fit(X, Y)
    assert svm.certificate_ == "local"
    assert svm.lower_bound_ == -np.inf
    assert svm.gap_ == np.inf
    assert not svm.converged_
    assert len(svm.history_) == svm.n_iter_


def test_steps_are_loose_while_the_objective_falls():
    from maxmargin.core.stopping import Bounds

    rule = ConvexStepRule(before=100.0, tol=1e-3)
    assert rule.met(Bounds(60.0, 50.0, 1.0))
    assert not rule.met(Bounds(60.0, 40.0, 1.0))
    assert rule.met(Bounds(120.0, 99.95, 1.0))  # nothing left to gain
    assert not rule.met(Bounds(100.0, 99.0, 1.0))
    for upper in (30.0, 90.0, 99.99, 150.0):
        gap = rule.allowed_gap(upper, 1.0)
        if upper < 99.0:
            assert rule.met(Bounds(upper, upper - 0.999 * gap, 1.0))
            assert not rule.met(Bounds(upper, upper - 1.001 * gap, 1.0))


class Forgetful(WrongRows):
    """Completes correctly at first, then incorrectly for one input."""

    def setup(self, X, Y):
        self.bad = X[7]
        self.first = True
        return super().setup(X, Y)

    def complete(self, x, y, w):
        best = super().complete(x, y, w)
        if x is self.bad and np.any(w):
            return int(np.argmin(x @ w.reshape(self.K, -1)[y]))
        return best


def test_a_completion_that_is_worse_is_named():
    X, Y = rows_problem(1, m=4)
    X[7] = np.vstack([X[7][:1], X[7][:1] + 5.0, X[7][:1] - 5.0])

    class Once(Forgetful):
        calls = 0

        def complete(self, x, y, w):  # correct in the first completion, wrong in later ones
            if x is self.bad and np.any(w):
                type(self).calls += 1
            if type(self).calls <= 1:
                return Rows.complete(self, x, y, w)
            return super().complete(x, y, w)

    with pytest.raises(ValueError, match=r"latent value for example 7 that scores below"):
        LatentStructuredSVM(Once(), 1.0, tol=1e-4).fit(X, Y)


def test_argmaxes_that_answer_with_the_label_are_refused():
    class Liar(Rows):
        wrong_only = True

    X, Y = rows_problem(0)
    with pytest.raises(ValueError, match="wrong_only = True, but"):
        LatentStructuredSVM(Liar()).fit(X, Y)


def test_approximate_argmaxes_are_refused():
    class Greedy(Rows):
        oracle_kind = "undergenerating"

    X, Y = rows_problem(0)
    with pytest.raises(ValueError, match="undergenerating"):
        LatentStructuredSVM(Greedy()).fit(X, Y)


def test_a_worse_point_is_not_taken(monkeypatch):
    """A convex step that ends above its start leaves the incumbent unchanged."""
    from dataclasses import replace

    from maxmargin.solvers import cccp

    X, Y = rows_problem(8)
    task, steps = WrongRows(), []
    dim = task.setup(X, Y)

    def clumsy(risk, C, **options):
        result = minimize(risk, C, **options)
        steps.append(result)
        if len(steps) % 2 == 0:
            w = 3.0 * result.w
            objective = 0.5 * w @ w + C * risk.evaluate(w).upper
            result = replace(result, w=w, objective=objective, stop_reason="gap")
        return result

    monkeypatch.setattr(cccp, "solve", clumsy)
    risk = CompletedRisk(task, X, Y, [0] * len(Y), dim)
    result = minimize_latent(risk, 1.0, tol=1e-3, max_iter=8)
    values = [record.objective for record in result.history]
    assert len(steps) > 2
    assert all(after <= before for before, after in pairwise(values))
    assert values[1] == values[0]
    assert result.objective == pytest.approx(
        latent_objective(task, X, Y, result.w, 1.0, outputs=task.outputs), rel=1e-9
    )


@pytest.mark.parametrize("max_iter", [1, None])
def test_no_point_that_was_seen_is_better_than_the_answer(max_iter):
    """Also if w = 0 was left for a worse point and the fit ended there."""
    for seed in range(40):
        rng, seen = np.random.default_rng(seed), []
        bags = [rng.normal(size=(3, 2)) for _ in range(6)]
        svm = LatentStructuredSVM(
            Bags(0.0),
            C=0.1,
            max_iter=max_iter,
            solver=CuttingPlane(),
            callbacks=[lambda record, seen=seen: seen.append(record.objective)],
        ).fit(bags, [1, 0, 0, 0, 0, 0])
        assert svm.objective_ <= min(seen) * (1 + 1e-6)


def test_the_objective_is_that_of_the_weights_where_it_is_a_tiny_part_of_the_scores():
    x = np.array(
        [
            [4864246.706723781, -11139300221.284023],
            [10591605.149516862, 9592185052.331362],
            [3579431.8195473826, -12486901957.25476],
        ]
    )
    C = 1.2086107886677505e-06
    svm = LatentStructuredSVM(Rows(K=2), C=C).fit([x], [0])
    W = svm.coef_.astype(np.longdouble).reshape(2, -1)
    scores = x.astype(np.longdouble) @ W.T
    F = (W * W).sum() / 2 + C * (
        max(scores[:, 0].max(), 1 + scores[:, 1].max()) - scores[:, 0].max()
    )
    assert svm.objective_ == pytest.approx(float(F), rel=1e-6)
    # a step may end where two rows tie: either is correct
    assert scores[svm.latent_[0], 0] == pytest.approx(float(scores[:, 0].max()), rel=1e-6)
