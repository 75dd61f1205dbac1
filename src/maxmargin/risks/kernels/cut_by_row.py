"""The exact cut at a point of :mod:`maxmargin.risks.kernels.sampled`, row by row."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from maxmargin.core.sampling import Terms
from maxmargin.core.vectors import Array


@dataclass(frozen=True, slots=True, eq=False)
class CutByRow:
    """The exact cut at a point, evaluated at a trial w_t: the contribution of each row.

    Scores and derivatives of the loss have one column per output. Each row has the weight ``scale``.
    """

    offset: float
    #: a row's contribution to the offset
    costs: Array
    gradient: Array
    #: scores of w_t without its free coordinates, and of the point itself with them
    bare: Array
    own: Array
    #: |phi(x)|
    lengths: Array
    #: free coordinates of w_t
    free: Array
    scale: float

    def terms(self, ceiling: float, radius: float) -> Terms:
        """The terms from which a cut is sampled."""
        g, scale = self.gradient, self.scale
        fixed = offset = scale * self.offset
        if len(self.free):
            fixed += scale * float(g.sum(axis=0) @ self.free)
        pulls = scale * np.einsum("ik,ik->i", g, self.bare)
        return Terms(
            fixed=fixed,
            pulls=pulls,
            sizes=scale * np.linalg.norm(g, axis=1) * self.lengths,
            losses=self.costs + np.einsum("ik,ik->i", g, self.own),
            offset=offset,
            ceiling=ceiling,
            radius=radius,
            exact=fixed + float(pulls.sum()),
        )

    def changed(self, terms: Terms, before: Array, value: float, spread: float) -> Terms:
        """The change of a plane whose value at w_t is ``value``, and whose exact derivatives are
        ``before``."""
        g = self.gradient - before
        return replace(
            terms,
            fixed=terms.fixed + value,
            pulls=np.einsum("ik,ik->i", g, self.bare),
            sizes=np.linalg.norm(g, axis=1) * self.lengths,
            spread=spread,
        )
