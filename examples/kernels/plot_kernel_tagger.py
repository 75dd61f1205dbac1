"""
Kernels on structures: tagging inverted digits
==============================================

Sequences of handwritten digits, half of them inverted. The meaning of a pixel then depends on all the
others, so no linear function can recognize the digit. A kernel between two images replaces their inner
product.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from maxmargin import SequenceTagger
from maxmargin.kernels import Nystrom
from maxmargin.solvers import SampledCuts

# %%
# The data
# --------
# The next digit is the previous one plus 1 with probability 0.6, and any digit otherwise. Training and test
# sequences use different images.

rng = np.random.default_rng(0)
images, digits = load_digits(return_X_y=True)
images = (images - images.mean()) / 16.0


def draw(pool, n_sequences, length=8):
    X, Y = [], []
    for _ in range(n_sequences):
        y = [rng.integers(10)]
        while len(y) < length:
            y.append((y[-1] + 1) % 10 if rng.random() < 0.6 else rng.integers(10))
        rows = np.array([rng.choice(pool[digits[pool] == digit]) for digit in y])
        X.append(images[rows] * rng.choice([-1.0, 1.0], size=(length, 1)))
        Y.append(np.array(y))
    return X, Y


order = rng.permutation(len(digits))
X, Y = draw(order[:1000], n_sequences=60)
X_test, Y_test = draw(order[1000:], n_sequences=100)

# %%
# Training
# --------
# With all 480 training images in the basis ("map"), the certificate is for the full kernel problem. With 100
# landmarks, it is for a restricted one. Sampled cuts prove nothing about the optimum.

square = {"kernel": "poly", "degree": 2, "coef0": 1.0}
models = {
    "linear": SequenceTagger(C=0.1),
    "all images": SequenceTagger(C=1.0, **square),
    "100 landmarks": SequenceTagger(C=1.0, kernel_method=Nystrom(100), **square),
    "sampled cuts": SequenceTagger(C=1.0, kernel_method=SampledCuts(size=20), **square),
}
for name, model in models.items():
    model.fit(X, Y)
    error = 1.0 - model.score(X_test, Y_test)
    bounds = f"{max(model.lower_bound_, 0.0):6.2f} <= F* <= {model.objective_:6.2f}"
    print(f"{name:14} {model.certificate_:10} {bounds}   errors {100 * error:4.1f} %")

# %%
# One test sequence, as read by the linear model and by the kernel model. Errors are red.

k = 0
fig, axes = plt.subplots(1, len(Y_test[k]), figsize=(9, 1.6))
readings = [models["linear"].predict([X_test[k]])[0], models["all images"].predict([X_test[k]])[0]]
for t, ax in enumerate(axes):
    ax.imshow(X_test[k][t].reshape(8, 8), cmap="gray_r")
    ax.set(xticks=[], yticks=[])
    for row, reading in enumerate(readings):
        right = reading[t] == Y_test[k][t]
        ax.text(
            3.5, 9.2 + 2.2 * row, str(reading[t]), ha="center", color="black" if right else "red"
        )
for row, name in enumerate(["linear", "kernel"]):
    axes[0].text(-1.5, 9.2 + 2.2 * row, name, ha="right")
fig.subplots_adjust(bottom=0.35, left=0.1, top=1.0)
plt.show()
