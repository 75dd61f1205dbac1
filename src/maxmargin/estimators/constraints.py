"""What each parameter of an estimator may be.

:data:`SHARED` is by the name of the parameter, which means the same in all estimators. The few that do not
(``loss``, ``multi_class``, ...) are in ``_constraints`` of the class. ``fit`` checks the parameters of the
estimator, and ``load`` those of a model file. What depends on the data, or on several parameters together, is
checked where it is used.

Below are the same as types, for type checkers and editors, with those of the arguments of ``fit``.

scikit-learn's own ``_parameter_constraints`` are not used: they let True pass as a number, and their module
is private.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from maxmargin.checkpoints import Checkpoint
from maxmargin.core.engine import Engine
from maxmargin.core.result import IterationRecord
from maxmargin.core.stopping import StoppingRule
from maxmargin.engines.choice import CONTRACT
from maxmargin.estimators.prior import GaussianPrior
from maxmargin.kernels import EmpiricalMap, Nystrom
from maxmargin.losses import ScoreLoss
from maxmargin.solvers.minimization import LARGEST_C
from maxmargin.solvers.sampled import SampledCuts
from maxmargin.solvers.session import Solver

#: the largest finite number, also for Python's integers, which have no infinity
FINITE = sys.float_info.max
#: what a message shows of a value
SHOWN = 200


class Constraint(NamedTuple):
    """What a value may be: in words, one for each form that it may have, and as a test."""

    words: tuple[str, ...]
    allows: Callable[[Any], bool]

    def __or__(self, other: Constraint) -> Constraint:
        """A value that either of them allows."""
        return Constraint(
            self.words + other.words, lambda value: self.allows(value) or other.allows(value)
        )

    def check(self, name: str, value: Any, owner: str) -> None:
        """Raise ValueError unless the value is allowed. ``owner`` is the class that has the parameter."""
        if not self.allows(value):
            text = repr(value)
            text = text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
            *most, last = self.words
            forms = f"{', '.join(most)} or {last}" if most else last
            raise ValueError(f"{owner}: {name}={text}: use {forms}.")


def is_integer(value: Any) -> bool:
    """Whether this is an integer, and no bool."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def number(words: str, allows: Callable[[Any], Any]) -> Constraint:
    """A real number that is no bool, with this property, which must be false for NaN."""

    def is_one(value: Any) -> bool:
        if isinstance(value, (float, np.floating)):
            return bool(allows(float(value)))
        return is_integer(value) and bool(allows(value))

    return Constraint((words,), is_one)


def integer(least: int) -> Constraint:
    """An integer that is no bool."""
    return Constraint(
        (f"an integer of at least {least}",), lambda value: is_integer(value) and value >= least
    )


def one_of(*words: str) -> Constraint:
    """One of these strings."""
    return Constraint(
        tuple(map(repr, words)), lambda value: isinstance(value, str) and value in words
    )


def instance(words: str, *kinds: type) -> Constraint:
    """An object of one of these classes."""
    return Constraint((words,), lambda value: isinstance(value, kinds))


def _is_matrix(value: Any) -> bool:
    try:
        return np.asarray(value, dtype=np.float64).ndim == 2
    except (TypeError, ValueError):
        return False


def _are_Cs(value: Any) -> bool:
    try:
        given = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return given.ndim == 1 and len(given) > 0 and bool(((given > 0) & (given <= LARGEST_C)).all())


