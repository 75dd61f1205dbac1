"""
Predictions without Python: ONNX
================================

:func:`maxmargin.to_onnx` writes linear and kernel models, and pipelines that end with one, as ONNX models.
This script runs them with onnxruntime in single and double precision and compares the predictions.

``pip install "maxmargin[onnx]" onnxruntime``
"""

import sys

import numpy as np
from sklearn.datasets import load_diabetes, load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import maxmargin
from maxmargin import KernelSVC, LinearSVC, LinearSVR

try:
    import onnxruntime
    import skl2onnx  # noqa: F401
except ImportError:
    print("This example needs ONNX: pip install onnx skl2onnx onnxruntime")
    sys.exit(77)

# %%
# Train as usual: digits, as integers and as strings; and a regression.

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
X_diabetes, y_diabetes = load_diabetes(return_X_y=True)
models = {
    "LinearSVC, two classes": (LinearSVC().fit(X_train, y_train == 3), X_test),
    "LinearSVC, ten classes": (LinearSVC().fit(X_train, y_train.astype(str)), X_test),
    "scaled LinearSVR": (
        make_pipeline(StandardScaler(), LinearSVR(C=10.0)).fit(X_diabetes, y_diabetes),
        X_diabetes,
    ),
    "KernelSVC, rbf": (KernelSVC().fit(X_train, y_train), X_test),
    "KernelSVC, poly": (KernelSVC(kernel="poly").fit(X_train, y_train), X_test),
    "scaled KernelSVC, rbf": (
        make_pipeline(StandardScaler(), KernelSVC()).fit(X_train, y_train),
        X_test,
    ),
}

# %%
# The ONNX model has the outputs ``label`` and ``scores``, or ``prediction`` for a regression.

worst = {np.float32: 0.0, np.float64: 0.0}
print(f"{'model':24s} {'type':8s} {'labels that differ':>18s} {'error of scores':>16s}")
for name, (estimator, X_new) in models.items():
    for dtype in (np.float32, np.float64):
        model = maxmargin.to_onnx(estimator, dtype=dtype)
        session = onnxruntime.InferenceSession(model.SerializeToString())
        found = session.run(None, {"X": X_new.astype(dtype)})
        if len(found) == 1:
            wrong, expected = 0, estimator.predict(X_new)
        else:
            wrong = int(np.sum(found[0] != estimator.predict(X_new)))
            expected = estimator.decision_function(X_new)
        error = float(np.max(np.abs(found[-1] - expected)) / np.max(np.abs(expected)))
        print(f"{name:24s} {np.dtype(dtype).name:8s} {wrong:18d} {error:16.1e}")
        assert wrong == 0
        worst[dtype] = max(worst[dtype], error)

assert worst[np.float32] < 1e-4
assert worst[np.float64] < 1e-9
print(
    f"{len(models)} models: all labels equal, scores within {worst[np.float32]:.0e} of the largest in single "
    f"and {worst[np.float64]:.0e} in double precision"
)
