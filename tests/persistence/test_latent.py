"""A latent model comes back from its file."""

import numpy as np
import pytest
from tests.latent_tasks import Bags, WrongRows, bags_problem, rows_problem

import maxmargin
from maxmargin import LatentStructuredSVM


def test_a_model_comes_back(tmp_path):
    X, Y = rows_problem(0)
    svm = LatentStructuredSVM(WrongRows(), 0.7, tol=1e-3, nonnegative=[0], fixed={2: 0.5}).fit(X, Y)
    svm.save(tmp_path / "model")
    task = WrongRows()
    task.setup(X, Y)
    back = maxmargin.load(tmp_path / "model", task=task)
    assert isinstance(back, LatentStructuredSVM)
    np.testing.assert_array_equal(back.coef_, svm.coef_)
    assert back.predict_latent(X) == svm.predict_latent(X)
    for name in (
        "objective",
        "lower_bound",
        "gap",
        "converged",
        "stop_reason",
        "certificate",
        "n_iter",
    ):
        assert getattr(back, name + "_") == getattr(svm, name + "_")
    for name in ("convex_objective_", "convex_lower_bound_", "convex_gap_"):
        assert getattr(back, name) == getattr(svm, name)
    assert (back.C, back.tol, back.nonnegative, back.fixed) == (0.7, 1e-3, [0], {2: 0.5})


def test_a_model_needs_its_task(tmp_path):
    X, y = bags_problem(0)
    svm = LatentStructuredSVM(Bags()).fit(X, y).save(tmp_path / "model")
    task = Bags()
    task.setup(X, y)
    back = maxmargin.load(tmp_path / "model", task=task)
    assert back.predict(X) == svm.predict(X)
    with pytest.raises(ValueError, match="whose task was a Bags"):
        maxmargin.load(tmp_path / "model")
