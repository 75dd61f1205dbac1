"""Learn the costs of an integer program.

An example is an integer program: variables y with bounds, integrality and linear constraints, and a matrix of
``features`` with one row per variable and one column per weight. The weights determine its costs,

    costs = features @ w,     prediction = argmin <costs, y> over all feasible y,

so Psi(x, y) = - features' y (the library maximizes scores), and w are weights *of costs*. The loss is the
weighted distance to the labeled solution, Delta(y*, y) = sum_j l_j |y_j - y*_j|, the Hamming loss for 0/1
variables. It is linear in y if y*_j is at a bound, as it always is for 0/1 variables, so the loss-augmented
problem

    max Delta(y*, y) - <costs, y>  =  const - min <costs - slope, y>,
    slope_j = +l_j at the lower bound, -l_j at the upper bound

is the same program with other costs. Unlabeled variables have l_j = 0 and keep their given values in
Psi(x, y*). This keeps the problem convex; to complete them by inference would make them latent variables.

A solve is expensive, and most of its result is often known. During training, the task first looks for an
answer among recombinations of known solutions (:mod:`maxmargin.tasks.recombination`). It calls HiGHS only if
none of them is better than all answers so far.

If a search stops early (``time_limit``, ``mip_rel_gap``), the answer is the best solution found and its
bound, so the bounds of the fit remain valid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from maxmargin.core.checks import number, one_of
from maxmargin.core.vectors import Array, Vector, sparsify
from maxmargin.tasks.base import Bounded, Task
from maxmargin.tasks.programs import (
    Outcome,
    Program,
    check_solution,
    read_answer,
    read_program,
    solve_program,
)
from maxmargin.tasks.recombination import recombine
from maxmargin.tasks.slack_search import common_divisor

#: solutions and answers stored per example; number of examples stored that ``setup`` did not see
SOLVED, ANSWERED, UNSEEN = 50, 200, 1024
#: a recombination must be better by this share of the sum of costs to be returned
AHEAD = 1e-9


class WeightedSolution(NamedTuple):
    """A labeled solution with a weight for each variable.

    Parameters
    ----------
    values : array of shape (n_variables,)
        A feasible solution.
    weights : array of shape (n_variables,)
        The cost of an error in each variable; 0 (or False) for unlabeled variables.
    """

    values: Any
    weights: Any


@dataclass(slots=True, eq=False)
class _KnownSolutions:
    """A program and its known solutions. It keeps a reference to ``x``, whose id is the key."""

    x: Any
    program: Program
    #: solutions found by solves, and all answers
    solved: list[Array] = field(default_factory=list)
    answered: list[Array] = field(default_factory=list)
    #: the last costs, and the outcome of their solve
    last: tuple[Array, Outcome] | None = None
    columns: sp.csc_array | None = None

    def remember(self, costs: Array, found: Outcome) -> None:
        """Store the outcome of a solve."""
        self.last = costs, found
        if found.y is not None and not _holds(self.solved, found.y):
            self.solved = [*self.solved[1 - SOLVED :], found.y]

    def answer(self, y: Array) -> None:
        """Store an answer."""
        if not _holds(self.answered, y):
            self.answered = [*self.answered[1 - ANSWERED :], y]


def _holds(solutions: list[Array], y: Array) -> bool:
    return any(np.array_equal(y, other) for other in solutions)


class _Memory(dict[int, _KnownSolutions]):
    """What is known about each input, by its id. This is a cache, so pickled copies are empty."""

    def __reduce__(self) -> Any:
        return _Memory, ()


class IntegerProgram(Task):
    """Learn the costs of an integer linear program from labeled solutions.

    An input is a dict, named tuple or object with

    - ``features``: dense or sparse matrix of shape (n_variables, n_weights);
    - ``constraints`` (optional): a SciPy ``LinearConstraint``, a triple (A, lower, upper), or a list of
      these;
    - ``bounds`` (optional): a SciPy ``Bounds`` or a pair (lower, upper); the default is [0, 1];
    - ``integrality`` (optional): 1 for integer, 0 for continuous variables; the default is all integer.

    An output is an array with one value per variable. For training, it can also be a
    :class:`WeightedSolution`, with the cost of an error in each variable, 0 for unlabeled ones.

    Parameters
    ----------
    sense : {"minimize", "maximize"}, default "minimize"
        Whether ``features @ w`` are costs or gains.
    solver : callable, optional
        ``solver(costs, x)`` returns a feasible y with the *smallest* ``costs @ y``. If the search stops
        early, it returns ``Bounded(y, upper)`` with ``upper >= -costs @ y`` for all feasible y, that is,
        minus its lower bound of the cost. The default is HiGHS. With your own solver, inputs need no
        ``constraints``; if they have them, answers are checked against them.
    time_limit : float, optional
        Seconds for one solve. If a solve ends without a solution, the answer is the label and the bound.
    mip_rel_gap : float, default 0.0
        Relative gap at which HiGHS may stop. (Its own default of 1e-4 is not exact.)
    recombine : bool, default True
        Whether to look for answers among recombinations of known solutions before a solve. Training then
        needs far fewer solves. (It has no effect with your own solver and inputs without ``constraints``.)
        Worker processes use only the solutions they found themselves, so iterates can depend on the number of
        workers; the certificate is valid in any case.
    feature_names : sequence of str, optional
        Names of the weights, for ``StructuredSVM(fixed=..., nonnegative=...)``.

    Attributes
    ----------
    dim : int
        Number of weights, after ``setup``.

    Examples
    --------
    Choose one of two jobs; their costs are learned:

    >>> import numpy as np
    >>> from maxmargin import StructuredSVM
    >>> from maxmargin.tasks import IntegerProgram
    >>> jobs = {"features": [[1.0, 0.0], [0.0, 1.0]], "constraints": ([[1, 1]], 0, 1)}
    >>> svm = StructuredSVM(IntegerProgram(feature_names=["a", "b"])).fit([jobs], [np.array([0, 1])])
    >>> svm.predict([jobs])
    [array([0, 1])]
    >>> svm.coef_.round(2).tolist()      # job b has negative cost
    [1.0, -1.0]
    """

    def __init__(
        self,
        *,
        sense: Literal["minimize", "maximize"] = "minimize",
        solver: Callable[[Array, Any], Any] | None = None,
        time_limit: float | None = None,
        mip_rel_gap: float = 0.0,
        recombine: bool = True,
        feature_names: Sequence[str] | None = None,
    ) -> None:
        if time_limit is not None:
            number("time_limit", time_limit, positive=True)
        self.sense = one_of("sense", sense, ("minimize", "maximize"))
        self.solver = solver
        self.time_limit = time_limit
        self.mip_rel_gap = number("mip_rel_gap", mip_rel_gap)
        self.recombine = recombine
        self.feature_names = None if feature_names is None else list(feature_names)
        self._known = _Memory()

    def setup(self, X: Sequence[Any], Y: Sequence[Any]) -> int:
        """Validate all programs and labels, and return the number of weights."""
        self._known = _Memory()
        widths = set()
        for i, (x, y) in enumerate(zip(X, Y, strict=True)):
            try:
                program = read_program(x)
                values, weights = self._label(y)
                check_solution(program, values, weights)
            except ValueError as error:
                raise ValueError(f"example {i}: {str(error).rstrip('.')}.") from error
            self._known[id(x)] = _KnownSolutions(x, program)
            widths.add(program.features.shape[1])
        if len(widths) != 1:
            raise ValueError(
                f"all examples must have the same number of features, got {sorted(widths)}."
            )
        self.dim = int(widths.pop())
        if self.feature_names is not None and len(self.feature_names) != self.dim:
            raise ValueError(
                f"there are {len(self.feature_names)} feature_names for {self.dim} features."
            )
        self._room = max(UNSEEN, len(self._known))
        return self.dim

    @staticmethod
    def _label(y: Any) -> tuple[Array, Array]:
        values, weights = y if isinstance(y, WeightedSolution) else (y, None)
        values = np.asarray(values, dtype=np.float64)
        if values.ndim != 1:
            raise ValueError(
                f"a solution must be a one-dimensional array, got shape {values.shape}"
            )
        weights = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
        return values, weights

    # -- the five methods of a task ----------------------------------------------------------------

    def joint_feature(self, x: Any, y: Any) -> Vector:
        """``- features' y`` (``+`` for gains)."""
        return self._psi(self._recall(x).program, self._label(y)[0])

    def difference(self, x: Any, y_a: Any, y_b: Any) -> Vector:
        """Psi(x, y_a) - Psi(x, y_b) by one product."""
        return self._psi(self._recall(x).program, self._label(y_a)[0] - self._label(y_b)[0])

    def loss(self, y: Any, y_hat: Any) -> float:
        """The weighted distance between two solutions."""
        values, weights = self._label(y)
        return float(weights @ np.abs(values - self._label(y_hat)[0]))

    def loss_step(self, x: Any, y: Any) -> float:
        """The largest common divisor of the weights, if they are of integers."""
        (values, weights), kinds = self._label(y), self._recall(x).program.integrality
        broken = (kinds == 0) | (
            values != np.round(values)
        )  # labels are integers up to a tolerance
        return 0.0 if (weights[broken] > 0.0).any() else common_divisor(weights.tolist())

    def inference(self, x: Any, w: Array) -> Array:
        """The solution with the smallest cost (or largest gain)."""
        known = self._fresh(x)  # the input may have changed since training
        found = self._solve(known, self._costs(known.program, w)).y
        if found is None:
            raise RuntimeError(
                f"HiGHS found no feasible solution within time_limit={self.time_limit} seconds. Increase "
                "time_limit."
            )
        return self._output(known.program, found)

    def loss_augmented_inference(self, x: Any, y: Any, w: Array) -> Any:
        """The solution with the largest loss minus cost, with a bound if it may not be optimal."""
        known = self._recall(x, keep=True)
        program = known.program
        costs, constant, label = self._augmented(program, y, w)
        found = self._remembered(known, costs)
        if found.exact and found.y is not None:
            known.answer(found.y)
            return self._output(program, found.y)
        best = label if found.y is None else found.y
        # a known solution can be better than the result of a search that stopped early
        rounding = AHEAD * float(np.abs(costs).sum())
        for other in (label, *known.answered):
            if costs @ other < costs @ best - rounding:
                best = other
        known.answer(best)
        upper = constant - min(found.bound, float(costs @ best))
        return Bounded(self._output(program, best), upper)

    def quick_augmented_inference(self, x: Any, y: Any, w: Array) -> Array | None:
        """A recombination of known solutions that is better than all answers so far, or None."""
        known = self._recall(x, keep=True)
        program = known.program
        if not (self.recombine and known.solved) or (self.solver and program.matrix is None):
            return None
        costs, _, label = self._augmented(program, y, w)
        if known.columns is None and program.matrix is not None:
            known.columns = sp.csc_array(program.matrix)
        best = min((label, *known.answered), key=lambda z: float(costs @ z))
        found = recombine(known.columns, costs, best, (label, *known.solved))
        if float(costs @ (best - found)) <= AHEAD * float(np.abs(costs).sum()):
            return None
        known.answer(found)
        return self._output(program, found)

    # -- helpers -----------------------------------------------------------------------------------

    @staticmethod
    def _fresh(x: Any) -> _KnownSolutions:
        try:
            return _KnownSolutions(x, read_program(x))
        except ValueError as error:
            raise ValueError(
                f"the input is not an integer program: {str(error).rstrip('.')}."
            ) from error

    def _recall(self, x: Any, keep: bool = False) -> _KnownSolutions:
        known = self._known.get(id(x))
        if known is not None and known.x is x:
            return known
        known = self._fresh(x)
        if keep:
            if len(self._known) >= getattr(self, "_room", UNSEEN):
                del self._known[next(iter(self._known))]
            self._known[id(x)] = known
        return known

    def _augmented(self, program: Program, y: Any, w: Array) -> tuple[Array, float, Array]:
        """(costs, constant, label) with loss + score = constant - <costs, y>."""
        label, weights = self._label(y)
        slope = np.where(label <= program.low, weights, -weights)
        return self._costs(program, w) - slope, -float(slope @ label), label

    def _remembered(self, known: _KnownSolutions, costs: Array) -> Outcome:
        """Solve, unless the costs are the same as the last time."""
        last = known.last  # read once: another thread may replace it
        if last is not None and np.array_equal(last[0], costs):
            return last[1]
        found = self._solve(known, costs)
        known.remember(costs, found)
        return found

    def _psi(self, program: Program, y: Array) -> Vector:
        psi = np.asarray(program.features.T @ y, dtype=np.float64)
        return sparsify(-psi if self.sense == "minimize" else psi)

    def _costs(self, program: Program, w: Array) -> Array:
        if program.features.shape[1] != len(w):
            raise ValueError(
                f"the input has {program.features.shape[1]} features, but the model has {len(w)} weights."
            )
        costs = np.asarray(program.features @ w, dtype=np.float64)
        return costs if self.sense == "minimize" else -costs

    def _solve(self, known: _KnownSolutions, costs: Array) -> Outcome:
        if self.solver is None:
            return solve_program(known.program, costs, self.time_limit, self.mip_rel_gap)
        found = read_answer(self.solver(costs, known.x), costs)
        broken = None if found.y is None else known.program.violation(found.y)
        if broken is not None:
            raise ValueError(f"the answer of the solver is not feasible: {broken}.")
        return found

    @staticmethod
    def _output(program: Program, y: Array) -> Array:
        if (program.integrality == 1).all():
            whole: Any = np.round(y).astype(np.int64)
            return whole
        return y
