"""Error messages for unknown parameters, and for classes where objects are expected.

``__init__`` of an estimator lists its parameters, as scikit-learn requires, so Python rejects all other
names. ``__new__`` runs before it and only handles names that are not in that list. ``get_params``,
``clone`` and ``help`` use the signature of ``__init__``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cache
from types import MethodType
from typing import Any, ClassVar, Self, TypeVar

from maxmargin.estimators.constraints import SHARED, Constraint
from maxmargin.estimators.scikit import BaseEstimator, ClassifierMixin

_SOLVER = "the method is chosen by solver=, and every fit ends with a primal and a dual bound: leave it out"
_NO_L1 = "leave it out; the regularizer is 1/2 |w|^2 (scikit-learn's 'l2') or set by prior="
_KERNEL = "the model is linear; for kernels use maxmargin.KernelSVC"

#: parameters of other libraries, and what to use instead
_INSTEAD = {
    "penalty": _NO_L1,
    "l1_ratio": _NO_L1,
    "dual": _SOLVER,
    "probability": (
        "margins are not probabilities: use LinearSVC(loss='logistic'), or wrap the classifier in "
        "sklearn.calibration.CalibratedClassifierCV"
    ),
    "kernel": _KERNEL,
    "gamma": _KERNEL,
    "degree": _KERNEL,
    "coef0": _KERNEL,
    "nu": "use C",
    "alpha": "use C, which multiplies a sum: C = 1 / (alpha * n_samples)",
    "reg": "use C",
    "lam": "use C",
    "lambda_": "use C",
    "n_iter": "use max_iter",
    "max_iterations": "use max_iter",
    "epochs": "use max_iter",
    "eps": "use tol",
    "time_limit": "use max_seconds",
    "timeout": "use max_seconds",
    "seed": "use random_state",
    "weight": "use class_weight, or sample_weight in fit",
    "priors": "use prior",
    "model": "use task",
    "metric": "use measure",
    "scoring": "use measure",
    "groups": "pass groups to fit and score",
    "sample_weight": "pass sample_weight to fit",
    # sklearn-crfsuite
    "algorithm": _SOLVER,
    "c1": _NO_L1,
    "c2": "use C, which multiplies the loss instead of the norm",
    "all_possible_transitions": (
        "all transitions have weights: leave it out; forbidden_transitions='unseen' is its opposite"
    ),
    "all_possible_states": "all labels have weights for all features: leave it out",
}


_NO_KERNEL_REGRESSION = (
    "the model is linear; for a kernel, put sklearn.kernel_approximation.Nystroem before it"
)


Method = TypeVar("Method", bound=Callable[..., Any])


class Missing:
    """A method that scikit-learn's classifiers have and this one does not: an AttributeError with advice."""

    def __init__(self, advice: str) -> None:
        self.advice = advice

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> Any:
        raise AttributeError(
            f"{owner.__name__!r} object has no attribute {self.name!r}: {self.advice}"
        )


class AvailableIf:
    """A method that depends on the parameters, as scikit-learn's ``available_if``; the error has advice."""

    def __init__(self, method: Callable[..., Any], advice: Callable[[Any], str]) -> None:
        self._method, self._advice = method, advice
        self.__doc__, self.__wrapped__ = method.__doc__, method  # doctest finds its examples

    @classmethod
    def decorator(cls, advice: Callable[[Any], str]) -> Callable[[Method], Method]:
        """A decorator of methods that raise AttributeError where ``advice(estimator)`` is not empty.

        It hides this class from type checkers, which see the method's signature.
        """
        return lambda method: cls(method, advice)  # type: ignore[return-value]

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:  # for help() and the documentation
            return self._method
        advice = self._advice(instance)
        if advice:
            raise AttributeError(
                f"{owner.__name__!r} object has no attribute {self._method.__name__!r}: {advice}"
            )
        return MethodType(self._method, instance)


#: predict_proba of classifiers
NO_PROBABILITIES = (
    "margins are not probabilities. Use decision_function, or wrap the classifier in "
    "sklearn.calibration.CalibratedClassifierCV."
)


