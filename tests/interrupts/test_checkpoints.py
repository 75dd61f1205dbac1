"""Checkpoints: fits that go on, files that are refused, and what a checkpoint must not change."""

import json
import pickle
import shutil
import signal
import threading
import time
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file
from sklearn.base import clone
from tests.ctrl_c import interrupted
from tests.tiny_tasks import TinyMulticlass

import maxmargin
from maxmargin import (
    Checkpoint,
    CheckpointError,
    GaussianPrior,
    GraphLabeler,
    LinearSVC,
    LinearSVR,
    MeasureSVC,
    RankSVM,
    SequenceTagger,
    StructuredSVM,
    minimize,
    structured_path,
    svc_path,
)
from maxmargin.checkpoints import UNKNOWN, Outputs, read_file, write_file
from maxmargin.files import container
from maxmargin.losses import Hinge
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import CuttingPlane, DualCoordinate, Newton, RelativeGap
from maxmargin.solvers import certificate as ending
from maxmargin.solvers import checkpointing as recorder
from maxmargin.solvers.requirements import Needs
from maxmargin.tasks import Enumerable, Graph
from maxmargin.testing import binary_objective

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 6))
Y = (X[:, :3] + RNG.normal(size=(300, 3))).argmax(axis=1)
BINARY = np.where(Y > 0, 1, -1)
CHAINS = [RNG.normal(size=(4, 3)) for _ in range(40)]
LABELS = [(s + RNG.normal(size=s.shape)).argmax(axis=1) for s in CHAINS]
GRAPHS = [Graph(RNG.normal(size=(5, 2)), np.array([[0, 1], [1, 2], [2, 3]])) for _ in range(20)]
NODES = [(g.features[:, 0] + RNG.normal(size=5) > 0).astype(int) for g in GRAPHS]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.checkpoint"


def every(path, iterations=1):
    return Checkpoint(path, seconds=None, iterations=iterations)


class Copies:
    """Keeps the checkpoint of every iteration, as a process that is killed there would leave it."""

    def __init__(self, path):
        self.path = path

    def __call__(self, record):
        if record.iteration > 1:  # it is written after the callbacks
            shutil.copy(self.path, self.of(record.iteration - 1))

    def of(self, iteration):
        return self.path.with_name(f"{iteration}.checkpoint")


# -- fits that go on -------------------------------------------------------------------------------

