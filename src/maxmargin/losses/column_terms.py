"""Smooth losses of many scores at once, in the type of the scores: values, slopes and mean curvatures.

Scores come as an array of shape (K, n), one row per column of scores, so that every operation runs over
many samples, and are replaced by the slopes of the loss. Numbers c_i multiply the loss of sample i. The
quasi-Newton method needs no more; its bounds are computed from the losses themselves, in double precision.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

#: scores and slopes in the type of the data
Scores = npt.NDArray[Any]
#: divides the weights of samples, which may be zero
TINY = 1e-30


class ColumnTerms(ABC):
    """A smooth loss of several scores per sample."""

    #: whether a number that is added to all scores of a sample does not change the loss
    shift_invariant: ClassVar[bool] = False

    @abstractmethod
    def fill(self, s: Scores, y: Scores, c: Scores) -> tuple[float, Scores]:
        """Replace the scores by the slopes; return the loss, and for each row of ``s`` the sum over the
        samples of c times the second derivative with respect to that score."""

    def second(self, s: Scores, y: Scores, c: Scores, h: Scores) -> Scores:
        """The sum over the samples of c times the second derivatives with respect to two scores, from the
        slopes and the sums that :meth:`fill` has left."""
        return np.diag(h)


class SoftmaxTerms(ColumnTerms):
    """log sum_k exp(s_k) - s_y."""

    shift_invariant = True

    def fill(self, s: Scores, y: Scores, c: Scores) -> tuple[float, Scores]:
        here = np.arange(len(y))
        own = s[y, here]
        top = s.max(axis=0)
        s -= top
        np.exp(s, out=s)
        z = s.sum(axis=0)
        loss = float(c @ (np.log(z) + (top - own)))
        s /= z
        curved: Scores = (s - s * s) @ c
        s[y, here] -= 1.0
        s *= c
        return loss, curved

    def second(self, s: Scores, y: Scores, c: Scores, h: Scores) -> Scores:
        s = s.copy()
        s[y, np.arange(len(y))] += c  # c p
        out: Scores = np.diag(s.sum(axis=1)) - (s / np.maximum(c, TINY)) @ s.T
        return out


class LogisticTerms(ColumnTerms):
    """log(1 + exp(-y s)) for one score."""

    def fill(self, s: Scores, y: Scores, c: Scores) -> tuple[float, Scores]:
        m = s[0] * y
        e = np.exp(-np.abs(m))
        loss = float(c @ (np.log1p(e) + np.maximum(0.0, -m)))
        p = np.where(m >= 0.0, e, 1.0) / (1.0 + e)
        s[0] = -c * y * p
        return loss, np.array([c @ (p * (1.0 - p))])


@dataclass(frozen=True, slots=True, eq=False)
class SquaredHingeTerms(ColumnTerms):
    """max(0, margin - y s)^2, summed over the classes against their rest if ``classes``. There each class may
    have a factor, by which the weights of its own samples are multiplied in its own problem."""

    margin: float = 1.0
    classes: bool = False
    factors: Scores | None = None

    def weights(self, y: Scores, c: Scores, n_columns: int) -> Scores:
        """The number that multiplies the loss of each sample in each problem."""
        out = np.tile(c, (n_columns, 1))
        if self.factors is not None:
            out[y, np.arange(len(y))] *= self.factors.astype(c.dtype)[y]
        return out

    def fill(self, s: Scores, y: Scores, c: Scores) -> tuple[float, Scores]:
        here = np.arange(len(y))
        if self.classes:
            s[y, here] *= -1.0  # short = margin + s, but margin - s for the own class
        else:
            s *= -y
        s += s.dtype.type(self.margin)
        np.maximum(s, 0.0, out=s)
        if self.factors is not None:
            c = self.weights(y, c, len(s))
            curved: Scores = 2.0 * np.einsum("ki,ki->k", s > 0.0, c)
        else:
            curved = 2.0 * ((s > 0.0) @ c)
        slopes = s * c
        loss = float(np.einsum("ki,ki->", s, slopes))
        np.multiply(slopes, 2.0, out=s)
        if self.classes:
            s[y, here] *= -1.0
        else:
            s *= -y
        return loss, curved
