"""StructuredSVM: a structured model whose argmax the user wrote."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.result import SolveResult, Start
from maxmargin.core.vectors import Array
from maxmargin.estimators.base import CertifiedEstimator
from maxmargin.estimators.checkpoint import FitCheckpoint
from maxmargin.estimators.example_checks import check_example_weights, check_pairs, require_task
from maxmargin.estimators.outcome import certified_fit
from maxmargin.estimators.parameters import check_parameters
from maxmargin.estimators.structured.kernel_inputs import PARAMETERS as KERNEL_PARAMETERS
from maxmargin.estimators.structured.kernel_inputs import (
    check_kernel,
    forget_kernel,
    is_sampled,
    mapped_inputs,
    require_kernel_inputs,
    stack_inputs,
)
from maxmargin.estimators.structured.kernel_sampled import fit_drawn, require_alone
from maxmargin.estimators.structured.problem import StructuredProblem, warn_if_never_wrong
from maxmargin.estimators.validation import loaded
from maxmargin.estimators.warm_start import fingerprint, keep, recall
from maxmargin.estimators.weights import PARAMETERS
from maxmargin.kernels.features import KernelFeatures
from maxmargin.risks.structured.risk import TaskRisk, require_rescaling
from maxmargin.solvers import AutoStructured, CuttingPlane, DualCoordinate
from maxmargin.tasks.base import Task


class StructuredSVM(CertifiedEstimator):
    """Large-margin training of any task, certified.

    Minimises ``1/2 |w|^2 + C sum_i s_i max_y^ [Delta(y_i, y^) + <w, Psi(x_i, y^) - Psi(x_i,
    y_i)>]`` (margin rescaling; with slack rescaling the bracket is ``Delta * (1 + <w, ...>)``).

    Parameters
    ----------
    task : Task
        What is predicted and how; see :class:`maxmargin.tasks.Task`. It is copied by ``fit``.
    C : float, default 1.0
        Weight of the loss; it multiplies a sum over examples.
    rescaling : {"margin", "slack"}, default "margin"
        How the loss enters. "slack" needs the task's ``slack_augmented_inference``.
    kernel : {"rbf", "poly", "sigmoid", "linear"} or callable, optional
        A kernel that takes the place of inner products of rows of the inputs, for tasks that define
        ``kernel_inputs`` and ``with_kernel_inputs``; see the user guide, "Kernels on structures".
    gamma, degree, coef0
        Parameters of the kernel, as in scikit-learn's SVC.
    kernel_method : {"auto", "map", "nystrom", "sampled"} or settings object, default "auto"
        "map" has all rows of the training inputs in its basis: certificate "exact", for some thousand rows.
        "nystrom" has some (:class:`maxmargin.kernels.Nystrom`): "restricted". "sampled" learns by sampled
        cuts (:class:`maxmargin.solvers.SampledCuts`): "measured". "auto" is "map" up to 5,000 rows, else
        "nystrom".
    fixed : dict, optional
        Weights that are not learned, ``{index: value}``; names instead of indices where the task has an
        attribute ``feature_names``. Their share of the norm, a constant, is not part of ``objective_``.
    nonnegative : list, optional
        Indices (or names) of weights that must not become negative.
    nonpositive : list, optional
        Indices (or names) of weights that must not become positive.
    prior : GaussianPrior, optional
        A centre and a spread of the weights instead of ``1/2 |w|^2``; see the user guide, "Priors".
    tol : float or stopping rule, default 5e-2
        Relative gap at which to stop; accuracy is usually flat well above it.
    solver : "auto" or solver object, default "auto"
        "auto" is :class:`maxmargin.solvers.DualCoordinate`, or :class:`maxmargin.solvers.CuttingPlane` if
        some weights must not be negative and the task has a compiled form.
    oracle : {"cheap", "expensive"}, default "cheap"
        "expensive" saves calls of the argmax and spends time on what it said before; use it when a call takes
        much more than a millisecond. See the user guide, "Expensive oracles".
    max_iter, max_seconds : optional
        Limits. The best point is returned with its bounds.
    n_jobs : int, optional
        Workers for passes over all examples, and for a few examples at a time where the oracle is expensive.
    engine : {"threads", "processes", "ray", "ray://host:port"} or engine object, default "threads"
        What the workers are. Threads help tasks that release the interpreter's lock; processes
        help every task that can be pickled (with cloudpickle installed, also one that is defined in a
        notebook); "ray" is a cluster. The result has the same bits on all of them.
        An engine object is not closed by the fit.
    warm_start : bool, default False
        Start from the previous fit: with cutting planes from its weights; with working sets (the default
        solver) from its sets, if examples and task are the same to the last bit. C and weights of
        examples may be others.
    random_state : int, default 0
        Seed of the order in which examples are visited.
    callbacks : list of callables, optional
        Each receives every iteration's record and may return True to stop.
    verbose : int, default 0
        1 shows one live line.
    checkpoint : path or Checkpoint, optional
        Where ``fit`` writes its state now and then, so that a fit that was killed can go on; see the user
        guide, "Checkpoints".

    Attributes
    ----------
    coef_ : array
        The weights w, fixed ones included; with a kernel, those of the features ``kernel_features_``.
    task_ : Task
        The task after ``setup``.
    kernel_features_, kernel_method_
        With a kernel: the map of rows, and how it was chosen.
    restricted_lower_bound_, restricted_gap_ : float
        Of the problem of fewer functions, where the certificate is "restricted".
    probabilistic_bound_, probabilistic_bound_is_vacuous_, kernel_values_
        With sampled cuts; see :class:`maxmargin.KernelSVC`.
    objective_, lower_bound_, gap_, converged_, stop_reason_, certificate_, n_iter_, history_
        The certificate; see the user guide, "What the certificate means".

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import StructuredSVM
    >>> from maxmargin.tasks import Chain
    >>> X = [np.eye(2), np.eye(2)[::-1]]
    >>> Y = [np.array([0, 1]), np.array([1, 0])]
    >>> svm = StructuredSVM(Chain(n_labels=2)).fit(X, Y)
    >>> [labels.tolist() for labels in svm.predict(X)]
    [[0, 1], [1, 0]]
    >>> svm.certificate_
    'exact'
    """

    kernel_features_: KernelFeatures | None

    def __init__(
        self,
        task: Task,
        C: float = 1.0,
        *,
        rescaling: str = "margin",
        kernel: Any = None,
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        kernel_method: Any = "auto",
        fixed: Any = None,
        nonnegative: Any = None,
        nonpositive: Any = None,
        prior: Any = None,
        tol: Any = 5e-2,
        solver: Any = "auto",
        oracle: Literal["cheap", "expensive"] = "cheap",
        max_iter: int | None = None,
        max_seconds: float | None = None,
        n_jobs: int | None = None,
        engine: Any = "threads",
        warm_start: bool = False,
        random_state: Any = 0,
        callbacks: Any = None,
        verbose: int = 0,
        checkpoint: Any = None,
    ) -> None:
        require_task(task)
        require_rescaling(task, rescaling)  # a missing capability is told before any work is done
        if kernel is not None:
            require_kernel_inputs(task)
        self.task = task
        self.C = C
        self.rescaling = rescaling
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_method = kernel_method
        self.fixed = fixed
        self.nonnegative = nonnegative
        self.nonpositive = nonpositive
        self.prior = prior
        self.tol = tol
        self.solver = solver
        self.oracle = oracle
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.n_jobs = n_jobs
        self.engine = engine
        self.warm_start = warm_start
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose
        self.checkpoint = checkpoint

    @certified_fit
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        sample_margin: Any = None,
        resume_from: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X, y : sequences of equal length
            Inputs and labelled outputs, of whatever kind the task wants. Or, as X alone, a data set
            (:func:`maxmargin.data.open`), which is loaded.
        sample_weight : array, optional
            Factors of C by example.
        sample_margin : array, optional
            Factors of the losses by example, positive: ``m_i Delta + <w, ...>``. The task is asked at
            ``w / m_i``, by its Python methods.
        resume_from : path, optional
            A checkpoint of a fit to the same data with the same parameters, from which to go on.

        Returns
        -------
        StructuredSVM
            The fitted estimator.
        """
        check_parameters(self)
        require_task(self.task)
        X, y, sample_weight = loaded(X, y, sample_weight)
        check_pairs(X, y)
        weight = check_example_weights(sample_weight, len(y))
        if is_sampled(self):
            check_kernel(self)
            require_alone(self, sample_margin, resume_from)
            rows, ends = stack_inputs(self.task, X)
            self.task_, self.coef_, self.kernel_features_ = fit_drawn(
                self, self.task, X, y, rows, ends, weight
            )
            return self
        previous: Array | None = None
        about, kept = None, None
        if self.warm_start:
            previous, about = getattr(self, "coef_", None), self._about(X, y, sample_margin)
            kept = recall(getattr(self, "_kept", None), about, self._solver_for_sets())
        last = None if kept is None else kept.more
        if self.kernel is not None:  # the weights shown are those of other features
            previous = None if kept is None else np.array(kept.sets.w)
        with StructuredProblem(self, X, y, sample_margin, last) as problem:
            start = None
            if previous is not None and previous.shape == (problem.dim,):
                start = Start(problem.learned(previous), None if kept is None else kept.sets)
            given = {"X": X, "y": y, "sample_weight": weight, "sample_margin": sample_margin}
            if problem.mapped is not None:
                given["kernel_rows"] = problem.mapped.features.rows
            keeping = FitCheckpoint(self, resume_from, problem.task, **given)
            result = self._solve(problem, weight, start, keeping)
        if result.objective == 0.0:
            warn_if_never_wrong(problem.task, problem.inputs, y, self.rescaling, problem.dim)
        if self.warm_start:
            self._kept = keep(about, result, problem)
        return self

    def _about(self, X: Any, y: Any, sample_margin: Any) -> str | None:
        """All that working sets depend on."""
        names = ["task", "rescaling", "oracle", *PARAMETERS, *KERNEL_PARAMETERS]
        if self.kernel is not None:
            names.append("random_state")  # which draws landmarks
        return fingerprint(X, y, sample_margin, [getattr(self, name) for name in names])

    def _solver_for_sets(self) -> Any:
        return DualCoordinate() if self.solver == "auto" else self.solver

    def _solve(
        self,
        problem: StructuredProblem,
        weight: Any,
        start: Start | SolveResult | None,
        keeping: FitCheckpoint | None = None,
    ) -> SolveResult:
        """Fit with these weights of the examples."""
        risk = problem.risk(weight)
        self.task_, mapped = problem.task, problem.mapped
        more = {"kernel_features_": None if mapped is None else mapped.features}
        result = self._minimize(
            risk,
            self._solver(risk, problem.omega),
            regularizer=problem.omega,
            start=start,
            fitted=lambda w: {"coef_": problem.whole(w), "task_": self.task_, **more},
            data={"X": problem.X, "y": problem.y},
            keeping=keeping,
        )
        self.coef_, self.kernel_features_ = problem.whole(result.w), None
        forget_kernel(self)
        if mapped is not None:
            mapped.keep(self, result, risk.caps(self.C))
            self.coef_, self.kernel_features_ = mapped.folded(self.task_, self.coef_)
        return result

    def _solver(self, risk: TaskRisk, omega: SquaredNorm) -> Any:
        if self.solver != "auto":
            return self.solver
        if len(omega.nonnegative) and not risk.signed_sets:
            return CuttingPlane()
        return AutoStructured(self.oracle)

    def predict(self, X: Sequence[Any]) -> list[Any]:
        """The output of largest score for each input.

        Parameters
        ----------
        X : sequence
            Inputs.

        Returns
        -------
        list
            Outputs.
        """
        check_is_fitted(self, "coef_")
        X = loaded(X, None, None)[0]
        inputs: Iterable[Any] = X
        if self.kernel_features_ is not None:
            inputs = mapped_inputs(self.task_, self.kernel_features_, X)
        outputs = []
        for i, x in enumerate(inputs):
            try:
                found = self.task_.inference(x, self.coef_)
                if found is None:
                    raise TypeError(
                        f"{type(self.task_).__name__}.inference returned None: it must return the output of "
                        "largest score. Is a return statement missing?"
                    )
                outputs.append(found)
            except Exception as error:
                error.add_note(f"raised by the task's inference for input {i}")
                raise
        return outputs

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the mean loss of the predictions (the larger the better).

        Parameters
        ----------
        X, y : sequences of equal length
            Inputs and labelled outputs. Or, as X alone, a data set with labels.

        Returns
        -------
        float
            ``-mean(loss(y_i, predict(x_i)))``.
        """
        X, y, _ = loaded(X, y, None)
        check_pairs(X, y)
        losses = [self.task_.loss(a, b) for a, b in zip(y, self.predict(X), strict=True)]
        return 0.0 - float(np.mean(losses))
