"""Multinomial logistic loss L(S) = sum_i c_i (log sum_k exp S_ik - S_iy_i): its cut, its slopes on a line of
scores, and products with its second derivative.

With z_k = S_k - max S and p_k = exp(z_k) / sum_l exp(z_l), a row has the gradient c (p - e_y) and the second
derivative c (diag(p) - p p'). Sums leave out the class for which they would cancel: the true class in
gradients, the class with the largest score in logarithms.
"""

from __future__ import annotations

import math

from maxmargin.compiled.jit import entry, inlined


@inlined
def _probabilities(scores, i, p):
    """Fill p; returns (largest score, log of the sum of exp(score - largest))."""
    n_classes, top = p.shape[0], 0
    for k in range(1, n_classes):
        if scores[i, k] > scores[i, top]:
            top = k
    largest, rest = scores[i, top], 0.0
    for k in range(n_classes):
        p[k] = math.exp(scores[i, k] - largest)
        if k != top:
            rest += p[k]
    for k in range(n_classes):
        p[k] /= 1.0 + rest
    return largest, math.log1p(rest)


@entry
def value(scores, y, weight, p):
    """The loss; p is memory for one number per class, as in all functions below."""
    total = 0.0
    for i in range(scores.shape[0]):
        largest, log = _probabilities(scores, i, p)
        total += weight[i] * (log + (largest - scores[i, y[i]]))
    return total


@entry
def cut(scores, y, weight, p, gradient):
    """Fill the gradient and return the offset of the cut that is tight at the scores: the entropy of p."""
    offset = 0.0
    for i in range(scores.shape[0]):
        largest, entropy = _probabilities(scores, i, p)
        truth, others = y[i], 0.0
        for k in range(p.shape[0]):
            if p[k] > 0.0:
                entropy += p[k] * (largest - scores[i, k])
            gradient[i, k] = weight[i] * p[k]
            if k != truth:
                others += gradient[i, k]
        gradient[i, truth] = -others
        offset += weight[i] * entropy
    return offset


@entry
def slopes(s, r, y, weight, ts, p, at, out):
    """Add the derivatives at each t on the line from scores s to scores r; ``at`` is memory for a row."""
    for i in range(s.shape[0]):
        truth = y[i]
        for q in range(ts.shape[0]):
            for k in range(p.shape[0]):
                at[0, k] = s[i, k] + ts[q] * (r[i, k] - s[i, k])
            _probabilities(at, 0, p)
            own, slope = r[i, truth] - s[i, truth], 0.0
            for k in range(p.shape[0]):
                slope += p[k] * ((r[i, k] - s[i, k]) - own)
            out[q] += weight[i] * slope


@entry
def line(s, d, y, c, step, p, at):
    """Slope and curvature of the loss after a step in the direction d."""
    slope, curvature = 0.0, 0.0
    for i in range(s.shape[0]):
        for k in range(p.shape[0]):
            at[0, k] = s[i, k] + step * d[i, k]
        _probabilities(at, 0, p)
        own, mean = d[i, y[i]], 0.0
        for k in range(p.shape[0]):
            mean += p[k] * (d[i, k] - own)
        square = 0.0
        for k in range(p.shape[0]):
            square += p[k] * (d[i, k] - own - mean) ** 2
        slope += c[i] * mean
        curvature += c[i] * square
    return slope, curvature


@entry
def bend(theta, c, v):
    """Replace the rows of v by c (diag(p) - p p') v, where theta = c p."""
    for i in range(v.shape[0]):
        mean = 0.0
        for k in range(v.shape[1]):
            mean += theta[i, k] * v[i, k]
        mean /= c[i]
        for k in range(v.shape[1]):
            v[i, k] = theta[i, k] * (v[i, k] - mean)
