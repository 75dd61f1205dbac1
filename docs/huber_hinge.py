"""The Huberized hinge: a hinge loss whose corner is rounded over a given width."""

import numpy as np

from maxmargin.losses import DualTerms, ScoreLoss


class HuberHinge(ScoreLoss):
    """sum_i c_i phi(1 - y_i s_i), phi(z) = z^2 / (2 width) up to width, then z - width / 2, else 0.

    Parameters
    ----------
    width : float, default 0.5
        Margins from 1 - width to 1 are in the rounded part.
    """

    label_kind = "sign"  # labels are -1 and +1: a loss for classifiers
    smooth = True  # differentiable: solver="auto" begins with Newton's method

    def __init__(self, width=0.5):
        if not 0.0 < width < np.inf:
            raise ValueError(f"width={width!r}: it must be positive and finite.")
        self.width = float(width)

    def cut(self, scores, y, weight):
        """A tangent: the loss is at least offset + <gradient, scores>."""
        _, slope = self._parts(scores, y)
        offset = weight @ (slope - 0.5 * self.width * slope**2)
        return float(offset), -weight * slope * y

    def value(self, scores, y, weight):
        """The same from the definition, without the rounding of an inner product."""
        short, slope = self._parts(scores, y)
        return float(weight @ (slope * short - 0.5 * self.width * slope**2))

    def dual_terms(self, y):
        """The dual of a row, a - width a^2 / (2 c) for 0 <= a <= c, in numbers."""
        return DualTerms(y, margin=1.0, steepest=1.0, curvature=self.width)

    def _parts(self, scores, y):
        short = np.maximum(0.0, 1.0 - y * scores)
        return short, np.minimum(1.0, short / self.width)
