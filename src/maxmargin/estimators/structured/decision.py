"""Predictions of fitted taggers: labels, k best labelings, max-marginals, and the parts of the weights."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Self, overload

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from maxmargin.core.checks import one_of
from maxmargin.core.vectors import Array, IntArray
from maxmargin.data.tokens.name_columns import TokenRows
from maxmargin.estimators.named_weights import NamedWeights, feature_names
from maxmargin.estimators.structured import sequences as seq
from maxmargin.estimators.structured.confidence import calibration_table, margins_of
from maxmargin.estimators.structured.explanation import TaggerExplanation, explain
from maxmargin.estimators.structured.tagger_input import check_vocabulary
from maxmargin.estimators.validation import loaded
from maxmargin.kernels import KernelExpansion
from maxmargin.tasks.chains.chain import Chain
from maxmargin.tasks.chains.examples import NoLabeling, predict_stacked
from maxmargin.tasks.chains.k_best import k_best_stacked, max_marginals_stacked
from maxmargin.tasks.chains.second_order import contract


def states_of(classes: list[Any], task: Chain) -> list[Any]:
    """The labels, or pairs of them."""
    if task.n_labels == len(classes):
        return list(classes)
    return [(before, label) for before in [*classes, None] for label in classes]


class ChainDecision:
    """Predictions from ``weights_``, ``task_`` and ``classes_``."""

    weights_: Array
    task_: Chain
    classes_: list[Any]
    vectorizer_: Any
    n_features_in_: int
    #: whether tokens were plain strings; True if that is unknown
    _string_tokens: bool = True
    expansion_: KernelExpansion | None
    calibration_: Array

    @property
    def states_(self) -> list[Any]:
        """The labels, or pairs of them."""
        check_is_fitted(self, "weights_")
        return states_of(self.classes_, self.task_)

    @property
    def coef_(self) -> Array:
        """Weights of the features, one row per state."""
        return self._part(0).reshape(-1, self.task_.n_labels).T

    @property
    def transitions_(self) -> Array:
        """Scores of neighboring states, [from, to]."""
        return self._part(1).reshape(self.task_.n_labels, -1)

    @property
    def starts_(self) -> Array:
        """Scores of first states."""
        return self._part(2)

    @property
    def stops_(self) -> Array:
        """Scores of last states."""
        return self._part(3)

    def _named_weights(self) -> NamedWeights:
        """The center of ``GaussianPrior.around(tagger)``."""
        check_is_fitted(self, "weights_")
        if self.expansion_ is not None:
            raise ValueError(
                "a tagger with a kernel has no weights of features, which another tagger could begin with or "
                "have as the center of its prior."
            )
        names = None if self.vectorizer_ is None else feature_names(self.vectorizer_)
        return NamedWeights(
            names,
            tuple(self.states_),
            np.array(self.coef_.T),
            np.array(self.transitions_),
            np.array(self.starts_),
            np.array(self.stops_),
        )

    def _part(self, number: int) -> Array:
        check_is_fitted(self, "weights_")
        K = self.task_.n_labels
        ends = self.weights_.size - np.array([K * (K + 2), 2 * K, K])
        return np.split(self.weights_, ends)[number]

    @overload
    def predict(self, X: Any, lengths: None = None) -> list[list[Any]]: ...
    @overload
    def predict(self, X: Any, lengths: npt.ArrayLike) -> list[Any]: ...
    def predict(self, X: Any, lengths: npt.ArrayLike | None = None) -> list[Any]:
        """Predict the best labels of each sequence.

        Parameters
        ----------
        X : as for ``fit``
            Sequences.
        lengths : list of int, optional
            Number of tokens of each sequence, if ``X`` is one matrix.

        Returns
        -------
        list of lists of labels
            One list per sequence. If ``lengths`` was given, one flat list.
        """
        rows, counts = self._stack(X, lengths)
        with in_terms_of_labels():
            checked = self.expansion_ is None  # otherwise rows are scores, which may overflow
            states = predict_stacked(*self._scorer(), rows, counts, checked=checked)
        flat = self._names(states)
        return flat if lengths is not None else seq.by_sequence(flat, counts)

    def predict_k_best(
        self, X: Any, k: int, lengths: Any = None, probabilities: bool = False
    ) -> list[list[tuple[list[Any], float]]]:
        """Predict the k best labelings of each sequence, with their scores or probabilities.

        Parameters
        ----------
        X : as for ``fit``
            Sequences.
        k : int
            Number of labelings. A sequence with fewer allowed labelings gets all of them.
        lengths : list of int, optional
            Number of tokens of each sequence, if ``X`` is one matrix.
        probabilities : bool, default False
            Return probabilities in place of scores. Requires ``loss="logistic"``.

        Returns
        -------
        list of lists of (labels, score)
            For each sequence, best first. The first is the prediction.

        Examples
        --------
        >>> from maxmargin import SequenceTagger
        >>> tagger = SequenceTagger().fit([[["red"], ["sky"]]], [["A", "N"]])
        >>> [labels for labels, score in tagger.predict_k_best([[["red"], ["sky"]]], k=2)[0]]
        [['A', 'N'], ['A', 'A']]
        """
        rows, counts = self._stack(X, lengths)
        with in_terms_of_labels():
            found = k_best_stacked(*self._scorer(), rows, counts, k)
        if probabilities:
            shifts = self._score_shifts(rows, counts)
            return [
                [(self._names(codes), min(1.0, math.exp(score - shift))) for codes, score in best]
                for best, shift in zip(found, shifts.tolist(), strict=True)
            ]
        return [[(self._names(codes), score) for codes, score in best] for best in found]

    @overload
    def max_marginals(self, X: Any, lengths: None = None) -> list[Array]: ...
    @overload
    def max_marginals(self, X: Any, lengths: npt.ArrayLike) -> Array: ...
    def max_marginals(self, X: Any, lengths: npt.ArrayLike | None = None) -> Array | list[Array]:
        """Return the score of the best labeling that has a given label at a given token.

        The largest entry of a row is the score of the prediction. The differences to the other entries show
        how confident the prediction is at that token. Labels that no allowed labeling has at a token get
        -inf.

        Parameters
        ----------
        X : as for ``fit``
            Sequences.
        lengths : list of int, optional
            Number of tokens of each sequence, if ``X`` is one matrix.

        Returns
        -------
        list of arrays of shape (n_tokens, n_labels)
            Columns are in the order of ``classes_``. If ``lengths`` was given, one stacked array.

        Examples
        --------
        >>> from maxmargin import SequenceTagger
        >>> tagger = SequenceTagger().fit([[["red"], ["sky"]]], [["A", "N"]])
        >>> scores = tagger.max_marginals([[["red"], ["sky"]]])[0]
        >>> scores.shape, [tagger.classes_[k] for k in scores.argmax(axis=1)]
        ((2, 2), ['A', 'N'])
        """
        rows, counts = self._stack(X, lengths)
        flat = self._flat_max_marginals(rows, counts)
        return flat if lengths is not None else seq.by_sequence(flat, counts)

    def calibrate(self, X: Any, y: Any, lengths: Any = None, method: str = "isotonic") -> Self:
        """Learn from held-out sequences how likely a predicted label is right.

        Afterwards, :meth:`predict_confidence` returns probabilities. The predictions stay the same. Use
        sequences that were not in the training data: on those, the tagger is right too often. Another call of
        ``fit`` removes the calibration.

        Parameters
        ----------
        X, y : as for ``fit``
            Held-out sequences and their true labels. Tokens with the label None are ignored.
        lengths : list of int, optional
            Number of tokens of each sequence, if ``X`` is one matrix.
        method : {"isotonic", "sigmoid"}, default "isotonic"
            The function from margins to probabilities. "isotonic" is any nondecreasing function; it needs
            about 1,000 tokens. "sigmoid" (Platt scaling) has two parameters, for fewer tokens.

        Returns
        -------
        self
            The estimator itself.

        Examples
        --------
        >>> import numpy as np
        >>> from maxmargin import SequenceTagger
        >>> rng = np.random.default_rng(0)
        >>> y = [rng.integers(0, 2, size=10) for _ in range(80)]
        >>> X = [np.eye(2)[labels] + rng.normal(size=(10, 2)) for labels in y]
        >>> tagger = SequenceTagger(C=0.1).fit(X[:40], y[:40]).calibrate(X[40:], y[40:])
        >>> confidence = tagger.predict_confidence(X[40:])
        >>> right = [np.equal(a, b) for a, b in zip(tagger.predict(X[40:]), y[40:])]
        >>> bool(abs(np.mean(confidence) - np.mean(right)) < 0.01)
        True
        """
        one_of("method", method, ("isotonic", "sigmoid"))
        X, y = self._loaded(X, y)
        rows, counts = self._stack(X, lengths)
        truth = seq.flatten_labels(y, counts, stacked=lengths is not None)
        predicted = [self.classes_[k] for k in self._codes(rows, counts)]
        known = np.array([label is not None for label in truth], dtype=bool)
        if not known.any():
            raise ValueError("there are no labels to calibrate with: all are None, or X is empty.")
        right = np.array([a == b for a, b in zip(predicted, truth, strict=True)], dtype=bool)
        margins = margins_of(self._flat_max_marginals(rows, counts))
        self.calibration_ = calibration_table(margins[known], right[known], method)
        return self

    @overload
    def predict_confidence(self, X: Any, lengths: None = None) -> list[Array]: ...
    @overload
    def predict_confidence(self, X: Any, lengths: npt.ArrayLike) -> Array: ...
    def predict_confidence(
        self, X: Any, lengths: npt.ArrayLike | None = None
    ) -> Array | list[Array]:
        """Predict the probability that each predicted label is right.

        With ``loss="logistic"`` this is the label's marginal probability. After :meth:`calibrate`, which
        other losses require, it is what held-out data say about labels of the same margin.

        Parameters
        ----------
        X : as for ``fit``
            Sequences.
        lengths : list of int, optional
            Number of tokens of each sequence, if ``X`` is one matrix.

        Returns
        -------
        list of arrays of shape (n_tokens,)
            One probability per token, for the label that ``predict`` returns. If ``lengths`` was given, one
            flat array.
        """
        flat = self._confidence(*(stacked := self._stack(X, lengths)))
        return flat if lengths is not None else seq.by_sequence(flat, stacked[1])

    def _confidence(self, rows: Any, counts: seq.Lengths) -> Array:
        """The probability that each predicted label is right, from its margin."""
        if getattr(self, "calibration_", None) is None:
            raise NotFittedError(
                "this tagger is not calibrated: call calibrate(X, y) with held-out sequences first, or fit "
                "with loss='logistic'."
            )
        margins = margins_of(self._flat_max_marginals(rows, counts))
        return np.interp(margins, *self.calibration_)

    def _score_shifts(self, rows: Any, counts: seq.Lengths) -> Array:
        """The logarithms of the sums over all labelings, which make scores log probabilities."""
        raise NotImplementedError

    def _flat_max_marginals(self, rows: Any, counts: seq.Lengths) -> Array:
        """Max-marginals of labels for all tokens."""
        return self._by_label(max_marginals_stacked, rows, counts).max(axis=1)

    def _by_label(self, compute: Callable[..., Array], rows: Any, counts: seq.Lengths) -> Array:
        """What a function returns for each state of each token, as [token, state of the label, label]."""
        with in_terms_of_labels():
            flat = compute(*self._scorer(), rows, counts)
        K = len(self.classes_)
        return flat.reshape(len(flat), self.task_.n_labels // K, K)

    def explain(self, n: int | None = 10, *, feature_names: Any = None) -> TaggerExplanation:
        """Return the largest weights: of the features of each label, and of the transitions.

        Parameters
        ----------
        n : int or None, default 10
            Number of features per label, and number of transitions, by absolute weight. None returns all.
            Weights of zero and forbidden transitions are left out.
        feature_names : list of strings, optional
            Names of the columns, if the sequences were matrices. By default x0, x1, and so on.

        Returns
        -------
        maxmargin.inspection.TaggerExplanation
            Print it, or use its method ``to_frame``.

        Examples
        --------
        >>> from maxmargin import SequenceTagger
        >>> tagger = SequenceTagger(C=1.0, tol=1e-6).fit([[["red"], ["sky"]]], [["A", "N"]])
        >>> tagger.explain(n=2)
        A
          red     +0.200
          sky     -0.200
        N
          sky     +0.200
          red     -0.200
        transitions
          A -> N  +0.200
          N -> A  -0.200
        """
        check_is_fitted(self, "weights_")
        if self.expansion_ is not None:
            raise ValueError(
                "a tagger with a kernel has no weights of features: its scores are functions of a token "
                "(expansion_). transitions_, starts_ and stops_ are its weights of labels."
            )
        if self.vectorizer_ is not None:
            if feature_names is not None:
                raise ValueError(
                    "feature_names is for sequences that were matrices: these features have names."
                )
            hashed = self.vectorizer_.n_hashed or 0
            names = [f"column {j}" for j in range(hashed)] or self.vectorizer_.feature_names_
        elif feature_names is None:
            names = [f"x{j}" for j in range(self.n_features_in_)]
        else:
            names = list(feature_names)
            if len(names) != self.n_features_in_:
                raise ValueError(
                    f"feature_names has {len(names)} names for {self.n_features_in_} features."
                )
        task = self.task_
        allowed = task.allowed, task.allowed_start, task.allowed_stop
        moves = self.transitions_, self.starts_, self.stops_
        return explain(self.coef_, moves, allowed, self.states_, names, n)

    def _loaded(self, X: Any, y: Any) -> tuple[Any, Any]:
        """The sequences and labels of a data set in memory; anything else unchanged."""
        check_is_fitted(self, "weights_")
        check_vocabulary(X, self.vectorizer_)
        X, y, _ = loaded(X, y, None)
        return X, y

    def _stack(self, X: Any, lengths: Any) -> tuple[Any, seq.Lengths]:
        check_is_fitted(self, "weights_")
        X, _ = self._loaded(X, None)
        rows, counts, _, strings = seq.stack(
            X, lengths, self.n_features_in_, self.vectorizer_, fitting=False
        )
        if strings and not self._string_tokens:
            raise ValueError(
                f"the tokens of X are strings (token 0 of sequence 0 is {next(t for x in X for t in x)!r}), "
                "but the tagger was fitted on tokens that are lists of strings or dicts. For one sequence, "
                "pass [X]. A token with a single feature is a list with one string."
            )
        if self.expansion_ is not None:
            # coefficients of similar landmarks are too large for single precision
            rows = self.expansion_(rows.matrix() if isinstance(rows, TokenRows) else rows)
        return rows, counts

    def _scorer(self) -> tuple[Chain, Array]:
        """The chain and its weights for what :meth:`_stack` returns.

        With a kernel, rows are already the scores of labels; the chain then has these scores as features.
        """
        if self.expansion_ is None:
            return self.task_, self.weights_
        K, chain = self.task_.n_labels, copy.copy(self.task_)
        chain.n_features = K
        return chain, np.concatenate([np.eye(K).ravel(), self.weights_[-K * (K + 2) :]])

    def _names(self, states: Any) -> list[Hashable]:
        return [self.classes_[k] for k in contract(states, len(self.classes_))]

    def _codes(self, rows: Any, counts: seq.Lengths) -> IntArray:
        """The numbers of the predicted labels of all tokens."""
        with in_terms_of_labels():
            return contract(predict_stacked(*self._scorer(), rows, counts), len(self.classes_))

    def score(self, X: Any, y: Any = None, lengths: Any = None) -> float:
        """Return the fraction of tokens with the right label.

        Parameters
        ----------
        X, y : as for ``fit``
            Sequences and their true labels. Omit ``y`` for a data set, which contains its own.
        lengths : list of int, optional
            Number of tokens of each sequence, if ``X`` is one matrix.

        Returns
        -------
        float
            Token accuracy.
        """
        X, y = self._loaded(X, y)
        rows, counts = self._stack(X, lengths)
        truth = seq.flatten_labels(y, counts, stacked=lengths is not None)
        if not truth:
            raise ValueError("all sequences are empty: there is nothing to score.")
        predicted = [self.classes_[k] for k in self._codes(rows, counts)]
        return float(np.mean([a == b for a, b in zip(predicted, truth, strict=True)]))


@contextmanager
def in_terms_of_labels() -> Iterator[None]:
    """Name the parameter of the tagger if the transition constraints of the task allow no labeling."""
    try:
        yield
    except NoLabeling as error:
        raise ValueError(
            f"forbidden_transitions allows no labeling of sequence {error.sequence}, which has "
            f"{error.length} tokens: allow more transitions, or leave the sequence out."
        ) from error
