"""
Multiple-instance learning: which instance made the bag positive?
=================================================================

Labels belong to bags here, not to instances: an image shows a horse if one of its windows does. Which
instance makes a bag positive, the *witness*, is latent. :class:`~maxmargin.LatentStructuredSVM` learns
witnesses and weights together. Simple baselines give every instance the label of its bag, or take the mean
of the bag.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import LatentStructuredSVM, LinearSVC
from maxmargin.tasks import LatentBinary
from maxmargin.testing import check_latent_task

# %%
# The task
# --------
# *h* is the index of the witness. The joint feature vector of a positive bag is the witness and a constant;
# that of a negative bag is zero. So the loss of a positive bag is
# :math:`\max(0, 1 - \max_h \langle w, x_h \rangle)`, and that of a negative one is
# :math:`\max(0, 1 + \max_h \langle w, x_h \rangle)`.
#
# The initial witnesses determine the local optimum. Here they are the instances farthest along the
# difference of the class means, each feature divided by its variance.


class Bags(LatentBinary):
    def setup(self, X, y):
        dim = super().setup(X, y)  # finds the two labels
        means = np.array([x.mean(axis=0) for x in X])
        positive = np.array(y) == self.positive
        difference = means[positive].mean(axis=0) - means[~positive].mean(axis=0)
        variance = np.mean([(x**2).mean(axis=0) for x in X], axis=0) - means.mean(axis=0) ** 2
        self.direction = difference / np.maximum(variance, 1e-12)
        return dim

    def n_features(self, X):
        return X[0].shape[1] + 1

    def features(self, x, h):
        return np.append(x[h], 1.0)

    def best(self, x, w):
        return int(np.argmax(x @ w[:-1]))

    def initial(self, x, y):
        return int(np.argmax(x @ self.direction)) if y == self.positive else None


# %%
# Bags have 4 to 12 instances with ten features each. All bags are drawn from the same two clusters; in a
# positive bag, one instance is shifted along the second feature.


def draw(n, rng):
    bags, labels, witnesses = [], np.arange(n) % 2, []
    for label in labels:
        bag = rng.normal(size=(rng.integers(4, 13), 10))
        bag[rng.random(len(bag)) < 0.3, 0] += 4.0  # the second cluster
        witness = int(rng.integers(len(bag)))
        bag[witness, 1] += 3.5 * label
        bags.append(bag)
        witnesses.append(witness if label else None)
    return bags, labels, witnesses


rng = np.random.default_rng(0)
X, y, witnesses = draw(300, rng)
check_latent_task(
    Bags(), X[:4], y[:4], outputs=lambda x: [(0, None)] + [(1, h) for h in range(len(x))]
)
svm = LatentStructuredSVM(Bags(), C=0.1).fit(X, y)
found = [a == b for a, b in zip(svm.latent_, witnesses, strict=True) if b is not None]
print(f"{svm.n_iter_} convex steps, objective", [round(r["objective"], 2) for r in svm.history_])
print(f"stopped by {svm.stop_reason_}: no convex step can gain more than {svm.convex_gap_:.1%}")
print(f"witnesses found in {np.mean(found):.0%} of the positive bags")

# %%
# All instances, the witnesses found, and the lines above which instances count as positive.

instances, owner = np.vstack(X), np.repeat(y, [len(x) for x in X])
plain = LinearSVC(C=0.1, loss="hinge").fit(instances, owner)

fig, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
ax.scatter(*instances[owner == 0, :2].T, s=4, color="0.75", label="negative bags")
ax.scatter(*instances[owner == 1, :2].T, s=4, color="tab:blue", label="positive bags")
chosen = np.array([x[h] for x, h in zip(X, svm.latent_, strict=True) if h is not None])
ax.scatter(*chosen[:, :2].T, s=14, facecolors="none", edgecolors="tab:red", label="witnesses found")
along = np.array([-3.0, 7.0])
w, b = svm.coef_[:-1], svm.coef_[-1]
ax.plot(along, -(w[0] * along + b) / w[1], color="tab:red", label="LatentStructuredSVM")
v, c = plain.coef_[0], plain.intercept_[0]
ax.plot(along, -(v[0] * along + c) / v[1], "k--", label="every instance labeled")
ax.set(xlim=(-3.5, 8), ylim=(-4, 9.5), xlabel="feature 0", ylabel="feature 1")
ax.legend(loc="upper right", fontsize=7)
plt.show()

# %%
# Ten datasets, with 300 training bags and 1000 test bags. The threshold of the plain instance classifier is
# tuned on the training bags: with its own, nearly every bag has a positive instance.


def accuracies(seed):
    rng = np.random.default_rng(seed)
    (X, y, _), (X_new, y_new, _) = draw(300, rng), draw(1000, rng)
    latent = LatentStructuredSVM(Bags(), C=0.1).fit(X, y)
    every = LinearSVC(C=0.1, loss="hinge").fit(np.vstack(X), np.repeat(y, [len(x) for x in X]))
    top = np.array([every.decision_function(x).max() for x in X])
    threshold = max(top, key=lambda t: np.mean((top >= t) == y))
    top_new = np.array([every.decision_function(x).max() for x in X_new])
    mean = LinearSVC(C=0.1, loss="hinge").fit([x.mean(axis=0) for x in X], y)
    return (
        1.0 + latent.score(X_new, y_new),
        np.mean((top_new >= threshold) == y_new),
        np.mean((top_new > 0) == y_new),
        mean.score([x.mean(axis=0) for x in X_new], y_new),
    )


names = ["latent", "every instance,\nbest threshold", "every\ninstance", "mean of\nthe bag"]
table = np.array([accuracies(seed) for seed in range(10)])
for name, column in zip(names, table.T, strict=True):
    print(f"{' '.join(name.split()):32s}{column.mean():.3f} +- {column.std():.3f}")
assert (table[:, 0] > table[:, 1:].max(axis=1)).all()

fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
ax.plot(range(len(names)), table.T, "o", alpha=0.5, color="tab:blue")
ax.set_xticks(range(len(names)), names)
ax.set(ylabel="accuracy on new bags", ylim=(0.45, 1.0), xlim=(-0.5, 3.5))
ax.grid(axis="y", alpha=0.3)
plt.show()
