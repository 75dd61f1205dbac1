"""Sampled cuts of structured models with kernels.

With all examples sampled they reach the optimum of the joint kernel's problem. F is measured and correct,
compared with features of all rows, and no lower bound is reported. Norms of planes are those of the kernel's
space. Fits are seeded and reproducible, and cached kernel rows equal recomputed ones, for Python and compiled
tasks. In constant time, points and planes are those of the sampled examples, and F is measured over all.
Neither form computes or holds the kernel of all pairs of rows.
"""

from __future__ import annotations

import copy
import tracemalloc

import numpy as np
import pytest
from tests.nightly import first
from tests.tiny_tasks import TinyChain

from maxmargin import (
    SequenceTagger,
    StructuredSVM,
    StructuredSVMCV,
    load,
    minimize,
    return_on_interrupt,
    structured_path,
)
from maxmargin.core import SquaredNorm
from maxmargin.core.sampling import Draw
from maxmargin.kernels import RBF as Gaussian
from maxmargin.kernels import KernelRows, Polynomial
from maxmargin.risks import TaskRisk
from maxmargin.risks.kernels.row_layout import RowLayout
from maxmargin.risks.kernels.sampled_structured import GrowingStructuredRisk, SampledStructuredRisk
from maxmargin.solvers import SampledCuts
from maxmargin.tasks import Chain, Enumerable, Graph, GraphLabeling
from maxmargin.testing import structured_objective
from maxmargin.testing.reference import dense

RBF = {"kernel": "rbf", "gamma": 0.5}


def chains(n=15, length=3, seed=0):
    rng = np.random.default_rng(seed)
    Y = [rng.integers(0, 2, length) for _ in range(n)]
    return [rng.normal(size=(length, 2)) for _ in Y], Y


def cases():
    X, Y = chains()
    yield "chain", Chain(2), X, Y
    yield "python", TinyChain(), X, [tuple(y) for y in Y]
    yield "graph", GraphLabeling(2), [Graph(x, [[0, 1], [1, 2]]) for x in X], Y
    yield "candidates", Enumerable(), X, [int(y.sum()) % 3 for y in Y]


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case[0])
@pytest.mark.parametrize("rescaling", first(1, ["slack", "margin"]))
def test_with_all_examples_drawn_it_is_exact(case, rescaling):
    name, task, X, Y = case
    if name == "graph" and rescaling == "slack":
        pytest.skip("slack rescaling of graphs may leave a gap")
    exact = StructuredSVM(task, 0.7, tol=1e-6, rescaling=rescaling, **RBF).fit(X, Y)
    drawn = StructuredSVM(
        task, 0.7, tol=1e-4, rescaling=rescaling, kernel_method="sampled", **RBF
    ).fit(X, Y)
    assert exact.lower_bound_ <= drawn.objective_
    assert drawn.objective_ == pytest.approx(exact.objective_, rel=2e-3)
    assert drawn.certificate_ == "measured"
    assert drawn.stop_reason_ == "sampled"
    assert drawn.lower_bound_ == -np.inf
    assert drawn.gap_ == np.inf
    assert not drawn.converged_
    assert all(record["lower_bound"] == -np.inf for record in drawn.history_)


@pytest.mark.parametrize(("size", "constant"), [(3, False), (8, False), (10, True), (30, True)])
def test_f_is_measured_truly(size, constant):
    """The returned function in features of all rows: its coefficients and norm, computed in another way."""
    X, Y = chains(30)
    method = SampledCuts(size=size, constant_time=constant)
    svm = StructuredSVM(Chain(2), 0.7, tol=1e-2, kernel_method=method, **RBF)
    svm.fit(X, Y)
    exact = StructuredSVM(Chain(2), 0.7, tol=1e-5, **RBF).fit(X, Y)
    assert svm.objective_ >= exact.lower_bound_
    assert svm.objective_ < (2.0 if constant else 1.5) * exact.objective_
    assert (svm.certificate_, svm.stop_reason_) == ("measured", "sampled")
    basis, features = svm.kernel_features_.rows, svm.kernel_features_
    task, inputs = Chain(2), [features(x) for x in X]
    dim = task.setup(inputs, Y)
    loss = structured_objective(task, inputs, Y, svm.coef_, 0.7) - 0.5 * svm.coef_ @ svm.coef_
    V = svm.coef_[: 2 * len(basis)].reshape(-1, 2)
    tail = svm.coef_[2 * len(basis) :]
    square = np.vdot(V, features(basis) @ V) + tail @ tail
    assert dim == len(svm.coef_)
    assert svm.objective_ == pytest.approx(0.5 * square + loss, rel=1e-9)


