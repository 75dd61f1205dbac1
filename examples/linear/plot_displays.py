"""
Look at a model: weights, margins, paths, and transitions
=========================================================

:mod:`maxmargin.inspection` has displays in the manner of scikit-learn. Each shows what numbers alone hide.
"""

# %%
# Weights by name, and margins
# ----------------------------
# The fit on the left is stopped early. The shaded predictions are nevertheless proven to be those of the
# optimum: no longer training would change them. Most of the others are near the boundary.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from maxmargin import LinearSVC, LinearSVCCV, SequenceTagger, svc_path
from maxmargin.inspection import MarginsDisplay, PathDisplay, TransitionsDisplay, WeightsDisplay

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X = StandardScaler().set_output(transform="pandas").fit_transform(X)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
svc = LinearSVC(C=0.1, tol=0.1).fit(X_train, y_train)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
WeightsDisplay.from_estimator(svc, ax=left)
MarginsDisplay.from_estimator(svc, X_test, y_test, ax=right)
plt.show()

# %%
# Over C
# ------
# A search by held-out score, and the weights of a path.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
search = LinearSVCCV(Cs=np.geomspace(1e-4, 10, 6), class_weights=[None, "balanced"])
PathDisplay.from_search(search.fit(X_train, y_train), ax=left)
path = svc_path(X_train, y_train, Cs=np.geomspace(1e-3, 1, 7))
PathDisplay.from_models(path, ax=right)
plt.show()

# %%
# Transitions of a tagger
# -----------------------
# Digits in sequences: the next one is mostly the previous one plus 1, which the tagger has learned.

rng = np.random.default_rng(0)
images, digits = load_digits(return_X_y=True)
sequences = []
for _ in range(200):
    labels = [rng.integers(10)]
    for _ in range(7):
        labels.append((labels[-1] + 1) % 10 if rng.random() < 0.8 else rng.integers(10))
    sequences.append([rng.choice(np.flatnonzero(digits == label)) for label in labels])
pixels = [(images[k] + 6 * rng.normal(size=(8, 64))) / 16 for k in sequences]
tagger = SequenceTagger(C=0.1).fit(pixels, [digits[k] for k in sequences])
TransitionsDisplay.from_estimator(tagger)
plt.show()
