"""Descriptions that several estimators share, and the decorator that puts them into docstrings.

A parameter or attribute that three or more estimators have is described once, in :data:`SHARED`. A docstring
describes the other parameters. It may add to a shared description in indented lines below its name in
braces::

    Parameters
    ----------
    {tol}
        Accuracy usually stops improving well before it is reached.
    loss : {"hinge", "squared_hinge"}, default "hinge"
        Described here, because no other estimator has it.

When the module is imported, :func:`documented` adds the shared descriptions of all parameters that the
docstring leaves out, in the order of the signature, and replaces names in braces, also in other sections. A
method need not have a section of parameters, nor one that says that it returns the estimator. So ``help``,
Sphinx and notebooks show the complete text. Only lines that hold nothing but a name in braces are replaced;
other braces stay.

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
    The alternative to "crammer_singer" is "ovr" in ``LinearSVC`` and "ovo" in ``KernelSVC``, and it is the
    default, as in their counterparts in scikit-learn.
``dual``
    Without effect; "auto" in linear SVMs and False in ``LogisticRegression``, as in scikit-learn.
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
    Features (indices or names, or a boolean mask) whose weights must not be negative.

nonpositive : list, {default}
    Features (indices or names, or a boolean mask) whose weights must not be positive.

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

random_state : int, Generator, RandomState or None, {default}
    Seed of the random number generator. Fits with the same seed are bit-identical. From a generator of NumPy,
    every fit draws another seed.

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

max_support : int, {default}
    Number of samples that ``partial_fit`` keeps. ``fit`` ignores it.

cv : int, splitter or iterable, {default}
    The folds, as in scikit-learn; 5 by default.

refit : bool, {default}
    Whether to fit the best setting to all samples.

search_seconds : float, {default}
    Time limit of the cross-validation in seconds. When it is reached, the best of the settings that were
    trained on every fold is taken, with a warning. The fit with the best setting is not limited.

cell_callbacks : list of callables, {default}
    Called with a :class:`maxmargin.callbacks.CellRecord` for every cell. The cross-validation stops if one of
    them returns True, and the best of the settings that were trained on every fold is taken.
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

cv_results_ : dict of arrays
    As in GridSearchCV (``params``, ``param_C``, ``split0_test_score``, ``mean_test_score``,
    ``std_test_score``, ``rank_test_score``, ``mean_fit_time``, ...), and the certificate of each cell:
    ``split0_objective``, ``split0_lower_bound``, ``split0_gap``, ``split0_converged``.

best_params_, best_score_, best_index_
    The best setting, its mean score and its index in ``cv_results_``.

n_splits_ : int
    Number of folds.

n_seen_, n_support_ : int
    After ``partial_fit``: number of samples seen so far, and number of samples kept.

support_vectors_ : array or sparse matrix of shape (n_SV, n_features)
    The support vectors; empty with ``kernel="precomputed"``.

kernel_ : Kernel
    The kernel with its parameters.

shape_fit_ : tuple of int
    Shape of the training data.

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

rows : array, sparse matrix, data frame or data set of shape (n_samples, n_features)
    The samples.

sequences : as for ``fit``
    Sequences.

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

token_weight : list of arrays, or flat array, {default}
    Per-token multipliers of the cost.

interrupted_search
    After Ctrl-C. ``cv_results_`` contains the finished cells, nothing is refitted, and ``error.estimator`` is
    this object. See :func:`maxmargin.return_on_interrupt`.
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
    "search": ("cv_results_", "best_params_, best_score_, best_index_", "n_splits_"),
    "stream": ("n_seen_, n_support_",),
    "restricted": ("restricted_lower_bound_", "restricted_gap_"),
    "probabilistic": ("probabilistic_bound_", "probabilistic_bound_is_vacuous_"),
}
#: descriptions whose name in docstrings is not the name of what they describe
_NAMES = {
    "score_weight": "sample_weight",
    "pairs": "X, y",
    "rows": "X",
    "sequences": "X",
    "search_seconds": "max_seconds",
    "cell_callbacks": "callbacks",
    "interrupted_search": "KeyboardInterrupt",
}


def _entries(text: str) -> dict[str, str]:
    """The descriptions in a text, by name."""
    blocks = text.strip().split("\n\n")
    return {block.split("\n")[0].split(" : ")[0]: block for block in blocks}


#: the shared descriptions, by the name that stands for them in docstrings
SHARED = _entries(_PARAMETERS) | _entries(_ATTRIBUTES) | _entries(_METHODS)

_PLACEHOLDER = re.compile(r"^( *)\{(\w+)\}$", re.MULTILINE)
_PARAMETERS_OF = re.compile(
    r"(?P<head>^(?P<indent> *)Parameters\n *-+\n)(?P<entries>(?: *\S.*\n)*)", re.MULTILINE
)
_SECTION = re.compile(r"^(?P<indent> *)(?P<title>\w+)\n *---+$", re.MULTILINE)


def documented(described: Documented) -> Documented:
    """Compose the docstring of a class or function from its own descriptions and the shared ones.

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
    ... def solve(rule, tol=0.1, verbose=0):
    ...     '''Solve a problem.
    ...
    ...     Parameters
    ...     ----------
    ...     rule : str
    ...         Its rule.
    ...
    ...     Returns
    ...     -------
    ...     float
    ...     '''
    >>> [line.strip() for line in solve.__doc__.splitlines() if " : " in line]
    ['rule : str', 'tol : float or stopping rule, default 0.1', 'verbose : int, default 0']
    """
    if described.__doc__ is not None:
        signature = inspect.signature(described)
        known = signature.parameters
        whole = _with_sections(described.__doc__, signature)
        listed = _PARAMETERS_OF.sub(lambda found: _listed(found, known), whole)
        described.__doc__ = _PLACEHOLDER.sub(
            lambda found: _described(found[2], found[1], known), listed
        )
    return described


def _with_sections(text: str, signature: inspect.Signature) -> str:
    """The docstring of a method with sections of its parameters and, if it returns ``self``, of that."""
    first = _SECTION.search(text)
    if "self" not in signature.parameters or first is None:
        return text
    indent, at = first["indent"], first.start()
    if first["title"] != "Parameters" and len(signature.parameters) > 1:
        text = f"{text[:at]}{indent}Parameters\n{indent}----------\n\n{text[at:]}"
    if signature.return_annotation == "Self" and f"{indent}Returns\n" not in text:
        found = _PARAMETERS_OF.search(text)
        at = at if found is None else found.end()
        lines = ("", "Returns", "-------", "self", "    The estimator itself.")
        text = text[:at] + "".join(f"{indent}{line}".rstrip() + "\n" for line in lines) + text[at:]
    return text


def _listed(section: re.Match[str], parameters: Any) -> str:
    """A section of parameters in the order of the signature, with placeholders for what it leaves out."""
    indent, text = section["indent"], section["entries"]
    parts = [part for part in re.split(rf"^(?={indent}\S)", text, flags=re.MULTILINE) if part]
    of = {name.lstrip("*"): part for part in parts for name in _names(part.split("\n")[0].strip())}
    left_out = [name for name in parameters if name not in of and name != "self"]
    of |= {name: f"{indent}{{{name}}}\n" for name in left_out}
    ordered = [of[name] for name in parameters if name in of]
    return section["head"] + "".join(dict.fromkeys([*ordered, *parts]))


def _names(line: str) -> list[str]:
    """The parameters that an entry of a section describes, from its first line."""
    if placeholder := _PLACEHOLDER.fullmatch(line):
        parts = _GROUPS.get(placeholder[2], (placeholder[2],))
        line = ", ".join(_NAMES.get(part, part) for part in parts)
    return line.split(" : ")[0].split(", ")


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
