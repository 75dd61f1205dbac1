"""
Reading numbers: a sequence tagger
==================================

Digits are easier to read in context. Here sequences of noisy handwritten digits count upwards most of
the time: after a 3 comes a 4. A classifier that looks at one image at a time cannot know this;
:class:`~maxmargin.SequenceTagger` learns it along with the images.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from maxmargin import LinearSVC, SequenceTagger

# %%
# The data
# --------
# Real images, artificial sequences: the next digit is the previous one plus 1 (after 9 comes 0) with
# probability 0.8, and any digit otherwise. Training and test sequences draw from different images.

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
X, Y = draw(order[:1200], n_sequences=200)
X_test, Y_test = draw(order[1200:], n_sequences=60)

# %%
# Training
# --------

tagger = SequenceTagger(C=0.1).fit(X, Y)
print(f"{tagger.lower_bound_:.2f} <= F* <= {tagger.objective_:.2f}   ({tagger.certificate_})")

# %%
# The same images, one at a time:

single = LinearSVC(C=0.1).fit(np.concatenate(X), np.concatenate(Y))

read = tagger.predict(X_test)
alone = [single.predict(x) for x in X_test]
truth = np.concatenate(Y_test)
print("one image at a time ", np.mean(np.concatenate(alone) == truth).round(3))
print("whole sequences     ", np.mean(np.concatenate(read) == truth).round(3))

# %%
# One test sequence. Below every image: what the classifier saw, and what the tagger read. Errors
# are red.

worst = int(np.argmax([np.sum(a != y) for a, y in zip(alone, Y_test, strict=True)]))
figure, axes = plt.subplots(1, 10, figsize=(8, 1.6), layout="constrained")
for t, axis in enumerate(axes):
    axis.imshow(X_test[worst][t].reshape(8, 8), cmap="gray_r")
    axis.set(xticks=[], yticks=[])
    for place, path in ((-0.25, alone[worst]), (-0.55, read[worst])):
        right = path[t] == Y_test[worst][t]
        axis.text(
            0.5,
            place,
            str(path[t]),
            color="k" if right else "tab:red",
            transform=axis.transAxes,
            ha="center",
        )
