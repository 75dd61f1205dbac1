"""With solver="auto", several threads visit blocks of rows where the data have many rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxmargin import LinearSVC, LinearSVR
from maxmargin.solvers.auto import BLOCK_ROWS


def rows(n: int, d: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, d)).astype(np.float32)
    return X, X[:, 0] + 0.3 * rng.normal(size=n) > 0.1


def methods(fitted: Any) -> set[str]:
    return {record["method"] for record in fitted.history_}


@pytest.fixture(scope="module")
def many() -> tuple[np.ndarray, np.ndarray]:
    return rows(BLOCK_ROWS)


def test_any_number_of_jobs_from_two_on_gives_the_same_bits(many):
    fits = [LinearSVC(C=1e-4, n_jobs=n, loss="hinge").fit(*many) for n in (2, 3, -1)]
    assert methods(fits[0]) == {"block coordinate"}
    for other in fits[1:]:
        assert other.objective_ == fits[0].objective_
        assert other.coef_.tobytes() == fits[0].coef_.tobytes()


def test_one_job_is_the_sequential_method(many):
    one, none = (LinearSVC(C=1e-4, n_jobs=n, loss="hinge").fit(*many) for n in (1, None))
    assert methods(one) == {"coordinate"}
    assert one.coef_.tobytes() == none.coef_.tobytes()
    two = LinearSVC(C=1e-4, n_jobs=2, loss="hinge").fit(*many)
    assert one.lower_bound_ <= two.objective_
    assert two.lower_bound_ <= one.objective_
    assert two.converged_


def test_few_rows_are_visited_one_after_the_other():
    X, y = rows(5000, 200)
    one, two = (LinearSVC(C=1e-3, n_jobs=n, loss="hinge").fit(X, y) for n in (1, 2))
    assert "block coordinate" not in methods(two)
    assert one.coef_.tobytes() == two.coef_.tobytes()


def test_regression_uses_blocks_as_well(many):
    X = many[0]
    fits = [LinearSVR(C=1e-4, epsilon=0.1, n_jobs=n).fit(X, X[:, 0]) for n in (2, 3)]
    assert methods(fits[0]) == {"block coordinate"}
    assert fits[0].coef_.tobytes() == fits[1].coef_.tobytes()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_checkpoint_is_continued_with_another_number_of_jobs(many, tmp_path):
    path = tmp_path / "fit.checkpoint"
    LinearSVC(C=1e-3, tol=1e-6, n_jobs=2, max_iter=2, checkpoint=path, loss="hinge").fit(*many)
    one = LinearSVC(C=1e-3, tol=1e-6, n_jobs=1, loss="hinge").fit(*many, resume_from=path)
    assert one.converged_
    assert methods(one) == {"block coordinate", "coordinate"}
