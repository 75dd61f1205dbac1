"""
Saving with skops
=================

skops stores scikit-learn models without pickle and loads only the types that you trust. This script stores
fitted estimators of maxmargin, prints the types that have to be trusted, and checks that the loaded
estimators predict the same.

:func:`maxmargin.load` reads the library's own model files and needs no such list; see :doc:`/saving`.

``pip install maxmargin skops``
"""

import sys

import numpy as np
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import KernelSVC, LinearSVC, LinearSVCCV, LinearSVR, MeasureSVC, SequenceTagger

try:
    import skops.io
except ImportError:
    print("This example needs skops: pip install skops")
    sys.exit(77)

X, y = load_iris(return_X_y=True)
sentences = [["the", "dog", "barks"], ["a", "cat", "sleeps"]] * 5
tags = [["DET", "NOUN", "VERB"]] * 10
models = {
    "LinearSVC": (LinearSVC().fit(X, y), X),
    "scaled LinearSVC": (make_pipeline(StandardScaler(), LinearSVC()).fit(X, y), X),
    "LinearSVCCV": (LinearSVCCV(Cs=[0.1, 1.0], cv=2).fit(X, y), X),
    "LinearSVR": (LinearSVR().fit(X, X[:, 0] + y), X),
    "MeasureSVC": (MeasureSVC("f1").fit(X, y == 2), X),
    "KernelSVC": (KernelSVC().fit(X, y), X),
    "SequenceTagger": (SequenceTagger(C=1.0).fit(sentences, tags), sentences),
}

# %%
# Look at the types before you trust them. All of them are classes of maxmargin.

every_type = set()
for name, (model, inputs) in models.items():
    stored = skops.io.dumps(model)
    types = skops.io.get_untrusted_types(data=stored)
    every_type.update(types)
    loaded = skops.io.loads(stored, trusted=types)
    if name == "SequenceTagger":
        assert loaded.predict(inputs) == model.predict(inputs)
    else:
        np.testing.assert_array_equal(loaded.predict(inputs), model.predict(inputs))
    print(f"{name}: trust {types}")

print(
    f"{len(models)} estimators with {len(every_type)} types to trust; loaded ones predict the same"
)
