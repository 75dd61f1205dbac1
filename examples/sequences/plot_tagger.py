"""
Reading numbers with a sequence tagger
======================================

Digits are easier to read in context. Here, sequences of noisy handwritten digits count upward most of the
time: after a 3 comes a 4. A classifier of single images cannot use this. :class:`~maxmargin.SequenceTagger`
learns it together with the images.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from maxmargin import LinearSVC, SequenceTagger

# %%
# The data
# --------
# The images are real and the sequences are artificial: the next digit is the previous one plus 1 (after 9
# comes 0) with probability 0.8, and any digit otherwise. Training and test sequences use different images.

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
X, Y = draw(order[:1000], n_sequences=200)
X_held, Y_held = draw(order[1000:1200], n_sequences=60)
X_test, Y_test = draw(order[1200:], n_sequences=60)

# %%
# Training
# --------
# Both models choose *C* from the same values, on the same held-out sequences.


def accuracy(paths, truth):
    return np.mean(np.concatenate(paths) == np.concatenate(truth))


def read_alone(model, sequences):
    return [model.predict(x) for x in sequences]


singles = [
    LinearSVC(C=C, multi_class="crammer_singer").fit(np.concatenate(X), np.concatenate(Y))
    for C in (0.01, 0.03, 0.1, 0.3)
]
taggers = [SequenceTagger(C=C).fit(X, Y) for C in (0.01, 0.03, 0.1, 0.3)]
single = max(singles, key=lambda model: accuracy(read_alone(model, X_held), Y_held))
tagger = max(taggers, key=lambda model: accuracy(model.predict(X_held), Y_held))
print(f"{tagger.lower_bound_:.2f} <= F* <= {tagger.objective_:.2f}   ({tagger.certificate_})")

# %%
# On the test sequences:

alone, read = read_alone(single, X_test), tagger.predict(X_test)
print(f"one image at a time  {accuracy(alone, Y_test):.3f}   C = {single.C}")
print(f"whole sequences      {accuracy(read, Y_test):.3f}   C = {tagger.C}")

# %%
# The learned scores of adjacent digits, from row to column:

figure, axes = plt.subplots(figsize=(4, 3.4), layout="constrained")
picture = axes.imshow(tagger.transitions_, cmap="viridis")
axes.set(xticks=range(10), yticks=range(10), xlabel="next digit", ylabel="digit")
figure.colorbar(picture, label="score")

# %%
# One test sequence. Below every image are the prediction of the classifier and that of the tagger. Errors
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
