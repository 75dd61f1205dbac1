"""Streams that are seen once: a bound over all rows seen, always; memory that does not grow; verify."""

import pickle
import subprocess
import sys
import textwrap
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from tests.persistence.test_damaged_files import joined, parts

import maxmargin
from maxmargin import LinearSVC, LinearSVR, minimize
from maxmargin.duals.one_pass import SupportStream
from maxmargin.files.codec import Decoder, dumps
from maxmargin.losses import CrammerSinger, EpsilonInsensitive, Hinge, SquaredHinge
from maxmargin.persistence import ModelFileError
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import RelativeGap

LOSSES = {
    "hinge": Hinge(),
    "squared": SquaredHinge(),
    "tube": EpsilonInsensitive(0.2),
    "classes": CrammerSinger(np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 0.5], [3.0, 1.0, 0.0]])),
}


def rows(kind, rng, n, d=4):
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.8)
    scores = X @ rng.normal(size=(d, 3)) + rng.normal(size=(n, 3))
    if kind == "classes":
        return X, scores.argmax(axis=1)
    if kind == "tube":
        return X, scores[:, 0]
    return X, np.where(scores[:, 0] > 0, 1.0, -1.0)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(sorted(LOSSES)),
    keep=st.integers(1, 12),
    n_batches=st.integers(1, 6),
    log_c=st.floats(-2.0, 1.0),
)
def test_the_bound_over_all_rows_seen_is_true_and_never_falls(seed, kind, keep, n_batches, log_c):
    rng, C = np.random.default_rng(seed), float(10.0**log_c)
    stream = SupportStream(LOSSES[kind], 4, C, 1.5, keep)
    seen, last = [], 0.0
    for _ in range(n_batches):
        X, y = rows(kind, rng, int(rng.integers(1, 40)))
        weight = rng.uniform(0.2, 2.0, len(X)) * (rng.random(len(X)) > 0.2)
        seen.append((X, y, weight))
        data = ScoreRisk(X, y, LOSSES[kind]).rows.design
        stream.feed(data, y, weight, rng)
        D = stream.dual_value()
        assert stream.n_support <= keep
        assert last * (1 - 1e-9) - 1e-9 <= D
        last = D
        X, y, weight = (np.concatenate([batch[k] for batch in seen]) for k in range(3))
        assert stream.n_seen == len(X)
        assert stream.weight_seen == pytest.approx(weight.sum())
        if not weight.any():
            continue
        risk = ScoreRisk(X, y, LOSSES[kind], sample_weight=weight, intercept=1.5)
        best = minimize(risk, C, stopping=RelativeGap(1e-6))
        assert best.converged
        assert best.objective * (1 + 1e-7) + 1e-9 >= D
        at = 0.5 * stream.w @ stream.w + C * risk.evaluate(stream.w.copy()).value
        assert at >= best.lower_bound * (1 - 1e-9)


@pytest.mark.parametrize("kind", sorted(LOSSES))
def test_one_pass_comes_near_the_optimum_with_few_rows_kept(kind):
    rng, C = np.random.default_rng(0), 0.02
    X, y = rows(kind, rng, 20_000)
    stream = SupportStream(LOSSES[kind], 4, C, 1.0, 300)
    for k in range(0, len(X), 1000):
        part = slice(k, k + 1000)
        stream.feed(
            ScoreRisk(X[part], y[part], LOSSES[kind]).rows.design, y[part], np.ones(1000), rng
        )
    assert stream.n_folded > 1000
    risk = ScoreRisk(X, y, LOSSES[kind], intercept=1.0)
    best = minimize(risk, C, stopping=RelativeGap(1e-4)).objective
    at = 0.5 * stream.w @ stream.w + C * risk.evaluate(stream.w.copy()).value
    assert at <= 1.03 * best
    assert 0.95 * best <= stream.dual_value() <= best


