"""Base class for losses of scores, R(w) = L(X w).

A new loss implements one method, ``cut``, which maps scores to (offset, gradient). The other methods have
correct but slower defaults, or return None. A solver that needs a method that returns None rejects the loss.
``maxmargin.testing.check_loss`` checks that all methods agree.

    method                                  used by
    cut, value, slopes, breakpoints         cutting planes, in memory or on disk
    dual_terms                              coordinate ascent, streams, ``partial_fit``, Newton's method
    newton_terms                            Newton's method, for smooth losses without dual terms
    column_terms                            the quasi-Newton method, for smooth losses on dense data
    label_kind, get_params                  estimators and model files
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from maxmargin.core.vectors import Array, IntArray
from maxmargin.losses.column_terms import ColumnTerms
from maxmargin.losses.derivatives import NewtonTerms
from maxmargin.losses.dual_terms import RowTerms

Labels = npt.NDArray[Any]

#: methods and attributes that depend on the values of a loss; a subclass that changes the values resets them
ABOUT_VALUES = (
    "value",
    "slopes",
    "breakpoints",
    "dual_terms",
    "newton_terms",
    "column_terms",
    "smooth",
)


def require_classes(y: Labels, n_classes: int) -> None:
    """Raise ValueError unless the labels are indices of classes."""
    whole = np.issubdtype(np.asarray(y).dtype, np.integer)
    if not whole or (len(y) and not 0 <= np.min(y) <= np.max(y) < n_classes):
        raise ValueError(f"labels must be integers from 0 to {n_classes - 1}.")


class ScoreLoss(ABC):
    """A convex, nonnegative loss of scores.

    If a subclass of another loss overrides ``cut`` or ``value``, the methods that depend on the values of the
    loss (``slopes``, ``dual_terms`` and so on) fall back to the defaults of this class,
    unless the subclass overrides them too.

    Examples
    --------
    The squared hinge loss, defined by its value and gradient alone:

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

    #: whether the loss is a sum over samples, so that shards can be evaluated independently
    decomposable: ClassVar[bool] = True
    #: doubling all weights multiplies the loss by 2 ** weight_degree (2 for losses of pairs)
    weight_degree: ClassVar[int] = 1
    #: whether the loss is differentiable; Newton's method then needs few steps
    smooth: ClassVar[bool] = False
    #: whether the loss supports sample weights; if not, all weights passed to it are one
    weighted: ClassVar[bool] = True
    #: whether a slope costs as much as a cut (a sort or more); line searches then compute few slopes
    expensive_slopes: ClassVar[bool] = False
    #: whether demands are 1, or other numbers that are not rounded; those of a metric are
    exact_demands: ClassVar[bool] = False
    #: by how much the weight of a sample may be multiplied in the loss
    heaviest: float = 1.0
    #: kind of labels: "sign" (-1 or +1), "target" (a number), "class" (0 .. K-1), "none" (ignored), or None
    #: for any other kind. Classifiers require "sign".
    label_kind: ClassVar[Literal["sign", "target", "class", "none"] | None] = None

    #: whether adding a constant to all scores leaves the loss unchanged; an intercept then cannot be learned
    shift_invariant: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Reset inherited methods that depend on values which the subclass changes."""
        super().__init_subclass__(**kwargs)
        for name in ABOUT_VALUES:
            owner = next(parent for parent in cls.__mro__ if name in vars(parent))
            if owner in (cls, ScoreLoss) or not issubclass(owner, ScoreLoss):
                continue
            other = [
                key for key in ("cut", "value") if getattr(owner, key) is not getattr(cls, key)
            ]
            # A parent with an abstract cut makes no assumption about the values.
            if other and not getattr(owner.cut, "__isabstractmethod__", False):
                setattr(cls, name, vars(ScoreLoss)[name])

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of ``__init__``; ``type(self)(**params)`` creates an equal loss.

        Each parameter must be stored as an attribute of the same name. scikit-learn's ``clone`` and model
        files use this method.
        """
        if type(self).__init__ is object.__init__:
            return {}
        names = list(inspect.signature(type(self).__init__).parameters)[1:]
        missing = [name for name in names if not hasattr(self, name)]
        if missing:
            raise AttributeError(
                f"{type(self).__name__} has no attribute {missing[0]!r}: store each parameter of __init__ as "
                "an attribute of the same name, so that the loss can be cloned and saved."
            )
        return {name: getattr(self, name) for name in names}

    def set_params(self, **params: Any) -> Self:
        """Set parameters in place, as in scikit-learn."""
        type(self).__init__(self, **{**self.get_params(), **params})
        return self

    def __repr__(self) -> str:
        try:
            given = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        except AttributeError:  # a parameter is stored under another name
            given = "..."
        return f"{type(self).__name__}({given})"

    def n_outputs(self) -> int | None:
        """Number of scores per sample: None if scores are one-dimensional, else the number of columns."""
        return None

    def check_labels(self, y: Labels) -> None:
        """Raise ValueError if ``y`` is not valid for this loss. Compiled code uses labels without checking
        them."""
        return

    def boundaries(self, y: Labels) -> IntArray | None:
        """Row indices at which the loss can be split into a sum, ascending, including 0 and ``len(y)``; None
        for all.

        A loss over groups of samples (queries) splits only between groups. Its labels must identify the
        groups, for example in a second column, because the loss is also called with the labels of a part of
        the data.
        """
        return None

    @abstractmethod
    def cut(self, scores: Array, y: Labels, weight: Array) -> tuple[float, Array]:
        """(offset, g) such that L(s') >= offset + <g, s'> for all s', with equality at ``scores``."""

    def value(self, scores: Array, y: Labels, weight: Array) -> float:
        """L(scores)."""
        offset, gradient = self.cut(scores, y, weight)
        return offset + float(np.sum(gradient * scores))

    def slopes(self, scores: Array, other: Array, y: Labels, weight: Array, ts: Array) -> Array:
        """Derivatives of L(scores + t (other - scores)) at each t (right derivatives at kinks, if
        available)."""
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
        """Kinks of the same function in (lo, hi) and the jumps of its slope there; None if the loss is not
        piecewise linear or has more than ``limit`` kinks."""
        return None

    def dual_terms(self, y: Labels) -> RowTerms | None:
        """The dual of each sample, for coordinate ascent, streams and Newton's method: usually
        :class:`DualTerms`; None if the loss has no such form."""
        return None

    def newton_terms(self, y: Labels) -> NewtonTerms | None:
        """Derivatives for Newton's method, for smooth losses without dual terms; None if not available."""
        return None

    def column_terms(self) -> ColumnTerms | None:
        """Values and slopes of many scores at once, for the quasi-Newton method; None if not available."""
        return None