NONE = Constraint(("None",), lambda value: value is None)
NO_LIMIT = NONE._replace(words=("None for no limit",))
BOOL = instance("True or False", bool, np.bool_)
POSITIVE = number("a positive number", lambda value: 0 < value <= FINITE)
RELATIVE = number("a relative tolerance above 0 and at most 1", lambda value: 0 < value <= 1)
NONNEGATIVE = number("a number of at least 0", lambda value: 0 <= value <= FINITE)
LIST_OF_C = Constraint((f"a list of positive numbers up to {LARGEST_C:g}",), _are_Cs)
MATRIX = Constraint(("a square matrix of numbers",), _is_matrix)
MARGIN_OR_SLACK = one_of("margin", "slack")
KERNELS = one_of("rbf", "poly", "sigmoid", "linear")
FUNCTION = Constraint(("a function",), callable)
WEIGHTS_BY_CLASS = one_of("balanced") | instance("a dict from class to weight", Mapping) | NONE
LISTED = Constraint(
    ("a list of weights, by index or by name",),
    lambda value: isinstance(value, Iterable) and not isinstance(value, str | bytes),
)
CALLBACKS = Constraint(
    ("a list of callbacks such as [print]",),
    lambda value: (
        isinstance(value, list | tuple)
        and all(callable(one) or hasattr(one, "on_estimator") for one in value)
    ),
)
LOSS_OBJECT = instance("an object of a class derived from maxmargin.losses.ScoreLoss", ScoreLoss)

PAIRS = Constraint(
    ("pairs of labels",),
    lambda value: isinstance(value, Iterable) and not isinstance(value, str),
)


def of_class(**own: Constraint) -> Mapping[str, Constraint]:
    """The parameters of a class that are not in :data:`SHARED`, or not as they are there."""
    return own


SHARED: Mapping[str, Constraint] = {
    "penalty": Constraint(
        ("'l2', the only penalty here (scikit-learn's class of the same name has others)",),
        lambda value: value == "l2",
    ),
    "l1_ratio": Constraint(
        ("0, because the only penalty here is the squared norm",),
        lambda value: (
            value is None or ((is_integer(value) or isinstance(value, float)) and value == 0)
        ),
    ),
    "dual": one_of("auto") | BOOL,
    "C": number(f"a positive number up to {LARGEST_C:g}", lambda value: 0 < value <= LARGEST_C),
    "Cs": integer(1) | LIST_OF_C,
    "tol": RELATIVE
    | Constraint(
        ("a rule from maxmargin.solvers, such as AbsoluteGap(...)",),
        lambda value: hasattr(value, "met"),
    ),
    "solver": one_of("auto")
    | Constraint(
        ("a solver object such as maxmargin.solvers.CuttingPlane(...)",),
        lambda value: hasattr(value, "run") or callable(value),
    ),
    "max_iter": integer(0) | NO_LIMIT,
    "shrinking": BOOL,
    "cache_size": POSITIVE,
    "break_ties": BOOL,
    "max_seconds": number("a number of seconds of at least 0", lambda value: value >= 0) | NO_LIMIT,
    "engine": one_of("threads", "processes", "ray")
    | Constraint(
        ("'ray://host:port'",), lambda value: isinstance(value, str) and value.startswith("ray:")
    )
    | Constraint(
        ("an engine object such as engines.RayEngine(...)",),
        lambda value: all(hasattr(value, name) for name in CONTRACT),
    )
    | NONE,
    "n_jobs": Constraint(
        ("a positive number of workers", "-1 for all cores"),
        lambda value: is_integer(value) and value != 0,
    )
    | NONE,
    "random_state": integer(0)
    | instance("a NumPy Generator", np.random.Generator)
    | instance("a RandomState", np.random.RandomState)
    | NONE,
    "callbacks": CALLBACKS | NONE,
    "verbose": integer(0) | BOOL,
    "checkpoint": instance("a path", str, os.PathLike)
    | instance("a Checkpoint", Checkpoint)
    | NONE,
    **dict.fromkeys(
        (
            *("fit_intercept", "penalize_intercept", "warm_start", "keep_duals", "refit", "prune"),
            *("parents", "attributes"),
        ),
        BOOL,
    ),
    "intercept_scaling": POSITIVE,
    "class_weight": WEIGHTS_BY_CLASS,
    "class_weights": Constraint(
        ("a list of class weights, each a dict, 'balanced' or None",),
        lambda value: (
            isinstance(value, list | tuple)
            and len(value) > 0
            and all(map(WEIGHTS_BY_CLASS.allows, value))
        ),
    )
    | NONE,
    "cost": MATRIX | instance("a dict from label to cost", Mapping) | NONE,
    "prior": instance("a maxmargin.GaussianPrior", GaussianPrior) | NONE,
    "fixed": instance("a dict from index (or name) of a weight to its value", Mapping) | NONE,
    "nonnegative": LISTED | NONE,
    "nonpositive": LISTED | NONE,
    "epsilon": NONNEGATIVE,
    "nu": number("a number above 0 and at most 1", lambda value: 0 < value <= 1),
    "beta": POSITIVE,
    "k": integer(1) | NONE,
    "rescaling": MARGIN_OR_SLACK,
    "oracle": one_of("cheap", "expensive"),
    "kernel": KERNELS | FUNCTION | NONE,
    "gamma": one_of("scale", "auto") | NONNEGATIVE,
    "degree": integer(0),
    "coef0": number("a finite number", lambda value: -FINITE <= value <= FINITE),
    "kernel_method": one_of("auto", "map", "nystrom", "sampled")
    | instance(
        "settings such as maxmargin.kernels.Nystrom(...)", EmpiricalMap, Nystrom, SampledCuts
    ),
    **dict.fromkeys(
        ("memory", "max_kernel_values"),
        number("a number of at least 0", lambda value: value >= 0),
    ),
    "decision_function_shape": one_of("ovr", "ovo"),
    "pair_weight": one_of("equal", "difference") | MATRIX,
    "query_weight": one_of("pairs", "equal"),
    "max_support": integer(1),
    "cv": integer(2)
    | Constraint(
        ("a splitter, an iterable of splits",),
        lambda value: (
            hasattr(value, "get_n_splits")
            or (isinstance(value, Iterable) and not isinstance(value, str))
        ),
    )
    | NONE,
    "scoring": FUNCTION | NONE,
    "order": Constraint(("1", "2"), lambda value: is_integer(value) and 1 <= value <= 2),
    "partial": one_of("complete") | NONE,
    "n_hashed": integer(1) | NONE,
    "min_count": integer(1),
    "forbidden_transitions": one_of("unseen") | PAIRS | NONE,
    "edges": one_of("full", "symmetric", "potts", "attractive"),
    "inference": one_of("auto", "messages", "lp"),
    "wrong_cost": NONNEGATIVE,
    "horizontal": integer(0) | NONE,
    "beam": integer(1) | NONE,
    "max_exact_length": integer(0),
}


