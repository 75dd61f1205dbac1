"""LatentStructuredSVM: a structured model with latent variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxmargin.core.vectors import Array
from maxmargin.estimators.base import (
    CertifiedEstimator,
    _scikit_callbacks,
    _seed,
)
from maxmargin.estimators.constraints import (
    RELATIVE,
    Callbacks,
    Fixed,
    Method,
    Numbers,
    Seed,
    Which,
    Workers,
    of_class,
)
from maxmargin.estimators.example_checks import check_example_weights, check_pairs
from maxmargin.estimators.outcome import certified_fit
from maxmargin.estimators.parameters import require_object
from maxmargin.estimators.prior import GaussianPrior
from maxmargin.estimators.structured.problem import StructuredProblem
from maxmargin.estimators.threads import one_blas_thread
from maxmargin.estimators.watching import joint_observer, watchers
from maxmargin.risks.structured.latent import CompletedRisk
from maxmargin.solvers import AutoStructured, CuttingPlane
from maxmargin.solvers.cccp import solve_latent
from maxmargin.solvers.latent_result import LatentResult
from maxmargin.tasks.latent import LatentTask


@dataclass(eq=False, repr=False)
class LatentStructuredSVM(CertifiedEstimator):
    """Large-margin training of a task with latent variables, by a sequence of convex problems.

    Minimizes ``1/2 |w|^2 + C sum_i s_i [max_{y,h} (Delta(y_i, y, h) + <w, Psi(x_i, y, h)>) - max_h <w,
    Psi(x_i, y_i, h)>]``. This is not convex, and the fit finds a local optimum. Every convex step has its own
    certificate, and the objective never increases from one step to the next. The fit ends when no step can
    lower the objective by more than ``tol``.

    Parameters
    ----------
    task : LatentTask
        The task: what is predicted, and how; see :class:`maxmargin.tasks.LatentTask`. ``fit`` works on a
        copy.
    C : float, default 1.0
        Weight of the loss relative to the regularization. The larger, the more closely the model fits the
        training data. It multiplies a sum over examples.
    fixed : dict, optional
        Weights that are not learned, as ``{index or name of a feature: value}``. Their part of the norm, a
        constant, is not included in ``objective_``. Names require that the task has an attribute
        ``feature_names``.
    nonnegative : list, optional
        Features (indices or names, or a boolean mask) whose weights must not be negative.
    nonpositive : list, optional
        Features (indices or names, or a boolean mask) whose weights must not be positive.
    prior : GaussianPrior, optional
        Center and spread of the weights, in place of the term ``1/2 |w|^2``; see the user guide, "Priors".
    tol : float, default 0.01
        The fit stops when no convex step can lower the objective by more than this fraction of it.
    solver : "auto" or solver object, default "auto"
        The optimization method; see :mod:`maxmargin.solvers`. It solves the convex steps. "auto" is the same
        as for :class:`StructuredSVM`.
    oracle : {"cheap", "expensive"}, default "cheap"
        Cost of one call of the task's inference. "expensive" saves calls at the price of more computation
        between them. Use it when a call takes much longer than a millisecond; see the user guide, "Expensive
        oracles".
    max_iter : int, optional
        Maximum number of convex steps. When it is reached, the best point found is returned.
    max_seconds : float, optional
        Time limit of the fit in seconds. When it is reached, the best point found is returned.
    n_jobs : int, optional
        Number of workers. None means 1 (on a Ray cluster, 1 per machine), and -1 means all cores. Results are
        bit-identical for any number from two on. With one worker, ``solver="auto"`` may choose another
        method.
    engine : {"threads", "processes", "ray", "ray://host:port"} or engine object, default "threads"
        What the workers are; see :mod:`maxmargin.engines`. A solver gives bit-identical results on all
        engines. The fit does not close an engine object. Threads speed up tasks that release the GIL.
        Processes speed up every task that can be pickled.
    warm_start : bool, default False
        Whether to start from the solution of the previous fit. Its weights are the first solution, so the
        objective cannot become worse.
    random_state : int, Generator, RandomState or None, default 0
        Seed of the random number generator. Fits with the same seed are bit-identical. From a generator of
        NumPy, every fit draws another seed.
    callbacks : list of callables, optional
        Called with the record of every iteration. The fit stops if one of them returns True. See the user
        guide, "Watching a fit". These are the iterations of all convex steps.
    verbose : int, default 0
        If 1, show the progress of the fit on standard error: on one line in a terminal, else every ten
        seconds.

    Attributes
    ----------
    coef_ : array
        The weights w, including fixed ones.
    task_ : Task
        The task, prepared for the training data.
    latent_ : list
        The latent variables of every training example at ``coef_``.
    objective_ : float
        The latent objective at ``coef_``.
    lower_bound_, gap_, converged_
        Minus infinity, infinity and False: nothing is known about the global optimum.
    certificate_ : str
        "local".
    stop_reason_ : str
        "cccp" if no convex step can lower the objective by more than ``tol``; otherwise what ended the fit
        early.
    convex_objective_, convex_lower_bound_, convex_gap_ : float
        The last convex problem: its objective at ``coef_``, a lower bound of its optimum, and their relative
        gap.
    n_iter_ : int
        Number of convex steps.
    history_ : list of dict
        Record of every convex step; ``objective`` never increases.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import LatentStructuredSVM
    >>> from maxmargin.tasks import LatentBinary
    >>> class BestRow(LatentBinary):
    ...     def n_features(self, X):
    ...         return X[0].shape[1]
    ...     def features(self, x, h):
    ...         return x[h]
    ...     def best(self, x, w):
    ...         return int(np.argmax(x @ w))
    >>> X = [np.array([[3.0, 1.0], [0.0, 1.0]]), np.array([[-1.0, 0.5], [-0.5, -1.0]])]
    >>> svm = LatentStructuredSVM(BestRow()).fit(X, ["cat", "a"])
    >>> svm.predict(X), svm.latent_, svm.stop_reason_
    (['cat', 'a'], [0, None], 'cccp')
    """

    #: with slack rescaling, planes could not be updated with the latent variables
    rescaling = "margin"

    # the gain of a convex step is no gap, for which there are rules
    _constraints = of_class(tol=RELATIVE)

    task: LatentTask
    C: float = 1.0
    _: KW_ONLY
    fixed: Fixed = None
    nonnegative: Which = None
    nonpositive: Which = None
    prior: GaussianPrior | None = None
    tol: float = 1e-2
    solver: Method = "auto"
    oracle: Literal["cheap", "expensive"] = "cheap"
    max_iter: int | None = None
    max_seconds: float | None = None
    n_jobs: int | None = None
    engine: Workers = "threads"
    warm_start: bool = False
    random_state: Seed = 0
    callbacks: Callbacks = None
    verbose: int = 0

    def __post_init__(self) -> None:
        require_object("task", self.task)
        if not isinstance(self.task, LatentTask):
            raise TypeError(
                f"task={self.task!r} is not a LatentTask, which has complete(x, y, w) and "
                "joint_feature(x, y, h). Without latent variables use StructuredSVM."
            )

    @certified_fit
    def fit(
        self,
        X: Sequence[object],
        y: Sequence[object],
        sample_weight: Numbers = None,
        *,
        latent: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X, y : sequences of equal length
            Inputs and true outputs, of the kind that the task expects.
        sample_weight : array of shape (n_samples,), optional
            Per-sample multipliers of C.
        latent : sequence, optional
            Initial values of the latent variables, in place of those that the task chooses.

        Returns
        -------
        self
            The estimator itself.
        """
        check_pairs(X, y)
        weight = check_example_weights(sample_weight, len(y))
        with StructuredProblem(self, X, y) as problem:
            if latent is None:
                latent = _first(problem)
            elif len(latent) != len(y):
                raise ValueError(f"latent has {len(latent)} values for {len(y)} examples.")
            risk = problem.completed_risk(weight, latent)
            previous = self._previous_weights("coef_", (problem.dim,))
            w0 = None if previous is None else problem.weights.learned(previous)
            self.task_ = problem.task
            self._keep_latent(problem, self._run(problem, risk, w0))
        return self

    def _run(
        self, problem: StructuredProblem, risk: CompletedRisk, w0: Array | None
    ) -> LatentResult:
        callbacks, predicting = watchers(self, 0, None, self.max_seconds)

        def fitted(w: Array) -> dict[str, Any]:
            return {"coef_": problem.weights.whole(w), "task_": problem.task}

        with (
            _scikit_callbacks(self, fitted, {"X": problem.X, "y": problem.y}) as scikit,
            one_blas_thread,
        ):
            return solve_latent(
                risk,
                self.C,
                solver=self._solver(problem, risk),
                regularizer=problem.weights.norm,
                tol=float(self.tol),
                max_iter=self.max_iter,
                max_seconds=self.max_seconds,
                callbacks=callbacks,
                observer=joint_observer(self, predicting, fitted, scikit),
                random_state=_seed(self.random_state),
                w0=w0,
            )

    def _solver(self, problem: StructuredProblem, risk: CompletedRisk) -> Any:
        if self.solver != "auto":
            return self.solver
        if len(problem.weights.norm.nonnegative) and not risk.signed_sets:
            return CuttingPlane()
        return AutoStructured(self.oracle)

    def _keep_latent(self, problem: StructuredProblem, result: LatentResult) -> None:
        self.coef_ = problem.weights.whole(result.w)
        self.latent_ = result.latent
        self.objective_ = result.objective
        self.lower_bound_, self.gap_, self.converged_ = -np.inf, np.inf, False
        self.stop_reason_, self.certificate_ = result.stop_reason, "local"
        self.convex_objective_ = result.convex_objective
        self.convex_lower_bound_ = result.convex_lower_bound
        self.convex_gap_ = result.convex_gap
        self.n_iter_ = result.n_iter
        self.history_ = [asdict(record) for record in result.history]

    def predict(self, X: Sequence[object]) -> list[Any]:
        """Predict the output with the largest score for each input, without its latent variables.

        Parameters
        ----------
        X : sequence
            Inputs.

        Returns
        -------
        list
            Outputs.
        """
        return [y for y, _ in self.predict_latent(X)]

    def predict_latent(self, X: Sequence[object]) -> list[tuple[Any, Any]]:
        """Predict the output with the largest score for each input, with its latent variables.

        Parameters
        ----------
        X : sequence
            Inputs.

        Returns
        -------
        list of pairs
            ``(y, h)`` for each input.
        """
        check_is_fitted(self, "coef_")
        outputs = []
        for i, x in enumerate(X):
            try:
                y, h = self.task_.inference(x, self.coef_)
            except Exception as error:
                error.add_note(f"raised by the task's inference for input {i}")
                raise
            outputs.append((y, h))
        return outputs

    def score(self, X: Sequence[object], y: Sequence[object]) -> float:
        """Return minus the mean loss of the predictions: the larger, the better.

        Parameters
        ----------
        X, y : sequences of equal length
            Inputs and true outputs, of the kind that the task expects.

        Returns
        -------
        float
            ``-mean(loss(y_i, *predict_latent(x_i)))``.
        """
        check_pairs(X, y)
        pairs = zip(y, self.predict_latent(X), strict=True)
        return 0.0 - float(np.mean([self.task_.loss(a, *b) for a, b in pairs]))


def _first(problem: StructuredProblem) -> list[Any]:
    """Initial latent variables: those that the task chooses, or the best ones at w = 0."""
    task, w = problem.task, problem.weights.whole(np.zeros(problem.dim))
    latent = []
    for i, (x, y) in enumerate(zip(problem.X, problem.y, strict=True)):
        try:
            h = task.initial(x, y)
            latent.append(task.complete(x, y, w) if h is None else h)
        except Exception as error:
            error.add_note(f"raised while the latent variables of example {i} were initialized")
            raise
    return latent
