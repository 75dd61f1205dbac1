"""
Explaining weights and predictions with eli5
============================================

eli5 chooses an explanation by the class of the estimator, and it knows the classes of scikit-learn. Its
functions for linear models need ``coef_``, ``intercept_`` and ``classes_``, which our estimators have; two
lines register them.

``pip install maxmargin eli5``
"""

import sys

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.preprocessing import scale

from maxmargin import LinearSVC, LinearSVCCV, LinearSVR, MeasureSVC, RankSVM

try:
    import eli5
    from eli5.sklearn.explain_prediction import (
        explain_prediction_linear_classifier,
        explain_prediction_linear_regressor,
    )
    from eli5.sklearn.explain_weights import (
        explain_linear_classifier_weights,
        explain_linear_regressor_weights,
    )
except ImportError:
    print("This example needs eli5: pip install eli5")
    sys.exit(77)

# %%
# Register the classes with eli5's ``explain_weights`` and ``explain_prediction``:

for cls in (LinearSVC, LinearSVCCV, MeasureSVC):
    eli5.explain_weights.register(cls, explain_linear_classifier_weights)
    eli5.explain_prediction.register(cls, explain_prediction_linear_classifier)
for cls in (LinearSVR, RankSVM):
    eli5.explain_weights.register(cls, explain_linear_regressor_weights)
    eli5.explain_prediction.register(cls, explain_prediction_linear_regressor)

# %%
# The weights of a classifier, largest first:

data = load_breast_cancer()
X = scale(data.data)
svc = LinearSVC(loss="hinge").fit(X, data.target)
explained = eli5.explain_weights(svc, feature_names=list(data.feature_names), top=5)
print(eli5.format_as_text(explained, show=("targets",)))
found = explained.targets[0].feature_weights
largest = max([*found.pos, *found.neg], key=lambda entry: abs(entry.weight))
position = int(np.argmax(np.abs(svc.coef_[0])))
assert abs(svc.intercept_[0]) < abs(svc.coef_[0, position])
assert largest.feature == data.feature_names[position]
np.testing.assert_allclose(largest.weight, svc.coef_[0, position])

# %%
# The contributions of the features to one prediction add up to its score:


def total(prediction):
    """The sum of all contributions."""
    weights = prediction.targets[0].feature_weights
    return sum(entry.weight for entry in [*weights.pos, *weights.neg])


prediction = eli5.explain_prediction(svc, X[0])
np.testing.assert_allclose(abs(total(prediction)), abs(svc.decision_function(X[:1])[0]))

X, y = load_diabetes(return_X_y=True)
svr = LinearSVR(C=100.0).fit(X, y)
np.testing.assert_allclose(total(eli5.explain_prediction(svr, X[0])), svr.predict(X[:1])[0])
print(
    "weights and predictions of a classifier and a regressor explained; contributions add up to the score"
)