PLANES = CuttingPlane()
FEW_ROWS = CuttingPlane(space="rows", max_planes=5)
FITS = {
    "planes": (LinearSVC(tol=1e-6, solver=PLANES, loss="hinge"), X, BINARY),
    "rows": (LinearSVC(tol=1e-3, solver=CuttingPlane(space="rows"), loss="hinge"), X, BINARY),
    "rows, few planes": (LinearSVC(tol=1e-2, solver=FEW_ROWS, loss="hinge"), X, BINARY),
    "few planes": (LinearSVC(tol=1e-3, solver=CuttingPlane(max_planes=5), loss="hinge"), X, BINARY),
    "free intercept": (
        LinearSVC(tol=1e-4, solver=PLANES, penalize_intercept=False, loss="hinge"),
        X,
        BINARY,
    ),
    "signs": (LinearSVC(tol=1e-5, solver=PLANES, nonnegative=[0, 1], loss="hinge"), X, BINARY),
    "prior": (LinearSVC(tol=1e-4, prior=GaussianPrior(np.ones(6)), loss="hinge"), X, BINARY),
    "coordinate": (LinearSVC(C=5, tol=1e-3, solver=DualCoordinate(), loss="hinge"), X, BINARY),
    "stages": (LinearSVC(C=100, tol=1e-2, solver=DualCoordinate(), loss="hinge"), X, BINARY),
    "blocks": (
        LinearSVC(C=100, tol=1e-2, solver=DualCoordinate(blocks=3, rounds=2), loss="hinge"),
        X,
        BINARY,
    ),
    "classes": (LinearSVC(tol=1e-3, solver=DualCoordinate(), multi_class="crammer_singer"), X, Y),
    "stream": (LinearSVC(tol=1e-2, solver=DualCoordinate(max_cached=50), loss="hinge"), X, BINARY),
    "newton": (LinearSVC(tol=1e-6, solver=Newton(), loss="hinge"), X, BINARY),
    "smooth": (LinearSVC(tol=1e-9, loss="squared_hinge", solver=Newton()), X, BINARY),
    "one against the rest": (LinearSVC(tol=1e-5, multi_class="ovr", loss="hinge"), X, Y),
    "sparse": (LinearSVC(tol=1e-5, multi_class="crammer_singer"), sp.csr_matrix(X), Y),
    "regression": (LinearSVR(tol=1e-4), X, X[:, 0] + RNG.normal(size=300)),
    "measure": (MeasureSVC("f1", tol=1e-3), X, BINARY),
    "ranking": (RankSVM(tol=1e-3), X, Y.astype(float)),
    "chains by planes": (SequenceTagger(1.0, tol=1e-2, solver=PLANES), CHAINS, LABELS),
}
SETS = {
    "chains": (SequenceTagger(1.0, tol=1e-4), CHAINS, LABELS),
    "chains, batch": (
        SequenceTagger(1.0, tol=1e-3, solver=DualCoordinate(batch_size="all")),
        CHAINS,
        LABELS,
    ),
    "slack": (SequenceTagger(1.0, tol=1e-2, rescaling="slack"), CHAINS[:15], LABELS[:15]),
    "center": (
        StructuredSVM(TinyMulticlass(), tol=1e-3, prior=GaussianPrior(np.full(9, 0.1))),
        [x[:3] for x in X[:40]],
        [int(k) for k in Y[:40]],
    ),
    "plain": (StructuredSVM(TinyMulticlass(), tol=1e-4), list(X[:50]), [int(k) for k in Y[:50]]),
    "expensive": (
        StructuredSVM(TinyMulticlass(), tol=1e-3, oracle="expensive"),
        list(X[:40]),
        [int(k) for k in Y[:40]],
    ),
    "signed": (
        StructuredSVM(TinyMulticlass(), tol=1e-3, nonnegative=[0, 1]),
        list(X[:40]),
        [int(k) for k in Y[:40]],
    ),
    "graphs": (GraphLabeler(tol=1e-3), GRAPHS, NODES),
    "candidates": (
        StructuredSVM(Enumerable(), tol=1e-4),
        [RNG.normal(size=(4, 3)) for _ in range(30)],
        [int(RNG.integers(4)) for _ in range(30)],
    ),
}


def history(estimator):
    return [(r["objective"], r["lower_bound"], r["n_cuts"]) for r in estimator.history_]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FITS, *SETS])
