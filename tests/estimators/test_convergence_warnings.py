"""A fit that does not reach its tolerance says so once, with the gap and what to do; others are silent."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from tests.latent_tasks import WrongRows, rows_problem
from tests.tiny_tasks import TinyMulticlass

from maxmargin import (
    GrammarParser,
    GraphLabeler,
    KernelSVC,
    LatentStructuredSVM,
    LinearSVC,
    LinearSVCCV,
    LinearSVR,
    MeasureSVC,
    RankSVM,
    SequenceTagger,
    StructuredSVM,
    StructuredSVMCV,
    return_on_interrupt,
    structured_path,
    svc_path,
)
from maxmargin.solvers import DualCoordinate
from maxmargin.tasks import Graph

RAW, Y = load_breast_cancer(return_X_y=True)
X = scale(RAW)
IRIS = load_iris(return_X_y=True)


def warnings_of(call):
    """The convergence warnings of a call."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return [one for one in found if issubclass(one.category, ConvergenceWarning)]


def message(call):
    """The one warning of a call, which points at the line that called."""
    (one,) = warnings_of(call)
    assert one.filename == __file__
    return str(one.message)


def sequences(n=40):
    rng = np.random.default_rng(1)
    S = [rng.normal(size=(4, 3)) for _ in range(n)]
    return S, [(s + rng.normal(size=s.shape)).argmax(axis=1) for s in S]


def structures(n=60):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, 3))
    return list(rows), [int(k) for k in (rows + 0.5 * rng.normal(size=(n, 3))).argmax(axis=1)]


def graphs(n=20):
    rng = np.random.default_rng(2)
    found = [Graph(rng.normal(size=(3, 2)), [(0, 1), (1, 2)]) for _ in range(n)]
    return found, [rng.integers(0, 2, 3) for _ in found]


TREES = ["(S (NP (N a) (V b)) (VP c))", "(S (NP a) (VP (N b) (V c)))"] * 3

FITS = {
    "LinearSVC": (LinearSVC(C=10.0, loss="hinge"), X, Y),
    "LinearSVR": (LinearSVR(), X, Y + 0.1 * X[:, 0]),
    "MeasureSVC": (MeasureSVC(C=10.0), X, Y),
    "RankSVM": (RankSVM(C=10.0), X, Y),
    "KernelSVC": (KernelSVC(), X, Y),
    "SequenceTagger": (SequenceTagger(10.0), *sequences()),
    "StructuredSVM": (StructuredSVM(TinyMulticlass(), 10.0), *structures()),
    "GraphLabeler": (GraphLabeler(10.0), *graphs()),
    "GrammarParser": (GrammarParser(10.0, min_count=1), None, TREES),
    "LatentStructuredSVM": (LatentStructuredSVM(WrongRows()), *rows_problem(0)),
}


@pytest.mark.parametrize("name", FITS)
def test_every_estimator_tells_of_a_limit(name):
    estimator, inputs, outputs = FITS[name]
    estimator.set_params(tol=1e-9, max_iter=1)
    text = message(lambda: estimator.fit(inputs, outputs))
    assert text.startswith(f"{name}: stopped at max_iter=1 before tol=1e-09 was reached; ")
    assert "gap" in text
    assert "Raise max_iter or loosen tol" in text
    estimator.set_params(max_iter=None, max_seconds=0.0)
    text = message(lambda: estimator.fit(inputs, outputs))
    assert "stopped at max_seconds=0.0" in text
    assert "Raise max_seconds" in text
    assert "_ended" not in vars(estimator)


def lines_of(call):
    """The lines that the warnings of a call point to."""
    return {(one.filename, one.lineno) for one in warnings_of(call)}


@pytest.mark.parametrize(
    "wrapped",
    [
        make_pipeline(StandardScaler(), LinearSVC(C=10.0, max_iter=2, loss="hinge")),
        GridSearchCV(LinearSVC(max_iter=2, loss="hinge"), {"C": [10.0]}, cv=2),
        GridSearchCV(make_pipeline(StandardScaler(), KernelSVC(max_iter=1, tol=1e-9)), {}, cv=2),
        OneVsRestClassifier(LinearSVC(C=10.0, max_iter=2, loss="hinge")),
        BaggingClassifier(LinearSVC(C=10.0, max_iter=2, loss="hinge"), 2),
    ],
    ids=["pipeline", "search", "search over a pipeline", "one-vs-rest", "bagging"],
)
def test_a_warning_below_scikit_learn_points_to_the_users_line(wrapped):
    def call():
        wrapped.fit(X, Y)

    assert lines_of(call) == {(__file__, call.__code__.co_firstlineno + 1)}


def test_the_gap_that_was_reached_is_named():
    svc = LinearSVC(C=10.0, max_iter=3, loss="hinge")
    text = message(lambda: svc.fit(X, Y))
    assert f"gap {svc.gap_:.2g} (objective {svc.objective_:.6g}, lower bound" in text


