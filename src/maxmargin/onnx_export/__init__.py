"""Fitted linear and kernel models as ONNX models, which other programs evaluate without Python.

``to_onnx`` needs ``pip install "maxmargin[onnx]"``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxmargin._version import __version__
from maxmargin.onnx_export.formulas import (
    CLASSIFIERS,
    REGRESSORS,
    label_values,
    outputs,
    scores_shape,
)
from maxmargin.onnx_export.graph import IR_VERSION, OPSET, Graph, onnx_type
from maxmargin.onnx_export.skl2onnx_converters import register

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["register_converters", "to_onnx"]


def to_onnx(estimator: Any, *, dtype: Any = np.float32) -> ModelProto:
    """Convert a fitted linear or kernel model, or a pipeline that ends with one, to ONNX.

    Parameters
    ----------
    estimator : estimator or Pipeline
        A fitted :class:`LinearSVC`, :class:`LinearSVCCV`, :class:`MeasureSVC`, :class:`KernelSVC`,
        :class:`LinearSVR` or :class:`RankSVM`, or a scikit-learn model that contains one and that skl2onnx
        can convert, such as a pipeline with a scaler.
    dtype : {numpy.float32, numpy.float64}, default numpy.float32
        Type of the input ``X``, the constants, and the scores. Single precision is what most ONNX runtimes
        expect. Samples whose scores are nearly tied can get another label than in double precision.

    Returns
    -------
    onnx.ModelProto
        The input is ``X``, a dense array of shape (n_samples, n_features). The outputs of a classifier are
        ``label`` and ``scores``, as ``predict`` and ``decision_function`` return them; the output of a
        regressor or a ranking is ``prediction``. The metadata hold the certificate. Write it to a file with
        ``onnx.save(model, path)``.

    Raises
    ------
    ImportError
        If onnx is not installed, or skl2onnx for a pipeline: ``pip install "maxmargin[onnx]"``.
    TypeError
        For estimators whose predictions ONNX cannot express, such as taggers and kernels that are Python
        functions.

    See Also
    --------
    maxmargin.onnx_export.register_converters : Use skl2onnx directly.
    maxmargin.persistence.save : Files that this library reads again.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import maxmargin
    >>> X, y = load_iris(return_X_y=True)
    >>> svc = maxmargin.KernelSVC().fit(X, y)
    >>> model = maxmargin.to_onnx(svc)  # doctest: +SKIP
    >>> import onnxruntime  # doctest: +SKIP
    >>> session = onnxruntime.InferenceSession(model.SerializeToString())  # doctest: +SKIP
    >>> label, scores = session.run(None, {"X": X.astype("float32")})  # doctest: +SKIP
    """
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype must be numpy.float32 or numpy.float64, got {dtype}.")
    if not isinstance(estimator, CLASSIFIERS + REGRESSORS):
        return _by_skl2onnx(estimator, dtype)
    check_is_fitted(estimator)
    try:
        import onnx
    except ImportError as error:
        raise _missing("onnx") from error
    graph = Graph(dtype)
    names = outputs(graph, estimator, "X")
    return _model(onnx, graph, names, estimator)


def register_converters() -> None:
    """Register the estimators of :func:`to_onnx` with skl2onnx.

    Afterwards ``skl2onnx.to_onnx`` converts pipelines, columns transformers and other models that contain
    them. Calling it again has no effect.

    Examples
    --------
    >>> from maxmargin.onnx_export import register_converters
    >>> register_converters()  # doctest: +SKIP
    """
    try:
        register()
    except ImportError as error:
        raise _missing("skl2onnx") from error


def _by_skl2onnx(estimator: Any, dtype: np.dtype[Any]) -> ModelProto:
    if type(estimator).__module__.startswith("maxmargin."):
        known = ", ".join(cls.__name__ for cls in CLASSIFIERS + REGRESSORS)
        raise TypeError(
            f"{type(estimator).__name__} cannot be exported to ONNX. These estimators can: {known}."
        )
    check_is_fitted(estimator)
    register_converters()
    import skl2onnx
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    kind = FloatTensorType if dtype == np.float32 else DoubleTensorType
    types = [("X", kind([None, estimator.n_features_in_]))]
    return skl2onnx.to_onnx(estimator, initial_types=types, target_opset=OPSET)


def _model(onnx: Any, graph: Graph, names: tuple[str, ...], estimator: Any) -> ModelProto:
    helper, real = onnx.helper, onnx_type(graph.dtype)
    nodes = [
        helper.make_node(node.op, node.inputs, [node.output], **node.attributes)
        for node in graph.nodes
    ]
    constants = [onnx.numpy_helper.from_array(v, name) for name, v in graph.constants.items()]
    columns = scores_shape(estimator)
    scores_axes: list[str | int] = ["n"] if columns is None else ["n", columns]
    if isinstance(estimator, REGRESSORS):
        results = [("prediction", real, scores_axes)]
    else:
        label = onnx_type(label_values(estimator.classes_).dtype)
        results = [("label", label, ["n"]), ("scores", real, scores_axes)]
    for (name, _, _), inner in zip(results, names, strict=True):
        nodes.append(helper.make_node("Identity", [inner], [name]))
    inputs = [helper.make_tensor_value_info("X", real, ["n", estimator.n_features_in_])]
    infos = [helper.make_tensor_value_info(*result) for result in results]
    inside = helper.make_graph(nodes, type(estimator).__name__, inputs, infos, constants)
    model = helper.make_model(
        inside,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="maxmargin",
        producer_version=__version__,
    )
    helper.set_model_props(model, _certificate(estimator))
    onnx.checker.check_model(model)
    return model


def _certificate(estimator: Any) -> dict[str, str]:
    fitted = getattr(estimator, "best_estimator_", estimator)  # of a search
    return {
        "certificate": str(fitted.certificate_),
        "lower_bound": repr(float(fitted.lower_bound_)),
        "objective": repr(float(fitted.objective_)),
        "stop_reason": str(fitted.stop_reason_),
    }


def _missing(package: str) -> ImportError:
    return ImportError(
        f'to_onnx needs the package {package}. Install it with: pip install "maxmargin[onnx]"'
    )
