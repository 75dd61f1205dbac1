"""SequenceTagger: a label for every token of a sequence."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from maxmargin.core.result import Start
from maxmargin.core.vectors import Array
from maxmargin.estimators.base import CertifiedEstimator, _seed, stopping_rule
from maxmargin.estimators.checkpoint import FitCheckpoint
from maxmargin.estimators.constraints import (
    Callbacks,
    File,
    Gamma,
    KernelFunction,
    KernelName,
    Method,
    Numbers,
    Resumable,
    Seed,
    Tolerance,
    Workers,
    of_class,
    one_of,
)
from maxmargin.estimators.example_checks import check_example_weights
from maxmargin.estimators.outcome import certified_fit
from maxmargin.estimators.prior import GaussianPrior
from maxmargin.estimators.structured import sequences as seq
from maxmargin.estimators.structured.kernel_inputs import (
    forget_kernel,
    is_sampled,
    map_rows,
)
from maxmargin.estimators.structured.kernel_sampled import fit_sampled_cuts, require_alone
from maxmargin.estimators.structured.probabilities import ChainProbabilities
from maxmargin.estimators.structured.tagged_data import TaggedData, label_functions, score_parts
from maxmargin.estimators.structured.tagger_columns import Columns
from maxmargin.estimators.structured.tagger_input import tagger_input
from maxmargin.estimators.structured.tagger_options import LOSSES, check_options
from maxmargin.estimators.structured.tagger_stream import ChainStream
from maxmargin.estimators.warm_start import fingerprint, keep, recall
from maxmargin.estimators.weights import PARAMETERS, Weighing
from maxmargin.kernels.functions import Kernel
from maxmargin.solvers import AutoStructured, CuttingPlane, minimize
from maxmargin.tasks.chains.chain import Chain


@dataclass(eq=False, repr=False)
class SequenceTagger(ChainStream, ChainProbabilities, CertifiedEstimator):
    """Sequence labeling by a linear chain, trained with a large margin and a certificate.

    The score of a labeling is the sum of the scores of each token's label, of pairs of neighboring labels,
    and of the first and the last label. The loss is the number of wrong tokens (Hamming loss), or their
    ``cost``. With ``loss="logistic"`` it is a linear-chain conditional random field, with probabilities.

    Parameters
    ----------
    C : float, default 0.1
        Weight of the loss relative to the regularization. The larger, the more closely the model fits the
        training data. It multiplies a sum over sequences. 0.1 was best, or as good as the best, on four
        corpora with sparse features; a C of 1 takes about twice as long there. With a kernel, or with few
        dense features, try larger values.
    tol : float or stopping rule, default 0.05
        Relative gap ``(objective_ - lower_bound_) / objective_`` at which the fit stops. For another
        criterion, pass a stopping rule such as :class:`maxmargin.solvers.AbsoluteGap`. The accuracy usually
        stops improving well before the default is reached.
    loss : {"hinge", "logistic"}, default "hinge"
        "hinge" is the large-margin loss. "logistic" is the negative log probability of the labels of a
        sequence in a conditional random field, for :meth:`predict_marginals` and :meth:`log_probability`. It
        has no ``cost``, ``token_weight``, ``partial`` and slack rescaling.
    cost : dict or array of shape (n_labels, n_labels), optional
        Dict: the cost of missing each label, 1 for labels that are not in it. Array: ``cost[i, j]`` is the
        cost of predicting label j when the true label is i, in the order of ``classes_``.
    forbidden_transitions : list of pairs or "unseen", optional
        Pairs (a, b): label b never follows label a, neither in training nor in predictions. None stands for
        the start or the end of a sequence: (None, b) forbids b as the first label, (a, None) forbids a as the
        last. Labels that do not occur in the training data are an error. "unseen" forbids all transitions
        that do not occur in the training data.
    order : {1, 2}, default 1
        Order of the chain. In a second-order chain (2), states are pairs (previous label, label), features
        are scored jointly with both, and triples of consecutive labels have scores. K (K + 1) states replace
        K labels, so this is suitable for few labels.
    rescaling : {"margin", "slack"}, default "margin"
        Whether the loss is added to the score of an output ("margin") or multiplies its violation ("slack").
        "slack" is much slower, because inference is a dynamic program over the values of the loss. Costs and
        token weights should be integers; otherwise the gap may not close.
    kernel : {"rbf", "poly", "sigmoid", "linear"} or callable, optional
        The kernel, with the names and conventions of scikit-learn. A callable ``f(X, Z)`` returns the matrix
        of kernel values; set its attribute ``positive_semidefinite`` to False if the kernel is not. By
        default, there is none. The kernel replaces the inner product of two tokens' features; scores of
        neighboring labels stay linear. See the user guide, "Kernels on structures".
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
        and "nystrom" for more. A row is a token.
    min_count : int, default 1
        Features that occur in fewer tokens of the training data are left out. For tokens that are dicts or
        strings. On text, 2 makes the model much smaller at about the same accuracy.
    n_hashed : int, optional
        Number of columns to which the names of features are hashed, so that no vocabulary is stored. For
        tokens that are dicts or strings. By default, every name has its own column.
    partial : {None, "complete"}, default None
        What to do with tokens whose label is None. By default they are an error. "complete" trains a first
        model on the fully labeled sequences, fills in the missing labels of the others with the best ones
        that agree with the known labels, once, and then trains on all. A wrong label at such a token costs
        nothing. (To supply your own labels, pass them with a ``token_weight`` of 0.)
    prior : GaussianPrior, optional
        Center and spread of the weights, in place of the term ``1/2 |w|^2``; see the user guide, "Priors". It
        applies to the flat array ``weights_``. ``GaussianPrior.around(last)`` updates an earlier tagger: its
        weights are assigned by feature name and label.
    solver : "auto" or solver object, default "auto"
        The optimization method; see :mod:`maxmargin.solvers`. "auto" is
        :class:`maxmargin.solvers.DualCoordinate`, or :class:`maxmargin.solvers.CuttingPlane` if a prior has
        more than a center.
    max_iter : int, optional
        Maximum number of iterations. When it is reached, the best point found is returned with its bounds.
    max_seconds : float, optional
        Time limit of the fit in seconds. When it is reached, the best point found is returned with its
        bounds.
    n_jobs : int, optional
        Number of workers. None means 1 (on a Ray cluster, 1 per machine), and -1 means all cores. Results are
        bit-identical for any number from two on. With one worker, ``solver="auto"`` may choose another
        method.
    engine : {"threads", "processes", "ray", "ray://host:port"} or engine object, default "threads"
        What the workers are; see :mod:`maxmargin.engines`. A solver gives bit-identical results on all
        engines. The fit does not close an engine object.
    warm_start : bool, default False
        Whether to start from the solution of the previous fit. Cutting planes reuse its weights. The default
        solver reuses its working sets, if the sequences and their labels are bit-identical; C and sample
        weights may change.
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
    classes_ : list
        The labels.
    states_ : list
        The states that the next four attributes refer to: the labels, or with ``order=2`` the pairs (previous
        label, label), where None is the start of a sequence.
    coef_ : array of shape (n_labels, n_features)
        Weights of the features. Like the next three, this is a view of ``weights_``.
    transitions_ : array of shape (n_labels, n_labels)
        Scores of neighboring labels, [from, to].
    starts_, stops_ : arrays of shape (n_labels,)
        Scores of first and last labels.
    weights_ : array
        All weights as one flat array.
    expansion_ : KernelExpansion or None
        With a kernel: the scores of labels as functions of a token. ``coef_`` then belongs to its rows,
        tokens of the training sequences.
    task_ : Task
        The task, prepared for the training data.
    kernel_method_ : str
        With a kernel: how it was used, and after "auto", why.
    kernel_values_ : int
        Number of kernel values that were computed. Only set after a fit with sampled cuts.
    restricted_lower_bound_ : float
        If the certificate is "restricted": lower bound of the problem that was solved.
    restricted_gap_ : float
        If the certificate is "restricted": relative gap of the problem that was solved.
    vectorizer_ : TokenVectorizer or None
        Set if the tokens of ``X`` were feature dicts or strings.
    calibration_ : array of shape (2, n_knots)
        Set by ``calibrate``: margins and the probabilities that labels with these margins are right.
    n_features_in_ : int
        Number of features.
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
    >>> from maxmargin import SequenceTagger
    >>> X = [[["w=the"], ["w=cat"], ["w=sat"]], [["w=a"], ["w=dog"], ["w=ran"]]]
    >>> y = [["DET", "NOUN", "VERB"], ["DET", "NOUN", "VERB"]]
    >>> tagger = SequenceTagger().fit(X, y)
    >>> tagger.predict([[["w=the"], ["w=dog"], ["w=sat"]]])
    [['DET', 'NOUN', 'VERB']]
    >>> tagger.certificate_, tagger.gap_ <= 5e-2
    ('exact', True)
    """

    _constraints = of_class(loss=one_of(*LOSSES))

    C: float = 0.1
    _: KW_ONLY
    tol: Tolerance = 5e-2
    loss: Literal["hinge", "logistic"] = "hinge"
    cost: Mapping[Any, float] | npt.ArrayLike | None = None
    forbidden_transitions: Any = None
    order: int = 1
    rescaling: Literal["margin", "slack"] = "margin"
    kernel: KernelName | Kernel | KernelFunction | None = None
    gamma: Gamma = "scale"
    degree: int = 3
    coef0: float = 0.0
    kernel_method: Any = "auto"
    min_count: int = 1
    n_hashed: int | None = None
    partial: str | None = None
    prior: GaussianPrior | None = None
    solver: Method = "auto"
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

    @certified_fit
    def fit(
        self,
        X: Any,
        y: Any = None,
        lengths: Numbers = None,
        sample_weight: Numbers = None,
        token_weight: Numbers = None,
        resume_from: File | None = None,
        start_from: SequenceTagger | None = None,
    ) -> Self:
        """Fit the tagger.

        Parameters
        ----------
        X : list of matrices, list of lists of feature dicts or strings, or one matrix
            One entry per sequence. An entry is a matrix with a row per token (dense or sparse, a data frame,
            a tensor, a list of lists of numbers), or a list of tokens, each of which is a dict ``{name:
            value}``, a list of strings or a string. Values are numbers, strings, lists of strings, or dicts
            of these. One stacked matrix requires ``lengths``. A data set that
            :func:`maxmargin.data.write_sequences` wrote is not loaded into memory unless there is a kernel or
            slack rescaling; other data sets of sequences (:func:`maxmargin.data.open`) are loaded.
        y : list of label sequences
            Labels are any hashable values. None is a missing label; see ``partial``. With ``lengths``, a flat
            array is accepted as well. Omit it for a data set, which contains its own.
        lengths : list of int, optional
            Number of tokens of each sequence, if ``X`` is one matrix.
        sample_weight : array of shape (n_samples,), optional
            Per-sample multipliers of C. A sample is a sequence.
        token_weight : list of arrays, or flat array, optional
            Per-token multipliers of the cost.
        resume_from : path, optional
            Checkpoint of a fit with the same data and parameters, from which to continue.
        start_from : SequenceTagger, optional
            A fitted tagger to begin with, such as one that was trained on fewer sequences. Its weights are
            assigned by feature name and label; new names begin at zero. The optimum is the same, and the fit
            is hardly faster, but if it is stopped early its objective is at most that of this tagger. To stay
            close to a tagger, use ``prior=GaussianPrior.around(tagger)``.

        Returns
        -------
        self
            The estimator itself.
        """
        self._train(X, y, lengths, sample_weight, token_weight, resume_from, start_from)
        return self

    def _train(
        self,
        X: Any,
        y: Any,
        lengths: Numbers = None,
        sample_weight: Numbers = None,
        token_weight: Numbers = None,
        resume_from: File | None = None,
        start_from: Any = None,
    ) -> None:
        for name in ("calibration_", "_stream"):  # they belong to other weights
            self.__dict__.pop(name, None)
        given = tagger_input(self, X, y, lengths, sample_weight)
        rows, counts, vectorizer, strings = given.stacked
        if not len(given.codes):
            raise ValueError("all sequences are empty: there is nothing to learn from.")
        check_options(self, given.flat, counts, token_weight)
        n_features, mapped = rows.shape[1], None
        drawn = is_sampled(self)
        if self.kernel is not None and not drawn:
            mapped = map_rows(self, rows, counts, _seed(self.random_state))
            rows = sp.csr_matrix(mapped.rows)
        weight = check_example_weights(given.sample_weight, len(counts))
        classes = given.classes
        data = self._tagged_data(rows, counts, given.codes, classes, weight, token_weight)
        task = data.task
        if drawn:
            self._string_tokens = strings
            self._by_sampled_cuts(data, weight, classes, vectorizer, resume_from)
            return
        keeping = FitCheckpoint(
            self,
            resume_from,
            X=data.rows,  # hashed faster than lists of tokens
            lengths=data.counts,
            y=[classes, data.codes],  # with missing labels filled in
            sample_weight=weight,
            token_weight=data.weight,
        )
        columns = Columns(task, classes, vectorizer)
        weights = columns.weighing(self.prior)
        about = self._about(data) if self.warm_start else None
        fitted: dict[str, Any] = {
            "classes_": classes,
            "vectorizer_": vectorizer,
            "_string_tokens": strings,
            "n_features_in_": n_features,
            "task_": task,
        }
        with self._workers() as engine:
            risk = data.risk(weight, self.rescaling, engine, LOSSES[self.loss])
            result = self._minimize(
                weights.risk(risk),
                self._solver(weights),
                start=self._start(weights, about, task.dim, mapped=mapped is not None)
                if start_from is None
                else Start(weights.learned(self._weights_of(start_from, columns))),
                fitted=lambda w: fitted | score_parts(task, weights.whole(w).copy(), mapped),
                data={"X": X, "y": y},
                keeping=keeping,
            )
        fitted |= score_parts(task, weights.whole(result.w), mapped)
        self.__dict__.update(fitted)
        forget_kernel(self)
        if mapped is not None:
            mapped.keep(self, result, risk.caps(self.C))
        if self.warm_start:
            self._kept = keep(about, result)

    def _tagged_data(
        self,
        rows: Any,
        counts: Any,
        codes: Any,
        classes: Any,
        weight: Array | None,
        token_weight: Any,
    ) -> TaggedData:
        """The task and its sequences: labels as numbers, missing ones completed, and of the right order."""
        allowed, start, stop = seq.transition_masks(
            self.forbidden_transitions, classes, codes, counts
        )
        task = Chain(
            n_labels=len(classes),
            n_features=rows.shape[1],
            cost=seq.cost_matrix(self.cost, classes),
            allowed=allowed,
            allowed_start=start,
            allowed_stop=stop,
        )
        seq.check_transitions(task, codes, counts, classes)
        data = TaggedData(task, rows, counts, codes, seq.flat_weights(token_weight, len(codes)))
        if (codes < 0).any():
            data = data.completed(self._first_model(data, weight))
        return data.second_order() if self.order == 2 else data

    def _start(self, weights: Any, about: Any, dim: int, *, mapped: bool) -> Start | None:
        """The weights and working sets of the previous fit, if ``warm_start`` and they fit this problem."""
        previous = self._previous_weights("weights_", (dim,))
        if previous is None:
            return None
        kept = recall(getattr(self, "_kept", None), about, self._solver(weights))
        if mapped:  # weights_ belongs to other features
            return None if kept is None else Start(np.array(kept.sets.w), kept.sets)
        return Start(weights.learned(previous), None if kept is None else kept.sets)

    def _weights_of(self, old: Any, columns: Columns) -> Array:
        """The weights of another tagger, in the order of these features and labels."""
        if not isinstance(old, SequenceTagger):
            raise TypeError(
                f"start_from must be a fitted SequenceTagger, but it is {type(old).__name__}."
            )
        if self.kernel is not None:
            raise ValueError("start_from is for taggers without a kernel: leave it out.")
        return columns.aligned(old._named_weights(), "start_from")

    def _by_sampled_cuts(
        self, data: TaggedData, weight: Any, classes: list[Any], vectorizer: Any, resume_from: Any
    ) -> None:
        require_alone(self, resume_from)
        X, Y = data.labeled()
        task = copy.copy(data.task)
        task.n_features = None  # one per row
        found = fit_sampled_cuts(self, task, X, Y, data.rows, np.cumsum(data.counts), weight)
        self.classes_, self.vectorizer_ = classes, vectorizer
        self.n_features_in_ = data.rows.shape[1]
        self.task_, self.weights_ = cast(Chain, found.task), found.w
        features = found.features
        self.expansion_ = label_functions(self.task_, found.w, features.kernel, features.rows)

    def _about(self, data: TaggedData) -> str | None:
        """A fingerprint of everything that working sets depend on."""
        return fingerprint(
            data, self.rescaling, self.loss, [getattr(self, n, None) for n in PARAMETERS]
        )

    def _solver(self, weights: Weighing | None = None) -> Any:
        if self.solver != "auto" and not isinstance(self.solver, AutoStructured):
            return self.solver
        spread = weights is not None and weights.map is not None and not weights.center_only
        if spread:
            return CuttingPlane()
        return AutoStructured() if self.solver == "auto" else self.solver

    def _first_model(self, data: TaggedData, weight: Array | None) -> Array:
        """Weights learned from the fully labeled sequences, with the same limits."""
        whole = data.fully_labeled()
        if not data.counts[whole].any():
            raise ValueError(
                "partial='complete' requires fully labeled sequences, but there is none. Pass any labels in "
                "place of the missing ones, with a token_weight of 0."
            )
        some = None if weight is None else weight[whole]
        try:
            with self._workers() as engine:
                return minimize(
                    data.rows_of(whole).risk(some, "margin", engine),
                    self.C,
                    solver=self._solver(),
                    stopping=stopping_rule(self.tol),
                    max_iter=self.max_iter,
                    max_seconds=self.max_seconds,
                    random_state=_seed(self.random_state),
                ).w
        except KeyboardInterrupt as error:
            error.add_note(
                "Interrupted in the first model, which fills in missing labels: no fit yet."
            )
            raise
