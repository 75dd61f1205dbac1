"""A piecewise linear loss of a kernel machine, such as R(f, b) = sum_i s_i max(0, 1 - y_i (f(x_i) + b)).

A point is w = (beta, b): the function f = sum_j beta_j k(x_j, .) with half its squared norm
1/2 beta' K beta (:class:`KernelNorm`), and optionally an unpenalized intercept. Samples with
zero weight are removed.

Scores are computed in double precision, by tiles. So evaluations and dual values hold for the kernel itself,
not for values rounded to single precision, which are only used to optimize the dual
(:mod:`maxmargin.duals.kernels.blocks`). Bounds on the rounding errors of double precision are subtracted
(:mod:`maxmargin.kernels.rounding`). The scores of the last points are cached, so that a point and its dual
take one pass together.

Rows are split into ranges, depending on their number only, which the engine holds.

References:

- C.-N. J. Yu and T. Joachims, "Training structural SVMs with kernels using sampled cuts", KDD 2008:
  algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.core.contract.evaluation import Evaluation, OracleKind
from maxmargin.core.contract.risk import Capabilities
from maxmargin.core.engine import Engine, SerialEngine
from maxmargin.core.matrices import checked
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array, IntArray, frozen
from maxmargin.duals.kernels.blocks import KernelDuals
from maxmargin.duals.kernels.rows import RowRange
from maxmargin.duals.kernels.terms import KernelTerms
from maxmargin.kernels import Kernel, KernelRows, center_of
from maxmargin.kernels.extent import n_test_values, precision
from maxmargin.kernels.rounding import summed
from maxmargin.losses import Hinge, ScoreLoss
from maxmargin.risks.lines.evaluation import check_weights

#: number of rows of a range: a few tiles
RANGE = 2048


@dataclass(frozen=True, slots=True, eq=False)
class KernelNorm(SquaredNorm):
    """1/2 beta' K beta, for points of one kernel risk."""

    risk: Any = field(default=None, repr=False)

    def value(self, w: Array) -> float:
        """Half the squared norm of the function, plus a bound on its rounding error."""
        beta = w[: self.risk.n_examples]
        square = float(beta @ self.risk.values(beta))
        return summed(0.5 * square + float(self.risk.rounding.of_norm(beta)), 2)


class ExactKernelEvaluation:
    """The risk evaluated at a point."""

    def __init__(self, w: Array, value: float, upper: float) -> None:
        self.w, self.value, self.upper = w, value, upper

    def cut(self) -> Any:
        """Not available: a plane would be a function of the kernel."""
        raise NotImplementedError(
            "KernelRisk has no cuts: solve it with solvers.KernelBlocks(), or use a kernel feature map."
        )


