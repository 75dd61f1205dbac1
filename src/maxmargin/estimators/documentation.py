"""Descriptions that several estimators share, and the decorator that puts them into docstrings.

A parameter or attribute that three or more estimators have is described once, in :data:`SHARED`. A docstring
refers to a description by its name in braces on a line of its own, and may add to it in indented lines::

    Parameters
    ----------
    {tol}
        Accuracy usually stops improving well before it is reached.
    loss : {"hinge", "squared_hinge"}, default "hinge"
        Described here, because no other estimator has it.

:func:`documented` replaces these lines when the module is imported, so ``help``, Sphinx and notebooks show
the complete text. Only lines that hold nothing but a name in braces are replaced; other braces stay.

In a description, ``{default}`` stands for the default value in the signature of the class or function, so the
documented default is always the real one.

A parameter has the same meaning and the same default in all estimators, with these exceptions.
``tools/parameter_table.py`` prints all parameters and defaults.

``C``
    0.1 in ``SequenceTagger`` and 1 everywhere else: four corpora have their best models near 0.1, in about
    half the time (``benchmarks/results/tagger_c.md``).
``tol``
    1e-3 for vectors and 5e-2 for structures, whose accuracy no longer improves below a gap of about 1e-1.
    ``LatentStructuredSVM`` has no lower bound of its optimum: there, ``tol`` (1e-2) limits the possible gain
    of a convex step.
``max_iter``
    Counts convex problems in ``LatentStructuredSVM``, iterations elsewhere.
``loss``
    The losses of each kind of problem have their own names and defaults.
``multi_class``
    The alternative to "crammer_singer" is "ovr" in ``LinearSVC`` and "ovo" in ``KernelSVC``, as in their
    counterparts in scikit-learn.
``kernel``
    "rbf" in ``KernelSVC``, as in scikit-learn. Structured models are linear by default (None).
``cost``
    A matrix. ``SequenceTagger`` and ``GraphLabeler`` also accept a dictionary with a cost per true label.
``epsilon``
    0.1 in ``KernelSVR`` and 0 in ``LinearSVR``, as in their counterparts in scikit-learn.
``k``
    The cutoff of a metric: samples predicted as positive in ``MeasureSVC``, positions in ``RankSVM``.
``min_count``
    2 in ``GrammarParser``, whose rare words stand for unknown ones, and 1 in ``SequenceTagger``, where rare
    features cost little.
``Cs``
    10 values in ``LinearSVCCV``, as in scikit-learn, and 5 in the other searches, whose fits take longer.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["SHARED", "documented"]

Documented = TypeVar("Documented", bound="type | Callable[..., Any]")

_PARAMETERS = """
C : float, {default}
    Weight of the loss relative to the regularization. The larger, the more closely the model fits the
    training data.

tol : float or stopping rule, {default}
    Relative gap ``(objective_ - lower_bound_) / objective_`` at which the fit stops. For another criterion,
    pass a stopping rule such as :class:`maxmargin.solvers.AbsoluteGap`.

fit_intercept : bool, {default}
    Whether to fit an intercept.

intercept_scaling : float, {default}
    Value of the constant feature whose weight gives the intercept. The larger, the less the intercept is
    penalized.

penalize_intercept : bool, {default}
    Whether the intercept is part of the penalized norm, as in scikit-learn. If False, the intercept is
    unpenalized.

prior : GaussianPrior, {default}
    Center and spread of the weights, in place of the term ``1/2 |w|^2``; see the user guide, "Priors".

fixed : dict, {default}
    Weights that are not learned, as ``{index or name of a feature: value}``. Their part of the norm, a
    constant, is not included in ``objective_``.

nonnegative : list, {default}
    Features (indices or names) whose weights must not be negative.

nonpositive : list, {default}
    Features (indices or names) whose weights must not be positive.

rescaling : {"margin", "slack"}, {default}
    Whether the loss is added to the score of an output ("margin") or multiplies its violation ("slack").

kernel : {"rbf", "poly", "sigmoid", "linear"} or callable, {default}
    The kernel, with the names and conventions of scikit-learn. A callable ``f(X, Z)`` returns the matrix of
    kernel values; set its attribute ``positive_semidefinite`` to False if the kernel is not.

