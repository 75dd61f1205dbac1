"""All private names of scikit-learn that are used.

A release of scikit-learn may change them without notice. The nightly job ``scikit-learn`` runs the core tests
with its development version. ``tests/estimators/test_private_names.py`` finds private names in other files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.utils.multiclass import _ovr_decision_function as ovr_decision_function
from sklearn.utils.validation import _check_sample_weight as check_sample_weight

if TYPE_CHECKING:
    from sklearn.model_selection._search import BaseSearchCV

__all__ = ["CLASSES", "METHODS", "BaseSearchCV", "check_sample_weight", "ovr_decision_function"]

#: classes that :mod:`maxmargin.accel` replaces, and the modules that have them
CLASSES = {
    "LinearSVC": ("sklearn.svm", "sklearn.svm._classes"),
    "LinearSVR": ("sklearn.svm", "sklearn.svm._classes"),
    "SVC": ("sklearn.svm", "sklearn.svm._classes"),
    "SVR": ("sklearn.svm", "sklearn.svm._classes"),
    "LogisticRegression": ("sklearn.linear_model", "sklearn.linear_model._logistic"),
}
#: methods of ``BaseEstimator`` that the estimators extend
METHODS = ("_repr_html_inner", "_repr_mimebundle_")


def __getattr__(name: str) -> Any:
    if name != "BaseSearchCV":
        raise AttributeError(name)
    from sklearn.model_selection._search import BaseSearchCV  # takes long

    return BaseSearchCV
