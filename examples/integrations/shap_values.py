"""
SHAP values
===========

``shap.LinearExplainer`` computes exact values from ``coef_`` and ``intercept_``. For kernel models,
``shap.PermutationExplainer`` needs nothing but the decision function.

``pip install maxmargin shap``
"""

import sys

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from maxmargin import KernelSVC, LinearSVC

try:
    import shap
except ImportError:
    print("This example needs SHAP: pip install shap")
    sys.exit(77)

data = load_breast_cancer()
X, y = scale(data.data), data.target

# %%
# Linear: the value of a feature is its weight times its distance from the mean of the background data.

svc = LinearSVC(loss="hinge").fit(X, y)
explained = shap.LinearExplainer(svc, shap.maskers.Independent(X, max_samples=len(X)))(X[:50])
expected = svc.coef_[0] * (X[:50] - X.mean(axis=0))
np.testing.assert_allclose(explained.values.reshape(50, -1), expected, atol=1e-9)
linear_sum = explained.values.reshape(50, -1).sum(axis=1) + np.ravel(explained.base_values)
np.testing.assert_allclose(linear_sum, svc.decision_function(X[:50]), atol=1e-9)

# %%
# Kernel: values add up to the difference from the mean score of the background data.

kernel = KernelSVC().fit(X, y)
background = X[::10]
explainer = shap.PermutationExplainer(kernel.decision_function, background, seed=0)
values = explainer(X[:5], max_evals=2 * (2 * X.shape[1] + 1))
kernel_sum = values.values.sum(axis=1) + values.base_values
error = float(np.max(np.abs(kernel_sum - kernel.decision_function(X[:5]))))
assert error < 1e-6

strongest = data.feature_names[np.argmax(np.abs(explained.values.reshape(50, -1)).mean(axis=0))]
print(
    f"exact values of a linear model (strongest feature: {strongest}); values of a kernel model add up to "
    f"its scores within {error:.0e}"
)