def test_a_fit_goes_on_where_it_was(name, path):
    estimator, *data = (FITS | SETS)[name]
    estimator = estimator.set_params(checkpoint=None, callbacks=None)
    fresh = clone(estimator).fit(*data)
    copies = Copies(path)
    watched = clone(estimator).set_params(checkpoint=every(path), callbacks=[copies])
    watched.fit(*data)
    # writing changes nothing
    assert history(watched) == history(fresh)
    assert (watched.objective_, watched.lower_bound_) == (fresh.objective_, fresh.lower_bound_)
    lengths = [record["iteration"] for record in fresh.history_]
    if lengths == list(range(1, len(lengths) + 1)) and len(lengths) > 1:
        middle = max(1, len(lengths) // 2)
        resumed = clone(estimator).fit(*data, resume_from=copies.of(middle))
        assert history(resumed)[:middle] == history(fresh)[:middle]
        assert [r["iteration"] for r in resumed.history_] == list(range(1, resumed.n_iter_ + 1))
        assert resumed.lower_bound_ >= fresh.history_[middle - 1]["lower_bound"] * (1 - 1e-12)
        assert resumed.objective_ <= fresh.history_[middle - 1]["objective"] * (1 + 1e-12)
        assert resumed.converged_
        assert resumed.lower_bound_ <= fresh.objective_ * (1 + 1e-12)
        assert fresh.lower_bound_ <= resumed.objective_ * (1 + 1e-12)
        if name in SETS:  # working sets hold all there is: the very same fit
            assert history(resumed) == history(fresh)
            assert resumed.objective_ == fresh.objective_
            assert resumed.lower_bound_ == fresh.lower_bound_
    # the last one is that of a fit that is over
    again = clone(estimator).fit(*data, resume_from=path)
    assert history(again) == history(fresh)
    assert again.stop_reason_ == fresh.stop_reason_
    assert again.objective_ == pytest.approx(fresh.objective_, rel=1e-12)
    assert again.lower_bound_ == pytest.approx(fresh.lower_bound_, rel=1e-12)


def test_a_fit_goes_on_before_and_after_another_method_took_over(path):
    """Working sets, then cutting planes, whose bound lags behind the one of the sets for a while."""
    rng = np.random.default_rng(0)
    S = [rng.normal(size=(4, 3)) * [1e-2, 1.0, 1e2] for _ in range(8)]
    labels = [(s + rng.normal(size=s.shape)).argmax(axis=1) for s in S]
    tagger, copies = SequenceTagger(C=1e4, tol=1e-5), Copies(path)
    fresh = clone(tagger).set_params(checkpoint=every(path), callbacks=[copies]).fit(S, labels)
    methods = [record["method"] for record in fresh.history_]
    took_over = methods.index("cutting planes")
    assert set(methods[:took_over]) == {"working sets"}
    assert set(methods[took_over:]) == {"cutting planes"}
    for kept in {1, took_over - 1, took_over, took_over + 1, fresh.n_iter_ - 1}:
        resumed = clone(tagger).fit(S, labels, resume_from=copies.of(kept))
        assert resumed.converged_
        # sets hold all there is, and are left after the same pass
        same = max(kept, took_over)
        assert history(resumed)[:same] == history(fresh)[:same]
        assert [r["method"] for r in resumed.history_].index("cutting planes") == took_over
        # nothing that was proved is lost
        before = fresh.history_[kept - 1]
        assert resumed.history_[kept]["lower_bound"] >= before["lower_bound"] * (1 - 1e-12)
        assert resumed.lower_bound_ <= fresh.objective_ * (1 + 1e-12)


def test_a_smaller_tolerance_and_a_larger_limit_go_on(path):
    svc = LinearSVC(tol=1e-2, solver=CuttingPlane(), checkpoint=every(path), loss="hinge").fit(
        X, BINARY
    )
    first = svc.n_iter_
    assert svc.stop_reason_ == "gap"
    svc.set_params(tol=1e-7, n_jobs=2, verbose=0, random_state=7).fit(X, BINARY, resume_from=path)
    assert svc.gap_ <= 1e-7
    assert svc.n_iter_ > first
    F = binary_objective(svc.coef_[0], svc.intercept_[0], X, BINARY, 1.0)
    assert svc.objective_ == pytest.approx(F, rel=1e-10)
    svc = LinearSVC(tol=1e-7, solver=CuttingPlane(), max_iter=5, checkpoint=path, loss="hinge").fit(
        X, BINARY
    )
    assert (svc.stop_reason_, svc.n_iter_) == ("max_iter", 5)
    svc.fit(X, BINARY, resume_from=path)
    assert (svc.stop_reason_, svc.n_iter_) == ("max_iter", 5)  # the limit counts all iterations
    svc.set_params(max_iter=8, C=np.float32(1.0)).fit(X, BINARY, resume_from=Checkpoint(path))
    assert (svc.stop_reason_, svc.n_iter_) == ("max_iter", 8)


def test_seconds_count_on(path):
    slowly = [lambda record: time.sleep(0.2)]
    svc = LinearSVC(tol=1e-12, solver=CuttingPlane(), max_iter=2, checkpoint=path, loss="hinge")
    svc.set_params(callbacks=slowly).fit(X, BINARY)
    svc.set_params(callbacks=None, max_iter=None, max_seconds=0.3).fit(X, BINARY, resume_from=path)
    assert (svc.stop_reason_, svc.n_iter_) == ("max_seconds", 2)


def test_parts_that_are_over_are_kept(path):
    svc = LinearSVC(tol=1e-4, multi_class="ovr", solver=CuttingPlane(), loss="hinge")
    fresh = clone(svc).fit(X, Y)
    seen = []

    def stop(record):
        seen.append(record)
        return len(seen) == len(fresh.history_) - 2  # in the last part

    stopped = clone(svc).set_params(callbacks=[stop], checkpoint=every(path)).fit(X, Y)
    assert stopped.stop_reason_ == "callback"
    assert len(read_file(path)[1]["parts"]) == 3
    resumed = clone(svc).set_params(checkpoint=every(path)).fit(X, Y, resume_from=path)
    assert resumed.converged_
    assert resumed.gap_ <= 1e-4
    ends = [r["iteration"] for r in resumed.history_].count(1)
    assert ends == 3
    first = next(k for k, r in enumerate(fresh.history_[1:], 1) if r["iteration"] == 1)
    assert history(resumed)[:first] == history(fresh)[:first]  # the first part had nothing to do


@pytest.mark.parametrize("solver", [CuttingPlane(), FEW_ROWS, DualCoordinate(), Newton()])
def test_ctrl_c_leaves_a_checkpoint_of_what_it_found(path, solver):
    def press(record):
        if record.iteration == 4:
            signal.raise_signal(signal.SIGINT)

    svc = LinearSVC(
        C=5.0, tol=1e-9, solver=solver, callbacks=[press], checkpoint=path, loss="hinge"
    )
    assert interrupted(svc.fit, X, BINARY).estimator is svc
    assert svc.stop_reason_ == "interrupted"
    lower, upper = svc.lower_bound_, svc.objective_
    svc.set_params(callbacks=None, tol=1e-3).fit(X, BINARY, resume_from=path)
    assert svc.converged_
    assert svc.n_iter_ >= 4
    assert svc.lower_bound_ >= lower - 1e-12 * abs(lower)
    assert svc.objective_ <= upper * (1 + 1e-12)


@pytest.mark.parametrize("solver", [CuttingPlane(), FEW_ROWS])
def test_ctrl_c_at_any_moment_leaves_a_true_state(path, solver):
    fresh = LinearSVC(C=5.0, tol=1e-6, solver=CuttingPlane(), loss="hinge").fit(X, BINARY)
    rng = np.random.default_rng(0)
    for _ in range(5):
        svc = LinearSVC(C=5.0, tol=1e-14, solver=solver, checkpoint=every(path), loss="hinge")
        timer = threading.Timer(rng.uniform(0.005, 0.05), signal.raise_signal, [signal.SIGINT])
        try:
            timer.start()  # inside: on a busy machine it may be over before it returns
            svc.fit(X, BINARY)
            timer.join()
            time.sleep(0.01)
        except KeyboardInterrupt:
            timer.join()
        if not path.exists():
            continue
        svc.set_params(tol=1e-2).fit(X, BINARY, resume_from=path)
        assert svc.converged_
        assert svc.lower_bound_ <= fresh.objective_ * (1 + 1e-12)


@pytest.mark.parametrize("labels", [BINARY, Y])
def test_ctrl_c_while_the_last_file_is_written_is_heard(path, labels, monkeypatch):
    """The fit is over and nothing is lost, but whoever trains many models wants to stop."""
    monkeypatch.setattr(
        recorder, "write_file", lambda *_: signal.raise_signal(signal.SIGINT) or time.sleep(0.1)
    )
    svc = LinearSVC(
        multi_class="ovr", solver=PLANES, checkpoint=Checkpoint(path, seconds=1e9), loss="hinge"
    )
    interrupted(svc.fit, X, labels)
    assert svc.converged_
    assert svc.stop_reason_ == "interrupted"


def test_ctrl_c_after_the_first_of_several_problems_is_told(monkeypatch):
    confirmed = ending._confirmed

    def press(*args):
        monkeypatch.setattr(ending, "_confirmed", confirmed)
        raise KeyboardInterrupt

    for limit in (None, 2):
        monkeypatch.setattr(ending, "_confirmed", press)
        svc = LinearSVC(multi_class="ovr", solver=PLANES, max_iter=limit, loss="hinge")
        assert interrupted(svc.fit, X, Y).estimator is svc
        assert svc.stop_reason_ == "interrupted"


def test_ctrl_c_in_a_later_problem_is_told():
    """Also if an earlier one was stopped by a limit."""
    seen = []

    def press(record):
        seen.append(record.iteration)
        if len(seen) == 4:
            signal.raise_signal(signal.SIGINT)

    svc = LinearSVC(multi_class="ovr", solver=PLANES, max_iter=2, callbacks=[press], loss="hinge")
    assert interrupted(svc.fit, X, Y).estimator is svc
    assert seen == [1, 2, 1, 2, 1]
    assert svc.stop_reason_ == "interrupted"


class Crash:
    """The process ends in the middle of a pass of an expensive oracle."""

    def __call__(self, record):
        pass

    def on_oracle(self, done, total):
        if done >= 20:
            raise RuntimeError("gone")


def test_a_dear_oracle_is_not_asked_again_for_what_it_said(path, monkeypatch):
    monkeypatch.setattr(recorder, "SHARE", np.inf)  # whatever writing costs
    inputs, outputs = list(X[:40]), [int(k) for k in Y[:40]]
    svm = StructuredSVM(TinyMulticlass(), tol=1e-3, oracle="expensive")
    crashed = clone(svm).set_params(callbacks=[Crash()], checkpoint=Checkpoint(path, seconds=0.0))
    with pytest.raises(RuntimeError, match="gone"):
        crashed.fit(inputs, outputs)
    kept = read_file(path)[1]["parts"][0]
    assert len(kept["history"]["iteration"]) == 0
    assert np.isfinite(kept["memory"]["gaps"]).sum() >= 16
    assert len(kept["memory"]["outputs"]) > 0
    resumed = svm.fit(inputs, outputs, resume_from=path)
    assert resumed.converged_
    assert resumed.history_[0]["iteration"] == 1


@pytest.mark.slow
def test_a_fit_goes_on_with_other_workers(path):
    inputs, outputs = list(X[:50]), [int(k) for k in Y[:50]]
    svm = StructuredSVM(TinyMulticlass(), tol=1e-3, oracle="expensive")
    fresh = clone(svm).fit(inputs, outputs)
    copies = Copies(path)
    clone(svm).set_params(checkpoint=every(path), callbacks=[copies]).fit(inputs, outputs)
    svm.set_params(n_jobs=2, engine="processes").fit(inputs, outputs, resume_from=copies.of(2))
    assert history(svm) == history(fresh)
    assert svm.objective_ == fresh.objective_


class Strange:
    """A solver that keeps something of its own."""

    needs = Needs()

    def run(self, session):
        session.state.memory = "mine"
        session.evaluate(session.state.w)
        session.report(0, 0)


def test_what_cannot_be_written_is_told_after_the_first_iteration(path):
    with pytest.raises(CheckpointError, match="what this solver keeps, a str, cannot be written"):
        LinearSVC(solver=Strange(), checkpoint=path, loss="hinge").fit(X, BINARY)


def test_minimize_by_itself(path):
    risk = ScoreRisk(X, BINARY.astype(float), Hinge())
    rule, about = RelativeGap(1e-6), {"data": "mine"}
    short = minimize(risk, 1.0, stopping=rule, max_iter=4, checkpoint=path, about=about)
    result = minimize(risk, 1.0, stopping=rule, resume_from=path, about=about)
    assert result.converged
    assert [record.iteration for record in result.history[:5]] == [1, 2, 3, 4, 5]
    assert result.history[:4] == short.history
    with pytest.raises(CheckpointError, match="data was 'mine' and is 'other'"):
        minimize(risk, 1.0, stopping=rule, resume_from=path, about={"data": "other"})
    with pytest.raises(CheckpointError, match=r"C was 1\.0 and is 2\.0"):
        minimize(risk, 2.0, stopping=rule, resume_from=path, about=about)
    with pytest.raises(ValueError, match="must be plain values"):
        minimize(risk, 1.0, checkpoint=path, about={"data": X})
    with pytest.raises(TypeError, match="give a str or a path"):
        minimize(risk, 1.0, resume_from=3)
    other = ScoreRisk(X[:-1], BINARY[:-1].astype(float), Hinge())
    with pytest.raises(CheckpointError, match="examples was 300 and is 299"):
        minimize(other, 1.0, stopping=rule, resume_from=path, about=about)


def test_a_data_set_on_disk_is_known_by_its_checksums(path, tmp_path):
    rows = maxmargin.data.write(tmp_path / "a", [(X, BINARY)])
    svc = LinearSVC(tol=1e-5, solver=CuttingPlane(), max_iter=5, checkpoint=path, loss="hinge").fit(
        rows
    )
    again = maxmargin.data.open(tmp_path / "a")
    svc.set_params(max_iter=None).fit(again, resume_from=path)
    assert svc.converged_
    other = maxmargin.data.write(tmp_path / "b", [(X + 1e-9, BINARY)])
    with pytest.raises(CheckpointError, match=r"X was '.*' and is '.*'"):
        svc.fit(other, resume_from=path)


# -- outputs of a user's own -----------------------------------------------------------------------


class Answer:
    """An output that is no plain data."""

    def __init__(self, label):
        self.label = label


class Objects(TinyMulticlass):
    """The same task with outputs of its own kind."""

    def setup(self, X, Y):
        return super().setup(X, [y.label for y in Y])

    def joint_feature(self, x, y):
        return super().joint_feature(x, y.label)

    def loss(self, y, y_hat):
        return super().loss(y.label, y_hat.label)

    def same(self, y_a, y_b):
        return y_a.label == y_b.label  # fails on anything but an Answer

    def outputs(self, x):
        return [Answer(label) for label in super().outputs(x)]


def test_outputs_that_are_not_plain_are_known_again_by_their_planes(path):
    inputs, outputs = list(X[:50]), [Answer(int(k)) for k in Y[:50]]
    copies = Copies(path)
    svm = StructuredSVM(Objects(), tol=1e-4, checkpoint=every(path), callbacks=[copies])
    fresh = clone(svm).fit(inputs, outputs)
    kept = read_file(copies.of(3))[1]["parts"][0]["memory"]
    assert kept["outputs"]
    assert all(output is UNKNOWN for output in kept["outputs"])
    resumed = StructuredSVM(Objects(), tol=1e-4).fit(inputs, outputs, resume_from=copies.of(3))
    assert history(resumed) == history(fresh)  # no plane is held twice


class Unsteady(TinyMulticlass):
    """Features in another order after every setup, as with an order taken from a set."""

    order = 0

    def setup(self, X, Y):
        dim = super().setup(X, Y)
        Unsteady.order += 1
        self.permuted = np.random.default_rng(Unsteady.order).permutation(dim)
        return dim

    def joint_feature(self, x, y):
        return super().joint_feature(x, y)[self.permuted]


class Hidden(Unsteady):
    """One that cannot be hashed."""

    def setup(self, X, Y):
        self.anything = lambda: 1
        return super().setup(X, Y)


HIDDEN = "number features in the same order"


@pytest.mark.parametrize(
    ("task", "solver", "match"),
    [
        (Unsteady(), CuttingPlane(), "task after setup was"),
        (Hidden(), DualCoordinate(), HIDDEN),
        (Hidden(), DualCoordinate(oracle="expensive"), HIDDEN),
        (Hidden(), CuttingPlane(use_cache=False), HIDDEN),
    ],
)
def test_features_in_another_order_are_noticed(path, task, solver, match):
    inputs, outputs = list(X[:50]), [int(k) for k in Y[:50]]
    svm = StructuredSVM(task, tol=1e-4, max_iter=6, solver=solver, checkpoint=path)
    svm.fit(inputs, outputs)
    with pytest.raises(CheckpointError, match=match):
        svm.set_params(max_iter=20).fit(inputs, outputs, resume_from=path)


# -- files that are refused ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A checkpoint in the middle of a fit."""
    path = tmp_path_factory.mktemp("fitted") / "fit.checkpoint"
    svc = LinearSVC(tol=1e-6, solver=CuttingPlane(), max_iter=6, checkpoint=path, loss="hinge")
    svc.fit(X, BINARY)
    return path.read_bytes()


def refused(path, contents, match=None):
    path.write_bytes(contents)
    with pytest.raises(CheckpointError, match=match) as caught:
        read_file(path)
    assert str(path) in str(caught.value)


def test_every_flipped_byte_is_noticed(fitted, path):
    rng = np.random.default_rng(0)
    for at in {*range(0, len(fitted), 13), *range(400), len(fitted) - 1}:
        damaged = bytearray(fitted)
        damaged[at] ^= 1 << int(rng.integers(8))
        refused(path, bytes(damaged))


def test_every_truncation_is_noticed(fitted, path):
    for end in {*range(0, len(fitted), 61), *range(200), len(fitted) - 1}:
        refused(path, fitted[:end])
    refused(path, fitted + b"\0", "damaged")
    half = fitted[: len(fitted) // 2]
    refused(path, half + bytes(len(fitted) - len(half)), "damaged")  # blocks that were not written
    with pytest.raises(CheckpointError, match="damaged"):
        LinearSVC(solver=CuttingPlane(), loss="hinge").fit(X, BINARY, resume_from=path)


def test_files_of_others(path, fitted, tmp_path):
    for contents in (b"", b"{}", b"x" * 1000, pickle.dumps({"w": X}), json.dumps([1]).encode()):
        refused(path, contents, "not a checkpoint")
    LinearSVC(loss="hinge").fit(X, BINARY).save(path)
    refused(path, path.read_bytes(), "a maxmargin model 3, .* not a maxmargin checkpoint 3")
    with pytest.raises(FileNotFoundError, match="no such file"):
        LinearSVC(loss="hinge").fit(X, BINARY, resume_from=tmp_path / "none")
    path.write_bytes(fitted)
    with pytest.raises(maxmargin.persistence.ModelFileError):
        maxmargin.load(path)


def test_a_newer_layout(path, monkeypatch):
    monkeypatch.setattr(container, "FORMAT", 4)
    write_file(path, {}, {})
    monkeypatch.undo()
    with pytest.raises(
        CheckpointError, match=r"checkpoint 4, written by maxmargin .* upgrade maxmargin"
    ):
        read_file(path)


def test_other_programs_can_read_the_arrays(fitted, path):
    path.write_bytes(fitted)
    arrays = load_file(path)
    assert {"small", "tree"} <= set(arrays)


OTHERS = {
    "X": ({}, (X + 1e-12, BINARY), "X was"),
    "y": ({}, (X, -BINARY), "y was"),
    "fewer rows": ({}, (X[:-1], BINARY[:-1]), "X was"),
    "weights": ({}, (X, BINARY, np.full(300, 2.0)), "sample_weight was None"),
    "C": ({"C": 2.0}, (X, BINARY), r"C was 1\.0 and is 2\.0"),
    "loss": ({"loss": "squared_hinge"}, (X, BINARY), "loss was 'hinge'"),
    "prior": ({"prior": GaussianPrior(np.ones(6))}, (X, BINARY), "prior was None"),
    "solver": ({"solver": DualCoordinate()}, (X, BINARY), "solver was .CuttingPlane"),
    "mu": ({"solver": CuttingPlane(mu=0.5)}, (X, BINARY), "solver was .CuttingPlane"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_checkpoint_of_something_else_is_refused(fitted, path, what):
    params, data, match = OTHERS[what]
    path.write_bytes(fitted)
    svc = LinearSVC(tol=1e-6, solver=CuttingPlane(), loss="hinge").set_params(**params)
    with pytest.raises(CheckpointError, match=match):
        svc.fit(*data, resume_from=path)
    assert not hasattr(svc, "coef_")
    assert path.read_bytes() == fitted


def test_checkpoints_of_two_fits_cannot_be_swapped(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    tagger = SequenceTagger(1.0, max_iter=2, checkpoint=a).fit(CHAINS, LABELS)
    svm = StructuredSVM(TinyMulticlass(), max_iter=2, checkpoint=b)
    svm.fit(list(X), [int(k) for k in Y])
    with pytest.raises(CheckpointError, match="estimator was 'StructuredSVM'"):
        tagger.fit(CHAINS, LABELS, resume_from=b)
    with pytest.raises(CheckpointError, match="estimator was 'SequenceTagger'"):
        svm.fit(list(X), [int(k) for k in Y], resume_from=a)
    with pytest.raises(CheckpointError, match="y was"):
        tagger.fit(CHAINS, LABELS[::-1], resume_from=a)


# -- where and when --------------------------------------------------------------------------------


def test_places_that_cannot_be_written_to_are_told_at_once(tmp_path):
    with pytest.raises(ValueError, match="a folder that does not exist"):
        LinearSVC(checkpoint=tmp_path / "none" / "c", loss="hinge").fit(X, BINARY)
    with pytest.raises(ValueError, match="is a folder"):
        LinearSVC(checkpoint=tmp_path, loss="hinge").fit(X, BINARY)
    with pytest.raises(ValueError, match="checkpoint=3: use a path, a Checkpoint or None"):
        LinearSVC(checkpoint=3, loss="hinge").fit(X, BINARY)
    for wrong in ({"seconds": -1}, {"seconds": "1"}, {"iterations": 0}, {"iterations": 1.5}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Checkpoint("c", **wrong)


def test_paths_and_grids_refuse_checkpoints(path):
    with pytest.raises(ValueError, match="checkpoint= is for one fit"):
        svc_path(X, BINARY, [0.1, 1.0], checkpoint=path, loss="hinge")
    with pytest.raises(ValueError, match="checkpoint= is for one fit"):
        structured_path(TinyMulticlass(), list(X), list(Y), [0.1, 1.0], checkpoint=path)


def test_data_that_cannot_be_told_apart(path):
    inputs = [[lambda: 1] for _ in range(9)]
    with pytest.raises(ValueError, match="X, a list, cannot be pickled"):
        StructuredSVM(TinyMulticlass(), checkpoint=path).fit(inputs, [0, 1] * 4 + [0])


def test_a_full_disk_does_not_end_a_fit(path, monkeypatch):
    before = LinearSVC(tol=1e-4, solver=CuttingPlane(), checkpoint=path, loss="hinge").fit(
        X, BINARY
    )
    contents = path.read_bytes()

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recorder, "write_file", full)
    with pytest.warns(UserWarning, match="No space left on device"):
        svc = LinearSVC(tol=1e-4, solver=CuttingPlane(), checkpoint=every(path), loss="hinge").fit(
            X, BINARY
        )
    assert svc.objective_ == before.objective_
    assert path.read_bytes() == contents


def test_writing_takes_a_small_part_of_the_time(path, monkeypatch):
    now, writes = [0.0], []

    def slow_write(*args):
        writes.append(now[0])
        now[0] += 6.0  # seconds

    class Clock:
        perf_counter = staticmethod(lambda: now[0])

    def tick(record):
        now[0] += 25.0
        return now[0] > 1000.0

    monkeypatch.setattr(recorder, "write_file", slow_write)
    monkeypatch.setattr(recorder, "time", Clock)
    svc = LinearSVC(
        tol=1e-15, solver=CuttingPlane(line_search=False), callbacks=[tick], loss="hinge"
    )
    svc.set_params(checkpoint=Checkpoint(path, seconds=20.0)).fit(X, BINARY)
    assert writes[0] == pytest.approx(25.0)
    periodic = writes[:-1]  # the last one is that of the end
    assert len(periodic) >= 3
    assert all(b - a > 6.0 / 0.03 for a, b in pairwise(periodic))


def test_a_model_file_has_no_checkpoint(path, tmp_path):
    svc = LinearSVC(checkpoint=path, loss="hinge").fit(X, BINARY)
    svc.save(tmp_path / "model")
    assert maxmargin.load(tmp_path / "model").checkpoint is None


# -- plain values ----------------------------------------------------------------------------------

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(plain)
def test_plain_values_come_back_with_their_types(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("plain") / "c"
    write_file(path, {}, value)
    found = read_file(path)[1]
    assert repr(found) == repr(value)  # NaN, 1 and 1.0 and True, tuples and lists


def test_arrays_come_back_bit_for_bit(path):
    numbers = [np.array([np.nan, -0.0, np.inf]), np.zeros((0, 3)), np.arange(7, dtype=np.int8)]
    numbers += [np.arange(3.0, dtype=">f8"), np.array(["a", "bcd"]), np.array(5), np.ones(9, bool)]
    large = np.asfortranarray(RNG.normal(size=(80, 30)))
    tree = {"numbers": numbers, "large": large, "same": [large], "one": np.float32(0.1)}
    write_file(path, {}, tree)
    found = read_file(path)[1]
    for a, b in zip(found["numbers"], numbers, strict=True):
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    assert np.array_equal(found["large"], large)
    assert found["same"][0] is found["large"]
    assert type(found["one"]) is np.float32
    assert found["one"] == np.float32(0.1)
    assert found["large"].flags.writeable


def test_objects_are_not_stored(path):
    write_file(path, {}, Outputs([1, Answer(1), [Answer(2)], (np.arange(2), "a")]))
    found = read_file(path)[1]
    assert found[0] == 1
    assert found[1] is found[2] is UNKNOWN
    assert found[3][1] == "a"
    with pytest.raises(TypeError, match="Answer"):
        write_file(path, {}, [Answer(1)])
