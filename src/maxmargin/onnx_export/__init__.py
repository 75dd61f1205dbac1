"""Fitted linear and kernel models as ONNX models, which other programs evaluate without Python.

``to_onnx`` needs ``pip install "maxmargin[onnx]"``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from maxmargin.onnx_export.formulas import CLASSIFIERS, REGRESSORS
from maxmargin.onnx_export.graph import OPSET
from maxmargin.onnx_export.skl2onnx_converters import register

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["register_converters", "to_onnx"]


def to_onnx(estimator: Any, *, dtype: npt.DTypeLike = np.float32) -> ModelProto:
    """Convert a fitted linear or kernel model, or a pipeline that ends with one, to ONNX.

    Parameters
    ----------
    estimator : estimator or Pipeline
        A fitted :class:`LinearSVC`, :class:`LinearSVCCV`, :class:`LogisticRegression`, :class:`MeasureSVC`,
        :class:`KernelSVC`, :class:`LinearSVR`, :class:`KernelSVR`, :class:`RankSVM` or :class:`OneClassSVM`,
        or a scikit-learn model that contains one and that skl2onnx can convert, such as a pipeline with a
        scaler.
    dtype : {numpy.float32, numpy.float64}, default numpy.float32
        Type of the input ``X``, the constants, and the scores. Single precision is what most ONNX runtimes
        expect. Samples whose scores are nearly tied can get another label than in double precision.

    Returns
    -------
    onnx.ModelProto
        The input is ``X``, a dense array of shape (n_samples, n_features). The outputs of a classifier are
        ``label`` and ``scores``, as ``predict`` and ``decision_function`` return them, and ``probabilities``
        with ``loss="logistic"``; the output of a regressor or a ranking is ``prediction``. The metadata hold
        the certificate. Write it to a file with ``onnx.save(model, path)``.

    Raises
    ------
    ImportError
        If skl2onnx is not installed: ``pip install "maxmargin[onnx]"``.
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
    own = isinstance(estimator, CLASSIFIERS + REGRESSORS)
    if not own and type(estimator).__module__.startswith("maxmargin."):
        known = ", ".join(cls.__name__ for cls in CLASSIFIERS + REGRESSORS)
        raise TypeError(
            f"{type(estimator).__name__} cannot be exported to ONNX. These estimators can: {known}."
        )
    check_is_fitted(estimator)
    register_converters()
    import onnx
    import skl2onnx
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    kind = FloatTensorType if dtype == np.float32 else DoubleTensorType
    types = [("X", kind([None, estimator.n_features_in_]))]
    model = skl2onnx.to_onnx(estimator, initial_types=types, target_opset=OPSET)
    if own:
        onnx.helper.set_model_props(model, _certificate(estimator))
    return model


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
        raise ImportError(
            'ONNX models need the package skl2onnx. Install it with: pip install "maxmargin[onnx]"'
        ) from error


def _certificate(estimator: Any) -> dict[str, str]:
    fitted = getattr(estimator, "best_estimator_", estimator)  # of a search
    return {
        "certificate": str(fitted.certificate_),
        "lower_bound": repr(float(fitted.lower_bound_)),
        "objective": repr(float(fitted.objective_)),
        "stop_reason": str(fitted.stop_reason_),
    }
