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
from maxmargin.estimators.documentation import documented
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
from maxmargin.risks.structured.risk import TaskRisk
from maxmargin.solvers import AutoStructured, CuttingPlane, DualCoordinate
from maxmargin.tasks.base import Task


@documented
@dataclass(eq=False, repr=False)
class StructuredSVM(StructuredStream):
    """Large-margin training of any structured task, with a certificate.

    Minimizes ``1/2 |w|^2 + C sum_i s_i max_y^ [Delta(y_i, y^) + <w, Psi(x_i, y^) - Psi(x_i, y_i)>]`` (margin
    rescaling). With slack rescaling the bracket is ``Delta * (1 + <w, ...>)``.

    Parameters
    ----------
    {C}
        It multiplies a sum over examples.
    {rescaling}
        With "slack", a gap may remain, unless the task has its own ``slack_augmented_inference``.
    {kernel}
        By default, there is none. The kernel replaces inner products of the rows of the inputs. The task must
        define ``kernel_inputs`` and ``with_kernel_inputs``; see the user guide, "Kernels on structures".
    {fixed}
        Names require that the task has an attribute ``feature_names``.
    {tol}
        The accuracy usually stops improving well before the default is reached.
    {solver}
        "auto" is :class:`maxmargin.solvers.DualCoordinate`. It is :class:`maxmargin.solvers.CuttingPlane` if
        some weights must not be negative and the task has a compiled form.
    {n_jobs}
        They share passes over all examples. If the oracle is expensive, they also share a few examples at a
        time.
    {engine}
        Threads speed up tasks that release the GIL. Processes speed up every task that can be pickled; with
        cloudpickle installed, this includes tasks that are defined in a notebook.
    {warm_start}
        Cutting planes reuse its weights. The default solver reuses its working sets, if examples and task are
        bit-identical; C and sample weights may change.

    Attributes
    ----------
    coef_ : array
        The weights w, including fixed ones. With a kernel, they belong to the features ``kernel_features_``.
    {task_}
    kernel_features_ : KernelFeatures or None
        With a kernel: the feature map of rows.
    {kernel_method_}
    {kernel_values_}
        Only set after a fit with sampled cuts.
    {restricted}
    {probabilistic}
    {stream}
    {certificate}

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
    rescaling: str = "margin"
    kernel: Any = None
    gamma: Any = "scale"
    degree: int = 3
    coef0: float = 0.0
    kernel_method: Any = "auto"
    fixed: Any = None
    nonnegative: Any = None
    nonpositive: Any = None
    prior: Any = None
    tol: Any = 5e-2
    solver: Any = "auto"
    oracle: Literal["cheap", "expensive"] = "cheap"
    max_iter: int | None = None
    max_seconds: float | None = None
    n_jobs: int | None = None
    engine: Any = "threads"
    warm_start: bool = False
    random_state: Any = 0
    callbacks: Any = None
    verbose: int = 0
    checkpoint: Any = None
    max_support: int = 10_000

    def __post_init__(self) -> None:
        require_task(self.task)
        if self.kernel is not None:
            require_kernel_inputs(self.task)

    @certified_fit
    @documented
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        resume_from: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        {pairs}
            A data set (:func:`maxmargin.data.open`) is passed as ``X`` alone and is loaded into memory.
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

    @documented
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
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
        {pairs}
            The task's method ``setup`` is called with the examples of the first call only.

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

    @documented
    def verify(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Complete the certificate of a stream by one exact pass over its examples.

        Nothing is learned. Afterwards ``objective_`` is the objective over all examples, and ``certificate_``
        is that of ``fit``. The caller is responsible for passing the same examples; only their number and
        their total weight are compared.

        Parameters
        ----------
        X : sequence, data set or iterable of batches
            All inputs that ``partial_fit`` has seen, in any order. An iterable yields ``(X, y)`` or
            ``(X, y, sample_weight)``.
        y : sequence, optional
            Outputs, if ``X`` is not an iterable of batches or a data set.

        Raises
        ------
        ValueError
            The number or the total weight of the examples is not that of the stream. The certificate does not
            change.
        """
        return self._verify(X, y, sample_weight)

    def _stream_risk(
        self, engine: Engine | None, X: Any, y: Any, sample_weight: Any = None
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

    def predict(self, X: Sequence[Any]) -> list[Any]:
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

    @documented
    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the mean loss of the predictions: the larger, the better.

        Parameters
        ----------
        {pairs}
            A data set with labels is passed as ``X`` alone.

        Returns
        -------
        float
            ``-mean(loss(y_i, predict(x_i)))``.
        """
        X, y, _ = loaded(X, y, None)
        check_pairs(X, y)
        losses = [self.task_.loss(a, b) for a, b in zip(y, self.predict(X), strict=True)]
        return 0.0 - float(np.mean(losses))