@pytest.mark.parametrize("memory", [2**29, 0])
def test_planes_have_the_products_of_the_kernels_space(memory):
    """Compared with the explicit features of a degree-2 kernel."""
    X, Y = chains(10)
    rows, ends = np.concatenate(X), np.cumsum([len(x) for x in X])
    kernel = Polynomial(gamma=1.0, coef0=1.0, degree=2)
    s = np.linspace(0.5, 2.0, 10)
    task = Chain(2)
    risk = SampledStructuredRisk(task, X, Y, rows, ends, kernel, sample_weight=s, memory=memory)
    root = np.sqrt(2.0)
    phi = [
        np.column_stack(
            [np.ones(len(x)), root * x, x**2, root * x[:, 0] * x[:, 1]]
        )
        for x in X
    ]  # fmt: skip
    plain = Chain(2)
    other = TaskRisk(plain, phi, Y, plain.setup(phi, Y), sample_weight=s)
    rng = np.random.default_rng(1)
    v = np.zeros(other.dim)  # the same point in explicit features
    w = np.zeros(risk.dim)
    for _ in range(4):
        here, there = risk.evaluate(w), other.evaluate(v)
        assert here.value == pytest.approx(there.value, rel=1e-10)
        terms = here.terms(here)
        answers = other.examples.oracle(v, 0, 10)
        planes = [
            dense(other.examples.cut(answers, s[i] * (np.arange(10) == i)).plane) for i in range(10)
        ]
        assert terms.contributes[[np.linalg.norm(p) > 1e-9 for p in planes]].all()
        assert terms.pulls == pytest.approx([p @ v for p in planes], abs=1e-9)
        assert terms.value == pytest.approx(there.value, rel=1e-10)
        draw = Draw(np.array([1, 4, 4]), np.array([1.0, 2.0, 0.5]))
        cut = here.sampled_cut(draw, True)
        step = rng.normal()
        plane = planes[1] + 2.5 * planes[4]
        square = risk.regularizer.inner(cut.plane.to_dense(), cut.plane.to_dense())
        assert square == pytest.approx(plane @ plane, rel=1e-9)
        w = w + step * cut.plane.to_dense()
        v = v + step * plane
        assert risk.regularizer.value(w) == pytest.approx(SquaredNorm().value(v), rel=1e-9)


def test_seeded_and_reproducible():
    X, Y = chains(30)
    params = {"kernel_method": SampledCuts(size=5), "tol": 1e-2, **RBF}
    a, b = (StructuredSVM(Chain(2), random_state=1, **params).fit(X, Y) for _ in range(2))
    c = StructuredSVM(Chain(2), random_state=2, **params).fit(X, Y)
    assert np.array_equal(a.coef_, b.coef_)
    assert a.objective_ == b.objective_
    assert a.objective_ != c.objective_


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case[0])
@pytest.mark.parametrize("rescaling", first(1, ["margin", "slack"]))
@pytest.mark.parametrize("constant", [False, True])
def test_points_and_planes_are_those_of_the_whole_kernel_matrix(case, rescaling, constant):
    """The same draws, against features with the inner products of all pairs of rows."""
    name, task, X, Y = copy.deepcopy(case)
    if name == "graph" and rescaling == "slack":
        pytest.skip("slack rescaling of graphs may leave a gap")
    parts = [task.kernel_inputs(x) for x in X]
    rows, ends, n = np.concatenate(parts), np.cumsum([len(part) for part in parts]), len(X)
    s, kernel = np.linspace(0.5, 2.0, n), Gaussian(gamma=0.5)
    kind = GrowingStructuredRisk if constant else SampledStructuredRisk
    risk = kind(task, X, Y, rows, ends, kernel, rescaling=rescaling, sample_weight=s)
    every = KernelRows(kernel, rows, np.float64)
    values, vectors = np.linalg.eigh(every.block(every))
    features = np.split(vectors * np.sqrt(np.maximum(values, 0.0)), ends[:-1])
    inputs = [task.with_kernel_inputs(x, own) for x, own in zip(X, features, strict=True)]
    dim = task.setup(inputs, Y)
    other = TaskRisk(task, inputs, Y, dim, rescaling=rescaling, sample_weight=s)
    rng, w, v = np.random.default_rng(2), np.zeros(risk.dim), np.zeros(dim)
    for seed in range(4):
        ids, share = np.arange(n), s
        if constant:
            drawn = risk.extend(6, seed, 1)
            ids = np.sort(np.random.default_rng(seed).choice(n, 6, replace=False, shuffle=False))
            share = s[ids] * n / 6
            assert drawn.tolist() == list(range(6))
        here, answers = risk.evaluate(w), other.examples.oracle(v, 0, n)
        assert here.values == pytest.approx(answers.values[ids], rel=1e-8)
        assert here.value == pytest.approx(share @ answers.values[ids], rel=1e-8)
        assert (here.upper == np.inf) == constant
        planes = [
            share[k] * dense(other.examples.cut(answers, 1.0 * (np.arange(n) == i)).plane)
            for k, i in enumerate(ids)
        ]
        terms = here.terms(here, np.arange(6) if constant else None)
        assert terms.contributes[[np.linalg.norm(p) > 1e-7 for p in planes]].all()
        chosen = np.array([1, 4, 4]) if seed else np.arange(len(ids))
        draw = Draw(chosen, np.ones(len(chosen)))
        cut = here.sampled_cut(draw, not constant)
        assert cut.offset == pytest.approx(share @ answers.losses[ids], rel=1e-9)
        step = rng.normal()
        w = w + step * cut.plane.to_dense()
        v = v + step * sum(planes[k] for k in chosen)
        assert risk.regularizer.value(w) == pytest.approx(SquaredNorm().value(v), rel=1e-7)
    assert risk.measure(w) == pytest.approx(other.evaluate(v).value, rel=1e-8)
    ready, V, used = risk.model(w)
    for i, x in enumerate(X):  # the model that is kept predicts from kernel values of its own rows
        own = every.take(slice(int(ends[i]) - len(parts[i]), int(ends[i]))).block(every.take(used))
        y = Y[(i + 1) % n] if name != "candidates" else 0
        score = ready.joint_feature(ready.with_kernel_inputs(x, own), y)
        assert dense(score) @ V == pytest.approx(
            dense(task.joint_feature(inputs[i], y)) @ v, rel=1e-7
        )