class _InitSignature:
    """The signature of ``__init__``: without it, help() and the documentation show that of ``__new__``."""

    def __get__(self, instance: object, owner: Any) -> inspect.Signature:
        given = inspect.signature(owner.__init__)
        return given.replace(parameters=list(given.parameters.values())[1:])


class NamedParameters(BaseEstimator):
    """Rejects unknown parameters with a message that says what to use instead."""

    __signature__ = _InitSignature()
    #: what parameters may be that are not in ``SHARED``, or mean something else here
    _constraints: ClassVar[Mapping[str, Constraint]] = {}

    def __new__(cls, *args: object, **params: Any) -> Self:
        for name in _unknown(cls, params):
            advice = _advice(cls, name)
            if advice:
                raise TypeError(
                    f"{cls.__name__}.__init__() got an unexpected keyword argument {name!r}: {advice}"
                )
        return super().__new__(cls)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, as in scikit-learn.

        Parameters
        ----------
        **params : dict
            Names and values.

        Returns
        -------
        estimator
            The estimator itself.
        """
        for name in _unknown(type(self), params):
            advice = _advice(type(self), name)
            if advice:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {type(self).__name__}: {advice}"
                )
        return super().set_params(**params)


@cache
def _parameters(cls: Any) -> Mapping[str, inspect.Parameter]:
    """The parameters of ``__init__``, including ``self``. Reading them takes as long as a Newton step."""
    return inspect.signature(cls.__init__).parameters


@cache
def names(cls: Any) -> tuple[str, ...]:
    """The names of the parameters as scikit-learn lists them."""
    return tuple(cls._get_param_names())


def _unknown(cls: Any, params: Mapping[str, Any]) -> list[str]:
    """Names that are not parameters; none if a subclass accepts any name."""
    if not params:
        return []
    known = _parameters(cls)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()):
        return []
    return [name for name in params if name not in known and "__" not in name]


def _advice(cls: Any, name: str) -> str:
    """What to use instead of an unknown parameter, or an empty string."""
    known = [*_parameters(cls)][1:]
    advice = _INSTEAD.get(name, "")
    if advice == _KERNEL and not issubclass(cls, ClassifierMixin):
        advice = _NO_KERNEL_REGRESSION
    if advice.startswith("use ") and advice.split()[1].strip(",=") not in known:
        advice = ""
    if advice:
        return f"{advice}."
    near = {other.lower(): other for other in known}
    found = get_close_matches(name.lower(), near, 1, 0.75)
    return f"did you mean {near[found[0]]!r}?" if found else ""


@cache
def _rules(kind: Any) -> Mapping[str, tuple[Any, Constraint | None]]:
    """The default of each parameter, and what it may be. A class takes over the rules of its base classes."""
    own = [vars(base).get("_constraints", {}) for base in reversed(kind.__mro__)]
    known = {name: rule for rules in (SHARED, *own) for name, rule in rules.items()}
    given = _parameters(kind)
    return {
        name: (given[name].default if name in given else None, known.get(name))
        for name in names(kind)
    }


def check_parameters(estimator: Any) -> None:
    """Raise an error that names the first parameter with a value that it cannot have."""
    kind: Any = type(estimator)
    for name, (default, rule) in _rules(kind).items():
        value = getattr(estimator, name)
        if value is not default:  # to check all of them takes as long as a Newton step
            _check(name, value, rule, kind.__name__)


def check_values(kind: Any, values: Mapping[str, Any]) -> None:
    """The same for values of some parameters of a class."""
    rules = _rules(kind)
    for name, value in values.items():
        _check(name, value, rules[name][1], kind.__name__)


def _check(name: str, value: object, rule: Constraint | None, owner: str) -> None:
    require_object(name, value)  # a class has all methods of its objects, but none of them works
    if name == "callbacks" and isinstance(value, list | tuple):
        for k, callback in enumerate(value):
            require_object(f"callbacks[{k}]", callback)
    if rule is not None:
        rule.check(name, value, owner)


def require_object(name: str, value: object) -> None:
    """Raise TypeError if the value of this parameter is a class."""
    if isinstance(value, type):
        raise TypeError(
            f"{name}={value.__name__} is a class, not an object: use {name}={value.__name__}(...), with "
            "parentheses."
        )
