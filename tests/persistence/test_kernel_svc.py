"""A kernel classifier that is saved comes back the same."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from tests.kernels.libsvm_method import ByLibsvm
from tests.persistence.same import identical
from tests.persistence.test_damaged_files import joined, parts, refused
from tests.persistence.test_persistence import round_trip

from maxmargin import KernelSVC, load
from maxmargin.kernels import EmpiricalMap, Nystrom
from maxmargin.solvers import KernelBlocks, SampledCuts

X, Y = load_iris(return_X_y=True)
METHOD = ByLibsvm()
FITTED = ("support_", "n_support_", "dual_coef_", "intercept_", "classes_", "method_")


def same(again, est, Z):
    for name in FITTED:
        assert identical(getattr(again, name), getattr(est, name)), name
    assert again.kernel_ == est.kernel_
    vectors = again.support_vectors_, est.support_vectors_
    dense = [v.toarray() if sp.issparse(v) else v for v in vectors]
    assert type(vectors[0]) is type(vectors[1])
    assert identical(*dense)
    assert identical(again.predict(Z), est.predict(Z))
    assert identical(again.decision_function(Z), est.decision_function(Z))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 0.5, "C": 3},
        {"kernel": "linear", "class_weight": {0: 2.0}, "decision_function_shape": "ovo"},
        {"method": ByLibsvm(tol=1e-3), "warm_start": True, "n_jobs": 2, "memory": 2**20},
    ],
    ids=str,
)
def test_round_trip(params, n_classes, path):
    rows = n_classes > Y
    for Z in (X, X.astype(np.float32), sp.csr_matrix(X)):
        est = KernelSVC(**{"method": METHOD, **params}).fit(Z[rows], Y[rows])
        same(round_trip(est, path), est, Z)


@pytest.mark.parametrize(
    "method",
    [
        "exact",
        KernelBlocks(),
        "nystrom",
        Nystrom(n_landmarks=20),
        Nystrom(landmarks=[2, 3, 60, 70, 99]),
        EmpiricalMap(max_rows=200),
        "sampled",
        SampledCuts(size=50, line_search=False),
        SampledCuts(size=50, constant_time=True),
    ],
    ids=str,
)
def test_settings_and_what_methods_say(method, path):
    rows = Y > 0
    est = KernelSVC(method=method, max_iter=20).fit(X[rows], Y[rows])
    again = round_trip(est, path)
    same(again, est, X)
    for name in est._extras:
        value = getattr(est, name)
        value = value.item() if isinstance(value, np.generic) else value
        assert identical(getattr(again, name), value), name
    joint = None if isinstance(method, KernelBlocks) or method == "exact" else "crammer_singer"
    if joint:
        est = KernelSVC(method=method, multi_class=joint, max_iter=20).fit(X, Y)
        same(round_trip(est, path), est, X)


@pytest.mark.parametrize("given", [[3, 60, 140], (3, 60, 140), np.array([3, 60, 140])], ids=str)
def test_landmarks_by_number(given, path):
    est = KernelSVC(method=Nystrom(landmarks=given)).fit(X, Y).save(path)
    again = load(path)
    assert identical(again.method.landmarks, given)
    assert again.fit(X, Y).objective_ == est.objective_


def test_a_method_of_ones_own_is_left_out(path):
    class Mine(SampledCuts):
        pass

    est = KernelSVC(method=SampledCuts(), max_iter=5).fit(X, Y)
    est.method = Mine()
    with pytest.warns(UserWarning, match="method=.*cannot be stored"):
        est.save(path)
    assert load(path).method == "auto"


def test_pickle_and_copies_leave_packed_rows_behind():
    est = KernelSVC(method=METHOD).fit(X, Y)
    est.predict(X)
    for again in (pickle.loads(pickle.dumps(est)), copy.deepcopy(est)):
        assert "_evaluator" not in again.__dict__
        same(again, est, X)
    assert not hasattr(clone(est), "dual_coef_")


def test_feature_names_and_labels(path):
    frame = pd.DataFrame(X, columns=list("abcd"))
    est = KernelSVC(method=METHOD).fit(frame, np.array(["b", "längst", "a"])[Y])
    again = round_trip(est, path)
    same(again, est, frame)
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame[list("dcba")])


def test_a_loaded_estimator_can_be_fitted_again(path):
    est = KernelSVC(method=METHOD, warm_start=True).fit(X, Y)
    again = round_trip(est, path).fit(X, Y)
    same(again, est, X)


def test_a_function_is_refused(path):
    est = KernelSVC(kernel=lambda A, B: A @ B.T, method=METHOD).fit(X, Y)
    with pytest.raises(ValueError, match="holds no code"):
        est.save(path)
    assert not path.exists()


@pytest.mark.parametrize("Z", [X, sp.csr_matrix(X)], ids=["dense", "sparse"])
def test_damaged_files(Z, path):
    KernelSVC(method=METHOD).fit(Z, Y).save(path)
    header, tensors = parts(path.read_bytes())
    for name, change, match in [
        ("n_support_", lambda a: a + 1, "add up"),
        ("support_", lambda a: a + 1000, "out of range"),
        ("dual_coef_", lambda a: a[:1].copy(), "do not fit"),
        ("intercept_", lambda a: a[:1].copy(), "do not fit"),
    ]:
        bad = dict(tensors, **{name: change(tensors[name])})
        refused(path, joined(header, bad), match)
    for place, value, match in [
        (
            "kernel_",
            {"$object": {"class": "FromCallable", "function": "os.system"}},
            "may not hold",
        ),
        ("kernel_", {"$object": {"class": "RBF", "gamma": "x"}}, "RBF.gamma is not a valid number"),
        (
            "kernel_",
            {"$object": {"class": "RBF", "gamma": {"$float": "inf"}}},
            "RBF.gamma is not a valid number",
        ),
        ("kernel_", {"$object": {"class": "RelativeGap"}}, "kernel_ must be"),
        ("kernel_", "rbf", "kernel_ must be"),
        ("extras", {"dual_coef_": 1}, "does not belong"),
        ("extras", {"__class__": 1}, "does not belong"),
        ("extras", {"fit_": 1, "predict": 1}, "does not belong"),
        ("support_vectors_", 3, "support_vectors_ has the shape"),
        ("n_samples", 2, "out of range"),
        ("extras", {"shape_fit_": 1}, "does not belong"),
    ]:
        bad_header = copy.deepcopy(header)
        bad_header["fitted"][place] = value
        refused(path, joined(bad_header, tensors), match)
    if sp.issparse(Z):
        for name in ("indices", "indptr"):
            name = f"support_vectors_.{name}"
            refused(
                path, joined(header, dict(tensors, **{name: tensors[name] + 9})), "invalid matrix"
            )
