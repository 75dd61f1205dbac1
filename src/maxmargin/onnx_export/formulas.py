"""Predictions of fitted estimators as ONNX operators.

Linear models:  scores = X W' + b. With the logistic loss, the third output is predict_proba.

Kernel models:  scores = k(X, Z) A + b for the support vectors Z. The RBF kernel is computed from
|x|^2 - 2 <x, z> + |z|^2 after centering at the medians of Z, which reduces cancellation. One-vs-one: with the
matrix P of pairs (+1 at the first class of a pair, -1 at the second), the votes for each class are
[s > 0] P + (number of pairs in which the class is second), and the confidences are s P.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from maxmargin.core.vectors import Array
from maxmargin.estimators.kernel.classes import pairs
from maxmargin.estimators.kernel.kernel_svc import KernelSVC
from maxmargin.estimators.kernel.kernel_svr import KernelSVR
from maxmargin.estimators.kernel.one_class_svm import OneClassSVM
from maxmargin.estimators.linear.linear_svc import LinearSVC
from maxmargin.estimators.linear.linear_svc_cv import LinearSVCCV
from maxmargin.estimators.linear.linear_svr import LinearSVR
from maxmargin.estimators.linear.logistic_regression import LogisticRegression
from maxmargin.estimators.linear.measure_svc import MeasureSVC
from maxmargin.estimators.linear.problem import is_logistic, is_multinomial
from maxmargin.estimators.linear.rank_svm import RankSVM
from maxmargin.kernels.functions import RBF, FromCallable, Linear, Polynomial, Sigmoid
from maxmargin.kernels.rows import center_of
from maxmargin.onnx_export.graph import OnnxGraph

#: with labels and scores
CLASSIFIERS = (LinearSVC, LinearSVCCV, LogisticRegression, MeasureSVC, KernelSVC, OneClassSVM)
#: with one number for each sample
REGRESSORS = (LinearSVR, RankSVM, KernelSVR)


def outputs(graph: OnnxGraph, estimator: Any, x: str) -> tuple[str, ...]:
    """Append the predictions for the rows of ``x``: names of labels, scores and, with the logistic loss,
    probabilities; or of the predictions."""
    if isinstance(estimator, KernelSVR):
        return (_flat(graph, _kernel_scores(graph, estimator, x)),)
    if isinstance(estimator, REGRESSORS):
        if estimator.coef_.ndim == 2:
            raise TypeError(
                "several quantiles cannot be exported to ONNX: fit one LinearSVR per quantile."
            )
        return (_flat(graph, _linear(graph, estimator, x)),)
    if isinstance(estimator, KernelSVC):
        return _kernel_classifier(graph, estimator, x)
    if isinstance(estimator, OneClassSVM):
        return _one_class(graph, estimator, x)
    scores = _linear(graph, estimator, x)
    decided = _decided(graph, estimator.classes_, scores)
    return (
        (*decided, _probabilities(graph, estimator, scores))
        if has_probabilities(estimator)
        else decided
    )


def label_set(estimator: Any) -> npt.NDArray[Any]:
    """The labels that an estimator predicts."""
    one_class = isinstance(estimator, OneClassSVM)
    return np.array([-1, 1]) if one_class else np.asarray(estimator.classes_)


def has_probabilities(estimator: Any) -> bool:
    """Whether the estimator is a logistic regression."""
    return isinstance(estimator, LinearSVC | LinearSVCCV | LogisticRegression) and is_logistic(
        estimator.loss
    )


def _probabilities(graph: OnnxGraph, estimator: Any, scores: str) -> str:
    if len(estimator.classes_) == 2:
        return graph.add("Sigmoid", graph.add("Concat", graph.add("Neg", scores), scores, axis=1))
    if is_multinomial(estimator):
        return graph.add("Softmax", scores, axis=1)
    # logarithms of the logistic function: min(s, 0) - log(1 + exp(-|s|)); Softplus has no double precision
    small = graph.add("Exp", graph.add("Neg", graph.add("Abs", scores)))
    log = graph.add("Log", graph.add("Add", small, graph.constant("one", 1.0)))
    own = graph.add("Sub", graph.add("Min", scores, graph.constant("zero", 0.0)), log)
    return graph.add("Softmax", own, axis=1)


def scores_shape(estimator: Any) -> int | None:
    """The number of columns of the scores; None for a vector."""
    if isinstance(estimator, REGRESSORS) or len(label_set(estimator)) == 2:
        return None
    by_pair = (
        isinstance(estimator, KernelSVC)
        and estimator._voting
        and estimator.decision_function_shape == "ovo"
    )
    return len(estimator.intercept_) if by_pair else len(estimator.classes_)


def label_values(classes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The labels in a type that ONNX has."""
    if classes.dtype.kind in "iu":
        return classes.astype(np.int64)
    if classes.dtype.kind == "f":
        return classes.astype(np.float64)
    if classes.dtype.kind == "b":
        return classes
    if all(isinstance(label, str) for label in classes):
        return classes.astype(object)
    raise TypeError(
        f"class labels of type {classes.dtype} cannot be stored in ONNX: use integers, floats or strings."
    )


def _linear(graph: OnnxGraph, estimator: Any, x: str) -> str:
    W = np.atleast_2d(np.asarray(estimator.coef_, dtype=np.float64))
    b = 0.0 if isinstance(estimator, RankSVM) else estimator.intercept_
    b = np.broadcast_to(np.asarray(b, dtype=np.float64).ravel(), len(W))
    b = b - estimator.threshold_ if isinstance(estimator, MeasureSVC) else b
    products = graph.add("MatMul", x, graph.constant("coef", W.T))
    return graph.add("Add", products, graph.constant("intercept", b))