gamma : {"scale", "auto"} or float, {default}
    Coefficient of the kernels "rbf", "poly" and "sigmoid". "scale" is ``1 / (n_features * X.var())``, "auto"
    is ``1 / n_features``.

degree : int, {default}
    Degree of the kernel "poly".

coef0 : float, {default}
    Constant term of the kernels "poly" and "sigmoid".

kernel_method : {"auto", "map", "nystrom", "sampled"} or settings object, {default}
    How the kernel is used. "map" builds features from all training rows and gives the certificate "exact"; it
    is for a few thousand rows. "nystrom" (:class:`maxmargin.kernels.Nystrom`) builds them from some rows and
    gives "restricted". "sampled" learns by sampled cuts (:class:`maxmargin.solvers.SampledCuts`) and gives
    "measured". "auto" is "map" for up to 5,000 rows and "nystrom" for more.

solver : "auto" or solver object, {default}
    The optimization method; see :mod:`maxmargin.solvers`.

oracle : {"cheap", "expensive"}, {default}
    Cost of one call of the task's inference. "expensive" saves calls at the price of more computation between
    them. Use it when a call takes much longer than a millisecond; see the user guide, "Expensive oracles".

max_iter : int, {default}
    Maximum number of iterations. When it is reached, the best point found is returned with its bounds.

max_seconds : float, {default}
    Time limit of the fit in seconds. When it is reached, the best point found is returned with its bounds.

n_jobs : int, {default}
    Number of workers. None means 1 (on a Ray cluster, 1 per machine), and -1 means all cores. Results are
    bit-identical for any number from two on. With one worker, ``solver="auto"`` may choose another method.

engine : {"threads", "processes", "ray", "ray://host:port"} or engine object, {default}
    What the workers are; see :mod:`maxmargin.engines`. A solver gives bit-identical results on all engines.
    The fit does not close an engine object.

warm_start : bool, {default}
    Whether to start from the solution of the previous fit.

random_state : int, RandomState or None, {default}
    Seed of the random number generator. Fits with the same seed are bit-identical.

callbacks : list of callables, {default}
    Called with the record of every iteration. The fit stops if one of them returns True. See the user guide,
    "Watching a fit".

out : path, {default}
    File to write the result to, in NumPy's format (.npy), and to map it from. Memory does not grow with the
    samples if they are a data set on disk.

verbose : int, {default}
    If 1, show the progress of the fit on standard error: on one line in a terminal, else every ten seconds.

checkpoint : path or Checkpoint, {default}
    File to which ``fit`` regularly writes its state, so that a fit that was killed can be resumed; see the
    user guide, "Checkpoints".

task : Task, {default}
    The task: what is predicted, and how; see :class:`maxmargin.tasks.Task`. ``fit`` works on a copy.
"""

_ATTRIBUTES = """
objective_ : float
    Objective at the returned weights: an upper bound of the optimum.

lower_bound_ : float
    Lower bound of the optimum.

gap_ : float
    Relative gap between the bounds, ``(objective_ - lower_bound_) / objective_``.

converged_ : bool
    Whether the bounds prove that ``tol`` was reached.

stop_reason_ : str
    Why the fit stopped: "gap" (``tol`` was reached), "max_iter", "max_seconds", "callback", "interrupted",
    "stalled" (no further progress) or "rounding" (rounding errors may exceed ``tol``: scale the features).

certificate_ : str
    What the bounds guarantee: "exact", "relaxed", "restricted", "lower_only" or "measured"; see the user
    guide, "What the certificate means".

n_iter_ : int
    Number of iterations.

history_ : list of dict
    Record of every iteration: bounds, gap, elapsed time and more.

classes_ : array
    The class labels, sorted.

n_features_in_ : int
    Number of features.

feature_names_in_ : array
    Names of the features, if ``X`` had names.

task_ : Task
    The task, prepared for the training data.

kernel_method_ : str
    With a kernel: how it was used, and after "auto", why.

restricted_lower_bound_ : float
    If the certificate is "restricted": lower bound of the problem that was solved.

