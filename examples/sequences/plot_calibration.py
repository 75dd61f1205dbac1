"""
How sure is a sequence tagger?
==============================

Scores are not probabilities. :meth:`~maxmargin.SequenceTagger.calibrate` learns from held-out sequences how
often labels of a given margin are right, for example to send only doubtful tokens to a person.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from maxmargin import SequenceTagger

# %%
# The data
# --------
# Sequences of handwritten digits: the next digit is the previous one plus 1 with probability 0.8. Training,
# held-out, and test sequences use different images.

rng = np.random.default_rng(0)
images, digits = load_digits(return_X_y=True)
images = images / 16.0


def draw(pool, n_sequences, length=10):
    X, Y = [], []
    for _ in range(n_sequences):
        y = [rng.integers(10)]
        while len(y) < length:
            y.append((y[-1] + 1) % 10 if rng.random() < 0.8 else rng.integers(10))
        rows = np.array([rng.choice(pool[digits[pool] == digit]) for digit in y])
        X.append(images[rows] + rng.normal(scale=0.6, size=(length, 64)))
        Y.append(np.array(y))
    return X, Y


order = rng.permutation(len(digits))
X, Y = draw(order[:800], n_sequences=150)
X_held, Y_held = draw(order[800:1300], n_sequences=300)
X_test, Y_test = draw(order[1300:], n_sequences=300)

# %%
# Training and calibration
# ------------------------
# Held-out sequences are necessary: on its training data, a tagger is right too often.

tagger = SequenceTagger(C=0.1).fit(X, Y)
right = np.concatenate(
    [np.equal(a, b) for a, b in zip(tagger.predict(X_test), Y_test, strict=True)]
)
confidence = {}
for name, sequences in {"training data": (X, Y), "held-out data": (X_held, Y_held)}.items():
    tagger.calibrate(*sequences)
    confidence[name] = np.concatenate(tagger.predict_confidence(X_test))

# %%
# The calibration plot
# --------------------
# For a calibrated tagger, the fraction of right labels in each bin equals its mean confidence. The expected
# calibration error is the mean difference, weighted by the number of tokens.


def bins(confidence, right, n=10):
    place = np.minimum((n * confidence).astype(int), n - 1)
    used = np.unique(place)
    size = np.array([np.sum(place == b) for b in used])
    mean = np.array([confidence[place == b].mean() for b in used])
    hit = np.array([right[place == b].mean() for b in used])
    return mean, hit, size


fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot([0, 1], [0, 1], color="0.7", linewidth=1)
for name, values in confidence.items():
    mean, hit, size = bins(values, right)
    error = np.sum(size * np.abs(mean - hit)) / np.sum(size)
    ax.plot(mean, hit, marker="o", label=f"{name} (error {error:.3f})")
    print(f"calibrated on {name}: expected calibration error {error:.3f}")
ax.set(xlabel="confidence", ylabel="fraction of right labels", title="Test tokens")
ax.legend(title="calibrated on")
plt.show()

# %%
# What confidences are good for
# -----------------------------
# If the least confident tokens are checked by hand, the accuracy of the rest rises.

order = np.argsort(-confidence["held-out data"], kind="stable")
kept = np.arange(1, len(order) + 1)
fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot(1.0 - kept / len(order), np.cumsum(right[order]) / kept)
ax.set(xlabel="fraction of tokens checked by hand", ylabel="accuracy of the others", xlim=(0, 0.6))
plt.show()