def batches(n_batches=6, size=300, seed=0, labels=("no", "yes")):
    rng, w = np.random.default_rng(seed), np.arange(1.0, 6.0)
    for _ in range(n_batches):
        X = rng.normal(size=(size, 5))
        scores = X @ w[:, None] * np.linspace(-1, 1, len(labels)) + 3.0 * rng.normal(
            size=(size, len(labels))
        )
        yield X, np.array(labels)[scores.argmax(axis=1)], rng.uniform(0.5, 1.5, size)


@pytest.mark.parametrize(
    "params",
    [
        {"multi_class": "crammer_singer"},
        {},
        {"loss": "hinge"},
        {"multi_class": "crammer_singer", "fit_intercept": False, "class_weight": {"a": 2.0}},
        {"class_weight": {"a": 2.0}},
    ],
    ids=["joint", "squared", "ovr", "weights", "ovr weights"],
)
def test_partial_fit_and_verify(params):
    labels = ("a", "b", "c")
    svc = LinearSVC(C=0.05, max_support=60, **params)
    for X, y, weight in batches(labels=labels):
        svc.partial_fit(X, y, classes=labels, sample_weight=weight)
        assert (svc.objective_, svc.gap_, svc.converged_) == (np.inf, np.inf, False)
        assert (svc.certificate_, svc.stop_reason_) == ("lower_only", "partial")
    assert svc.n_seen_ == 1800
    assert svc.n_iter_ == len(svc.history_) == 6
    X, y, weight = (np.concatenate(part) for part in zip(*batches(labels=labels), strict=True))
    best = LinearSVC(C=0.05, tol=1e-5, **params).fit(X, y, weight)
    assert svc.lower_bound_ <= best.objective_
    lower = svc.lower_bound_
    for data in ((list(batches(labels=labels)),), (X, y, weight)):
        svc.verify(*data)
        assert svc.certificate_ == "exact"
        assert svc.lower_bound_ == pytest.approx(lower, rel=1e-12)
        assert best.lower_bound_ <= svc.objective_ <= 1.1 * best.objective_
        assert svc.gap_ == pytest.approx(1 - svc.lower_bound_ / svc.objective_)
    assert svc.score(X, y) > best.score(X, y) - 0.03
    svc.partial_fit(X[:5], y[:5])
    assert svc.certificate_ == "lower_only"


def test_rows_that_are_not_those_of_the_stream_are_refused():
    svc = LinearSVC(max_support=50, loss="hinge")
    for X, y, weight in batches():
        svc.partial_fit(X, y, ["no", "yes"], weight)
    with pytest.raises(ValueError, match="1500 rows of total weight"):
        svc.verify(list(batches(5)))
    with pytest.raises(ValueError, match="partial_fit saw 1800"):
        svc.verify((X, y) for X, y, _ in batches())  # weights forgotten
    assert svc.certificate_ == "lower_only"
    with pytest.raises(ValueError, match="set it back"):
        svc.set_params(C=2.0).verify(list(batches()))
    with pytest.raises(ValueError, match="tuples"):
        svc.set_params(C=1.0).verify([1, 2])


def test_errors_say_what_to_do():
    X, y, _ = next(batches())
    with pytest.raises(ValueError, match="classes must be passed"):
        LinearSVC(loss="hinge").partial_fit(X, y)
    with pytest.raises(ValueError, match="two classes"):
        LinearSVC(loss="hinge").partial_fit(X, y, classes=["no"])
    with pytest.raises(ValueError, match="'maybe', which is not one of the classes"):
        LinearSVC(loss="hinge").partial_fit(X, np.where(X[:, 0] > 0, "maybe", "no"), ["no", "yes"])
    with pytest.raises(ValueError, match="as a dict"):
        LinearSVC(class_weight="balanced").partial_fit(X, y, ["no", "yes"])
    with pytest.raises(AttributeError, match=r"partial_fit.*use fit"):
        LinearSVC(penalize_intercept=False).partial_fit(X, y, ["no", "yes"])
    with pytest.raises(ValueError, match="nonnegative=: use fit"):
        LinearSVC(nonnegative=[0]).partial_fit(X, y, ["no", "yes"])
    svc = LinearSVC(loss="hinge").partial_fit(X, y, ["no", "yes"])
    with pytest.raises(ValueError, match="not those of the first call"):
        svc.partial_fit(X, y, ["no", "never"])
    with pytest.raises(ValueError, match="changed in the middle"):
        svc.set_params(loss="squared_hinge").partial_fit(X, y)
    with pytest.raises(ValueError, match="features"):
        svc.set_params(loss="hinge").partial_fit(X[:, :3], y)
    with pytest.raises(NotFittedError, match="there was none"):
        LinearSVC(loss="hinge").verify(X, y)