restricted_gap_ : float
    If the certificate is "restricted": relative gap of the problem that was solved.

kernel_values_ : int
    Number of kernel values that were computed.

probabilistic_bound_ : float
    After a fit with sampled cuts: how far ``objective_`` is from the optimum at most, with probability 0.95.

probabilistic_bound_is_vacuous_ : bool
    After a fit with sampled cuts: whether ``probabilistic_bound_`` is too large to be informative.
"""

_METHODS = """
X : array, sparse matrix, data frame, matrix-free features or data set of shape (n_samples, n_features)
    The samples.

y : array of shape (n_samples,)
    The target of each sample. Omit it for a data set, which contains its own.

sample_weight : array of shape (n_samples,), {default}
    Per-sample multipliers of C.

score_weight : array of shape (n_samples,), {default}
    Sample weights. By default those of the data set, if ``X`` is one, else 1.

resume_from : path, {default}
    Checkpoint of a fit with the same data and parameters, from which to continue.

pairs : sequences of equal length
    Inputs and true outputs, of the kind that the task expects.

lengths : list of int, {default}
    Number of tokens of each sequence, if ``X`` is one matrix.
"""

#: names that stand for several descriptions
_GROUPS = {
    "certificate": (
        "objective_",
        "lower_bound_",
        "gap_",
        "converged_",
        "stop_reason_",
        "certificate_",
        "n_iter_",
        "history_",
    ),
    "limits": ("max_iter", "max_seconds"),
    "signs": ("nonnegative", "nonpositive"),
    "restricted": ("restricted_lower_bound_", "restricted_gap_"),
    "probabilistic": ("probabilistic_bound_", "probabilistic_bound_is_vacuous_"),
}
#: descriptions whose name in docstrings is not the name of what they describe
_NAMES = {"score_weight": "sample_weight", "pairs": "X, y"}


def _entries(text: str) -> dict[str, str]:
    """The descriptions in a text, by name."""
    blocks = text.strip().split("\n\n")
    return {block.split(" : ", 1)[0]: block for block in blocks}


#: the shared descriptions, by the name that stands for them in docstrings
SHARED = _entries(_PARAMETERS) | _entries(_ATTRIBUTES) | _entries(_METHODS)

_PLACEHOLDER = re.compile(r"^( *)\{(\w+)\}$", re.MULTILINE)


def documented(described: Documented) -> Documented:
    """Replace the placeholders in the docstring of a class or function by the shared descriptions.

    Parameters
    ----------
    described : class or function
        With a docstring as the module describes it. Under ``python -OO`` there is none, and nothing is done.

    Returns
    -------
    class or function
        The same object.

    Examples
    --------
    >>> from maxmargin.estimators.documentation import documented
    >>> @documented
    ... def solve(tol=0.1):
    ...     '''Solve a problem.
    ...
    ...     Parameters
    ...     ----------
    ...     {tol}
    ...     '''
    >>> print(solve.__doc__.splitlines()[4].strip())
    tol : float or stopping rule, default 0.1
    """
    if described.__doc__ is not None:
        defaults = inspect.signature(described).parameters
        described.__doc__ = _PLACEHOLDER.sub(
            lambda found: _described(found[2], found[1], defaults), described.__doc__
        )
    return described


def _described(name: str, indent: str, parameters: Any) -> str:
    """The descriptions that a name stands for, indented."""
    parts = []
    for part in _GROUPS.get(name, (name,)):
        if part not in SHARED:
            raise KeyError(f"no shared description is named {part!r}: add it to {__name__}.")
        own = _NAMES.get(part, part)
        text = SHARED[part].replace(", {default}", _default(parameters.get(own)))
        parts.append(own + text.removeprefix(part))
    return "\n".join(f"{indent}{line}" for line in "\n".join(parts).splitlines())


def _default(parameter: inspect.Parameter | None) -> str:
    """The default value of a parameter, in the words of a docstring."""
    if parameter is None or parameter.default is parameter.empty:
        return ""
    if parameter.default is None:
        return ", optional"
    value = parameter.default
    return f', default "{value}"' if isinstance(value, str) else f", default {value!r}"