@pytest.mark.parametrize("constant", [False, True])
def test_time_and_memory_are_not_quadratic(constant):
    counts, peaks = [], []
    for n in (200, 800):
        X, Y = chains(n)
        rows, ends = np.concatenate(X), np.cumsum([len(x) for x in X])
        tracemalloc.start()
        kind = GrowingStructuredRisk if constant else SampledStructuredRisk
        risk = kind(Chain(2), X, Y, rows, ends, Gaussian(0.5), memory=0)
        solver = SampledCuts(size=10, constant_time=constant)
        minimize(risk, 1.0 / n, solver=solver, regularizer=risk.regularizer, max_iter=4)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        counts.append(risk.kernel_values)
        assert risk.kernel_values <= 5 * 30 * (150 if constant else 3 * n)
    assert peaks[1] < 5.0 * peaks[0]
    assert peaks[1] < 0.5 * 8 * 2400**2
    if constant:
        assert counts[1] < 1.5 * counts[0]
    else:
        assert counts[1] < 5.0 * counts[0]


def test_without_the_last_pass_constant_time_knows_no_value():
    X, Y = chains(30)
    method = SampledCuts(size=10, constant_time=True, measure=False)
    svm = StructuredSVM(Chain(2), tol=0.1, kernel_method=method, **RBF).fit(X, Y)
    assert np.isnan(svm.objective_)
    measured = StructuredSVM(Chain(2), tol=0.1, kernel_method=SampledCuts(10, True), **RBF)
    measured.fit(X, Y)
    assert np.array_equal(measured.coef_, svm.coef_)
    assert measured.kernel_values_ > svm.kernel_values_


def test_a_plain_sample_is_held_where_points_do_not_move_along_lines(monkeypatch):
    extend, held = GrowingStructuredRisk.extend, []
    monkeypatch.setattr(
        GrowingStructuredRisk, "extend", lambda *a: held.append(a[-1]) or extend(*a)
    )
    method = SampledCuts(size=10, constant_time=True)
    StructuredSVM(Chain(2), tol=0.1, kernel_method=method, **RBF).fit(*chains(30))
    assert set(held) == {1}


@pytest.mark.parametrize("when", [0, 2])
def test_an_interrupt_between_samples_leaves_a_measured_point(monkeypatch, when):
    X, Y = chains(30)
    exchange, calls = GrowingStructuredRisk._exchange, []

    def interrupted(*args):
        calls.append(args)
        if len(calls) == when + 1:
            raise KeyboardInterrupt
        exchange(*args)

    monkeypatch.setattr(GrowingStructuredRisk, "_exchange", interrupted)
    svm = StructuredSVM(Chain(2), 0.7, kernel_method=SampledCuts(10, True), **RBF)
    with return_on_interrupt():
        svm.fit(X, Y)
    assert svm.stop_reason_ == "interrupted"
    assert np.isfinite(svm.objective_)
    if when == 0:
        assert svm.objective_ == pytest.approx(0.7 * 90)