def test_a_tolerance_below_rounding_asks_for_other_scales():
    svc = LinearSVC(tol=1e-16, loss="hinge")
    text = message(lambda: svc.fit(RAW, Y))
    assert svc.stop_reason_ == "rounding"
    assert "stopped because rounding errors may exceed tol=1e-16" in text
    assert "Scale the features" in text


def test_one_warning_for_all_problems_of_a_fit():
    svc = LinearSVC(C=100.0, multi_class="ovr", max_iter=2, solver=DualCoordinate(), loss="hinge")
    text = message(lambda: svc.fit(*IRIS))
    assert "in 3 of 3 problems" in text
    text = message(lambda: KernelSVC(max_iter=2, tol=1e-6).fit(*IRIS))
    assert "of 3 problems" in text


def test_one_warning_for_a_path():
    text = message(lambda: svc_path(X, Y, [1e-6, 10.0, 100.0], max_iter=4, loss="hinge"))
    assert text.startswith("svc_path: 2 of 3 fits stopped at max_iter=4")
    assert "C=10, 100; largest gap" in text
    text = message(
        lambda: structured_path(TinyMulticlass(), *structures(), [1.0, 10.0], tol=1e-9, max_iter=1)
    )
    assert text.startswith("structured_path: 2 of 2 fits")


def test_one_warning_for_a_search():
    search = LinearSVCCV(Cs=[1e-6, 10.0], cv=3, max_iter=4, loss="hinge")
    text = message(lambda: search.fit(X, Y))
    missed = sum(int((~search.cv_results_[f"split{k}_converged"]).sum()) for k in range(3))
    assert 0 < missed < 6
    assert text.startswith(f"LinearSVCCV: {missed} of 6 cells stopped at max_iter=4")
    tree = StructuredSVMCV(TinyMulticlass(), [1.0, 10.0], cv=3, tol=1e-9, max_iter=1)
    text = message(lambda: tree.fit(*structures()))
    assert text.startswith("StructuredSVMCV: 6 of 6 cells and the final fit stopped at max_iter=1")


def test_what_can_have_no_gap_says_why():
    class Greedy(TinyMulticlass):
        oracle_kind = "undergenerating"

    svm = StructuredSVM(Greedy(), 1.0)
    text = message(lambda: svm.fit(*structures()))
    assert svm.certificate_ == "lower_only"
    assert "inference may miss the maximum; no certified gap" in text
    search = StructuredSVMCV(Greedy(), [0.1, 1.0], cv=3)
    text = message(lambda: search.fit(*structures()))
    assert text.startswith("StructuredSVMCV: 6 of 6 cells and the final fit without an upper bound")
    assert "not all gaps are certified" in text
    text = message(lambda: KernelSVC(kernel="sigmoid").fit(X, Y))
    assert "the kernel is not positive semidefinite; no certified gap" in text


def stop(record):
    return True


def press(record):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "fit",
    [
        lambda: LinearSVC(loss="hinge").fit(X, Y),
        lambda: LinearSVC(C=10.0, callbacks=[stop], loss="hinge").fit(X, Y),
        lambda: LinearSVC(C=100.0, multi_class="ovr", callbacks=[stop], loss="hinge").fit(*IRIS),
        lambda: svc_path(X, Y, [1.0, 10.0], callbacks=[stop], loss="hinge"),
        lambda: LinearSVCCV(Cs=[0.1, 1.0], loss="hinge").fit(X, Y),
        lambda: LinearSVC(loss="hinge").partial_fit(X, Y, classes=[0, 1]),
        lambda: LinearSVC(loss="hinge").partial_fit(X, Y, classes=[0, 1]).verify(X, Y),
        lambda: KernelSVC(method="sampled").fit(X, Y),
        lambda: KernelSVC(method="nystrom").fit(X, Y),
        lambda: KernelSVC(method="nystrom").fit(*IRIS),
        lambda: LatentStructuredSVM(WrongRows()).fit(*rows_problem(0)),
        lambda: SequenceTagger(kernel="rbf", kernel_method="nystrom").fit(*sequences()),
    ],
)
def test_planned_endings_are_silent(fit):
    assert warnings_of(fit) == []


def test_an_interrupt_is_no_warning():
    svc = LinearSVC(C=10.0, callbacks=[press], loss="hinge")

    def fit():
        with pytest.raises(KeyboardInterrupt):
            svc.fit(X, Y)
        with return_on_interrupt():
            svc.fit(X, Y)

    assert warnings_of(fit) == []
    assert not svc.converged_


def test_a_warning_that_is_an_error_comes_after_the_fit_is_stored():
    svc = LinearSVC(C=10.0, max_iter=3, loss="hinge")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        with pytest.raises(ConvergenceWarning, match="max_iter=3"):
            svc.fit(X, Y)
    assert svc.predict(X).shape == Y.shape
    assert "_ended" not in vars(pickle.loads(pickle.dumps(svc)))
