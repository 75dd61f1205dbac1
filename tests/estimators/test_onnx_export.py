"""ONNX models give the predictions of the estimators they were made from.

The operators are evaluated by NumPy here, so that the formulas are tested where onnx is not installed; where
onnx, skl2onnx and onnxruntime are, the written models are run by onnxruntime.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit, softmax
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

import maxmargin
from maxmargin import (
    KernelSVC,
    KernelSVR,
    LinearSVC,
    LinearSVCCV,
    LinearSVR,
    LogisticRegression,
    MeasureSVC,
    OneClassSVM,
    RankSVM,
    SequenceTagger,
)
from maxmargin.onnx_export.formulas import outputs
from maxmargin.onnx_export.graph import OnnxGraph

TYPES = {1: np.float32, 7: np.int64, 11: np.float64}
OPERATORS: dict[str, Any] = {
    "Abs": np.abs,
    "Add": np.add,
    "ArgMax": lambda x, axis, keepdims: x.argmax(axis=axis),
    "Concat": lambda *x, axis: np.concatenate(x, axis=axis),
    "Cast": lambda x, to: x.astype(TYPES[to]),
    "Div": np.divide,
    "Exp": np.exp,
    "Gather": lambda x, index: x[index],
    "Greater": np.greater,
    "Less": np.less,
    "Log": np.log,
    "MatMul": np.matmul,
    "Min": np.minimum,
    "Mul": np.multiply,
    "Neg": np.negative,
    "Pow": np.power,
    "ReduceSum": lambda x, axes: x.sum(axis=tuple(axes), keepdims=True),
    "Sigmoid": expit,
    "Softmax": softmax,
    "Squeeze": lambda x, axes: x.squeeze(axis=tuple(axes)),
    "Sub": np.subtract,
    "Tanh": np.tanh,
}


def evaluate(estimator: Any, X: Any, dtype: Any) -> list[Any]:
    """The outputs of the operators, by NumPy."""
    graph = OnnxGraph(np.dtype(dtype))
    names = outputs(graph, estimator, "X")
    values: dict[str, Any] = {"X": X.astype(dtype), **graph.constants}
    for node in graph.nodes:
        values[node.output] = OPERATORS[node.op](
            *(values[i] for i in node.inputs), **node.attributes
        )
    return [values[name] for name in names]


@cache
def two() -> tuple[Any, Any]:
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X)[:200], y[:200]


@cache
def three() -> tuple[Any, Any]:
    X, y = load_iris(return_X_y=True)
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


CASES: dict[str, Any] = {
    "two classes": lambda: LinearSVC(loss="hinge").fit(*two()),
    "no intercept": lambda: LinearSVC(fit_intercept=False, loss="hinge").fit(*two()),
    "three classes": lambda: LinearSVC(loss="hinge").fit(*three()),
    "search": lambda: LinearSVCCV(Cs=[0.1, 1.0], cv=2, loss="hinge").fit(*three()),
    "logistic": lambda: LinearSVC(loss="logistic").fit(*two()),
    "multinomial": lambda: LinearSVCCV(
        Cs=[0.1, 1.0], cv=2, loss="logistic", multi_class="multinomial"
    ).fit(*three()),
    "LogisticRegression": lambda: LogisticRegression().fit(*three()),
    "logistic, one-vs-rest": lambda: LinearSVC(loss="logistic", multi_class="ovr").fit(*three()),
    "F1": lambda: MeasureSVC("f1").fit(*two()),
    "regression": lambda: LinearSVR().fit(two()[0], two()[0][:, 0] + two()[1]),
    "kernel regression": lambda: KernelSVR().fit(two()[0], two()[0][:, 0] + two()[1]),
    "ranking": lambda: RankSVM().fit(*two(), groups=np.arange(200) // 20),
    "rbf": lambda: KernelSVC().fit(*two()),
    "rbf, sparse": lambda: KernelSVC().fit(sp.csr_matrix(two()[0]), two()[1]),
    "poly": lambda: KernelSVC(kernel="poly", coef0=1.0).fit(*two()),
    "sigmoid": lambda: KernelSVC(kernel="sigmoid", gamma=0.01, max_iter=100).fit(*two()),
    "linear kernel": lambda: KernelSVC(kernel="linear").fit(*two()),
    "one-vs-one": lambda: KernelSVC().fit(*three()),
    "pairs": lambda: KernelSVC(decision_function_shape="ovo").fit(*three()),
    "Crammer and Singer": lambda: KernelSVC(method="map", multi_class="crammer_singer").fit(
        *three()
    ),
    "one class": lambda: OneClassSVM(nu=0.2).fit(two()[0]),
    "one class, linear": lambda: OneClassSVM(nu=0.2, kernel="linear").fit(1.0 + three()[0]),
    "landmarks": lambda: KernelSVC(method="nystrom").fit(*two()),
}


@cache
def fitted(case: str) -> Any:
    return CASES[case]()


def rows(case: str) -> Any:
    n_features = fitted(case).n_features_in_
    X = two()[0] if n_features == two()[0].shape[1] else three()[0]
    return np.concatenate([X, X[:50] + 0.5, X[:1]])


def check(case: str, X: Any, found: list[Any], dtype: Any) -> None:
    estimator = fitted(case)
    exact = dtype == np.float64
    tolerance = {"rtol": 1e-9, "atol": 1e-9} if exact else {"rtol": 2e-4, "atol": 2e-4}
    if isinstance(estimator, LinearSVR | RankSVM | KernelSVR):
        np.testing.assert_allclose(found[0], estimator.predict(X), **tolerance)
        return
    label, scores, *probabilities = found
    assert len(probabilities) == hasattr(estimator, "predict_proba")
    for p in probabilities:
        np.testing.assert_allclose(p, estimator.predict_proba(X), **tolerance)
    expected = estimator.decision_function(X)
    assert scores.shape == expected.shape
    np.testing.assert_allclose(scores, expected, **tolerance)
    differ = np.asarray(label) != estimator.predict(X)
    margin = np.abs(expected) if expected.ndim == 1 else np.ptp(np.sort(expected)[:, -2:], axis=1)
    assert not np.any(differ & (margin > (0.0 if exact else 1e-3)))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES)
def test_operators_give_the_predictions(case: str, dtype: Any) -> None:
    check(case, rows(case), evaluate(fitted(case), rows(case), dtype), dtype)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES)
def test_onnxruntime_gives_the_predictions(case: str, dtype: Any) -> None:
    pytest.importorskip("skl2onnx")
    runtime = pytest.importorskip("onnxruntime")
    model = maxmargin.to_onnx(fitted(case), dtype=dtype)
    session = runtime.InferenceSession(model.SerializeToString())
    X = rows(case)
    check(case, X, session.run(None, {"X": X.astype(dtype)}), dtype)
    best = getattr(fitted(case), "best_estimator_", fitted(case))
    notes = {p.key: p.value for p in model.metadata_props}
    assert float(notes["objective"]) == best.objective_
    assert notes["certificate"] == best.certificate_


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "last",
    [LinearSVC(loss="hinge"), LinearSVC(loss="logistic"), KernelSVC(), OneClassSVM(), LinearSVR()],
)
def test_pipelines_are_converted_by_skl2onnx(last: Any, dtype: Any) -> None:
    pytest.importorskip("skl2onnx")
    runtime = pytest.importorskip("onnxruntime")
    X, y = three()
    if isinstance(last, LinearSVR):
        y = X[:, 0] + X[:, 1] ** 2
    halves = ColumnTransformer([("a", StandardScaler(), [0, 2]), ("b", StandardScaler(), [1, 3])])
    pipeline = make_pipeline(halves, last).fit(X, y)
    model = maxmargin.to_onnx(pipeline, dtype=dtype)
    found = runtime.InferenceSession(model.SerializeToString()).run(None, {"X": X.astype(dtype)})
    tolerance = 1e-9 if dtype == np.float64 else 1e-4
    if isinstance(last, LinearSVR):
        np.testing.assert_allclose(found[0], pipeline.predict(X), atol=tolerance)
    else:
        np.testing.assert_array_equal(found[0], pipeline.predict(X))
        np.testing.assert_allclose(found[1], pipeline.decision_function(X), atol=tolerance)
    if hasattr(pipeline, "predict_proba"):
        np.testing.assert_allclose(found[2], pipeline.predict_proba(X), atol=tolerance)


@pytest.mark.parametrize("classes", [[False, True], [0.0, 1.0], [-3, 5], ["no", "yes"]])
def test_labels_keep_their_values(classes: list[Any]) -> None:
    X, y = two()
    labels = np.array(classes)[y]
    svc = LinearSVC(loss="hinge").fit(X, labels)
    np.testing.assert_array_equal(evaluate(svc, X, np.float64)[0], svc.predict(X))
    if find_spec("skl2onnx") and find_spec("onnxruntime"):
        import onnxruntime

        model = maxmargin.to_onnx(svc, dtype=np.float64).SerializeToString()
        label = onnxruntime.InferenceSession(model).run(["label"], {"X": X})[0]
        np.testing.assert_array_equal(label, svc.predict(X))


def test_refusals() -> None:
    X, y = two()
    with pytest.raises(TypeError, match=r"SequenceTagger cannot be exported.*LinearSVC, "):
        maxmargin.to_onnx(SequenceTagger())
    with pytest.raises(NotFittedError):
        maxmargin.to_onnx(LinearSVC(loss="hinge"))
    with pytest.raises(ValueError, match=r"float32 or numpy\.float64"):
        maxmargin.to_onnx(LinearSVC(loss="hinge").fit(X, y), dtype=np.float16)
    svc = KernelSVC(kernel=lambda A, B: A @ B.T).fit(X, y)
    with pytest.raises(TypeError, match="Python function"):
        evaluate(svc, X, np.float64)