def test_another_C_in_the_middle_is_a_bound_for_that_C():
    svc, seen = LinearSVC(C=0.1, max_support=40, loss="hinge"), list(batches())
    for k, (X, y, weight) in enumerate(seen):
        svc.set_params(C=0.1 if k < 3 else 0.02).partial_fit(X, y, ["no", "yes"], weight)
    X, y, weight = (np.concatenate(part) for part in zip(*seen, strict=True))
    best = LinearSVC(C=0.02, tol=1e-5, loss="hinge").fit(X, y, weight)
    assert 0.5 * best.objective_ < svc.lower_bound_ <= best.objective_
    assert svc.verify(X, y, weight).objective_ >= best.lower_bound_


def test_fit_ends_a_stream_and_clones_have_none():
    X, y, _ = next(batches())
    svc = LinearSVC(C=0.1, loss="hinge").partial_fit(X, y, ["no", "yes"])
    assert not hasattr(clone(svc), "_streams")
    svc.fit(X, y)
    assert svc.certificate_ == "exact"
    svc.partial_fit(X, y, ["no", "yes"])
    assert svc.n_seen_ == len(X)


def test_sparse_and_dense_batches_and_designs_may_be_mixed():
    svc, other = (LinearSVC(C=0.1, max_support=40, loss="hinge") for _ in range(2))
    for k, (X, y, weight) in enumerate(batches()):
        svc.partial_fit(X, y, ["no", "yes"], weight)
        mixed = [X, sp.csr_matrix(X), maxmargin.data.design.DenseDesign(X)][k % 3]
        other.partial_fit(mixed, y, ["no", "yes"], weight)
    assert other.lower_bound_ == pytest.approx(svc.lower_bound_, rel=1e-9)


@pytest.mark.parametrize("labels", [("no", "yes"), ("a", "b", "c")])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("way", ["pickle", "file"])
def test_a_stream_that_was_put_away_goes_on_as_if_nothing_had_happened(
    labels, sparse, way, tmp_path
):
    svc, other = (LinearSVC(C=0.1, max_support=40, loss="hinge") for _ in range(2))
    for X, y, weight in batches(labels=labels):
        data = sp.csr_matrix(X) if sparse else X
        svc.partial_fit(data, y, labels, weight)
        other.partial_fit(data, y, labels, weight)
        if way == "pickle":
            other = pickle.loads(pickle.dumps(other))
        else:
            other.save(tmp_path / "model.safetensors")
            other = maxmargin.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(other.coef_, svc.coef_)
    assert (other.lower_bound_, other.n_seen_) == (svc.lower_bound_, svc.n_seen_)
    assert other.verify(list(batches(labels=labels))).objective_ == pytest.approx(
        svc.verify(list(batches(labels=labels))).objective_
    )


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_regression(loss, tmp_path):
    rng, w = np.random.default_rng(0), np.arange(1.0, 5.0)
    seen = []
    params = {"C": 0.05, "epsilon": 0.3, "loss": loss}
    svr = LinearSVR(max_support=60, **params)
    for _ in range(6):
        X = rng.normal(size=(400, 4))
        seen.append((X, X @ w + rng.normal(size=400), rng.uniform(0.5, 1.5, 400)))
        svr.partial_fit(*seen[-1])
        svr = maxmargin.load(
            svr.save(tmp_path / "svr.safetensors") and tmp_path / "svr.safetensors"
        )
    X, y, weight = (np.concatenate(part) for part in zip(*seen, strict=True))
    best = LinearSVR(tol=1e-5, **params).fit(X, y, weight)
    assert 0.9 * best.objective_ <= svr.lower_bound_ <= best.objective_
    assert best.lower_bound_ <= svr.verify(seen).objective_ <= 1.05 * best.objective_
    assert svr.score(X, y) > best.score(X, y) - 0.01


