"""SequenceTagger: a label for every token of a sequence."""

from __future__ import annotations

import copy
from collections.abc import Hashable
from typing import Any, Self, cast

import numpy as np
import scipy.sparse as sp

from maxmargin.core.result import Start
from maxmargin.core.vectors import Array
from maxmargin.estimators.base import CertifiedEstimator, _seed, stopping_rule
from maxmargin.estimators.checkpoint import FitCheckpoint
from maxmargin.estimators.example_checks import check_example_weights
from maxmargin.estimators.outcome import certified_fit
from maxmargin.estimators.parameters import check_parameters
from maxmargin.estimators.structured import sequences as seq
from maxmargin.estimators.structured.decision import ChainDecision
from maxmargin.estimators.structured.kernel_inputs import (
    check_kernel,
    forget_kernel,
    is_sampled,
    map_rows,
)
from maxmargin.estimators.structured.kernel_sampled import fit_drawn, require_alone
from maxmargin.estimators.structured.tagged_data import TaggedData, label_functions, score_parts
from maxmargin.estimators.validation import loaded
from maxmargin.estimators.warm_start import fingerprint, keep, recall
from maxmargin.estimators.weights import PARAMETERS, Weighing, weigh
from maxmargin.solvers import AutoStructured, CuttingPlane, minimize
from maxmargin.tasks.chains.chain import Chain