def test_where_a_task_keeps_the_weights_of_rows():
    X, Y = chains(5)
    counts = np.array([3] * 5)
    _, dim, table, rest = RowLayout(Chain(3), X, Y, counts).at(4)  # the label 2 never occurs
    assert (table == np.arange(12).reshape(4, 3)[:, table[0].argsort().argsort()]).all()
    assert rest.tolist() == list(range(12, dim))
    _, dim, table, rest = RowLayout(TinyChain(), X, [tuple(y) for y in Y], counts).at(4)
    assert sorted(table.T.tolist()) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert rest.tolist() == [8, 9, 10, 11]

    class Wider(TinyChain):
        """A label that no output has."""

        def setup(self, X, Y):
            super().setup(X, Y)
            self.n_labels += 1
            self.dim = self.n_labels * (self.n_features + self.n_labels)
            return self.dim

        def outputs(self, x):
            return (y for y in super().outputs(x) if max(y) < self.n_labels - 1)

    with pytest.raises(
        NotImplementedError, match=r"Wider must define project_weights\(w, factor\)"
    ):
        RowLayout(Wider(), X, [tuple(y) for y in Y], counts)


def test_kernel_rows_computed_anew_are_the_same(monkeypatch):
    X, Y = chains(30)
    params = {"kernel_method": SampledCuts(size=5), "tol": 1e-2, **RBF}
    kept = StructuredSVM(Chain(2), **params).fit(X, Y)
    init = SampledStructuredRisk.__init__

    def without_memory(*args, **options):
        init(*args, **{**options, "memory": 0})

    monkeypatch.setattr(SampledStructuredRisk, "__init__", without_memory)
    anew = StructuredSVM(Chain(2), **params).fit(X, Y)
    assert anew.objective_ == pytest.approx(kept.objective_, rel=1e-9)
    assert anew.kernel_values_ > kept.kernel_values_


def test_taggers_files_and_rows_that_are_not_needed(tmp_path):
    X, Y = chains(40)
    tagger = SequenceTagger(0.3, tol=0.05, kernel_method=SampledCuts(size=3), **RBF).fit(X, Y)
    svm = StructuredSVM(Chain(2), 0.3, tol=0.05, kernel_method=SampledCuts(size=3), **RBF)
    svm.fit(X, Y)
    assert tagger.objective_ == pytest.approx(svm.objective_, rel=1e-12)
    assert tagger.certificate_ == "measured"
    assert len(tagger.expansion_.rows) < 120
    assert tagger.coef_.shape == (2, len(tagger.expansion_.rows))
    assert [list(y) for y in svm.predict(X)] == tagger.predict(X)
    tagger.save(tmp_path / "tagger")
    again = load(tmp_path / "tagger")
    assert again.predict(X) == tagger.predict(X)
    assert again.kernel_values_ == tagger.kernel_values_


def test_limits_stop_with_the_best_point():
    X, Y = chains(30)
    svm = StructuredSVM(Chain(2), 5.0, tol=1e-6, kernel_method="sampled", max_iter=3, **RBF)
    svm.fit(X, Y)
    assert svm.stop_reason_ == "max_iter"
    assert np.isfinite(svm.objective_)


def test_refusals():
    X, Y = chains(5)
    for params, word in (
        ({"warm_start": True}, "does not support warm_start"),
        ({"checkpoint": "somewhere"}, "does not support checkpoint"),
        ({"oracle": "expensive"}, "does not support oracle"),
    ):
        params = {"kernel_method": "sampled", **params}
        with pytest.raises(ValueError, match=word):
            StructuredSVM(Chain(2), **RBF, **params).fit(X, Y)
    with pytest.raises(ValueError, match="for paths and cross-validation"):
        structured_path(Chain(2), X, Y, [1.0], kernel_method="sampled", **RBF)
    with pytest.raises(ValueError, match="for paths and cross-validation"):
        StructuredSVMCV(Chain(2), [1.0], cv=2, kernel_method="sampled", **RBF).fit(X, Y)
    with pytest.raises(ValueError, match="does not support warm_start"):
        SequenceTagger(kernel_method="sampled", warm_start=True, **RBF).fit(X, Y)


def test_an_unknown_rescaling_is_an_error():
    X, Y = chains(5)
    for model in (SequenceTagger(), StructuredSVM(Chain(2))):
        model.set_params(rescaling="wrong", kernel_method="sampled", **RBF)
        with pytest.raises(ValueError, match="rescaling='wrong'"):
            model.fit(X, Y)
