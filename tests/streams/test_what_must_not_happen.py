"""Interrupts, wrong rows and bad weights must not lead to a bound that is false."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxmargin import LinearSVC, LinearSVR
from maxmargin.data import KmerDesign
from maxmargin.duals import one_pass as support_stream
from maxmargin.solvers import DualCoordinate


def stream(n: int = 1200, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.where(X[:, 0] + rng.normal(size=n) > 0, 1, -1)


@pytest.mark.parametrize("method", ["_add", "_step", "_keep", "_fold"])
@pytest.mark.parametrize("call", [1, 2])
def test_an_interrupt_leaves_a_piece_out_or_in(
    monkeypatch: pytest.MonkeyPatch, method: str, call: int
) -> None:
    """Ctrl-C right after a part of the work on a piece; then the stream goes on."""
    X, y = stream()
    svc = LinearSVC(max_support=50, loss="hinge").partial_fit(X[:600], y[:600], classes=[-1, 1])
    whole, calls = getattr(support_stream.SupportStream, method), 0

    def interrupted(self: Any, *args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        answer = whole(self, *args, **options)
        if calls == call:
            raise KeyboardInterrupt
        return answer

    monkeypatch.setattr(support_stream.SupportStream, method, interrupted)
    with pytest.raises(KeyboardInterrupt):
        svc.partial_fit(X[600:], y[600:])
    monkeypatch.undo()
    seen = svc._streams[0].n_seen
    svc.partial_fit(X[seen:], y[seen:])
    assert svc.n_seen_ == len(X)
    best = LinearSVC(tol=1e-6, loss="hinge").fit(X, y)
    assert svc.lower_bound_ <= best.objective_ * (1 + 1e-9)
    svc.verify(X, y)
    assert best.lower_bound_ <= svc.objective_ * (1 + 1e-9)
    assert svc.lower_bound_ <= best.objective_ * (1 + 1e-9)


def test_verify_refuses_rows_that_contradict_the_bound() -> None:
    X, y = stream()
    svc = LinearSVC(max_support=50, loss="hinge").partial_fit(X, y, classes=[-1, 1])
    with pytest.raises(ValueError, match="not the rows seen by partial_fit"):
        svc.verify(100.0 * X, svc.predict(X))
    assert svc.certificate_ == "lower_only"


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_bad_weights_of_designs_are_refused(weight: float) -> None:
    strings = ["ACGT", "AAAA", "CCGT", "TTTT"]
    weights = np.array([1.0, weight, 1.0, 1.0])
    for fit in ("fit", "partial_fit"):
        more = {"classes": [-1, 1]} if fit == "partial_fit" else {}
        with pytest.raises(ValueError, match="finite and nonnegative"):
            getattr(LinearSVC(loss="hinge"), fit)(
                KmerDesign(strings, orders=(1, 2)), [1, -1, 1, -1], sample_weight=weights, **more
            )
    with pytest.raises(ValueError, match="NaN"):
        LinearSVR().fit(KmerDesign(strings, orders=(1, 2)), [1.0, np.nan, 0.0, 0.0])


def test_a_pass_that_lacks_nothing() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 3))
    y = np.where(X[:, 0] > 0, 1, -1)
    weight = np.array([0.0, 0.0, 1, 1, 1, 1, 1, 1])
    for C in (1.0, 20.0, 1e4):
        solver = DualCoordinate(max_cached=3)
        svc = LinearSVC(C=C, solver=solver, loss="hinge").fit(X, y, sample_weight=weight)
        truth = LinearSVC(C=C, tol=1e-7, loss="hinge").fit(X, y, sample_weight=weight)
        assert svc.lower_bound_ <= truth.objective_ * (1 + 1e-9)
        assert truth.lower_bound_ <= svc.objective_ * (1 + 1e-9)


def test_an_optimum_of_zero() -> None:
    """All targets within the tube around the free intercept: F* = 0."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10, 2)) * 0.1
    y = 5 + rng.uniform(-0.9, 0.9, 10)
    svr = LinearSVR(C=100.0, epsilon=1.0, penalize_intercept=False).fit(X, y)
    assert 0.0 <= svr.lower_bound_ <= svr.objective_ < 1e-6