class SequenceTagger(ChainDecision, CertifiedEstimator):
    """Tagging of sequences by a chain, trained with a large margin and certified.

    A sequence's score is the sum of its tokens' label scores, of the scores of neighbouring labels,
    and of those of the first and the last label. Training counts wrong tokens (Hamming loss, or
    ``cost``).

    Parameters
    ----------
    C : float, default 1.0
        Weight of the loss; it multiplies a sum over sequences. For thousands of sequences values
        from 0.01 to 1 are usual.
    tol : float or stopping rule, default 5e-2
        Relative gap at which to stop; accuracy is usually flat well above it.
    cost : dict or array of shape (n_labels, n_labels), optional
        Dict: cost of missing a label (1 for labels not named). Matrix: cost of predicting the
        column's label for the row's, in the order of ``classes_``.
    forbidden_transitions : list of pairs or "unseen", optional
        Pairs (a, b): b never follows a, in training and prediction. None stands for the start and the end of
        a sequence: (None, b) forbids to begin with b, (a, None) to end with a. Labels that do not occur in
        the training labels are an error. "unseen" forbids all neighbours that do not occur there.
    order : {1, 2}, default 1
        With 2 the chain looks at two labels before: its states are pairs (label before, label), features are
        seen jointly with both, and three labels in a row have a score. K (K + 1) states
        take the place of K labels, so this is for few labels.
    rescaling : {"margin", "slack"}, default "margin"
        How the loss enters. "slack" multiplies violations by the loss; it needs whole numbers as costs
        and token weights, and is much slower: its argmax is a dynamic programme over the values of the loss.
    kernel : {"rbf", "poly", "sigmoid", "linear"} or callable, optional
        A kernel of two tokens' features that takes the place of their inner product; scores of neighbours
        stay as they are. See the user guide, "Kernels on structures".
    gamma, degree, coef0
        Parameters of the kernel, as in scikit-learn's SVC.
    kernel_method : {"auto", "map", "nystrom", "sampled"} or settings object, default "auto"
        "map" has all tokens of training in its basis: certificate "exact", for some thousand tokens.
        "nystrom" has some (:class:`maxmargin.kernels.Nystrom`): "restricted". "sampled" learns by sampled
        cuts (:class:`maxmargin.solvers.SampledCuts`): "measured". "auto" is "map" up to 5,000 tokens, else
        "nystrom".
    partial : {None, "complete"}, default None
        What to do with tokens whose label is None. None refuses them. "complete" trains a first model on
        the sequences that are fully labelled, gives the others the best labels that agree with what is
        known, once, and trains on all; a wrong label at a completed token costs nothing. (To supply
        your own values, give them as labels with a ``token_weight`` of 0.)
    prior : GaussianPrior, optional
        A centre and a spread of the flat ``weights_`` instead of ``1/2 |w|^2``: with the same features and
        labels, ``GaussianPrior(mean=last.weights_)`` updates an earlier tagger. See the user guide, "Priors".
    solver : "auto" or solver object, default "auto"
        "auto" is :class:`maxmargin.solvers.DualCoordinate`, or :class:`maxmargin.solvers.CuttingPlane`
        where a prior is more than a centre.
    max_iter, max_seconds : optional
        Limits. The best point is returned with its bounds.
    n_jobs : int, optional
        Threads for passes over all sequences.
    engine : {"threads", "processes", "ray", "ray://host:port"} or engine object, default "threads"
        What the workers are: the result has the same bits on all of them. An engine object is not closed by
        the fit. See :mod:`maxmargin.engines`.
    warm_start : bool, default False
        Start from the previous fit: with cutting planes from its weights; with working sets (the default
        solver) from its sets, if examples and task are the same to the last bit. C and weights of
        examples may be others.
    random_state : int, default 0
        Seed of the order in which sequences are visited.
    callbacks : list of callables, optional
        Each receives every iteration's record and may return True to stop.
    verbose : int, default 0
        1 shows one live line.
    checkpoint : path or Checkpoint, optional
        Where ``fit`` writes its state now and then, so that a fit that was killed can go on; see the user
        guide, "Checkpoints".

    Attributes
    ----------
    classes_ : list
        The labels.
    states_ : list
        What the next four are about: the labels, or with ``order=2`` pairs (label before, label), None
        being the border.
    coef_ : array of shape (n_labels, n_features)
        Scores of features (a view of ``weights_``), as are the next three.
    transitions_ : array of shape (n_labels, n_labels)
        Scores of neighbours, [from, to].
    starts_, stops_ : arrays of shape (n_labels,)
        Scores of first and last labels.
    weights_ : array
        All weights, flat.
    expansion_ : KernelExpansion
        With a kernel: the scores of labels as functions of a token, one output each. ``coef_`` then belongs
        to its rows, tokens of the training sequences.
    kernel_method_, restricted_lower_bound_, restricted_gap_
        With a kernel: how its basis was chosen; bounds of the problem of fewer functions, where the
        certificate is "restricted".
    vectorizer_ : DictVectorizer or None
        Present if X was given as feature dicts or strings.
    n_features_in_ : int
        Number of features.
    objective_, lower_bound_, gap_, converged_, stop_reason_, certificate_, n_iter_, history_
        The certificate; see the user guide, "What the certificate means".

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

    def __init__(
        self,
        C: float = 1.0,
        *,
        tol: Any = 5e-2,
        cost: Any = None,
        forbidden_transitions: Any = None,
        order: int = 1,
        rescaling: str = "margin",
        kernel: Any = None,
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        kernel_method: Any = "auto",
        partial: str | None = None,
        prior: Any = None,
        solver: Any = "auto",
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
        self.C = C
        self.tol = tol
        self.cost = cost
        self.forbidden_transitions = forbidden_transitions
        self.order = order
        self.rescaling = rescaling
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_method = kernel_method
        self.partial = partial
        self.prior = prior
        self.solver = solver
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
        lengths: Any = None,
        sample_weight: Any = None,
        token_weight: Any = None,
        resume_from: Any = None,
    ) -> Self:
        """Fit the tagger.

        Parameters
        ----------
        X : list of matrices, list of lists of feature dicts or strings, or one matrix
            One entry per sequence: a matrix with a row per token (dense or sparse, a data frame, a tensor, a
            list of lists of numbers); or a list of tokens, each a dict ``{name: value}``, a list of strings
            or a string. Values are numbers, strings, lists of strings, or dicts of these. One stacked matrix
            needs ``lengths``. Or a data set of sequences (:func:`maxmargin.data.open`), which is loaded.
        y : list of label sequences
            Labels are any hashable values; None is a missing label (see ``partial``). With ``lengths`` a
            flat array is accepted too.
        lengths : list of int, optional
            Tokens of each sequence when X is one matrix.
        sample_weight : array of shape (n_sequences,), optional
            Factors of C by sequence.
        token_weight : list of arrays, or flat array, optional
            Factors of the cost by token.
        resume_from : path, optional
            A checkpoint of a fit to the same data with the same parameters, from which to go on.

        Returns
        -------
        SequenceTagger
            The fitted tagger.
        """
        check_parameters(self)
        X, y, sample_weight = loaded(X, y, sample_weight)
        rows, counts, vectorizer, strings = seq.stack(X, lengths, fitting=True)
        flat = seq.flatten_labels(y, counts, stacked=lengths is not None)
        if not flat:
            raise ValueError("all sequences are empty: there is nothing to learn from.")
        self._check_options(flat, counts)
        n_features, mapped = rows.shape[1], None
        drawn = is_sampled(self)
        if self.kernel is not None and not drawn:
            mapped = map_rows(self, rows, counts, _seed(self.random_state))
            rows = sp.csr_matrix(mapped.rows)
        weight = check_example_weights(sample_weight, len(counts))
        classes = seq.alphabet(label for label in flat if label is not None)
        number: dict[Any, int] = {label: k for k, label in enumerate(classes)}
        codes = np.array([-1 if label is None else number[label] for label in flat])
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
        data = TaggedData(task, rows, counts, codes, seq.flat_weights(token_weight, len(flat)))
        if (codes < 0).any():
            data = data.completed(self._first_model(data, weight))
        if self.order == 2:
            data = data.second_order()
        task = data.task
        if drawn:
            self._string_tokens = strings
            return self._by_sampled_cuts(data, weight, classes, vectorizer, resume_from)
        keeping = FitCheckpoint(
            self,
            resume_from,
            X=data.rows,  # hashed faster than lists of tokens
            lengths=data.counts,
            y=[classes, data.codes],  # missing ones completed
            sample_weight=weight,
            token_weight=data.weight,
        )
        weights = weigh(self, task.dim)
        previous = getattr(self, "weights_", None) if self.warm_start else None
        w0, kept = None, None
        about = self._about(data) if self.warm_start else None
        if previous is not None and previous.shape == (task.dim,):
            w0 = weights.learned(previous)
            kept = recall(getattr(self, "_kept", None), about, self._solver(weights))
        if mapped is not None:  # the weights shown are those of other features
            w0 = None if kept is None else np.array(kept.sets.w)
        fitted: dict[str, Any] = {
            "classes_": classes,
            "vectorizer_": vectorizer,
            "_string_tokens": strings,
            "n_features_in_": n_features,
            "task_": task,
        }
        with self._workers() as engine:
            risk = data.risk(weight, self.rescaling, engine)
            result = self._minimize(
                weights.risk(risk),
                self._solver(weights),
                start=None if w0 is None else Start(w0, None if kept is None else kept.sets),
                fitted=lambda w: fitted | score_parts(task, weights.whole(w).copy(), mapped),
                data={"X": X, "y": y},
                keeping=keeping,
            )
        fitted |= score_parts(task, weights.whole(result.w), mapped)
        for name, value in fitted.items():
            setattr(self, name, value)
        forget_kernel(self)
        if mapped is not None:
            mapped.keep(self, result, risk.caps(self.C))
        if self.warm_start:
            self._kept = keep(about, result)
        return self

    def _by_sampled_cuts(
        self, data: TaggedData, weight: Any, classes: list[Any], vectorizer: Any, resume_from: Any
    ) -> Self:
        require_alone(self, None, resume_from)
        X, Y = data.labeled()
        task = copy.copy(data.task)
        task.n_features = None  # as many as there are rows
        found = fit_drawn(self, task, X, Y, data.rows, np.cumsum(data.counts), weight)
        self.classes_, self.vectorizer_ = classes, vectorizer
        self.n_features_in_ = data.rows.shape[1]
        self.task_, self.weights_ = cast(Chain, found.task), found.w
        features = found.features
        self.expansion_ = label_functions(self.task_, found.w, features.kernel, features.rows)
        return self

    def _about(self, data: TaggedData) -> str | None:
        """All that working sets depend on."""
        return fingerprint(data, self.rescaling, [getattr(self, n, None) for n in PARAMETERS])

    def _solver(self, weights: Weighing | None = None) -> Any:
        if self.solver != "auto":
            return self.solver
        spread = weights is not None and weights.map is not None and not weights.centre_only
        return CuttingPlane() if spread else AutoStructured()

    def _check_options(self, flat: list[Hashable], counts: seq.Lengths) -> None:
        check_kernel(self)
        if self.order not in (1, 2):
            raise ValueError(f"order={self.order!r}: use 1 or 2.")
        if self.partial not in (None, "complete"):
            raise ValueError(f"partial={self.partial!r}: use None or 'complete'.")
        place = seq.first_unlabeled(flat, counts)
        if place is not None and self.partial is None:
            raise ValueError(
                f"sequence {place[0]} has no label (None) at token {place[1]}. Give a label with a "
                "token_weight of 0, which then costs nothing, or let a first model complete the missing "
                "ones: partial='complete'."
            )

    def _first_model(self, data: TaggedData, weight: Array | None) -> Array:
        """Weights from the sequences that are fully labelled, under the same limits."""
        whole = data.fully_labeled()
        if not data.counts[whole].any():
            raise ValueError(
                "partial='complete' needs sequences that are fully labelled, and there is none. Supply "
                "values for the missing labels, with a token_weight of 0."
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
            error.add_note("This was the first model, which completes missing labels: no fit yet.")
            raise