def _decided(graph: OnnxGraph, classes: npt.NDArray[Any], scores: str) -> tuple[str, str]:
    """Labels by the sign of one score, or by the largest of several."""
    if len(classes) > 2:
        return _label(graph, classes, scores), scores
    scores = _flat(graph, scores)
    positive = graph.add("Greater", scores, graph.constant("zero", 0.0))
    which = graph.add("Cast", positive, to=7)
    return graph.add("Gather", _classes(graph, classes), which), scores


def _label(graph: OnnxGraph, classes: npt.NDArray[Any], scores: str) -> str:
    which = graph.add("ArgMax", scores, axis=1, keepdims=0)
    return graph.add("Gather", _classes(graph, classes), which)


def _classes(graph: OnnxGraph, classes: npt.NDArray[Any]) -> str:
    return graph.raw_constant("classes", label_values(classes))


def _flat(graph: OnnxGraph, scores: str) -> str:
    """One column as a vector."""
    return graph.add("Squeeze", scores, graph.raw_constant("columns", np.array([1])))


def _one_class(graph: OnnxGraph, svm: OneClassSVM, x: str) -> tuple[str, str]:
    """Typical samples have scores of at least zero."""
    scores = _linear(graph, svm, x) if svm._linear else _kernel_scores(graph, svm, x)
    scores = _flat(graph, scores)
    below = graph.add("Cast", graph.add("Less", scores, graph.constant("zero", 0.0)), to=7)
    return graph.add("Gather", _classes(graph, label_set(svm)[::-1]), below), scores


# -- kernels ---------------------------------------------------------------------------------------


def _kernel_classifier(graph: OnnxGraph, svc: KernelSVC, x: str) -> tuple[str, str]:
    scores = _kernel_scores(graph, svc, x)
    if not svc._voting:
        return _decided(graph, svc.classes_, scores)
    return _voted(graph, svc, scores)


def _kernel_scores(graph: OnnxGraph, svc: KernelSVC | KernelSVR | OneClassSVM, x: str) -> str:
    values = _kernel_values(graph, svc, x)
    coef = np.zeros((svc.dual_coef_.shape[1], len(svc.intercept_)))
    for rows, part, where in svc._segments():
        coef[rows, where] += part
    products = graph.add("MatMul", values, graph.constant("dual_coef", coef))
    return graph.add("Add", products, graph.constant("intercept", svc.intercept_))


def _kernel_values(graph: OnnxGraph, svc: KernelSVC | KernelSVR | OneClassSVM, x: str) -> str:
    kernel, Z = svc.kernel_, svc.support_vectors_
    if isinstance(kernel, FromCallable):
        raise TypeError(
            "a kernel that is a Python function or a matrix cannot be exported to ONNX: use 'rbf', 'poly', "
            "'sigmoid' or 'linear'."
        )
    if isinstance(kernel, RBF):
        return _rbf(graph, kernel, Z, x)
    assert isinstance(kernel, Linear | Polynomial | Sigmoid)
    # gamma is a factor of the constants: onnxruntime would round a factor of a product to single precision
    Z = kernel.gamma * _dense(Z)
    products = graph.add("MatMul", x, graph.constant("support_vectors", Z.T))
    if isinstance(kernel, Linear):
        return products
    products = graph.add("Add", products, graph.constant("coef0", kernel.coef0))
    if isinstance(kernel, Sigmoid):
        return graph.add("Tanh", products)
    return graph.add("Pow", products, graph.constant("degree", kernel.degree))


def _rbf(graph: OnnxGraph, kernel: RBF, Z: Any, x: str) -> str:
    center = np.asarray(center_of(Z), dtype=np.float64).ravel()
    Z = _dense(Z) - center
    x = graph.add("Sub", x, graph.constant("center", center))
    squares = graph.add(
        "ReduceSum", graph.add("Mul", x, x), graph.raw_constant("columns", np.array([1]))
    )
    # -gamma |x - z|^2 = 2 gamma <x, z> - gamma |z|^2 - gamma |x|^2
    products = graph.add("MatMul", x, graph.constant("support_vectors", 2.0 * kernel.gamma * Z.T))
    own = graph.constant("support_squares", -kernel.gamma * np.einsum("ij,ij->i", Z, Z))
    products = graph.add("Add", products, own)
    squares = graph.add("Mul", squares, graph.constant("gamma", kernel.gamma))
    exponent = graph.add("Sub", products, squares)
    return graph.add("Exp", graph.add("Min", exponent, graph.constant("zero", 0.0)))


def _voted(graph: OnnxGraph, svc: KernelSVC, scores: str) -> tuple[str, str]:
    """Labels by the votes of the pairs of classes, and scores as ``decision_function`` returns them."""
    K = len(svc.classes_)
    signs = np.zeros((len(svc.intercept_), K))
    for k, (i, j) in enumerate(pairs(K)):
        signs[k, i], signs[k, j] = 1.0, -1.0
    P = graph.constant("pairs", signs)
    first = graph.cast(graph.add("Greater", scores, graph.constant("zero", 0.0)))
    votes = graph.add("MatMul", first, P)
    votes = graph.add("Add", votes, graph.constant("second", (signs < 0).sum(axis=0)))
    label = _label(graph, svc.classes_, votes)
    if svc.decision_function_shape == "ovo":
        return label, scores
    # a fraction of at most 1/3 does not change the order of the votes
    sums = graph.add("MatMul", scores, P)
    size = graph.add("Add", graph.add("Abs", sums), graph.constant("one", 1.0))
    size = graph.add("Mul", size, graph.constant("three", 3.0))
    return label, graph.add("Add", votes, graph.add("Div", sums, size))


def _dense(Z: Any) -> Array:
    return np.asarray(Z.toarray() if sp.issparse(Z) else Z, dtype=np.float64)
