"""
Learning from a stream in one pass
==================================

Samples arrive in batches, and at most 200 of them are kept. After every batch, the estimator has a lower
bound on the optimum over all samples seen so far (the orange line). This example stores the samples in
order to plot what is usually unknown: the objective of the weights over all samples seen, and the optimum.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import LinearSVC

rng = np.random.default_rng(0)
truth = rng.normal(size=20)


def batch(size=500):
    X = rng.normal(size=(size, 20))
    return X, np.where(X @ truth + 4.0 * rng.normal(size=size) > 0, 1, -1)


# %%
# The verifying pass after every batch is only for the figure; one at the end would suffice.
svc = LinearSVC(C=0.01, max_support=200, loss="hinge")
seen, n, lower, upper, best = [], [], [], [], []
for _ in range(30):
    seen.append(batch())
    svc.partial_fit(*seen[-1], classes=[-1, 1])
    lower.append(svc.lower_bound_)
    upper.append(svc.verify(seen).objective_)
    X, y = (np.concatenate(part) for part in zip(*seen, strict=True))
    best.append(LinearSVC(C=0.01, loss="hinge").fit(X, y).objective_)
    n.append(svc.n_seen_)
print(f"{svc.n_support_} of {svc.n_seen_} rows are kept; verified gap {svc.gap_:.1%}")

# %%
# Left: the bounds. Right: the bounds divided by the optimum.
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
left.plot(n, upper, label="objective over all rows seen")
left.plot(n, best, "k", lw=1, label="optimum over all rows seen")
left.plot(n, lower, label="lower bound")
left.set(xlabel="rows seen", ylabel="F")
left.legend()
right.plot(n, np.divide(upper, best))
right.axhline(1.0, color="k", lw=1)
right.plot(n, np.divide(lower, best))
right.set(xlabel="rows seen", ylabel="F / optimum")
plt.show()
