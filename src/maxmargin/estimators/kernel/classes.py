"""From classes to kernel problems and back.

Two classes are one problem. More classes are one problem for each pair (one-vs-one, as in LIBSVM), on the
rows of the two classes, or one problem for all (Crammer and Singer). The functions of the pairs are stored
as in LIBSVM: a row of class c occurs only in the K - 1 pairs of c, so K - 1 coefficients suffice.
Coefficient r belongs to the pair with the r-th of the other classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from maxmargin.core.result import Certificate, SolveResult, relative_gap
from maxmargin.core.stopping import Bounds, StoppingRule
from maxmargin.core.vectors import Array, IntArray
from maxmargin.estimators.kernel.problem import KernelSolution
from maxmargin.kernels.extent import warn_of_no_kernel

#: further attributes of methods that are added over problems
ADDED = ("restricted_lower_bound_", "kernel_values_")


@dataclass(frozen=True, slots=True, eq=False)
class ClassProblem:
    """One problem: its rows, and their labels in it."""

    rows: IntArray
    y: Any
    #: the classes of a pair, the first of which has the label +1; None if the problem has all rows
    pair: tuple[int, int] | None = None
    #: None for one function
    n_classes: int | None = None

    @property
    def one_sided(self) -> bool:
        """Whether there is only one class, because the other one has no weight."""
        return self.n_classes is None and not np.any(self.y != self.y[:1])


@dataclass(slots=True, eq=False)
class SmallPairs:
    """Pairs that were solved at once, with LIBSVM's coefficients."""

    #: one column for each row of the data
    coef: Array
    #: by pair, like ``done``
    intercept: Array
    done: Any
    #: of all of them together; None if there are none
    result: SolveResult | None = None
    kernel_values: int = 0
    interrupted: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Expansion:
    """The functions of all problems over all rows they use, sorted by class and then ascending."""

    support: IntArray
    n_support: IntArray
    #: (outputs, or K - 1 for pairs; rows)
    coef: Array
    #: one per output
    intercept: Array


def pairs(n_classes: int) -> list[tuple[int, int]]:
    """Pairs of classes in the order of their functions."""
    return list(combinations(range(n_classes), 2))


def is_joint(kind: str, n_classes: int) -> bool:
    """Whether several classes are one problem."""
    return n_classes > 2 and kind == "crammer_singer"


@dataclass(frozen=True, slots=True, eq=False)
class Pairs(Sequence[ClassProblem]):
    """The problems of all pairs of classes, made when they are asked for."""

    #: rows of each class, ascending
    members: list[IntArray]
    pairs: list[tuple[int, int]]

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, k: Any) -> Any:
        i, j = self.pairs[k]
        rows = np.concatenate([self.members[i], self.members[j]])
        y = np.repeat([1.0, -1.0], [len(self.members[i]), len(self.members[j])])
        order = np.argsort(rows)
        return ClassProblem(rows[order], y[order], (i, j))

    @property
    def sizes(self) -> IntArray:
        """Number of rows of each problem."""
        counts = np.array([len(rows) for rows in self.members])
        sizes: IntArray = counts[np.array(self.pairs)].sum(axis=1)
        return sizes


def parts(kind: str, codes: IntArray, weight: Array, n_classes: int) -> list[ClassProblem] | Pairs:
    """The problems, without rows of weight zero."""
    some = np.flatnonzero(weight > 0.0)
    own = codes[some]
    if is_joint(kind, n_classes):
        return [ClassProblem(some, own, None, n_classes)]
    if n_classes == 2:  # the second class is the positive one
        return [ClassProblem(some, np.where(own == 1, 1.0, -1.0))]
    ends = np.cumsum(np.bincount(own, minlength=n_classes))[:-1]
    return Pairs(np.split(some[np.argsort(own, kind="stable")], ends), pairs(n_classes))


def join(
    found: dict[int, KernelSolution],
    split: Sequence[ClassProblem],
    codes: IntArray,
    K: int,
    small: SmallPairs | None = None,
) -> Expansion:
    """One expansion from the solutions of the problems, by their number, and of pairs solved at once."""
    if small is not None:
        coef, intercepts = small.coef, list(small.intercept[:, None])
    else:
        outputs = found[0].coef.shape[1] if split[0].pair is None else K - 1
        coef, intercepts = np.zeros((outputs, len(codes))), [np.zeros(0)] * len(split)
    used: Any = coef.any(axis=0)
    for k, fit in found.items():
        part = split[k]
        rows = part.rows[fit.support]
        used[rows], intercepts[k] = True, fit.intercept
        if part.pair is None:
            coef[:, rows] = fit.coef.T
        else:
            i, j = part.pair
            coef[np.where(codes[rows] == i, j - 1, i), rows] = fit.coef[:, 0]
    support = np.flatnonzero(used)
    support = support[np.argsort(codes[support], kind="stable")]
    n_support = np.bincount(codes[support], minlength=K)
    return Expansion(support, n_support, coef[:, support], np.concatenate(intercepts))


def columns(K: int) -> list[IntArray]:
    """For each class, the pairs to which its K - 1 coefficients belong."""
    number = {pair: k for k, pair in enumerate(pairs(K))}
    others = [[o for o in range(K) if o != c] for c in range(K)]
    return [
        np.array([number[min(c, o), max(c, o)] for o in others[c]], dtype=np.int64)
        for c in range(K)
    ]


