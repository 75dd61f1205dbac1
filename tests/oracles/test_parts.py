"""The best placement of a tree of parts against all placements."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxmargin import LatentStructuredSVM
from maxmargin.tasks import Part, PartsDetector
from maxmargin.testing import check_latent_task, latent_objective


def placements(task):
    """outputs(x): every pair (label, placement)."""

    def outputs(x):
        sizes = [task.root, *(part.size for part in task.parts)]
        places = [
            list(product(range(x.shape[0] - h + 1), range(x.shape[1] - w + 1))) for h, w in sizes
        ]
        return [(0, None)] + [(1, np.array(place)) for place in product(*places)]

    return outputs


TREES = [
    [],
    [Part((1, 1), (0, 1))],
    [Part((1, 2), (1, 0)), Part((2, 1), (0, 2))],  # a star
    [Part((1, 1), (-1, 0)), Part((2, 2), (1, 1), parent=1)],  # a chain
]


@given(st.integers(0, 10_000), st.sampled_from(TREES), st.sampled_from([1, 2]))
def test_the_best_placement(seed, parts, channels):
    rng = np.random.default_rng(seed)
    task = PartsDetector((2, 1), parts, channels=channels)
    X = [rng.normal(size=(3, int(rng.integers(2, 4)), channels)) for _ in range(2)]
    check_latent_task(task, X, [1, 0], outputs=placements(task), random_state=seed, n_trials=6)


def test_weights_by_name():
    task = PartsDetector((2, 2), TREES[2], channels=3)
    assert task.dim == (4 + 2 + 2) * 3 + 8 + 1
    assert task.springs == [24, 25, 28, 29]
    w = np.arange(float(task.dim))
    assert task.template(w, 1).shape == (1, 2, 3)
    assert task.template(w, 0)[0, 0].tolist() == [0.0, 1.0, 2.0]


def test_springs_hold_and_the_objective_is_right():
    rng = np.random.default_rng(0)
    X, y = 0.3 * rng.normal(size=(40, 8, 9)), [1] * 20 + [0] * 20
    true = [None] * 40
    for k, x in enumerate(X):
        v, u = rng.integers(1, 7), rng.integers(0, 5)
        x[v, u] = 2.0
        if k < 20:
            part = (v + rng.integers(-1, 2), u + 3 + rng.integers(0, 2))
            x[part] = 2.0
            true[k] = np.array([(v, u), part])
        else:
            x[(v + 3) % 8, u] = 2.0
    task = PartsDetector((1, 1), [Part((1, 1), anchor=(0, 3))])
    svm = LatentStructuredSVM(task, 1.0, nonnegative=task.springs).fit(X, y, latent=true)
    assert (svm.coef_[task.springs] >= 0.0).all()
    F = latent_objective(svm.task_, X, y, svm.coef_, 1.0)
    assert svm.objective_ == pytest.approx(F, rel=1e-9)
    assert svm.score(X, y) > -0.15


def test_refusals():
    with pytest.raises(ValueError, match="part 1 has parent 1"):
        PartsDetector((1, 1), [Part((1, 1), (0, 0), parent=1)])
    with pytest.raises(ValueError, match="at least one cell"):
        PartsDetector((0, 1))
    task = PartsDetector((3, 3))
    with pytest.raises(ValueError, match="input 1 has shape"):
        task.setup([np.zeros((3, 3)), np.zeros((2, 3))], [0, 1])
