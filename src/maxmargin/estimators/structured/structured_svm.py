"""StructuredSVM: a structured model with inference written by the user."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxmargin.core.engine import Engine
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.result import SolveResult, Start
from maxmargin.core.vectors import Array
from maxmargin.estimators.checkpoint import FitCheckpoint
from maxmargin.estimators.constraints import (
    Callbacks,
    File,
    Fixed,
    Gamma,
    KernelFunction,
    KernelName,
    Method,
    Numbers,
    Resumable,
    Seed,
    Tolerance,
    Which,
    Workers,
)
from maxmargin.estimators.example_checks import check_example_weights, check_pairs, require_task
from maxmargin.estimators.outcome import certified_fit
from maxmargin.estimators.parameters import check_parameters
from maxmargin.estimators.prior import GaussianPrior
from maxmargin.estimators.structured.kernel_inputs import PARAMETERS as KERNEL_PARAMETERS
from maxmargin.estimators.structured.kernel_inputs import (
    check_kernel,
    forget_kernel,
    is_sampled,
    mapped_inputs,
    require_kernel_inputs,
    stack_inputs,
)
from maxmargin.estimators.structured.kernel_sampled import fit_sampled_cuts, require_alone
from maxmargin.estimators.structured.problem import (
    StructuredProblem,
    check_dimension,
    warn_if_never_wrong,
)
from maxmargin.estimators.structured.stream import StructuredStream, check_streamable
from maxmargin.estimators.validation import loaded
from maxmargin.estimators.warm_start import fingerprint, keep, recall
from maxmargin.estimators.weights import PARAMETERS
from maxmargin.kernels.features import KernelFeatures
from maxmargin.kernels.functions import Kernel
from maxmargin.risks.structured.risk import TaskRisk
from maxmargin.solvers import AutoStructured, CuttingPlane, DualCoordinate
from maxmargin.tasks.base import Task


@dataclass(eq=False, repr=False)
class StructuredSVM(StructuredStream):
    """Large-margin training of any structured task, with a certificate.

    Minimizes ``1/2 |w|^2 + C sum_i s_i max_y^ [Delta(y_i, y^) + <w, Psi(x_i, y^) - Psi(x_i, y_i)>]`` (margin
    rescaling). With slack rescaling the bracket is ``Delta * (1 + <w, ...>)``.

    Parameters
    ----------
    task : Task
        The task: what is predicted, and how; see :class:`maxmargin.tasks.Task`. ``fit`` works on a copy.
    C : float, default 1.0
        Weight of the loss relative to the regularization. The larger, the more closely the model fits the
        training data. It multiplies a sum over examples.
    rescaling : {"margin", "slack"}, default "margin"
        Whether the loss is added to the score of an output ("margin") or multiplies its violation ("slack").
        With "slack", a gap may remain, unless the task has its own ``slack_augmented_inference``.
    kernel : {"rbf", "poly", "sigmoid", "linear"} or callable, optional
        The kernel, with the names and conventions of scikit-learn. A callable ``f(X, Z)`` returns the matrix
        of kernel values; set its attribute ``positive_semidefinite`` to False if the kernel is not. By
        default, there is none. The kernel replaces inner products of the rows of the inputs. The task must
        define ``kernel_inputs`` and ``with_kernel_inputs``; see the user guide, "Kernels on structures".
    gamma : {"scale", "auto"} or float, default "scale"
        Coefficient of the kernels "rbf", "poly" and "sigmoid". "scale" is ``1 / (n_features * X.var())``,
        "auto" is ``1 / n_features``.
    degree : int, default 3
        Degree of the kernel "poly".
    coef0 : float, default 0.0
        Constant term of the kernels "poly" and "sigmoid".
    kernel_method : {"auto", "map", "nystrom", "sampled"} or settings object, default "auto"
        How the kernel is used. "map" builds features from all training rows and gives the certificate
        "exact"; it is for a few thousand rows. "nystrom" (:class:`maxmargin.kernels.Nystrom`) builds them
        from some rows and gives "restricted". "sampled" learns by sampled cuts
        (:class:`maxmargin.solvers.SampledCuts`) and gives "measured". "auto" is "map" for up to 5,000 rows
        and "nystrom" for more.
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
    tol : float or stopping rule, default 0.05
        Relative gap ``(objective_ - lower_bound_) / objective_`` at which the fit stops. For another
        criterion, pass a stopping rule such as :class:`maxmargin.solvers.AbsoluteGap`. The accuracy usually
        stops improving well before the default is reached.
    solver : "auto" or solver object, default "auto"
        The optimization method; see :mod:`maxmargin.solvers`. "auto" is
        :class:`maxmargin.solvers.DualCoordinate`. It is :class:`maxmargin.solvers.CuttingPlane` if some
        weights must not be negative and the task has a compiled form.
    oracle : {"cheap", "expensive"}, default "cheap"
        Cost of one call of the task's inference. "expensive" saves calls at the price of more computation
        between them. Use it when a call takes much longer than a millisecond; see the user guide, "Expensive
        oracles".
    max_iter : int, optional
        Maximum number of iterations. When it is reached, the best point found is returned with its bounds.
    max_seconds : float, optional
        Time limit of the fit in seconds. When it is reached, the best point found is returned with its
        bounds.
    n_jobs : int, optional
        Number of workers. None means 1 (on a Ray cluster, 1 per machine), and -1 means all cores. Results are
        bit-identical for any number from two on. With one worker, ``solver="auto"`` may choose another
        method. They share passes over all examples. If the oracle is expensive, they also share a few
        examples at a time.
    engine : {"threads", "processes", "ray", "ray://host:port"} or engine object, default "threads"
        What the workers are; see :mod:`maxmargin.engines`. A solver gives bit-identical results on all
        engines. The fit does not close an engine object. Threads speed up tasks that release the GIL.
        Processes speed up every task that can be pickled; with cloudpickle installed, this includes tasks
        that are defined in a notebook.
    warm_start : bool, default False
        Whether to start from the solution of the previous fit. Cutting planes reuse its weights. The default
        solver reuses its working sets, if examples and task are bit-identical; C and sample weights may
        change.
    random_state : int, Generator, RandomState or None, default 0
        Seed of the random number generator. Fits with the same seed are bit-identical. From a generator of
        NumPy, every fit draws another seed.
    callbacks : list of callables, optional
        Called with the record of every iteration. The fit stops if one of them returns True. See the user
        guide, "Watching a fit".
    verbose : int, default 0
        If 1, show the progress of the fit on standard error: on one line in a terminal, else every ten
        seconds.
    checkpoint : path or Checkpoint, optional
        File to which ``fit`` regularly writes its state, so that a fit that was killed can be resumed; see
        the user guide, "Checkpoints".
    max_support : int, default 10000
        Number of samples that ``partial_fit`` keeps. ``fit`` ignores it.

    Attributes
    ----------
    coef_ : array
        The weights w, including fixed ones. With a kernel, they belong to the features ``kernel_features_``.
    task_ : Task
        The task, prepared for the training data.
    kernel_features_ : KernelFeatures or None
        With a kernel: the feature map of rows.
    kernel_method_ : str
        With a kernel: how it was used, and after "auto", why.
    kernel_values_ : int
        Number of kernel values that were computed. Only set after a fit with sampled cuts.
    restricted_lower_bound_ : float
        If the certificate is "restricted": lower bound of the problem that was solved.
    restricted_gap_ : float
        If the certificate is "restricted": relative gap of the problem that was solved.
    n_seen_, n_support_ : int
        After ``partial_fit``: number of samples seen so far, and number of samples kept.
    objective_ : float
        Objective at the returned weights: an upper bound of the optimum.
    lower_bound_ : float
        Lower bound of the optimum.
    gap_ : float
        Relative gap between the bounds, ``(objective_ - lower_bound_) / objective_``.
    converged_ : bool
        Whether the bounds prove that ``tol`` was reached.
    stop_reason_ : str
        Why the fit stopped: "gap" (``tol`` was reached), "max_iter", "max_seconds", "callback",
        "interrupted", "stalled" (no further progress) or "rounding" (rounding errors may exceed ``tol``:
        scale the features).
    certificate_ : str
        What the bounds guarantee: "exact", "relaxed", "restricted", "lower_only" or "measured"; see the user
        guide, "What the certificate means".
    n_iter_ : int
        Number of iterations.
    history_ : list of dict
        Record of every iteration: bounds, gap, elapsed time and more.

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

    kernel_features_: KernelFeatures | None = field(init=False)

    task: Task
    C: float = 1.0
    _: KW_ONLY
    rescaling: Literal["margin", "slack"] = "margin"
    kernel: KernelName | Kernel | KernelFunction | None = None
    gamma: Gamma = "scale"
    degree: int = 3
    coef0: float = 0.0
    kernel_method: Any = "auto"
    fixed: Fixed = None
    nonnegative: Which = None
    nonpositive: Which = None
    prior: GaussianPrior | None = None
    tol: Tolerance = 5e-2
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
    checkpoint: Resumable = None
    max_support: int = 10_000

    def __post_init__(self) -> None:
        require_task(self.task)
        if self.kernel is not None:
            require_kernel_inputs(self.task)

    @certified_fit
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Numbers = None,
        resume_from: File | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X, y : sequences of equal length
            Inputs and true outputs, of the kind that the task expects. A data set
            (:func:`maxmargin.data.open`) is passed as ``X`` alone and is loaded into memory.
        sample_weight : array of shape (n_samples,), optional
            Per-sample multipliers of C.
        resume_from : path, optional
            Checkpoint of a fit with the same data and parameters, from which to continue.

        Returns
        -------
        self
            The estimator itself.
        """
        require_task(self.task)
        X, y, sample_weight = loaded(X, y, sample_weight)
        check_pairs(X, y)
        self.__dict__.pop("_stream", None)  # of partial_fit, which this fit ends
        weight = check_example_weights(sample_weight, len(y))
        if is_sampled(self):
            check_kernel(self)
            require_alone(self, resume_from)
            rows, ends = stack_inputs(self.task, X)
            self.task_, self.coef_, self.kernel_features_ = fit_sampled_cuts(
                self, self.task, X, y, rows, ends, weight
            )
            return self
        previous: Array | None = None
        about, kept = None, None
        if self.warm_start:
            previous, about = getattr(self, "coef_", None), self._about(X, y)
            kept = recall(getattr(self, "_kept", None), about, self._solver_for_sets())
        last = None if kept is None else kept.more
        if self.kernel is not None:  # coef_ belongs to other features
            previous = None if kept is None else np.array(kept.sets.w)
        with StructuredProblem(self, X, y, last) as problem:
            start = None
            if previous is not None and previous.shape == (problem.dim,):
                start = Start(
                    problem.weights.learned(previous), None if kept is None else kept.sets
                )
            given = {"X": X, "y": y, "sample_weight": weight}
            if problem.mapped is not None:
                given["kernel_rows"] = problem.mapped.features.rows
            keeping = FitCheckpoint(self, resume_from, problem.task, **given)
            result = self._solve(problem, weight, start, keeping)
        if result.objective == 0.0:
            warn_if_never_wrong(problem.task, problem.inputs, y, self.rescaling, problem.dim)
        if self.warm_start:
            self._kept = keep(about, result, problem)
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Numbers = None) -> Self:
        """Update the model with the next examples of a stream.

        At most ``max_support`` examples are kept, the newest ones, with the outputs that inference found for
        them. Older ones are merged into one cutting plane. After every call, ``lower_bound_`` is a lower
        bound of the optimum over *all examples seen so far*. An upper bound requires another pass over the
        examples: until :meth:`verify` is called, ``objective_`` and ``gap_`` are infinite, ``converged_`` is
        False and ``certificate_`` is "lower_only".

        Loss-augmented inference is called about five times for each example, in the calling thread. The
        weights are an average over the stream. Shuffle examples that are sorted. A call of ``fit`` ends the
        stream; after ``fit``, a stream begins with weights of zero.

        Parameters
        ----------
        X, y : sequences of equal length
            Inputs and true outputs, of the kind that the task expects. The task's method ``setup`` is called
            with the examples of the first call only.
        sample_weight : array of shape (n_samples,), optional
            Per-sample multipliers of C.

        Returns
        -------
        self
            The estimator itself.

        Examples
        --------
        >>> import numpy as np
        >>> from maxmargin import StructuredSVM
        >>> from maxmargin.tasks import Chain
        >>> first = [np.eye(2)], [np.array([0, 1])]
        >>> second = [np.eye(2)[::-1]], [np.array([1, 0])]
        >>> svm = StructuredSVM(Chain(n_labels=2), max_support=1)
        >>> svm = svm.partial_fit(*first).partial_fit(*second)
        >>> svm.n_seen_, svm.n_support_, svm.certificate_
        (2, 1, 'lower_only')
        >>> svm.verify([first, second]).certificate_
        'exact'
        """
        check_parameters(self)
        require_task(self.task)
        names = ("kernel", *PARAMETERS)
        check_streamable(self, {name: getattr(self, name) is not None for name in names})
        X, y, sample_weight = loaded(X, y, sample_weight)
        check_pairs(X, y)
        if hasattr(self, "_stream"):
            task, dim = self.task_, self.coef_.size
        else:
            problem = StructuredProblem(self, X, y)
            task, dim = problem.task, problem.dim
            check_dimension(task, X, y, dim)
        stream = self._open(dim)
        self._learn(stream, self._risk_of(None, task, dim, X, y, sample_weight))
        self.task_, self.coef_, self.kernel_features_ = task, stream.average.copy(), None
        return self

    def verify(self, X: Any, y: Any = None, sample_weight: Numbers = None) -> Self:
        """Complete the certificate of a stream by one exact pass over its examples.

        Nothing is learned. Afterwards ``objective_`` is the objective over all examples, and ``certificate_``
        is that of ``fit``. The caller is responsible for passing the same examples; only their number and
        their total weight are compared.

        Parameters
        ----------
        X : sequence, data set or iterable of batches
            All inputs that ``partial_fit`` has seen, in any order. An iterable yields ``(X, y)`` or ``(X, y,
            sample_weight)``.
        y : sequence, optional
            Outputs, if ``X`` is not an iterable of batches or a data set.
        sample_weight : array of shape (n_samples,), optional
            Per-sample multipliers of C.

        Returns
        -------
        self
            The estimator itself.

        Raises
        ------
        ValueError
            The number or the total weight of the examples is not that of the stream. The certificate does not
            change.
        """
        return self._verify(X, y, sample_weight)

    def _stream_risk(
        self, engine: Engine | None, X: Any, y: Any, sample_weight: Numbers = None
    ) -> TaskRisk:
        X, y, sample_weight = loaded(X, y, sample_weight)
        check_pairs(X, y)
        return self._risk_of(engine, self.task_, self.coef_.size, X, y, sample_weight)

    def _risk_of(
        self, engine: Engine | None, task: Any, dim: int, X: Any, y: Any, sample_weight: Any
    ) -> TaskRisk:
        return TaskRisk(
            task,
            X,
            y,
            dim,
            rescaling=self.rescaling,  # type: ignore[arg-type]
            sample_weight=sample_weight,
            engine=engine,
            expensive=self.oracle == "expensive",
        )

    def _about(self, X: Any, y: Any) -> str | None:
        """A fingerprint of everything that working sets depend on."""
        names = ["task", "rescaling", "oracle", *PARAMETERS, *KERNEL_PARAMETERS]
        if self.kernel is not None:
            names.append("random_state")  # it determines landmarks
        return fingerprint(X, y, [getattr(self, name) for name in names])

    def _solver_for_sets(self) -> Any:
        return DualCoordinate() if self.solver == "auto" else self.solver

    def _solve(
        self,
        problem: StructuredProblem,
        weight: Any,
        start: Start | SolveResult | None,
        keeping: FitCheckpoint | None = None,
    ) -> SolveResult:
        """Fit with these sample weights."""
        risk = problem.risk(weight)
        self.task_, mapped = problem.task, problem.mapped
        more = {"kernel_features_": None if mapped is None else mapped.features}
        result = self._minimize(
            risk,
            self._solver(risk, problem.weights.norm),
            regularizer=problem.weights.norm,
            start=start,
            fitted=lambda w: {"coef_": problem.weights.whole(w), "task_": self.task_, **more},
            data={"X": problem.X, "y": problem.y},
            keeping=keeping,
        )
        self.coef_, self.kernel_features_ = problem.weights.whole(result.w), None
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

    def predict(self, X: Sequence[object]) -> list[Any]:
        """Predict the output with the largest score for each input.

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
        """Return minus the mean loss of the predictions: the larger, the better.

        Parameters
        ----------
        X, y : sequences of equal length
            Inputs and true outputs, of the kind that the task expects. A data set with labels is passed as
            ``X`` alone.

        Returns
        -------
        float
            ``-mean(loss(y_i, predict(x_i)))``.
        """
        X, y, _ = loaded(X, y, None)
        check_pairs(X, y)
        losses = [self.task_.loss(a, b) for a, b in zip(y, self.predict(X), strict=True)]
        return 0.0 - float(np.mean(losses))
