"""
Rare classes with imbalanced-learn
==================================

Estimators of maxmargin are the last step of imbalanced-learn's pipelines and work in its ensembles. This
script compares three ways to handle a class of 3 %: resampling, class weights, and training for F1.

``pip install maxmargin imbalanced-learn``
"""

import sys

from sklearn.datasets import make_classification
from sklearn.metrics import f1_score
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.preprocessing import StandardScaler

from maxmargin import LinearSVC, MeasureSVC

try:
    from imblearn.ensemble import BalancedBaggingClassifier
    from imblearn.over_sampling import SMOTE
    from imblearn.pipeline import make_pipeline
    from imblearn.under_sampling import RandomUnderSampler
except ImportError:
    print("This example needs imbalanced-learn: pip install imbalanced-learn")
    sys.exit(77)

# %%
# Two problems: the rare class is one cluster, or two that a linear classifier cannot separate well.

problems = {
    "one cluster": {"n_clusters_per_class": 1, "class_sep": 1.0},
    "two clusters": {"n_clusters_per_class": 2, "class_sep": 1.2},
}
models = {
    "LinearSVC": LinearSVC(loss="hinge"),
    "LinearSVC, balanced": LinearSVC(class_weight="balanced", loss="hinge"),
    "undersampling": make_pipeline(RandomUnderSampler(random_state=0), LinearSVC(loss="hinge")),
    "SMOTE": make_pipeline(StandardScaler(), SMOTE(random_state=0), LinearSVC(loss="hinge")),
    "balanced bagging": BalancedBaggingClassifier(
        LinearSVC(loss="hinge"), n_estimators=10, random_state=0
    ),
    "MeasureSVC('f1')": MeasureSVC("f1"),
}
scores = {}
for problem, settings in problems.items():
    X, y = make_classification(
        4000, 20, n_informative=6, weights=[0.97], flip_y=0.01, random_state=0, **settings
    )
    X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
    for name, model in models.items():
        model.fit(X_train, y_train)
        scores[problem, name] = f1_score(y_test, model.predict(X_test))
        print(f"{problem:12s}  {name:20s} F1 {scores[problem, name]:.3f}")

# %%
# Resampling and class weights give some F1 on both. Without them, and with C=1, both ``LinearSVC`` and
# ``MeasureSVC("f1")`` predict no sample of the rare class on the second problem.

pipeline = models["SMOTE"]
assert pipeline[-1].converged_
assert len(cross_val_score(pipeline, X_train, y_train, scoring="f1", cv=3)) == 3
assert len(models["balanced bagging"].estimators_) == 10
assert min(scores[problem, "SMOTE"] for problem in problems) > 0.2
compared = ("SMOTE", "MeasureSVC('f1')")
shown = [
    f"{problem} " + " and ".join(f"{scores[problem, name]:.3f}" for name in compared)
    for problem in problems
]
print(
    f"pipelines and bagging train our estimators; test F1 of {' and '.join(compared)}: {', '.join(shown)}"
)
