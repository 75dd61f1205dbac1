"""Points of :mod:`maxmargin.risks.kernel_span`, and the exact cuts there, row by row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from maxmargin.core.cut import Cut
from maxmargin.core.sampling import Draw, Terms
from maxmargin.core.vectors import Array, IntArray
from maxmargin.risks.kernel_columns import Drawn
from maxmargin.risks.lines import PinnedEvaluation

if TYPE_CHECKING:
    from maxmargin.risks.kernel_span import KernelSpanRisk


@dataclass(frozen=True, slots=True, eq=False)
class CutByRow:
    """The exact cut at a point, seen from a trial w_t: what each row adds to it.

    Scores, and derivatives of the loss, have one column per output. Each row stands for ``scale`` of them.
    """

    offset: float
    #: what a row adds to the offset
    costs: Array
    gradient: Array
    #: scores of w_t without its free coordinates, and of the point itself with them
    bare: Array
    own: Array
    #: |phi(x)|
    lengths: Array
    #: of w_t
    free: Array
    scale: float

    def terms(self, ceiling: float, radius: float) -> Terms:
        """All of it."""
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
        """The change of a plane that is ``value`` at w_t, and should have had the derivatives ``before``."""
        g = self.gradient - before
        return replace(
            terms,
            fixed=terms.fixed + value,
            pulls=np.einsum("ik,ik->i", g, self.bare),
            sizes=np.linalg.norm(g, axis=1) * self.lengths,
            spread=spread,
        )


class KernelEvaluation(PinnedEvaluation):
    """An evaluation whose cuts are drawn."""

    def __init__(self, risk: KernelSpanRisk, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._risk = risk
        self._gradient: tuple[float, Array] | None = None
        #: of the last call of :meth:`terms`: the plane whose change is drawn, the answers of all rows
        self.base: tuple[int, Drawn] | None = None
        self.pattern: Any = None
        self.drawn_from: Any = None

    def gradient(self) -> tuple[float, Array]:
        """Offset and derivative of the loss, of all rows known."""
        if self._gradient is None:
            self._gradient = self._risk.gradient(self)
        return self._gradient

    def terms(self, trial: Any, examples: IntArray | None = None) -> Terms:
        """See :class:`maxmargin.core.protocols.SampledEvaluation`."""
        return self._risk.terms(self, trial, examples)

    def fresh_terms(self, trial: Any) -> Terms:
        """See :class:`maxmargin.core.protocols.SampledEvaluation`."""
        return self._risk.terms(self, trial, None, afresh=True)

    def sampled_cut(self, draw: Draw, whole: bool) -> Cut:
        """See :class:`maxmargin.core.protocols.SampledEvaluation`."""
        return self._risk.sampled_cut(self, draw, whole)
