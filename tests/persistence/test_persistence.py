"""What is saved comes back the same, with its types."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from tests.persistence.same import Pick, identical

from maxmargin import GraphLabeler, LinearSVC, MeasureSVC, SequenceTagger, StructuredSVM, load
from maxmargin.solvers import (
    AbsoluteGap,
    CuttingPlane,
    DualCoordinate,
    RelativeGap,
    RiskEpsilon,
)
from maxmargin.tasks import Chain, Graph

CERTIFICATE = (
    "objective_",
    "lower_bound_",
    "gap_",
    "converged_",
    "stop_reason_",
    "certificate_",
    "n_iter_",
)
WORDS = [["w=the", "short"], ["w=cat"], ["w=sat"]], [["w=a", "short"], ["w=dog"], ["w=ran"]]
TAGS = [["DET", "NOUN", "VERB"], ["DET", "NOUN", "VERB"]]


def round_trip(est, path, **options):
    assert est.save(path) is est
    again = load(path, **options)
    assert type(again) is type(est)
    for name in CERTIFICATE:
        value = getattr(est, name)
        value = value.item() if isinstance(value, np.generic) else value
        assert identical(getattr(again, name), value), name
    before, after = est.get_params(deep=False), again.get_params(deep=False)
    before.pop("task", None), after.pop("task", None)
    assert identical(after, before)
    assert again.history_ == []
    assert again.n_features_in_ == est.n_features_in_ if hasattr(est, "n_features_in_") else True
    return again


# -- LinearSVC -------------------------------------------------------------------------------------

X, Y = load_iris(return_X_y=True)
LABELS = {
    "int64": np.array([3, -5, 7]),
    "int8": np.array([3, -5, 7], dtype=np.int8),
    "uint64": np.array([3, 2**64 - 1, 7], dtype=np.uint64),
    "big endian": np.array([3, -5, 7], dtype=">i4"),
    "float32": np.array([0.0, 1.0, -2.0], dtype=np.float32),
    "text": np.array(["b", "längst", "a"]),
    "wide text": np.array(["b", "a", "c"], dtype="<U40"),
    "objects": np.array(["b", "längst", "日本"], dtype=object),
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_linear_svc(kind, n_classes, path):
    rows = n_classes > Y
    y = LABELS[kind][Y[rows]]
    est = LinearSVC(C=0.1, loss="hinge").fit(X[rows], y)
    again = round_trip(est, path)
    assert identical(again.classes_, est.classes_)
    assert again.coef_.tobytes() == est.coef_.tobytes()
    assert identical(again.decision_function(X), est.decision_function(X))
    assert identical(again.predict(X), est.predict(X))
    assert again.coef_.flags.writeable
    refitted = again.fit(X[rows], y)
    assert refitted.coef_.tobytes() == est.coef_.tobytes()


def test_boolean_classes(path):
    est = LinearSVC(loss="hinge").fit(X, Y == 0)
    assert identical(round_trip(est, path).predict(X), est.predict(X))


def test_feature_names(path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["länge", "b", 'c"', "d\n"])
    est = LinearSVC(loss="hinge").fit(frame, Y)
    again = round_trip(est, path)
    assert identical(again.feature_names_in_, est.feature_names_in_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert identical(again.predict(frame), est.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame[["b", "länge", 'c"', "d\n"]])


@pytest.mark.parametrize(
    "params",
    [
        {"class_weight": {0: 2.0, 1: 1, 2: 0.5}},
        {"class_weight": "balanced", "fit_intercept": False, "n_jobs": 2, "verbose": 0},
        {"cost": np.array([[0, 1, 2], [1, 0, 1], [2, 1, 0]])},
        {"cost": [[0, 1.5, 2], [1, 0, 1], [2, 1, 0]]},
        {"solver": CuttingPlane(mu=1, max_planes=200), "tol": RelativeGap(1e-2)},
        {"tol": AbsoluteGap(0.5), "max_iter": 1000, "max_seconds": float("inf")},
        {"tol": RiskEpsilon(0.5), "penalize_intercept": False, "random_state": None},
        {"warm_start": True, "intercept_scaling": 2.5, "C": 3},
    ],
)
def test_parameters(params, path):
    est = LinearSVC(multi_class="crammer_singer", **params).fit(X, Y)
    again = round_trip(est, path)
    assert repr(clone(again)) == repr(clone(est))
    assert identical(again.predict(X), est.predict(X))


def test_numpy_scalars_become_plain_numbers(path):
    est = LinearSVC(
        C=np.float64(0.5), max_iter=np.int64(7), class_weight={np.int64(0): 2.0}, loss="hinge"
    )
    est.fit(X, Y).save(path)
    again = load(path)
    assert identical([again.C, again.max_iter, again.class_weight], [0.5, 7, {0: 2.0}])


def test_code_is_left_out(path):
    class Own(CuttingPlane):
        pass

    est = LinearSVC(callbacks=[lambda record: None], solver=Own(), loss="hinge").fit(X, Y)
    with pytest.warns(UserWarning, match="parameter solver=.*cannot be stored") as caught:
        est.save(path)
    assert len(caught) == 1  # nothing about the callbacks: they are documented as not stored
    again = load(path)
    assert again.callbacks is None
    assert again.solver == "auto"
    assert identical(again.predict(X), est.predict(X))


# -- SequenceTagger --------------------------------------------------------------------------------


def test_tagger_with_vocabulary(path):
    est = SequenceTagger().fit(*map(list, (WORDS, TAGS)))
    again = round_trip(est, path)
    new = [[["w=the"], ["w=dog", "unseen"], ["w=sat"]], [], [["w=a"]]]
    assert identical(again.predict(new), est.predict(new))
    assert again.vectorizer_.vocabulary_ == est.vectorizer_.vocabulary_
    assert identical(again.weights_, est.weights_)
    assert identical(again.coef_, est.coef_)
    assert again.fit(WORDS, TAGS).weights_.tobytes() == est.weights_.tobytes()


@pytest.mark.parametrize(
    "labels",
    [
        ["a", "b", "c"],
        [1, 2, 3],
        [1.0, float("inf"), -0.0],
        [True, False, 2],
        [(None,), "None", 0],
        [1, "1", (1, "1")],
        [("B", 1), ("I", (True, None)), ()],
        [10**30, "\ud800", "日本"],
    ],
)
def test_labels_keep_their_types(labels, path):
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, 3, size=6) for _ in range(8)]
    inputs = [np.eye(3)[c] + 0.1 * rng.normal(size=(6, 3)) for c in codes]
    est = SequenceTagger().fit(inputs, [[labels[k] for k in c] for c in codes])
    again = round_trip(est, path)
    assert identical(again.classes_, est.classes_)
    assert identical(again.predict(inputs), est.predict(inputs))


@pytest.mark.parametrize(
    "params",
    [
        {"forbidden_transitions": [("A", "B"), (None, "B"), ["C", None]]},
        {"forbidden_transitions": {("A", "B")}},
        {"forbidden_transitions": "unseen"},
        {"cost": {"A": 2.0, "C": 1}},
        {"cost": np.array([[0, 1, 2.5], [1, 0, 1], [1, 3, 0]])},
        {"solver": DualCoordinate(batch_size="all"), "tol": 1e-2},
        {"rescaling": "slack", "partial": "complete"},
        {"order": 2, "forbidden_transitions": [("A", "B")]},
    ],
)
def test_tagger_rebuilds_its_chain(params, path):
    rng = np.random.default_rng(0)
    y = [list("ACBB"), list("ACCB"), list("CCBB")]
    est = SequenceTagger(**params).fit([rng.normal(size=(4, 5)) for _ in y], y)
    again = round_trip(est, path)
    for name in ("n_labels", "n_features", "cost", "allowed", "allowed_start", "allowed_stop"):
        assert identical(getattr(again.task_, name), getattr(est.task_, name)), name
    new = [rng.normal(size=(n, 5)) for n in (2, 3, 9)]
    assert identical(again.predict(new), est.predict(new))


def test_changed_parameters_do_not_change_the_loaded_chain(path):
    y = [list("ACBB"), list("ACCB"), list("CCBB")]
    inputs = [np.random.default_rng(k).normal(size=(4, 5)) for k in range(3)]
    est = SequenceTagger(forbidden_transitions="unseen").fit(inputs, y)
    est.set_params(forbidden_transitions=None)
    assert not round_trip(est, path).task_.allowed.all()


def test_many_labels_and_large_masks(path):
    chain = [list(range(30)), list(range(29, -1, -1))]
    est = SequenceTagger(forbidden_transitions="unseen").fit([np.eye(30)] * 2, chain)
    again = round_trip(est, path)
    assert again.task_.allowed.sum() == 58
    assert identical(again.task_.allowed, est.task_.allowed)


# -- StructuredSVM ---------------------------------------------------------------------------------


class Other(Pick):
    pass


@pytest.fixture
def picked():
    inputs, outputs = [np.eye(3)[k % 3] for k in range(9)], ["abc"[k % 3] for k in range(9)]
    return StructuredSVM(Pick(), C=2.0).fit(inputs, outputs), inputs, outputs


def test_structured_svm(picked, path):
    est, inputs, outputs = picked
    again = round_trip(est, path, task=est.task_)
    assert again.predict(inputs) == est.predict(inputs)
    assert identical(again.coef_, est.coef_)
    assert again.score(inputs, outputs) == est.score(inputs, outputs)
    assert identical(again.fit(inputs, outputs).coef_, est.coef_)


def test_built_in_task_that_needs_no_setup(path):
    inputs, outputs = [np.eye(2), np.eye(2)[::-1]], [np.array([0, 1]), np.array([1, 0])]
    est = StructuredSVM(Chain(n_labels=2)).fit(inputs, outputs)
    again = round_trip(est, path, task=Chain(n_labels=2))
    assert identical(again.predict(inputs), est.predict(inputs))


def test_structured_svm_asks_for_its_task(picked, path):
    est, _, _ = picked
    est.save(path)
    with pytest.raises(ValueError, match=r"task was a Pick.*load\(path, task=Pick\(\.\.\.\)\)"):
        load(path)
    with pytest.raises(TypeError, match="must be a task object"):
        load(path, task=Pick)
    with pytest.raises(TypeError, match="must be a task object"):
        load(path, task="Pick")
    other = Other()
    other.setup([np.ones(3)], ["a"])
    with (
        pytest.raises(ValueError, match="dimension 3, but the file holds 9 weights"),
        pytest.warns(UserWarning, match="class Pick; the one given is a Other"),
    ):
        load(path, task=other)


def test_task_for_an_estimator_that_has_none(path):
    LinearSVC(loss="hinge").fit(X, Y).save(path)
    with pytest.raises(ValueError, match="task= is for a StructuredSVM"):
        load(path, task=Pick())


# -- MeasureSVC ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [{}, {"measure": "roc_auc"}, {"measure": "fbeta", "beta": 2, "C": 0.1, "rescaling": "slack"}],
)
def test_measure_svc(params, path):
    rows = Y < 2
    labels = np.array(["b", "a"])[Y[rows]]
    est = MeasureSVC(**params).fit(X[rows], labels)
    again = round_trip(est, path)
    assert identical(again.classes_, est.classes_)
    assert identical(again.decision_function(X), est.decision_function(X))
    assert identical(again.predict(X), est.predict(X))


def test_a_measure_of_ones_own_is_code_and_not_stored(path):
    rows = Y < 2
    est = MeasureSVC(lambda tp, fp, fn, tn: (fp + fn) / 100).fit(X[rows], Y[rows])
    with pytest.warns(UserWarning, match="measure"):
        est.save(path)
    again = load(path)
    assert again.measure == "f1"
    assert identical(again.predict(X), est.predict(X))


# -- GraphLabeler ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"edges": "potts", "inference": "lp"},
        {"edges": "symmetric", "inference": "messages", "cost": {"a": 2.0}},
        {"edges": "attractive"},
    ],
)
def test_graph_labeler(params, path):
    rng = np.random.default_rng(0)
    ring = [[i, (i + 1) % 5] for i in range(5)]
    graphs = [Graph(rng.normal(size=(5, 2)), ring) for _ in range(6)]
    labels = [rng.choice(["a", "b", "länge"], 5) for _ in graphs]
    est = GraphLabeler(max_iter=20, **params).fit(graphs, labels)
    again = round_trip(est, path)
    assert identical(again.classes_, est.classes_)
    assert identical(again.weights_, est.weights_)
    assert identical(again.pair_coef_, est.pair_coef_)
    assert identical(again.predict(graphs), est.predict(graphs))
    assert again.task_.oracle_kind == est.task_.oracle_kind