def by_row(
    part: ClassProblem, codes: IntArray, support: IntArray, coef: Array, outputs: int
) -> Array:
    """The coefficients of an earlier expansion for every row of a problem, to start from."""
    inside = np.isin(support, part.rows)
    where = np.searchsorted(part.rows, support[inside])
    out = np.zeros((len(part.rows), outputs))
    if part.pair is None:
        out[where] = coef[:, inside].T
    else:
        i, j = part.pair
        own = codes[support[inside]]
        out[where, 0] = coef[np.where(own == i, j - 1, i), np.flatnonzero(inside)]
    return out


def constant(part: ClassProblem, weight: Array, C: float, fit_intercept: bool) -> KernelSolution:
    """The best constant function for two classes: the sign of the heavier class, 0 if they are equal.

    Its objective is 2 C times the weight of the other class. If that is zero, this is the optimum, because
    no objective is negative.
    """
    heavy = np.array([weight[part.y > 0].sum(), weight[part.y < 0].sum()])
    sign = float(np.sign(heavy[0] - heavy[1])) if fit_intercept else 0.0
    F = float(C * (2.0 * heavy.min() if fit_intercept else heavy.sum()))
    gap = 1.0 if F > 0.0 else 0.0
    result = SolveResult(np.zeros(0), F, 0.0, gap, gap == 0.0, "gap", "exact", 0, [])
    none = np.zeros(0, dtype=np.int64)
    extras = {"method_": "constant: rows of one class at most have weight"}
    return KernelSolution(result, none, np.zeros((0, 1)), np.array([sign]), extras)


def not_started(
    part: ClassProblem, weight: Array, C: float, fit_intercept: bool, last: SolveResult
) -> KernelSolution:
    """The solution of a problem that was not started, because the fit was stopped in ``last``."""
    fitted = constant(part, weight, C, fit_intercept)
    result = replace(
        fitted.result, stop_reason=last.stop_reason, certificate=last.certificate, converged=False
    )
    if last.certificate in ("restricted", "measured"):
        result = result.claiming("restricted" if last.certificate == "restricted" else "measured")
    return replace(fitted, result=result, extras={"method_": "not begun: the fit was stopped"})


def interrupted(semidefinite: bool) -> SolveResult:
    """The result of a fit that was interrupted by Ctrl-C before it had any."""
    kind: Certificate = "exact" if semidefinite else "measured"
    return SolveResult(np.zeros(0), np.inf, 0.0, np.inf, False, "interrupted", kind, 0, [])


def not_worse(
    fitted: KernelSolution,
    part: ClassProblem,
    weight: Array,
    C: float,
    fit_intercept: bool,
    rule: StoppingRule,
) -> KernelSolution:
    """The solution of a problem with two classes, or the best constant if that is better.

    This happens after a limit, or if the function is not a kernel. No valid lower bound is above the
    objective of the constant.
    """
    if part.n_classes is not None:
        return fitted
    plain, result = constant(part, weight, C, fit_intercept), fitted.result
    # at least the exact sum of weights
    F = plain.result.objective * (1.0 + (len(part.y) + 4) * float(np.finfo(np.float64).eps))
    if result.lower_bound > F * (1.0 + 1e-9):
        warn_of_no_kernel()
        result = result.claiming("measured")
    proved = result.stop_reason == "gap" and result.certificate != "measured"
    if proved or not result.objective > F:
        return fitted if result is fitted.result else replace(fitted, result=result)
    extras = dict(fitted.extras)
    if "restricted_lower_bound_" in extras:
        extras["restricted_gap_"] = relative_gap(F, extras["restricted_lower_bound_"])
    result = replace(result, objective=F, gap=relative_gap(F, result.lower_bound))
    met = result.certificate == "exact" and rule.met(Bounds(F, result.lower_bound, C))
    if met and result.stop_reason in ("stalled", "rounding"):
        result = replace(result, converged=True, stop_reason="gap")
    return replace(plain, result=result, extras=extras)


def weakest(results: Sequence[SolveResult]) -> Certificate:
    """What the certificates of several problems guarantee together."""
    held = {result.certificate for result in results}
    order: tuple[Certificate, ...] = ("measured", "restricted", "exact")
    return next((kind for kind in order if kind in held), results[0].certificate)


def joined_extras(found: Sequence[KernelSolution], method: str) -> dict[str, Any]:
    """Further attributes of the methods, joined over problems.

    Bounds and counts are added. Other values are kept if all problems agree, otherwise they become a list.
    ``method`` is the default of ``method_``.
    """
    found = [replace(fit, extras={"method_": method, **fit.extras}) for fit in found]
    if len(found) == 1:
        return dict(found[0].extras)
    out: dict[str, Any] = {}
    for name in dict.fromkeys(name for fit in found for name in fit.extras):
        values = [fit.extras[name] for fit in found if name in fit.extras]
        if name in ADDED:
            out[name] = sum(values)
        else:
            out[name] = values[0] if all(_same(values[0], v) for v in values) else values
    if "restricted_lower_bound_" in out:
        F = sum(fit.result.objective for fit in found)
        out["restricted_gap_"] = max(0.0, F - out["restricted_lower_bound_"]) / F if F > 0 else 0.0
    return out


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and not isinstance(a, np.ndarray) and bool(a == b)
