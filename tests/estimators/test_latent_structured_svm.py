"""LatentStructuredSVM as an estimator."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone
from tests.latent_tasks import Bags, Rows, WrongRows, rows_problem

from maxmargin import LatentStructuredSVM, LinearSVC
from maxmargin.solvers import CuttingPlane
from maxmargin.tasks import Chain
from maxmargin.testing import check_latent_task


@pytest.mark.parametrize("make", [Rows, WrongRows])
def test_the_tasks_of_these_tests(make):
    X, Y = rows_problem(0, n=6)
    task = make()
    check_latent_task(task, X, Y, outputs=task.outputs)


def test_clone_pickle_and_predictions():
    X, Y = rows_problem(0)
    svm = LatentStructuredSVM(WrongRows(), C=2.0)
    again = clone(svm)
    assert again.get_params()["C"] == 2.0
    svm.fit(X, Y)
    back = pickle.loads(pickle.dumps(svm))
    assert back.predict(X) == svm.predict(X)
    assert [y for y, _ in svm.predict_latent(X)] == svm.predict(X)
    assert svm.score(X, Y) == -np.mean([a != b for a, b in zip(svm.predict(X), Y, strict=True)])
    assert len(svm.latent_) == len(Y)


def test_history_is_one_record_per_convex_step():
    X, Y = rows_problem(0)
    svm = LatentStructuredSVM(WrongRows(), tol=1e-3).fit(X, Y)
    assert [r["iteration"] for r in svm.history_] == list(range(1, svm.n_iter_ + 1))
    assert {"n_changed", "convex_gap", "convex_iterations", "oracle_calls"} <= set(svm.history_[0])
    calls = [r["oracle_calls"] for r in svm.history_]
    assert calls == sorted(calls)


def test_refusals():
    X, Y = rows_problem(0)
    with pytest.raises(TypeError, match="not a LatentTask"):
        LatentStructuredSVM(Chain(n_labels=2))
    with pytest.raises(ValueError, match="latent has 1 values"):
        LatentStructuredSVM(Rows()).fit(X, Y, latent=[0])
    with pytest.raises(ValueError, match="tol="):
        LatentStructuredSVM(Rows(), tol=0.0).fit(X, Y)
    with pytest.raises(ValueError, match="tol="):
        LatentStructuredSVM(Rows(), tol="loose").fit(X, Y)
    with pytest.raises(ValueError, match="solver="):
        LatentStructuredSVM(Rows(), solver="fast").fit(X, Y)


@pytest.mark.parametrize("solver", ["auto", CuttingPlane()])
def test_nonnegative_and_fixed_weights(solver):
    X, Y = rows_problem(1, n=40)
    free = LatentStructuredSVM(WrongRows(), 1.0, solver=solver).fit(X, Y)
    signed = np.flatnonzero(free.coef_ < 0.0)[:3].tolist()
    constraints = {"nonnegative": signed, "fixed": {8: -0.25}}
    svm = LatentStructuredSVM(WrongRows(), 1.0, solver=solver, **constraints).fit(X, Y)
    assert len(signed) >= 2
    assert (svm.coef_[signed] >= 0.0).all()
    assert svm.coef_[8] == -0.25
    values = [r["objective"] for r in svm.history_]
    assert all(b <= a * (1 + 1e-12) for a, b in pairwise(values))


def test_worker_processes():
    X, Y = rows_problem(2, n=70)
    alone = LatentStructuredSVM(WrongRows(), 0.3).fit(X, Y)
    many = LatentStructuredSVM(WrongRows(), 0.3, n_jobs=2, engine="processes").fit(X, Y)
    np.testing.assert_array_equal(alone.coef_, many.coef_)


def test_an_error_names_its_example():
    class Broken(WrongRows):
        def complete(self, x, y, w):
            if x is self.bad:
                raise RuntimeError("oops")
            return super().complete(x, y, w)

        def setup(self, X, Y):
            self.bad = X[4]
            return super().setup(X, Y)

    X, Y = rows_problem(0)
    with pytest.raises(RuntimeError) as caught:
        LatentStructuredSVM(Broken()).fit(X, Y)
    assert "example 4" in caught.value.__notes__[0]


def test_scikit_learns_callbacks_see_convex_steps():
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 or later")
    from tests.persistence.test_watching import Recorder

    X, Y = rows_problem(0)
    recorder = Recorder()
    svm = LatentStructuredSVM(WrongRows()).set_callbacks(recorder).fit(X, Y)
    scores = [fitted.score(X, Y) for fitted in recorder.estimators]
    assert len(scores) == svm.n_iter_
    assert scores[-1] == svm.score(X, Y)
    stopping = Recorder(stop_after=2)
    svm = LatentStructuredSVM(WrongRows(), tol=1e-9).set_callbacks(stopping).fit(X, Y)
    assert (svm.stop_reason_, svm.n_iter_) == ("callback", 2)


@pytest.mark.parametrize("seed", [0, 1])
def test_bags_beat_the_plain_ways(seed):
    """Every instance labeled as its bag is, and the mean of the bag, drown the witness."""
    rng = np.random.default_rng(seed)

    def draw(n):
        y, X = np.arange(n) % 2, []
        for label in y:
            x = rng.normal(size=(rng.integers(4, 13), 10))
            x[rng.integers(len(x)), 1] += 3.5 * label
            X.append(x)
        return X, y

    (X, y), (X_new, y_new) = draw(200), draw(500)
    latent = 1.0 + LatentStructuredSVM(Bags(), 0.1).fit(X, y).score(X_new, y_new)
    each = LinearSVC(C=0.1, loss="hinge").fit(np.vstack(X), np.repeat(y, [len(x) for x in X]))
    top = np.array([each.decision_function(x).max() for x in X])
    threshold = max(top, key=lambda t: np.mean((top >= t) == y))  # the best one for bags
    top = np.array([each.decision_function(x).max() for x in X_new])
    mean = LinearSVC(C=0.1, loss="hinge").fit([x.mean(axis=0) for x in X], y)
    assert latent > np.mean((top >= threshold) == y_new) + 0.01
    assert latent > mean.score([x.mean(axis=0) for x in X_new], y_new) + 0.1
