"""Predict the costs of a linear program, then optimize: SPO+ as a structured hinge.

A decision y is taken from a feasible set S to minimize <c, y>. The costs c are unknown when it is taken;
features are known. A linear predictor gives costs c^ = Phi(x) w, and y^ minimizes <c^, y>. What counts is the
regret <c, y^> - <c, y*>, where y* is optimal for c. It is not continuous in w. Elmachtoub and Grigas, "Smart
'Predict, then Optimize'" (2022), bound it from above by the convex loss

    SPO+(c^, c) = max_y <c - 2 c^, y>  +  2 <c^, y*>  -  <c, y*>          (y over S)
                = max_y [<c, y> - <c, y*>]  +  <2 c^, y* - y>.

Both terms outside of the maximum belong to y = y*, so it is a structured hinge with margin rescaling,

    SPO+ = max_y Delta(y) + <w, Psi(x, y) - Psi(x, y*)>,
    Delta(y) = <c, y> - <c, y*> >= 0,        Psi(x, y) = -2 Phi(x)' y,

without any other term: y = y* gives 0. Hence F(w) = ||w||^2 / 2 + C sum_i s_i SPO+(Phi_i w, c_i), and w are
weights of costs, in the unit of c. The factor 2 cannot be dropped without changing the loss: with
Psi = -Phi' y, the weights are those of 2 c^, and C is worth a quarter.

The labels can also be decisions y* alone, whose costs nobody knows (inverse optimization). Then Delta is the
distance sum_j |y_j - y*_j|. Over 0/1 variables it is linear, <slope, y - y*> with slope_j = 1 - 2 y*_j. So in
both cases there is one problem to solve,

    max_y Delta(y) + <w, Psi(x, y)>  =  - <slope, y*> - min_y <2 c^ - slope, y>,     slope = c or as above,

by the solver of the decisions itself. Its costs 2 c^ - slope can be negative, even if c and c^ are positive.
To maximize values, replace c by -c and c^ by -c^ (``sign`` below).

References:

- A. N. Elmachtoub and P. Grigas, "Smart 'predict, then optimize'", Management Science 68 (2022), 9-26,
  https://doi.org/10.1287/mnsc.2020.3922
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import LinearConstraint

from maxmargin.core.checks import one_of
from maxmargin.core.matrices import check_dense, checked, numbered
from maxmargin.core.vectors import Array, SparseVector, Vector, sparsify
from maxmargin.tasks.base import Bounded, Task
from maxmargin.tasks.programs import (
    Program,
    check_solution,
    read_answer,
    read_program,
    solve_program,
)

#: relative difference of costs below which two decisions are equally good
EQUAL = 1e-9
#: negative regret, relative to the costs, that is attributed to the solver's tolerance and counts as 0; the
#: bounds of a fit hold up to it
OPTIMAL = 1e-8
#: number of random costs at which the user's solver is tested, and of labeled decisions to compare with
PROBES, COMPARED = 6, 20

NEGATIVE = (
    "Training minimizes 2 * predicted costs - true costs, which can be negative, so the solver must be exact "
    "for negative costs, too. Dijkstra's algorithm is not. On graphs without cycles, use Bellman-Ford or "
    "dynamic programming. Otherwise, describe the feasible set by constraints for HiGHS"
)


class TrueCosts(NamedTuple):
    """The true costs of an example, and a decision that is optimal for them.

    :meth:`LinearObjective.labels` makes these labels from true costs.

    Parameters
    ----------
    costs : array of shape (n_variables,)
        The true costs (values for ``sense="maximize"``).
    decision : array of shape (n_variables,)
        A feasible decision that is optimal for these costs.
    sense : {"minimize", "maximize"}, default "minimize"
        The one of the task.
    """

    costs: Any
    decision: Any
    sense: Literal["minimize", "maximize"] = "minimize"


class _Answer(NamedTuple):
    """A decision and a lower bound of the smallest costs; if ``exact``, those of the decision."""

    y: Array
    bound: float
    exact: bool


class LinearObjective(Task):
    """Learn to predict costs so that the decisions based on them are good (SPO+).

    An input is an array of features: either of shape (n_features,), shared by all variables, or of shape
    (n_variables, n_features), with one row for each variable. Predicted costs are ``W @ x`` with one row of
    weights for each variable, or ``x @ w`` with the same weights for all. For an intercept, append a feature
    that is 1. The prediction is the feasible decision with the smallest predicted costs.

    A label is :class:`TrueCosts`, made by :meth:`labels` from an array of true costs. Then ``StructuredSVM``
    minimizes ``||w||^2 / 2 + C * sum(SPO+)``. If the costs are unknown, a label is a decision alone, of 0/1
    variables or one of the listed points. Then the loss is the distance to it (inverse optimization).

    Parameters
    ----------
    feasible : callable, dict, LinearConstraint or array, optional
        The feasible set:

        - a function ``argmin(costs)`` that returns a feasible decision with the smallest ``costs @ y``, also
          for negative costs (Dijkstra's algorithm fails there; it is checked at a few costs before training).
          If its search stops early, it returns ``Bounded(y, upper)`` with ``upper >= -costs @ y`` for all
          feasible y;
        - a dict with ``constraints``, ``bounds``, and ``integrality`` as for :class:`IntegerProgram`, or a
          SciPy ``LinearConstraint`` alone; HiGHS solves it;
        - an array with all feasible decisions as rows.

        If feasible sets differ by example, pass inputs as dicts with the array as ``"features"``. A function
        is then called as ``argmin(costs, x)``. Without ``feasible``, each dict has its own ``constraints``.
    sense : {"minimize", "maximize"}, default "minimize"
        Whether costs are minimized, or values maximized. A function minimizes in both cases: for values, it
        receives them with a minus sign.

    Examples
    --------
    Two roads, of which one is free in the morning and the other one in the evening:

    >>> import numpy as np
    >>> from maxmargin import StructuredSVM
    >>> from maxmargin.metrics import regret_score
    >>> from maxmargin.tasks import LinearObjective
    >>> task = LinearObjective([[1, 0], [0, 1]])
    >>> X = np.array([[1.0, 0.0], [1.0, 1.0]])  # intercept, evening
    >>> Y = task.labels(X, [[2.0, 5.0], [6.0, 3.0]])
    >>> svm = StructuredSVM(task, C=10.0, tol=1e-3).fit(X, Y)
    >>> svm.predict(X), regret_score(Y, svm.predict(X))
    ([array([1., 0.]), array([0., 1.])], 0.0)
    """

    def __init__(
        self,
        feasible: Callable[..., Any] | Mapping[str, Any] | LinearConstraint | Any = None,
        *,
        sense: Literal["minimize", "maximize"] = "minimize",
    ) -> None:
        one_of("sense", sense, ("minimize", "maximize"))
        if isinstance(feasible, LinearConstraint):
            feasible = {"constraints": feasible}
        elif feasible is not None and not callable(feasible) and not isinstance(feasible, Mapping):
            feasible = _points(feasible)
        self.feasible: Any = feasible
        self.sense = sense
        self._sign = 1.0 if sense == "minimize" else -1.0
        #: the program, if it is the same for all examples
        self._program: Program | None = None

    def labels(self, X: Iterable[Any], costs: Iterable[Any]) -> list[TrueCosts]:
        """The labels of true costs: the costs, and a decision that is optimal for them.

        It solves one problem per example. If the optimal decisions are known, use :class:`TrueCosts` itself.

        Parameters
        ----------
        X : sequence of inputs
            They matter only if feasible sets differ by example.
        costs : array of shape (n_examples, n_variables), or sequence of arrays
            The true costs (values for ``sense="maximize"``).

        Returns
        -------
        list of TrueCosts
            One label for each example.
        """
        out = []
        for i, (x, c) in enumerate(zip(X, costs, strict=True)):
            c = np.asarray(c, dtype=np.float64)
            if c.ndim != 1 or not np.isfinite(c).all():
                raise ValueError(f"example {i}: the costs must be a vector of finite numbers.")
            out.append(TrueCosts(c, self._minimize(self._sign * c, x).y, self.sense))
        return out

    def predicted_costs(self, x: Any, w: Array) -> Array:
        """The costs (or values) that the weights ``w`` predict for one input.

        Parameters
        ----------
        x : array or dict
            The input.
        w : array
            The weights, such as ``StructuredSVM.coef_``.

        Returns
        -------
        array of shape (n_variables,)
            The predicted costs.
        """
        features = _features(x)
        width = features.shape[-1]
        fits = width and (len(w) % width == 0 if features.ndim == 1 else len(w) == width)
        if not fits:
            raise ValueError(f"the input has {width} features, but the model has {len(w)} weights.")
        if features.ndim == 1:
            return np.asarray(w.reshape(-1, width) @ features, dtype=np.float64)
        return np.asarray(features @ w, dtype=np.float64)

    def setup(self, X: Sequence[Any], Y: Sequence[Any]) -> int:
        """Validate inputs, labels and the solver, and return the number of weights."""
        dims = set()
        if isinstance(self.feasible, Mapping):
            self._program = _read(self.feasible, len(_decision(Y[0])))
        for i, (x, y) in enumerate(zip(X, Y, strict=True)):
            try:
                dims.add(_check_features(x, self._check_label(x, y)))
            except ValueError as error:
                raise ValueError(f"example {i}: {str(error).rstrip('.')}.") from error
        if len(dims) != 1:
            raise ValueError(
                f"all examples must have the same number of weights, got {sorted(dims)}: features are either "
                "shared by all variables (vectors) or given for each (matrices), with equal sizes."
            )
        same = self.feasible is not None and not any(isinstance(x, Mapping) for x in X)
        known = [_decision(y) for y in (Y[:COMPARED] if same else Y[:1])]
        others = np.array([z for z in known if len(z) == len(known[0])])
        if callable(self.feasible):
            self._probe(X[0], Y[0], others)
        elif isinstance(self.feasible, np.ndarray):
            others = self.feasible
        for y in Y if same else ():
            if isinstance(y, TrueCosts) and len(y.decision) == others.shape[1]:
                # an error if another decision is better
                self.loss(y, others[np.argmin(others @ self._slope(None, y))])
        self.dim = dims.pop()
        return self.dim

    def _check_label(self, x: Any, y: Any) -> int:
        """Validate the label, and return the number of variables."""
        z = _decision(y)
        if z.ndim != 1 or not np.isfinite(z).all():
            raise ValueError(f"a decision must be a finite vector, got shape {z.shape}")
        priced, hint = isinstance(y, TrueCosts), "If it holds true costs, use task.labels(X, costs)"
        if priced:
            costs = np.asarray(y.costs)
            if costs.shape != z.shape or not np.isfinite(costs).all():
                raise ValueError(f"{len(z)} finite costs are required, got shape {costs.shape}")
            if y.sense != self.sense:
                raise ValueError(
                    f"the task has sense={self.sense!r}, but the label has sense={y.sense!r}. Use "
                    f"task.labels(X, costs), or TrueCosts(costs, decision, {self.sense!r})"
                )
        if callable(self.feasible):
            if not priced and not ((z == 0.0) | (z == 1.0)).all():
                raise ValueError(f"a label without costs must consist of 0 and 1. {hint}")
        elif isinstance(self.feasible, np.ndarray):
            if not (self.feasible == z).all(axis=1).any():
                raise ValueError(f"the label is not one of the feasible points. {hint}")
        else:
            try:
                check_solution(self._rows(x, len(z)), z, np.full(len(z), float(not priced)))
            except ValueError as error:
                raise ValueError(f"{error}. {hint}") from None
        return len(z)

    def _probe(self, x: Any, y: Any, others: Array) -> None:
        """Compare the answers of the user's solver at negative costs with each other and with labels."""
        slope = self._slope(x, y)
        rng, size = np.random.default_rng(0), float(np.abs(slope).max(initial=0.0)) or 1.0
        costs = [-slope, *(size * rng.normal(size=(PROBES, len(slope))))]
        costs[1::2] = [-np.abs(c) for c in costs[1::2]]
        found = []
        for c in costs:
            try:
                found.append(self._minimize(c, x))
            except Exception as error:
                raise ValueError(
                    f"the solver failed for negative costs: {error!r}. {NEGATIVE}."
                ) from error
        others = np.array([*others, *(answer.y for answer in found)])
        for c, answer in zip(costs, found, strict=True):
            _require_smallest(c, answer, others)

    # -- the five methods of a task ----------------------------------------------------------------

    def joint_feature(self, x: Any, y: Any) -> Vector:
        """``-2 features' y`` (``+`` for values), for each variable's weights or for the common ones."""
        return self._psi(x, _decision(y))

    def difference(self, x: Any, y_a: Any, y_b: Any) -> Vector:
        """Psi(x, y_a) - Psi(x, y_b) by one product."""
        return self._psi(x, _decision(y_a) - _decision(y_b))

    def loss(self, y: Any, y_hat: Any) -> float:
        """The regret of ``y_hat`` if the label has true costs, else the distance to the label."""
        own = _decision(y)
        change = _decision(y_hat) - own
        if not isinstance(y, TrueCosts):
            return float(np.abs(change).sum())
        costs = self._sign * np.asarray(y.costs, dtype=np.float64)
        regret = float(costs @ change)
        if regret < -OPTIMAL * float(np.abs(costs) @ (np.abs(own) + np.abs(change))):
            raise ValueError(
                f"the decision of a label is not optimal for its true costs: another feasible one is better "
                f"by {-regret:.3g}. Use task.labels(X, costs), and check that the solver is exact."
            )
        return max(regret, 0.0)

    def same(self, y_a: Any, y_b: Any) -> bool:
        return bool(np.array_equal(_decision(y_a), _decision(y_b)))

    def inference(self, x: Any, w: Array) -> Array:
        """The decision with the smallest predicted costs (or largest values)."""
        _check_features(x)
        return self._minimize(self._sign * self.predicted_costs(x, w), x).y

    def loss_augmented_inference(self, x: Any, y: Any, w: Array) -> Any:
        """The decision with the largest loss minus twice its costs, with a bound if it may not be optimal."""
        own, predicted = _decision(y), 2.0 * self._sign * self.predicted_costs(x, w)
        if isinstance(self.feasible, np.ndarray) and not isinstance(y, TrueCosts):
            # of any points, the distance is not linear
            losses = np.abs(self.feasible - own).sum(axis=1)
            return np.array(self.feasible[np.argmax(losses - self.feasible @ predicted)])
        slope = self._slope(x, y)
        costs = predicted - slope
        found = self._minimize(costs, x)
        if callable(self.feasible):
            _require_smallest(costs, found, own[None])
            if not isinstance(y, TrueCosts) and not ((found.y >= 0.0) & (found.y <= 1.0)).all():
                raise ValueError("a label without costs requires decisions between 0 and 1.")
        if found.exact:
            return found.y
        best = own if costs @ own < costs @ found.y else found.y
        return Bounded(best, -float(slope @ own) - min(found.bound, float(costs @ best)))

    # -- kernels -----------------------------------------------------------------------------------

    def kernel_inputs(self, x: Any) -> Any:
        """The features: one row, or one for each variable."""
        features = _features(x)
        return features[None] if features.ndim == 1 else features

    def with_kernel_inputs(self, x: Any, rows: Any) -> Any:
        """The input with other features."""
        features = rows[0] if _features(x).ndim == 1 else rows
        return {**x, "features": features} if isinstance(x, Mapping) else features

    # -- helpers -----------------------------------------------------------------------------------

    def _psi(self, x: Any, y: Array) -> Vector:
        features, factor = _features(x), -2.0 * self._sign
        if features.ndim == 2:
            return sparsify(factor * np.asarray(features.T @ y, dtype=np.float64))
        width, rows = len(features), np.flatnonzero(y)
        indices = (rows[:, None] * width + np.arange(width)).ravel()
        return SparseVector(indices, factor * np.outer(y[rows], features).ravel(), len(y) * width)

    def _slope(self, x: Any, y: Any) -> Array:
        """The slope of the loss, which is linear: loss(y, y_hat) = <slope, y_hat - y>."""
        if isinstance(y, TrueCosts):
            return np.asarray(self._sign * np.asarray(y.costs, dtype=np.float64))
        z = _decision(y)
        low = 0.0 if callable(self.feasible) else self._rows(x, len(z)).low
        return np.where(z <= low, 1.0, -1.0)

    def _rows(self, x: Any, n: int) -> Program:
        """The program of an input with n variables."""
        if self.feasible is None and not isinstance(x, Mapping):
            raise ValueError("without 'feasible', each input must be a dict with 'constraints'")
        if self.feasible is None or self._program is None:
            given: Any = x if self.feasible is None else self.feasible
            return _read(given, n)
        return self._program

    def _minimize(self, costs: Array, x: Any) -> _Answer:
        """Solve for these costs."""
        feasible = self.feasible
        if isinstance(feasible, np.ndarray):
            if feasible.shape[1] != len(costs):
                raise ValueError(
                    f"the feasible points have {feasible.shape[1]} variables, but there are {len(costs)} "
                    "costs."
                )
            values = feasible @ costs
            best = int(np.argmin(values))
            return _Answer(feasible[best].copy(), float(values[best]), exact=True)
        if callable(feasible):
            answer = feasible(costs, x) if isinstance(x, Mapping) else feasible(costs)
            found = read_answer(answer, costs)
        else:
            found = solve_program(self._rows(x, len(costs)), costs, None, 0.0)
        if found.y is None:
            raise RuntimeError("HiGHS found no feasible decision.")
        return _Answer(found.y, found.bound, found.exact)


def _points(feasible: Any) -> Array:
    points = np.array(feasible, dtype=np.float64)
    if points.ndim != 2 or not points.size or not np.isfinite(points).all():
        raise ValueError(
            "feasible must be a function, a dict with 'constraints', or a finite matrix with one feasible "
            f"decision per row, got shape {points.shape}."
        )
    return points


def _read(fields: Mapping[str, Any], n: int) -> Program:
    return read_program({**fields, "features": np.zeros((n, 0))})


def _decision(y: Any) -> Array:
    return np.asarray(y.decision if isinstance(y, TrueCosts) else y, dtype=np.float64)


def _features(x: Any) -> Any:
    features = x["features"] if isinstance(x, Mapping) else x
    return features if sp.issparse(features) else np.asarray(features, dtype=np.float64)


def _check_features(x: Any, n: int | None = None) -> int:
    """Validate the features of an input for n variables, and return the number of weights."""
    if isinstance(x, Mapping) and "features" not in x:
        raise ValueError("'features' is missing")
    features = _features(x)
    if features.ndim not in (1, 2) or not features.shape[-1]:
        raise ValueError(f"the features must be a vector or a matrix, got shape {features.shape}")
    if features.ndim == 1:
        check_dense(features[None], "the features")
        return len(features) * (n or 1)
    checked(features, "the features", numbered("variable"))
    if n is not None and features.shape[0] != n:
        raise ValueError(f"there are features of {features.shape[0]} variables, but {n} variables")
    return int(features.shape[1])


def _require_smallest(costs: Array, found: _Answer, others: Array) -> None:
    """Raise an error if one of the other decisions has smaller costs than the solver's bound."""
    best = float((others @ costs).min())
    if best < found.bound - EQUAL * float((np.abs(others) @ np.abs(costs)).max()):
        raise ValueError(
            f"the solver returned a decision with costs {found.bound:.6g}, but a feasible one has costs "
            f"{best:.6g}. {NEGATIVE}."
        )
