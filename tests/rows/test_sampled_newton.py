"""Newton steps by the Hessian of a sample: certified optima in few passes, for data on disk and in memory."""

import numpy as np
import pytest

import maxmargin
from maxmargin import LinearSVC
from maxmargin.solvers import CuttingPlane, Newton, SampledNewton


def correlated(n=30_000, d=8, seed=0):
    """Features of very different scales, sorted by class, as files often are."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) * np.logspace(-1, 1, d)
    y = np.where(X @ rng.normal(size=d) + 3.0 * rng.normal(size=n) > 1.0, 1, -1)
    order = np.argsort(y, kind="stable")
    return X[order], y[order]


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory):
    X, y = correlated()
    path = tmp_path_factory.mktemp("rows") / "data"
    batches = ((X[lo : lo + 7000], y[lo : lo + 7000]) for lo in range(0, len(X), 7000))
    return X, y, maxmargin.data.write(path, batches, shard_bytes=1 << 19)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("C", [1e-4, 1.0])
def test_it_is_chosen_on_disk_and_finds_the_optimum_in_few_passes(on_disk, loss, C):
    X, y, data = on_disk
    svc = LinearSVC(loss=loss, C=C, tol=1e-6).fit(data)
    assert {record["method"] for record in svc.history_} == {"sampled newton"}
    assert svc.converged_
    assert svc.n_iter_ <= 8
    exact = LinearSVC(loss=loss, C=C, tol=1e-9, solver=Newton()).fit(X, y)
    assert svc.lower_bound_ <= exact.objective_ * (1 + 1e-9)
    assert exact.lower_bound_ <= svc.objective_ * (1 + 1e-9)


def test_unpenalized_intercepts_weights_and_several_classes(on_disk):
    X, y, _ = on_disk
    rng = np.random.default_rng(1)
    weight, labels = (
        rng.integers(0, 3, len(y)),
        np.digitize(X[:, 0], np.quantile(X[:, 0], [0.2, 0.7])),
    )
    for options, target in (
        ({"penalize_intercept": False}, y),
        ({"loss": "logistic", "multi_class": "multinomial"}, labels),
        ({"multi_class": "ovr"}, labels),
    ):
        one = LinearSVC(solver=SampledNewton(), C=0.1, tol=1e-5, **options)
        other = LinearSVC(solver=CuttingPlane(), C=0.1, tol=1e-4, **options)
        one.fit(X, target, sample_weight=weight)
        other.fit(X, target, sample_weight=weight)
        assert one.converged_
        assert one.lower_bound_ <= other.objective_ * (1 + 1e-9)
        assert other.lower_bound_ <= one.objective_ * (1 + 1e-9)


def test_few_very_long_rows_that_the_sample_may_miss():
    X, y = correlated()
    X[5::3000] *= 300.0
    svc = LinearSVC(solver=SampledNewton(), C=0.01, tol=1e-4).fit(X, y)
    exact = LinearSVC(C=0.01, tol=1e-6, solver=Newton()).fit(X, y)
    assert svc.converged_
    assert svc.lower_bound_ <= exact.objective_ * (1 + 1e-9)
    assert svc.objective_ <= exact.objective_ * (1 + 1e-4)


def test_it_resumes_from_a_checkpoint(on_disk, tmp_path):
    _, _, data = on_disk
    whole = LinearSVC(C=1.0, tol=1e-6).fit(data)
    part = LinearSVC(C=1.0, tol=1e-6, max_iter=1, checkpoint=tmp_path / "fit").fit(data)
    assert not part.converged_
    rest = LinearSVC(C=1.0, tol=1e-6).fit(data, resume_from=tmp_path / "fit")
    assert rest.converged_
    assert rest.objective_ == pytest.approx(whole.objective_, rel=1e-6)
