"""
Learning substitution scores for sequence alignment
===================================================

Two strings with a common ancestor differ by substitutions, insertions, and deletions. From aligned pairs,
:class:`~maxmargin.tasks.Alignment` learns the score of each substitution and each gap.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import StructuredSVM
from maxmargin.inspection import ConvergenceDisplay
from maxmargin.tasks import Alignment

# %%
# The data
# --------
# There are six symbols in two families. Within a family, symbols replace each other often; across families,
# rarely. A fifth of the symbols of one string is missing in the other, in runs of one to three.

SYMBOLS = "ABCXYZ"
rng = np.random.default_rng(0)


def substitute(symbol):
    family = "ABC" if symbol in "ABC" else "XYZ"
    kind = rng.random()
    return symbol if kind < 0.5 else rng.choice(list(family if kind < 0.95 else SYMBOLS))


def related(length=14):
    top, bottom = [], []
    ancestor = rng.choice(list(SYMBOLS), length)
    position = 0
    while position < length:
        run = ancestor[position : position + rng.integers(1, 4)]
        if rng.random() < 0.2:
            gap = ["-"] * len(run)
            top += [*(run if rng.random() < 0.5 else gap)]
            bottom += [*(gap if top[-1] != "-" else run)]
        else:
            top += [*run]
            bottom += [substitute(s) for s in run]
        position += len(run)
    return "".join(top), "".join(bottom)


rows = [related() for _ in range(120)]
X, Y = map(list, zip(*(Alignment.from_rows(top, bottom) for top, bottom in rows), strict=True))
print("\n".join(rows[0]))

# %%
# The fit
# -------
# With affine gaps, a run of gaps has a score, and so does each symbol in it.

svm = StructuredSVM(Alignment(affine=True), C=0.1, tol=1e-3).fit(X[:80], Y[:80])
print(f"{svm.lower_bound_:.2f} <= optimum <= {svm.objective_:.2f}, {svm.certificate_}")
gap, opening = svm.coef_[-2:]
print(f"a gap costs {-opening:.2f}, and {-gap:.2f} for each symbol")

# %%
# The learned scores show the families. Held-out pairs are aligned better than with the usual guess: 1 for
# equal symbols, -1 for others, -1 for a gap.

task = svm.task_
guess = np.array([1.0 if p == q else -1.0 for p, q in task.feature_names[:-2]] + [-1.0, 0.0])


def errors(w):
    pairs = zip(X[80:], Y[80:], strict=True)
    return np.mean([task.loss(y, task.inference(x, w)) / len(y) for x, y in pairs])


print(f"wrong pairs per true pair: {errors(svm.coef_):.2f} learned, {errors(guess):.2f} guessed")

figure, axes = plt.subplots(1, 2, figsize=(10, 3.6))
image = axes[0].imshow(task.substitutions(svm.coef_), cmap="RdBu", vmin=-3, vmax=3)
axes[0].set_xticks(range(6), SYMBOLS)
axes[0].set_yticks(range(6), SYMBOLS)
axes[0].set_title("learned substitution scores")
figure.colorbar(image, ax=axes[0])
ConvergenceDisplay.from_estimator(svm, ax=axes[1])
figure.tight_layout()
plt.show()