class KernelRisk:
    """A loss of functions of a kernel.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : array or CSR matrix
        The samples.
    y : array
        Labels, +1 or -1, or what the loss expects.
    loss : ScoreLoss, optional
        A piecewise linear loss of one score per sample: :class:`maxmargin.losses.Hinge` (the default),
        ``EpsilonInsensitive``, ``Quantile`` or ``OneClass``.
    sample_weight : array, optional
        Weight of each sample.
    fit_intercept : bool, default True
        Whether to fit an unpenalized intercept.
    memory : int, default 2**31
        Maximum number of bytes for blocks of kernel values.
    engine : Engine, optional
        The engine that multiplies ranges of rows; the calling thread by default.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import minimize
    >>> from maxmargin.kernels import RBF
    >>> from maxmargin.risks import KernelRisk
    >>> from maxmargin.solvers import KernelBlocks
    >>> X = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    >>> risk = KernelRisk(RBF(1.0), X, np.array([1.0, 1.0, -1.0, -1.0]))
    >>> result = minimize(risk, C=10.0, solver=KernelBlocks(), regularizer=risk.norm)
    >>> result.converged, round(result.objective, 3)
    (True, 5.005)
    """

    oracle: OracleKind = "exact"
    lower_bound = 0.0
    n_blocks = 1

    def __init__(
        self,
        kernel: Kernel,
        X: Any,
        y: Array,
        loss: ScoreLoss | None = None,
        *,
        sample_weight: Array | None = None,
        fit_intercept: bool = True,
        memory: int = 2**31,
        engine: Engine | None = None,
    ) -> None:
        X, y, weight = checked(X), np.asarray(y), check_weights(sample_weight, len(y))
        signs = loss is not None or ((y == 1.0) | (y == -1.0)).all()
        if X.shape[0] != len(y) or not signs:
            raise ValueError(f"X has {X.shape[0]} rows: y must hold as many labels, each -1 or +1.")
        #: indices of the samples with positive weight
        self.here: IntArray = np.flatnonzero(weight > 0.0)
        if len(self.here) < len(y):
            X = X[self.here]
        self.X, self.kernel, self.memory, self.fit_intercept = X, kernel, memory, fit_intercept
        y, loss = np.ascontiguousarray(y[self.here], dtype=np.float64), loss or Hinge()
        loss.check_labels(y)
        self.weight = weight[self.here]
        self.terms = KernelTerms.of(loss.dual_terms(y), self.weight)
        self.n_examples = len(y)
        self.dim = self.n_examples + int(fit_intercept)
        free = np.arange(self.n_examples, self.dim)
        self.norm = KernelNorm(free=free, risk=self)
        self.center = center_of(X) if kernel.shift_invariant else None
        #: single precision if it can represent the kernel's values
        self.dtype = precision(kernel, X)
        self._all = KernelRows(kernel, X, np.float64, self.center)
        self.rounding = self._all.rounding()
        #: number of kernel values computed so far
        self.kernel_values = n_test_values(kernel, self.n_examples)
        self.engine: Engine = engine or SerialEngine()
        if not self.engine.durable:
            raise ValueError(
                f"{type(self.engine).__name__} works in other processes, but kernel problems must be solved "
                "in this process: use engine='threads'."
            )
        n, d = self.n_examples, X.shape[1]
        self.bounds = [(lo, min(n, lo + RANGE)) for lo in range(0, n, RANGE)]
        # convert sparse rows to dense once if they fit in the memory allowed for blocks
        self._keep = not sp.issparse(X) or 4 * n * (d + 2) <= memory
        self._seen: list[tuple[Array, Array]] = []
        self.engine.open(self._range, self.bounds)

    def _range(self, bounds: tuple[int, int]) -> RowRange:
        return RowRange(self.rows(slice(*bounds)), bounds[0], self._keep)

    def rows(self, which: Any, dtype: Any = None) -> KernelRows:
        """A subset of the rows, packed."""
        return self._all.take(which).in_precision(dtype or self.dtype)

    def products(self, basis: KernelRows, coef: Array) -> Array:
        """sum_j coef_j k(x_i, z_j) for all rows, in the precision of the basis."""
        self.kernel_values += self.n_examples * len(basis)
        return np.concatenate(self.engine.gather(RowRange.values, basis, coef))

    def values(self, beta: Array) -> Array:
        """f of all rows, in double precision."""
        for seen, found in self._seen:
            if seen is beta or np.array_equal(seen, beta):
                return found
        support = np.flatnonzero(beta)
        found = self.products(self.rows(support, np.float64), beta[support])
        found.setflags(write=False)
        self._seen = [*self._seen[-1:], (np.array(beta), found)]
        return found

    def evaluate(self, w: Array, *, exact: bool = True) -> Evaluation:
        """Evaluate at a point; ``exact`` has no effect here."""
        f = self.values(w[: self.n_examples])
        if self.fit_intercept:
            f = f + w[-1]
        r, b = self.terms.target - f, w[self.n_examples :]
        slack = self.terms.short(r)
        value = float(self.terms.slope(r) @ np.maximum(0.0, slack))
        error = self.rounding.of_scores(w[: self.n_examples], b)
        if self.terms.two_sided:
            error += self.terms.rounding(b)
        steep = self.terms.slope(r, error)
        upper = summed(float(steep @ np.maximum(0.0, slack + error)), self.n_examples)
        if not w[: self.n_examples].any():
            upper = self.terms.of_constant(float(b.sum()))
        evaluation: Evaluation = ExactKernelEvaluation(w, value, upper)
        return evaluation

    def point(self, beta: Array, C: float) -> Array:
        """The function ``beta`` with its best intercept."""
        if not self.fit_intercept:
            return frozen(beta)
        b = self.terms.best_intercept(self.terms.target - self.values(beta))
        return frozen(np.append(beta, b))

    @property
    def offers(self) -> Capabilities:
        """See :class:`maxmargin.core.Risk`."""
        return Capabilities(blocks=self)

    def block_duals(self, C: float) -> KernelDuals:
        """See :class:`maxmargin.core.contract.block_duals.BlockRisk`."""
        return KernelDuals(self, C)
