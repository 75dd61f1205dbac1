"""Losses of scores: R(w) = L(X w). A new one is one function, scores to (offset, gradient).

One method suffices; the others have correct, slower defaults that a loss may override, or declare what a
solver needs to know: without a declaration that solver refuses the loss, and nothing is trained in its place.
``maxmargin.testing.check_loss`` proves that all of them agree.

    what a loss offers                      who takes it
    cut, value, slopes, breakpoints         cutting planes, in memory or on disk
    dual_terms                              coordinate ascent, streams, ``partial_fit``, Newton's method
    newton_terms                            Newton's method, for smooth losses without dual terms
    change, precise_value                   bounds that have paid for rounding
    label_kind, get_params                  estimators, and model files
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from maxmargin.core.vectors import Array, IntArray
from maxmargin.losses.derivatives import NewtonTerms
from maxmargin.losses.dual_terms import RowTerms

Labels = npt.NDArray[Any]

#: what is said about the values of a loss: true for the loss it was written for, and for no other
ABOUT_VALUES = (
    "value",
    "change",
    "precise_value",
    "slopes",
    "breakpoints",
    "dual_terms",
    "newton_terms",
    "without_margin",
    "margin_offset",
    "smooth",
)


def difference(a: Any, b: Any) -> tuple[Array, Array]:
    """a - b and what the result lost by rounding."""
    s: Array = a - b
    t = s - a
    return s, (a - (s - t)) - (b + t)


class ScoreLoss(ABC):
    """A convex loss of scores that is never negative.

    A subclass of another loss that overrides ``cut`` or ``value`` is another loss: of the methods that speak
    about values (``slopes``, ``dual_terms``, ``precise_value`` and so on) it has the defaults of this class,
    except for those it overrides too.

    Examples
    --------
    The squared hinge, from its value and its slope alone:

    >>> import numpy as np
    >>> from maxmargin.losses import ScoreLoss
    >>> class SquaredHinge(ScoreLoss):
    ...     def cut(self, scores, y, weight):
    ...         margin = np.maximum(0.0, 1.0 - y * scores)
    ...         gradient = -2.0 * weight * y * margin
    ...         return float(weight @ margin**2 - gradient @ scores), gradient
    >>> from maxmargin import minimize
    >>> from maxmargin.risks import ScoreRisk
    >>> X, y = np.array([[2.0], [-1.0]]), np.array([1.0, -1.0])
    >>> minimize(ScoreRisk(X, y, SquaredHinge()), C=1.0, solver=None).converged
    True
    """

    #: a sum over rows, so that shards can be evaluated on their own
    decomposable: ClassVar[bool] = True
    #: with all weights doubled the loss is 2 ** weight_degree times as large (2 for losses of pairs)
    weight_degree: ClassVar[int] = 1
    #: differentiable: Newton's method then needs few steps
    smooth: ClassVar[bool] = False
    #: takes weights of rows; a loss that does not is only called with ones
    weighted: ClassVar[bool] = True
    #: a slope costs as much as a cut, a sort or more: lines are searched with few of them
    expensive_slopes: ClassVar[bool] = False
    #: labels of a row: "sign" (-1 or +1), "target" (a number), "class" (0 .. K-1), "none" (not looked at), or
    #: None for others. Estimators of classes take losses of signs.
    label_kind: ClassVar[Literal["sign", "target", "class", "none"] | None] = None

    #: a constant added to all scores changes nothing, so that an intercept cannot be learned
    shift_invariant: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Take back what a parent says about values that are no longer its own."""
        super().__init_subclass__(**kwargs)
        for name in ABOUT_VALUES:
            owner = next(parent for parent in cls.__mro__ if name in vars(parent))
            if owner in (cls, ScoreLoss) or not issubclass(owner, ScoreLoss):
                continue
            other = [
                key for key in ("cut", "value") if getattr(owner, key) is not getattr(cls, key)
            ]
            # a parent that leaves the cut open speaks about any
            if other and not getattr(owner.cut, "__isabstractmethod__", False):
                setattr(cls, name, vars(ScoreLoss)[name])

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by which ``type(self)(**params)`` makes this loss again: those of ``__init__``,
        which must be attributes of the same names. scikit-learn's ``clone`` and model files use them."""
        if type(self).__init__ is object.__init__:
            return {}
        names = list(inspect.signature(type(self).__init__).parameters)[1:]
        missing = [name for name in names if not hasattr(self, name)]
        if missing:
            raise AttributeError(
                f"{type(self).__name__} has no attribute {missing[0]!r}: keep each parameter of __init__ as "
                "an attribute of the same name, so that the loss can be cloned and stored."
            )
        return {name: getattr(self, name) for name in names}

    def set_params(self, **params: Any) -> Self:
        """Change parameters in place, as scikit-learn's estimators do."""
        type(self).__init__(self, **{**self.get_params(), **params})
        return self

    def __repr__(self) -> str:
        try:
            given = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        except AttributeError:  # a parameter that is kept under another name
            given = "..."
        return f"{type(self).__name__}({given})"

    def n_outputs(self) -> int | None:
        """Scores per row: None for one (then scores are 1-d), else the number of columns."""
        return None

    def check_labels(self, y: Labels) -> None:
        """Raise ValueError unless these are labels of this loss. Compiled losses must check: they
        use labels as they are."""
        return

    def boundaries(self, y: Labels) -> IntArray | None:
        """Rows at which the sum may be parted, ascending, 0 and ``len(y)`` among them; None for all.

        A loss over groups of rows (queries) parts between groups only; its labels then tell the groups,
        e.g. as a second column, for it is called with the labels of a part.
        """
        return None

    @abstractmethod
    def cut(self, scores: Array, y: Labels, weight: Array) -> tuple[float, Array]:
        """(offset, g) with L(s') >= offset + <g, s'> for all s', with equality at ``scores``."""

    def value(self, scores: Array, y: Labels, weight: Array) -> float:
        """L(scores)."""
        offset, gradient = self.cut(scores, y, weight)
        return offset + float(np.sum(gradient * scores))

    def change(self, value: float, first: float, second: float) -> float:
        """How much L, which is ``value``, may rise when the scores of row i move by at most d_i, where
        ``first`` = sum_i c_i d_i and ``second`` = sum_i c_i d_i^2. The value of a loss that does not say so
        is trusted as it was computed."""
        return 0.0

    def precise_value(
        self, high: Array, low: Array, off: Array, y: Labels, weight: Array
    ) -> float | None:
        """An upper bound of L(high + low) for scores of twice the precision, where those of row i may still
        be wrong by ``off[i]``; None where the loss cannot be computed so well."""
        return None

    def slopes(self, scores: Array, other: Array, y: Labels, weight: Array, ts: Array) -> Array:
        """Derivatives of L(scores + t (other - scores)) at each t (right derivatives at kinks, if known)."""
        direction = other - scores
        return np.array(
            [float(np.sum(self.cut(scores + t * direction, y, weight)[1] * direction)) for t in ts]
        )

    def breakpoints(
        self,
        scores: Array,
        other: Array,
        y: Labels,
        weight: Array,
        lo: float,
        hi: float,
        limit: int,
    ) -> tuple[Array, Array] | None:
        """Kinks on the same line in (lo, hi) and the jumps of slope there; None if the loss is not
        piecewise linear or there are more than ``limit``."""
        return None

    def dual_terms(self, y: Labels) -> RowTerms | None:
        """The duals of rows with these labels, for coordinate ascent, streams and Newton's method:
        :class:`DualTerms`, which are numbers; None where the loss has no such form."""
        return None

    def newton_terms(self, y: Labels) -> NewtonTerms | None:
        """Derivatives for Newton's method, of a smooth loss without dual terms; None where there are none."""
        return None

    def without_margin(self) -> ScoreLoss | None:
        """The same loss asking for no margin of its own, for ``sample_margin``; None where that has no
        meaning. :meth:`margin_offset` then says what is added to the scores instead."""
        return None

    def margin_offset(self, y: Labels, margin: Array) -> Array:
        """What is added to the scores of :meth:`without_margin` to ask for these margins."""
        out: Array = -y * margin
        return out