def test_memory_does_not_grow_with_the_stream():
    code = """
    import resource
    import numpy as np
    from maxmargin import LinearSVC

    def stream(rng):
        w = rng.normal(size=50)
        while True:
            X = rng.normal(size=(2000, 50))
            yield X, np.where(X @ w + 5.0 * rng.normal(size=2000) > 0, 1, -1)

    svc, peaks = LinearSVC(C=0.01, max_support=500), []
    for k, (X, y) in zip(range(120), stream(np.random.default_rng(0))):
        svc.partial_fit(X, y, classes=[-1, 1])
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert svc.n_seen_ == 240_000 and svc.n_support_ <= 500
    print(peaks[-1] - peaks[40])
    """
    out = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert int(out.stdout) < 4_000  # kB; 160,000 more rows are 64 MB


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("indices", lambda a: a + 100, "matrix"),
        ("alpha", lambda a: a[:-1], "shape"),
        ("weight", lambda a: a * np.nan, "not finite"),
        ("y", lambda a: 3.0 * a, "labels"),
    ],
)
def test_a_damaged_stream_is_refused(name, change, words, tmp_path):
    svc = LinearSVC(C=0.1, max_support=40, loss="hinge")
    for X, y, weight in batches(2):
        svc.partial_fit(sp.csr_matrix(X), y, ["no", "yes"], weight)
    path = tmp_path / "model.safetensors"
    svc.save(path)
    header, tensors = parts(path.read_bytes())
    rows = header["fitted"]["_streams"][0]["$stream"]["rows"]
    holder = rows["X"]["$matrix"] if name == "indices" else rows
    tensors["changed"] = np.ascontiguousarray(
        change(Decoder(tensors).decode(dumps(holder[name]), name))
    )
    holder[name] = {"$array": "changed"}
    path.write_bytes(joined(header, tensors))
    with pytest.raises(ModelFileError, match=words):
        maxmargin.load(path)


def test_rows_on_disk_are_a_stream_too(tmp_path):
    parts = list(batches())
    data = maxmargin.data.write(tmp_path / "rows", ((X, y) for X, y, _ in parts))
    svc = LinearSVC(C=0.1, max_support=40, loss="hinge").partial_fit(data, classes=["no", "yes"])
    assert svc.n_seen_ == 1800
    svc.verify(data)
    best = LinearSVC(C=0.1, tol=1e-5, loss="hinge").fit(data)
    assert svc.lower_bound_ <= best.objective_
    assert best.lower_bound_ <= svc.objective_ <= 1.1 * best.objective_


@pytest.mark.parametrize("n", [2, 40])
def test_verify_accounts_for_rounding(n):
    rng = np.random.default_rng(8)
    X, y = np.diag([2e9, 6e5]), np.array([0, 1])
    if n > 2:
        X = rng.normal(size=(n, 2)) + 1e13 * np.ones(2) * rng.choice([-1, 1], (n, 1))
        y = (X[:, 0] > 0).astype(int)
    svc = LinearSVC(loss="hinge").partial_fit(X, y, classes=[0, 1]).verify(X, y)
    w = [Fraction(v) for v in [*svc.coef_[0], svc.intercept_[0]]]
    F = sum(v * v for v in w) / 2
    for x, sign in zip(X.tolist(), 2 * y - 1, strict=True):
        score = sum(Fraction(a) * b for a, b in zip([*x, 1.0], w, strict=True))
        F += max(Fraction(0), 1 - int(sign) * score)
    assert float(F) * (1 - 1e-12) <= svc.objective_ <= float(F) * 1.1
