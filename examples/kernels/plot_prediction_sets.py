"""
Label sets with a guaranteed coverage
=====================================

How sure is a prediction? Split conformal prediction turns the scores of any model into sets of labels that
contain the true one with a chosen probability. It needs samples that the model has not seen, and a few lines.

"""

# %%
# The recipe
# ----------
# The *depth* of a label is how far its score is below the largest one. If n samples are exchangeable with a
# new one, the depth of its true label is at most the k-th smallest of theirs with a probability of at least
# k / (n + 1). So keep all labels up to that depth.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from maxmargin import KernelSVC, SequenceTagger


def depths(scores):
    return scores.max(axis=1, keepdims=True) - scores


def threshold(depth_of_truth, coverage):
    n = len(depth_of_truth)
    k = int(np.ceil((n + 1) * coverage))
    return np.sort(depth_of_truth)[k - 1] if k <= n else np.inf


# %%
# A kernel classifier
# -------------------
# One part of the digits trains the model, one finds the threshold, and one checks the coverage.

X, y = load_digits(return_X_y=True)
X, X_rest, y, y_rest = train_test_split(X / 16.0, y, train_size=300, random_state=0)
X_held, X_new, y_held, y_new = train_test_split(X_rest, y_rest, train_size=500, random_state=0)
svc = KernelSVC(C=10.0, method="map", multi_class="crammer_singer").fit(X, y)
held, new = depths(svc.decision_function(X_held)), depths(svc.decision_function(X_new))
truth_held, truth_new = np.arange(len(y_held)), np.arange(len(y_new))
levels = np.array([0.9, 0.95, 0.98, 0.99, 0.995])
covered, size = [], []
for level in levels:
    sets = new <= threshold(held[truth_held, y_held], level)
    covered.append(sets[truth_new, y_new].mean())
    size.append(sets.sum(axis=1).mean())
    print(f"asked for {level:.3f}: {covered[-1]:.3f} of new digits, {size[-1]:.2f} labels each")

# %%
# The tokens of sequences
# -----------------------
# Max-marginals say what it would cost to choose a label at a token. Tokens of a sentence depend on each
# other, but sentences are exchangeable: the largest depth in a sentence gives sets that cover *all* of its
# tokens at once.

rng = np.random.default_rng(0)


def sentence():
    labels, tokens = [int(rng.integers(3))], []
    for _ in range(int(rng.integers(4, 12))):
        labels.append((labels[-1] + int(rng.random() < 0.4)) % 3)
    for label in labels:
        tokens.append(np.eye(3)[label] + 0.7 * rng.normal(size=3))
    return np.array(tokens), np.array(labels)


sentences = [sentence() for _ in range(1500)]
tokens, labels = [s[0] for s in sentences], [s[1] for s in sentences]
tagger = SequenceTagger().fit(tokens[:300], labels[:300])
costs = [depths(scores) for scores in tagger.max_marginals(tokens[300:])]
of_truth = [cost[np.arange(len(y)), y] for cost, y in zip(costs, labels[300:], strict=True)]
worst = np.array([own.max() for own in of_truth])
sentence_covered, sentence_size = [], []
for level in levels:
    most = threshold(worst[:600], level)
    sentence_covered.append((worst[600:] <= most).mean())
    sentence_size.append(
        np.concatenate([(cost <= most).sum(axis=1) for cost in costs[600:]]).mean()
    )
    print(f"asked for {level:.3f}: {sentence_covered[-1]:.3f} of new sentences covered")

# %%
# The coverage of held-out data is near the one asked for. Harder data get larger sets, not less coverage.

_, (left, right) = plt.subplots(1, 2, figsize=(8, 3.5))
left.plot([0.88, 1.0], [0.88, 1.0], color="gray", linewidth=1)
left.plot(levels, covered, "o-", label="digits")
left.plot(levels, sentence_covered, "s-", label="whole sentences")
left.set(xlabel="coverage asked for", ylabel="coverage of held-out data")
left.legend()
right.plot(levels, size, "o-", label="digits")
right.plot(levels, sentence_size, "s-", label="tokens")
right.set(xlabel="coverage asked for", ylabel="labels per set")
plt.tight_layout()
