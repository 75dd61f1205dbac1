"""
Locating a signal in strings
============================

The features are all substrings (k-mers) of up to six letters at every position: 300,000 features, none of
which is stored. The weights show where the signal is and which k-mers it consists of.
"""

# %%
# Strings with a site in the middle
# ---------------------------------
# Positive strings have a segment rich in T before position 30, and nearly always CAG just before it, like
# acceptor splice sites. In negative strings, CAG occurs without this segment.

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import LinearSVC
from maxmargin.data import KmerDesign, hstack
from maxmargin.solvers import CuttingPlane

rng = np.random.default_rng(0)
n, length, site = 2000, 60, 30
y = np.where(rng.random(n) < 0.3, 1, -1)
letters = np.frombuffer(b"ACGT", np.uint8)[rng.integers(0, 4, (n, length))]
rich = (rng.random((n, 12)) < 0.5) & (y == 1)[:, None]
letters[:, site - 15 : site - 3][rich] = ord("T")
marked = rng.random(n) < 0.9
letters[marked, site - 3 : site] = np.frombuffer(b"CAG", np.uint8)

# %%
# Combining two kinds of k-mers
# -----------------------------
# Use k-mers at positions together with counts of k-mers anywhere.


def design(rows):
    return hstack(
        [
            KmerDesign(rows, orders=6, normalize=True),
            KmerDesign(rows, orders=3, kind="spectrum", normalize=True),
        ]
    )


train, test = slice(0, 1500), slice(1500, None)
X = design(letters[train])
svc = LinearSVC(C=1.0, solver=CuttingPlane(space="rows"), loss="hinge").fit(X, y[train])
accuracy = svc.score(design(letters[test]), y[test])
print(f"{X.shape[1]:,} features, gap {svc.gap_:.1e}, accuracy {accuracy:.3f}")

# %%
# The k-mers with the largest weights
# -----------------------------------

w = svc.coef_[0]
for j in np.argsort(-np.abs(w))[:8]:
    print(f"{w[j]:+.3f}  {X.describe(j)}")

# %%
# Where the weights are
# ---------------------
# The figure shows the sum of squared weights of all k-mers that begin at a position, by length.

words = X.parts[0]
mass = np.zeros((6, length))
for p in range(length):
    for k in range(1, min(6, length - p) + 1):
        first = words.column("A" * k, p)
        mass[k - 1, p] = np.sum(w[first : first + 4**k] ** 2)

figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
image = axes.imshow(mass, aspect="auto", cmap="Greys", interpolation="nearest")
axes.axvline(site - 0.5, color="C3", linewidth=1)
axes.set_yticks(range(6), range(1, 7))
axes.set(xlabel="position of the word's first letter", ylabel="letters in the word")
axes.set_title("Squared weights; the red line is the site")
figure.colorbar(image, ax=axes)
