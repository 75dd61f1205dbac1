"""Training on a data set on disk: the same bits as from memory, and less work after rows were appended."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import maxmargin.data
from maxmargin import (
    LinearSVC,
    LinearSVCCV,
    LinearSVR,
    MeasureSVC,
    RankSVM,
    SequenceTagger,
    StructuredSVM,
    svc_path,
)
from maxmargin.data import sharded, storage
from maxmargin.solvers import CuttingPlane
from maxmargin.tasks import Chain


def rows(n: int = 3000, d: int = 7, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(np.float32) * np.exp(rng.standard_normal(d))
    return X.astype(np.float32), X @ rng.standard_normal(d) + rng.standard_normal(n)


def stored(path: Path, X: Any, y: Any, *more: Any) -> maxmargin.data.Dataset:
    """Written in uneven batches, in several files."""
    n = X.shape[0]
    cuts = [0, n // 3, n // 3 + 1, n]
    batches = [tuple(part[a:b] for part in (X, y, *more)) for a, b in pairwise(cuts)]
    return maxmargin.data.write(path, batches, shard_bytes=20_000)


def same(a: Any, b: Any) -> None:
    assert np.array_equal(a.coef_, b.coef_)
    assert (a.objective_, a.lower_bound_, a.n_iter_) == (b.objective_, b.lower_bound_, b.n_iter_)
    assert b.converged_


LABELS = {
    "numbers": lambda s: np.where(s > 0.5, 1, -1).astype(np.int8),
    "texts": lambda s: np.where(s > 0.5, "yes", "no"),
    "three": lambda s: np.digitize(s, [-1.0, 1.0]),
    "three texts": lambda s: np.array(["low", "middle", "high"])[np.digitize(s, [-1.0, 1.0])],
}


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"class_weight": "balanced"},
        {"penalize_intercept": False},
        {"multi_class": "ovr"},
    ],
)
def test_classification(tmp_path: Path, labels: str, sparse: bool, params: Any) -> None:
    X, s = rows()
    y = LABELS[labels](s)
    if sparse:
        X = sp.csr_matrix(np.where(np.abs(X) > 1.0, X, 0.0))
    data = stored(tmp_path, X, y)
    if "multi_class" not in params:
        several = len(np.unique(y)) > 2
        params = {"loss": "hinge", "multi_class": "crammer_singer" if several else "ovr", **params}
    kept = LinearSVC(C=0.01, solver=CuttingPlane(), **params).fit(X, y)
    read = LinearSVC(C=0.01, solver=CuttingPlane(), n_jobs=2, **params).fit(data)
    same(kept, read)
    assert np.array_equal(kept.classes_, read.classes_)
    assert np.array_equal(kept.predict(X), read.predict(data))


def test_weights_of_the_data_set_count(tmp_path: Path) -> None:
    X, s = rows()
    y, weight = LABELS["numbers"](s), np.random.default_rng(1).random(len(s))
    data = stored(tmp_path, X, y, weight)
    same(
        LinearSVC(C=0.01, solver=CuttingPlane(), loss="hinge").fit(X, y, weight),
        LinearSVC(C=0.01, solver=CuttingPlane(), loss="hinge").fit(data),
    )
    with pytest.raises(ValueError, match="weights of its own"):
        LinearSVC(loss="hinge").fit(data, sample_weight=weight)
    with pytest.raises(ValueError, match="labels of its own"):
        LinearSVC(loss="hinge").fit(data, y)


def test_regression_measures_ranking_and_paths(tmp_path: Path) -> None:
    X, s = rows(600)
    y, solver = LABELS["numbers"](s), CuttingPlane()
    numbers, signs = stored(tmp_path / "numbers", X, s), stored(tmp_path / "signs", X, y)
    same(LinearSVR(C=0.1, solver=solver).fit(X, s), LinearSVR(C=0.1, solver=solver).fit(numbers))
    for measure in ("f1", "roc_auc"):
        kept, read = (MeasureSVC(measure, C=0.01) for _ in range(2))
        same(kept.fit(X, y), read.fit(signs))
    groups = np.sort(np.random.default_rng(2).integers(0, 40, len(s)))
    levels = np.digitize(s, [-1.0, 1.0]).astype(float)
    queries = stored(tmp_path / "queries", X, levels, np.ones(len(s)), groups)
    same(RankSVM(C=0.01).fit(X, levels, groups=groups), RankSVM(C=0.01).fit(queries))
    for a, b in zip(
        svc_path(X, y, [0.1, 0.01], loss="hinge"),
        svc_path(signs, None, [0.1, 0.01], loss="hinge"),
        strict=True,
    ):
        assert a.lower_bound_ <= b.objective_
        assert b.lower_bound_ <= a.objective_
    grid = LinearSVCCV([0.01, 0.1], cv=3, loss="hinge")
    assert np.array_equal(
        grid.fit(signs).coef_, LinearSVCCV([0.01, 0.1], cv=3, loss="hinge").fit(X, y).coef_
    )


def test_sequences(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    X = [rng.standard_normal((int(t), 4)) for t in rng.integers(1, 9, 50)]
    y = [(x[:, 0] > 0).astype(int) for x in X]
    data = maxmargin.data.write(tmp_path, [(X[:20], y[:20]), (X[20:], y[20:])])
    kept, read = SequenceTagger(C=0.1).fit(X, y), SequenceTagger(C=0.1).fit(data)
    assert np.array_equal(kept.coef_, read.coef_)
    chain, again = (StructuredSVM(Chain(n_labels=2), C=0.1) for _ in range(2))
    assert np.array_equal(chain.fit(X, y).coef_, again.fit(data).coef_)
    with pytest.raises(ValueError, match="data set of sequences"):
        LinearSVC(loss="hinge").fit(data)


@pytest.mark.parametrize("near", [True, False])
def test_files_in_memory_and_files_that_are_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, near: bool
) -> None:
    """Whether chunks are used as they are or brought into memory by a second thread."""
    X, s = rows(20_000)
    y = LABELS["numbers"](s)
    data = maxmargin.data.write(tmp_path, [(X, y)], shard_bytes=150_000)
    monkeypatch.setattr(storage._OpenFiles, "is_near", lambda self, name, offset: near)
    monkeypatch.setattr(sharded, "CHUNK_BYTES", 40_000)
    w = np.linspace(-1.0, 1.0, X.shape[1])
    memory = maxmargin.data.as_design(X)
    assert np.array_equal(data.dot(w, 100, 19_999), memory.dot(w, 100, 19_999))
    one, other = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    data.accumulate(s[:15_000], 5, 15_005, one)
    memory.accumulate(s[:15_000], 5, 15_005, other)
    assert np.array_equal(one, other)


def test_whether_a_file_is_in_memory_is_asked_not_guessed(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(10_000))
    where = storage.LocalStorage(tmp_path)
    assert not where.is_near("file", 20_000)  # nothing there
    if hasattr(os, "RWF_NOWAIT"):
        assert where.is_near("file", 5_000)  # just written


class TestRefit:
    """``warm_start=True`` on a data set that grew."""

    def fits(self, tmp_path: Path, more: int, **params: Any) -> tuple[Any, Any]:
        X, s = rows(4000 + more)
        y = LABELS["numbers"](s)
        svc = LinearSVC(C=0.01, solver=CuttingPlane(), warm_start=True, **params, loss="hinge")
        svc.fit(stored(tmp_path, X[:4000], y[:4000]))
        maxmargin.data.open(tmp_path).append([(X[4000:], y[4000:])])
        data = maxmargin.data.open(tmp_path)
        cold = LinearSVC(C=0.01, solver=CuttingPlane(), **params, loss="hinge").fit(data)
        return svc.fit(data), cold

    @pytest.mark.parametrize("params", [{}, {"penalize_intercept": False}])
    def test_takes_fewer_iterations_to_the_same_optimum(self, tmp_path: Path, params: Any) -> None:
        warm, cold = self.fits(tmp_path, 400, **params)
        assert warm.converged_
        assert warm.n_iter_ <= cold.n_iter_ // 2
        assert warm.lower_bound_ <= cold.objective_
        assert cold.lower_bound_ <= warm.objective_

    def test_after_nothing_was_appended_one_look_is_enough(self, tmp_path: Path) -> None:
        X, s = rows()
        data = stored(tmp_path, X, LABELS["numbers"](s))
        svc = LinearSVC(C=0.01, solver=CuttingPlane(), warm_start=True, loss="hinge").fit(data)
        assert svc.fit(data).n_iter_ <= 2
        assert svc.converged_

    def test_planes_of_other_rows_are_not_used(self, tmp_path: Path) -> None:
        """Bounds stay true when the data are others, or the same with other weights."""
        X, s = rows()
        y = LABELS["numbers"](s)
        first = stored(tmp_path / "first", X, y)
        others = stored(tmp_path / "others", X, -y)
        for params in ({}, {"class_weight": "balanced"}):
            svc = LinearSVC(
                C=0.01, solver=CuttingPlane(), warm_start=True, **params, loss="hinge"
            ).fit(first)
            truth = LinearSVC(C=0.01, tol=1e-6, **params, loss="hinge").fit(X, -y)
            svc.fit(others)
            assert svc.converged_
            assert svc.lower_bound_ <= truth.objective_
            assert truth.lower_bound_ <= svc.objective_
        svc = LinearSVC(C=0.01, solver=CuttingPlane(), warm_start=True, loss="hinge").fit(first)
        svc.set_params(class_weight={-1: 0.1, 1: 1.0}).fit(first)
        truth = LinearSVC(C=0.01, tol=1e-6, class_weight={-1: 0.1, 1: 1.0}, loss="hinge").fit(X, y)
        assert svc.converged_
        assert svc.lower_bound_ <= truth.objective_
        assert truth.lower_bound_ <= svc.objective_

    def test_a_fit_that_fails_takes_the_planes_with_it(self, tmp_path: Path) -> None:
        """They are changed in place when rows were added; a second change would make them false."""
        X, s = rows(600)
        y = LABELS["numbers"](s)
        svc = LinearSVC(C=1.0, solver=CuttingPlane(), warm_start=True, loss="hinge")
        svc.fit(maxmargin.data.write(tmp_path, [(X[:500], y[:500])]))
        maxmargin.data.open(tmp_path).append([(X[500:], y[500:])])
        data = maxmargin.data.open(tmp_path)

        def fail(record: Any) -> None:
            raise RuntimeError("a callback that fails")

        for _ in range(3):
            with pytest.raises(RuntimeError):
                svc.set_params(callbacks=[fail]).fit(data)
        svc.set_params(callbacks=None).fit(data)
        truth = LinearSVC(C=1.0, tol=1e-7, loss="hinge").fit(X, y)
        assert svc.converged_
        assert svc.lower_bound_ <= truth.objective_ * (1 + 1e-9)

    def test_parameters_that_were_changed_in_place_are_noticed(self, tmp_path: Path) -> None:
        X, s = rows(600)
        y = LABELS["numbers"](s)
        data = maxmargin.data.write(tmp_path, [(X, y)])
        weights = {1: 5.0, -1: 5.0}
        svc = LinearSVC(
            C=0.1, solver=CuttingPlane(), warm_start=True, class_weight=weights, loss="hinge"
        )
        svc.fit(data)
        weights[1] = weights[-1] = 0.1
        svc.fit(data)
        truth = LinearSVC(C=0.1, tol=1e-7, class_weight=weights, loss="hinge").fit(X, y)
        assert svc.converged_
        assert svc.lower_bound_ <= truth.objective_ * (1 + 1e-9)
        assert truth.lower_bound_ <= svc.objective_ * (1 + 1e-9)
