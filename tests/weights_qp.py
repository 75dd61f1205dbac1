"""The optimum with a prior, fixed and signed weights, by clarabel in the user's own w.

    min over w of   1/2 (w - m)' P (w - m) + 1/2 (b - b0)^2 / s^2 + sum_i c_i max(0, 1 - y_i (<x_i, w> + b))

with w_k >= 0 or <= 0 or given. P = S^-1 is inverted here, and nothing of the library is used.
"""

import clarabel
import numpy as np
import scipy.sparse as sp


def _solve(P, q, planes, offsets, groups, caps, signs, fixed):
    """min 1/2 w'Pw + q'w + sum_i caps_i max(0, max_{j in i} offsets_j + <planes_j, w>)."""
    m, d = planes.shape
    n = len(caps)
    pick = sp.csr_matrix((np.ones(m), (np.arange(m), groups)), (m, n))
    held = sorted(fixed)
    signed = np.flatnonzero(signs)
    rows = [
        [sp.csr_matrix((np.ones(len(held)), (range(len(held)), held)), (len(held), d)), None],
        [sp.csr_matrix(planes), -pick],
        [None, sp.diags(-np.ones(n))],
        [
            sp.csr_matrix((-signs[signed], (range(len(signed)), signed)), (len(signed), d)),
            sp.csr_matrix((len(signed), n)),
        ],
    ]
    rows[0][1] = sp.csr_matrix((len(held), n))
    A = sp.csc_matrix(sp.bmat(rows))
    b = np.concatenate([[fixed[k] for k in held], -offsets, np.zeros(n + len(signed))])
    cones = [clarabel.ZeroConeT(len(held)), clarabel.NonnegativeConeT(m + n + len(signed))]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_iter = 500
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-13
    big = sp.csc_matrix(sp.block_diag([np.triu(P), sp.csr_matrix((n, n))]))
    answer = clarabel.DefaultSolver(big, np.concatenate([q, caps]), A, b, cones, settings).solve()
    w = np.array(answer.x[:d])
    w[signed] = signs[signed] * np.maximum(0.0, signs[signed] * w[signed])
    for k in held:
        w[k] = fixed[k]
    scores = offsets + planes @ w
    worst = np.zeros(n)
    np.maximum.at(worst, groups, scores)
    return 0.5 * w @ P @ w + q @ w + caps @ worst, w


def share(S, m, fixed):
    """What the fixed weights alone cost."""
    held = sorted(fixed)
    if not held:
        return 0.0
    gap = np.array([fixed[k] - m[k] for k in held])
    return 0.5 * gap @ np.linalg.solve(S[np.ix_(held, held)], gap)


def binary(X, y, C, S, m, *, weight=None, signs=None, fixed=None, b0=0.0, scaling=1.0):
    """(F*, w*, b*) of the hinge with a penalized intercept; the fixed weights' share is left out."""
    n, d = X.shape
    S = np.asarray(S, dtype=float)
    P = np.zeros((d + 1, d + 1))
    P[:d, :d] = np.linalg.inv(S)
    P[d, d] = 1.0 / scaling**2
    center = np.append(m, b0)
    signs = np.append(np.zeros(d) if signs is None else signs, 0.0)
    fixed = fixed or {}
    planes = -y[:, None] * np.hstack([X, np.ones((n, 1))])
    caps = C * (np.ones(n) if weight is None else weight)
    value, w = _solve(P, -P @ center, planes, np.ones(n), np.arange(n), caps, signs, fixed)
    return value + 0.5 * center @ P @ center - share(S, m, fixed), w[:d], w[d]


def structured(task, X, Y, C, S, m, *, signs=None, fixed=None):
    """(F*, w*) of a task whose outputs can be listed."""
    dim = task.setup(X, Y)
    planes, offsets, groups = [], [], []
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        for y_hat in task.outputs(x):
            planes.append(task.joint_feature(x, y_hat) - task.joint_feature(x, y))
            offsets.append(task.loss(y, y_hat))
            groups.append(i)
    P = np.linalg.inv(np.asarray(S, dtype=float))
    signs = np.zeros(dim) if signs is None else signs
    fixed = fixed or {}
    value, w = _solve(
        P, -P @ m, np.array(planes), np.array(offsets, dtype=float), np.array(groups),
        np.full(len(X), C), signs, fixed,
    )  # fmt: skip
    return value + 0.5 * m @ P @ m - share(S, m, fixed), w