# -- types ----------------------------------------------------------------------------------------


class HasShape(Protocol):
    """A sparse matrix, a data frame, matrix-free features, or a data set on disk."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows and columns."""


#: samples
Samples: TypeAlias = npt.ArrayLike | HasShape
#: labels or targets; None for a data set, which contains its own
Labels: TypeAlias = npt.ArrayLike | Sequence[Hashable] | None
#: one number per sample
Numbers: TypeAlias = npt.ArrayLike | None
#: a relative gap, or a rule such as :class:`maxmargin.solvers.AbsoluteGap`
Tolerance: TypeAlias = float | StoppingRule
Seed: TypeAlias = int | np.random.Generator | np.random.RandomState | None
Callbacks: TypeAlias = Sequence[Callable[[IterationRecord], object]] | None
Method: TypeAlias = Literal["auto"] | Solver
#: what the workers are: one of these, an address "ray://host:port", or an engine
Workers: TypeAlias = Literal["threads", "processes", "ray"] | str | Engine | None
File: TypeAlias = str | PathLike[str]
Resumable: TypeAlias = File | Checkpoint | None
# the keys of a Mapping are invariant: with Hashable, a dict of strings would be refused
ClassWeight: TypeAlias = Literal["balanced"] | Mapping[Any, float] | None
Fixed: TypeAlias = Mapping[Any, npt.ArrayLike] | None
#: indices or names of weights, or a boolean mask
Which: TypeAlias = npt.ArrayLike | Sequence[Hashable] | None
KernelFunction: TypeAlias = Callable[..., npt.ArrayLike]
KernelName: TypeAlias = Literal["rbf", "poly", "sigmoid", "linear"]
Gamma: TypeAlias = Literal["scale", "auto"] | float
